package peers

import (
	"math"
	"time"

	"github.com/seed-30da4c49/sash"
)

const module = "github.com/seed-30da4c49/sash"

// Sash returns sash with a counter and the clock that is the default.
func Sash() Peer { return counter("system", sash.SystemClock()) }

// Default returns sash with the default algorithm, parts.
func Default() Peer {
	return Peer{
		Name: "sash-default", Clock: "system", Module: module, Bytes: 90, Sweeps: true,
		Keeps: "parts, the default, of the greatest Count of their smaller entries; 256 maps of cache lines, read without a lock",
		Lacks: "50:50 and denied out of plenty: what is used up comes back in a short window",
		New: func(q Quota) Table {
			if !q.plenty() {
				return start(sash.Per(q.Count, q.Window), q, sash.SystemClock())
			}
			t := start(RollingParts(max(1, q.Keys)), q, sash.SystemClock())
			t.Exhaust = nil
			return t
		},
	}
}

// RollingParts returns the default limit of as many units as its smaller entries count, whose window
// is so short that calls for n keys cannot use them up. Nearly all calls are in the current part of a key.
func RollingParts(n int) sash.Limit { return sash.Per(1<<16-1, time.Duration(n)*time.Millisecond) }

// Variants returns sash with other settings: with a coarse clock, with an exact log, and with
// a limit that is too large for one word.
func Variants() []Peer {
	return []Peer{
		counter("coarse", sash.CoarseClock(time.Millisecond)),
		{
			Name: "sash-log", Clock: "system", Module: module, Bytes: 280, Sweeps: true,
			Keeps: "exact sliding log; 256 maps of cache lines, read without a lock",
			Lacks: "50:50 and denied out of plenty: a log of that many units would not fit into memory",
			New:   log,
		},
		{
			Name: "sash-large", Clock: "system", Module: module, Bytes: 140, Sweeps: true,
			Keeps: "the counter, of a limit larger than one word holds",
			New: func(q Quota) Table {
				limit := sash.Per(q.Count, q.Window).Counter()
				if q.plenty() {
					limit = sash.PerHour(1e12).Counter()
				}
				return start(limit, q, sash.SystemClock())
			},
		},
	}
}

func counter(name string, clock sash.Clock) Peer {
	return Peer{
		Name: "sash", Clock: name, Module: module, Bytes: 70, Sweeps: true,
		Keeps: "two-counter sliding window in one atomic word; 256 maps of cache lines, read without a lock",
		New: func(q Quota) Table {
			limit := sash.Per(q.Count, q.Window).Counter()
			if q.plenty() {
				limit.Window = math.MaxInt64
			}
			return start(limit, q, clock)
		},
	}
}

func log(q Quota) Table {
	if !q.plenty() {
		return start(sash.Per(q.Count, q.Window).Log(), q, sash.SystemClock())
	}
	// The units admitted in a longer window would not fit into memory.
	t := start(sash.Per(q.Count, 10*time.Microsecond).Log(), q, sash.SystemClock())
	t.Exhaust = nil
	return t
}

func start(limit sash.Limit, q Quota, clock sash.Clock) Table {
	l := sash.Must(sash.New(limit, sash.WithClock(clock), sash.WithSweepInterval(q.Sweep)))
	return Table{
		Allow:   l.Allow,
		Compose: func(first, second string) bool { return l.Allow(first + second) },
		Take:    func(key string) bool { return l.Take(key, 1).Allowed },
		Exhaust: func(key string) { l.Take(key, l.Peek(key, 0).Remaining) },
		Close:   func() { l.Close() },
	}
}
