package frameworks_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// adapterOf are the adapters of the frameworks.
var adapterOf = map[string]string{"gin": "ginlimit", "echo": "echolimit", "echo4": "echo4limit", "fiber": "fiberlimit"}

// program returns the program of a service in hello.
func program(t *testing.T, service string) string { return readFile(t, "hello/"+service+"/main.go") }

// The program in the document of an adapter is one that has a test.
func TestReadmes_HaveProgramsThatAreTested(t *testing.T) {
	for framework, adapter := range adapterOf {
		require.Contains(t, readFile(t, "../"+adapter+"/README.md"), "```go\n"+program(t, framework)+"```\n")
	}
}

// codeLines returns how many lines of a program are neither empty nor a comment.
func codeLines(program string) (n int) {
	for line := range strings.Lines(program) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}

// The document says how many lines the same service has with sash, and with the limiter that the users of the
// framework know.
func TestDocument_CountsTheLinesOfTheSameService(t *testing.T) {
	document := readDocument(t)
	for framework, with := range map[string]string{
		"gin": "ulule/limiter", "echo": "echo's RateLimiter", "echo4": "echo's RateLimiter", "fiber": "fiber's limiter",
	} {
		require.Contains(t, document, fmt.Sprintf("| %s | %d | %d, with %s |\n",
			framework, codeLines(program(t, framework)), codeLines(program(t, "peers/"+framework)), with))
	}
}

var featureRow = regexp.MustCompile(`(?m)^\| .* \|$`)

// Each row of the features names the test that shows what sash has.
func TestDocument_NamesATestOfEachFeature(t *testing.T) {
	_, section, found := strings.Cut(readDocument(t), "\n## Features\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	rows := featureRow.FindAllString(section, -1)
	require.Greater(t, len(rows), 15)
	for _, row := range rows[1:] {
		require.Regexp(t, "\\| `Test[A-Z]\\w+` \\|$", row)
		require.Equal(t, 7, strings.Count(row, "|"), row)
	}
}
