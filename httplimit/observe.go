package httplimit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
)

// An Event reports the outcome of one request under one policy to [WithObserver]. It
// identifies the client only if an option asks for that.
type Event struct {
	Policy, Pattern string // of the policy
	Shadow          bool   // whether the policy is only tried out
	Outcome         Outcome
	QueueFull       bool  // whether it was Denied since there was no room for it in the policy's [Queue]
	Cost            int64 // in units; 0 if the cost was not computed
	// Decision is that policy's own decision. If Outcome is Admitted, Denied or Abandoned, it is the
	// answer to Cost; if Withheld, the answer that the policy would have given. For other
	// outcomes it is the zero Decision.
	Decision sash.Decision
	// Fingerprint identifies the client within this process: it is the same for the same
	// identity, under every policy. It is 0 unless [WithEventFingerprints] asks for it.
	Fingerprint uint64
	// Identity is the identity that the policy's KeyFunc has appended. It is empty unless
	// [WithEventIdentities] asks for it.
	Identity string
	// By tells who made the Decision, under [WithStore] only: "store", or another answer of the
	// store, such as "fallback".
	By string
	// Waited is how long the request has waited in queues. A request that was Denied and has
	// waited has waited in vain.
	Waited time.Duration
	// Err is why the store did not make the Decision, nil if it did. If Outcome is GivenBack or
	// Settled, it is why the charge may not have been changed. If it is Denied, it may also be
	// [http.ErrServerClosed]: the request would have waited in the policy's [Queue], but for Close.
	Err error
}

// An Outcome is the result of a request under one policy.
type Outcome uint8

const (
	Admitted     Outcome = iota // and charged
	Denied                      // by this policy
	Withheld                    // this policy would have admitted it, but another one denied it; not charged
	GivenBack                   // Admitted before; after the response, the whole Cost was given back
	Unidentified                // the identity cannot be told
	Failed                      // a function of the policy has panicked
	Settled                     // Admitted before; after the response, the charge was changed to Cost
	Abandoned                   // denied by this policy, and then the request's context ended while it waited
	Unseen                      // Admitted before; the charge stays, as the handler has shown no response, see [Policy].Charge
)

// outcomeNames are the texts of the outcomes.
var outcomeNames = [...]string{"admitted", "denied", "withheld", "given back", "unidentified", "failed", "settled", "abandoned", "unseen"}

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
		return fmt.Errorf("httplimit: Outcome must be admitted, denied, withheld, given back, unidentified, failed, settled, abandoned or unseen, got %q", text)
	}
	*o = Outcome(i)
	return nil
}

// decided reports whether an event with this outcome has a Decision.
func (o Outcome) decided() bool {
	switch o {
	case Admitted, Denied, Withheld, Abandoned:
		return true
	case GivenBack, Unidentified, Failed, Settled, Unseen:
		return false
	default:
		panic("httplimit: no Outcome has the number " + strconv.Itoa(int(o)))
	}
}

// An outcomeSet is a set of outcomes: the bit 1<<o is set if it contains o.
type outcomeSet uint16

const (
	allOutcomes     outcomeSet = 1<<len(outcomeNames) - 1
	pendingOutcomes outcomeSet = 1<<GivenBack | 1<<Settled | 1<<Failed | 1<<Unseen // of a Charge
)

func (s outcomeSet) has(o Outcome) bool { return s>>o&1 != 0 }

// eventFields tells which events have the fields that identify the client.
type eventFields struct{ fingerprints, identities outcomeSet }

// observed reports whether there is an observer.
func (c *config) observed() bool { return len(c.observers) > 0 }

// emit reports e to all observers.
func (c *config) emit(e *Event) {
	for _, observe := range c.observers {
		observe(*e)
	}
}

// observe reports the outcome of a take.
func (c *call) observe(t *take, outcome Outcome) {
	if !c.observed() {
		return
	}
	var e Event
	c.describe(&e, t, outcome)
	c.emit(&e)
}

// describe sets e, which is the zero Event, to that of a take. It identifies the client as far as
// the options ask.
func (c *call) describe(e *Event, t *take, outcome Outcome) {
	e.Policy, e.Pattern, e.Shadow, e.Outcome = t.Name, t.Pattern, t.Shadow, outcome
	e.Cost, e.Waited, e.QueueFull = t.cost, c.waited, c.full == t.policy
	if outcome == Denied {
		e.Err = c.err
	}
	if outcome.decided() {
		e.Decision = t.decision
	}
	c.identify(e, t, 1<<outcome)
}

// newPendingEvent returns the event of a take whose charge may change. Its outcome may
// become another of pendingOutcomes: then eventFields.restrict drops what was not asked for.
func (c *call) newPendingEvent(t *take) Event {
	e := Event{Policy: t.Name, Pattern: t.Pattern, Shadow: t.Shadow, Cost: t.cost, Waited: c.waited}
	c.identify(&e, t, pendingOutcomes)
	return e
}

// identify sets the fields of e that tell the client of t, if events of one of those outcomes
// have them.
func (c *call) identify(e *Event, t *take, outcomes outcomeSet) {
	if t.key == "" {
		return // the identity is not known
	}
	if c.eventFields.fingerprints&outcomes != 0 {
		e.Fingerprint = c.fingerprint(t)
	}
	if c.eventFields.identities&outcomes != 0 {
		e.Identity = t.copyIdentity()
	}
}

// copyIdentity returns the identity of t. It is a copy, since the memory of keys is reused.
func (t *take) copyIdentity() string {
	if t.longIdentity != "" {
		return t.longIdentity
	}
	return strings.Clone(t.key[t.body-t.begin:])
}

// restrict clears the fields that events with the outcome of e do not have.
func (f eventFields) restrict(e *Event) {
	if !f.fingerprints.has(e.Outcome) {
		e.Fingerprint = 0
	}
	if !f.identities.has(e.Outcome) {
		e.Identity = ""
	}
}
