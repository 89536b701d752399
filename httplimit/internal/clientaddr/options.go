// Package clientaddr finds the address of a client behind trusted proxies, and makes an identity of the
// address.
package clientaddr

import (
	"fmt"
	"net/netip"
	"net/textproto"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
)

// Options tell where the address of a client is, and how much of it identifies the client.
type Options struct {
	trusted []netip.Prefix // networks of trusted proxies; IPv4 is not mapped
	sockets bool           // whether Unix sockets are trusted
	hops    int            // number of trusted hops, instead of networks; 0: none
	bits4   uint           // leading bits of an IPv4 address that identify a client
	bits6   int            // the same for an IPv6 address
	header  string         // canonical name of the header to read
	single  bool           // whether the header holds one address and no list
	// cut cuts the last element off a line of the header. found is false if that was the only element.
	cut func(line string) (before, element string, found bool)
	// parse reads the address in an element.
	parse func(element string) (addr netip.Addr, zone string, ok bool)

	given []string // names of the options given that choose the source of the address
	names []string // names of the headers to read, as they were given
}

// Default returns the options of a client that is identified by the address of its connection: the whole
// of IPv4, a /64 of IPv6.
func Default() *Options {
	return &Options{bits4: 32, bits6: 64, header: "X-Forwarded-For", cut: cutLastElement, parse: parseAddress}
}

// TrustProxies is httplimit.TrustProxies. Each function below, down to IPv6Prefix, is the option of its
// name there.
func TrustProxies(networks []netip.Prefix) func(*Options) {
	for _, n := range networks {
		if !n.IsValid() {
			panic(fmt.Sprintf("httplimit: TrustProxies: not a network: %v", n))
		}
		if tooWide(n) {
			panic(fmt.Sprintf("httplimit: TrustProxies: %v is too wide: every client in it could name any address; "+
				"name the networks of your own proxies, from /8 for IPv4 and /16 for public IPv6, or their number by TrustHops if their addresses are not known", n))
		}
	}
	return func(o *Options) {
		o.given = append(o.given, "TrustProxies")
		for _, n := range networks {
			if n.Addr().Is4In6() && n.Bits() >= 96 {
				n = netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96)
			}
			o.trusted = append(o.trusted, n)
		}
	}
}

func TrustHops(hops int) func(*Options) {
	if hops < 1 {
		panic(fmt.Sprintf("httplimit: TrustHops: hops must be at least 1, got %d", hops))
	}
	return func(o *Options) {
		o.given = append(o.given, "TrustHops")
		o.hops = hops
	}
}

func TrustUnixSocket() func(*Options) {
	return func(o *Options) {
		o.given = append(o.given, "TrustUnixSocket")
		o.sockets = true
	}
}

func ReadForwarded() func(*Options) {
	return func(o *Options) {
		o.read("ReadForwarded", "Forwarded")
		o.cut, o.parse = cutLastForwarded, parseForwarded
	}
}

func ReadHeader(name string) func(*Options) {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case !fields.IsToken(name) || canonical == "Host":
		panic(fmt.Sprintf("httplimit: ReadHeader: requests have no header %q", name))
	case canonical == "Forwarded" || canonical == "X-Forwarded-For":
		panic("httplimit: ReadHeader: " + canonical + " is a list of addresses: ByAddress reads X-Forwarded-For by default, and Forwarded with ReadForwarded")
	}
	return func(o *Options) {
		o.read("ReadHeader", name)
		o.single = true
	}
}

func IPv4Prefix(bits int) func(*Options) {
	if bits < 1 || bits > 32 {
		panic(fmt.Sprintf("httplimit: IPv4Prefix: bits must be from 1 to 32, got %d", bits))
	}
	return func(o *Options) { o.bits4 = uint(bits) }
}

func IPv6Prefix(bits int) func(*Options) {
	if bits < 1 || bits > 128 {
		panic(fmt.Sprintf("httplimit: IPv6Prefix: bits must be from 1 to 128, got %d", bits))
	}
	return func(o *Options) { o.bits6 = bits }
}

// read sets the header to read to name, on behalf of an option.
func (o *Options) read(option, name string) {
	o.given = append(o.given, option)
	o.names = append(o.names, name)
	o.header = textproto.CanonicalMIMEHeaderKey(name)
}

// CheckNoSource panics if an option chooses the source of the address, for ByAddressOf.
func (o *Options) CheckNoSource() {
	if len(o.given) > 0 {
		panic("httplimit: ByAddressOf: the function finds the address: " + o.given[0] + " has no effect")
	}
}

// Check panics if options contradict each other, or if one has no effect.
func (o *Options) Check() {
	fault := func(format string, args ...any) { panic("httplimit: ByAddress: " + fmt.Sprintf(format, args...)) }
	given := func(option string) bool { return slices.Contains(o.given, option) }
	for _, name := range o.names {
		if !strings.EqualFold(name, o.names[0]) {
			fault("only one header is read: it cannot be both %s and %s", o.names[0], name)
		}
	}
	switch trusting := given("TrustProxies") || o.sockets; {
	case o.hops > 0 && given("TrustProxies"):
		fault("TrustHops trusts proxies by their number, and TrustProxies by their networks: give one of them")
	case o.hops > 0 && o.sockets:
		fault("TrustHops counts a Unix socket as it counts any other hop: TrustUnixSocket has no effect")
	case o.hops > 0 && o.single:
		fault("TrustHops trusts whatever connects, which could send any %s: ReadHeader needs TrustProxies or TrustUnixSocket", o.names[0])
	case o.single && !trusting:
		fault("%s is read, but no proxy is trusted: give TrustProxies or TrustUnixSocket", o.names[0])
	case len(o.names) > 0 && !trusting && o.hops == 0:
		fault("%s is read, but no proxy is trusted: give TrustProxies, TrustHops or TrustUnixSocket", o.names[0])
	}
}
