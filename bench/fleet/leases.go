package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/seed-30da4c49/sash/bench/internal/report"
	"github.com/seed-30da4c49/sash/bench/internal/rounds"
)

func measureLeases(ctx context.Context, l *lab) error {
	t := report.Table{Title: "leases", Columns: []string{
		"limiter", "callers", "ns/decision", "decisions/s", "on a lease", "packets per 10,000 calls", "leased", "used", "given back", "lapsed",
	}}
	var fault error
	for _, callers := range []int{1, 2} {
		all := []*series{{subject: leasing(), callers: callers}, {subject: word(), callers: callers}}
		var of []stats
		if of, fault = l.leases(ctx, all); fault != nil {
			break
		}
		l.goals.set("lease", &l.goals.lease, max(l.goals.lease, all[0].median((*sample).nsPerCall)))
		for i, s := range all {
			l.record("leases", s)
			t.Rows = append(t.Rows, []string{
				s.name, strconv.Itoa(callers), figure(s.median((*sample).nsPerCall)), count(s.perSecond()), percent(of[i].share),
				figure(10_000 * s.perAnswer(func(x *sample) float64 { return x.writes })),
				count(of[i].leased), count(of[i].used), count(of[i].returned), count(of[i].leased - of[i].used - of[i].returned),
			})
		}
	}
	t.Notes = []string{"One hot key, all calls admitted, some of them by the store. A turn is timed as a whole. The units are counted over the last round, warming up included. One word is the floor: each call does nothing but lower one number."}
	l.result.Tables = append(l.result.Tables, t)
	return fault
}

// stats are what became of leased units, and the share of calls that they decided.
type stats struct{ leased, used, returned, share float64 }

// leases measures calls on leases in rounds, and returns what became of them in the last round.
func (l *lab) leases(ctx context.Context, all []*series) ([]stats, error) {
	of := make([]stats, len(all))
	for round := range l.rounds {
		for _, i := range rounds.Order(len(all), round) {
			if err := l.clear(ctx); err != nil {
				return of, err
			}
			got, became, err := l.lease(ctx, all[i].subject, all[i].callers)
			if err != nil {
				return of, err
			}
			all[i].samples, of[i] = append(all[i].samples, got), became
		}
	}
	return of, ctx.Err()
}

// lease measures calls on leases.
func (l *lab) lease(ctx context.Context, s subject, callers int) (got sample, of stats, err error) {
	w := &wire{socket: l.socket}
	c, err := s.open(w, quota{1 << 50, 24 * time.Hour})
	if err != nil {
		return got, of, err
	}
	got, err = load{callers: callers, keys: []string{"hot"}, lasts: 2 * l.turn}.apply(ctx, l.server, w, c)
	if err = errors.Join(err, c.close()); err != nil {
		return got, of, err
	}
	if c.stats == nil {
		return got, of, nil
	}
	x := c.stats()
	of = stats{float64(x.Leased), float64(x.Lease), float64(x.Returned), float64(x.Lease) / float64(x.Lease+x.Store+x.Mirror)}
	return got, of, nil
}
