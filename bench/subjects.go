package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/bench/internal/keys"
	"github.com/seed-30da4c49/sash/bench/internal/peers"
)

// A subject is one way to call a limiter. It calls for each key in a loop of its own, so that
// no other call is timed with it.
type subject struct {
	name    string
	limiter *sash.Limiter // nil if it is another's
	calls   func(keys []string) (admitted int64)
	// denies is whether every call is denied. Otherwise every call is admitted.
	denies bool
	// inserts is whether it is called for keys that are not tracked.
	inserts bool
	// composed is whether the calls put their keys together.
	composed bool
}

// The limits of the subjects. Subjects are counters unless their names say otherwise.
var (
	oneWord      = []sash.Limit{sash.PerDay(2_000_000).Counter()}
	large        = []sash.Limit{sash.PerDay(1 << 30).Counter()} // does not fit into one word
	twoCounters  = []sash.Limit{sash.PerHour(2_000_000).Counter(), sash.PerDay(2_000_000).Counter()}
	fourCounters = append(slices.Clone(twoCounters), sash.Per(4_000_000, 30*24*time.Hour).Counter(), sash.Per(8_000_000, 365*24*time.Hour).Counter())
	parts        = []sash.Limit{sash.PerHour(100)}                             // the default
	bucket       = []sash.Limit{sash.PerDay(2_000_000).TokenBucket(1_000_000)} // fits into one word
	smallBucket  = []sash.Limit{sash.PerHour(10).TokenBucket(10)}
	smallLog     = []sash.Limit{sash.PerHour(10).Log()}
)

// rollingLog returns a log of 10 units, whose window is so short that calls for n keys, two of
// them at once and without a pause, get their units back as fast as they charge them: about
// five units of a key are in its window.
func rollingLog(n int) sash.Limit {
	return sash.Per(10, time.Duration(n)*60*time.Nanosecond).Log()
}

// A stage is the subjects of a measurement, with their limiters.
type stage struct {
	ctx      context.Context
	keys     int // the number of tracked keys
	subjects []subject
	closers  []func()
}

// few is the greatest number of keys with which every subject is measured, by limiters that
// last for one round. More keys take seconds to insert.
const few = 1000

// newStage makes limiters that track n keys. Its error is the error of the context.
func newStage(ctx context.Context, n int) (*stage, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	s := &stage{ctx: ctx, keys: n}
	one, two := s.tracking(1, "", oneWord), s.tracking(1, "", twoCounters)
	s.addBoth("", one)
	s.addBoth(", large", s.tracking(1, "", large))
	s.addBoth(", two limits", two)
	s.addBoth(", parts", s.tracking(1, "", []sash.Limit{peers.RollingParts(n)}))
	s.addBoth(", log", s.rolling(""))
	s.addBoth(", bucket", s.tracking(1, "", bucket))
	s.addDenied(", denied", oneWord)
	s.addDenied(", parts, denied", parts)
	s.addDenied(", bucket, denied", smallBucket)
	if n > 1 {
		s.add(subject{name: "TakeAll of two keys", limiter: one, calls: takeTwoEach(one)})
		s.add(subject{name: "TakeAll of a key and a common one", limiter: one, calls: takeWithEach(one, keys.New(0))})
		s.add(subject{name: "TakeAll of two keys, two limits", limiter: two, calls: takeTwoEach(two)})
	}
	if n <= few {
		s.add(subject{name: "a swap", calls: swapEach(new(cell))})
		s.add(subject{name: "a lock and two stores", calls: lockEach(new(cell))})
		s.add(subject{name: "Allow and three stores", limiter: one, calls: allowAndStoreEach(one)})
		s.addBoth(", four limits", s.tracking(1, "", fourCounters))
		s.addBoth(", log and counter", s.rolling("", oneWord...))
		s.addDenied(", two limits, denied", twoCounters)
		s.addDenied(", log, denied", smallLog)
		s.addComposed("", func(prefix string) *sash.Limiter { return s.tracking(1, prefix, oneWord) })
		s.addComposed(", two limits", func(prefix string) *sash.Limiter { return s.tracking(1, prefix, twoCounters) })
		s.addComposed(", log", func(prefix string) *sash.Limiter { return s.rolling(prefix) })
	}
	s.addInserting("", oneWord)
	s.addInserting(", two limits", twoCounters)
	s.addInserting(", parts", parts)
	s.addInserting(", log", smallLog)
	s.addInserting(", bucket", bucket)
	s.add(subject{name: "x/time/rate's Allow", calls: independentOf(s.peer(peers.XTimeRate(), n).Allow)})
	s.add(subject{name: "go-limiter's Take", calls: independentOf(s.peer(peers.GoLimiter(), n).Take)})
	s.add(subject{name: "go-limiter's Take, new key", calls: independentOf(s.peer(peers.GoLimiter(), 0).Take), inserts: true})
	return s, ctx.Err()
}

func (s *stage) close() {
	for _, end := range s.closers {
		end()
	}
	*s = stage{}
}

// made returns a limiter without keys.
func (s *stage) made(limits []sash.Limit) *sash.Limiter {
	l := limiter(limits, sash.WithSweepInterval(-1))
	s.closers = append(s.closers, func() { l.Close() })
	return l
}

// tracking returns a limiter that has charged units to each key, which begins with prefix.
func (s *stage) tracking(units int64, prefix string, limits []sash.Limit) *sash.Limiter {
	l := s.made(limits)
	forEach(s.ctx, s.keys, runtime.GOMAXPROCS(0), func(i int) { l.AllowN(prefix+keys.New(i), units) })
	return l
}

// rolling returns a limiter as tracking does, of a rollingLog and other limits. Its logs
// have grown as large as they get.
func (s *stage) rolling(prefix string, others ...sash.Limit) *sash.Limiter {
	log := rollingLog(s.keys)
	l := s.made(append(slices.Clone(others), log))
	forEach(s.ctx, s.keys, runtime.GOMAXPROCS(0), func(i int) {
		for range log.Count {
			l.Allow(prefix + keys.New(i))
		}
	})
	return l
}

func (s *stage) add(sub subject) { s.subjects = append(s.subjects, sub) }

// addBoth adds Allow and Take on one limiter.
func (s *stage) addBoth(of string, l *sash.Limiter) {
	s.add(subject{name: "Allow" + of, limiter: l, calls: allowEach(l)})
	s.add(subject{name: "Take" + of, limiter: l, calls: takeEach(l)})
}

// addDenied adds the same on a limiter whose keys have nothing left.
func (s *stage) addDenied(of string, limits []sash.Limit) {
	l := s.tracking(limits[0].Count, "", limits)
	s.add(subject{name: "Allow" + of, limiter: l, calls: allowEach(l), denies: true})
	s.add(subject{name: "Take" + of, limiter: l, calls: takeEach(l), denies: true})
}

// addInserting adds Take on a limiter without keys.
func (s *stage) addInserting(of string, limits []sash.Limit) {
	l := s.made(limits)
	s.add(subject{name: "Take" + of + ", new key", limiter: l, calls: takeEach(l), inserts: true})
}

// addComposed adds Allow and Take of keys that are put together in the call.
func (s *stage) addComposed(of string, tracking func(prefix string) *sash.Limiter) {
	const prefix = "ip:"
	l := tracking(prefix)
	s.add(subject{name: "Allow" + of + ", composed key", limiter: l, composed: true, calls: func(keys []string) (yes int64) {
		for _, key := range keys {
			if l.Allow(prefix + key) {
				yes++
			}
		}
		return yes
	}})
	s.add(subject{name: "Take" + of + ", composed key", limiter: l, composed: true, calls: func(keys []string) (yes int64) {
		for _, key := range keys {
			if l.Take(prefix+key, 1).Allowed {
				yes++
			}
		}
		return yes
	}})
}

// peer returns a limiter of p that tracks n keys.
func (s *stage) peer(p peers.Peer, n int) peers.Table {
	table := p.New(peers.Plenty)
	s.closers = append(s.closers, table.Close)
	forEach(s.ctx, n, runtime.GOMAXPROCS(0), func(i int) { table.Take(keys.New(i)) })
	return table
}

func independentOf(call func(key string) bool) func(keys []string) int64 {
	return func(keys []string) int64 { return independent(call, script{keys}) }
}

// limiter returns a limiter of limits.
func limiter(limits []sash.Limit, options ...sash.Option) *sash.Limiter {
	for _, limit := range limits {
		options = append(options, limit)
	}
	return sash.Must(sash.New(options...))
}

func allowEach(l *sash.Limiter) func(keys []string) int64 {
	return func(keys []string) (yes int64) {
		for _, key := range keys {
			if l.Allow(key) {
				yes++
			}
		}
		return yes
	}
}

func takeEach(l *sash.Limiter) func(keys []string) int64 {
	return func(keys []string) (yes int64) {
		for _, key := range keys {
			if l.Take(key, 1).Allowed {
				yes++
			}
		}
		return yes
	}
}

// takeTwoEach takes from each key and another one, which is as far from the end of keys.
func takeTwoEach(l *sash.Limiter) func(keys []string) int64 {
	return func(keys []string) (yes int64) {
		for i, key := range keys {
			if l.TakeAll([]string{key, keys[len(keys)-1-i]}, 1).Allowed {
				yes++
			}
		}
		return yes
	}
}

// takeWithEach takes from each key and from the common one.
func takeWithEach(l *sash.Limiter, common string) func(keys []string) int64 {
	return func(keys []string) (yes int64) {
		for _, key := range keys {
			if l.TakeAll([]string{key, common}, 1).Allowed {
				yes++
			}
		}
		return yes
	}
}
