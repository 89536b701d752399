package docs

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// layered are the packages whose files the map in CONTRIBUTING.md lists from the highest layer to the
// lowest.
var layered = []string{".", "httplimit"}

// An arrow leads from a file to one of a higher layer whose names it uses.
type arrow struct{ from, to string }

// upward are the arrows that stay, each with its reason.
var upward = map[string]map[arrow]string{
	".": {
		{"keycap.go", "generation.go"}: "a sample of the keys knows the generation of each, and a generation its sample",
	},
}

// TestMap_NoFileUsesAHigherLayer checks the layers of the map: a file uses names of files below it.
func TestMap_NoFileUsesAHigherLayer(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	require.NoError(t, err)
	layers := parseMap(string(text))
	for _, dir := range layered {
		files, arrows := usesOf(t, filepath.Join(root, dir))
		for _, file := range files {
			assert.Contains(t, layers[dir], file, "the map does not list this file of %s", dir)
		}
		for _, a := range slices.SortedFunc(maps.Keys(arrows), func(a, b arrow) int { return strings.Compare(a.from+a.to, b.from+b.to) }) {
			if _, stays := upward[dir][a]; !stays && goesUp(layers[dir], a) {
				t.Errorf("%s: %s uses %s of the higher %s", dir, a.from, strings.Join(slices.Sorted(maps.Keys(arrows[a])), ", "), a.to)
			}
		}
		for a := range upward[dir] {
			assert.True(t, arrows[a] != nil && goesUp(layers[dir], a), "%s: %s does not use %s of a higher layer any more", dir, a.from, a.to)
		}
	}
}

func goesUp(layers []string, a arrow) bool {
	from, to := slices.Index(layers, a.from), slices.Index(layers, a.to)
	return from >= 0 && 0 <= to && to < from
}

var (
	mapFile = regexp.MustCompile(`^  (\w+\.go)\s`)
	mapDir  = regexp.MustCompile(`^([a-z][\w/]*)(?:  |$)`)
)

// parseMap returns the files that the map in a document lists, by the directory they are in.
func parseMap(text string) map[string][]string {
	_, text, _ = strings.Cut(text, "\n## Map\n")
	_, text, _ = strings.Cut(text, "```text\n")
	text, _, _ = strings.Cut(text, "```")
	layers, dir := make(map[string][]string), "."
	for line := range strings.Lines(text) {
		if m := mapDir.FindStringSubmatch(line); m != nil {
			dir = m[1]
		}
		if m := mapFile.FindStringSubmatch(line); m != nil {
			layers[dir] = append(layers[dir], m[1])
		}
	}
	return layers
}

// usesOf returns the Go files of the package in a directory, and for each pair of files the names of
// the second that the first uses.
func usesOf(t *testing.T, dir string) (files []string, uses map[arrow]map[string]bool) {
	t.Helper()
	fset := token.NewFileSet()
	names, exports := listed(t, dir)
	var parsed []*ast.File
	for _, name := range names {
		file, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		parsed = append(parsed, file)
	}
	info := &types.Info{Uses: make(map[*ast.Ident]types.Object)}
	open := func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) }
	pkg, err := (&types.Config{Importer: importer.ForCompiler(fset, "gc", open)}).Check(dir, fset, parsed, info)
	require.NoError(t, err)
	uses = make(map[arrow]map[string]bool)
	fileOf := func(pos token.Pos) string { return filepath.Base(fset.Position(pos).Filename) }
	for used, object := range info.Uses {
		a := arrow{fileOf(used.Pos()), fileOf(object.Pos())}
		if _, imported := object.(*types.PkgName); imported || object.Pkg() != pkg || a.from == a.to {
			continue
		}
		if uses[a] == nil {
			uses[a] = make(map[string]bool)
		}
		uses[a][object.Name()] = true
	}
	return names, uses
}

// listed returns the Go files of the package in a directory, and the export data of all packages that
// it needs.
func listed(t *testing.T, dir string) (files []string, exports map[string]string) {
	t.Helper()
	command := exec.Command("go", "list", "-export", "-deps", "-json=ImportPath,Export,GoFiles", ".")
	command.Dir, command.Stderr = dir, os.Stderr
	out, err := command.Output()
	require.NoError(t, err)
	exports = make(map[string]string)
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath, Export string
			GoFiles            []string
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return files, exports // the last package is the one in dir
		}
		exports[p.ImportPath], files = p.Export, p.GoFiles
	}
}
