package httplimit

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"
)

// ByAddress keys requests by the address of the client.
//
// Without options, that is the address of the connection. If the connection comes from
// a trusted proxy, the client is read from X-Forwarded-For, or from Forwarded under
// [ReadForwarded]. [TrustProxies] and [TrustUnixSocket] name the trusted proxies. All
// lines of the header are one list, and ByAddress walks it from the right, where the
// nearest proxy has written. It skips addresses in trusted networks. The first other
// address is the client; if there is none, the leftmost address is. ByAddress never
// reads the elements left of the client, since the client may have made them up.
//
// Two options change the walk, and one function replaces it:
//
//   - [TrustHops] trusts a number of hops instead of networks.
//   - [ReadHeader] reads a header with one address instead of a list.
//   - [ByAddressOf] lets a function find the address.
//
// The identity cannot be told if an element that is read is no address: an empty one, a
// host name, "unknown". ByAddress does not skip such an element, and does not guess.
//
// Clients of this machine, whose connections have no addresses, are one client together: those
// of a Unix socket, and those of bufconn or [net.Pipe] in tests. If one of them is a proxy, give
// [TrustUnixSocket], or all its clients share one quota. If any proxy is trusted, the identity of
// a connection without an address cannot be told.
//
// Addresses are keyed as follows. Ports are ignored.
//
//   - IPv4 clients are keyed by the whole address; see [IPv4Prefix].
//   - IPv4-mapped addresses and those of 64:ff9b::/96 (RFC 6052) are keyed by the IPv4
//     address in them.
//   - IPv6 clients are keyed by their /64, since each has that many addresses; see
//     [IPv6Prefix].
//   - Link-local clients (fe80::/10) are keyed by the whole address and its zone. Other
//     zones are dropped.
//
// The KeyFunc allocates nothing. ByAddress panics if an option is wrong, contradicts
// another one, or has no effect.
func ByAddress(options ...AddressOption) KeyFunc {
	a := newAddresses("ByAddress", options)
	a.check()
	trusting := len(a.given) > 0
	return func(key []byte, r *http.Request) ([]byte, bool) {
		client, zone, ok := a.client(r)
		switch {
		case ok:
			return a.append(key, client, zone), true
		case !trusting && withoutAddress(r):
			return append(key, local), true
		}
		return key, false
	}
}

// local is the identity of all clients on connections without addresses.
const local = 'l'

// ByAddressOf keys requests by the address that a function finds, such as one that an
// outer handler has put into the context, or that of the PROXY protocol. The text is
// read as [ByAddress] reads RemoteAddr, with or without a port, and keyed in the same
// way.
//
// The identity cannot be told if the function returns false, or text that is no
// address. The function must be safe for concurrent use, and must itself check the
// source of the address.
//
// The options are [IPv4Prefix] and [IPv6Prefix]. ByAddressOf panics if address is nil,
// or if it is given another option, since that would have no effect.
func ByAddressOf(address func(*http.Request) (string, bool), options ...AddressOption) KeyFunc {
	mustNotBeNil("ByAddressOf", address == nil)
	a := newAddresses("ByAddressOf", options)
	if len(a.given) > 0 {
		panic("httplimit: ByAddressOf: the function finds the address: " + a.given[0] + " has no effect")
	}
	return func(key []byte, r *http.Request) ([]byte, bool) {
		text, ok := address(r)
		if !ok {
			return key, false
		}
		client, zone, ok := parseAddress(text)
		if !ok {
			return key, false
		}
		return a.append(key, client, zone), true
	}
}

// An AddressOption configures [ByAddress].
type AddressOption func(*addresses)

// TrustProxies names the networks of your own proxies. Their word on the source of a
// request is believed, so name no other network. An IPv4 network is given as such or as
// IPv4-mapped. Given again, TrustProxies adds networks.
//
// It panics if a network is so wide that it must hold clients, each of which could then
// name any address:
//
//   - IPv4 wider than /8
//   - public IPv6 (2000::/3) wider than /16
//   - other IPv6 wider than /7
//
// If the addresses of the proxies are not known, give their number by [TrustHops].
func TrustProxies(networks ...netip.Prefix) AddressOption {
	for _, n := range networks {
		if !n.IsValid() {
			panic(fmt.Sprintf("httplimit: TrustProxies: not a network: %v", n))
		}
		if tooWide(n) {
			panic(fmt.Sprintf("httplimit: TrustProxies: %v is too wide: every client in it could name any address; "+
				"name the networks of your own proxies, from /8 for IPv4 and /16 for public IPv6, or their number by TrustHops if their addresses are not known", n))
		}
	}
	return func(a *addresses) {
		a.given = append(a.given, "TrustProxies")
		for _, n := range networks {
			a.trusted = append(a.trusted, unmapped(n))
		}
	}
}

// TrustHops trusts a number of proxies, at least 1, whatever their addresses: the one
// that connects to the server, the one that connects to that, and so on. It is for
// proxies of which only the number is known, such as those of a hosting platform.
//
// The client is then the address at that place of X-Forwarded-For, or of Forwarded
// under [ReadForwarded], counted from the right. The places right of it are counted and
// not read. If there are fewer places, the request has not come through all proxies,
// and the identity cannot be told. To count such requests (health checks, for example)
// by the address of the connection, use [FirstOf] with a ByAddress without options.
//
// Every request must come through all of these proxies. A client that can connect past
// one of them, or to the server itself, can name any address. Given again, the last
// holds.
func TrustHops(hops int) AddressOption {
	if hops < 1 {
		panic(fmt.Sprintf("httplimit: TrustHops: hops must be at least 1, got %d", hops))
	}
	return func(a *addresses) {
		a.given = append(a.given, "TrustHops")
		a.hops = hops
	}
}

// TrustUnixSocket treats every connection through a Unix socket as one from a trusted
// proxy. The other end of such a socket has no address. So the identity of its requests
// cannot be told if the header names no client.
func TrustUnixSocket() AddressOption {
	return func(a *addresses) {
		a.given = append(a.given, "TrustUnixSocket")
		a.sockets = true
	}
}

// ReadForwarded makes [ByAddress] read Forwarded (RFC 7239) instead of X-Forwarded-For.
// Only one of the two is ever read, since a proxy that writes one may pass the other on
// as the client wrote it. It needs [TrustProxies], [TrustHops] or [TrustUnixSocket].
func ReadForwarded() AddressOption {
	return func(a *addresses) {
		a.read("ReadForwarded", "Forwarded")
		a.cut, a.parse = cutLastForwarded, parseForwarded
	}
}

// ReadHeader makes [ByAddress] read a header that holds the address of the client and
// nothing else, instead of X-Forwarded-For: CF-Connecting-IP, X-Real-IP,
// True-Client-IP. It needs [TrustProxies] or [TrustUnixSocket], and only these proxies
// are believed. They must overwrite the header in the requests that they receive.
//
// The address in the header is the client, whether it is in a trusted network or not.
// If a trusted proxy sends no such header, the client is that proxy. If it sends
// several, or one that is no address, the identity cannot be told.
//
// ReadHeader panics if name is not the name of a header, or is the name of a list of
// addresses.
func ReadHeader(name string) AddressOption {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case !isToken(name) || canonical == "Host":
		panic(fmt.Sprintf("httplimit: ReadHeader: requests have no header %q", name))
	case canonical == "Forwarded" || canonical == "X-Forwarded-For":
		panic("httplimit: ReadHeader: " + canonical + " is a list of addresses: ByAddress reads X-Forwarded-For by default, and Forwarded with ReadForwarded")
	}
	return func(a *addresses) {
		a.read("ReadHeader", name)
		a.single = true
	}
}

// IPv4Prefix sets how many leading bits of an IPv4 address identify a client, from 1 to
// 32. The default is 32. With fewer bits, a client with a network of its own gets fewer
// quotas, and more neighbours share one. It also holds for the IPv4 addresses in IPv6
// addresses.
func IPv4Prefix(bits int) AddressOption {
	if bits < 1 || bits > 32 {
		panic(fmt.Sprintf("httplimit: IPv4Prefix: bits must be from 1 to 32, got %d", bits))
	}
	return func(a *addresses) { a.bits4 = uint(bits) }
}

// IPv6Prefix sets how many leading bits of an IPv6 address identify a client, from 1 to
// 128. The default is 64. Providers assign networks from /64 to /48. With fewer bits, a
// client with a network of its own gets fewer quotas, and more neighbours share one.
// Link-local addresses always count whole.
func IPv6Prefix(bits int) AddressOption {
	if bits < 1 || bits > 128 {
		panic(fmt.Sprintf("httplimit: IPv6Prefix: bits must be from 1 to 128, got %d", bits))
	}
	return func(a *addresses) { a.bits6 = bits }
}

// addresses is the compiled options of a [ByAddress].
type addresses struct {
	trusted []netip.Prefix // networks of trusted proxies; IPv4 is not mapped
	sockets bool           // whether Unix sockets are trusted
	hops    int            // number of trusted hops, instead of networks; 0: none
	bits4   uint           // leading bits of an IPv4 address that identify a client
	bits6   int            // the same for an IPv6 address
	header  string         // canonical name of the header to read
	single  bool           // whether the header holds one address and no list
	// cut cuts the last element off a line of the header. found is false if that was the
	// only element.
	cut func(line string) (before, element string, found bool)
	// parse reads the address in an element.
	parse func(element string) (addr netip.Addr, zone string, ok bool)

	given []string // names of the options given that choose the source of the address
	names []string // names of the headers to read, as they were given
}

// newAddresses applies the options of the function of that name to the defaults.
func newAddresses(name string, options []AddressOption) *addresses {
	a := &addresses{bits4: 32, bits6: 64, header: "X-Forwarded-For", cut: cutLastElement, parse: parseAddress}
	for _, option := range options {
		mustNotBeNil(name, option == nil)
		option(a)
	}
	return a
}

// read sets the header to read to name, on behalf of an option.
func (a *addresses) read(option, name string) {
	a.given = append(a.given, option)
	a.names = append(a.names, name)
	a.header = textproto.CanonicalMIMEHeaderKey(name)
}

// check panics if options contradict each other, or if one has no effect.
func (a *addresses) check() {
	fault := func(format string, args ...any) { panic("httplimit: ByAddress: " + fmt.Sprintf(format, args...)) }
	given := func(option string) bool { return slices.Contains(a.given, option) }
	for _, name := range a.names {
		if !strings.EqualFold(name, a.names[0]) {
			fault("only one header is read: it cannot be both %s and %s", a.names[0], name)
		}
	}
	switch trusting := given("TrustProxies") || a.sockets; {
	case a.hops > 0 && given("TrustProxies"):
		fault("TrustHops trusts proxies by their number, and TrustProxies by their networks: give one of them")
	case a.hops > 0 && a.sockets:
		fault("TrustHops counts a Unix socket as it counts any other hop: TrustUnixSocket has no effect")
	case a.hops > 0 && a.single:
		fault("TrustHops trusts whatever connects, which could send any %s: ReadHeader needs TrustProxies or TrustUnixSocket", a.names[0])
	case a.single && !trusting:
		fault("%s is read, but no proxy is trusted: give TrustProxies or TrustUnixSocket", a.names[0])
	case len(a.names) > 0 && !trusting && a.hops == 0:
		fault("%s is read, but no proxy is trusted: give TrustProxies, TrustHops or TrustUnixSocket", a.names[0])
	}
}

// client returns the address of the client that made r, and its zone.
func (a *addresses) client(r *http.Request) (client netip.Addr, zone string, ok bool) {
	if a.hops > 0 {
		return a.hopAddress(r.Header[a.header])
	}
	switch client, zone, ok = parseAddress(r.RemoteAddr); {
	case a.sockets && throughUnixSocket(r):
		ok = false // unless the header names an address
	case !ok || !a.trusts(client):
		return client, zone, ok
	}
	lines := r.Header[a.header]
	if a.single && len(lines) > 0 {
		client, zone, ok = parseAddress(lines[0])
		return client, zone, ok && len(lines) == 1
	}
	// Walk from the right. The element to the right was written by a trusted proxy, so
	// this one is what that proxy saw.
	for i := len(lines) - 1; i >= 0; i-- {
		before, element, found := lines[i], "", true
		for found {
			before, element, found = a.cut(before)
			if client, zone, ok = a.parse(element); !ok || !a.trusts(client) {
				return client, zone, ok
			}
		}
	}
	return client, zone, ok
}

// hopAddress returns the address that the farthest of the trusted hops has written.
func (a *addresses) hopAddress(lines []string) (client netip.Addr, zone string, ok bool) {
	left := a.hops
	for i := len(lines) - 1; i >= 0; i-- {
		before, element, found := lines[i], "", true
		for found {
			before, element, found = a.cut(before)
			if left--; left == 0 {
				return a.parse(element)
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
func (a *addresses) trusts(addr netip.Addr) bool {
	for _, n := range a.trusted {
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

// AddressOfIdentity returns the address or network in an identity of [ByAddress] or
// [ByAddressOf], in text, to show it to people: "203.0.113.7", "2001:db8::/64" or
// "fe80::1%eth0". The length of a network is given in whole bytes, so a /20 is shown as a
// /24 whose last bits are 0. ok is false if identity is not of that form. Other
// identities may be so by chance: ask only for those of policies that are keyed by address.
func AddressOfIdentity(identity string) (address string, ok bool) {
	var sixteen [16]byte
	switch n := len(identity) - 1; {
	case 1 <= n && n <= 4 && identity[0] == '4':
		var four [4]byte
		copy(four[:], identity[1:])
		return networkText(netip.AddrFrom4(four), 8*n), true
	case 1 <= n && n <= 16 && identity[0] == '6':
		copy(sixteen[:], identity[1:])
		return networkText(netip.AddrFrom16(sixteen), 8*n), true
	case n > 16 && identity[0] == '6':
		copy(sixteen[:], identity[1:])
		linkLocal := netip.AddrFrom16(sixteen)
		return linkLocal.WithZone(identity[17:]).String(), linkLocal.IsLinkLocalUnicast()
	}
	return "", false
}

// networkText returns the text of the first bits of an address.
func networkText(address netip.Addr, bits int) string {
	if bits == address.BitLen() {
		return address.String()
	}
	return netip.PrefixFrom(address, bits).String()
}

// append appends the kind of the client's address and the bits that identify the
// client.
func (a *addresses) append(key []byte, client netip.Addr, zone string) []byte {
	if client.Is4() {
		return appendIPv4(key, client.As4(), a.bits4)
	}
	return a.appendIPv6(key, client, zone)
}

// appendIPv6 appends the first bits of an address, or all of a link-local one and its
// zone. The key of a link-local address is longer than any key without a zone, or
// begins differently, so no two clients share a key.
func (a *addresses) appendIPv6(key []byte, client netip.Addr, zone string) []byte {
	sixteen := client.As16()
	switch high := binary.BigEndian.Uint64(sixteen[:8]); {
	case high == 0x0064_ff9b<<32 && nat64Net.Contains(client):
		return appendIPv4(key, [4]byte(sixteen[12:]), a.bits4)
	case high>>54 == 0xfe80>>6: // fe80::/10
		return append(append(append(key, '6'), sixteen[:]...), zone...)
	}
	whole, part := a.bits6/8, a.bits6%8
	key = append(append(key, '6'), sixteen[:whole]...)
	if part > 0 {
		key = append(key, sixteen[whole]&^(0xff>>part))
	}
	return key
}

// appendIPv4 appends the first bits of an IPv4 address, and zeros up to a whole byte.
func appendIPv4(key []byte, four [4]byte, bits uint) []byte {
	n := binary.BigEndian.Uint32(four[:]) &^ (1<<(32-bits) - 1)
	key = append(key, '4', byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	return key[:len(key)-int((32-bits)/8)]
}
