package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/seed-30da4c49/sash/bench/internal/report"
)

func measureProcesses(ctx context.Context, l *lab) error {
	t := report.Table{
		Title:   fmt.Sprintf("%d processes on one key", l.processes),
		Columns: []string{"limiter", "calls come", "calls", "failed", "admitted", "most in a window", "units over its own rule"},
	}
	leases := report.Table{
		Title:   fmt.Sprintf("what became of leases in %d processes", l.processes),
		Columns: []string{"limiter", "calls come", "leased", "used", "given back", "lapsed"},
	}
	q := quota{1000, l.window}
	lasts := time.Duration(float64(l.window) * l.windows)
	var fault error
	for _, way := range []struct {
		name   string
		bursts time.Duration
	}{{"steadily", 0}, {"in bursts", l.window * 11 / 19}} {
		for _, s := range forFleet() {
			if fault = l.clear(ctx); fault != nil {
				break
			}
			var r result
			j := job{Subject: s.name, Socket: l.socket, Quota: q, Callers: 4, Lasts: lasts, Bursts: way.bursts}
			if r, fault = runFleet(ctx, j, l.processes); fault != nil {
				break
			}
			excess, most := s.excess(r.Admissions, q), worst(r.Admissions, q.Window)
			if !s.peer {
				l.goals.overAdmitted = max(l.goals.overAdmitted, excess)
				l.goals.set("processes", new(float64), 0)
			}
			l.found = append(l.found, record{"processes, " + way.name, s.name, 0, map[string]float64{
				"calls": float64(r.Calls), "failed": float64(r.Failed), "admitted": float64(len(r.Admissions)),
				"most_in_a_window": float64(most), "over_admitted": float64(excess),
				"leased": float64(r.Stats.Leased), "used": float64(r.Stats.Lease), "returned": float64(r.Stats.Returned),
			}})
			t.Rows = append(t.Rows, []string{
				s.name, way.name, count(float64(r.Calls)), count(float64(r.Failed)), count(float64(len(r.Admissions))),
				times(float64(most) / float64(q.Count)), strconv.FormatInt(excess, 10),
			})
			if r.Stats.Leased > 0 {
				x := r.Stats
				leases.Rows = append(leases.Rows, []string{s.name, way.name, count(float64(x.Leased)), count(float64(x.Lease)),
					count(float64(x.Returned)), count(float64(x.Leased - x.Lease - x.Returned))})
			}
		}
		if fault != nil {
			break
		}
	}
	t.Notes = []string{
		fmt.Sprintf("The limit is %d in %v. %d processes with 4 callers each call for %v, from the middle of an aligned window on. Steadily: without a pause until a denial, and %v after it. In bursts: until a denial, and again every %v.",
			q.Count, q.Window, l.processes, lasts, afterDenial, l.window*11/19),
		"Only units count that were certainly admitted in the time: a call may be admitted at any instant from its begin to its end.",
		"The rules: sliding counter, Count in an aligned window, and Count*(1+f) in a window that ends the fraction f into one; log, Count in any window; token bucket and GCRA (redis_rate, throttled), Count*(1+T/Window) in any time T; fixed window (ulule), twice Count in a window's length.",
	}
	l.result.Tables = append(l.result.Tables, t)
	if len(leases.Rows) > 0 {
		l.result.Tables = append(l.result.Tables, leases)
	}
	return fault
}
