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
// With [TrustHops], that many hops are trusted, and not networks. With [ReadHeader],
// a header of one address is read, and not a list. [ByAddressOf] leaves it to a
// function to find the address.
//
// The identity cannot be told if anything that is looked at is no address: an empty
// element, a host name, "unknown". No hop is skipped or guessed.
//
// IPv4-mapped addresses and those of 64:ff9b::/96 (RFC 6052) are keyed by the IPv4
// address in them, and ports are ignored. IPv4 clients are keyed by the whole address;
// see [IPv4Prefix]. IPv6 clients are keyed by their /64, as each has that many
// addresses; see [IPv6Prefix]. Link-local clients (fe80::/10) are keyed by the whole
// address and its zone. Other zones are dropped.
//
// It allocates nothing. It panics if an option is wrong, contradicts another, or has
// no effect.
func ByAddress(options ...AddressOption) KeyFunc {
	a := newAddresses("ByAddress", options)
	a.check()
	return func(key []byte, r *http.Request) ([]byte, bool) {
		client, zone, ok := a.client(r)
		if !ok {
			return key, false
		}
		return a.append(key, client, zone), true
	}
}

// ByAddressOf keys by the address that a function finds: one that an outer handler has
// put into the context, or that of the PROXY protocol. It is read as ByAddress reads
// RemoteAddr, with or without a port, and keyed as [ByAddress] keys it.
//
// The identity cannot be told if the function returns false, or text that is no
// address. The function must be safe for concurrent use, and must itself check the
// source of the address.
//
// The options are [IPv4Prefix] and [IPv6Prefix]. It panics if address is nil, or if
// given any other option, since that would have no effect.
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

// TrustProxies names the networks whose word on where a request came from is
// taken: those of your own proxies, and of no one else. An IPv4 network is given as
// such or as IPv4-mapped. Given again, it adds to them.
//
// It panics if a network is so wide that it holds clients: IPv4 wider than /8, IPv6
// wider than /7. Each of them could name any address. Where the addresses of the
// proxies are not known, give their number by [TrustHops].
func TrustProxies(networks ...netip.Prefix) AddressOption {
	for _, n := range networks {
		if !n.IsValid() {
			panic(fmt.Sprintf("httplimit: TrustProxies: not a network: %v", n))
		}
		if tooWide(n) {
			panic(fmt.Sprintf("httplimit: TrustProxies: %v is too wide: every client in it could name any address; "+
				"name the networks of your own proxies, from /8 for IPv4 and /7 for IPv6, or their number by TrustHops if their addresses are not known", n))
		}
	}
	return func(a *addresses) {
		a.given = append(a.given, "TrustProxies")
		for _, n := range networks {
			a.trusted = append(a.trusted, unmapped(n))
		}
	}
}

// TrustHops trusts that number of proxies, at least 1, whatever their addresses: the
// one that connects to the server, the one that connects to that, and so on. It is for
// proxies of which only the number is known, such as those of a hosting platform.
//
// The client is then the address in that place of X-Forwarded-For, or of Forwarded
// with [ReadForwarded], from the right. The places right of it are counted and not
// read. If there are fewer, the request has not come through all proxies, and the
// identity cannot be told. To count such requests (health checks, for example) by the
// address of the connection, use [FirstOf] with a ByAddress without options.
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

// TrustUnixSocket takes the word of who connects through a Unix socket as that of a
// trusted proxy. A socket's other end has no address: without this, or if it names no
// client, the identity cannot be told.
func TrustUnixSocket() AddressOption {
	return func(a *addresses) {
		a.given = append(a.given, "TrustUnixSocket")
		a.sockets = true
	}
}

// ReadForwarded reads Forwarded (RFC 7239) and not X-Forwarded-For. Only one of the
// two is ever read, since a proxy that writes one may hand on the other as the
// client wrote it. It needs [TrustProxies], [TrustHops] or [TrustUnixSocket].
func ReadForwarded() AddressOption {
	return func(a *addresses) {
		a.read("ReadForwarded", "Forwarded")
		a.cut, a.parse = cutLastForwarded, parseForwarded
	}
}

// ReadHeader reads a header that holds the client's address and nothing else, and not
// X-Forwarded-For: CF-Connecting-IP, X-Real-IP, True-Client-IP. It needs
// [TrustProxies] or [TrustUnixSocket], and is believed from those only. They must
// overwrite the header in what they are sent.
//
// The address in it is the client, in a trusted network or not. If a trusted proxy
// sends no such header, the client is that proxy. If it sends several, or one that
// is no address, the identity cannot be told. ReadHeader panics if name is no name of
// a header, or that of a list.
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

// IPv4Prefix sets how many bits of an IPv4 address are a client, from 1 to 32; the
// default is 32. Fewer bits let a client that has a network have less, and let
// neighbours share more. It also holds for the IPv4 addresses in IPv6 addresses.
func IPv4Prefix(bits int) AddressOption {
	if bits < 1 || bits > 32 {
		panic(fmt.Sprintf("httplimit: IPv4Prefix: bits must be from 1 to 32, got %d", bits))
	}
	return func(a *addresses) { a.bits4 = uint(bits) }
}

// IPv6Prefix sets how many bits of an IPv6 address are a client, from 1 to 128; the
// default is 64. Providers give out from /64 to /48: fewer bits let a client have
// less, and let neighbours share more. Link-local addresses always count whole.
func IPv6Prefix(bits int) AddressOption {
	if bits < 1 || bits > 128 {
		panic(fmt.Sprintf("httplimit: IPv6Prefix: bits must be from 1 to 128, got %d", bits))
	}
	return func(a *addresses) { a.bits6 = bits }
}

// addresses is what a ByAddress knows.
type addresses struct {
	trusted []netip.Prefix // those of IPv4 not mapped
	sockets bool           // whether those of Unix are trusted
	hops    int            // trusted, instead of networks; 0: none
	bits4   uint           // of an IPv4 address that are a client
	bits6   int            // of an IPv6 address
	header  string         // canonical
	single  bool           // whether the header holds one address
	// cut cuts the last element off a line of the header. If it is the only one,
	// found is false.
	cut func(line string) (before, element string, found bool)
	// parse reads an element.
	parse func(element string) (addr netip.Addr, zone string, ok bool)

	given []string // the options that say whom to believe, by their names
	names []string // of the headers to read, as they were given
}

func newAddresses(name string, options []AddressOption) *addresses {
	a := &addresses{bits4: 32, bits6: 64, header: "X-Forwarded-For", cut: cutLastElement, parse: parseAddress}
	for _, option := range options {
		mustNotBeNil(name, option == nil)
		option(a)
	}
	return a
}

// read makes the header of that name the one that is read, for an option.
func (a *addresses) read(option, name string) {
	a.given = append(a.given, option)
	a.names = append(a.names, name)
	a.header = textproto.CanonicalMIMEHeaderKey(name)
}

// check panics if options contradict each other, or one has no effect.
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
		fault("%s is believed from nobody: give TrustProxies or TrustUnixSocket", a.names[0])
	case len(a.names) > 0 && !trusting && a.hops == 0:
		fault("%s is believed from nobody: give TrustProxies, TrustHops or TrustUnixSocket", a.names[0])
	}
}

// translated is the network of IPv4 addresses that a translator writes as IPv6.
var translated = netip.MustParsePrefix("64:ff9b::/96")

// tooWide reports whether a network holds more than the proxies of one organisation:
// more than a /8 of IPv4, or more than fc00::/7, which is the widest private network.
func tooWide(n netip.Prefix) bool {
	switch bits := n.Bits(); {
	case n.Addr().Is4():
		return bits < 8
	case n.Addr().Is4In6() && bits >= 96, n.Overlaps(translated):
		return bits < 96+8
	default:
		return bits < 7
	}
}

func unmapped(n netip.Prefix) netip.Prefix {
	if n.Addr().Is4In6() && n.Bits() >= 96 {
		return netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96)
	}
	return n
}

// client returns the address of who made r, and its zone.
func (a *addresses) client(r *http.Request) (client netip.Addr, zone string, ok bool) {
	if a.hops > 0 {
		return a.farthest(r.Header[a.header])
	}
	switch client, zone, ok = parseAddress(r.RemoteAddr); {
	case a.sockets && throughUnixSocket(r):
		ok = false // unless the header names one
	case !ok || !a.trusts(client):
		return client, zone, ok
	}
	lines := r.Header[a.header]
	if a.single && len(lines) > 0 {
		client, zone, ok = parseAddress(lines[0])
		return client, zone, ok && len(lines) == 1
	}
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

// farthest returns the address that the farthest of the trusted hops has written.
func (a *addresses) farthest(lines []string) (client netip.Addr, zone string, ok bool) {
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
func parseAddress(s string) (addr netip.Addr, zone string, ok bool) {
	if addr, ok = parseQuick(s); ok {
		return addr, "", true
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
func parseNode(s string, isPort func(string) bool) (addr netip.Addr, zone string, ok bool) {
	if strings.HasPrefix(s, "[") {
		host, port, closed := strings.Cut(s[1:], "]")
		addr, zone, ok = parseIPv6(host)
		return addr, zone, ok && closed && (port == "" || port[0] == ':' && isPort(port[1:]))
	}
	colon := strings.IndexByte(s, ':')
	if colon < 0 {
		addr, ok = parseIPv4(s)
		return addr, "", ok
	}
	if strings.IndexByte(s[colon+1:], ':') >= 0 {
		return parseIPv6(s)
	}
	addr, ok = parseIPv4(s[:colon])
	return addr, "", ok && isPort(s[colon+1:])
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
func parseIPv6(s string) (addr netip.Addr, zone string, ok bool) {
	host, zone, zoned := strings.Cut(s, "%")
	if zoned && zone == "" || strings.IndexByte(host, ':') < 0 {
		return netip.Addr{}, "", false
	}
	addr, err := netip.ParseAddr(host)
	return addr.Unmap(), zone, err == nil
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

// append appends which kind of address client is, and what of it is a client.
func (a *addresses) append(key []byte, client netip.Addr, zone string) []byte {
	if client.Is4() {
		return appendIPv4(key, client.As4(), a.bits4)
	}
	return a.appendIPv6(key, client, zone)
}

// appendIPv6 appends the first bits of an address, or all of a link-local one and its
// zone. The latter is longer than any key without a zone, or begins like none, so no
// two clients have one key.
func (a *addresses) appendIPv6(key []byte, client netip.Addr, zone string) []byte {
	sixteen := client.As16()
	switch high := binary.BigEndian.Uint64(sixteen[:8]); {
	case high == 0x0064_ff9b<<32 && translated.Contains(client):
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
