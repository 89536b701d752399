package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"sync"
	"time"
)

// A soak is one run over all subjects.
type soak struct {
	subjects    []*subject
	callers     []*caller
	operator    *operator
	faults      *faults
	maxKeysSeen []int // for each subject, the greatest number of keys seen
	begun       time.Time
}

const (
	warmingKeys = 4000
	// maxGrowth is the allowed growth of the heap from start to end, when no key is
	// tracked. The tables may be a little larger at the end.
	maxGrowth = 4 << 20
)

// run soaks for o.duration, or until ctx ends, and returns the report.
func run(ctx context.Context, o options, live io.Writer) *report {
	r := &report{Seed: o.seed, Callers: o.workers}
	r.Goroutines.Start = runtime.NumGoroutine()
	s := newSoak(o)
	s.warm()
	r.HeapBytes.Start = heap()
	limited, cancel := context.WithTimeout(ctx, o.duration)
	defer cancel()
	if o.first {
		s.faults.found = cancel
	}
	s.soak(limited, live)
	r.Seconds = time.Since(s.begun).Seconds()
	s.settle()
	r.HeapBytes.End = heap()
	r.Goroutines.End = goroutines(r.Goroutines.Start)
	r.fill(s)
	r.judge()
	return r
}

func newSoak(o options) *soak {
	s := &soak{faults: &faults{found: func() {}}}
	for _, p := range plans() {
		s.subjects = append(s.subjects, newSubject(p, o.build))
	}
	random := func(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(o.seed, stream)) }
	for i := range o.workers {
		s.callers = append(s.callers, &caller{
			rand: random(uint64(i)), name: fmt.Sprintf("caller %d, key ", i), subjects: s.subjects,
			tallies: make([]tally, len(s.subjects)), faults: s.faults,
		})
	}
	s.operator = &operator{rand: random(uint64(o.workers)), subjects: s.subjects, faults: s.faults}
	s.maxKeysSeen = make([]int, len(s.subjects))
	return s
}

// soak runs all callers and the operator until ctx ends.
func (s *soak) soak(ctx context.Context, live io.Writer) {
	s.begun = time.Now()
	var all sync.WaitGroup
	for _, c := range s.callers {
		all.Go(func() { c.run(ctx) })
	}
	all.Go(func() { s.operator.run(ctx) })
	s.watch(ctx, live)
	all.Wait()
}

// watch checks the numbers of keys, and writes the live line, until ctx ends.
func (s *soak) watch(ctx context.Context, live io.Writer) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		for i, subject := range s.subjects {
			s.maxKeysSeen[i] = max(s.maxKeysSeen[i], s.faults.checkLen(subject))
		}
		io.WriteString(live, s.line())
		select {
		case <-ctx.Done():
			io.WriteString(live, "\r\x1b[K")
			return
		case <-ticker.C:
		}
	}
}

// warm makes each limiter allocate its tables, which it keeps when they are empty again.
func (s *soak) warm() {
	for _, subject := range s.subjects {
		for i := range warmingKeys {
			subject.limiter.Allow("warming " + strconv.Itoa(i))
		}
		subject.idle()
	}
}

// settle makes the last checks. It ends the janitors, since one may be about to remove a
// key that it has evicted. It audits all accounts. Then it lets every key become idle, after
// which no key may be left.
func (s *soak) settle() {
	for _, subject := range s.subjects {
		subject.limiter.Close()
		for _, k := range subject.kept {
			s.faults.overAdmission(subject, k, k.account.audit())
			k.account.charges = nil
		}
		for _, name := range subject.overrides {
			s.operator.succeed(subject, "SetLimits", subject.limiter.SetLimits(name))
		}
		if n := subject.idle(); n != 0 {
			s.faults.add(subject, "%d keys are left after all have been idle for an hour", n)
		}
	}
	for _, c := range s.callers {
		c.open = nil
	}
}

// heap returns the bytes of live objects.
func heap() int64 {
	runtime.GC()
	runtime.GC() // frees what finalizers and pools still held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// goroutines returns the number of goroutines. It waits up to a second for the number to
// fall to want.
func goroutines(want int) (n int) {
	for deadline := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		if n = runtime.NumGoroutine(); n <= want || time.Now().After(deadline) {
			return n
		}
	}
}
