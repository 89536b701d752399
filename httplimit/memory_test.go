package httplimit

import (
	"net/http"
	"net/url"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func asked(m *memory, path string, known bool) (found bool) {
	r := &http.Request{Method: "GET", Host: "h", URL: &url.URL{Path: path}}
	routes := m.recall(r, func(*http.Request) routeSet {
		found = true
		return routeSet{known}
	})
	if routes.has(0) != known {
		panic("another's routes")
	}
	return found
}

func TestMemory_RemembersWhatIsAskedForTwiceAndKeepsItFromWhatIsNot(t *testing.T) {
	m := new(memory)
	require.True(t, asked(m, "/often", true))
	require.True(t, asked(m, "/often", true))
	require.False(t, asked(m, "/often", true))
	for i := range 10 * len(m.places) {
		require.True(t, asked(m, strconv.Itoa(i), i%2 == 0))
	}
	require.False(t, asked(m, "/often", true))

	// All places are taken, and none is anybody else's.
	for i := range 40 * len(m.places) {
		asked(m, strconv.Itoa(i), i%2 == 0)
		asked(m, strconv.Itoa(i), i%2 == 0)
		require.False(t, asked(m, strconv.Itoa(i), i%2 == 0))
	}
	require.True(t, asked(m, "/often", true))
}

func TestMemory_DoesNotRememberLongPaths(t *testing.T) {
	m, long := new(memory), string(make([]byte, 300))
	for range 3 {
		require.True(t, asked(m, long, true))
	}
}

// Requests that take turns on one path do not push each other out.
func TestMemory_TellsHostsAndMethodsApart(t *testing.T) {
	m := new(memory)
	misses := 0
	methods := []string{"GET", "PUT", "POST", "HEAD", "PATCH", "TRACE", "DELETE", ""}
	for round := range 3 {
		for host := range 8 {
			for _, method := range methods {
				r := &http.Request{Method: method, Host: strconv.Itoa(host), URL: &url.URL{Path: "/"}}
				m.recall(r, func(*http.Request) routeSet {
					if round == 2 {
						misses++
					}
					return routeSet{true}
				})
			}
		}
	}
	require.Less(t, misses, 8*len(methods)/2, "but for those that share a place by chance")
}
