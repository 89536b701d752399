package login

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// logIn is the service's own handler.
var logIn = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	if r.FormValue("password") != "right" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	io.WriteString(w, "welcome")
})

// A visitor logs in to a service.
type visitor struct{ http.Handler }

func (v visitor) post(address, account, password string) int {
	r := httptest.NewRequest("POST", "/login", strings.NewReader(url.Values{"account": {account}, "password": {password}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = address + ":1000"
	w := httptest.NewRecorder()
	v.ServeHTTP(w, r)
	return w.Code
}

func newAfter(t *testing.T) (visitor, *sash.ManualClock) {
	clock := sash.NewManualClock(0)
	h, limiter := After(logIn, httplimit.WithClock(clock), httplimit.WithSweepInterval(-1))
	t.Cleanup(func() { limiter.Close() })
	return visitor{h}, clock
}

func TestLogin_DeniesGuesses(t *testing.T) {
	after, _ := newAfter(t)
	for _, v := range []visitor{{Before(logIn)}, after} {
		for range 5 {
			require.Equal(t, 401, v.post("192.0.2.1", "alice", "guess"))
		}
		require.Equal(t, 429, v.post("192.0.2.1", "alice", "guess"), "of the address")
		for range 5 {
			require.Equal(t, 401, v.post("192.0.2.2", "alice", "guess"))
		}
		require.Equal(t, 429, v.post("192.0.2.3", "alice", "guess"), "of the account")
		require.Equal(t, 401, v.post("192.0.2.3", "bob", "guess"))
	}
}

// What was missing: those who know their password are denied, too.
func TestLogin_ServesThoseWhoKnowTheirPassword(t *testing.T) {
	before := visitor{Before(logIn)}
	after, _ := newAfter(t)
	for range 5 {
		require.Equal(t, 200, before.post("192.0.2.1", "alice", "right"))
	}
	require.Equal(t, 429, before.post("192.0.2.1", "alice", "right"))
	for range 50 {
		require.Equal(t, 200, after.post("192.0.2.1", "alice", "right"))
	}
}

// What was missing, too: around the end of a minute, more than 5 guesses are admitted within one.
func TestLogin_AdmitsNoMoreAroundTheEndOfAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := visitor{Before(logIn)}
		after, clock := newAfter(t)
		pass := func(d time.Duration) {
			time.Sleep(d) // of the bubble
			clock.Advance(d)
		}
		most := func(v visitor, at string) (n int) {
			for range 20 {
				if v.post(at, at, "guess") == 401 {
					n++
				}
			}
			return n
		}
		// Guesses of 59 seconds, from the 31st of a minute.
		pass(31 * time.Second)
		guessesBefore, guessesAfter := most(before, "192.0.2.1"), most(after, "192.0.2.1")
		pass(59 * time.Second)
		guessesBefore += most(before, "192.0.2.1")
		guessesAfter += most(after, "192.0.2.1")
		require.Equal(t, 5, guessesAfter)
		require.Greater(t, guessesBefore, 5)
	})
}
