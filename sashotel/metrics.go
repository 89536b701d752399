package sashotel

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/tally"
)

const (
	scope     = "github.com/seed-30da4c49/sash/sashotel"
	namespace = "sash.rate_limiting." // of instruments and attributes
)

// Metrics are the metrics of one limiter. Make them with [New], let the limiter's observer call
// [Metrics.Observe] or [Metrics.ObserveTake], and register them with [Metrics.Register] or
// [Metrics.RegisterLimits]. All methods are safe for concurrent use.
type Metrics struct {
	limiter     string
	tally       tally.Tally
	instruments atomic.Pointer[instruments] // nil: not registered

	mu           sync.Mutex
	registration metric.Registration // nil: none
}

// New returns the metrics of the limiter with that name, which is the value of the attribute
// sash.rate_limiting.limiter. Limiters of one process need different names: a MeterProvider
// does not tell, and adds up the counts of limiters with the same name. A name must not be empty.
func New(limiter string) *Metrics { return &Metrics{limiter: limiter} }

// Observe counts an event. It is the function for [httplimit.WithObserver]. Until
// [Metrics.Register], it counts nothing.
func (m *Metrics) Observe(e httplimit.Event) {
	m.tally.Observe(&e)
	if e.Waited > 0 {
		m.recordWait(&e)
	}
}

// recordWait records the time that a request has waited in queues, if it counts.
func (m *Metrics) recordWait(e *httplimit.Event) {
	i := m.instruments.Load()
	if i == nil {
		return
	}
	if r, counts := m.tally.WaitOf(e); counts {
		// The context of the request is not known here.
		i.waits.Record(context.Background(), e.Waited.Seconds(), i.attributes(e.Policy, "", r.String(), ""))
	}
}

// ObserveTake counts a decision of a limiter without policies. It is the function for
// [sash.WithObserver]. Until [Metrics.RegisterLimits], it counts nothing.
func (m *Metrics) ObserveTake(_ string, n int64, d sash.Decision) { m.tally.ObserveTake(n, &d) }

// ObserveReload counts an attempt to load changed policies, as from a file. err is nil if they are in
// force now, or else says why the former ones were kept. The instruments of reloads have data from the first
// call on. A call before [Metrics.Register] counts, too. A call takes a lock.
func (m *Metrics) ObserveReload(err error) { m.tally.ObserveReload(err) }

// Register begins to count what l decides, and registers the instruments with a meter of p.
// Call it before the first request.
//
// It is an error if the Metrics are registered already, or of another limiter.
func (m *Metrics) Register(p metric.MeterProvider, l *httplimit.Limiter) error {
	return m.register(p, func() error { return m.tally.WatchPolicies(l) })
}

// RegisterLimits is [Metrics.Register] for a limiter without policies.
func (m *Metrics) RegisterLimits(p metric.MeterProvider, l *sash.Limiter) error {
	return m.register(p, func() error { return m.tally.WatchLimits(l) })
}

// Unregister ends the collection. It is for limiters that end before the process does. Counting
// goes on, so that the Metrics can be registered again; only the time in queues is not recorded until then,
// and what was recorded stays with the MeterProvider. It does nothing if the Metrics are not registered.
func (m *Metrics) Unregister() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.registration == nil {
		return nil
	}
	err := m.registration.Unregister()
	m.registration = nil
	m.instruments.Store(nil)
	return err
}

func (m *Metrics) register(p metric.MeterProvider, watch func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.registerLocked(p, watch)
	if err != nil {
		return fmt.Errorf("sashotel: limiter %q: %w", m.limiter, err)
	}
	return nil
}

func (m *Metrics) registerLocked(p metric.MeterProvider, watch func() error) error {
	switch {
	case m.limiter == "":
		return errors.New("New needs a name for the limiter")
	case p == nil:
		return errors.New("the MeterProvider must not be nil; try otel.GetMeterProvider()")
	case m.registration != nil:
		return errors.New("these metrics are registered already; Unregister them first, or make new ones for another limiter")
	}
	if err := watch(); err != nil {
		return err
	}
	i, err := newInstruments(p.Meter(scope), m.limiter)
	if err == nil {
		m.registration, err = i.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
			f := m.tally.Read()
			i.observe(o, &f)
			return nil
		}, i.all...)
	}
	if err == nil {
		m.instruments.Store(i)
	}
	return err
}

// instruments are the instruments of one limiter.
type instruments struct {
	meter   metric.Meter
	limiter attribute.KeyValue
	all     []metric.Observable
	err     error // of making them

	requests               metric.Int64ObservableCounter
	units                  metric.Int64ObservableCounter
	nears                  metric.Int64ObservableCounter
	others                 map[string]metric.Int64Observable // by the name of a tally.Other
	waits                  metric.Float64Histogram
	limitUnits, limitBurst metric.Int64ObservableGauge
	limitWindow            metric.Float64ObservableGauge
	stats                  map[string]metric.Int64Observable // by the name of a tally.Stat
	reloads                metric.Int64ObservableCounter
	reloaded               metric.Int64ObservableGauge
	reloadedAt             metric.Float64ObservableGauge
}

func newInstruments(meter metric.Meter, limiter string) (*instruments, error) {
	i := &instruments{
		meter:   meter,
		limiter: attribute.String(namespace+"limiter", limiter),
		others:  make(map[string]metric.Int64Observable),
		stats:   make(map[string]metric.Int64Observable),
	}
	i.requests = i.counter("requests", "{request}", "Requests by their result under each of their policies.")
	i.units = i.counter("units", "{unit}", "Units that requests cost, by their result under each of their policies.")
	i.nears = i.counter("near_limit", "{request}", "Requests that left less of the limit than the share Near of their policy.")
	for _, other := range tally.Others() {
		i.others[other.Name] = i.counter(other.Name, "{"+other.Unit+"}", other.Help)
	}
	i.limitUnits = i.gauge("limit.units", "{unit}", "Units that the limit admits in its window.")
	i.limitBurst = i.gauge("limit.burst", "{unit}", "Units that the token bucket admits at once.")
	i.limitWindow = i.seconds("limit.window", "Window of the limit.")
	i.reloads = i.counter("policy_reloads", "{reload}", "Attempts to load changed policies.")
	i.reloaded = i.gauge("policy_last_reload.successful", "{success}", "Whether the last attempt to load changed policies has succeeded.")
	i.reloadedAt = i.seconds("policy_last_reload.success_time", "Time of the last attempt to load changed policies that has succeeded, since 1970.")
	i.waits = i.histogram("request.time_in_queue", "Time that requests which had to wait have waited in queues.", tally.WaitBounds[:])
	for _, s := range tally.Stats() {
		i.stats[s.Name] = i.figure(s.Name, s.Unit, s.Help, s.Counter)
	}
	return i, i.err
}

// made adds an instrument.
func (i *instruments) made(o metric.Observable, err error) {
	i.all, i.err = append(i.all, o), errors.Join(i.err, err)
}

func (i *instruments) counter(name, unit, help string) metric.Int64ObservableCounter {
	c, err := i.meter.Int64ObservableCounter(namespace+name, metric.WithUnit(unit), metric.WithDescription(help))
	i.made(c, err)
	return c
}

func (i *instruments) gauge(name, unit, help string) metric.Int64ObservableGauge {
	g, err := i.meter.Int64ObservableGauge(namespace+name, metric.WithUnit(unit), metric.WithDescription(help))
	i.made(g, err)
	return g
}

func (i *instruments) seconds(name, help string) metric.Float64ObservableGauge {
	g, err := i.meter.Float64ObservableGauge(namespace+name, metric.WithUnit("s"), metric.WithDescription(help))
	i.made(g, err)
	return g
}

// histogram makes a histogram of times. OpenTelemetry has none that is read when it is collected, so what has
// taken the time records it, and it is not in all.
func (i *instruments) histogram(name, help string, bounds []time.Duration) metric.Float64Histogram {
	seconds := make([]float64, len(bounds))
	for b, bound := range bounds {
		seconds[b] = bound.Seconds()
	}
	h, err := i.meter.Float64Histogram(namespace+name, metric.WithUnit("s"), metric.WithDescription(help), metric.WithExplicitBucketBoundaries(seconds...))
	i.err = errors.Join(i.err, err)
	return h
}

// figure makes the instrument of a figure of a limiter. One that is no counter is the sum of
// what was added and removed, so it is an up-down counter: several processes add up.
func (i *instruments) figure(name, unit, help string, counter bool) metric.Int64Observable {
	if counter {
		return i.counter(name, "{"+unit+"}", help)
	}
	c, err := i.meter.Int64ObservableUpDownCounter(namespace+name, metric.WithUnit("{"+unit+"}"), metric.WithDescription(help))
	i.made(c, err)
	return c
}

// observe reports the figures.
func (i *instruments) observe(o metric.Observer, f *tally.Figures) {
	for _, c := range f.Decisions {
		o.ObserveInt64(i.requests, c.N, i.attributes(c.Policy, c.Limit, c.Result.String(), ""))
		if c.Units != nil {
			o.ObserveInt64(i.units, c.Sum, i.attributes(c.Policy, c.Limit, c.Result.String(), c.Unit))
		}
	}
	for _, c := range f.Nears {
		o.ObserveInt64(i.nears, c.N, i.attributes(c.Policy, c.Limit, "", ""))
	}
	for _, c := range f.Others {
		o.ObserveInt64(i.others[c.Name], c.N, i.attributes(c.Policy, "", "", c.Of))
	}
	for _, l := range f.Limits {
		labels := i.attributes(l.Policy, l.Label, "", "")
		o.ObserveInt64(i.limitUnits, l.Count, labels)
		o.ObserveFloat64(i.limitWindow, l.Window.Seconds(), labels)
		if l.Algorithm == sash.TokenBucket {
			o.ObserveInt64(i.limitBurst, l.Burst, labels)
		}
	}
	for _, s := range f.Stats {
		o.ObserveInt64(i.stats[s.Name], int64(s.Value), i.attributes("", "", "", ""))
	}
	if r := f.Reloads; r != nil {
		i.observeReloads(o, r)
	}
}

func (i *instruments) observeReloads(o metric.Observer, r *tally.Reloads) {
	o.ObserveInt64(i.reloads, r.Loaded, i.attributes("", "", "loaded", ""))
	o.ObserveInt64(i.reloads, r.Failed, i.attributes("", "", "failed", ""))
	successful := int64(0)
	if r.Successful {
		successful = 1
	}
	o.ObserveInt64(i.reloaded, successful, i.attributes("", "", "", ""))
	if !r.LastSuccess.IsZero() {
		o.ObserveFloat64(i.reloadedAt, float64(r.LastSuccess.UnixMilli())/1000, i.attributes("", "", "", ""))
	}
}

// attributes returns the attributes that are not empty.
func (i *instruments) attributes(policy, limit, result, unit string) metric.MeasurementOption {
	all := []attribute.KeyValue{i.limiter}
	for _, a := range []struct{ key, value string }{{"policy", policy}, {"limit", limit}, {"result", result}, {"unit", unit}} {
		if a.value != "" {
			all = append(all, attribute.String(namespace+a.key, a.value))
		}
	}
	return metric.WithAttributeSet(attribute.NewSet(all...))
}
