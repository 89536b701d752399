package sashprometheus

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-30da4c49/sash/internal/storestats"
)

// StoreCollector returns a collector of the metrics of a *sashredis.Limiter, to register:
//
//	prometheus.MustRegister(sashprometheus.StoreCollector("api", limiter))
//
// The name of the limiter is the value of the label limiter. It must not be empty, and limiters of one process
// need different names. It may be the name of [New] as well. The limiter of a httpstore.Store is what its method
// Limiter returns. Limiters that sashredis.Limiter.WithLimits returns have the figures of the one that they come
// from: register one of them.
//
// A collection reads the Stats of the limiter. Nothing else costs anything.
func StoreCollector[Stats storestats.Like](limiter string, l interface{ Stats() Stats }) prometheus.Collector {
	c := &storeCollector{read: func() storestats.Stats { return storestats.Stats(l.Stats()) }, descs: map[string]*prometheus.Desc{}}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		if limiter == "" {
			return prometheus.NewInvalidDesc(errors.New("sashprometheus: StoreCollector needs a name for the limiter"))
		}
		return prometheus.NewDesc("sash_store_"+name, help, labels, prometheus.Labels{"limiter": limiter})
	}
	c.times = desc("round_trip_seconds", "Time of round trips to the store, also of those that failed.")
	for _, f := range storestats.Figures(storestats.Stats{}) {
		name, labels := f.Name, []string(nil)
		if f.Counter {
			name += "_total"
		}
		if f.By != "" {
			labels = []string{"by"}
		}
		c.descs[f.Name] = desc(name, f.Help, labels...)
	}
	return c
}

// A storeCollector collects the figures of a limiter of package sashredis.
type storeCollector struct {
	read  func() storestats.Stats
	descs map[string]*prometheus.Desc // by the name of a storestats.Figure
	times *prometheus.Desc
}

// Describe implements [prometheus.Collector].
func (c *storeCollector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.times
	for _, d := range c.descs {
		descs <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *storeCollector) Collect(metrics chan<- prometheus.Metric) {
	s := c.read()
	for _, f := range storestats.Figures(s) {
		kind, labels := prometheus.GaugeValue, []string(nil)
		if f.Counter {
			kind = prometheus.CounterValue
		}
		if f.By != "" {
			labels = []string{f.By}
		}
		metrics <- prometheus.MustNewConstMetric(c.descs[f.Name], kind, float64(f.Value), labels...)
	}
	metrics <- histogram(c.times, storestats.Bounds[:], s.Times[:], s.Time)
}
