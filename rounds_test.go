//go:build yields || schedules

package sash

import (
	"fmt"
	"os"
	"testing"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// TestMain fails if a loop took more rounds in any test than maxRounds allows, or if
// maxRounds does not list it. No call may start over without bound, for any calls of others.
func TestMain(m *testing.M) {
	code := m.Run()
	if testing.Verbose() {
		fmt.Println("highest rounds:", atomic.Rounds())
	}
	for _, fault := range atomic.ExcessiveRounds(maxRounds) {
		fmt.Println("FAIL:", fault)
		code = max(code, 1)
	}
	os.Exit(code)
}
