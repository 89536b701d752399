// Package bench measures sash beside the limiters people might pick instead,
// doing the same job under the same conditions in one run:
//
//	go test -bench . -cpu 1,2 -count 10 . | tee /tmp/speed && benchstat -col /impl /tmp/speed
//
// Names follow impl=/keys=/clock=; benchstat puts what differs side by side.
// Keys are strings of their own, as a service has them, never the very string
// that a table holds.
package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/puzpuzpuz/xsync/v3"
	"github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"github.com/seed-30da4c49/sash"
)

// A contender makes a decision function for count units an hour and key.
type contender struct {
	impl, clock string
	allow       func(b testing.TB, count int64) func(key string) bool
}

var contenders = []contender{
	{"sash", "system", sashCounter(sash.SystemClock())},
	{"sash", "coarse", sashCounter(sash.CoarseClock(time.Millisecond))},
	{"sash-log", "system", sashLog(sash.SystemClock())},
	{"go-limiter", "system", goLimiter},
	{"x-time-rate", "system", xTimeRate},
	{"floor", "system", floor(sash.SystemClock())},
	{"floor", "coarse", floor(sash.CoarseClock(time.Millisecond))},
}

func sashCounter(clock sash.Clock) func(b testing.TB, count int64) func(key string) bool {
	return func(b testing.TB, count int64) func(key string) bool {
		l := sash.Must(sash.New(sash.PerHour(count), sash.WithClock(clock)))
		b.Cleanup(func() { l.Close() })
		return l.Allow
	}
}

func sashLog(clock sash.Clock) func(b testing.TB, count int64) func(key string) bool {
	return func(b testing.TB, count int64) func(key string) bool {
		limit := sash.PerHour(count).Log()
		if count == plenty { // as an hour of it would not fit into memory
			limit = sash.Per(plenty, 10*time.Microsecond).Log()
		}
		l := sash.Must(sash.New(limit, sash.WithClock(clock)))
		b.Cleanup(func() { l.Close() })
		return l.Allow
	}
}

func goLimiter(b testing.TB, count int64) func(key string) bool {
	s, err := memorystore.New(&memorystore.Config{Tokens: uint64(count), Interval: time.Hour})
	require.NoError(b, err)
	b.Cleanup(func() { s.Close(context.Background()) })
	var store limiter.Store = s
	ctx := context.Background()
	return func(key string) bool {
		_, _, _, ok, _ := store.Take(ctx, key)
		return ok
	}
}

func xTimeRate(_ testing.TB, count int64) func(key string) bool {
	var limiters sync.Map
	perSecond, burst := rate.Limit(float64(count)/3600), int(min(count, math.MaxInt32))
	return func(key string) bool {
		l, ok := limiters.Load(key)
		if !ok {
			l, _ = limiters.LoadOrStore(key, rate.NewLimiter(perSecond, burst))
		}
		return l.(*rate.Limiter).Allow()
	}
}

// floor decides nothing: it reads the clock, loads from one xsync map, and
// compares and swaps.
func floor(clock sash.Clock) func(b testing.TB, count int64) func(key string) bool {
	return func(testing.TB, int64) func(key string) bool {
		cells := xsync.NewMapOf[string, *atomic.Uint64]()
		return func(key string) bool {
			now := clock.Now()
			c, ok := cells.Load(key)
			if !ok {
				c, _ = cells.LoadOrStore(key, new(atomic.Uint64))
			}
			word := c.Load()
			return c.CompareAndSwap(word, word+1) && now >= 0
		}
	}
}

const plenty = 1e12 // a count that nobody exhausts

// names returns n keys, each time of other bytes.
func names(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("203.0.%d.%d", i>>8, i&255)
	}
	return keys
}

// each runs a benchmark of every contender over n keys that are all tracked:
// every goroutine walks them from a place of its own.
func each(b *testing.B, n int, count int64, label string, want func(ok bool) bool) {
	for _, c := range contenders {
		if c.impl == "floor" && count != plenty {
			continue // it denies nobody
		}
		b.Run(fmt.Sprintf("impl=%s/keys=%s/clock=%s", c.impl, label, c.clock), func(b *testing.B) {
			allow := c.allow(b, count)
			for _, k := range names(n) {
				for range min(count, 2) { // all of it, if it is to be denied
					allow(k)
				}
			}
			keys := names(n)
			rand.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
			var wrong atomic.Int64
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				i := rand.IntN(n)
				for pb.Next() {
					if !want(allow(keys[i])) {
						wrong.Add(1)
					}
					if i++; i == n {
						i = 0
					}
				}
			})
			// The floor's one compare-and-swap may fail under contention.
			if c.impl != "floor" {
				require.Zero(b, wrong.Load(), "answers that are not those measured")
			}
		})
	}
}

func admitted(ok bool) bool { return ok }
func denied(ok bool) bool   { return !ok }

func BenchmarkAdmitted(b *testing.B) {
	each(b, 1, plenty, "1", admitted)
	each(b, 1000, plenty, "1k", admitted)
	each(b, 1_000_000, plenty, "1M", admitted)
}

func BenchmarkDenied(b *testing.B) {
	each(b, 1, 1, "1", denied)
	each(b, 1000, 1, "1k", denied)
}

// BenchmarkTake is of the whole Decision, admitted and denied.
func BenchmarkTake(b *testing.B) {
	for _, limit := range []sash.Limit{sash.PerHour(plenty), sash.PerHour(1), sash.PerHour(1).Log()} {
		b.Run(fmt.Sprintf("limit=%v", limit), func(b *testing.B) {
			l := sash.Must(sash.New(limit))
			defer l.Close()
			key := names(1)[0]
			l.Take(names(1)[0], 1)
			for b.Loop() {
				l.Take(key, 1)
			}
		})
	}
}

// BenchmarkInsert is of keys never seen, while the table grows.
func BenchmarkInsert(b *testing.B) {
	l := sash.Must(sash.New(sash.PerHour(100)))
	defer l.Close()
	key := make([]byte, 0, 32)
	for i := 0; b.Loop(); i++ {
		l.AllowBytes(fmt.Appendf(key, "203.0.113.%d", i))
	}
}
