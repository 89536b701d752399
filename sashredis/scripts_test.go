package sashredis

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Lua computes a % b by a rounded quotient, which is not exact for all doubles. Numbers are
// written as '%.0f'.
func TestScripts_UseOnlyWhatIsExact(t *testing.T) {
	files, err := sources.ReadDir("scripts")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	comments, strings := regexp.MustCompile(`(?m)--.*$`), regexp.MustCompile(`'[^'\n]*'|"[^"\n]*"`)
	for _, file := range files {
		text, err := sources.ReadFile("scripts/" + file.Name())
		require.NoError(t, err)
		code := strings.ReplaceAllString(comments.ReplaceAllString(string(text), ""), "''")
		for _, inexact := range []string{"%", "math.random", "tostring", "os.", "math.sqrt", "^"} {
			assert.NotContains(t, code, inexact, file.Name())
		}
	}
}
