// Package bridge is what package httplimit uses of package sash that sash does not
// export. Package sash sets the variables when it is initialized. They say any for
// types of sash, because sash imports this package.
package bridge

// An Inspection is what options of a limiter ask for, as far as httplimit must know.
type Inspection struct {
	// LimitsFor is a func(key string) []sash.Limit that returns the limits which
	// sash.WithLimitsFor gives a key, or none if they are invalid. It is nil if the
	// option is not among the options.
	LimitsFor any
	Observed  bool // whether sash.WithObserver is among the options
}

var (
	// Inspect inspects options, a []sash.Option without nil.
	Inspect func(options any) Inspection

	// RefuseReconfigure returns a sash.Option of a limiter whose Reconfigure does
	// nothing but return err.
	RefuseReconfigure func(err error) any
)
