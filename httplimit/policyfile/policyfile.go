package policyfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/internal/route"
)

// Load returns the policies in the file of that path, as [Parse] does. If the file cannot be
// read, the error is from package os.
//
// To change a file that a program loads again, rename another one to it. Half of a YAML file may be
// a file with fewer policies. A [Watcher] loads a file again when it changes, and takes care of that.
func Load(path string, options ...Option) ([]httplimit.Policy, error) {
	data, err := contentOf(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, data, options...)
}

// contentOf returns the content of the file at path, or as much of it as Parse needs to refuse its length.
func contentOf(path string) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, maxBytes+1))
}

// Parse returns the policies in data, in their order: at least one, and valid for
// [httplimit.New]. The data is JSON if name ends in .json, in any case, and YAML otherwise. name
// stands in errors.
//
// The error is [Errors]: all faults of the data, each with its place. If there are more than 1000,
// the last says how many are left out. If the data is no JSON or YAML at all, there is only the
// first. A limit's error wraps [sash.ErrInvalidLimit].
//
// The data must not be longer than 1 MiB, and all policies and plans together have at most 8192
// limits, with each use of an alias counted anew. No data makes Parse panic. A file of a hundred policies
// takes some milliseconds, and data that is made to be slow takes a few seconds at most.
//
// Parse panics if an option is nil. It may be called by several goroutines.
func Parse(name string, data []byte, options ...Option) ([]httplimit.Policy, error) {
	r := &reader{options: newOptions(options), file: name}
	policies := r.policies(data)
	if r.count > 0 {
		return nil, r.errors()
	}
	return policies, nil
}

// policies reads the policies in data, and records the faults.
func (r *reader) policies(data []byte) (policies []httplimit.Policy) {
	root, err := r.parse(data)
	if err != nil {
		r.syntaxFault(err)
		return nil
	}
	file := value{root, ""}
	if root.kind == null {
		r.fault(file, "the file is empty, want policies")
		return nil
	}
	r.mapping(file, fileFields(&policies)...)
	if r.count == 0 {
		r.try(file, policies)
	}
	return policies
}

// syntaxFault records why the file cannot be read at all.
func (r *reader) syntaxFault(err error) {
	at := place{1, 1}
	var syntax *syntaxError
	if errors.As(err, &syntax) {
		at, err = syntax.place, syntax.err
	}
	r.faultAt(at, "", err)
}

// parse returns the value in data.
func (r *reader) parse(data []byte) (*node, error) {
	if len(data) > maxBytes {
		return nil, fmt.Errorf("longer than %d bytes", maxBytes)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // a byte order mark, which editors hide
	if strings.EqualFold(filepath.Ext(r.file), ".json") {
		return parseJSON(data)
	}
	return parseYAML(data)
}

// try records what New has against the policies. Faults were found before, each with its place,
// unless httplimit knows one that this package does not.
func (r *reader) try(file value, policies []httplimit.Policy) {
	options := make([]httplimit.Option, 0, len(policies)+1)
	for _, p := range policies {
		options = append(options, p)
	}
	if r.paths == route.Folded {
		options = append(options, httplimit.WithPathFolding())
	}
	limiter, err := httplimit.New(options...)
	if err != nil {
		r.faultAt(file.place, "", err)
		return
	}
	limiter.Close()
}
