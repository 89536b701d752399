// Package bridge gives other packages of this module what package sashredis does not export.
//
// Package sashredis imports this package and sets its variables when it is initialized. So the
// types of sashredis cannot be named here: a variable that takes or returns one says any.
package bridge

import (
	"context"

	"github.com/seed-30da4c49/sash"
)

var (
	// Script returns the *sashredis.Script with that text.
	Script func(text string) any

	// Each decides a call for n units of each of keys by limiter, a *sashredis.Limiter, all or
	// nothing, and tells what each key says.
	Each func(ctx context.Context, limiter any, op Op, keys []string, n int64) Answer

	// PolicyLimits returns a sashredis.Option: limitsFor gives limits to the keys for which
	// WithLimitsFor gives none, and limits are all that it returns. They are checked when the
	// limiter is made.
	PolicyLimits func(limits [][]sash.Limit, limitsFor func(key string) []sash.Limit) any

	// Inside returns what tests see of a *sashredis.Limiter.
	Inside func(limiter any) Insider
)

// An Insider looks into a Limiter, for tests.
type Insider interface {
	SetLocalClock(sash.Clock)
	Waiting() int
	Flights() int
	Queued(key string) int
	Closed() bool
	FailUse(key string, n int64)
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
	// Next is the decision on one unit more than is left. Its RetryAfter is sash.Never if it is
	// not known.
	Next sash.Decision
	// Commit settles the charge to the units that the call has cost. It is set after a Reserve
	// that was admitted.
	Commit func(ctx context.Context, actual int64) error
}
