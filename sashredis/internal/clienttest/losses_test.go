package clienttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/redistest"
	"github.com/seed-30da4c49/sash/sashredis"
)

// lossyLimits are the limits of the keys of a rush, which are soon full. None admits less when time passes.
var lossyLimits = map[string][]sash.Limit{
	"counter": {sash.Per(60, year).Counter()},
	"log":     {sash.Per(60, year).Log()},
	"buckets": {sash.Per(60, year).Buckets(24 * time.Hour)},
	"bucket":  {sash.Per(60, year).TokenBucket(60)},
	"parts":   {sash.Per(60, year).Parts()},
	"held":    {sash.AtOnce(60, year)},
}

const lossyCount = 60

// A rush is several callers of limiters that take what there is.
type rush struct {
	limiters []*sashredis.Limiter
	admitted map[string]*atomic.Int64
	called   chan struct{} // receives a value after a call, if somebody waits for one
}

// newRush returns a rush with and without a mirror and leases.
func newRush(t *testing.T, conn sashredis.Conn, timeout time.Duration) *rush {
	r := &rush{admitted: map[string]*atomic.Int64{}, called: make(chan struct{})}
	for key := range lossyLimits {
		r.admitted[key] = &atomic.Int64{}
	}
	for _, options := range [][]sashredis.Option{{sashredis.WithMirror(0)}, {}, {sashredis.WithMirror(0), sashredis.WithLease(10, time.Second)}} {
		options = append([]sashredis.Option{
			sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(timeout), sashredis.WithBreaker(5, 10*time.Millisecond),
			sashredis.WithLimitsFor(func(key string) []sash.Limit { return lossyLimits[key] }),
		}, options...)
		l, err := sashredis.New(conn, nil, options...)
		require.NoError(t, err)
		t.Cleanup(func() { l.Close() })
		r.limiters = append(r.limiters, l)
	}
	return r
}

// during lets 8 goroutines take until f returns.
func (r *rush) during(f func()) {
	var wg sync.WaitGroup
	over := make(chan struct{})
	for i := range uint64(8) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, i))
			for {
				select {
				case <-over:
					return
				default:
				}
				for key := range lossyLimits {
					if n := 1 + rng.Int64N(2); r.limiters[rng.IntN(len(r.limiters))].Take(context.Background(), key, n).Allowed {
						r.admitted[key].Add(n)
					}
				}
				select {
				case r.called <- struct{}{}:
				default:
				}
			}
		})
	}
	defer wg.Wait()
	defer close(over)
	f()
}

// wait waits until the callers have made 20 calls more for each key.
func (r *rush) wait() {
	for range 20 {
		<-r.called
	}
}

// full waits until a new limiter finds no unit left of any key.
func (r *rush) full(t *testing.T, conn sashredis.Conn) {
	t.Helper()
	fresh, err := sashredis.New(conn, nil, sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithMirror(0), sashredis.WithTimeout(ample),
		sashredis.WithLimitsFor(func(key string) []sash.Limit { return lossyLimits[key] }))
	require.NoError(t, err)
	eventually(t, "the keys are full", func() bool {
		for key := range lossyLimits {
			if d := fresh.Peek(context.Background(), key, 0); d.Err != nil || d.Remaining > 0 {
				return false
			}
		}
		return true
	})
}

// A server that keeps nothing forgets all counts when it is restarted. Each time, at most Count
// more is admitted for each key.
func TestLosses_RestartWithoutPersistence(t *testing.T) {
	withEachAdapter(t, func(t *testing.T, a adapter) {
		server := redistest.Start(t)
		conn, closeClient := a.single(t, dialer(server.Network(), server.Addr()))
		defer closeClient()
		direct, closeDirect := a.single(t, dialer(server.Network(), server.Addr()))
		defer closeDirect()
		r := newRush(t, conn, time.Second)
		const restarts = 3
		r.during(func() {
			for range restarts {
				r.full(t, direct)
				server.Restart()
			}
			r.full(t, direct)
		})
		for key, admitted := range r.admitted {
			n := admitted.Load()
			t.Logf("key %q: %d admitted, of %d, with %d restarts", key, n, lossyCount, restarts)
			assert.LessOrEqual(t, n, int64((1+restarts)*lossyCount), "key %q", key)
			assert.Greater(t, n, int64(lossyCount), "key %q: nothing was lost", key)
		}
	})
}

// A failover to a replica that is late forgets what it has not heard of, and no more. So at most
// Count more is admitted for each key.
func TestLosses_Failover(t *testing.T) {
	withEachAdapter(t, func(t *testing.T, a adapter) {
		primary, replica := redistest.StartReplicated(t)
		var current atomic.Pointer[redistest.Server]
		current.Store(primary)
		var mu sync.Mutex
		var open []net.Conn
		dial := func(ctx context.Context) (net.Conn, error) {
			s := current.Load()
			c, err := dialer(s.Network(), s.Addr())(ctx)
			mu.Lock()
			defer mu.Unlock()
			open = append(open, c)
			return c, err
		}
		conn, closeClient := a.single(t, dial)
		defer closeClient()
		toReplica, closeReplica := a.single(t, dialer(replica.Network(), replica.Addr()))
		defer closeReplica()

		// Exactly: what is not replicated is admitted again.
		l, err := sashredis.New(conn, nil, sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(ample), sashredis.WithMirror(0),
			sashredis.WithLimitsFor(func(key string) []sash.Limit { return lossyLimits[strings.TrimPrefix(key, "exactly ")] }))
		require.NoError(t, err)
		ctx := context.Background()
		take := func(n int64) {
			t.Helper()
			for key := range lossyLimits {
				d := l.Take(ctx, "exactly "+key, n)
				require.NoError(t, d.Err)
				require.True(t, d.Allowed)
			}
		}
		take(20)
		r := newRush(t, conn, time.Second)
		r.during(func() {
			r.wait()
			primary.Command("SET", "mark", "1") // after all that was taken so far
			replica.Until("it has heard of the mark", func(ctx context.Context) bool {
				reply, err := replica.Do(ctx, "GET", "mark")
				return err == nil && reply == "1"
			})
			replica.Command("REPLICAOF", "NO", "ONE")
			take(30) // which the replica does not hear of
			r.wait()
			current.Store(replica)
			primary.Kill()
			r.full(t, toReplica)
		})
		for key, admitted := range r.admitted {
			n := admitted.Load()
			t.Logf("key %q: %d admitted, of %d", key, n, lossyCount)
			assert.LessOrEqual(t, n, int64(2*lossyCount), "key %q", key)
		}
		fresh, err := sashredis.New(toReplica, nil, sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(ample),
			sashredis.WithLimitsFor(func(key string) []sash.Limit { return lossyLimits[strings.TrimPrefix(key, "exactly ")] }))
		require.NoError(t, err)
		for key := range lossyLimits {
			d := fresh.Peek(ctx, "exactly "+key, 0)
			require.NoError(t, d.Err)
			assert.Equal(t, int64(lossyCount-20), d.Remaining, "key %q: what was replicated counts", key)
		}
	})
}

// While a slot moves around a cluster of three, no call is charged twice, and no charge is lost.
func TestFaults_SlotMigration(t *testing.T) {
	withEachAdapter(t, func(t *testing.T, a adapter) {
		nodes := redistest.StartCluster(t)
		conn, closeClient := a.cluster(t, nodes[0].Addr())
		defer closeClient()
		const slot = "3300" // of the tag b
		var ids [3]string
		for i, n := range nodes {
			ids[i] = n.Command("CLUSTER", "MYID").(string)
		}

		// A node does not let a script make a key whose slot moves. So a script must not remove
		// all of one and go on.
		tag := []sashredis.Option{sashredis.WithPrefix("moving:"), sashredis.WithHashTag(func(string) string { return "b" })}
		for i, key := range stormKeys {
			l, err := sashredis.New(conn, nil, append(tag, limitsOf(i%2 == 1), sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(ample))...)
			require.NoError(t, err)
			ctx := context.Background()
			require.NoError(t, l.Take(ctx, key, 3).Err)
			nodes[1].Command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[0])
			nodes[0].Command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[1])
			assert.NoError(t, l.Take(ctx, key, 1).Err, "key %q", key)
			first, d := l.Reserve(ctx, key, 3)
			assert.NoError(t, d.Err, "key %q", key)
			second, d := l.Reserve(ctx, key, 2)
			assert.NoError(t, d.Err, "key %q", key)
			assert.NoError(t, first.Commit(ctx, 1), "key %q", key)
			assert.NoError(t, second.Cancel(ctx), "key %q", key)
			want := int64(5)
			if key == "held" {
				want = 4 // a Commit gives all back
			}
			assert.Equal(t, want, chargedTo(t, conn, i%2 == 1, tag...)(key), "key %q", key)
			assert.NoError(t, l.Reset(ctx, key))
			nodes[1].Command("CLUSTER", "SETSLOT", slot, "STABLE")
			nodes[0].Command("CLUSTER", "SETSLOT", slot, "STABLE")
		}

		at := 0 // the node that has the slot
		for _, leases := range []bool{false, true} {
			names := []sashredis.Option{sashredis.WithPrefix(fmt.Sprint(leases)), sashredis.WithHashTag(func(string) string { return "b" })}
			s := newStorm(t, conn, ample, leases, names...)
			s.blow(5, func() {
				for round := 1; round <= 3 || round <= steps(t, 300)/100; round++ {
					s.until(100*round, func() bool { return true })
					from, to := nodes[at], nodes[(at+1)%3]
					from.Until("all know the latest owner", func(ctx context.Context) bool {
						epochs := map[string]bool{}
						for _, n := range nodes {
							_, info, _ := strings.Cut(n.Command("CLUSTER", "INFO").(string), "cluster_current_epoch:")
							epoch, _, _ := strings.Cut(info, "\r")
							epochs[epoch] = true
						}
						return len(epochs) == 1
					})
					to.Command("CLUSTER", "SETSLOT", slot, "IMPORTING", ids[at])
					from.Command("CLUSTER", "SETSLOT", slot, "MIGRATING", ids[(at+1)%3])
					host, port, _ := net.SplitHostPort(to.Addr())
					for {
						keys := from.Command("CLUSTER", "GETKEYSINSLOT", slot, "2").([]any)
						if len(keys) == 0 {
							break
						}
						migrate := []string{"MIGRATE", host, port, "", "0", "10000", "KEYS"}
						for _, k := range keys {
							migrate = append(migrate, k.(string))
						}
						from.Command(migrate...)
						now := s.calls.Load()
						s.until(int(now)+10, func() bool { return true }) // while some keys are here, and some there
					}
					to.Command("CLUSTER", "SETSLOT", slot, "NODE", ids[(at+1)%3])
					from.Command("CLUSTER", "SETSLOT", slot, "NODE", ids[(at+1)%3])
					at = (at + 1) % 3
				}
				s.until(0, func() bool { return !leases || s.Stats().Lease > 0 })
			})
			s.recovers()
			s.audit(conn, names...)
			assert.Zero(t, s.unsure.Load())
		}
	})
}
