package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/seed-30da4c49/sash"
)

// A row is one operation of the hot path under one kind of limits.
type row struct {
	name string
	// prepare returns the function whose instructions are counted. It makes callsARow calls and
	// returns how many of them were admitted.
	prepare func() (run func() (admitted int))
	denies  bool // whether no call is admitted; else all are
}

// check returns an error unless all calls were admitted, or none if the row denies.
func (r *row) check(admitted int) error {
	want := callsARow
	if r.denies {
		want = 0
	}
	if admitted != want {
		return fmt.Errorf("%s: %d of %d calls were admitted, and not %d", r.name, admitted, callsARow, want)
	}
	return nil
}

// Each row makes calls for many keys. The seed of a table is random, and decides which of them are not
// in the slot where a call looks first. Of many keys that is always about the same share, and in a
// table with much room, almost none.
const (
	trackedKeys = 1024
	callRounds  = 4 // calls for each key
	callsARow   = callRounds * trackedKeys
	muchRoom    = 64 * callsARow
)

// A kind is limits with which all operations are counted.
type kind struct {
	name   string
	limits []sash.Limit
	// next is the time after which a call of each key is the first in a new window or part; 0 if
	// there is no such call.
	next time.Duration
}

// second is the time that passes between two rounds of calls for all keys. So no two units of a key
// are charged at the same instant, and each charge of a log finds a record that has expired.
const second = time.Second

// kinds are the kinds of limits. Each has enough units for all calls.
func kinds() []kind {
	const hour = time.Hour
	counter, bucket := sash.PerHour(100_000).Counter(), sash.PerHour(10_000).TokenBucket(1_000)
	parts, log := sash.PerHour(60_000).Parts(), sash.Per(30, 10*second).Log()
	return []kind{
		{"counter", []sash.Limit{counter}, hour},
		{"large counter", []sash.Limit{sash.PerHour(1 << 40).Counter()}, hour},
		{"parts of 8 bits", []sash.Limit{sash.PerHour(250).Parts()}, hour / 16},
		{"parts of 16 bits", []sash.Limit{parts}, hour / 16},
		{"bucket", []sash.Limit{bucket}, 0},
		{"log", []sash.Limit{log}, 0},
		{"at once", []sash.Limit{sash.AtOnce(30, 10*second)}, 0},
		{"two limits", []sash.Limit{counter, sash.PerDay(1_000_000).Counter()}, hour},
		{"three limits", []sash.Limit{parts, bucket, log}, hour / 16},
	}
}

// An operation makes one call for each of keys, and returns how many were admitted. Each has its
// loop, so that the calls are counted without a call of the operation itself.
type operation func(l *sash.Limiter, keys []string) (admitted int)

// rows returns all rows, in the order in which they are shown.
func rows() (all []row) {
	for _, k := range kinds() {
		all = append(all,
			k.row("Allow", allow), k.row("Take", take),
			k.denied("Allow", allow), k.denied("Take", take),
			k.row("TakeLeaving", takeLeaving), k.floored("TakeLeaving", takeLeaving),
			k.row("TakeUpTo", takeUpTo), k.emptied("TakeUpTo all there is", takeAllThereIs), k.denied("TakeUpTo", takeUpTo),
			k.row("Peek", peek), k.row("TakeThenPeek", takeThenPeek), k.row("Reserve and Commit", reserve),
			k.row("TakeAll of two keys", takeAll), k.denied("TakeAll of two keys", takeAll), k.row("PeekAll of two keys", peekAll),
			k.newKey())
		if k.next > 0 {
			all = append(all, k.first("Allow", allow), k.first("Take", take))
		}
	}
	for _, records := range []int{10, 1000, 100_000} {
		all = append(all, refundRow(records))
	}
	return append(all, requestRows()...)
}

// row returns the row of an operation on tracked keys that have been charged before.
func (k kind) row(name string, op operation) row {
	return row{name: k.name + ", " + name, prepare: func() func() int {
		l, clock, keys := k.tracking()
		return func() int { return inRounds(op, l, clock, keys, second) }
	}}
}

// denied returns the row of an operation on keys that have nothing left. The clock stands still.
func (k kind) denied(name string, op operation) row {
	return row{name: k.name + ", " + name + ", denied", denies: true, prepare: func() func() int {
		l, clock, keys := k.tracking()
		for _, key := range keys {
			l.Take(key, l.Peek(key, 0).Remaining)
		}
		return func() int { return inRounds(op, l, clock, keys, 0) }
	}}
}

// floored returns the row of an operation on keys that have as many units left as takeLeaving leaves.
func (k kind) floored(name string, op operation) row {
	return row{name: k.name + ", " + name + ", denied", denies: true, prepare: func() func() int {
		l, clock, keys := k.tracking()
		for _, key := range keys {
			l.Take(key, l.Peek(key, 0).Remaining-floor)
		}
		return func() int { return inRounds(op, l, clock, keys, 0) }
	}}
}

// emptied returns the row of an operation on keys that have nothing left an hour before each call.
func (k kind) emptied(name string, op operation) row {
	return row{name: k.name + ", " + name, prepare: func() func() int {
		l, clock, keys := k.tracking()
		takeAllThereIs(l, keys)
		return func() int { return inRounds(op, l, clock, keys, time.Hour) }
	}}
}

// first returns the row of an operation that is the first of its key in a window or part.
func (k kind) first(name string, op operation) row {
	return row{name: k.name + ", " + name + ", first in a window or part", prepare: func() func() int {
		l, clock, keys := k.tracking()
		return func() int { return inRounds(op, l, clock, keys, k.next) }
	}}
}

// newKey returns the row of Take for keys that are not tracked. There is room for them, so that no
// table grows.
func (k kind) newKey() row {
	return row{name: k.name + ", Take, new key", prepare: func() func() int {
		l, _, _ := k.tracking()
		keys := named("new", callsARow)
		return func() int { return take(l, keys) }
	}}
}

// refundRow returns the row of Commits that give a unit back, each to any of that many records of a log.
func refundRow(records int) row {
	return row{name: "log of " + strconv.Itoa(records) + " records, Commit", prepare: func() func() int {
		clock := sash.NewManualClock(0)
		l := sash.Must(sash.New(sash.Per(1_000_000, time.Hour).Log(), sash.WithClock(clock), sash.WithSweepInterval(-1)))
		var made []sash.Reservation
		for i := range records {
			clock.Advance(1)
			l.Allow("client")
			for len(made) < (i+1)*callsARow/records {
				r, _ := l.Reserve("client", 2)
				made = append(made, r)
			}
		}
		middle := len(made) / 2
		made[middle].Commit(1) // once, a refund deep in a log copies it
		rand.New(rand.NewPCG(1, 1)).Shuffle(len(made), func(i, j int) { made[i], made[j] = made[j], made[i] })
		return func() int {
			for _, r := range made {
				r.Commit(1)
			}
			return len(made)
		}
	}}
}

// tracking returns a limiter that has been charged for each of its keys in several windows, parts
// and seconds. So the keys have a past, and their logs have as much room as they need.
func (k kind) tracking() (*sash.Limiter, *sash.ManualClock, []string) {
	clock := sash.NewManualClock(int64(1000*24*time.Hour + 15*time.Minute))
	l := sash.Must(sash.New(sash.WithLimits(k.limits...), sash.WithClock(clock),
		sash.WithSweepInterval(-1), sash.WithSizeHint(muchRoom)))
	keys := named("client", trackedKeys)
	for i := range 16 {
		if i < 3 {
			clock.Advance(max(k.next, second))
		} else {
			clock.Advance(second)
		}
		allow(l, keys)
	}
	return l, clock, keys
}

// named returns keys, each in bytes of its own.
func named(prefix string, n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = prefix + "-" + strconv.Itoa(10_000+i)
	}
	return keys
}

// inRounds makes callRounds calls for each of keys. The time of a step passes before each round.
func inRounds(op operation, l *sash.Limiter, clock *sash.ManualClock, keys []string, step time.Duration) (admitted int) {
	for range callRounds {
		clock.Advance(step)
		admitted += op(l, keys)
	}
	return admitted
}

func allow(l *sash.Limiter, keys []string) (admitted int) {
	for _, key := range keys {
		if l.Allow(key) {
			admitted++
		}
	}
	return admitted
}

func take(l *sash.Limiter, keys []string) (admitted int) {
	for _, key := range keys {
		if l.Take(key, 1).Allowed {
			admitted++
		}
	}
	return admitted
}

// floor is the units that takeLeaving leaves.
const floor = 3

func takeLeaving(l *sash.Limiter, keys []string) (admitted int) {
	for _, key := range keys {
		if l.TakeLeaving(key, 1, floor).Allowed {
			admitted++
		}
	}
	return admitted
}

func takeAllThereIs(l *sash.Limiter, keys []string) (admitted int) {
	for _, key := range keys {
		if taken, _ := l.TakeUpTo(key, math.MaxInt64); taken > 0 {
			admitted++
		}
	}
	return admitted
}

func takeUpTo(l *sash.Limiter, keys []string) (admitted int) {
	for _, key := range keys {
		if _, d := l.TakeUpTo(key, 2); d.Allowed {
			admitted++
		}
	}
	return admitted
}

func peek(l *sash.Limiter, keys []string) (admitted int) {
	for _, key := range keys {
		if l.Peek(key, 1).Allowed {
			admitted++
		}
	}
	return admitted
}

func takeThenPeek(l *sash.Limiter, keys []string) (admitted int) {
	for _, key := range keys {
		if d, _ := l.TakeThenPeek(key, 1); d.Allowed {
			admitted++
		}
	}
	return admitted
}

// reserve settles each reservation for less than it has charged.
func reserve(l *sash.Limiter, keys []string) (admitted int) {
	for _, key := range keys {
		r, d := l.Reserve(key, 2)
		r.Commit(1)
		if d.Allowed {
			admitted++
		}
	}
	return admitted
}

func takeAll(l *sash.Limiter, keys []string) (admitted int) {
	for i, key := range keys {
		if l.TakeAll([]string{key, keys[len(keys)-1-i]}, 1).Allowed {
			admitted++
		}
	}
	return admitted
}

func peekAll(l *sash.Limiter, keys []string) (admitted int) {
	for i, key := range keys {
		if l.PeekAll([]string{key, keys[len(keys)-1-i]}, 1).Allowed {
			admitted++
		}
	}
	return admitted
}
