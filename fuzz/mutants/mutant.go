package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash/internal/testnames"
)

// mutants are the faults.
var mutants = slices.Concat(ofSash, ofParts, ofLeaving, ofHolding, ofRefunds, ofSeams, ofHTTPLimit, ofHTTPModel, ofLeave, ofAdapters, ofHTTPHolding, ofNear, ofPolicyFiles, ofTally, ofClients, ofOffenders, ofScripts, ofSashredis, ofRedisHolds, ofSuggest, ofTraffic, ofPolicies, ofSite, ofFigures, ofProofs)

// A mutant is a fault, made by replacing one text in one file.
type mutant struct {
	name, fault string
	file        string // below the root package's directory, with slashes
	old, new    string
	tests       string // the pattern, as of go test -run, of tests that should notice it and run first
	in          string // the directory of the package of these tests; "": see packages
}

// packages returns the directories of the packages whose tests try m, relative to the root
// package: first the package of m's file, which is the one above the file if that is a script.
// Then comes the root package, which is ".". Most tests of sashredis are in a module of their own,
// and its histories come last. So are the tests of connectlimit. The tests of what connectlimit and
// grpclimit share are theirs. What is below httplimit is first tested through it. The model of cmd/sash,
// a module of its own, is in the package of replay.
func (m mutant) packages() []string {
	own := path.Dir(m.file)
	if path.Ext(m.file) == ".lua" {
		own = path.Dir(own)
	}
	switch {
	case m.in != "":
		return []string{m.in}
	case own == ".":
		return []string{own}
	case own == "sashredis":
		return []string{"sashredis/internal/clienttest", own, "fuzz/fleet"}
	case own == ofModelOfSash:
		return []string{own}
	case strings.HasPrefix(own, "cmd/sash/"):
		return []string{ofModelOfSash, own}
	case strings.HasPrefix(own, "httplimit/internal/"):
		return []string{"httplimit", own}
	case own == "grpclimit":
		return []string{own}
	case own == "connectlimit":
		return []string{"connectlimit/internal/grpctest"}
	case own == "internal/rpc":
		return []string{"grpclimit", "connectlimit/internal/grpctest"}
	}
	return []string{own, "."}
}

// ofModelOfSash is the package of the model of cmd/sash.
const ofModelOfSash = "cmd/sash/internal/replay"

// text returns the text of the mutant's file with the fault. root is the directory of the root
// package.
func (m mutant) text(root string) (string, error) {
	source, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.file)))
	if err != nil {
		return "", fmt.Errorf("mutant %s: %w", m.name, err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", fmt.Errorf("mutant %s: its text must stand in %s once, but does %d times:\n\t%s", m.name, m.file, n, m.old)
	}
	return strings.Replace(string(source), m.old, m.new, 1), nil
}

// check returns an error that lists each fault in mutants. root is the directory of the root
// package.
func check(root string, mutants []mutant) error {
	tests := map[string][]string{} // the names of the tests of each package
	var faults []error
	named := map[string]bool{}
	for _, m := range mutants {
		if named[m.name] {
			faults = append(faults, fmt.Errorf("mutant %s: another one has that name", m.name))
		}
		named[m.name] = true
		_, err := m.text(root)
		faults = append(faults, err)
		var names []string
		for _, dir := range m.packages() {
			if tests[dir] == nil {
				functions, err := testnames.In(filepath.Join(root, filepath.FromSlash(dir)))
				faults = append(faults, err)
				tests[dir] = functions.Run()
			}
			if len(tests[dir]) == 0 { // then there is no binary of them
				faults = append(faults, fmt.Errorf("mutant %s: there are no tests in %s", m.name, dir))
			}
			names = append(names, tests[dir]...)
		}
		faults = append(faults, m.checkTests(names))
	}
	return errors.Join(faults...)
}

// checkTests returns an error if an alternative of m's tests matches none of names.
func (m mutant) checkTests(names []string) error {
	if m.tests == "" {
		return fmt.Errorf("mutant %s: names no test", m.name)
	}
	unmatched, err := testnames.Unmatched(m.tests, names)
	if err != nil {
		return fmt.Errorf("mutant %s: %w", m.name, err)
	}
	if len(unmatched) > 0 {
		return fmt.Errorf("mutant %s: no test matches %s", m.name, strings.Join(unmatched, ", "))
	}
	return nil
}
