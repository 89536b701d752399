package main

import (
	"context"
	"net/http"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/bench/internal/report"
	"github.com/seed-30da4c49/sash/httplimit"
)

// A waitersRecord is what other calls cost while many wait, in JSON.
type waitersRecord struct {
	For         string  `json:"waits_for"`
	Waiters     int     `json:"waiters"`
	Commit      float64 `json:"commit_ns"`           // until those that it wakes wait again
	Readings    int64   `json:"commit_readings"`     // of the clock, by these
	WaitAll     float64 `json:"wait_all_ns"`         // of keys that admit it
	Reconfigure float64 `json:"reconfigure_ns"`      // until all have looked
	Slowest     float64 `json:"slowest_decision_ns"` // of another client, during a Reconfigure of httplimit
}

// A wait is what calls wait for.
type wait struct {
	name string
	n    int64
	keys func(i int) []string
	free []string // keys of a call that is admitted
	held bool     // whether the units of the full keys are held at a time
}

const sharedKey, otherKey, freeKey = "shared", "other", "free"

func waits() []wait {
	own := func(i int) []string { return []string{sharedKey, "full " + strconv.Itoa(i)} }
	return []wait{
		{"one full key", 1, func(int) []string { return []string{sharedKey} }, []string{freeKey}, false},
		{"one key, whose units are held", 1, func(int) []string { return []string{sharedKey} }, []string{freeKey}, true},
		{"two full keys", 1, func(int) []string { return []string{sharedKey, otherKey} }, []string{freeKey}, false},
		{"a full key, and a free one", 1, func(int) []string { return []string{sharedKey, freeKey} }, []string{freeKey}, false},
		{"a full key, and a free one of its own", 1, func(i int) []string { return []string{sharedKey, strconv.Itoa(i)} }, []string{freeKey}, false},
		{"two full keys, and a free one of its own", 1, func(i int) []string { return []string{sharedKey, otherKey, strconv.Itoa(i)} }, []string{freeKey}, false},
		{"a full key, and a full one of its own", 1, own, []string{freeKey}, false},
		{"more than a key has left, and a full key of its own", 5, own, []string{freeKey}, false},
	}
}

func planWaiters(l *lab) (p plan) {
	crowds, requests := []int{100, 1000, 10_000}, []int{1000, 20_000}
	if l.quick {
		crowds, requests = []int{10, 100}, []int{100}
	}
	records := []waitersRecord{}
	add := func(cost time.Duration, measure func(ctx context.Context) waitersRecord) {
		p.steps = append(p.steps, step{cost, func(ctx context.Context) error {
			r := measure(ctx)
			if err := ctx.Err(); err != nil {
				return err
			}
			records = append(records, r)
			return nil
		}})
	}
	for _, w := range waits() {
		for _, n := range crowds {
			add(time.Duration(n)*100*time.Microsecond, func(ctx context.Context) waitersRecord { return w.measure(ctx, n) })
		}
	}
	for _, n := range requests {
		add(time.Duration(n)*150*time.Microsecond, func(ctx context.Context) waitersRecord { return measureQueue(ctx, n) })
	}
	p.result = func() (report.Result, error) { return waitersResult(records), nil }
	return p
}

// A readClock is the system's, and counts how often it is read.
type readClock struct {
	sash.Clock
	readings atomic.Int64
}

func (c *readClock) Now() int64 {
	c.readings.Add(1)
	return c.Clock.Now()
}

// settle returns once the calls that are awake wait again. There must be one core. Then they run while the
// caller yields, and each of them reads the clock.
func (c *readClock) settle() {
	for seen := int64(-1); seen != c.readings.Load(); {
		seen = c.readings.Load()
		for range 4 {
			runtime.Gosched()
		}
	}
}

// measure lets n calls wait on one core, and measures others.
func (w *wait) measure(ctx context.Context, n int) waitersRecord {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	const units = 100
	clock := &readClock{Clock: sash.SystemClock()}
	l := sash.Must(sash.New(sash.PerHour(1_000_000).Log(), sash.WithClock(clock), sash.WithSweepInterval(-1)))
	defer l.Close()
	limit := sash.PerHour(units).Log()
	if w.held {
		limit = sash.AtOnce(units, time.Hour)
	}
	back := map[string][]sash.Reservation{}
	for _, key := range []string{sharedKey, otherKey} {
		must(l.SetLimits(key, limit))
		for range units {
			r, _ := l.Reserve(key, 1)
			back[key] = append(back[key], r)
		}
	}
	for i := range n {
		key := "full " + strconv.Itoa(i)
		must(l.SetLimits(key, sash.Per(units, 2*time.Hour).Log()))
		l.AllowN(key, units)
	}

	ctx, giveUp := context.WithCancel(ctx)
	var done sync.WaitGroup
	for i := range n {
		keys := w.keys(i)
		done.Go(func() { _ = l.WaitAll(ctx, keys, w.n) })
	}
	clock.settle()
	defer done.Wait()
	defer giveUp()

	// Give units of the two keys back by turns, in both orders. In the first turns, calls may find out what
	// they wait for.
	const turns, calls = 25, 1000
	var commits []float64
	r := waitersRecord{For: w.name, Waiters: n}
	for i := range turns {
		for _, key := range [][]string{{sharedKey, otherKey}, {otherKey, sharedKey}}[i%2] {
			before, begin := clock.readings.Load(), time.Now()
			back[key][i].Cancel()
			clock.settle()
			if took := time.Since(begin); i >= 2 {
				commits = append(commits, float64(took))
				r.Readings = max(r.Readings, clock.readings.Load()-before)
			}
		}
	}
	slices.Sort(commits)
	r.Commit = commits[len(commits)*9/10]
	begin := time.Now()
	for range calls {
		must(l.WaitAll(ctx, w.free, 1))
	}
	r.WaitAll = float64(time.Since(begin)) / calls
	begin = time.Now()
	must(l.Reconfigure(sash.PerHour(2_000_000).Log()))
	clock.settle()
	r.Reconfigure = float64(time.Since(begin))
	return r
}

// measureQueue lets n requests of one client wait in a Queue of httplimit, replaces the policy, and measures
// the decisions on another client until all of them have started over.
func measureQueue(ctx context.Context, n int) waitersRecord {
	const waiting = "waiting"
	var looked atomic.Int64
	policy := func(count int64) httplimit.Policy {
		key := func(b []byte, r *http.Request) ([]byte, bool) {
			if r.Host == waiting {
				looked.Add(1)
			}
			return append(b, r.Host...), true
		}
		return httplimit.Policy{Name: "p", Key: key, Limits: []sash.Limit{sash.PerHour(count).Log()},
			// Longer than the window, or a request that came before the one that is admitted would wait in vain.
			Queue: httplimit.Queue{Wait: 2 * time.Hour, Requests: 2 * n, RequestsPerClient: 2 * n}}
	}
	l, err := httplimit.New(policy(1))
	must(err)
	defer l.Close()
	ctx, giveUp := context.WithCancel(ctx)
	var done sync.WaitGroup
	defer done.Wait()
	defer giveUp()
	request := func(client string) *http.Request {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+client, nil)
		must(err)
		return r
	}
	for range n + 1 {
		done.Go(func() { l.Decide(nil, request(waiting)) })
	}
	for looked.Load() < int64(n+1) && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(time.Duration(n) * 20 * time.Microsecond) // until they wait

	record := waitersRecord{For: "a Queue of httplimit", Waiters: n}
	looked.Store(0)
	done.Go(func() { must(l.Reconfigure(policy(2))) })
	begin := time.Now()
	for i := 0; looked.Load() < int64(n) && ctx.Err() == nil; i++ {
		asked := time.Now()
		answered := make(chan struct{})
		go func() { // as a server does
			l.Decide(nil, request(strconv.Itoa(i)))
			close(answered)
		}()
		<-answered
		record.Slowest = max(record.Slowest, float64(time.Since(asked)))
		time.Sleep(100 * time.Microsecond)
	}
	record.Reconfigure = float64(time.Since(begin))
	return record
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func waitersResult(records []waitersRecord) report.Result {
	figure := func(ns float64) string {
		if ns == 0 {
			return report.None
		}
		return duration(ns)
	}
	t := report.Table{Title: "what other calls take while many wait",
		Columns: []string{"they wait for", "waiters", "a unit is given back", "readings", "WaitAll of a free key", "Reconfigure", "another client"}}
	for _, r := range records {
		readings := report.None
		if r.Commit > 0 {
			readings = humanize.Comma(r.Readings)
		}
		t.Rows = append(t.Rows, []string{r.For, humanize.Comma(int64(r.Waiters)), figure(r.Commit), readings,
			figure(r.WaitAll), figure(r.Reconfigure), figure(r.Slowest)})
	}
	return report.Result{Records: records, Tables: []report.Table{t}, Notes: []string{
		"*A unit is given back*: the ninth decile of 46 times, on one core, from a Cancel until all calls that it has woken wait again; and how often these have read the clock at most. After two turns, which let the calls find out what they wait for.",
		"*WaitAll of a free key*: the mean of 1,000 calls by one goroutine. *Reconfigure*: until every call that waits has looked again.",
		"*Another client*: the slowest decision on its requests, from a Reconfigure until all that wait in the Queue have started over, on all cores.",
	}}
}
