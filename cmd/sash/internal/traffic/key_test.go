package traffic

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseKey_NamesEveryWrongField(t *testing.T) {
	k, err := ParseKey("addr/64, path, client.net/24/48, a/b")
	require.NoError(t, err)
	assert.Equal(t, Key{{name: Addr, bits4: 32, bits6: 64}, {name: "path"}, {name: "client.net", bits4: 24, bits6: 48}, {name: "a/b"}}, k)
	assert.Equal(t, "addr/64,path,client.net/24/48,a/b", k.String())

	_, err = ParseKey("addr,,addr/0,addr/129,addr/33/64,addr")
	require.Error(t, err)
	assert.ErrorContains(t, err, `"addr,,addr/0,addr/129,addr/33/64,addr" has a field without a name`)
	assert.ErrorContains(t, err, "addr/0: an address has from 1 to 128 bits")
	assert.ErrorContains(t, err, "addr/129: an address has")
	assert.ErrorContains(t, err, "addr/33/64: an address has")
	assert.ErrorContains(t, err, "addr is named twice")
}

// named returns the name of a client by a key of fields that have these values.
func named(t *testing.T, key string, trusted []netip.Prefix, list string, values ...string) (string, error) {
	t.Helper()
	k, err := ParseKey(key)
	require.NoError(t, err)
	clients, err := k.clients(trusted)
	require.NoError(t, err)
	var name []byte
	for i := range clients {
		if name, err = clients[i].append(name, i, values[i], list); err != nil {
			return "", err
		}
	}
	return string(name), nil
}

func TestKey_NamesClients(t *testing.T) {
	tests := []struct {
		key    string
		values []string
		want   string
	}{
		{"user", []string{"jane"}, "jane"},
		{"user", []string{"-"}, "-"},
		{"user", []string{""}, "-"},
		{"user,path", []string{"jane", "/a"}, "jane /a"},
		{"user,path", []string{"Jane Doe", "/a"}, `"Jane Doe" /a`},
		{"user,path", []string{"Jane", "Doe /a"}, `Jane "Doe /a"`},
		{"user", []string{`"Jane"`}, `"\"Jane\""`},
		{"user", []string{"\x1b[2J"}, `"\x1b[2J"`},
		{"addr", []string{"2001:DB8::1"}, "2001:db8::1"}, // as httplimit, however it is written
		{"addr", []string{"::ffff:192.0.2.1"}, "192.0.2.1"},
		{"addr", []string{"2001:db8::1%eth0"}, "2001:db8::1"},
		{"addr", []string{"host.example"}, "host.example"},
		{"addr/64", []string{"2001:DB8::1"}, "2001:db8::/64"},
		{"addr/60", []string{"2001:db8:0:ffff::1"}, "2001:db8:0:fff0::/60"},
		{"addr/64", []string{"192.0.2.1"}, "192.0.2.1"},
		{"addr/64", []string{"::ffff:192.0.2.1"}, "192.0.2.1"},
		{"addr/24/48", []string{"192.0.2.1"}, "192.0.2.0/24"},
		{"addr/21/48", []string{"192.0.255.1"}, "192.0.248.0/21"},
		{"addr/24/48", []string{"2001:db8:1:2::1"}, "2001:db8:1::/48"},
		{"addr/128", []string{"2001:db8::0:1"}, "2001:db8::1"},
		{"addr/64", []string{"fe80::1%eth0"}, "fe80::1%eth0"},
		{"path,addr/64", []string{"/a", "2001:db8::1"}, "/a 2001:db8::/64"},
	}
	for _, tt := range tests {
		got, err := named(t, tt.key, nil, "", tt.values...)
		require.NoError(t, err)
		assert.Equal(t, tt.want, got, tt.values)
	}
	nobody, err := named(t, "none", nil, "")
	require.NoError(t, err)
	assert.Empty(t, nobody)
	_, err = named(t, "addr/64", nil, "", "host.example")
	assert.EqualError(t, err, `addr "host.example" is no address, which -key addr/64 wants`)
}

// The client behind proxies is the one that httplimit would limit.
func TestKey_BelievesTrustedProxiesOnly(t *testing.T) {
	trusted := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ffff::/48")}
	tests := []struct{ key, addr, list, want string }{
		{"addr", "10.0.0.1", "203.0.113.9", "203.0.113.9"},
		{"addr", "10.0.0.1", "198.51.100.7, 203.0.113.9, 10.0.0.2", "203.0.113.9"},
		{"addr", "192.0.2.1", "203.0.113.9", "192.0.2.1"}, // no proxy: it may have made it up
		{"addr", "10.0.0.1", "-", "10.0.0.1"},
		{"addr", "10.0.0.1", "", "10.0.0.1"},
		{"addr/64", "2001:db8:ffff::1", "2001:db8:1::5", "2001:db8:1::/64"},
		{"addr", "2001:db8:ffff::1", "2001:db8:1::5", "2001:db8:1::5"},
	}
	for _, tt := range tests {
		got, err := named(t, tt.key, trusted, tt.list, tt.addr)
		require.NoError(t, err)
		assert.Equal(t, tt.want, got)
	}
	_, err := named(t, "addr", trusted, "unknown", "10.0.0.1")
	assert.EqualError(t, err, `addr "10.0.0.1" with X-Forwarded-For "unknown" tells no address, which -key wants`)
}

func TestKey_NoTwoClientsShareAName(t *testing.T) {
	parts := []string{"-", "a", " ", "a a", `"`, `"a"`, `\`, `\"`, `" "`, `a" "a`, "\xff", "\ufffd", `\xff`, "é"}
	seen := map[string][2]string{}
	for _, u := range parts {
		for _, p := range parts {
			name, err := named(t, "user,path", nil, "", u, p)
			require.NoError(t, err)
			before, taken := seen[name]
			assert.False(t, taken, "%q is the name of %q and of %q", name, before, [2]string{u, p})
			seen[name] = [2]string{u, p}
		}
	}
}

// A column named addr may have any text. Only the port of an address is no part of a client, and "" and "-" are none.
func TestKey_OfAColumnNamedAddr(t *testing.T) {
	const log = "when,addr\n"
	rows := func(values ...string) string { return log + "1," + strings.Join(values, "\n1,") + "\n" }
	for _, args := range [][]string{{"-time", "when", "-key", "addr"}, {"-time", "when", "-format", "csv", "-key", "addr"}} {
		tr := readLog(t, rows("192.0.2.1:5001", "192.0.2.1:5002", "192.0.2.1", "[2001:db8::1]:443", "2001:DB8::1"), args...)
		assert.Equal(t, []string{"192.0.2.1", "2001:db8::1"}, tr.Clients)
		assert.Equal(t, []int64{3, 2}, tr.Counts)

		anything := []string{"10.0.0.0/8", "17", "user:17", "192.0.2.1:x", "192.0.2.1:", "192.0.2.1:70000", "2001:db8:::80", "192.0.2.999:80", "host.example:80", "a/b", "[::1]"}
		tr = readLog(t, rows(anything...), args...)
		assert.Equal(t, anything, tr.Clients)

		tr = readLog(t, rows("-", "", "a"), args...)
		assert.Equal(t, []string{"a"}, tr.Clients)
		assert.EqualValues(t, 2, tr.Unreadable)
		assert.Equal(t, `no addr, which -key wants: it is "-"`, tr.Faults[0].Why)
		assert.Equal(t, `no addr, which -key wants: it is ""`, tr.Faults[1].Why)
	}
	// Other columns are as they are, and so are values that tell no clients apart.
	tr := readLog(t, "when,client\n1,-\n1,192.0.2.1:5001\n", "-time", "when", "-key", "client")
	assert.Equal(t, []string{"-", "192.0.2.1:5001"}, tr.Clients)
	tr = readLog(t, rows("-", "192.0.2.1:5001", "192.0.2.1:5002"), "-time", "when", "-where", "addr=-,192.0.2.1")
	assert.EqualValues(t, 3, tr.Events)
}
