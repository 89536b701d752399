package policyfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Errors are all faults of a file, in the order of their places.
type Errors []*Error

// Error returns one line for each fault.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, fault := range e {
		lines[i] = fault.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the faults, for [errors.Is] and [errors.As].
func (e Errors) Unwrap() []error {
	faults := make([]error, len(e))
	for i, fault := range e {
		faults[i] = fault
	}
	return faults
}

// sort sorts the faults by their places. Those of one place stay as they are.
func (e Errors) sort() {
	slices.SortStableFunc(e, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// An Error is one fault of a file.
type Error struct {
	File         string // the name that was given to Load or Parse
	Line, Column int    // place in the file, from 1; columns are characters
	Path         string // place in the data, such as "policies[1].limits[0]"; empty for the whole file
	Err          error  // what is wrong, and what was given
}

// Error returns the fault as "limits.yaml:12:9: policies[1].limits[0]: " and what is wrong.
func (e *Error) Error() string {
	at := fmt.Sprintf("%s:%d:%d: ", e.File, e.Line, e.Column)
	if e.Path != "" {
		at += e.Path + ": "
	}
	return at + e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }
