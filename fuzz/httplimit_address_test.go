package fuzz

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/seed-30da4c49/sash/httplimit"
)

var trusted = []netip.Prefix{
	netip.MustParsePrefix("10.0.0.0/8"),
	netip.MustParsePrefix("fd00::/8"),
	netip.MustParsePrefix("::ffff:172.16.0.0/108"),
}

const (
	client  = "198.51.100.7"
	nearest = "10.0.0.1" // the proxy that connects
)

// clientKey returns the key of a request from remote with these lines of a header.
func clientKey(key httplimit.KeyFunc, remote, header string, lines []string) (string, bool) {
	b, ok := key(nil, &http.Request{RemoteAddr: remote, Header: http.Header{header: lines}})
	return string(b), ok
}

// FuzzXForwardedFor compares ByAddress with a plain reading of all lines as one list, by
// networks and by numbers of hops.
//
// It also checks that two lines sent by a client change nothing, through no proxy, one or
// two. Each proxy joins the lines or adds one of its own. The first line is also read as a
// header of one address, and as the result of a function.
func FuzzXForwardedFor(f *testing.F) {
	for _, lines := range [][2]string{
		{"", ""}, {"6.6.6.6", "10.0.0.2"}, {"6.6.6.6, 10.0.0.2", "fd00::1"}, {"unknown", "[fd00::1%x]:80"},
		{"::ffff:172.17.0.1", "10.0.0.2:65536"}, {"fe80::1%eth0", "64:ff9b::10.0.0.1"}, {"[fe80::2%]:1", "fe80::1%a%b"}, {",", " , "}, {"1.2.3.4:1:2", "010.0.0.1"}, {"[10.0.0.1]", "[::1"}, {"0", "[::%]]"},
	} {
		f.Add(lines[0], lines[1])
	}
	key := httplimit.ByAddress(httplimit.TrustProxies(trusted...), httplimit.IPv6Prefix(128))
	f.Fuzz(func(t *testing.T, first, second string) {
		lines := []string{first, second}
		got, ok := clientKey(key, nearest+":1", "X-Forwarded-For", lines)
		want, wantOK := keyByNetworks(lines)
		if ok != wantOK || ok && got != want {
			t.Errorf("%q: got %x %v, want %x %v", lines, got, ok, want, wantOK)
		}
		checkUnforgeable(t, key, "X-Forwarded-For", lines, func(peer string) string { return peer })
		for hops := 1; hops <= 4; hops++ {
			got, ok := clientKey(hopsKeys[hops], first, "X-Forwarded-For", lines)
			want, wantOK := keyByHops(lines, hops)
			if ok != wantOK || ok && got != want {
				t.Errorf("%q by %d hops: got %x %v, want %x %v", lines, hops, got, ok, want, wantOK)
			}
		}
		want, wantOK = addressKey(strings.Trim(first, " \t"))
		for name, key := range map[string]httplimit.KeyFunc{"ReadHeader": single, "ByAddressOf": found} {
			if got, ok := clientKey(key, nearest+":1", "X-Real-Ip", lines[:1]); ok != wantOK || ok && got != want {
				t.Errorf("%s %q: got %x %v, want %x %v", name, first, got, ok, want, wantOK)
			}
			if got, _ := clientKey(single, client+":1", "X-Real-Ip", lines[:1]); got != "4"+string(netip.MustParseAddr(client).AsSlice()) {
				t.Errorf("%q: believed from anyone: %x", first, got)
			}
		}
	})
}

var (
	hopsKeys = func() (keys [5]httplimit.KeyFunc) {
		for hops := 1; hops < len(keys); hops++ {
			keys[hops] = httplimit.ByAddress(httplimit.TrustHops(hops), httplimit.IPv6Prefix(128))
		}
		return keys
	}()
	single = httplimit.ByAddress(httplimit.TrustProxies(trusted...), httplimit.ReadHeader("X-Real-IP"), httplimit.IPv6Prefix(128))
	found  = httplimit.ByAddressOf(func(r *http.Request) (string, bool) { return r.Header["X-Real-Ip"][0], true }, httplimit.IPv6Prefix(128))
)

// keyByHops returns the key of the address at that position from the right.
func keyByHops(lines []string, hops int) (key string, ok bool) {
	elements := strings.Split(strings.Join(lines, ","), ",")
	if hops > len(elements) {
		return "", false
	}
	return addressKey(strings.Trim(elements[len(elements)-hops], " \t"))
}

// addressKey returns the key of the address in s, which may have a port.
func addressKey(s string) (key string, ok bool) {
	addr, ok := address(s)
	if !ok {
		return "", false
	}
	bare := addr.WithZone("")
	switch {
	case addr.Is4():
		return "4" + string(addr.AsSlice()), true
	case netip.MustParsePrefix("64:ff9b::/96").Contains(bare):
		return "4" + string(bare.AsSlice()[12:]), true
	case netip.MustParsePrefix("fe80::/10").Contains(bare):
		return "6" + string(bare.AsSlice()) + addr.Zone(), true
	}
	return "6" + string(bare.AsSlice()), true
}

// FuzzForwarded checks that two lines of Forwarded sent by a client change nothing. Values
// may be quoted.
func FuzzForwarded(f *testing.F) {
	for _, lines := range [][2]string{
		{"", ""}, {"for=6.6.6.6", "for=10.0.0.2;by=x"}, {`for="`, `for="[fd00::1]:80", for="`}, {`for="\`, `"\"`},
		{`for=10.0.0.2;host="a,b"`, `for=_x`}, {"for=6.6.6.6;for=6.6.6.6", ";"}, {"FOR=10.0.0.2:_p", `for="10.0.0.2";;`},
	} {
		f.Add(lines[0], lines[1])
	}
	key := httplimit.ByAddress(httplimit.TrustProxies(trusted...), httplimit.IPv6Prefix(128), httplimit.ReadForwarded())
	f.Fuzz(func(t *testing.T, first, second string) {
		lines := []string{first, second}
		clientKey(key, nearest+":1", "Forwarded", lines) // does not panic
		for _, element := range []func(peer string) string{
			func(peer string) string { return "for=" + peer },
			func(peer string) string { return `proto=https;for="` + peer + `:80";host="a\\\",b"` },
		} {
			checkUnforgeable(t, key, "Forwarded", lines, element)
		}
	})
}

// checkUnforgeable checks that the key is the key of client, whatever lines it sends, directly
// and through proxies that add elements for their peers.
func checkUnforgeable(t *testing.T, key httplimit.KeyFunc, header string, lines []string, element func(peer string) string) {
	want, _ := clientKey(key, client+":1", header, nil)
	check := func(remote string, lines []string) {
		if got, ok := clientKey(key, remote+":1", header, lines); !ok || got != want {
			t.Errorf("%s from %s: got %x %v, want %x", header, remote, got, ok, want)
		}
	}
	check(client, lines)
	joined := func(lines []string, peer string) []string {
		return []string{strings.Join(append(lines[:len(lines):len(lines)], element(peer)), ", ")}
	}
	added := func(lines []string, peer string) []string {
		return append(lines[:len(lines):len(lines)], element(peer))
	}
	for _, first := range []func([]string, string) []string{joined, added} {
		check(nearest, first(lines, client))
		for _, second := range []func([]string, string) []string{joined, added} {
			check("10.0.0.9", second(first(lines, client), nearest))
		}
	}
}

// keyByNetworks returns the key of the client named by lines of X-Forwarded-For: the
// rightmost address that is not in a trusted network.
func keyByNetworks(lines []string) (key string, ok bool) {
	elements := strings.Split(strings.Join(lines, ","), ",")
	for i := len(elements) - 1; i >= 0; i-- {
		element := strings.Trim(elements[i], " \t")
		addr, ok := address(element)
		if !ok {
			return "", false
		}
		addr = addr.WithZone("")
		known := i > 0
		if known {
			known = false
			for _, n := range trusted {
				// A mapped network holds mapped addresses only.
				known = known || n.Contains(addr) || addr.Is4() && n.Contains(netip.AddrFrom16(addr.As16()))
			}
		}
		if known {
			continue
		}
		return addressKey(element)
	}
	return "", false
}

// address parses an address, with its zone and with or without port, by package netip.
func address(s string) (netip.Addr, bool) {
	if strings.HasPrefix(s, "[") && strings.Count(s, "]") > 1 {
		return netip.Addr{}, false // a zone with a bracket, which netip lets pass
	}
	if strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
		addr, err := netip.ParseAddr(s[1 : len(s)-1])
		return addr.Unmap(), err == nil
	}
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Unmap(), true
	}
	colon := strings.LastIndexByte(s, ':')
	if colon < 0 || len(s)-colon > 6 || !digits(s[colon+1:]) {
		return netip.Addr{}, false
	}
	// The ports of proxies are not read, so any number of five digits will do.
	if strings.HasPrefix(s, "[") && s[colon-1] == ']' {
		addr, err := netip.ParseAddr(s[1 : colon-1]) // of IPv4, too
		return addr.Unmap(), err == nil
	}
	p, err := netip.ParseAddrPort(s[:colon] + ":1")
	return p.Addr().Unmap(), err == nil
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// FuzzRemoteAddr compares the reading of RemoteAddr with package netip's. It tests the fast
// path for IPv4, and the slow path, which white space before the address selects.
func FuzzRemoteAddr(f *testing.F) {
	for _, s := range []string{"192.0.2.1:80", "192.0.2.1", "[2001:db8::1%x]:80", "::1", "", "@", "1.2.3.4:", "01.2.3.4:5", "256.1.1.1:1", "1.2.3:4", "1.2.3.4.5:6", "[1::%x]:8]", "[fe80::1%eth0]:80", "[64:ff9b::1.2.3.4]:80", "fe80::%a%b", "[192.0.2.1]:80", "[192.0.2.1]"} {
		f.Add(s)
	}
	key := httplimit.ByAddress(httplimit.IPv6Prefix(128))
	f.Fuzz(func(t *testing.T, remote string) {
		for _, s := range []string{remote, " " + remote} {
			got, ok := clientKey(key, s, "", nil)
			want, wantOK := addressKey(strings.Trim(s, " \t"))
			if ok != wantOK {
				t.Fatalf("%q: %v, want %v", s, ok, wantOK)
			}
			if ok && got != want {
				t.Fatalf("%q: %x, want %x", s, got, want)
			}
		}
	})
}
