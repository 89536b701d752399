package policyfile

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/seed-30da4c49/sash/httplimit"
)

// key reads a key: a word, the name of a function, or a mapping with one field. If it has faults,
// key returns nil.
func (r *reader) key(v value) (key httplimit.KeyFunc) {
	if v.kind == mapping {
		faults := r.count
		if len(v.entries) != 1 {
			r.fault(v, "must have one field, got %d; the fields are %s", len(v.entries), names(keyFields(&key)))
		}
		r.mapping(v, keyFields(&key)...)
		if r.count > faults {
			return nil
		}
		return key
	}
	if v.kind == text {
		switch v.text {
		case "address":
			return httplimit.ByAddress()
		case "everyone":
			return httplimit.Everyone()
		case "route":
			return httplimit.ByRoute()
		}
	}
	key, _ = registered(r, v, "a name or a mapping", r.keys, "WithKey", "address", "everyone", "route")
	return key
}

// keyFields are the fields of a key. It has one of them.
func keyFields(key *httplimit.KeyFunc) []field {
	return []field{
		{"address", func(r *reader, v value) {
			var options []httplimit.AddressOption
			*key = r.byAddress(v, &options, addressFields(&options))
		}, false},
		{"header", func(r *reader, v value) { *key = r.header(v) }, false},
		{"join", func(r *reader, v value) { *key = r.combined(v, httplimit.Join) }, false},
		{"first-of", func(r *reader, v value) { *key = r.combined(v, httplimit.FirstOf) }, false},
	}
}

func (r *reader) header(v value) httplimit.KeyFunc {
	name, ok := r.token(v, "the name of a header")
	if !ok {
		return nil
	}
	key, _ := call(r, v, func() httplimit.KeyFunc { return httplimit.ByHeader(name) })
	return key
}

// combined reads a list of keys, and combines them.
func (r *reader) combined(v value, combine func(...httplimit.KeyFunc) httplimit.KeyFunc) httplimit.KeyFunc {
	if v.kind != list {
		r.fault(v, "must be a list of keys, got %v", v)
		return nil
	}
	faults := r.count
	var keys []httplimit.KeyFunc
	r.each(v, false, func(v value) { keys = append(keys, r.key(v)) })
	if r.count > faults {
		return nil
	}
	return combine(keys...)
}

// addressFields are the fields of ByAddress.
func addressFields(options *[]httplimit.AddressOption) []field {
	return append(sourceFields(options),
		optionField(options, "ipv4-prefix", 1, 32, httplimit.IPv4Prefix),
		optionField(options, "ipv6-prefix", 1, 128, httplimit.IPv6Prefix))
}

// byAddress reads the options of ByAddress, of those fields, which add to options. If there are
// faults, it returns nil.
func (r *reader) byAddress(v value, options *[]httplimit.AddressOption, fields []field) httplimit.KeyFunc {
	faults := r.count
	r.mapping(v, fields...)
	if r.count > faults {
		return nil
	}
	key, _ := call(r, v, func() httplimit.KeyFunc { return httplimit.ByAddress(*options...) })
	return key
}

// sourceFields are the fields that say how ByAddress finds the address of a client.
func sourceFields(options *[]httplimit.AddressOption) []field {
	add := func(o httplimit.AddressOption) { *options = append(*options, o) }
	return []field{
		{"trust-proxies", func(r *reader, v value) { r.trustProxies(v, add) }, false},
		optionField(options, "trust-hops", 1, 1000, httplimit.TrustHops),
		{"trust-unix-socket", func(r *reader, v value) {
			if r.bool(v) {
				add(httplimit.TrustUnixSocket())
			}
		}, false},
		{"read-forwarded", func(r *reader, v value) {
			if r.bool(v) {
				add(httplimit.ReadForwarded())
			}
		}, false},
		{"read-header", func(r *reader, v value) {
			name, ok := r.token(v, "the name of a header")
			if !ok {
				return
			}
			if o, ok := call(r, v, func() httplimit.AddressOption { return httplimit.ReadHeader(name) }); ok {
				add(o)
			}
		}, false},
	}
}

// optionField returns a field for a number from least to most. option makes an option of the number.
func optionField(options *[]httplimit.AddressOption, name string, least, most int64, option func(int) httplimit.AddressOption) field {
	return field{name, func(r *reader, v value) {
		if n, ok := r.int(v, least, most); ok {
			*options = append(*options, option(int(n)))
		}
	}, false}
}

// trustProxies reads one trusted network or a list of them.
func (r *reader) trustProxies(v value, add func(httplimit.AddressOption)) {
	r.each(v, false, func(v value) {
		n, ok := r.network(v)
		if !ok {
			return
		}
		if o, ok := call(r, v, func() httplimit.AddressOption { return httplimit.TrustProxies(n) }); ok {
			add(o)
		}
	})
}

// networks are networks of addresses. IPv4 is not mapped.
type networks []netip.Prefix

// networks reads one network or a list of them.
func (r *reader) networks(v value) (all networks) {
	r.each(v, false, func(v value) {
		if n, ok := r.network(v); ok {
			all = append(all, n)
		}
	})
	return all
}

// network reads a network, or an address, which is a network of one.
func (r *reader) network(v value) (n netip.Prefix, ok bool) {
	const wanted = "a network such as 10.0.0.0/8, or an address"
	s, ok := r.string(v, wanted)
	if !ok {
		return n, false
	}
	n, err := netip.ParsePrefix(s)
	if addr, notAddr := netip.ParseAddr(s); notAddr == nil && addr.Zone() == "" {
		n, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	switch {
	case err != nil:
		r.fault(v, "must be %s, got %v", wanted, v)
		return n, false
	case n != n.Masked():
		r.fault(v, "%v is not the first address of its network: write %v", v, n.Masked())
		return n, false
	case n.Addr().Is4In6() && n.Bits() >= 96:
		n = netip.PrefixFrom(n.Addr().Unmap(), n.Bits()-96)
	}
	return n, true
}

// hold returns a function that reports whether a request comes from an address in n. Its address
// is what ByAddress finds with those options. If that finds none, the function reports false.
func (n networks) hold(source []httplimit.AddressOption) func(*http.Request) bool {
	whole := append(source[:len(source):len(source)], httplimit.IPv6Prefix(128))
	identify := httplimit.ByAddress(whole...)
	return func(r *http.Request) bool {
		var buf [64]byte
		identity, ok := identify(buf[:0], r)
		if !ok {
			return false
		}
		written, _ := httplimit.AddressOfIdentity(string(identity))
		written, _, _ = strings.Cut(written, "%")
		addr, err := netip.ParseAddr(written)
		return err == nil && n.contain(addr)
	}
}

// contain reports whether one of n contains addr.
func (n networks) contain(addr netip.Addr) bool {
	for _, network := range n {
		if network.Contains(addr) {
			return true
		}
	}
	return false
}
