package httplimit

import (
	"net/http"
	"net/netip"
	"net/textproto"

	"github.com/seed-30da4c49/sash/httplimit/internal/clientaddr"
	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
)

// ByAddress keys requests by the address of the client.
//
// Without options, that is the address of the connection. If the connection comes from a trusted proxy,
// the client is read from X-Forwarded-For, or from Forwarded under [ReadForwarded]. [TrustProxies] and
// [TrustUnixSocket] name the trusted proxies. All lines of the header are one list, and ByAddress walks
// it from the right, where the nearest proxy has written. It skips addresses in trusted networks. The
// first other address is the client; if there is none, the leftmost address is. ByAddress never reads the
// elements left of the client, since the client may have made them up.
//
// [TrustHops] trusts a number of hops instead, [ReadHeader] reads a header with one address instead of a
// list, and [ByAddressOf] lets a function find the address.
//
// The identity cannot be told if an element that is read is no address: an empty one, a host name,
// "unknown". ByAddress does not skip such an element, and does not guess.
//
// Clients without addresses are one client together. They connect by a Unix socket or, in tests, by
// bufconn or [net.Pipe]. If one of them is a proxy, give [TrustUnixSocket], or all its clients share one
// quota. If any proxy is trusted, the identity of a connection without an address cannot be told.
//
// Addresses are keyed as follows. Ports are ignored.
//
//   - IPv4 clients are keyed by the whole address; see [IPv4Prefix].
//   - IPv4-mapped addresses and addresses of 64:ff9b::/96 (RFC 6052) are keyed by the IPv4 address in
//     them.
//   - IPv6 clients are keyed by their /64, since each has that many addresses; see [IPv6Prefix].
//   - Link-local clients (fe80::/10) are keyed by the whole address and its zone. Other zones are
//     dropped.
//
// The KeyFunc allocates nothing. ByAddress panics if an option is wrong, contradicts another one, or has
// no effect.
func ByAddress(options ...AddressOption) KeyFunc {
	a := applied("ByAddress", options)
	a.Check()
	return a.Append
}

// ByAddressOf keys requests by the address that a function finds, such as one that an outer handler has
// put into the context, or one from the PROXY protocol. The text is read as [ByAddress] reads RemoteAddr,
// with or without a port, and keyed in the same way.
//
// The identity cannot be told if the function returns false, or text that is no address. The function
// must be safe for concurrent use, and must itself check the source of the address.
//
// The options are [IPv4Prefix] and [IPv6Prefix]. ByAddressOf panics if address is nil, or if it is given
// another option, since that would have no effect.
func ByAddressOf(address func(*http.Request) (string, bool), options ...AddressOption) KeyFunc {
	check(address != nil, "ByAddressOf: must not be given nil")
	a := applied("ByAddressOf", options)
	for _, option := range a.Given {
		check(false, "ByAddressOf: the function finds the address: %s has no effect", option)
	}
	return func(key []byte, r *http.Request) ([]byte, bool) {
		text, ok := address(r)
		if !ok {
			return key, false
		}
		return a.AppendText(key, text)
	}
}

// An AddressOption configures [ByAddress].
type AddressOption func(*addresses)

type addresses = clientaddr.Options

// applied applies the options of the function of that name to the defaults.
func applied(name string, options []AddressOption) *addresses {
	a := &addresses{IPv4Bits: 32, IPv6Bits: 64}
	for _, option := range options {
		check(option != nil, "%s: must not be given nil", name)
		option(a)
	}
	return a
}

// TrustProxies names the networks of your own proxies. Their word on the source of a request is believed,
// so name no other network. An IPv4 network is given as such or as IPv4-mapped. Given again, TrustProxies
// adds networks.
//
// It panics if a network is so wide that it must hold clients. Each of them could name any address:
//
//   - IPv4 wider than /8
//   - public IPv6 (2000::/3) wider than /16
//   - other IPv6 wider than /7
//
// If the addresses of the proxies are not known, give their number by [TrustHops].
func TrustProxies(networks ...netip.Prefix) AddressOption {
	for _, n := range networks {
		check(n.IsValid(), "TrustProxies: not a network: %v", n)
		check(!clientaddr.TooWide(n), "TrustProxies: %v is too wide: every client in it could name any address; "+
			"name the networks of your own proxies, from /8 for IPv4 and /16 for public IPv6, "+
			"or their number by TrustHops if their addresses are not known", n)
	}
	return func(o *addresses) { o.Give("TrustProxies").Trust(networks) }
}

// TrustHops trusts a number of proxies, at least 1, whatever their addresses: the one that connects to
// the server, the one that connects to that, and so on. It is for proxies whose number alone is known,
// such as the proxies of a hosting platform.
//
// The client is then the address at that place of X-Forwarded-For, or of Forwarded under [ReadForwarded],
// counted from the right. The places right of it are counted and not read. If there are fewer places, the
// request has not come through all proxies, and the identity cannot be told. To count such requests
// (health checks, for example) by the address of the connection, use [FirstOf] with a ByAddress without
// options.
//
// Every request must come through all of these proxies. A client that can connect past one of them, or to
// the server itself, can name any address. Given again, the last holds.
func TrustHops(hops int) AddressOption {
	check(hops >= 1, "TrustHops: hops must be at least 1, got %d", hops)
	return func(o *addresses) { o.Give("TrustHops").Hops = hops }
}

// TrustUnixSocket treats every connection through a Unix socket as one from a trusted proxy. The other
// end of such a socket has no address. So the identity of its requests cannot be told if the header names
// no client.
func TrustUnixSocket() AddressOption {
	return func(o *addresses) { o.Give("TrustUnixSocket").Sockets = true }
}

// ReadForwarded makes [ByAddress] read Forwarded (RFC 7239) instead of X-Forwarded-For. Only one of the
// two is ever read, since a proxy that writes one may pass the other on as the client wrote it. It needs
// [TrustProxies], [TrustHops] or [TrustUnixSocket].
func ReadForwarded() AddressOption {
	return func(o *addresses) { o.Give("ReadForwarded").Read("Forwarded") }
}

// ReadHeader makes [ByAddress] read a header that holds the address of the client and nothing else,
// instead of X-Forwarded-For: CF-Connecting-IP, X-Real-IP, True-Client-IP. It needs [TrustProxies] or
// [TrustUnixSocket], and only these proxies are believed. They must overwrite the header in the requests
// that they receive.
//
// The address in the header is the client, whether it is in a trusted network or not. If a trusted proxy
// sends no such header, the client is that proxy. If it sends several, or one that is no address, the
// identity cannot be told.
//
// ReadHeader panics if name is not the name of a header, or is the name of a list of addresses.
func ReadHeader(name string) AddressOption {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	check(fields.IsToken(name) && canonical != "Host", "ReadHeader: requests have no header %q", name)
	check(canonical != "Forwarded" && canonical != "X-Forwarded-For", "ReadHeader: %s is a list of addresses: "+
		"ByAddress reads X-Forwarded-For by default, and Forwarded with ReadForwarded", canonical)
	return func(o *addresses) { o.Give("ReadHeader").Read(name).Single = true }
}

// IPv4Prefix sets how many leading bits of an IPv4 address identify a client, from 1 to 32. The default
// is 32. With fewer bits, a client with a network of its own gets fewer quotas, and more neighbours share
// one. It also holds for the IPv4 addresses in IPv6 addresses.
func IPv4Prefix(bits int) AddressOption {
	check(1 <= bits && bits <= 32, "IPv4Prefix: bits must be from 1 to 32, got %d", bits)
	return func(o *addresses) { o.IPv4Bits = bits }
}

// IPv6Prefix sets how many leading bits of an IPv6 address identify a client, from 1 to 128. The default
// is 64. Providers assign networks from /64 to /48. With fewer bits, a client with a network of its own
// gets fewer quotas, and more neighbours share one. Link-local addresses always count whole.
func IPv6Prefix(bits int) AddressOption {
	check(1 <= bits && bits <= 128, "IPv6Prefix: bits must be from 1 to 128, got %d", bits)
	return func(o *addresses) { o.IPv6Bits = bits }
}

// AddressOfIdentity returns the address or network in an identity of [ByAddress] or [ByAddressOf], in
// text, to show it to people: "203.0.113.7", "2001:db8::/64" or "fe80::1%eth0". The length of a network
// is given in whole bytes, so a /20 is shown as a /24 whose last bits are 0. ok is false if identity is
// not of that form. Other identities may be so by chance: ask only for identities under policies that are
// keyed by address.
func AddressOfIdentity(identity string) (address string, ok bool) { return clientaddr.Text(identity) }
