package fleet

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/redistest"
	"github.com/seed-30da4c49/sash/internal/reference"
	"github.com/seed-30da4c49/sash/sashredis"
)

// A use is units that a call was admitted, at an instant from first to last, in microseconds.
type use struct{ units, first, last int64 }

// uses returns what was used of the key.
func (h *history) uses(key string) (uses []use) {
	for _, o := range h.operations {
		if !o.Decision.Allowed || o.Units == 0 || o.Verb == peeks || o.Verb == peeksAll || !slices.Contains(o.Keys, key) {
			continue
		}
		u := use{o.Units, o.Began, o.Ended}
		if o.Verb == takesTo {
			u.units = o.Taken
		}
		if o.By == sashredis.ByStore {
			u.first, u.last = o.Instants[0], o.Instants[len(o.Instants)-1]
		}
		uses = append(uses, u)
	}
	return uses
}

// excess returns the first use by which more was used of a key under l than the exact rule admits, at
// whatever instants the uses were; nil if there is none.
//
// Take the uses that are over by an instant. The last of them was admitted by then, on top of
// all others. What is used only declines with time, and a use that was earlier counts for less.
// So with each of these uses dated as early as it can be, they fit at that instant.
func excess(l sash.Limit, key string, uses []use) *use {
	uses = slices.Clone(uses)
	slices.SortFunc(uses, func(a, b use) int { return int(a.last - b.last) })
	var over []use // the earliest first
	for _, u := range uses {
		i, _ := slices.BinarySearchFunc(over, u, func(a, b use) int { return int(a.first - b.first) })
		over = slices.Insert(over, i, u)
		if !fits(l, key, over, u.last) {
			return &u
		}
	}
	return nil
}

// fits reports whether uses of a key, each at its first instant and in that order, are within l at an
// instant.
func fits(l sash.Limit, key string, uses []use, at int64) bool {
	window := l.Window.Microseconds()
	var used int64 // times the window
	switch l.Algorithm {
	case sash.SlidingCounter:
		index := at / window
		for _, u := range uses {
			switch u.first / window {
			case index:
				used += u.units * window
			case index - 1:
				used += u.units * (window - at%window)
			}
		}
	case sash.SlidingBuckets, sash.SlidingParts:
		precision, early := l.Precision.Microseconds(), int64(0)
		if l.Algorithm == sash.SlidingParts {
			parts := int64(16)
			for window%parts != 0 {
				parts--
			}
			precision = window / parts
			early = int64(xxhash.Sum64String(key)%64) * (precision / 64)
		}
		buckets := (window + precision - 1) / precision
		for _, u := range uses {
			if (at+early)/precision-(u.first+early)/precision < buckets {
				used += u.units * window
			}
		}
	case sash.TokenBucket:
		then := uses[0].first
		for _, u := range uses {
			used = max(used-(u.first-then)*l.Count, 0) + u.units*window
			then = u.first
		}
		return used-(at-then)*l.Count <= l.Burst*window
	default:
		panic(l.Algorithm)
	}
	return used <= l.Count*window
}

// Without leases, the answers of the reference are within the exact rule, and a unit more is not.
func TestExcess_IsThatOfTheReference(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 60 {
		for _, l := range limitsOf(random, 20)[:4] {
			const key = "shifted"
			k := reference.Named(modelOf(l)[0], key)
			at := int64(1_800_000_000_000_000) + random.Int64N(1e9)
			var uses []use
			for range 40 {
				at += random.Int64N(int64(l.Window/time.Microsecond)/l.Count + 1)
				n := 1 + random.Int64N(max(l.Count/4, 1))
				a := k.Peek(at*1000, 0)
				over := append(slices.Clone(uses), use{a.Remaining + 1, at, at})
				require.NotNil(t, excess(l, key, over), "%v: %v", l, over)
				if k.Take(at*1000, n).Allowed {
					uses = append(uses, use{n, at, at})
				}
				require.Nil(t, excess(l, key, uses), "%v: %v", l, uses)
			}
		}
	}
}

// A use at an unknown instant is no fault if it may have been within the rule.
func TestExcess_GivesTheBenefitOfTheDoubt(t *testing.T) {
	l := sash.Per(4, 10*time.Microsecond).Counter()
	for name, c := range map[string]struct {
		uses  []use
		fault bool
	}{
		"in the window before":       {[]use{{4, 105, 110}, {4, 119, 119}}, true},
		"perhaps two windows before": {[]use{{4, 99, 110}, {4, 119, 119}}, false},
		"when there was room":        {[]use{{4, 105, 105}, {2, 115, 115}}, false},
		"before there was":           {[]use{{4, 105, 105}, {2, 114, 114}}, true},
		"perhaps when there was":     {[]use{{4, 105, 105}, {2, 112, 115}}, false},
		"two that overlap":           {[]use{{2, 100, 108}, {3, 101, 109}}, true},
	} {
		require.Equal(t, c.fault, excess(l, "any", c.uses) != nil, name)
	}
}

// newLeasePlan returns the plan of that number, with windows and leases that are stretch times as
// long.
func newLeasePlan(addr string, seed uint64, stretch int64) plan {
	random := rand.New(rand.NewPCG(seed, 1))
	limits := limitsOf(random, 1000)[:4]
	for i := range limits {
		l := &limits[i]
		l.Count, l.Burst = l.Count*stretch, l.Burst*stretch
		l.Window, l.Precision = l.Window*time.Duration(stretch), l.Precision*time.Duration(stretch)
	}
	random.Shuffle(len(limits), func(i, j int) { limits[i], limits[j] = limits[j], limits[i] })
	return plan{
		Addr: addr, Prefix: fmt.Sprintf("%d/", seed), Seed: seed, Callers: 3, Calls: 600,
		Pause: time.Duration(1+random.IntN(400)) * time.Microsecond, Mirror: 64,
		Limits: limits[:1+random.IntN(2)*random.IntN(3)],
		Lease:  int64(4 + random.IntN(200)), LeaseFor: time.Duration(stretch) * time.Duration(2+random.IntN(60)) * time.Millisecond,
		Reopens: random.IntN(3) == 0,
	}
}

// withinTheRule fails the test if more was used in h than the exact rule admits.
func withinTheRule(t *testing.T, h *history) {
	for _, key := range []string{"a", "b"} {
		uses := h.uses(key)
		for _, l := range h.limits {
			if u := excess(l, key, uses); u != nil {
				t.Errorf("%v: key %q: with %+v, more is used than %v admits; %d uses in all", h.limits, key, *u, l, len(uses))
			}
		}
	}
}

// With leases, processes use no more than the exact rule admits when it is fed with what they
// use, and not with what they have leased.
func TestLeases_AdmitWhatTheExactRuleAdmits(t *testing.T) {
	checkLeases(t, goroutines(t, 4), count(8), 3000000)
}

func TestLeases_OfProgramsAdmitWhatTheExactRuleAdmits(t *testing.T) {
	checkLeases(t, programs(t, 4), count(4), 4000000)
}

// checkLeases checks n histories whose plans have the numbers from first on, and n more until they
// have used enough leases to show something.
//
// The busier the machine is, the longer calls take, and the fewer of them find a lease that has
// not ended. So the windows and leases of each further n histories are twice as long.
func checkLeases(t *testing.T, links []link, n int, first uint64) {
	addr, c := redistest.Start(t).Addr(), tally{}
	for round := 0; round < 8 && !t.Failed() && !c.usedLeases(); round++ {
		c.checkAll(t, links, n, func(seed uint64) plan {
			return newLeasePlan(addr, first+uint64(round*n)+seed, 1<<round)
		}, withinTheRule)
		t.Log(&c)
	}
	require.True(t, t.Failed() || c.usedLeases(), "next to nothing was leased or returned: this test has shown little")
}

// usedLeases reports whether more than a tenth of all that was admitted was from leases, and units
// were returned.
func (c *tally) usedLeases() bool { return c.lease > int64(c.allowed/10) && c.returned > 0 }
