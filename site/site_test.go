package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A test of the whole site builds it from the documents as they are.
func TestSite_EveryLinkLeadsSomewhere(t *testing.T) {
	out := t.TempDir()
	require.NoError(t, build("..", out))
	require.NoError(t, check(out))

	documents, err := fs.Glob(os.DirFS(".."), "docs/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, documents)
	for _, document := range append(documents, "README.md", "SECURITY.md", "sashredis/README.md") {
		file := strings.NewReplacer("README.md", "index.html", ".md", ".html").Replace(document)
		text, err := os.ReadFile(filepath.Join(out, file))
		require.NoError(t, err)
		assert.Greater(t, strings.Count(string(text), `aria-current="page"`), 1, file)
	}
}

// Every heading can be found, and leads to an anchor that is there.
func TestSite_TheIndexLeadsToEverySection(t *testing.T) {
	out := t.TempDir()
	require.NoError(t, build("..", out))
	text, err := os.ReadFile(filepath.Join(out, "index.js"))
	require.NoError(t, err)
	var index [][5]string
	written, ok := strings.CutPrefix(strings.TrimSuffix(string(text), ";\n"), "const index = ")
	require.True(t, ok)
	require.NoError(t, json.Unmarshal([]byte(written), &index))
	require.Greater(t, len(index), 100)
	for _, section := range index {
		page, err := os.ReadFile(filepath.Join(out, section[0]))
		require.NoError(t, err)
		assert.Contains(t, string(page), fmt.Sprintf(` id="%s"`, section[1]), section[0])
	}
}

// write writes the files of a repository.
func write(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Join(root, path.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	return root
}

// built returns the body of a page of the site of a repository with these files.
func built(t *testing.T, file string, files map[string]string) string {
	t.Helper()
	out := t.TempDir()
	require.NoError(t, build(write(t, files), out))
	require.NoError(t, check(out))
	text, err := os.ReadFile(filepath.Join(out, file))
	require.NoError(t, err)
	return string(text)
}

func TestSite_LinksLeadToPagesOrIntoTheRepository(t *testing.T) {
	text := built(t, "docs/a.html", map[string]string{
		"README.md":         "# The\n",
		"docs/a.md":         "# A\n\n[1](b.md#two-words) [2](../README.md) [3](../store) [4](../store/x.go#L7) [5](../lib) [6](https://example.com/a?b=c&d=e) [7](#a)\n\n![8](../store/a%20b.svg)\n\n[![9](https://example.com/badge.svg)](https://example.com)\n",
		"docs/b.md":         "# B\n\n## Two words\n",
		"store/README.md":   "# Store\n",
		"store/x.go":        "package store\n",
		"store/a b.svg":     "<svg></svg>",
		"lib/internal/x.go": "package internal\n",
	})
	for _, want := range []string{
		`<a href="../docs/b.html#two-words">1</a>`,
		`<a href="../index.html">2</a>`,
		`<a href="../store/index.html">3</a>`,
		`<a href="https://github.com/seed-30da4c49/sash/blob/main/store/x.go#L7">4</a>`,
		`<a href="https://github.com/seed-30da4c49/sash/tree/main/lib">5</a>`,
		`<a href="https://example.com/a?b=c&amp;d=e">6</a>`,
		`<a href="#a">7</a>`,
		`<img src="../store/a%20b.svg" alt="8">`,
		`<a href="https://example.com">9</a>`,
	} {
		assert.Contains(t, text, want)
	}
}

func TestSite_AnchorsAreAsOnGitHub(t *testing.T) {
	text := built(t, "index.html", map[string]string{
		"README.md": "# A: `Take`, [b](#c-d) & _e_\n\n## C-d\n\n## C-d\n\n```md\n## No heading\n```\n",
	})
	for _, anchor := range []string{"a-take-b--e", "c-d", "c-d-1"} {
		assert.Equal(t, 1, strings.Count(text, fmt.Sprintf(` id="%s"`, anchor)), anchor)
	}
	assert.NotContains(t, text, `id="no-heading"`)
}

// A reader copies what stands in the document, and is told which programs a test runs.
func TestSite_CodeIsUnchanged(t *testing.T) {
	program := "package main\n\n/* a & b */\nfunc main() {\n\tprintln(`<b>`, 'x', \"é\") // c\n\t// Output:\n\t// é\n}\n"
	fragment := "for range \"unclosed <\n\t$ é\n// Output:\n"
	text := built(t, "index.html", map[string]string{"README.md": "# A\n\n```go\n" + program + "```\n\n```go\n" + fragment + "```\n"})
	var blocks []string
	for _, m := range goCode.FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, html.UnescapeString(tag.ReplaceAllString(m[1], "")))
	}
	assert.Equal(t, []string{program, fragment}, blocks)
	assert.Equal(t, codeBlock(program), codeBlock(strings.ReplaceAll(program, "\n", "\r\n")))
	assert.Contains(t, text, `<span class="keyword">func</span> main() {`)
	assert.Contains(t, text, `<span class="comment">/* a &amp; b */</span>`)
	assert.Equal(t, 1, strings.Count(text, proof))
	require.FileExists(t, "../internal/docs/gocode_test.go")
}

// A browser opens the page from its file, and runs the search and all else of the script.
func TestSite_SearchFindsSections(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser takes seconds to start")
	}
	browser := ""
	for _, name := range []string{"chromium", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			browser = found
		}
	}
	if browser == "" {
		t.Skip("there is no Chromium")
	}
	out, err := filepath.Abs(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, build("..", out))
	profile, err := os.MkdirTemp("", "site")
	require.NoError(t, err)
	defer os.RemoveAll(profile) // in which processes of the browser may still write
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	shown, err := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir="+profile,
		"--virtual-time-budget=5000", "--dump-dom", "file://"+filepath.ToSlash(out)+"/docs/recipes.html?q=Waiting+refusing").Output()
	require.NoError(t, err)

	body, results, _ := strings.Cut(string(shown), `<div id="results">`)
	results, rest, closed := strings.Cut(results, "</div>")
	require.True(t, closed, "no results are shown")
	assert.NotContains(t, body, "<search hidden")
	assert.Equal(t, strings.Count(rest, "<pre>"), strings.Count(rest, ">Copy</button>"))
	found := address.FindAllStringSubmatch(results, -1)
	require.Greater(t, len(found), 1)
	assert.Equal(t, "../docs/recipes.html#waiting-instead-of-refusing", found[0][2])
	assert.Contains(t, results, "<mark>Waiting</mark> instead of <mark>refusing</mark>")
}

// The build or the check names each fault.
func TestSite_FaultsAreFound(t *testing.T) {
	for text, says := range map[string]string{
		"[a](gone.md)":                       "README.md: a link to gone.md: ",
		"[a](../sash)":                       "README.md: a link to ../sash: ",
		"[a](docs/b.md#gone)":                "index.html: docs/b.html has no heading #gone",
		"[a](#gone)":                         "index.html: index.html has no heading #gone",
		"[a][b]\n\n[b]: gone/":               "README.md: a link to gone/: ",
		"![a](gone.png)":                     "README.md: a link to gone.png: ",
		"![a](docs)":                         "README.md: a link to docs: ",
		`<img alt="a" src="http://a/b.png">`: "index.html: loads http://a/b.png",
		`<p id="a"></p>`:                     "index.html: two of #a",
	} {
		out := t.TempDir()
		root := write(t, map[string]string{"README.md": "# A\n\n" + text + "\n", "docs/b.md": "# B\n"})
		require.ErrorContains(t, errors.Join(build(root, out), check(out)), says, text)
	}
}

var id = regexp.MustCompile(`\bid="([^"]*)"`)

// check returns an error for each address in the pages of a site that leads nowhere on the site, and for each
// picture, style or script from elsewhere. Links to elsewhere are not followed.
func check(dir string) error {
	site := os.DirFS(dir)
	pages, anchors := make(map[string]string), make(map[string]bool)
	var faults []error
	err := fs.WalkDir(site, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(name) != ".html" {
			return err
		}
		text, err := fs.ReadFile(site, name)
		pages[name] = string(text)
		for _, m := range id.FindAllStringSubmatch(pages[name], -1) {
			if anchors[name+"#"+m[1]] {
				faults = append(faults, fmt.Errorf("%s: two of #%s", name, m[1]))
			}
			anchors[name+"#"+m[1]] = true
		}
		return err
	})
	for name, text := range pages {
		for _, element := range tag.FindAllString(text, -1) {
			for _, m := range address.FindAllStringSubmatch(element, -1) {
				if err := leads(site, anchors, name, html.UnescapeString(m[2]), strings.HasPrefix(element, "<a ")); err != nil {
					faults = append(faults, fmt.Errorf("%s: %w", name, err))
				}
			}
		}
	}
	return errors.Join(append(faults, err)...)
}

// leads returns an error if an address in the page of that name leads nowhere, or elsewhere without being a link.
func leads(site fs.FS, anchors map[string]bool, name, address string, link bool) error {
	to, err := url.Parse(address)
	switch {
	case err != nil || to.Scheme == "data" || to.IsAbs() && link:
		return err
	case to.Host != "" || to.IsAbs():
		return fmt.Errorf("loads %s", address)
	}
	target := name
	if to.Path != "" {
		target = path.Join(path.Dir(name), to.Path)
	}
	if info, err := fs.Stat(site, target); err != nil {
		return err
	} else if info.IsDir() {
		return fmt.Errorf("%s is a directory, which needs a server", address)
	}
	if to.Fragment != "" && !anchors[target+"#"+to.Fragment] {
		return fmt.Errorf("%s has no heading #%s", target, to.Fragment)
	}
	return nil
}
