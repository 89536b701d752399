package main

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// together runs goroutines at once and returns how long it was from when the last of
// them was there, for which the others wait awake, until the last had ended: what it
// takes to wake one is not in it.
func together(goroutines int, run func(g int)) time.Duration {
	var done sync.WaitGroup
	var there atomic.Int64
	var begun atomic.Pointer[time.Time]
	ends := make([]time.Time, goroutines)
	for g := range goroutines {
		done.Go(func() {
			if there.Add(1) == int64(goroutines) {
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

// A script is the keys that one goroutine asks for: of each two, one or the other, as
// the answers so far will have it. Independent ones are the first.
type script [2][]string

// A turn is what all goroutines ask of one contender: the same of everyone in a round.
type turn struct {
	warming []script // before the clock runs: the last turn was another's, and so are the caches
	scripts []script
	chained bool // each key follows from the last answer
}

// decisions returns how many there are.
func (t *turn) decisions() (n int) {
	for _, s := range t.scripts {
		n += len(s[0])
	}
	return n
}

// run asks allow all of it, and returns how many nanoseconds a decision took, and how
// many were admitted. Throughput is the time of all goroutines over the decisions of
// all; latency is the time that a goroutine had a core for, over its own decisions.
func (t *turn) run(allow func(key string) bool) (ns float64, admitted int64) {
	ask := independent
	if t.chained {
		ask = chained
	}
	together(len(t.warming), func(g int) { ask(allow, t.warming[g]) })
	yes := make([]int64, len(t.scripts))
	took := together(len(t.scripts), func(g int) { yes[g] = ask(allow, t.scripts[g]) })
	for _, n := range yes {
		admitted += n
	}
	ns = float64(took) / float64(t.decisions())
	if t.chained {
		ns *= float64(min(len(t.scripts), runtime.GOMAXPROCS(0)))
	}
	return ns, admitted
}

// independent asks one after the other: a processor may begin a decision before it has
// ended the last.
func independent(allow func(key string) bool, s script) (admitted int64) {
	for _, key := range s[0] {
		if allow(key) {
			admitted++
		}
	}
	return admitted
}

// chained asks for keys that follow from the answers so far. It counts these by an
// atomic, which processors do not carry out ahead of what they only guess, as they
// would an answer that is always the same: so no two look-ups overlap. That takes some
// five nanoseconds, which everybody pays.
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
