package sashredis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
)

// An Option configures a [Limiter] in [New]. Of an option given twice, the last holds.
type Option interface{ apply(*config) }

// A config is the result of all options of one New.
type config struct {
	fallback  Fallback
	prefix    string
	hashTag   func(key string) string
	limitsFor func(key string) []sash.Limit
	timeout   time.Duration
	mirror    int
	lease     int64
	leaseFor  time.Duration
	failures  int
	pause     time.Duration
	maxAhead  int        // 0: no bound
	clock     sash.Clock // nil: the server's
	local     sash.Clock // of this process
	hook      func(ctx context.Context, calls []context.Context) (context.Context, func(err error))

	mirrorGiven bool
	faults      []error
}

// require records that an option is invalid, unless holds is set.
func (c *config) require(holds bool, format string, args ...any) {
	if !holds {
		c.faults = append(c.faults, fmt.Errorf("sashredis: "+format+": %w", append(args, sash.ErrInvalidOption)...))
	}
}

type optionFunc func(*config)

func (f optionFunc) apply(c *config) { f(c) }

// WithFallback sets who decides when the store does not answer. It is required: there is no
// answer that is right for everyone. See [FallbackDeny], [FallbackAdmit] and [FallbackLocal].
func WithFallback(f Fallback) Option {
	return optionFunc(func(c *config) { c.fallback = f })
}

// WithPrefix sets the text with which all keys of the limiter begin in the store. The default
// is "sash:". Limiters with one prefix share the counts of keys with the same name and limits.
// A prefix must not contain braces, which mean something in the names of Redis keys. It should not
// be the beginning of another one: with "sash:" and "sash:login:", the key "login:bob" of the first
// is the key "bob" of the second.
func WithPrefix(p string) Option {
	return optionFunc(func(c *config) {
		c.require(!strings.ContainsAny(p, "{}"), "WithPrefix: a prefix must not contain { or }, got %q", p)
		c.prefix = p
	})
}

// WithHashTag sets which keys are stored in one slot of a Redis cluster: those for which f
// returns the same text. All keys of one [Limiter.TakeAll] must share a slot. So f may return
// "7" for the keys "user 7" and "address of user 7". The default is the key. Then keys are spread
// over the cluster, which refuses a TakeAll of several keys.
//
// All processes that share counts must use the same f. It runs on each call, and must be safe
// for concurrent use.
func WithHashTag(f func(key string) string) Option {
	return optionFunc(func(c *config) {
		c.require(f != nil, "WithHashTag: f must not be nil")
		c.hashTag = f
	})
}

// WithLimitsFor gives keys limits of their own, such as the limits of a customer's plan. If f returns
// none, the key has the limits given to [New]. If it returns a wrong limit, the key is denied
// with [sash.Never], and the Err of the [Decision] says what is wrong.
//
// f runs on each call, in its goroutine, and must be safe for concurrent use. All processes that
// share counts should return the same limits.
//
// A key keeps its counts if nothing changes but the Count of limits, other than the
// Count of a [sash.TokenBucket], and the Burst. After any other change, also of one limit of several or of
// their order, all limits of the key begin anew. If that is the lease of [sash.AtOnce], up to Count units may
// be held under each lease, until those of the first are given back or it has ended. [sash.Per] chooses the
// algorithm by the count: write [sash.Limit.Counter] or [sash.Limit.Log] for limits that change.
//
// If the caller knows the limits and the key does not tell them, see [Limiter.WithLimits].
func WithLimitsFor(f func(key string) []sash.Limit) Option {
	return optionFunc(func(c *config) {
		c.require(f != nil, "WithLimitsFor: f must not be nil")
		c.limitsFor = f
	})
}

// WithTimeout sets for how long one round trip to the store may take. The default is 100 ms. A
// call ends within two of them: one for the round trip that is under way for its key, if there
// is one, and one for its own. If more than 512 calls of different costs wait for one key, each
// 512 take a round trip. Each [Limiter.TakeUpTo] counts as of a cost of its own.
func WithTimeout(d time.Duration) Option {
	return optionFunc(func(c *config) {
		c.require(d > 0, "WithTimeout: d must be > 0, got %v", d)
		c.timeout = d
	})
}

// WithMirror sets for how many keys, at most, the limiter keeps the latest state that the store has
// answered. The default is 65,536. With 0 there is no mirror.
//
// A mirror takes up to 512 bytes for each of the keys that it may keep, and some percent more by how
// memory is allocated: about 35 MB by default. A key takes about 300 bytes and its name under one
// limit, 150 for each further limit, and up to 130 more for each log, buckets or parts. So fewer keys
// are kept if they have several limits or long names, and none that has more than some 25 limits.
//
// A call that the mirror is sure the store would deny is denied in-process. Counts only grow
// between answers, so such a denial is exact, with these exceptions, where it
// lasts at most for the RetryAfter that it tells: another process has given units back, has
// Reset the key or changed its limits; the store has lost counts; its clock was set; or this
// machine was suspended. Keys of more than 512 bytes are left to the store.
//
// Any process may give back units that are held at a time, as [sash.AtOnce] limits them. So the mirror denies
// nothing because of such a limit, but more than its Count. Denials by the other limits of the key are as
// certain as ever. Their RetryAfter also counts what was held by the latest answer, until its leases end.
//
// Without the server's clock there is no mirror: see [WithCallerClock].
func WithMirror(keys int) Option {
	return optionFunc(func(c *config) {
		const most = 1 << 30
		c.require(0 <= keys && keys <= most, "WithMirror: keys must be from 0 to %d, got %d", most, keys)
		c.mirror, c.mirrorGiven = keys, true
	})
}

// WithLease lets the limiter lease units from the store ahead of demand, and hand them out
// in-process. A lease holds at most that many units, for at most d. There are none by default.
//
// A key gets a lease once calls for it keep coming, sized for what it uses in d, and at most half
// of what is left, divided by the number of processes that hold one. A lease ends with the
// window or bucket of the limit in which it was charged. So nothing is admitted that the exact
// rule, fed with the units used alone, would not admit. The price is that units which a process
// has leased but not used are denied to others, and to its own calls that are larger than the
// lease, until it gives them back after d, or they lapse.
//
// Time is the store's, as far as it can be known here. If the store's clock is set forward, or
// this machine is suspended, units of a lease may be used once more after their window: at most as
// many as were leased.
//
// [sash.SlidingLog] has no leases: its units count from the instant at which they were used. Nor has
// [sash.AtOnce], nor a key that has one of the two among its limits. A
// [Limiter.TakeAll], a [Limiter.Reserve], a [Limiter.TakeLeaving] and a [Limiter.TakeUpTo] take no units
// of a lease: for them there is what the store has left. So units that are leased and not used do not
// remain for a TakeLeaving, whichever process has leased them. A [Limiter.Peek] does not look at a lease
// either, so it may be denied where a Take would be admitted from one. What a Reserve, a TakeLeaving or a
// TakeUpTo takes is no demand for which units are leased.
func WithLease(units int64, d time.Duration) Option {
	return optionFunc(func(c *config) {
		c.require(2 <= units && units <= maxExact, "WithLease: units must be from 2 to 2^51-1, got %d", units)
		c.require(d >= time.Millisecond, "WithLease: d must be at least 1ms, got %v", d)
		c.lease, c.leaseFor = units, d.Truncate(time.Microsecond)
	})
}

// WithBreaker sets after how many failures in a row calls no longer wait for the store. The
// fallback then answers at once. One call at a time, at most once in each pause, tries the store
// and, if it answers, all calls go there again. The default is 5 failures and a pause of 1 s.
//
// There is one breaker for all keys: in a cluster, successes of other nodes keep it closed. A call
// whose context ends is no failure, since clients may choose deadlines. If its deadline was over, or
// the latest call has failed, the limiter asks the store without a caller, for as long as the
// time-out. If the store does not answer then, that is a failure.
func WithBreaker(failures int, pause time.Duration) Option {
	return optionFunc(func(c *config) {
		c.require(failures >= 1, "WithBreaker: failures must be >= 1, got %d", failures)
		c.require(pause > 0, "WithBreaker: pause must be > 0, got %v", pause)
		c.failures, c.pause = failures, pause
	})
}

// WithMaxAhead sets by how many windows what a key was charged may be ahead of the store's clock. A
// key that is further ahead under one of its limits begins anew, as after a [Limiter.Reset]. windows
// must be from 1 to 2^20. By default there is no bound.
//
// A key is ahead after the store's clock was set back, or after a failover to a server whose clock is
// behind. Its time stands still until the clock has caught up, and it admits what was left. Of a limit
// of 100 in a minute, one unit charged while the clock was an hour ahead leaves 99 for that hour. With
// a bound of 2, it costs nothing. The price is that nothing counts any more that was charged before
// the clock was set back, so up to Count more may be admitted in a window. That is so of all limits
// of the key, however long their windows are: under 10 a second and 100 a day, a step of more than
// that many seconds forgets the day. The bound should then be of as many seconds as is worth that.
//
// All processes that share counts should have the same bound. It should be larger than the steps by
// which the clocks of servers are corrected.
func WithMaxAhead(windows int) Option {
	return optionFunc(func(c *config) {
		c.require(1 <= windows && windows <= 1<<20, "WithMaxAhead: windows must be from 1 to 2^20, got %d", windows)
		c.maxAhead = windows
	})
}

// WithCallerClock makes the limiter decide at readings of clock, instead of at the time of the
// store. It is for tests and replays: processes whose clocks differ give different answers. A
// reading is rounded down to microseconds, and must lie within 142 years of instant 0.
//
// There is no mirror then, and [WithMirror] and [WithLease] are refused: they need a clock that
// all processes share. The store keeps a key for a day of its own time longer than it counts. The clock must not
// call the limiter.
func WithCallerClock(clock sash.Clock) Option {
	return optionFunc(func(c *config) {
		c.require(clock != nil, "WithCallerClock: clock must not be nil")
		c.clock = clock
	})
}

// WithRoundTripHook lets f watch each round trip, as to trace it. sashotel.RoundTripHook returns such a function.
//
// f runs before the round trip, in its goroutine, with its context, which has the time-out, and the contexts of the
// calls that it decides: of one, or of several that share it, in their order. For a script that decides no call, such
// as the one of a Commit, that is the context of its caller. f returns the context for [Conn].Run, which must be made
// of the one that it gets, and a function that is called once, when the round trip has ended, with its error; neither
// may be nil. Both must be safe for concurrent use, and the time that they take is part of the call.
//
// Also without f, the Conn gets the values of a call's context, such as its span. A round trip that several calls
// share has the values of the first, and does not end with it. The contexts that f gets are alike. Once a call has
// returned, as its context has ended, its values are not read any more: what has its context then finds none. Only a
// [Limiter.WaitReserve] has them until what it was admitted for has been given back.
func WithRoundTripHook(f func(ctx context.Context, calls []context.Context) (hooked context.Context, done func(err error))) Option {
	return optionFunc(func(c *config) {
		c.require(f != nil, "WithRoundTripHook: f must not be nil")
		c.hook = f
	})
}

// configure applies options, and returns all faults of what New was given in one error.
func configure(conn Conn, limits []sash.Limit, options []Option) (config, error) {
	c := config{
		prefix: "sash:", timeout: 100 * time.Millisecond, mirror: 1 << 16, failures: 5, pause: time.Second,
		local: sash.SystemClock(),
	}
	c.require(conn != nil, "New: conn must not be nil")
	for i, o := range options {
		c.require(o != nil, "option %d: must not be nil", i+1)
		if o != nil {
			o.apply(&c)
		}
	}
	if len(limits) == 0 && c.limitsFor == nil {
		c.faults = append(c.faults, fmt.Errorf("sashredis: New needs a Limit: %w", sash.ErrNoLimit))
	}
	c.faults = append(c.faults, validate(limits))
	f := c.fallback
	c.require(f.mode != noFallback, "New needs WithFallback(FallbackDeny, FallbackAdmit or FallbackLocal)")
	c.require(f.mode != localMode || 1 <= f.num && f.num <= f.den,
		"WithFallback: a share must be more than 0 and at most 1, got %d/%d", f.num, f.den)
	if c.clock != nil {
		c.require(!c.mirrorGiven || c.mirror <= 0, "WithMirror: needs the clock of the store, not WithCallerClock")
		c.require(c.lease <= 0, "WithLease: needs the clock of the store, not WithCallerClock")
		c.mirror = 0
	}
	return c, errors.Join(c.faults...)
}
