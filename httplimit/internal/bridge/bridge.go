// Package bridge gives package policyfile the parts of package httplimit that httplimit does
// not export.
//
// Package httplimit imports this package and sets its variables when it is initialized. So
// the types of httplimit cannot be named here: a variable that takes one says any.
package bridge

var (
	// PatternFault returns why pattern cannot be the Pattern of a Policy, or nil. folded
	// reports whether the limiter has WithPathFolding.
	PatternFault func(pattern string, folded bool) error

	// QuotaNames returns the names of the quotas of policy, an httplimit.Policy. No other
	// policy of the limiter may have a quota with one of these names. Some may be in it
	// several times.
	QuotaNames func(policy any) []string
)
