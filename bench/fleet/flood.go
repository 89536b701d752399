package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/seed-30da4c49/sash/bench/internal/keys"
	"github.com/seed-30da4c49/sash/bench/internal/report"
)

// few is a quota that is soon used up, and comes back in more time than a flood lasts.
var few = quota{2, 24 * time.Hour}

func measureFlood(ctx context.Context, l *lab) error {
	t := report.Table{Title: "a flood of denied calls", Columns: []string{
		"limiter", "keys", "calls/s", "ns/call", "packets per 10,000 calls", "server µs per 10,000 calls", "admitted", "failed",
	}}
	var fault error
	worst := 0.0
	for _, n := range []int{1, 1000} {
		for i, s := range forFlood() {
			if fault = l.clear(ctx); fault != nil {
				break
			}
			got, err := l.flood(ctx, s, n)
			if fault = err; err != nil {
				fault = fmt.Errorf("%s: %w", s.name, err)
				break
			}
			found := &series{subject: s, callers: got.callers, samples: []sample{got}}
			l.record("flood on "+keys.Label(n), found)
			per := func(x float64) string { return figure(x / got.answers * 10_000) }
			t.Rows = append(t.Rows, []string{
				s.name, keys.Label(n), count(got.perSecond()), figure(got.nsPerCall()), per(got.writes), per(got.cpu),
				count(got.admitted), percent(found.failures()),
			})
			if i == 0 {
				worst = max(worst, got.writes/got.answers*10_000)
				l.goals.set("flood", &l.goals.flood, worst)
			}
		}
		if fault != nil {
			break
		}
	}
	t.Notes = []string{"As many callers as cores, after the keys have been used up. The time of each call is not taken."}
	l.result.Tables = append(l.result.Tables, t)
	return fault
}

// flood uses n keys up, and then calls for them.
func (l *lab) flood(ctx context.Context, s subject, n int) (got sample, err error) {
	w := &wire{socket: l.socket}
	c, err := s.open(w, few)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	names := keys.Range(n)
	err = errors.Join(together(names, func(key string) error { return useUp(c, key) })...)
	if err != nil {
		return got, err
	}
	return load{callers: runtime.GOMAXPROCS(0), keys: names, lasts: 2 * l.turn}.apply(ctx, l.server, w, c)
}

// useUp calls for key until it is denied.
func useUp(c *client, key string) error {
	for range 10 * few.Count {
		if yes, err := c.take(key); !yes || err != nil {
			return err
		}
	}
	return errors.New("a key is not denied after many calls")
}

// together calls do with each key, in several goroutines, and returns their errors.
func together(names []string, do func(key string) error) []error {
	const goroutines = 8
	faults := make([]error, goroutines)
	var done sync.WaitGroup
	for g := range faults {
		done.Go(func() {
			for i := g; i < len(names) && faults[g] == nil; i += goroutines {
				faults[g] = do(names[i])
			}
		})
	}
	done.Wait()
	return faults
}
