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

// A tally counts the calls of one caller on one subject.
type tally struct {
	calls, admitted atomic.Int64
	longest         atomic.Int64 // nanoseconds; without Wait, which is meant to last
}

// timed returns a call that also records how long it took.
func (t *tally) timed(call func() sash.Decision) func() sash.Decision {
	return func() sash.Decision {
		start := time.Now()
		d := call()
		t.longest.Store(max(t.longest.Load(), int64(time.Since(start)))) // only this caller stores
		return d
	}
}

// A caller makes random calls on all subjects.
type caller struct {
	rand     *rand.Rand
	name     string
	serial   int // the number of new keys made so far
	subjects []*subject
	tallies  []tally // one for each subject
	faults   *faults
	open     []openReservation // reservations of keys without account, to be settled later
	buffer   []byte
}

const (
	maxOpen = 32
	// callsPerMove is the average number of calls between two moves of a clock. A move
	// is at most maxStep, and half of that on average.
	callsPerMove = 64
	maxStep      = 40 * time.Millisecond
	// movesPerJump is the average number of moves between two jumps forward, and between
	// two jumps back.
	movesPerJump        = 200
	maxForward, maxBack = 5 * time.Second, 1500 * time.Millisecond
	waitTimeout         = 2 * time.Millisecond
	callsPerLenCheck    = 256
)

func (c *caller) run(ctx context.Context) {
	for ctx.Err() == nil {
		i := c.rand.IntN(len(c.subjects))
		s, t := c.subjects[i], &c.tallies[i]
		c.call(ctx, s, t)
		if c.rand.IntN(callsPerMove) == 0 {
			c.move(s)
			runtime.Gosched() // so that the operator runs as well
		}
		if c.rand.IntN(callsPerLenCheck) == 0 {
			c.faults.checkLen(s)
		}
	}
}

func (c *caller) move(s *subject) {
	switch dice := c.rand.IntN(movesPerJump); {
	case dice == 0:
		s.clock.move(c.upTo(maxForward))
	case dice == 1 && !s.forward:
		s.clock.move(-c.upTo(maxBack))
	default:
		s.clock.move(c.upTo(maxStep))
	}
}

func (c *caller) upTo(max time.Duration) time.Duration {
	return time.Duration(c.rand.Int64N(int64(max)))
}

// call makes one call of a random kind.
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
		c.peek(s, t, k, c.key(s), n)
	case dice < 87 && k.plain:
		c.take(s, t, k, n)
	case dice < 87 && k.account != nil && s.holdsUnits():
		c.hold(s, t, k, n)
	case dice < 87:
		c.reserve(s, t, k, n)
	case dice < 89:
		c.wait(ctx, s, t, k, c.key(s), n)
	case dice < 92:
		c.reset(s, t)
	default:
		c.fresh(s, t)
	}
}

// key returns a key with an account, a recurring key, or a new key.
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

// charge makes a call on keys and returns its decision. If the call is admitted, charge
// records the units that stay charged to each key.
func (c *caller) charge(s *subject, t *tally, stay int64, call func() sash.Decision, keys ...key) sash.Decision {
	t.calls.Add(1)
	counts := s.counts.Load()
	pasts := make([]past, len(keys))
	for i, k := range keys {
		if k.account != nil {
			pasts[i] = k.account.before()
		}
	}
	// The call is decided at an instant no earlier than the reading before it, unless the
	// clock goes back while it runs; and no earlier than an instant that the key has seen.
	before := s.clock.read()
	d := call()
	if !d.Allowed {
		return d
	}
	t.admitted.Add(1)
	earliest, lowered := s.clock.earliest(before), s.loweredSince(counts)
	for i, k := range keys {
		if k.account != nil {
			c.faults.overAdmission(s, k, k.account.record(pasts[i], earliest, stay, lowered))
		}
	}
	return d
}

// allow makes a call that returns only whether it is admitted.
func (c *caller) allow(s *subject, t *tally, k key, allow func(key string) bool) {
	c.charge(s, t, 1, t.timed(func() sash.Decision { return sash.Decision{Allowed: allow(k.name)} }), k)
}

// allowBytes returns a function that calls AllowBytes, and then overwrites the key's bytes.
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
	c.faults.check(s, n, c.charge(s, t, n, t.timed(func() sash.Decision { return s.limiter.TakeAll(names(a, b), n) }), distinct(a, b)...))
}

func names(a, b key) []string { return []string{a.name, b.name} }

// distinct returns a and b, or only one of them if they are the same: a key named twice
// counts once.
func distinct(a, b key) []key {
	if a.name == b.name {
		return []key{a}
	}
	return []key{a, b}
}

// peek looks at one key or at two.
func (c *caller) peek(s *subject, t *tally, a, b key, n int64) {
	t.calls.Add(1)
	look := func() sash.Decision { return s.limiter.Peek(a.name, n) }
	if c.rand.IntN(2) == 0 {
		look = func() sash.Decision { return s.limiter.PeekAll(names(a, b), n) }
	}
	c.faults.check(s, n, t.timed(look)())
}

// An openReservation is a reservation that is not settled.
type openReservation struct {
	sash.Reservation
	min, max int64 // the costs to settle it to
}

// reserve makes a reservation, and settles it at once, later or never. That of a key with an
// account is settled to no less than the account has recorded, and no more than the estimate.
// Others may be settled to more than the estimate, unless that could evict a key with an
// account.
func (c *caller) reserve(s *subject, t *tally, k key, n int64) {
	var r sash.Reservation
	actual := c.rand.Int64N(n + 1)
	c.faults.check(s, n, c.charge(s, t, actual, t.timed(func() (d sash.Decision) {
		r, d = s.limiter.Reserve(k.name, n)
		return d
	}), k))
	switch {
	case k.account == nil:
		limit := 2 * n
		if s.aside && s.maxKeys > 0 {
			limit = n
		}
		c.settleLater(openReservation{r, 0, limit})
	case c.rand.IntN(2) == 0:
		c.settleLater(openReservation{r, actual, n})
	case actual == 0:
		r.Cancel()
	default:
		r.Commit(actual)
	}
}

// hold makes a reservation of a key whose account has limits that hold units. It gives them back never, so
// that they are held for the whole lease, or at some time, and then the account records none of them.
func (c *caller) hold(s *subject, t *tally, k key, n int64) {
	var r sash.Reservation
	reserve := t.timed(func() (d sash.Decision) {
		r, d = s.limiter.Reserve(k.name, n)
		return d
	})
	if c.rand.IntN(2) == 0 {
		c.faults.check(s, n, c.charge(s, t, n, reserve, k))
		return
	}
	c.faults.check(s, n, c.charge(s, t, 0, reserve, k))
	if c.rand.IntN(2) == 0 {
		r.Release()
	} else {
		c.settleLater(openReservation{r, 0, n})
	}
}

// settleLater keeps r open. If too many are open, it takes a random one of them out, and
// settles it or abandons it.
func (c *caller) settleLater(r openReservation) {
	if len(c.open) < maxOpen {
		c.open = append(c.open, r)
		return
	}
	i := c.rand.IntN(maxOpen)
	if c.rand.IntN(4) > 0 {
		o := c.open[i]
		o.Commit(o.min + c.rand.Int64N(o.max-o.min+1))
	}
	c.open[i] = r
}

// undated is a context that hides its deadline.
type undated struct{ context.Context }

func (undated) Deadline() (time.Time, bool) { return time.Time{}, false }

// wait waits for a short time: for one key, for two, or for a reservation that is never
// settled. With a deadline, most calls fail at once, so half of the calls hide it.
func (c *caller) wait(ctx context.Context, s *subject, t *tally, a, b key, n int64) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	if c.rand.IntN(2) == 0 {
		ctx = undated{ctx}
	}
	keys, wait := []key{a}, func() error { return s.limiter.Wait(ctx, a.name, n) }
	switch dice := c.rand.IntN(3); {
	case dice == 0:
		keys, wait = distinct(a, b), func() error { return s.limiter.WaitAll(ctx, names(a, b), n) }
	case dice == 1 && !a.plain:
		wait = func() error {
			_, err := s.limiter.WaitReserve(ctx, a.name, n)
			return err
		}
	}
	c.charge(s, t, n, func() sash.Decision {
		err := wait()
		if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
			c.faults.add(s, "Wait for %d failed: %v", n, err)
		}
		return sash.Decision{Allowed: err == nil}
	}, keys...)
}

func (c *caller) reset(s *subject, t *tally) {
	t.calls.Add(1)
	t.timed(func() (d sash.Decision) {
		s.limiter.Reset(recurring(c.rand.IntN(recurringKeys)))
		return d
	})()
}

// fresh takes a unit of a new key. The call must be admitted if new keys have a quota of
// their own.
func (c *caller) fresh(s *subject, t *tally) {
	k := key{name: c.unseen()}
	if d := c.take(s, t, k, 1); !d.Allowed && !s.crowded {
		c.faults.add(s, "the first unit of key %q is denied: %+v", k.name, d)
	}
}
