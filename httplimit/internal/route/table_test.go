package route

import (
	"net/http"
	"net/url"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func asked(c *cache, path string, known bool) (found bool) {
	r := &http.Request{Method: "GET", Host: "h", URL: &url.URL{Path: path}}
	routes := c.lookUp(r, func(*http.Request) Set {
		found = true
		return Set{known}
	})
	if routes[0] != known {
		panic("the routes of another target")
	}
	return found
}

func TestMemory_PathsRequestedOnceEvictNoCachedRoute(t *testing.T) {
	c := new(cache)
	require.True(t, asked(c, "/often", true))
	require.True(t, asked(c, "/often", true))
	require.False(t, asked(c, "/often", true))
	for i := range 10 * len(c) {
		require.True(t, asked(c, strconv.Itoa(i), i%2 == 0))
	}
	require.False(t, asked(c, "/often", true))

	// All slots are in use, and each gives only the routes of its own target.
	for i := range 40 * len(c) {
		asked(c, strconv.Itoa(i), i%2 == 0)
		asked(c, strconv.Itoa(i), i%2 == 0)
		require.False(t, asked(c, strconv.Itoa(i), i%2 == 0))
	}
	require.True(t, asked(c, "/often", true))
}

func TestMemory_LongPathsAreNotCached(t *testing.T) {
	c, long := new(cache), string(make([]byte, 300))
	for range 3 {
		require.True(t, asked(c, long, true))
	}
}

// Targets with the same path do not evict each other.
func TestCache_TellsHostsAndMethodsApart(t *testing.T) {
	c := new(cache)
	misses := 0
	methods := []string{"GET", "PUT", "POST", "HEAD", "PATCH", "TRACE", "DELETE", ""}
	for round := range 3 {
		for host := range 8 {
			for _, method := range methods {
				r := &http.Request{Method: method, Host: strconv.Itoa(host), URL: &url.URL{Path: "/"}}
				c.lookUp(r, func(*http.Request) Set {
					if round == 2 {
						misses++
					}
					return Set{true}
				})
			}
		}
	}
	require.Less(t, misses, 8*len(methods)/2, "except for those that share a slot by chance")
}
