package httplimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// A client that calls each host at most 10 times a second, and waits longer for hosts that
// ask for it.
func ExampleTransport() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "120")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	limiter := sash.Must(sash.New(sash.PerSecond(10).Log()))
	defer limiter.Close()
	client := &http.Client{Transport: &httplimit.Transport{Limiter: limiter}, Timeout: time.Minute}

	response, err := client.Get(server.URL)
	fmt.Println(response.Status, err)

	// The context ends before the two minutes that the host asks for. So the error comes at
	// once.
	_, err = client.Get(server.URL)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// 503 Service Unavailable <nil>
	// true
}
