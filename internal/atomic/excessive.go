//go:build schedules || yields

package atomic

import (
	"fmt"
	"slices"
)

// ExcessiveRounds compares Rounds with the highest round that each loop may reach. It
// returns a message for each loop above its bound, and for each without one.
func ExcessiveRounds(most map[string]int) (faults []string) { return excessive(Rounds(), most) }

func excessive(rounds, most map[string]int) (faults []string) {
	for loop, n := range rounds {
		switch bound, known := most[loop]; {
		case !known:
			faults = append(faults, fmt.Sprintf("loop %q has no bound in maxRounds; it reached round %d", loop, n))
		case n > bound:
			faults = append(faults, fmt.Sprintf("loop %q reached round %d, more than %d", loop, n, bound))
		}
	}
	slices.Sort(faults)
	return faults
}
