package hostname

import (
	"net/netip"
	"strings"
)

// Domain returns what the names of one owner have in common: of a host, its last two
// labels, or its last three if these two are a public suffix such as "co.uk". It is the address
// of an IPv4 host, and the first 48 bits of an IPv6 one. One owner has all ports of a host.
func Domain(host string) string {
	name, _, _ := CutPort(host)
	if addr, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return ownerOf(addr)
	}
	labels := strings.Split(name, ".")
	n := len(labels)
	if n < 3 {
		return name
	}
	kept := 2
	if isPublicSuffix(labels[n-2], labels[n-1]) {
		kept = 3
	}
	return strings.Join(labels[n-kept:], ".")
}

// ownerOf returns what addresses of one owner have in common: addr without its zone if it is IPv4,
// and its first 48 bits if it is IPv6.
func ownerOf(addr netip.Addr) string {
	if addr = addr.WithZone(""); addr.Is4() {
		return addr.String()
	}
	site, _ := addr.Prefix(48) // fails for no length up to 128
	return site.String()
}
