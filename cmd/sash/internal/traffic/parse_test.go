package traffic

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseDateTime(t *testing.T) {
	tests := []struct{ s, want string }{
		{"2023-11-16 18:15:46.6805900", "2023-11-16T18:15:46.68059Z"},
		{"2023-11-16 18:15:46", "2023-11-16T18:15:46Z"},
		{"2023-11-16 18:15:46,25", "2023-11-16T18:15:46.25Z"},
		{"2023-11-16T18:15:46.123456789", "2023-11-16T18:15:46.123456789Z"},
		{"2023-11-16T18:15:46Z", "2023-11-16T18:15:46Z"},
		{"2023-11-16T18:15:46.5+05:30", "2023-11-16T12:45:46.5Z"},
		{"2023-11-16 18:15:46.5-08:00", "2023-11-17T02:15:46.5Z"},
		{"1677-09-21T00:12:43.145224192Z", "1677-09-21T00:12:43.145224192Z"},
	}
	for _, tt := range tests {
		got, err := parseDateTime(tt.s)
		require.NoError(t, err)
		assert.Equal(t, at(t, tt.want), got, tt.s)
	}
	for _, s := range []string{"", "1700158546", "2023-11-16", "16.11.2023 18:15:46", "2023-11-16 18:15:46 CET", "1677-09-21T00:12:43Z"} {
		_, err := parseDateTime(s)
		assert.Error(t, err, s)
	}
}

func TestParseSum(t *testing.T) {
	value := func(column string) string { return map[string]string{"in": "7", "out": "30"}[column] }
	tests := []struct {
		s, text string
		want    int64
	}{
		{"in", "in", 7},
		{"in+out", "in+out", 37},
		{" in + out ", "in+out", 37},
		{"in+500", "in+500", 507},
		{"1+2", "1+2", 3},
		{"out+out", "out+out", 60},
		{"9223372036854775807", "9223372036854775807", 9223372036854775807},
	}
	for _, tt := range tests {
		s, err := ParseSum(tt.s)
		require.NoError(t, err)
		got, err := s.of(value)
		require.NoError(t, err)
		assert.Equal(t, tt.want, got)
		assert.Equal(t, tt.text, s.String())
	}
}
