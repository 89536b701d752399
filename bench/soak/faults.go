package main

import (
	"fmt"
	"sync"

	"github.com/seed-30da4c49/sash"
)

// faults collects the faults found.
type faults struct {
	mu             sync.Mutex
	overAdmissions int
	others         int
	first          []string
	found          func() // called for each fault
}

const shownFaults = 20

func (f *faults) add(s *subject, format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.others++
	f.show(s.name, fmt.Sprintf(format, args...))
}

// overAdmission adds e unless it is nil.
func (f *faults) overAdmission(s *subject, k key, e *excess) {
	if e == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.overAdmissions++
	f.show(s.name, fmt.Sprintf("over-admission: key %q under %v was admitted %d units between %d and %d ns, at most %d may be",
		k.name, e.limit, e.units, e.from, e.to, e.max))
}

func (f *faults) show(name, what string) {
	if len(f.first) < shownFaults {
		f.first = append(f.first, name+": "+what)
	}
	f.found()
}

func (f *faults) counts() (overAdmissions, others int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.overAdmissions, f.others
}

// check checks a decision on n units for contradictions. n is at most half of each Count
// or Burst, so RetryAfter must not be Never.
func (f *faults) check(s *subject, n int64, d sash.Decision) {
	f.checkState(s, d)
	if d.RetryAfter == sash.Never {
		f.add(s, "%d are never admitted: %+v", n, d)
	}
}

// checkState checks a decision on any number of units for contradictions.
func (f *faults) checkState(s *subject, d sash.Decision) {
	switch {
	case d.Limit.Count < 1:
		f.add(s, "a decision names no limit: %+v", d)
	case d.Remaining < 0 || d.Remaining > atOnce(d.Limit):
		f.add(s, "Remaining is not from 0 to Count, or Burst: %+v", d)
	case d.Allowed != (d.RetryAfter == 0):
		f.add(s, "RetryAfter is not 0, or is, though the call is admitted, or denied: %+v", d)
	case d.RetryAfter < 0 || d.ResetAfter < 0:
		f.add(s, "a time is negative: %+v", d)
	}
}

// checkLen checks that the number of keys is within the cap, and returns it.
func (f *faults) checkLen(s *subject) int {
	n := s.limiter.Len()
	if n < 0 || s.maxKeys > 0 && n > s.maxKeys {
		f.add(s, "%d keys are tracked, at most %d may be", n, s.maxKeys)
	}
	return n
}
