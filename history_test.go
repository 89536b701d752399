package sash

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/reference"
)

// A history is what a few callers did at once: each operation with its answer, and
// when it began and ended. It is right if the operations can be put in one order,
// in which none comes before another that had ended when it began, so that the
// reference gives the same answers one after the other.
type history struct {
	limits  []Limit
	ops     []*op
	instant atomic.Int64 // counts beginnings and ends
}

type op struct {
	what        string
	keys        []string
	n           int64
	reservation *op // that it settles

	began, ended int64
	d            Decision
	r            Reservation
}

func (o *op) String() string {
	return fmt.Sprintf("%d-%d %s(%v, %d) = %v %d", o.began, o.ended, o.what, o.keys, o.n, o.d.Allowed, o.d.Remaining)
}

// do runs o.
func (h *history) do(l *Limiter, o *op) {
	o.began = h.instant.Add(1)
	switch o.what {
	case "Take":
		o.d = l.Take(o.keys[0], o.n)
	case "TakeAll":
		o.d = l.TakeAll(o.keys, o.n)
	case "Peek":
		o.d = l.Peek(o.keys[0], o.n)
	case "Reserve":
		o.r, o.d = l.Reserve(o.keys[0], o.n)
	case "ReserveAll":
		_, o.d = l.ReserveAll(o.keys, o.n)
	case "Commit":
		o.reservation.r.Commit(o.n)
	case "Reset":
		l.Reset(o.keys[0])
	}
	o.ended = h.instant.Add(1)
}

// apply runs o on the reference and reports whether it answers the same.
func (h *history) apply(table *reference.Table, reserved map[*op]reference.Reservation, o *op) bool {
	var want reference.Answer
	switch o.what {
	case "Take", "TakeAll", "ReserveAll":
		want = table.Take(0, o.n, o.keys...)
	case "Peek":
		want = table.Peek(0, o.n, o.keys[0])
	case "Reserve":
		reserved[o], want = table.Reserve(0, o.n, o.keys[0])
	case "Commit":
		table.Settle(0, reserved[o.reservation], o.n)
		return true
	case "Reset":
		table.Reset(o.keys[0])
		return true
	}
	return o.d == Decision{
		Allowed: want.Allowed, Limit: h.limits[want.Deciding], Remaining: want.Remaining,
		RetryAfter: time.Duration(want.RetryAfter), ResetAfter: time.Duration(want.ResetAfter),
	}
}

// serial reports whether there is such an order that begins with done.
func (h *history) serial(done []*op) bool {
	if !h.replays(done) {
		return false
	}
	if len(done) == len(h.ops) {
		return true
	}
	for _, next := range h.ops {
		if !slices.Contains(done, next) && h.free(next, done) && h.serial(append(slices.Clone(done), next)) {
			return true
		}
	}
	return false
}

// free reports whether all that ended before o began is among done.
func (h *history) free(o *op, done []*op) bool {
	for _, before := range h.ops {
		if before.ended < o.began && !slices.Contains(done, before) {
			return false
		}
	}
	return true
}

func (h *history) replays(done []*op) bool {
	var models []reference.Limit
	for _, l := range h.limits {
		models = append(models, modelOf(l, false))
	}
	table, reserved := reference.NewTable(models), map[*op]reference.Reservation{}
	for i, o := range done {
		if same := h.apply(table, reserved, o); !same && i == len(done)-1 {
			return false // those before have been asked already
		}
	}
	return true
}

// overlapping returns how many pairs of operations ran at the same time.
func (h *history) overlapping() (n int) {
	for i, a := range h.ops {
		for _, b := range h.ops[i+1:] {
			if a.began < b.ended && b.began < a.ended {
				n++
			}
		}
	}
	return n
}

// plan draws what one caller does.
func (h *history) plan(rng *rand.Rand) (ops []*op) {
	var reserve *op
	for range 3 {
		o := &op{n: 1 + rng.Int64N(3)}
		o.keys = []string{string(rune('a' + rng.IntN(2)))}
		switch rng.IntN(8) {
		case 0, 1:
			o.what = "Take"
		case 2, 3, 4:
			o.what, o.keys = "TakeAll", [][]string{{"a", "b"}, {"b", "a"}, {"a", "c"}, {"b", "a", "b"}}[rng.IntN(4)]
			if rng.IntN(4) == 0 {
				o.what = "ReserveAll"
			}
		case 5:
			o.what, o.n = "Peek", rng.Int64N(3)
		case 6:
			o.what = []string{"Reset", "Take"}[rng.IntN(2)]
		case 7:
			o.what, reserve = "Reserve", o
		}
		if reserve != nil && reserve != o {
			o.what, o.reservation, o.n, reserve = "Commit", reserve, rng.Int64N(5), nil
		}
		ops = append(ops, o)
	}
	return ops
}

// Take, TakeAll, Peek, Reserve, Commit and Reset of three callers at once, under
// random policies, while the table is swept: every answer, to the last unit, is
// that of some serial order. So no denied call was visible in another's answer,
// and none was denied that would have fitted.
func TestHistories_AreThoseOfASerialOrder(t *testing.T) {
	overlapping, histories := 0, 500
	if testing.Short() {
		histories = 300
	}
	for seed := range uint64(histories) {
		rng := rand.New(rand.NewPCG(seed, 9))
		h := &history{}
		c := &crowd{ManualClock: NewManualClock(0)}
		options := []Option{WithClock(c)}
		for range 1 + rng.IntN(3) {
			limit := randomLimit(rng)
			limit.Count = min(limit.Count, 4)
			h.limits = append(h.limits, limit)
			options = append(options, limit)
		}
		l := newTest(t, options...)
		plans := [3][]*op{h.plan(rng), h.plan(rng), h.plan(rng)}
		for _, plan := range plans {
			h.ops = append(h.ops, plan...)
		}
		c.run(func(caller int) {
			switch {
			case caller < len(plans):
				for _, o := range plans[caller] {
					h.do(l, o)
				}
			case caller == len(plans):
				l.Sweep()
			}
		})
		overlapping += h.overlapping()
		require.True(t, h.serial(nil), "seed %d: no serial order of %v under %v", seed, h.ops, h.limits)
	}
	t.Logf("%d histories, %d pairs of operations that overlapped", histories, overlapping)
	require.Greater(t, overlapping, histories/10, "no contention: this test has shown nothing")
}
