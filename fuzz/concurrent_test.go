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

// FuzzConcurrent deals a batch of calls to a few workers that start together.
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
	b := newBatch(tape)
	b.preload(tape)
	b.deal(tape)
	b.run()
	if b.moving {
		b.checkBounds(t)
	} else {
		b.checkTotals(t)
	}
	b.checkForgets(t)
}

// A batch is what the workers do, and what came of it.
type batch struct {
	limit   sash.Limit
	model   reference.Limit
	moving  bool // whether the first worker moves the clock
	clock   *sash.ManualClock
	limiter *sash.Limiter
	keys    [len(names)]*reference.Key // as the workers find them
	workers [][]call
}

// A call is one of a worker's, and its outcome. The limiter read the clock no
// earlier than from and no later than to.
type call struct {
	key      int
	cost     int64
	advance  int64 // not 0: move the clock on instead
	sweep    bool  // or sweep
	take     bool  // by Take, not AllowN
	allowed  bool
	from, to int64
}

// What the first byte of a batch says.
const (
	moving      = 1 // the first worker moves the clock
	moreWorkers = 2 // times how many there are beyond two
)

// latest bounds where a batch starts, so that no clock in it passes MaxInt64.
const latest = math.MaxInt64 / 4

func newBatch(tape *tape) *batch {
	flags := tape.byte()
	l, chargeDenied := tape.limit()
	l.Window = min(l.Window, time.Duration(latest/1024))
	w := int64(l.Window)
	start := tape.pick(0, -1, w-1, -w, w/2, math.MinInt64) % latest
	b := &batch{
		limit: l, model: model(l, chargeDenied), moving: flags&moving != 0,
		clock:   sash.NewManualClock(start),
		workers: make([][]call, 2+flags/moreWorkers%(mostWorkers-1)),
	}
	b.limiter = limiter(l, chargeDenied, b.clock)
	for i := range b.keys {
		b.keys[i] = reference.New(b.model)
	}
	return b
}

// preload charges some keys from one goroutine, so that the workers find a
// window before theirs; or, where the clock then goes back, one after it.
func (b *batch) preload(tape *tape) {
	for calls := tape.byte() % 8; calls > 0; calls-- {
		key, n := int(tape.byte())%len(names), b.cost(tape)
		b.limiter.Take(names[key], n)
		b.keys[key].Take(b.clock.Now(), n)
		b.clock.Advance(time.Duration(b.advance(tape)))
	}
	if tape.byte()%4 == goBack && !b.moving {
		b.clock.Advance(-time.Duration(b.advance(tape)))
	}
}

// goBack is the byte after the preload that moves the clock back.
const goBack = 3

func (b *batch) cost(tape *tape) int64 {
	l := b.limit.Count
	return tape.pick(1, 1, 1, 1, 2, 3, l/2, l/3, l/7, l, 0, -1, plus(l, 1), math.MaxInt64, int64(tape.byte()))
}

func (b *batch) advance(tape *tape) int64 {
	w := int64(b.limit.Window)
	return max(0, tape.pick(0, 1, w/7, w/2, w-1, w, w+1, 2*w)%(2*w+1))
}

// What the byte of a call says, besides the key.
const (
	sweepCall   = 15   // its remainder by 16: no call of a key
	advanceCall = 12   // and up to sweepCall, if the clock moves
	viaTake     = 0x10 // Take, not AllowN
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
		if c.advance == 0 || worker == 0 {
			b.workers[worker] = append(b.workers[worker], c)
		}
	}
}

func (b *batch) call(tape *tape, ones bool) call {
	key := int(tape.byte())
	c := call{key: key % len(names), cost: 1, take: key&viaTake != 0}
	switch {
	case key%16 == sweepCall:
		c.cost, c.sweep = 0, true
	case b.moving && key%16 >= advanceCall:
		c.cost, c.advance = 0, b.advance(tape)
	case !ones:
		c.cost = b.cost(tape)
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
	switch {
	case c.sweep:
		b.limiter.Sweep()
	case c.advance != 0:
		b.clock.Advance(time.Duration(c.advance))
	case c.take:
		c.allowed = b.limiter.Take(names[c.key], c.cost).Allowed
	default:
		c.allowed = b.limiter.AllowN(names[c.key], c.cost)
	}
	c.to = b.clock.Now()
}

// asks returns the calls that asked for some units of a key.
func (b *batch) asks(key int) (calls []call) {
	for _, w := range b.workers {
		for _, c := range w {
			if c.key == key && c.cost > 0 {
				calls = append(calls, c)
			}
		}
	}
	return calls
}

// checkTotals checks that of each key no more was admitted than was left, and
// that nothing was denied that would still fit: then what was admitted is what
// some order of the calls would have admitted.
func (b *batch) checkTotals(t *testing.T) {
	for key, name := range names {
		left := b.keys[key].Peek(b.clock.Now(), 0).Remaining
		var denials []int64
		for _, c := range b.asks(key) {
			switch {
			case !c.allowed:
				denials = append(denials, c.cost)
			case c.cost > left:
				t.Fatalf("%v, %q: admitted %d where %d were left", b.limit, name, c.cost, left)
			default:
				left -= c.cost
			}
		}
		if got := b.limiter.Peek(name, 0).Remaining; got != left && !b.model.ChargeDenied {
			t.Errorf("%v, %q: %d remaining, want %d", b.limit, name, got, left)
		}
		if len(denials) > 0 {
			b.checkDenials(t, name, left, denials)
		}
	}
}

// checkDenials checks that none of the costs that were denied fits into what is
// left. Where they were charged, that is known of the first, and so of the
// largest.
func (b *batch) checkDenials(t *testing.T, name string, left int64, denials []int64) {
	least := slices.Min(denials)
	if b.limiter.Peek(name, least).Allowed {
		t.Errorf("%v, %q: %d were denied, and are admitted at the end", b.limit, name, least)
	}
	if b.model.ChargeDenied {
		least = slices.Max(denials)
	}
	if least <= left {
		t.Errorf("%v, %q: %d were denied, with %d left", b.limit, name, least, left)
	}
}

// checkBounds checks the proven bounds of each key: a log admits at most Count
// in any trailing window; a counter in any aligned one, and less than twice
// that in a trailing one. Of a call only an interval of time is known, so each
// window is given the calls that surely fall into it.
func (b *batch) checkBounds(t *testing.T) {
	w := int64(b.limit.Window)
	for key, name := range names {
		calls := b.asks(key)
		for _, first := range calls {
			trailing := admitted(calls, first.from, plus(first.from, w-1))
			if b.limit.Algorithm == sash.SlidingLog && above(trailing, b.limit.Count, 1) {
				t.Errorf("%v, %q: admitted %d in the window from %d", b.limit, name, trailing, first.from)
			}
			if above(trailing+1, b.limit.Count, 2) {
				t.Errorf("%v, %q: admitted %d in the window from %d", b.limit, name, trailing, first.from)
			}
			begin := first.from - (first.from%w+w)%w
			if aligned := admitted(calls, begin, begin+w-1); above(aligned, b.limit.Count, 1) {
				t.Errorf("%v, %q: admitted %d in the aligned window from %d", b.limit, name, aligned, begin)
			}
		}
	}
}

// admitted returns the units admitted by calls that lie in [from, to]. It is
// unsigned, and saturates, for the sake of limits near MaxInt64.
func admitted(calls []call, from, to int64) (units uint64) {
	for _, c := range calls {
		if c.allowed && from <= c.from && c.to <= to {
			units = min(units, math.MaxUint64-1-uint64(c.cost)) + uint64(c.cost)
		}
	}
	return units
}

// above reports whether units are more than so many times the count.
func above(units uint64, count int64, times uint64) bool { return units > times*uint64(count) }

// checkForgets checks that two windows later nothing of the batch is left.
func (b *batch) checkForgets(t *testing.T) {
	now := b.clock.Now()
	for _, name := range names {
		b.clock.Set(now)
		b.clock.Set(plus(now, int64(b.limiter.Peek(name, 0).ResetAfter)))
		fresh := sash.Decision{Allowed: true, Limit: b.limit, Remaining: b.limit.Count}
		if d := b.limiter.Peek(name, 0); d != fresh {
			t.Errorf("%v, %q: at its ResetAfter it is %+v", b.limit, name, d)
		}
	}
	b.clock.Set(latest + latest/2)
	b.limiter.Sweep()
	if n := b.limiter.Len(); n != 0 {
		t.Errorf("%v: %d keys are left after everything has come back", b.limit, n)
	}
}
