package main

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// together runs that many goroutines at once. It returns the time from the start of the last
// of them until the last has ended. The others spin until the last has started, so the time
// does not include waking a goroutine.
func together(goroutines int, run func(g int)) time.Duration {
	var done sync.WaitGroup
	var started atomic.Int64
	var begun atomic.Pointer[time.Time]
	ends := make([]time.Time, goroutines)
	for g := range goroutines {
		done.Go(func() {
			if started.Add(1) == int64(goroutines) {
				now := time.Now()
				begun.Store(&now)
			}
			for begun.Load() == nil {
				runtime.Gosched()
			}
			run(g)
			ends[g] = time.Now()
		})
	}
	done.Wait()
	return slices.MaxFunc(ends, time.Time.Compare).Sub(*begun.Load())
}

// A script is the keys for which one goroutine calls. The i-th call is for the i-th key of
// one of the two lists. If keys depend on the answers, these choose the list; else it is the
// first.
type script [2][]string

// A turn is the calls of all goroutines on one contender. In a round all contenders have the
// same turn.
type turn struct {
	warming []script // calls that are not timed: they fill the caches after another's turn
	scripts []script
	chained bool // whether each key depends on the answers so far
}

// decisions returns the number of timed calls.
func (t *turn) decisions() (n int) {
	for _, s := range t.scripts {
		n += len(s[0])
	}
	return n
}

// run makes all calls. It returns the nanoseconds per decision, and the number of timed calls
// that were admitted. For throughput that is the time over the decisions of all goroutines.
// For latency it is the time that a goroutine had a core, over its own decisions.
func (t *turn) run(allow func(key string) bool) (ns float64, admitted int64) {
	ask := independent
	if t.chained {
		ask = chained
	}
	return t.time(func(s script) int64 { return ask(allow, s) })
}

// time is run for a function that makes the calls of one goroutine, and returns the number
// of those that were admitted.
func (t *turn) time(ask func(script) int64) (ns float64, admitted int64) {
	together(len(t.warming), func(g int) { ask(t.warming[g]) })
	yes := make([]int64, len(t.scripts))
	took := together(len(t.scripts), func(g int) { yes[g] = ask(t.scripts[g]) })
	for _, n := range yes {
		admitted += n
	}
	ns = float64(took) / float64(t.decisions())
	if t.chained {
		ns *= float64(min(len(t.scripts), runtime.GOMAXPROCS(0)))
	}
	return ns, admitted
}

// independent makes calls whose keys are known beforehand. A processor may begin a decision
// before it has ended the last one.
func independent(allow func(key string) bool, s script) (admitted int64) {
	for _, key := range s[0] {
		if allow(key) {
			admitted++
		}
	}
	return admitted
}

// chained makes calls whose keys depend on the answers so far, so that no two look-ups
// overlap. It counts the answers by an atomic. A processor would predict an answer that is
// always the same, and go on; but it does not execute an atomic ahead of a prediction. The
// atomic takes about five nanoseconds for each contender.
func chained(allow func(key string) bool, s script) int64 {
	var admitted atomic.Int64
	last := int64(0)
	for i := range s[0] {
		var yes int64
		if allow(s[last&1][i]) {
			yes = 1
		}
		last = admitted.Add(yes)
	}
	return last
}
