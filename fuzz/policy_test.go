package fuzz

import (
	"math"
	"testing"

	"github.com/seed-30da4c49/sash"
)

const (
	policySteps = 100 // fewer than of a sequence: each asks several limits
	mostLimits  = 4
)

// mostUnits bounds a limit and what a reservation is settled to, where that may be
// more than was reserved: so what all of a program's calls have spent stays an
// int64, at whose end sash saturates, and the reference does not.
const mostUnits = math.MaxInt64 / (2 * policySteps)

// FuzzPolicy runs a program of calls, of several keys at once too, on a limiter of
// several limits and on the reference, and compares every answer.
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

// What the first byte of a policy says.
const (
	furtherLimits = 1 // times how many there are beyond one
	deniedCharged = 4
	settling      = 8  // of reservations, to more than theirs
	ownLimits     = 16 // the last key has limits of its own, as many as a byte more says
	givingBack    = 32 // settling to less, too; and no denied call is charged
)

// policy reads what a limiter is made of.
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

// limits reads as many limits as flags say.
func (t *tape) limits(flags byte, settles bool) (limits []sash.Limit) {
	for range 1 + flags/furtherLimits%mostLimits {
		l, _ := t.limit()
		if settles {
			l.Count = min(l.Count, mostUnits)
		}
		limits = append(limits, l)
	}
	return limits
}

// more reads what other keys a call is for besides name, be they others or not.
func (t *tape) more(name string) []string {
	keys, others := []string{name}, t.byte()
	for range others % 4 {
		others /= 4
		keys = append(keys, names[others%4%byte(len(names))])
	}
	return keys
}
