package sash_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/seed-30da4c49/sash"
)

func Example() {
	limiter := sash.Must(sash.New(sash.PerMinute(2)))
	defer limiter.Close()

	for range 3 {
		fmt.Println(limiter.Allow("203.0.113.7"))
	}
	// Output:
	// true
	// true
	// false
}

// A clock that the test moves makes every answer certain.
func ExampleLimiter_Take() {
	clock := sash.NewManualClock(0)
	limiter := sash.Must(sash.New(sash.PerMinute(10).Log(), sash.WithClock(clock)))
	defer limiter.Close()

	fmt.Println(limiter.Take("alice", 7).Remaining)
	clock.Advance(20 * time.Second)

	d := limiter.Take("alice", 5)
	fmt.Println(d.Allowed, d.Remaining, d.RetryAfter)

	clock.Advance(d.RetryAfter)
	fmt.Println(limiter.Take("alice", 5).Allowed)
	// Output:
	// 3
	// false 3 40s
	// true
}

// 9 units in the first minute and 5 in the second: at 1:15 three quarters of
// the first still count, which makes 11.75.
func ExampleLimiter_Peek() {
	clock := sash.NewManualClock(0)
	limiter := sash.Must(sash.New(sash.PerMinute(10), sash.WithClock(clock)))
	defer limiter.Close()

	limiter.AllowN("alice", 9)
	clock.Set(int64(75 * time.Second))
	fmt.Println(limiter.Peek("alice", 5).Allowed)
	fmt.Println(limiter.Peek("alice", 0).Remaining)
	// Output:
	// false
	// 3
}

func ExampleLimiter_AllowBytes() {
	limiter := sash.Must(sash.New(sash.PerSecond(1)))
	defer limiter.Close()

	key := make([]byte, 0, 64) // reused from request to request
	key = append(key[:0], "GET /login "...)
	key = append(key, "203.0.113.7"...)
	fmt.Println(limiter.AllowBytes(key))
	// Output: true
}

func ExampleLimiter_Reset() {
	limiter := sash.Must(sash.New(sash.PerHour(1)))
	defer limiter.Close()

	limiter.Allow("alice")
	fmt.Println(limiter.Allow("alice"), limiter.Reset("alice"), limiter.Allow("alice"))
	// Output: false true true
}

func ExampleLimiter_Sweep() {
	clock := sash.NewManualClock(0)
	limiter := sash.Must(sash.New(sash.PerSecond(5),
		sash.WithClock(clock), sash.WithSweepInterval(-1)))

	limiter.Allow("alice")
	limiter.Allow("bob")
	clock.Advance(time.Second)
	limiter.Allow("bob")
	clock.Advance(time.Second)
	fmt.Println(limiter.Len(), limiter.Sweep(), limiter.Len())
	fmt.Println(limiter.Stats().Evicted)
	// Output:
	// 2 1 1
	// 1
}

func ExampleNew_errors() {
	_, err := sash.New(sash.Per(0, -time.Second), sash.WithSizeHint(-1))
	fmt.Println(err)
	fmt.Println(errors.Is(err, sash.ErrInvalidLimit), errors.Is(err, sash.ErrInvalidOption))
	// Output:
	// sash: WithSizeHint: keys must be from 0 to 2147483647, got -1: invalid option
	// sash: limit 1: Count must be >= 1, got 0: invalid limit
	// sash: limit 1: Window must be > 0, got -1s: invalid limit
	// true true
}

func ExampleParseLimit() {
	for _, s := range []string{"100/m", "10/1s log", "10/fortnight"} {
		limit, err := sash.ParseLimit(s)
		fmt.Println(limit, err)
	}
	// Output:
	// 100/1m0s <nil>
	// 10/1s log <nil>
	// 0/0s sash: limit "10/fortnight": window "fortnight" is not a duration such as 250ms, 1m30s or h: invalid limit
}

func ExampleLimit_MarshalText() {
	var config struct{ Login, Search sash.Limit }
	err := json.Unmarshal([]byte(`{"Login": "5/m log", "Search": "100/s"}`), &config)
	fmt.Println(config.Login, config.Search, err)
	// Output: 5/1m0s log 100/1s <nil>
}

// Denied attempts are charged too: hammering does not pay.
func ExampleWithChargeDenied() {
	clock := sash.NewManualClock(0)
	limiter := sash.Must(sash.New(sash.PerMinute(2).Log(),
		sash.WithClock(clock), sash.WithChargeDenied()))
	defer limiter.Close()

	for _, second := range []int64{1, 30, 50, 100} {
		clock.Set(second * int64(time.Second))
		fmt.Println(limiter.Allow("alice"))
	}
	// Output:
	// true
	// true
	// false
	// true
}

func ExampleWithObserver() {
	denied := map[string]int{}
	limiter := sash.Must(sash.New(sash.PerMinute(1),
		sash.WithObserver(func(key string, n int64, d sash.Decision) {
			if !d.Allowed {
				denied[d.Limit.String()]++ // not by key: there may be millions
			}
		})))
	defer limiter.Close()

	limiter.Allow("alice")
	limiter.Allow("alice")
	limiter.Allow("alice")
	fmt.Println(denied)
	// Output: map[1/1m0s:2]
}

// With a clock read once a millisecond a decision costs half as much, and is
// late by a millisecond, or more on a machine that is too busy.
func ExampleCoarseClock() {
	limiter := sash.Must(sash.New(sash.PerMinute(100),
		sash.WithClock(sash.CoarseClock(time.Millisecond))))
	defer limiter.Close()

	fmt.Println(limiter.Allow("alice"))
	// Output: true
}
