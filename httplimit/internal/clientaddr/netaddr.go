package clientaddr

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"strings"

	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
)

// Networks with a meaning of their own.
var (
	nat64Net  = netip.MustParsePrefix("64:ff9b::/96") // IPv4 addresses that a NAT64 translates (RFC 6052)
	mappedNet = netip.MustParsePrefix("::ffff:0:0/96")
	publicNet = netip.MustParsePrefix("2000::/3")
)

// TooWide reports whether a network holds more than the proxies of one organisation: more than a /8 of
// IPv4 in any notation, a /16 of public IPv6, or the private fc00::/7.
func TooWide(n netip.Prefix) bool {
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

// parseAddress reads an address with or without a port or brackets. It allocates nothing for one.
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

// parseNode reads an address with or without a port, whose syntax isPort checks. It unmaps IPv4. It cuts
// the zone off before it parses the address, since netip would intern it for the whole process.
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

// Text returns the address or network in an identity. ok is false if identity has neither.
func Text(identity string) (address string, ok bool) {
	if len(identity) < 2 {
		return "", false
	}
	var sixteen [16]byte
	bits := 8 * copy(sixteen[:], identity[1:])
	switch kind := identity[0]; {
	case kind == '4' && bits <= 32:
		return networkText(netip.AddrFrom4([4]byte(sixteen[:4])), bits), true
	case kind == '6' && len(identity) <= 17:
		return networkText(netip.AddrFrom16(sixteen), bits), true
	case kind == '6':
		linkLocal := netip.AddrFrom16(sixteen)
		return linkLocal.WithZone(identity[17:]).String(), linkLocal.IsLinkLocalUnicast()
	}
	return "", false
}

// networkText returns the text of the first bits of an address.
func networkText(address netip.Addr, bits int) string {
	text := netip.PrefixFrom(address, bits).String()
	return strings.TrimSuffix(text, "/"+strconv.Itoa(address.BitLen()))
}

// append appends the kind of the client's address and the bits that identify it: of a link-local one, all
// bits and the zone. Such a key is longer than any without a zone, or begins differently.
func (o *Options) append(key []byte, client netip.Addr, zone string) []byte {
	if client.Is4() {
		return appendIPv4(key, client.As4(), o.IPv4Bits)
	}
	sixteen := client.As16()
	switch high := binary.BigEndian.Uint64(sixteen[:8]); {
	case high == 0x0064_ff9b<<32 && nat64Net.Contains(client):
		return appendIPv4(key, [4]byte(sixteen[12:]), o.IPv4Bits)
	case high>>54 == 0xfe80>>6: // fe80::/10
		return append(append(append(key, '6'), sixteen[:]...), zone...)
	}
	whole, part := o.IPv6Bits/8, o.IPv6Bits%8
	key = append(append(key, '6'), sixteen[:whole]...)
	if part > 0 {
		key = append(key, sixteen[whole]&^(0xff>>part))
	}
	return key
}

// appendIPv4 appends the first bits of an IPv4 address, and zeros up to a whole byte.
func appendIPv4(key []byte, four [4]byte, bits int) []byte {
	n := binary.BigEndian.Uint32(four[:]) &^ (1<<(32-bits) - 1)
	key = append(key, '4', byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
	return key[:len(key)-(32-bits)/8]
}
