package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/bench/internal/report"
	"github.com/seed-30da4c49/sash/internal/command"
)

// A repository is one with two documents, and a publication that takes a figure from a command.
type repository struct {
	*publication
	t      *testing.T
	figure string
}

const page, readme = "docs/performance.md", "README.md"

func newRepository(t *testing.T) *repository {
	r := &repository{t: t, figure: "29 ns"}
	r.publication = &publication{root: t.TempDir(), out: t.TempDir(), here: report.Environment{CPU: "a processor", Cores: 2, Commit: "stale"}}
	r.all = []measurement{{
		gives: []string{"call", "calls"}, commands: []string{"go version"}, quick: []string{"go version"},
		read: func([]output) (map[string]string, error) {
			return map[string]string{"call": r.figure, "calls": "| a |\n|---|\n| " + r.figure + " |"}, nil
		},
	}}
	r.file("go.work", "go 1.25\n")
	r.file(readme, "A call takes <!-- figures call -->?<!-- /figures -->.\n")
	r.file(page, "<!-- figures environment -->\n<!-- /figures -->\n<!-- figures calls -->\n<!-- /figures -->\n<!-- figures call -->?<!-- /figures -->\n")
	r.git("init", "-q")
	r.commit()
	return r
}

func (r *repository) file(name, text string) {
	name = filepath.Join(r.root, name)
	require.NoError(r.t, os.MkdirAll(filepath.Dir(name), 0o755))
	require.NoError(r.t, os.WriteFile(name, []byte(text), 0o644))
}

func (r *repository) text(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(r.t, err)
	return string(text)
}

func (r *repository) git(args ...string) string {
	c := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"}, args...)...)
	c.Dir = r.root
	out, err := c.CombinedOutput()
	require.NoError(r.t, err, string(out))
	return string(out)
}

func (r *repository) commit() {
	r.git("add", "-A")
	r.git("commit", "-q", "-m", "x")
}

// fails runs the publication, and checks its error and that it has written nothing.
func (r *repository) fails(ctx context.Context, with string) {
	r.t.Helper()
	before := r.git("status", "--porcelain") + r.text(r.root, page) + r.text(r.root, readme)
	require.ErrorContains(r.t, r.run(ctx, io.Discard), with)
	require.Equal(r.t, before, r.git("status", "--porcelain")+r.text(r.root, page)+r.text(r.root, readme))
}

func TestPublish_FillsTheDocuments(t *testing.T) {
	r := newRepository(t)
	require.NoError(t, r.run(t.Context(), io.Discard))
	require.Equal(t, "A call takes <!-- figures call -->29 ns<!-- /figures -->.\n", r.text(r.root, readme))
	require.Contains(t, r.text(r.root, page), "\n\n| a |\n|---|\n| 29 ns |\n\n`go version`\n\n")
	require.Contains(t, r.text(r.root, page), "a processor, 2 cores")
	require.NotContains(t, r.text(r.root, page), "stale")

	r.commit()
	r.figure = "30 ns"
	require.NoError(t, r.run(t.Context(), io.Discard))
	require.Contains(t, r.git("diff", "--stat"), "2 files changed, 4 insertions(+), 4 deletions(-)") // 3 figures and the commit
}

func TestPublish_QuickWritesNoDocumentOfTheRepository(t *testing.T) {
	r := newRepository(t)
	r.quick = true
	r.file("other", "a change")
	require.NoError(t, r.run(t.Context(), io.Discard))
	require.Equal(t, "?? other\n", r.git("status", "--porcelain"))
	require.Contains(t, r.text(r.out, readme), "29 ns")
}

func TestPublish_MeasuresNothingThatItCannotPublish(t *testing.T) {
	for with, fault := range map[string]func(*repository){
		"the working tree has changes":          func(r *repository) { r.file("other", "a change") },
		"run it in the root":                    func(r *repository) { r.git("rm", "-q", "go.work"); r.commit() },
		"nothing measures figures more":         func(r *repository) { r.file("more.md", "<!-- figures more --><!-- /figures -->"); r.commit() },
		"more.md: line 1: figures call do not":  func(r *repository) { r.file("more.md", "<!-- figures call -->"); r.commit() },
		"no document has figures extra":         func(r *repository) { r.all[0].gives = append(r.all[0].gives, "extra") },
		"results would change the working tree": func(r *repository) { r.out = filepath.Join(r.root, "results") },
		"needs no-such-server or no-such-other": func(r *repository) { r.all[0].needs = []string{"no-such-server", "no-such-other"} },
	} {
		t.Run(with, func(t *testing.T) {
			r := newRepository(t)
			r.all[0].read = func([]output) (map[string]string, error) { t.Error("measured"); return nil, nil }
			fault(r)
			r.fails(t.Context(), with)
		})
	}
}

func TestPublish_WritesNothingIfAMeasurementFails(t *testing.T) {
	for with, fault := range map[string]func(*repository, context.CancelFunc){
		"go no-such-command: exit status 2": func(r *repository, _ context.CancelFunc) { r.all[1].commands = []string{"go no-such-command"} },
		"a fault": func(r *repository, _ context.CancelFunc) {
			r.all[1].read = func([]output) (map[string]string, error) { return nil, errors.New("a fault") }
		},
		"gives no figures second": func(r *repository, _ context.CancelFunc) {
			r.all[1].read = func([]output) (map[string]string, error) { return nil, nil }
		},
		"context canceled": func(r *repository, interrupt context.CancelFunc) {
			read := r.all[0].read
			r.all[0].read = func(all []output) (map[string]string, error) { interrupt(); return read(all) }
		},
		"a measurement is left out": func(r *repository, _ context.CancelFunc) {
			r.all[1].commands = []string{"git rev-parse --sq-quote '" + notMeasured + " with 10M keys'"}
		},
		"more than a line":          func(r *repository, _ context.CancelFunc) { r.figure = "1\n2" },
		"figures call lack a value": func(r *repository, _ context.CancelFunc) { r.figure = report.None },
		"figures calls lack a value": func(r *repository, _ context.CancelFunc) {
			r.all[0].read = func([]output) (map[string]string, error) {
				return map[string]string{"call": "1 ns", "calls": "| a |\n|---|\n| NaN |"}, nil
			}
		},
	} {
		t.Run(with, func(t *testing.T) {
			r := newRepository(t)
			r.all = append(r.all, measurement{gives: []string{"second"}, commands: []string{"go version"},
				read: func([]output) (map[string]string, error) { return map[string]string{"second": "x"}, nil }})
			r.file("a.md", "<!-- figures second -->?<!-- /figures -->")
			r.commit()
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			fault(r, interrupt)
			r.fails(ctx, with)
			require.Contains(t, r.text(r.root, "a.md"), "?")
		})
	}
}

// A document that cannot be replaced leaves no file behind.
func TestPublish_LeavesNothingUnfinished(t *testing.T) {
	r := newRepository(t)
	r.all[0].draws = map[string]string{"picture.svg": "docs"} // a directory
	r.all[0].read = func(all []output) (map[string]string, error) {
		require.NoError(t, os.WriteFile(filepath.Join(all[0].dir, "picture.svg"), nil, 0o600))
		return map[string]string{"call": "1 ns", "calls": "1 ns"}, nil
	}
	require.ErrorContains(t, r.run(t.Context(), io.Discard), "docs")
	require.NotContains(t, r.git("status", "--porcelain", "--untracked-files=all"), "??")
}

func TestPublish_WritesNothingIfTheTreeHasChanged(t *testing.T) {
	r := newRepository(t)
	read := r.all[0].read
	r.all[0].read = func(all []output) (map[string]string, error) { r.file("other", "a change"); return read(all) }
	require.ErrorContains(t, r.run(t.Context(), io.Discard), "has changed while it was measured")
	require.Equal(t, "?? other\n", r.git("status", "--porcelain"))
}

// All blocks of the documents of this repository are measured, and all that is measured is in a document.
func TestMeasurements_AreTheBlocksOfTheDocuments(t *testing.T) {
	if out, err := exec.Command("git", "rev-parse", "--git-dir").CombinedOutput(); err != nil {
		t.Skip(string(out))
	}
	p := &publication{root: "..", all: measurements()}
	for i := range p.all {
		p.all[i].needs = nil
		require.Len(t, p.all[i].quick, len(p.all[i].commands))
	}
	documents, err := p.documents(t.Context())
	require.NoError(t, err)
	require.NoError(t, p.check(documents))
}

func TestRun_PublishTakesNoSettings(t *testing.T) {
	got := invoke(t.Context(), "-publish", "-rounds", "3", "-keys", "1")
	require.Equal(t, command.Usage, got.status)
	require.Contains(t, got.stderr, "takes no -rounds")
	require.Contains(t, got.stderr, "takes no -keys")
}

func TestWords(t *testing.T) {
	require.Equal(t, []string{"go", "test", "-run", "^$", "-bench", "A b", "."}, words("go test -run '^$' -bench 'A b' ."))
}

func TestReaders_FindFiguresInTheOutputOfTests(t *testing.T) {
	benchmark := output{stdout: "goos: linux\nBenchmarkMiddleware/answer=admitted \t 5\t 139.6 bare-ns\t 3489 over-httplimit+X-ns\t 2211 over-httplimit-ns\nPASS\n"}
	values, err := readMiddleware([]output{benchmark})
	require.NoError(t, err)
	require.Contains(t, values["middleware"], "| takes longer by | admitted |\n|---|---:|\n| httplimit | 2.2 µs |\n| with the older headers too | 3.5 µs |")
	require.Contains(t, values["middleware"], "| httprate, with the older headers | — |")
	_, err = readMiddleware([]output{{stdout: "PASS"}})
	require.ErrorContains(t, err, "no benchmark")

	lengths := output{stdout: "    size_test.go:165: parts of a byte and a name of 8 bytes: 59.0 bytes more\n" +
		"    size_test.go:165: parts of a byte and a name of 12 bytes: 55.3 bytes more\n    size_test.go:165: a log with 5 units and a name of 8 bytes: 160.6 bytes more\n"}
	values, err = readLengths([]output{lengths})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"key-bytes": "55 to 59 bytes", "lengths": "| length of the name | 8 | 12 |\n|---|---:|---:|\n| parts of a byte | 59 | 55 |\n| a log with 5 units | 161 |"}, values)
}
