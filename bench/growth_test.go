package main

import (
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/puzpuzpuz/xsync/v3"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
)

// BenchmarkGrowth fills a limiter from nothing to 4 million keys (-short: 200,000)
// from GOMAXPROCS goroutines, then sweeps them all away while as many go on making
// new keys, and does the same to one unsharded map, in the same run: the map that
// the limiter's shards are, with a counter for each key. It reports the longest
// single call of each, growing and swept, and how many times longer that of the map
// was. What other work on the machine takes from a call is in it, too.
//
//	go test -run '^$' -bench Growth -benchtime 1x ./bench
func BenchmarkGrowth(b *testing.B) {
	keys := 4_000_000
	if testing.Short() {
		keys = 200_000
	}
	for b.Loop() {
		longest := map[string]time.Duration{}
		for _, c := range []struct {
			name string
			make func() growing
		}{{"sash", newGrowingLimiter}, {"map", newGrowingMap}} {
			g := c.make()
			grown := g.grow(keys)
			require.Equal(b, keys, g.size())
			swept, late := g.swept()
			require.Equal(b, late, g.size(), "only what came late is left")
			g.close()
			b.ReportMetric(float64(grown)/1e6, c.name+"-growing-ms")
			b.ReportMetric(float64(swept)/1e6, c.name+"-swept-ms")
			longest[c.name] = max(grown, swept)
		}
		b.ReportMetric(float64(longest["map"])/float64(longest["sash"]), "map/sash")
	}
	b.ReportMetric(0, "ns/op") // of a whole growth: says nothing
}

// A growing is a table that grows by calls.
type growing struct {
	call  func(key []byte)
	idle  func() // makes all keys so far idle
	sweep func() // forgets the idle ones
	size  func() int
	close func()
}

func newGrowingLimiter() growing {
	clock := sash.NewManualClock(0)
	l := sash.Must(sash.New(sash.PerMinute(10), sash.WithClock(clock), sash.WithSweepInterval(-1)))
	return growing{
		call:  func(key []byte) { l.AllowBytes(key) },
		idle:  func() { clock.Advance(time.Hour) },
		sweep: func() { l.Sweep() },
		size:  l.Len,
		close: func() { l.Close() },
	}
}

// newGrowingMap is of one map, whose values say when they were made.
func newGrowingMap() growing {
	m := xsync.NewMapOf[string, *atomic.Int64]()
	var now atomic.Int64
	return growing{
		call: func(key []byte) {
			m.LoadOrCompute(string(key), func() *atomic.Int64 {
				made := new(atomic.Int64)
				made.Store(now.Load())
				return made
			})
		},
		idle: func() { now.Add(1) },
		sweep: func() {
			m.Range(func(key string, made *atomic.Int64) bool {
				if made.Load() < now.Load() {
					m.Delete(key)
				}
				return true
			})
		},
		size:  m.Size,
		close: func() {},
	}
}

// grow makes so many keys, and returns the longest that a call took.
func (g growing) grow(keys int) time.Duration {
	longest, _ := g.calls("early ", func(made int) bool { return made >= keys })
	return longest
}

// swept sweeps once while others go on making keys, and returns the longest that a
// call took, and how many keys they made.
func (g growing) swept() (longest time.Duration, late int) {
	g.idle()
	var swept atomic.Bool
	var sweeping sync.WaitGroup
	sweeping.Go(func() {
		g.sweep()
		swept.Store(true)
	})
	longest, late = g.calls("late ", func(int) bool { return swept.Load() })
	sweeping.Wait()
	return longest, late
}

// calls makes calls on one new key after the other from GOMAXPROCS goroutines, until
// enough, given how many have been begun before. It returns the longest, and how many
// there were.
func (g growing) calls(name string, enough func(begun int) bool) (time.Duration, int) {
	var begun, made atomic.Int64
	longest := make([]time.Duration, runtime.GOMAXPROCS(0))
	var all sync.WaitGroup
	for c := range longest {
		all.Go(func() {
			var key []byte
			for i := begun.Add(1) - 1; !enough(int(i)); i = begun.Add(1) - 1 {
				key = strconv.AppendInt(append(key[:0], name...), i, 10)
				start := time.Now()
				g.call(key)
				longest[c] = max(longest[c], time.Since(start))
				made.Add(1)
			}
		})
	}
	all.Wait()
	return slices.Max(longest), int(made.Load())
}
