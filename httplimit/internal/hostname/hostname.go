// Package hostname compares hosts by name: their spelling, and who owns them.
package hostname

import (
	"net/netip"
	"strings"
)

// CutPort cuts the port off a host as it stands in requests and URLs: "example.com:80", "[::1]:80". An
// IPv6 address without brackets has no port.
func CutPort(host string) (name, port string, found bool) {
	last := strings.LastIndexByte(host, ':')
	if last < 0 {
		return host, "", false
	}
	if host[0] == '[' {
		found = host[last-1] == ']' && strings.IndexByte(host[last:], ']') < 0
	} else {
		found = strings.IndexByte(host, ':') == last
	}
	if !found {
		return host, "", false
	}
	return host[:last], host[last+1:], true
}

// CanonicalName returns the canonical spelling of a host without a port. A name is in lower case, without
// one trailing dot. An IPv6 address is written as package netip writes it, without brackets.
func CanonicalName(host string) string {
	if len(host) >= 2 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	if strings.IndexByte(host, ':') < 0 {
		return strings.ToLower(strings.TrimSuffix(host, "."))
	}
	text, _, _ := strings.Cut(host, "%") // netip would intern the zone
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return strings.ToLower(host)
	}
	return addr.String() + host[len(text):]
}

// Canonical returns the canonical spelling of a host that may have a port, without it.
func Canonical(host string) string {
	name, _, _ := CutPort(host)
	return CanonicalName(name)
}

// Domain returns what the hosts of one owner have in common: the last two labels, or three if two are a
// public suffix such as "co.uk"; the address of IPv4, and the first 48 bits of IPv6. Ports do not matter.
func Domain(host string) string {
	name, _, _ := CutPort(host)
	if addr, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		if addr = addr.WithZone(""); addr.Is4() {
			return addr.String()
		}
		site, _ := addr.Prefix(48) // fails for no length up to 128
		return site.String()
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
