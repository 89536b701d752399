package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func write(t *testing.T, root, name, text string) {
	t.Helper()
	file := filepath.Join(root, name)
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := output(t.Context(), dir, nil, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
	require.NoError(t, err)
	return out
}

// fixture returns a repository of four modules: the root, leaf, which requires twig, and one that
// is not published. v0.1.0 of it is tagged.
func fixture(t *testing.T) *repository {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"CHANGELOG.md":  "# Changes\n\n## v0.2.0\n\n- More.\n\n## v0.1.0\n\n- All.\n",
		"LICENSE":       "MIT\n",
		"leaf/LICENSE":  "MIT\n",
		"twig/LICENSE":  "MIT\n",
		"go.work":       "go 1.25.0\n\nuse (\n\t.\n\t./leaf\n\t./tests\n\t./twig\n)\n\nreplace (\n\t" + rootPath + " v0.1.0 => ./\n\t" + rootPath + "/twig v0.1.0 => ./twig\n)\n",
		"go.mod":        "module " + rootPath + "\n\ngo 1.25.0\n",
		"twig/go.mod":   "module " + rootPath + "/twig\n\ngo 1.25.0\n\nrequire " + rootPath + " v0.1.0\n",
		"leaf/go.mod":   "module " + rootPath + "/leaf\n\ngo 1.25.0\n\nrequire (\n\t" + rootPath + " v0.1.0\n\t" + rootPath + "/twig v0.1.0 // indirect\n)\n",
		"tests/go.mod":  "// Not published: tests.\nmodule " + rootPath + "/tests\n\ngo 1.25.0\n\nrequire " + rootPath + " v0.1.0\n",
		"sash.go":       "// Package sash is one.\npackage sash\n",
		"leaf/leaf.go":  "// Package leaf is one.\npackage leaf\n",
		"twig/twig.go":  "// Package twig is one.\npackage twig\n",
		"tests/test.go": "package tests\n",
	} {
		write(t, root, name, text)
	}
	git(t, root, "init", "--quiet")
	git(t, root, "add", ".")
	git(t, root, "commit", "--quiet", "--message", "all")
	git(t, root, "tag", "v0.1.0")
	r, err := open(t.Context(), root)
	require.NoError(t, err)
	return r
}

func TestRelease_WritesRequirementsAndPrintsTagsInOrder(t *testing.T) {
	r := fixture(t)
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), filepath.Join(r.root, "leaf"), []string{"-version", "v0.2.0"}, &stdout, &stderr), stderr.String())
	assert.Equal(t, `wrote go.work
wrote leaf/go.mod
wrote tests/go.mod
wrote twig/go.mod
Commit what was written, if anything. Tag that commit, and push the tags in this order:
	git tag v0.2.0 && git push origin v0.2.0
	git tag twig/v0.2.0 && git push origin twig/v0.2.0
	git tag leaf/v0.2.0 && git push origin leaf/v0.2.0
`, stdout.String())
	diff := git(t, r.root, "diff", "--unified=0")
	assert.Equal(t, 6, strings.Count(diff, "\n+\t")+strings.Count(diff, "\n+require "), diff)
	assert.NotContains(t, git(t, r.root, "grep", "-h", "v0", "--", "*.mod", "go.work"), "v0.1.0")
	assert.Contains(t, diff, rootPath+"/twig v0.2.0 // indirect")
	require.Equal(t, "v0.1.0\n", git(t, r.root, "tag"))

	again, err := open(t.Context(), r.root)
	require.NoError(t, err)
	git(t, r.root, "commit", "--quiet", "--all", "--message", "v0.2.0")
	require.NoError(t, again.check(t.Context(), "v0.2.0"))
}

func TestRelease_RefusesWhatIsWrongAndChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		version string
		damage  map[string]string // files with other text; "" removes one
		commit  bool
		says    []string
	}{
		"not a version":      {"0.2.0", nil, false, []string{`"0.2.0" is not a version such as v0.1.0`}},
		"a short version":    {"v0.2", nil, false, []string{`"v0.2" is not a version`}},
		"a released version": {"v0.1.0", nil, false, []string{"v0.1.0 does not come after v0.1.0, which is released"}},
		"another major":      {"v2.0.0", nil, false, []string{"the path of a module of that version ends in /v2"}},
		"no section":         {"v0.3.0", nil, false, []string{`CHANGELOG.md has no section "## v0.3.0"`}},
		"an empty section":   {"v0.2.0", map[string]string{"CHANGELOG.md": "## v0.2.0\n\n## v0.1.0\n"}, true, []string{"or an empty one"}},
		"a dirty tree":       {"v0.2.0", map[string]string{"new.go": "package sash\n"}, false, []string{"the tree is not clean:", "?? new.go"}},
		"a missing module":   {"v0.2.0", map[string]string{"twig/go.mod": ""}, true, []string{"go.work uses twig, where git has no module", "leaf/go.mod: " + rootPath + "/twig is required, and there is no such module"}},
		"an unused module":   {"v0.2.0", map[string]string{"new/go.mod": "// Not published: new.\nmodule " + rootPath + "/new\n\ngo 1.25.0\n"}, true, []string{"go.work does not use new"}},
		"a wrong path":       {"v0.2.0", map[string]string{"tests/go.mod": "// Not published: tests.\nmodule example.com/tests\n\ngo 1.25.0\n"}, true, []string{"the module there is " + rootPath + "/tests, not example.com/tests"}},
		"a replace":          {"v0.2.0", map[string]string{"twig/go.mod": "module " + rootPath + "/twig\n\ngo 1.25.0\n\nreplace " + rootPath + " => ../\n"}, true, []string{"twig/go.mod: a replace, of " + rootPath + ", has no effect for users"}},
		"two versions":       {"v0.2.0", map[string]string{"twig/go.mod": "module " + rootPath + "/twig\n\ngo 1.25.0\n\nrequire " + rootPath + " v0.0.1\n"}, true, []string{"twig/go.mod: " + rootPath + " v0.0.1 is required, and v0.1.0 elsewhere"}},
		"another Go":         {"v0.2.0", map[string]string{"twig/go.mod": "module " + rootPath + "/twig\n\ngo 1.24.0\n"}, true, []string{"twig/go.mod: go 1.24.0, but go 1.25.0 in the root"}},
		"tests in public":    {"v0.2.0", map[string]string{"twig/go.mod": "module " + rootPath + "/twig\n\ngo 1.25.0\n\nrequire " + rootPath + "/tests v0.1.0\n"}, true, []string{rootPath + "/tests is required, and it is not published"}},
		"no tie":             {"v0.2.0", map[string]string{"go.work": "go 1.25.0\n\nuse (\n\t.\n\t./leaf\n\t./tests\n\t./twig\n)\n"}, true, []string{"v0.1.0 is required, and go.work does not replace it"}},
		"no license":         {"v0.2.0", map[string]string{"twig/LICENSE": ""}, true, []string{rootPath + "/twig: LICENSE is missing"}},
		"no doc comment":     {"v0.2.0", map[string]string{"twig/twig.go": "package twig\n"}, true, []string{rootPath + "/twig: the package has no doc comment"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := fixture(t)
			for file, text := range c.damage {
				if text == "" {
					require.NoError(t, os.Remove(filepath.Join(r.root, file)))
				} else {
					write(t, r.root, file, text)
				}
			}
			if c.commit {
				git(t, r.root, "add", ".")
				git(t, r.root, "commit", "--quiet", "--message", "damage")
			}
			before := git(t, r.root, "status", "--porcelain")
			var stdout, stderr bytes.Buffer
			require.Equal(t, 1, run(t.Context(), r.root, []string{"-version", c.version}, &stdout, &stderr))
			for _, said := range c.says {
				assert.Contains(t, stderr.String(), said)
			}
			assert.Empty(t, stdout.String())
			assert.Equal(t, before, git(t, r.root, "status", "--porcelain"))
		})
	}
}

func TestRelease_RefusesWrongArguments(t *testing.T) {
	for args, says := range map[string]string{
		"":                       "either -version or -tidy is needed",
		"-tidy -version v0.1.0":  "either -version or -tidy is needed",
		"-version v0.1.0 v0.2.0": `unexpected argument "v0.2.0"`,
		"-versoin v0.1.0":        "flag provided but not defined: -versoin",
	} {
		var stdout, stderr bytes.Buffer
		assert.Equal(t, 2, run(t.Context(), ".", strings.Fields(args), &stdout, &stderr), args)
		assert.Contains(t, stderr.String(), says)
	}
}
