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

// A history is what a few callers do to a limiter at once, while its table is
// swept: each operation with its answer, when it began and ended, and the clock
// readings it took. What they do follows from the seed; how they meet does not.
type history struct {
	seed         uint64
	limits       []sash.Limit
	chargeDenied bool
	sweeper      sweeper
	hesitates    bool // whether a call that does not find its key gives up its core
	maxKeys      int  // of WithMaxKeys; 0 for no cap
	overflow     sash.Overflow

	first, last []*operation   // before and after the others, in this order
	plans       [][]*operation // of each caller

	clock   *sharedClock
	instant atomic.Int64 // counts beginnings and ends
	stats   sash.Stats   // in the end
}

// A sweeper is who sweeps the table.
type sweeper string

const (
	nobody  sweeper = "nobody"
	caller  sweeper = "a caller"
	janitor sweeper = "the janitor"
)

// sweepInterval is that of the janitor.
const sweepInterval = time.Microsecond

// An operation is one call.
type operation struct {
	verb   verb
	keys   []string
	units  int64        // of a settle: the actual ones
	limits []sash.Limit // of a change
	of     *operation   // whose reservation it settles, or whose snapshot it restores
	which  int          // of the reservations
	after  int64        // by how much its caller moves the clock on before

	caller       int
	began, ended int64
	readings     []int64 // of the clock, in order
	until        int64   // the reading when it ended
	outcome
	reservations []sash.Reservation
	saved        bytes.Buffer // by a Snapshot
}

// An outcome is what an operation returned.
type outcome struct {
	decision sash.Decision
	tracked  bool // of a Reset
	refused  bool // of a Restore
}

// A verb is the method that an operation calls.
type verb string

const (
	takes        verb = "Take"
	allows       verb = "AllowN"
	takesAll     verb = "TakeAll"
	peeks        verb = "Peek"
	reserves     verb = "Reserve"
	reservesAll  verb = "ReserveAll"
	settles      verb = "Commit"
	resets       verb = "Reset"
	setsLimits   verb = "SetLimits"
	reconfigures verb = "Reconfigure"
	snapshots    verb = "Snapshot"
	restores     verb = "Restore"
)

// all returns every operation.
func (h *history) all() (ops []*operation) {
	ops = append(ops, h.first...)
	for _, plan := range h.plans {
		ops = append(ops, plan...)
	}
	return append(ops, h.last...)
}

// carries reports whether a key may have been carried over to another cell: for
// other limits, or for its first reservation.
func (h *history) carries() bool {
	return slices.ContainsFunc(h.all(), func(o *operation) bool {
		return slices.Contains([]verb{reserves, reservesAll, setsLimits, reconfigures}, o.verb)
	})
}

// record runs all of it on a new limiter. A history with a Restore runs in a bubble,
// where the wall clock stands still: no time passes between Snapshot and Restore.
func (h *history) record(t *testing.T) {
	if slices.ContainsFunc(h.all(), func(o *operation) bool { return o.verb == restores }) {
		synctest.Test(t, func(*testing.T) { h.recordNow() })
	} else {
		h.recordNow()
	}
}

func (h *history) recordNow() {
	options := []sash.Option{sash.WithClock(h.clock), sash.WithSweepInterval(-1)}
	if h.sweeper == janitor {
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
	h.meet(l)
	h.run(l, 0, h.last)
	l.Close()
	h.stats = l.Stats()
}

// meet runs the plans, all at once.
func (h *history) meet(l *sash.Limiter) {
	var callers, sweeper sync.WaitGroup
	var late, busy atomic.Int32 // callers yet to begin, and to end
	late.Store(int32(len(h.plans)))
	busy.Store(int32(len(h.plans)))
	if h.sweeper == caller {
		sweeper.Go(func() {
			for busy.Load() > 0 {
				l.Sweep()
				runtime.Gosched()
			}
		})
	}
	for i, plan := range h.plans {
		callers.Go(func() {
			for late.Add(-1); late.Load() > 0; {
				runtime.Gosched()
			}
			h.run(l, i, plan)
			busy.Add(-1)
		})
	}
	callers.Wait()
	sweeper.Wait()
}

// run runs the operations of one caller.
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

func (o *operation) do(l *sash.Limiter) {
	switch o.verb {
	case takes:
		o.decision = l.Take(o.keys[0], o.units)
	case allows:
		o.decision.Allowed = l.AllowN(o.keys[0], o.units)
	case takesAll:
		o.decision = l.TakeAll(o.keys, o.units)
	case peeks:
		o.decision = l.Peek(o.keys[0], o.units)
	case reserves:
		o.reservations = make([]sash.Reservation, 1)
		o.reservations[0], o.decision = l.Reserve(o.keys[0], o.units)
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

// A sharedClock notes which operation it has given which reading: it knows the
// operations under way by the goroutines that they run in.
//
// To anybody else, the sweeper or the janitor, it gives the reading that the oldest
// operation under way began at. So nothing is evicted that one of them could still
// tell from a key never seen, and eviction must be invisible (see Sweep).
type sharedClock struct {
	mu       sync.Mutex
	now      int64
	underway map[string]*operation
	oldest   map[string]int64 // the reading when each of these began
	arrived  atomic.Int64     // readings so far that were to meet another
}

func newSharedClock(now int64) *sharedClock {
	return &sharedClock{now: now, underway: map[string]*operation{}, oldest: map[string]int64{}}
}

func (c *sharedClock) Now() int64 {
	at, calls := c.read(goroutine())
	switch {
	case rand.IntN(4) == 0:
		runtime.Gosched() // with a reading that may be late by now
	case calls:
		c.meet()
	}
	return at
}

// read returns the reading for who, and whether an operation of the history runs
// there.
func (c *sharedClock) read(who string) (at int64, calls bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at = c.now
	if o := c.underway[who]; o != nil {
		o.readings = append(o.readings, at)
		return at, true
	}
	for _, began := range c.oldest {
		at = min(at, began)
	}
	return at, false
}

// meet waits a microsecond or so for another call to read the clock, so that both
// go on at nearly the same time: what happens then takes some nanoseconds, and else
// would hardly ever happen in two calls at once. The later one waits a moment,
// since the earlier takes one to see it.
func (c *sharedClock) meet() {
	const patience, head = 2000, 200 // loads
	if mine := c.arrived.Add(1); mine%2 == 1 {
		for i := 0; i < patience && c.arrived.Load() == mine; i++ {
		}
		return
	}
	for range rand.IntN(head) {
		c.arrived.Load()
	}
}

// begin moves the clock on as o says, and notes that o runs in the goroutine me.
func (c *sharedClock) begin(me string, o *operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += o.after
	c.underway[me], c.oldest[me] = o, c.now
}

func (c *sharedClock) end(me string, o *operation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o.until = c.now
	delete(c.underway, me)
	delete(c.oldest, me)
}

// goroutine returns the number of the goroutine that calls it, which its stack
// trace begins with: "goroutine 7 [running]:".
func goroutine() string {
	var trace [32]byte
	return strings.Fields(string(trace[:runtime.Stack(trace[:], false)]))[1]
}

// overlapping returns how many pairs of operations ran at the same time.
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
		call = fmt.Sprintf("%s(%d) of reservation %d of that of %d to %d", o.verb, o.units, o.which, o.of.began, o.of.ended)
	case setsLimits, reconfigures:
		call = fmt.Sprintf("%s(%q, %v)", o.verb, o.keys, o.limits)
	case resets:
		call = fmt.Sprintf("%s(%q) = %v", o.verb, o.keys, o.tracked)
	case snapshots:
		call = fmt.Sprintf("%s()", o.verb)
	case restores:
		call = fmt.Sprintf("%s() of that of %d to %d, refused %v", o.verb, o.of.began, o.of.ended, o.refused)
	case allows:
		call += fmt.Sprintf(" = %v", o.decision.Allowed)
	default:
		call += fmt.Sprintf(" = %+v", o.decision)
	}
	return fmt.Sprintf("%s, read %d", call, o.readings)
}
