package main

import (
	"archive/zip"
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"

	"github.com/seed-30da4c49/sash/internal/race"
)

var (
	revision = flag.String("rev", "HEAD", "the commit to rehearse the release of")
	asIs     = flag.Bool("as-is", false, "publish the commit as it is, whatever a release would refuse or write")
)

// skipIfSlow skips a test that runs other programs for minutes: under -short, and under the race
// detector, which finds nothing in other programs.
func skipIfSlow(t *testing.T, why string) {
	t.Helper()
	if testing.Short() || race.Enabled {
		t.Skip(why)
	}
}

// All published modules of a commit are released to a proxy of files, as what git has, at the
// version of the newest section of the change log. Then each is used as its README says, in a
// module that knows nothing of sash.
func TestRehearsal_EachModuleIsInstalledAsItsREADMESays(t *testing.T) {
	skipIfSlow(t, "it downloads the requirements of every module")
	readLog(t)
	r := clone(t, *revision)
	version := newest(t, r.root)
	if !*asIs {
		r = released(t, r, version)
	}
	users := environment(t, publish(t, r, version))
	failed := 0
	order := r.modules
	if !*asIs {
		order = r.inOrder()
	}
	for _, m := range order {
		t.Run(m.path(), func(t *testing.T) {
			defer func() {
				if t.Failed() {
					failed++
				}
			}()
			install(t, r, m, version, users)
		})
	}
	t.Logf("%d of %d modules fail", failed, len(order))
}

// readLog reads the file to which git appends at each commit. So go test does not reuse the result
// of an older commit.
func readLog(t *testing.T) {
	t.Helper()
	path, err := output(t.Context(), ".", nil, "git", "rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD")
	require.NoError(t, err)
	_, _ = os.ReadFile(strings.TrimSpace(path)) // it need not exist
}

// clone returns a clone of this repository at a commit.
func clone(t *testing.T, revision string) *repository {
	t.Helper()
	ctx := t.Context()
	here, err := output(ctx, ".", nil, "git", "rev-parse", "--show-toplevel", revision)
	require.NoError(t, err)
	top, commit, _ := strings.Cut(strings.TrimSpace(here), "\n")
	dir := filepath.Join(t.TempDir(), "sash")
	for _, args := range [][]string{
		{"clone", "--quiet", "--no-checkout", top, dir},
		{"-C", dir, "checkout", "--quiet", commit},
	} {
		_, err := output(ctx, top, nil, "git", args...)
		require.NoError(t, err)
	}
	r, err := open(ctx, dir)
	require.NoError(t, err)
	return r
}

// newest returns the version of the newest section of the change log, or v0.1.0.
func newest(t *testing.T, root string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	require.NoError(t, err)
	if m := regexp.MustCompile(`(?m)^## (v\d+\.\d+\.\d+)\b`).FindSubmatch(text); m != nil {
		return string(m[1])
	}
	return "v0.1.0"
}

// released runs the release command in a clone and commits what it writes.
func released(t *testing.T, r *repository, version string) *repository {
	t.Helper()
	_, err := output(t.Context(), r.root, nil, "git", "tag", "--delete", version)
	_ = err // the commit of a release is rehearsed, too: there is a tag, or none
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), r.root, []string{"-version", version}, &stdout, &stderr), stderr.String())
	_, err = output(t.Context(), r.root, nil, "git", "-c", "user.name=release", "-c", "user.email=release@example.com",
		"commit", "--quiet", "--all", "--allow-empty", "--message", version)
	require.NoError(t, err)
	r, err = open(t.Context(), r.root)
	require.NoError(t, err)
	return r
}

// publish returns the directory of a proxy that has each published module of r at version.
func publish(t *testing.T, r *repository, version string) (proxy string) {
	t.Helper()
	proxy = t.TempDir()
	for _, m := range r.modules {
		if !m.published {
			continue
		}
		at := filepath.Join(proxy, filepath.FromSlash(m.path()), "@v")
		require.NoError(t, os.MkdirAll(at, 0o700))
		mod, err := os.ReadFile(filepath.Join(r.root, m.dir, "go.mod"))
		require.NoError(t, err)
		for name, text := range map[string]string{
			"list":            version + "\n",
			version + ".info": fmt.Sprintf(`{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version),
			version + ".mod":  string(mod),
		} {
			require.NoError(t, os.WriteFile(filepath.Join(at, name), []byte(text), 0o600))
		}
		f, err := os.Create(filepath.Join(at, version+".zip"))
		require.NoError(t, err)
		dir := m.dir
		if dir == "." {
			dir = ""
		}
		require.NoError(t, modzip.CreateFromVCS(f, module.Version{Path: m.path(), Version: version}, r.root, "HEAD", dir))
		require.NoError(t, f.Close())
	}
	return proxy
}

// environment returns the variables of a user who finds the modules of sash in proxy. All others
// come from the cache, or from where they came to it.
func environment(t *testing.T, proxy string) []string {
	t.Helper()
	out, err := output(t.Context(), ".", nil, "go", "env", "GOMODCACHE", "GOPROXY")
	require.NoError(t, err)
	cache, upstream, _ := strings.Cut(strings.TrimSpace(out), "\n")
	return []string{
		"GOWORK=off", "GOFLAGS=-modcacherw", "GOMODCACHE=" + t.TempDir(), "GOBIN=" + t.TempDir(),
		"GONOSUMDB=" + rootPath, "GOPRIVATE=", "GOOS=", "GOARCH=",
		fmt.Sprintf("GOPROXY=file://%s,file://%s/cache/download,%s", filepath.ToSlash(proxy), filepath.ToSlash(cache), upstream),
	}
}

// install runs the command by which the README of m installs it, and builds the README's first
// block of Go with it.
func install(t *testing.T, r *repository, m *goModule, version string, users []string) {
	t.Helper()
	if strings.Contains(m.dir, "internal/") {
		return // users get it with the modules that require it
	}
	dir := t.TempDir()
	command, program := fromREADME(t, r, m)
	goes(t, dir, users, "mod", "init", "example.com/user")
	goes(t, dir, users, strings.Fields(command)[1:]...)
	if strings.HasPrefix(command, "go install ") {
		runs(t, users, filepath.Base(m.dir))
		goes(t, dir, users, "get", "-tool", m.path()+"@"+version)
	} else {
		require.Contains(t, program, "package main\n", "the README's first block of Go is no program")
		file := filepath.Join(dir, "main.go")
		require.NoError(t, os.WriteFile(file, []byte(program), 0o600))
		goes(t, dir, users, "mod", "tidy")
		goes(t, dir, users, "build", "-o", os.DevNull)
		goes(t, dir, users, "vet")
		// Programs may use more than the module, so the graph is counted without them.
		require.NoError(t, os.WriteFile(file, []byte("package main\n\nimport _ \""+m.path()+"\"\n\nfunc main() {}\n"), 0o600))
	}
	goes(t, dir, users, "mod", "tidy")
	if !*asIs {
		checkTable(t, r, m, strings.Count(goes(t, dir, users, "list", "-m", "all"), "\n")-1)
	}
}

// fromREADME returns the command that installs m, and the first block of Go.
func fromREADME(t *testing.T, r *repository, m *goModule) (command, program string) {
	t.Helper()
	line := regexp.MustCompile(`(?m)^go (get ` + regexp.QuoteMeta(m.path()) + `|install ` + regexp.QuoteMeta(m.path()) + `@latest)$`)
	text, err := os.ReadFile(filepath.Join(r.root, m.dir, "README.md"))
	if err != nil || *asIs && !line.Match(text) {
		require.True(t, *asIs, "%s has no README", m.path())
		text, err = os.ReadFile(filepath.Join(r.root, "README.md"))
	}
	require.NoError(t, err)
	command = line.FindString(strings.ReplaceAll(string(text), "\r", ""))
	require.NotEmpty(t, command, "no README says how to install %s", m.path())
	_, after, _ := strings.Cut(string(text), "```go\n")
	program, _, _ = strings.Cut(after, "\n```\n")
	return command, program + "\n"
}

// runs runs the command that a user has installed.
func runs(t *testing.T, users []string, name string) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "access.log")
	line := `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 2326` + "\n"
	require.NoError(t, os.WriteFile(log, []byte(line+line), 0o600))
	for _, variable := range users {
		if bin, found := strings.CutPrefix(variable, "GOBIN="); found {
			out, err := exec.CommandContext(t.Context(), filepath.Join(bin, name), "replay", "-limit", "1/m", log).CombinedOutput()
			require.NoError(t, err, string(out))
			assert.Contains(t, string(out), "2 events by 1 client")
		}
	}
}

// checkTable checks the line of the table in CONTRIBUTING.md with the direct requirements of m, and
// the number of modules in the graph of a user who imports it.
func checkTable(t *testing.T, r *repository, m *goModule, modules int) {
	t.Helper()
	var direct []string
	for _, required := range m.file.Require {
		if path := required.Mod.Path; !required.Indirect && path != "github.com/stretchr/testify" {
			direct = append(direct, strings.TrimPrefix(strings.TrimPrefix(path, rootPath+"/"), "github.com/"))
		}
	}
	for i, path := range direct {
		if path == "seed-30da4c49/sash" {
			direct[i] = "sash"
		}
	}
	text, err := os.ReadFile(filepath.Join(r.root, "CONTRIBUTING.md"))
	require.NoError(t, err)
	name := strings.TrimPrefix(strings.TrimPrefix(m.path(), rootPath), "/")
	if name == "" {
		name = "sash"
	}
	line := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta("`"+name+"` | "+strings.Join(direct, ", ")) + ` \| (\d+) \|$`)
	want := fmt.Sprintf("| `%s` | %s | %d |", name, strings.Join(direct, ", "), modules)
	found := line.FindSubmatch(text)
	if assert.NotNil(t, found, "CONTRIBUTING.md needs the line\n%s", want) {
		assert.Equal(t, fmt.Sprint(modules), string(found[1]), "CONTRIBUTING.md needs the line\n%s", want)
	}
}

func goes(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	out, err := output(t.Context(), dir, env, "go", args...)
	require.NoError(t, err)
	return out
}

// What a published module contains is what git has: no file of a nested module, and no other.
func TestPublish_TakesWhatGitHas(t *testing.T) {
	r := fixture(t)
	write(t, r.root, "leaf/untracked.go", "package leaf\n")
	proxy := publish(t, r, "v0.2.0")
	files := func(path string) (names []string) {
		z, err := zip.OpenReader(filepath.Join(proxy, filepath.FromSlash(path), "@v", "v0.2.0.zip"))
		require.NoError(t, err)
		defer z.Close()
		for _, f := range z.File {
			names = append(names, strings.TrimPrefix(f.Name, path+"@v0.2.0/"))
		}
		return names
	}
	assert.ElementsMatch(t, []string{"CHANGELOG.md", "LICENSE", "go.mod", "go.work", "sash.go"}, files(rootPath))
	assert.ElementsMatch(t, []string{"LICENSE", "go.mod", "leaf.go"}, files(rootPath+"/leaf"))
}

// Every go.mod and go.sum is tidy, and every package passes go vet without the workspace.
func TestModules_StandAlone(t *testing.T) {
	skipIfSlow(t, "it vets every module twice")
	ctx := context.Background()
	r, err := open(ctx, ".")
	require.NoError(t, err)
	for _, m := range r.modules {
		t.Run(m.path(), func(t *testing.T) {
			require.NoError(t, r.tidied(ctx, m, func(name string, text []byte) error {
				have, err := os.ReadFile(name)
				if os.IsNotExist(err) && len(text) == 0 {
					return nil
				}
				assert.Equal(t, string(text), string(have), "%s is not tidy: go run ./internal/release -tidy", name)
				return err
			}))
			name, err := r.alone(m, t.TempDir())
			require.NoError(t, err)
			_, err = output(ctx, filepath.Join(r.root, m.dir), []string{"GOWORK=off"}, "go", "vet", "-modfile="+name, "./...")
			require.NoError(t, err)
		})
	}
}
