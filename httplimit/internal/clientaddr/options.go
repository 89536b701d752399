// Package clientaddr finds the address of a client behind trusted proxies, and makes an identity of the
// address.
package clientaddr

import (
	"fmt"
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
	header  string         // canonical name of the header to read
}

// Default returns the options of ByAddress without options.
func Default() *Options {
	return &Options{IPv4Bits: 32, IPv6Bits: 64, header: "X-Forwarded-For"}
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
