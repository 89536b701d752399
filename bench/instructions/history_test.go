package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/command"
)

// A madeUp is a repository with a file of counts.
type madeUp struct {
	t         *testing.T
	dir, file string
}

func makeUp(t *testing.T) *madeUp {
	t.Helper()
	r := &madeUp{t: t, dir: t.TempDir()}
	r.file = filepath.Join(r.dir, "counts.txt")
	r.git("init", "--quiet", "--initial-branch=main")
	return r
}

func (r *madeUp) git(args ...string) string {
	r.t.Helper()
	command := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"}, args...)...)
	command.Dir = r.dir
	command.Env = append(os.Environ(), "GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
	out, err := command.CombinedOutput()
	require.NoError(r.t, err, "git %v: %s", args, out)
	return strings.TrimSpace(string(out))
}

// commit commits a file of these counts.
func (r *madeUp) commit(subject string, rows ...count) {
	r.t.Helper()
	require.NoError(r.t, of(rows...).write(r.file))
	r.git("add", ".")
	r.git("commit", "--quiet", "--message", subject)
}

// found returns the history in lines: the subject, and each row with its counts before and after.
func (r *madeUp) found(rows ...string) (lines []string) {
	r.t.Helper()
	changes, err := history(r.t.Context(), r.file, rows)
	require.NoError(r.t, err)
	for _, c := range changes {
		require.Equal(r.t, "2026-01-02", c.date)
		require.NotEmpty(r.t, c.commit)
		line := c.subject
		for _, each := range c.rows {
			line += "; " + each.row + " " + number(each.before) + " " + number(each.now)
		}
		lines = append(lines, line)
	}
	return lines
}

func number(f float64) string {
	return strings.TrimSuffix(strings.TrimSpace(strings.Split(of(count{"", f}).text(), "\n")[3]), ".0")
}

func TestHistory_HasEachCommitThatChangesARow(t *testing.T) {
	r := makeUp(t)
	r.commit("begin", count{"a", 100}, count{"c", 1})
	r.commit("noise", count{"a", 101}, count{"c", 2})
	r.commit("slower, and a new row", count{"a", 110}, count{"b", 50})
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "other"), nil, 0o600))
	r.git("add", ".")
	r.git("commit", "--quiet", "--message", "elsewhere")
	r.commit("faster", count{"a", 90}, count{"b", 50.4})
	require.Equal(t, []string{
		"faster; a 110 90",
		"slower, and a new row; a 101 110; b 0 50",
		"begin; a 0 100",
	}, r.found("a", "b"))
}

// A merge of two branches has changed nothing that one of them has. What it counts anew is its own.
func TestHistory_OfAMergeIsWhatNoParentHas(t *testing.T) {
	r := makeUp(t)
	r.commit("begin", count{"a", 100}, count{"b", 100}, count{"c", 100})
	r.git("checkout", "--quiet", "-b", "side")
	r.commit("side", count{"a", 50}, count{"b", 100}, count{"c", 90})
	r.git("checkout", "--quiet", "main")
	r.commit("here", count{"a", 100}, count{"b", 60}, count{"c", 80})
	r.git("merge", "--quiet", "--no-commit", "--strategy=ours", "side")
	r.commit("merge", count{"a", 50}, count{"b", 60}, count{"c", 70})
	got := r.found("a", "b", "c")
	require.Equal(t, "merge; c 80 70", got[0])
	require.ElementsMatch(t, []string{"here; b 100 60; c 100 80", "side; a 100 50; c 100 90"}, got[1:3])
}

func TestRun_WritesTheHistory(t *testing.T) {
	r := makeUp(t)
	r.commit("begin", count{"counter, Take", 200})
	r.commit("a | b", count{"counter, Take", 100})
	page := filepath.Join(t.TempDir(), "history.md")
	status, _, stderr := invoke(t.Context(), "-file", r.file, "-history", page)
	require.Equal(t, command.OK, status, stderr)
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "\n| counter, Take | 200 | 100 | -50.0 % |\n")
	require.Contains(t, string(text), "| a \\| b | counter, Take | 200 | 100 | -50.0 % |\n")
	require.Contains(t, string(text), "| begin | first counts: 1 | | | |\n")

	clone := filepath.Join(t.TempDir(), "clone")
	r.git("clone", "--quiet", "--depth=1", "--no-local", r.dir, clone)
	status, _, stderr = invoke(t.Context(), "-file", filepath.Join(clone, "counts.txt"), "-history", page)
	require.Equal(t, command.Failed, status)
	require.Contains(t, stderr, "this clone is shallow, so it has a part of the history only: git fetch --unshallow")
	after, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, string(text), string(after), "the page was changed")
}

// A file that no commit has is not taken for one that has never changed.
func TestHistory_OfAFileThatGitDoesNotKnow(t *testing.T) {
	r := makeUp(t)
	r.commit("begin", count{"counter, Take", 200})
	other := filepath.Join(r.dir, "other.txt")
	require.NoError(t, of(count{"counter, Take", 100}).write(other))
	page := filepath.Join(t.TempDir(), "history.md")
	status, _, stderr := invoke(t.Context(), "-file", other, "-history", page)
	require.Equal(t, command.Failed, status)
	require.Contains(t, stderr, "no commit has other.txt")
	require.NoFileExists(t, page)
}

func TestHistory_FollowsRowsThatThereAre(t *testing.T) {
	names := map[string]bool{}
	for _, r := range rows() {
		names[r.name] = true
	}
	for _, row := range inHistory {
		require.True(t, names[row], row)
	}
}
