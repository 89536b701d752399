package clientmodel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/race"
)

// A contest is some workers who have a number of calls each to get through the policies of one host.
type contest struct {
	Program
	workers, jobs int
}

// TestThroughput compares clients that obey a denial with others that ignore it, and make the call
// again when it says. The obedient ones, which make it again at once, must not end later in
// simulated time.
func TestThroughput(t *testing.T, p *Protocol, contests int64) {
	first := int64(1)
	contests = int64(race.Trials(int(contests))) // TestModel_Clients runs the same code
	if seed := number(t, "SASH_MODEL_SEED"); seed > 0 {
		first, contests = seed, seed
	} else if n := number(t, "SASH_MODEL_PROGRAMS"); n > 0 {
		contests = n
	}
	waits := 0
	for seed := first; seed <= contests; seed++ {
		r := newContest(p, seed)
		var obedient, naive time.Duration
		synctest.Test(t, func(*testing.T) { obedient = r.run(p, true) })
		synctest.Test(t, func(*testing.T) { naive = r.run(p, false) })
		if obedient > naive {
			t.Fatalf("seed %d: %d workers with %d calls each, under %+v: %v, but without obedience %v",
				seed, r.workers, r.jobs, r.Policies, obedient, naive)
		}
		if obedient > 0 {
			waits++
		}
	}
	t.Logf("%d contests, %d of them with waits", contests-first+1, waits)
}

func newContest(p *Protocol, seed int64) *contest {
	r := rand.New(rand.NewPCG(uint64(seed), 0x7ace))
	limit := newPolicy(r).Limit
	if p.HTTP { // a wait in fractions of a second is rounded up: more than it takes
		limit = pick(r, sash.Per(pick[int64](r, 1, 2, 5), time.Second*time.Duration(1+r.IntN(60))), sash.PerMinute(6).TokenBucket(1+r.Int64N(3)))
	}
	c := &contest{workers: 1 + r.IntN(6), jobs: 1 + r.IntN(8)}
	c.Policies = []Policy{{Limit: limit, ByUser: one(r, 2), ByPath: one(r, 2), Path: -1}}
	c.Settings = Settings{Limits: []sash.Limit{generous}, Store: one(r, 5), Key: pick(r, "", "host", "user", "method", "all")}
	kind := r.IntN(len(p.Kinds))
	for i := range c.workers {
		c.Calls = append(c.Calls, Call{ID: i, Kind: kind})
	}
	return c
}

// run returns how long the workers take.
func (r *contest) run(p *Protocol, obedient bool) time.Duration {
	settings := r.Settings
	settings.MaxHold = 100 * time.Hour
	if !obedient {
		settings.MaxHold = -1
	}
	w := &World{start: time.Now()}
	for i := range r.Calls {
		w.calls = append(w.calls, &real{Call: &r.Calls[i]})
	}
	defer w.open(p, &r.Program, settings)()
	defer time.AfterFunc(longest, func() { panic("seed " + strconv.FormatInt(r.Seed, 10) + ": a call never ends") }).Stop()
	var all sync.WaitGroup
	for i := range r.Calls {
		all.Go(func() {
			for done := 0; done < r.jobs; {
				reply := w.session.Do(context.Background(), &r.Calls[i])
				switch {
				case reply.Kind != Answered || reply.Note != "":
					panic(fmt.Sprintf("%+v", reply))
				case reply.Class == OK:
					done++
				case !obedient:
					time.Sleep(reply.Wait)
				}
			}
		})
	}
	all.Wait()
	return time.Since(w.start)
}
