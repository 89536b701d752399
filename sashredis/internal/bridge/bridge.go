// Package bridge gives other packages of this module what package sashredis does not export.
//
// It is made like the package of that name for sash.
package bridge

import (
	"context"

	"github.com/seed-30da4c49/sash"
)

// Internals are functions of package sashredis. This package cannot name the types of sashredis,
// which imports it. So they are type parameters.
type Internals[Limiter, Option, Script any] struct {
	// Script returns the script with that text.
	Script func(text string) *Script

	// Each decides a call for n units of each of keys, all or nothing, and tells what each key
	// says. Of each key, as many units must remain as leaves has at its index; nil stands for none.
	Each func(l *Limiter, ctx context.Context, op Op, keys []string, n int64, leaves []int64) Answer

	// PolicyLimits returns an option: limitsFor gives limits to the keys for which WithLimitsFor
	// gives none, and limits are all that it returns at first. They are checked when the limiter is made.
	PolicyLimits func(limits [][]sash.Limit, limitsFor func(key string) []sash.Limit) Option

	// CheckLimits returns what is wrong with the limits of a key, or nil.
	CheckLimits func(limits []sash.Limit) error

	// LocalClock returns an option: clock is the time of this process.
	LocalClock func(clock sash.Clock) Option

	// Inside returns what tests see of a limiter.
	Inside func(l *Limiter) Inside

	// FailUse asks the lease of key for n units, again and again, until it has ended.
	FailUse func(l *Limiter, key string, n int64)
}

// internals is a pointer to the Internals of package sashredis.
var internals any

// Export makes i what Of returns. Package sashredis calls it when it is initialized.
func Export[Limiter, Option, Script any](i *Internals[Limiter, Option, Script]) { internals = i }

// Of returns the Internals of package sashredis. It panics if the types are not the ones of sashredis.
func Of[Limiter, Option, Script any]() *Internals[Limiter, Option, Script] {
	return internals.(*Internals[Limiter, Option, Script])
}

// An Inside is what tests see of a Limiter at one moment.
type Inside struct {
	Flights, Waiting int  // keys for which a round trip is under way, and calls that wait for one
	Queued           int  // calls that wait for their keys
	Closed           bool // Close has begun
}

// An Op is what a call does.
type Op uint8

const (
	Take Op = iota
	Peek
	Reserve
)

// An Answer is a sashredis.Decision, with what each key says.
type Answer struct {
	sash.Decision
	By   string
	Err  error
	Keys []KeyAnswer // of the keys of the call, in their order
}

// A KeyAnswer is what one key says, whatever the others say.
type KeyAnswer struct {
	sash.Decision
	// Next is the decision on one unit more than a call can have that is to leave as much. Its Remaining
	// is what such a call can have. Its RetryAfter is sash.Never if it is not known.
	Next sash.Decision
	// Commit settles the charge to the units that the call has cost. It is set after a Reserve
	// that was admitted, and after a Take that was a Reserve.
	Commit func(ctx context.Context, actual int64) error
	// Holds says that the key holds units until the Commit.
	Holds bool
}
