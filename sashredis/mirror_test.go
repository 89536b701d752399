package sashredis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A call may be kept from its core between its reading of the clock and its look into the mirror, and find an
// answer there that is newer than the reading. A bucket that is nearly full at that answer lacks a burst at
// an instant before it. That denies nothing.
func TestMirror_DeniesNothingByAReadingFromBeforeTheAnswer(t *testing.T) {
	l, err := New(forbidden{t}, []sash.Limit{sash.PerSecond(1000).TokenBucket(10)}, WithFallback(FallbackDeny))
	require.NoError(t, err)
	var k target
	err = l.resolve("k", &k)
	require.NoError(t, err)
	const answered = int64(time.Hour)
	nearlyFull := l.own.rules[0].charge(state{Debt: window.Debt{At: answered}}, 1)
	empty := l.own.rules[0].charge(nearlyFull, 9)
	for _, c := range []struct {
		s      state
		after  time.Duration
		denies bool
	}{
		{empty, 0, true},
		{empty, time.Second, false},
		{nearlyFull, 0, false},
		{nearlyFull, -time.Second, false},
		{empty, -1, false},
	} {
		l.mirror = newMirror(8)
		l.mirror.store(k, &mirrored{view: view{at: answered, sent: answered, received: answered, states: []state{c.s}}})
		var d Decision
		denies := l.mirror.deny([]target{k}, &request{n: 1}, answered+int64(c.after), &d)
		require.Equal(t, c.denies, denies > 0, "%v after the answer", c.after)
	}
	require.NoError(t, l.Close())
}
