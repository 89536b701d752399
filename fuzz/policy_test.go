package fuzz

import (
	"math"
	"testing"

	"github.com/seed-30da4c49/sash"
)

const (
	policySteps = 100 // fewer than of a sequence, since each step asks several limits
	maxLimits   = 4
)

// maxUnits bounds Count, and the actual cost of a reservation, where that may exceed the
// estimate. So the units spent by all calls of a program fit an int64. Beyond that sash
// saturates, and the reference does not.
const maxUnits = math.MaxInt64 / (2 * policySteps)

// FuzzPolicy runs a program of calls, some of them for several keys, on a limiter of
// several limits and on the reference. It compares every answer.
func FuzzPolicy(f *testing.F) {
	for _, s := range policySeeds {
		f.Add(s.program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		tape := &tape{program}
		p := tape.policy()
		newMachine(t, p, tape.start(p.limits[0])).run(tape, policySteps, policyInstructions)
	})
}

// The flags in the first byte of a policy.
const (
	furtherLimits = 1 // multiplied by the number of limits beyond one
	deniedCharged = 4
	settling      = 8  // reservations are settled to higher costs
	ownLimits     = 16 // the last key has limits of its own, whose number a further byte gives
	givingBack    = 32 // reservations are settled to lower costs, too, and no denied call is charged
)

// policy reads the configuration of a limiter.
func (t *tape) policy() policy {
	flags := t.byte()
	p := policy{givesBack: flags&givingBack != 0}
	p.settles = flags&settling != 0 || p.givesBack
	p.chargeDenied = flags&deniedCharged != 0 && !p.givesBack
	p.limits = t.limits(flags, p.settles)
	if flags&ownLimits != 0 {
		p.own = t.limits(t.byte(), p.settles)
	}
	return p
}

// limits reads as many limits as flags give.
func (t *tape) limits(flags byte, settles bool) (limits []sash.Limit) {
	for range 1 + flags/furtherLimits%maxLimits {
		l, _ := t.limit()
		if settles && l != sash.Unlimited() {
			l.Count = min(l.Count, maxUnits)
		}
		limits = append(limits, l)
	}
	return limits
}

// more reads the keys of a call for several keys. The first is name. A key may
// occur twice.
func (t *tape) more(name string) []string {
	keys, others := []string{name}, t.byte()
	for range others % 4 {
		others /= 4
		keys = append(keys, names[others%4%byte(len(names))])
	}
	return keys
}
