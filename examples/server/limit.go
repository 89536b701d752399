package main

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/seed-30da4c49/sash"
)

// limitClients asks limiter on each request whether its client may go on.
func limitClients(limiter *sash.Limiter, log io.Writer, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client, err := clientOf(r)
		if err != nil {
			http.Error(w, "who are you?", http.StatusBadRequest)
			return
		}
		if d := limiter.Take(client, 1); !d.Allowed {
			// A short name for the log. It does not hide the client from one who
			// tries all addresses.
			fmt.Fprintf(log, "denied client %016x for %v\n", xxhash.Sum64String(client), d.RetryAfter)
			deny(w, d)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// clientOf returns the address that r came from: of IPv6 the first 64 bits,
// since whoever has one such address has them all. Behind a proxy it is the
// proxy's: then take the client from a header that your proxy sets, and from no
// other.
func clientOf(r *http.Request) (string, error) {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "", err
	}
	addr := remote.Addr().Unmap().WithZone("")
	if addr.Is4() {
		return addr.String(), nil
	}
	network, err := addr.Prefix(64)
	return network.String(), err
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
