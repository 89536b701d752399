package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash/bench/internal/report"
	"github.com/seed-30da4c49/sash/bench/internal/rounds"
)

// A series is the samples of one subject, one for each round.
type series struct {
	subject
	callers int
	samples []sample
}

// median returns the median of f over the rounds.
func (s *series) median(f func(*sample) float64) float64 { return rounds.Median(s.each(f)) }

func (s *series) each(f func(*sample) float64) (all []float64) {
	for i := range s.samples {
		all = append(all, f(&s.samples[i]))
	}
	return all
}

// perAnswer returns the median of f over the decisions of a round.
func (s *series) perAnswer(f func(*sample) float64) float64 {
	return s.median(func(x *sample) float64 { return f(x) / x.answers })
}

func (s *series) perSecond() float64 { return s.median((*sample).perSecond) }

// percentile returns a percentile of all calls, in nanoseconds.
func (s *series) percentile(p float64) float64 {
	all := newHistogram()
	for i := range s.samples {
		if h := s.samples[i].times; h != nil {
			all.Merge(h)
		}
	}
	if all.TotalCount() == 0 {
		return math.NaN()
	}
	return at(all, p)
}

func at(h *hdrhistogram.Histogram, p float64) float64 { return float64(h.ValueAtPercentile(p)) }

// failures returns the share of calls that ended with an error.
func (s *series) failures() float64 {
	var failed, all float64
	for _, x := range s.samples {
		failed += x.failed
		all += x.failed + x.answers
	}
	return failed / all
}

// times returns how many times as many decisions per second s makes as other, within rounds.
func (s *series) times(other *series) float64 {
	return rounds.Ratio(s.each((*sample).perSecond), other.each((*sample).perSecond))
}

// best returns the peer that makes the most decisions per second; nil: none was measured.
func best(all []*series) (peer *series) {
	for _, s := range all {
		if s.peer && len(s.samples) > 0 && (peer == nil || s.perSecond() > peer.perSecond()) {
			peer = s
		}
	}
	return peer
}

// record records the figures of s.
func (l *lab) record(part string, s *series) {
	values := map[string]float64{}
	put := func(name string, value float64) {
		if !math.IsNaN(value) && !math.IsInf(value, 0) {
			values[name] = value
		}
	}
	put("decisions_per_second", s.perSecond())
	put("ns_per_call", s.median((*sample).nsPerCall))
	put("p50_ns", s.percentile(50))
	put("p99_ns", s.percentile(99))
	put("p99.9_ns", s.percentile(99.9))
	put("allocations", s.perAnswer(func(x *sample) float64 { return x.mallocs }))
	put("allocated_bytes", s.perAnswer(func(x *sample) float64 { return x.allocated }))
	put("server_us", s.perAnswer(func(x *sample) float64 { return x.cpu }))
	put("script_us", s.perAnswer(func(x *sample) float64 { return x.scripts }))
	put("server_commands", s.perAnswer(func(x *sample) float64 { return x.commands }))
	put("packets_sent", s.perAnswer(func(x *sample) float64 { return x.writes }))
	put("bytes_sent", s.perAnswer(func(x *sample) float64 { return x.sent }))
	put("bytes_received", s.perAnswer(func(x *sample) float64 { return x.received }))
	put("admitted", s.perAnswer(func(x *sample) float64 { return x.admitted }))
	put("failed", s.failures())
	l.found = append(l.found, record{part, s.name, s.callers, values})
}

// speedTable adds the table of what callers see, and what the server and this process pay.
func (l *lab) speedTable(part, title string, all []*series) {
	speed := report.Table{Title: title, Columns: []string{"limiter", "callers", "decisions/s", "× best peer", "p50", "p99", "p99.9", "failed"}}
	costs := report.Table{Title: title + ": costs of a decision", Columns: []string{
		"limiter", "callers", "server µs", "script µs", "commands", "packets", "bytes", "allocations", "bytes allocated",
	}}
	for _, callers := range l.callers {
		var group []*series
		for _, s := range all {
			if s.callers == callers && len(s.samples) > 0 {
				group = append(group, s)
			}
		}
		peer := best(group)
		for _, s := range group {
			ratio := math.NaN()
			if peer != nil && len(peer.samples) == len(s.samples) {
				ratio = s.times(peer)
			}
			l.record(part, s)
			speed.Rows = append(speed.Rows, []string{
				s.name, strconv.Itoa(callers), count(s.perSecond()), times(ratio),
				duration(s.percentile(50)), duration(s.percentile(99)), duration(s.percentile(99.9)), percent(s.failures()),
			})
			costs.Rows = append(costs.Rows, []string{
				s.name, strconv.Itoa(callers),
				figure(s.perAnswer(func(x *sample) float64 { return x.cpu })),
				figure(s.perAnswer(func(x *sample) float64 { return x.scripts })),
				figure(s.perAnswer(func(x *sample) float64 { return x.commands })),
				figure(s.perAnswer(func(x *sample) float64 { return x.writes })),
				figure(s.perAnswer(func(x *sample) float64 { return x.sent + x.received })),
				figure(s.perAnswer(func(x *sample) float64 { return x.mallocs })),
				figure(s.perAnswer(func(x *sample) float64 { return x.allocated })),
			})
		}
	}
	l.result.Tables = append(l.result.Tables, speed, costs)
}

// goals are the aims, and what was measured.
type goals struct {
	hot, distinct, sameClient, flood, mirror, lease float64
	known                                           []string // of those above, which were measured
	overAdmitted                                    int64
}

func (g *goals) set(name string, to *float64, value float64) {
	*to = value
	g.known = append(g.known, name)
}

// table returns the aims that were measured.
func (g *goals) table() []report.Table {
	t := report.Table{Title: "aims", Columns: []string{"aim", "wanted", "measured", "met"}}
	add := func(name, aim, wanted, measured string, met bool) {
		if !slices.Contains(g.known, name) {
			return
		}
		verdict := "no"
		if met {
			verdict = "yes"
		}
		t.Rows = append(t.Rows, []string{aim, wanted, measured, verdict})
	}
	add("hot", "one hot key, 256 callers: decisions per second of the best peer", "≥ 20 ×", times(g.hot), g.hot >= 20)
	add("distinct", "distinct known keys, 256 callers: time of the best peer", "≤ 1.2 ×", times(g.distinct), g.distinct <= 1.2)
	add("same client", "distinct known keys, 256 callers, by go-redis: time of redis_rate", "≤ 1 ×", times(g.sameClient), g.sameClient <= 1)
	add("flood", "a flood on denied keys: packets per 10,000 calls", "< 1", figure(g.flood), g.flood < 1)
	add("mirror", "a denial by the mirror: time of a Take of package sash", "≤ 2 ×", times(g.mirror), g.mirror <= 2)
	add("processes", "over-admission of sashredis in 8 processes, units", "0", strconv.FormatInt(g.overAdmitted, 10), g.overAdmitted == 0)
	add("lease", "ns per decision on a lease", "≤ 150", figure(g.lease), g.lease <= 150)
	if len(t.Rows) == 0 {
		return nil
	}
	return []report.Table{t}
}

// figure formats a number with about three digits.
func figure(x float64) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return report.None
	case x < 0.095 && x > 0:
		return strconv.FormatFloat(x, 'g', 2, 64)
	case x < 10:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case x < 100:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return humanize.Comma(int64(math.Round(x)))
}

// count formats a number without a fraction.
func count(x float64) string {
	if math.IsNaN(x) {
		return report.None
	}
	return humanize.Comma(int64(math.Round(x)))
}

// times formats a ratio.
func times(x float64) string {
	if math.IsNaN(x) {
		return report.None
	}
	return figure(x) + " ×"
}

func percent(x float64) string {
	if x == 0 {
		return "0"
	}
	return fmt.Sprintf("%.2g %%", 100*x)
}

// duration formats nanoseconds with three digits.
func duration(ns float64) string {
	if math.IsNaN(ns) {
		return report.None
	}
	d := time.Duration(ns)
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}
