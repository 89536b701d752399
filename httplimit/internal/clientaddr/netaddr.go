package clientaddr

import (
	"net/netip"
	"strings"

	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
)

// Networks with a meaning of their own.
var (
	nat64Net  = netip.MustParsePrefix("64:ff9b::/96") // IPv4 addresses that a NAT64 translates (RFC 6052)
	mappedNet = netip.MustParsePrefix("::ffff:0:0/96")
	publicNet = netip.MustParsePrefix("2000::/3")
)

// tooWide reports whether a network holds more than the proxies of one organisation: more than a /8 of
// IPv4 in any notation, a /16 of the IPv6 addresses that registries assign, or fc00::/7, the widest private
// network.
func tooWide(n netip.Prefix) bool {
	switch bits := n.Bits(); {
	case n.Addr().Is4():
		return bits < 8
	case n.Overlaps(mappedNet), n.Overlaps(nat64Net):
		return bits < 96+8
	case n.Overlaps(publicNet):
		return bits < 16
	default:
		return bits < 7
	}
}

// parseAddress reads an address with or without a port, as in RemoteAddr and as proxies write it, with or
// without brackets. It allocates nothing if s is an address.
func parseAddress(s string) (addr netip.Addr, zone string, ok bool) {
	if addr, ok = parseFast(s); ok {
		return addr, "", true
	}
	return parseNode(fields.Trim(s), isPort)
}

// parseFast is the fast path of parseAddress: an IPv4 address with a port, as most connections have.
func parseFast(s string) (addr netip.Addr, ok bool) {
	var four [4]byte
	part, n, digits := 0, uint(0), 0
	for i := range len(s) {
		c := s[i]
		if d := c - '0'; d <= 9 {
			if n = 10*n + uint(d); n > 255 || n < 10 && digits > 0 { // too large, or a leading 0
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

// parseNode reads an address with or without a port, whose syntax isPort checks. An IPv4-mapped address
// is returned as IPv4. The zone is cut off before the address is parsed, since netip would intern it for
// the whole process.
func parseNode(s string, isPort func(string) bool) (addr netip.Addr, zone string, ok bool) {
	port, closed := "", true
	if strings.HasPrefix(s, "[") {
		s, port, closed = strings.Cut(s[1:], "]")
	} else if colon := strings.IndexByte(s, ':'); colon >= 0 && colon == strings.LastIndexByte(s, ':') {
		s, port = s[:colon], s[colon:] // one colon precedes a port, and several are in IPv6
	}
	host, zone, zoned := strings.Cut(s, "%")
	addr, err := netip.ParseAddr(host)
	ok = err == nil && closed && (port == "" || port[0] == ':' && isPort(port[1:]))
	return addr.Unmap(), zone, ok && (!zoned || zone != "" && addr.Is6())
}

// isPort reports whether s is a port number: one to five digits.
func isPort(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return 1 <= len(s) && len(s) <= 5
}
