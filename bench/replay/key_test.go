package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseKey_NamesEveryWrongField(t *testing.T) {
	k, err := parseKey("addr, path")
	require.NoError(t, err)
	assert.Equal(t, clientKey{addr, path}, k)
	assert.Equal(t, "addr,path", k.String())

	_, err = parseKey("addr,,host,addr")
	require.Error(t, err)
	assert.ErrorContains(t, err, `no field ""`)
	assert.ErrorContains(t, err, `no field "host", want some of addr ident user method path status referer agent`)
	assert.ErrorContains(t, err, "addr is named twice")
}

func TestClientKey_Name(t *testing.T) {
	tests := []struct {
		key        clientKey
		user, path string
		want       string
	}{
		{clientKey{user}, "jane", "/", "jane"},
		{clientKey{user}, "-", "/", "-"},
		{clientKey{user, path}, "jane", "/a", "jane /a"},
		{clientKey{path, user}, "jane", "/a", "/a jane"},
		{clientKey{user, path}, "Jane Doe", "/a", `"Jane Doe" /a`},
		{clientKey{user, path}, "Jane", "Doe /a", `Jane "Doe /a"`},
		{clientKey{user}, `"Jane"`, "/", `"\"Jane\""`},
		{clientKey{user}, "\x1b[2J", "/", `"\x1b[2J"`},
	}
	for _, tt := range tests {
		r := record{fields: [numFields]string{user: tt.user, path: tt.path}}
		assert.Equal(t, tt.want, string(tt.key.appendName(nil, &r)))
	}
}

func TestClientKey_NoTwoClientsShareAName(t *testing.T) {
	parts := []string{"", "-", "a", " ", "a a", `"`, `"a"`, `\`, `\"`, `" "`, `a" "a`, "\xff", "\ufffd", `\xff`, "é"}
	seen := map[string][2]string{}
	for _, u := range parts {
		for _, p := range parts {
			r := record{fields: [numFields]string{user: u, path: p}}
			name := string(clientKey{user, path}.appendName(nil, &r))
			before, taken := seen[name]
			assert.False(t, taken, "%q is the name of %q and of %q", name, before, [2]string{u, p})
			seen[name] = [2]string{u, p}
		}
	}
}
