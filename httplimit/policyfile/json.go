package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// parseJSON returns the value in a file of JSON. Each error is a syntaxError.
func parseJSON(data []byte) (*node, error) {
	r := &jsonReader{data: data, tokens: json.NewDecoder(bytes.NewReader(data)), place: place{1, 1}}
	r.tokens.UseNumber()
	if err := r.check(); err != nil {
		return nil, err
	}
	return r.value(0)
}

// A jsonReader reads nodes from JSON.
type jsonReader struct {
	budget
	data   []byte
	tokens *json.Decoder
	// The place of the byte at offset. Places are asked for from the first to the last, so
	// that each byte is looked at once.
	offset int
	place  place
}

// check returns the first error in the syntax of the whole data. The tokens of data without one
// have no errors, either.
func (r *jsonReader) check() error {
	if !utf8.Valid(r.data) {
		valid := 0
		for c, size := utf8.DecodeRune(r.data); c != utf8.RuneError || size > 1; c, size = utf8.DecodeRune(r.data[valid:]) {
			valid += size
		}
		return atPlace(r.placeOf(valid), errors.New("not UTF-8"))
	}
	var all json.RawMessage
	err := json.Unmarshal(r.data, &all)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		// The offset is that after the byte that is wrong, or the end.
		wrong := max(0, int(syntax.Offset)-1)
		if c, size := utf8.DecodeRune(r.data[wrong:]); size > 1 {
			err = fmt.Errorf("invalid character %q", c) // and not only its first byte
		}
		return atPlace(r.placeOf(wrong), err)
	}
	return atPlace(place{1, 1}, err)
}

// placeOf returns the place of the byte at offset, which must not be before the offset of the last
// call.
func (r *jsonReader) placeOf(offset int) place {
	r.place, r.offset = r.place.after(r.data[r.offset:offset]), offset
	return r.place
}

// next returns the next token and its place.
func (r *jsonReader) next() (json.Token, place, error) {
	begin := int(r.tokens.InputOffset())
	for begin < len(r.data) && bytes.IndexByte([]byte(" \t\r\n,:"), r.data[begin]) >= 0 {
		begin++
	}
	at := r.placeOf(begin)
	token, err := r.tokens.Token()
	return token, at, atPlace(at, err)
}

// value reads a value in depth lists and mappings.
func (r *jsonReader) value(depth int) (*node, error) {
	token, at, err := r.next()
	if err != nil {
		return nil, err
	}
	n := &node{place: at}
	switch t := token.(type) {
	case json.Delim:
		n.kind = list
		if t == '{' {
			n.kind = mapping
		}
	case string:
		n.kind, n.text = text, t
	case json.Number:
		n.kind, n.text = number, t.String()
	case bool:
		n.kind, n.text = boolean, "false"
		if t {
			n.text = "true"
		}
	case nil:
		n.kind = null
	}
	if err := r.spend(depth, n.text); err != nil {
		return nil, atPlace(at, err)
	}
	if n.kind == list || n.kind == mapping {
		return n, r.contents(n, depth+1)
	}
	return n, nil
}

// contents reads the contents of the list or mapping n, and what closes it.
func (r *jsonReader) contents(n *node, depth int) error {
	for r.tokens.More() {
		var e entry
		if n.kind == mapping {
			token, at, err := r.next()
			if err != nil {
				return err
			}
			e.name, e.place = token.(string), at
			if err := r.spend(depth, e.name); err != nil {
				return atPlace(at, err)
			}
		}
		value, err := r.value(depth)
		if err != nil {
			return err
		}
		if n.kind == mapping {
			e.value = value
			n.entries = append(n.entries, e)
		} else {
			n.items = append(n.items, value)
		}
	}
	_, _, err := r.next()
	return err
}
