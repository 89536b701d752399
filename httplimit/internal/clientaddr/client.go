package clientaddr

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// local is the identity of all clients on connections without addresses.
const local = 'l'

// Append appends the identity of the client that made r. ok is false if it cannot be told.
func (o *Options) Append(key []byte, r *http.Request) (_ []byte, ok bool) {
	client, zone, ok := o.client(r)
	switch {
	case ok:
		return o.append(key, client, zone), true
	case len(o.given) == 0 && withoutAddress(r):
		return append(key, local), true
	}
	return key, false
}

// AppendText appends the identity of the client whose address is written in text.
func (o *Options) AppendText(key []byte, text string) (_ []byte, ok bool) {
	client, zone, ok := parseAddress(text)
	if !ok {
		return key, false
	}
	return o.append(key, client, zone), true
}

// client returns the address of the client that made r, and its zone.
func (o *Options) client(r *http.Request) (client netip.Addr, zone string, ok bool) {
	if o.hops > 0 {
		return o.hopAddress(r.Header[o.header])
	}
	switch client, zone, ok = parseAddress(r.RemoteAddr); {
	case o.sockets && throughUnixSocket(r):
		ok = false // unless the header names an address
	case !ok || !o.trusts(client):
		return client, zone, ok
	}
	lines := r.Header[o.header]
	if o.single && len(lines) > 0 {
		client, zone, ok = parseAddress(lines[0])
		return client, zone, ok && len(lines) == 1
	}
	// Walk from the right. The element to the right was written by a trusted proxy, so
	// this one is what that proxy saw.
	for i := len(lines) - 1; i >= 0; i-- {
		before, element, found := lines[i], "", true
		for found {
			before, element, found = o.cut(before)
			if client, zone, ok = o.parse(element); !ok || !o.trusts(client) {
				return client, zone, ok
			}
		}
	}
	return client, zone, ok
}

// hopAddress returns the address that the farthest of the trusted hops has written.
func (o *Options) hopAddress(lines []string) (client netip.Addr, zone string, ok bool) {
	left := o.hops
	for i := len(lines) - 1; i >= 0; i-- {
		before, element, found := lines[i], "", true
		for found {
			before, element, found = o.cut(before)
			if left--; left == 0 { // what is left of it may be forged
				return o.parse(element)
			}
		}
	}
	return client, "", false
}

// throughUnixSocket reports whether r has come through a Unix socket. It looks at the
// local address, since the remote end has none.
func throughUnixSocket(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && local.Network() == "unix"
}

// withoutAddress reports whether r has come through a connection whose ends have no addresses of
// the Internet.
func withoutAddress(r *http.Request) bool {
	end, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && !strings.HasPrefix(end.Network(), "tcp") && !strings.HasPrefix(end.Network(), "udp")
}

// trusts reports whether addr lies in a trusted network.
func (o *Options) trusts(addr netip.Addr) bool {
	for _, n := range o.trusted {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// cutLastElement cuts the last element off a line whose elements have no quotes.
func cutLastElement(line string) (before, element string, found bool) {
	if i := strings.LastIndexByte(line, ','); i >= 0 {
		return line[:i], line[i+1:], true
	}
	return "", line, false
}
