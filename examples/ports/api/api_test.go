package api

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }

func status(h http.Handler, address string) int {
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = address
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code
}

// Both admit the same requests. Steps of an eighth of a second are exact in the floating point of rate.Limiter.
func TestAPI_AdmitsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		defer close(stop)
		before := Before(http.HandlerFunc(hello), stop)
		clock := sash.NewManualClock(0)
		after, limiter := After(http.HandlerFunc(hello), httplimit.WithClock(clock), httplimit.WithSweepInterval(-1))
		defer limiter.Close()
		random, codes := rand.New(rand.NewPCG(1, 1)), map[int]int{}
		for range 2000 {
			step := time.Duration(random.IntN(4)) * time.Second / 8
			time.Sleep(step) // of the bubble
			clock.Advance(step)
			address := fmt.Sprintf("192.0.2.%d:1000", random.IntN(2))
			code := status(before, address)
			require.Equal(t, code, status(after, address))
			codes[code]++
		}
		require.Greater(t, codes[200], 500)
		require.Greater(t, codes[429], 500)
	})
}

// What was missing: a client with a network of IPv6 addresses has a bucket for each of them.
func TestAPI_CountsANetworkOnce(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	before := Before(http.HandlerFunc(hello), stop)
	after, limiter := After(http.HandlerFunc(hello), httplimit.WithClock(sash.NewManualClock(0)))
	defer limiter.Close()
	admitted := func(h http.Handler) (n int) {
		for i := range 100 {
			if status(h, fmt.Sprintf("[2001:db8::%x]:1000", i)) == 200 {
				n++
			}
		}
		return n
	}
	require.Equal(t, 100, admitted(before))
	require.Equal(t, 4, admitted(after))
}
