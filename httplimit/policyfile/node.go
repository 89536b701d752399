package policyfile

import (
	"errors"
	"fmt"
	"strconv"
)

// Bounds of a file. They bound the time and memory that any file can cost.
const (
	maxBytes = 1 << 20 // of a file
	maxNodes = 1 << 17 // values and names in a file, with each use of an alias counted anew
	maxDepth = 64      // lists and mappings in each other
	maxText  = 512     // bytes of one value or name, since an alias may repeat it
	maxName  = 128     // bytes of the name of a policy or plan, and of a unit: each limit repeats them
)

// A place is a place in a file: a line, and a column in characters, both from 1.
type place struct{ line, column int }

// after returns the place that follows s, which begins at p.
func (p place) after(s []byte) place {
	for _, c := range string(s) {
		p.column++
		if c == '\n' {
			p = place{p.line + 1, 1}
		}
	}
	return p
}

// A kind is the kind of a node.
type kind uint8

const (
	null kind = iota
	text
	number
	boolean
	list
	mapping
)

// A node is a value in a file. JSON and YAML are both read into nodes.
type node struct {
	place
	kind    kind
	text    string  // a scalar: text without quotes and escapes, others as they stand in the file
	items   []*node // of a list
	entries []entry // of a mapping, in the order of the file; names may be given several times
}

// An entry is a name in a mapping, with its value.
type entry struct {
	place // of the name
	name  string
	value *node
}

// String describes n for messages.
func (n *node) String() string {
	switch n.kind {
	case null:
		return "nothing"
	case text:
		return quote(n.text)
	case list:
		return "a list"
	case mapping:
		return "a mapping"
	case number, boolean:
		return cut(n.text)
	}
	panic("policyfile: unknown kind of node")
}

// maxQuoted is how much of a text from the file a message quotes, in bytes.
const maxQuoted = 64

func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.Quote(s[:maxQuoted]) + "..."
	}
	return strconv.Quote(s)
}

func cut(s string) string {
	if len(s) > maxQuoted {
		return s[:maxQuoted] + "..."
	}
	return s
}

// A budget bounds the nodes of a file.
type budget struct{ nodes int }

// spend counts a value or a name with that text, which is so deep in lists and mappings. It
// returns an error if there are too many, or if it is too deep or too long.
func (b *budget) spend(depth int, text string) error {
	if b.nodes++; b.nodes > maxNodes {
		return fmt.Errorf("more than %d values, counting each use of an alias", maxNodes)
	}
	if depth > maxDepth {
		return fmt.Errorf("more than %d lists and mappings in each other", maxDepth)
	}
	if len(text) > maxText {
		return fmt.Errorf("longer than %d bytes: %s", maxText, quote(text))
	}
	return nil
}

// A syntaxError is why a file cannot be read at all.
type syntaxError struct {
	place
	err error
}

func (e *syntaxError) Error() string { return e.err.Error() }

// atPlace returns err as a syntaxError at p. If it is one already, its own place stays.
func atPlace(p place, err error) error {
	var placed *syntaxError
	if err == nil || errors.As(err, &placed) {
		return err
	}
	return &syntaxError{p, err}
}
