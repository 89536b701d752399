package policies

import (
	"encoding/binary"
	"net/http"
	"strconv"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
	"github.com/seed-30da4c49/sash/internal/policytree"
)

// A Key says by what the clients of a policy are told apart.
type Key struct {
	Place
	Kind
	Name    string  // of a header or a function
	Address Address // of ByAddress
	Parts   []Key   // of Joined and FirstOf
}

// A Kind is the kind of a Key.
type Kind uint8

const (
	ByAddress Kind = iota
	ByHeader
	ByRoute
	Everyone
	Joined
	FirstOf
	ByFunction // of the program
)

// An Address is where the address of a client is, and how much of it counts.
type Address struct {
	Proxies      []string // the networks of trusted proxies
	Hops         bool     // whether proxies are trusted by their number
	Socket       bool     // whether Unix sockets are trusted
	Header       string   // that is read behind trusted proxies
	Bits4, Bits6 int
}

// Behind reports whether a proxy is trusted.
func (a *Address) Behind() bool { return len(a.Proxies) > 0 || a.Hops || a.Socket }

func (r *reader) key(n *policytree.Node) Key {
	k := Key{Place: placeOf(n)}
	switch {
	case isText(n):
		return r.named(k, n)
	case n.Field("address") != nil:
		k.Kind, k.Address = ByAddress, addressOf(n.Field("address"))
	case n.Field("header") != nil:
		k.Kind, k.Name = ByHeader, headerOf(n)
	case n.Field("join") != nil:
		k.Kind, k.Parts = Joined, r.keys(n.Field("join"))
	case n.Field("first-of") != nil:
		k.Kind, k.Parts = FirstOf, r.keys(n.Field("first-of"))
	}
	return k
}

// named returns k as the key that the text n names.
func (r *reader) named(k Key, n *policytree.Node) Key {
	switch n.Text {
	case "address":
		k.Kind, k.Address = ByAddress, addressOf(nil)
	case "route":
		k.Kind = ByRoute
	case "everyone":
		k.Kind = Everyone
	default:
		k.Kind, k.Name = ByFunction, n.Text
		r.function("WithKey", n)
	}
	return k
}

func (r *reader) keys(list *policytree.Node) (all []Key) {
	for _, n := range list.Each() {
		all = append(all, r.key(n))
	}
	return all
}

func addressOf(n *policytree.Node) Address {
	a := Address{Header: "X-Forwarded-For", Bits4: 32, Bits6: 64}
	if n == nil {
		return a
	}
	a.Proxies = texts(n.Field("trust-proxies"))
	a.Hops = n.Field("trust-hops") != nil
	a.Socket = isTrue(n.Field("trust-unix-socket"))
	if isTrue(n.Field("read-forwarded")) {
		a.Header = "Forwarded"
	}
	if name := n.Field("read-header"); name != nil {
		a.Header = http.CanonicalHeaderKey(name.Text)
	}
	setNumber(&a.Bits4, n.Field("ipv4-prefix"))
	setNumber(&a.Bits6, n.Field("ipv6-prefix"))
	return a
}

func isTrue(n *policytree.Node) bool { return n != nil && n.Text == "true" }

func setNumber(to *int, n *policytree.Node) {
	if n == nil {
		return
	}
	if number, err := strconv.Atoi(n.Text); err == nil {
		*to = number
	}
}

// IsAddress reports whether k is the address of the client, and nothing else.
func (k *Key) IsAddress() bool { return k.Kind == ByAddress }

// All calls yield for k and each key in it, until yield returns false.
func (k *Key) All(yield func(*Key) bool) {
	var walk func(*Key) bool
	walk = func(k *Key) bool {
		if !yield(k) {
			return false
		}
		for i := range k.Parts {
			if !walk(&k.Parts[i]) {
				return false
			}
		}
		return true
	}
	walk(k)
}

// NameOf returns the identity of k in a form for people. No two identities have one name.
func (k *Key) NameOf(identity string) string { return string(k.appendName(nil, identity)) }

func (k *Key) appendName(name []byte, identity string) []byte {
	switch k.Kind {
	case ByAddress:
		return traffic.AppendAddress(name, identity, k.Address.Bits4, k.Address.Bits6)
	case Everyone:
		return append(name, "everyone"...)
	case ByHeader:
		name = append(append(name, k.Name...), '=')
		return traffic.AppendValue(name, identity)
	case ByRoute:
		return traffic.AppendValue(append(name, "route="...), identity)
	case Joined:
		for i := range k.Parts {
			length, n := binary.Uvarint([]byte(identity))
			part := identity[n : n+int(length)]
			if identity = identity[n+int(length):]; i > 0 {
				name = append(name, ' ')
			}
			name = k.Parts[i].appendName(name, part)
		}
		return name
	case FirstOf:
		choice, n := binary.Uvarint([]byte(identity))
		if k.alike(int(choice)) {
			name = strconv.AppendUint(append(name, "choice "...), choice+1, 10)
			name = append(name, ": "...)
		}
		return k.Parts[choice].appendName(name, identity[n:])
	}
	return traffic.AppendValue(name, identity)
}

// alike reports whether the name of an identity of the choice may also be the name of another choice's.
func (k *Key) alike(choice int) bool {
	for i := range k.Parts[:choice] {
		a, b := &k.Parts[i], &k.Parts[choice]
		if a.Kind == b.Kind && a.Name == b.Name || len(a.Parts)+len(b.Parts) > 0 {
			return true
		}
	}
	return false
}
