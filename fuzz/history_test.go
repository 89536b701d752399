package fuzz

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-30da4c49/sash"
)

// A history is the operations of a few concurrent callers on one limiter, while its table
// is swept. Of each operation it records the answer, the beginning and the end, and the
// clock readings. The operations follow from the seed. Their interleaving does not.
type history struct {
	seed         uint64
	limits       []sash.Limit
	chargeDenied bool
	sweeper      sweeper
	hesitates    bool // whether a call yields its core when it does not find its key
	maxKeys      int  // of WithMaxKeys; 0 for no cap
	overflow     sash.Overflow

	first, last []*operation   // operations before and after the concurrent ones, in this order
	plans       [][]*operation // the concurrent operations of each caller

	clock   *sharedClock
	instant atomic.Int64 // counts beginnings and ends
	stats   sash.Stats   // at the end
}

// A sweeper says what sweeps the table.
type sweeper string

const (
	noSweeper     sweeper = "nothing"
	callerSweeps  sweeper = "a caller"
	janitorSweeps sweeper = "the janitor"
)

// sweepInterval is the janitor's sweep interval.
const sweepInterval = time.Microsecond

// An operation is one call.
type operation struct {
	verb   verb
	keys   []string
	units  int64        // of a Commit: the actual cost; of a TakeUpTo: the most
	leave  int64        // the units that a TakeLeaving or ReserveLeaving must leave
	limits []sash.Limit // of a change of limits
	of     *operation   // the operation whose reservation it settles, or whose snapshot it restores
	which  int          // the index of that reservation
	after  int64        // the distance by which its caller advances the clock before

	caller       int
	began, ended int64
	readings     []int64 // the clock readings taken by it, in order
	until        int64   // the clock's reading when it ended
	outcome
	reservations []sash.Reservation
	saved        bytes.Buffer // the snapshot written
}

// An outcome is the result of an operation.
type outcome struct {
	decision sash.Decision
	taken    int64 // by TakeUpTo
	tracked  bool  // the result of Reset
	refused  bool  // whether Restore refused the snapshot
}

// A verb is the method that an operation calls.
type verb string

const (
	takes        verb = "Take"
	takesLeaving verb = "TakeLeaving"
	takesUpTo    verb = "TakeUpTo"
	allows       verb = "AllowN"
	takesAll     verb = "TakeAll"
	peeks        verb = "Peek"
	peeksAll     verb = "PeekAll"
	reserves     verb = "Reserve"
	reservesAll  verb = "ReserveAll"
	settles      verb = "Commit"
	resets       verb = "Reset"
	setsLimits   verb = "SetLimits"
	reconfigures verb = "Reconfigure"
	snapshots    verb = "Snapshot"
	restores     verb = "Restore"
)

// all returns all operations.
func (h *history) all() (ops []*operation) {
	ops = append(ops, h.first...)
	for _, plan := range h.plans {
		ops = append(ops, plan...)
	}
	return append(ops, h.last...)
}

// migrates reports whether a key may have migrated to another entry, for other limits or
// for its first reservation.
func (h *history) migrates() bool {
	return slices.ContainsFunc(h.all(), func(o *operation) bool {
		return slices.Contains([]verb{reserves, reservesAll, setsLimits, reconfigures}, o.verb)
	})
}

// record runs the history on a new limiter. A history with a Restore runs in a
// testing/synctest bubble, where the wall clock stands still: no time passes between
// Snapshot and Restore.
func (h *history) record(t *testing.T) {
	if slices.ContainsFunc(h.all(), func(o *operation) bool { return o.verb == restores }) {
		synctest.Test(t, func(*testing.T) { h.recordNow() })
	} else {
		h.recordNow()
	}
}

func (h *history) recordNow() {
	options := []sash.Option{sash.WithClock(h.clock), sash.WithSweepInterval(-1)}
	if h.sweeper == janitorSweeps {
		options = append(options, sash.WithSweepInterval(sweepInterval))
	}
	if h.chargeDenied {
		options = append(options, sash.WithChargeDenied())
	}
	if h.hesitates {
		options = append(options, sash.WithLimitsFor(func(string) []sash.Limit {
			runtime.Gosched()
			return nil
		}))
	}
	if h.maxKeys > 0 {
		options = append(options, sash.WithMaxKeys(h.maxKeys, h.overflow))
	}
	for _, l := range h.limits {
		options = append(options, l)
	}
	l := sash.Must(sash.New(options...))
	h.run(l, 0, h.first)
	h.runPlans(l)
	h.run(l, 0, h.last)
	l.Close()
	h.stats = l.Stats()
}

// runPlans runs the plans of all callers at once.
func (h *history) runPlans(l *sash.Limiter) {
	var callers, sweeper sync.WaitGroup
	var absent, busy atomic.Int32 // the callers that have not begun, and those that have not ended
	absent.Store(int32(len(h.plans)))
	busy.Store(int32(len(h.plans)))
	if h.sweeper == callerSweeps {
		sweeper.Go(func() {
			for busy.Load() > 0 {
				l.Sweep()
				runtime.Gosched()
			}
		})
	}
	for i, plan := range h.plans {
		callers.Go(func() {
			// All callers start together, so that their operations overlap.
			for absent.Add(-1); absent.Load() > 0; {
				runtime.Gosched()
			}
			h.run(l, i, plan)
			busy.Add(-1)
		})
	}
	callers.Wait()
	sweeper.Wait()
}

// run runs the operations of one caller, one after the other.
func (h *history) run(l *sash.Limiter, caller int, plan []*operation) {
	me := goroutine()
	for _, o := range plan {
		o.caller = caller
		h.clock.begin(me, o)
		o.began = h.instant.Add(1)
		o.do(l)
		o.ended = h.instant.Add(1)
		h.clock.end(me, o)
	}
}

// do calls the method of l that o stands for, and records the result.
func (o *operation) do(l *sash.Limiter) {
	switch o.verb {
	case takes:
		o.decision = l.Take(o.keys[0], o.units)
	case takesLeaving:
		o.decision = l.TakeLeaving(o.keys[0], o.units, o.leave)
	case takesUpTo:
		o.taken, o.decision = l.TakeUpTo(o.keys[0], o.units)
	case allows:
		o.decision.Allowed = l.AllowN(o.keys[0], o.units)
	case takesAll:
		o.decision = l.TakeAll(o.keys, o.units)
	case peeks:
		o.decision = l.Peek(o.keys[0], o.units)
	case peeksAll:
		o.decision = l.PeekAll(o.keys, o.units)
	case reserves:
		o.reservations = make([]sash.Reservation, 1)
		o.reservations[0], o.decision = l.ReserveLeaving(o.keys[0], o.units, o.leave)
	case reservesAll:
		o.reservations, o.decision = l.ReserveAll(o.keys, o.units)
	case settles:
		if r := o.of.reservations[o.which]; o.units > 0 {
			r.Commit(o.units)
		} else {
			r.Cancel()
		}
	case resets:
		o.tracked = l.Reset(o.keys[0])
	case setsLimits:
		mustBeValid(l.SetLimits(o.keys[0], o.limits...))
	case reconfigures:
		mustBeValid(l.Reconfigure(o.limits...))
	case snapshots:
		mustBeValid(l.Snapshot(&o.saved))
	case restores:
		err := l.Restore(bytes.NewReader(o.of.saved.Bytes()))
		if o.refused = errors.Is(err, sash.ErrBadSnapshot); !o.refused {
			mustBeValid(err)
		}
	}
}

func mustBeValid(err error) {
	if err != nil {
		panic(err)
	}
}

// A sharedClock records the readings of each operation. It knows the running operations by
// their goroutines.
//
// The sweeper and the janitor are not callers. Their goroutines get the reading at which
// the oldest running operation began. So they evict no entry that a running operation can
// still distinguish from a key never seen: an eviction changes no answer (see Sweep).
type sharedClock struct {
	mu      sync.Mutex
	now     int64
	running map[string]*operation // by goroutine
	begun   map[string]int64      // the reading at which each of these began
	arrived atomic.Int64          // the readings so far that waited for another one
}

func newSharedClock(now int64) *sharedClock {
	return &sharedClock{now: now, running: map[string]*operation{}, begun: map[string]int64{}}
}

func (c *sharedClock) Now() int64 {
	at, ofHistory := c.read(goroutine())
	switch {
	case rand.IntN(4) == 0:
		runtime.Gosched() // the reading may be late when the caller goes on
	case ofHistory:
		c.meet()
	}
	return at
}

// read returns the reading for a goroutine, and whether the goroutine runs an operation of
// the history.
func (c *sharedClock) read(goroutine string) (at int64, ofHistory bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at = c.now
	if o := c.running[goroutine]; o != nil {
		o.readings = append(o.readings, at)
		return at, true
	}
	for _, began := range c.begun {
		at = min(at, began)
	}
	return at, false
}

// meet waits about a microsecond for another call to read the clock, so that both go on at
// nearly the same time. The steps that follow take some nanoseconds, and without this they
// would hardly ever overlap in two calls.
func (c *sharedClock) meet() {
	const timeout, head = 2000, 200 // loads
	// Readings pair up: the first of a pair spins until the second arrives. The second
	// spins for a short random time, since the first takes a moment to see it.
	if mine := c.arrived.Add(1); mine%2 == 1 {
		for i := 0; i < timeout && c.arrived.Load() == mine; i++ {
		}
		return
	}
	for range rand.IntN(head) {
		c.arrived.Load()
	}
}

// begin advances the clock by o.after, and records that o runs in the goroutine me.
func (c *sharedClock) begin(me string, o *operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += o.after
	c.running[me], c.begun[me] = o, c.now
}

// end records that o has ended.
func (c *sharedClock) end(me string, o *operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.until = c.now
	delete(c.running, me)
	delete(c.begun, me)
}

// goroutine returns the number of the calling goroutine. A stack trace begins with it:
// "goroutine 7 [running]:".
func goroutine() string {
	var trace [32]byte
	return strings.Fields(string(trace[:runtime.Stack(trace[:], false)]))[1]
}

// overlapping returns the number of pairs of operations that overlapped.
func overlapping(ops []*operation) (pairs int) {
	for i, a := range ops {
		for _, b := range ops[i+1:] {
			if a.began < b.ended && b.began < a.ended {
				pairs++
			}
		}
	}
	return pairs
}

func (h *history) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %v, chargeDenied %v, swept by %s\n", h.seed, h.limits, h.chargeDenied, h.sweeper)
	if h.maxKeys > 0 {
		fmt.Fprintf(&b, "at most %d keys, overflow %d: %+v\n", h.maxKeys, h.overflow, h.stats)
	}
	for _, o := range h.all() {
		fmt.Fprintf(&b, "caller %d  %3d to %3d  %v\n", o.caller, o.began, o.ended, o)
	}
	return b.String()
}

func (o *operation) String() string {
	call := fmt.Sprintf("%s(%q, %d)", o.verb, o.keys, o.units)
	switch o.verb {
	case settles:
		call = fmt.Sprintf("%s(%d) of reservation %d of the one from %d to %d", o.verb, o.units, o.which, o.of.began, o.of.ended)
	case setsLimits, reconfigures:
		call = fmt.Sprintf("%s(%q, %v)", o.verb, o.keys, o.limits)
	case resets:
		call = fmt.Sprintf("%s(%q) = %v", o.verb, o.keys, o.tracked)
	case snapshots:
		call = fmt.Sprintf("%s()", o.verb)
	case restores:
		call = fmt.Sprintf("%s() of the one from %d to %d, refused %v", o.verb, o.of.began, o.of.ended, o.refused)
	case allows:
		call += fmt.Sprintf(" = %v", o.decision.Allowed)
	case takesUpTo:
		call += fmt.Sprintf(" = %d, %+v", o.taken, o.decision)
	default:
		call += fmt.Sprintf(", leaving %d = %+v", o.leave, o.decision)
	}
	return fmt.Sprintf("%s, read %d", call, o.readings)
}
