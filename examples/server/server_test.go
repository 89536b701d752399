package main

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
)

func TestLimitClients(t *testing.T) {
	clock := sash.NewManualClock(0)
	limiter := sash.Must(sash.New(sash.Per(2, 10*time.Second).Log(), sash.WithClock(clock)))
	defer limiter.Close()
	var log bytes.Buffer
	handler := limitClients(limiter, &log, http.HandlerFunc(hello))

	for i, c := range []struct {
		at     time.Duration
		remote string
		status int
		retry  string
	}{
		{0, "203.0.113.7:1", 200, ""},
		{0, "203.0.113.7:2", 200, ""},
		{0, "203.0.113.7:3", 429, "10"},
		{0, "[::ffff:203.0.113.7]:3", 429, "10"}, // the same client
		{0, "[2001:db8::1]:3", 200, ""},
		{0, "[2001:db8::2]:3", 200, ""},
		{0, "[2001:db8::ffff:0:0:3%eth0]:3", 429, "10"}, // of the same /64
		{0, "[2001:db8:0:1::1]:3", 200, ""},
		{1, "203.0.113.7:4", 429, "10"}, // 9.999999999 s rounds up
		{9 * time.Second, "203.0.113.7:5", 429, "1"},
		{10*time.Second - 1, "203.0.113.7:5", 429, "1"},
		{10 * time.Second, "203.0.113.7:6", 200, ""},
		{10 * time.Second, "nonsense", 400, ""},
	} {
		clock.Set(int64(c.at))
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = c.remote
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		require.Equal(t, c.status, w.Code, "request %d", i)
		require.Equal(t, c.retry, w.Header().Get("Retry-After"), "request %d", i)
		if c.status == 429 {
			require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
			require.Equal(t, "too many requests: 2 in 10s are allowed\n", w.Body.String())
		}
	}
	require.Equal(t, 6, strings.Count(log.String(), "denied client "))
	require.NotContains(t, log.String(), "203.0.113.7")
}

// The server as a person runs it: on a free port, until it is interrupted.
func TestRun(t *testing.T) {
	ctx, interrupt := context.WithCancel(context.Background())
	printed, stdout := io.Pipe()
	done := make(chan error)
	go func() {
		done <- run(ctx, []string{"-listen", "127.0.0.1:0", "-limit", "3/h log"}, stdout, io.Discard)
		stdout.Close()
	}()

	var url string
	for lines := bufio.NewScanner(printed); url == "" && lines.Scan(); {
		url = regexp.MustCompile(`http://\S+/`).FindString(lines.Text())
	}
	go io.Copy(io.Discard, printed)
	require.NotEmpty(t, url)
	for i := range 5 {
		response, err := http.Get(url)
		require.NoError(t, err)
		response.Body.Close()
		if i < 3 {
			require.Equal(t, http.StatusOK, response.StatusCode)
		} else {
			require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
			require.NotEmpty(t, response.Header.Get("Retry-After"))
		}
	}
	interrupt()
	require.NoError(t, <-done)
}

func TestRun_NamesWrongInput(t *testing.T) {
	for _, c := range []struct{ flag, value, want string }{
		{"-limit", "5/fortnight", `window "fortnight" is not a duration`},
		{"-limit", "0/s", "Count must be >= 1, got 0"},
		{"-limit", "5/h buckets 1m", "SlidingBuckets is not available yet"},
		{"-listen", "127.0.0.1:99999", "invalid port"},
	} {
		err := run(t.Context(), []string{c.flag, c.value}, io.Discard, io.Discard)
		require.ErrorContains(t, err, c.want)
	}
}
