package sdktest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashotel"
	"github.com/seed-30da4c49/sash/sashredis"
)

// A storeConn stands for a connection to a store that admits all calls, for one unit each, after 3 ms. With an err,
// it does not answer. It makes a span, as the instrumentation of a client does.
type storeConn struct {
	tracer trace.Tracer
	err    error
}

func (c *storeConn) Run(ctx context.Context, _ *sashredis.Script, _, args []string) (string, error) {
	_, span := c.tracer.Start(ctx, "evalsha")
	defer span.End()
	time.Sleep(3 * time.Millisecond) // of the bubble
	_, times, _ := strings.Cut(args[1], "+")
	return fmt.Sprintf("%d|%s|0 0||0 0 0", time.Now().UnixMicro(), times), c.err
}

// A store is a limiter on a storeConn, and what it exports. It is for a bubble of testing/synctest.
type store struct {
	*sashredis.Limiter
	conn   *storeConn
	tracer trace.Tracer
	spans  *tracetest.InMemoryExporter
	reader *sdk.ManualReader
}

func newStore(t *testing.T) *store {
	s := &store{spans: tracetest.NewInMemoryExporter(), reader: sdk.NewManualReader()}
	traces, meters := sdktrace.NewTracerProvider(sdktrace.WithSyncer(s.spans)), sdk.NewMeterProvider(sdk.WithReader(s.reader))
	s.tracer = traces.Tracer("test")
	s.conn = &storeConn{tracer: s.tracer}
	hook, err := sashotel.RoundTripHook("api", traces, meters)
	require.NoError(t, err)
	s.Limiter, err = sashredis.New(s.conn, []sash.Limit{sash.PerMinute(100).Counter()}, sashredis.WithFallback(sashredis.FallbackAdmit),
		sashredis.WithRoundTripHook(hook), sashredis.WithBreaker(2, time.Hour))
	require.NoError(t, err)
	_, err = sashotel.RegisterStore(meters, "api", s.Limiter)
	require.NoError(t, err)
	return s
}

// take makes a call within a span of that name.
func (s *store) take(ctx context.Context, name string) {
	ctx, span := s.tracer.Start(ctx, name)
	defer span.End()
	s.Take(ctx, "k", 1)
}

// Calls that share a round trip have it in their traces: the first as its own, the others by a link.
func TestRoundTripHook_KeepsTheTracesOfCallsThatShareARoundTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		for _, name := range []string{"one", "two", "three", "four"} {
			go s.take(t.Context(), name)
			synctest.Wait() // one is on its way, and the others wait
		}
		time.Sleep(time.Second) // of the bubble

		of := map[string][]tracetest.SpanStub{} // by name
		for _, span := range s.spans.GetSpans() {
			of[span.Name] = append(of[span.Name], span)
		}
		trips, scripts := of["store round trip"], of["evalsha"]
		require.Len(t, trips, 2)
		for i, calls := range [][]string{{"one"}, {"two", "three", "four"}} {
			first := of[calls[0]][0].SpanContext
			require.Equal(t, first.TraceID(), trips[i].SpanContext.TraceID())
			require.Equal(t, first.SpanID(), trips[i].Parent.SpanID())
			require.Equal(t, trace.SpanKindClient, trips[i].SpanKind)
			require.Equal(t, trips[i].SpanContext.SpanID(), scripts[i].Parent.SpanID(), "what the client adds is below it")
			var links []trace.SpanContext
			for _, name := range calls[1:] {
				links = append(links, of[name][0].SpanContext)
			}
			require.Len(t, trips[i].Links, len(links))
			for j, link := range trips[i].Links {
				require.Equal(t, links[j], link.SpanContext)
			}
			require.Contains(t, trips[i].Attributes, attribute.Int("sash.rate_limiting.calls", len(calls)))
			require.Equal(t, 3*time.Millisecond, trips[i].EndTime.Sub(trips[i].StartTime))
		}
	})
}

// Calls of one span have one link, or are a part of it.
func TestRoundTripHook_LinksASpanOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		a, spanA := s.tracer.Start(t.Context(), "a")
		b, spanB := s.tracer.Start(t.Context(), "b")
		for _, ctx := range []context.Context{t.Context(), a, b, a, b, t.Context()} {
			go s.Take(ctx, "k", 1)
			synctest.Wait()
		}
		time.Sleep(time.Second) // of the bubble
		spans := s.spans.GetSpans()
		last := spans[len(spans)-1]
		require.Equal(t, spanA.SpanContext().SpanID(), last.Parent.SpanID())
		require.Len(t, last.Links, 1)
		require.Equal(t, spanB.SpanContext(), last.Links[0].SpanContext)
	})
}

func TestStore_IsMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore(t)
		s.take(t.Context(), "answered")
		s.Take(t.Context(), "k", 1000)    // which the mirror denies
		s.TakeLimits(t.Context(), "k", 1) // without limits
		s.conn.err = errors.New("the store is away")
		for range 3 {
			s.take(t.Context(), "not answered")
		}
		require.Equal(t, `counter store.breaker_openings {opening} {limiter=api} 1
counter store.decisions {call} {by=fallback,limiter=api} 3
counter store.decisions {call} {by=mirror,limiter=api} 1
counter store.decisions {call} {by=store,limiter=api} 1
counter store.invalid_calls {call} {limiter=api} 1
counter store.round_trip_failures {round_trip} {limiter=api} 2
counter store.round_trips {round_trip} {limiter=api} 3
histogram store.round_trip.duration s {limiter=api} 0.009000000000000001 [0.0001 0.00025 0.0005 0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1] [0 0 0 0 0 3 0 0 0 0 0 0 0 0]
updown store.breaker_open {breaker} {limiter=api} 1`, points(collect(t, s.reader), false))
		failed := s.spans.GetSpans()[4]
		require.Equal(t, "store round trip", failed.Name)
		require.Equal(t, sdktrace.Status{Code: codes.Error, Description: "the store is away"}, failed.Status)
	})
}

func TestStore_SaysWhatIsWrong(t *testing.T) {
	limiter, err := sashredis.New(&storeConn{}, []sash.Limit{sash.PerMinute(1)}, sashredis.WithFallback(sashredis.FallbackDeny))
	require.NoError(t, err)
	_, err = sashotel.RoundTripHook("", nil, nil)
	require.EqualError(t, err, "sashotel: RoundTripHook needs a name for the limiter")
	_, err = sashotel.RegisterStore(sdk.NewMeterProvider(), "", limiter)
	require.EqualError(t, err, `sashotel: limiter "": RegisterStore needs a name for the limiter`)
	_, err = sashotel.RegisterStore(nil, "api", limiter)
	require.EqualError(t, err, `sashotel: limiter "api": the MeterProvider must not be nil; try otel.GetMeterProvider()`)

	hook, err := sashotel.RoundTripHook("api", nil, nil)
	require.NoError(t, err)
	ctx, done := hook(t.Context(), []context.Context{t.Context()})
	require.Equal(t, t.Context(), ctx, "it does nothing")
	done(nil)
}
