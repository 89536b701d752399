package httplimit

import "github.com/seed-30da4c49/sash/httplimit/internal/bridge"

// What package policyfile must know to name the place of a fault in a file.
func init() {
	bridge.PatternFault = func(pattern string, folded bool) error {
		_, err := newRoute(pattern, folded)
		return err
	}
	bridge.QuotaNames = func(p any) []string {
		policy := p.(Policy)
		return policy.allQuotaNames()
	}
}
