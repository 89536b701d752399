package grpclimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/grpclimit"
	"github.com/seed-30da4c49/sash/httplimit"
)

// listen returns a server's listener, and its address.
func listen() (net.Listener, string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	return listener, listener.Addr().String()
}

// A server whose clients may make two calls a minute, and ten to each method of one service.
func ExampleUnaryServerInterceptor() {
	limiter := httplimit.Must(httplimit.New(
		httplimit.Policy{
			Name:   "all",
			Limits: []sash.Limit{sash.PerMinute(2)},
			Key:    httplimit.ByAddress(),
		},
		httplimit.Policy{
			Name:    "health",
			Pattern: "/grpc.health.v1.Health/",
			Limits:  []sash.Limit{sash.PerMinute(10)},
			Key:     httplimit.Join(httplimit.ByAddress(), grpclimit.ByMethod()),
			Charge:  func(code int) bool { return codes.Code(code) != codes.NotFound },
		},
		httplimit.WithClock(sash.NewManualClock(0)), // for the example: no time passes
	))
	defer limiter.Close()
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(limiter)),
		grpc.ChainStreamInterceptor(grpclimit.StreamServerInterceptor(limiter)))
	healthpb.RegisterHealthServer(server, health.NewServer())
	listener, address := listen()
	go server.Serve(listener)
	defer server.Stop()

	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	for range 3 {
		_, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
		fmt.Println(status.Code(err))
		for _, detail := range status.Convert(err).Details() {
			switch detail := detail.(type) {
			case *errdetails.RetryInfo:
				fmt.Println("wait for", detail.RetryDelay.AsDuration())
			case *errdetails.QuotaFailure:
				fmt.Println("quota", detail.Violations[0].QuotaId)
			}
		}
	}
	// Output:
	// OK
	// OK
	// ResourceExhausted
	// wait for 1m0s
	// quota all
}

// A client that makes ten calls a second to each server, and waits longer for servers that ask
// for it.
func ExampleUnaryClientInterceptor() {
	server := grpc.NewServer(grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
		s, err := status.New(codes.Unavailable, "down for maintenance").WithDetails(
			&errdetails.RetryInfo{RetryDelay: durationpb.New(2 * time.Minute)})
		if err != nil {
			return err
		}
		return s.Err()
	}))
	listener, address := listen()
	go server.Serve(listener)
	defer server.Stop()

	limiter := sash.Must(sash.New(sash.PerSecond(10).TokenBucket(20)))
	defer limiter.Close()
	waits := &httplimit.Transport{Limiter: limiter}
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(grpclimit.UnaryClientInterceptor(waits)),
		grpc.WithChainStreamInterceptor(grpclimit.StreamClientInterceptor(waits)))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := healthpb.NewHealthClient(conn)
	_, err = client.Check(ctx, &healthpb.HealthCheckRequest{})
	fmt.Println(status.Code(err))

	// The context ends before the two minutes that the server asks for. So the error comes at
	// once.
	_, err = client.Check(ctx, &healthpb.HealthCheckRequest{})
	fmt.Println(status.Code(err), errors.Is(err, context.DeadlineExceeded))
	// Output:
	// Unavailable
	// DeadlineExceeded true
}

// A stream that may receive 1000 bytes a minute from each client, however many streams it opens.
func ExampleLimitReceived() {
	uploads := httplimit.Must(httplimit.New(httplimit.Policy{
		Name:    "upload",
		Pattern: "/files.Files/Upload",
		Limits:  []sash.Limit{sash.PerMinute(1000)},
		Key:     httplimit.ByAddress(),
		Cost:    grpclimit.MessageBytes,
		Unit:    "content-bytes",
		Queue:   httplimit.Queue{Wait: time.Minute, Requests: 1000}, // a message waits for its turn
	}))
	defer uploads.Close()
	calls := httplimit.Must(httplimit.New(httplimit.Policy{
		Name:   "calls",
		Limits: []sash.Limit{sash.PerMinute(10)},
		Key:    httplimit.ByAddress(),
	}))
	defer calls.Close()
	server := grpc.NewServer(
		grpc.ChainUnaryInterceptor(grpclimit.UnaryServerInterceptor(calls)),
		grpc.ChainStreamInterceptor(grpclimit.StreamServerInterceptor(calls, grpclimit.LimitReceived(uploads))))
	defer server.Stop()
}
