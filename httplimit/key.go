package httplimit

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"
)

// A KeyFunc says who makes a request: it appends an identity to key and returns
// the longer slice and true, or false if the request does not tell. It must append
// only, must not keep key, and must be safe for concurrent use. Which identities
// there are is yours to bound: a key costs memory until its windows have passed,
// so a client that may invent identities gets a new quota with each and can fill
// the memory.
//
// [ByAddress], [ByAddressOf], [ByHeader] and [ByRoute] make one, [By] makes one of any function
// that returns a string, [Join] makes one of several, [FirstOf] tries one after the
// other, and [Everyone] is one quota for all.
type KeyFunc func(key []byte, r *http.Request) ([]byte, bool)

// By returns the KeyFunc of a function that returns the identity as a string, and
// false if it cannot be told. The empty string is an identity as any other.
func By(identity func(*http.Request) (string, bool)) KeyFunc {
	mustNotBeNil("By", identity == nil)
	return func(key []byte, r *http.Request) ([]byte, bool) {
		s, ok := identity(r)
		return append(key, s...), ok
	}
}

// ByHeader keys by the value of a header, such as "X-API-Key". Where it is absent
// or empty, or given more than once, the identity cannot be told. The value is not
// checked: who makes keys up has a quota with each. Put the limiter behind what
// refuses keys that do not exist, or key by what that has found out, with [By]. It
// panics if name is empty, or Host, which net/http does not keep among the headers.
func ByHeader(name string) KeyFunc {
	name = textproto.CanonicalMIMEHeaderKey(name)
	if name == "" || name == "Host" {
		panic(fmt.Sprintf("httplimit: ByHeader: requests have no header %q", name))
	}
	return func(key []byte, r *http.Request) ([]byte, bool) {
		values := r.Header[name]
		if len(values) != 1 || values[0] == "" {
			return key, false
		}
		return append(key, values[0]...), true
	}
}

// ByRoute keys by the pattern of the [http.ServeMux] that the request has come
// through, [http.Request.Pattern]. It is for middleware around the handlers in a
// mux; around the mux itself no request has a pattern yet, and the identity cannot
// be told: use [ByRouteOf].
func ByRoute() KeyFunc {
	return func(key []byte, r *http.Request) ([]byte, bool) {
		return append(key, r.Pattern...), r.Pattern != ""
	}
}

// ByRouteOf keys by the pattern with which mux will serve the request. Requests
// that it serves with none, those not found, share one quota.
func ByRouteOf(mux *http.ServeMux) KeyFunc {
	mustNotBeNil("ByRouteOf", mux == nil)
	return func(key []byte, r *http.Request) ([]byte, bool) {
		_, pattern := mux.Handler(r)
		return append(key, pattern...), true
	}
}

// Everyone is one identity for all requests.
func Everyone() KeyFunc {
	return func(key []byte, _ *http.Request) ([]byte, bool) { return key, true }
}

// Join keys by several things at once, such as address and account. Each part is
// preceded by its length, so that ("a:b", "c") and ("a", "b:c") differ, whatever the
// parts are. If one cannot be told, the whole cannot.
func Join(parts ...KeyFunc) KeyFunc {
	checkParts("Join", parts)
	return func(key []byte, r *http.Request) (_ []byte, ok bool) {
		for _, part := range parts {
			if key, ok = appendPart(key, part, r); !ok {
				return key, false
			}
		}
		return key, true
	}
}

// appendPart appends what part appends, and its length before it.
func appendPart(key []byte, part KeyFunc, r *http.Request) ([]byte, bool) {
	start := len(key)
	key, ok := part(append(key, 0), r) // room for a length of up to 127, as most are
	length := len(key) - start - 1
	if length < 0 {
		panic("httplimit: a KeyFunc has returned less than it was given")
	}
	if length < 0x80 {
		key[start] = byte(length)
		return key, ok
	}
	var long [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(long[:], uint64(length))
	return slices.Replace(key, start, start+1, long[:n]...), ok
}

// FirstOf keys by the first of several things that can be told, such as an API
// key, else the address. What is told by one is never taken for what is told by
// another: an API key that reads like an address is not that address.
func FirstOf(choices ...KeyFunc) KeyFunc {
	checkParts("FirstOf", choices)
	return func(key []byte, r *http.Request) ([]byte, bool) {
		start := len(key)
		for i, choice := range choices {
			longer, ok := choice(binary.AppendUvarint(key[:start], uint64(i)), r)
			if ok {
				return longer, true
			}
		}
		return key, false
	}
}

func checkParts(name string, parts []KeyFunc) {
	if len(parts) == 0 {
		panic("httplimit: " + name + ": needs a KeyFunc")
	}
	for _, part := range parts {
		mustNotBeNil(name, part == nil)
	}
}

// mustNotBeNil panics, as the program is wrong, and not what it was given.
func mustNotBeNil(name string, isNil bool) {
	if isNil {
		panic("httplimit: " + name + ": must not be given nil")
	}
}
