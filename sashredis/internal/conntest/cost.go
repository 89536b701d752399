package conntest

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/race"
	"github.com/seed-30da4c49/sash/sashredis"
)

// keys and args are about as long as for a decision.
var keys, args = []string{"sash:user 7"}, []string{"", "1+1", "", "", "c 60000000 100;"}

// Benchmark measures calls with contexts that never end, and that end at a deadline. One caller
// waits for each call; many share the Conn.
func Benchmark(b *testing.B, conn sashredis.Conn) {
	deadline, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
	}{{"forever", context.Background()}, {"deadline", deadline}} {
		run := func(b *testing.B) {
			if _, err := conn.Run(c.ctx, echo, keys, args); err != nil {
				b.Fatal(err)
			}
		}
		b.Run("ctx="+c.name+"/callers=1", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				run(b)
			}
		})
		b.Run("ctx="+c.name+"/callers=128", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(64)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					run(b)
				}
			})
		})
	}
}

// Allocations returns the number of allocations of a call with a context that never ends, and of
// one with a context that does. The race detector adds some, so the test is skipped under it.
func Allocations(t *testing.T, conn sashredis.Conn) (forever, deadline float64) {
	if race.Enabled {
		t.Skip("under the race detector")
	}
	of := func(ctx context.Context) float64 {
		least := math.Inf(1)
		for range 5 { // clients of other tests may allocate at the same time
			least = min(least, testing.AllocsPerRun(100, func() {
				_, err := conn.Run(ctx, echo, keys, args)
				require.NoError(t, err)
			}))
		}
		return least
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	return of(context.Background()), of(ctx)
}
