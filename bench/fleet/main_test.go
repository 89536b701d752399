package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/command"
	"github.com/seed-30da4c49/sash/internal/race"
)

func TestMain(m *testing.M) {
	if os.Getenv(workerEnv) != "" { // a process of a fleet is this program, whatever it is
		main()
		return
	}
	os.Exit(m.Run())
}

// needsServer skips the test if there is no server to start.
func needsServer(t *testing.T) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if _, err := exec.LookPath(name); err == nil {
			return
		}
	}
	if os.Getenv("SASH_REDIS") == "required" {
		t.Fatal("SASH_REDIS=required, and", errNoServer)
	}
	t.Skip(errNoServer)
}

// invoke runs the command.
func invoke(ctx context.Context, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = run(ctx, args, &out, &errs)
	return status, out.String(), errs.String()
}

func TestRun_QuickMeasuresEverything(t *testing.T) {
	if race.Enabled {
		t.Skip("takes a minute with the race detector; the other tests run the same code for less time")
	}
	needsServer(t)
	dir := t.TempDir()
	status, stdout, stderr := invoke(t.Context(), "-quick", "-out", dir)
	require.Equal(t, command.OK, status, stderr)
	encoded, err := os.ReadFile(filepath.Join(dir, "fleet.json"))
	require.NoError(t, err)
	var got struct {
		Interrupted bool
		Records     []record
	}
	require.NoError(t, json.Unmarshal(encoded, &got))
	require.False(t, got.Interrupted)
	table, err := os.ReadFile(filepath.Join(dir, "fleet.md"))
	require.NoError(t, err)
	require.Equal(t, string(table), stdout)

	seen := map[string]int{}
	trips := map[string]float64{} // packets of one decision by one caller
	for _, r := range got.Records {
		seen[r.Part]++
		v := r.Values
		switch r.Part {
		case "hot", "new", "known":
			assert.Positive(t, v["decisions_per_second"], "%+v", r)
			assert.LessOrEqual(t, v["p50_ns"], v["p99_ns"], "%+v", r)
			assert.LessOrEqual(t, v["p99_ns"], v["p99.9_ns"], "%+v", r)
			assert.InDelta(t, 1, v["admitted"], 1e-9, "%+v", r)
			if r.Part == "new" && r.Callers == 1 {
				trips[r.Impl] = v["packets_sent"]
				assert.Positive(t, v["server_us"], "%+v", r)
				assert.GreaterOrEqual(t, v["server_commands"], 0.9, "%+v", r)
				assert.Greater(t, v["bytes_sent"], 50.0, "%+v", r)
			}
		case "flood on 1", "flood on 1k":
			assert.Zero(t, v["admitted"], "%+v", r)
		case "memory":
			assert.Greater(t, v["memory_usage"], v["name_bytes"], "%+v", r)
		case "processes, steadily", "processes, in bursts":
			assert.Positive(t, v["admitted"], "%+v", r)
			if s, ok := named(forFleet(), r.Impl); ok && !s.peer {
				assert.Zero(t, v["over_admitted"], "%+v", r)
				assert.Zero(t, v["failed"], "%+v", r)
			}
		}
	}
	assert.Equal(t, map[string]int{
		"hot": 3 * len(forHotKey()), "new": 3 * len(forManyKeys()), "known": len(forManyKeys()), "memory": 6,
		"flood on 1": 1 + len(forFlood()), "flood on 1k": 1 + len(forFlood()),
		"processes, steadily": len(forFleet()), "processes, in bursts": len(forFleet()), "leases": 4, "refunds": 4,
	}, seen)
	// On a key that is new, throttled needs three round trips, and all others one. rueidis also
	// looks now and then whether the server is there.
	for impl, packets := range trips {
		want := 1.0
		if impl == "throttled" {
			want = 3
		}
		assert.InDelta(t, want, packets, 0.1, impl)
	}
	assert.Contains(t, stdout, "## aims")
}

func TestRun_InterruptedWritesWhatThereIs(t *testing.T) {
	needsServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	dir := t.TempDir()
	time.AfterFunc(2*time.Second, cancel) // the server runs by then, and it measures for longer
	status, stdout, stderr := invoke(ctx, "-out", dir, "-only", "hot")
	require.Equal(t, command.Interrupted, status, stderr)
	require.Contains(t, stdout, "**Interrupted:**")
	require.FileExists(t, filepath.Join(dir, "fleet.md"))
}

func TestRun_WrongFlags(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-only", "hot,cold"}, `-only: there is no "cold", want some of hot,new,known,flood,processes,leases`},
		{[]string{"hot"}, `"hot" is no flag`},
		{[]string{"-nope"}, "flag provided but not defined: -nope"},
	} {
		status, stdout, stderr := invoke(t.Context(), tt.args...)
		assert.Equal(t, command.Usage, status)
		assert.Empty(t, stdout)
		assert.Contains(t, stderr, tt.want)
	}
	status, stdout, _ := invoke(t.Context(), "-h")
	assert.Equal(t, command.OK, status)
	assert.Contains(t, stdout, "-quick")
}

// admitted returns units that were admitted at these instants, each within a call of two
// nanoseconds.
func admitted(at ...int64) (all []admission) {
	for _, t := range at {
		all = append(all, admission{t - 1, t + 1})
	}
	return all
}

// repeated returns an instant n times.
func repeated(n int, at int64) (all []int64) {
	for range n {
		all = append(all, at)
	}
	return all
}

func TestExcess_OnlyWhatSurelyBreaksTheRule(t *testing.T) {
	q := quota{10, 1000}
	at := func(parts ...[]int64) (all []admission) {
		for _, p := range parts {
			all = append(all, admitted(p...)...)
		}
		return all
	}
	for _, tt := range []struct {
		name string
		rule func([]admission, quota) int64
		all  []admission
		want int64
	}{
		{"log, full", excessOfLog, at(repeated(10, 5000)), 0},
		{"log, full again after a window", excessOfLog, at(repeated(10, 5000), repeated(10, 6001)), 0},
		{"log, again within a window", excessOfLog, at(repeated(10, 5000), repeated(3, 5900)), 3},
		{"log, a call that may have been decided later", excessOfLog, append(at(repeated(10, 5000)), admission{5900, 6100}), 0},
		{"fixed, two windows", excessOfFixed, at(repeated(10, 5000), repeated(10, 5500)), 0},
		{"fixed, three in one length", excessOfFixed, at(repeated(10, 5000), repeated(11, 5500)), 1},
		{"counter, an aligned window", excessOfCounter, at(repeated(12, 5500)), 2},
		{"counter, the next window half in", excessOfCounter, at(repeated(10, 5700), repeated(5, 6500)), 0},
		{"counter, the next window at its start", excessOfCounter, at(repeated(10, 5700), repeated(2, 6100)), 1},
		{"counter, a call that may have been decided later", excessOfCounter, append(at(repeated(10, 5500)), admission{5990, 6150}), 0},
		{"bucket, full", excessOfBucket, at(repeated(10, 5000)), 0},
		{"bucket, half of it comes back", excessOfBucket, at(repeated(10, 5000), repeated(5, 5500)), 0},
		{"bucket, more than comes back", excessOfBucket, at(repeated(10, 5000), repeated(7, 5500)), 2},
	} {
		assert.Equal(t, tt.want, tt.rule(tt.all, q), tt.name)
	}
}

func TestFleet_EveryProcessCalls(t *testing.T) {
	needsServer(t)
	s, err := startServer(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, s.stop()) }()
	j := job{Subject: forFleet()[0].name, Socket: s.socket, Quota: quota{100, time.Second}, Callers: 2, Lasts: 100 * time.Millisecond}
	const processes = 3
	got, err := runFleet(t.Context(), j, processes)
	require.NoError(t, err)
	require.GreaterOrEqual(t, got.Calls, int64(j.Callers*processes))
	require.GreaterOrEqual(t, len(got.Admissions), int(min(got.Calls, 100)), "all of one aligned window, and more if the machine is slow")
	require.EqualValues(t, len(got.Admissions), within(got.Admissions, 0, time.Now().UnixNano()))
}

func TestWire_CountsWhatIsSent(t *testing.T) {
	needsServer(t)
	s, err := startServer(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, s.stop()) }()
	for _, peer := range theirs() {
		w := &wire{socket: s.socket}
		c, err := peer.open(w, some)
		require.NoError(t, err)
		_, err = c.take("a") // loads the script
		require.NoError(t, err)
		before := w.flow()
		yes, err := c.take("a")
		require.NoError(t, err)
		require.True(t, yes)
		want := map[string]float64{"redis_rate": 1, "throttled": 2, "ulule": 1}[peer.name]
		got := w.flow().since(before)
		require.Equal(t, want, got.writes, peer.name)
		require.Positive(t, got.sent)
		require.Positive(t, got.received)
		require.NoError(t, c.close())
	}
}
