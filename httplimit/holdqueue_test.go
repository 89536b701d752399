package httplimit_test

import (
	"context"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// An office is a lobby whose requests are served until they are told to end.
type office struct {
	*lobby
	ends sync.Map // channels by the names of requests, closed to end them
}

func newOffice(t *testing.T, options ...httplimit.Option) *office {
	o := &office{lobby: newLobby(t, options...)}
	o.answer = func(w http.ResponseWriter, r *http.Request) {
		name := r.Header.Get("X-Name")
		o.note(name, "served")
		<-o.endOf(name)
		w.WriteHeader(http.StatusOK)
	}
	t.Cleanup(func() {
		for _, name := range []string{"a", "b", "c", "d", "e"} {
			o.end(name)
		}
	})
	return o
}

func (o *office) endOf(name string) chan struct{} {
	ends, _ := o.ends.LoadOrStore(name, make(chan struct{}))
	return ends.(chan struct{})
}

// end lets a request end.
func (o *office) end(name string) {
	select {
	case <-o.endOf(name):
	default:
		close(o.endOf(name))
	}
}

// lining returns p with a queue.
func lining(p httplimit.Policy, wait time.Duration) httplimit.Policy {
	p.Queue = httplimit.Queue{Wait: wait, Requests: 10, RequestsPerClient: 10}
	return p
}

// Each response that ends lets the next request go on, in order, though a slot may be held for an hour and a
// request waits for a second at most.
func TestAtOnce_AQueueIsWokenByEachResponse(t *testing.T) {
	for name, more := range map[string][]sash.Limit{"alone": nil, "next to a rate": {sash.PerMinute(100).Log()}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := newOffice(t, lining(holding(1, more...), time.Second))
				for _, name := range []string{"a", "b", "c", "d"} {
					o.send(name, "GET /", "X-Key", "k")
				}
				o.send("e", "GET /", "X-Key", "other")
				require.Equal(t, []string{"a served", "e served"}, o.happened())
				o.end("a")
				require.Equal(t, []string{"b served"}, o.happened())
				o.clock.Advance(999 * time.Millisecond)
				require.Empty(t, o.happened())
				o.end("b")
				require.Equal(t, []string{"c served"}, o.happened())
				o.clock.Advance(time.Millisecond)
				require.Equal(t, []string{"d 429 1"}, o.happened(), "its time is over")
			})
		})
	}
}

// A request waits for a slot whatever the deadline of its context, and is refused at once for a rate that is
// sure to deny it for longer.
func TestAtOnce_OnlyARateIsSureToLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, lining(holding(1, sash.PerMinute(2).Log()), 30*time.Second))
		o.send("a", "GET /", "X-Key", "k")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		verdict := make(chan httplimit.Verdict, 2)
		decide := func() {
			verdict <- o.Decide(nil, newRequest("GET /", "X-Key", "k").WithContext(ctx))
		}
		go decide()
		synctest.Wait()
		require.Empty(t, verdict, "it waits")
		o.end("a")
		synctest.Wait()
		b := <-verdict
		require.Equal(t, httplimit.Admitted, b.Outcome)
		go decide()
		synctest.Wait()
		require.Equal(t, time.Minute, (<-verdict).Denial.RetryAfter, "at once: the rate is used up")
		b.Charges.Settle(httplimit.Response{})
	})
}

// A request that waits holds nothing, and neither does one whose client has hung up while it waited.
func TestAtOnce_AClientThatLeavesTheQueueHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, lining(holding(1), time.Minute), lining(per("rate", "", sash.PerMinute(100).Log()), time.Minute))
		o.send("a", "GET /", "X-Key", "k")
		gone := o.send("b", "GET /", "X-Key", "k")
		o.send("c", "GET /", "X-Key", "k")
		require.Equal(t, []string{"a served"}, o.happened())
		gone()
		require.Equal(t, []string{"b 429 1"}, o.happened())
		o.end("a")
		require.Equal(t, []string{"c served"}, o.happened())
		o.end("c")
		synctest.Wait()
		require.Zero(t, o.held(t, "api", 1))
	})
}

// Requests that wait for their slots go on under policies that replace theirs, and the slots of before count.
// They start over one after the other, and a later one may be faster, but not on one processor.
func TestAtOnce_ReconfigureWhileRequestsWait(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, lining(holding(1), time.Minute))
		for _, name := range []string{"a", "b", "c"} {
			o.send(name, "GET /", "X-Key", "k")
		}
		require.Equal(t, []string{"a served"}, o.happened())
		require.NoError(t, o.Reconfigure(lining(holding(2), time.Minute)))
		require.Equal(t, []string{"b served"}, o.happened())
		o.end("a")
		require.Equal(t, []string{"c served"}, o.happened())
	})
}

// A request that came before its policy had a queue lets those go on that wait when it ends.
func TestAtOnce_AQueueThatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOffice(t, holding(1))
		o.send("a", "GET /", "X-Key", "k")
		require.NoError(t, o.Reconfigure(lining(holding(1), time.Minute)))
		o.send("b", "GET /", "X-Key", "k")
		require.Equal(t, []string{"a served"}, o.happened())
		o.end("a")
		require.Equal(t, []string{"b served"}, o.happened())
	})
}

// The panic of an observer gives back the slot, and the next request has it.
func TestAtOnce_AnObserverThatPanicsWakesAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		admitted := 0
		var o *office
		fail := make(chan struct{})
		o = newOffice(t, lining(holding(1), time.Minute), httplimit.WithObserver(func(e httplimit.Event) {
			if admitted++; admitted == 1 {
				<-fail
				panic("of a test")
			}
		}))
		o.send("a", "GET /", "X-Key", "k")
		o.send("b", "GET /", "X-Key", "k")
		require.Empty(t, o.happened())
		close(fail)
		require.ElementsMatch(t, []string{"a 500 ", "b served"}, o.happened())
	})
}

// Another process may give a slot back at any time. So a request that waits asks the store each second.
func TestAtOnce_AQueueAsksAStoreEachSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &localStore{}
		s := newStoreSite(t, store, lining(holding(1), 10*time.Second))
		held, d := store.Limiter.Reserve("api\x00k", 1)
		require.True(t, d.Allowed)
		codes := make(chan int, 1)
		begun := time.Now()
		go func() { codes <- s.do("GET /", "X-Key", "k").Code }()
		time.Sleep(2500 * time.Millisecond) // of the bubble
		held.Release()
		require.Equal(t, 200, <-codes)
		require.Equal(t, 3, int(time.Since(begun).Round(time.Second)/time.Second))
		require.EqualValues(t, 1, store.Limiter.Peek("api\x00k", 0).Remaining)
		_, _ = store.Limiter.Reserve("api\x00k", 1)
		require.Equal(t, 429, s.do("GET /", "X-Key", "k").Code, "after its time")
		require.Less(t, len(store.calls), 40)
	})
}

// A request that a response wakes under one policy finds what the response gives back under others, too, although
// that takes a while.
func TestAtOnce_AWokenRequestFindsAllThatIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failures := httplimit.Policy{Name: "failures", Key: httplimit.Everyone(), Limits: []sash.Limit{sash.PerMinute(2)},
			Charge: func(int) bool {
				time.Sleep(time.Second) // of the bubble
				return false
			}}
		o := newOffice(t, lining(holding(1), time.Second), failures)
		o.send("a", "GET /", "X-Key", "k")
		o.send("b", "GET /", "X-Key", "k")
		o.send("c", "GET /", "X-Key", "other") // takes what b has found
		require.Equal(t, []string{"a served", "c served"}, o.happened())
		o.end("a")
		time.Sleep(2 * time.Second) // of the bubble
		require.Equal(t, []string{"b served"}, o.happened())
		o.end("b")
		o.end("c")
		time.Sleep(2 * time.Second) // of the bubble
	})
}
