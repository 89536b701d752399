package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/figures"

	"github.com/seed-30da4c49/sash/internal/testnames"
)

const root = "../.."

// files returns the names of the files in the repository with that extension.
func files(t *testing.T, extension string) (names []string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(root, "fuzz", "go.mod")); err != nil {
		t.Skip("this is not the whole repository: the modules below the root are not there")
	}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(path, entry):
			return filepath.SkipDir
		case filepath.Ext(path) == extension:
			names = append(names, path)
		}
		return nil
	}))
	require.NotEmpty(t, names)
	return names
}

// documents returns the Markdown documents of the repository by their names.
func documents(t *testing.T) map[string]document {
	t.Helper()
	all := make(map[string]document)
	for _, name := range files(t, ".md") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		all[name] = parseMarkdown(string(text))
	}
	return all
}

// sources returns the Go files of the repository by their names, with their comments.
func sources(t *testing.T) map[string]*ast.File {
	t.Helper()
	all := make(map[string]*ast.File)
	for _, name := range files(t, ".go") {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		all[name] = file
	}
	return all
}

// allFunctions returns the names of all test functions of the repository, under any tags.
func allFunctions(t *testing.T) (names []string) {
	t.Helper()
	all := make(testnames.Functions)
	for name, file := range sources(t) {
		if strings.HasSuffix(name, "_test.go") {
			all.Add(file)
		}
	}
	for _, of := range all {
		names = append(names, of...)
	}
	return names
}

func TestDocuments_EveryCommandRunsSomething(t *testing.T) {
	checked := 0
	for name, d := range documents(t) {
		for _, p := range slices.Concat(d.blocks, d.spans) {
			if isCommand(p.text) {
				checked++
				if err := checkCommand(root, p.text); err != nil {
					t.Errorf("%s:%d: %v", name, p.line, err)
				}
			}
		}
	}
	require.Greater(t, checked, 60)
}

// A command in a comment is run in the root of the repository or in the directory of its file.
func TestComments_EveryCommandRunsSomething(t *testing.T) {
	checked := 0
	for name, file := range sources(t) {
		for _, comment := range file.Comments {
			for _, line := range codeLines(comment) {
				checked++
				if err := checkCommand(root, line); err != nil && checkCommand(filepath.Dir(name), line) != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
	require.Greater(t, checked, 20)
}

// codeLines returns the lines of code in a comment. Lines continued by a backslash are joined.
func codeLines(comment *ast.CommentGroup) (lines []string) {
	var code []passage
	for line := range strings.SplitSeq(comment.Text(), "\n") {
		if strings.HasPrefix(line, "\t") {
			code = append(code, passage{text: line})
		}
	}
	for _, p := range joined(code) {
		lines = append(lines, p.text)
	}
	return lines
}

var testName = regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark)[A-Z]\w*`)

func TestDocuments_EveryTestThatIsNamedExists(t *testing.T) {
	all := allFunctions(t)
	for name, d := range documents(t) {
		for _, p := range slices.Concat(d.prose, d.spans) {
			if len(commands(p.text)) > 0 && commands(p.text)[0][0] == "go" {
				continue // the names in a command are patterns
			}
			for _, test := range testName.FindAllString(p.text, -1) {
				if !slices.Contains(all, test) {
					t.Errorf("%s:%d: there is no %s", name, p.line, test)
				}
			}
		}
	}
}

var (
	pathSpan = regexp.MustCompile(`^[\w.-]+(?:/[\w.*-]+)+/?$`)
	fileSpan = regexp.MustCompile(`^[\w-]+\.(?:go|md|s|mod|sum|work)$`)
)

func TestDocuments_EveryFileThatIsNamedExists(t *testing.T) {
	var bases []string
	for _, extension := range []string{".go", ".md", ".s", ".mod", ".sum", ".work"} {
		for _, name := range files(t, extension) {
			bases = append(bases, filepath.Base(name))
		}
	}
	for name, d := range documents(t) {
		for _, p := range d.links {
			if !strings.Contains(p.text, ":") {
				if err := leadsTo(name, p.text); err != nil {
					t.Errorf("%s:%d: a link leads nowhere: %v", name, p.line, err)
				}
			}
		}
		for _, p := range d.spans {
			switch first, _, _ := strings.Cut(p.text, "/"); {
			case fileSpan.MatchString(p.text) && !slices.Contains(bases, p.text):
				t.Errorf("%s:%d: there is no file %s", name, p.line, p.text)
			case pathSpan.MatchString(p.text) && exists(first) && !exists(p.text) && p.text != "bench/results": // a run creates that one
				t.Errorf("%s:%d: there is no %s", name, p.line, p.text)
			}
		}
	}
}

// A figure is of a commit, and a reader must be able to check that commit out.
func TestDocuments_EveryCommitThatIsNamedExists(t *testing.T) {
	shallow, err := exec.Command("git", "rev-parse", "--is-shallow-repository").Output()
	if err != nil || strings.TrimSpace(string(shallow)) != "false" {
		t.Skip("this is not a clone of the whole history")
	}
	named := 0
	for _, name := range files(t, ".md") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, m := range figures.Commits(string(text)) {
			named++
			commit := string(text[m[0]:m[1]])
			if exec.Command("git", "merge-base", "--is-ancestor", commit, "HEAD").Run() != nil {
				t.Errorf("%s: the history has no commit %s", name, commit)
			}
		}
	}
	require.Positive(t, named)
}

// exists reports whether the repository has a file that the glob pattern path matches.
func exists(path string) bool {
	found, err := filepath.Glob(filepath.Join(root, path))
	return err == nil && len(found) > 0
}

// writeFile writes a file, and makes the directories that it lies in.
func writeFile(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
}

// checkCommands checks each command line in dir, and that its error contains the text
// wanted. No text means that no error is wanted.
func checkCommands(t *testing.T, dir string, wanted map[string]string) {
	t.Helper()
	for line, want := range wanted {
		err := checkCommand(dir, line)
		if want == "" {
			require.NoError(t, err, line)
		} else {
			require.ErrorContains(t, err, want, line)
		}
	}
}

// The checks of the documents find a fault of each kind.
func TestCheckCommand(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) { writeFile(t, filepath.Join(dir, name), text) }
	write("go.mod", "module m")
	write("a_test.go", "package a; func TestOne() {}; func BenchmarkB() {}; func ExampleE() {}")
	write("b/b_test.go", `package b; func TestTwo() {}; func FuzzF() {}; func FuzzFG() {}; var _ = flag.Int("rounds", 1, "")`)
	write("tagged_test.go", "//go:build tagged\n\npackage a; func TestTagged() {}")
	write("cmd/main.go", `package main; var _ = flag.Bool("long", false, "")`)
	write("cmd/sash/main.go", "package main")
	write("cmd/sash/internal/dig/dig.go", `package dig; var _ = flag.Bool("deep", false, "")`)
	write("nested/go.mod", "module n")
	write("nested/n_test.go", "package n; func TestNested() {}")
	checkCommands(t, dir, map[string]string{
		"go test -race -timeout 1m -run One ./...":              "",
		"go test -timeout=1m -run 'Two|One' ./...":              "",
		"go test -run Nested -timeout 1m ./...":                 "-run Nested matches nothing",
		"go test ./...":                                         "without a -timeout",
		"go test -run 'One|E$' .":                               "",
		"go test -run=One":                                      "",
		`go test -run 'One\|E' .`:                               `-run One\|E matches nothing`,
		"go test -run 'One|Gone' .":                             "-run Gone matches nothing",
		"go test -run 'One|Two' . ./b":                          "",
		"go test -run One . ./b":                                "-run One matches nothing in ./b",
		"go test -run '(' .":                                    "missing closing )",
		"go test -run One -skip Gone .":                         "-skip Gone matches nothing",
		"go test -run Tagged .":                                 "-run Tagged matches nothing",
		"go test -tags tagged -run Tagged .":                    "",
		"go test -run B .":                                      "-run B matches nothing",
		"go test -run '^$' -bench B .":                          "",
		"go test -run '^$' -bench One .":                        "-bench One matches nothing",
		"go test -run '^$' -fuzz F$ -fuzztime 1s ./b":           "",
		"go test -fuzz F -fuzztime 1s ./b":                      "-fuzz F matches 2 fuzz targets",
		"go test -fuzz F$ ./b":                                  "-fuzz never ends without -fuzztime",
		"go test -fuzz Gone -fuzztime 1s ./b":                   "-fuzz Gone matches nothing",
		"go test -fuzz F$ -fuzztime 1s . ./b":                   "-fuzz takes one package",
		"go test -run Two ./b -rounds 5 -v":                     "",
		"go test -run Two ./b -sounds 5":                        "no flag -sounds",
		"go test ./gone":                                        "gone",
		"go run ./cmd -long x":                                  "",
		"go run ./cmd [-long] FILE # and so on":                 "",
		"cat x | go run ./cmd -short":                           "no flag -short",
		"go run ./gone":                                         "no package in ",
		"sash dig -deep x":                                      "",
		"zcat x | sash dig -broad":                              "no flag -broad",
		"sash delve -deep":                                      "no flag -deep",
		"go run ./cmd/sash dig -deep":                           "",
		"go run ./cmd/sash dig -broad":                          "no flag -broad",
		"go run":                                                "names no package",
		"GOARCH=386 A='b c' go test -run Gone .":                "-run Gone matches nothing",
		"go test -run One . && go test -run Gone . | tee x":     "-run Gone matches nothing",
		"mkdir -p gone; ls 'go test -run Gone' \"|\" # go test": "",
	})
}

func TestParseMarkdown(t *testing.T) {
	d := parseMarkdown("A `span \nof two` lines,\na [link](to/it) and `x\\|y`.\n\n```sh\ngo run . \\\n  -x\nls\n```\n```go\nfunc `TestNone`\n```\nEnd TestX\n")
	require.Equal(t, document{
		blocks: []passage{{6, "go run .   -x"}, {8, "ls"}},
		spans:  []passage{{1, "span of two"}, {3, `x\|y`}},
		links:  []passage{{3, "to/it"}},
		prose:  []passage{{1, "A \n lines,\na [link] and ."}, {13, "End TestX"}},
	}, d)
	require.Equal(t, [][]string{{"a", "b c", "d|e"}, {"f"}}, commands(`a 'b c' d\|e | f # g`))
}
