package sashredis

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/seed-30da4c49/sash"
)

// A Reservation is a charge that may still change: see [Limiter.Reserve] and [Limiter.WaitReserve]. It may
// be copied; its copies are the same reservation. The zero Reservation, which a call that is denied or
// [sash.Unlimited] returns, settles nothing.
type Reservation struct{ of *reservation }

type reservation struct {
	limiter *Limiter
	charge  // its origins are unknown unless the store has decided
	n       int64
	local   sash.Reservation // of the fallback, if that has decided
	settled atomic.Bool
}

// Reserve takes n units from key, an estimate, as [Limiter.Take] does. It returns a reservation
// to settle, in this process, once the true cost is known; if it is denied, the zero one. What is
// never settled stays charged as estimated.
//
// Giving back undoes the charge where it was recorded: in the window, the bucket, the part or
// the microsecond of the Reserve. So nothing is gained by it, and nothing comes back of units that no
// longer count, or of a key that was reset. Under a [sash.TokenBucket], the key then has what it
// would have if the units had never been charged, or less, if it would have to tell more than 64
// later charges apart. Under a [sash.SlidingLog] or [sash.SlidingBuckets], giving back costs the
// store up to five commands for each binary digit of the units, however many charges came since. Each
// later call on the key costs up to three, for the digits of the most units that it keeps as given back.
//
// Under [sash.AtOnce], the units are held until the reservation is settled or their lease has ended by the
// time of the store. If the answer to a Reserve is lost, they may be held until then.
//
// It costs one round trip. Calls are never decided by the mirror or from a lease. If the fallback
// decides, the reservation is one of the fallback: it settles nothing in the store.
func (l *Limiter) Reserve(ctx context.Context, key string, n int64) (Reservation, Decision) {
	return l.reserve(ctx, key, request{op: reserve, n: n})
}

// ReserveLeaving is [Limiter.Reserve] that is admitted only if at least leave units remain after it, as
// [Limiter.TakeLeaving] is. To settle the reservation, nothing need remain.
func (l *Limiter) ReserveLeaving(ctx context.Context, key string, n, leave int64) (Reservation, Decision) {
	return l.reserve(ctx, key, leaving(reserve, n, leave))
}

// reserve makes the reservation that r asks for.
func (l *Limiter) reserve(ctx context.Context, key string, r request) (Reservation, Decision) {
	var a answer
	t := l.callOne(ctx, key, r, &a)
	return l.reservation(t, 0, &a), a.Decision
}

// reservation returns the reservation of t, the target of that index, by which a admits its call. It is the
// zero one if a admits none, or to no Reserve, or t is unlimited.
func (l *Limiter) reservation(t target, index int, a *answer) Reservation {
	if !a.Allowed || a.call.op != reserve || t.unlimited {
		return Reservation{}
	}
	r := &reservation{limiter: l, charge: charge{target: t}, n: a.call.n}
	if b := a.call.batch; b != nil {
		r.charge = b.views[index].charge(t, reserve, "")
	} else if len(a.local) > 0 {
		r.local = a.local[index]
	}
	return Reservation{r}
}

// Commit settles the reservation to actual units. If that is less than was reserved, the
// difference is given back. If it is more, the difference is charged at the time of the Commit,
// even past the limit, since it has been spent: later calls wait for it. A negative actual counts
// as 0. Only the first Commit, Cancel or Release does anything.
//
// Under [sash.AtOnce], all units that were reserved are given back, whatever was used, and nothing is charged.
//
// It costs one round trip, unless actual is what was reserved and no limit is of units that are held. An
// error that wraps
// [ErrUnavailable], or the error of a ctx that had ended before, means that nothing was sent: the
// reservation may be settled again later. After any other error, the difference may or may not have
// been settled, and it is not sent again. Units that are held may then be held until their lease ends. A
// request whose client has hung up should settle with [context.WithoutCancel].
func (r Reservation) Commit(ctx context.Context, actual int64) error {
	if r.of == nil || r.of.settled.Load() {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("sashredis: Commit of a reservation of key %q: not sent: %w", r.of.name, err)
	}
	if !r.of.settled.CompareAndSwap(false, true) {
		return nil
	}
	left := r.of.n - max(actual, 0)
	if left < 0 && (r.of.most == 0 || !r.of.spends) {
		left = 0 // nothing is ever charged to such a key, or all that is charged is held
	}
	r.of.settleHere(actual)
	if r.of.origins != "" && (left != 0 || r.of.holds && r.of.n > 0) {
		if err := r.of.limiter.settle(ctx, r.of.charge, r.of.n, left); err != nil {
			r.of.settled.Store(!errors.Is(err, ErrUnavailable)) // not sent, so it may be tried again
			return fmt.Errorf("sashredis: Commit of a reservation of key %q: %w", r.of.name, err)
		}
	}
	if r.of.holds {
		r.of.limiter.queues.Free(r.of.name, 0) // a call of this process that waits for the key may go on
	}
	return nil
}

// settleHere settles what the fallback has reserved.
func (r *reservation) settleHere(actual int64) {
	if r.local == (sash.Reservation{}) {
		return
	}
	// What is spent past it may be charged to a share that is not tracked any more.
	r.limiter.borrow([]target{r.target}, func([]string) { r.local.Commit(actual) })
}

// Release is shorthand for Commit of all that was reserved. It is for limits of units that are held at a
// time, as [sash.AtOnce] makes them, which it gives back. The other limits keep their charges. Its errors are
// those of Commit, and it costs one round trip if there is such a limit, and else none.
func (r Reservation) Release(ctx context.Context) error {
	if r.of == nil {
		return nil
	}
	return r.Commit(ctx, r.of.n)
}

// Cancel settles the reservation to nothing: the whole charge is given back.
func (r Reservation) Cancel(ctx context.Context) error { return r.Commit(ctx, 0) }

// settle gives back what is left over of the units of a charge, or charges what was spent past them, if left
// is below 0. Where they are held, it gives back all of them.
func (l *Limiter) settle(ctx context.Context, c charge, units, left int64) error {
	left = max(left, -maxExact)
	v, err := l.change(ctx, c.scripts.settle, c.target, c.scriptLimits(), strconv.FormatInt(left, 10), c.origins, c.token, c.end,
		strconv.FormatInt(units, 10))
	if err == nil {
		l.mirror.settle(c.target, units, left, v)
	}
	return err
}
