package fuzz

import (
	"flag"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/race"
)

var (
	histories     = flag.Int("histories", 0, "how many concurrent histories to check; 0 for a few thousand")
	historySeed   = flag.Uint64("seed", 0, "of the first history; those after it have the next ones")
	historyDetail = flag.String("visualize", "", "file to show a history in that is not linearizable")
)

// checkTimeout bounds the search for an order of one history. If the search takes longer,
// the result is unknown, which is a failure, too.
const checkTimeout = time.Minute

// A tally counts what the histories contained. It shows whether they tested anything.
type tally struct {
	histories, operations, overlapping, sweeps, evictions, changes, settled, rereading int
	displaced, refused, shared, restored, unlimited, ofNothing                         int
}

func (s *tally) add(h *history) {
	ops := h.all()
	s.histories++
	s.operations += len(ops)
	s.overlapping += overlapping(ops)
	s.sweeps += int(h.stats.Sweeps)
	s.evictions += int(h.stats.Evicted)
	s.displaced += int(h.stats.Displaced)
	s.refused += int(h.stats.Refused)
	s.shared += int(h.stats.Shared)
	for _, o := range ops {
		switch {
		case o.decision.Limit == sash.Unlimited():
			s.unlimited++
		case o.decision.Limit.Count == 0 && o.decision.Limit.Window > 0:
			s.ofNothing++
		}
		switch o.verb {
		case setsLimits, reconfigures:
			s.changes++
		case settles:
			s.settled++
		case restores:
			s.restored++
		}
		if len(o.readings) > 1 {
			s.rereading++
		}
	}
}

func (s *tally) String() string {
	return fmt.Sprintf("%d histories of %d operations, %d pairs of them overlapped; %d sweeps, %d evictions, %d changes of limits, "+
		"%d settlements, %d operations that read the clock again; under caps %d keys displaced, %d calls refused and %d shared; "+
		"%d snapshots restored; %d answers by Unlimited and %d by a Count of 0", s.histories, s.operations, s.overlapping,
		s.sweeps, s.evictions, s.changes, s.settled, s.rereading, s.displaced, s.refused, s.shared, s.restored, s.unlimited, s.ofNothing)
}

// The answers to concurrent operations are the answers of the reference for some order of the
// operations, to the unit and the nanosecond. In that order no operation comes before one
// that had ended when it began.
func TestHistories_AreLinearizable(t *testing.T) {
	n := *histories
	switch {
	case n > 0:
	case testing.Short():
		n = 500
	case race.Enabled:
		n = 1000 // checking them is slow, and has no races
	default:
		n = 3000
	}
	var checked tally
	for done := 0; done < n && !t.Failed(); done += batchSize {
		var batch []*history
		for i := done; i < min(n, done+batchSize); i++ {
			h := plan(*historySeed + uint64(i))
			h.record(t)
			checked.add(h)
			batch = append(batch, h)
		}
		checkAll(t, batch)
	}
	t.Log(&checked)
	if t.Failed() {
		return
	}
	require.Greater(t, checked.overlapping, n, "no contention: this test has shown nothing")
	require.Greater(t, checked.evictions, n/30, "nothing was evicted: this test has shown little")
	require.Greater(t, checked.changes, n/10, "no limits were changed: this test has shown little")
	require.Greater(t, checked.displaced, n/50, "no key made room: this test has shown little")
	require.Greater(t, checked.refused, n/50, "no key was refused: this test has shown little")
	require.Greater(t, checked.shared, n/50, "no quota was shared: this test has shown little")
	require.Greater(t, checked.restored, n/20, "no snapshot was restored: this test has shown little")
	require.Greater(t, checked.unlimited, n/10, "no key was unlimited: this test has shown little")
	require.Greater(t, checked.ofNothing, n/10, "no key was admitted nothing: this test has shown little")
}

// batchSize is the number of histories that are recorded before they are checked. Each is
// recorded with all cores; each is checked on one.
const batchSize = 64

// checkAll checks the histories of a batch on all cores.
func checkAll(t *testing.T, batch []*history) {
	var workers sync.WaitGroup
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1); i <= int64(len(batch)) && !t.Failed(); i = next.Add(1) {
				check(t, batch[i-1])
			}
		})
	}
	workers.Wait()
}

// check fails t if h is not linearizable.
func check(t *testing.T, h *history) {
	result := verdict(h)
	if result == porcupine.Ok {
		return
	}
	t.Errorf("%s, not linearizable:\n%v", result, h)
	if *historyDetail == "" {
		return
	}
	m := modelsOf(h)[0]
	_, info := porcupine.CheckOperationsVerbose(m, operations(h), checkTimeout)
	if err := porcupine.VisualizePath(m, info, *historyDetail); err != nil {
		t.Error(err)
	}
}
