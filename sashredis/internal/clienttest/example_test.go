package clienttest

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/rueidisconn"
)

// embedded returns a connection to a store in this process, for the examples. A program connects
// to its own:
//
//	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"redis:6379"}})
//	conn := rueidisconn.New(client)
func embedded() sashredis.Conn {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	server.SetTime(time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC))
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{server.Addr()}, DisableCache: true})
	if err != nil {
		panic(err)
	}
	return rueidisconn.New(client)
}

// Two processes share one count.
func Example() {
	conn := embedded()
	limits := []sash.Limit{sash.PerMinute(3)}
	here := sashredis.Must(sashredis.New(conn, limits, sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(time.Second)))
	there := sashredis.Must(sashredis.New(conn, limits, sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(time.Second)))

	ctx := context.Background()
	for _, process := range []*sashredis.Limiter{here, there, here, there, there} {
		d := process.Take(ctx, "203.0.113.7", 1)
		fmt.Println(d.Allowed, d.Remaining, d.By)
	}
	// Output:
	// true 2 store
	// true 1 store
	// true 0 store
	// false 0 store
	// false 0 mirror
}

// A budget of LLM tokens for a whole fleet: an estimate is reserved before the call, and settled
// when its cost is known.
func ExampleLimiter_Reserve() {
	limiter := sashredis.Must(sashredis.New(embedded(), []sash.Limit{sash.PerMinute(10_000)},
		sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(time.Second)))
	ctx := context.Background()

	r, d := limiter.Reserve(ctx, "team 7", 4000)
	fmt.Println(d.Allowed, d.Remaining)
	if err := r.Commit(ctx, 1200); err != nil { // the answer took 1200 tokens
		fmt.Println(err)
	}
	fmt.Println(limiter.Peek(ctx, "team 7", 0).Remaining)
	// Output:
	// true 6000
	// 8800
}

// The session of a user knows the limits of the user's plan.
func ExampleLimiter_TakeLimits() {
	limiter := sashredis.Must(sashredis.New(embedded(), []sash.Limit{sash.PerSecond(0)}, // calls bring their limits
		sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(time.Second)))
	ctx := context.Background()
	trial, pro := sash.PerMinute(20), sash.PerMinute(600)

	fmt.Println(limiter.TakeLimits(ctx, "user 7", 20, trial).Allowed)
	fmt.Println(limiter.TakeLimits(ctx, "user 7", 1, trial).Allowed)
	fmt.Println(limiter.TakeLimits(ctx, "user 7", 1, pro).Remaining) // what was used counts after an upgrade
	// Output:
	// true
	// false
	// 579
}

// The user and the address of a login are charged both, or neither.
func ExampleLimiter_TakeAll() {
	limiter := sashredis.Must(sashredis.New(embedded(), []sash.Limit{sash.PerHour(5)},
		sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(time.Second)))
	ctx := context.Background()
	for range 6 {
		limiter.TakeAll(ctx, []string{"user alice", "address 203.0.113.7"}, 1)
	}
	fmt.Println(limiter.Peek(ctx, "user alice", 0).Remaining)
	fmt.Println(limiter.TakeAll(ctx, []string{"user bob", "address 203.0.113.7"}, 1).Allowed)
	fmt.Println(limiter.Peek(ctx, "user bob", 0).Remaining)
	// Output:
	// 0
	// false
	// 5
}
