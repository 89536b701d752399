//go:build yields || schedules

package sash

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// TestMain fails if a loop needed more rounds in any test than mostRounds allows, or is
// not in it: no call may start over without bound, whatever other calls do.
func TestMain(m *testing.M) {
	code := m.Run()
	rounds := atomic.Rounds()
	if testing.Verbose() {
		fmt.Println("highest rounds:", rounds)
	}
	for _, fault := range excessive(rounds, mostRounds) {
		fmt.Println("FAIL:", fault)
		code = max(code, 1)
	}
	os.Exit(code)
}

// excessive returns what is wrong with rounds: loops above their bound, and loops
// without one.
func excessive(rounds, most map[string]int) (faults []string) {
	for loop, n := range rounds {
		switch bound, known := most[loop]; {
		case !known:
			faults = append(faults, fmt.Sprintf("loop %q has no bound in mostRounds; it reached round %d", loop, n))
		case n > bound:
			faults = append(faults, fmt.Sprintf("loop %q reached round %d, more than %d", loop, n, bound))
		}
	}
	slices.Sort(faults)
	return faults
}

func TestRounds_AboveTheirBoundAreReported(t *testing.T) {
	most := map[string]int{"a": 4, "b": 0, "unused": 1}
	require.Empty(t, excessive(nil, most))
	require.Empty(t, excessive(map[string]int{"a": 4, "b": 0}, most))
	require.Equal(t, []string{
		`loop "a" reached round 5, more than 4`,
		`loop "c" has no bound in mostRounds; it reached round 0`,
	}, excessive(map[string]int{"a": 5, "b": 0, "c": 0}, most))
}
