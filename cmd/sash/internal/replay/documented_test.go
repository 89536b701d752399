package replay

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
	"github.com/seed-30da4c49/sash/internal/race"
)

// algorithmsPage is the document with the tables of this file. It is not in the module.
const algorithmsPage = "../../../../docs/algorithms.md"

// inDocument fails if the page of the algorithms has no such table, and prints the table.
func inDocument(t *testing.T, table string) {
	t.Helper()
	t.Log("\n" + table)
	page, err := os.ReadFile(algorithmsPage)
	if os.IsNotExist(err) {
		t.Skip("this is not the whole repository: docs/algorithms.md is not there")
	}
	require.NoError(t, err)
	require.True(t, strings.Contains(string(page), "\n\n"+table+"\n"), "docs/algorithms.md has not this table:\n%s", table)
}

// A scene makes the requests of an hour. It uses whole numbers only, which are alike on all machines.
type scene struct {
	random *rand.Rand
	lines  []line
}

const (
	sceneLength = 3_600_000 // ms
	sceneStep   = 20        // ms
)

// linesOf returns the lines of a scene, in order of time.
func linesOf(make func(*scene)) []line {
	s := &scene{random: rand.New(rand.NewPCG(2026, 11))}
	make(s)
	slices.SortStableFunc(s.lines, func(a, b line) int { return cmp.Compare(a.micros, b.micros) })
	return s.lines
}

// request adds a request at a time in milliseconds.
func (s *scene) request(client string, at int) {
	if at < sceneLength {
		s.lines = append(s.lines, line{micros: int64(at) * 1000, client: client, Charge: traffic.Charge{Asked: 1, Cost: 1}})
	}
}

// atRandom adds requests of a client at random times. Their average is that many a minute.
func (s *scene) atRandom(client string, perMinute int) {
	for at := 0; at < sceneLength; at += sceneStep {
		if s.random.IntN(60_000) < perMinute*sceneStep {
			s.request(client, at+s.random.IntN(sceneStep))
		}
	}
}

// between returns a number from least to most.
func (s *scene) between(least, most int) int { return least + s.random.IntN(most-least+1) }

// aroundTheLimit adds thirty clients at random times, from half to one and a half times the limit.
func aroundTheLimit(perMinute int) func(*scene) {
	return func(s *scene) {
		for i := range 30 {
			s.atRandom(fmt.Sprint("client", i), max(1, perMinute*(30+2*i)/60))
		}
	}
}

// inBursts adds thirty clients that send 20 to 80 requests within two seconds, and pause.
func inBursts(s *scene) {
	for i := range 30 {
		for at := s.random.IntN(60_000); at < sceneLength; at += s.between(30_000, 90_000) {
			for range s.between(20, 80) {
				s.request(fmt.Sprint("client", i), at+s.random.IntN(2000))
			}
		}
	}
}

// reader adds a person that loads a page of 5 to 15 requests within a second, and reads.
func (s *scene) reader(client string, least, most int) {
	for at := s.random.IntN(most); at < sceneLength; at += s.between(least, most) {
		for range s.between(5, 15) {
			s.request(client, at+s.random.IntN(1000))
		}
	}
}

func readers(s *scene) {
	for i := range 100 {
		s.reader(fmt.Sprint("reader", i), 15_000, 60_000)
	}
}

// offices adds five addresses of 30 people each.
func offices(s *scene) {
	for i := range 150 {
		s.reader(fmt.Sprint("office", i/30), 120_000, 480_000)
	}
}

// scanner adds a client that sends 20 requests a second, between 50 readers.
func scanner(s *scene) {
	for at := 0; at < sceneLength; at += s.between(30, 70) {
		s.request("scanner", at)
	}
	for i := range 50 {
		s.reader(fmt.Sprint("reader", i), 15_000, 60_000)
	}
}

// waiting adds thirty clients that have more to do than the limit admits. A log has answered
// them, and they have waited as long as it told.
func waiting(t *testing.T, limit sash.Limit) func(*scene) {
	return func(s *scene) {
		for i := range 30 {
			clock := sash.NewManualClock(0)
			l, err := sash.New(limit.Log(), sash.WithClock(clock), sash.WithSweepInterval(-1))
			require.NoError(t, err)
			at := s.random.IntN(60_000)
			clock.Advance(time.Duration(at) * time.Millisecond)
			for at < sceneLength {
				s.request(fmt.Sprint("client", i), at)
				pause := s.between(200, 1000)
				if d := l.Take("", 1); !d.Allowed {
					pause = int((d.RetryAfter + time.Millisecond - 1) / time.Millisecond)
				}
				clock.Advance(time.Duration(pause) * time.Millisecond)
				at += pause
			}
			l.Close()
		}
	}
}

// wrongShares returns the shares of events that are wrongly admitted, and wrongly denied.
func wrongShares(v verdict, events int64) string {
	if v.WronglyAdmitted+v.WronglyDenied == 0 {
		return "0"
	}
	share := func(n int64) string {
		if n == 0 {
			return "0"
		}
		return fmt.Sprintf("%.1f%%", 100*float64(n)/float64(events))
	}
	return share(v.WronglyAdmitted) + " + " + share(v.WronglyDenied)
}

// replayed returns what sash replay says of lines under limits.
func replayed(t *testing.T, lines []line, limits ...sash.Limit) report {
	args := []string{"-json"}
	for _, l := range limits {
		args = append(args, "-limit", l.String())
	}
	r := invoke(tsvOf(lines), args...).report(t)
	require.EqualValues(t, len(lines), r.Events)
	return r
}

func TestDocumented_TrafficOfManyKinds(t *testing.T) {
	if race.Enabled {
		t.Skip("takes a minute with the race detector; the other tests run the same code on fewer events")
	}
	t.Parallel()
	limit := sash.PerMinute(60)
	var table strings.Builder
	table.WriteString("| traffic of an hour | requests | the exact log denies | parts deny | wrong | the counter denies | wrong |\n|---|---:|---:|---:|---:|---:|---:|\n")
	for _, tt := range []struct {
		name string
		make func(*scene)
	}{
		{"30 clients at random times, half to one and a half times the limit", aroundTheLimit(60)},
		{"30 clients that send 20 to 80 at once, and pause", inBursts},
		{"100 readers of pages", readers},
		{"150 readers behind 5 addresses", offices},
		{"50 readers, and a scanner that sends 20 a second", scanner},
		{"30 clients with more to do than the limit, which wait as the log tells", waiting(t, limit)},
	} {
		r := replayed(t, linesOf(tt.make), limit.Log(), limit.Parts(), limit.Counter())
		log, parts, counter := r.Limits[0], r.Limits[1], r.Limits[2]
		require.Equal(t, log.Denied, parts.ExactDenied)
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %s | %s | %s |\n", tt.name, humanize.Comma(r.Events), humanize.Comma(log.Denied),
			humanize.Comma(parts.Denied), wrongShares(parts, r.Events), humanize.Comma(counter.Denied), wrongShares(counter, r.Events))
	}
	inDocument(t, table.String())
}

func TestDocumented_SmallCounts(t *testing.T) {
	if race.Enabled {
		t.Skip("takes a minute with the race detector; the other tests run the same code on fewer events")
	}
	t.Parallel()
	counts := []int{1, 3, 5, 10, 16, 60}
	heading, columns := "| wrong under a count of |", "|---|"
	rows := []string{"| parts |", "| the counter |"}
	for _, n := range counts {
		limit := sash.PerMinute(int64(n))
		r := replayed(t, linesOf(aroundTheLimit(n)), limit.Parts(), limit.Counter())
		heading, columns = heading+fmt.Sprintf(" %v |", n), columns+"---:|"
		for i := range rows {
			rows[i] += " " + wrongShares(r.Limits[i], r.Events) + " |"
		}
	}
	inDocument(t, strings.Join([]string{heading, columns, rows[0], rows[1], ""}, "\n"))
}

// Calls to a language model have a cost that is known afterwards: here the tokens of the answer, too.
func TestDocumented_TokensOfALanguageModel(t *testing.T) {
	t.Parallel()
	s := &scene{random: rand.New(rand.NewPCG(2026, 11))}
	var calls []line
	asked := int64(0)
	for at := 0; at < sceneLength; at += sceneStep {
		// Five calls a second, and in every third minute eight.
		perSecond := 5
		if at/60_000%3 == 0 {
			perSecond = 8
		}
		if s.random.IntN(1000) >= perSecond*sceneStep {
			continue
		}
		question, answer := int64(s.between(50, 1000)+s.between(0, 60)*s.between(0, 60)), int64(s.between(20, 600))
		asked += question
		calls = append(calls, line{micros: int64(at) * 1000, client: "team", Charge: traffic.Charge{Asked: question, Cost: question + answer}})
	}
	limit := sash.PerMinute(600_000)
	names, limits := []string{"parts", "the counter", "the log", "buckets of 1 s"}, []sash.Limit{limit.Parts(), limit.Counter(), limit.Log(), limit.Buckets(time.Second)}
	args := []string{"-json", "-time", "when", "-key", "who", "-estimate", "estimate", "-cost", "cost", "-settle", "5s"}
	for _, l := range limits {
		args = append(args, "-limit", l.String())
	}
	r := invoke(csvOf(calls), args...).report(t)
	require.EqualValues(t, len(calls), r.Events)
	var table strings.Builder
	fmt.Fprintf(&table, "| %s calls, %s tokens asked for | denied | of calls | charged above the estimate | most spent in a minute |\n|---|---:|---:|---:|---:|\n", humanize.Comma(r.Events), humanize.Comma(asked))
	for i, v := range r.Limits {
		require.Equal(t, asked, v.Units.Asked)
		fmt.Fprintf(&table, "| %s | %s | %.1f%% | %s | %s |\n", names[i], humanize.Comma(v.Denied), 100*v.DeniedShare, humanize.Comma(v.Units.ChargedAbove), humanize.Comma(v.Units.Peaks[0].Units))
	}
	inDocument(t, table.String())
}
