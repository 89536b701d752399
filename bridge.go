package sash

import (
	"time"

	"github.com/seed-30da4c49/sash/internal/bridge"
)

// internals are what packages httplimit and sashredis may use.
var internals = bridge.Internals[Limiter, Option, Limit, Clock, Decision, Reservation]{
	Inspect:           inspect,
	LimitFaults:       func(limits []Limit) []error { return limitFaults("", limits) },
	LimitsKey:         cacheKey,
	RefuseReconfigure: func(err error) Option { return optionFunc(func(c *config) { c.noReconfigure = err }) },
	Reconfigure: func(l *Limiter, to bridge.Setup[Limit], switchOver func(publish func() bool)) {
		s := &setup{limitsFor: to.LimitsFor, interval: to.SweepInterval, noReconfigure: to.NoReconfigure}
		l.replace(to.Limits, s, switchOver)
	},
	KeysWithLimits: func(l *Limiter, yield func(key string) bool) {
		l.current.Load().byKey.rangeAll(func(key string, _ *override) bool { return yield(key) })
	},
	SweepInterval:  sweepIntervalFor,
	Seed:           (*Limiter).seed,
	Follow:         (*Limiter).follow,
	TakeAllOn:      (*Limiter).takeAllOn,
	ReserveAllOn:   (*Limiter).reserveAllOn,
	PeekAllOn:      (*Limiter).peekAllOn,
	TakeHolding:    (*Limiter).takeHolding,
	TakeAllHolding: (*Limiter).takeAllHolding,
	CommitNear:     Reservation.commit,
	PeekLeaving:    (*Limiter).peekLeaving,
	NextLeaving:    (*Limiter).nextLeaving,
	Held:           func(r Reservation) bool { return r.of != nil && r.of.held },
	WaitHolding:    (*Limiter).waitHolding,
	SureWait:       (*Limiter).sureWait,
	LeastWait:      (*Limiter).leastWaitFor,
	PeekUncharged:  (*Limiter).peekUncharged,
	LimitsFault:    func(l *Limiter, key string) error { return l.rulesetOf(key).fault },
	After:          after,
}

func init() { bridge.Export(&internals) }

// inspect applies options to an empty config and returns the part of it that httplimit must know.
func inspect(options []Option) bridge.Inspection[Limit] {
	var c config
	for _, o := range options {
		o.apply(&c)
	}
	return bridge.Inspection[Limit]{
		LimitsFor: c.limitsFor, Limits: len(c.limits) > 0, SweepInterval: c.interval, ChargeDenied: c.chargeDenied,
	}
}

// sureWait returns how long a call for n units of key, which must leave more units, has to wait at least,
// whatever units that are held are given back.
func (l *Limiter) sureWait(key string, n, leave int64) time.Duration {
	d, _ := l.look(key, query{n: n, leave: leave, certain: true})
	return d.RetryAfter
}

// peekUncharged returns the decision that Peek would return if denied calls were charged nothing.
func (l *Limiter) peekUncharged(key string, n int64) Decision {
	d, _ := l.look(key, query{n: n})
	return d
}
