package replay

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-30da4c49/sash/internal/command"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
	"github.com/seed-30da4c49/sash/internal/race"
)

// recorded is the directory of recorded traffic, which is not part of the project.
const recorded = "../../../../../shared/data"

func recordedFile(t *testing.T, name string) string {
	t.Helper()
	name = filepath.Join(recorded, name)
	if _, err := os.Stat(name); err != nil {
		t.Skipf("no recorded traffic: %v", err)
	}
	return name
}

// The figures come from an independent implementation of the exact log.
func TestReplay_DeniesWhatTheExactLogDenies(t *testing.T) {
	t.Parallel()
	limits := []string{"10/1s", "60/60s", "240/3600s"}
	tests := []struct {
		file            string
		events, clients int
		denied          [3]int64 // under each of limits
	}{
		{"zeek_ssl.tsv.gz", 49_474, 115, [3]int64{34_554, 36_926, 39_544}},
		{"honeypot_http.tsv.gz", 260_505, 379, [3]int64{1_921, 1_825, 1_488}},
		{"wikipedia_edits.tsv.gz", 39_244, 10_531, [3]int64{0, 0, 1_885}},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			t.Parallel()
			args := []string{"-json"}
			for _, l := range limits {
				args = append(args, "-limit", l+" log", "-limit", l+" counter")
			}
			r := invoke("", append(args, recordedFile(t, tt.file))...).report(t)
			assert.EqualValues(t, tt.events, r.Events)
			assert.Equal(t, tt.clients, r.Clients)
			assert.EqualValues(t, tt.events, r.Lines)
			assert.Zero(t, r.OutOfOrder)
			require.Len(t, r.Limits, 2*len(limits))
			for i, denied := range tt.denied {
				log, counter := r.Limits[2*i], r.Limits[2*i+1]
				assert.True(t, log.Exact)
				assert.Equal(t, denied, log.Denied, limits[i])
				assert.Zero(t, log.WronglyAdmitted+log.WronglyDenied)
				assert.False(t, counter.Exact)
				assert.Equal(t, denied, counter.ExactDenied, limits[i])
				assert.Equal(t, counter.Denied-counter.ExactDenied, counter.WronglyDenied-counter.WronglyAdmitted)
			}
		})
	}
}

func TestReplay_ReadsTheOthersToTheLastLine(t *testing.T) {
	tests := []struct {
		file                                           string
		events, clients                                int
		cutShort, outOfOrder, outOfOrderAtMost, status int64
	}{
		// One line is cut short. The lines are shuffled within each minute.
		{file: "apache_combined_10k.log.gz", events: 10_000, clients: 1_753, cutShort: 1, outOfOrder: 1, outOfOrderAtMost: 10_000},
		{file: "nasa_http.tsv.gz", events: 30_969, clients: 2_365},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			got := invoke("", "-json", "-limit", "10/s", recordedFile(t, tt.file))
			assert.Equal(t, command.OK, got.status)
			r := got.report(t)
			assert.EqualValues(t, tt.events, r.Events)
			assert.Equal(t, tt.clients, r.Clients)
			assert.Zero(t, r.Unreadable+r.Blank)
			assert.Equal(t, tt.cutShort, r.CutShort)
			assert.GreaterOrEqual(t, r.OutOfOrder, tt.outOfOrder)
			assert.LessOrEqual(t, r.OutOfOrder, tt.outOfOrderAtMost)
		})
	}
}

func TestReplay_OfAnotherFormatIsUnreadableThroughout(t *testing.T) {
	got := invoke("", "-json", "-limit", "10/s", recordedFile(t, "azure_llm_conv.csv.gz"))
	assert.Equal(t, command.Failed, got.status)
	r := got.report(t)
	assert.Zero(t, r.Events)
	assert.EqualValues(t, 1+19_366, r.Unreadable) // its heading too
	assert.Empty(t, r.Limits)
}

func TestReplay_AgainstPlainReferences(t *testing.T) {
	t.Parallel()
	seeds := race.Trials(75)
	var wrong, denied [5]int64 // by algorithm
	for seed := range uint64(seeds) {
		random := rand.New(rand.NewPCG(seed, 1))
		limit := randomLimit(random, sash.Algorithm(seed%5))
		lines := randomLines(random)
		want := plainReplay(lines, 0, limit)
		args := []string{"-json", "-top", "100", "-limit", limit.String(), "-limit", exactly(limit).String()}
		r := invoke(tsvOf(lines), args...).report(t)
		got, exact := r.Limits[0], r.Limits[1]
		assert.Equal(t, want.ExactDenied, exact.Denied, limit)
		assert.Equal(t, limit.Algorithm == sash.SlidingLog || limit.Algorithm == sash.TokenBucket, got.Exact, limit)
		assert.Equal(t, want.counts(), got.counts(), limit)
		gotOf := map[string]int64{}
		for _, d := range got.Top {
			gotOf[d.Client] = d.Denied
		}
		assert.Equal(t, want.deniedOf, gotOf)
		assert.Equal(t, len(want.deniedOf), got.DeniedClients)
		wrong[limit.Algorithm] += got.WronglyAdmitted + got.WronglyDenied
		denied[limit.Algorithm] += got.Denied
	}
	assert.Zero(t, wrong[sash.SlidingLog])
	assert.Zero(t, wrong[sash.TokenBucket])
	for _, a := range []sash.Algorithm{sash.SlidingCounter, sash.SlidingBuckets, sash.SlidingParts} {
		assert.Greater(t, wrong[a], int64(seeds/5), "this traffic does not tell %v from the log", a)
	}
	for a, n := range denied {
		assert.Greater(t, n, int64(10*seeds/5), "this traffic is hardly denied by %v", sash.Algorithm(a))
	}
}

func TestReplay_SweepsForgetNothing(t *testing.T) {
	t.Parallel()
	// Many clients call once, so that there are keys to evict. One is held at its limit
	// all the time.
	var tsv strings.Builder
	for i := range 5 * leastSweep {
		fmt.Fprintf(&tsv, "%d\tclient%d\n", i*1000, i)
		if i%100 == 0 {
			fmt.Fprintf(&tsv, "%d\theld\n", i*1000)
		}
	}
	tr := read(t, "addr", tsv.String(), "-")
	trial, err := new(options).newTrial(policy{sash.Per(3, time.Second).Counter()})
	require.NoError(t, err)
	seen := 0
	for events := range slices.Chunk(tr.Events, 1000) {
		for _, e := range events {
			seen = max(seen, int(e.Client)+1)
		}
		trial.run(tr.Clients[:seen], events)
	}
	assert.Greater(t, trial.chosen.Stats().Evicted, uint64(leastSweep))
	assert.Greater(t, trial.exact.Stats().Evicted, uint64(leastSweep))
	assert.Less(t, trial.chosen.Len(), 3*leastSweep)

	var held []line
	for i := 0; i < 5*leastSweep; i += 100 {
		held = append(held, line{micros: int64(i) * 1000, client: "held", Charge: traffic.Charge{Asked: 1, Cost: 1}})
	}
	assert.Equal(t, plainReplay(held, 0, sash.Per(3, time.Second).Counter()).ExactDenied, trial.exactDenied)
}

// A policy of a file may have many keys in a recording that has one client. All of them are in their window at the
// first sweep, and idle at the second.
func TestReplay_SweepsAreRareWhileManyKeysAreLeft(t *testing.T) {
	t.Parallel()
	const keys = 3 * leastSweep
	clock := sash.NewManualClock(0)
	limiter, err := sash.New(sash.PerSecond(1), sash.WithClock(clock), sash.WithSweepInterval(-1))
	require.NoError(t, err)
	defer limiter.Close()
	for i := range keys {
		limiter.Allow(fmt.Sprint("key", i))
	}
	s := sweeper{limiters: []*sash.Limiter{limiter}}
	s.count(keys, 1)
	require.Equal(t, keys, limiter.Len())

	clock.Advance(time.Minute)
	s.count(keys-1, 1)
	assert.Equal(t, keys, limiter.Len(), "fewer events than keys")
	s.count(1, 1)
	assert.Zero(t, limiter.Len())
}

func TestReplay_WhoIsDeniedMostAndWhen(t *testing.T) {
	const second = 1_000_000
	var tsv strings.Builder
	add := func(client string, seconds ...int64) {
		for _, s := range seconds {
			fmt.Fprintf(&tsv, "%d\t%s\n", s*second, client)
		}
	}
	add("once", 0, 30)
	add("late", -1, 100, 130, 131)      // denied at 130, 131
	add("early", 0, 10, 20, 200)        // denied at 10, 20
	add("most", 5, 6, 3605, 3606, 3607) // denied at 6, 3606, 3607
	add("never", 0, 1000)
	r := invoke(tsv.String(), "-json", "-top", "3", "-limit", "1/m log").report(t)
	utc := func(s int64) time.Time { return time.Unix(s, 0).UTC() }
	assert.Equal(t, []denials{
		{"most", 5, 3, utc(6), utc(3607), utc(3600), 2},
		{"early", 4, 2, utc(10), utc(20), utc(0), 2},
		{"late", 4, 2, utc(130), utc(131), utc(120), 2},
	}, r.Limits[0].Top)
	assert.Equal(t, 4, r.Limits[0].DeniedClients)
	assert.Equal(t, utc(-1), *r.First)
	assert.Equal(t, utc(3607), *r.Last)

	r = invoke(tsv.String(), "-json", "-top", "0", "-limit", "1/m log").report(t)
	assert.Empty(t, r.Limits[0].Top)
	assert.EqualValues(t, 8, r.Limits[0].Denied)
}

func TestReplay_KeysOfSeveralFields(t *testing.T) {
	// The worked example of a key of address and path: three a minute.
	var lines []string
	for _, s := range []string{"15", "21", "23", "25", "28"} {
		lines = append(lines, `192.0.2.1 - - [17/May/2015:10:05:`+s+` +0000] "GET /a b HTTP/1.1" 200 1`)
		lines = append(lines, `192.0.2.1 - - [17/May/2015:10:05:`+s+` +0000] "GET /c HTTP/1.1" 200 1`)
	}
	lines = lines[:len(lines)-1]
	r := invoke(strings.Join(lines, "\n"), "-json", "-key", "addr,path", "-limit", "3/m log").report(t)
	assert.Equal(t, "addr,path", r.Key)
	assert.Equal(t, 2, r.Clients)
	require.Len(t, r.Limits[0].Top, 2)
	assert.Equal(t, `192.0.2.1 "/a b"`, r.Limits[0].Top[0].Client)
	assert.EqualValues(t, 2, r.Limits[0].Top[0].Denied)
	assert.Equal(t, "192.0.2.1 /c", r.Limits[0].Top[1].Client)
	assert.EqualValues(t, 1, r.Limits[0].Top[1].Denied)
}

func TestReplay_EachFileOnItsOwn(t *testing.T) {
	first := file(t, "one", []byte("0\ta\n"))
	second := file(t, "two", []byte("1\ta\n2\tb\n"))
	bad := file(t, "bad", []byte("x\n"))

	got := invoke("", "-json", "-limit", "1/s log", first, second)
	assert.EqualValues(t, 1, got.report(t).Limits[0].Denied)

	got = invoke("", "-json", "-each", "-limit", "1/s log", first, bad, second)
	assert.Equal(t, command.Failed, got.status)
	assert.Equal(t, "sash replay: nothing readable in "+bad+": name the format by -format, or the field of the time by -time; line 1 of "+bad+": no known format: see -format and -time\n", got.stderr)
	reports := got.decode(t)
	require.Len(t, reports, 3)
	assert.Equal(t, []string{second}, reports[2].Files)
	assert.Zero(t, reports[0].Limits[0].Denied)
	assert.Zero(t, reports[2].Limits[0].Denied)
}

func TestReplay_JSONNamesFieldsAsDocumented(t *testing.T) {
	got := invoke("0\ta\n0\ta\n", "-json", "-limit", "1/s counter")
	assert.JSONEq(t, `{
		"files": ["-"], "key": "addr/64", "lines": 2, "events": 2, "clients": 1,
		"first": "1970-01-01T00:00:00Z", "last": "1970-01-01T00:00:00Z",
		"blank": 0, "cut_short": 0, "out_of_order": 0, "unreadable": 0,
		"unreadable_lines": [], "unreadable_lines_cap": 1000, "broken_off": [],
		"formats": [{"file": "-", "format": "micros", "why": "it reads 2 of the first 2 lines"}],
		"warnings": ["all times are whole seconds, so the requests of a second seem to come at once: in windows of 1s the denials, and the errors of a counter, are partly those of the clock; log fractions of a second, such as $msec of nginx",
			"all events are of one client, a: if it is a proxy, name it by -trust, and log X-Forwarded-For"],
		"limits": [{
			"limit": "1/1s counter", "denied": 1, "denied_share": 0.5, "denied_clients": 1,
			"exact": false, "exact_denied": 1, "wrongly_admitted": 0, "wrongly_denied": 0, "error_share": 0,
			"top": [{"client": "a", "events": 2, "denied": 1,
				"first": "1970-01-01T00:00:00Z", "last": "1970-01-01T00:00:00Z",
				"busiest_minute": "1970-01-01T00:00:00Z", "denied_in_busiest_minute": 1}]
		}]
	}`, got.stdout)
	assert.Equal(t, 1, strings.Count(got.stdout, "\n"), "one object, one line")
}
