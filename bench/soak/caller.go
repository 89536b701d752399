package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seed-30da4c49/sash"
)

// A tally is what one caller has done to one subject.
type tally struct {
	calls, admitted atomic.Int64
	longest         atomic.Int64 // nanoseconds; a Wait apart, which is meant to last
}

// timed returns call, with its time taken.
func (t *tally) timed(call func() sash.Decision) func() sash.Decision {
	return func() sash.Decision {
		start := time.Now()
		d := call()
		t.longest.Store(max(t.longest.Load(), int64(time.Since(start)))) // nobody else stores
		return d
	}
}

// A caller makes calls on all subjects, by turns and at random.
type caller struct {
	rand     *rand.Rand
	name     string
	serial   int // of keys never seen before
	subjects []*subject
	tallies  []tally // of subjects
	faults   *faults
	open     []openReservation // of keys that are not kept, to be settled later
	buffer   []byte
}

const (
	mostOpen = 32
	// callsPerMove is how many calls a clock stands still for, on average, and
	// mostStep how far it then moves at most: half of that, on average.
	callsPerMove = 64
	mostStep     = 40 * time.Millisecond
	// movesPerJump is how many moves there are to a jump on, and to one back.
	movesPerJump     = 200
	mostOn, mostBack = 5 * time.Second, 1500 * time.Millisecond
	patience         = 2 * time.Millisecond // of a Wait
	callsPerLook     = 256                  // at the number of keys
)

func (c *caller) run(ctx context.Context) {
	for ctx.Err() == nil {
		i := c.rand.IntN(len(c.subjects))
		s, t := c.subjects[i], &c.tallies[i]
		c.call(ctx, s, t)
		if c.rand.IntN(callsPerMove) == 0 {
			c.move(s.clock)
			runtime.Gosched() // or the operator hardly ever has its turn
		}
		if c.rand.IntN(callsPerLook) == 0 {
			c.faults.checkLen(s)
		}
	}
}

func (c *caller) move(clock *clock) {
	switch c.rand.IntN(movesPerJump) {
	case 0:
		clock.move(c.upTo(mostOn))
	case 1:
		clock.move(-c.upTo(mostBack))
	default:
		clock.move(c.upTo(mostStep))
	}
}

func (c *caller) upTo(most time.Duration) time.Duration {
	return time.Duration(c.rand.Int64N(int64(most)))
}

// call makes one call of some kind.
func (c *caller) call(ctx context.Context, s *subject, t *tally) {
	k, n := c.key(s), 1+c.rand.Int64N(s.cost)
	switch dice := c.rand.IntN(100); {
	case dice < 30:
		c.allow(s, t, k, s.limiter.Allow)
	case dice < 35:
		c.allow(s, t, k, c.allowBytes(s))
	case dice < 55:
		c.take(s, t, k, n)
	case dice < 65:
		c.takeAll(s, t, k, c.key(s), n)
	case dice < 75:
		c.peek(s, t, k, n)
	case dice < 87:
		c.reserve(s, t, k, n)
	case dice < 89:
		c.wait(ctx, s, t, k, n)
	case dice < 92:
		c.reset(s, t)
	default:
		c.fresh(s, t)
	}
}

// key returns one that is kept, one that many calls are made on, or a new one.
func (c *caller) key(s *subject) key {
	switch dice := c.rand.IntN(3); {
	case dice == 0 && len(s.kept) > 0:
		return s.kept[c.rand.IntN(len(s.kept))]
	case dice == 1:
		return key{name: c.unseen()}
	}
	return key{name: recurring(c.rand.IntN(recurringKeys))}
}

func (c *caller) unseen() string {
	c.serial++
	return c.name + strconv.Itoa(c.serial)
}

// charge makes a call on keys, and if it is admitted books what of it stays charged
// to each of them. It returns the decision.
func (c *caller) charge(s *subject, t *tally, stay int64, call func() sash.Decision, keys ...key) sash.Decision {
	t.calls.Add(1)
	counts := s.counts.Load()
	seen := make([]int64, len(keys))
	for i, k := range keys {
		if k.account != nil {
			seen[i] = k.account.seenBy()
		}
	}
	before := s.clock.read()
	d := call()
	if !d.Allowed {
		return d
	}
	t.admitted.Add(1)
	earliest, lowered := s.clock.earliest(before), s.loweredSince(counts)
	for i, k := range keys {
		if k.account != nil {
			c.faults.overAdmission(s, k, k.account.book(max(earliest, seen[i]), stay, lowered))
		}
	}
	return d
}

// allow makes a call that tells no more than whether it is admitted.
func (c *caller) allow(s *subject, t *tally, k key, allow func(key string) bool) {
	c.charge(s, t, 1, t.timed(func() sash.Decision { return sash.Decision{Allowed: allow(k.name)} }), k)
}

// allowBytes returns Allow for a key whose bytes are written over at once.
func (c *caller) allowBytes(s *subject) func(key string) bool {
	return func(key string) bool {
		c.buffer = append(c.buffer[:0], key...)
		allowed := s.limiter.AllowBytes(c.buffer)
		clear(c.buffer)
		return allowed
	}
}

func (c *caller) take(s *subject, t *tally, k key, n int64) sash.Decision {
	d := c.charge(s, t, n, t.timed(func() sash.Decision { return s.limiter.Take(k.name, n) }), k)
	c.faults.check(s, n, d)
	return d
}

func (c *caller) takeAll(s *subject, t *tally, a, b key, n int64) {
	names, keys := []string{a.name, b.name}, []key{a, b}
	if a.name == b.name { // counts once
		keys = keys[:1]
	}
	c.faults.check(s, n, c.charge(s, t, n, t.timed(func() sash.Decision { return s.limiter.TakeAll(names, n) }), keys...))
}

func (c *caller) peek(s *subject, t *tally, k key, n int64) {
	t.calls.Add(1)
	c.faults.check(s, n, t.timed(func() sash.Decision { return s.limiter.Peek(k.name, n) })())
}

// An openReservation is a reservation, and the most units that it may be settled to.
type openReservation struct {
	sash.Reservation
	most int64
}

// reserve reserves and settles: of a kept key at once, to no more than the estimate;
// of another later, or never, and to more, too, unless that could evict a kept key.
func (c *caller) reserve(s *subject, t *tally, k key, n int64) {
	var r sash.Reservation
	actual := c.rand.Int64N(n + 1)
	c.faults.check(s, n, c.charge(s, t, actual, t.timed(func() (d sash.Decision) {
		r, d = s.limiter.Reserve(k.name, n)
		return d
	}), k))
	switch {
	case k.account == nil:
		most := 2 * n
		if s.aside && s.maxKeys > 0 {
			most = n
		}
		c.settleLater(openReservation{r, most})
	case actual == 0:
		r.Cancel()
	default:
		r.Commit(actual)
	}
}

// settleLater keeps r, and in its place settles another, or never does.
func (c *caller) settleLater(r openReservation) {
	if len(c.open) < mostOpen {
		c.open = append(c.open, r)
		return
	}
	i := c.rand.IntN(mostOpen)
	if c.rand.IntN(4) > 0 {
		c.open[i].Commit(c.rand.Int64N(c.open[i].most + 1))
	}
	c.open[i] = r
}

// undated is a context that does not tell when it ends.
type undated struct{ context.Context }

func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

// wait waits for a short time. Most calls that know of a deadline give up at once.
func (c *caller) wait(ctx context.Context, s *subject, t *tally, k key, n int64) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if c.rand.IntN(2) == 0 {
		ctx = undated{ctx}
	}
	c.charge(s, t, n, func() sash.Decision {
		err := s.limiter.Wait(ctx, k.name, n)
		if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			c.faults.add(s, "Wait for %d failed: %v", n, err)
		}
		return sash.Decision{Allowed: err == nil}
	}, k)
}

func (c *caller) reset(s *subject, t *tally) {
	t.calls.Add(1)
	t.timed(func() (d sash.Decision) {
		s.limiter.Reset(recurring(c.rand.IntN(recurringKeys)))
		return d
	})()
}

// fresh takes a unit from a key never seen, which is admitted where it gets a quota
// of its own.
func (c *caller) fresh(s *subject, t *tally) {
	k := key{name: c.unseen()}
	if d := c.take(s, t, k, 1); !d.Allowed && !s.crowded {
		c.faults.add(s, "the first unit of key %q is denied: %+v", k.name, d)
	}
}
