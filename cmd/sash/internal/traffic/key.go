package traffic

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-30da4c49/sash/httplimit"
)

// Fields that most logs have. A format may have others, under the names of its own.
const (
	Addr      = "addr"
	forwarded = "forwarded" // X-Forwarded-For
)

// A Key is the fields that identify a client.
type Key []keyField

// A keyField is a field, and the numbers of leading bits of an address that count. They are 0
// if all do.
type keyField struct {
	name         string
	bits4, bits6 int
	orName       bool // whether a value that is no address, such as the name of a host, counts as it is
}

// nothing is what -key takes for an empty Key.
const nothing = "none"

// ParseKey parses fields joined by commas, or "none". Its error names every wrong one.
func ParseKey(s string) (Key, error) {
	if strings.TrimSpace(s) == nothing {
		return Key{}, nil
	}
	var k Key
	var faults []error
	for text := range strings.SplitSeq(s, ",") {
		f, err := parseKeyField(strings.TrimSpace(text))
		switch {
		case err != nil:
			faults = append(faults, err)
		case f.name == "":
			faults = append(faults, fmt.Errorf("-key: %s has a field without a name", Clip(s)))
		case slices.ContainsFunc(k, func(g keyField) bool { return g.name == f.name }):
			faults = append(faults, fmt.Errorf("-key: %s is named twice", f.name))
		default:
			k = append(k, f)
		}
	}
	return k, errors.Join(faults...)
}

// parseKeyField parses a name, or a name with one or two numbers of bits such as addr/64 and
// addr/24/64.
func parseKeyField(s string) (keyField, error) {
	parts := strings.Split(s, "/")
	bits := []int{}
	for len(parts) > 1 && len(bits) < 2 {
		n, err := strconv.Atoi(parts[len(parts)-1])
		if err != nil {
			break
		}
		bits = append([]int{n}, bits...)
		parts = parts[:len(parts)-1]
	}
	f := keyField{name: strings.Join(parts, "/")}
	switch len(bits) {
	case 0:
		return f, nil
	case 1:
		f.bits4, f.bits6 = 32, bits[0]
	case 2:
		f.bits4, f.bits6 = bits[0], bits[1]
	}
	if f.bits4 < 1 || f.bits4 > 32 || f.bits6 < 1 || f.bits6 > 128 {
		return f, fmt.Errorf("-key: %s: an address has from 1 to 128 bits, and an IPv4 address to 32: want %s/64 or %s/24/64", s, f.name, f.name)
	}
	return f, nil
}

// Name returns the name of the field.
func (f keyField) Name() string { return f.name }

// Networks returns how many leading bits of an IPv4 and of an IPv6 address identify a client. It
// reports false if the value counts whole, whatever it is.
func (f keyField) Networks() (bits4, bits6 int, ok bool) {
	switch {
	case f.bits6 > 0:
		return f.bits4, f.bits6, true
	case f.name == Addr:
		return 32, 128, true
	}
	return 0, 0, false
}

func (f keyField) String() string {
	switch {
	case f.bits6 == 0:
		return f.name
	case f.bits4 == 32:
		return fmt.Sprintf("%s/%d", f.name, f.bits6)
	}
	return fmt.Sprintf("%s/%d/%d", f.name, f.bits4, f.bits6)
}

func (k Key) String() string {
	names := make([]string, len(k))
	for i, f := range k {
		names[i] = f.String()
	}
	return strings.Join(names, ",")
}

// address returns the address in the name of a client, and reports whether k has one.
func (k Key) address(client string) (string, bool) {
	for _, f := range k {
		value := client
		if quoted, err := strconv.QuotedPrefix(client); err == nil {
			value = quoted
		} else if i := strings.IndexByte(client, ' '); i >= 0 {
			value = client[:i]
		}
		if f.name == Addr {
			return value, true
		}
		client = strings.TrimPrefix(client[len(value):], " ")
	}
	return "", false
}

func (k Key) hasAddr() bool { return k.Has(Addr) }

// Has reports whether k has a field of that name.
func (k Key) Has(name string) bool {
	return slices.ContainsFunc(k, func(f keyField) bool { return f.name == name })
}

// clients returns what names clients by k, with addr behind proxies of the trusted networks.
func (k Key) clients(trusted []netip.Prefix) (all []clientName, err error) {
	defer func() {
		if p := recover(); p != nil { // httplimit panics if a network cannot be trusted
			err = errors.New(strings.TrimPrefix(fmt.Sprint(p), "httplimit: "))
		}
	}()
	for _, f := range k {
		c := clientName{keyField: f}
		_, _, networks := f.Networks()
		switch {
		case f.name == Addr && len(trusted) > 0:
			c.find(httplimit.TrustProxies(trusted...))
		case networks:
			c.orName = c.orName || f.bits6 == 0 // a name is a client, too
			c.find()
		}
		all = append(all, c)
	}
	return all, nil
}

// A clientName appends the value of one field of a key. If byAddress is set, it is the one that
// a httplimit.Policy of that key would use.
type clientName struct {
	keyField
	byAddress httplimit.KeyFunc
	request   *http.Request
	header    []string
	buf       []byte
}

// find sets byAddress with the options and the bits of the field.
func (c *clientName) find(options ...httplimit.AddressOption) {
	c.bits4, c.bits6, _ = c.Networks()
	c.byAddress = httplimit.ByAddress(append(options, httplimit.IPv4Prefix(c.bits4), httplimit.IPv6Prefix(c.bits6))...)
	c.header = make([]string, 1)
	c.request = &http.Request{Header: http.Header{"X-Forwarded-For": c.header}}
}

// append appends the i-th value of a name. The field has this value, and the header
// X-Forwarded-For is the list.
func (c *clientName) append(name []byte, i int, value, list string) ([]byte, error) {
	if list == "-" {
		list = ""
	}
	if c.byAddress == nil || c.orName && list == "" && !isAddress(value) {
		return appendValue(name, i, value), nil
	}
	c.request.RemoteAddr, c.header[0] = value, list
	c.request.Header["X-Forwarded-For"] = c.header[:min(len(list), 1)]
	key, ok := c.byAddress(c.buf[:0], c.request)
	c.buf = key
	if !ok && list != "" {
		return name, fmt.Errorf("%s %s with X-Forwarded-For %s tells no address, which -key wants", c.name, Clip(value), Clip(list))
	}
	if !ok {
		return name, fmt.Errorf("%s %s is no address, which -key %v wants", c.name, Clip(value), c.keyField)
	}
	if i > 0 {
		name = append(name, ' ')
	}
	return AppendAddress(name, string(key), c.bits4, c.bits6), nil
}

// AppendAddress appends the text of a key that httplimit.ByAddress has made: 4 or 6, the bytes of
// the network, and the zone of a link-local address; or l for a client without an address.
func AppendAddress(name []byte, key string, bits4, bits6 int) []byte {
	if key == "l" {
		return append(name, "local"...)
	}
	if key[0] == '4' {
		var four [4]byte
		copy(four[:], key[1:])
		return appendNetwork(name, netip.AddrFrom4(four), bits4, 32)
	}
	var sixteen [16]byte
	copy(sixteen[:], key[1:])
	addr := netip.AddrFrom16(sixteen)
	if binary.BigEndian.Uint16(sixteen[:])>>6 == 0xfe80>>6 { // a link-local address counts whole
		bits6 = 128
		addr = addr.WithZone(key[min(len(key), 17):])
	}
	return appendNetwork(name, addr, bits6, 128)
}

func appendNetwork(name []byte, addr netip.Addr, bits, all int) []byte {
	name = addr.AppendTo(name)
	if bits < all {
		name = strconv.AppendInt(append(name, '/'), int64(bits), 10)
	}
	return name
}

// appendValue appends the i-th value of a name. Values are separated by spaces. One that is not
// plain is quoted. So no two clients share a name, and every name can be shown on a terminal.
func appendValue(name []byte, i int, v string) []byte {
	if i > 0 {
		name = append(name, ' ')
	}
	return AppendValue(name, v)
}

// AppendValue appends a value, in quotes if it is not plain.
func AppendValue(name []byte, v string) []byte {
	if v == "" {
		v = "-" // as servers write it
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
