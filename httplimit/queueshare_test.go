package httplimit_test

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/race"
)

// forAll returns a policy that all clients share, with a Queue.
func forAll(name, pattern string, limit sash.Limit, q httplimit.Queue) httplimit.Policy {
	p := queued(name, pattern, limit, q)
	p.Key = httplimit.Everyone()
	return p
}

// One client sends more than its own limit admits, one request at a time. Once, all clients together
// reach their limit. From then on the others stay within all their limits, so none of them waits.
func TestQueue_AClientAboveItsOwnLimitDelaysNoOther(t *testing.T) {
	const step, steps, each = 20 * time.Millisecond, 3006, 9 // so 334 requests of others in a minute
	for name, limit := range map[string]sash.Limit{
		"log": sash.PerMinute(12), "token bucket": sash.PerMinute(12).TokenBucket(1), "counter": sash.PerMinute(12).Counter(),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := httplimit.Queue{Wait: 5 * time.Minute, Requests: 1000}
				own := q
				own.RequestsEach = 1
				l := newLobby(t, forAll("all", "", sash.PerSecond(20), q), queued("each", "", limit, own))
				for range 12 {
					l.send("greedy", "GET /", "X-Key", "greedy") // and what is too much is refused
				}
				l.after(5 * time.Second) // one that waited is served
				l.after(5 * time.Second)
				for i := range 20 {
					l.send("busy", "GET /", "X-Key", fmt.Sprint("busy", i))
				}
				waits, served, late := false, 0, 0 // whether the client above its limit has a request that waits
				l.happened()
				for i := range steps {
					if !waits {
						l.send("greedy", "GET /", "X-Key", "greedy")
						waits = true
					}
					if i == 0 {
						l.clock.Advance(1100 * time.Millisecond) // none of the 20 counts any more
					}
					name := fmt.Sprint(i)
					if i%each == 0 {
						l.send(name, "GET /", "X-Key", fmt.Sprint("honest", i/each%60))
					}
					for _, entry := range l.happened() {
						switch entry {
						case "greedy served":
							waits = false
						case name + " served":
							served++
						default:
							late++
						}
					}
					l.clock.Advance(step)
				}
				for range 20 {
					l.after(time.Minute) // those that are left are served
				}
				require.Zero(t, late)
				require.Equal(t, 334, served)
				require.Zero(t, l.Waiting())
			})
		})
	}
}

// A request has no turn under one policy, and is the first of another one's queue. It holds up none
// there.
func TestQueue_ARequestWithoutATurnHoldsUpNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := httplimit.Queue{Wait: time.Hour, Requests: 9}
		l := newLobby(t, forAll("all", "", sash.PerSecond(2).Log(), q), queued("each", "", sash.PerMinute(1).Log(), q))
		for _, name := range []string{"a0", "b0"} {
			l.send(name, "GET /", "X-Key", name[:1])
		}
		require.Equal(t, []string{"a0 served", "b0 served"}, l.happened())
		for _, name := range []string{"a1", "a2", "a3", "c0", "d0"} { // all of them are behind a1 at first
			l.send(name, "GET /", "X-Key", name[:1])
		}
		require.Equal(t, []string{"c0 served", "d0 served"}, sorted(l.after(time.Second)))
		require.Equal(t, 3, l.Waiting())
		for _, want := range []string{"a1 served", "a2 served", "a3 served"} {
			require.Equal(t, []string{want}, l.after(time.Minute))
		}
	})
}

// Two policies of one unit each admit a request at different times, and other requests take what it
// leaves. It is overtaken under each of them, and then no more. This also holds if its costs differ. The
// request then gives back what one policy admitted when the other denies it. That does not wake it.
func TestQueue_NoneStarves(t *testing.T) {
	for _, cost := range []int64{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			q := httplimit.Queue{Wait: time.Hour, Requests: 100}
			a, b := forAll("a", "", sash.Per(1, 10*time.Second), q), forAll("b", "", sash.Per(cost, 10*time.Second), q)
			a.Skip = func(r *http.Request) bool { return r.URL.Path == "/b" }
			b.Skip = func(r *http.Request) bool { return r.URL.Path == "/a" }
			b.Cost = func(*http.Request) int64 { return cost }
			l := newLobby(t, a, b)
			l.send("a", "GET /a")
			l.clock.Advance(5 * time.Second)
			l.send("b", "GET /b")
			require.Equal(t, []string{"a served", "b served"}, l.happened())
			l.send("both", "GET /both")
			var log []string
			for range 8 {
				l.send("a", "GET /a")
				l.send("b", "GET /b")
				log = append(log, l.after(5*time.Second)...)
			}
			require.Contains(t, log, "both served")
			for range 40 {
				l.after(5 * time.Second)
			}
			require.Zero(t, l.Waiting())
		})
	}
}

// Random requests under random policies. Whenever nothing moves, each request that waits is denied by
// one of its policies, or an earlier one goes first there: it is denied there, too, or it has to wait
// for faster policies only. None of them tries all the time, and all are served in the end.
func TestQueue_ARequestWaitsForItsOwnPoliciesAndEarlierRequestsOnly(t *testing.T) {
	type waiting struct {
		name, client, path string
		cost               int64
	}
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 26))
			q := httplimit.Queue{Wait: 1000 * time.Hour, Requests: 1000, RequestsPerClient: 1000}
			var attempts atomic.Int64
			options := []httplimit.Option{httplimit.WithSash(sash.WithObserver(func(string, int64, sash.Decision) { attempts.Add(1) }))}
			fromSlow := []string{"a", "b", "c"} // the policies, by the length of their windows
			for i, name := range fromSlow {
				limit := sash.Per(3+random.Int64N(5), time.Duration(20-7*i+random.IntN(6))*time.Second)
				p := queued(name, "", []sash.Limit{limit, limit.Counter(), limit.TokenBucket(3)}[random.IntN(3)], q)
				if random.IntN(2) == 0 {
					p.Key = httplimit.Everyone()
				}
				p.Skip = func(r *http.Request) bool { return !strings.Contains(r.URL.Path, name) }
				p.Cost = func(r *http.Request) int64 { return int64(len(r.Header.Get("X-Size"))) }
				options = append(options, p)
			}
			l := newLobby(t, options...)
			var waits []waiting
			check := func(step int) {
				for _, entry := range l.happened() {
					name, _, _ := strings.Cut(entry, " ")
					require.Equal(t, name+" served", entry)
					waits = slices.DeleteFunc(waits, func(w waiting) bool { return w.name == name })
				}
				taken := make(map[string]bool) // the keys under which an earlier one goes first
				for _, w := range waits {
					denied, explained := false, false
					for _, name := range slices.Backward(fromSlow) {
						if !strings.Contains(w.path, name) {
							continue
						}
						key, _ := l.KeyFor(name, newRequest("GET "+w.path, "X-Key", w.client))
						denied = denied || !l.Sash().Peek(key, w.cost).Allowed
						explained = explained || denied || taken[key]
						taken[key] = taken[key] || denied
					}
					require.True(t, explained, "step %d: %v waits for nothing", step, w)
				}
			}
			const steps = 100
			for step := range steps {
				if random.IntN(2) == 0 {
					l.clock.Advance(time.Duration(random.Int64N(int64(6 * time.Second))))
				} else {
					paths := []string{"/a", "/ab", "/abc", "/bc", "/c", "/ac"}
					w := waiting{strconv.Itoa(step), strconv.Itoa(random.IntN(3)), paths[random.IntN(len(paths))], 1 + random.Int64N(3)}
					l.send(w.name, "GET "+w.path, "X-Key", w.client, "X-Size", "xxx"[:w.cost])
					waits = append(waits, w)
				}
				check(step)
			}
			for step := steps; len(waits) > 0; step++ {
				require.Less(t, step, 20*steps, "%v wait for ever", waits)
				l.clock.Advance(3 * time.Second)
				check(step)
			}
			require.Zero(t, l.Waiting())
			require.Less(t, attempts.Load(), int64(10*steps))
		})
	}
}

// One client fills no queue that it shares with others. Its identity under the policies without a
// Queue tells which requests are its own.
func TestQueue_BoundsWhatOneClientHolds(t *testing.T) {
	shared := func(perClient int) httplimit.Policy {
		return forAll("all", "", sash.PerMinute(1).Log(), httplimit.Queue{Wait: 24 * time.Hour, Requests: 9, RequestsPerClient: perClient})
	}
	both := forAll("too", "", sash.PerDay(1000), httplimit.Queue{Wait: time.Hour, Requests: 1})
	each, unlimited, shadow := per("each", "", sash.PerMinute(100)), per("each", "", sash.Unlimited()), per("each", "", sash.PerMinute(100))
	shadow.Shadow = true
	anonymous, everyone := per("each", "", sash.Unlimited()), per("too", "", sash.PerDay(1000))
	anonymous.Key = httplimit.By(func(r *http.Request) (string, bool) { return strings.Trim(r.Header.Get("X-Key"), "0"), true })
	everyone.Key = httplimit.Everyone()
	for name, test := range map[string]struct {
		policies []httplimit.Option
		want     []int // how many requests of one client wait, and of the next
	}{
		"half by default":         {[]httplimit.Option{shared(0), each}, []int{5, 4, 0}},
		"as it says":              {[]httplimit.Option{shared(2), each}, []int{2, 2, 2}},
		"all of it":               {[]httplimit.Option{shared(9), each}, []int{9, 0, 0}},
		"an unlimited policy":     {[]httplimit.Option{shared(3), unlimited}, []int{3, 3, 3}},
		"two shared policies":     {[]httplimit.Option{shared(4), both, each}, []int{4, 4, 1}},
		"the empty identity":      {[]httplimit.Option{shared(2), anonymous}, []int{2, 2, 2}},
		"everyone, not queued":    {[]httplimit.Option{shared(2), everyone}, []int{9, 0, 0}},
		"only a shared policy":    {[]httplimit.Option{shared(2)}, []int{9, 0, 0}},
		"a shadow does not count": {[]httplimit.Option{shared(2), shadow}, []int{9, 0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLobby(t, test.policies...)
				l.send("first", "GET /", "X-Key", "first")
				var waited []int
				var leave []context.CancelFunc
				for client := range test.want {
					before := l.Waiting()
					for range 10 {
						leave = append(leave, l.send("", "GET /", "X-Key", fmt.Sprint(client)))
					}
					waited = append(waited, l.Waiting()-before)
				}
				for _, gone := range leave {
					gone()
				}
				synctest.Wait()
				require.Equal(t, test.want, waited)
				require.Zero(t, l.Waiting())
				full := slices.ContainsFunc(l.events, func(e httplimit.Event) bool { return e.Policy == "all" && e.QueueFull })
				require.True(t, full)
			})
		})
	}
}

// A request that waits for one key makes no request for another key cost more, neither while it waits
// nor after that.
func TestQueue_ARequestThatWaitsCostsOthersNothing(t *testing.T) {
	q := httplimit.Queue{Wait: time.Minute, Requests: 9}
	synctest.Test(t, func(t *testing.T) {
		store := new(localStore)
		s := newStoreSite(t, store, queued("p", "", sash.PerHour(1).Log(), q))
		ctx, leave := context.WithCancel(t.Context())
		for range 2 {
			go s.ServeHTTP(httptest.NewRecorder(), newRequest("GET /", "X-Key", "k").WithContext(ctx))
			synctest.Wait()
		}
		store.calls = nil
		s.do("GET /", "X-Key", "while")
		leave()
		synctest.Wait()
		s.do("GET /", "X-Key", "after")
		require.Equal(t, []string{"take p\x00while", "take p\x00after"}, store.calls)
	})
	if race.Enabled {
		return // the race detector makes pools drop items
	}
	allocations := func(waiting int) (n float64) {
		synctest.Test(t, func(t *testing.T) {
			l := newLobby(t, queued("p", "", sash.PerHour(1e6), q))
			key, _ := l.KeyFor("p", newRequest("GET /", "X-Key", "k"))
			require.NoError(t, l.Sash().SetLimits(key, sash.PerMinute(1)))
			for range 1 + waiting {
				l.send("", "GET /", "X-Key", "k")
			}
			require.Equal(t, waiting, l.Waiting())
			r, w, handler := newRequest("GET /", "X-Key", "other"), &bareWriter{http.Header{}}, l.Middleware(http.NotFoundHandler())
			n = testing.AllocsPerRun(1000, func() {
				clear(w.header)
				handler.ServeHTTP(w, r)
			})
			l.after(time.Minute)
		})
		return n
	}
	require.Equal(t, allocations(0), allocations(1))
}

// Requests that wait start over when policies are replaced, in whatever order they wake. Each finds its
// place among the others in a few steps.
func TestQueue_StartsOverInFewSteps(t *testing.T) {
	n := 20_000
	if race.Enabled || testing.Short() {
		n = 2000
	}
	synctest.Test(t, func(t *testing.T) {
		p := queued("p", "", sash.PerHour(1).Log(), httplimit.Queue{Wait: 24 * time.Hour, Requests: n})
		l := httplimit.Must(httplimit.New(p, httplimit.WithSweepInterval(-1))) // a ManualClock looks at all that wait for it
		r := newRequest("GET /", "X-Key", "k")
		require.Equal(t, httplimit.Admitted, l.Decide(nil, r).Outcome)
		ctx, leave := context.WithCancel(t.Context())
		for range n {
			go l.Decide(nil, r.WithContext(ctx))
		}
		synctest.Wait()
		require.Equal(t, n, l.Waiting())
		before := l.Steps()
		require.NoError(t, l.Reconfigure(p))
		synctest.Wait()
		require.Equal(t, n, l.Waiting())
		leave()
		synctest.Wait()
		require.Zero(t, l.Waiting())
		// It leaves a line, enters one, begins, ends, and leaves it in the end.
		require.Less(t, l.Steps()-before, 40*n*bits.Len(uint(n)))
	})
}
