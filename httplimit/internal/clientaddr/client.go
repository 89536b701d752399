// Package clientaddr finds the address of a client behind trusted proxies, and makes an identity of it.
package clientaddr

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
)

// Options tell where the address of a client is, and how much of it identifies the client.
type Options struct {
	Sockets  bool     // whether Unix sockets are trusted
	Hops     int      // number of trusted hops, instead of networks; 0: none
	Single   bool     // whether the header holds one address and no list
	IPv4Bits int      // leading bits of an IPv4 address that identify a client
	IPv6Bits int      // the same for an IPv6 address
	Given    []string // names of the options given that choose the source of the address

	trusted []netip.Prefix // networks of trusted proxies; IPv4 is not mapped
	names   []string       // names of the headers to read, as they were given
	header  string         // canonical name of the header to read; empty: X-Forwarded-For
}

// Give notes that an option of that name chooses the source of the address, and returns o.
func (o *Options) Give(option string) *Options {
	o.Given = append(o.Given, option)
	return o
}

// Trust trusts proxies in those networks.
func (o *Options) Trust(networks []netip.Prefix) {
	for _, n := range networks {
		if n.Addr().Is4In6() && n.Bits() >= 96 {
			n = netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96)
		}
		o.trusted = append(o.trusted, n)
	}
}

// Read sets the header to read to name, and returns o.
func (o *Options) Read(name string) *Options {
	o.names = append(o.names, name)
	o.header = textproto.CanonicalMIMEHeaderKey(name)
	return o
}

// Check panics if options contradict each other, or if one has no effect.
func (o *Options) Check() {
	fault := func(format string, args ...any) { panic("httplimit: ByAddress: " + fmt.Sprintf(format, args...)) }
	given := func(option string) bool { return slices.Contains(o.Given, option) }
	for _, name := range o.names {
		if !strings.EqualFold(name, o.names[0]) {
			fault("only one header is read: it cannot be both %s and %s", o.names[0], name)
		}
	}
	switch trusting := given("TrustProxies") || o.Sockets; {
	case o.Hops > 0 && given("TrustProxies"):
		fault("TrustHops trusts proxies by their number, and TrustProxies by their networks: give one of them")
	case o.Hops > 0 && o.Sockets:
		fault("TrustHops counts a Unix socket as it counts any other hop: TrustUnixSocket has no effect")
	case o.Hops > 0 && o.Single:
		fault("TrustHops trusts whatever connects, which could send any %s: ReadHeader needs TrustProxies or TrustUnixSocket", o.names[0])
	case o.Single && !trusting:
		fault("%s is read, but no proxy is trusted: give TrustProxies or TrustUnixSocket", o.names[0])
	case len(o.names) > 0 && !trusting && o.Hops == 0:
		fault("%s is read, but no proxy is trusted: give TrustProxies, TrustHops or TrustUnixSocket", o.names[0])
	}
}

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
	lines := r.Header[cmp.Or(o.header, "X-Forwarded-For")]
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
