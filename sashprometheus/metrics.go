package sashprometheus

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/tally"
)

// Metrics are the metrics of one limiter. Make them with [New], let the limiter's observer call
// [Metrics.Observe] or [Metrics.ObserveTake], and register them with [Metrics.Register] or
// [Metrics.RegisterLimits]. All methods are safe for concurrent use.
//
// Metrics are a [prometheus.Collector], so that a Registerer can unregister them, and tests can
// collect them.
type Metrics struct {
	limiter string
	tally   tally.Tally

	decisions, units, nears, waits            *prometheus.Desc
	limitUnits, limitWindow, limitBurst       *prometheus.Desc
	reloads, reloadSuccessful, reloadLoadedAt *prometheus.Desc
	others                                    map[string]*prometheus.Desc // by the name of a tally.Other
	stats                                     map[string]*prometheus.Desc // by the name of a tally.Stat
}

// New returns the metrics of the limiter with that name, which is the value of the label
// limiter. Limiters of one process need different names. A name must not be empty.
func New(limiter string) *Metrics {
	m := &Metrics{limiter: limiter, others: make(map[string]*prometheus.Desc), stats: make(map[string]*prometheus.Desc)}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sash_"+name, help, labels, prometheus.Labels{"limiter": limiter})
	}
	m.decisions = desc("decisions_total", "Requests by their result under each of their policies.", "policy", "limit", "result")
	m.units = desc("units_total", "Units that requests cost, by their result under each of their policies.", "policy", "limit", "result", "unit")
	m.waits = desc("time_in_queue_seconds", "Time that requests which had to wait have waited in queues.", "policy", "result")
	m.nears = desc("near_limit_total", "Requests that left less of the limit than the share Near of their policy.", "policy", "limit")
	m.limitUnits = desc("limit_units", "Units that the limit admits in its window.", "policy", "limit")
	m.limitWindow = desc("limit_window_seconds", "Window of the limit.", "policy", "limit")
	m.limitBurst = desc("limit_burst_units", "Units that the token bucket admits at once.", "policy", "limit")
	m.reloads = desc("policy_reloads_total", "Attempts to load changed policies.", "result")
	m.reloadSuccessful = desc("policy_last_reload_successful", "Whether the last attempt to load changed policies has succeeded.")
	m.reloadLoadedAt = desc("policy_last_reload_success_timestamp_seconds", "Time of the last attempt to load changed policies that has succeeded.")
	for _, o := range tally.Others() {
		labels := []string{"policy"}
		if o.InUnits {
			labels = append(labels, "unit")
		}
		m.others[o.Name] = desc(o.Name+"_total", o.Help, labels...)
	}
	for _, s := range tally.Stats() {
		name := s.Name
		if s.Counter {
			name += "_total"
		}
		m.stats[s.Name] = desc(name, s.Help)
	}
	return m
}

// Observe counts an event. It is the function for [httplimit.WithObserver]. Until
// [Metrics.Register], it counts nothing.
func (m *Metrics) Observe(e httplimit.Event) { m.tally.Observe(&e) }

// ObserveTake counts a decision of a limiter without policies. It is the function for
// [sash.WithObserver]. Until [Metrics.RegisterLimits], it counts nothing.
func (m *Metrics) ObserveTake(_ string, n int64, d sash.Decision) { m.tally.ObserveTake(n, &d) }

// ObserveReload counts an attempt to load changed policies, as from a file. err is nil if they are in
// force now, or else says why the former ones were kept. The metrics of reloads exist from the first call on.
// A call before [Metrics.Register] counts, too. A call takes a lock.
func (m *Metrics) ObserveReload(err error) { m.tally.ObserveReload(err) }

// Register begins to count what l decides, and registers the metrics with r. Call it before
// the first request. It can be called again with another r, for the same l.
//
// It is an error if r has metrics of a limiter with this name already, or if the Metrics are of
// another limiter. The first wraps [prometheus.AlreadyRegisteredError].
func (m *Metrics) Register(r prometheus.Registerer, l *httplimit.Limiter) error {
	return m.register(r, func() error { return m.tally.WatchPolicies(l) })
}

// RegisterLimits is [Metrics.Register] for a limiter without policies.
func (m *Metrics) RegisterLimits(r prometheus.Registerer, l *sash.Limiter) error {
	return m.register(r, func() error { return m.tally.WatchLimits(l) })
}

func (m *Metrics) register(r prometheus.Registerer, watch func() error) error {
	fault := func(err error) error { return fmt.Errorf("sashprometheus: limiter %q: %w", m.limiter, err) }
	if m.limiter == "" {
		return fault(errors.New("New needs a name for the limiter"))
	}
	if r == nil {
		return fault(errors.New("the Registerer must not be nil; try prometheus.DefaultRegisterer"))
	}
	if err := watch(); err != nil {
		return fault(err)
	}
	err := r.Register(m)
	if errors.As(err, new(prometheus.AlreadyRegisteredError)) {
		err = fmt.Errorf("the Registerer has metrics of a limiter with this name; register once, and give each limiter a name of its own: %w", err)
	}
	if err != nil {
		return fault(err)
	}
	return nil
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		m.decisions, m.units, m.nears, m.waits,
		m.limitUnits, m.limitWindow, m.limitBurst,
		m.reloads, m.reloadSuccessful, m.reloadLoadedAt,
	} {
		descs <- d
	}
	for _, d := range m.others {
		descs <- d
	}
	for _, d := range m.stats {
		descs <- d
	}
}

// Collect implements [prometheus.Collector]. It reads the limiter's [sash.Stats].
func (m *Metrics) Collect(metrics chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, n int64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	f := m.tally.Read()
	for _, c := range f.Decisions {
		counter(m.decisions, c.N, c.Policy, c.Limit, c.Result.String())
		if c.Units != nil {
			counter(m.units, c.Sum, c.Policy, c.Limit, c.Result.String(), c.Unit)
		}
	}
	for _, c := range f.Nears {
		counter(m.nears, c.N, c.Policy, c.Limit)
	}
	for _, c := range f.Others {
		if c.InUnits {
			counter(m.others[c.Name], c.N, c.Policy, c.Of)
		} else {
			counter(m.others[c.Name], c.N, c.Policy)
		}
	}
	for _, w := range f.Waits {
		metrics <- histogram(m.waits, tally.WaitBounds[:], w.Buckets[:], w.Sum, w.Policy, w.Result.String())
	}
	for _, l := range f.Limits {
		gauge(m.limitUnits, float64(l.Count), l.Policy, l.Label)
		gauge(m.limitWindow, l.Window.Seconds(), l.Policy, l.Label)
		if l.Algorithm == sash.TokenBucket {
			gauge(m.limitBurst, float64(l.Burst), l.Policy, l.Label)
		}
	}
	for _, s := range f.Stats {
		if s.Counter {
			counter(m.stats[s.Name], int64(s.Value))
		} else {
			gauge(m.stats[s.Name], s.Value)
		}
	}
	if r := f.Reloads; r != nil {
		counter(m.reloads, r.Loaded, "loaded")
		counter(m.reloads, r.Failed, "failed")
		successful := 0.0
		if r.Successful {
			successful = 1
		}
		gauge(m.reloadSuccessful, successful)
		if !r.LastSuccess.IsZero() {
			gauge(m.reloadLoadedAt, float64(r.LastSuccess.UnixMilli())/1000)
		}
	}
}

// histogram returns the histogram of times in buckets with bounds. Its count is the sum of its buckets, so the two
// always agree.
func histogram(d *prometheus.Desc, bounds []time.Duration, counts []int64, sum time.Duration, labels ...string) prometheus.Metric {
	buckets, count := make(map[float64]uint64, len(bounds)), uint64(0)
	for i, n := range counts {
		count += uint64(n)
		if i < len(bounds) {
			buckets[bounds[i].Seconds()] = count
		}
	}
	return prometheus.MustNewConstHistogram(d, count, sum.Seconds(), buckets, labels...)
}
