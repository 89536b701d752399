package policies

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/httplimit/policyfile"
)

// load reads one policy with these fields.
func load(t *testing.T, fields string, declared ...string) (*File, error) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(name, []byte("policies: [{name: one, "+fields+"}]\n"), 0o600))
	return Load(name, declared)
}

func TestLoad_TellsWhatAPolicyIsMadeOf(t *testing.T) {
	file, err := load(t, `limits: 5/s, key: {first-of: [{header: x-api-key}, account, {address: {trust-proxies: [10.0.0.0/8, fd00::/8], read-header: x-real-ip, ipv4-prefix: 24}}]}, `+
		`plan: {header: x-plan}, plans: {a: 1/s}, cost: 7, charge: [401, 4xx], skip: {methods: HEAD, networks: 10.0.0.0/8, address: {trust-hops: 2}}, settle: {header: x-cost}, `+
		`leave: {header: x-class, classes: {a: 10%, b: 3}}`, "account")
	require.NoError(t, err)
	require.Len(t, file.Policies, 1)
	p := file.Policies[0]
	assert.Equal(t, "one", p.Name)
	assert.Equal(t, Place{1, 12}, p.Place)
	assert.Equal(t, FirstOf, p.Key.Kind)
	require.Len(t, p.Key.Parts, 3)
	assert.Equal(t, "X-Api-Key", p.Key.Parts[0].Name)
	assert.Equal(t, ByFunction, p.Key.Parts[1].Kind)
	assert.Equal(t, Address{Proxies: []string{"10.0.0.0/8", "fd00::/8"}, Header: "X-Real-Ip", Bits4: 24, Bits6: 64}, p.Key.Parts[2].Address)
	assert.Equal(t, "X-Plan", p.Plan)
	assert.EqualValues(t, 7, *p.Cost)
	assert.Equal(t, []string{"401", "4xx"}, p.Charge)
	assert.Equal(t, Skip{[]string{"HEAD"}, []string{"10.0.0.0/8"}, Address{Hops: true, Header: "X-Forwarded-For", Bits4: 32, Bits6: 64}, ""}, p.Skip)
	assert.Equal(t, Settle{Header: "X-Cost"}, p.Settle)
	assert.Equal(t, Leave{Header: "X-Class", Classes: map[string]string{"a": "10%", "b": "3"}}, p.Leave)
	require.Len(t, file.Functions, 1)
	assert.Equal(t, "WithKey account", file.Functions[0].Option+" "+file.Functions[0].Name)
}

func TestLoad_NamesFunctionsOfAFileWithFaults(t *testing.T) {
	file, err := load(t, `limits: [5/s, []], key: account, cost: [], settle: {}, skip: 5, leave: few, charge: {a: b}, plan: {header: []}`)
	assert.ErrorAs(t, err, new(policyfile.Errors))
	assert.Empty(t, file.Policies)
	var names []string
	for _, f := range file.Functions {
		names = append(names, f.Name)
	}
	assert.Equal(t, []string{"account", "few"}, names)
	for _, text := range []string{"", "[", "[]", "5", "policies: 5", "policies: [5, []]", "policies: [{key: {join: 5}}, {key: {first-of: [[]]}}]"} {
		name := filepath.Join(t.TempDir(), "limits.yaml")
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		_, err := Load(name, nil)
		assert.ErrorAs(t, err, new(policyfile.Errors), text)
	}
}

// No two identities of one key have one name.
func TestNameOf(t *testing.T) {
	request := func(addr, key string) *http.Request {
		r := &http.Request{RemoteAddr: addr, Header: http.Header{}}
		if key != "" {
			r.Header.Set("X-Key", key)
		}
		return r
	}
	tests := []struct {
		key  string
		from *http.Request
		want string
	}{
		{"address", request("203.0.113.1", ""), "203.0.113.1"},
		{"address", request("[2001:db8::1]:80", ""), "2001:db8::/64"},
		{"address", request("fe80::1%eth0", ""), "fe80::1%eth0"},
		{"{address: {ipv4-prefix: 20, ipv6-prefix: 49}}", request("203.0.113.1", ""), "203.0.112.0/20"},
		{"{address: {ipv4-prefix: 20, ipv6-prefix: 49}}", request("2001:db8:0:ffff::1", ""), "2001:db8:0:8000::/49"},
		{"everyone", request("203.0.113.1", ""), "everyone"},
		{"{header: X-Key}", request("", "a b"), `X-Key="a b"`},
		{"{header: X-Key}", request("", "a"), `X-Key=a`},
		{"{join: [address, {header: X-Key}]}", request("203.0.113.1", "a"), `203.0.113.1 X-Key=a`},
		{"{join: [{header: X-Key}, {join: [address, everyone]}]}", request("203.0.113.1", "a"), `X-Key=a 203.0.113.1 everyone`},
		{"{first-of: [{header: X-Key}, address]}", request("203.0.113.1", "a"), `X-Key=a`},
		{"{first-of: [{header: X-Key}, address]}", request("203.0.113.1", ""), `203.0.113.1`},
		{"{first-of: [{join: [{header: X-Key}, everyone]}, address]}", request("203.0.113.1", ""), `choice 2: 203.0.113.1`},
	}
	for _, tt := range tests {
		file, err := load(t, "limits: 1/s, key: "+tt.key)
		require.NoError(t, err)
		p := file.Policies[0]
		identity, ok := p.Policy.Key(nil, tt.from)
		require.True(t, ok, tt.key)
		assert.Equal(t, tt.want, p.Key.NameOf(string(identity)), tt.key)
	}
}
