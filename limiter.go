package sash

import (
	"sync"
	"time"
	"unsafe"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// A Limiter decides, per key, whether a call may go on. Make one with [New].
// All its methods are safe for concurrent use, and none of them panics on a key
// or a cost. A decision on a tracked key allocates nothing, but for one that is
// admitted by a log which outgrows its room, and one that comes upon its key while
// the limits change.
//
// Keys are any strings, the empty one included; each is kept whole, and two
// keys never share a quota.
type Limiter struct {
	now    atomic.Pointer[regime]
	hasher hasher
	clock  Clock
	wall   func() time.Time // of snapshots

	chargeDenied bool
	observer     func(key string, n int64, d Decision)
	limitsFor    func(key string) []Limit
	changes      sync.Mutex // held by who changes limits, and for a snapshot

	queues   queues
	sizeHint int

	interval        time.Duration // of the janitor; 0: chosen from the windows
	janitor         *janitor      // nil: none
	closing         sync.Once
	evicted, sweeps atomic.Uint64

	displaced, refusals, shared atomic.Uint64 // see Stats

	noReconfigure error // why Reconfigure is refused; nil: it is not
}

// New returns a limiter with every [Limit] among options, such as
//
//	sash.New(sash.PerSecond(10), sash.PerHour(240).Log(), sash.WithClock(clock))
//
// There may be up to 64, of whatever algorithms, and each key has all of them: a call
// is admitted if every limit admits it, and then charged to every one, else to
// none, at one instant. Their order changes no answer but which of two equal
// ones a [Decision] names. The error names every wrong option with its value; it
// wraps [ErrInvalidLimit], [ErrInvalidOption] or [ErrNoLimit].
//
// New starts a goroutine that evicts idle keys, unless [WithSweepInterval] says
// otherwise. [Limiter.Close] ends it; it also ends by itself, within its
// interval, once the limiter is garbage.
func New(options ...Option) (*Limiter, error) {
	c, err := configure(options)
	if err != nil {
		return nil, err
	}
	l := &Limiter{
		hasher:       newHasher(),
		clock:        unordered(c.clock),
		wall:         time.Now,
		chargeDenied: c.chargeDenied,
		observer:     c.observer,
		limitsFor:    c.limitsFor,
		sizeHint:     c.sizeHint,
		interval:     c.sweepInterval,

		noReconfigure: c.noReconfigure,
	}
	l.now.Store(l.newRegime(newTerms(c.chargeDenied), 0, newKeyCap(c.maxKeys, c.overflow), c.limits, c.sizeHint))
	if l.interval >= 0 {
		l.startJanitor()
	}
	return l, nil
}

// Must returns l, and panics if err is not nil. It is for limiters whose
// options are written in the program: Must(New(PerSecond(10))).
func Must(l *Limiter, err error) *Limiter {
	if err != nil {
		panic(err)
	}
	return l
}

// Allow reports whether one more unit is admitted for key, and charges it if
// so. It is shorthand for Take(key, 1).Allowed, and a little faster.
func (l *Limiter) Allow(key string) bool { return l.AllowN(key, 1) }

// AllowN is shorthand for Take(key, n).Allowed, and a little faster.
func (l *Limiter) AllowN(key string, n int64) bool {
	g, k := l.now.Load(), l.key(key)
	at := g.at(l.clock.Now())
	if r := g.counter; r != nil && n > 0 {
		c := g.keys.shard(k).guess(k)
		if c != nil && c.length == uint64(len(key)) && same(c.behind(), key) { // c.named, inlined
			if allowed, sure := r.quick(c, at, n); sure {
				return allowed
			}
		}
	}
	return l.allow(g, k, at, n)
}

// allow is AllowN for all but the commonest call.
func (l *Limiter) allow(g *regime, k key, at, n int64) bool {
	c := g.keys.load(k)
	q := query{at: at, n: n, charge: n > 0, denied: l.chargeDenied}
	if l.observer != nil && n != 0 {
		var d Decision
		l.ask(g, k, c, &q, &d)
		l.observer(k.name, n, d)
		return d.Allowed
	}
	if c != nil && n > 0 {
		var allowed, sure bool
		switch r := &g.policy.rules[0]; g.policy.kind {
		case counterCell:
			allowed, sure = r.quick(c, at, n)
		case wideCell:
			allowed, sure = r.quickWide(c.wide(), at, n)
		}
		if sure {
			return allowed
		}
	}
	return l.ask(g, k, c, &q, nil)
}

// AllowBytes is [Limiter.Allow] for a key in a byte slice. The slice is not
// kept: it may be reused after the call.
func (l *Limiter) AllowBytes(key []byte) bool {
	if l.observer != nil {
		return l.TakeBytes(key, 1).Allowed
	}
	return l.AllowN(asString(key), 1)
}

// Take charges n units to key if all its limits admit them, else nothing, and says
// what that leaves. An n of 0 is a [Limiter.Peek]; an n below 0 is denied with
// [Never], as is an n above Count.
//
// It costs one reading of the clock, one look-up and, if it charges, one
// compare-and-swap. A key seen for the first time, or for the first time since
// it was evicted, costs an insert besides: a copy of the key, and 34 to 38 bytes under
// one [SlidingCounter], more under a very large limit, other algorithms or several limits.
func (l *Limiter) Take(key string, n int64) (d Decision) {
	l.take(key, n, &d)
	if l.observer != nil && n != 0 {
		l.observer(key, n, d)
	}
	return d
}

// TakeBytes is [Limiter.Take] for a key in a byte slice. The slice is not kept:
// it may be reused after the call.
func (l *Limiter) TakeBytes(key []byte, n int64) (d Decision) {
	l.take(asString(key), n, &d)
	if l.observer != nil && n != 0 {
		l.observer(string(key), n, d)
	}
	return d
}

func (l *Limiter) take(name string, n int64, d *Decision) {
	q := query{n: n, charge: n > 0, denied: l.chargeDenied}
	l.answer(name, &q, d)
}

// answer answers q for the key of that name, now: it sets q.at.
func (l *Limiter) answer(name string, q *query, d *Decision) bool {
	g, k := l.now.Load(), l.key(name)
	q.at = g.at(l.clock.Now())
	return l.ask(g, k, g.keys.load(k), q, d)
}

// ask answers q for k, whose cell in g, as found, is c; nil for none. The q.at that
// it leaves is the instant that it is answered for.
func (l *Limiter) ask(g *regime, k key, c *cell, q *query, d *Decision) bool {
	for round := 1; ; round++ {
		atomic.Round("ask", round)
		if c == nil {
			was := g
			if g, c = l.lookup(k); g != was {
				q.at = g.at(l.clock.Now())
			}
			if c == nil {
				if l.fullFor(g, k) {
					return l.askFull(g, k, q, d)
				}
				s := l.standing(g, k.name)
				if !q.stores(s.policy.possible(q.n)) {
					if l.absent(s, k) {
						return s.policy.askUnseen(*q, d)
					}
					continue
				}
				c = l.insert(s, k, nil)
				// What the key had may have been evicted since the first reading:
				// charge it now, not then.
				q.at = g.at(l.clock.Now())
			}
		}
		if c != nil {
			if allowed, alive := g.policy.ask(c, *q, d); alive {
				return allowed
			}
			g.keys.remove(k, c)
			c = nil
		}
	}
}

// asString returns the bytes as a string without copying them. It must not
// outlive the call it is made for; what is kept of it is cloned.
func asString(key []byte) string { return unsafe.String(unsafe.SliceData(key), len(key)) }

// Peek returns what [Limiter.Take] would: the same Decision, as after the charge.
// It charges nothing and stores nothing. It allocates only for a key that is not
// tracked under [WithLimitsFor], and for one that it comes upon while the limits
// change. Peek(key, 0) is the state of the key as it is.
func (l *Limiter) Peek(key string, n int64) (d Decision) {
	q := query{n: n, denied: l.chargeDenied}
	l.answer(key, &q, &d)
	return d
}

// TakeThenPeek is [Limiter.Take], and says when there will be more than that leaves:
// next is the decision on one unit more than d.Remaining, which [WithChargeDenied] does
// not charge. So next.RetryAfter is how long until more can be taken if nobody takes
// any, and next.Limit the limit that has so little left. It is for telling clients, as
// the RateLimit header does.
//
// For most keys, those that only the limiter's one limit is for and that had no
// reservation, it costs little more than Take, and decides both at one instant, so that
// next is denied; but not where Take denies other than one unit more than is left. Else
// next is a [Limiter.Peek] right after it: it shows what time and others have done
// meanwhile, and may be allowed.
func (l *Limiter) TakeThenPeek(key string, n int64) (d, next Decision) {
	q := query{n: n, charge: n > 0, denied: l.chargeDenied, ahead: true}
	l.answer(key, &q, &d)
	next = d
	switch {
	case d.Allowed && d.RetryAfter > 0: // as q.ahead says
		next.Allowed, d.RetryAfter = false, 0
	case d.Allowed || n != d.Remaining+1:
		q = query{n: d.Remaining + 1}
		l.answer(key, &q, &next)
	}
	if l.observer != nil && n != 0 {
		l.observer(key, n, d)
	}
	return d, next
}

// Reset forgets key, as if it had never been seen, and reports whether it was
// tracked. A call that runs at the same time counts either before or after. What
// was reserved before has nothing to give back any more. Limits of its own, by
// [Limiter.SetLimits], stay.
func (l *Limiter) Reset(key string) bool {
	k := l.key(key)
	for round := 1; ; round++ {
		atomic.Round("Reset", round)
		g, c := l.lookup(k)
		if c == nil {
			return false
		}
		word, alive := g.policy.acquire(c)
		if !alive {
			g.keys.remove(k, c)
			continue
		}
		g.kill(k, c, word|locked) // nothing else changes a locked word
		l.queues.nudge(key)
		return true
	}
}

// Len returns the number of keys tracked: those charged since they were last
// evicted or reset, and, until the next sweep, those of calls that were denied by
// what others took while they made room for the key. It costs a look at each shard.
func (l *Limiter) Len() int {
	g := l.now.Load()
	if g.cap != nil {
		return int(g.cap.used.Load())
	}
	n := g.keys.size()
	if prior := g.prior.Load(); prior != nil {
		n += prior.keys.size()
	}
	return n
}

// Sweep evicts the keys that are idle now, those whose state equals that of a
// key never seen, and returns how many it evicted. No answer changes by it, as
// long as the clock does not run back past the time at which an evicted key had
// become as good as new: if it does, keys without a record, new ones too, are
// taken to be at that time. The janitor does the same; Sweep is for those who run
// none, or want the memory now. It looks at every key. No call on a tracked key waits
// for it; one that makes or evicts a key may, while 1/256 of the keys are listed.
func (l *Limiter) Sweep() int { return l.sweep(nil) }

// Stats describes a limiter at one moment. For counts of what was admitted and
// denied, which would cost every decision a write that all cores share, see
// [WithObserver].
type Stats struct {
	Keys    int    // keys tracked
	Evicted uint64 // idle keys evicted since New
	Sweeps  uint64 // complete sweeps since New, the janitor's and the caller's

	// Under WithMaxKeys, what was lost because the table was full, since New:
	Displaced uint64 // keys that were evicted though they were not idle, with what they had taken; by EvictLeastUsed or a Commit
	Refused   uint64 // calls denied because their key did not fit
	Shared    uint64 // calls decided by a quota that keys share
}

// Stats returns the limiter's figures. It costs a look at each shard; they are
// read one after the other while calls may run.
func (l *Limiter) Stats() Stats {
	s := Stats{Keys: l.Len(), Evicted: l.evicted.Load(), Sweeps: l.sweeps.Load()}
	s.Displaced, s.Refused, s.Shared = l.displaced.Load(), l.refusals.Load(), l.shared.Load()
	return s
}

// Clock returns the clock that decides, for what has to keep the limiter's time.
func (l *Limiter) Clock() Clock { return ordered(l.clock) }

// Close ends the janitor and waits until it has ended. Every other method still
// works afterwards, without a janitor. Closing again does nothing. The error is
// always nil; it is there to make a Limiter an io.Closer.
func (l *Limiter) Close() error {
	l.closing.Do(func() {
		if l.janitor != nil {
			close(l.janitor.stop)
			<-l.janitor.done
		}
	})
	return nil
}
