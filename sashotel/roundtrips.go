package sashotel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-30da4c49/sash/internal/storestats"
)

// RoundTripHook returns a function for sashredis.WithRoundTripHook, which traces and times the round trips of a
// limiter to its store:
//
//	hook, err := sashotel.RoundTripHook("api", otel.GetTracerProvider(), otel.GetMeterProvider())
//	...
//	limiter, err := sashredis.New(conn, limits, sashredis.WithRoundTripHook(hook), ...)
//
// A round trip is a span of the kind client, in the trace of the call that makes it. If several calls share it, it
// is in the trace of the first, and has a link to the span of each other. What an instrumented client of Redis adds
// is below it. The time is in the histogram sash.rate_limiting.store.round_trip.duration.
//
// The name of the limiter is the value of the attribute sash.rate_limiting.limiter, and must not be empty. Without a
// TracerProvider there are no spans, and without a MeterProvider no times.
func RoundTripHook(limiter string, t trace.TracerProvider, m metric.MeterProvider) (
	hook func(ctx context.Context, calls []context.Context) (context.Context, func(err error)), err error,
) {
	if limiter == "" {
		return nil, errors.New("sashotel: RoundTripHook needs a name for the limiter")
	}
	h := &roundTrips{limiter: attribute.String(namespace+"limiter", limiter)}
	if t != nil {
		h.tracer = t.Tracer(scope)
	}
	if m != nil {
		i := &instruments{meter: m.Meter(scope)}
		h.times = i.histogram("store.round_trip.duration", "Time of round trips to the store, also of those that failed.", storestats.Bounds[:])
		h.attributes = metric.WithAttributeSet(attribute.NewSet(h.limiter))
		if i.err != nil {
			return nil, fmt.Errorf("sashotel: limiter %q: %w", limiter, i.err)
		}
	}
	return h.begin, nil
}

// roundTrips traces and times the round trips of one limiter.
type roundTrips struct {
	limiter    attribute.KeyValue
	tracer     trace.Tracer            // nil: none
	times      metric.Float64Histogram // nil: none
	attributes metric.MeasurementOption
}

// begin begins the round trip of calls.
func (h *roundTrips) begin(ctx context.Context, calls []context.Context) (context.Context, func(err error)) {
	var span trace.Span
	if h.tracer != nil {
		ctx, span = h.tracer.Start(ctx, "store round trip", trace.WithSpanKind(trace.SpanKindClient), trace.WithLinks(links(calls)...),
			trace.WithAttributes(h.limiter, attribute.Int(namespace+"calls", len(calls))))
	}
	began := time.Now()
	return ctx, func(err error) {
		if h.times != nil {
			h.times.Record(ctx, time.Since(began).Seconds(), h.attributes)
		}
		if span == nil {
			return
		}
		if err != nil {
			span.RecordError(err)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// links returns links to the spans of all calls but the first, once each. A round trip is in the trace of the first.
func links(calls []context.Context) (links []trace.Link) {
	known := map[trace.SpanID]bool{trace.SpanContextFromContext(calls[0]).SpanID(): true}
	for _, c := range calls[1:] {
		if of := trace.SpanContextFromContext(c); of.IsValid() && !known[of.SpanID()] {
			known[of.SpanID()] = true
			links = append(links, trace.Link{SpanContext: of})
		}
	}
	return links
}
