package sdktest

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/sashotel"
)

func Example() {
	reader := sdk.NewManualReader() // a program has a reader that exports
	provider := sdk.NewMeterProvider(sdk.WithReader(reader))

	metrics := sashotel.New("api")
	limiter := httplimit.Must(httplimit.New(
		httplimit.Policy{Name: "all", Limits: []sash.Limit{sash.PerMinute(2)}, Key: httplimit.ByAddress()},
		httplimit.WithObserver(metrics.Observe)))
	defer limiter.Close()
	if err := metrics.Register(provider, limiter); err != nil {
		panic(err)
	}

	handler := limiter.Middleware(http.NotFoundHandler())
	for range 5 {
		handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	}

	var collected metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &collected); err != nil {
		panic(err)
	}
	requests := collected.ScopeMetrics[0].Metrics[0]
	fmt.Println(requests.Name)
	for _, p := range requests.Data.(metricdata.Sum[int64]).DataPoints {
		if p.Value > 0 {
			result, _ := p.Attributes.Value("sash.rate_limiting.result")
			fmt.Println(result.AsString(), p.Value)
		}
	}
	// Unordered output:
	// sash.rate_limiting.requests
	// admitted 2
	// denied 3
}
