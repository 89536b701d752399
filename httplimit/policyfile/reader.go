package policyfile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
	"github.com/seed-30da4c49/sash/httplimit/internal/quota"
)

// A reader reads policies from the nodes of a file. Its methods record each fault, and go on.
type reader struct {
	options
	file       string
	faults     Errors
	count      int               // of faults, with those that are left out of faults
	quotas     map[string]string // path of the policy that has a quota, by the name of the quota
	limitCount int               // limits of all policies and plans so far
}

// A value is a node and the path to it.
type value struct {
	*node
	path string
}

// item returns an item of the list v.
func (v value) item(i int) value {
	return value{v.items[i], v.path + "[" + strconv.Itoa(i) + "]"}
}

// field returns the value of an entry of the mapping v.
func (v value) field(e entry) value { return value{e.value, v.pathOf(e.name)} }

// named returns the value of that name in the mapping v, which has one.
func (v value) named(name string) value {
	return v.field(v.entries[slices.IndexFunc(v.entries, func(e entry) bool { return e.name == name })])
}

// pathOf returns the path to the value of that name in the mapping v.
func (v value) pathOf(name string) string {
	switch {
	case !fields.IsToken(name) || strings.Contains(name, ".") || len(name) > maxQuoted:
		return v.path + "[" + quote(name) + "]"
	case v.path == "":
		return name
	}
	return v.path + "." + name
}

// maxFaults is how many faults are reported one by one.
const maxFaults = 1000

func (r *reader) faultAt(at place, path string, err error) {
	if r.count++; len(r.faults) < maxFaults {
		r.faults = append(r.faults, &Error{r.file, at.line, at.column, path, err})
	}
}

// errors returns the faults in order. If there are very many, the last one says how many were
// left out.
func (r *reader) errors() Errors {
	r.faults.sort()
	if last := r.faults[len(r.faults)-1]; r.count > maxFaults {
		more := fmt.Errorf("%d more faults are left out", r.count-maxFaults)
		r.faults = append(r.faults, &Error{r.file, last.Line, last.Column, "", more})
	}
	return r.faults
}

// fault records what is wrong with v.
func (r *reader) fault(v value, format string, args ...any) {
	r.faultAt(v.place, v.path, fmt.Errorf(format, args...))
}

// A field is a name that a mapping may have.
type field struct {
	name string
	// read reads its value.
	read func(*reader, value)
	// required reports whether the mapping must have it.
	required bool
}

// mapping reads the fields of v. A name that is not among them is a fault, and so is one that is
// given twice. It reports whether v is a mapping.
func (r *reader) mapping(v value, fields ...field) bool {
	if v.kind != mapping {
		r.fault(v, "must be a mapping with %s, got %v", names(fields), v)
		return false
	}
	r.eachEntry(v, func(e entry) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == e.name })
		if i >= 0 {
			fields[i].read(r, v.field(e))
			return
		}
		r.faultAt(e.place, v.pathOf(e.name), fmt.Errorf("unknown field%s; the fields are %s", suggestion(e.name, fieldNames(fields)), names(fields)))
	})
	for _, f := range fields {
		if f.required && !v.has(f.name) {
			r.fault(v, "%s is missing", f.name)
		}
	}
	return true
}

// eachEntry calls read for each entry of the mapping v whose name was not given before. That
// would be a fault.
func (r *reader) eachEntry(v value, read func(entry)) {
	first := make(map[string]place, len(v.entries))
	for _, e := range v.entries {
		if before, given := first[e.name]; given {
			r.faultAt(e.place, v.pathOf(e.name), fmt.Errorf("given twice, first in line %d", before.line))
			continue
		}
		first[e.name] = e.place
		read(e)
	}
}

// has reports whether the mapping n has an entry of that name.
func (n *node) has(name string) bool {
	return slices.ContainsFunc(n.entries, func(e entry) bool { return e.name == name })
}

func fieldNames(fields []field) (names []string) {
	for _, f := range fields {
		names = append(names, f.name)
	}
	return names
}

// names lists fields for a message.
func names(fields []field) string { return strings.Join(fieldNames(fields), ", ") }

// each calls read for each item of v, or for v itself if it is no list. An empty list is a fault,
// unless empty is true.
func (r *reader) each(v value, empty bool, read func(value)) {
	if v.kind != list {
		read(v)
		return
	}
	if len(v.items) == 0 && !empty {
		r.fault(v, "must not be empty")
	}
	for i := range v.items {
		read(v.item(i))
	}
}

// string returns the text of v. wanted says which text it must be.
func (r *reader) string(v value, wanted string) (string, bool) {
	switch {
	case v.kind == number || v.kind == boolean:
		r.fault(v, "must be %s, got %v: write text in quotes", wanted, v)
	case v.kind != text:
		r.fault(v, "must be %s, got %v", wanted, v)
	case v.text == "":
		r.fault(v, "must be %s, got %q", wanted, v.text)
	default:
		return v.text, true
	}
	return "", false
}

// printable returns the text of v, of printable ASCII and not longer than maxName.
func (r *reader) printable(v value) string {
	s, ok := r.string(v, printableText)
	if ok && !isPrintable(s) {
		r.fault(v, "must be %s, got %v", printableText, v)
	}
	return s
}

const printableText = "at most 128 characters of printable ASCII"

// isPrintable reports whether s is printable ASCII of a length from 1 to maxName.
func isPrintable(s string) bool {
	return s != "" && len(s) <= maxName && fields.Printable(s)
}

// token returns the text of v, a token of HTTP such as the name of a header or a method.
func (r *reader) token(v value, wanted string) (string, bool) {
	s, ok := r.string(v, wanted)
	if ok && !fields.IsToken(s) {
		r.fault(v, "must be %s, got %v", wanted, v)
		return "", false
	}
	return s, ok
}

// int returns the whole number v, from least to most.
func (r *reader) int(v value, least, most int64) (int64, bool) {
	n, err := strconv.ParseInt(v.text, 10, 64)
	digits := strconv.FormatInt(n, 10)
	if v.kind != number || err != nil || digits != v.text || n < least || n > most {
		r.fault(v, "must be a whole number from %d to %d, in digits, got %v", least, most, v)
		return 0, false
	}
	return n, true
}

// bool returns whether v is true.
func (r *reader) bool(v value) bool {
	if v.kind != boolean || v.text != "true" && v.text != "false" {
		r.fault(v, "must be true or false, got %v", v)
	}
	return v.text == "true"
}

// duration returns the positive duration v.
func (r *reader) duration(v value) time.Duration {
	d, err := time.ParseDuration(v.text)
	if v.kind != text || err != nil || d <= 0 {
		r.fault(v, "must be a duration of more than 0 such as 250ms, 2s or 1m30s, got %v", v)
	}
	return d
}

// registered returns the function that v names, one of those that were given by option. wanted says
// what v must be, and words are the names that need no function.
func registered[F any](r *reader, v value, wanted string, functions map[string]F, option string, words ...string) (f F, ok bool) {
	f, ok = functions[v.text]
	switch {
	case v.kind != text:
		r.fault(v, "must be %s, got %v", wanted, v)
		return f, false
	case !ok:
		all := slices.Sorted(slices.Values(slices.AppendSeq(words, maps.Keys(functions))))
		known := "none is known"
		if len(all) > 0 {
			known = "known are " + strings.Join(all, ", ")
		}
		r.fault(v, "nothing is named %v%s; %s; the program adds names by %s", v, suggestion(v.text, all), known, option)
	}
	return f, ok
}

// call returns the result of make, which calls a function of httplimit that panics if its
// arguments are wrong. That is a fault of v.
func call[T any](r *reader, v value, make func() T) (made T, ok bool) {
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case string:
			r.fault(v, "%s", strings.TrimPrefix(fault, "httplimit: "))
		default:
			panic(fault)
		}
	}()
	return make(), true
}

// checkQuotas records that a policy before has a quota of the same name as p, which v is.
func (r *reader) checkQuotas(v value, p httplimit.Policy) {
	for _, name := range quota.Names(p.Name, p.Limits, p.Plans) {
		owner, taken := r.quotas[name]
		if taken && owner != v.path {
			r.fault(v.named("name"), "a quota would be named %s, and one of %s is", quote(name), owner)
			return
		}
		r.quotas[name] = v.path
	}
}
