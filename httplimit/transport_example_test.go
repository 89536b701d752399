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
	limiter := sash.Must(sash.New(sash.PerSecond(10)))
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

// A client that calls each host 10 times a second on average, and up to 100 times at once
// after a pause. A token bucket says both.
func ExampleTransport_tokenBucket() {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	clock := sash.NewManualClock(0) // for the example: time passes when it is told to
	limiter := sash.Must(sash.New(sash.PerSecond(10).TokenBucket(100), sash.WithClock(clock)))
	defer limiter.Close()
	client := &http.Client{Transport: &httplimit.Transport{Limiter: limiter}}

	call := func() {
		response, err := client.Get(server.URL)
		if err == nil {
			response.Body.Close()
		}
	}
	for range 100 {
		call()
	}
	fmt.Println("100 calls at", time.Duration(clock.Now()))

	// Now the bucket is empty. Each further call waits until a unit has flowed back.
	sent := make(chan struct{})
	go func() {
		for range 3 {
			call()
			sent <- struct{}{}
		}
	}()
	for range 3 {
		clock.Advance(100 * time.Millisecond)
		<-sent
		fmt.Println("one more at", time.Duration(clock.Now()))
	}
	// Output:
	// 100 calls at 0s
	// one more at 100ms
	// one more at 200ms
	// one more at 300ms
}
