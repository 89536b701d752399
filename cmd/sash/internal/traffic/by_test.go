package traffic

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseBy(t *testing.T) {
	for text, want := range map[string]string{
		"path": "path", "path/2": "path/2", " method , path/1 ": "method,path/1", "status": "status", "status/1": "status/1",
		"a/b": "a/b", ".request.uri": ".request.uri",
	} {
		b, err := ParseBy(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, b.String())
		assert.Len(t, b.Fields(), len(b))
	}
	for text, want := range map[string]string{
		"":             `"" is no name of a field`,
		"path,":        `"" is no name of a field`,
		"a=b":          "is no name of a field",
		"a!":           "is no name of a field",
		"path/0":       "only a path has parts",
		"status/2":     "only a path has parts",
		"addr/24":      "only a path has parts",
		"path,path/1":  "path is named twice",
		"addr/1,a=b,c": "\n",
	} {
		_, err := ParseBy(text)
		assert.ErrorContains(t, err, want, text)
	}
}

// The values of fields in all odd forms that logs may have.
var oddValues = map[string][]string{
	"path": {"", "-", "/", "//", "/a", "/a/", "/a/b", "/a/b/", "/a/b/c", "/a/*", "/*", "*", "/a,b", "/a,b/c", "/a*", "/a*/b", "/A", "/ä", "/a b", "/a\n/b", "http://a/b/c",
		"/a//b", "/a/b/*", "a/b", "/4xx", "\xff/a", "/a?x", "/a/b?/c", "?x", "/?", "/b*?x", "/a?b*", "/" + strings.Repeat("a/", 9)},
	"status": {"", "-", "200", "204", "404", "499", "500", "0", "000", "1000", "20", "-1"},
	"host":   {"", "-", "a", "a:80", "a:81", "a.b", "[::1]:80", "[::1]", "::1", ":80", ":81", "[]", "a:", "*", "a*", "*:80", "a,b:80", "A"},
	"method": {"", "-", "GET", "POST", "GE T", "G*", "xx", "4xx"},
	"other":  {"", "-", "a", "a*", "200", "4xx", "a:80", "/a/b"},
}

// What Where says holds for the values of the group, and for no others. It can be read as it is printed.
func TestBy_WhereHoldsForTheGroupAlone(t *testing.T) {
	said := 0
	for field, values := range oddValues {
		for _, form := range []string{field, field + "/1", field + "/2", field + "/3"} {
			b, err := ParseBy(form)
			if err != nil {
				continue
			}
			for _, of := range values {
				where, ok := b.Where([]string{of})
				require.Len(t, where, 1)
				if !ok {
					continue
				}
				said++
				var read Selection
				require.NoError(t, read.addWhere(where[0].String()))
				require.Equal(t, where, read.Where)
				for _, v := range values {
					same := string(b.AppendName(nil, []string{of})) == string(b.AppendName(nil, []string{v}))
					require.Equal(t, same, where[0].holds(v), "%s: %q as %q", &where[0], v, of)
				}
			}
		}
	}
	require.Greater(t, said, 80)
	for form, value := range map[string]string{"path": "/a,b", "path/1": "/a*", "path/2": "/a,b/c", "host": "[]", "other": "a*"} {
		b, err := ParseBy(form)
		require.NoError(t, err)
		_, said := b.Where([]string{value})
		require.False(t, said, "%s %q", form, value)
	}
}

func TestBy_Names(t *testing.T) {
	for _, tt := range []struct{ by, values, want string }{
		{"path", "/a/b", "/a/b"},
		{"path/1", "/users/1", "/users/*"},
		{"path/1", "/users/", "/users/*"},
		{"path/1", "/users", "/users"},
		{"path/2", "/a/b/c/d", "/a/b/*"},
		{"path/1", "http://a/b", "http://a/b"},
		{"status/1", "404", "4xx"},
		{"status/1", "-", "-"},
		{"status", "404", "404"},
		{"host", "a.example:443", "a.example"},
		{"host", "[::1]:443", "[::1]:443"},
		{"method,path,status/1", "POST /login 401", "POST /login 4xx"},
		{"agent", "", "-"},
	} {
		b, err := ParseBy(tt.by)
		require.NoError(t, err)
		assert.Equal(t, tt.want, string(b.AppendName(nil, strings.Split(tt.values, " "))), tt)
	}
	b, err := ParseBy("agent,path")
	require.NoError(t, err)
	assert.Equal(t, `"a b" /c`, string(b.AppendName(nil, []string{"a b", "/c"})))
}

// A condition that another implies holds wherever that one does, for values in all odd forms.
func TestWhere_ImpliesOnlyWhatHolds(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	implied := 0
	for field, values := range oddValues {
		wants := append([]string{"*", "/a/*", "/a*", "/*", "4xx", "2xx", "4*", "a", "a:*", "G*", "/a?*", "/a/b?/*", "*?x"}, values...)
		draw := func() (w Where) {
			text := field + pickOf(random, []string{"=", "=", "!="})
			for i := range 1 + random.IntN(3) {
				text += strings.Repeat(",", min(i, 1)) + pickOf(random, wants)
			}
			var s Selection
			require.NoError(t, s.addWhere(text))
			return s.Where[0]
		}
		for range 20000 {
			a, b := draw(), draw()
			if !a.Implies(&b) {
				continue
			}
			implied++
			for _, v := range append(wants, "a:90", "/a/c", "/ab", "418", "/a?", "/a?y", "/a/b?/d") {
				require.False(t, a.holds(v) && !b.holds(v), "%s does not imply %s: %q", &a, &b, v)
			}
		}
	}
	require.Greater(t, implied, 1000)
	for _, tt := range [][2]string{
		{"path=/a", "path=/a"}, {"path=/a", "path!=/b"}, {"path=/a/b/*", "path=/a/*"}, {"status=401", "status=4xx"}, {"status=4xx", "status=5xx,4xx"},
		{"method=GET", "method=GET,HEAD"}, {"host=a", "host=a,b"},
	} {
		var s Selection
		require.NoError(t, s.addWhere(tt[0]))
		require.NoError(t, s.addWhere(tt[1]))
		require.True(t, s.Where[0].Implies(&s.Where[1]), tt)
		require.Equal(t, tt[0] == tt[1], s.Where[1].Implies(&s.Where[0]), tt)
	}
}

func pickOf[T any](random *rand.Rand, all []T) T { return all[random.IntN(len(all))] }

func TestPart_HasItsEventsAlone(t *testing.T) {
	whole := &Traffic{Clients: []string{"a", "b", "c"}, Key: Key{{name: Addr}}, number: map[string]uint32{}}
	p := whole.NewPart()
	begin := int64(1e18)
	for i, client := range []uint32{2, 0, 2} {
		e := p.Add(Event{At: begin + int64(i)*int64(time.Second), Client: client, Status: 200, Charge: Charge{1, 1}, carried: &carried{}})
		require.Equal(t, []uint32{0, 1, 0}[i], e.Client)
		require.Nil(t, e.carried)
		require.Equal(t, uint16(200), e.Status)
	}
	on := p.End()
	assert.Equal(t, []string{"c", "a"}, on.Clients)
	assert.Equal(t, []int64{2, 1}, on.Counts)
	assert.EqualValues(t, 3, on.Events)
	assert.True(t, on.WholeSeconds)
	assert.Equal(t, "addr", on.Key.String())
	first, last := on.Span()
	assert.Equal(t, fmt.Sprint(2*time.Second), fmt.Sprint(last.Sub(first)))
	p.Add(Event{At: begin + int64(9*time.Second) + 1, Client: 1})
	assert.False(t, p.End().WholeSeconds)
}
