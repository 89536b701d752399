package traffic

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Key is the fields of a log that identify a client.
type Key []field

// ParseKey parses fields joined by commas. Its error names every wrong one.
func ParseKey(s string) (Key, error) {
	var k Key
	var faults []error
	for name := range strings.SplitSeq(s, ",") {
		i := slices.Index(FieldNames[:], strings.TrimSpace(name))
		switch {
		case i < 0:
			faults = append(faults, fmt.Errorf("-key: no field %s, want some of %s", Clip(name), strings.Join(FieldNames[:], " ")))
		case slices.Contains(k, field(i)):
			faults = append(faults, fmt.Errorf("-key: %s is named twice", FieldNames[i]))
		default:
			k = append(k, field(i))
		}
	}
	return k, errors.Join(faults...)
}

func (k Key) String() string {
	names := make([]string, len(k))
	for i, f := range k {
		names[i] = f.String()
	}
	return strings.Join(names, ",")
}

// missing returns the first field of k that a format does not have; ok is false if it has
// all.
func (k Key) missing(g format) (f field, ok bool) {
	i := slices.IndexFunc(k, func(f field) bool { return !f.in(g) })
	if i < 0 {
		return 0, false
	}
	return k[i], true
}

// appendName appends the name of the client of r: the key's fields, separated by spaces. A
// value that is not plain is quoted. So no two clients share a name, and every name can be
// shown on a terminal.
func (k Key) appendName(name []byte, r *record) []byte {
	for i, f := range k {
		name = appendValue(name, i, r.fields[f])
	}
	return name
}

// appendValue appends the i-th value of a name.
func appendValue(name []byte, i int, v string) []byte {
	if i > 0 {
		name = append(name, ' ')
	}
	if plain(v) {
		return append(name, v...)
	}
	return strconv.AppendQuote(name, v)
}

// plain reports whether v consists of visible ASCII without quotes and backslashes.
func plain(v string) bool {
	for i := range len(v) {
		if c := v[i]; c <= ' ' || c >= 0x7f || c == '"' || c == '\\' {
			return false
		}
	}
	return true
}
