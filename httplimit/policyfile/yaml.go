package policyfile

import (
	"bytes"
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
	at := place{max(1, fault.Mark.Line), max(1, fault.Mark.Column)}
	message := fault.Message
	if fault.ContextMsg != "" {
		message = fault.ContextMsg + ": " + message
	}
	if i := fault.Mark.Index; 0 <= i && i < len(data) && data[i] == '\t' {
		message += ": a tab, where YAML wants spaces"
	}
	return atPlace(at, errors.New(message))
}

// A yamlReader makes nodes of those of the library.
type yamlReader struct{ budget }

// node returns y as a node that is in depth lists and mappings. An alias becomes what it stands
// for, with the place of that.
func (r *yamlReader) node(y *yaml.Node, depth int) (*node, error) {
	n := &node{place: place{y.Line, y.Column}}
	if err := r.spend(depth); err != nil {
		return nil, atPlace(n.place, err)
	}
	switch y.Kind {
	case yaml.AliasNode:
		return r.node(y.Alias, depth) // which may be what the alias is in: then it becomes too deep
	case yaml.ScalarNode:
		return n, r.scalar(n, y)
	case yaml.SequenceNode:
		n.kind = list
		return n, r.contents(n, y, depth+1)
	case yaml.MappingNode:
		n.kind = mapping
		return n, r.contents(n, y, depth+1)
	}
	return nil, atPlace(n.place, fmt.Errorf("not a value of YAML: kind %d", y.Kind))
}

// yamlKinds are the tags that values may have. A date is text, as in YAML 1.2.
var yamlKinds = map[string]kind{
	"!!str": text, "!!timestamp": text, "!!int": number, "!!float": number, "!!bool": boolean, "!!null": null,
	"!!merge": text, "!!seq": list, "!!map": mapping,
}

func (r *yamlReader) scalar(n *node, y *yaml.Node) error {
	known, err := kindOf(n, y)
	n.kind, n.text = known, y.Value
	if known == list || known == mapping {
		return atPlace(n.place, fmt.Errorf("%s is no %s", quote(y.Value), y.ShortTag()))
	}
	return err
}

func kindOf(n *node, y *yaml.Node) (kind, error) {
	known, ok := yamlKinds[y.ShortTag()]
	if !ok {
		return null, atPlace(n.place, fmt.Errorf("values have no tags here, got %s", quote(y.ShortTag())))
	}
	return known, nil
}

// contents reads the contents of the list or mapping n.
func (r *yamlReader) contents(n *node, y *yaml.Node, depth int) error {
	if known, err := kindOf(n, y); err != nil || known != n.kind {
		return atPlace(n.place, fmt.Errorf("values have no tags here, got %s", quote(y.ShortTag())))
	}
	if n.kind == list {
		for _, item := range y.Content {
			value, err := r.node(item, depth)
			if err != nil {
				return err
			}
			n.items = append(n.items, value)
		}
		return nil
	}
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
