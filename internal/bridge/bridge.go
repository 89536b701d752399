// Package bridge gives packages httplimit and sashredis the parts of package sash that sash
// does not export.
//
// Package sash imports this package and sets its variables when it is initialized. So
// the types of sash cannot be named here: a variable that takes or returns one says any.
package bridge

import (
	"time"
	"unsafe"
)

// An Inspection is the part of a limiter's options that httplimit must know.
type Inspection struct {
	// LimitsFor is the func(key string) []sash.Limit of sash.WithLimitsFor, nil if that is
	// not among the options. It may return wrong limits.
	LimitsFor any
	// Limits reports whether any of the options is a limit, or gives some.
	Limits bool
	// SweepInterval is that of sash.WithSweepInterval, 0 if that is not among the options.
	SweepInterval time.Duration
	// ChargeDenied reports whether sash.WithChargeDenied is among the options.
	ChargeDenied bool
}

// A Setup is what Reconfigure replaces.
type Setup struct {
	Limits        any           // the limiter's own limits, a valid []sash.Limit
	LimitsFor     any           // as of sash.WithLimitsFor, a func(key string) []sash.Limit; nil: none
	SweepInterval time.Duration // as of sash.WithSweepInterval; it neither starts nor ends a janitor
	NoReconfigure error         // as of RefuseReconfigure; nil: Reconfigure is allowed
}

// Method is the key under which the context of an outgoing RPC has the name of its method.
type Method struct{}

var (
	// Inspect inspects options, a []sash.Option without nil.
	Inspect func(options any) Inspection

	// LimitFaults returns every fault of limits, a []sash.Limit. Each error begins with
	// the number of its limit, from 1, and wraps sash.ErrInvalidLimit.
	LimitFaults func(limits any) []error

	// RefuseReconfigure returns a sash.Option of a limiter whose Reconfigure returns err
	// and changes nothing.
	RefuseReconfigure func(err error) any

	// Reconfigure gives limiter, a *sash.Limiter, another Setup. It is
	// sash.Limiter.Reconfigure, but the limits of keys that were charged before follow the
	// new Setup, too, unless sash.Limiter.SetLimits has set them. A key that is Unlimited from
	// now on, or has wrong limits, is not tracked any more.
	//
	// Reconfigure calls switchOver, which calls publish once. publish makes the new Setup
	// hold, at one instant and without waiting. It reports false, and has done nothing, if
	// another change of the limiter is going on. Then Reconfigure waits for that, and calls
	// switchOver again. When publish has reported true, the keys are still to be moved.
	Reconfigure func(limiter any, to Setup, switchOver func(publish func() bool))

	// KeysWithLimits calls yield for each key that SetLimits has given limits in limiter, a
	// *sash.Limiter, until yield returns false. A key that SetLimits is called for meanwhile may be
	// among them or not.
	KeysWithLimits func(limiter any, yield func(key string) bool)

	// SweepInterval returns how often the janitor sweeps keys whose longest window is
	// longest.
	SweepInterval func(longest time.Duration) time.Duration

	// Seed gives a key of limiter, a *sash.Limiter, an entry with charges of the past, unless
	// it has one. past returns the charges under each limit of the key but Unlimited, oldest
	// first. It may be called several times, or not at all.
	Seed func(limiter any, key string, past func() [][]Charge)

	// After returns a channel that is closed once clock, a sash.Clock, shows that instant. It
	// works on a sash.ManualClock, too. stop frees what it uses.
	After func(clock any, at int64) (due <-chan struct{}, stop func())
)

// A Charge is units charged at an instant.
type Charge struct{ At, Units int64 }

// AsString returns b as a string without copying it. The bytes must not be changed
// while the string is in use.
func AsString(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
