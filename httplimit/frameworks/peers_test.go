package frameworks_test

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
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A peer is a limiter that the users of a framework know. Its own tests say what they expect of it.
type peer struct {
	name   string // the heading of its table in the document
	module string
	tests  []string // the files of its tests, as patterns in the module
	rows   []behaviour
	left   map[string]string // its tests that no row has, and why
}

// A behaviour is what a peer's tests expect, and what sash does.
type behaviour struct {
	what  string
	peer  string   // what the peer does
	sash  string   // "the same", with how if it is not plain; or "different: " and why
	tests []string // the peer's tests that expect it
	check func(*testing.T)
}

var peers = map[string]peer{"echo": echoPeer, "fiber": fiberPeer, "ulule": ululePeer}

// Each behaviour is as its row says.
func TestPeers(t *testing.T) {
	for name, p := range peers {
		for _, b := range p.rows {
			t.Run(name+"/"+b.what, b.check)
		}
	}
}

// table is the rows of p as the document has them.
func (p peer) table() string {
	var text strings.Builder
	fmt.Fprintf(&text, "### %s\n\n| behaviour | %s | sash |\n|---|---|---|\n", p.name, p.name)
	for _, b := range p.rows {
		fmt.Fprintf(&text, "| %s | %s | %s |\n", b.what, b.peer, b.sash)
	}
	return text.String()
}

// The document names the version of each peer that is required here.
func TestPeers_AreOfTheVersionsInTheDocument(t *testing.T) {
	document, required := readDocument(t), readFile(t, "go.mod")
	for _, p := range peers {
		_, version, found := strings.Cut(required, "\t"+p.module+" ")
		require.True(t, found)
		version, _, _ = strings.Cut(version, "\n")
		require.Contains(t, strings.Join(strings.Fields(document), " "), version)
	}
}

// The document says of each peer what the rows say, and no more.
func TestPeers_AreInTheDocument(t *testing.T) {
	document := readDocument(t)
	for _, p := range peers {
		require.Contains(t, document, p.table()+"\n")
		for _, b := range p.rows {
			require.Regexp(t, `^(the same|different: )`, b.sash, b.what)
		}
	}
}

// readDocument returns the document about the frameworks.
func readDocument(t *testing.T) string { return readFile(t, "../../docs/frameworks.md") + "\n" }

func readFile(t *testing.T, name string) string {
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return string(text)
}

// Each test of a peer, in the version that is required here, is in a row or is left out for a reason. So a new
// version of a peer shows what it has come to expect.
func TestPeers_AllTheirTestsAreAccountedFor(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command")
	}
	for name, p := range peers {
		t.Run(name, func(t *testing.T) {
			var named []string
			for _, b := range p.rows {
				require.NotEmpty(t, b.tests, b.what)
				named = append(named, b.tests...)
			}
			for test, why := range p.left {
				require.NotContains(t, named, test)
				require.NotEmpty(t, why)
				named = append(named, test)
			}
			slices.Sort(named)
			require.Equal(t, p.ownTests(t), slices.Compact(named))
		})
	}
}

// ownTests returns the names of the peer's test functions, in their order.
func (p peer) ownTests(t *testing.T) (names []string) {
	// Not every peer is compiled into these tests, so one may not have been downloaded yet.
	downloaded, err := exec.Command("go", "mod", "download", "-json", p.module).Output()
	require.NoError(t, err)
	var module struct{ Dir string }
	require.NoError(t, json.Unmarshal(downloaded, &module))
	for _, pattern := range p.tests {
		files, err := filepath.Glob(filepath.Join(module.Dir, pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			for _, d := range parsed.Decls {
				if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") {
					names = append(names, f.Name.Name)
				}
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
