package httplimit

// Decided reports whether an event with this outcome has a Decision.
func Decided(o Outcome) bool { return decidedOutcomes.has(o) }

// Waiting returns how many requests wait. It fails if a queue is left without any.
func (l *Limiter) Waiting() int {
	waiters, keys, _ := l.waits.Size()
	if waiters == 0 && keys > 0 {
		panic("a queue is left")
	}
	return waiters
}

// KeysWithLimits returns how many keys have limits of SetLimits.
func (l *Limiter) KeysWithLimits() (n int) {
	internals.KeysWithLimits(l.limiter, func(string) bool { n++; return true })
	return n
}

// Reconfigurable reports whether a Reconfigure could begin, and would not wait.
func (l *Limiter) Reconfigurable() bool {
	ok := l.reconfiguring.TryLock()
	if ok {
		l.reconfiguring.Unlock()
	}
	return ok
}

// BeginsWhileClosed reports whether a call begins a section, if it finds the sections closed each
// time that it has waited for them.
func (l *Limiter) BeginsWhileClosed() bool {
	c := l.calls.Get().(*call)
	c.table = l.table.Load()
	l.sections.opened.Store(nil)
	defer l.sections.opened.Store(c.table)
	return c.begin()
}

// Exchanging reports whether a Reconfigure waits for requests, or keeps them away.
func (l *Limiter) Exchanging() bool { return l.sections.opened.Load() == nil }

// Steps returns how many requests that wait were passed to find places among them.
func (l *Limiter) Steps() int {
	_, _, steps := l.waits.Size()
	return steps
}
