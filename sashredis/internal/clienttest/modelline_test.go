package clienttest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/seed-30da4c49/sash/internal/reference"
	"github.com/seed-30da4c49/sash/sashredis"
)

// A process is a limiter of a world, and its connection to the store.
type process struct {
	*world
	*sashredis.Limiter
	settings
	program *program
	name    string

	// Guarded by the lock of the world.
	weather  weather
	fates    *rand.Rand
	known    map[string]knowledge // by the names of keys in the store
	shares   *reference.Table     // what the fallback has admitted, under the shares of limits
	resets   map[string]turn      // by the names of keys: when a Reset has last forgotten what was of the key here
	inARow   int                  // failures that the breaker counts, at most
	closedAt time.Time            // when an answer has closed the breaker last
	heard    int64                // the time of the store in the latest answer, in nanoseconds; 0: none
	heardAt  time.Time            // when that came
	latest   int64                // of all times in answers
	alone    bool                 // the fallback has used its own clock before there was an answer, and keeps it
	trips    int64                // round trips
	leased   int64                // units
	decided  [4]int64             // calls, by who decided
	waits    bool
	unknown  int // calls that an unknown party has decided

	underway sync.WaitGroup // requests
}

// A weather is how likely round trips go wrong, in percent, and how long they take.
type weather struct {
	lost, cutBefore, cutAfter, stalled, repeated, panics int
	down                                                 bool // nothing is answered
	refuses                                              bool // while it is down: connections are refused
	latency                                              time.Duration
}

// A fate is what becomes of one round trip.
type fate struct {
	there, back                                          time.Duration
	lost, cutBefore, cutAfter, stalled, repeated, panics bool
}

var (
	errCut   = errors.New("the connection is cut, says the model")
	errPanic = errors.New("the Conn panics, says the model")
)

// These are the keys under which the context of a round trip has the reservation that is settled, and the
// call if it is a Reset or a WaitReserve, perhaps the first of several. What a WaitReserve gives back has the same context.
type (
	settling  struct{}
	resetting struct{}
	reserving struct{}
	calling   struct{} // a call with a context of its own, perhaps the first of several
	hooked    struct{} // set by a hook
)

// fate draws what becomes of the next round trip.
func (p *process) fate(settles bool) (f fate) {
	w := p.weather
	hit := func(percent int) bool { return percent > 0 && p.fates.IntN(100) < percent }
	delay := func() time.Duration {
		d := w.latency/4 + time.Duration(p.fates.Int64N(int64(w.latency)/4+1))
		return d + time.Duration(p.fates.IntN(1000))
	}
	f.there, f.back = delay(), delay()
	f.lost, f.cutBefore, f.cutAfter, f.stalled = hit(w.lost), hit(w.cutBefore), hit(w.cutAfter), hit(w.stalled)
	f.repeated, f.panics = hit(w.repeated) && !settles, hit(w.panics)
	if w.down {
		f.lost, f.cutBefore = !w.refuses, w.refuses
	}
	return f
}

// Run is the connection of p. A script that is on its way runs, whether its caller still waits or not.
func (p *process) Run(ctx context.Context, script *sashredis.Script, keys, args []string) (string, error) {
	r := &request{by: p, script: script, keys: keys, args: args}
	r.waits, _ = ctx.Value(reserving{}).(*asked)
	r.settles, _ = ctx.Value(settling{}).(*held)
	if a, ok := ctx.Value(resetting{}).(*asked); ok {
		p.forgetsHere(a)
	}
	call, _ := ctx.Value(calling{}).(*asked)
	if call == nil && scriptKind(script) != "settle" {
		call = r.waits
	}
	if call != nil && call.unanswered.Swap(true) {
		call.faultf("it is sent again although it may have been charged")
	}
	if hooks := ctx.Value(hooked{}) != nil; hooks != (p.hooked != nil) {
		p.failf("%s: the context of a round trip is made by its hook: %v", p.name, hooks)
	}
	p.mu.Lock()
	p.trips++
	f := p.fate(scriptKind(script) == "settle")
	p.mu.Unlock()
	defer func() { ctx.Value(resetting{}) }() // as a client that ends a span
	sent := time.Now()
	results := make(chan travelled, 1)
	p.underway.Go(func() {
		if end, answered := p.travels(r, f); answered {
			results <- end
		}
	})
	select {
	case end := <-results:
		if f.panics {
			p.ends(ctx, sent, errPanic)
			panic(errPanic)
		}
		if end.err == nil {
			p.delivers(r)
			if call != nil {
				call.unanswered.Store(false)
			}
		}
		p.ends(ctx, sent, end.err)
		return end.reply, end.err
	case <-ctx.Done():
		p.ends(ctx, sent, ctx.Err())
		return "", ctx.Err()
	}
}

// A travelled is what comes back of a round trip.
type travelled struct {
	reply string
	err   error
}

// travels carries r to the store and back, and reports whether anything comes back.
func (p *process) travels(r *request, f fate) (end travelled, answered bool) {
	time.Sleep(f.there)
	switch {
	case f.lost:
		return end, false
	case f.cutBefore:
		end.err = errCut
	default:
		if f.repeated {
			again := *r
			_, _ = p.run(&again)
			for _, s := range again.slots {
				s.repeated = true
			}
			time.Sleep(f.back)
		}
		end.reply, end.err = p.run(r)
		if f.cutAfter {
			end = travelled{"", errCut}
		}
	}
	if f.stalled && !f.cutBefore {
		return end, false
	}
	time.Sleep(f.back)
	return end, true
}

// ends counts a round trip that has ended with err for the breaker: as a failure if it may be one.
func (p *process) ends(ctx context.Context, sent time.Time, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil:
		if p.inARow > 0 {
			p.inARow, p.closedAt = 0, time.Now()
		}
	case ctx.Err() == nil || time.Since(sent) >= p.timeout:
		p.inARow++
	default: // its caller has given up
	}
}

// mayBeOpen reports whether the breaker of p may be open. The world must be locked.
func (p *process) mayBeOpen() bool {
	return p.inARow >= p.failures || !p.closedAt.IsZero() && time.Since(p.closedAt) == 0
}

// newWeather returns how round trips go for a while.
func newWeather(r *rand.Rand, timeout time.Duration) (w weather) {
	w.latency = min(timeout/2, 1<<time.Duration(10+r.IntN(16)))
	percent := func() int { return r.IntN(2) * r.IntN(40) }
	switch r.IntN(5) {
	case 0, 1:
	case 2:
		w.lost, w.cutBefore, w.cutAfter, w.stalled, w.repeated = percent()/2, percent(), percent(), percent()/2, percent()
	case 3:
		w.down, w.refuses = true, r.IntN(2) == 0
	case 4:
		w.latency = timeout/2 + time.Duration(r.Int64N(int64(timeout)))
		w.panics = r.IntN(2) * r.IntN(20)
	}
	return w
}
