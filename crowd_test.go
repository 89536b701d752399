package sash

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A few calls suffice: they overlap under any scheduling.
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

// A call does not wait for a caller that waits itself, in a clock reading outside of a call.
// A sweep makes such readings.
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

// A recorder stands in for a test, and records whether it failed.
type recorder struct{ failed bool }

func (r *recorder) Errorf(string, ...any) {}
func (r *recorder) FailNow()              { r.failed = true }

// Sequential callers fail the test, even if they make many calls.
func TestCrowd_NoticesThatNothingOverlaps(t *testing.T) {
	c := &crowd{ManualClock: NewManualClock(0)}
	for range callers {
		c.runSome(1, func(int) {
			for range 1000 {
				c.call(func() { c.Now() })
			}
		})
	}
	var r recorder
	c.contended(&r)
	require.True(t, r.failed)
	require.Zero(t, c.yields.Load(), "there was no other caller to wait for")
}
