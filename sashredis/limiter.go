package sashredis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/puzpuzpuz/xsync/v3"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/queue"
	"github.com/seed-30da4c49/sash/internal/tsc"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A Limiter decides, per key, whether a call may go on. All limiters on one store, with one
// prefix and the same limits, share their counts. Make one with [New]. All its methods are safe
// for concurrent use.
//
// Each call ends within its context and two time-outs, whatever the store does; see
// [WithTimeout]. The answers are the answers of package sash at the time of the store.
type Limiter struct {
	*common
	own   *ruleset // of the limits given to New or WithLimits; nil: none
	wrong error    // what is wrong with those given to WithLimits; nil: nothing
	given bool     // WithLimits has made it, so WithLimitsFor has no say
}

// A common is what a limiter shares with those that its WithLimits returns: all but the limits.
type common struct {
	config
	conn       Conn
	quick      sash.Clock                        // local, but its readings may be late by less than maxLate
	views      *xsync.MapOf[limitsKey, *Limiter] // of limits other than New was given; equal limits have the same
	flights    flights
	waitings   sync.Pool // of *waiting
	mirror     *mirror   // nil: none
	lessees    *lessees  // nil: there are no leases
	breaker    breaker
	shares     *sash.Limiter        // of FallbackLocal, else nil
	borrowers  *borrowers           // of shares
	storeClock *storeClock          // of shares; nil: there are none, or they have the caller's
	queues     queue.Queues[string] // of the calls that wait, by key
	stats      counters

	once      sync.Once       // of Close
	closing   context.Context // ends when Close begins
	cancel    context.CancelFunc
	examining sync.Mutex // held while the store is examined, and from Close on
}

// New returns a limiter that keeps its counts in the store of conn. Each key has all of limits,
// of any algorithms, and a call is admitted if every limit admits it. [WithFallback] is
// required. New does not call the store.
//
// The error names every fault. It wraps [sash.ErrInvalidLimit], [sash.ErrInvalidOption] or
// [sash.ErrNoLimit]. A limit must be exact in the numbers of a store:
//   - Window and Precision are whole microseconds.
//   - Count, Burst, and Window in microseconds, are less than 2^51.
//   - A token bucket fills in less than 2^51 microseconds.
//
// The parts of a [sash.SlidingParts] are whole microseconds, too. There are sixteen if that many make up
// Window, as they do for whole seconds, and otherwise the largest number below that does. Each part begins
// at a whole microsecond: up to 63 later than in package sash.
//
// If all calls bring their limits, as in [Limiter.TakeLimits], give it [sash.PerSecond](0), which admits nothing.
//
// With [WithLease] and with [FallbackLocal], New starts a goroutine, which [Limiter.Close] ends.
// The limiter does not close conn.
func New(conn Conn, limits []sash.Limit, options ...Option) (*Limiter, error) {
	c, err := configure(conn, limits, options)
	if err != nil {
		return nil, err
	}
	l := &Limiter{common: &common{
		config: c, conn: conn, quick: unordered(c.local), views: xsync.NewMapOf[limitsKey, *Limiter](),
		mirror:  newMirror(c.mirror),
		breaker: breaker{limit: int64(c.failures), pause: int64(c.pause)},
	}}
	if len(limits) > 0 {
		l.own = c.newRuleset(limits)
	}
	l.closing, l.cancel = context.WithCancel(context.Background())
	if err := l.openShares(); err != nil {
		return nil, err
	}
	if c.lease > 0 {
		l.lessees = &lessees{Limiter: l, byKey: xsync.NewMapOf[string, *lessee]()}
		l.lessees.underway.Go(l.lessees.run)
	}
	return l, nil
}

// maxLate is more than the time by which a reading of an unordered clock may be late.
const maxLate = microsecond

// unordered returns clock without the order between cores, which takes half of the time of a reading. The
// processor may read it ahead of the instructions before. So a reading may be late, and does not show that
// something is not over yet.
func unordered(clock sash.Clock) sash.Clock {
	if c, ok := clock.(*tsc.Clock); ok {
		return c.Unordered()
	}
	return clock
}

// Must returns l, and panics if err is not nil. It is for limiters whose options are written in
// the program.
func Must(l *Limiter, err error) *Limiter {
	if err != nil {
		panic(err)
	}
	return l
}

// Close gives units back that are leased and not used, 64 keys at a time, and ends the goroutines
// of l. It gives up after as many failures as open the breaker: the leases that are left lapse by
// themselves. It also waits for leases that are being granted, a time-out at most for each. Every
// other method still works afterwards, without leases. Closing again does nothing. The error is
// the store's.
func (l *Limiter) Close() (err error) {
	l.once.Do(func() {
		l.cancel()
		if l.shares != nil {
			l.shares.Close()
		}
		l.examining.Lock() // for ever, so that no examination begins any more
		if l.lessees != nil {
			err = l.lessees.close()
		}
	})
	return err
}

// A target is a key of a call: what the caller names it, and the limits of it.
type target struct {
	name string
	tag  string // of WithHashTag; "": none
	*ruleset
}

// resolve sets t, which is zero, to the target of the key of that name. The error says what is wrong with
// its limits.
func (l *Limiter) resolve(name string, t *target) error {
	under, by := l, "WithLimits"
	if l.limitsFor != nil && !l.given {
		by = "WithLimitsFor"
		if limits := l.limitsFor(name); len(limits) > 0 {
			under = l.WithLimits(limits...)
		}
	}
	rs := under.own
	switch {
	case under.wrong != nil:
		return fmt.Errorf("%s: key %q: %w", by, name, under.wrong)
	case rs == nil:
		return fmt.Errorf("sashredis: %s: key %q: %w", by, name, sash.ErrNoLimit)
	}
	t.name, t.ruleset = name, rs
	if l.hashTag != nil && !rs.unlimited {
		t.tag = hashTag(l.hashTag(name)) // here, since the caller can recover from its panic
	}
	return nil
}

// shift returns by how many steps the parts of t begin early. A sash.Limiter shifts a key of that name alike. The
// share of t in FallbackLocal has another name, and so another shift: what it was charged in the store may count
// there for a part longer.
func (t target) shift() int64 {
	if !t.shifted {
		return 0
	}
	return window.ShiftOf(t.name)
}

// scriptLimits returns the limits of t as the scripts read them: first the shift of the key, if one of
// them is in parts.
func (t target) scriptLimits() string {
	if !t.shifted {
		return t.limits
	}
	return strconv.FormatInt(t.shift(), 10) + " " + t.limits
}

// storeKey returns the name of t in the store: the prefix, the hash tag if there is one, the name, and
// what must be equal of the limits of keys that share a state. So no two keys have the same name, nor
// one key under limits that keep their states differently.
func (l *Limiter) storeKey(t target) string {
	tag := ""
	if t.tag != "" {
		tag = "{" + t.tag + "}"
	}
	return l.prefix + tag + t.name + t.suffix
}

// hashTag returns tag, or a digest if Redis would read it as another.
func hashTag(tag string) string {
	if tag == "" || strings.Contains(tag, "}") {
		return strconv.FormatUint(xxhash.Sum64String(tag), 16)
	}
	return tag
}

// Reset forgets key, for all processes, as if it had never been seen. Reservations from before
// have nothing to give back any more. Units that were leased before may still be used: by other
// processes, and by this one if a call runs at the same time.
//
// On an error, the key may or may not have been forgotten. The context and the time-out bound
// the call as they do a Take.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	var t target
	err := l.resolve(key, &t)
	if err != nil || t.unlimited {
		return err
	}
	if l.lessees != nil {
		l.lessees.drop(t)
	}
	if l.shares != nil {
		l.shares.Reset(t.share())
	}
	v, err := l.change(ctx, resetScript, t)
	if err != nil {
		return fmt.Errorf("sashredis: Reset: %w", err)
	}
	l.mirror.forget(t, v)
	return nil
}

// change runs a script that changes t, though not as a Take does. v tells when, and has no states.
func (l *Limiter) change(ctx context.Context, s *Script, t target, args ...string) (v view, err error) {
	v.sent = l.local.Now()
	if err := l.breaker.allow(v.sent); err != nil {
		return v, err
	}
	reply, err := l.run(ctx, s, []string{l.storeKey(t)}, append([]string{l.reading()}, args...))
	if err != nil {
		return v, err
	}
	micros, err := number(reply)
	v.received, v.at = l.local.Now(), micros*microsecond
	return v, err
}

// reading returns the time of a caller's clock in microseconds, as a script reads it; "" for the
// store's own.
func (l *Limiter) reading() string {
	if l.clock == nil {
		return ""
	}
	micros, _ := window.Divide(l.clock.Now(), microsecond)
	return strconv.FormatInt(micros, 10)
}

// run runs a script that the breaker has let through, bounded by ctx and the time-out. calls are what it decides,
// if it decides any. run reports to the breaker whether the store has answered.
func (l *Limiter) run(ctx context.Context, s *Script, keys, args []string, calls ...*waiting) (string, error) {
	reply, err := l.trip(ctx, s, keys, args, calls)
	err = explain(err)
	if err == nil || isMisuse(err) {
		if l.breaker.failures.Load() != 0 { // all calls share it: write only if there was a failure
			l.breaker.failures.Store(0)
		}
		return reply, err
	}
	if gaveUp := ctx.Err(); gaveUp != nil {
		// A caller that gives up says nothing about the store: clients may choose deadlines. But
		// it may not have answered anybody in time. So ask it without a caller.
		if errors.Is(gaveUp, context.DeadlineExceeded) || l.breaker.failures.Load() > 0 {
			l.examine(keys)
		}
		return "", gaveUp
	}
	l.failed(err)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("no answer within %v (see WithTimeout): %w", l.timeout, err)
	}
	return "", err
}

// trip makes a round trip that the time-out bounds, counts it, and lets the hook know, also if the Conn panics.
func (l *Limiter) trip(ctx context.Context, s *Script, keys, args []string, calls []*waiting) (reply string, err error) {
	bounded, cancel := context.WithTimeout(ctx, l.timeout)
	defer cancel()
	l.stats.trips.Add(1)
	began := l.local.Now()
	defer func() { l.stats.times.add(time.Duration(max(l.local.Now()-began, 0))) }()
	if l.hook != nil {
		hooked, done := l.hook(bounded, contextsOf(ctx, calls))
		err = errPanicked // until the Conn has returned
		defer func() { done(err) }()
		bounded = hooked
	}
	return l.conn.Run(bounded, s, keys, args)
}

// contextsOf returns the contexts that calls have lent to a round trip in another goroutine. In the goroutine of the
// caller, that is ctx alone.
func contextsOf(ctx context.Context, calls []*waiting) (contexts []context.Context) {
	if len(calls) == 0 || calls[0].lent == nil {
		return []context.Context{ctx}
	}
	for _, c := range calls {
		contexts = append(contexts, c.lent)
	}
	return contexts
}

// errPanicked is what the hook is told of a round trip that has ended with a panic.
var errPanicked = errors.New("sashredis: the Conn panicked")

// An advice is what to do about errors that contain one of some texts.
type advice struct {
	texts  []string
	what   string
	is     error // what such errors wrap; nil: nothing more
	misuse bool  // a server that works refuses the call
}

// advices are about errors of a server that refuses a call, is not ready for calls, or is not the right
// one. The first that fits counts.
var advices = []advice{
	{[]string{"CROSSSLOT"}, "keys of one call must share a slot: see WithHashTag", ErrServer, true},
	{[]string{"WRONGTYPE", "SASH "}, "the key holds something else: see WithPrefix", ErrServer, true},
	{[]string{"syntax error", "Write commands not allowed"}, "the server must be Redis 6.2, Valkey 7.2 or newer", ErrServer, false},
	{[]string{"unknown command"}, "the server must be Redis 6.2, Valkey 7.2 or newer, and must not hide EVALSHA and EVAL", ErrServer, false},
	{[]string{"HTTP/1"}, "the server speaks HTTP: it must be Redis or Valkey", ErrServer, false},
	{[]string{"MOVED "}, "the server is a node of a cluster: make conn of a client of the cluster", nil, false},
	{[]string{"READONLY"}, "the server is a replica: connect the client to the primary", nil, false},
	{[]string{"NOAUTH", "WRONGPASS"}, "the client must know a password of the server", nil, false},
	{[]string{"NOPERM", "can't run this command", "can't access at least one of the keys"},
		"the user of the client needs permission for scripts, their commands, and keys that begin with the prefix", nil, false},
	{[]string{"LOADING"}, "the server is not ready yet", nil, false},
	{[]string{"OOM "}, "the server is out of memory: see its maxmemory", nil, false},
}

// find returns the advice on err, or the zero one.
func find(err error) advice {
	if err != nil {
		for _, a := range advices {
			if slices.ContainsFunc(a.texts, func(text string) bool { return strings.Contains(err.Error(), text) }) {
				return a
			}
		}
	}
	return advice{}
}

// isMisuse reports whether err is of a server that works.
func isMisuse(err error) bool { return find(err).misuse }

// explain adds to err what to do about it, if that is known.
func explain(err error) error {
	switch a := find(err); {
	case a.what == "":
		return err
	case a.is == nil:
		return fmt.Errorf("%s: %w", a.what, err)
	default:
		return fmt.Errorf("%s: %w: %w", a.what, err, a.is)
	}
}
