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
	subjects []*subject
	callers  []*caller
	operator *operator
	faults   *faults
	mostKeys []int // of subjects, as far as seen
	begun    time.Time
}

const (
	warmingKeys = 4000
	// mostGrowth is how much larger the heap may be at the end, when all keys are
	// gone again, for tables that are a little larger than before.
	mostGrowth = 4 << 20
)

// run soaks for as long as o says, or until ctx ends, and reports.
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
	s.mostKeys = make([]int, len(s.subjects))
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

// watch looks at the numbers of keys, and writes the live line, until ctx ends.
func (s *soak) watch(ctx context.Context, live io.Writer) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		for i, one := range s.subjects {
			s.mostKeys[i] = max(s.mostKeys[i], s.faults.checkLen(one))
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

// warm has each limiter make its tables, which it keeps when they are empty again.
func (s *soak) warm() {
	for _, one := range s.subjects {
		for i := range warmingKeys {
			one.limiter.Allow("warming " + strconv.Itoa(i))
		}
		one.idle()
	}
}

// settle ends the janitors, one of which may be about to remove a key that it has
// evicted, audits what is still to be audited, and lets every key become idle: then
// nothing may be left of it.
func (s *soak) settle() {
	for _, one := range s.subjects {
		one.limiter.Close()
		for _, k := range one.kept {
			s.faults.overAdmission(one, k, k.account.audit())
			k.account.charges = nil
		}
		for _, name := range one.overrides {
			s.operator.succeed(one, "SetLimits", one.limiter.SetLimits(name))
		}
		if n := one.idle(); n != 0 {
			s.faults.add(one, "%d keys are left after all have been idle for an hour", n)
		}
	}
	for _, c := range s.callers {
		c.open = nil
	}
}

// heap returns how many bytes live objects take.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what finalizers and pools still held
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// goroutines returns how many there are, once they are at most so many or have had
// a second to end.
func goroutines(most int) (n int) {
	for deadline := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		if n = runtime.NumGoroutine(); n <= most || time.Now().After(deadline) {
			return n
		}
	}
}
