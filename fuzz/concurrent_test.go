package fuzz

import (
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/reference"
)

const (
	mostWorkers = 4
	mostCalls   = 32  // that are told apart
	workerCalls = 128 // that each worker makes of them, so that workers do meet
	rounds      = 8   // of one batch: each runs in an order of its own
)

// FuzzConcurrent deals a batch of calls, of one key and of several, to a few
// workers that start together.
//
// Where the clock stands still, the totals are determined: what a key has left
// is given out as far as it goes, whoever comes first. Where one worker moves
// it, no window gets more than its bound. In both, sweeps run beside the calls
// and must not be noticed.
func FuzzConcurrent(f *testing.F) {
	for _, s := range concurrentSeeds {
		f.Add(s.program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		for range rounds {
			round(t, &tape{program})
		}
	})
}

func round(t *testing.T, tape *tape) {
	b := newBatch(t, tape)
	b.preload(tape)
	b.deal(tape)
	b.run()
	if b.moving {
		b.checkBounds()
	} else {
		b.checkTotals()
	}
	b.checkForgets()
}

// A batch is what the workers do, and what came of it.
type batch struct {
	t            *testing.T
	limits       []sash.Limit
	chargeDenied bool
	moving       bool // whether the first worker moves the clock
	clock        *sash.ManualClock
	limiter      *sash.Limiter
	table        *reference.Table // of the keys as the workers find them
	workers      [][]call
}

// A call is one of a worker's, and its outcome. The limiter read the clock no
// earlier than from and no later than to.
type call struct {
	kind     callKind
	keys     []string // maybe several, and one of them twice
	cost     int64
	actual   int64 // that a reservation is settled to; of other calls their cost
	advance  int64 // of the clock
	allowed  bool
	from, to int64
}

type callKind uint8

const (
	callAllow callKind = iota // AllowN
	callTake
	callTakeAll
	callReserve    // and Commit
	callReserveAll // and Commit of each
	callSweep
	callAdvance
)

// What the first byte of a batch says.
const (
	moving      = 1  // the first worker moves the clock
	moreWorkers = 2  // times how many there are beyond two
	moreLimits  = 64 // times how many there are beyond one
)

// latest bounds where a batch starts, so that no clock in it passes MaxInt64.
const latest = math.MaxInt64 / 4

func newBatch(t *testing.T, tape *tape) *batch {
	flags := tape.byte()
	b := &batch{
		t: t, moving: flags&moving != 0,
		workers: make([][]call, 2+flags%moreLimits/moreWorkers%(mostWorkers-1)),
	}
	for range 1 + flags/moreLimits {
		l, chargeDenied := tape.limit()
		l.Window = min(l.Window, time.Duration(latest/1024))
		l.Precision = min(l.Precision, l.Window)
		b.limits = append(b.limits, l)
		b.chargeDenied = b.chargeDenied || chargeDenied
	}
	w := int64(b.limits[0].Window)
	b.clock = sash.NewManualClock(tape.pick(0, -1, w-1, -w, w/2, math.MinInt64) % latest)
	b.limiter = limiter(b.limits, b.chargeDenied, b.clock)
	b.table = table(b.limits, b.chargeDenied)
	return b
}

// preload charges some keys from one goroutine, so that the workers find a
// window before theirs; or, where the clock then goes back, one after it.
func (b *batch) preload(tape *tape) {
	for calls := tape.byte() % 8; calls > 0; calls-- {
		name, n := names[int(tape.byte())%len(names)], b.cost(tape)
		b.limiter.Take(name, n)
		b.table.Take(b.clock.Now(), n, name)
		b.clock.Advance(time.Duration(b.advance(tape)))
	}
	if tape.byte()%4 == goBack && !b.moving {
		b.clock.Advance(-time.Duration(b.advance(tape)))
	}
}

// goBack is the byte after the preload that moves the clock back.
const goBack = 3

func (b *batch) cost(tape *tape) int64 {
	units := tape.byte()
	l := b.limits[int(units)%len(b.limits)].Count
	return tape.pick(1, 1, 1, 1, 2, 3, l/2, l/3, l/7, l, 0, -1, plus(l, 1), math.MaxInt64, int64(units))
}

func (b *batch) advance(tape *tape) int64 {
	distances, most := []int64{0, 1}, int64(0)
	for _, l := range b.limits {
		w, p := int64(l.Window), grain(l)
		distances = append(distances, w/7, w/2, w-1, w, w+1, 2*w, p-1, p)
		most = max(most, 2*w)
	}
	return max(0, tape.pick(distances...)%(most+1))
}

// actual reads what a reservation is settled to. Past Count, what is spent is not
// bounded by it: that must not pass MaxInt64, where it would saturate. Where
// denied calls are charged, nothing is given back.
func (b *batch) actual(tape *tape, cost int64) int64 {
	more := int64(tape.byte())
	actual := max(0, tape.pick(cost, 0, cost/2, cost-1, 1, cost, plus(cost, 1), plus(cost, more)))
	for _, l := range b.limits {
		if l.Count > math.MaxInt64/2 {
			actual = min(actual, cost)
		}
	}
	if b.chargeDenied {
		return cost
	}
	return min(actual, plus(cost, math.MaxUint8))
}

// What the byte of a call says, besides the key.
const (
	sweepCall   = 15   // its remainder by 16: no call of a key
	advanceCall = 12   // and up to sweepCall, if the clock moves
	viaTake     = 0x10 // Take, not AllowN
	viaTakeAll  = 0x40
	viaReserve  = 0x80 // and Commit; with viaTakeAll a ReserveAll
)

// deal reads some calls, and gives them to every worker over and over, but each
// begins with another. Only the first moves the clock.
func (b *batch) deal(tape *tape) {
	var calls []call
	for ones := tape.byte()%2 == 0; !tape.ended() && len(calls) < mostCalls; {
		calls = append(calls, b.call(tape, ones))
	}
	for i := 0; len(calls) > 0 && i < len(b.workers)*workerCalls; i++ {
		worker := i % len(b.workers)
		c := calls[(i/len(b.workers)+worker)%len(calls)]
		if c.kind != callAdvance || worker == 0 {
			b.workers[worker] = append(b.workers[worker], c)
		}
	}
}

func (b *batch) call(tape *tape, ones bool) call {
	op := tape.byte()
	switch {
	case op%16 == sweepCall:
		return call{kind: callSweep}
	case b.moving && op%16 >= advanceCall:
		return call{kind: callAdvance, advance: b.advance(tape)}
	}
	c := call{keys: []string{names[int(op)%len(names)]}, cost: 1}
	if op&viaTakeAll != 0 {
		c.keys = tape.more(c.keys[0])
	}
	switch {
	case op&(viaTakeAll|viaReserve) == viaTakeAll|viaReserve:
		c.kind = callReserveAll
	case op&viaTakeAll != 0:
		c.kind = callTakeAll
	case op&viaReserve != 0:
		c.kind = callReserve
	case op&viaTake != 0:
		c.kind = callTake
	}
	if !ones {
		c.cost = b.cost(tape)
	}
	c.actual = c.cost
	if op&viaReserve != 0 {
		c.actual = b.actual(tape, c.cost)
	}
	return c
}

func (b *batch) run() {
	var done sync.WaitGroup
	var late atomic.Int32 // workers that have yet to reach the start
	late.Store(int32(len(b.workers)))
	for _, calls := range b.workers {
		done.Go(func() {
			for late.Add(-1); late.Load() > 0; {
				runtime.Gosched()
			}
			for i := range calls {
				b.do(&calls[i])
			}
		})
	}
	done.Wait()
}

func (b *batch) do(c *call) {
	c.from = b.clock.Now()
	switch c.kind {
	case callSweep:
		b.limiter.Sweep()
	case callAdvance:
		b.clock.Advance(time.Duration(c.advance))
	case callTake:
		c.allowed = b.limiter.Take(c.keys[0], c.cost).Allowed
	case callTakeAll:
		c.allowed = b.limiter.TakeAll(c.keys, c.cost).Allowed
	case callReserve:
		r, d := b.limiter.Reserve(c.keys[0], c.cost)
		b.settle(c, d, r)
		return
	case callReserveAll:
		all, d := b.limiter.ReserveAll(c.keys, c.cost)
		b.settle(c, d, all...)
		return
	default:
		c.allowed = b.limiter.AllowN(c.keys[0], c.cost)
	}
	c.to = b.clock.Now()
}

// settle notes when c was charged, at the latest, and settles what it reserved.
func (b *batch) settle(c *call, d sash.Decision, reserved ...sash.Reservation) {
	c.allowed, c.to = d.Allowed, b.clock.Now()
	for _, r := range reserved {
		r.Commit(c.actual)
	}
}

// asks returns those of the calls that asked for units of a key: for no fewer than
// none, which a reservation may be settled beyond.
func asks(calls []call, name string) (asked []call) {
	for _, c := range calls {
		if c.cost >= 0 && slices.Contains(c.keys, name) {
			asked = append(asked, c)
		}
	}
	return asked
}

// A total is what became of a key on a clock that stands still, where all its
// limits are charged alike: the units that were left, less those of the calls
// that were admitted. That is exact at the end. Before, each worker may have had
// one reservation open, at its estimate: so there never were fewer than low, and
// no more than high when the last call was admitted.
type total struct{ low, left, high int64 }

func (b *batch) total(name string) total {
	left := b.table.Peek(b.clock.Now(), 0, name).Remaining
	var back, more int64 // that was still to be given, and charged
	for _, calls := range b.workers {
		var less, beyond int64
		for _, c := range asks(calls, name) {
			if c.allowed {
				left = plus(left, -c.actual)
				less, beyond = max(less, c.cost-c.actual), max(beyond, c.actual-c.cost)
			}
		}
		back, more = plus(back, less), plus(more, beyond)
	}
	return total{plus(left, -back), left, plus(left, more)}
}

// checkTotals checks that of each key no more was admitted than was left, and
// that nothing was denied that would have fitted: then what was admitted is what
// some order of the calls would have admitted.
func (b *batch) checkTotals() {
	totals := map[string]total{}
	for _, name := range names {
		sum := b.total(name)
		if sum.high < 0 {
			b.t.Errorf("%v, %q: admitted %d more than were left", b.limits, name, -sum.high)
		}
		got := b.limiter.Peek(name, 0).Remaining
		if b.chargeDenied { // and nothing ever comes back
			sum.low = got
		} else if got != max(0, sum.left) {
			b.t.Errorf("%v, %q: %d remaining, want %d", b.limits, name, got, max(0, sum.left))
		}
		totals[name] = sum
	}
	for _, name := range names {
		b.checkDenials(name, totals)
	}
}

// checkDenials checks that each call of a key that was denied asked for more than
// was left, at some time, of it or of another of its keys. Where denied calls are
// charged, the first asked for more than the admitted ones left at the end; if it
// is one of several keys, maybe of another. A call for no units may be denied with
// none left: then more than Count is used, as it can be by denied calls and at a
// late reading.
func (b *batch) checkDenials(name string, totals map[string]total) {
	denials := slices.DeleteFunc(asks(slices.Concat(b.workers...), name), func(c call) bool { return c.allowed || c.cost == 0 })
	for _, c := range denials {
		if !slices.ContainsFunc(c.keys, func(name string) bool { return c.cost > totals[name].low }) {
			b.t.Errorf("%v, %q: %d were denied, with %+v left", b.limits, c.keys, c.cost, totals)
		}
	}
	first := func(c call) bool { return len(c.keys) > 1 || c.cost > totals[name].left }
	if b.chargeDenied && len(denials) > 0 && !slices.ContainsFunc(denials, first) {
		b.t.Errorf("%v, %q: no call can have been the first to be denied, with %+v left", b.limits, name, totals[name])
	}
}

// checkBounds checks the proven bounds of each key under each limit: at most
// Count in any window that is aligned to the grain of the limit, which for a log
// is any at all; and by a counter less than twice that in any whatsoever. Of a
// call only an interval of time is known, so each window is given the calls that
// surely fall into it.
func (b *batch) checkBounds() {
	for _, name := range names {
		calls := asks(slices.Concat(b.workers...), name)
		for _, l := range b.limits {
			w, g := int64(l.Window), grain(l)
			span := ((w-1)/g + 1) * g
			for _, first := range calls {
				begin := first.from - since(first.from, g)
				if aligned := admitted(calls, begin, begin+span-1); above(aligned, l.Count, 1) {
					b.t.Errorf("%v, %q: admitted %d in the aligned window from %d", l, name, aligned, begin)
				}
				trailing := admitted(calls, first.from, first.from+w-1)
				if l.Algorithm == sash.SlidingCounter && above(trailing+1, l.Count, 2) {
					b.t.Errorf("%v, %q: admitted %d in the window from %d", l, name, trailing, first.from)
				}
			}
		}
	}
}

// admitted returns the units admitted, and not given back, by calls that lie in
// [from, to]. It is unsigned, and saturates, for the sake of limits near MaxInt64.
func admitted(calls []call, from, to int64) (units uint64) {
	for _, c := range calls {
		if c.allowed && from <= c.from && c.to <= to {
			kept := uint64(min(c.cost, c.actual))
			units = min(units, math.MaxUint64-1-kept) + kept
		}
	}
	return units
}

// above reports whether units are more than so many times the count.
func above(units uint64, count int64, times uint64) bool { return units > times*uint64(count) }

// checkForgets checks that in the end nothing of the batch is left.
func (b *batch) checkForgets() {
	now := b.clock.Now()
	for _, name := range names {
		b.clock.Set(now)
		b.clock.Set(plus(now, int64(b.limiter.Peek(name, 0).ResetAfter)))
		if d := b.limiter.Peek(name, 0); d != fresh(b.limits) {
			b.t.Errorf("%v, %q: at its ResetAfter it is %+v", b.limits, name, d)
		}
	}
	b.clock.Set(latest + latest/2)
	b.limiter.Sweep()
	if n := b.limiter.Len(); n != 0 {
		b.t.Errorf("%v: %d keys are left after everything has come back", b.limits, n)
	}
}
