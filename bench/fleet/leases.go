package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/seed-30da4c49/sash/bench/internal/report"
)

func measureLeases(ctx context.Context, l *lab) error {
	t := report.Table{Title: "leases", Columns: []string{
		"limiter", "callers", "ns/decision", "decisions/s", "on a lease", "packets per 10,000 calls", "leased", "used", "given back", "lapsed",
	}}
	var fault error
	s := leasing()
	for _, callers := range []int{1, 2} {
		if fault = l.clear(ctx); fault != nil {
			break
		}
		var got sample
		var stats stats
		if got, stats, fault = l.lease(ctx, s, callers); fault != nil {
			break
		}
		ns := got.nsPerCall()
		l.goals.set("lease", &l.goals.lease, max(l.goals.lease, ns))
		found := &series{subject: s, callers: callers, samples: []sample{got}}
		l.record("leases", found)
		t.Rows = append(t.Rows, []string{
			s.name, strconv.Itoa(callers), figure(ns), count(got.perSecond()), percent(stats.share), figure(got.writes / got.answers * 10_000),
			count(stats.leased), count(stats.used), count(stats.returned), count(stats.leased - stats.used - stats.returned),
		})
	}
	t.Notes = []string{"One hot key, all admitted. The time of each call is not taken. It includes the calls that the store decides. The units are those from the limiter's begin to its end, with a turn to warm up."}
	l.result.Tables = append(l.result.Tables, t)
	return fault
}

// stats are what became of leased units, and the share of calls that they decided.
type stats struct{ leased, used, returned, share float64 }

// lease measures calls on leases.
func (l *lab) lease(ctx context.Context, s subject, callers int) (got sample, of stats, err error) {
	w := &wire{socket: l.socket}
	c, err := s.open(w, quota{1 << 50, 24 * time.Hour})
	if err != nil {
		return got, of, err
	}
	got, err = load{callers: callers, keys: []string{"hot"}, lasts: 4 * l.turn}.apply(ctx, l.server, w, c)
	if err = errors.Join(err, c.close()); err != nil {
		return got, of, err
	}
	x := c.stats()
	of = stats{float64(x.Leased), float64(x.Lease), float64(x.Returned), float64(x.Lease) / float64(x.Lease+x.Store+x.Mirror)}
	return got, of, nil
}
