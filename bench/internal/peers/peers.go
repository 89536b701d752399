// Package peers adapts sash, and the limiters that compete with it, to one interface. All of
// them do the same job: they decide a call for one unit of one key.
//
// Limiters that ask a server are left out: go-redis/redis_rate, the Redis stores of the
// limiters here, and gubernator. They do another job, and take a thousand times as long.
package peers

import (
	"runtime/debug"
	"time"
)

// A Peer is a limiter to measure.
type Peer struct {
	Name   string // as in impl=
	Clock  string // as in clock=: the clock that each decision reads once
	Module string // its module; empty if it is implemented here
	Keeps  string // its algorithm, and its data structures
	Lacks  string // its shortcomings, in a line
	// Bytes estimates the bytes of one key, with its name. Memory is planned by it. The
	// memory experiment measures the true size.
	Bytes int64
	// Hashes is whether it keeps a hash of the key, and not the key.
	Hashes bool
	// Sweeps is whether it evicts idle keys by itself.
	Sweeps bool
	// Serial is whether one goroutine must add all keys, before any other call.
	Serial bool
	// Free is whether it decides nothing, so that its answers have no meaning.
	Free bool
	New  func(Quota) Table
}

// Label returns the name of a Peer, with its clock if that is not the usual one.
func (p Peer) Label() string {
	if p.Clock == "system" || p.Clock == "none" {
		return p.Name
	}
	return p.Name + ", " + p.Clock
}

// Title returns the name of a Peer for readers, with its clock if that is not the usual one.
func (p Peer) Title() string {
	if title, ok := titles[p.Name]; ok {
		p.Name = title
	}
	return p.Label()
}

// titles are the names that differ from those in impl=, which have no slash.
var titles = map[string]string{
	"sash": "sash, counter", "sash-default": "sash, default", "sash-log": "sash, log", "sash-large": "sash, large",
	"x-time-rate": "x/time/rate", "slidingwindow": "sliding-window",
}

// Own reports whether the Peer is sash.
func (p Peer) Own() bool { return p.Module == module }

// Version returns the version of the Peer's module in this program, or "".
func (p Peer) Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || p.Module == "" {
		return ""
	}
	for _, m := range info.Deps {
		if m.Path == p.Module {
			return m.Version
		}
	}
	return ""
}

// A Table is an instance of a limiter. Its functions except Close are safe for concurrent use.
type Table struct {
	// Allow reports whether one unit of key is admitted, and charges it if so.
	Allow func(key string) bool
	// Take is the same by the call that also returns what is left, or how long to wait. It
	// is nil if the limiter has no such call. Where that is its only call, it is Allow too.
	Take func(key string) bool
	// Compose is Allow of a key that the call puts together of two parts. Each adapter puts them
	// together where it calls its limiter. So the compiler sees whether the key must be allocated. It is
	// nil if the Peer is Free.
	Compose func(first, second string) bool
	// Exhaust charges all remaining units of a tracked key. It is nil if that is impossible.
	Exhaust func(key string)
	// Close ends its goroutines.
	Close func()
}

// A Quota is the limit of every key.
type Quota struct {
	Count  int64
	Window time.Duration
	// Sweep is the interval at which idle keys are evicted; 0 for the limiter's default.
	Sweep time.Duration
	// Keys is how many keys there will be, for peers that must know it; 0 if it is not known.
	Keys int
}

// Plenty is a Quota that is used up only by Exhaust. It does not come back while a program
// runs, since no window ends. No sweep runs during the turn of another contender. Its Count
// is the greatest that fits one word of sash.
var Plenty = Quota{Count: 1<<29 - 1, Window: 1_000_000 * time.Hour, Sweep: 1000 * time.Hour}

// PlentyOf returns Plenty for n keys.
func PlentyOf(n int) Quota {
	q := Plenty
	q.Keys = n
	return q
}

// plenty reports whether q is Plenty, for any number of keys.
func (q Quota) plenty() bool { return q == PlentyOf(q.Keys) }

// refill returns the time in which a token bucket gains a token.
func (q Quota) refill() time.Duration {
	if q.plenty() {
		return q.Window
	}
	return q.Window / time.Duration(q.Count)
}

// Field returns sash with a counter, and all peers.
func Field() []Peer {
	return []Peer{Sash(), goLimiter, xTimeRate, httpRate, ulule, throttledGCRA, slidingWindow}
}

// GoLimiter returns go-limiter.
func GoLimiter() Peer { return goLimiter }

// XTimeRate returns x/time/rate.
func XTimeRate() Peer { return xTimeRate }

// must returns v, and panics on an error. An error of a constructor is a bug in this package.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
