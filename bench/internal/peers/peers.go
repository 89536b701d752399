// Package peers puts the limiters that people might pick instead of sash, and sash
// itself, behind one face, so that all of them do the same job: one unit, for one
// key, now.
//
// Limiters that ask a server are not here: go-redis/redis_rate, the Redis stores of
// those that are, gubernator. They answer another question, in a thousand times the
// time.
package peers

import (
	"runtime/debug"
	"strings"
	"time"
)

// A Peer is a limiter that can be measured.
type Peer struct {
	Name   string // as in impl=
	Clock  string // as in clock=: what it reads, once a decision
	Module string // its module; empty: it is written here
	Keeps  string // the algorithm, and what keys and their state are kept in
	Lacks  string // what it does not do, in a line
	// Bytes is about what one key takes, its name included, by which room is
	// planned. What it takes is measured by the program's experiment on memory.
	Bytes int64
	// Hashes says that it keeps a hash of the key, and not the key.
	Hashes bool
	// Sweeps says that it evicts idle keys by itself.
	Sweeps bool
	// Serial says that keys must be added by one goroutine, and before all else.
	Serial bool
	// Free says that it decides nothing, so that its answers say nothing.
	Free bool
	New  func(Quota) Table
}

// Label names a Peer and its clock, where there is one of that name with another.
func (p Peer) Label() string {
	if p.Clock == "system" || p.Clock == "none" {
		return p.Name
	}
	return p.Name + ", " + p.Clock
}

// Version returns the version of the Peer's module in this program.
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

// A Table is a limiter at work. All but Close may be called by several goroutines.
type Table struct {
	// Allow charges one unit to key, if it is admitted.
	Allow func(key string) bool
	// Exhaust charges all that is left of a tracked key. Nil: it cannot.
	Exhaust func(key string)
	// Close ends its goroutines.
	Close func()
}

// A Quota is what every key may spend.
type Quota struct {
	Count  int64
	Window time.Duration
	// Sweep is how often idle keys are evicted; 0 leaves that to the limiter.
	Sweep time.Duration
}

// Plenty is a Quota that nobody uses up, unless by Exhaust, and that does not come
// back while a program runs: no window of it ends, and nobody sweeps while others take
// their turns. It is the most that one word of sash holds.
var Plenty = Quota{Count: 1<<29 - 1, Window: 1_000_000 * time.Hour, Sweep: 1000 * time.Hour}

// refill returns how long a bucket of tokens waits for the next one.
func (q Quota) refill() time.Duration {
	if q == Plenty {
		return q.Window
	}
	return q.Window / time.Duration(q.Count)
}

// Field returns sash as it is by default, and all peers.
func Field() []Peer {
	return []Peer{Sash(), goLimiter, xTimeRate, httpRate, ulule, throttledGCRA, slidingWindow}
}

// Named returns the peers of that name, whatever their clocks.
func Named(all []Peer, name string) (found []Peer) {
	for _, p := range all {
		if strings.EqualFold(p.Name, name) {
			found = append(found, p)
		}
	}
	return found
}

// must returns v. An error of a constructor here is a mistake in this package.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
