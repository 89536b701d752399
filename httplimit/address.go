package httplimit

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// ByAddress keys by the client's address.
//
// That is the address the connection comes from, and nothing else, unless it lies
// in one of the networks that [TrustProxies] names, or comes as [TrustUnixSocket]
// says: then X-Forwarded-For is read, or Forwarded with [ReadForwarded], all its
// lines as one list, from the right, where the nearest proxy has written; addresses
// in trusted networks are skipped, and the first other one is the client. What stands
// left of it, which the client may have made up, is never looked at. If all are
// trusted, the leftmost is the client.
//
// The identity cannot be told if anything that is looked at is no address: an empty
// element, a host name, "unknown". No hop is skipped or guessed.
//
// IPv4-mapped addresses are those of IPv4, zones are dropped, and ports ignored.
// IPv6 clients are keyed by their /64, as each has that many addresses; see
// [IPv6Prefix]. It allocates nothing. It panics if an option is wrong.
func ByAddress(options ...AddressOption) KeyFunc {
	a := &addresses{bits: 64, header: "X-Forwarded-For", cut: cutLastElement, parse: parseAddress}
	for _, option := range options {
		mustNotBeNil("ByAddress", option == nil)
		option(a)
	}
	return func(key []byte, r *http.Request) ([]byte, bool) {
		client, ok := a.client(r)
		if !ok {
			return key, false
		}
		return appendAddress(key, client, a.bits), true
	}
}

// An AddressOption configures [ByAddress].
type AddressOption func(*addresses)

// TrustProxies names the networks whose word on where a request came from is
// taken: those of your own proxies, and of no one else. An IPv4 network is given as
// such or as IPv4-mapped. Given again, it adds to them.
func TrustProxies(networks ...netip.Prefix) AddressOption {
	for _, n := range networks {
		if !n.IsValid() {
			panic(fmt.Sprintf("httplimit: TrustProxies: not a network: %v", n))
		}
	}
	return func(a *addresses) {
		for _, n := range networks {
			a.trusted = append(a.trusted, unmapped(n))
		}
	}
}

// TrustUnixSocket takes the word of who connects through a Unix socket as that of a
// trusted proxy. A socket's other end has no address: without this, or if it names no
// client, the identity cannot be told.
func TrustUnixSocket() AddressOption {
	return func(a *addresses) { a.sockets = true }
}

// ReadForwarded reads Forwarded (RFC 7239) and not X-Forwarded-For. Only one of the
// two is ever read, since a proxy that writes one may hand on the other as the
// client wrote it.
func ReadForwarded() AddressOption {
	return func(a *addresses) {
		a.header, a.cut, a.parse = "Forwarded", cutLastForwarded, parseForwarded
	}
}

// IPv6Prefix sets how many bits of an IPv6 address are a client, from 1 to 128; the
// default is 64. Providers give out from /64 to /48: fewer bits let a client have
// less, and let neighbours share more.
func IPv6Prefix(bits int) AddressOption {
	if bits < 1 || bits > 128 {
		panic(fmt.Sprintf("httplimit: IPv6Prefix: bits must be from 1 to 128, got %d", bits))
	}
	return func(a *addresses) { a.bits = bits }
}

// addresses is what a ByAddress knows.
type addresses struct {
	trusted []netip.Prefix // those of IPv4 not mapped
	sockets bool           // whether those of Unix are trusted
	bits    int            // of IPv6
	header  string         // canonical
	// cut cuts the last element off a line of the header. If it is the only one,
	// found is false.
	cut func(line string) (before, element string, found bool)
	// parse reads an element.
	parse func(element string) (netip.Addr, bool)
}

func unmapped(n netip.Prefix) netip.Prefix {
	if n.Addr().Is4In6() && n.Bits() >= 96 {
		return netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96)
	}
	return n
}

// client returns the address of who made r.
func (a *addresses) client(r *http.Request) (client netip.Addr, ok bool) {
	switch client, ok = parseAddress(r.RemoteAddr); {
	case a.sockets && throughUnixSocket(r):
		ok = false // unless the header names one
	case !ok || !a.trusts(client):
		return client, ok
	}
	lines := r.Header[a.header]
	for i := len(lines) - 1; i >= 0; i-- {
		before, element, found := lines[i], "", true
		for found {
			before, element, found = a.cut(before)
			if client, ok = a.parse(element); !ok || !a.trusts(client) {
				return client, ok
			}
		}
	}
	return client, ok
}

// throughUnixSocket reports whether r has come so, by the end that is the server's own.
func throughUnixSocket(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && local.Network() == "unix"
}

func (a *addresses) trusts(addr netip.Addr) bool {
	for _, n := range a.trusted {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// cutLastElement cuts a list of elements without quotes.
func cutLastElement(line string) (before, element string, found bool) {
	if i := strings.LastIndexByte(line, ','); i >= 0 {
		return line[:i], line[i+1:], true
	}
	return "", line, false
}

// parseAddress reads an address with or without a port, as RemoteAddr has it and as
// proxies write it: 192.0.2.1, 192.0.2.1:80, 2001:db8::1, [2001:db8::1],
// [2001:db8::1]:80. It allocates nothing if it is one.
func parseAddress(s string) (addr netip.Addr, ok bool) {
	if addr, ok = parseQuick(s); ok {
		return addr, true
	}
	return parseNode(trim(s), isPort)
}

// parseQuick reads 192.0.2.1:80, which is what most connections come from, and
// nothing else. It is parseNode in a quarter of the time.
func parseQuick(s string) (addr netip.Addr, ok bool) {
	var four [4]byte
	part, n, digits := 0, uint(0), 0
	for i := range len(s) {
		c := s[i]
		if d := c - '0'; d <= 9 {
			if n = 10*n + uint(d); n > 255 || n < 10 && digits > 0 { // too much, or a leading 0
				return addr, false
			}
			digits++
			continue
		}
		if digits == 0 || c != "...:"[part] {
			return addr, false
		}
		if four[part] = byte(n); part == 3 {
			return netip.AddrFrom4(four), isPort(s[i+1:])
		}
		part, n, digits = part+1, 0, 0
	}
	return addr, false
}

// parseNode is parseAddress for a given syntax of ports.
func parseNode(s string, isPort func(string) bool) (addr netip.Addr, ok bool) {
	if strings.HasPrefix(s, "[") {
		host, port, closed := strings.Cut(s[1:], "]")
		addr, ok = parseIPv6(host)
		return addr, ok && closed && (port == "" || port[0] == ':' && isPort(port[1:]))
	}
	colon := strings.IndexByte(s, ':')
	if colon < 0 {
		return parseIPv4(s)
	}
	if strings.IndexByte(s[colon+1:], ':') >= 0 {
		return parseIPv6(s)
	}
	addr, ok = parseIPv4(s[:colon])
	return addr, ok && isPort(s[colon+1:])
}

func parseIPv4(s string) (netip.Addr, bool) {
	if strings.IndexByte(s, ':') >= 0 || strings.IndexByte(s, '%') >= 0 {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(s)
	return addr, err == nil
}

// parseIPv6 returns an IPv4-mapped address as one of IPv4. It cuts the zone off
// before it parses: netip would keep it in a table of the whole process.
func parseIPv6(s string) (netip.Addr, bool) {
	host, zone, zoned := strings.Cut(s, "%")
	if zoned && zone == "" || strings.IndexByte(host, ':') < 0 {
		return netip.Addr{}, false
	}
	addr, err := netip.ParseAddr(host)
	return addr.Unmap(), err == nil
}

// isPort reports whether s is a port number.
func isPort(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return 1 <= len(s) && len(s) <= 5
}

// trim cuts the white space that may stand around an element of a header.
func trim(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// appendAddress appends which kind of address it is, and of an IPv6 address its
// first bits.
func appendAddress(key []byte, addr netip.Addr, bits int) []byte {
	if addr.Is4() {
		four := addr.As4()
		return append(append(key, '4'), four[:]...)
	}
	sixteen := addr.As16()
	whole, part := bits/8, bits%8
	key = append(append(key, '6'), sixteen[:whole]...)
	if part > 0 {
		key = append(key, sixteen[whole]&^(0xff>>part))
	}
	return key
}
