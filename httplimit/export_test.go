package httplimit

// Decided reports whether an event with this outcome has a Decision.
func Decided(o Outcome) bool { return o.decided() }

// Waiting returns how many requests wait. It fails if a queue is left without any.
func (l *Limiter) Waiting() int {
	l.waits.mu.Lock()
	defer l.waits.mu.Unlock()
	if l.waits.none() && len(l.waits.byKey)+len(l.waits.byPolicy) > 0 {
		panic("a queue is left")
	}
	return int(l.waits.total.Load())
}

// Exchanging reports whether a Reconfigure waits for requests, or keeps them away.
func (l *Limiter) Exchanging() bool { return l.sections.opened.Load() == nil }
