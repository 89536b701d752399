package sashredis

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/bridge"
	"github.com/seed-30da4c49/sash/internal/window"
)

// internals are the functions of package sash that it does not export.
var internals = bridge.Of[sash.Limiter, sash.Option, sash.Limit, sash.Clock]()

// A kind is how a script keeps what a key was charged under a limit. Its value is the letter
// that the scripts know it by.
type kind byte

const (
	counterKind kind = 'c' // two counts: SlidingCounter
	bucketKind  kind = 't' // a debt: TokenBucket
	ringKind    kind = 'r' // the units of each tick: SlidingLog and SlidingBuckets
)

// An unknownKind is what a switch panics with that has no case for a kind.
type unknownKind kind

func (k unknownKind) Error() string { return fmt.Sprintf("sashredis: no rule of kind %q", kind(k)) }

// A rule is a Limit, compiled for telling what follows from a state. Only the arithmetic of its
// kind is set. It does not change.
type rule struct {
	sash.Limit
	kind    kind
	counter window.Counter
	bucket  window.TokenBucket
	ticks   window.Ticks
}

const microsecond = int64(time.Microsecond)

// compile returns the rule of a valid limit.
func compile(l sash.Limit) rule {
	r, size := rule{Limit: l}, int64(l.Window)
	switch l.Algorithm {
	case sash.SlidingCounter:
		r.kind, r.counter = counterKind, window.Counter{Count: l.Count, Window: size}
	case sash.SlidingLog:
		r.kind, r.ticks = ringKind, window.Ticks{Length: microsecond, Life: size / microsecond}
	case sash.SlidingBuckets:
		r.kind, r.ticks = ringKind, window.Buckets(size, int64(l.Precision))
	case sash.TokenBucket:
		r.kind, r.bucket = bucketKind, window.TokenBucket{Count: l.Count, Window: size, Burst: l.Burst}
		if l.Count == 0 {
			r.bucket.Burst = 0 // it admits nothing
		}
	default:
		panic(fmt.Sprintf("sashredis: no rule for %v", l.Algorithm))
	}
	return r
}

// most returns the greatest number of units that r ever admits at once.
func (r *rule) most() int64 {
	if r.kind == bucketKind {
		return r.bucket.Burst
	}
	return r.Count
}

// limit returns r as the scripts read it.
func (r *rule) limit() string {
	switch micros := int64(r.Window) / microsecond; r.kind {
	case counterKind:
		return fmt.Sprintf("c %d %d;", micros, r.Count)
	case bucketKind:
		return fmt.Sprintf("t %d %d %d;", micros, r.Count, r.bucket.Burst)
	case ringKind:
		return fmt.Sprintf("r %d %d %d;", r.ticks.Length/microsecond, r.ticks.Life, r.Count)
	}
	panic(unknownKind(r.kind))
}

// name returns what must be equal of two limits that share a state. So a limit keeps its counts
// if only its Count changes or, under a token bucket, its Burst.
func (r *rule) name() string {
	switch micros := int64(r.Window) / microsecond; r.kind {
	case counterKind:
		return fmt.Sprintf("c%d", micros)
	case bucketKind:
		return fmt.Sprintf("t%d/%d", r.Count, micros)
	case ringKind:
		return fmt.Sprintf("r%dx%d", r.ticks.Length/microsecond, r.ticks.Life)
	}
	panic(unknownKind(r.kind))
}

// A ruleset is the limits of a key, compiled. It does not change.
type ruleset struct {
	*scripts
	rules     []rule
	limits    string // as the scripts read them
	suffix    string // of the name of a key under them
	unlimited bool   // there are no rules
	zero      bool   // a limit has a Count of 0, so nothing is ever charged
	leasable  bool
	leaseFor  time.Duration // the longest lease
}

// newRuleset returns the ruleset of limits, which are valid. A key that is ahead by more windows than
// maxAhead begins anew; 0 is no bound.
func newRuleset(limits []sash.Limit, maxAhead int) *ruleset {
	rs := &ruleset{leasable: true, leaseFor: sash.Never}
	var names, kinds []string
	for _, l := range limits {
		if l == sash.Unlimited() {
			continue // it has no effect next to others
		}
		r := compile(l)
		rs.rules = append(rs.rules, r)
		rs.limits += r.limit()
		rs.zero = rs.zero || l.Count == 0
		rs.leasable = rs.leasable && l.Count > 0 && l.Algorithm != sash.SlidingLog
		if r.kind == bucketKind {
			// What is leased does not flow back. So let a bucket lease for a fraction of the time in
			// which it fills.
			rs.leaseFor = min(rs.leaseFor, r.bucket.ResetAfter(r.bucket.Cost(r.Burst))/4)
		}
		names, kinds = append(names, r.name()), append(kinds, string(r.kind))
	}
	if maxAhead > 0 {
		rs.limits += strconv.Itoa(maxAhead)
	}
	rs.unlimited = len(rs.rules) == 0
	rs.suffix = ":" + strings.Join(names, ",")
	var letters string
	for _, letter := range []string{"t", "c", "r"} {
		if slices.Contains(kinds, letter) {
			letters += letter
		}
	}
	rs.scripts = scriptsOf[letters]
	return rs
}

// The scripts compute in doubles, which are exact up to 2^53.
const (
	maxCount  = 1<<51 - 1
	maxMicros = 1<<51 - 1
)

// validate returns all faults of limits, the limits of one key, in one error, or nil.
func validate(limits []sash.Limit) error {
	var faults []error
	for _, err := range internals.LimitFaults(limits) {
		faults = append(faults, fmt.Errorf("sashredis: %w", err))
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	for i, l := range limits {
		if l == sash.Unlimited() {
			continue
		}
		for _, fault := range storeFaults(l) {
			faults = append(faults, fmt.Errorf("sashredis: limit %d: %s: %w", i+1, fault, sash.ErrInvalidLimit))
		}
	}
	return errors.Join(faults...)
}

// storeFaults returns what keeps a valid limit from being exact in a store.
func storeFaults(l sash.Limit) (faults []string) {
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if l.Count > maxCount {
		fault("Count must be less than 2^51, got %d", l.Count)
	}
	if l.Burst > maxCount {
		fault("Burst must be less than 2^51, got %d", l.Burst)
	}
	if l.Window%time.Microsecond != 0 {
		fault("Window must be whole microseconds, got %v", l.Window)
	}
	if l.Precision%time.Microsecond != 0 {
		fault("Precision must be whole microseconds, got %v", l.Precision)
	}
	if int64(l.Window)/microsecond > maxMicros {
		fault("Window must be less than 2^51 microseconds (71 years), got %v", l.Window)
	}
	if b := (window.TokenBucket{Count: l.Count, Window: int64(l.Window), Burst: l.Burst}); l.Burst > 0 && l.Count > 0 {
		if full := b.ResetAfter(b.Cost(l.Burst)); int64(full)/microsecond > maxMicros {
			fault("a bucket must fill in less than 2^51 microseconds (71 years), got %d units at %d in %v", l.Burst, l.Count, l.Window)
		}
	}
	return faults
}

// neverAdmits reports whether rs will never admit n units.
func (rs *ruleset) neverAdmits(n int64) bool {
	if n < 0 {
		return true
	}
	for i := range rs.rules {
		if n > rs.rules[i].most() {
			return true
		}
	}
	return false
}

// number parses a number of a reply.
func number(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("sashredis: the server answered %q where a number is wanted: %w", text, ErrServer)
	}
	return n, nil
}

// parseNumbers appends the numbers in text, between which there are spaces.
func parseNumbers(numbers []int64, text string) ([]int64, error) {
	for more := true; more; {
		var word string
		word, text, more = strings.Cut(text, " ")
		n, err := number(word)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
