package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/seed-30da4c49/sash"
)

// limitClients asks limiter on each request whether its client may go on.
func limitClients(limiter *sash.Limiter, log io.Writer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Behind a proxy this is the proxy: then take the client from a header
		// that your proxy sets, and from no other.
		client, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			http.Error(w, "who are you?", http.StatusBadRequest)
			return
		}
		if d := limiter.Take(client, 1); !d.Allowed {
			// A log is read by more people than may know the client.
			fmt.Fprintf(log, "denied client %016x for %v\n", xxhash.Sum64String(client), d.RetryAfter)
			deny(w, d)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func deny(w http.ResponseWriter, d sash.Decision) {
	w.Header().Set("Retry-After", retryAfter(d.RetryAfter))
	w.Header().Set("Cache-Control", "no-store")
	http.Error(w, fmt.Sprintf("too many requests: %d in %v are allowed", d.Limit.Count, d.Limit.Window), http.StatusTooManyRequests)
}

// retryAfter writes d in the whole seconds of the header, rounded up: whoever
// waits as long as it says is admitted.
func retryAfter(d time.Duration) string {
	seconds := d / time.Second
	if d%time.Second > 0 {
		seconds++
	}
	return strconv.FormatInt(int64(seconds), 10)
}
