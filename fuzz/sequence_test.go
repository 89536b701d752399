package fuzz

import (
	"math"
	"testing"

	"github.com/seed-30da4c49/sash"
)

// sequenceSteps bounds a program, because the reference is slow. A fault that needs more
// steps can be reached from a later start with fewer.
const sequenceSteps = 300

// FuzzSequence runs a program of calls on a limiter of one limit and on the reference. It
// compares every answer.
func FuzzSequence(f *testing.F) {
	for _, s := range sequenceSeeds {
		f.Add(s.program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		tape := &tape{program}
		l, chargeDenied := tape.limit()
		p := policy{limits: []sash.Limit{l}, chargeDenied: chargeDenied}
		newMachine(t, p, tape.start(l)).run(tape, sequenceSteps, sequenceInstructions)
	})
}

// start reads the first reading of a program's clock.
func (t *tape) start(l sash.Limit) int64 {
	w := int64(l.Window)
	return t.pick(0, -1, 1, w, w-1, -w, -w-1, math.MinInt64, math.MaxInt64, plus(math.MaxInt64, -w), plus(math.MinInt64, w))
}
