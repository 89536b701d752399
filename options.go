package sash

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// ErrInvalidOption is wrapped by every error about an option's value.
var ErrInvalidOption = errors.New("invalid option")

// ErrNoLimit is wrapped by the error of [New] without a [Limit].
var ErrNoLimit = errors.New("no limit")

// An Option configures a [Limiter] in [New]. A [Limit] is one; the others are
// made by the functions that begin with With. Where one is given twice, the
// last holds.
type Option interface{ apply(*config) }

// config is what the options of one New have said.
type config struct {
	limits        []Limit
	clock         Clock
	sizeHint      int
	sweepInterval time.Duration
	chargeDenied  bool
	limitsFor     func(key string) []Limit
	observer      func(key string, n int64, d Decision)
	maxKeys       int
	overflow      Overflow
	noReconfigure error // why Reconfigure is refused; nil: it is not
	faults        []error
}

func (c *config) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf("sash: "+format, args...))
}

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

func (l Limit) apply(c *config) { c.limits = append(c.limits, l) }

// WithClock sets the clock that decides; the default is [SystemClock]. Tests
// and replays give a [ManualClock]; [CoarseClock] is cheaper and late.
func WithClock(clock Clock) Option {
	return optionFunc(func(c *config) {
		if clock == nil {
			c.fault("WithClock: clock must not be nil: %w", ErrInvalidOption)
			return
		}
		c.clock = clock
	})
}

// WithSizeHint makes room for so many keys, at most 1<<31-1, from the start: 18
// to 22 bytes for each of many. It spares the table most of its growth; it never
// shrinks below that. 0, the default, starts empty and grows. It is no bound.
func WithSizeHint(keys int) Option {
	return optionFunc(func(c *config) {
		if keys < 0 || keys > math.MaxInt32 {
			c.fault("WithSizeHint: keys must be from 0 to %d, got %d: %w", math.MaxInt32, keys, ErrInvalidOption)
			return
		}
		c.sizeHint = keys
	})
}

// WithSweepInterval sets how often the janitor evicts idle keys, in real time
// whatever the limiter's clock. 0, the default, chooses from the limiter's own
// limits: half the longest window, at least a second and at most ten minutes. A
// negative d starts no janitor: the caller calls [Limiter.Sweep].
func WithSweepInterval(d time.Duration) Option {
	return optionFunc(func(c *config) { c.sweepInterval = d })
}

// WithMaxKeys bounds the keys tracked to n, from 1 to 1<<30-1, however many calls
// make new ones at once; overflow says what becomes of those that do not fit. Room
// is made by evicting idle keys as they are come upon, which changes no answer.
// What is lost beyond that is counted in [Stats].
//
// A [Reservation.Commit] of more than was reserved charges its key even if that was
// evicted and the table is full: under every overflow it then makes room as
// [EvictLeastUsed] does.
//
// It costs 16 bytes for each of n from the start, and 64 more for each key tracked.
// While the table is full, a call for a new key inspects at most 128 slots to find an
// idle key or, under EvictLeastUsed, the key to evict. That takes some microseconds. It
// does so again only if another call has taken the room or charged the key meanwhile.
func WithMaxKeys(n int, overflow Overflow) Option {
	return optionFunc(func(c *config) {
		const most = 1<<30 - 1
		if n < 1 || n > most {
			c.fault("WithMaxKeys: n must be from 1 to %d, got %d: %w", most, n, ErrInvalidOption)
		}
		if overflow > ShareOverflow {
			c.fault("WithMaxKeys: overflow must be EvictLeastUsed, DenyNew or ShareOverflow, got %d: %w", overflow, ErrInvalidOption)
		}
		c.maxKeys, c.overflow = n, overflow
	})
}

// WithLimitsFor gives keys limits of their own, such as by the plan of a customer:
// f is asked when a key is first seen, and again when it is seen after it was
// evicted or reset, and while nothing is charged to it. Nil, or none, means the
// limiter's own limits, and so does a wrong limit, or more than 64: there is nobody to report it
// to, so check what you load. [Limiter.SetLimits] goes before f.
//
// f runs in the goroutine of the call that sees the key; it must be safe for
// concurrent use, and may keep the key. A key with limits of its own costs more
// memory than the smallest, and about what a limiter of several limits costs.
func WithLimitsFor(f func(key string) []Limit) Option {
	return optionFunc(func(c *config) {
		if f == nil {
			c.fault("WithLimitsFor: f must not be nil: %w", ErrInvalidOption)
			return
		}
		c.limitsFor = f
	})
}

// WithChargeDenied charges denied attempts too, to every limit that they were
// asked of, saturating at Count, so that a key that keeps hammering stays denied.
// RetryAfter then says how long it must be silent. Peeks, negative costs and a
// [Limiter.Wait] that goes on are never charged.
func WithChargeDenied() Option {
	return optionFunc(func(c *config) { c.chargeDenied = true })
}

// WithObserver calls f after each decision of Allow, AllowN, AllowBytes, Take,
// TakeBytes, TakeThenPeek, TakeAll, Reserve and ReserveAll, in the goroutine of that
// call and before it returns, with the key, the cost and the decision; once for each
// key of several, and for a Wait when it is admitted. [Limiter.Peek], and so a cost
// of 0, is not observed, nor is the settling of a [Reservation]. f must be safe for
// concurrent use, and its time is the call's; the calls that take a []byte copy
// the key for it, which allocates.
func WithObserver(f func(key string, n int64, d Decision)) Option {
	return optionFunc(func(c *config) {
		if f == nil {
			c.fault("WithObserver: f must not be nil: %w", ErrInvalidOption)
			return
		}
		c.observer = f
	})
}

// configure gathers options and returns every fault of theirs in one error.
func configure(options []Option) (config, error) {
	c := config{clock: SystemClock()}
	for i, o := range options {
		if limit, ok := o.(*Limit); o == nil || ok && limit == nil {
			c.fault("option %d: must not be nil: %w", i+1, ErrInvalidOption)
			continue
		}
		o.apply(&c)
	}
	if err := validate(c.limits); err != nil {
		c.faults = append(c.faults, err)
	}
	if len(c.limits) == 0 {
		c.fault("New needs a Limit, such as PerSecond(10): %w", ErrNoLimit)
	}
	return c, errors.Join(c.faults...)
}
