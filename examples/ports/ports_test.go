// Package ports has services as they were with other limiters, before.go, and as they are with sash, after.go.
package ports

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/migrating.md says how long each service is.
func TestPorts_AreAsLongAsTheGuideSays(t *testing.T) {
	guide, err := os.ReadFile("../../docs/migrating.md")
	require.NoError(t, err)
	for _, service := range []string{"api", "login", "orders", "worker"} {
		row := fmt.Sprintf("](../examples/ports/%s) | %d | %d |", service, linesOf(t, service+"/before.go"), linesOf(t, service+"/after.go"))
		require.Contains(t, string(guide), row)
	}
}

// linesOf returns the number of lines of code in a file.
func linesOf(t *testing.T, name string) (n int) {
	code, err := os.ReadFile(name)
	require.NoError(t, err)
	for line := range strings.Lines(string(code)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}
