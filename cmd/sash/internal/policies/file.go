// Package policies reads a file of policies for the subcommands of sash: the policies themselves, by
// policyfile, and what they are made of.
package policies

import (
	"cmp"
	"maps"
	"os"
	"slices"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/policyfile"
	"github.com/seed-30da4c49/sash/internal/policytree"
)

// A File is a file of policies.
type File struct {
	Name     string
	Policies []Policy // none if the file has faults
	// Functions are the functions of the program that the file names, in the order of the file.
	Functions []Function
}

// A Policy is a policy of a file, and what it is made of.
type Policy struct {
	httplimit.Policy
	Place
	Key    Key
	Plan   string // the header that names the plan; "" if there is none, or a function names it
	Skip   Skip
	Leave  Leave
	Cost   *int64 // of each request; nil if it is 1, or a function tells it
	Settle Settle
	// Charge and Uncertain are the statuses, classes and codes of gRPC for which charges stay, as in the file. A
	// nil Charge keeps all.
	Charge, Uncertain []string
}

// OfCodes reports whether p charges by codes of gRPC, and by no status of HTTP: so it is for calls of gRPC.
func (p *Policy) OfCodes() bool {
	named := slices.DeleteFunc(slices.Concat(p.Charge, p.Uncertain), func(s string) bool { return s == "none" })
	return len(named) > 0 && !slices.ContainsFunc(named, func(s string) bool { return '0' <= s[0] && s[0] <= '9' })
}

// AllLimits returns the limits of p, and of its plans in the order of their names.
func (p *Policy) AllLimits() []sash.Limit {
	all := slices.Clone(p.Limits)
	for _, plan := range slices.Sorted(maps.Keys(p.Plans)) {
		all = append(all, p.Plans[plan]...)
	}
	return all
}

// Skip is the requests that a policy skips.
type Skip struct {
	Methods, Networks []string
	Address           Address // where the address to look for in Networks is
	Function          string  // of the program; "" if there is none
}

// Leave is what requests leave.
type Leave struct {
	Amount  string            // a number or a share; "" if none, or if there are classes
	Header  string            // names the class of a request; "": there are none
	Classes map[string]string // the amount of each class
}

// Settle is how a policy is settled. The zero Settle leaves the charge.
type Settle struct {
	Bytes    bool
	Estimate bool
	Header   string // of the response
}

// A Place is a place in a file: a line, and a column in characters, both from 1.
type Place struct{ Line, Column int }

// A Function is a function of the program that a file names.
type Function struct {
	Place
	Option string // that adds it: WithKey
	Name   string
}

// Load reads the file of that name. The functions of the names that are declared are taken to be there, and
// must not be called. If the file has faults, the error is a policyfile.Errors, and the File has its
// Functions all the same.
func Load(name string, declared []string) (*File, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	root, err := policytree.Parse(name, data)
	if err != nil {
		return &File{Name: name}, err
	}
	r := &reader{file: &File{Name: name}}
	all := r.policies(root.Field("policies"))
	slices.SortFunc(r.file.Functions, func(a, b Function) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	policies, err := policyfile.Parse(name, data, options(r.file.Functions, declared)...)
	if err != nil {
		return r.file, err
	}
	for i := range all {
		all[i].Policy = policies[i]
	}
	r.file.Policies = all
	return r.file, nil
}

// Faults returns the faults of data in a file of that name, for a program that adds all functions that the file
// names. The error is a policyfile.Errors.
func Faults(name string, data []byte) error {
	root, err := policytree.Parse(name, data)
	if err != nil {
		return err
	}
	r := &reader{file: &File{Name: name}}
	r.policies(root.Field("policies"))
	var declared []string
	for _, f := range r.file.Functions {
		if f.Name != "" { // else it is a fault
			declared = append(declared, f.Name)
		}
	}
	_, err = policyfile.Parse(name, data, options(r.file.Functions, declared)...)
	return err
}
