package httplimit

import (
	"fmt"
	"slices"

	"github.com/seed-30da4c49/sash"
)

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

var outcomeNames = [...]string{"admitted", "denied", "withheld", "given back", "unidentified", "failed"}

// String returns the name of the constant in lower case, such as "given back" for
// [GivenBack], for labels of metrics. It returns "unknown" for any other value.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "unknown"
}

// MarshalText returns what [Outcome.String] returns, so an Outcome is its name in
// JSON. It returns an error for a value that is no constant.
func (o Outcome) MarshalText() ([]byte, error) {
	if int(o) >= len(outcomeNames) {
		return nil, fmt.Errorf("httplimit: no Outcome has the number %d", o)
	}
	return []byte(o.String()), nil
}

// UnmarshalText reads the name of a constant, as [Outcome.String] returns it. It
// returns an error for any other text, and leaves o unchanged.
func (o *Outcome) UnmarshalText(text []byte) error {
	i := slices.Index(outcomeNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("httplimit: Outcome must be admitted, denied, withheld, given back, unidentified or failed, got %q", text)
	}
	*o = Outcome(i)
	return nil
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
