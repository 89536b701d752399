package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash/bench/internal/arrivals"
	"github.com/seed-30da4c49/sash/bench/internal/keys"
	"github.com/seed-30da4c49/sash/bench/internal/peers"
	"github.com/seed-30da4c49/sash/bench/internal/report"
	"github.com/seed-30da4c49/sash/bench/internal/rounds"
)

// A scenario is a way in which a table changes while calls arrive. No two calls are for the
// same key, so each inserts one.
type scenario struct {
	name, title string
	quota       peers.Quota
	calls, rate int
	peers       []peers.Peer
	runs        [][]tailRun // of each peer, by round
}

// A tailRun is the result of one peer in one round.
type tailRun struct {
	percentiles []float64 // nanoseconds, for arrivals.Percentiles
	late        float64   // nanoseconds from when the last call was due until all were answered
}

func planTail(l *lab) (p plan) {
	seconds := float64(l.grow) / float64(l.rate)
	// The arrivals of the second scenario last half as long, at half the rate. The window is
	// so short that idle keys are swept out many times.
	window := max(time.Duration(seconds*float64(time.Second)/16), time.Millisecond)
	all := []*scenario{
		{name: "grow", title: "a table grows from nothing to " + keys.Label(l.grow) + " keys",
			quota: peers.Quota{Count: 100, Window: time.Hour}, calls: l.grow, rate: l.rate, peers: l.field()},
		{name: "sweep", title: "idle keys are swept out",
			quota: peers.Quota{Count: 100, Window: window, Sweep: window / 2}, calls: max(1, l.grow/4), rate: max(1, l.rate/2),
			peers: slices.DeleteFunc(l.field(), func(p peers.Peer) bool { return !p.Sweeps })},
	}
	var notes []string
	for _, s := range all {
		var left []string
		s.peers, left = l.fitting(s.calls, s.peers, "where "+s.title)
		notes = append(notes, left...)
		s.runs = make([][]tailRun, len(s.peers))
		for round := range l.rounds {
			for _, i := range rounds.Order(len(s.peers), round) {
				p.steps = append(p.steps, s.step(i))
			}
		}
	}
	p.result = func() (report.Result, error) {
		r := report.Result{Notes: notes}
		records := []tailRecord{}
		for _, s := range all {
			records = append(records, s.records()...)
			r.Tables = append(r.Tables, s.table())
			r.Plots = append(r.Plots, s.plot())
		}
		r.Records = records
		r.Notes = append(r.Notes,
			"Medians of "+strconv.Itoa(l.rounds)+" rounds; × sash: the medians of the ratios within rounds. Calls arrive by a schedule that does not wait for answers. Their time runs from the instant at which they were due, so a stall lengthens every call that it delays. *Late*: the time from when the last call was due until all were answered; a limiter that is very late cannot keep up.",
			"Each call inserts a new key. Where keys are swept out, each is idle after a short window, and limiters are told to sweep twice a window. Limiters that never sweep are not in that table; httprate drops all of its counters when a window ends.",
			"*nothing* answers without a table. Figures near to its own show the machine, not the limiter. The calls come from "+strconv.Itoa(arrivals.Drivers())+" of "+strconv.Itoa(runtime.GOMAXPROCS(0))+" cores, since the garbage collector and sweeps need one, too.",
			"For the time of calls while the garbage collector runs, see memory.")
		r.Notes = append(r.Notes, notesOn(append(l.field(), peers.Nothing()))...)
		return r, nil
	}
	return p
}

// step returns the step that measures the i-th peer once.
func (s *scenario) step(i int) step {
	lasts := time.Duration(float64(s.calls) / float64(s.rate) * float64(time.Second))
	return step{lasts + lasts/4, func(ctx context.Context) error {
		debug.FreeOSMemory() // frees the table before
		table := s.peers[i].New(s.quota)
		defer table.Close()
		times, late := arrivals.Schedule{
			Calls: s.calls, PerSecond: s.rate, Drivers: arrivals.Drivers(),
			Key:  keys.New,
			Call: func(key string) { table.Allow(key) },
			Done: func() bool { return ctx.Err() != nil },
		}.Run(arrivals.Real{})
		if ctx.Err() == nil {
			s.runs[i] = append(s.runs[i], tailRun{arrivals.Of(times), float64(late)})
		}
		return ctx.Err()
	}}
}

// A tailRecord is one peer in one scenario, in JSON.
type tailRecord struct {
	Scenario  string                `json:"scenario"`
	Keys      int                   `json:"keys"`
	PerSecond int                   `json:"arrivals_per_second"`
	Impl      string                `json:"impl"`
	Clock     string                `json:"clock"`
	Ns        map[string]float64    `json:"ns"`         // medians
	Times     map[string]*float64   `json:"times_sash"` // medians of ratios within rounds
	Late      float64               `json:"late_ns"`
	Samples   []map[string]*float64 `json:"samples_ns"` // by round
}

func (s *scenario) records() (records []tailRecord) {
	for i, p := range s.peers {
		if len(s.runs[i]) == 0 {
			continue
		}
		r := tailRecord{s.name, s.calls, s.rate, p.Name, p.Clock, map[string]float64{}, map[string]*float64{}, s.late(i), nil}
		for k, percentile := range arrivals.Percentiles {
			r.Ns[percentile.Name] = rounds.Median(s.of(i, k))
			r.Times[percentile.Name] = finite(s.ratio(i, k))
		}
		for round := range s.runs[i] {
			sample := map[string]*float64{}
			for k, percentile := range arrivals.Percentiles {
				sample[percentile.Name] = finite(s.runs[i][round].percentiles[k])
			}
			r.Samples = append(r.Samples, sample)
		}
		records = append(records, r)
	}
	return records
}

// of returns the k-th percentile of the i-th peer in each round.
func (s *scenario) of(i, k int) (values []float64) {
	for _, run := range s.runs[i] {
		values = append(values, run.percentiles[k])
	}
	return values
}

// ratio returns the ratio of the k-th percentile of the i-th peer to the same of sash, over the
// rounds that both have.
func (s *scenario) ratio(i, k int) float64 {
	own, base := s.of(i, k), s.of(0, k)
	n := min(len(own), len(base))
	return rounds.Ratio(own[:n], base[:n])
}

func (s *scenario) late(i int) float64 {
	var values []float64
	for _, run := range s.runs[i] {
		values = append(values, run.late)
	}
	return rounds.Median(values)
}

func (s *scenario) table() report.Table {
	t := report.Table{
		Title:   fmt.Sprintf("%s, %s calls a second", s.title, humanize.Comma(int64(s.rate))),
		Columns: []string{"limiter"},
	}
	for _, p := range arrivals.Percentiles {
		t.Columns = append(t.Columns, p.Name)
	}
	t.Columns = append(t.Columns, "late", "p99.99 × sash", "max × sash")
	last := len(arrivals.Percentiles) - 1
	for i, p := range s.peers {
		if len(s.runs[i]) == 0 {
			continue
		}
		cells := []string{p.Label()}
		for k := range arrivals.Percentiles {
			cells = append(cells, duration(rounds.Median(s.of(i, k))))
		}
		t.Rows = append(t.Rows, append(cells, duration(s.late(i)), times(s.ratio(i, last-1)), times(s.ratio(i, last))))
	}
	return t
}

func (s *scenario) plot() report.Plot {
	p := report.Plot{Name: s.name, Title: s.title, X: "of all calls", Y: "time of a call", Format: duration}
	for _, percentile := range arrivals.Percentiles {
		p.Places = append(p.Places, percentile.Name)
	}
	for i, peer := range s.peers {
		line := series(peer, nil)
		for k := range arrivals.Percentiles {
			line.Values = append(line.Values, rounds.Median(s.of(i, k)))
		}
		p.Series = append(p.Series, line)
	}
	return p
}

// duration formats nanoseconds with three digits.
func duration(ns float64) string {
	d := time.Duration(ns)
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}
