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
	"github.com/seed-30da4c49/sash/bench/internal/rounds"
)

// few is a quota that is soon used up, and comes back in more time than a flood lasts.
var few = quota{2, 24 * time.Hour}

func measureFlood(ctx context.Context, l *lab) error {
	t := report.Table{Title: "a flood of denied calls", Columns: []string{
		"limiter", "keys", "calls/s", "ns/call", "× sash in-process", "packets per 10,000 calls", "server µs per 10,000 calls", "admitted", "failed",
	}}
	var fault error
	for _, n := range []int{1, 1000} {
		var all []*series
		if all, fault = l.floods(ctx, n); fault != nil {
			break
		}
		mirror, core := all[0], all[len(all)-1]
		for _, s := range all {
			l.record("flood on "+keys.Label(n), s)
			per := func(f func(*sample) float64) string { return figure(10_000 * s.perAnswer(f)) }
			t.Rows = append(t.Rows, []string{
				s.name, keys.Label(n), count(s.perSecond()), figure(s.median((*sample).nsPerCall)), times(core.times(s)),
				per(func(x *sample) float64 { return x.writes }), per(func(x *sample) float64 { return x.cpu }),
				count(s.median(func(x *sample) float64 { return x.admitted })), percent(s.failures()),
			})
		}
		l.goals.set("flood", &l.goals.flood, max(l.goals.flood, 10_000*mirror.perAnswer(func(x *sample) float64 { return x.writes })))
		l.goals.set("mirror", &l.goals.mirror, max(l.goals.mirror, core.times(mirror)))
	}
	t.Notes = []string{"As many callers as cores, after the keys have been used up. The time of each call is not taken. The last column of times is the time of a call divided by the time of a Take of package sash, which keeps the same limits in this process."}
	l.result.Tables = append(l.result.Tables, t)
	return fault
}

// floods measures calls for n keys that are used up, in rounds. The first of the series is of the mirror,
// and the last of package sash.
func (l *lab) floods(ctx context.Context, n int) (all []*series, err error) {
	for _, s := range append(forFlood(), core()) {
		all = append(all, &series{subject: s, callers: runtime.GOMAXPROCS(0)})
	}
	for round := range l.rounds {
		for _, i := range rounds.Order(len(all), round) {
			if err := l.clear(ctx); err != nil {
				return all, err
			}
			got, err := l.flood(ctx, all[i].subject, n)
			if err != nil {
				return all, fmt.Errorf("%s: %w", all[i].name, err)
			}
			all[i].samples = append(all[i].samples, got)
		}
	}
	return all, ctx.Err()
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
	return load{callers: runtime.GOMAXPROCS(0), keys: names, lasts: l.turn}.apply(ctx, l.server, w, c)
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
