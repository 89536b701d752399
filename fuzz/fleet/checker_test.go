package fleet

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/redistest"
	"github.com/seed-30da4c49/sash/sashredis"
)

// Histories of one caller, in which one answer is changed by as little as possible, are rejected.
func TestFleet_AnotherAnswerIsRejected(t *testing.T) {
	s := redistest.Start(t)
	rejected := 0
	for seed := range uint64(6) {
		p := newPlan(s.Addr(), 5000000+seed)
		p.Callers, p.Calls, p.Settles = 1, 30, true
		h := p.record(t, goroutines(t, 1))
		require.Empty(t, h.faults)
		require.Equal(t, porcupine.Ok, h.verdict(), "%v", h)
		for _, o := range h.operations {
			if o.Verb == settles || o.Verb == resets {
				continue
			}
			was := o.Decision
			for _, change := range changes {
				o.Decision = was
				if !change(o) {
					continue
				}
				require.Equal(t, porcupine.Illegal, h.verdict(), "was %+v:\n%v", was, h)
				rejected++
			}
			o.Decision = was
		}
	}
	t.Logf("%d changed answers were rejected", rejected)
	require.Greater(t, rejected, 500)
}

// changes change the answer to an operation, and report false if it would still be right.
var changes = []func(o *operation) bool{
	func(o *operation) bool { o.Decision.Allowed = !o.Decision.Allowed; return true },
	func(o *operation) bool { o.Decision.Remaining++; return o.By == sashredis.ByStore },
	func(o *operation) bool { o.Decision.Remaining--; return o.By == sashredis.ByStore },
	func(o *operation) bool { o.Decision.RetryAfter = 0; return o.By == sashredis.ByMirror },
	func(o *operation) bool { o.Decision.RetryAfter++; return o.By == sashredis.ByStore },
	func(o *operation) bool { o.Decision.ResetAfter++; return o.By == sashredis.ByStore },
	func(o *operation) bool { o.Decision.Limit = sash.Unlimited(); return o.By == sashredis.ByStore },
}

// A history in which the answers of two calls at different instants are exchanged is rejected,
// and so is one in which a call took place before an earlier one.
func TestFleet_AnotherInstantIsRejected(t *testing.T) {
	s := redistest.Start(t)
	p := newPlan(s.Addr(), 6000000)
	p.Callers, p.Limits = 1, []sash.Limit{p.Limits[0].Counter()}
	h := p.record(t, goroutines(t, 1))
	require.Equal(t, porcupine.Ok, h.verdict(), "%v", h)
	changed := 0
	for _, o := range h.operations {
		if o.By != sashredis.ByStore || !o.Decision.Allowed {
			continue
		}
		was := o.Instants
		for _, by := range []int64{-1, 1} {
			if o.Instants = []int64{was[0] + by}; o.Decision.ResetAfter > 0 {
				require.Equal(t, porcupine.Illegal, h.verdict(), "%v", h)
				changed++
			}
		}
		o.Instants = was
	}
	require.Positive(t, changed)
}
