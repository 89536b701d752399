package httplimit

import "github.com/seed-30da4c49/sash"

// An Event is what one policy makes of one request: what [WithObserver] is given.
// It says nothing of who has made the request, unless an option says so.
type Event struct {
	Policy, Pattern string // of the policy
	Shadow          bool   // whether the policy is only tried out
	Outcome         Outcome
	Cost            int64 // in units; 0 if it was not asked
	// Decision is the policy's own: if Outcome is Admitted or Denied, the answer to
	// Cost; if it is Withheld, what the answer would have been. It is the zero one
	// for other outcomes.
	Decision sash.Decision
	// Fingerprint stands for the identity, in this process: the same for the same
	// identity, whatever the policy. 0 without [WithEventFingerprints].
	Fingerprint uint64
	// Identity is what the policy's KeyFunc has appended. Empty without
	// [WithEventIdentities].
	Identity string
}

// An Outcome is what became of a request under one policy.
type Outcome uint8

const (
	Admitted     Outcome = iota // and charged
	Denied                      // by this policy
	Withheld                    // this policy would have admitted it, but another denied it; not charged
	GivenBack                   // it was Admitted, and Charge then wanted the cost given back
	Unidentified                // who is calling cannot be told
	Failed                      // a function of the policy has panicked
)

// String returns the name of the constant in lower case, for labels of metrics.
func (o Outcome) String() string {
	names := [...]string{"admitted", "denied", "withheld", "given back", "unidentified", "failed"}
	if int(o) < len(names) {
		return names[o]
	}
	return "unknown"
}

// naming is what events say of who is calling.
type naming struct{ fingerprints, identities bool }

// observe reports what became of a take.
func (c *call) observe(t *take, outcome Outcome) {
	if c.observer != nil {
		c.observer(c.named(t, outcome))
	}
}

// named returns an event that says as much of who is calling as it is to.
func (c *call) named(t *take, outcome Outcome) Event {
	e := Event{Policy: t.Name, Pattern: t.Pattern, Shadow: t.Shadow, Outcome: outcome, Cost: t.cost}
	if outcome <= Withheld {
		e.Decision = t.decision
	}
	if c.naming.fingerprints && t.key != "" {
		e.Fingerprint = c.fingerprint(t)
	}
	if c.naming.identities {
		e.Identity = t.identity
	}
	return e
}
