package suggest

import (
	"cmp"
	"fmt"
	"go/parser"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
	"github.com/seed-30da4c49/sash/internal/race"
)

func TestDistribution_PercentileLeavesSoManyPercentAlone(t *testing.T) {
	d := make(distribution, 1000)
	for i := range d {
		d[i] = int64(i + 1)
	}
	for p, want := range map[float64]int64{0.01: 1, 0.1: 1, 50: 500, 90: 900, 99: 990, 99.9: 999, 99.91: 1000, 100: 1000} {
		assert.Equal(t, want, d.percentile(p), p)
		assert.LessOrEqual(t, float64(d.above(d.percentile(p))), 1000*(100-p)/100+rounding*1000, p)
	}
	assert.EqualValues(t, 7, distribution{7}.percentile(0.1))
	assert.Zero(t, distribution(nil).percentile(50))
	assert.Equal(t, 7-1, make(distribution, 2500).rank(0.28))
}

// studyOf returns a study of clients with these numbers of events.
func studyOf(counts ...int64) *study {
	s := &study{on: &traffic.Traffic{Counts: counts}}
	for _, n := range counts {
		s.on.Events += n
	}
	return s
}

func TestBorder_IsBetweenTwoKindsOfClients(t *testing.T) {
	d := make([]int64, 100, 106)
	for i := range d {
		d[i] = int64(1 + i/5)
	}
	d = append(d, 193, 800, 800, 800, 1500, 90000)
	s := studyOf(d...)
	b, found := s.border(d, 99, false)
	assert.True(t, found)
	assert.Equal(t, border{20, 193, 6, 94093}, b)
	assert.Equal(t, 94.3, b.leaves(len(d)))
	_, found = s.border(d, 94, false)
	assert.False(t, found, "the percentile is below the gap")
	small := []int64{1, 1, 2, 4, 8}
	_, found = studyOf(small...).border(small, 100, false)
	assert.False(t, found, "small numbers are no gap")
}

// More than one client in ten is of another kind only if most events are theirs.
func TestBorder_OfACrowdIsThatOfMostEvents(t *testing.T) {
	busiest := make([]int64, 1180)
	for i := range busiest {
		busiest[i] = 3 + int64(i%4)
		if i >= 1000 {
			busiest[i] = 60
		}
	}
	counts := slices.Clone(busiest)
	for i := range counts[1000:] {
		counts[1000+i] *= 8
	}
	b, found := studyOf(counts...).border(busiest, 99.9, false)
	assert.True(t, found)
	assert.Equal(t, border{6, 60, 180, 86_400}, b)
	for i := range counts {
		counts[i] = busiest[len(busiest)-1-i]
	}
	_, found = studyOf(counts...).border(busiest, 99.9, false)
	assert.False(t, found, "others have most events")
	_, found = studyOf(100, 100, 100, 100, 1, 1, 1, 1).border([]int64{100, 100, 100, 100, 1, 1, 1, 1}, 99.9, false)
	assert.False(t, found, "four clients are no crowd")
	few := []int64{100, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}
	_, found = studyOf(few...).border(few, 100, true)
	assert.False(t, found, "one client is no crowd")
}

// crowds returns a recording of twenty minutes: clients with from low to high events each, spread
// evenly over both.
func crowds(kinds ...[3]int64) string {
	r := rand.New(rand.NewPCG(1, 2))
	type line struct {
		at     int64
		client string
	}
	var lines []line
	for k, kind := range kinds {
		n, low, high := kind[0], kind[1], kind[2]
		for i := range n {
			for range low + i*(high-low)/max(1, n-1) {
				lines = append(lines, line{r.Int64N(1200e6), fmt.Sprintf("%d-%d", k, i)})
			}
		}
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%d\t%s\n", l.at, l.client)
	}
	return b.String()
}

// A botnet of more than one client in ten sets the limit. A warning tells of it, even if there is no
// gap, if bots are most of the clients, or if they have less than half of all events.
func TestWarnings_OfABotnet(t *testing.T) {
	if race.Enabled {
		t.Skip("takes a minute with the race detector; the other tests run the same code on fewer events")
	}
	honest := [3]int64{1000, 1, 20}
	tests := []struct {
		name    string
		content string
		bots    int // as a warning tells, with some more or less
		text    string
	}{
		{"none", crowds(honest), 0, ""},
		{"busy clients", crowds([3]int64{1000, 1, 200}), 0, ""},
		{"spread", crowds(honest, [3]int64{180, 20, 800}), 180, "% of the events are of 179 clients with 24 or more each, and all others have 20 or fewer. If the first are to be denied, try -percentile 84.8."},
		{"most clients", crowds([3]int64{450, 1, 20}, [3]int64{550, 250, 320}), 550, "In 1m, the percentile 99.9 is 31. But 550 clients are at 19 or above, with 97.204% of the events, and all others at 6 or below. If the first are to be denied, try -percentile 45."},
		{"most clients, spread", crowds([3]int64{450, 1, 20}, [3]int64{550, 20, 800}), 550, ""},
		{"not most events", crowds([3]int64{1000, 30, 60}, [3]int64{120, 200, 260}), 120, "38.229% of the events are of 120 clients with 200 or more each, and all others have 60 or fewer. If the first are to be denied, try -percentile 89.2."},
		{"a crawler, too", crowds(honest, [3]int64{180, 20, 800}, [3]int64{1, 9000, 9000}), 180, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := invoke(tt.content, "-json").report(t)
			var texts []string
			found := tt.bots == 0
			for _, w := range r.Warnings {
				if w.Kind != "two kinds of clients" {
					continue
				}
				texts = append(texts, w.Text)
				clients := regexp.MustCompile(`([0-9]+) clients (are at|with)`).FindStringSubmatch(w.Text)
				require.NotNil(t, clients, w.Text)
				n, _ := strconv.Atoi(clients[1])
				found = found || n*20 > tt.bots*19 && n*20 < tt.bots*21
			}
			assert.True(t, found, texts)
			assert.Equal(t, tt.bots == 0, len(texts) == 0, texts)
			assert.Contains(t, strings.Join(texts, "\n"), tt.text)
		})
	}
}

// Ordinary recordings have no second kind of clients that are more than one in ten. The honeypot's
// are most of its events.
func TestBorder_OfRecordings(t *testing.T) {
	for file, crowd := range map[string]bool{
		"apache_combined_10k.log.gz": false, "nasa_http.tsv.gz": false, "wikipedia_edits.tsv.gz": false, "zeek_ssl.tsv.gz": false, "honeypot_http.tsv.gz": true,
	} {
		name := filepath.Join("../../../../../shared/data", file)
		if _, err := os.Stat(name); err != nil {
			t.Skipf("no recorded traffic: %v", err)
		}
		t.Run(file, func(t *testing.T) {
			r := invoke("", "-json", name).report(t)
			var found bool
			for _, w := range r.Warnings {
				if m := regexp.MustCompile(`try -percentile ([0-9.]+)\.$`).FindStringSubmatch(w.Text); m != nil {
					p, err := strconv.ParseFloat(m[1], 64)
					require.NoError(t, err)
					found = found || p < 90
				}
			}
			assert.Equal(t, crowd, found, r.Warnings)
		})
	}
}

func TestSuggest_LeastCandidateAboveThePercentileWithHeadroom(t *testing.T) {
	counts := make([]int, 199)
	for i := range counts {
		counts[i] = 10
	}
	counts[0] = 59
	tests := []struct {
		args    []string
		limit   string
		clients int
		reason  string
	}{
		{nil, "100/m", 0, "all of 200 clients had at most 59 in any 1m; 1.5 times that is 88.5; 100 is the next candidate. It would have denied no client."},
		{[]string{"-percentile", "99"}, "15/m", 1, "99% of 200 clients had at most 10 in any 1m; 1.5 times that is 15; 15 is the next candidate. It would have denied 44 events (2.156%) of 1 client. The busiest of the others had 10."},
		{[]string{"-percentile", "99", "-headroom", "1"}, "10/m", 1, "99% of 200 clients had at most 10 in any 1m; 10 is the next candidate. It would have denied 49 events"},
		{[]string{"-percentile", "99", "-headroom", "1.1"}, "12/m", 1, "1.1 times that is 11; 12 is the next candidate"},
		{[]string{"-percentile", "0.1"}, "2/m", 199, "It would have denied 1,641 events"},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.args), func(t *testing.T) {
			r := invoke(minutes(counts...), append([]string{"-json", "-window", "1m"}, tt.args...)...).report(t)
			require.NotNil(t, r.Windows[0].Suggested, r.Windows[0].NotSuggested)
			assert.Equal(t, tt.limit, rate(r.Windows[0].Suggested.Limit))
			assert.Equal(t, tt.clients, r.Windows[0].Suggested.Clients)
			assert.Contains(t, r.Windows[0].Suggested.Reason, tt.reason)
		})
	}
}

func TestSuggest_NothingFromAShortRecording(t *testing.T) {
	var b strings.Builder
	for i := range 21 {
		fmt.Fprintf(&b, "%d\ta\n", i*60_000_000)
	}
	got := invoke(b.String())
	assert.Contains(t, got.stdout, "\n  nothing for 1h: the recording covers 20m0s, too short for windows of 1h: 3h0m0s or more would do.\n")
	r := invoke(b.String(), "-json").report(t)
	assert.NotNil(t, r.Windows[1].Suggested)
	assert.Nil(t, r.Windows[2].Suggested)
	assert.Len(t, invoke(b.String(), "-json", "-window", "400s").report(t).Next, 3)
	none := invoke(b.String(), "-json", "-window", "401s").report(t)
	assert.Nil(t, none.Policy)
	assert.Empty(t, none.Next)
}

func TestSuggest_NothingBeyondTheCandidates(t *testing.T) {
	const csv = "when,in\n2026-03-10 00:00:00.5,%d\n2026-03-10 10:00:00,1\n"
	args := []string{"-json", "-time", "when", "-cost", "in", "-headroom", "1"}
	r := invoke(fmt.Sprintf(csv, int64(1e11)), args...).report(t)
	assert.EqualValues(t, 1e11, r.Windows[0].Suggested.Limit.Count)
	r = invoke(fmt.Sprintf(csv, int64(1e11+1)), args...).report(t)
	assert.Contains(t, r.Windows[0].NotSuggested, "no candidate is that large")
	r = invoke("when,in\n2026-03-10 00:00:00.5,0\n2026-03-10 10:00:00,0\n", args...).report(t)
	assert.Contains(t, r.Windows[0].NotSuggested, "no event costs anything")
}

func TestPolicy_LeavesOutWhatAnotherLimitImplies(t *testing.T) {
	tests := []struct{ suggested, policy []sash.Limit }{
		{[]sash.Limit{sash.PerSecond(5), sash.PerMinute(100), sash.PerHour(1000)}, []sash.Limit{sash.PerSecond(5), sash.PerMinute(100), sash.PerHour(1000)}},
		{[]sash.Limit{sash.PerSecond(30), sash.PerMinute(30)}, []sash.Limit{sash.PerMinute(30)}},
		{[]sash.Limit{sash.PerSecond(1), sash.PerMinute(60)}, []sash.Limit{sash.PerSecond(1)}},
		{[]sash.Limit{sash.PerSecond(1), sash.PerMinute(59)}, []sash.Limit{sash.PerSecond(1), sash.PerMinute(59)}},
		{[]sash.Limit{sash.Per(2, 40*time.Second), sash.PerMinute(4)}, []sash.Limit{sash.Per(2, 40*time.Second)}},
		{[]sash.Limit{sash.Per(2, 40*time.Second), sash.PerMinute(3)}, []sash.Limit{sash.Per(2, 40*time.Second), sash.PerMinute(3)}},
	}
	for _, tt := range tests {
		var windows []windowReport
		for _, l := range tt.suggested {
			windows = append(windows, windowReport{Suggested: &suggestion{candidate: candidate{Limit: l}}})
		}
		assert.Equal(t, tt.policy, policy(append(windows, windowReport{})))
	}
}

func TestPolicy_TouchesWhoExceedsALimit(t *testing.T) {
	r := invoke(minutes(4, 5, 6, 30), "-json", "-window", "1m", "-percentile", "40", "-headroom", "1").report(t)
	assert.Equal(t, []sash.Limit{sash.PerMinute(4)}, r.Policy.Limits)
	assert.Equal(t, 3, r.Policy.Clients, "all but the clients with 4 and with 1")
}

func TestReport_TellsWhatALimitAddsNothingTo(t *testing.T) {
	r := invoke(minutes(5, 5, 6))
	assert.Contains(t, r.stdout, "  Enough is 2/s and 10/h: the others add nothing to it. It would have denied no client.\n")
	assert.Contains(t, r.stdout, "sash.PerSecond(2), sash.PerHour(10)}")
}

func TestWarnings(t *testing.T) {
	crowd := make([]int, 300)
	for i := range crowd {
		crowd[i] = 5
	}
	mixed := append([]int{40, 50, 60}, crowd...)
	tests := []struct {
		name, content string
		args          []string
		kinds         []string
		text          string
	}{
		{"none", minutes(append(crowd, crowd...)...), []string{"-window", "1m", "-percentile", "99"}, []string{"short recording"}, "The recording covers 10h0m0s"},
		{"one client", "0\ta\n90000000001\ta\n", []string{"-window", "1m"}, []string{"log"}, "all events are of one client, a: if it is a proxy, name it by -trust, and log X-Forwarded-For"},
		{"few clients", "0\ta\n90000000001\tb\n", []string{"-window", "1m"}, []string{"few clients"}, "With 2 clients, the percentile 99.9 is the busiest of them."},
		{"few clients, but all are meant", "0\ta\n90000000001\tb\n", []string{"-window", "1m", "-percentile", "100"}, nil, ""},
		{"two kinds", minutes(mixed...), []string{"-window", "1m", "-percentile", "99.5"}, []string{"two kinds of clients", "short recording"}, "In 1m, the percentile 99.5 is 50. But 3 clients are at 40 or above, and all others at 5 or below. If the first are to be denied, try -percentile 99.\n"},
		{"two kinds, one of them left out", minutes(mixed...), []string{"-window", "1m", "-percentile", "99"}, []string{"short recording"}, ""},
		{"a crowd", minutes(append(slices.Repeat([]int{59}, 60), crowd...)...), []string{"-window", "1m", "-percentile", "99"}, []string{"two kinds of clients", "short recording"},
			"In 1m, the percentile 99 is 59. But 60 clients are at 59 or above, with 70.210% of the events, and all others at 5 or below. If the first are to be denied, try -percentile 83.3.\n"},
		{"a crowd that is slow", minutes(append(slices.Repeat([]int{59}, 60), crowd...)...), []string{"-window", "1s", "-percentile", "99"}, []string{"two kinds of clients", "short recording"},
			"70.210% of the events are of 60 clients with 59 or more each, and all others have 5 or fewer. If the first are to be denied, try -percentile 83.3.\n"},
		{"a crowd that is left out", minutes(append(slices.Repeat([]int{59}, 60), crowd...)...), []string{"-window", "1m", "-percentile", "83.3"}, []string{"short recording"}, ""},
		{"a dominant client", minutes(append([]int{400}, crowd...)...), []string{"-window", "1m", "-percentile", "99"}, []string{"dominant client", "short recording"}, "21.030% of the events are of one client, c0: a crawler, or many people behind one address?"},
		{"whole seconds", "0\ta\n1000000\ta\n90000000000\tb\n", []string{"-percentile", "100"}, []string{"whole seconds"}, "So a window of 1s may have held up to 2 times what is shown"},
		{"whole seconds, and half a second", "0\ta\n90000000000\tb\n", []string{"-percentile", "100", "-window", "500ms"}, []string{"whole seconds"}, "So a window of 500ms may have held up to"},
		{"a part of a second", "0\ta\n500000\ta\n90000000000\tb\n", []string{"-percentile", "100"}, nil, ""},
		{"whole seconds do not matter", "0\ta\n90000000000\tb\n", []string{"-percentile", "100", "-window", "11s"}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := invoke(tt.content, append([]string{"-json"}, tt.args...)...).report(t)
			var kinds, texts []string
			for _, w := range r.Warnings {
				kinds, texts = append(kinds, w.Kind), append(texts, w.Text)
			}
			assert.Equal(t, tt.kinds, kinds, texts)
			assert.Contains(t, strings.Join(texts, "\n")+"\n", tt.text)
		})
	}
}

// A percentile that a warning tells to try leaves the clients out that it names.
func TestWarnings_PercentileToTryLeavesTheOthersOut(t *testing.T) {
	r := invoke("", "-json", "-percentile", "99.8", shop).report(t)
	for _, v := range r.Windows {
		assert.LessOrEqual(t, v.Suggested.AtPercentile, int64(20), v.Window)
	}
	for _, w := range r.Warnings {
		assert.NotEqual(t, "two kinds of clients", w.Kind)
	}
}

func TestTop_ClientsThatExceedTheSuggestionsMost(t *testing.T) {
	r := invoke("", "-json", "-percentile", "99.8", "-top", "7", shop).report(t)
	var clients []string
	for i, c := range r.Top {
		clients = append(clients, c.Client)
		assert.Equal(t, i < 6, len(c.Above) > 0, c.Client)
	}
	// 1500 in an hour are 50 times the limit of 30, 800 are 27 times, and 193 are 6 times; 600
	// in a minute are 50 times the limit of 12.
	assert.Equal(t, []string{"192.0.2.80", "198.51.100.23", "203.0.113.66", "203.0.113.67", "203.0.113.68", "203.0.113.10", "198.18.170.92"}, clients)
	assert.Empty(t, invoke("", "-json", "-top", "0", shop).report(t).Top)
}

func TestRows_FewCandidatesAroundTheSuggestion(t *testing.T) {
	r := invoke(minutes(1, 1, 1, 1, 1, 1, 1, 1, 1, 9000), "-json", "-window", "1m", "-percentile", "50").report(t)
	v := r.Windows[0]
	v.window = time.Minute
	rows := v.rows()
	assert.EqualValues(t, 1, rows[0].Limit.Count)
	assert.EqualValues(t, 10_000, rows[len(rows)-1].Limit.Count)
	for _, c := range rows[:len(rows)-1] {
		assert.True(t, isCoarse(c.Limit.Count), c.Limit)
	}
	assert.Contains(t, invoke(minutes(1, 2, 3), "-window", "1m").stdout, "5/m        0      0.000%       0     0.000%  <- suggested\n")
	assert.Contains(t, invoke(minutes(1, 1, 90, 90), "-window", "1m", "-percentile", "50").stdout, `
  limit  clients  of clients  events  of events
    2/m        2     40.000%     176    95.652%  <- suggested
    5/m `)
}

func TestShort_IsReadAsItsWindow(t *testing.T) {
	for d, want := range map[time.Duration]string{
		time.Second: "1s", 90 * time.Second: "1m30s", time.Minute: "1m", time.Hour: "1h", 90 * time.Minute: "1h30m",
		10 * time.Hour: "10h", 24 * time.Hour: "1d", 36 * time.Hour: "36h", 250 * time.Millisecond: "250ms", 10 * time.Minute: "10m",
	} {
		assert.Equal(t, want, output.Short(d))
		limit, err := sash.ParseLimit(rate(sash.Per(20, d)) + " log")
		require.NoError(t, err)
		assert.Equal(t, sash.Per(20, d).Log(), limit)
	}
}

func TestPolicyCode_IsGo(t *testing.T) {
	for l, want := range map[sash.Limit]string{
		sash.PerSecond(5):                  "sash.PerSecond(5)",
		sash.PerMinute(100).Log():          "sash.PerMinute(100).Log()",
		sash.PerHour(16):                   "sash.PerHour(16)",
		sash.Per(20, 24*time.Hour).Log():   "sash.Per(20, 24*time.Hour).Log()",
		sash.Per(20, 90*time.Second).Log(): "sash.Per(20, 90*time.Second).Log()",
		sash.Per(2, 1500*time.Microsecond): "sash.Per(2, 1500000)",
	} {
		assert.Equal(t, want, limitCode(l))
	}
	for _, args := range [][]string{{shop}, {"-key", "addr,agent", shop}} {
		code := invoke("", append([]string{"-json"}, args...)...).report(t).Next[1].Code
		_, err := parser.ParseExpr(strings.ReplaceAll(code, "…", "nil"))
		require.NoError(t, err, code)
		assert.Contains(t, code, "Shadow: true")
	}
}
