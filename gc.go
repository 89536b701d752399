package sash

import (
	"runtime"
	"time"
	"weak"
)

// sweep evicts every key whose state equals a fresh one's and shrinks the logs
// of the others, a shard at a time, until stop is closed. No caller waits for
// it: it locks one bucket of a shard at a time, for no longer than an insert does.
func (l *Limiter) sweep(stop <-chan struct{}) int {
	now, evicted := l.clock.Now(), 0
	for i := range l.keys.shards {
		select {
		case <-stop:
			return evicted
		default:
		}
		if m := l.keys.shards[i].Load(); m != noKeys {
			m.Range(func(k key, c *cell) bool {
				if l.evict(k, c, now) {
					evicted++
				} else if l.rule.kind == logCell {
					c.log().shrink(&l.rule)
				}
				return true
			})
			runtime.Gosched()
		}
	}
	l.sweeps.Add(1)
	return evicted
}

// evict removes c from k if it is idle at now. A caller that comes between
// finds it dead and starts anew, no earlier than what is forgotten.
func (l *Limiter) evict(k key, c *cell, now int64) bool {
	word, ok := l.rule.condemn(c, now)
	if !ok || !c.kill(word) {
		return false
	}
	l.keys.remove(k, c)
	l.evicted.Add(1)
	return true
}

// A janitor sweeps a limiter in the background.
type janitor struct {
	stop chan struct{} // closed to end it
	done chan struct{} // closed when it has ended
}

func (l *Limiter) startJanitor(interval time.Duration) {
	l.janitor = &janitor{make(chan struct{}), make(chan struct{})}
	go l.janitor.run(weak.Make(l), interval)
}

// run holds the limiter only while it sweeps, so that one dropped without
// Close is collected; the janitor then ends at its next tick.
func (j *janitor) run(l weak.Pointer[Limiter], interval time.Duration) {
	defer close(j.done)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-j.stop:
			return
		case <-ticker.C:
			if !j.sweep(l.Value()) {
				return
			}
		}
	}
}

func (j *janitor) sweep(l *Limiter) bool {
	if l == nil {
		return false
	}
	l.sweep(j.stop)
	return true
}

// sweepInterval returns how often to sweep keys under l: often enough that
// idle keys are few beside live ones, seldom enough to cost nothing.
func sweepInterval(l Limit) time.Duration {
	return min(max(l.Window/2, time.Second), 10*time.Minute)
}
