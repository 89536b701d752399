package httplimit_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/race"
)

// queued returns a policy whose requests wait.
func queued(name, pattern string, limit sash.Limit, q httplimit.Queue) httplimit.Policy {
	p := per(name, pattern, limit)
	p.Queue = q
	return p
}

// A lobby is a site in a synctest bubble, to which requests are sent that may wait.
type lobby struct {
	*site
	mu     sync.Mutex
	log    []string // what became of the requests, in order
	events []httplimit.Event
}

func newLobby(t *testing.T, options ...httplimit.Option) *lobby {
	l := new(lobby)
	l.site = newSite(t, append(options, httplimit.WithObserver(func(e httplimit.Event) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.events = append(l.events, e)
	}))...)
	l.answer = func(w http.ResponseWriter, r *http.Request) {
		l.note(r.Header.Get("X-Name"), "served")
		w.WriteHeader(200)
	}
	return l
}

func (l *lobby) note(name, what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = append(l.log, name+" "+what)
}

// send sends a request of that name, and returns once it has ended or waits. gone ends its
// context.
func (l *lobby) send(name, request string, headers ...string) (gone context.CancelFunc) {
	ctx, gone := context.WithCancel(context.Background())
	go func() {
		w := httptest.NewRecorder()
		l.ServeHTTP(w, newRequest(request, append(headers, "X-Name", name)...).WithContext(ctx))
		if w.Code != 200 {
			l.note(name, strconv.Itoa(w.Code)+" "+w.Header().Get("Retry-After"))
		}
	}()
	synctest.Wait()
	return gone
}

// happened returns what has happened since the last call.
func (l *lobby) happened() (log []string) {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	log, l.log = l.log, nil
	return log
}

// after moves the clock on, and returns what has happened.
func (l *lobby) after(d time.Duration) []string {
	l.clock.Advance(d)
	return l.happened()
}

func sorted(log []string) []string {
	slices.Sort(log)
	return log
}

func TestQueue_ServesRequestsInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, queued("p", "", sash.PerSecond(1).Log(), httplimit.Queue{Wait: time.Minute, Requests: 10}))
		for i := range 6 {
			l.send(fmt.Sprint(i), "GET /", "X-Key", "k")
		}
		require.Equal(t, []string{"0 served"}, l.happened())
		l.send("other", "GET /", "X-Key", "other")
		require.Equal(t, []string{"other served"}, l.happened(), "nobody waits for this key")
		require.Empty(t, l.after(time.Second-1))
		require.Equal(t, []string{"1 served"}, l.after(1))
		l.send("late", "GET /", "X-Key", "k")
		require.Equal(t, []string{"2 served"}, l.after(time.Second))
		for _, want := range []string{"3", "4", "5", "late"} {
			require.Equal(t, []string{want + " served"}, l.after(time.Second))
		}
		last := l.events[len(l.events)-1]
		require.Equal(t, httplimit.Admitted, last.Outcome)
		require.Equal(t, 5*time.Second, last.Waited)
		require.Zero(t, l.events[0].Waited)
	})
}

// A request that would be admitted does not overtake one that waits for more units.
func TestQueue_IsNotOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := queued("p", "", sash.PerSecond(4).Log(), httplimit.Queue{Wait: time.Minute, Requests: 10})
		p.Cost = func(r *http.Request) int64 { return int64(len(r.Header.Get("X-Size"))) }
		l := newLobby(t, p)
		l.send("three", "GET /", "X-Key", "k", "X-Size", "xxx")
		l.send("two", "GET /", "X-Key", "k", "X-Size", "xx")
		l.send("one", "GET /", "X-Key", "k", "X-Size", "x")
		require.Equal(t, []string{"three served"}, l.happened())
		require.Equal(t, []string{"two served", "one served"}, l.after(time.Second))
	})
}

func TestQueue_IsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, queued("p", "", sash.PerSecond(1).Log(), httplimit.Queue{Wait: time.Minute, Requests: 3, RequestsEach: 2}))
		for _, key := range []string{"a", "b", "c"} {
			l.send(key, "GET /", "X-Key", key)
		}
		require.Equal(t, []string{"a served", "b served", "c served"}, l.happened())
		for i := range 3 {
			l.send(fmt.Sprint("a", i), "GET /", "X-Key", "a")
		}
		require.Equal(t, []string{"a2 429 1"}, l.happened(), "RequestsEach")
		l.send("b0", "GET /", "X-Key", "b")
		l.send("c0", "GET /", "X-Key", "c")
		require.Equal(t, []string{"c0 429 1"}, l.happened(), "Requests")
		require.ElementsMatch(t, []string{"a0 served", "b0 served"}, l.after(time.Second))
		l.send("c1", "GET /", "X-Key", "c")
		require.Equal(t, []string{"c1 served"}, l.happened())
		require.Equal(t, []string{"a1 served"}, l.after(time.Second))
	})
}

// Events tell a request for which there was no room, one that has waited in vain, and one that was
// refused at once.
func TestQueue_EventsTellWhyARequestIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := queued("other", "/other", sash.PerHour(1).Log(), httplimit.Queue{Wait: time.Minute, Requests: 9})
		l := newLobby(t, queued("p", "", sash.PerMinute(2).Log(), httplimit.Queue{Wait: time.Minute, Requests: 1}), other)
		denied := func(d time.Duration) []httplimit.Event {
			l.after(d)
			events := slices.DeleteFunc(l.events, func(e httplimit.Event) bool { return e.Outcome != httplimit.Denied })
			l.events = nil
			return events
		}
		first := l.Decide(nil, newRequest("GET /other", "X-Key", "k"))
		require.Equal(t, httplimit.Admitted, first.Outcome)
		l.send("second", "GET /", "X-Key", "k")
		require.Empty(t, denied(30*time.Second))

		l.send("hopeless", "GET /other", "X-Key", "k")
		e := denied(0)
		require.Equal(t, "p other", e[0].Policy+" "+e[1].Policy)
		require.Equal(t, []any{false, false, time.Duration(0)}, []any{e[0].QueueFull, e[1].QueueFull, e[0].Waited})

		l.send("waits", "GET /", "X-Key", "k")
		l.send("served", "GET /", "X-Key", "another")
		l.send("served", "GET /", "X-Key", "another")
		for _, key := range []string{"k", "another"} { // behind the one that waits, and as the first of its key
			l.send("full", "GET /", "X-Key", key)
			e = denied(0)
			require.Len(t, e, 1)
			require.Equal(t, []any{"p", true, time.Duration(0)}, []any{e[0].Policy, e[0].QueueFull, e[0].Waited})
		}

		key, _ := l.KeyFor("p", newRequest("GET /", "X-Key", "k"))
		l.Sash().Reset(key)
		require.NoError(t, l.Sash().SetLimits(key, sash.PerHour(0)))
		e = denied(30 * time.Second)
		require.Equal(t, []any{"p", false, 30 * time.Second}, []any{e[0].Policy, e[0].QueueFull, e[0].Waited})
	})
}

func TestQueue_RefusesAtOnceWhatCannotBeServedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, queued("p", "", sash.Per(1, 10*time.Second).Log(), httplimit.Queue{Wait: 4 * time.Second, Requests: 9}))
		l.send("first", "GET /", "X-Key", "k")
		l.send("too early", "GET /", "X-Key", "k")
		require.Equal(t, []string{"first served", "too early 429 10"}, l.happened())
		l.clock.Advance(6 * time.Second)
		l.send("waits", "GET /", "X-Key", "k")
		l.clock.Advance(time.Second)
		l.send("behind", "GET /", "X-Key", "k")
		require.Empty(t, l.happened())
		require.Equal(t, []string{"behind 429 10", "waits served"}, sorted(l.after(3*time.Second)))
		last := l.events[len(l.events)-1]
		require.Equal(t, httplimit.Denied, last.Outcome)
		require.Equal(t, 3*time.Second, last.Waited)
	})
}

// A context with a deadline is known to end too early.
func TestQueue_RefusesAtOnceWhatItsContextDoesNotWaitFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, queued("p", "", sash.PerMinute(1).Log(), httplimit.Queue{Wait: time.Hour, Requests: 9}))
		require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		v := s.Decide(nil, newRequest("GET /", "X-Key", "k").WithContext(ctx))
		require.Equal(t, httplimit.Denied, v.Outcome)
		require.Equal(t, time.Minute, v.Denial.RetryAfter)
	})
}

// A request whose time is over before its turn is denied, though nothing else denies it.
func TestQueue_DeniesARequestThatHasNoTurnInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := queued("p", "", sash.PerHour(3).Log(), httplimit.Queue{Wait: time.Hour, Requests: 9})
		impatient := queued("impatient", "/impatient", sash.PerHour(9).Log(), httplimit.Queue{Wait: time.Second, Requests: 9})
		p.Cost = func(r *http.Request) int64 { return int64(len(r.Header.Get("X-Size"))) }
		l := newLobby(t, p, impatient)
		l.send("two", "GET /", "X-Key", "k", "X-Size", "xx")
		l.send("all", "GET /", "X-Key", "k", "X-Size", "xxx")
		l.send("one", "GET /impatient", "X-Key", "k", "X-Size", "x")
		require.Equal(t, []string{"two served"}, l.happened())
		require.Equal(t, []string{"one 429 1"}, l.after(time.Second))
		require.Equal(t, []string{"all served"}, l.after(time.Hour-time.Second))
	})
}

func TestQueue_GivesUpWithItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, queued("p", "", sash.PerSecond(1).Log(), httplimit.Queue{Wait: time.Minute, Requests: 9}))
		l.send("0", "GET /", "X-Key", "k")
		first, second := l.send("1", "GET /", "X-Key", "k"), l.send("2", "GET /", "X-Key", "k")
		l.send("3", "GET /", "X-Key", "k")
		l.happened()
		second()
		require.Equal(t, []string{"2 429 1"}, l.happened(), "it is answered at once, if anybody listens")
		require.Equal(t, httplimit.Abandoned, l.events[len(l.events)-1].Outcome)
		first()
		require.Equal(t, []string{"1 429 1"}, l.happened())
		require.Equal(t, []string{"3 served"}, l.after(time.Second), "those who have gone are not charged")
		require.EqualValues(t, 2, l.served.Load())
		require.Zero(t, l.Waiting())
	})
}

// A request that its policies would admit is refused by the policy whose queue is full, though
// another one has the same limit.
func TestQueue_RefusesInTheNameOfThePolicyWithTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := queued("first", "", sash.PerHour(3).Log(), httplimit.Queue{Wait: time.Hour, Requests: 9})
		second := first
		second.Name, second.Key, second.Queue.Requests = "second", httplimit.Everyone(), 1
		second.Cost = func(r *http.Request) int64 { return int64(len(r.Header.Get("X-Size"))) }
		l := newLobby(t, first, second)
		l.send("two", "GET /", "X-Key", "a", "X-Size", "xx")
		l.send("waits", "GET /", "X-Key", "b", "X-Size", "xx")
		l.events = nil
		v := l.Decide(nil, newRequest("GET /", "X-Key", "c", "X-Size", "x"))
		require.Equal(t, []string{"second"}, v.Denial.Violated)
		require.Equal(t, httplimit.Withheld, l.events[0].Outcome)
		require.Equal(t, httplimit.Denied, l.events[1].Outcome)
		require.Equal(t, []string{"two served", "waits served"}, append(l.happened(), l.after(time.Hour)...))
	})
}

// A request whose client leaves while it is admitted is not served, and not charged.
func TestQueue_ServesNoneWhoseClientLeavesAtItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var leave context.CancelFunc
		l := newLobby(t, queued("p", "", sash.PerSecond(1).Log(), httplimit.Queue{Wait: time.Minute, Requests: 9}),
			httplimit.WithSash(sash.WithObserver(func(_ string, _ int64, d sash.Decision) {
				if d.Allowed && leave != nil {
					leave()
					leave = nil
				}
			})))
		l.send("0", "GET /", "X-Key", "k")
		gone := l.send("1", "GET /", "X-Key", "k")
		l.send("2", "GET /", "X-Key", "k")
		l.happened()
		leave = gone
		require.ElementsMatch(t, []string{"1 429 1", "2 served"}, l.after(time.Second))
		require.EqualValues(t, 2, l.served.Load())
	})
}

// A clock that goes back lets nobody wait for a negative time, or give up because of an overflow.
func TestQueue_OutlastsAClockThatGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, queued("p", "", sash.PerHour(1).Log(), httplimit.Queue{Wait: sash.Never, Requests: 9}))
		l.send("0", "GET /", "X-Key", "k")
		leave := l.send("1", "GET /", "X-Key", "k")
		l.send("2", "GET /", "X-Key", "k")
		l.clock.Set(-int64(time.Hour))
		leave()
		require.Equal(t, []string{"0 served", "1 429 3600"}, l.happened())
		require.Zero(t, l.events[len(l.events)-1].Waited)
		require.Equal(t, []string{"2 served"}, l.after(2*time.Hour))
	})
}

// Units that are given back after a response are for those who wait.
func TestQueue_LearnsOfUnitsThatAreGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := queued("p", "", sash.PerHour(1).Log(), httplimit.Queue{Wait: time.Hour, Requests: 9})
		p.Charge = func(status int) bool { return status == 200 }
		l := newLobby(t, p)
		release := make(chan struct{})
		l.answer = func(w http.ResponseWriter, r *http.Request) {
			name := r.Header.Get("X-Name")
			l.note(name, "served")
			if name == "fails" {
				<-release
				w.WriteHeader(500)
				return
			}
			w.WriteHeader(200)
		}
		l.send("fails", "GET /", "X-Key", "k")
		l.send("waits", "GET /", "X-Key", "k")
		require.Equal(t, []string{"fails served"}, l.happened())
		close(release)
		require.Equal(t, []string{"fails 500 ", "waits served"}, sorted(l.happened()))
	})
}

// The same between the denial of a request and its entry in the queue.
func TestQueue_LearnsOfUnitsThatAreGivenBackAsItBeginsToWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := queued("p", "", sash.PerHour(1).Log(), httplimit.Queue{Wait: time.Hour, Requests: 9})
		p.Charge = func(status int) bool { return status == 200 }
		var before httplimit.Verdict
		l := newLobby(t, p, httplimit.WithSash(sash.WithObserver(func(_ string, _ int64, d sash.Decision) {
			if !d.Allowed {
				before.Charges.Settle(httplimit.Response{Status: 500})
			}
		})))
		before = l.Decide(nil, newRequest("GET /", "X-Key", "k"))
		l.send("waits", "GET /", "X-Key", "k")
		require.Equal(t, []string{"waits served"}, l.happened())
	})
}

// The same while it waits under another policy of the same limit, and tries in vain.
func TestQueue_LearnsOfUnitsThatAreGivenBackAsItTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := httplimit.Queue{Wait: time.Hour, Requests: 9}
		first, second := queued("first", "", sash.PerHour(1).Log(), q), queued("second", "/both", sash.PerHour(1).Log(), q)
		second.Key = httplimit.Everyone()
		first.Charge = func(status int) bool { return status == 200 }
		second.Charge = first.Charge
		failed := httplimit.Response{Status: 500}
		var atFirst, atSecond httplimit.Verdict
		l := newLobby(t, first, second, httplimit.WithSash(sash.WithObserver(func(_ string, _ int64, d sash.Decision) {
			if !d.Allowed {
				atSecond.Charges.Settle(failed)
			}
		})))
		atFirst = l.Decide(nil, newRequest("GET /", "X-Key", "k"))
		l.send("waits", "GET /both", "X-Key", "k")
		atSecond = l.Decide(nil, newRequest("GET /both", "X-Key", "other"))
		require.Equal(t, httplimit.Admitted, atSecond.Outcome)
		atFirst.Charges.Settle(failed)
		require.Equal(t, []string{"waits served"}, l.happened())
	})
}

// A request that waits for one of its policies does not hold up others under its other ones.
func TestQueue_HoldsUpOthersOnlyWhereItIsDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := queued("site", "", sash.PerSecond(10).Log(), httplimit.Queue{Wait: time.Minute, Requests: 9})
		site.Key = httplimit.Everyone()
		client := queued("client", "", sash.PerSecond(1).Log(), httplimit.Queue{Wait: time.Minute, Requests: 9})
		l := newLobby(t, site, client)
		l.send("a0", "GET /", "X-Key", "a")
		l.send("a1", "GET /", "X-Key", "a")
		l.send("b0", "GET /", "X-Key", "b")
		require.Equal(t, []string{"a0 served", "b0 served"}, l.happened())
		require.Equal(t, []string{"a1 served"}, l.after(time.Second))
	})
}

func TestQueue_DoesNotWaitForAPolicyWithoutOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLobby(t, queued("p", "", sash.PerSecond(1).Log(), httplimit.Queue{Wait: time.Minute, Requests: 9}),
			per("strict", "", sash.PerMinute(2).Log()))
		for i := range 4 {
			l.send(fmt.Sprint(i), "GET /", "X-Key", "k")
		}
		require.Equal(t, []string{"0 served"}, l.happened())
		require.Equal(t, []string{"1 served", "2 429 59", "3 429 59"}, sorted(l.after(time.Second)), "the second uses strict up")
		l.send("4", "GET /", "X-Key", "k")
		require.Equal(t, []string{"4 429 59"}, l.happened())
	})
}

// A request that comes to a queue late, since it has waited elsewhere, keeps its place.
func TestQueue_KeepsTheOrderInWhichRequestsCame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := queued("all", "", sash.Per(1, 6*time.Second).Log(), httplimit.Queue{Wait: time.Hour, Requests: 9})
		some := queued("some", "/some", sash.Per(1, 5*time.Second).Log(), httplimit.Queue{Wait: time.Hour, Requests: 9})
		some.Key = httplimit.Everyone()
		l := newLobby(t, all, some)
		l.send("other", "GET /some", "X-Key", "other")
		l.clock.Advance(time.Second)
		l.send("first", "GET /some", "X-Key", "k") // waits for some until 5 s
		l.clock.Advance(time.Second)
		l.send("quick", "GET /", "X-Key", "k")
		l.clock.Advance(time.Second)
		l.send("last", "GET /", "X-Key", "k") // waits for all until 8 s
		require.Equal(t, []string{"other served", "quick served"}, l.happened())
		require.Empty(t, l.after(2*time.Second), "now first waits for all, too")
		require.Equal(t, []string{"first served"}, l.after(3*time.Second))
		require.Equal(t, []string{"last served"}, l.after(6*time.Second))
	})
}

// Two requests that wait for each other's policies do not wait in a circle.
func TestQueue_NoneWaitsInACircle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		byKey := queued("key", "", sash.PerSecond(1).Log(), httplimit.Queue{Wait: time.Hour, Requests: 99})
		byName := queued("name", "", sash.PerSecond(1).Log(), httplimit.Queue{Wait: time.Hour, Requests: 99})
		byName.Key = httplimit.ByHeader("X-Other")
		l := newLobby(t, byKey, byName)
		random := rand.New(rand.NewPCG(1, 17))
		const requests = 60
		for i := range requests {
			l.send(fmt.Sprint(i), "GET /", "X-Key", fmt.Sprint(random.IntN(4)), "X-Other", fmt.Sprint(random.IntN(4)))
		}
		served := len(l.happened())
		for range requests {
			served += len(l.after(time.Second))
		}
		require.Equal(t, requests, served)
		require.Zero(t, l.Waiting())
	})
}

// There is room for each key of the request that waits, but not for all. So each policy by itself
// would admit it, at once. Those of another cost are charged before, and given back.
func TestQueue_WaitsForRoomInTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		q := httplimit.Queue{Wait: time.Hour, Requests: 9}
		costly := queued("costly", "", sash.PerHour(5), q)
		costly.Cost = func(*http.Request) int64 { return 2 }
		l := newLobby(t, costly, queued("a", "", sash.PerHour(5), q), queued("b", "", sash.PerHour(5), q),
			httplimit.WithSash(sash.WithMaxKeys(5, sash.DenyNew), sash.WithObserver(func(string, int64, sash.Decision) {
				if attempts++; attempts > 1000 {
					panic("it does not wait, and tries all the time")
				}
			})))
		l.send("has room", "GET /", "X-Key", "k")
		leave := l.send("waits", "GET /", "X-Key", "other")
		require.Equal(t, []string{"has room served"}, l.happened())
		require.Equal(t, 1, l.Waiting())
		leave()
	})
}

// Two policies deny a request together: there is room for either of its keys, but not for both. Neither
// denies it by itself, but it waits under both. So a later request of its client, which has one of them,
// neither overtakes it nor gets that room. The policy of another cost does not deny it. So it holds up no
// request there.
func TestQueue_IsNotOvertakenWhereItsPoliciesDenyItTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := httplimit.Queue{Wait: time.Hour, Requests: 9}
		costly := forAll("costly", "", sash.PerMinute(100), q)
		costly.Cost = func(*http.Request) int64 { return 2 }
		l := newLobby(t, costly, queued("a", "/a/", sash.PerMinute(5).Log(), q), queued("b", "/a/b", sash.PerMinute(5).Log(), q),
			httplimit.WithSash(sash.WithMaxKeys(4, sash.DenyNew)))
		l.send("has room", "GET /a/b", "X-Key", "k") // its keys are three of four
		l.send("waits", "GET /a/b", "X-Key", "other")
		l.send("later", "GET /a/", "X-Key", "other")
		require.Equal(t, []string{"has room served"}, l.happened())
		require.Equal(t, 2, l.Waiting())
		l.send("elsewhere", "GET /", "X-Key", "other")
		require.Equal(t, []string{"elsewhere served"}, l.happened())
		var log []string
		for range 10 {
			step := l.after(time.Minute) // idle keys make room
			slices.Sort(step)
			slices.Reverse(step) // two that are admitted at one instant are served in any order
			log = append(log, step...)
		}
		require.Equal(t, []string{"waits served", "later served"}, log)
		require.Zero(t, l.Waiting())
	})
}

func TestQueue_OfAStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(localStore)
		s := newStoreSite(t, store, queued("p", "", sash.PerSecond(1).Log(), httplimit.Queue{Wait: time.Minute, Requests: 1}))
		require.Equal(t, 200, s.do("GET /", "X-Key", "k").Code)
		done := make(chan int)
		go func() { done <- s.do("GET /", "X-Key", "k").Code }()
		synctest.Wait()
		require.Equal(t, 429, s.do("GET /", "X-Key", "k").Code, "the queue is full")
		store.Limiter.Clock().(*sash.ManualClock).Advance(time.Second)
		time.Sleep(time.Second) // of the bubble: the store has a clock of its own
		require.Equal(t, 200, <-done)
	})
}

// Whatever a store says, a request that waits does not ask it all the time.
func TestQueue_DoesNotAskAStoreAllTheTime(t *testing.T) {
	q := httplimit.Queue{Wait: time.Second, Requests: 9}
	calls := func(t *testing.T, answer func(call int, d *httplimit.StoreDecision)) int {
		store := new(localStore)
		s := newStoreSite(t, store, queued("a", "", sash.PerHour(9), q), queued("b", "", sash.PerHour(9), q))
		store.tampered = func(d *httplimit.StoreDecision) {
			if len(store.calls) > 5000 {
				panic("it asks all the time")
			}
			answer(len(store.calls), d)
		}
		v := s.Decide(nil, newRequest("GET /", "X-Key", "k"))
		require.Equal(t, httplimit.Denied, v.Outcome)
		require.Positive(t, v.Denial.RetryAfter)
		return len(store.calls)
	}
	deny := func(d *sash.Decision, after time.Duration) { d.Allowed, d.RetryAfter = false, after }
	for _, after := range []time.Duration{0, -time.Hour, math.MinInt64} {
		synctest.Test(t, func(t *testing.T) {
			require.LessOrEqual(t, calls(t, func(_ int, d *httplimit.StoreDecision) {
				deny(&d.Decision, after)
				deny(&d.Keys[0].Decision, after)
				deny(&d.Keys[1].Decision, after)
			}), 12, "at first, and then each 100 ms")
		})
	}
	synctest.Test(t, func(t *testing.T) { // another policy each time, in whose queue it has not waited
		require.LessOrEqual(t, calls(t, func(call int, d *httplimit.StoreDecision) {
			deny(&d.Decision, 1)
			deny(&d.Keys[call%2].Decision, 1)
			d.Keys[(call+1)%2].Allowed = true
		}), 1002, "each millisecond")
	})
}

// A request that does not wait makes no reservation. For that, its key would keep for good all
// that it has to know to give units back.
func TestQueue_AllocatesNothingForRequestsThatDoNotWait(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector makes pools drop items")
	}
	allocations := func(q httplimit.Queue) float64 {
		handler := newSite(t, queued("p", "", sash.PerHour(1e6), q)).Middleware(http.NotFoundHandler())
		r, w := newRequest("GET /", "X-Key", "k"), &bareWriter{http.Header{}}
		return testing.AllocsPerRun(1000, func() {
			clear(w.header)
			handler.ServeHTTP(w, r)
		})
	}
	q := httplimit.Queue{Wait: time.Minute, Requests: 9}
	require.Equal(t, allocations(httplimit.Queue{}), allocations(q))
	store := new(localStore)
	newStoreSite(t, store, queued("p", "", sash.PerHour(9), q)).do("GET /", "X-Key", "k")
	require.Equal(t, []string{"take p\x00k"}, store.calls)
}

func TestQueue_IsValidated(t *testing.T) {
	for want, q := range map[string]httplimit.Queue{
		"Wait must not be negative, got -1s":                                             {Wait: -time.Second},
		"Requests must be at least 1 if there is a Wait, got 0":                          {Wait: time.Second},
		"Wait must be more than 0 if Requests, RequestsEach or RequestsPerClient is set": {Requests: 1},
		"RequestsEach must not be negative, got -1":                                      {Wait: 1, Requests: 1, RequestsEach: -1},
		"RequestsPerClient must not be negative, got -1":                                 {Wait: 1, Requests: 1, RequestsPerClient: -1},
	} {
		_, err := httplimit.New(queued("p", "", sash.PerSecond(1), q))
		require.EqualError(t, err, `httplimit: policy "p": Queue: `+want+": invalid option")
	}
	_, err := httplimit.New(queued("p", "", sash.PerSecond(1), httplimit.Queue{Wait: 1, Requests: 1}), httplimit.WithSash(sash.WithChargeDenied()))
	require.ErrorContains(t, err, "sash.WithChargeDenied does not work with a Queue")
}

// Requests of many clients that wait, leave and are served at once: no unit is lost, no order is
// broken, nobody is left.
func TestQueue_UnderLoad(t *testing.T) {
	const clients, each = 8, 150
	byKey := queued("key", "", sash.PerSecond(3).Log(), httplimit.Queue{Wait: time.Minute, Requests: 2000})
	site := queued("site", "", sash.PerSecond(10), httplimit.Queue{Wait: time.Minute, Requests: 2000, RequestsEach: 500})
	site.Key = httplimit.Everyone()
	site.Charge = func(status int) bool { return status != 500 }
	l := newSite(t, byKey, site)
	var mu sync.Mutex
	order := make(map[string][]int) // the requests of each client that were served
	charged := make(map[string]int)
	l.answer = func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("X-Key")
		number, _ := strconv.Atoi(r.Header.Get("X-Number"))
		mu.Lock()
		order[key] = append(order[key], number)
		mu.Unlock()
		if r.Context().Err() == nil && number%5 == 0 {
			w.WriteHeader(500)
			return
		}
		mu.Lock()
		charged[key]++
		mu.Unlock()
		w.WriteHeader(200)
	}
	var requests sync.WaitGroup
	var left sync.WaitGroup
	for client := range clients {
		left.Go(func() {
			random := rand.New(rand.NewPCG(uint64(client), 17))
			for number := range each {
				ctx, leave := context.WithCancel(t.Context())
				arrived := make(chan struct{})
				requests.Go(func() {
					defer leave()
					r := newRequest("GET /", "X-Key", fmt.Sprint(client), "X-Number", fmt.Sprint(number))
					close(arrived)
					l.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
				})
				<-arrived
				if random.IntN(4) == 0 {
					requests.Go(leave)
				}
			}
		})
	}
	left.Wait()
	done := make(chan struct{})
	go func() { requests.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
			l.clock.Advance(20 * time.Millisecond)
		}
	}
	require.Zero(t, l.Waiting())
	served := 0
	for _, numbers := range order {
		served += len(numbers)
	}
	require.EqualValues(t, l.served.Load(), served)
	require.Less(t, served, clients*each, "some have left")
}

// A steppingClock moves on once, right after one of its readings.
type steppingClock struct {
	*sash.ManualClock
	readings atomic.Int64 // left until then
	step     time.Duration
}

func (c *steppingClock) Now() int64 {
	now := c.ManualClock.Now()
	if c.readings.Add(-1) == 0 {
		c.Advance(c.step)
	}
	return now
}

// No reading of the clock is so late that a request waits for longer than it must.
func TestQueue_DoesNotOversleepWhenTimePassesDuringAnAttempt(t *testing.T) {
	for reading := range int64(12) {
		synctest.Test(t, func(t *testing.T) {
			clock := &steppingClock{ManualClock: sash.NewManualClock(0), step: time.Second}
			l := httplimit.Must(httplimit.New(
				queued("p", "", sash.PerSecond(1).Log(), httplimit.Queue{Wait: time.Minute, Requests: 1}),
				httplimit.WithClock(clock), httplimit.WithSweepInterval(-1)))
			decide := func(ctx context.Context) httplimit.Outcome {
				return l.Decide(nil, newRequest("GET /", "X-Key", "k").WithContext(ctx)).Outcome
			}
			require.Equal(t, httplimit.Admitted, decide(t.Context()))

			ctx, gone := context.WithCancel(t.Context())
			defer gone()
			outcome := make(chan httplimit.Outcome, 1)
			clock.readings.Store(1 + reading)
			go func() { outcome <- decide(ctx) }()
			synctest.Wait()
			if clock.ManualClock.Now() == 0 { // it waits, after fewer readings
				clock.Advance(clock.step)
			}
			synctest.Wait()
			require.Len(t, outcome, 1, "it waits on, though it is admitted, after reading %d", 1+reading)
			require.Equal(t, httplimit.Admitted, <-outcome)
		})
	}
}

// Against a model: a list of waiters for each key, and the times of its admissions.
func TestQueue_EqualsAModel(t *testing.T) {
	const count = 3
	type waiting struct {
		name string
		cost int
		gone context.CancelFunc
	}
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			p := queued("p", "", sash.PerSecond(count).Log(), httplimit.Queue{Wait: 24 * time.Hour, Requests: 1000})
			p.Cost = func(r *http.Request) int64 { return int64(len(r.Header.Get("X-Size"))) }
			l, random := newLobby(t, p), rand.New(rand.NewPCG(seed, 17))
			queues, admitted := make(map[string][]waiting), make(map[string][]time.Duration)
			now := time.Duration(0)
			for step := range 400 {
				key := fmt.Sprint(random.IntN(3))
				var want []string
				switch random.IntN(4) {
				case 0, 1:
					w := waiting{name: fmt.Sprint(key, "#", step), cost: 1 + random.IntN(count)}
					w.gone = l.send(w.name, "GET /", "X-Key", key, "X-Size", "xxx"[:w.cost])
					queues[key] = append(queues[key], w)
				case 2:
					if n := len(queues[key]); n > 0 {
						i := random.IntN(n)
						want = append(want, queues[key][i].name+" 429 1")
						queues[key][i].gone()
						queues[key] = slices.Delete(queues[key], i, i+1)
					}
				case 3:
					d := time.Duration(random.IntN(int(time.Second)))
					now += d
					l.clock.Advance(d)
				}
				for key := range queues {
					for len(queues[key]) > 0 {
						w := queues[key][0]
						admitted[key] = slices.DeleteFunc(admitted[key], func(at time.Duration) bool { return at <= now-time.Second })
						if len(admitted[key])+w.cost > count {
							break
						}
						admitted[key] = append(admitted[key], slices.Repeat([]time.Duration{now}, w.cost)...)
						queues[key] = queues[key][1:]
						want = append(want, w.name+" served")
					}
				}
				require.Equal(t, sorted(want), sorted(l.happened()), "step %d", step)
			}
			for _, queue := range queues {
				for _, w := range queue {
					w.gone()
				}
			}
			synctest.Wait()
			require.Zero(t, l.Waiting())
		})
	}
}

// The client of a real server hangs up while its request waits.
func TestQueue_NoticesThatAClientHangsUp(t *testing.T) {
	abandoned := make(chan httplimit.Event, 1)
	l := newSite(t, queued("p", "", sash.PerHour(1).Log(), httplimit.Queue{Wait: time.Hour, Requests: 1}),
		httplimit.WithObserver(func(e httplimit.Event) {
			if e.Outcome == httplimit.Abandoned {
				abandoned <- e
			}
		}))
	server := httptest.NewServer(l)
	defer server.Close()
	get := func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, "GET", server.URL, nil)
		require.NoError(t, err)
		r.Header.Set("X-Key", "k")
		response, err := server.Client().Do(r)
		if err == nil {
			response.Body.Close()
		}
		return err
	}
	require.NoError(t, get(t.Context()))
	ctx, hangUp := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- get(ctx) }()
	for l.Waiting() == 0 {
		runtime.Gosched()
	}
	hangUp()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.Equal(t, "p", (<-abandoned).Policy)
	require.EqualValues(t, 1, l.served.Load())
}

// A request that finds the Queue full is told what is left: it has taken nothing.
func TestQueue_TellsWhatIsLeftIfItIsFull(t *testing.T) {
	for served, want := range map[string]string{"7": `"p";r=3;t=3600`, "9": `"p";r=1;t=3600`} {
		synctest.Test(t, func(t *testing.T) {
			p := queued("p", "", sash.PerHour(10).Log(), httplimit.Queue{Wait: 2 * time.Hour, Requests: 1})
			p.Cost = func(r *http.Request) int64 {
				cost, _ := strconv.ParseInt(r.Header.Get("X-Cost"), 10, 64)
				return cost
			}
			l := newLobby(t, p)
			l.send("first", "GET /", "X-Key", "k", "X-Cost", served)
			gone := l.send("waits", "GET /", "X-Key", "k", "X-Cost", "5")
			refused := l.do("GET /", "X-Key", "k", "X-Cost", "1")
			require.Equal(t, 429, refused.Code)
			require.Equal(t, want, refused.Header().Get("RateLimit"))
			gone()
			synctest.Wait()
		})
	}
}
