package suggest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A policy is for the requests that all conditions together name. One that another implies adds nothing.
func TestScope_IsOfAllConditions(t *testing.T) {
	for _, tt := range []struct {
		where            []string
		pattern          string
		statuses, unsaid []string
		remarks          int
	}{
		{[]string{"path=/a"}, "/a", nil, nil, 0},
		{[]string{"path=/a", "path=/a"}, "/a", nil, nil, 0},
		{[]string{"path=/a", "path!=/b", "method=POST"}, "POST /a", nil, nil, 0},
		{[]string{"path=/api/*", "path=/api/v1/*"}, "/api/v1/", nil, nil, 0},
		{[]string{"status=4xx,5xx", "status=4xx"}, "", []string{"4xx"}, nil, 0},
		{[]string{"status=401", "status=4xx", "status=401,200"}, "", []string{"401"}, nil, 0},
		{[]string{"method=POST", "method=POST,PUT", "host=a", "host=a,b"}, "POST a/", nil, nil, 0},
		{[]string{"path=/a", "path=/b"}, "/a", nil, []string{"path=/b"}, 1},
		{[]string{"path=/a?b"}, "", nil, []string{"path=/a?b"}, 1},
		{[]string{"method=-"}, "", nil, []string{"method=-"}, 1},
		{[]string{"path=/a/*", "path!=/a/b"}, "/a/", nil, nil, 1},
	} {
		var args []string
		for _, w := range tt.where {
			args = append(args, "-where", w)
		}
		o, err := parseArgs(args)
		require.NoError(t, err)
		got := scopeOf(&o.Selection)
		assert.Equal(t, tt.pattern, got.pattern, tt.where)
		assert.Equal(t, tt.statuses, got.statuses, tt.where)
		assert.Equal(t, tt.unsaid, got.unsaid, tt.where)
		assert.Len(t, got.remarks, tt.remarks, tt.where)
	}
}
