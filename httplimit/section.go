package httplimit

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Sections are where calls use the limits of their table. They begin and end at any time, on
// all cores, until Reconfigure closes them: then none is under way.
//
// A call counts itself at a stripe, which hardly ever is another call's at the same time. So it
// costs two additions on a cache line of its own. A closing goroutine looks at all stripes, which
// costs it a microsecond.
//
// Invariant: a call is in a section only if it has found the sections open to its table after
// it has counted itself. close closes them before it looks at the stripes. So, whichever of the
// two comes first, either the call finds them closed and does not go in, or close finds the
// call and waits for it.
type sections struct {
	opened   atomic.Pointer[table] // of the calls that may begin one; nil: they are closed
	reopened sync.RWMutex          // locked while they are closed
	stripes  []stripe
	nextCall atomic.Uint32 // number of calls made so far
}

// A stripe counts the calls in a section. It has a cache line, and the one that the processor
// fetches with it, for itself.
type stripe struct {
	calls atomic.Int64
	_     [120]byte
}

// init opens the sections to calls with that table.
func (s *sections) init(t *table) {
	s.opened.Store(t)
	n := 8
	for n < 4*runtime.GOMAXPROCS(0) && n < 256 {
		n *= 2
	}
	s.stripes = make([]stripe, n)
}

// stripe returns the stripe of a new call.
func (s *sections) stripe() *atomic.Int64 {
	return &s.stripes[int(s.nextCall.Add(1))&(len(s.stripes)-1)].calls
}

// close closes the sections, and waits until none is under way.
func (s *sections) close() {
	s.reopened.Lock()
	s.opened.Store(nil)
	for i := range s.stripes {
		// A call stays for about a microsecond, unless its goroutine has to wait for a core or
		// runs a function that WithSash was given.
		const spins = 100
		for round := 0; s.stripes[i].calls.Load() != 0; round++ {
			if round < spins {
				runtime.Gosched()
			} else {
				time.Sleep(20 * time.Microsecond)
			}
		}
	}
}

// open opens the sections, which are closed, to calls with that table.
func (s *sections) open(t *table) {
	s.opened.Store(t)
	s.reopened.Unlock()
}

// wait waits until the sections are open.
func (s *sections) wait() {
	s.reopened.RLock()
	//lint:ignore SA2001 nothing is to be done while they are open
	s.reopened.RUnlock()
}

// begin begins a section, in which the limits are those of the call's table. It reports false,
// and has not begun one, if the call must start over, since that is not the limiter's table any
// more.
//
// The first of the two methods that it consists of is inlined.
func (c *call) begin() bool { return c.tryBegin() || c.beginLater() }

// tryBegin counts c, and then begins a section if it can.
func (c *call) tryBegin() bool {
	c.stripe.Add(1)
	c.within = c.sections.opened.Load() == c.table
	return c.within
}

// beginLater is begin of a call that has counted itself while the sections were closed, or
// whose table was replaced.
//
// A Reconfigure may close the sections several times until its table is published, so beginLater
// waits several times. After that it reports false, too: the call starts over.
func (c *call) beginLater() bool {
	const rounds = 10
	for range rounds {
		c.stripe.Add(-1)
		c.sections.wait()
		if c.Limiter.table.Load() != c.table {
			return false
		}
		if c.tryBegin() {
			return true
		}
	}
	c.stripe.Add(-1)
	return false
}

// end ends the section.
func (c *call) end() {
	c.within = false
	c.stripe.Add(-1)
}

// startOver makes c a call with the limiter's table as it is now, without any takes.
func (c *call) startOver() {
	c.table = c.Limiter.table.Load()
	c.missed = nil
	c.takes, c.enforced = c.takes[:0], 0
	c.keys, c.names = c.keys[:0], c.names[:0]
}
