package clientaddr

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Append appends the identity of the client that made r. ok is false if it cannot be told.
func (o *Options) Append(key []byte, r *http.Request) (_ []byte, ok bool) {
	client, zone, ok := o.client(r)
	if ok {
		return o.append(key, client, zone), true
	}
	network := networkOf(r)
	if len(o.Given) == 0 && !strings.HasPrefix(network, "tcp") && !strings.HasPrefix(network, "udp") {
		return append(key, 'l'), true // its ends have no addresses: all of these are one client
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
	if o.Hops == 0 {
		switch client, zone, ok = parseAddress(r.RemoteAddr); {
		case o.Sockets && networkOf(r) == "unix":
			ok = false // unless the header names an address
		case !ok || !o.trusts(client):
			return client, zone, ok
		}
	}
	lines := r.Header[o.header]
	if o.Single && len(lines) > 0 {
		client, zone, ok = parseAddress(lines[0])
		return client, zone, ok && len(lines) == 1
	}
	// Walk from the right. The element to the right was written by a trusted proxy, so this one is what
	// that proxy saw. What is left of the client may be forged.
	left, cut, parse := o.Hops, cutLastElement, parseAddress
	if o.header == "Forwarded" {
		cut, parse = cutLastForwarded, parseForwarded
	}
	for i := len(lines) - 1; i >= 0; i-- {
		before, element, found := lines[i], "", true
		for found {
			before, element, found = cut(before)
			if left--; left > 0 {
				continue // a hop that is counted, whatever its address
			}
			if client, zone, ok = parse(element); left == 0 || !ok || !o.trusts(client) {
				return client, zone, ok
			}
		}
	}
	return client, zone, ok // not ok if there are fewer hops
}

// networkOf returns the network of the local end of r's connection, "tcp" if it is not known.
func networkOf(r *http.Request) string {
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		return local.Network()
	}
	return "tcp"
}

// trusts reports whether addr lies in a trusted network.
func (o *Options) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(o.trusted, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// cutLastElement cuts the last element off a line without quotes. found is false if it is the only one.
func cutLastElement(line string) (before, element string, found bool) {
	if i := strings.LastIndexByte(line, ','); i >= 0 {
		return line[:i], line[i+1:], true
	}
	return "", line, false
}
