package traffic

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTraffic_Warnings(t *testing.T) {
	const apart = "1000001\ta\n2000000\tb\n"
	tests := []struct {
		name, log string
		windows   []time.Duration
		want      []string // the beginning of each
	}{
		{"none", apart, []time.Duration{time.Second}, nil},
		{"whole seconds", "1000000\ta\n2000000\tb\n", []time.Duration{time.Second, 10 * time.Second, time.Minute},
			[]string{"all times are whole seconds, so the requests of a second seem to come at once: in windows of 1s, 10s the denials"}},
		{"whole seconds and windows of a minute", "1000000\ta\n2000000\tb\n", []time.Duration{time.Minute}, nil},
		{"one client", "1000001\ta\n2000000\ta\n", nil, []string{"all events are of one client, a: if it is a proxy"}},
		{"a clock set back", apart + "7200000001\ta\n7200000002\ta\n1000000\tb\n1000002\tb\n1000003\tb\n", nil,
			[]string{"the clock of FILE jumps back by 1h59m59s at line 5"}},
		{"one late line", apart + "7200000001\ta\n1000000\tb\n7200000002\ta\n1000002\tb\n7200000003\tb\n", nil, nil},
		{"a clock set ahead", apart + "1700000000000000\ta\n", nil, []string{"the clock of FILE jumps ahead by 472222h13m18s at line 3"}},
		{"two formats", apart + clf + "\n" + apart + clf + "\n" + apart, nil, []string{"2 lines are of another format than their file"}},
		{"seconds in two columns", "1700000000\ta\n1700000001\tb\n", nil,
			[]string{"the times of FILE are read as microseconds, so they are of 1970: if they are in another unit, name it, as by -unit s"}},
		{"milliseconds in two columns", "1700000000123\ta\n1700000001123\tb\n", nil,
			[]string{"the times of FILE are read as microseconds, so they are of 1970: if they are in another unit, name it, as by -unit ms"}},
		{"an hour of microseconds from 0", "0\ta\n1700000001\tb\n", nil, nil},
		{"the ends of time", "-9223372036854775\ta\n9223372036854775\tb\n", nil, []string{"the clock of FILE jumps ahead by 2562047h47m16"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, tr := readAll(t, &Settings{}, tt.log)
			for i := range tr.Jumps {
				tr.Jumps[i].File = "FILE"
			}
			if tr.OtherUnit != "" {
				tr.OtherUnitOf = "FILE"
			}
			got := tr.Warnings(tt.windows)
			require.Len(t, got, len(tt.want), got)
			for i, want := range tt.want {
				assert.True(t, strings.HasPrefix(got[i], want), got[i])
			}
		})
	}
}

// The unit of times in two columns is microseconds, unless it is named.
func TestRead_UnitOfTwoColumns(t *testing.T) {
	for unit, log := range map[string]string{
		"": "1700000000000000\ta\n", "s": "1700000000\ta\n", "ms": "1700000000000\ta\n",
		"us": "1700000000000000\ta\n", "ns": "1700000000000000000\ta\n",
	} {
		events, tr := readAll(t, &Settings{Unit: unit}, log)
		assert.Equal(t, []string{"1700000000000000 a"}, events, unit)
		assert.Empty(t, tr.OtherUnit)
	}
	_, tr := readAll(t, &Settings{}, "1\ta\n1700000000000000000\ta\n")
	require.Len(t, tr.Faults, 1)
	assert.Contains(t, tr.Faults[0].Why, "if it is in microseconds: another unit is named by -unit")
}

func TestRead_Compressions(t *testing.T) {
	const log = "1\ta\n2\tb\n"
	var packed bytes.Buffer
	z, err := zstd.NewWriter(&packed)
	require.NoError(t, err)
	_, err = z.Write([]byte(log))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	// bzip2 of the log, by the program of that name: the library does not compress.
	bz, err := base64.StdEncoding.DecodeString("QlpoOTFBWSZTWTPnuPkAAAJJAAAwMAAwACAAIaaZoMA+AIWF3JFOFCQM+e4+QA==")
	require.NoError(t, err)
	for _, content := range []string{log, packed.String(), string(bz)} {
		got, tr := readAll(t, &Settings{}, content)
		assert.Equal(t, []string{"1 a", "2 b"}, got)
		assert.Empty(t, tr.BrokenOff)
	}
	_, tr := readAll(t, &Settings{}, packed.String()[:packed.Len()-6])
	require.Len(t, tr.BrokenOff, 1)
}
