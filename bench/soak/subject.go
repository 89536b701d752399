package main

import (
	"context"
	"io"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/seed-30da4c49/sash"
)

// A limiter is the methods of a [sash.Limiter] that are tested. Tests put faulty ones in its
// place.
type limiter interface {
	Allow(key string) bool
	AllowBytes(key []byte) bool
	Take(key string, n int64) sash.Decision
	TakeAll(keys []string, n int64) sash.Decision
	Peek(key string, n int64) sash.Decision
	PeekAll(keys []string, n int64) sash.Decision
	Wait(ctx context.Context, key string, n int64) error
	WaitAll(ctx context.Context, keys []string, n int64) error
	WaitReserve(ctx context.Context, key string, n int64) (sash.Reservation, error)
	Reserve(key string, n int64) (sash.Reservation, sash.Decision)
	Reset(key string) bool
	SetLimits(key string, limits ...sash.Limit) error
	Reconfigure(limits ...sash.Limit) error
	Len() int
	Sweep() int
	Snapshot(w io.Writer) error
	Restore(r io.Reader) error
	Close() error
}

// A plan describes a limiter, and what is done to it.
type plan struct {
	name    string
	limits  []sash.Limit
	options []sash.Option
	cost    int64 // the highest cost of a call; at most half of each Count, or Burst of a token bucket
	maxKeys int   // 0: any number
	forward bool  // whether its clock never goes back

	aside   bool           // whether some keys have accounts
	crowded bool           // whether a new key may have no quota of its own
	others  [][]sash.Limit // limits that Reconfigure sets in turn
	replace bool           // whether it is restored from its own snapshots while calls run
}

// plans returns plans with every algorithm, and every option that changes decisions. Keys
// have accounts where none is evicted, or shares a quota, before it is idle.
func plans() []plan {
	const maxKeys = 1000
	counter := sash.PerSecond(40).Counter()
	tenths := 100 * time.Millisecond
	atOnceFor := func(lease time.Duration) sash.Limit { return sash.AtOnce(40, lease) }
	bucket := counter.TokenBucket(60)                             // in one word
	largeBucket := sash.Per(12345, time.Minute).TokenBucket(5000) // in more than a word
	capped := func(name string, o sash.Overflow) plan {
		return plan{name: name, limits: []sash.Limit{counter}, cost: 10, maxKeys: maxKeys,
			options: []sash.Option{sash.WithMaxKeys(maxKeys, o)}, crowded: o != sash.EvictLeastUsed}
	}
	aside := func(p plan) plan {
		p.aside = true
		return p
	}
	return []plan{
		aside(plan{name: "counter", limits: []sash.Limit{counter}, cost: 10}),
		aside(plan{name: "large counter", limits: []sash.Limit{sash.PerSecond(20_000).Counter()}, cost: 5_000}),
		aside(plan{name: "log", limits: []sash.Limit{counter.Log()}, cost: 10}),
		aside(plan{name: "buckets", limits: []sash.Limit{counter.Buckets(tenths)}, cost: 10}),
		aside(plan{name: "parts", limits: []sash.Limit{counter.Parts()}, cost: 10}),
		aside(plan{name: "parts of two bytes", limits: []sash.Limit{sash.PerSecond(2_000).Parts()}, cost: 500}),
		aside(plan{name: "large parts", limits: []sash.Limit{sash.PerSecond(200_000).Parts()}, cost: 50_000}),
		aside(plan{name: "token bucket", limits: []sash.Limit{bucket}, cost: 10}),
		aside(plan{name: "large token bucket", limits: []sash.Limit{largeBucket}, cost: 1000}),
		aside(plan{name: "token bucket of two rates", limits: []sash.Limit{bucket}, cost: 10, forward: true}),
		aside(plan{name: "large token bucket of two rates", limits: []sash.Limit{largeBucket}, cost: 1000, forward: true}),
		aside(plan{name: "token bucket and others", limits: []sash.Limit{bucket, counter.Log(), sash.Per(60, 2*time.Second).Buckets(tenths), largeBucket}, cost: 10}),
		aside(plan{name: "denied are charged to a token bucket", limits: []sash.Limit{bucket}, cost: 2, options: []sash.Option{sash.WithChargeDenied()}}),
		aside(plan{name: "three limits", limits: []sash.Limit{sash.Per(20, 200*time.Millisecond).Counter(), counter.Log(), sash.Per(60, 2*time.Second).Buckets(tenths)}, cost: 10}),
		aside(plan{name: "denied are charged", limits: []sash.Limit{counter}, cost: 2, options: []sash.Option{sash.WithChargeDenied()}}),
		aside(plan{name: "at once", limits: []sash.Limit{atOnceFor(time.Second)}, cost: 10}),
		aside(plan{name: "at once and others", limits: []sash.Limit{atOnceFor(2 * time.Second), counter, bucket}, cost: 10}),
		aside(plan{name: "parts and others", limits: []sash.Limit{counter.Parts(), sash.PerMinute(1000), sash.PerSecond(60).Counter(), bucket}, cost: 10}),
		capped("at most 1,000 keys, EvictLeastUsed", sash.EvictLeastUsed),
		aside(capped("at most 1,000 keys, DenyNew", sash.DenyNew)),
		capped("at most 1,000 keys, ShareOverflow", sash.ShareOverflow),
		{name: "other limits", limits: []sash.Limit{counter}, cost: 10, others: [][]sash.Limit{
			{counter.Log()}, {counter.Parts()}, {counter.Buckets(tenths), sash.PerMinute(1000)}, {bucket}, {sash.PerSecond(20_000).Counter()},
			{largeBucket}, {sash.PerSecond(20).TokenBucket(40), counter.Log()}, {atOnceFor(time.Second)},
			{atOnceFor(2 * time.Second), counter}, {counter},
		}},
		{name: "restored", limits: []sash.Limit{counter, counter.Log(), counter.Parts(), bucket, atOnceFor(time.Second)}, cost: 10, replace: true},
	}
}

// A build makes the limiter of a plan, with a clock.
type build func(p plan, c sash.Clock) limiter

// right is the build that makes a real limiter.
func right(p plan, c sash.Clock) limiter { return p.make(c) }

func (p plan) make(c sash.Clock) *sash.Limiter {
	options := []sash.Option{sash.WithClock(c), sash.WithSweepInterval(100 * time.Millisecond)}
	for _, l := range p.limits {
		options = append(options, l)
	}
	return sash.Must(sash.New(append(options, p.options...)...))
}

// lowered returns the limits of p, with lower Counts and Bursts.
//
// A token bucket keeps its Count, and so its rate, unless the clock only goes forward. When
// the rate changes, the bucket goes on from the units that it lacks at the clock's reading. At
// a late reading it lacks more than it did. If the rate rises then, what it lacks may have
// flowed back by the time that the clock is where it was. So no bound holds across such a rise.
func (p plan) lowered() []sash.Limit {
	const halved = 2
	lower := make([]sash.Limit, len(p.limits))
	for i, l := range p.limits {
		if l.Algorithm != sash.TokenBucket || p.forward {
			l.Count /= halved
		}
		l.Burst /= halved
		lower[i] = l
	}
	return lower
}

// holdsUnits reports whether units are held until their reservations are settled.
func (p plan) holdsUnits() bool {
	return slices.ContainsFunc(p.limits, func(l sash.Limit) bool { return l.Algorithm == sash.Concurrency })
}

// A subject is a limiter that is tested.
type subject struct {
	plan
	build   build
	limiter limiter
	clock   *clock
	kept    []key // the keys with accounts

	// counts changes with the limits in force. It is odd while they may be the limits of the
	// plan, and even while they are the lowered ones. It starts at 1.
	counts atomic.Uint64

	turns     int      // the number of changes to others
	overrides []string // the keys with limits of their own
}

// A key is the name of a key, and its account or nil.
type key struct {
	name    string
	account *account
	// plain is whether nothing is reserved from it. A reservation makes the entry of a key a
	// larger one, so without such keys the small entries would hardly be checked.
	plain bool
}

const (
	keptKeys      = 8
	recurringKeys = 2000
)

func newSubject(p plan, build build) *subject {
	s := &subject{plan: p, build: build, clock: newClock()}
	s.limiter = build(p, s.clock)
	s.counts.Store(1)
	if p.aside {
		for i := range keptKeys {
			s.kept = append(s.kept, key{keptName(i), newAccount(p.limits, p.lowered(), s.clock), i%2 == 0})
		}
	}
	return s
}

// idle moves the clock an hour past its latest instant, so that every key becomes idle, and
// sweeps. It returns the number of keys left.
func (s *subject) idle() int {
	s.clock.move(time.Duration(s.clock.high.Load()-s.clock.Now()) + time.Hour)
	s.limiter.Sweep()
	return s.limiter.Len()
}

// loweredSince returns then if the same lowered limits have been in force ever since counts
// was loaded as then, and else 0.
func (s *subject) loweredSince(then uint64) uint64 {
	if then%2 == 0 && s.counts.Load() == then {
		return then
	}
	return 0
}

func keptName(i int) string  { return "kept " + strconv.Itoa(i) }
func recurring(i int) string { return "recurring " + strconv.Itoa(i) }
