package traffic

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// linesOf returns a log of n events of each of the addresses. The text after an address is the rest of a line.
func linesOf(n int, rest string, addresses ...string) string {
	var b strings.Builder
	for range n {
		for _, a := range addresses {
			b.WriteString(a + strings.TrimPrefix(clf, "192.0.2.1") + rest + "\n")
		}
	}
	return b.String()
}

// Proxies that are taken for clients do not go unnoticed.
func TestTraffic_WarnsOfProxies(t *testing.T) {
	const behind = ` "-" "curl/8" "203.0.113.9"`
	many := make([]string, 30)
	for i := range many {
		many[i] = fmt.Sprintf("198.51.100.%d", i)
	}
	several := Key{{name: "path"}, {name: Addr, bits4: 32, bits6: 64}}
	tests := []struct {
		name, log string
		settings  Settings
		want      string
	}{
		{"one", linesOf(2, "", "192.0.2.7"), Settings{}, "all events are of one client, 192.0.2.7: if it is a proxy, name it by -trust"},
		{"two that write X-Forwarded-For", linesOf(5, behind, "192.0.2.7", "192.0.2.8"), Settings{},
			"100.0% of all events are of 2 addresses such as 192.0.2.7, 192.0.2.8, and X-Forwarded-For names others"},
		{"two, and some clients past them", linesOf(50, behind, "2001:db8::1", "192.0.2.8") + linesOf(1, "", many[:9]...), Settings{},
			"91.7% of all events are of 2 addresses such as 192.0.2.8, 2001:db8::/64, and X-Forwarded-For"},
		{"two, by path", linesOf(5, behind, "192.0.2.7", "192.0.2.8"), Settings{Key: several}, "100.0% of all events are of 2 addresses"},
		{"two private ones", linesOf(500, "", "10.0.0.1", "10.0.0.2"), Settings{}, "100.0% of all events are of 2 addresses such as 10.0.0.1, 10.0.0.2, which are private"},
		{"two busy ones", linesOf(1000, "", "192.0.2.7", "192.0.2.8"), Settings{}, "100.0% of all events are of 2 addresses such as 192.0.2.7, 192.0.2.8: if they"},
		{"JSON", strings.Repeat(`{"ts":1.5,"remote_addr":"192.0.2.7","http_x_forwarded_for":"203.0.113.9"}`+"\n"+`{"ts":1.5,"remote_addr":"192.0.2.8","http_x_forwarded_for":"203.0.113.9"}`+"\n", 9),
			Settings{}, "100.0% of all events are of 2 addresses"},
		{"two that are trusted", linesOf(5, behind, "192.0.2.7", "192.0.2.8"), Settings{Trust: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}, ""},
		{"two, whose clients are not told apart by addresses", linesOf(1000, behind, "192.0.2.7", "192.0.2.8"), Settings{Key: Key{{name: "path"}, {name: "agent"}}},
			"all events are of one client, /a.png curl/8"},
		{"two quiet clients", linesOf(9, "", "192.0.2.7", "192.0.2.8"), Settings{}, ""},
		{"two, few of them through a proxy", linesOf(9, "", "192.0.2.7", "192.0.2.8") + linesOf(2, behind, "192.0.2.7"), Settings{}, ""},
		{"many clients, whose addresses the proxy has passed on", linesOf(9, behind, many...), Settings{}, ""},
		{"many busy clients", linesOf(1000, "", many...), Settings{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, tr := readAll(t, &tt.settings, tt.log)
			require.Zero(t, tr.Unreadable, tr.Faults)
			got := strings.Join(tr.Warnings(nil), "\n")
			if tt.want == "" {
				assert.Empty(t, got)
			}
			assert.True(t, strings.HasPrefix(got, tt.want), got)
		})
	}
}

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
