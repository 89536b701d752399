package tally

import "github.com/seed-30da4c49/sash/httplimit"

// A Result is what became of a request under one policy, as a label of metrics.
type Result uint8

const (
	Admitted     Result = iota // and charged
	Denied                     // by this policy
	ShadowDenied               // by a shadow, so that the request went on
	Withheld                   // by another policy, while this one would have admitted it
	Abandoned                  // by this policy, and its client has gone while it waited
	Unidentified               // the identity could not be told
	Failed                     // a function of the policy panicked
	numResults
)

// resultNames are the texts of the results.
var resultNames = [numResults]string{"admitted", "denied", "shadow_denied", "withheld", "abandoned", "unidentified", "failed"}

// String returns the label.
func (r Result) String() string { return resultNames[r] }

// resultOf returns the result that an event reports with a decision, or numResults if it reports none.
func resultOf(e *httplimit.Event) Result {
	switch e.Outcome {
	case httplimit.Admitted:
		return Admitted
	case httplimit.Denied:
		if e.Shadow {
			return ShadowDenied
		}
		return Denied
	case httplimit.Withheld:
		return Withheld
	case httplimit.Abandoned:
		return Abandoned
	}
	return numResults
}
