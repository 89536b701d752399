package docs

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// goBlocks returns the blocks of Go code in a document, each with the line on which its code
// begins. A block in a list loses the indentation of the list.
func goBlocks(text string) (blocks []passage) {
	var code []string
	indent, first := "", 0
	for i, line := range strings.Split(text, "\n") {
		fence := strings.TrimSpace(line)
		switch {
		case first == 0 && fence == "```go":
			indent, first, code = line[:len(line)-len("```go")], i+2, nil
		case first > 0 && fence == "```":
			blocks = append(blocks, passage{first, strings.Join(code, "\n")})
			first = 0
		case first > 0:
			code = append(code, strings.TrimPrefix(line, indent))
		}
	}
	return blocks
}

// prelude declares the names that fragments use without declaring them.
const prelude = `package block

import (
	"context"
	"net/http"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/sashredis"
)

type job struct{ Tenant string }

func (job) Run() {}

var (
	ctx                         = context.Background()
	mux                         = http.NewServeMux()
	limiter                     *sash.Limiter
	plans                       map[string][]sash.Limit
	user, address, team, prompt string
	estimate                    int64
	jobs                        chan job
	complete                    func(context.Context, string) (int64, error)
	byAddress                   httplimit.KeyFunc
	conn                        sashredis.Conn
)
`

// imports holds the paths of the packages that fragments use without an import.
var imports = map[string]string{
	"context": "context", "errors": "errors", "expvar": "expvar", "fmt": "fmt", "http": "net/http",
	"grpc": "google.golang.org/grpc", "grpclimit": "github.com/seed-30da4c49/sash/grpclimit",
	"httplimit": "github.com/seed-30da4c49/sash/httplimit", "log": "log", "netip": "net/netip", "os": "os",
	"offenders":  "github.com/seed-30da4c49/sash/httplimit/offenders",
	"policyfile": "github.com/seed-30da4c49/sash/httplimit/policyfile",
	"sash":       "github.com/seed-30da4c49/sash", "sashredis": "github.com/seed-30da4c49/sash/sashredis",
	"otel": "go.opentelemetry.io/otel", "sashotel": "github.com/seed-30da4c49/sash/sashotel",
	"httpstore": "github.com/seed-30da4c49/sash/sashredis/httpstore", "signal": "os/signal", "syscall": "syscall", "time": "time",
}

// complete returns a Go file for a block, and reports whether the block is a whole file. Else
// the block is a fragment, of declarations or of statements, which complete puts into a file.
// The compiler's errors name the document and the line.
func complete(document string, block passage) (source string, whole bool, err error) {
	line := fmt.Sprintf("//line %s:%d\n", document, block.line)
	if strings.Contains("\n"+block.text, "\npackage ") {
		return line + block.text, true, nil
	}
	code := line + block.text + "\n"
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "", "package block\n"+code, 0)
	if err != nil {
		// The block is no list of declarations, so it must be one of statements. It may leave
		// variables unused.
		statements := "func _() {\n" + code
		if file, err = parser.ParseFile(fset, "", "package block\n"+statements+"}\n", 0); err != nil {
			return "", false, err
		}
		for _, s := range file.Decls[0].(*ast.FuncDecl).Body.List {
			if defined, ok := s.(*ast.AssignStmt); ok && defined.Tok == token.DEFINE {
				for _, name := range defined.Lhs {
					statements += "_ = " + name.(*ast.Ident).Name + "\n"
				}
			}
		}
		code = statements + "}\n"
	}
	var used []string
	ast.Inspect(file, func(n ast.Node) bool {
		if selector, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := selector.X.(*ast.Ident); ok && imports[x.Name] != "" && !slices.Contains(used, imports[x.Name]) {
				used = append(used, imports[x.Name])
			}
		}
		return true
	})
	source = "package block\n"
	for _, path := range used {
		source += fmt.Sprintf("import %q\n", path)
	}
	return source + code, false, nil
}

// Each Go block of each document compiles. Whole programs that state their output print it.
func TestDocuments_GoCodeCompilesAndRuns(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command")
	}
	here, err := filepath.Abs(".")
	require.NoError(t, err)
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	dir := t.TempDir()
	add := func(path, source string) {
		file := filepath.Join(dir, fmt.Sprintf("%d.go", len(overlay.Replace)))
		require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
		overlay.Replace[path] = file
	}
	var packages []string
	programs := make(map[string]passage)
	for _, name := range files(t, ".md") {
		if filepath.Base(name) == "first-hour.md" {
			continue // its blocks are files of one service, which examples/firsthour builds step by step
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for _, block := range goBlocks(string(text)) {
			source, whole, err := complete(filepath.Join(here, name), block)
			require.NoError(t, err, "%s:%d", name, block.line)
			// In the module of the document. Fragments have the prelude, which is of this one.
			pkg := filepath.Join(here, fmt.Sprintf("block%d", len(packages)))
			if whole {
				pkg = filepath.Join(here, filepath.Dir(name), filepath.Base(pkg))
				if strings.Contains(block.text, "// Output:\n") {
					programs[pkg] = passage{block.line, block.text}
				}
			} else {
				add(filepath.Join(pkg, "prelude.go"), prelude)
			}
			packages = append(packages, pkg)
			add(filepath.Join(pkg, "block.go"), source)
		}
	}
	require.Greater(t, len(packages), 8)
	require.NotEmpty(t, programs)
	replaced, err := json.Marshal(overlay)
	require.NoError(t, err)
	list := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(list, replaced, 0o600))
	run := func(args ...string) string {
		out, err := exec.Command("go", args...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		return string(out)
	}
	run(append([]string{"build", "-overlay", list}, packages...)...)
	for pkg, program := range programs {
		if strconv.IntSize < 64 && filepath.Dir(pkg) == filepath.Join(filepath.Dir(filepath.Dir(here)), "sashredis") {
			continue // miniredis, its store, reads instants as an int
		}
		_, want, _ := strings.Cut(program.text, "// Output:\n")
		var lines []string
		for line := range strings.Lines(want) {
			if text, comment := strings.CutPrefix(strings.TrimSpace(line), "// "); comment {
				lines = append(lines, text)
			}
		}
		require.Equal(t, strings.Join(lines, "\n")+"\n", run("run", "-overlay", list, pkg))
	}
}

func TestGoBlocks(t *testing.T) {
	require.Equal(t, []passage{{2, "a\n\tb"}, {8, "c\n\n\td"}},
		goBlocks("```go\na\n\tb\n```\n```sh\nls\n   ```go\n   c\n\n   \td\n   ```\n"))
}

func TestComplete(t *testing.T) {
	_, whole, err := complete("x.md", passage{1, "// A program.\npackage main"})
	require.NoError(t, err)
	require.True(t, whole)

	source, whole, err := complete("x.md", passage{7, "l := sash.Must(nil, nil)\nl.Allow(key)"})
	require.NoError(t, err)
	require.False(t, whole)
	require.Equal(t, "package block\nimport \"github.com/seed-30da4c49/sash\"\nfunc _() {\n//line x.md:7\nl := sash.Must(nil, nil)\nl.Allow(key)\n_ = l\n}\n", source)

	source, _, err = complete("x.md", passage{7, "var d time.Duration"})
	require.NoError(t, err)
	require.Equal(t, "package block\nimport \"time\"\n//line x.md:7\nvar d time.Duration\n", source)

	_, _, err = complete("x.md", passage{7, "if {"})
	require.Error(t, err)
}
