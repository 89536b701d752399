// Package policytree gives cmd/sash the values that package policyfile reads in a file, before it makes
// policies of them. A policy consists of functions, which do not tell what they were made of.
package policytree

// A Node is a value in a file.
type Node struct {
	Line, Column int // from 1; columns are characters
	Kind         Kind
	Text         string  // of a scalar: text without quotes and escapes, others as they stand in the file
	Items        []*Node // of a list
	Entries      []Entry // of a mapping, in the order of the file
}

// An Entry is a name in a mapping, with its value.
type Entry struct {
	Name  string
	Value *Node
}

// A Kind is the kind of a Node.
type Kind uint8

const (
	Scalar Kind = iota // a number, true, false or nothing
	Text
	List
	Mapping
)

// Parse returns the value in data, as policyfile.Parse reads it, with aliases replaced by what they stand
// for. If the data is no YAML or JSON, it returns the error that policyfile.Parse returns. Package policyfile
// sets Parse when it is initialized.
var Parse func(name string, data []byte) (*Node, error)

// Field returns the value of that name in the mapping n, or nil. n may be nil, or no mapping.
func (n *Node) Field(name string) *Node {
	if n == nil {
		return nil
	}
	for _, e := range n.Entries {
		if e.Name == name {
			return e.Value
		}
	}
	return nil
}

// Each returns the items of the list n, or n itself if it is no list. n may be nil, which has none.
func (n *Node) Each() []*Node {
	switch {
	case n == nil:
		return nil
	case n.Kind == List:
		return n.Items
	}
	return []*Node{n}
}
