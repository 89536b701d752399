package sash

import (
	"runtime"
	"time"
	"weak"
)

// sweep evicts every idle key and shrinks the rings of the others, one shard after the
// other, until stop is closed. It returns how many it has evicted.
func (l *Limiter) sweep(stop <-chan struct{}) int {
	g, evicted := l.current.Load(), 0
	now := g.instant(l.clock.Now())
	var entries []*entry
	for i := range g.keys.shards {
		select {
		case <-stop:
			return evicted
		default:
		}
		// Lock the shard to list its entries, and again for each that is evicted, or is a log that shrinks. Of
		// the calls on tracked keys, only those take that lock that replace an entry, as when a log grows.
		entries = g.keys.appendEntries(entries[:0], i)
		for _, e := range entries {
			if k := g.keys.keyOf(e); l.evict(g, k, e, now, false) {
				evicted++
			} else {
				g.shrink(k, e)
			}
		}
		if len(entries) > 0 {
			runtime.Gosched() // between shards, let calls run that wait for the core
		}
	}
	if g.cap != nil {
		g.cap.purge()
	}
	l.sweeps.Add(1)
	return evicted
}

// evict removes e, the entry of k in g, if it is idle at now. waits says that it makes room for a call
// that has waited.
func (l *Limiter) evict(g *generation, k key, e *entry, now int64, waits bool) bool {
	// A key that a call waits for stays: a new key might take its room. Only another call that has
	// waited may evict it. Otherwise two calls could each hold a key that the other has no room for.
	if !waits && l.queues.Has(k.name) {
		return false
	}
	// The kill is a compare-and-swap from the word by which e was found idle. If a charge came first, it
	// fails, and e stays. If the kill came first, the call that charges finds e dead and makes a new
	// entry. That starts no earlier than the floor, which checkIdle has raised before the kill.
	if word, ok := g.ruleset.checkIdle(e, now); !ok || !g.tryKill(k, e, word) {
		return false
	}
	l.evicted.Add(1)
	return true
}

// run sweeps l at each interval until j.stop is closed.
func (j *janitor) run(l weak.Pointer[Limiter], interval time.Duration) {
	defer close(j.done)
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-j.stop:
			return
		case <-timer.C:
			// Hold the limiter only while it is swept. So one that is dropped without Close is
			// collected, and the janitor ends at its next turn.
			interval := j.sweep(l.Value())
			if interval == 0 {
				return
			}
			timer.Reset(interval)
		}
	}
}

// sweep sweeps l and returns how long to wait before it does so again; 0 if l is nil.
func (j *janitor) sweep(l *Limiter) time.Duration {
	if l == nil {
		return 0
	}
	l.sweep(j.stop)
	return l.current.Load().sweepInterval()
}

// sweepInterval returns the interval between sweeps under the limits of g.
func (g *generation) sweepInterval() time.Duration {
	if g.setup.interval > 0 {
		return g.setup.interval
	}
	var longest time.Duration
	for i := range g.ruleset.rules {
		r := &g.ruleset.rules[i]
		lasts := r.Window
		if h := r.algorithm.horizon(); !h.dated && r.Count > 0 {
			lasts = time.Duration(h.looksBack) // the units of a bucket are back once it is full
		}
		longest = max(longest, lasts)
	}
	return sweepIntervalFor(longest)
}

// sweepIntervalFor returns how often to sweep keys whose longest window is longest.
func sweepIntervalFor(longest time.Duration) time.Duration {
	// Half the longest window keeps idle keys few compared with live ones. The bounds keep the cost low
	// and memory bounded for very short and very long windows.
	return min(max(longest/2, time.Second), 10*time.Minute)
}
