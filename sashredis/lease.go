package sashredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v3"
	"golang.org/x/sync/errgroup"

	"github.com/seed-30da4c49/sash"
)

// lessees hands out units that the store has leased to this process, and gives back those that
// are not used.
//
// A lease ends with the window, bucket or part in which the store has charged it, at the latest time
// that the store's clock may show. So at each use, the exact rule fed with the uses alone would
// have admitted it:
//   - A counter: the uses in a window are at most the units charged in it. These fitted at the last
//     charge, and since then the window before only counts for less.
//   - Buckets and parts: the uses in each of them are at most the units charged in it.
//   - A token bucket: until the lease ends, it lacks at least the leased units. Its lack is then
//     never less than the sum of two others: the lack by the uses alone, and the leased units that
//     are not used yet. A charge adds its units to the lack and to the sum. A use leaves both as
//     they are. The flow lowers both at the same rate, until the lack by the uses is 0; from then
//     on the sum stays, and the lack is at least the leased units.
type lessees struct {
	*Limiter
	byKey *xsync.MapOf[string, *lessee]

	// run, requests for leases that are under way, and units that are being given back. None begins
	// for a lessee that is removed, but for units of such a request.
	underway sync.WaitGroup
}

// A lessee is what this process knows of the demand for one key, and its lease.
type lessee struct {
	target
	lease atomic.Pointer[lease] // nil: none; set with mu held

	mu      sync.Mutex // guards the fields below
	since   int64      // the local instant from which on units are counted
	units   int64      // used since then
	lastEnd int64      // the end of the latest lease in the store, in microseconds
	removed bool       // from the map: it gets no lease any more
}

// A lease is units that the store has charged ahead of their use.
//
// left is the units that are not used. A use swaps it for less. The goroutine that ends the
// lease swaps it for a number below 0, under which no use succeeds, and so learns what was left.
type lease struct {
	charge
	granted int64
	unused  int64 // set when it ends
	until   int64 // the local instant from which on no unit may be used

	decision sash.Decision // of the store when the lease was granted
	resetAt  int64         // on the local clock

	_    [64]byte // left is in a cache line of its own: each use writes it, and reads the fields above
	left atomic.Int64
	_    [56]byte
}

const ended = -1

// take takes n units from a lease, and sets d to the decision. It reports whether there are that many.
func (s *lessees) take(t *target, n int64, d *Decision) bool {
	e, known := s.byKey.Load(t.name)
	if !known || e.limits != t.limits {
		return false
	}
	b, now := e.lease.Load(), s.quick.Now()
	if b != nil && now >= b.until-maxLate { // the reading may be late, and the lease over
		now = s.local.Now()
	}
	if b == nil || now >= b.until {
		return false
	}
	left, ok := b.use(n)
	if !ok {
		return false
	}
	d.Decision, d.By = b.decision, ByLease
	d.Remaining += left
	d.ResetAfter = time.Duration(max(b.resetAt-now, 0))
	return true
}

// has reports whether that many units of a lease of t are left. The lease may be over.
func (s *lessees) has(t *target, n int64) bool {
	e, known := s.byKey.Load(t.name)
	if !known || e.limits != t.limits {
		return false
	}
	b := e.lease.Load()
	return b != nil && b.left.Load() >= n
}

// use takes n units, n > 0, and returns how many are left. It reports whether there were that many.
// It tries again if another call swaps left first. Each of these has used units of the
// lease, or ended it, so it tries no more often than the lease has units.
func (b *lease) use(n int64) (left int64, ok bool) {
	for {
		left = b.left.Load()
		if left < n {
			return 0, false
		}
		if b.left.CompareAndSwap(left, left-n) {
			return left - n, true
		}
	}
}

// A wanted is a request for a lease.
type wanted struct {
	of     *lessee
	length time.Duration
	text   string // as the script reads it
}

// want returns the request for a lease that b makes; nil for none. No other batch of the key is
// under way. Once the request has ended, the caller must call s.underway.Done.
func (s *lessees) want(b *batch) *wanted {
	t := b.targets[0]
	now, length := s.local.Now(), min(s.leaseFor, t.leaseFor)
	asked, largest := b.asks(t.ruleset)
	if asked == 0 || length < time.Millisecond || s.closing.Err() != nil {
		return nil // a shorter lease would be over before it was used
	}
	e := s.lessee(t)
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.removed || s.closing.Err() != nil {
		return nil // again: close has not seen a lessee that is newer than it
	}
	if held := e.lease.Load(); held != nil {
		if now < held.until && (largest > held.granted || largest <= held.left.Load()) {
			return nil // it is for smaller calls, or began while these waited
		}
		s.retire(e)
	}
	before := e.rescale(now, length)
	if before == 0 {
		return nil // one call is no demand yet
	}
	// What is used in the length of a lease, but not much more than was ever used.
	used := float64(before + asked)
	rate := used / float64(max(now-e.since, int64(time.Millisecond)))
	units := min(rate*float64(length), 3*used, float64(s.Limiter.lease))
	if units < 2 {
		return nil
	}
	s.underway.Add(1) // e is locked and not removed, so close does not wait yet
	text := fmt.Sprintf("%d %d %d", int64(units), length.Microseconds(), e.lastEnd)
	return &wanted{e, length, text}
}

// used counts the units that the store has charged for calls of b that a lease might have admitted.
func (s *lessees) used(b *batch) {
	units := int64(0)
	for _, c := range b.calls {
		if c.admitted && c.leases() {
			units += c.n
		}
	}
	t := &b.targets[0]
	if e, known := s.byKey.Load(t.name); known && units > 0 && e.limits == t.limits {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.units = min(e.units+units, maxExact)
	}
}

// lessee returns the lessee of t; nil if there are too many.
func (s *lessees) lessee(t target) *lessee {
	const most = 1 << 16 // the janitor removes those that have become idle
	e, known := s.byKey.Load(t.name)
	switch {
	case known && e.limits == t.limits:
		return e
	case !known && s.byKey.Size() >= most:
		return nil
	case known: // its limits have changed
		e.mu.Lock()
		s.remove(e)
		e.mu.Unlock()
	}
	t.name, t.tag = strings.Clone(t.name), strings.Clone(t.tag) // see mirror.store
	e, _ = s.byKey.LoadOrStore(t.name, &lessee{target: t, lastEnd: -1})
	if e.limits != t.limits { // the limits of another call that was first
		return nil
	}
	return e
}

// rescale forgets what was used longer ago than twice the length of a lease, in proportion, and
// returns the units that are left. e must be locked.
func (e *lessee) rescale(now int64, length time.Duration) (units int64) {
	if elapsed := now - e.since; elapsed > 2*int64(length) {
		e.units = int64(float64(e.units) * float64(length) / float64(elapsed))
		e.since = now - int64(length)
	}
	return e.units
}

// retire ends the lease of e, which must be locked and not removed, and has what was not used given
// back.
func (s *lessees) retire(e *lessee) {
	if held := e.endLease(); held != nil {
		s.underway.Go(func() { s.giveBack(held) })
	}
}

// endLease ends the lease of e, which must be locked. It returns the lease if units of it were not
// used, and else nil.
func (e *lessee) endLease() *lease {
	held := e.lease.Swap(nil)
	if held == nil {
		return nil
	}
	// A call that has loaded the lease before may still use units until left is swapped.
	held.unused = max(held.left.Swap(ended), 0)
	e.units = min(e.units+held.granted-held.unused, maxExact)
	if held.unused == 0 {
		return nil
	}
	return held
}

// giveBack gives back the unused units of a lease that has ended. If that fails, they lapse with the
// window or bucket in which they were charged.
func (s *lessees) giveBack(held *lease) (err error) {
	defer recoverConn(&err)
	if err = s.settle(context.Background(), held.charge, held.granted, held.unused); err == nil {
		s.stats.returned.Add(held.unused)
	}
	return err
}

// grant begins the lease of units that the store has granted until end, in microseconds. That is the end
// of all leases of the key at that time: another process may lease for longer than this one wants. v is
// the state of t, the key, with all that was charged. grant notes the lease in it.
func (s *lessees) grant(w *wanted, t target, v *view, units, end int64) {
	until := min(end*microsecond, v.at+int64(w.length))
	for i := range v.states {
		s := &v.states[i]
		if s.leaseEnd <= v.at {
			s.leased = 0 // of a lease that is over
		}
		s.leased, s.leaseEnd = s.leased+units, end*microsecond
		until = min(until, t.rules[i].periodEnd(*s))
	}
	b := basis{view: v, ruleset: t.ruleset, now: v.at}
	length := until - v.at // by the store's clock, which may run faster than the local one
	held := &lease{
		charge: v.charge(w.of.target, take, strconv.FormatInt(end, 10)), decision: b.left(),
		granted: units, unused: units, until: v.sent + length - length/maxDrift - 1,
	}
	held.resetAt = v.received + int64(held.decision.ResetAfter)
	held.left.Store(units)
	s.stats.leased.Add(units)
	w.of.mu.Lock()
	defer w.of.mu.Unlock()
	w.of.lastEnd = end
	if w.of.removed { // during the request: no call would give back what is not used
		s.underway.Go(func() { s.giveBack(held) }) // the request is under way, so close waits for this, too
		return
	}
	w.of.lease.Store(held)
}

// drop ends the lease of t without giving anything back, unless that is of another count of the key.
func (s *lessees) drop(t target) {
	if e, known := s.byKey.Load(t.name); known && e.suffix == t.suffix {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.endLease()
	}
}

// remove removes e, which must be locked, from the map, and ends its lease.
func (s *lessees) remove(e *lessee) {
	if e.removed {
		return
	}
	s.retire(e)
	e.removed = true
	s.byKey.Delete(e.name) // no other lessee of the key was stored before
}

// run ends leases whose time is over, and removes keys that are not used any more, until Close.
func (s *lessees) run() {
	ticker := time.NewTicker(max(s.leaseFor/2, 10*time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-s.closing.Done():
			return
		case <-ticker.C:
			s.byKey.Range(func(_ string, e *lessee) bool {
				s.sweep(e, s.local.Now())
				return s.closing.Err() == nil
			})
		}
	}
}

// sweep ends the lease of e if its time is over. Without a lease and recent calls, e is removed.
func (s *lessees) sweep(e *lessee, now int64) {
	e.mu.Lock()
	var over *lease
	if held := e.lease.Load(); held != nil && now >= held.until {
		over = e.endLease()
	}
	if e.lease.Load() == nil && e.rescale(now, min(s.leaseFor, e.leaseFor)) == 0 {
		s.remove(e)
	}
	e.mu.Unlock()
	if over != nil {
		_ = s.giveBack(over) // one after the other: they may be many
	}
}

// close ends all leases, and then gives back what was not used, some at a time, until as many calls
// have failed as open the breaker. It returns when no units are on their way any more.
func (s *lessees) close() error {
	var all []*lease
	s.byKey.Range(func(_ string, e *lessee) bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.removed = true // so it gets no lease any more
		if held := e.endLease(); held != nil {
			all = append(all, held)
		}
		return true
	})

	const together = 64
	var calls errgroup.Group
	calls.SetLimit(together)
	var mu sync.Mutex
	var errs []error // guarded by mu
	for _, held := range all {
		mu.Lock()
		hopeless := len(errs) >= s.failures
		mu.Unlock()
		if hopeless {
			break
		}
		calls.Go(func() error {
			if err := s.giveBack(held); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("sashredis: Close: key %q: %w", held.name, err))
			}
			return nil
		})
	}
	_ = calls.Wait()  // the errors are in errs
	s.underway.Wait() // for units that are given back elsewhere, and for requests for leases
	return errors.Join(errs...)
}
