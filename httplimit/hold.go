package httplimit

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
)

// A hold is the instant until which a key is held back; the zero hold has passed.
type hold struct {
	clock sash.Clock
	until int64
}

// left returns how much of h is left.
func (h hold) left() time.Duration {
	if h.clock == nil {
		return 0
	}
	return time.Duration(max(h.until-h.clock.Now(), 0))
}

// wait blocks until h has passed. If the deadline of ctx comes first, it returns a TurnError
// at once.
func (h hold) wait(ctx context.Context) error {
	for left := h.left(); left > 0; left = h.left() { // a manual clock may go back
		if deadline, ok := ctx.Deadline(); ok && left > time.Until(deadline) {
			return &TurnError{RetryAfter: left, Held: true, Err: context.DeadlineExceeded}
		}
		blockUntil(ctx, h.clock, h.until, nil, nil, nil)
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("httplimit: not sent: the server asked to wait: %w", err)
		}
	}
	return nil
}

// domainOf returns what the names of one owner have in common: of a host, its last two
// labels, or its last three if these two are a public suffix such as "co.uk". It is the address
// of an IPv4 host, and the first 48 bits of an IPv6 one. One owner has all ports of a host.
func domainOf(key string) string {
	host, _, _ := strings.Cut(key, "/") // what follows is a method
	name, _, _ := cutPort(host)
	if addr, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return ownerOf(addr)
	}
	labels := strings.Split(name, ".")
	n := len(labels)
	if n < 3 {
		return name
	}
	kept := 2
	if isPublicSuffix(labels[n-2], labels[n-1]) {
		kept = 3
	}
	return strings.Join(labels[n-kept:], ".")
}

// ownerOf returns what addresses of one owner have in common: addr without its zone if it is IPv4,
// and its first 48 bits if it is IPv6.
func ownerOf(addr netip.Addr) string {
	if addr = addr.WithZone(""); addr.Is4() {
		return addr.String()
	}
	site, _ := addr.Prefix(48) // fails for no length up to 128
	return site.String()
}
