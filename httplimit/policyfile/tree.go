package policyfile

import "github.com/seed-30da4c49/sash/internal/policytree"

func init() { policytree.Parse = parseTree }

// parseTree returns the value in data for cmd/sash. Its error is an Errors.
func parseTree(name string, data []byte) (*policytree.Node, error) {
	r := &reader{file: name}
	root, err := r.parse(data)
	if err != nil {
		r.syntaxFault(err)
		return nil, r.errors()
	}
	return treeOf(root), nil
}

// treeOf returns n as cmd/sash reads it.
func treeOf(n *node) *policytree.Node {
	t := &policytree.Node{Line: n.line, Column: n.column, Text: n.text}
	switch n.kind {
	case text:
		t.Kind = policytree.Text
	case list:
		t.Kind = policytree.List
	case mapping:
		t.Kind = policytree.Mapping
	}
	for _, item := range n.items {
		t.Items = append(t.Items, treeOf(item))
	}
	for _, e := range n.entries {
		t.Entries = append(t.Entries, policytree.Entry{Name: e.name, Value: treeOf(e.value)})
	}
	return t
}
