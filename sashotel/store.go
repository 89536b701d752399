package sashotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed-30da4c49/sash/internal/storestats"
)

// RegisterStore registers instruments of a *sashredis.Limiter with a meter of p. The name of the limiter is the
// value of the attribute sash.rate_limiting.limiter, and limiters of one process need different names; it may be the
// name of [New] as well. A name must not be empty. The limiter of a httpstore.Store is what its method Limiter
// returns. Limiters that sashredis.Limiter.WithLimits returns have the figures of the one that they come from:
// register one of them.
//
// A collection reads the Stats of the limiter. The Registration ends it. The function of
// [RoundTripHook] records the times of round trips.
func RegisterStore[Stats storestats.Like](p metric.MeterProvider, limiter string, l interface{ Stats() Stats }) (metric.Registration, error) {
	fault := func(err error) error { return fmt.Errorf("sashotel: limiter %q: %w", limiter, err) }
	switch {
	case limiter == "":
		return nil, fault(errors.New("RegisterStore needs a name for the limiter"))
	case p == nil:
		return nil, fault(errors.New("the MeterProvider must not be nil; try otel.GetMeterProvider()"))
	}
	i := &instruments{meter: p.Meter(scope), limiter: attribute.String(namespace+"limiter", limiter), stats: map[string]metric.Int64Observable{}}
	for _, f := range storestats.Figures(storestats.Stats{}) {
		if i.stats[f.Name] == nil {
			i.stats[f.Name] = i.figure("store."+f.Name, f.Unit, f.Help, f.Counter)
		}
	}
	if i.err != nil {
		return nil, fault(i.err)
	}
	r, err := i.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, f := range storestats.Figures(storestats.Stats(l.Stats())) {
			all := []attribute.KeyValue{i.limiter}
			if f.By != "" {
				all = append(all, attribute.String(namespace+"by", f.By))
			}
			o.ObserveInt64(i.stats[f.Name], f.Value, metric.WithAttributes(all...))
		}
		return nil
	}, i.all...)
	if err != nil {
		return nil, fault(err)
	}
	return r, nil
}
