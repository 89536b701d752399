package httplimit

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Sections are where calls use the limits of their table. They begin and end at any time, on all cores,
// until Reconfigure closes them: then none is under way. A call counts itself at a stripe, which hardly
// ever is another call's at the same time, so it costs two additions on a cache line of its own.
//
// Invariant: a call is in a section only if it has found the sections open to its table after it has
// counted itself. close closes them before it looks at the stripes. So either the call finds them closed
// and does not go in, or close finds the call and waits for it.
type sections struct {
	opened   atomic.Pointer[table] // of the calls that may begin one; nil: they are closed
	reopened sync.RWMutex          // locked while they are closed
	stripes  []stripe
	nextCall atomic.Uint32 // number of calls made so far
}

// A stripe counts the calls in a section. It fills two cache lines, which processors fetch together.
type stripe struct {
	calls atomic.Int64
	_     [120]byte
}

// init opens the sections to calls with that table.
func (s *sections) init(t *table) {
	s.opened.Store(t)
	powers := bits.Len(uint(4*runtime.GOMAXPROCS(0) - 1))
	s.stripes = make([]stripe, 1<<min(max(powers, 3), 8))
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
		// A call stays for about a microsecond, unless its goroutine has to wait for a core, runs a
		// function that WithSash was given, or waits for a store.
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
