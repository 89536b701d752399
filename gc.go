package sash

import (
	"runtime"
	"time"
	"weak"
)

// sweep evicts every key whose state equals a fresh one's and shrinks the logs
// of the others, a shard at a time, until stop is closed. It locks a shard only while
// it copies where its cells are, and no call on a tracked key takes that lock.
func (l *Limiter) sweep(stop <-chan struct{}) int {
	g, evicted := l.now.Load(), 0
	now := g.at(l.clock.Now())
	var some []*cell
	for i := range g.keys.shards {
		select {
		case <-stop:
			return evicted
		default:
		}
		some = g.keys.shards[i].all(some[:0])
		for _, c := range some {
			if l.evict(g, g.keys.keyOf(c), c, now) {
				evicted++
			} else {
				g.policy.shrink(c)
			}
		}
		if len(some) > 0 {
			runtime.Gosched()
		}
	}
	if g.cap != nil {
		g.cap.vacate()
	}
	l.sweeps.Add(1)
	return evicted
}

// evict removes c from k if it is idle at now and nobody waits for it. A caller
// that comes between finds it dead and starts anew, no earlier than what is
// forgotten.
func (l *Limiter) evict(g *regime, k key, c *cell, now int64) bool {
	word, ok := g.policy.condemn(c, now)
	if !ok || l.queues.waiting(k.name) || !g.kill(k, c, word) {
		return false
	}
	l.evicted.Add(1)
	return true
}

// A janitor sweeps a limiter in the background.
type janitor struct {
	stop chan struct{} // closed to end it
	done chan struct{} // closed when it has ended
}

func (l *Limiter) startJanitor() {
	l.janitor = &janitor{make(chan struct{}), make(chan struct{})}
	go l.janitor.run(weak.Make(l), l.sweepInterval())
}

// run holds the limiter only while it sweeps, so that one dropped without
// Close is collected; the janitor then ends at its next turn.
func (j *janitor) run(l weak.Pointer[Limiter], interval time.Duration) {
	defer close(j.done)
	timer := time.NewTimer(interval)
	defer timer.Stop()
	for {
		select {
		case <-j.stop:
			return
		case <-timer.C:
			interval, ok := j.sweep(l.Value())
			if !ok {
				return
			}
			timer.Reset(interval)
		}
	}
}

// sweep sweeps l and returns how long to wait before it does so again.
func (j *janitor) sweep(l *Limiter) (interval time.Duration, ok bool) {
	if l == nil {
		return 0, false
	}
	l.sweep(j.stop)
	return l.sweepInterval(), true
}

// sweepInterval returns how often to sweep: often enough that idle keys are few
// beside live ones, seldom enough to cost nothing. A key is live for as long as
// under its longest window.
func (l *Limiter) sweepInterval() time.Duration {
	if l.interval > 0 {
		return l.interval
	}
	var longest time.Duration
	rules := l.now.Load().policy.rules
	for i := range rules {
		longest = max(longest, rules[i].Window)
	}
	return min(max(longest/2, time.Second), 10*time.Minute)
}
