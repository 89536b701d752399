package sash

import (
	"sync"
	"sync/atomic"
	"unsafe"
)

// A Limiter decides, per key, whether a call may go on. Make one with [New].
// All its methods are safe for concurrent use, and none of them panics on a key
// or a cost. A decision on a tracked key allocates nothing, but for one that is
// admitted by a log which outgrows its room.
//
// Keys are any strings, the empty one included; each is kept whole, and two
// keys never share a quota.
type Limiter struct {
	keys     sharded
	rule     rule
	unseen   *cell // holds nothing, ever: it answers for keys that have no cell
	clock    Clock
	observer func(key string, n int64, d Decision)

	janitor         *janitor // nil: none
	closing         sync.Once
	evicted, sweeps atomic.Uint64
}

// New returns a limiter for the one [Limit] among options, such as
//
//	sash.New(sash.PerSecond(10), sash.WithClock(clock))
//
// Several limits on one limiter are not available yet. The error names every
// wrong option with its value; it wraps [ErrInvalidLimit], [ErrInvalidOption]
// or [ErrNoLimit].
//
// New starts a goroutine that evicts idle keys, unless [WithSweepInterval] says
// otherwise. [Limiter.Close] ends it; it also ends by itself, within its
// interval, once the limiter is garbage.
func New(options ...Option) (*Limiter, error) {
	c, err := configure(options)
	if err != nil {
		return nil, err
	}
	limit := c.limits[0]
	l := &Limiter{clock: c.clock, observer: c.observer}
	l.keys.init(c.sizeHint)
	l.rule.init(limit, c.chargeDenied)
	l.unseen, _ = l.rule.newCell("")
	if c.sweepInterval == 0 {
		c.sweepInterval = sweepInterval(limit)
	}
	if c.sweepInterval > 0 {
		l.startJanitor(c.sweepInterval)
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
	if l.observer != nil {
		return l.Take(key, n).Allowed
	}
	k, at := l.keys.key(key), l.clock.Now()
	c, ok := l.keys.shard(k).Load(k)
	if ok && n > 0 {
		var allowed, sure bool
		switch l.rule.kind {
		case counterCell:
			allowed, sure = l.rule.quick(c, at, n)
		case wideCell:
			allowed, sure = l.rule.quickWide(c.wide(), at, n)
		}
		if sure {
			return allowed
		}
	}
	return l.ask(k, c, query{at, n, n > 0}, nil)
}

// AllowBytes is [Limiter.Allow] for a key in a byte slice. The slice is not
// kept: it may be reused after the call.
func (l *Limiter) AllowBytes(key []byte) bool {
	if l.observer != nil {
		return l.TakeBytes(key, 1).Allowed
	}
	return l.AllowN(asString(key), 1)
}

// Take charges n units to key if its limit admits them, else nothing, and says
// what that leaves. An n of 0 is a [Limiter.Peek]; an n below 0 is denied with
// [Never], as is an n above Count.
//
// It costs one reading of the clock, one look-up and, if it charges, one
// compare-and-swap. A key seen for the first time, or for the first time since
// it was evicted, costs an insert besides: a copy of the key and about 70 bytes.
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
	k, q := l.keys.key(name), query{l.clock.Now(), n, n > 0}
	c, _ := l.keys.shard(k).Load(k)
	l.ask(k, c, q, d)
}

// ask answers q for k, whose cell, as found, is c; nil for none.
func (l *Limiter) ask(k key, c *cell, q query, d *Decision) bool {
	for {
		if c == nil {
			if !q.charge || q.n > l.rule.Count && !l.rule.chargeDenied {
				return l.askUnseen(q, d)
			}
			c = l.insert(k)
			// What the key had may have been evicted since the first reading:
			// charge it now, not then.
			q.at = l.clock.Now()
		}
		if allowed, alive := l.rule.ask(c, q, d); alive {
			return allowed
		}
		l.keys.remove(k, c)
		c, _ = l.keys.shard(k).Load(k)
	}
}

// insert makes a new cell that of k, unless it has one, and returns the one it
// has. The name is copied: the caller may reuse its bytes, and a small part of a
// large string does not keep the rest alive.
func (l *Limiter) insert(k key) *cell {
	c, kept := l.rule.newCell(k.name)
	return l.keys.insert(key{k.hash, kept}, c)
}

// askUnseen answers q for a key that has no cell, and gets none.
func (l *Limiter) askUnseen(q query, d *Decision) bool {
	q.charge = false
	allowed, _ := l.rule.ask(l.unseen, q, d)
	return allowed
}

// asString returns the bytes as a string without copying them. It must not
// outlive the call it is made for; what is kept of it is cloned.
func asString(key []byte) string { return unsafe.String(unsafe.SliceData(key), len(key)) }

// Peek returns what [Limiter.Take] would: the same Decision, as after the charge.
// It charges nothing, stores nothing and never allocates. Peek(key, 0) is the
// state of the key as it is.
func (l *Limiter) Peek(key string, n int64) (d Decision) {
	k, q := l.keys.key(key), query{at: l.clock.Now(), n: n}
	if c, ok := l.keys.shard(k).Load(k); ok {
		if _, alive := l.rule.ask(c, q, &d); alive {
			return d
		}
	}
	l.askUnseen(q, &d)
	return d
}

// Reset forgets key, as if it had never been seen, and reports whether it was
// tracked. A call that runs at the same time counts either before or after.
func (l *Limiter) Reset(key string) bool {
	k := l.keys.key(key)
	c, ok := l.keys.shard(k).Load(k)
	if !ok {
		return false
	}
	for {
		word, alive := l.rule.settled(c)
		if !alive {
			return false
		}
		if c.kill(word) {
			l.keys.remove(k, c)
			return true
		}
	}
}

// Len returns the number of keys tracked: those charged since they were last
// evicted or reset. It costs a look at each shard.
func (l *Limiter) Len() int { return l.keys.size() }

// Sweep evicts the keys that are idle now, those whose state equals that of a
// key never seen, and returns how many it evicted. No answer changes by it, as
// long as the clock does not run back past the time at which an evicted key had
// become as good as new: if it does, keys without a record, new ones too, are
// taken to be at that time. The janitor does the same; Sweep is for those who run
// none, or want the memory now. It looks at every key, and no other call waits
// for it.
func (l *Limiter) Sweep() int { return l.sweep(nil) }

// Stats describes a limiter at one moment. For counts of what was admitted and
// denied, which would cost every decision a write that all cores share, see
// [WithObserver].
type Stats struct {
	Keys    int    // keys tracked
	Evicted uint64 // idle keys evicted since New
	Sweeps  uint64 // complete sweeps since New, the janitor's and the caller's
}

// Stats returns the limiter's figures. It costs a look at each shard; they are
// read one after the other while calls may run.
func (l *Limiter) Stats() Stats {
	return Stats{Keys: l.keys.size(), Evicted: l.evicted.Load(), Sweeps: l.sweeps.Load()}
}

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
