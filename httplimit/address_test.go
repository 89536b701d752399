package httplimit_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// proxied returns a ByAddress that trusts two IPv4 networks, one of IPv6, and one that is
// IPv4-mapped.
func proxied(more ...httplimit.AddressOption) httplimit.KeyFunc {
	return httplimit.ByAddress(append(more, httplimit.TrustProxies(
		prefix("10.0.0.0/8"), prefix("192.168.0.0/16"), prefix("fd00::/8"), prefix("::ffff:172.16.0.0/108")))...)
}

// from returns the key of a request from that remote address, with lines of a header.
func from(key httplimit.KeyFunc, remote, header string, lines ...string) (string, bool) {
	b, ok := key([]byte("x"), &http.Request{RemoteAddr: remote, Header: http.Header{header: lines}})
	return string(b), ok
}

// keyed returns the key of an address.
func keyed(addr string) string {
	a := netip.MustParseAddr(addr).Unmap()
	if a.Is4() {
		return "x4" + string(a.AsSlice())
	}
	return "x6" + string(a.AsSlice()[:8])
}

func TestByAddress_TakesTheConnectionOrTheFirstUntrustedHop(t *testing.T) {
	for _, c := range []struct {
		remote string
		lines  []string
		want   string // "": cannot be told
	}{
		{"192.0.2.1:1234", nil, "192.0.2.1"},
		{"192.0.2.1", nil, "192.0.2.1"},
		{"[2001:db8::1]:1234", nil, "2001:db8::1"},
		{"[2001:db8::1%eth0]:1234", nil, "2001:db8::1"},
		{"2001:db8::1", nil, "2001:db8::1"},
		{"[::ffff:192.0.2.1]:1234", nil, "192.0.2.1"},
		{"", nil, ""},
		{"@", nil, ""},
		{"192.0.2.1:", nil, ""},
		{"192.0.2.1:http", nil, ""},
		{"192.0.2.01:80", nil, ""},
		{"192.0.2.256:80", nil, ""},
		{"192.0.2:80", nil, ""},
		{"1.2.3.4.5:80", nil, ""},
		{"1.2.3.4%eth0:80", nil, ""},
		{"[192.0.2.1]:80", nil, "192.0.2.1"},
		{"[192.0.2.1]", nil, "192.0.2.1"},
		{"[192.0.2.1%eth0]:80", nil, ""},
		{"[192.0.2.1:80]", nil, ""},
		{"[192.0.2]:80", nil, ""},
		{"[2001:db8::1]80", nil, ""},
		{"[2001:db8::1", nil, ""},
		{"[2001:db8::1%]:80", nil, ""},
		{"example.com:80", nil, ""},

		// Only a trusted proxy is believed.
		{"192.0.2.1:1", []string{"198.51.100.1"}, "192.0.2.1"},
		{"[2001:db8::1]:1", []string{"10.0.0.1, 198.51.100.1"}, "2001:db8::1"},
		{"192.0.2.1:1", []string{"junk"}, "192.0.2.1"},

		// A trusted proxy is believed about the hop before it.
		{"10.0.0.1:1", nil, "10.0.0.1"},
		{"10.0.0.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"10.0.0.1:1", []string{" 198.51.100.1\t"}, "198.51.100.1"},
		{"10.0.0.1:1", []string{"198.51.100.1:4711"}, "198.51.100.1"},
		{"10.0.0.1:1", []string{"2001:db8::2"}, "2001:db8::2"},
		{"10.0.0.1:1", []string{"[2001:db8::2]"}, "2001:db8::2"},
		{"10.0.0.1:1", []string{"[2001:db8::2%eth0]:4711"}, "2001:db8::2"},
		{"10.0.0.1:1", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"[::ffff:10.0.0.1]:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"[fd00::1%eth0]:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"172.16.0.1:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"172.31.255.255:1", []string{"198.51.100.1"}, "198.51.100.1"},
		{"172.32.0.1:1", []string{"198.51.100.1"}, "172.32.0.1"},
		{"10.0.0.1:1", []string{"6.6.6.6, 198.51.100.1"}, "198.51.100.1"},
		{"10.0.0.1:1", []string{"6.6.6.6, 198.51.100.1, 192.168.0.1, fd00::1"}, "198.51.100.1"},
		{"10.0.0.1:1", []string{"6.6.6.6", "198.51.100.1", "192.168.0.1"}, "198.51.100.1"},
		{"10.0.0.1:1", []string{"6.6.6.6", "198.51.100.1,192.168.0.1"}, "198.51.100.1"},
		{"10.0.0.1:1", []string{"10.0.0.3, 192.168.0.1"}, "10.0.0.3"}, // all trusted: the leftmost

		// Malformed elements that are read.
		{"10.0.0.1:1", []string{""}, ""},
		{"10.0.0.1:1", []string{"198.51.100.1,"}, ""},
		{"10.0.0.1:1", []string{"198.51.100.1, , 10.0.0.2"}, ""},
		{"10.0.0.1:1", []string{"198.51.100.1", ""}, ""},
		{"10.0.0.1:1", []string{"unknown"}, ""},
		{"10.0.0.1:1", []string{"198.51.100.1:123456"}, ""},
		{"10.0.0.1:1", []string{"198.51.100.1, unknown, 10.0.0.2"}, ""},
		{"10.0.0.1:1", []string{"198.51.100.1 10.0.0.2"}, ""},
		{"10.0.0.1:1", []string{`"198.51.100.1"`}, ""},
		{"10.0.0.1:1", []string{"198.51.100.1;10.0.0.2"}, ""},
		// Malformed elements that are not read.
		{"10.0.0.1:1", []string{"junk,,\",\x00, 198.51.100.1"}, "198.51.100.1"},
	} {
		got, ok := from(proxied(), c.remote, "X-Forwarded-For", c.lines...)
		require.Equal(t, c.want != "", ok, "%+v", c)
		if ok {
			require.Equal(t, keyed(c.want), got, "%+v", c)
		}
	}
}

func TestByAddress_ReadsForwarded(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  string
	}{
		{nil, "10.0.0.1"},
		{[]string{"for=198.51.100.1"}, "198.51.100.1"},
		{[]string{`For="198.51.100.1:80"`}, "198.51.100.1"},
		{[]string{`FOR="[2001:db8::2]";proto=https;by=10.0.0.1`}, "2001:db8::2"},
		{[]string{`proto=https; for="[2001:db8::2]:_port" ;by="_hidden"`}, "2001:db8::2"},
		{[]string{"for=198.51.100.1:80"}, "198.51.100.1"}, // a port without quotes is wrong, but common
		{[]string{"for=[2001:db8::2]"}, "2001:db8::2"},
		{[]string{"for=6.6.6.6, for=198.51.100.1, for=192.168.0.1"}, "198.51.100.1"},
		{[]string{"for=6.6.6.6", "for=198.51.100.1", `for="[fd00::1]"`}, "198.51.100.1"},
		{[]string{`for=198.51.100.1;host="a,for=6.6.6.6", for=10.0.0.2`}, "198.51.100.1"},
		{[]string{`for=198.51.100.1;host="\", for=6.6.6.6\\", for=10.0.0.2`}, "198.51.100.1"},
		// The elements left of the client cannot hide it.
		{[]string{`for=", for=198.51.100.1`}, "198.51.100.1"},
		{[]string{`for="\, for=198.51.100.1;by="[fd00::2]"`}, "198.51.100.1"},
		{[]string{`"for=6.6.6.6", for=198.51.100.1`, `for="10.0.0.2"`}, "198.51.100.1"},

		{[]string{""}, ""},
		{[]string{"for=198.51.100.1,"}, ""},
		{[]string{"198.51.100.1"}, ""},
		{[]string{"for="}, ""},
		{[]string{`for=""`}, ""},
		{[]string{"for=unknown"}, ""},
		{[]string{"for=_hidden"}, ""},
		{[]string{"proto=https"}, ""},
		{[]string{"for=198.51.100.1;for=6.6.6.6"}, ""},
		{[]string{"for=198.51.100.1;proto"}, ""},
		{[]string{"for=198.51.100.1;"}, ""},
		{[]string{"for =198.51.100.1"}, ""},
		{[]string{`for="198.51.100.1`}, ""},
		{[]string{`for="198.51.100.1"x`}, ""},
		{[]string{`for="198.51.100.1";by="`}, ""},
		{[]string{"for=198.51.100.1;by=[::1"}, ""},
		{[]string{`for="[2001:db8::2]:_"`}, ""},
		{[]string{`for="[2001:db8::2]:"`}, ""},
		{[]string{`for="\198.51.100.1"`}, ""},
	} {
		got, ok := from(proxied(httplimit.ReadForwarded()), "10.0.0.1:1", "Forwarded", c.lines...)
		require.Equal(t, c.want != "", ok, "%q", c)
		if ok {
			require.Equal(t, keyed(c.want), got, "%q", c)
		}
	}
}

// A client is keyed by its real address, whatever it sends, through any number of trusted
// proxies, in one line or in several.
func TestByAddress_CannotBeForged(t *testing.T) {
	const client = "198.51.100.7"
	forged := []string{
		"", ",", "6.6.6.6", "10.0.0.9", "fd00::1", "10.0.0.9, 10.0.0.9", "6.6.6.6, 10.0.0.9", "unknown", `"`, `"\`, `\"`,
		"for=6.6.6.6", `for="6.6.6.6`, `for="[fd00::1]", for="`, `for=10.0.0.9;host="`, `for=6.6.6.6;x="\`, "for=10.0.0.9;",
		"\x00", "é", strings.Repeat("10.0.0.9,", 1000) + "10.0.0.9", strings.Repeat("for=10.0.0.9,", 1000), strings.Repeat(`"`, 999),
		"198.51.100.7, 10.0.0.9:99999", "::ffff:10.0.0.9", "10.0.0.9%eth0",
	}
	type proxy func(lines []string, peer string) []string
	xff := map[string]proxy{
		"joins":   func(lines []string, peer string) []string { return []string{strings.Join(append(lines, peer), ", ")} },
		"appends": func(lines []string, peer string) []string { return append(lines, peer) },
	}
	forwarded := map[string]proxy{
		"joins": func(lines []string, peer string) []string {
			return []string{strings.Join(append(lines, `for="`+peer+`";host="a,\"b";proto=https`), ", ")}
		},
		"appends": func(lines []string, peer string) []string { return append(lines, "by=_us;for="+peer) },
	}
	for _, c := range []struct {
		header  string
		key     httplimit.KeyFunc
		proxies map[string]proxy
	}{
		{"X-Forwarded-For", proxied(), xff},
		{"Forwarded", proxied(httplimit.ReadForwarded()), forwarded},
	} {
		for name, pass := range c.proxies {
			for _, first := range forged {
				for _, second := range forged {
					sent := []string{first, second}
					got, ok := from(c.key, client+":1", c.header, sent...)
					require.True(t, ok)
					require.Equal(t, keyed(client), got, "%s, to us: %q", c.header, sent)

					one := pass(sent, client)
					got, ok = from(c.key, "10.0.0.1:1", c.header, one...)
					require.True(t, ok, "%s %s: %q", c.header, name, one)
					require.Equal(t, keyed(client), got, "%s %s: %q", c.header, name, one)

					two := pass(one, "10.0.0.1")
					got, ok = from(c.key, "192.168.0.1:1", c.header, two...)
					require.True(t, ok, "%s %s: %q", c.header, name, two)
					require.Equal(t, keyed(client), got, "%s %s: %q", c.header, name, two)

					// The other header is not read.
					got, _ = from(httplimit.ByAddress(), client+":1", c.header, two...)
					require.Equal(t, keyed(client), got)
				}
			}
		}
	}
	got, _ := from(proxied(), "10.0.0.1:1", "Forwarded", "for=6.6.6.6")
	require.Equal(t, keyed("10.0.0.1"), got)
	got, _ = from(proxied(httplimit.ReadForwarded()), "10.0.0.1:1", "X-Forwarded-For", "6.6.6.6")
	require.Equal(t, keyed("10.0.0.1"), got)
}

func TestByAddress_KeysIPv6ByPrefix(t *testing.T) {
	key := func(bits int, remote string) string {
		k, ok := from(httplimit.ByAddress(httplimit.IPv6Prefix(bits)), remote, "")
		require.True(t, ok)
		return k
	}
	for bits := 1; bits <= 128; bits++ {
		const remote = "2001:db8:aaaa:aaaa:aaaa:aaaa:aaaa:aaaa"
		network := netip.MustParsePrefix(remote + "/128")
		network, err := network.Addr().Prefix(bits)
		require.NoError(t, err)
		require.Equal(t, key(bits, network.Addr().String()), key(bits, remote), bits)
		if bits < 128 {
			require.Equal(t, key(bits, lastOf(network).String()), key(bits, remote), bits)
			require.NotEqual(t, key(bits, lastOf(network).Next().String()), key(bits, remote), bits)
		}
	}
	// Four bytes of IPv6 are not an IPv4 address.
	require.NotEqual(t, key(32, "2001:db8::1"), key(32, "32.1.13.184"))
	same, _ := from(httplimit.ByAddress(), "2001:db8::ffff", "")
	require.Equal(t, keyed("2001:db8::1"), same)
	neighbour, _ := from(httplimit.ByAddress(), "2001:db8:0:1::1", "")
	require.NotEqual(t, same, neighbour)
}

// lastOf returns the last address of an IPv6 network.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().As16()
	for i := p.Bits(); i < 128; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom16(b)
}

func TestByAddress_RefusesOptionsThatCannotBe(t *testing.T) {
	require.PanicsWithValue(t, "httplimit: IPv6Prefix: bits must be from 1 to 128, got 0", func() { httplimit.IPv6Prefix(0) })
	require.Panics(t, func() { httplimit.IPv6Prefix(129) })
	require.Panics(t, func() { httplimit.TrustProxies(netip.Prefix{}) })
	require.Panics(t, func() { httplimit.ByAddress(nil) })
}

func TestByAddress_AllocatesNothing(t *testing.T) {
	key, buffer := proxied(), make([]byte, 0, 64)
	read, hops := proxied(httplimit.ReadForwarded()), httplimit.ByAddress(httplimit.TrustHops(2))
	header := proxied(httplimit.ReadHeader("X-Real-IP"))
	of := httplimit.ByAddressOf(func(r *http.Request) (string, bool) { return r.RemoteAddr, true })
	for _, r := range []*http.Request{
		{RemoteAddr: "192.0.2.1:1234"},
		{RemoteAddr: "[2001:db8::1]:1234"},
		{RemoteAddr: "[fe80::1%eth0]:1234"},
		{RemoteAddr: "[64:ff9b::192.0.2.1]:1234"},
		{RemoteAddr: "10.0.0.1:1", Header: http.Header{"X-Real-Ip": {"[fe80::1%eth0]:1234"}}},
		{RemoteAddr: "10.0.0.1:1", Header: http.Header{"X-Forwarded-For": {"6.6.6.6", "2001:db8::1%eth0, 10.0.0.2:80"}}},
		{RemoteAddr: "10.0.0.1:1", Header: http.Header{"Forwarded": {`for="[2001:db8::1]:80";proto=https, for=10.0.0.2`}}},
	} {
		for _, k := range []httplimit.KeyFunc{key, read, hops, header, of} {
			require.Zero(t, testing.AllocsPerRun(100, func() { k(buffer, r) }), r.RemoteAddr)
		}
	}
}

func TestByAddress_LimitsARealClient(t *testing.T) {
	s := newSite(t, httplimit.Policy{Name: "each", Limits: []sash.Limit{sash.PerHour(1).Log()}, Key: httplimit.ByAddress()})
	require.Equal(t, []int{200, 429}, s.codes(2, "GET /"))
	require.Equal(t, []int{429}, s.codes(1, "GET /", "X-Forwarded-For", "6.6.6.6"))
}

// A proxy that connects through a Unix socket has no address.
func TestByAddress_BelievesAUnixSocketIfToldTo(t *testing.T) {
	for _, c := range []struct {
		trusts bool
		lines  string
		want   string // "": cannot be told
	}{
		{true, "6.6.6.6, 198.51.100.7", "198.51.100.7"},
		{true, "6.6.6.6, 198.51.100.7, 10.0.0.1", "198.51.100.7"},
		{true, "10.0.0.1", "10.0.0.1"},
		{true, "unknown", ""},
		{true, "", ""},
		{false, "198.51.100.7", ""},
	} {
		options := []httplimit.AddressOption{httplimit.TrustProxies(prefix("10.0.0.0/8"))}
		if c.trusts {
			options = append(options, httplimit.TrustUnixSocket())
		}
		key, seen := httplimit.ByAddress(options...), make(chan string, 1)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			b, ok := key([]byte("x"), r)
			if !ok {
				b = nil
			}
			seen <- string(b)
		}))
		t.Chdir(t.TempDir()) // the path of a socket must be short
		listener, err := net.Listen("unix", "s")
		require.NoError(t, err)
		require.NoError(t, server.Listener.Close())
		server.Listener = listener
		server.Start()
		conn, err := net.Dial("unix", "s")
		require.NoError(t, err)
		r := newRequest("GET http://h/")
		if c.lines != "" {
			r.Header.Set("X-Forwarded-For", c.lines)
		}
		require.NoError(t, r.Write(conn))
		got := <-seen
		conn.Close()
		server.Close()
		if c.want == "" {
			require.Empty(t, got, c)
		} else {
			require.Equal(t, keyed(c.want), got, c)
		}
	}

	// No other connection is taken for a Unix socket.
	key := httplimit.ByAddress(httplimit.TrustUnixSocket())
	got, ok := from(key, "192.0.2.1:1", "X-Forwarded-For", "6.6.6.6")
	require.True(t, ok)
	require.Equal(t, keyed("192.0.2.1"), got)
	_, ok = from(key, "@", "X-Forwarded-For", "6.6.6.6")
	require.False(t, ok)
}

// A trusted proxy may name any address. So no client is limited if all are trusted.
func TestTrustProxies_RefusesToTrustEveryone(t *testing.T) {
	for _, wide := range []string{
		"0.0.0.0/0", "1.2.3.4/0", "0.0.0.0/1", "128.0.0.0/1", "64.0.0.0/2", "10.0.0.0/7",
		"::ffff:0.0.0.0/96", "::ffff:128.0.0.0/97", "::ffff:10.0.0.0/103", "::ffff:0.0.0.0/90", "::/80",
		"::/0", "::/1", "8000::/1", "2000::/3", "2000::/7", "2600::/12", "2a00::/15", "fc00::/6", "64:ff9b::/96", "64:ff9b::/64", "64::/16", "64:ff9b::a00:0/103",
	} {
		want := "httplimit: TrustProxies: " + wide + " is too wide: every client in it could name any address; " +
			"name the networks of your own proxies, from /8 for IPv4 and /16 for public IPv6, or their number by TrustHops if their addresses are not known"
		require.PanicsWithValue(t, want, func() { httplimit.ByAddress(httplimit.TrustProxies(prefix("10.0.0.0/8"), prefix(wide))) }, wide)
	}
	for _, fine := range []string{
		"10.0.0.0/8", "172.16.0.0/12", "192.0.2.1/32", "::ffff:10.0.0.0/104", "::ffff:192.0.2.1/128",
		"fc00::/7", "fe80::/10", "2400:cb00::/32", "2630::/16", "::1/128", "64:ff9b::a00:0/104", "64:ff9b:1::/48",
	} {
		require.NotPanics(t, func() { httplimit.ByAddress(httplimit.TrustProxies(prefix(fine))) }, fine)
	}
}

func TestByAddress_KeysNAT64ByTheIPv4Address(t *testing.T) {
	for remote, want := range map[string]string{
		"[64:ff9b::c633:6407]:80":   "198.51.100.7",
		"[64:ff9b::198.51.100.8]:1": "198.51.100.8",
		"[64:ff9b::1%eth0]:1":       "0.0.0.1",
		"[64:ff9b::1:c633:6407]:80": "64:ff9b::1:c633:6407", // not of that network
		"[64:ff9b:1::c633:6407]:80": "64:ff9b:1::c633:6407",
	} {
		got, ok := from(httplimit.ByAddress(), remote, "")
		require.True(t, ok)
		require.Equal(t, keyed(want), got, remote)
		named, ok := from(proxied(), "10.0.0.1:1", "X-Forwarded-For", strings.TrimSuffix(remote, ":1"))
		require.True(t, ok)
		require.Equal(t, keyed(want), named, remote)
	}
	// A proxy behind a NAT64 is trusted by its translated address.
	for network, want := range map[string]string{"64:ff9b::a00:0/104": "198.51.100.7", "10.0.0.0/8": "10.0.0.1"} {
		got, ok := from(httplimit.ByAddress(httplimit.TrustProxies(prefix(network))), "[64:ff9b::10.0.0.1]:80", "X-Forwarded-For", "198.51.100.7")
		require.True(t, ok)
		require.Equal(t, keyed(want), got)
	}
}

// On a link, all hosts share the first 64 bits, and an address identifies a host only
// together with the link.
func TestByAddress_KeysLinkLocalClientsByAddressAndZone(t *testing.T) {
	for name, options := range map[string][]httplimit.AddressOption{"default": nil, "short": {httplimit.IPv6Prefix(8)}, "long": {httplimit.IPv6Prefix(128)}} {
		key := httplimit.ByAddress(options...)
		seen := map[string]string{}
		for _, addr := range []string{"fe80::1", "fe80::2", "fe80::1%eth0", "fe80::1%eth1", "fe80::2%eth0", "fe80:1::1", "febf::1%eth0"} {
			got, ok := from(key, "["+addr+"]:80", "")
			require.True(t, ok)
			require.Empty(t, seen[got], "%s: %s", name, addr)
			seen[got] = addr
			again, ok := from(key, "["+addr+"]:81", "")
			require.True(t, ok)
			require.Equal(t, got, again, "%s: %s", name, addr)
		}
	}
	// The zone of any other address is dropped.
	for _, addr := range []string{"2001:db8::1", "fd00::1", "fec0::1", "::1"} {
		bare, _ := from(httplimit.ByAddress(), "["+addr+"]:80", "")
		zoned, ok := from(httplimit.ByAddress(), "["+addr+"%eth0]:80", "")
		require.True(t, ok)
		require.Equal(t, bare, zoned, addr)
	}
	// A proxy may name a zone.
	direct, _ := from(httplimit.ByAddress(), "[fe80::1%eth0]:80", "")
	for _, c := range []struct {
		key          httplimit.KeyFunc
		header, line string
	}{
		{proxied(), "X-Forwarded-For", "fe80::1%eth0"},
		{proxied(), "X-Forwarded-For", "[fe80::1%eth0]:80"},
		{proxied(httplimit.ReadForwarded()), "Forwarded", `for="[fe80::1%eth0]:80";proto=http`},
		{proxied(httplimit.ReadHeader("X-Real-IP")), "X-Real-Ip", "fe80::1%eth0"},
	} {
		got, ok := from(c.key, "10.0.0.1:1", c.header, c.line)
		require.True(t, ok, c.line)
		require.Equal(t, direct, got, c.line)
	}
	// A trusted proxy is trusted with a zone, too.
	linked := httplimit.ByAddress(httplimit.TrustProxies(prefix("fe80::/10")))
	got, ok := from(linked, "[fe80::1%eth0]:1", "X-Forwarded-For", "198.51.100.7")
	require.True(t, ok)
	require.Equal(t, keyed("198.51.100.7"), got)
}

func TestByAddress_KeysIPv4ByPrefix(t *testing.T) {
	key := func(bits int, remote string) string {
		k, ok := from(httplimit.ByAddress(httplimit.IPv4Prefix(bits)), remote, "")
		require.True(t, ok)
		return k
	}
	for bits := 1; bits <= 32; bits++ {
		const remote = "42.170.170.170"
		network, err := netip.MustParseAddr(remote).Prefix(bits)
		require.NoError(t, err)
		last := network.Addr().As4()
		for i := bits; i < 32; i++ {
			last[i/8] |= 0x80 >> (i % 8)
		}
		for _, form := range []string{"%s:80", "[::ffff:%s]:80", "[64:ff9b::%s]:80"} {
			in := func(a netip.Addr) string { return strings.Replace(form, "%s", a.String(), 1) }
			require.Equal(t, key(bits, remote), key(bits, in(network.Addr())), bits)
			require.Equal(t, key(bits, remote), key(bits, in(netip.AddrFrom4(last))), bits)
			require.NotEqual(t, key(bits, remote), key(bits, in(netip.AddrFrom4(last).Next())), bits)
		}
		require.NotEqual(t, key(bits, remote), key(bits, "[2aaa:aaaa::1]:80"), "IPv6 is not IPv4")
	}
	require.Equal(t, keyed("42.170.170.170"), key(32, "42.170.170.170"), "the default")
	both := httplimit.ByAddress(httplimit.IPv4Prefix(24), httplimit.IPv6Prefix(56))
	four, _ := from(both, "198.51.100.7:1", "")
	six, _ := from(both, "[2001:db8:0:ff::1]:1", "")
	require.Equal(t, "x4"+string([]byte{198, 51, 100}), four)
	require.Equal(t, "x6"+string([]byte{0x20, 1, 0xd, 0xb8, 0, 0, 0}), six)
}

// The client is the address written by the farthest of the counted proxies. Neither the
// addresses of the proxies nor the elements of the client matter.
func TestTrustHops_TakesTheElementOfTheFarthestProxy(t *testing.T) {
	for _, c := range []struct {
		hops  int
		lines []string
		want  string // "": cannot be told
	}{
		{1, []string{"198.51.100.1"}, "198.51.100.1"},
		{1, []string{"6.6.6.6, 198.51.100.1"}, "198.51.100.1"},
		{1, []string{"6.6.6.6", "198.51.100.1"}, "198.51.100.1"},
		{1, []string{"junk,,\",\x00", " [2001:db8::2]:80 "}, "2001:db8::2"},
		{1, []string{"10.0.0.1"}, "10.0.0.1"}, // of no trusted network in particular
		{2, []string{"6.6.6.6, 198.51.100.1, 203.0.113.9"}, "198.51.100.1"},
		{2, []string{"6.6.6.6, 198.51.100.1", "203.0.113.9"}, "198.51.100.1"},
		{2, []string{"6.6.6.6", "198.51.100.1", "unknown"}, "198.51.100.1"}, // a hop is counted, not read
		{2, []string{"198.51.100.1", "203.0.113.9"}, "198.51.100.1"},
		{3, []string{"198.51.100.1,203.0.113.9", "203.0.113.8"}, "198.51.100.1"},

		// The request came through fewer proxies.
		{1, nil, ""},
		{2, nil, ""},
		{2, []string{"198.51.100.1"}, ""},
		{3, []string{"198.51.100.1", "203.0.113.9"}, ""},
		// A malformed element of the farthest proxy.
		{1, []string{"198.51.100.1, unknown"}, ""},
		{1, []string{"198.51.100.1,"}, ""},
		{1, []string{""}, ""},
		{2, []string{"198.51.100.1, , 203.0.113.9"}, ""},
	} {
		for _, remote := range []string{"203.0.113.1:1", "[2001:db8::1]:1", "@", ""} {
			got, ok := from(httplimit.ByAddress(httplimit.TrustHops(c.hops)), remote, "X-Forwarded-For", c.lines...)
			require.Equal(t, c.want != "", ok, "%+v", c)
			if ok {
				require.Equal(t, keyed(c.want), got, "%+v", c)
			}
		}
		var forwarded []string
		for _, line := range c.lines {
			if strings.ContainsAny(line, "\"[") {
				forwarded = append(forwarded, strings.Repeat("x,", strings.Count(line, ","))+`for="`+strings.TrimSpace(line)+`"`)
				continue
			}
			forwarded = append(forwarded, "for="+strings.ReplaceAll(strings.ReplaceAll(line, ", ", ","), ",", ",for="))
		}
		if len(c.lines) > 0 && strings.ContainsRune(c.lines[0], '"') {
			forwarded[0] = "junk"
		}
		got, ok := from(httplimit.ByAddress(httplimit.TrustHops(c.hops), httplimit.ReadForwarded()), "@", "Forwarded", forwarded...)
		require.Equal(t, c.want != "", ok, "%q", forwarded)
		if ok {
			require.Equal(t, keyed(c.want), got, "%q", forwarded)
		}
	}
	last, _ := from(httplimit.ByAddress(httplimit.TrustHops(7), httplimit.TrustHops(1)), "@", "X-Forwarded-For", "6.6.6.6, 198.51.100.1")
	require.Equal(t, keyed("198.51.100.1"), last, "the last number holds")
}

func TestReadHeader_BelievesOneAddressFromTrustedNetworksOnly(t *testing.T) {
	for _, name := range []string{"CF-Connecting-IP", "X-Real-IP", "true-client-ip"} {
		key, header := proxied(httplimit.ReadHeader(name)), http.CanonicalHeaderKey(name)
		for _, c := range []struct {
			remote string
			lines  []string
			want   string // "": cannot be told
		}{
			{"10.0.0.1:1", []string{"198.51.100.7"}, "198.51.100.7"},
			{"10.0.0.1:1", []string{" 198.51.100.7:4711\t"}, "198.51.100.7"},
			{"[fd00::1]:1", []string{"2001:db8::2"}, "2001:db8::2"},
			{"172.16.0.1:1", []string{"::ffff:198.51.100.7"}, "198.51.100.7"},
			{"10.0.0.1:1", []string{"10.0.0.2"}, "10.0.0.2"}, // not skipped: it is the client
			{"10.0.0.1:1", nil, "10.0.0.1"},                  // the request is the proxy's own
			{"192.0.2.1:1", []string{"6.6.6.6"}, "192.0.2.1"},
			{"192.0.2.1:1", []string{"junk"}, "192.0.2.1"},
			{"@", []string{"6.6.6.6"}, ""},

			{"10.0.0.1:1", []string{""}, ""},
			{"10.0.0.1:1", []string{"unknown"}, ""},
			{"10.0.0.1:1", []string{"6.6.6.6, 198.51.100.7"}, ""},
			{"10.0.0.1:1", []string{"6.6.6.6", "198.51.100.7"}, ""},
			{"10.0.0.1:1", []string{"198.51.100.7", "198.51.100.7"}, ""},
		} {
			got, ok := from(key, c.remote, header, c.lines...)
			require.Equal(t, c.want != "", ok, "%s: %+v", name, c)
			if ok {
				require.Equal(t, keyed(c.want), got, "%s: %+v", name, c)
			}
		}
		got, ok := from(key, "10.0.0.1:1", "X-Forwarded-For", "6.6.6.6")
		require.True(t, ok)
		require.Equal(t, keyed("10.0.0.1"), got, "no other header is read")
	}
}

func TestByAddressOf_ReadsWhatAFunctionFinds(t *testing.T) {
	found := ""
	find := func(*http.Request) (string, bool) { return found, found != "-" }
	key := httplimit.ByAddressOf(find)
	for s, want := range map[string]string{
		"198.51.100.7": "198.51.100.7", "198.51.100.7:80": "198.51.100.7", " [2001:db8::1%eth0]:80 ": "2001:db8::1",
		"::ffff:198.51.100.7": "198.51.100.7", "64:ff9b::198.51.100.7": "198.51.100.7",
		"": "", "-": "", "unknown": "", "198.51.100.7, 6.6.6.6": "", "example.com": "",
	} {
		found = s
		got, ok := from(key, "10.0.0.1:1", "X-Forwarded-For", "6.6.6.6")
		require.Equal(t, want != "", ok, s)
		if ok {
			require.Equal(t, keyed(want), got, s)
		}
	}
	found = "198.51.100.7"
	got, ok := from(httplimit.ByAddressOf(find, httplimit.IPv4Prefix(16)), "", "")
	require.True(t, ok)
	require.Equal(t, "x4"+string([]byte{198, 51}), got)
	found = "2001:db8::1"
	got, ok = from(httplimit.ByAddressOf(find, httplimit.IPv6Prefix(16)), "", "")
	require.True(t, ok)
	require.Equal(t, "x6"+string([]byte{0x20, 1}), got)
}

// Every pair of options, and some triples, either work together or are refused.
func TestByAddress_RefusesOptionsThatContradictEachOther(t *testing.T) {
	hops, proxies, socket := httplimit.TrustHops(1), httplimit.TrustProxies(prefix("10.0.0.0/8")), httplimit.TrustUnixSocket()
	forwarded, header := httplimit.ReadForwarded(), httplimit.ReadHeader("X-Real-IP")
	type options = []httplimit.AddressOption
	for _, c := range []struct {
		given options
		want  string
	}{
		{options{hops, proxies}, "TrustHops trusts proxies by their number, and TrustProxies by their networks: give one of them"},
		{options{httplimit.TrustProxies(), hops}, "TrustHops trusts proxies by their number, and TrustProxies by their networks: give one of them"},
		{options{hops, socket}, "TrustHops counts a Unix socket as it counts any other hop: TrustUnixSocket has no effect"},
		{options{hops, header}, "TrustHops trusts whatever connects, which could send any X-Real-IP: ReadHeader needs TrustProxies or TrustUnixSocket"},
		{options{forwarded, header, proxies}, "only one header is read: it cannot be both Forwarded and X-Real-IP"},
		{options{header, forwarded, proxies}, "only one header is read: it cannot be both X-Real-IP and Forwarded"},
		{options{header, httplimit.ReadHeader("CF-Connecting-IP"), proxies}, "only one header is read: it cannot be both X-Real-IP and CF-Connecting-IP"},
		{options{forwarded}, "Forwarded is read, but no proxy is trusted: give TrustProxies, TrustHops or TrustUnixSocket"},
		{options{header}, "X-Real-IP is read, but no proxy is trusted: give TrustProxies or TrustUnixSocket"},
	} {
		require.PanicsWithValue(t, "httplimit: ByAddress: "+c.want, func() { httplimit.ByAddress(c.given...) })
	}
	four, six := httplimit.IPv4Prefix(24), httplimit.IPv6Prefix(48)
	for _, fine := range []options{
		{proxies, socket}, {proxies, forwarded}, {proxies, header}, {proxies, forwarded, forwarded}, {proxies, header, httplimit.ReadHeader("x-real-ip")},
		{socket, forwarded}, {socket, header}, {hops, forwarded}, {httplimit.TrustProxies(), forwarded},
		{proxies, four, six}, {hops, four, six}, {header, socket, four, six},
	} {
		require.NotPanics(t, func() { httplimit.ByAddress(fine...) })
	}
	find := func(*http.Request) (string, bool) { return "", false }
	for name, option := range map[string]httplimit.AddressOption{"TrustHops": hops, "TrustProxies": proxies, "TrustUnixSocket": socket, "ReadForwarded": forwarded, "ReadHeader": header} {
		require.PanicsWithValue(t, "httplimit: ByAddressOf: the function finds the address: "+name+" has no effect", func() { httplimit.ByAddressOf(find, four, option) })
	}
	require.PanicsWithValue(t, "httplimit: ByAddressOf: must not be given nil", func() { httplimit.ByAddressOf(nil) })
	require.PanicsWithValue(t, "httplimit: ByAddressOf: must not be given nil", func() { httplimit.ByAddressOf(find, nil) })
	require.PanicsWithValue(t, "httplimit: IPv4Prefix: bits must be from 1 to 32, got 33", func() { httplimit.IPv4Prefix(33) })
	require.Panics(t, func() { httplimit.IPv4Prefix(0) })
	require.PanicsWithValue(t, "httplimit: TrustHops: hops must be at least 1, got 0", func() { httplimit.TrustHops(0) })
	for _, name := range []string{"", "Host", "X Real IP", "X-Real-IP:", "é"} {
		require.Panics(t, func() { httplimit.ReadHeader(name) }, name)
	}
	for _, name := range []string{"x-forwarded-for", "Forwarded"} {
		require.PanicsWithValue(t, "httplimit: ReadHeader: "+http.CanonicalHeaderKey(name)+" is a list of addresses: ByAddress reads X-Forwarded-For by default, and Forwarded with ReadForwarded",
			func() { httplimit.ReadHeader(name) })
	}
}

func TestAddressOfIdentity_IsWhatByAddressHasKeyed(t *testing.T) {
	byAddress := httplimit.ByAddressOf(func(r *http.Request) (string, bool) { return r.Header.Get("Address"), true })
	short := httplimit.ByAddressOf(func(r *http.Request) (string, bool) { return r.Header.Get("Address"), true },
		httplimit.IPv4Prefix(20), httplimit.IPv6Prefix(44))
	whole := httplimit.ByAddressOf(func(r *http.Request) (string, bool) { return r.Header.Get("Address"), true },
		httplimit.IPv6Prefix(128))
	for _, c := range []struct {
		key           httplimit.KeyFunc
		address, want string
	}{
		{byAddress, "203.0.113.7", "203.0.113.7"},
		{byAddress, "203.0.113.7:1024", "203.0.113.7"},
		{byAddress, "::ffff:203.0.113.7", "203.0.113.7"},
		{byAddress, "64:ff9b::203.0.113.7", "203.0.113.7"},
		{byAddress, "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"},
		{byAddress, "fe80::1%eth0", "fe80::1%eth0"},
		{byAddress, "fe80::1", "fe80::1"},
		{short, "203.0.113.7", "203.0.112.0/24"},
		{short, "2001:db8:1fff::1", "2001:db8:1ff0::/48"},
		{whole, "2001:db8::1", "2001:db8::1"},
	} {
		identity, ok := c.key(nil, newRequest("GET /", "Address", c.address))
		require.True(t, ok, c.address)
		got, ok := httplimit.AddressOfIdentity(string(identity))
		require.True(t, ok, c.address)
		require.Equal(t, c.want, got)
	}
	for _, identity := range []string{"", "4", "6", "412345", "5abcd", "6" + strings.Repeat("x", 17), "alice"} {
		_, ok := httplimit.AddressOfIdentity(identity)
		require.False(t, ok, identity)
	}
}

// Connections without addresses are one client, unless a proxy is trusted. They share no quota with
// an address.
func TestByAddress_TakesConnectionsWithoutAddressesForOneClient(t *testing.T) {
	through := func(local net.Addr, remote string) *http.Request {
		r := newRequest("GET /", "X-Forwarded-For", "6.6.6.6")
		r.RemoteAddr = remote
		if local != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, local))
		}
		return r
	}
	here, there := net.Pipe()
	defer there.Close()
	defer here.Close()
	socket, tcp := &net.UnixAddr{Name: "/run/s", Net: "unix"}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
	key := httplimit.ByAddress()
	for _, r := range []*http.Request{
		through(socket, "@"), through(socket, ""), through(socket, "/run/client"), through(here.LocalAddr(), "pipe"), through(here.LocalAddr(), "bufconn"),
	} {
		got, ok := key([]byte("x"), r)
		require.True(t, ok)
		require.Equal(t, "xl", string(got))
		for _, trusted := range []httplimit.AddressOption{httplimit.TrustProxies(prefix("10.0.0.0/8")), httplimit.TrustHops(2)} {
			_, ok = httplimit.ByAddress(trusted)(nil, r)
			require.False(t, ok)
		}
	}
	for _, r := range []*http.Request{through(nil, "@"), through(tcp, "@"), through(tcp, ""), through(&net.UDPAddr{}, "quic")} {
		_, ok := key(nil, r)
		require.False(t, ok)
	}
	got, ok := key([]byte("x"), through(socket, "192.0.2.1:80"))
	require.True(t, ok)
	require.Equal(t, keyed("192.0.2.1"), string(got))
}
