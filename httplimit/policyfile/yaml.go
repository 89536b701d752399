package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"
)

// parseYAML returns the value in a file of YAML, which has one document. Each error is a
// syntaxError.
func parseYAML(data []byte) (_ *node, err error) {
	defer func() {
		// The library promises not to panic. It cuts text into tokens by hand, and has panicked
		// in the past.
		if fault := recover(); fault != nil {
			err = atPlace(place{1, 1}, fmt.Errorf("not YAML: %v", fault))
		}
	}()
	documents, err := yaml.NewLoader(bytes.NewReader(data))
	if err != nil {
		return nil, atPlace(place{1, 1}, err)
	}
	var first, second yaml.Node
	switch err := documents.Load(&first); {
	case errors.Is(err, io.EOF):
		return &node{place: place{1, 1}}, nil // nothing but comments
	case err != nil:
		return nil, yamlFault(data, err)
	}
	if first.Kind != yaml.DocumentNode || len(first.Content) != 1 {
		return nil, atPlace(place{1, 1}, errors.New("not a document of YAML"))
	}
	root, err := new(yamlReader).node(first.Content[0], 0)
	if err != nil {
		return nil, err
	}
	switch err := documents.Load(&second); {
	case errors.Is(err, io.EOF):
		return root, nil
	case err != nil:
		return nil, yamlFault(data, err)
	}
	return nil, atPlace(place{max(1, second.Line), max(1, second.Column)}, errors.New("a second document: a file has one"))
}

// yamlFault returns the error of the library with its place.
func yamlFault(data []byte, err error) error {
	var fault *yaml.LoadError
	if !errors.As(err, &fault) {
		return atPlace(place{1, 1}, err)
	}
	if fault.Mark.Line == 0 { // no text at all: Index counts bytes
		return atPlace(place{1, 1}.after(data[:min(fault.Mark.Index, len(data))]), errors.New(fault.Message))
	}
	message := fault.Message
	if begin := fault.ContextMark.Line; 0 < begin && begin < fault.Mark.Line {
		message = fmt.Sprintf("%s that begins in line %d: %s", fault.ContextMsg, begin, message)
	} else if fault.ContextMsg != "" {
		message = fault.ContextMsg + ": " + message
	}
	if all, i := []rune(string(data)), fault.Mark.Index; 0 <= i && i < len(all) && all[i] == '\t' {
		message += ": a tab, where YAML wants spaces"
	}
	return atPlace(place{fault.Mark.Line, max(1, fault.Mark.Column)}, errors.New(message))
}

// A yamlReader makes nodes of the library's.
type yamlReader struct{ budget }

// yamlKinds are the tags that values without a tag of their own are given. A date is text, as in
// YAML 1.2.
var yamlKinds = map[string]kind{
	"!!str": text, "!!timestamp": text, "!!int": number, "!!float": number, "!!bool": boolean, "!!null": null,
	"!!merge": text, "!!seq": list, "!!map": mapping,
}

// node returns y as a node that is in depth lists and mappings. An alias becomes what it stands
// for, with the place of that.
func (r *yamlReader) node(y *yaml.Node, depth int) (*node, error) {
	n := &node{place: place{y.Line, y.Column}}
	if err := r.spend(depth, y.Value); err != nil {
		return nil, atPlace(n.place, err)
	}
	if y.Kind == yaml.AliasNode {
		return r.node(y.Alias, depth) // which may be what the alias is in: then it becomes too deep
	}
	known, ok := yamlKinds[y.ShortTag()]
	if !ok || y.Style&yaml.TaggedStyle != 0 {
		return nil, atPlace(n.place, fmt.Errorf("values have no tags here, got %s", quote(y.ShortTag())))
	}
	n.kind, n.text = known, y.Value
	if plain := y.Kind == yaml.ScalarNode && y.Style == 0; plain && known == text && json.Valid([]byte(y.Value)) {
		n.kind = number // one that is out of the range of a float, such as 1E400
	}
	switch y.Kind {
	case yaml.SequenceNode:
		return n, r.items(n, y, depth+1)
	case yaml.MappingNode:
		return n, r.entries(n, y, depth+1)
	}
	return n, nil
}

// items reads the items of the list n.
func (r *yamlReader) items(n *node, y *yaml.Node, depth int) error {
	for _, item := range y.Content {
		value, err := r.node(item, depth)
		if err != nil {
			return err
		}
		n.items = append(n.items, value)
	}
	return nil
}

// entries reads the entries of the mapping n.
func (r *yamlReader) entries(n *node, y *yaml.Node, depth int) error {
	for i := 0; i+1 < len(y.Content); i += 2 {
		e, err := r.entry(y.Content[i], y.Content[i+1], depth)
		if err != nil {
			return err
		}
		n.entries = append(n.entries, e)
	}
	return nil
}

// entry reads a name and its value in a mapping.
func (r *yamlReader) entry(name, of *yaml.Node, depth int) (e entry, err error) {
	if name.Kind == yaml.ScalarNode && name.ShortTag() == "!!merge" {
		return e, atPlace(place{name.Line, name.Column}, errors.New(`"<<" does not merge here: use an alias as a whole value`))
	}
	key, err := r.node(name, depth)
	if err != nil {
		return e, err
	}
	if key.kind != text {
		return e, atPlace(key.place, fmt.Errorf("a name must be text, got %v: write it in quotes", key))
	}
	value, err := r.node(of, depth)
	return entry{key.place, key.text, value}, err
}
