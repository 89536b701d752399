package httplimit

import (
	"errors"
	"fmt"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// Reconfigure replaces the policies while requests are decided. No request is decided by some of the
// former policies and some of the new: its policies, their limits, its headers and its events are all of
// one configuration. A request that arrives after Reconfigure has returned is decided by the new one.
//
// Policies are the same if their Name is. A policy that stays keeps its counts, even if its Limits, its
// Pattern or anything else of it changes. How counts carry over to other limits is told by
// [sash.Limiter.Reconfigure]. The same holds for each of its Plans. A policy that is gone is forgotten
// with its counts and with the limits that keys were given by [sash.Limiter.SetLimits]. If it comes
// again, it begins anew. The limits of SetLimits for keys of policies that stay also stay.
//
// Reconfigure first validates all policies, as [New] does. The error lists all faults, and wraps the same
// errors. On an error, nothing has changed.
//
// Requests go on in the meantime, with two exceptions:
//   - While Reconfigure exchanges the policies, new requests wait for some microseconds: until the
//     requests that are being charged are decided.
//   - A request that has called the Key and Cost of the former policies, and is not charged yet, starts
//     over. So each Reconfigure may call these functions once more for it. After it has started over four
//     times, the next Reconfigure waits until these functions have returned. So they must not call
//     Reconfigure. A request that waits in a [Queue] starts over, too. It keeps its deadline, and mostly
//     its place.
//
// A request that was charged before the exchange is settled by the policy that charged it.
//
// Reconfigure takes about a microsecond for each tracked key. Until it returns, the keys take up to twice
// their memory. The function of sash.WithLimitsFor, if [WithSash] was given one, is asked for every
// tracked key. It must not change the limits of [Limiter.Sash] then. WithSash says what else it and the
// function of sash.WithObserver must not do.
//
// With [WithStore], the policies of this process are replaced, and the counts stay in the store: reconfigure each
// process. Until then, the others decide by their own policies, on the same counts. What a policy keeps of its
// counts when its limits change is for the store to say, as sashredis.WithLimitsFor does. A policy that comes again
// finds what the store still has of it. Requests that the store is deciding keep new ones waiting, for as long as
// it takes.
//
// Reconfigure may be called by several goroutines. The last to begin may not be the last to take effect.
func (l *Limiter) Reconfigure(policies ...Policy) error {
	c := l.config // a copy, with the policies and faults of this call
	c.policies, c.faults = policies, nil
	c.reviewPolicies("Reconfigure")
	if err := errors.Join(c.faults...); err != nil {
		return err
	}
	l.reconfiguring.Lock()
	defer l.reconfiguring.Unlock()
	// The table does not change now, so numbers of policies that stay can be taken from it.
	next := newTable(&c, l.table.Load())
	if l.store != nil {
		if err := l.checkLimits(next); err != nil {
			return err
		}
		// The store finds the limits of a key in the table. No call is in the store when it changes.
		l.exchange(next, func() bool { return true })
		return nil
	}
	internals.Reconfigure(l.limiter, bridge.Setup[sash.Limit]{
		Limits:        next.base.Limits,
		LimitsFor:     next.limitsFor,
		SweepInterval: next.sweepInterval(l.sweepInterval),
		NoReconfigure: next.refusal(),
	}, func(publish func() bool) { l.exchange(next, publish) })
	// Drop the limits that SetLimits has given to keys of policies that are gone. Before the exchange,
	// these may still decide requests.
	internals.KeysWithLimits(l.limiter, func(key string) bool {
		if next.gone(key) {
			_ = l.limiter.SetLimits(key) // without limits, it never fails: limitsFor returns right ones
		}
		return true
	})
	return nil
}

// checkLimits returns why the store refuses limits of next, if it does.
func (l *Limiter) checkLimits(next *table) error {
	store, ok := l.store.(interface{ CheckLimits([]sash.Limit) error })
	if !ok {
		return nil
	}
	var faults []error
	for _, p := range next.variants {
		if err := store.CheckLimits(p.Limits); err != nil {
			faults = append(faults, fmt.Errorf("httplimit: policy %q: %w", p.Name, err))
		}
	}
	return errors.Join(faults...)
}

// exchange makes next the table at the instant at which publish, which publishes the limits of next,
// reports true. If it reports false, nothing has changed.
func (l *Limiter) exchange(next *table, publish func() bool) {
	l.sections.close()
	defer func() {
		l.sections.open(l.table.Load())
		if l.table.Load() == next {
			// Requests that wait in a Queue start over, one after the other. The sections are open again,
			// so however many wait, no other request waits for them. All that have the former table have
			// entered by now, and go to sleep before they begin again. So each of them is woken.
			l.waits.ChangeAll()
		}
	}()
	// No call is in a section, and none begins one. Those that arrive wait. Others go on to run functions
	// of the former policies, and find that they must start over when they try to begin one.
	if publish() {
		// The limits of next are in force already. Only a call that uses Sash itself can tell.
		l.table.Store(next)
	}
}
