package traffic

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseKey_NamesEveryWrongField(t *testing.T) {
	k, err := ParseKey("addr, path")
	require.NoError(t, err)
	assert.Equal(t, Key{Addr, path}, k)
	assert.Equal(t, "addr,path", k.String())

	_, err = ParseKey("addr,,host,addr")
	require.Error(t, err)
	assert.ErrorContains(t, err, `no field ""`)
	assert.ErrorContains(t, err, `no field "host", want some of addr ident user method path status referer agent`)
	assert.ErrorContains(t, err, "addr is named twice")
}

func TestClientKey_Name(t *testing.T) {
	tests := []struct {
		key        Key
		user, path string
		want       string
	}{
		{Key{user}, "jane", "/", "jane"},
		{Key{user}, "-", "/", "-"},
		{Key{user, path}, "jane", "/a", "jane /a"},
		{Key{path, user}, "jane", "/a", "/a jane"},
		{Key{user, path}, "Jane Doe", "/a", `"Jane Doe" /a`},
		{Key{user, path}, "Jane", "Doe /a", `Jane "Doe /a"`},
		{Key{user}, `"Jane"`, "/", `"\"Jane\""`},
		{Key{user}, "\x1b[2J", "/", `"\x1b[2J"`},
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
			name := string(Key{user, path}.appendName(nil, &r))
			before, taken := seen[name]
			assert.False(t, taken, "%q is the name of %q and of %q", name, before, [2]string{u, p})
			seen[name] = [2]string{u, p}
		}
	}
}
