package sashprometheus

import (
	"errors"
	"fmt"

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

	decisions, nears, units, window, burst *prometheus.Desc
	others                                 map[string]*prometheus.Desc // by the name of a tally.Other
	stats                                  map[string]*prometheus.Desc // by the name of a tally.Stat
}

// New returns the metrics of the limiter with that name, which is the value of the label
// limiter. Limiters of one process need different names. A name must not be empty.
func New(limiter string) *Metrics {
	m := &Metrics{limiter: limiter, others: make(map[string]*prometheus.Desc), stats: make(map[string]*prometheus.Desc)}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("sash_"+name, help, labels, prometheus.Labels{"limiter": limiter})
	}
	m.decisions = desc("decisions_total", "Requests by their result under each of their policies.", "policy", "limit", "result")
	m.nears = desc("near_limit_total", "Requests that left less of the limit than the share Near of their policy.", "policy", "limit")
	m.units = desc("limit_units", "Units that the limit admits in its window.", "policy", "limit")
	m.window = desc("limit_window_seconds", "Window of the limit.", "policy", "limit")
	m.burst = desc("limit_burst_units", "Units that the token bucket admits at once.", "policy", "limit")
	for _, o := range tally.Others() {
		m.others[o.Name] = desc(o.Name+"_total", o.Help, "policy")
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
func (m *Metrics) ObserveTake(_ string, _ int64, d sash.Decision) { m.tally.ObserveTake(&d) }

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
	for _, d := range []*prometheus.Desc{m.decisions, m.nears, m.units, m.window, m.burst} {
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
	}
	for _, c := range f.Nears {
		counter(m.nears, c.N, c.Policy, c.Limit)
	}
	for _, c := range f.Others {
		counter(m.others[c.Name], c.N, c.Policy)
	}
	for _, l := range f.Limits {
		gauge(m.units, float64(l.Count), l.Policy, l.Label)
		gauge(m.window, l.Window.Seconds(), l.Policy, l.Label)
		if l.Algorithm == sash.TokenBucket {
			gauge(m.burst, float64(l.Burst), l.Policy, l.Label)
		}
	}
	for _, s := range f.Stats {
		if s.Counter {
			counter(m.stats[s.Name], int64(s.Value))
		} else {
			gauge(m.stats[s.Name], s.Value)
		}
	}
}
