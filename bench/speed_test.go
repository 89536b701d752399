// Benchmarks of sash beside the limiters people might pick instead, doing the same job
// under the same conditions in one run:
//
//	go test -bench 'Admitted|Denied' -cpu 1,2 -count 10 . | tee /tmp/speed && benchstat -col /impl /tmp/speed
//
// Names follow impl=/keys=/dist=/clock=; benchstat puts what differs side by side.
// Keys are strings of their own, as a service has them, never the very string
// that a table holds. For two commits beside each other there is ./compare.
package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/bench/internal/keys"
	"github.com/seed-30da4c49/sash/bench/internal/peers"
)

// contenders are those that are benchmarked here; large ones take part in rounds.
var contenders = slices.Concat(
	peers.Field(),
	slices.DeleteFunc(peers.Variants(), func(p peers.Peer) bool { return p.Name == "sash-large" }),
	[]peers.Peer{peers.Floor(), peers.CoarseFloor()},
)

var large = peers.Named(peers.Variants(), "sash-large")

// one is a Quota that the first call uses up.
var one = peers.Quota{Count: 1, Window: 10_000 * time.Hour, Sweep: 1000 * time.Hour}

// start returns a table of p in which n keys are tracked, and have nothing left if
// they are to be denied.
func start(p peers.Peer, n int, q peers.Quota) peers.Table {
	table := p.New(q)
	for i := range n {
		table.Allow(keys.New(i))
	}
	return table
}

// each runs a benchmark of every contender over n keys that are all tracked:
// every goroutine has a place of its own in what is asked.
func each(b *testing.B, n int, q peers.Quota, distributions ...string) {
	scripts := map[string][]string{}
	for _, d := range distributions {
		scripts[d] = keys.Script(min(4*n, 500_000), keys.Chooser(d, n, 1))
	}
	for _, p := range contenders {
		if p.Free && q != peers.Plenty {
			continue // it denies nobody
		}
		var table peers.Table // made where it is asked for, and for all distributions
		for _, d := range distributions {
			b.Run(fmt.Sprintf("impl=%s/keys=%s/dist=%s/clock=%s", p.Name, keys.Label(n), d, p.Clock), func(b *testing.B) {
				if table.Allow == nil {
					table = start(p, n, q)
				}
				wrong := walk(b, table.Allow, scripts[d], q == peers.Plenty)
				// The floor's one compare-and-swap may fail under contention, and so
				// may the ten of throttled.
				if !p.Free && p.Name != "throttled" {
					require.Zero(b, wrong, "answers that are not those measured")
				}
			})
		}
		if table.Close != nil {
			table.Close()
		}
	}
}

// walk benchmarks allow and returns how many answers were not the wanted one.
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
	each(b, 1, peers.Plenty, keys.Uniform)
	each(b, 1000, peers.Plenty, keys.Uniform, keys.Zipf)
	each(b, 1_000_000, peers.Plenty, keys.Uniform, keys.Zipf)
}

func BenchmarkDenied(b *testing.B) {
	each(b, 1, one, keys.Uniform)
	each(b, 1000, one, keys.Uniform, keys.Zipf)
}

// BenchmarkTake is of the whole Decision, admitted and denied.
func BenchmarkTake(b *testing.B) {
	for _, limit := range []sash.Limit{sash.Per(1<<29-1, math.MaxInt64), sash.PerHour(plenty), sash.PerHour(1), sash.PerHour(1).Log()} {
		b.Run(fmt.Sprintf("limit=%v", limit), func(b *testing.B) {
			l := sash.Must(sash.New(limit))
			defer l.Close()
			key := keys.New(0)
			l.Take(keys.New(0), 1)
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
		l.AllowBytes(keys.Append(key, i))
	}
}
