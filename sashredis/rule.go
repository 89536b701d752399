package sashredis

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/bridge"
	"github.com/seed-30da4c49/sash/internal/window"
)

// internals are the functions of package sash that it does not export.
var internals = bridge.Of[sash.Limiter, sash.Option, sash.Limit, sash.Clock, sash.Decision, sash.Reservation]()

// A rule is a Limit, compiled for telling what follows from a state. It does not change.
type rule struct {
	sash.Limit
	algorithm
	text string // the limit as the scripts read it
	// name is what must be equal of two limits that share a state. So a limit keeps its counts if only
	// its Count changes or, under a token bucket, its Burst.
	name     string
	most     int64         // the greatest number of units that are ever admitted at once
	leaseFor time.Duration // for how long units may be leased, at most; 0: not at all
	held     bool          // whether units are held: all of a reservation are back once it is settled
}

// An algorithm is the arithmetic of a limit on the states that scripts answer. The scripts know it by
// the letter with which the text and the name of a rule begin.
type algorithm interface {
	// parse returns the state that a script has answered at that instant, as numbers.
	parse(numbers []int64, at int64) (s state, ok bool)
	// charge returns s with units charged at the instant of the answer.
	charge(s state, units int64) state
	// decide returns the outcome of a call for n more units than those that were charged since the
	// answer, at its instant, or later. If known is false, s does not tell the retryAfter.
	decide(s *state, charged, at, n int64) (o outcome, known bool)
	// origin returns where a charge by op at the instant of the answer was recorded.
	origin(s state, at int64, op op) int64
	// periodEnd returns when the window or bucket ends in which such a charge was recorded.
	periodEnd(s state) int64
	// past returns the charges that s tells of, oldest first, for an answer at that instant. A
	// charge at an unknown instant is dated as late as it may be.
	past(s state, at int64) []bridge.Charge
}

const microsecond = int64(time.Microsecond)

// compile returns the rule of a valid limit.
func compile(l sash.Limit) rule {
	r := rule{Limit: l, most: l.Count, leaseFor: sash.Never}
	size := int64(l.Window)
	switch l.Algorithm {
	case sash.SlidingCounter:
		r.algorithm = counter{window.Counter{Count: l.Count, Window: size}}
		r.text = fmt.Sprintf("c %d %d;", size/microsecond, l.Count)
		r.name = fmt.Sprintf("c%d", size/microsecond)
	case sash.SlidingLog, sash.SlidingBuckets, sash.SlidingParts, sash.Concurrency:
		k := ringOf(l)
		if k.Length == microsecond {
			r.leaseFor = 0 // units count from the instant at which they were used
		}
		r.algorithm, r.held = k, l.Algorithm == sash.Concurrency
		length, letter, step := k.Length/microsecond, "r", ""
		switch l.Algorithm {
		case sash.SlidingParts:
			letter, step = "p", fmt.Sprintf(" %d", k.Step/microsecond)
		case sash.Concurrency:
			letter = "h"
		}
		r.text = fmt.Sprintf("%s %d %d %d%s;", letter, length, k.Life, l.Count, step)
		r.name = fmt.Sprintf("%s%dx%d", letter, length, k.Life)
	case sash.TokenBucket:
		b := bucket{window.TokenBucket{Count: l.Count, Window: size, Burst: l.Burst}}
		if l.Count == 0 {
			b.Burst = 0 // it admits nothing
		}
		r.algorithm, r.most = b, b.Burst
		r.text = fmt.Sprintf("t %d %d %d;", size/microsecond, b.Count, b.Burst)
		r.name = fmt.Sprintf("t%d/%d", b.Count, size/microsecond)
		r.leaseFor = b.ResetAfter(b.Cost(b.Burst)) / 4 // leased units do not flow back
	default:
		panic(fmt.Sprintf("sashredis: no rule for %v", l.Algorithm))
	}
	return r
}

// A ruleset is the limits of a key, compiled. It does not change.
type ruleset struct {
	*scripts
	rules     []rule
	limits    string        // as the scripts read them, but for the shift of the key
	suffix    string        // of the name of a key under them
	shifted   bool          // the scripts must know the shift of the key
	holds     bool          // units are held under one of the rules
	spends    bool          // units spent past a reservation are charged under one of the rules
	unlimited bool          // there are no rules
	most      int64         // the greatest number of units that are ever admitted at once
	leaseFor  time.Duration // the longest lease; 0: there are none
	shares    []sash.Limit  // of the rules, in FallbackLocal
}

// newRuleset returns the ruleset of limits, which are valid.
func (c *config) newRuleset(limits []sash.Limit) *ruleset {
	rs := newRuleset(limits, c.maxAhead)
	if c.fallback.mode == localMode {
		for i := range rs.rules {
			rs.shares = append(rs.shares, c.fallback.limit(rs.rules[i].Limit))
		}
	}
	return rs
}

// newRuleset returns the ruleset of limits, which are valid. A key that is ahead by more windows than
// maxAhead begins anew; 0 is no bound.
func newRuleset(limits []sash.Limit, maxAhead int) *ruleset {
	rs := &ruleset{most: math.MaxInt64, leaseFor: sash.Never}
	var names []string
	algorithms := 0 // the set of them
	for _, l := range limits {
		if l == sash.Unlimited() {
			continue // it has no effect next to others
		}
		r := compile(l)
		rs.rules, names = append(rs.rules, r), append(names, r.name)
		rs.limits += r.text
		rs.shifted = rs.shifted || l.Algorithm == sash.SlidingParts
		rs.holds, rs.spends = rs.holds || r.held, rs.spends || !r.held
		algorithms |= algorithmBit(r.name[0])
		rs.most, rs.leaseFor = min(rs.most, r.most), min(rs.leaseFor, r.leaseFor)
	}
	if maxAhead > 0 {
		rs.limits += strconv.Itoa(maxAhead)
	}
	rs.unlimited = len(rs.rules) == 0
	rs.suffix = ":" + strings.Join(names, ",")
	rs.scripts = scriptsOf[algorithms]
	return rs
}

// within reports whether each limit of rs admits at most as many units at once as the limit of other in its place.
// Both keep their states alike. If other is nil, within reports false.
func (rs *ruleset) within(other *ruleset) bool {
	if other == nil || rs == other {
		return other != nil
	}
	for i := range rs.rules {
		if rs.rules[i].most > other.rules[i].most {
			return false
		}
	}
	return true
}

// maxExact is the greatest count and time for which the scripts, which compute in doubles, are exact.
const maxExact = 1<<51 - 1

// validate returns all faults of limits, the limits of one key, in one error, or nil.
func validate(limits []sash.Limit) error {
	var faults []error
	for _, err := range internals.LimitFaults(limits) {
		faults = append(faults, fmt.Errorf("sashredis: %w", err))
	}
	if len(faults) == 0 {
		for i, l := range limits {
			if l != sash.Unlimited() {
				faults = append(faults, storeFaults(i+1, l)...)
			}
		}
	}
	return errors.Join(faults...)
}

// storeFaults returns what keeps a valid limit, of that number, from being exact in a store.
func storeFaults(number int, l sash.Limit) (faults []error) {
	require := func(holds bool, format string, args ...any) {
		if !holds {
			fault := fmt.Sprintf(format, args...)
			faults = append(faults, fmt.Errorf("sashredis: limit %d: %s: %w", number, fault, sash.ErrInvalidLimit))
		}
	}
	require(l.Count <= maxExact, "Count must be less than 2^51, got %d", l.Count)
	require(l.Burst <= maxExact, "Burst must be less than 2^51, got %d", l.Burst)
	require(l.Window%time.Microsecond == 0, "Window must be whole microseconds, got %v", l.Window)
	require(l.Precision%time.Microsecond == 0, "Precision must be whole microseconds, got %v", l.Precision)
	require(int64(l.Window)/microsecond <= maxExact,
		"Window must be less than 2^51 microseconds (71 years), got %v", l.Window)
	if l.Burst > 0 && l.Count > 0 {
		b := window.TokenBucket{Count: l.Count, Window: int64(l.Window), Burst: l.Burst}
		require(int64(b.ResetAfter(b.Cost(l.Burst)))/microsecond <= maxExact,
			"a bucket must fill in less than 2^51 microseconds (71 years), got %d units at %d in %v", l.Burst, l.Count, l.Window)
	}
	return faults
}

// neverAdmits reports whether rs will never admit n units.
func (rs *ruleset) neverAdmits(n int64) bool { return n < 0 || n > rs.most }

// nonsense returns the error of a server that has done what no store does.
func nonsense(format string, args ...any) error {
	return fmt.Errorf("sashredis: the server "+format+": %w", append(args, ErrServer)...)
}

// number parses a number of a reply.
func number(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, nonsense("answered %q where a number is wanted", text)
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
