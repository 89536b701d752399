// The benchmarks of this file are of sash alone. bench/compare runs them on two commits by
// turns. Command bench compares sash with other limiters.
//
// Names have the form impl=/keys=/dist=/clock= for benchstat. Keys are strings of their own,
// as in a service: never the very string that the table holds.
package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/bench/internal/keys"
	"github.com/seed-30da4c49/sash/bench/internal/peers"
)

// contenders are sash with a counter, and its variants.
var contenders = append([]peers.Peer{peers.Sash()}, peers.Variants()...)

// singleUnit is a Quota that the first call uses up.
var singleUnit = peers.Quota{Count: 1, Window: 10_000 * time.Hour, Sweep: 1000 * time.Hour}

const plenty = 1e12 // a Count that is never exhausted

// filled returns a table of p that tracks n keys. Under singleUnit they have nothing left.
func filled(p peers.Peer, n int, q peers.Quota) peers.Table {
	table := p.New(q)
	for i := range n {
		table.Allow(keys.New(i))
	}
	return table
}

// benchmark benchmarks every contender over n tracked keys.
func benchmark(b *testing.B, n int, q peers.Quota, distributions ...string) {
	scripts := map[string][]string{}
	for _, d := range distributions {
		scripts[d] = keys.Script(min(4*n, 500_000), keys.Chooser(d, n, 1))
	}
	for _, p := range contenders {
		var table peers.Table // made by the first benchmark that runs, for all distributions
		for _, d := range distributions {
			b.Run(fmt.Sprintf("impl=%s/keys=%s/dist=%s/clock=%s", p.Name, keys.Label(n), d, p.Clock), func(b *testing.B) {
				if table.Allow == nil {
					table = filled(p, n, q)
				}
				wrong := walk(b, table.Allow, scripts[d], q == peers.Plenty)
				require.Zero(b, wrong, "answers that are not those measured")
			})
		}
		if table.Close != nil {
			table.Close()
		}
	}
}

// walk benchmarks allow, and returns the number of answers other than want. Each goroutine
// begins at another key of the script.
func walk(b *testing.B, allow func(key string) bool, script []string, want bool) int64 {
	var wrong atomic.Int64
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		i := rand.IntN(len(script))
		for pb.Next() {
			if allow(script[i]) != want {
				wrong.Add(1)
			}
			if i++; i == len(script) {
				i = 0
			}
		}
	})
	return wrong.Load()
}

func BenchmarkAdmitted(b *testing.B) {
	benchmark(b, 1, peers.Plenty, keys.Uniform)
	benchmark(b, 1000, peers.Plenty, keys.Uniform, keys.Zipf)
	benchmark(b, 1_000_000, peers.Plenty, keys.Uniform, keys.Zipf)
}

func BenchmarkDenied(b *testing.B) {
	benchmark(b, 1, singleUnit, keys.Uniform)
	benchmark(b, 1000, singleUnit, keys.Uniform, keys.Zipf)
}

// BenchmarkTake measures calls that return the whole Decision, admitted and denied.
func BenchmarkTake(b *testing.B) {
	for _, limits := range [][]sash.Limit{
		{sash.Per(1<<29-1, math.MaxInt64).Counter()},
		{sash.PerHour(plenty).Counter()},
		{peers.RollingParts(1)},
		{sash.PerHour(1).Counter()},
		{rollingLog(1)},
		{sash.PerHour(1).Log()},
		{sash.PerHour(plenty).Counter(), sash.PerDay(plenty).Counter()},
	} {
		b.Run("limit="+strings.ReplaceAll(list(limits), " ", "-"), func(b *testing.B) {
			l := limiter(limits)
			defer l.Close()
			key := keys.New(0)
			l.Take(keys.New(0), 1)
			for b.Loop() {
				l.Take(key, 1)
			}
		})
	}
}

// BenchmarkInsert measures calls for new keys, while the table grows.
func BenchmarkInsert(b *testing.B) {
	l := sash.Must(sash.New(sash.PerHour(100)))
	defer l.Close()
	key := make([]byte, 0, 32)
	for i := 0; b.Loop(); i++ {
		l.AllowBytes(keys.Append(key, i))
	}
}
