// Package rpctest is what the tests of packages grpclimit and connectlimit share.
package rpctest

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// Limiter returns a limiter on a clock of its own.
func Limiter(t *testing.T, options ...httplimit.Option) (*httplimit.Limiter, *sash.ManualClock) {
	clock := sash.NewManualClock(0)
	l := httplimit.Must(httplimit.New(append(options, httplimit.WithClock(clock))...))
	t.Cleanup(func() { l.Close() })
	return l, clock
}

// Outgoing returns a limiter of clients.
func Outgoing(t *testing.T, options ...sash.Option) *sash.Limiter {
	l := sash.Must(sash.New(options...))
	t.Cleanup(func() { l.Close() })
	return l
}

// Everyone is a policy for all calls together.
func Everyone(name string, limit sash.Limit) httplimit.Policy {
	return httplimit.Policy{Name: name, Limits: []sash.Limit{limit}, Key: httplimit.Everyone()}
}

// Left returns how many units of a policy are left for everyone.
func Left(t *testing.T, l *httplimit.Limiter, policy string) int64 {
	key, ok := l.KeyFor(policy, &http.Request{})
	require.True(t, ok)
	return l.Sash().Peek(key, 0).Remaining
}
