// Package bridge gives packages httplimit and sashredis the parts of package sash that sash
// does not export.
package bridge

import (
	"context"
	"time"
	"unsafe"
)

// Internals are functions of package sash. This package cannot name the types of sash, which
// imports it. So they are type parameters.
type Internals[Limiter, Option, Limit, Clock, Decision, Reservation any] struct {
	// Inspect inspects options. None of them may be nil.
	Inspect func(options []Option) Inspection[Limit]

	// LimitFaults returns every fault of limits. Each error begins with the number of its limit,
	// from 1, and wraps sash.ErrInvalidLimit.
	LimitFaults func(limits []Limit) []error

	// LimitsKey returns a text that no other limits have, in this process.
	LimitsKey func(limits []Limit) string

	// RefuseReconfigure returns the option of a limiter whose Reconfigure returns err and
	// changes nothing.
	RefuseReconfigure func(err error) Option

	// Reconfigure gives l another Setup. It is sash.Limiter.Reconfigure, but the limits of keys
	// that were charged before follow the new Setup, too, unless sash.Limiter.SetLimits has set
	// them. A key that is Unlimited from now on, or has wrong limits, is not tracked any more.
	//
	// Reconfigure calls switchOver, which calls publish once. publish makes the new Setup
	// hold, at one instant and without waiting. It reports false, and has done nothing, if
	// another change of the limiter is going on. Then Reconfigure waits for that, and calls
	// switchOver again. When publish has reported true, the keys are still to be moved.
	Reconfigure func(l *Limiter, to Setup[Limit], switchOver func(publish func() bool))

	// KeysWithLimits calls yield for each key that SetLimits has given limits in l, until yield
	// returns false. A key that gets limits during the call may be among them or not.
	KeysWithLimits func(l *Limiter, yield func(key string) bool)

	// SweepInterval returns how often the janitor sweeps keys whose longest window is
	// longest.
	SweepInterval func(longest time.Duration) time.Duration

	// Seed makes pasts count for a key of l: one of each of its limits but Unlimited, in their order. Units
	// are charged under each limit by itself, so that no more remain than its Past leaves. If the key has no
	// entry, it gets one, and Charges date the units. If it has one, what it was charged counts as a part of
	// its past, and more units are dated now. It gets none if l has no room, or nothing is ever charged.
	Seed func(l *Limiter, key string, pasts []Past[Limit])

	// Follow gives a tracked key of l limits, unless it has them. They are what the function of sash.WithLimitsFor
	// returns for it now, and none is Unlimited. SetLimits must not be used on l.
	Follow func(l *Limiter, key string, limits []Limit)

	// TakeAllOn is sash.Limiter.TakeAll on Terms for each key, at its index. No two keys are the same, and
	// there is at least one. It also returns the limits that the charge has crossed.
	TakeAllOn func(l *Limiter, keys []string, terms []Terms, n int64) (Decision, []Crossing[Limit])

	// ReserveAllOn is sash.Limiter.ReserveAll on Terms as for TakeAllOn.
	ReserveAllOn func(l *Limiter, keys []string, terms []Terms, n int64) ([]Reservation, Decision, []Crossing[Limit])

	// TakeHolding is sash.Limiter.TakeLeaving. If units of the key are held at a time, it also returns the
	// reservation of what it has charged, as by sash.Limiter.ReserveLeaving: so by the limits that have decided,
	// even if they have just changed. If next is not nil, it may set it as sash.Limiter.TakeThenPeek does.
	TakeHolding func(l *Limiter, key string, n, leave int64, next *Decision) (Reservation, Decision)

	// TakeAllHolding is TakeAllOn, or sash.Limiter.TakeAll if terms is nil. If units of any of the keys are held,
	// it also returns reservations as ReserveAllOn: the zero one of each other key.
	TakeAllHolding func(l *Limiter, keys []string, terms []Terms, n int64) ([]Reservation, Decision, []Crossing[Limit])

	// CommitNear is sash.Reservation.Commit. It returns the limits that units beyond the reservation have
	// crossed, for a percentage as in Terms.
	CommitNear func(r Reservation, actual, near int64) (crossed []Limit)

	// PeekAllOn returns the decision that TakeAllOn would return, as after the charge.
	PeekAllOn func(l *Limiter, keys []string, terms []Terms, n int64) Decision

	// PeekLeaving returns the decision that sash.Limiter.TakeLeaving would return, as after the charge.
	PeekLeaving func(l *Limiter, key string, n, leave int64) Decision

	// NextLeaving returns the decision on no unit of key, and the decision on one unit more than a call
	// that leaves units can have. It charges nothing. The second may be allowed by what has happened since
	// the first, as in sash.Limiter.TakeThenPeek.
	NextLeaving func(l *Limiter, key string, leave int64) (now, next Decision)

	// Held reports whether the units of a reservation are held until it is settled, as sash.AtOnce limits them.
	Held func(r Reservation) bool

	// WaitHolding is sash.Limiter.WaitReserve if units of key are held at a time when the call is admitted,
	// and else sash.Limiter.Wait, which returns the zero Reservation.
	WaitHolding func(l *Limiter, ctx context.Context, key string, n int64) (Reservation, error)

	// SureWait returns how long a call for n units of key, which must leave more units, has to wait at
	// least, whatever units that are held are given back.
	SureWait func(l *Limiter, key string, n, leave int64) time.Duration

	// LeastWait returns how long a sash.Limiter.Wait for n units of key lasts at least, whatever units that
	// are held are given back, or the error of one that is never admitted. It charges nothing.
	LeastWait func(l *Limiter, key string, n int64) (time.Duration, error)

	// PeekUncharged returns the decision that sash.Limiter.Peek would return if denied calls were charged
	// nothing.
	PeekUncharged func(l *Limiter, key string, n int64) Decision

	// LimitsFault returns what is wrong with the limits of key, or nil.
	LimitsFault func(l *Limiter, key string) error

	// After returns a channel that is closed once clock shows that instant. It works on a
	// sash.ManualClock, too. stop frees what it uses.
	After func(clock Clock, at int64) (due <-chan struct{}, stop func())
}

// internals is a pointer to the Internals of package sash.
var internals any

// Export makes i what Of returns. Package sash calls it when it is initialized.
func Export[Limiter, Option, Limit, Clock, Decision, Reservation any](i *Internals[Limiter, Option, Limit, Clock, Decision, Reservation]) {
	internals = i
}

// Of returns the Internals of package sash. It panics if the types are not the ones of sash.
func Of[Limiter, Option, Limit, Clock, Decision, Reservation any]() *Internals[Limiter, Option, Limit, Clock, Decision, Reservation] {
	return internals.(*Internals[Limiter, Option, Limit, Clock, Decision, Reservation])
}

// Terms are the terms of a charge to one key.
type Terms struct {
	// Leave is how many units must remain after the charge, under each limit of the key.
	Leave int64

	// Near is a percentage of each limit of the key. The charge crosses a limit if that much or more remains
	// of it before the charge, and less after it. 0 means that none is told.
	Near int64
}

// Leaving returns terms of a charge that must leave as many units of each key as units says at its index.
func Leaving(units []int64) (terms []Terms) {
	for _, n := range units {
		terms = append(terms, Terms{Leave: n})
	}
	return terms
}

// A Crossing is a limit that a charge has crossed, and the index of its key among those of the call.
type Crossing[Limit any] struct {
	Key   int
	Limit Limit
}

// An Inspection is the part of a limiter's options that httplimit must know.
type Inspection[Limit any] struct {
	// LimitsFor is the function of sash.WithLimitsFor, nil if that is not among the options. It
	// may return wrong limits.
	LimitsFor func(key string) []Limit
	// Limits reports whether any of the options is a limit, or gives some.
	Limits bool
	// SweepInterval is the interval of sash.WithSweepInterval, 0 if that is not among the options.
	SweepInterval time.Duration
	// ChargeDenied reports whether sash.WithChargeDenied is among the options.
	ChargeDenied bool
}

// A Setup is what Reconfigure replaces.
type Setup[Limit any] struct {
	Limits        []Limit                  // the limiter's own limits, which are valid
	LimitsFor     func(key string) []Limit // as of sash.WithLimitsFor; nil: none
	SweepInterval time.Duration            // as of sash.WithSweepInterval; it neither starts nor ends a janitor
	NoReconfigure error                    // as of RefuseReconfigure; nil: Reconfigure is allowed
}

// A Charge is units charged at an instant.
type Charge struct{ At, Units int64 }

// A Past is what a key was charged under a limit in another place.
type Past[Limit any] struct {
	Limit   Limit
	Charges []Charge // oldest first
	Left    int64    // the units that remain under the limit, at least 0
}

// Method is the key under which the context of an outgoing RPC has the name of its method.
type Method struct{}

// AsString returns b as a string without copying it. The bytes must not be changed
// while the string is in use.
func AsString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
