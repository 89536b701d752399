package sash_test

import (
	"bytes"
	"context"
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

// With a clock that the test moves, every answer is known in advance.
func ExampleLimiter_Take() {
	clock := sash.NewManualClock(0)
	limiter := sash.Must(sash.New(sash.PerMinute(10), sash.WithClock(clock)))
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

// Peek answers what Take would, and charges nothing.
func ExampleLimiter_Peek() {
	clock := sash.NewManualClock(0)
	limiter := sash.Must(sash.New(sash.PerMinute(10), sash.WithClock(clock)))
	defer limiter.Close()

	limiter.AllowN("alice", 9)
	clock.Advance(15 * time.Second)
	for range 2 {
		d := limiter.Peek("alice", 5)
		fmt.Println(d.Allowed, d.Remaining, d.RetryAfter)
	}
	// Output:
	// false 1 45s
	// false 1 45s
}

// 9 units are charged in the first minute. At 1:15, three quarters of them still count:
// 6.75. With 5 more, that makes 11.75, which is more than 10.
func ExampleLimit_Counter() {
	clock := sash.NewManualClock(0)
	limiter := sash.Must(sash.New(sash.PerMinute(10).Counter(), sash.WithClock(clock)))
	defer limiter.Close()

	limiter.AllowN("alice", 9)
	clock.Set(int64(75 * time.Second))
	fmt.Println(limiter.Peek("alice", 5).Allowed)
	fmt.Println(limiter.Peek("alice", 0).Remaining)
	// Output:
	// false
	// 3
}

// Tell a client how much is left, and when there will be more.
func ExampleLimiter_TakeThenPeek() {
	clock := sash.NewManualClock(0)
	limiter := sash.Must(sash.New(sash.PerMinute(10), sash.WithClock(clock)))
	defer limiter.Close()

	limiter.AllowN("alice", 8)
	clock.Advance(15 * time.Second)
	d, next := limiter.TakeThenPeek("alice", 1)
	fmt.Println(d.Allowed, d.Remaining, next.RetryAfter)
	// Output:
	// true 1 45s
}

// With several limits, a call is admitted if all of them admit it. Then all are charged.
func ExampleNew_severalLimits() {
	clock := sash.NewManualClock(0)
	limiter := sash.Must(sash.New(
		sash.PerSecond(10),
		sash.PerMinute(120).Log(),
		sash.PerHour(240).Buckets(time.Minute),
		sash.WithClock(clock)))
	defer limiter.Close()

	fmt.Println(limiter.Take("alice", 10).Allowed)
	d := limiter.Take("alice", 5)
	fmt.Println(d.Allowed, d.Limit, d.RetryAfter)

	clock.Advance(d.RetryAfter)
	fmt.Println(limiter.Take("alice", 5).Allowed)
	// Output:
	// true
	// false 10/1s log 1s
	// true
}

// A call is limited by user and by address at once. If one of the two denies it, neither
// is charged.
func ExampleLimiter_TakeAll() {
	limiter := sash.Must(sash.New(sash.PerMinute(100), sash.WithClock(sash.NewManualClock(0))))
	defer limiter.Close()

	limiter.Take("203.0.113.7", 98) // by other users at that address
	for range 3 {
		fmt.Println(limiter.TakeAll([]string{"user:alice", "203.0.113.7"}, 1).Allowed)
	}
	fmt.Println(limiter.Peek("user:alice", 0).Remaining)
	// Output:
	// true
	// true
	// false
	// 98
}

// Work of two priorities shares one count. What is done in the background leaves 20 units for what users
// wait for.
func ExampleLimiter_TakeLeaving() {
	limiter := sash.Must(sash.New(sash.PerMinute(100), sash.WithClock(sash.NewManualClock(0))))
	defer limiter.Close()

	fmt.Println(limiter.TakeLeaving("api.example.com", 70, 20).Allowed) // in the background
	d := limiter.TakeLeaving("api.example.com", 15, 20)
	fmt.Println(d.Allowed, d.Remaining)
	fmt.Println(limiter.Take("api.example.com", 30).Allowed) // for a user
	// Output:
	// true
	// false 30
	// true
}

// A batch is as large as what is left.
func ExampleLimiter_TakeUpTo() {
	limiter := sash.Must(sash.New(sash.PerMinute(100).TokenBucket(50), sash.WithClock(sash.NewManualClock(0))))
	defer limiter.Close()

	for range 3 {
		taken, d := limiter.TakeUpTo("mail", 30)
		fmt.Println(taken, d.RetryAfter)
	}
	// Output:
	// 30 0s
	// 20 0s
	// 0 600ms
}

// A unit is back when its bucket leaves the window. Here the units taken at 6:05 pm are
// back at 7:05 pm, not at the full hour.
func ExampleLimit_Buckets() {
	clock := sash.NewManualClock(0)
	limiter := sash.Must(sash.New(sash.PerHour(240).Buckets(time.Minute), sash.WithClock(clock)))
	defer limiter.Close()

	clock.Set(int64(18*time.Hour + 5*time.Minute))
	limiter.Take("alice", 20)
	clock.Set(int64(19 * time.Hour))
	fmt.Println(limiter.Peek("alice", 0).Remaining)
	clock.Set(int64(19*time.Hour + 5*time.Minute))
	fmt.Println(limiter.Peek("alice", 0).Remaining)
	// Output:
	// 220
	// 240
}

// The bucket holds 100 units, and 10 flow back each second.
func ExampleLimit_TokenBucket() {
	clock := sash.NewManualClock(0)
	limiter := sash.Must(sash.New(sash.PerSecond(10).TokenBucket(100), sash.WithClock(clock)))
	defer limiter.Close()

	fmt.Println(limiter.Take("alice", 100).Allowed) // the whole burst at once
	d := limiter.Take("alice", 1)
	fmt.Println(d.Allowed, d.RetryAfter, d.ResetAfter)

	clock.Advance(2 * time.Second)
	fmt.Println(limiter.Peek("alice", 0).Remaining)
	fmt.Println(limiter.Take("alice", 101).RetryAfter == sash.Never)
	// Output:
	// true
	// false 100ms 10s
	// 20
	// true
}

// Wait blocks until the call is admitted. Calls on one key are admitted in the order in
// which they came.
func ExampleLimiter_Wait() {
	limiter := sash.Must(sash.New(sash.Per(1, 10*time.Millisecond)))
	defer limiter.Close()

	start := time.Now()
	for range 3 {
		if err := limiter.Wait(context.Background(), "api.example.com", 1); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(time.Since(start) >= 20*time.Millisecond)

	ctx, cancel := context.WithTimeout(context.Background(), time.Microsecond)
	defer cancel()
	err := limiter.Wait(ctx, "api.example.com", 1)
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	fmt.Println(limiter.Wait(context.Background(), "api.example.com", 2))
	// Output:
	// true
	// true
	// sash: Wait: 2 is more than 1/10ms log ever admits: exceeds the limit
}

// Calls are paced: three at once, and from then on one every 10 milliseconds.
func ExampleLimiter_Wait_tokenBucket() {
	limiter := sash.Must(sash.New(sash.Per(1, 10*time.Millisecond).TokenBucket(3)))
	defer limiter.Close()

	start := time.Now()
	for range 5 {
		if err := limiter.Wait(context.Background(), "api.example.com", 1); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(time.Since(start) >= 20*time.Millisecond) // the last two have waited

	// More units than the bucket holds are never there at once.
	fmt.Println(limiter.Wait(context.Background(), "api.example.com", 4))
	// Output:
	// true
	// sash: Wait: 4 is more than 1/10ms burst 3 ever admits: exceeds the limit
}

// A worker waits for its tenant's quota and for what all tenants share, and takes from both
// or from neither.
func ExampleLimiter_WaitAll() {
	limiter := sash.Must(sash.New(sash.PerMinute(100)))
	defer limiter.Close()

	keys := []string{"tenant:a", "all"}
	fmt.Println(limiter.WaitAll(context.Background(), keys, 1))
	fmt.Println(limiter.PeekAll(keys, 0).Remaining)
	// Output:
	// <nil>
	// 99
}

// Some keys are exempt, and some are admitted nothing.
func ExampleUnlimited() {
	limiter := sash.Must(sash.New(sash.PerMinute(1), sash.WithClock(sash.NewManualClock(0))))
	defer limiter.Close()

	limiter.SetLimits("health check", sash.Unlimited())
	limiter.SetLimits("banned", sash.PerMinute(0))
	for _, key := range []string{"health check", "banned", "other"} {
		fmt.Println(limiter.AllowN(key, 1), limiter.AllowN(key, 1))
	}
	fmt.Println(limiter.Len(), "key is tracked")
	// Output:
	// true true
	// false false
	// true false
	// 1 key is tracked
}

// The number of tokens that an LLM call costs is known only afterwards. Reserve an
// estimate, and settle it once the answer is there.
func ExampleLimiter_Reserve() {
	clock := sash.NewManualClock(0)
	tokens := sash.Must(sash.New(sash.PerMinute(10_000).Log(), sash.WithClock(clock)))
	defer tokens.Close()

	first, d := tokens.Reserve("team-7", 4_000)
	fmt.Println(d.Allowed, d.Remaining)
	second, _ := tokens.Reserve("team-7", 4_000)
	third, d := tokens.Reserve("team-7", 4_000)
	fmt.Println(d.Allowed, d.RetryAfter)

	first.Commit(1_000) // it needed less: the rest is given back
	second.Cancel()     // it failed: all is given back
	third.Commit(5_000) // it was denied: there is nothing to settle
	fmt.Println(tokens.Peek("team-7", 0).Remaining)

	fourth, _ := tokens.Reserve("team-7", 4_000)
	fourth.Commit(12_000) // it needed more: that is charged, and later calls wait
	fmt.Println(tokens.Take("team-7", 1).RetryAfter)
	// Output:
	// true 6000
	// false 1m0s
	// 9000
	// 1m0s
}

// Each tenant has at most two exports under way, and starts at most ten a minute. An export whose process
// has died counts for five minutes.
func ExampleAtOnce() {
	exports := sash.Must(sash.New(sash.PerMinute(10), sash.AtOnce(2, 5*time.Minute)))
	defer exports.Close()

	first, _ := exports.Reserve("team-7", 1)
	exports.Reserve("team-7", 1)
	_, d := exports.Reserve("team-7", 1)
	fmt.Println(d.Allowed, d.Limit)

	first.Release()
	_, d = exports.Reserve("team-7", 1)
	fmt.Println(d.Allowed)
	// Output:
	// false 2 at once for 5m0s
	// true
}

// A token bucket gives back what the key would have if the units had never been taken. That
// is nothing once the bucket was full again at a later charge.
func ExampleReservation_Cancel_tokenBucket() {
	clock := sash.NewManualClock(0)
	limiter := sash.Must(sash.New(sash.PerSecond(10).TokenBucket(100), sash.WithClock(clock)))
	defer limiter.Close()
	left := func() int64 { return limiter.Peek("alice", 0).Remaining }

	r, _ := limiter.Reserve("alice", 60)
	clock.Advance(3 * time.Second) // 30 units have flowed back
	limiter.Take("alice", 20)
	fmt.Println(left())
	r.Cancel() // it gives back the other 30
	fmt.Println(left())

	clock.Advance(time.Minute)
	r, _ = limiter.Reserve("alice", 60)
	clock.Advance(6 * time.Second) // all 60 have flowed back
	limiter.Take("alice", 20)
	r.Cancel() // it gives back nothing
	fmt.Println(left())
	// Output:
	// 50
	// 80
	// 80
}

// Logins are limited by their failures, for the account and for the address. Reserve a
// unit from both, and give it back if the login did not fail.
func ExampleLimiter_ReserveAll() {
	failures := sash.Must(sash.New(sash.PerHour(3), sash.WithClock(sash.NewManualClock(0))))
	defer failures.Close()

	for _, password := range []string{"wrong", "right", "wrong", "wrong", "right"} {
		reserved, d := failures.ReserveAll([]string{"account:alice", "203.0.113.7"}, 1)
		if d.Allowed && password == "right" {
			for _, r := range reserved {
				r.Cancel()
			}
		}
		fmt.Println(password, d.Allowed, failures.Peek("account:alice", 0).Remaining)
	}
	// Output:
	// wrong true 2
	// right true 2
	// wrong true 1
	// wrong true 0
	// right false 0
}

// Each key has the limits of the customer's plan.
func ExampleWithLimitsFor() {
	plans := map[string][]sash.Limit{
		"acme": {sash.PerSecond(100), sash.PerDay(1_000_000)},
	}
	limiter := sash.Must(sash.New(sash.PerSecond(5),
		sash.WithLimitsFor(func(key string) []sash.Limit { return plans[key] })))
	defer limiter.Close()

	fmt.Println(limiter.Take("acme", 1).Limit, limiter.Take("somebody", 1).Limit)
	// Output: 100/1s 5/1s log
}

func ExampleLimiter_SetLimits() {
	limiter := sash.Must(sash.New(sash.PerMinute(10), sash.WithClock(sash.NewManualClock(0))))
	defer limiter.Close()

	limiter.Take("alice", 8)
	limiter.SetLimits("alice", sash.PerMinute(100)) // she has paid
	fmt.Println(limiter.Peek("alice", 0).Remaining, limiter.Peek("bob", 0).Remaining)
	limiter.SetLimits("alice") // and no longer does
	fmt.Println(limiter.Peek("alice", 0).Remaining)
	fmt.Println(limiter.SetLimits("alice", sash.Per(-1, time.Minute)))
	// Output:
	// 92 10
	// 2
	// sash: limit 1: Count must be >= 0, got -1: invalid limit
}

// A running service takes its new limits from its configuration. The units charged before
// still count.
func ExampleLimiter_Reconfigure() {
	limiter := sash.Must(sash.New(sash.PerMinute(10), sash.WithClock(sash.NewManualClock(0))))
	defer limiter.Close()

	limiter.Take("alice", 8)
	fmt.Println(limiter.Reconfigure(sash.PerMinute(20), sash.PerHour(100)))
	fmt.Println(limiter.Peek("alice", 0).Remaining)
	// Output:
	// <nil>
	// 12
}

// A token bucket keeps what it lacks: 60 units before the change, and 60 after it. They flow
// back at the new rate.
func ExampleLimiter_Reconfigure_tokenBucket() {
	limiter := sash.Must(sash.New(sash.PerSecond(10).TokenBucket(100), sash.WithClock(sash.NewManualClock(0))))
	defer limiter.Close()

	limiter.Take("alice", 60)
	fmt.Println(limiter.Reconfigure(sash.PerSecond(20).TokenBucket(200)))
	d := limiter.Peek("alice", 0)
	fmt.Println(d.Remaining, d.ResetAfter)
	// Output:
	// <nil>
	// 140 3s
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
	fmt.Println(limiter.Len(), limiter.Sweep(), limiter.Len())
	fmt.Println(limiter.Stats().Evicted)
	// Output:
	// 2 1 1
	// 1
}

func ExampleNew_errors() {
	_, err := sash.New(sash.Per(-1, -time.Second), sash.WithSizeHint(-1))
	fmt.Println(err)
	fmt.Println(errors.Is(err, sash.ErrInvalidLimit), errors.Is(err, sash.ErrInvalidOption))
	// Output:
	// sash: WithSizeHint: keys must be from 0 to 2147483647, got -1: invalid option
	// sash: limit 1: Count must be >= 0, got -1: invalid limit
	// sash: limit 1: Window must be > 0, got -1s: invalid limit
	// true true
}

func ExampleParseLimit() {
	for _, s := range []string{"100/m", "100/m log", "5/m", "5/m counter", "10/s burst 100", "10/fortnight"} {
		limit, err := sash.ParseLimit(s)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Println(limit)
	}
	// Output:
	// 100/1m0s
	// 100/1m0s log
	// 5/1m0s log
	// 5/1m0s counter
	// 10/1s burst 100
	// sash: limit "10/fortnight": window "fortnight" is not a duration such as 250ms, 1m30s or h: invalid limit
}

func ExampleLimit_MarshalText() {
	var config struct{ Login, Search sash.Limit }
	err := json.Unmarshal([]byte(`{"Login": "5/m", "Search": "100/s"}`), &config)
	fmt.Println(config.Login, config.Search, err)
	// Output: 5/1m0s log 100/1s <nil>
}

// Denied attempts are charged, too. A client is admitted again once it pauses.
func ExampleWithChargeDenied() {
	clock := sash.NewManualClock(0)
	limiter := sash.Must(sash.New(sash.PerMinute(2),
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
				denied[d.Limit.String()]++ // not by key: there may be millions of keys
			}
		})))
	defer limiter.Close()

	limiter.Allow("alice")
	limiter.Allow("alice")
	limiter.Allow("alice")
	fmt.Println(denied)
	// Output: map[1/1m0s log:2]
}

// A flood of new keys does not evict the key of a client that is held at its limit.
func ExampleWithMaxKeys() {
	limiter := sash.Must(sash.New(sash.PerHour(5), sash.WithMaxKeys(1000, sash.EvictLeastUsed)))
	defer limiter.Close()

	limiter.AllowN("mallory", 5)
	for i := range 10_000 {
		limiter.Allow(fmt.Sprintf("made-up-%d", i))
	}
	fmt.Println(limiter.Len(), limiter.Allow("mallory"))
	// Output: 1000 false
}

// No call may wait here, so the second is told at once.
func ExampleWithMaxWaiters() {
	limiter := sash.Must(sash.New(sash.PerHour(1), sash.WithMaxWaiters(0)))
	defer limiter.Close()

	fmt.Println(limiter.Wait(context.Background(), "alice", 1))
	err := limiter.Wait(context.Background(), "alice", 1)
	fmt.Println(errors.Is(err, sash.ErrTooManyWaiters), limiter.Stats().Waiters)
	// Output:
	// <nil>
	// true 0
}

// With a clock that is read once a millisecond, a decision costs half as much. It is late
// by up to a millisecond, or by more on a machine whose cores are all busy.
func ExampleCoarseClock() {
	limiter := sash.Must(sash.New(sash.PerMinute(100),
		sash.WithClock(sash.CoarseClock(time.Millisecond))))
	defer limiter.Close()

	fmt.Println(limiter.Allow("alice"))
	// Output: true
}

// A quota outlives its process: another limiter goes on from the snapshot. The time in
// between counts as passed.
func ExampleLimiter_Snapshot() {
	before := sash.Must(sash.New(sash.PerDay(5)))
	defer before.Close()
	before.Take("alice", 3)

	var file bytes.Buffer
	if err := before.Snapshot(&file); err != nil {
		fmt.Println(err)
	}

	after := sash.Must(sash.New(sash.PerDay(5)))
	defer after.Close()
	if err := after.Restore(&file); err != nil {
		fmt.Println(err)
	}
	fmt.Println(after.Peek("alice", 0).Remaining)
	// Output:
	// 2
}

// A snapshot that is not whole, or was made under other limits, changes nothing. The
// limiter goes on with what it has.
func ExampleLimiter_Restore() {
	hourly := sash.Must(sash.New(sash.PerHour(100)))
	defer hourly.Close()
	var file bytes.Buffer
	hourly.Snapshot(&file)

	daily := sash.Must(sash.New(sash.PerDay(5)))
	defer daily.Close()
	err := daily.Restore(&file)
	fmt.Println(errors.Is(err, sash.ErrBadSnapshot))
	fmt.Println(err)
	// Output:
	// true
	// sash: snapshot: its limits are [100/1h0m0s], the limiter's are [5/24h0m0s log]: bad snapshot
}
