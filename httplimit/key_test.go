package httplimit_test

import (
	"encoding/binary"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// text returns a KeyFunc of the first value of a header. If that is "-", the identity
// cannot be told.
func text(header string) httplimit.KeyFunc {
	return httplimit.By(func(r *http.Request) (string, bool) {
		v := r.Header.Get(header)
		return v, v != "-"
	})
}

func TestJoin_IsUnambiguous(t *testing.T) {
	join := httplimit.Join(text("A"), text("B"), httplimit.Join(text("C")))
	parts := []string{"", "a", "b", "a:b", ":", "\x00", "\x01", "\x01a", strings.Repeat("a", 127), strings.Repeat("a", 128), strings.Repeat("a", 20000)}
	seen := map[string][3]string{}
	for _, a := range parts {
		for _, b := range parts {
			for _, c := range parts {
				r := &http.Request{Header: http.Header{"A": {a}, "B": {b}, "C": {c}}}
				key, ok := join([]byte("x"), r)
				require.True(t, ok)
				require.True(t, strings.HasPrefix(string(key), "x"))
				other, twice := seen[string(key)]
				require.False(t, twice, "%.50q and %.50q", other, [3]string{a, b, c})
				seen[string(key)] = [3]string{a, b, c}
			}
		}
	}
	_, ok := join(nil, &http.Request{Header: http.Header{"A": {"a"}, "B": {"-"}}})
	require.False(t, ok)

	for _, n := range []int{0, 1, 127, 128, 255, 256, 16383, 16384} {
		part := strings.Repeat("a", n)
		key, _ := httplimit.Join(text("A"), text("B"))(nil, &http.Request{Header: http.Header{"A": {part}, "B": {"b"}}})
		want := append(binary.AppendUvarint(nil, uint64(n)), part...)
		require.Equal(t, append(want, 1, 'b'), key)
	}
}

func TestFirstOf_NeverTakesOneForAnother(t *testing.T) {
	key := httplimit.FirstOf(text("A"), httplimit.Join(text("B"), text("C")), text("D"))
	of := func(a, b, c, d string) (string, bool) {
		k, ok := key([]byte("x"), &http.Request{Header: http.Header{"A": {a}, "B": {b}, "C": {c}, "D": {d}}})
		return string(k), ok
	}
	first, _ := of("v", "b", "c", "d")
	same, _ := of("v", "-", "-", "-")
	require.Equal(t, first, same)
	second, _ := of("-", "v", "c", "d")
	third, _ := of("-", "v", "-", "v")
	require.NotEqual(t, first, second)
	require.NotEqual(t, first, third)
	require.NotEqual(t, second, third)
	require.Equal(t, "x\x02v", third)
	_, ok := of("-", "-", "c", "-")
	require.False(t, ok)
}

func TestByHeader_NeedsOneValue(t *testing.T) {
	key := httplimit.ByHeader("x-api-KEY")
	for _, c := range []struct {
		values []string
		ok     bool
	}{{nil, false}, {[]string{""}, false}, {[]string{"a", "a"}, false}, {[]string{"a"}, true}, {[]string{"a,b"}, true}} {
		got, ok := key([]byte("x"), &http.Request{Header: http.Header{"X-Api-Key": c.values}})
		require.Equal(t, c.ok, ok)
		if ok {
			require.Equal(t, "x"+c.values[0], string(got))
		}
	}
}

func TestByRoute_TakesThePatternOfTheMux(t *testing.T) {
	limits := []sash.Limit{sash.PerHour(1).Log()}
	inside := newSite(t, httplimit.Policy{Name: "each", Limits: limits, Key: httplimit.ByRoute()})
	mux := http.NewServeMux()
	mux.Handle("GET /things/{id}", inside)
	mux.Handle("GET /others/{id}", inside)
	outside := newSite(t, httplimit.Policy{Name: "each", Limits: limits, Key: httplimit.ByRouteOf(mux)})
	outside.answer = func(w http.ResponseWriter, r *http.Request) {}

	get := func(h http.Handler, path string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, newRequest("GET "+path))
		return w.Code
	}
	for _, h := range []http.Handler{mux, outside} {
		require.Equal(t, 200, get(h, "/things/1"))
		require.Equal(t, 429, get(h, "/things/2"))
		require.Equal(t, 200, get(h, "/others/1"))
	}
	require.Equal(t, 400, get(inside, "/things/1"), "no mux has been asked")
	require.Equal(t, 200, get(outside, "/nowhere/1"))
	require.Equal(t, 429, get(outside, "/nowhere/2"), "those not found share")
}

func TestByPathValue_TakesWhatAWildcardMatches(t *testing.T) {
	s := newSite(t, httplimit.Policy{Name: "each", Limits: []sash.Limit{sash.PerHour(1).Log()}, Key: httplimit.ByPathValue("id")})
	mux := http.NewServeMux()
	mux.Handle("GET /things/{id}", s)
	mux.Handle("GET /others/{id...}", s)
	mux.Handle("GET /all", s)
	for _, c := range []struct {
		path string
		want int
	}{
		{"/things/1", 200}, {"/things/2", 200}, {"/things/1", 429}, {"/things/%31", 429},
		{"/others/1", 429}, // the name alone counts
		{"/others/a/b", 200}, {"/others/a/b", 429},
		{"/others/", 400}, // the wildcard has matched nothing
		{"/all", 400},
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, newRequest("GET "+c.path))
		require.Equal(t, c.want, w.Code, c.path)
	}
}

func TestKeyFuncs_RefuseWhatCannotBe(t *testing.T) {
	for name, f := range map[string]func(){
		"ByHeader": func() { httplimit.ByHeader("") },
		"Host":     func() { httplimit.ByHeader("host") },
		"By":       func() { httplimit.By(nil) },
		"ByRoute":  func() { httplimit.ByRouteOf(nil) },
		"ByPath":   func() { httplimit.ByPathValue("") },
		"Join":     func() { httplimit.Join() },
		"Join nil": func() { httplimit.Join(httplimit.Everyone(), nil) },
		"FirstOf":  func() { httplimit.FirstOf() },
	} {
		require.Panics(t, f, name)
	}
}

func TestJoin_RefusesAPartThatDoesNotAppend(t *testing.T) {
	logged := captureLog(t)
	p := per("each", "", sash.PerHour(1))
	p.Key = httplimit.Join(httplimit.ByHeader("X-Key"), func([]byte, *http.Request) ([]byte, bool) { return nil, true })
	s := newSite(t, p)
	require.Equal(t, 500, s.do("GET /", "X-Key", "abc").Code)
	require.Contains(t, logged.String(), "returned less than it was given")
}

// A KeyFunc that cannot tell the identity may return any key, as one that returns nil and false.
func TestJoin_CannotTellWhatAPartCannotTell(t *testing.T) {
	session := func(key []byte, r *http.Request) ([]byte, bool) {
		if v := r.Header.Get("Session"); v != "" {
			return append(key, v...), true
		}
		return nil, false
	}
	joined := httplimit.Join(httplimit.ByHeader("X-Key"), session)
	for name, c := range map[string]struct {
		key  httplimit.KeyFunc
		want string // the key of a request without a session; "": it cannot be told
	}{
		"Join":           {joined, ""},
		"Join of Join":   {httplimit.Join(httplimit.ByHeader("X-Key"), joined), ""},
		"FirstOf":        {httplimit.FirstOf(joined, httplimit.ByHeader("X-Key")), "\x01abc"},
		"FirstOf alone":  {httplimit.FirstOf(joined, session), ""},
		"Join of others": {httplimit.Join(httplimit.FirstOf(session, httplimit.ByHeader("X-Key"))), "\x04\x01abc"},
	} {
		t.Run(name, func(t *testing.T) {
			key, ok := c.key([]byte("p"), newRequest("GET /", "X-Key", "abc"))
			require.Equal(t, c.want != "", ok)
			if ok {
				require.Equal(t, "p"+c.want, string(key))
			}
			p := per("each", "", sash.PerHour(1))
			p.Key = c.key
			s := newSite(t, p)
			status := http.StatusOK
			if c.want == "" {
				status = http.StatusBadRequest
			}
			require.Equal(t, status, s.do("GET /", "X-Key", "abc").Code)
			require.Equal(t, http.StatusOK, s.do("GET /", "X-Key", "abc", "Session", "s").Code)

			transport := &httplimit.Transport{Limiter: sash.Must(sash.New(sash.PerHour(1))), Key: c.key, Base: noContent{}}
			_, err := transport.RoundTrip(newRequest("GET /", "X-Key", "abc"))
			require.Equal(t, c.want != "", err == nil, "%v", err)
		})
	}
}

// noContent answers each request with 204.
type noContent struct{}

func (noContent) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
}
