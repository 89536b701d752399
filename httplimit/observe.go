package httplimit

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/seed-30da4c49/sash"
)

// An Event reports the outcome of one request under one policy to [WithObserver]. It
// identifies the client only if an option asks for that.
type Event struct {
	Policy, Pattern string // of the policy
	Shadow          bool   // whether the policy is only tried out
	Outcome         Outcome
	Cost            int64 // in units; 0 if the cost was not computed
	// Decision is that policy's own decision. If Outcome is Admitted or Denied, it is the
	// answer to Cost; if Withheld, the answer that the policy would have given. For other
	// outcomes it is the zero Decision.
	Decision sash.Decision
	// Fingerprint identifies the client within this process: it is the same for the same
	// identity, under every policy. It is 0 without [WithEventFingerprints].
	Fingerprint uint64
	// Identity is the identity that the policy's KeyFunc has appended. It is empty without
	// [WithEventIdentities].
	Identity string
	// By tells who made the Decision, under [WithStore] only: "store", or another answer of the
	// store, such as "fallback".
	By string
	// Err is why the store did not make the Decision, nil if it did. If Outcome is GivenBack, it
	// is why the charge may not have been given back.
	Err error
}

// An Outcome is the result of a request under one policy.
type Outcome uint8

const (
	Admitted     Outcome = iota // and charged
	Denied                      // by this policy
	Withheld                    // this policy would have admitted it, but another one denied it; not charged
	GivenBack                   // Admitted before; Charge or ChargeUncertain has given the charge back
	Unidentified                // the identity cannot be told
	Failed                      // a function of the policy has panicked
)

// outcomeNames are the texts of the outcomes.
var outcomeNames = [...]string{"admitted", "denied", "withheld", "given back", "unidentified", "failed"}

// String returns the name of the constant in lower case, such as "given back" for
// [GivenBack]. It suits as a label of metrics. For any other value it returns
// "unknown".
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "unknown"
}

// MarshalText returns the text of [Outcome.String], so an Outcome is its name in JSON.
// It returns an error for a value that is no constant.
func (o Outcome) MarshalText() ([]byte, error) {
	if int(o) >= len(outcomeNames) {
		return nil, fmt.Errorf("httplimit: no Outcome has the number %d", o)
	}
	return []byte(o.String()), nil
}

// UnmarshalText reads a text of [Outcome.String]. For any other text, it returns an
// error and leaves o unchanged.
func (o *Outcome) UnmarshalText(text []byte) error {
	i := slices.Index(outcomeNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("httplimit: Outcome must be admitted, denied, withheld, given back, unidentified or failed, got %q", text)
	}
	*o = Outcome(i)
	return nil
}

// decided reports whether an event with this outcome has a Decision.
func (o Outcome) decided() bool {
	switch o {
	case Admitted, Denied, Withheld:
		return true
	case GivenBack, Unidentified, Failed:
		return false
	default:
		panic("httplimit: no Outcome has the number " + strconv.Itoa(int(o)))
	}
}

// eventFields tells which fields of an event identify the client.
type eventFields struct{ fingerprints, identities bool }

// observe reports the outcome of a take.
func (c *call) observe(t *take, outcome Outcome) {
	if c.observer != nil {
		c.observer(c.newEvent(t, outcome))
	}
}

// newEvent returns the event of a take. It identifies the client as far as the options
// ask.
func (c *call) newEvent(t *take, outcome Outcome) Event {
	e := Event{Policy: t.Name, Pattern: t.Pattern, Shadow: t.Shadow, Outcome: outcome, Cost: t.cost}
	if outcome.decided() {
		e.Decision = t.decision
	}
	if c.eventFields.fingerprints && t.key != "" {
		e.Fingerprint = c.fingerprint(t)
	}
	if c.eventFields.identities {
		e.Identity = t.identity
	}
	return e
}
