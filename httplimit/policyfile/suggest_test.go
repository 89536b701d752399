package policyfile

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSuggestion_IsTheNearestName(t *testing.T) {
	names := fieldNames(policyFields(nil, nil))
	for name, want := range map[string]string{
		"limit": "limits", "LIMITS": "limits", "limtis": "limits", "patern": "pattern", "charge_uncertain": "charge-uncertain",
		"chargeUncertain": "charge-uncertain", "nmae": "name", "plna": "plan", "kez": "key", "ky": "key",
		"": "", "x": "", "rate": "", "burst": "", "duration": "", "xqueuex": "queue",
	} {
		asked := ""
		if want != "" {
			asked = `, did you mean "` + want + `"?`
		}
		require.Equal(t, asked, suggestion(name, names), name)
	}
	require.Empty(t, suggestion("limits", nil))
}

func TestDistance_CountsEdits(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"abc", "abc", 0}, {"abc", "abd", 1}, {"abc", "acb", 1},
		{"abc", "ac", 1}, {"abc", "xabc", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3},
	} {
		require.Equal(t, c.want, distance(c.a, c.b), c)
		require.Equal(t, c.want, distance(c.b, c.a), c)
	}
}
