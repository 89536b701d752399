package clienttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/race"
	"github.com/seed-30da4c49/sash/internal/redistest"
	"github.com/seed-30da4c49/sash/internal/window"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/goredisconn"
)

// trials is steps of a test of one goroutine, which makes fewer under the race detector.
func trials(t *testing.T, few int) int {
	if race.Enabled {
		few /= 4
	}
	return steps(t, few)
}

// steps returns how many random calls a test makes: few, unless SASH_STEPS says how many.
func steps(t *testing.T, few int) int {
	if text := os.Getenv("SASH_STEPS"); text != "" {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	return few
}

// onEachStore runs a test on an embedded store and on a real one.
func onEachStore(t *testing.T, test func(t *testing.T, conn sashredis.Conn)) {
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		client := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), ContextTimeoutEnabled: true})
		defer client.Close()
		test(t, goredisconn.New(client))
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		client := redis.NewClient(&redis.Options{Network: "unix", Addr: redistest.Start(t).Addr(), ContextTimeoutEnabled: true})
		defer client.Close()
		test(t, goredisconn.New(client))
	})
}

// A trial is one store and package sash under the same limits, and a clock that both read.
type trial struct {
	*rand.Rand
	limits []sash.Limit
	clock  *sash.ManualClock
	here   *sash.Limiter
	store  *sashredis.Limiter
}

// exponential returns a number from 1 to 2^bits, of any magnitude alike.
func (r *trial) exponential(bits int) int64 { return 1 + r.Int64N(1<<r.IntN(bits+1)) }

// limit returns a random limit that a store accepts.
func (r *trial) limit(a sash.Algorithm) sash.Limit {
	const year = 365 * 24 * time.Hour / time.Microsecond
	l := sash.Limit{Algorithm: a, Count: r.exponential(r.IntN(51))}
	l.Window = time.Duration(min(r.exponential(44), int64(year))) * time.Microsecond
	switch a {
	case sash.SlidingBuckets:
		l.Precision = time.Duration(1+r.Int64N(int64(l.Window/time.Microsecond))) * time.Microsecond
	case sash.SlidingParts: // sixteen parts of 64 steps, which are whole microseconds
		const least = 16 * window.Shifts * time.Microsecond
		l.Window = max(l.Window/least, 1) * least
	case sash.TokenBucket:
		l.Burst = min(r.exponential(r.IntN(51)), 1<<50)
		for float64(l.Burst)*float64(l.Window)/float64(l.Count) > float64(50*year*time.Microsecond) {
			l.Burst = l.Burst/2 + 1
			l.Count++
			l.Window = l.Window/2/time.Microsecond*time.Microsecond + time.Microsecond
		}
	}
	return l
}

func newTrial(t *testing.T, name string, seed uint64, conn sashredis.Conn, algorithms []sash.Algorithm) *trial {
	r := &trial{Rand: rand.New(rand.NewPCG(seed, 1))}
	for range 1 + r.IntN(3)*r.IntN(2) {
		r.limits = append(r.limits, r.limit(algorithms[r.IntN(len(algorithms))]))
	}
	r.clock = sash.NewManualClock(r.Int64N(int64(50*365*24*time.Hour))/1000*1000 - int64(5*365*24*time.Hour))
	r.here = sash.Must(sash.New(sash.WithLimits(r.limits...), sash.WithClock(r.clock), sash.WithSweepInterval(-1)))
	var err error
	r.store, err = sashredis.New(conn, r.limits, sashredis.WithFallback(sashredis.FallbackDeny),
		sashredis.WithCallerClock(r.clock), sashredis.WithPrefix(fmt.Sprintf("%s %d:", name, seed)), sashredis.WithTimeout(10*time.Second))
	require.NoError(t, err)
	return r
}

// move moves the clock by about what a limit needs to admit more, now and then back.
func (r *trial) move() {
	l := r.limits[r.IntN(len(r.limits))]
	d := int64(l.Window / time.Microsecond)
	switch r.IntN(8) {
	case 0:
		d = 0
	case 1:
		d = 2*d + r.Int64N(d)
	case 2, 3:
		d = r.Int64N(d)
	case 4:
		d = -r.Int64N(min(2*d, 1<<44))
	default:
		d = r.Int64N(d/int64(min(l.Count, 20)) + 1)
	}
	r.clock.Advance(time.Duration(d) * time.Microsecond)
}

// cost returns a number of units, now and then an impossible one.
func (r *trial) cost() int64 {
	l := r.limits[r.IntN(len(r.limits))]
	most := l.Count
	if l.Burst > 0 {
		most = l.Burst
	}
	switch r.IntN(12) {
	case 0:
		return 0
	case 1:
		return -r.Int64N(3)
	case 2:
		return most + r.Int64N(2)
	case 3:
		return 1 + r.Int64N(most)
	}
	return 1 + r.Int64N(most/3+1)
}

// step makes one call on both sides.
func (r *trial) step(t *testing.T) (call string, want sash.Decision, got sashredis.Decision) {
	ctx, n := context.Background(), r.cost()
	keys := []string{"a", "b", "c"}
	r.Shuffle(3, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	if r.IntN(3) > 0 {
		r.move()
	}
	switch leave := r.cost(); r.IntN(12) {
	case 8, 9:
		return fmt.Sprintf("TakeLeaving(%q, %d, %d)", keys[0], n, leave), r.here.TakeLeaving(keys[0], n, leave), r.store.TakeLeaving(ctx, keys[0], n, leave)
	case 10, 11:
		call = fmt.Sprintf("TakeUpTo(%q, %d)", keys[0], n)
		there, want := r.here.TakeUpTo(keys[0], n)
		taken, got := r.store.TakeUpTo(ctx, keys[0], n)
		require.Equal(t, there, taken, "limits %v, clock %d: %s: %+v", r.limits, r.clock.Now(), call, got)
		return call, want, got
	case 0:
		return fmt.Sprintf("Peek(%q, %d)", keys[0], n), r.here.Peek(keys[0], n), r.store.Peek(ctx, keys[0], n)
	case 1:
		keys = keys[:1+r.IntN(3)]
		return fmt.Sprintf("TakeAll(%q, %d)", keys, n), r.here.TakeAll(keys, n), r.store.TakeAll(ctx, keys, n)
	case 2:
		return fmt.Sprintf("PeekAll(%q, %d)", keys[:2], n), r.here.PeekAll(keys[:2], n), r.store.PeekAll(ctx, keys[:2], n)
	}
	return fmt.Sprintf("Take(%q, %d)", keys[0], n), r.here.Take(keys[0], n), r.store.Take(ctx, keys[0], n)
}

var kinds = map[string][]sash.Algorithm{
	"counters":      {sash.SlidingCounter},
	"logs":          {sash.SlidingLog},
	"buckets":       {sash.SlidingBuckets},
	"token buckets": {sash.TokenBucket},
	"parts":         {sash.SlidingParts},
	"at once":       {sash.Concurrency},
	"mixed":         {sash.SlidingCounter, sash.SlidingLog, sash.SlidingBuckets, sash.TokenBucket, sash.SlidingParts, sash.Concurrency},
}

// A store gives the answers of package sash, to the nanosecond: any limits up to their bounds,
// costs, several limits and keys, and clocks that are late.
func TestAnswers_EqualThoseOfSash(t *testing.T) {
	onEachStore(t, func(t *testing.T, conn sashredis.Conn) {
		for name, algorithms := range kinds {
			t.Run(name, func(t *testing.T) {
				allowed := 0
				total := trials(t, 2000)
				for i := range total / 50 {
					r := newTrial(t, name, uint64(i), conn, algorithms)
					for range 50 {
						call, want, got := r.step(t)
						require.NoError(t, got.Err, "seed %d, limits %v, clock %d: %s", i, r.limits, r.clock.Now(), call)
						require.Equal(t, want, got.Decision, "seed %d, limits %v, clock %d: %s", i, r.limits, r.clock.Now(), call)
						if got.Allowed {
							allowed++
						}
					}
				}
				require.Greater(t, allowed, total/10, "most calls are denied")
				require.Less(t, allowed, total*9/10, "most calls are admitted")
			})
		}
	})
}
