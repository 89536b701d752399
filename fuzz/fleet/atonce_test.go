package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/redistest"
	"github.com/seed-30da4c49/sash/sashredis"
)

// Where units are held, a mirror denies what the other limits do, and never what another process may have
// given back: with a mirror, too, each answer is exact.
func TestFleet_HoldsAsTheExactRuleWithAMirror(t *testing.T) {
	s := redistest.Start(t)
	c := checkAll(t, goroutines(t, 4), count(20), func(seed uint64) plan {
		p := newPlan(s.Addr(), 7000000+seed)
		p.Settles, p.Frees = true, true
		rate := &p.Limits[0]
		rate.Count, rate.Burst, rate.Window = 1+rate.Count/3, (rate.Burst+2)/3, 2*rate.Window // so that it often denies
		held := sash.AtOnce(rate.Count, rate.Window/2)
		if p.Limits = append(p.Limits, held); seed%2 == 0 {
			p.Limits[0], p.Limits[len(p.Limits)-1] = held, p.Limits[0]
		}
		return p
	}, linearizable)
	t.Log(&c)
	require.Greater(t, c.mirror, int64(c.operations/200), "the mirror denied nothing: this test has shown little")
	require.Greater(t, c.settled, c.operations/50, "nothing was settled: this test has shown little")
}

// A shift is what a process does that takes places and is killed while it has some.
type shift struct {
	plan
	Places int // that each of its callers takes, one after the other, until the process waits to be killed
}

// A place is a unit that a process holds or held.
type place struct {
	Process, Caller, Number int

	// From and Until are the times of the server, in microseconds, at which it was taken and given back.
	// Until is 0 as long as it is held.
	From, Until int64

	Waits bool // in place of all others: from now on the process only waits to be killed
	Fault string
}

// hold is a process: it reads a shift, and writes each place when it has taken it, and when it has given it
// back. At the end it holds the last place of one caller, and what its other callers hold by then.
func hold(in io.Reader, out io.Writer) error {
	var s shift
	if err := json.NewDecoder(in).Decode(&s); err != nil {
		return err
	}
	conn, disconnect, err := connect(&s.plan)
	if err != nil {
		return err
	}
	defer disconnect()
	h := holder{shift: &s, places: json.NewEncoder(out)}
	for caller := range s.Callers {
		go h.takes(caller, conn)
	}
	_, err = io.Copy(io.Discard, in) // until it is killed
	return err
}

// A holder is a process that carries out a shift.
//
// Invariant: While ends is not held, all calls whose effect is in the store have been written. So the last
// caller, which locks it and writes that it waits, does so after them.
type holder struct {
	*shift
	ends sync.RWMutex

	mu     sync.Mutex
	places *json.Encoder
}

func (h *holder) writes(p place) {
	h.mu.Lock()
	defer h.mu.Unlock()
	_ = h.places.Encode(p) // the test notices that it is missing
}

// takes takes places, one after the other. It has a limiter of its own, so the latest round trip is of its
// latest call.
func (h *holder) takes(caller int, conn sashredis.Conn) {
	ctx, random := context.Background(), rand.New(rand.NewPCG(h.Seed, uint64(100*h.Process+caller)))
	r := &recorder{Conn: conn, prefix: h.Prefix}
	l := sashredis.Must(sashredis.New(r, h.Limits, sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithPrefix(h.Prefix), sashredis.WithTimeout(20*time.Second)))
	p := place{Process: h.Process, Caller: caller}
	var reservation sashredis.Reservation
	take := func() (taken bool) {
		h.ends.RLock()
		defer h.ends.RUnlock()
		var d sashredis.Decision
		if reservation, d = l.Reserve(ctx, "k", 1); d.Err != nil {
			p.Fault = d.Err.Error()
		}
		p.From, p.Until = r.latest(), 0
		if d.Allowed || d.Err != nil {
			h.writes(p)
		}
		return d.Allowed
	}
	release := func() {
		h.ends.RLock()
		defer h.ends.RUnlock()
		if err := reservation.Release(ctx); err != nil {
			p.Fault = err.Error()
		}
		p.Until = r.latest()
		h.writes(p)
	}
	for p.Number = 1; ; p.Number++ {
		for !take() {
			time.Sleep(time.Duration(random.Int64N(int64(2 * time.Millisecond)))) // real time, as the server's clock is real
		}
		if p.Number == h.Places {
			h.ends.Lock() // for ever
			h.writes(place{Process: h.Process, Waits: true})
			return
		}
		time.Sleep(time.Duration(random.Int64N(int64(h.Pause)))) // the work, in real time, too
		release()
	}
}

// latest returns the time of the latest round trip.
func (r *recorder) latest() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.trips[len(r.trips)-1].at
}

// until returns when p was back by the times of the server, at the latest when its lease had ended.
func (p *place) until(lease int64) int64 {
	if p.Until == 0 || p.Until > p.From+lease {
		return p.From + lease
	}
	return p.Until
}

// mostAtOnce returns how many of places were held at a time, at most. One that is back at the time at which
// another was taken was back before.
func mostAtOnce(places []place, lease int64) (most int) {
	type change struct{ at, by int64 }
	var changes []change
	for _, p := range places {
		changes = append(changes, change{p.From, 1}, change{p.until(lease), -1})
	}
	slices.SortFunc(changes, func(a, b change) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return int(a.by - b.by)
	})
	held := 0
	for _, c := range changes {
		held += int(c.by)
		most = max(most, held)
	}
	return most
}

// Processes that are killed with SIGKILL while they hold places do not give more than Count away at any
// instant, and all places are back once their leases have ended, and no earlier.
func TestFleet_KilledProcessesGiveBackByTheLease(t *testing.T) {
	const processes, places, lease = 8, 12, 300 * time.Millisecond
	limits := []sash.Limit{sash.AtOnce(3, lease), sash.PerHour(1 << 30)}
	addr := redistest.Start(t).Addr()
	taken := make(chan []place, processes)
	for i := range processes {
		l, kill := start(t, "holds")
		p := plan{Addr: addr, Prefix: "held/", Limits: limits, Process: i, Seed: *firstSeed, Callers: 2, Pause: 5 * time.Millisecond}
		require.NoError(t, l.plans.Encode(shift{p, places}))
		go func() {
			all, err := shiftOf(l, kill)
			if err != nil {
				t.Errorf("process %d: %v", i, err)
			}
			taken <- all
		}()
	}
	var all []place
	for range processes {
		all = append(all, <-taken...)
	}
	require.False(t, t.Failed())

	// Now all processes are dead. A call for all places is admitted once the last lease has ended.
	back, left := int64(0), 0
	for _, p := range all {
		if p.Until == 0 {
			back, left = max(back, p.From+lease.Microseconds()), left+1
		}
	}
	conn, disconnect, err := connect(&plan{Addr: addr})
	require.NoError(t, err)
	defer disconnect()
	r := &recorder{Conn: conn, prefix: "held/"}
	l := sashredis.Must(sashredis.New(r, limits, sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithPrefix("held/"), sashredis.WithTimeout(20*time.Second)))
	for denied := 0; ; denied++ {
		_, d := l.Reserve(t.Context(), "k", limits[0].Count)
		require.NoError(t, d.Err)
		require.Equal(t, r.latest() >= back, d.Allowed, "at %d; the last lease ends at %d", r.latest(), back)
		if d.Allowed {
			t.Logf("%d places were taken, and %d of them not given back; all were asked for %d times before their leases had ended", len(all), left, denied)
			break
		}
		require.Equal(t, d.RetryAfter, time.Duration(back-r.latest())*time.Microsecond)
		time.Sleep(time.Millisecond) // real time, as the server's clock is real
	}
	require.Empty(t, r.faults)
	require.GreaterOrEqual(t, left, processes)
	most := mostAtOnce(all, lease.Microseconds())
	require.LessOrEqual(t, most, int(limits[0].Count))
	require.Greater(t, most, 1, "next to nothing was held at a time: this test has shown little")
}

// shiftOf returns the places that a process has taken. It kills the process once that waits for it.
func shiftOf(l link, kill func() error) (all []place, err error) {
	for {
		var p place
		if err := l.records.Decode(&p); err != nil {
			return all, fmt.Errorf("after %d places: %w", len(all), err)
		}
		switch {
		case p.Fault != "":
			return all, fmt.Errorf("%+v", p)
		case p.Waits:
			return all, kill()
		case p.Until == 0:
			all = append(all, p)
		default:
			i := slices.IndexFunc(all, func(o place) bool { return o.Caller == p.Caller && o.Number == p.Number })
			if i < 0 {
				return all, fmt.Errorf("%+v was never taken", p)
			}
			all[i].Until = p.Until
		}
	}
}
