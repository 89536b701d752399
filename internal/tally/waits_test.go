package tally_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/tally"
)

// waits returns the waits as text: the result, the sum, and the buckets that are not empty.
func waits(f tally.Figures) (all []string) {
	for _, w := range f.Waits {
		line := fmt.Sprintf("%s %v %v", w.Policy, w.Result, w.Sum)
		for i, n := range w.Buckets {
			bound := "more"
			if i < len(tally.WaitBounds) {
				bound = tally.WaitBounds[i].String()
			}
			if n > 0 {
				line += fmt.Sprintf(" %s:%d", bound, n)
			}
		}
		all = append(all, line)
	}
	return all
}

func queued(name string) httplimit.Policy {
	p := policy(name, sash.PerHour(1))
	p.Queue = httplimit.Queue{Wait: time.Minute, Requests: 8}
	return p
}

// Only decisions on requests that have waited count, under policies with a Queue.
func TestTally_HasTheTimeInQueues(t *testing.T) {
	s := newSite(t, queued("q"), policy("p", sash.PerHour(1)))
	require.Equal(t, []string{"q admitted 0s", "q denied 0s", "q withheld 0s", "q abandoned 0s"}, waits(s.tally.Read()))
	event := func(policy string, o httplimit.Outcome, waited time.Duration, counts bool) {
		e := httplimit.Event{Policy: policy, Outcome: o, Cost: 1, Waited: waited, Decision: sash.Decision{Limit: sash.PerHour(1)}}
		s.tally.Observe(&e)
		r, ok := s.tally.WaitOf(&e)
		require.Equal(t, counts, ok)
		if ok {
			require.Equal(t, o.String(), r.String())
		}
	}
	event("q", httplimit.Admitted, 0, false)
	event("q", httplimit.Admitted, time.Nanosecond, true)
	event("q", httplimit.Admitted, time.Millisecond, true)
	event("q", httplimit.Admitted, time.Millisecond+1, true)
	event("q", httplimit.Denied, time.Minute, true)
	event("q", httplimit.Denied, time.Minute+1, true)
	event("q", httplimit.Withheld, 3*time.Second, true)
	event("q", httplimit.Abandoned, 2*time.Second, true)
	event("p", httplimit.Denied, time.Second, false)
	event("none", httplimit.Denied, time.Second, false)
	for _, o := range []httplimit.Outcome{httplimit.Settled, httplimit.GivenBack, httplimit.Unseen, httplimit.Failed} {
		event("q", o, time.Second, false) // the request was counted when it was admitted
	}
	want := []string{
		"q admitted 2.000002ms 1ms:2 5ms:1", "q denied 2m0.000000001s 1m0s:1 more:1", "q withheld 3s 5s:1", "q abandoned 2s 2.5s:1",
	}
	require.Equal(t, want, waits(s.tally.Read()))

	require.NoError(t, s.limiter.Reconfigure(policy("q", sash.PerHour(1)), queued("p")))
	require.Equal(t, append(want, "p admitted 0s", "p denied 0s", "p withheld 0s", "p abandoned 0s"), waits(s.tally.Read()), "what was counted stays")
	event("q", httplimit.Admitted, time.Second, false)
	event("p", httplimit.Admitted, time.Second, true)
	require.Equal(t, append(want, "p admitted 1s 1s:1", "p denied 0s", "p withheld 0s", "p abandoned 0s"), waits(s.tally.Read()))
}

func TestTally_WithoutALimiterHasNoWaits(t *testing.T) {
	_, ok := new(tally.Tally).WaitOf(&httplimit.Event{Waited: time.Second})
	require.False(t, ok)
}

// A shadow has no queue. Its requests may have waited under other policies.
func TestTally_HasNoWaitsOfShadows(t *testing.T) {
	shadow := queued("shadow")
	shadow.Shadow = true
	s := newSite(t, shadow)
	s.tally.Observe(&httplimit.Event{Policy: "shadow", Shadow: true, Outcome: httplimit.Denied, Waited: time.Second})
	require.Empty(t, s.tally.Read().Waits)
}
