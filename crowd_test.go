package sash

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Calls overlap however few there are of them, and however they are scheduled.
func TestCrowd_CallsOverlap(t *testing.T) {
	c := &crowd{ManualClock: NewManualClock(0)}
	for range enoughOverlaps + 50 {
		c.run(func(caller int) {
			if caller < 2 {
				c.call(func() { c.Now() })
			}
		})
	}
	c.contended(t)
}

// A caller that reads the clock outside a call, as a sweep does, is not waited for
// while it waits itself.
func TestCrowd_EndsWithReadingsOutsideOfCalls(t *testing.T) {
	c := &crowd{ManualClock: NewManualClock(0)}
	for range 1000 {
		c.overlaps.Store(0) // so that all readings wait
		c.runSome(2, func(caller int) {
			c.Now()
			c.call(func() { c.Now() })
			c.Now()
		})
	}
	require.Less(t, c.yields.Load(), int64(maxYields))
}

// A verdict is a test that may fail.
type verdict struct{ failed bool }

func (v *verdict) Errorf(string, ...any) {}
func (v *verdict) FailNow()              { v.failed = true }

// Callers that come one after the other fail the test, however many calls they make.
func TestCrowd_NoticesThatNothingOverlaps(t *testing.T) {
	c := &crowd{ManualClock: NewManualClock(0)}
	for range callers {
		c.runSome(1, func(int) {
			for range 1000 {
				c.call(func() { c.Now() })
			}
		})
	}
	var v verdict
	c.contended(&v)
	require.True(t, v.failed)
	require.Zero(t, c.yields.Load(), "there was nobody to wait for")
}
