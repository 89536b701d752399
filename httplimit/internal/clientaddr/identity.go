package clientaddr

import (
	"encoding/binary"
	"net/netip"
)

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
	if bits == address.BitLen() {
		return address.String()
	}
	return netip.PrefixFrom(address, bits).String()
}

// append appends the kind of the client's address and the bits that identify the client: all bits of a
// link-local address, and its zone. Such a key is longer than any key without a zone, or begins
// differently, so no two clients share a key.
func (o *Options) append(key []byte, client netip.Addr, zone string) []byte {
	if client.Is4() {
		return appendIPv4(key, client.As4(), o.bits4)
	}
	sixteen := client.As16()
	switch high := binary.BigEndian.Uint64(sixteen[:8]); {
	case high == 0x0064_ff9b<<32 && nat64Net.Contains(client):
		return appendIPv4(key, [4]byte(sixteen[12:]), o.bits4)
	case high>>54 == 0xfe80>>6: // fe80::/10
		return append(append(append(key, '6'), sixteen[:]...), zone...)
	}
	whole, part := o.bits6/8, o.bits6%8
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
