// Package count counts what happens on many cores.
package count

import (
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v3"
)

// A Counter counts calls, or units. The zero Counter is ready to use, and it is safe for concurrent use.
//
// It is one word until two calls meet there. From then on it also has stripes, in which the cores count
// without waiting for each other. To find the stripe of its core costs a call several times as much as the
// word, so a Counter has stripes only if it needs them.
//
// Invariant: each call was added either to the word or to the stripes. Neither falls before it has passed
// 2^63, which calls never do.
type Counter struct {
	word    atomic.Int64
	stripes atomic.Pointer[xsync.Counter] // nil: no two calls have met yet
	_       [112]byte                     // to two cache lines, which processors fetch together: no other counter is there
}

// Add adds n, which is at least 0.
func (c *Counter) Add(n int64) {
	if stripes := c.stripes.Load(); stripes != nil {
		stripes.Add(n)
		return
	}
	// An attempt also fails if its goroutine is stopped within it while another one counts, even on one core.
	// It takes a core more to make two attempts in a row fail, but for a rare chance.
	for range 2 {
		if old := c.word.Load(); c.word.CompareAndSwap(old, old+n) {
			return
		}
	}
	c.addStriped(n)
}

// addStriped adds n to the stripes, which it makes if there are none.
func (c *Counter) addStriped(n int64) {
	// Of several calls that find none, one makes those that stay.
	if c.stripes.Load() == nil {
		c.stripes.CompareAndSwap(nil, xsync.NewCounter())
	}
	c.stripes.Load().Add(n)
}

// Value returns the sum so far. Calls that are under way may not be counted yet.
func (c *Counter) Value() int64 {
	n := c.word.Load()
	if stripes := c.stripes.Load(); stripes != nil {
		n += stripes.Value()
	}
	return n
}
