package httplimit_test

import (
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/tally"
)

// A modelTally counts the events of a model as the modules with metrics do.
type modelTally struct {
	tally.Tally
	charged map[string]int64 // units that package reference was charged, by policy
	waited  map[string]int64 // events that tell of a wait, by policy
}

// bill notes that a request was charged some units more under its policy, by the model.
func (m *model) bill(t *modelTake, units int64) { m.tally.charged[t.Name] += units }

// countWait notes an event that tells of a wait.
func (n *modelTally) countWait(e *httplimit.Event) {
	if e.Waited > 0 && httplimit.Decided(e.Outcome) {
		n.waited[e.Policy]++
	}
}

// checkTally compares what was counted with what package reference was charged, for the policies in force.
func (m *model) checkTally() {
	f := m.tally.Read()
	counted, waited := map[string]int64{}, map[string]int64{}
	for _, c := range f.Decisions {
		if c.Units != nil && c.Result == tally.Admitted {
			counted[c.Policy] += c.Sum
		}
	}
	for _, o := range f.Others {
		switch o.Name {
		case "refunded_units":
			counted[o.Policy] -= o.N
		case "surcharged_units":
			counted[o.Policy] += o.N
		}
	}
	for name, units := range counted {
		if want := m.tally.charged[name]; units != want {
			m.failf("%s was charged %d units, and its metrics have %d", name, want, units)
		}
	}
	for _, w := range f.Waits {
		for _, n := range w.Buckets {
			waited[w.Policy] += n
		}
	}
	if m.reconfigured > 0 {
		return // a Queue counts from the Read after it was given
	}
	for name, n := range waited {
		if want := m.tally.waited[name]; n != want {
			m.failf("%d requests have waited under %s, and its metrics have %d", want, name, n)
		}
	}
}
