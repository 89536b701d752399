//go:build yields || schedules

package hashmap

import (
	"fmt"
	"os"
	"testing"

	"github.com/seed-30da4c49/sash/internal/atomic"
)

// TestMain fails if a loop needed more rounds in any test than maxRounds allows.
func TestMain(m *testing.M) {
	code := m.Run()
	for _, fault := range atomic.ExcessiveRounds(maxRounds) {
		fmt.Println("FAIL:", fault)
		code = max(code, 1)
	}
	os.Exit(code)
}
