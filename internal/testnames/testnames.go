// Package testnames lists the test functions of a package, and finds the parts of a
// pattern of go test -run that match none of them.
package testnames

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Functions maps each prefix, Test, Benchmark, Fuzz or Example, to the names of the test
// functions that begin with it.
type Functions map[string][]string

var kinds = []string{"Test", "Benchmark", "Fuzz", "Example"}

// Run returns the names that go test -run chooses from.
func (f Functions) Run() []string {
	return slices.Concat(f["Test"], f["Fuzz"], f["Example"])
}

// In returns the test functions of the package in dir, as built with tags on this
// machine.
func In(dir string, tags ...string) (Functions, error) {
	context := build.Default
	context.BuildTags = tags
	p, err := context.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	all := make(Functions)
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		if err := all.addFile(filepath.Join(dir, name)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (f Functions) addFile(name string) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	f.Add(file)
	return nil
}

// Add adds the test functions of file.
func (f Functions) Add(file *ast.File) {
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Recv != nil {
			continue
		}
		for _, kind := range kinds {
			if begins(function.Name.Name, kind) {
				f[kind] = append(f[kind], function.Name.Name)
			}
		}
	}
}

// begins reports whether the go command takes name for a test function of that kind: it
// begins with kind, and no lower-case letter follows. TestMain is none.
func begins(name, kind string) bool {
	rest, found := strings.CutPrefix(name, kind)
	next, _ := utf8.DecodeRuneInString(rest)
	return found && name != "TestMain" && !unicode.IsLower(next)
}

// Unmatched returns the alternatives of pattern that match none of names. The pattern is
// one of go test -run. In an alternative, only the part before a slash is matched: the
// part after it names a subtest.
func Unmatched(pattern string, names []string) (alternatives []string, err error) {
	for _, alternative := range split(pattern, '|') {
		function := split(alternative, '/')[0]
		matches, err := regexp.Compile(function)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(names, matches.MatchString) {
			alternatives = append(alternatives, alternative)
		}
	}
	return alternatives, nil
}

// split cuts pattern at each separator, except in brackets, in parentheses and after a
// backslash.
func split(pattern string, separator byte) (parts []string) {
	depth, begin := 0, 0
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '(' || c == '[':
			depth++
		case c == ')' || c == ']':
			depth--
		case c == separator && depth == 0:
			parts = append(parts, pattern[begin:i])
			begin = i + 1
		}
	}
	return append(parts, pattern[begin:])
}
