package sash

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// ErrInvalidOption is wrapped by every error about an option's value.
var ErrInvalidOption = errors.New("invalid option")

// ErrNoLimit is wrapped by the error of [New] without a [Limit].
var ErrNoLimit = errors.New("no limit")

// An Option configures a [Limiter] in [New]. A [Limit] is an Option. The others are made by the
// functions whose names begin with With. If one of these is given twice, the last holds.
type Option interface{ apply(*config) }

// A config is the result of all options of one New.
type config struct {
	setup
	limits       []Limit
	clock        Clock
	sizeHint     int
	chargeDenied bool
	observer     func(key string, n int64, d Decision)
	maxKeys      int
	overflow     Overflow
	maxWaiters   int
	faults       []error
}

// A setup is the options that may be replaced together with the limiter's own limits: see
// Limiter.replace. It does not change. A Reconfigure and a Restore keep it.
type setup struct {
	limitsFor     func(key string) []Limit // of WithLimitsFor; nil: none
	interval      time.Duration            // between sweeps; 0: chosen from the limiter's own limits
	noReconfigure error                    // why Reconfigure is refused; nil: it is not
}

// require adds an error about an option to what New returns, unless ok.
func (c *config) require(ok bool, format string, args ...any) {
	if !ok {
		c.faults = append(c.faults, fmt.Errorf("sash: "+format+": %w", append(args, ErrInvalidOption)...))
	}
}

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

func (l Limit) apply(c *config) { c.limits = append(c.limits, l) }

// WithLimits gives limits that are in a slice, which is copied. They are added to the other
// limits among the options, as if each stood there by itself. So there may be up to 64 in
// all, and without any, [New] returns [ErrNoLimit].
func WithLimits(limits ...Limit) Option {
	limits = slices.Clone(limits) // the caller may change its slice before New
	return optionFunc(func(c *config) { c.limits = append(c.limits, limits...) })
}

// WithClock sets the clock by which the limiter decides. The default is [SystemClock].
// Tests and replays use a [ManualClock]. A [CoarseClock] is cheaper to read, but late.
func WithClock(clock Clock) Option {
	return optionFunc(func(c *config) {
		c.require(clock != nil, "WithClock: clock must not be nil")
		c.clock = clock
	})
}

// WithSizeHint makes room in the table for that number of keys, at most 1<<31-1, from the
// start. That spares the table most of its growth. The table never shrinks below that
// room, and may grow beyond it.
//
// It costs 18 to 22 bytes for each key, if they are many. The default, 0, starts with an
// empty table.
func WithSizeHint(keys int) Option {
	return optionFunc(func(c *config) {
		const most = math.MaxInt32
		c.require(0 <= keys && keys <= most, "WithSizeHint: keys must be from 0 to %d, got %d", most, keys)
		c.sizeHint = keys
	})
}

// WithSweepInterval sets the interval at which the janitor evicts idle keys. It is in real
// time, whatever the limiter's clock.
//
// The default, 0, chooses it from the limiter's own limits: half the longest window, at
// least a second and at most ten minutes. With a negative d there is no janitor, and the
// caller calls [Limiter.Sweep].
func WithSweepInterval(d time.Duration) Option {
	return optionFunc(func(c *config) { c.interval = d })
}

// WithMaxKeys bounds the number of keys tracked to n, from 1 to 1<<30-1. The bound is
// hard, however many calls insert new keys at once. By default there is no bound.
//
// A call for a new key that finds the table full evicts an idle key, which changes no
// answer. If it finds no idle key, overflow decides what happens to the new key. What is
// lost by that is counted in [Stats].
//
// A [Reservation.Commit] of more than was reserved charges its key even if the key was evicted and
// the table is full. It then makes room as [EvictLeastUsed] does, whatever overflow is.
//
// The bound costs 16 bytes for each of n from the start, and 64 bytes more for each key tracked.
// While the table is full, a call for a new key inspects at most 128 slots to find an idle key or,
// under EvictLeastUsed, the key to evict. That takes some microseconds. It inspects more slots only
// if another call has taken the room or charged the key in between.
func WithMaxKeys(n int, overflow Overflow) Option {
	return optionFunc(func(c *config) {
		const most = 1<<30 - 1
		c.require(1 <= n && n <= most, "WithMaxKeys: n must be from 1 to %d, got %d", most, n)
		c.require(overflow <= ShareOverflow,
			"WithMaxKeys: overflow must be EvictLeastUsed, DenyNew or ShareOverflow, got %d", overflow)
		c.maxKeys, c.overflow = n, overflow
	})
}

// WithMaxWaiters lets at most n calls wait at a time, for any keys. It counts the calls of
// [Limiter.Wait], [Limiter.WaitAll], [Limiter.WaitReserve] and [Limiter.WaitLeaving] together.
// [Limiter.Reconfigure] keeps the bound. By default there is none. With an n of 0, no call waits.
//
// A call that would have to wait while n others do gets [ErrTooManyWaiters] at once, and nothing is
// charged. A call for 0 units does, too. A call queues behind others that wait for its keys and leave no more
// units, even if it would be admitted at that moment. So it has to wait, too.
//
// The bound costs nothing. [Stats] tells how many calls wait. A call that cannot be admitted before its
// deadline counts for the moment in which it finds that out.
func WithMaxWaiters(n int) Option {
	return optionFunc(func(c *config) {
		c.require(n >= 0, "WithMaxWaiters: n must be >= 0, got %d", n)
		c.maxWaiters = n
	})
}

// WithLimitsFor gives keys limits of their own, such as the limits of a customer's plan. f
// returns the limits of a key. A call on a key that is not tracked calls f: when the key
// is first seen, after it was evicted or reset, and as long as nothing is charged to it.
// A [Limiter.SetLimits] that takes the limits of a key away calls f, too.
//
// If f returns no limits, the key has the limiter's own. The limits of [Limiter.SetLimits]
// take precedence over f.
//
// If f returns an invalid limit, or more than 64, the key is denied: a call is decided as
// under the limit Limit{Count: 0, Window: time.Second}, which is also the Limit of its
// Decision, and is counted in [Stats] if it asks for units. Nothing is stored for the key,
// and the next call asks f again. [Limiter.Wait] for units returns an error that says what
// was wrong. So does a SetLimits that takes the limits of a key away, and they stay.
//
// A key for which f returns [Unlimited] or a Count of 0 is never tracked, so each call on
// it calls f.
//
// f runs in the goroutine of the call on the key. It must be safe for concurrent use. It
// may keep the key. A key with limits of its own takes about as much memory as one under a
// limiter of several limits.
func WithLimitsFor(f func(key string) []Limit) Option {
	return optionFunc(func(c *config) {
		c.require(f != nil, "WithLimitsFor: f must not be nil")
		c.limitsFor = f
	})
}

// WithChargeDenied charges denied attempts too, so that a key that keeps hammering stays denied. A
// denied attempt is charged to every limit that it was checked against, up to Count; it empties a
// [TokenBucket], at most. RetryAfter is then the time for which the key must be silent.
//
// A log, buckets and parts then remember the newest Count units, and all that were charged at the same
// instant, or in the same bucket or part, as the oldest of these. Older units do not count again if newer
// ones are given back, or if Count is raised.
//
// A Peek, a negative cost, and the attempts of a call that waits are not charged when they
// are denied.
func WithChargeDenied() Option {
	return optionFunc(func(c *config) { c.chargeDenied = true })
}

// WithObserver calls f after each decision, with the key, the cost and the decision:
//   - for Allow, AllowN, AllowBytes, Take, TakeBytes, TakeThenPeek, TakeLeaving, TakeUpTo, Reserve and
//     ReserveLeaving, once;
//   - for TakeAll and ReserveAll, once for each key;
//   - for Wait, WaitReserve and WaitLeaving, once, when it is admitted;
//   - for WaitAll, once for each key, when it is admitted.
//
// [Limiter.Peek] and [Limiter.PeekAll] are not observed. Nor is a call for 0 units, which is
// a Peek, or the Commit or Cancel of a [Reservation].
//
// f runs in the goroutine of the call, before the call returns. It must be safe for
// concurrent use, and the call takes as much longer as f runs. It may keep the key, which
// is the table's own copy. For a key that is not tracked, a copy is made, which allocates.
//
// If f panics, the call does, and its charge stays. But units that are held until a reservation is settled, as by
// [AtOnce], are given back, since no caller has the reservation.
func WithObserver(f func(key string, n int64, d Decision)) Option {
	return optionFunc(func(c *config) {
		c.require(f != nil, "WithObserver: f must not be nil")
		c.observer = f
	})
}

// An Overflow says what happens to a key that does not fit under [WithMaxKeys].
type Overflow uint8

const (
	// EvictLeastUsed makes room by evicting the sampled key that has the greatest part of its quota
	// left; of equals, the one that was inserted last. So a flood of new keys evicts its own keys,
	// even if it uses up the quota of each. It does not evict keys that are held at their limits.
	//
	// A sample is 16 keys, drawn at random from a table of 2 slots for each key of the
	// bound. While no key in the sample has any quota left, it goes on to more keys. It
	// inspects at most 128 slots; up to a bound of 64 keys, these are all there are.
	EvictLeastUsed Overflow = iota
	// DenyNew denies keys that do not fit. RetryAfter then is the interval at which idle
	// keys are evicted. It is an estimate; in every other decision it is exact.
	DenyNew
	// ShareOverflow lets keys that do not fit share quotas of the limiter's own limits,
	// 256 of them, by hash. Units reserved from a shared quota are not given back: those that are
	// held at a time, as by [AtOnce], are held until their lease ends. Units spent beyond a
	// reservation are charged to it.
	ShareOverflow
)

// configure applies options, and returns all their faults in one error.
func configure(options []Option) (config, error) {
	c := config{clock: SystemClock(), maxWaiters: math.MaxInt}
	for i, o := range options {
		limit, isPointer := o.(*Limit) // which has the methods of a Limit
		if isNil := o == nil || isPointer && limit == nil; isNil {
			c.require(false, "option %d: must not be nil", i+1)
			continue
		}
		o.apply(&c)
	}
	c.faults = append(c.faults, limitFaults("sash: ", c.limits)...)
	if len(c.limits) == 0 {
		c.faults = append(c.faults, fmt.Errorf("sash: New needs a Limit, such as PerSecond(10): %w", ErrNoLimit))
	}
	return c, errors.Join(c.faults...)
}
