package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-30da4c49/sash/internal/testnames"
)

// A mutant is a fault, made by replacing one text in one file.
type mutant struct {
	name, fault string
	file        string // of the root package
	old, new    string
	tests       string // that should notice it, and are tried first, as of go test -run
}

// text returns the mutant's file, in the package that lies in dir, with the fault.
func (m mutant) text(dir string) (string, error) {
	source, err := os.ReadFile(filepath.Join(dir, m.file))
	if err != nil {
		return "", fmt.Errorf("mutant %s: %w", m.name, err)
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", fmt.Errorf("mutant %s: its text must stand in %s once, but does %d times:\n\t%s", m.name, m.file, n, m.old)
	}
	return strings.Replace(string(source), m.old, m.new, 1), nil
}

// check returns what keeps mutants of the package in dir from being tried, all of it.
func check(dir string, mutants []mutant) error {
	functions, err := testnames.In(dir)
	if err != nil {
		return err
	}
	names := functions.Run()
	var faults []error
	named := map[string]bool{}
	for _, m := range mutants {
		if named[m.name] {
			faults = append(faults, fmt.Errorf("mutant %s: another one has that name", m.name))
		}
		named[m.name] = true
		_, err := m.text(dir)
		faults = append(faults, err, m.checkTests(names))
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
