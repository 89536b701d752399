package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/bench/internal/keys"
	"github.com/seed-30da4c49/sash/bench/internal/peers"
	"github.com/seed-30da4c49/sash/bench/internal/report"
	"github.com/seed-30da4c49/sash/bench/internal/rounds"
	"github.com/seed-30da4c49/sash/internal/command"
	"github.com/seed-30da4c49/sash/internal/progress"
	"github.com/seed-30da4c49/sash/internal/race"
)

// An outcome is the result of a run of the command.
type outcome struct {
	status         int
	stdout, stderr string
}

func invoke(ctx context.Context, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	status := run(ctx, args, &stdout, &stderr)
	return outcome{status, stdout.String(), stderr.String()}
}

// results reads the files that a run wrote for an experiment, and checks their form.
func results(t *testing.T, dir, experiment string) (r struct {
	report.Result
	Records []map[string]any `json:"records"`
}) {
	t.Helper()
	encoded, err := os.ReadFile(filepath.Join(dir, experiment+".json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(encoded, &r))
	table, err := os.ReadFile(filepath.Join(dir, experiment+".md"))
	require.NoError(t, err)
	require.Contains(t, string(table), "# "+experiment+": ")
	pictures, err := filepath.Glob(filepath.Join(dir, experiment+"*.svg"))
	require.NoError(t, err)
	for _, p := range pictures {
		require.Contains(t, string(table), "]("+filepath.Base(p)+")")
		svg, err := os.Open(p)
		require.NoError(t, err)
		d := xml.NewDecoder(svg)
		for err == nil {
			_, err = d.Token()
		}
		require.ErrorIs(t, err, io.EOF, p)
		svg.Close()
	}
	require.Equal(t, strings.Count(string(table), "!["), len(pictures))
	return r
}

func TestRun_QuickMeasuresEverything(t *testing.T) {
	if race.Enabled {
		t.Skip("takes a minute with the race detector; the other tests run the same code on fewer keys")
	}
	dir := t.TempDir()
	got := invoke(t.Context(), "-quick", "-out", dir)
	require.Equal(t, command.OK, got.status, got.stderr)

	command := "go run ./bench -quick -out " + dir
	for _, e := range experiments() {
		r := results(t, dir, e.name)
		require.Equal(t, e.name, r.Experiment)
		require.Equal(t, command, r.Environment.Command)
		require.NotEmpty(t, r.Records, e.name)
		require.False(t, r.Interrupted)
		require.Contains(t, got.stdout, "# "+e.name+": "+e.question)
	}

	// Every peer is in every row whose answers it can give.
	speed := results(t, dir, "speed")
	rows := map[string]int{}
	for _, r := range speed.Records {
		rows[r["call"].(string)+" "+r["impl"].(string)+" "+r["clock"].(string)]++
		require.Positive(t, r["ns_per_decision"])
		require.Len(t, r["samples_ns"], 15)
	}
	for _, p := range peers.Field() {
		require.Equal(t, rows["Allow sash system"], rows["Allow "+p.Name+" "+p.Clock], p.Name)
		table := p.New(peers.Plenty)
		want := rows["Take sash system"]
		if table.Take == nil {
			want = 0
		}
		require.Equal(t, want, rows["Take "+p.Name+" "+p.Clock], p.Name)
		require.Equal(t, rows["Take sash system"], rows["Compose "+p.Name+" "+p.Clock], p.Name)
		table.Close()
	}
	require.NotZero(t, rows["Take sash system"])
	require.Less(t, rows["Take sash system"], rows["Allow sash system"])
	require.Equal(t, rows["Allow sash system"], rows["Allow sash coarse"])
	require.Less(t, rows["Allow sash-log system"], rows["Allow sash system"])
	ratios := map[any]int{}
	for _, r := range results(t, dir, "ratios").Records {
		ratios[r["unit"]]++
		require.NotNil(t, r["value"])
	}
	for _, unit := range []string{"ns", "ratio", "allocations", "bytes", "objects"} {
		require.NotZero(t, ratios[unit], unit)
	}
	for _, r := range results(t, dir, "memory").Records {
		if r["impl"] != "nothing" {
			require.Greater(t, r["bytes_per_key"], 10.0, "%v", r["impl"])
		}
		require.Greater(t, r["calls_while_collecting"], 1000.0, "%v", r["impl"])
		require.Positive(t, r["ns_while_collecting"].(map[string]any)["p50"], "%v", r["impl"])
	}
	for _, r := range results(t, dir, "tail").Records {
		ns := r["ns"].(map[string]any)
		require.LessOrEqual(t, ns["p50"], ns["p99.99"])
		require.LessOrEqual(t, ns["p99.99"], ns["max"])
	}
}

// An interrupting writer interrupts a run as soon as the run reports that it has written
// files.
type interrupting struct {
	bytes.Buffer
	interrupt func()
}

func (w *interrupting) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("wrote")) {
		w.interrupt()
	}
	return w.Buffer.Write(b)
}

func TestRun_InterruptedWritesWhatThereIs(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stderr := &interrupting{interrupt: cancel}
	var stdout bytes.Buffer
	status := run(ctx, []string{"-quick", "-keys", "1", "-experiments", "floor,tail,memory", "-out", dir}, &stdout, stderr)
	require.Equal(t, command.Interrupted, status)
	require.Contains(t, stderr.String(), "bench: interrupted; what was measured is written\n")
	require.False(t, results(t, dir, "floor").Interrupted)
	tail := results(t, dir, "tail")
	require.True(t, tail.Interrupted)
	require.Empty(t, tail.Records)
	require.NoFileExists(t, filepath.Join(dir, "memory.json"), "it comes after tail")
}

// A countdown is a context that ends after a number of calls of Err.
type countdown struct {
	context.Context
	calls int
}

func (c *countdown) Err() error {
	if c.calls--; c.calls < 0 {
		return context.Canceled
	}
	return nil
}

func TestPlan_StopsInTheMiddleAndKeepsWhatItHas(t *testing.T) {
	o, err := parseArgs([]string{"-quick", "-keys", "1", "-peers", "go-limiter", "-goroutines", "1", "-modes", "throughput", "-answers", "admitted"})
	require.NoError(t, err)
	for calls := range 60 {
		p := planSpeed(newLab(o, report.Environment{Free: 4 << 30}))
		err := p.run(&countdown{t.Context(), calls}, progress.On(nil, 1, ""))
		require.ErrorIs(t, err, context.Canceled)
		r, err := p.result()
		require.NoError(t, err)
		for _, r := range r.Records.([]speedRecord) {
			require.NotEmpty(t, r.Samples)
			require.False(t, math.IsNaN(r.Ns))
		}
		if len(r.Records.([]speedRecord)) > 0 {
			return
		}
	}
	require.Fail(t, "no round was ever complete")
}

func TestRun_WrongFlags(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"-keys", "0"}, []string{`-keys: "0" is no number`}},
		{[]string{"-keys", "1,x,-3", "-rounds", "0"}, []string{`"x" is no`, `"-3" is no`, `-rounds: "0" is no number: want one from 1 to 10k`}},
		{[]string{"-experiments", "sped"}, []string{`-experiments: there is no "sped", want some of speed,ratios,floor,tail,memory,waiters`}},
		{[]string{"-peers", "redis,sash"}, []string{`-peers: there is no "redis"`, `there is no "sash", want some of go-limiter`}},
		{[]string{"-goroutines", "1,0"}, []string{`-goroutines: "0" is no number of goroutines`}},
		{[]string{"-dists", "", "-answers", "yes", "-modes", "fast", "-calls", "Wait"}, []string{`-calls: there is no "Wait"`, `-dists: there is no ""`, `-answers: there is no "yes"`, `-modes: there is no "fast"`}},
		{[]string{"-grow", "1e6"}, []string{`-grow: "1e6" is no number`}},
		{[]string{"-rate", "-1", "-decisions", "1000000000000000", "-out", ""}, []string{`-rate: "-1" is no number: want one from 1 to 100M`, `-decisions: "1000000000000000" is no number`, "-out names no directory"}},
		{[]string{"-rate", "x"}, []string{`-rate: "x" is no number`}},
		{[]string{"speed"}, []string{`"speed" is no flag`}},
		{[]string{"-nope"}, []string{"flag provided but not defined: -nope"}},
	} {
		got := invoke(t.Context(), tt.args...)
		require.Equal(t, command.Usage, got.status)
		require.Empty(t, got.stdout)
		for _, want := range append(tt.want, "bench: -h explains the flags\n") {
			require.Contains(t, got.stderr, want)
		}
	}
}

func TestRun_Help(t *testing.T) {
	got := invoke(t.Context(), "-h")
	require.Equal(t, command.OK, got.status)
	require.Empty(t, got.stderr)
	for _, e := range experiments() {
		require.Contains(t, got.stdout, e.question)
	}
	require.Contains(t, got.stdout, "(default 1,1k,1M)")
}

func TestRun_ResultsThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	got := invoke(t.Context(), "-quick", "-keys", "1", "-experiments", "floor", "-out", file)
	require.Equal(t, command.Failed, got.status)
	require.Contains(t, got.stderr, "bench: -out: ")
	require.Empty(t, got.stdout, "it says so before it measures")
}

func TestParseArgs_QuickYieldsToWhatIsGiven(t *testing.T) {
	o, err := parseArgs([]string{"-rounds", "7", "-quick"})
	require.NoError(t, err)
	require.Equal(t, 7, o.rounds)
	require.Less(t, o.grow, 100_000)
	o, err = parseArgs([]string{"-keys", "10_000_000,1k,1k"})
	require.NoError(t, err)
	require.Equal(t, []int{1000, 10_000_000}, o.keys)
	require.Equal(t, 5, o.rounds)
}

func TestCommandLine_CanBeTypedAgain(t *testing.T) {
	require.Equal(t, `go run ./bench -peers '/a b' -out 'it'\''s' ''`, commandLine([]string{"-peers", "/a b", "-out", "it's", ""}))
}

// freeOf returns a lab with that much free memory.
func freeOf(t *testing.T, bytes int64, args ...string) *lab {
	o, err := parseArgs(args)
	require.NoError(t, err)
	return newLab(o, report.Environment{Free: bytes})
}

func TestGroups_HoldWhatFitsAndSashInEach(t *testing.T) {
	const n = 1_000_000
	all := peers.Field()
	for free := int64(64 << 20); free <= 4<<30; free += 64 << 20 {
		l := freeOf(t, free)
		groups, left := l.groups(n, all)
		seen := map[string]int{}
		for _, g := range groups {
			require.Equal(t, "sash", g[0].Name)
			require.True(t, l.fits(n, g...), "%d MiB", free>>20)
			for _, p := range g {
				seen[p.Name]++
			}
		}
		for _, p := range left {
			require.Zero(t, seen[p.Name])
			require.False(t, l.fits(n, all[0], p), "%d MiB: %s is left out and would fit", free>>20, p.Name)
			seen[p.Name]++
		}
		require.Len(t, seen, len(all), "%d MiB", free>>20)
		for name, times := range seen {
			require.True(t, times == 1 || name == "sash", "%s is measured %d times", name, times)
		}
	}
	groups, left := freeOf(t, 1<<40).groups(1000, all)
	require.Len(t, groups, 1)
	require.Empty(t, left)
}

func TestRun_LeavesOutWhatDoesNotFit(t *testing.T) {
	l := freeOf(t, 256<<20, "-quick", "-keys", "1,2_000_000_000", "-grow", "1_000_000_000", "-peers", "go-limiter", "-rounds", "1", "-out", t.TempDir())
	l.experiments = []string{"speed", "memory"}
	var stdout bytes.Buffer
	require.NoError(t, l.run(t.Context(), &stdout, io.Discard))
	require.Contains(t, stdout.String(), "**Left out** with 2000M keys: go-limiter would take more than 60 % of the free memory.")
	require.Contains(t, stdout.String(), "**Left out** with 2000M keys: sash would take more than 60 % of the free memory.")
	require.Empty(t, planTail(l).steps)
}

// counting returns a limiter that admits by rule, and the keys of its calls.
func counting(rule func(key string) bool) (allow func(string) bool, asked *[]string) {
	asked = new([]string)
	return func(key string) bool {
		*asked = append(*asked, key)
		return rule(key)
	}, asked
}

func TestTurn_AsksTheSameOfEveryoneInARound(t *testing.T) {
	for _, mode := range modes {
		r := row{1000, keys.Zipf, admitted, mode, 1, callAllow}
		first, _ := r.turn(500, 3)
		again, _ := r.turn(500, 3)
		require.Equal(t, first, again)
		other, _ := r.turn(500, 4)
		require.NotEqual(t, first.scripts, other.scripts, "each round other keys")
		require.Equal(t, 500, first.decisions())
	}
}

// A call that puts its key together asks for the keys of the script, too.
func TestCallOf_AsksForTheKeyWhateverTheCall(t *testing.T) {
	table := peers.Sash().New(peers.Quota{Count: int64(len(calls)), Window: 10_000 * time.Hour})
	defer table.Close()
	for i := range 100 {
		for _, call := range calls {
			require.True(t, callOf(table, call)(keys.New(i)), "%s of key %d", call, i)
		}
		require.False(t, table.Allow(keys.New(i)), "key %d", i)
	}
	nothing := peers.Nothing().New(peers.Plenty)
	require.Nil(t, callOf(nothing, callTake))
	require.Nil(t, callOf(nothing, callCompose))
}

func TestSpeedRows_ReachAllCores(t *testing.T) {
	cores := runtime.GOMAXPROCS(0)
	l := freeOf(t, 1<<40)
	require.Contains(t, l.goroutines, cores)
	for _, call := range calls {
		require.True(t, l.measures(row{1000, keys.Uniform, denied, throughput, cores, call}), call)
		require.Equal(t, call == callAllow, l.measures(row{1000, keys.Uniform, denied, throughput, 1000 * cores, call}), call)
		require.Equal(t, call == callAllow, l.measures(row{1000, keys.Zipf, denied, throughput, 1, call}), call)
	}
	require.False(t, l.measures(row{1000, keys.Uniform, denied, latency, 1000, callAllow}))
}

func TestTurn_CountsAnswers(t *testing.T) {
	odd := map[string]bool{}
	for i := 1; i < 100; i += 2 {
		odd[keys.New(i)] = true
	}
	allow, asked := counting(func(key string) bool { return !odd[key] })
	tr, want := row{100, keys.Uniform, half, throughput, 1, callAllow}.turn(1000, 1)
	_, got := tr.run(allow)
	require.Equal(t, want, got)
	require.InDelta(t, 500, got, 100)
	require.Len(t, *asked, 1100, "with a tenth to warm up")
}

func TestTurn_ChainedKeysFollowFromTheAnswers(t *testing.T) {
	tr, _ := row{1_000_000, keys.Uniform, half, latency, 1, callAllow}.turn(50, 1)
	tr.warming = []script{{}}
	for _, rule := range []func(int) bool{
		func(int) bool { return false }, func(int) bool { return true }, func(i int) bool { return i%3 == 0 },
	} {
		i := 0
		allow, asked := counting(func(string) bool { i++; return rule(i) })
		_, got := tr.run(allow)
		yes := int64(0)
		for k, key := range *asked {
			require.Equal(t, tr.scripts[0][yes%2][k], key)
			if rule(k + 1) {
				yes++
			}
		}
		require.Equal(t, yes, got)
	}
}

func TestTurn_GoroutinesShareTheDecisions(t *testing.T) {
	single, _ := row{10, keys.Uniform, admitted, throughput, 1, callAllow}.turn(1000, 1)
	shared, _ := row{10, keys.Uniform, admitted, throughput, 8, callAllow}.turn(1000, 1)
	require.Len(t, shared.scripts, 8)
	require.LessOrEqual(t, single.decisions(), shared.decisions())
	table := peers.Sash().New(peers.Plenty)
	defer table.Close()
	_, got := shared.run(table.Allow)
	require.EqualValues(t, shared.decisions(), got)
}

func TestSamples_CountWrongAnswers(t *testing.T) {
	for _, tt := range []struct {
		answer, mode string
		got, want    int64
		wrong        float64
	}{
		{admitted, throughput, 90, 100, 0.1},
		{admitted, latency, 90, 0, 0.1},
		{denied, throughput, 5, 0, 0.05},
		{denied, latency, 5, 0, 0.05},
		{half, throughput, 50, 52, 0.02},
		{half, latency, 3, 0, 0},
	} {
		x := &samples{}
		x.count(row{answer: tt.answer, mode: tt.mode}, tt.got, tt.want, 100)
		require.InDelta(t, tt.wrong, x.wrong, 1e-9, "%v", tt)
	}
}

func TestFastest_IsThePeerOfTheLeastRatio(t *testing.T) {
	l := freeOf(t, 1<<30)
	r := row{keys: 1}
	s := &speedTest{lab: l, all: l.field(), others: l.field()[1:], rows: []row{r}, samples: map[row]map[string]*samples{}}
	require.Equal(t, report.None, s.line(r, nil)[3], "nothing was measured")
	// In the second round the machine was slow.
	for name, ns := range map[string][]float64{"sash": {10, 100, 10}, "go-limiter": {30, 300, 30}, "x-time-rate": {25, 240, 26}} {
		named := func(p peers.Peer) bool { return p.Name == name }
		x := s.sample(r, l.field()[slices.IndexFunc(l.field(), named)])
		x.ns, x.base = ns, []float64{10, 100, 10}
	}
	fastest, ratio := s.fastest(r)
	require.Equal(t, "x-time-rate", fastest.Name)
	require.Equal(t, 2.5, ratio)
	require.Equal(t, rounds.Median([]float64{10, 100, 10}), 10.0)
}

func TestFill_TracksEveryKey(t *testing.T) {
	for _, p := range append(peers.Field(), peers.Floors()...) {
		table := p.New(peers.Quota{Count: 2, Window: 10_000 * time.Hour})
		require.NoError(t, fill(t.Context(), p, table, 5000))
		for i := range 5000 {
			table.Allow(keys.New(i))
		}
		for _, i := range []int{0, 1, 4095, 4096, 4999} {
			require.Equal(t, p.Free, table.Allow(keys.New(i)), "%s, key %d was charged twice", p.Name, i)
		}
		table.Close()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, forEach(ctx, 1<<30, 2, func(int) {}), context.Canceled)
}

func TestDuration_ThreeDigits(t *testing.T) {
	for ns, want := range map[float64]string{0: "0s", 999: "999ns", 1234: "1.23µs", 999_999: "1ms", 12_345_678: "12.3ms", 61_234_567_890: "1m1.2s"} {
		require.Equal(t, want, duration(ns))
	}
}

// One of them is the picture of the first page.
func TestPlots_ShowSashTheNearestPeersAndTheFloor(t *testing.T) {
	l := freeOf(t, 1<<30, "-keys", "1,1k,10M", "-goroutines", "1", "-answers", "admitted", "-modes", "throughput")
	s := &speedTest{lab: l, rows: l.speedRows(), all: l.field(), others: l.field()[1:], samples: map[row]map[string]*samples{}}
	for i, n := range []int{1, 1000, 10_000_000} {
		r := row{n, keys.Uniform, admitted, throughput, 1, callAllow}
		for k, p := range slices.Concat(peers.Field(), []peers.Peer{peers.Default(), peers.Floor()}, peers.Variants()) {
			if p.Name == "ulule" && n == 10_000_000 {
				continue // it did not fit
			}
			s.sample(r, p).ns = []float64{float64(100*i + 50 - k)}
		}
	}
	plots := s.plots()
	require.Equal(t, "keys", plots[0].Name, "the name of its file does not change")
	require.Equal(t, []string{"1", "1k", "10M"}, plots[0].Places)
	require.Equal(t, []float64{1, 1000, 10_000_000}, plots[0].At)
	var names []string
	for _, series := range plots[0].Series {
		names = append(names, series.Name)
		require.Len(t, series.Values, 3)
	}
	require.Equal(t, []string{"sash, default", "sash, counter", "sliding-window", "throttled", "httprate", "x/time/rate", "floor"}, names)
	require.Equal(t, []report.Role{report.Own, report.Own, report.Other, report.Floor},
		[]report.Role{plots[0].Series[0].Role, plots[0].Series[1].Role, plots[0].Series[2].Role, plots[0].Series[6].Role})
	require.Equal(t, []float64{50, 150, 250}, plots[0].Series[1].Values)
}

func TestSpeed_TellsPeersHowManyKeysThereAre(t *testing.T) {
	l := freeOf(t, 1<<30, "-quick", "-keys", "1,1k", "-goroutines", "1", "-answers", "admitted", "-modes", "throughput", "-calls", "Allow")
	var quotas []peers.Quota
	of := peers.Nothing()
	of.New = func(q peers.Quota) peers.Table {
		quotas = append(quotas, q)
		return peers.Nothing().New(q)
	}
	s := &speedTest{lab: l, rows: l.speedRows(), all: []peers.Peer{of}}
	require.NoError(t, s.plan().run(t.Context(), progress.On(nil, 1, "")))
	require.Equal(t, []peers.Quota{peers.PlentyOf(1), peers.PlentyOf(1000)}, quotas)
}
