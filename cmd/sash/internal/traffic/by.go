package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A By is the fields by which events are grouped. Events are of one group if AppendName gives their values one name.
//
// Invariant: if Where can say it, its conditions for the values of an event hold for the events of the group, and
// for no others.
type By []byField

// A byField is a field, and how much of its value counts.
type byField struct {
	name  string
	parts int // of a path its first segments, of a status its first digit; 0: all of the value
}

// ParseBy parses fields joined by commas. Its error names every wrong one.
func ParseBy(s string) (By, error) {
	var b By
	var faults []error
	for text := range strings.SplitSeq(s, ",") {
		f, err := parseByField(strings.TrimSpace(text))
		switch {
		case err != nil:
			faults = append(faults, err)
		case slices.ContainsFunc(b, func(g byField) bool { return g.name == f.name }):
			faults = append(faults, fmt.Errorf("-by: %s is named twice", f.name))
		default:
			b = append(b, f)
		}
	}
	return b, errors.Join(faults...)
}

// parseByField parses a name, or one with a number of parts such as path/2.
func parseByField(s string) (byField, error) {
	f := byField{name: s}
	if i := strings.LastIndexByte(s, '/'); i >= 0 {
		if n, err := strconv.Atoi(s[i+1:]); err == nil {
			f = byField{s[:i], n}
			if n < 1 || f.name != Path && (f.name != Status || n > 1) {
				return f, fmt.Errorf("-by: %s: only a path has parts, as in path/1 for its first segment or path/2 for two, and a status, as in status/1 for its class", Clip(s))
			}
		}
	}
	if f.name == "" || strings.Contains(f.name, "=") || strings.HasSuffix(f.name, "!") {
		return f, fmt.Errorf("-by: %s is no name of a field", Clip(s))
	}
	return f, nil
}

func (b By) String() string {
	names := make([]string, len(b))
	for i, f := range b {
		names[i] = f.String()
	}
	return strings.Join(names, ",")
}

func (f byField) String() string {
	if f.parts == 0 {
		return f.name
	}
	return fmt.Sprintf("%s/%d", f.name, f.parts)
}

// Parts returns how many parts of a field count: 0 if all of it does, and -1 if b does not have it.
func (b By) Parts(name string) int {
	for _, f := range b {
		if f.name == name {
			return f.parts
		}
	}
	return -1
}

// Fields returns the fields for Settings.Fields. A file without one of them is refused.
func (b By) Fields() (all []Field) {
	for _, f := range b {
		all = append(all, Field{f.name, "by " + b.String()})
	}
	return all
}

// AppendName appends the name of the group of an event with these values of Fields. Like the names of clients it
// can be shown on a terminal.
func (b By) AppendName(name []byte, values []string) []byte {
	for i, f := range b {
		text, _ := f.value(values[i])
		name = appendValue(name, i, text)
	}
	return name
}

// Where returns the conditions that the events of a group meet, by the values of one of them. It reports false if
// -where has no way to say them, such as for a path with a comma.
func (b By) Where(values []string) (all []Where, said bool) {
	said = true
	for i, f := range b {
		text, many := f.value(values[i])
		w := Where{f.name, false, []string{text}}
		switch {
		case strings.Contains(text, ","), strings.HasSuffix(text, "*") && !many, !w.holds(values[i]):
			said = false
		case !utf8.ValidString(text), strings.ContainsFunc(text, func(c rune) bool { return !unicode.IsPrint(c) }):
			said = false // it is printed as a part of commands
		}
		all = append(all, w)
	}
	return all, said
}

// value returns the value of -where that stands for value and all others of its group, and whether these may be
// many since they have a beginning in common.
func (f byField) value(value string) (text string, many bool) {
	value = cmp.Or(value, "-") // as servers write it
	switch {
	case f.name == Host:
		// A name stands for all its ports. What is no name with a port stands for itself.
		if host := hostOf(value); host != "" && !strings.Contains(host, ":") {
			return host, false
		}
	case f.name == Path:
		if tree := treeOf(value, f.parts); tree != "" {
			return tree + "*", true
		}
	case f.name == Status && f.parts > 0 && len(value) == 3:
		return value[:1] + "xx", true
	}
	return value, false
}

// treeOf returns the first n segments of a path and the slash after them, or "" if the path has no more than
// these, or n is 0.
func treeOf(path string, n int) string {
	if n == 0 || !strings.HasPrefix(path, "/") {
		return ""
	}
	end := 1
	for range n {
		i := strings.IndexByte(path[end:], '/')
		if i < 0 {
			return ""
		}
		end += i + 1
	}
	return path[:end]
}
