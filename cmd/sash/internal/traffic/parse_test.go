package traffic

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTimeReader_ReadsEveryLayout(t *testing.T) {
	tests := []struct{ s, want string }{
		{"2023-11-16 18:15:46.6805900", "2023-11-16T18:15:46.68059Z"},
		{"2023-11-16 18:15:46", "2023-11-16T18:15:46Z"},
		{"2023-11-16 18:15:46,25", "2023-11-16T18:15:46.25Z"},
		{"2023-11-16T18:15:46.123456789", "2023-11-16T18:15:46.123456789Z"},
		{"2023-11-16T18:15:46Z", "2023-11-16T18:15:46Z"},
		{"2023-11-16T18:15:46.5+05:30", "2023-11-16T12:45:46.5Z"},
		{"2023-11-16 18:15:46.5-08:00", "2023-11-17T02:15:46.5Z"},
		{"1677-09-21T00:12:43.145224192Z", "1677-09-21T00:12:43.145224192Z"},
		{"17/May/2015:10:05:03 +0200", "2015-05-17T08:05:03Z"},
		{"17/May/2015:10:05:03.655", "2015-05-17T10:05:03.655Z"},
		{"2015/05/17 10:05:03", "2015-05-17T10:05:03Z"},
		{"2015-05-17T10:05:03+0200", "2015-05-17T08:05:03Z"},
		{"29/Aug/2023 22:02:58", "2023-08-29T22:02:58Z"},
		{"Tue Jan  3 05:01:31 2012", "2012-01-03T05:01:31Z"},
		{"1700158546", "2023-11-16T18:15:46Z"},
		{"1700158546.680590", "2023-11-16T18:15:46.68059Z"},
		{"1700158546.6805901239", "2023-11-16T18:15:46.680590123Z"},
		{"1700158546680", "2023-11-16T18:15:46.68Z"},
		{"1700158546680.5", "2023-11-16T18:15:46.6805Z"},
		{"1700158546680590", "2023-11-16T18:15:46.68059Z"},
		{"1700158546680590123", "2023-11-16T18:15:46.680590123Z"},
		{"0.5", "1970-01-01T00:00:00.5Z"},
		{"-1.5", "1969-12-31T23:59:58.5Z"},
		{"0", "1970-01-01T00:00:00Z"},
	}
	for _, tt := range tests {
		got, err := new(timeReader).read(tt.s)
		require.NoError(t, err)
		assert.Equal(t, at(t, tt.want), got, tt.s)
	}
	for _, s := range []string{"", "-", ".", "1.2.3", "1-2", "1e9", "0x10", "17001585466805", "99999999999999999999", "9223372036854775807.5", "2023-11-16", "16.11.2023 18:15:46", "2023-11-16 18:15:46 CET", "1677-09-21T00:12:43Z"} {
		_, err := new(timeReader).read(s)
		assert.Error(t, err, s)
	}
}

func TestTimeReader_Units(t *testing.T) {
	for unit, want := range map[string]int64{"s": 5_250_000_000, "ms": 5_250_000, "us": 5_250, "ns": 5} {
		got, err := (&timeReader{unit: unit}).read("5.25")
		require.NoError(t, err)
		assert.Equal(t, want, got, unit)
	}
}

func TestParseSum(t *testing.T) {
	values := map[string]string{"in": "7", "out": "30"}
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
		var indices []int
		var row []string
		for i, name := range s.columns {
			indices, row = append(indices, i), append(row, values[name])
		}
		got, err := s.of(indices, row)
		require.NoError(t, err)
		assert.Equal(t, tt.want, got)
		assert.Equal(t, tt.text, s.String())
	}
}
