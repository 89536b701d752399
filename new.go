package sash

import (
	"time"
	"weak"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// New returns a limiter with every [Limit] among options, such as
//
//	sash.New(sash.PerSecond(10), sash.PerHour(240).Log(), sash.WithClock(clock))
//
// There may be up to 64 limits, of any algorithms, and each key has all of them. A call is
// admitted if every limit admits it. Then it is charged to every limit, else to none, at
// one instant. Their order changes no answer, except which of two equal limits a
// [Decision] names. The error names every wrong option with its value. It wraps
// [ErrInvalidLimit], [ErrInvalidOption] or [ErrNoLimit].
//
// Each Limiter counts alone. So a limit holds for one process, and n processes, such as the
// children of a web server that forks, admit n times as much. Module sashredis counts for all of
// them.
//
// New starts a goroutine that evicts idle keys, unless [WithSweepInterval] says otherwise.
// [Limiter.Close] ends it. It also ends by itself, within its interval, once the limiter
// is garbage.
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
		maxWaiters:   c.maxWaiters,
		sizeHint:     c.sizeHint,
	}
	o, bound, s := newOverrides(c.chargeDenied, l.clock.Now()), newKeyCap(int64(c.maxKeys), c.overflow), c.setup
	g := l.newGeneration(o, 0, bound, c.limits, &s, c.sizeHint)
	l.current.Store(g)
	if s.interval >= 0 {
		// The goroutine must not hold l, or a limiter that is dropped would never be collected.
		l.janitor = &janitor{make(chan struct{}), make(chan struct{})}
		go l.janitor.run(weak.Make(l), g.sweepInterval())
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

// Reset forgets key, as if it had never been seen, and reports whether it was tracked. A
// call that runs at the same time counts either before or after. A reservation from before
// has nothing to give back any more. Limits of its own, by [Limiter.SetLimits], stay.
func (l *Limiter) Reset(key string) bool {
	k := l.key(key)
	for round := 1; ; round++ {
		atomic.Round("Reset", round)
		g, e := l.lookup(k)
		if e == nil {
			return false
		}
		// The entry died since the look-up, and its successor may hold charges. Look again.
		if g.forget(k, e) {
			l.queues.Free(key, 0)
			return true
		}
	}
}

// Len returns the number of keys tracked: those charged since they were last evicted or reset.
// Until the next sweep, these include keys that a call has made room for but not charged, because
// other calls had taken the quota in between. It costs a look at each shard.
func (l *Limiter) Len() int {
	g := l.current.Load()
	if g.cap != nil {
		return int(g.cap.used.Load())
	}
	n := g.keys.size()
	if old := g.old.Load(); old != nil { // the keys that are still to be moved
		n += old.keys.size()
	}
	return n
}

// Sweep evicts the keys that are idle now, whose state equals the state of a key never
// seen, and returns how many it evicted. The janitor does the same. Sweep is for programs
// without a janitor, and for those that want the memory at once.
//
// No answer under the present limits changes by it, as long as the clock does not run back past the time at which
// an evicted key had become idle. If it does, keys without an entry, new ones included,
// are decided as at that time. If a key is given a longer window later, units that had
// ceased to count may count again, unless it was evicted.
//
// It looks at every key. No call on a tracked key waits for it, unless that makes a log grow. Such a
// call, and one that makes or evicts an entry, may wait while 1/256 of the keys are listed.
func (l *Limiter) Sweep() int { return l.sweep(nil) }

// Stats describes a limiter at one moment. It does not count decisions: that would cost
// each of them a write that all cores share. For such counts, see [WithObserver].
type Stats struct {
	Keys    int    // keys tracked
	Waiters int    // calls of Wait, WaitAll, WaitReserve and WaitLeaving that wait
	Evicted uint64 // idle keys evicted since New
	Sweeps  uint64 // complete sweeps since New, the janitor's and the caller's

	// Invalid is the number of calls denied since New because WithLimitsFor returned more
	// than 64 limits for a key, or an invalid one.
	Invalid uint64

	// Under WithMaxKeys, what was lost because the table was full, since New:
	Displaced uint64 // keys that were evicted though they were not idle, with what they had taken; by EvictLeastUsed or a Commit
	Refused   uint64 // calls denied because their key did not fit
	Shared    uint64 // calls decided by a quota that keys share
}

// Stats returns the limiter's figures. It costs a look at each shard. The figures are read
// one after the other while calls may run.
func (l *Limiter) Stats() Stats {
	return Stats{
		Keys: l.Len(), Waiters: l.queues.Len(), Evicted: l.evicted.Load(), Sweeps: l.sweeps.Load(), Invalid: l.invalid.Load(),
		Displaced: l.displaced.Load(), Refused: l.refusals.Load(), Shared: l.shared.Load(),
	}
}

// Limits returns the limiter's own limits as they are now, as given to [New] or to the latest
// [Limiter.Reconfigure]. An [Unlimited] next to others is left out, since it has no effect.
// The caller may change the slice.
func (l *Limiter) Limits() []Limit { return l.current.Load().ruleset.limits() }

// Clock returns the clock by which l decides, for code that must keep the same time.
func (l *Limiter) Clock() Clock { return ordered(l.clock) }

// Close ends the janitor and waits until it has ended. Every other method still works
// afterwards, without a janitor. Closing again does nothing. The error is always nil; it
// makes a Limiter an io.Closer.
func (l *Limiter) Close() error {
	l.closing.Do(func() {
		if l.janitor != nil {
			// Wait for a sweep that is under way, which may read a clock of the caller.
			close(l.janitor.stop)
			<-l.janitor.done
		}
	})
	return nil
}
