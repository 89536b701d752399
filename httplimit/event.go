package httplimit

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
)

// An Event reports the outcome of one request under one policy to [WithObserver]. It identifies the
// client only if an option asks for that.
type Event struct {
	Policy, Pattern string // of the policy
	Shadow          bool   // whether the policy is only tried out
	Outcome         Outcome
	QueueFull       bool  // whether it was Denied since there was no room for it in the policy's [Queue]
	Cost            int64 // in units; 0 if the cost was not computed
	Leave           int64 // units that must remain after it, by the policy's Leave; 0 if none
	// Estimate is the units that were charged when the request was Admitted, if Outcome is GivenBack,
	// Settled or Unseen, and 0 otherwise. So a settlement has changed the charge by Cost-Estimate units.
	Estimate int64
	// Near is the limits of which less remains than the policy's Near, from this request on: of each, that
	// share was there before the charge, and is not after it. It is nil for most requests, and if Outcome is
	// neither Admitted nor Settled.
	Near []sash.Limit
	// Decision is that policy's own decision. If Outcome is Admitted, Denied or Abandoned, it is the
	// answer to Cost; if Withheld, the answer that the policy would have given. For other outcomes it is
	// the zero Decision.
	Decision sash.Decision
	// Fingerprint identifies the client within this process: it is the same for the same identity, under
	// every policy. It is 0 unless [WithEventFingerprints] asks for it.
	Fingerprint uint64
	// Identity is the identity that the policy's KeyFunc has appended. It is empty unless
	// [WithEventIdentities] asks for it.
	Identity string
	// By tells who made the Decision, under [WithStore] only: "store", or another answer of the store,
	// such as "fallback".
	By string
	// Waited is how long the request has waited in queues. A request that was Denied and has waited has
	// waited in vain.
	Waited time.Duration
	// Err is why the store did not make the Decision, nil if it did. If Outcome is GivenBack or Settled,
	// it is why the charge may not have been changed. If it is Denied, it may also be
	// [http.ErrServerClosed]: the request would have waited in the policy's [Queue], but for Close.
	Err error
}

// A Denial says why a request is answered 429 or 503.
type Denial struct {
	// Violated is the names of the quotas that denied the request, at least one. For each policy that
	// denied it, it names the quota that takes longest to admit it. It is empty if the store of
	// [WithStore] denied the request without knowing of a quota that does.
	Violated []string
	// RetryAfter is the time to wait, exact to the nanosecond. It is [sash.Never] if no wait would do,
	// because the request costs more than a limit ever admits. If others hold the units that it needs, by
	// [sash.AtOnce], these may be given back at any time. Then it is a second, but no more than is left of
	// their leases, and no less than the other limits deny it for. With [WithStore], this is known of the
	// limits of other policies alone.
	RetryAfter time.Duration
	// By tells who denied the request, under [WithStore] only: see [Event].By.
	By string
	// Err is nil if the request is answered 429. Otherwise it is answered 503, and Err is the reason:
	//   - [http.ErrServerClosed] if the request would have waited in a [Queue] but for [Limiter.Close].
	//   - Why the store of [WithStore] did not decide, if Violated is empty.
	Err error
}

// ServeHTTP writes the answer of a denial: status 429 and problem details of the type quota-exceeded, as
// in the current draft of the RateLimit fields, which name the quotas. If there is an Err, the status is
// 503 and the type temporary-reduced-capacity, and the details do not tell Err. It sets Content-Type and
// Cache-Control; the other headers must have been set before. The answer contains nothing of the request
// and nothing about the client.
func (d Denial) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if d.Err != nil {
		fields.Answer(w, http.StatusServiceUnavailable)
		return
	}
	fields.Answer(w, http.StatusTooManyRequests, d.Violated...)
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

// String returns the name of the constant in lower case, such as "given back" for [GivenBack]. It suits
// as a label of metrics. For any other value it returns "unknown".
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return "unknown"
}

// MarshalText returns the text of [Outcome.String], so an Outcome is its name in JSON. It returns an
// error for a value that is no constant.
func (o Outcome) MarshalText() ([]byte, error) {
	if int(o) >= len(outcomeNames) {
		return nil, fmt.Errorf("httplimit: no Outcome has the number %d", o)
	}
	return []byte(o.String()), nil
}

// UnmarshalText reads a text of [Outcome.String]. For any other text, it returns an error and leaves o
// unchanged.
func (o *Outcome) UnmarshalText(text []byte) error {
	i := slices.Index(outcomeNames[:], string(text))
	if i < 0 {
		return fmt.Errorf("httplimit: Outcome must be admitted, denied, withheld, given back, unidentified, failed, settled, abandoned or unseen, got %q", text)
	}
	*o = Outcome(i)
	return nil
}

// An outcomeSet is a set of outcomes: the bit 1<<o is set if it contains o.
type outcomeSet uint16

const (
	allOutcomes     outcomeSet = 1<<len(outcomeNames) - 1
	pendingOutcomes outcomeSet = 1<<GivenBack | 1<<Settled | 1<<Failed | 1<<Unseen    // of a Charge
	decidedOutcomes outcomeSet = 1<<Admitted | 1<<Denied | 1<<Withheld | 1<<Abandoned // of events with a Decision
)

func (s outcomeSet) has(o Outcome) bool { return s>>o&1 != 0 }
