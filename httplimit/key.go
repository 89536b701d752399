package httplimit

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"net/textproto"
	"reflect"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash/httplimit/internal/hostname"
)

// A KeyFunc tells which client makes a request. It appends the identity of the client to key and returns
// the longer slice and true, or false if the identity cannot be told.
//
// A KeyFunc must append only, must not keep key, and must be safe for concurrent use. It must also bound
// the number of identities, since a key costs memory until its windows have passed. A client that can
// invent identities gets a new quota with each, and can fill the memory.
type KeyFunc func(key []byte, r *http.Request) ([]byte, bool)

// By keys requests by the string that a function returns. The identity cannot be told if the function
// returns false. The empty string is an identity like any other. By panics if identity is nil.
func By(identity func(*http.Request) (string, bool)) KeyFunc {
	check(identity != nil, "By: must not be given nil")
	return func(key []byte, r *http.Request) ([]byte, bool) {
		s, ok := identity(r)
		return append(key, s...), ok
	}
}

// ByHeader keys requests by the value of a header, such as "X-API-Key". The identity cannot be told if
// the header is absent, empty or given more than once.
//
// The value is not checked: a client that invents keys has a quota with each. Put the limiter behind a
// handler that refuses unknown keys, or key requests by its result with [By]. ByHeader panics if name is
// empty, or is Host, which net/http does not keep among the headers.
func ByHeader(name string) KeyFunc {
	name = textproto.CanonicalMIMEHeaderKey(name)
	check(name != "" && name != "Host", "ByHeader: requests have no header %q", name)
	return func(key []byte, r *http.Request) ([]byte, bool) {
		values := r.Header[name]
		if len(values) != 1 || values[0] == "" {
			return key, false
		}
		return append(key, values[0]...), true
	}
}

// ByRoute keys requests by [http.Request.Pattern], the pattern under which an [http.ServeMux] has routed
// the request. It is for middleware around the handlers in a mux. Around the mux itself no request has a
// pattern yet, so the identity cannot be told: use [ByRouteOf].
func ByRoute() KeyFunc {
	return func(key []byte, r *http.Request) ([]byte, bool) {
		return append(key, r.Pattern...), r.Pattern != ""
	}
}

// ByRouteOf keys requests by the pattern under which mux will serve them. The requests that no pattern
// matches share one quota. ByRouteOf panics if mux is nil.
func ByRouteOf(mux *http.ServeMux) KeyFunc {
	check(mux != nil, "ByRouteOf: must not be given nil")
	return func(key []byte, r *http.Request) ([]byte, bool) {
		_, pattern := mux.Handler(r)
		return append(key, pattern...), true
	}
}

// ByPathValue keys requests by the part of the path that a wildcard has matched, {name}, which is
// [http.Request.PathValue]. It is for middleware around the handlers in a mux. Around the mux itself, and for
// a pattern without the wildcard, the identity cannot be told. It counts what the wildcard matches, and not the rest
// of the route: to tell routes apart, too, join it with [ByRoute].
//
// The value is not checked: a client that invents values has a quota with each. ByPathValue panics if name is
// empty.
func ByPathValue(name string) KeyFunc {
	check(name != "", "ByPathValue: name must not be empty")
	return func(key []byte, r *http.Request) ([]byte, bool) {
		value := r.PathValue(name)
		return append(key, value...), value != ""
	}
}

// ByHost keys the requests of a [Transport] by the host of the URL that they are sent to: "example.com",
// "example.com:8080", "[2001:db8::1]". The host is in lower case, without a trailing dot. It has its port
// unless that is the default port of the scheme. Requests that a server receives have no such URL, so
// their identity cannot be told.
func ByHost() KeyFunc {
	return func(key []byte, r *http.Request) ([]byte, bool) {
		if r.URL == nil {
			return key, false
		}
		host, port, _ := hostname.CutPort(r.URL.Host)
		host = hostname.CanonicalName(host)
		if strings.IndexByte(host, ':') >= 0 {
			host = "[" + host + "]"
		}
		switch scheme := strings.ToLower(r.URL.Scheme); {
		case host == "", port == "", scheme == "http" && port == "80", scheme == "https" && port == "443":
		default:
			host += ":" + port
		}
		return append(key, host...), host != ""
	}
}

// Everyone is one identity for all requests.
func Everyone() KeyFunc { return everyone }

func everyone(key []byte, _ *http.Request) ([]byte, bool) { return key, true }

// isEveryone reports whether key is the result of Everyone. Functions cannot be compared, but everyone is no
// closure, so no other function has its code.
func isEveryone(key KeyFunc) bool {
	return reflect.ValueOf(key).Pointer() == reflect.ValueOf(everyone).Pointer()
}

// Join keys requests by several identities at once, such as address and account. Each part is preceded by
// its length, so ("a:b", "c") and ("a", "b:c") differ. If one part cannot be told, the whole cannot. Join
// panics without a part, or if one is nil.
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

// appendPart appends the length of a part and the part itself.
func appendPart(key []byte, part KeyFunc, r *http.Request) ([]byte, bool) {
	// Leave one byte for the length, since most are below 128. The length of a longer part takes more
	// bytes, and the part is moved.
	start := len(key)
	key, ok := part(append(key, 0), r)
	if !ok { // key may be anything
		return key, false
	}
	length := len(key) - start - 1
	check(length >= 0, "a KeyFunc has returned less than it was given")
	if length < 0x80 {
		key[start] = byte(length)
		return key, true
	}
	var long [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(long[:], uint64(length))
	return slices.Replace(key, start, start+1, long[:n]...), true
}

// FirstOf keys requests by the first of several identities that can be told, such as an API key, else the
// address. Identities of different choices never coincide: an API key that reads like an address is not
// that address. FirstOf panics without a choice, or if one is nil.
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

// checkParts panics if the function of that name was given no KeyFunc, or nil for one.
func checkParts(name string, parts []KeyFunc) {
	check(len(parts) > 0, "%s: needs a KeyFunc", name)
	for _, part := range parts {
		check(part != nil, "%s: must not be given nil", name)
	}
}

// check panics unless so is true. It is for mistakes in the program, not in its input.
func check(so bool, format string, args ...any) {
	if !so {
		panic("httplimit: " + fmt.Sprintf(format, args...))
	}
}
