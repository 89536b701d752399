package sash

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"testing/synctest"
	"time"

	"github.com/seed-30da4c49/sash/internal/reference"
)

// A modelWait is a call that waits.
type modelWait struct {
	call     string
	keys     []string // each once
	n, leave int64
	number   int // in the order in which they came
	others   int // number of calls that waited when it came
	ctx      context.Context
	cancel   func()
	deadline time.Time // zero for none
	ended    bool
	slept    bool // whether it did not end at once
	err      error
	at       int64 // the clock's reading when it ended
	elapsed  time.Time
	ours     Reservation
}

// compare is negative if w goes before o, where both wait for a key.
func (w *modelWait) compare(o *modelWait) int {
	return cmp.Or(cmp.Compare(w.leave, o.leave), w.number-o.number)
}

// failed is 1 if w has failed, and else 0.
func (w *modelWait) failed() int {
	if w.err != nil {
		return 1
	}
	return 0
}

// canWait reports whether the program may make another call that waits. Of several that are
// admitted at one instant, it is not known which comes first, and so which evicts a key that is
// not idle, or which finds room and which shares a quota.
func (m *model) canWait() bool {
	switch {
	case m.late:
		return false
	case m.maxKeys == 0:
		return len(m.waits) < 12
	case m.overflow == DenyNew:
		return len(m.waits) < 6
	}
	return m.overflow == ShareOverflow && len(m.waits) == 0
}

// waiting returns how many calls wait.
func (m *model) waiting() (n int) {
	for _, w := range m.waits {
		if !w.ended {
			n++
		}
	}
	return n
}

func (m *model) someWait() bool { return len(m.waits) > 0 }

// isWaitedFor reports whether a call waits for the key.
func (m *model) isWaitedFor(name string) bool {
	return slices.ContainsFunc(m.waits, func(w *modelWait) bool { return slices.Contains(w.keys, name) })
}

// beginWait begins a call that waits, and lets it come to its first sleep or its end.
func (m *model) beginWait(call string) {
	keys, n := []string{m.key()}, m.cost(m.key())
	switch {
	case call == "WaitAll" && m.maxKeys > 1 && m.rng.IntN(3) > 0:
		keys, n = m.oldAndNew(), 1
	case call == "WaitAll":
		keys = m.someKeys()
	}
	w := &modelWait{call: call, keys: m.place(keys, false).keys, n: n, number: m.begun, others: m.waiting()}
	if call == "WaitLeaving" {
		w.leave = max(0, m.cost(keys[0]))
	}
	m.begun++
	w.ctx, w.cancel = context.WithCancel(context.Background())
	switch m.rng.IntN(6) {
	case 0:
		w.deadline = time.Now().Add(m.distance())
		w.ctx, w.cancel = context.WithDeadline(w.ctx, w.deadline)
	case 1:
		if m.rng.IntN(4) == 0 {
			w.cancel()
		}
	}
	m.did("call %d: %s(%s, %d), leaving %d, at %d, until %v", w.number, call, modelKeys(keys), w.n, w.leave, m.now(), w.deadline)
	m.waits = append(m.waits, w)
	go m.wait(w, keys)
	synctest.Wait()
	w.slept = !w.ended
	m.goOn()
	m.waited = m.waited || w.slept || m.maxKeys > 0
	if w.slept && w.others >= m.maxWaiters {
		m.fail("call %d waits, though %d others do", w.number, w.others)
	}
	m.checkHope(w)
}

// checkHope checks that w, which has just begun, does not wait if one of its keys alone makes it wait
// beyond its deadline. Of a key that is not tracked that is not known, if there may be no room for it.
func (m *model) checkHope(w *modelWait) {
	if !w.slept || w.deadline.IsZero() {
		return
	}
	for _, name := range w.keys {
		v := m.table.Leaving(w.leave).Foresee(m.now(), w.n, name)
		if (m.maxKeys == 0 || m.tracked[name]) && v.LeastWait() > int64(time.Until(w.deadline)) {
			m.fail("call %d waits in vain for %s", w.number, modelName(name))
		}
	}
}

// oldAndNew draws a key that is tracked and that no call waits for, and one that is not tracked, if
// it finds any. Where the table is full, the one must make room for the other.
func (m *model) oldAndNew() (keys []string) {
	for _, tracked := range []bool{true, false} {
		name := m.key()
		for range m.keys() {
			if m.tracked[name] == tracked && !(tracked && m.isWaitedFor(name)) {
				break
			}
			name = m.key()
		}
		keys = append(keys, name)
	}
	return keys
}

func (m *model) wait(w *modelWait, keys []string) {
	var err error
	var ours Reservation
	switch w.call {
	case "Wait":
		err = m.l.Wait(w.ctx, keys[0], w.n)
	case "WaitAll":
		err = m.l.WaitAll(w.ctx, keys, w.n)
	case "WaitLeaving":
		err = m.l.WaitLeaving(w.ctx, keys[0], w.n, w.leave)
	case "WaitReserve":
		ours, err = m.l.WaitReserve(w.ctx, keys[0], w.n)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w.ours, w.err = ours, err
	w.at, w.elapsed, w.ended = m.clock.Now(), time.Now(), true
}

// giveUp ends the context of one of the calls that wait.
func (m *model) giveUp() {
	w := m.waits[m.rng.IntN(len(m.waits))]
	w.cancel()
	m.did("call %d gives up", w.number)
	synctest.Wait()
}

// settle checks the calls that have ended since, in the order in which they did, and that the
// others have to wait.
func (m *model) settle() {
	var ended []*modelWait
	for _, w := range m.waits {
		if w.ended {
			ended = append(ended, w)
		}
	}
	// Calls that ended at one instant may have been admitted in any order. So judge the call first that leaves
	// the most: it needs the most units, and leaves enough for the others. A failed call is judged last.
	slices.SortStableFunc(ended, func(a, b *modelWait) int {
		return cmp.Or(cmp.Compare(a.at, b.at), a.failed()-b.failed(), cmp.Compare(b.leave, a.leave), a.number-b.number)
	})
	for i, w := range ended {
		if m.bubbleClock && w.at > m.settled && (i == 0 || ended[i-1].at < w.at) {
			m.checkWaiting(w.at+m.shift-1, w) // a ManualClock may have gone on further than that
		}
		m.finish(w)
	}
	m.checkWaiting(m.now(), nil)
	m.settled = m.clock.Now()
	m.goOn()
}

// goOn makes what the program has read so far come before what calls that wait write from now on.
func (m *model) goOn() {
	m.mu.Lock()
	defer m.mu.Unlock()
}

// finish checks the result of a call that has ended.
func (m *model) finish(w *modelWait) {
	m.waits = slices.DeleteFunc(m.waits, func(o *modelWait) bool { return o == w })
	m.did("call %d has ended at %d: %v", w.number, w.at+m.shift, w.err)
	if w.err != nil {
		m.checkWaitError(w)
		return
	}
	at := w.at + m.shift
	p := m.place(w.keys, true)
	if len(p.refused) > 0 && w.n > 0 {
		m.fail("call %d was admitted without room", w.number)
	}
	v := m.table.Leaving(w.leave).Foresee(at, w.n, p.names...)
	if !v.Allowed || len(w.keys) == 0 {
		m.fail("call %d was admitted at %d, where it is\n%+v", w.number, at, v.Answer())
	}
	for _, o := range m.waits {
		if o.compare(w) < 0 && o.number < w.number && o.n > 0 && w.n > 0 && slices.Equal(slices.Sorted(slices.Values(o.keys)), slices.Sorted(slices.Values(w.keys))) && !o.ended {
			m.fail("call %d was admitted before call %d, which came earlier", w.number, o.number)
		}
	}
	m.admit(w, p, at)
}

// admit notes that a call was admitted at that instant.
func (m *model) admit(w *modelWait, p placing, at int64) {
	var theirs []reference.Reservation
	if w.n > 0 {
		theirs = m.table.Charge(at, w.n, p.names...)
	} else {
		theirs, _ = m.table.DecideReserve(at, 0, p.names...)
	}
	if w.n > 0 {
		if p.shared {
			m.stats.Shared++
		}
		m.track(p.names...)
	}
	if w.call == "WaitReserve" && len(p.refused) == 0 {
		m.addReservation(w.ours, theirs[0], w.keys[0], p.names[0], w.n)
	}
	if m.observed && w.n > 0 {
		m.observedWait(w)
	}
}

// observedWait checks that the observer has seen each key of a call that was admitted.
func (m *model) observedWait(w *modelWait) {
	for _, name := range w.keys {
		i := slices.IndexFunc(m.seen, func(o observation) bool { return o.key == name && o.n == w.n && o.d.Allowed })
		if i < 0 {
			m.fail("the observer has not seen call %d: %+v", w.number, m.seen)
		}
		m.seen = slices.Delete(m.seen, i, i+1)
	}
}

// checkWaitError checks the error of a call.
func (m *model) checkWaitError(w *modelWait) {
	exceeds := len(w.keys) == 0 || w.n < 0 || slices.ContainsFunc(w.keys, func(name string) bool { return m.exceeds(name, needed(w.n, w.leave)) })
	need := 0
	for _, name := range w.keys {
		if m.charges(name) {
			need++
		}
	}
	if m.maxKeys > 0 && need > m.maxKeys {
		own := slices.ContainsFunc(m.limits, func(l Limit) bool { return needed(w.n, w.leave) > l.most() })
		exceeds = exceeds || m.overflow == DenyNew || m.overflow == ShareOverflow && own
	}
	expired := !w.deadline.IsZero() && !w.elapsed.Before(w.deadline)
	switch {
	case errors.Is(w.err, ErrExceedsLimit) && exceeds:
	case errors.Is(w.err, ErrInvalidLimit) && slices.ContainsFunc(w.keys, m.wrong):
		if w.n > 0 {
			m.stats.Invalid++
		}
	case errors.Is(w.err, ErrTooManyWaiters) && w.others >= m.maxWaiters && m.mustWait(w):
	case errors.Is(w.err, context.Canceled) && w.ctx.Err() != nil:
	case errors.Is(w.err, context.DeadlineExceeded) && (expired || !w.deadline.IsZero() && m.isTooLate(w)):
	default:
		m.fail("call %d: %v", w.number, w.err)
	}
	if w.ours != (Reservation{}) {
		m.fail("call %d has failed, and has a reservation", w.number)
	}
}

// mustWait reports whether a call that has ended at once would have had to wait, or to queue.
func (m *model) mustWait(w *modelWait) bool {
	queues := w.n > 0 && slices.ContainsFunc(m.waits, func(o *modelWait) bool {
		return o.compare(w) < 0 && slices.ContainsFunc(o.keys, func(name string) bool { return slices.Contains(w.keys, name) })
	})
	return !w.slept && (m.maxKeys > 0 || queues || !m.table.Leaving(w.leave).Foresee(w.at+m.shift, w.n, m.place(w.keys, true).names...).Allowed)
}

// isTooLate reports whether the call cannot be admitted before its deadline, if those before it
// that wait for its key alone are admitted as early as can be.
func (m *model) isTooLate(w *modelWait) bool {
	copied, at := m.table.Copy(), w.at+m.shift
	var retry int64
	all := append(slices.Clone(m.waits), w)
	slices.SortFunc(all, (*modelWait).compare)
	for _, o := range all {
		if o != w && (o.compare(w) > 0 || len(o.keys) > 1 || o.n <= 0 || !slices.Contains(w.keys, o.keys[0])) {
			continue
		}
		names := m.place(o.keys, true).names
		v := copied.Leaving(o.leave).Foresee(at, o.n, names...)
		if !v.Allowed {
			least := v.LeastWait()
			if least == reference.Never {
				return true
			}
			at, retry = plusSaturated(at, least), plusSaturated(retry, least)
		}
		copied.Charge(at, o.n, names...)
	}
	return retry > int64(w.deadline.Sub(w.elapsed))
}

// checkWaiting checks that each call that still waited at that instant, and that no earlier call
// could hold up, had to. Of those that ended, it is for those that ended as w did.
func (m *model) checkWaiting(at int64, w *modelWait) {
	if m.maxKeys > 0 {
		return // a key may have got room since, and nothing tells of it: see drain
	}
	taken := map[string]bool{}
	waits := slices.Clone(m.waits)
	slices.SortFunc(waits, (*modelWait).compare)
	for _, o := range waits {
		first := !slices.ContainsFunc(o.keys, func(name string) bool { return taken[name] })
		if (first || o.n == 0) && (w == nil || o.slept) && (o.ctx.Err() == nil || w != nil) && len(o.keys) > 0 {
			if v := m.table.Leaving(o.leave).Foresee(at, o.n, o.keys...); v.Allowed {
				m.fail("call %d waits at %d, though it would be admitted", o.number, at)
			}
		}
		if o.n > 0 {
			for _, name := range o.keys {
				taken[name] = true
			}
		}
	}
}

// drain lets time pass until no call waits any more. Each must be admitted, once its keys have
// their whole quota.
func (m *model) drain() {
	m.l.Close() // its janitor would sweep many times
	for rounds := 2 * len(m.waits); len(m.waits) > 0; rounds-- {
		if rounds == 0 {
			m.fail("call %d still waits: %s(%s, %d), leaving %d", m.waits[0].number, m.waits[0].call, modelKeys(m.waits[0].keys), m.waits[0].n, m.waits[0].leave)
		}
		longest := m.l.current.Load().sweepInterval()
		for _, name := range modelNames() {
			longest = max(longest, m.l.Peek(name, 0).ResetAfter)
		}
		for _, w := range m.waits { // they may share quotas
			longest = max(longest, m.l.PeekAll(w.keys, 0).ResetAfter)
		}
		m.seen = m.seen[:0]
		m.goOn()
		if int64(longest) > math.MaxInt64-m.now() || int64(longest) > math.MaxInt64-m.clock.Now() {
			return // time ends before
		}
		if m.bubbleClock {
			time.Sleep(longest) // of the bubble
		} else {
			m.manual.Advance(longest)
		}
		synctest.Wait()
		m.settle()
	}
}
