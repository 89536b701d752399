package sash

import (
	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

func init() {
	bridge.Inspect = func(options any) bridge.Inspection { return inspect(options.([]Option)) }
	bridge.LimitFaults = func(limits any) []error { return limitFaults("", limits.([]Limit)) }
	bridge.RefuseReconfigure = func(err error) any {
		return optionFunc(func(c *config) { c.noReconfigure = err })
	}
	bridge.Reconfigure = func(limiter any, to bridge.Setup, switchOver func(publish func() bool)) {
		limitsFor, _ := to.LimitsFor.(func(string) []Limit)
		s := &setup{limitsFor: limitsFor, interval: to.SweepInterval, noReconfigure: to.NoReconfigure}
		limiter.(*Limiter).replace(to.Limits.([]Limit), s, switchOver)
	}
	bridge.KeysWithLimits = func(limiter any, yield func(key string) bool) {
		limiter.(*Limiter).current.Load().byKey.rangeAll(func(key string, _ *override) bool { return yield(key) })
	}
	bridge.SweepInterval = sweepIntervalFor
	bridge.Seed = func(limiter any, key string, past func() [][]bridge.Charge) { limiter.(*Limiter).seed(key, past) }
	bridge.After = func(clock any, at int64) (<-chan struct{}, func()) { return after(clock.(Clock), at) }
}

// inspect applies options to an empty config and returns the part of it that httplimit
// must know.
func inspect(options []Option) (result bridge.Inspection) {
	var c config
	for _, o := range options {
		o.apply(&c)
	}
	result.Limits, result.ChargeDenied = len(c.limits) > 0, c.chargeDenied
	result.SweepInterval = c.sweepInterval
	if c.limitsFor != nil {
		result.LimitsFor = c.limitsFor
	}
	return result
}

// seed makes an entry for the key of that name with charges of the past, unless it has an
// entry.
func (l *Limiter) seed(name string, past func() [][]bridge.Charge) {
	k := l.key(name)
	for round := 1; ; round++ {
		atomic.Round("seed", round)
		g, e := l.lookup(k)
		if e != nil {
			return
		}
		r := g.resolve(name)
		charges := past()
		if r.ruleset.neverCharges || len(charges) != len(r.ruleset.rules) {
			return // nothing is charged under these limits, or they are not those of past
		}
		made := newMultiEntry(r.ruleset, name)
		for i, of := range charges {
			rule, history := &r.ruleset.rules[i], make([]charge, len(of))
			for j, c := range of {
				history[j] = charge{at: c.At, units: c.Units}
			}
			rule.replay(&made.states[i], history)
		}
		// Another call may have been first, or the limits may have changed: look again.
		if l.insertEntry(r, k, &made.entry, nil, false) == nil && g.cap != nil {
			return // there is no room
		}
	}
}
