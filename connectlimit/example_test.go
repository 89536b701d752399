package connectlimit_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/connectlimit"
	"github.com/seed-30da4c49/sash/httplimit"
)

const greet = "/greet.v1.Greeter/Greet"

// greeter is what protoc-gen-connect-go generates for a service with one procedure.
func greeter(options ...connect.HandlerOption) http.Handler {
	return connect.NewUnaryHandlerSimple(greet, func(_ context.Context, name *wrapperspb.StringValue) (*wrapperspb.StringValue, error) {
		return wrapperspb.String("Hello, " + name.Value), nil
	}, options...)
}

// A server whose clients may call each procedure twice a minute, and a client that waits for its
// turn. It serves and speaks Connect, gRPC and gRPC-Web.
func Example() {
	limiter := httplimit.Must(httplimit.New(
		httplimit.Policy{
			Name:   "all",
			Limits: []sash.Limit{sash.PerMinute(2)},
			Key:    httplimit.Join(httplimit.ByAddress(), connectlimit.ByMethod()),
		},
		httplimit.WithClock(sash.NewManualClock(0)), // for the example: no time passes
	))
	defer limiter.Close()
	server := httptest.NewServer(greeter(connect.WithInterceptors(connectlimit.NewInterceptor(limiter))))
	defer server.Close()

	outgoing := sash.Must(sash.New(sash.PerSecond(10).TokenBucket(20)))
	defer outgoing.Close()
	waits := &httplimit.Transport{
		Limiter: outgoing,
		MaxHold: -1, // for the example: it asks a server whose quota is used up
	}
	client := connect.NewClient[wrapperspb.StringValue, wrapperspb.StringValue](http.DefaultClient, server.URL+greet,
		connect.WithInterceptors(connectlimit.NewClientInterceptor(waits)))
	for range 3 {
		response, err := client.CallUnary(context.Background(), connect.NewRequest(wrapperspb.String("Ada")))
		if err == nil {
			fmt.Println(response.Msg.Value, "-", response.Header().Get("RateLimit"))
			continue
		}
		fmt.Println(connect.CodeOf(err))
		var coded *connect.Error
		if errors.As(err, &coded) {
			for _, detail := range coded.Details() {
				if m, err := detail.Value(); err == nil {
					if info, ok := m.(*errdetails.RetryInfo); ok {
						fmt.Println("wait for", info.RetryDelay.AsDuration())
					}
				}
			}
		}
	}
	// Output:
	// Hello, Ada - "all";r=1;t=60
	// Hello, Ada - "all";r=0;t=60
	// resource_exhausted
	// wait for 1m0s
}
