package httplimit_test

import (
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

// proxied trusts two IPv4 networks, one of IPv6, and one IPv4-mapped.
func proxied(more ...httplimit.AddressOption) httplimit.KeyFunc {
	return httplimit.ByAddress(append(more, httplimit.TrustProxies(
		prefix("10.0.0.0/8"), prefix("192.168.0.0/16"), prefix("fd00::/8"), prefix("::ffff:172.16.0.0/108")))...)
}

// from returns the key of a connection from there, with lines of a header.
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
		{"[192.0.2.1]:80", nil, ""},
		{"[2001:db8::1]80", nil, ""},
		{"[2001:db8::1", nil, ""},
		{"[2001:db8::1%]:80", nil, ""},
		{"example.com:80", nil, ""},

		// Nobody is believed who is not trusted.
		{"192.0.2.1:1", []string{"198.51.100.1"}, "192.0.2.1"},
		{"[2001:db8::1]:1", []string{"10.0.0.1, 198.51.100.1"}, "2001:db8::1"},
		{"192.0.2.1:1", []string{"junk"}, "192.0.2.1"},

		// A trusted proxy is, as far as it goes.
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
		{"10.0.0.1:1", []string{"10.0.0.3, 192.168.0.1"}, "10.0.0.3"}, // all trusted: the farthest

		// Junk that is looked at.
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
		// Junk that is not.
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
		{[]string{"for=198.51.100.1:80"}, "198.51.100.1"}, // not as it should be, and seen
		{[]string{"for=[2001:db8::2]"}, "2001:db8::2"},
		{[]string{"for=6.6.6.6, for=198.51.100.1, for=192.168.0.1"}, "198.51.100.1"},
		{[]string{"for=6.6.6.6", "for=198.51.100.1", `for="[fd00::1]"`}, "198.51.100.1"},
		{[]string{`for=198.51.100.1;host="a,for=6.6.6.6", for=10.0.0.2`}, "198.51.100.1"},
		{[]string{`for=198.51.100.1;host="\", for=6.6.6.6\\", for=10.0.0.2`}, "198.51.100.1"},
		// What stands left of the client cannot hide it.
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

// Whatever a client sends, through however many proxies of ours, in one line or in
// several, it is known by the address that it really has.
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

					// The other header is not looked at.
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
	read := proxied(httplimit.ReadForwarded())
	for _, r := range []*http.Request{
		{RemoteAddr: "192.0.2.1:1234"},
		{RemoteAddr: "[2001:db8::1]:1234"},
		{RemoteAddr: "10.0.0.1:1", Header: http.Header{"X-Forwarded-For": {"6.6.6.6", "2001:db8::1%eth0, 10.0.0.2:80"}}},
		{RemoteAddr: "10.0.0.1:1", Header: http.Header{"Forwarded": {`for="[2001:db8::1]:80";proto=https, for=10.0.0.2`}}},
	} {
		require.Zero(t, testing.AllocsPerRun(100, func() { key(buffer, r) }), r.RemoteAddr)
		require.Zero(t, testing.AllocsPerRun(100, func() { read(buffer, r) }), r.RemoteAddr)
	}
}

func TestByAddress_LimitsARealClient(t *testing.T) {
	s := newSite(t, httplimit.Policy{Name: "each", Limits: []sash.Limit{sash.PerHour(1).Log()}, Key: httplimit.ByAddress()})
	require.Equal(t, []int{200, 429}, s.codes(2, "GET /"))
	require.Equal(t, []int{429}, s.codes(1, "GET /", "X-Forwarded-For", "6.6.6.6"))
}

// A proxy that connects through a socket of the file system has no address.
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
		t.Chdir(t.TempDir()) // the name of a socket must be short
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

	// No other connection is taken for one.
	key := httplimit.ByAddress(httplimit.TrustUnixSocket())
	got, ok := from(key, "192.0.2.1:1", "X-Forwarded-For", "6.6.6.6")
	require.True(t, ok)
	require.Equal(t, keyed("192.0.2.1"), got)
	_, ok = from(key, "@", "X-Forwarded-For", "6.6.6.6")
	require.False(t, ok)
}
