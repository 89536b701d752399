package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"time"

	"github.com/seed-30da4c49/sash/bench/internal/keys"
	"github.com/seed-30da4c49/sash/bench/internal/peers"
	"github.com/seed-30da4c49/sash/bench/internal/report"
	"github.com/seed-30da4c49/sash/bench/internal/rounds"
)

// The answers to measure. If half are denied, those are the calls for keys with odd numbers,
// which have nothing left.
const (
	admitted = "admitted"
	half     = "50:50"
	denied   = "denied"
)

// The modes of calls.
const (
	throughput = "throughput" // all keys are known beforehand
	latency    = "latency"    // each key depends on the last answer
)

// The calls. Where a limiter has only one of Allow and Take, Allow is that one, and Take is not
// measured unless it returns more than yes or no.
const (
	callAllow   = "Allow"   // for yes or no
	callTake    = "Take"    // for what is left, or how long to wait, as well
	callCompose = "Compose" // Allow of a key that the call puts together of two parts
)

var (
	answers = []string{admitted, half, denied}
	modes   = []string{throughput, latency}
	calls   = []string{callAllow, callTake, callCompose}
)

// A row is the conditions of one measurement of all contenders.
type row struct {
	keys         int
	distribution string
	answer, mode string
	goroutines   int
	call         string
}

// maxVariantKeys is the greatest number of keys for which variants of sash are measured, and the steps of a decision.
const maxVariantKeys = 1_000_000

// A speedTest is the rows to measure, and the results so far.
type speedTest struct {
	*lab
	rows    []row
	all     []peers.Peer
	others  []peers.Peer                // the fastest of them is compared with the first of all
	samples map[row]map[string]*samples // by contender
	notes   []string
}

// samples are the results of one contender in one row.
type samples struct {
	peer  peers.Peer
	ns    []float64 // nanoseconds per decision, by round
	base  []float64 // times of the first contender, by round
	wrong float64   // the greatest share of answers other than those to measure
}

func planSpeed(l *lab) plan {
	// If memory is short, contenders are measured in groups. The first group has the default and the floor, which
	// the picture shows.
	all := append(slices.Insert(l.field(), 1, peers.Default(), peers.Floor()), peers.Variants()...)
	s := &speedTest{lab: l, rows: l.speedRows(), all: all, others: l.field()[1:]}
	p := s.plan()
	p.result = func() (report.Result, error) {
		r := s.result()
		if len(s.rows) == 0 {
			r.Notes = append(r.Notes, "**Nothing to measure:** half of one key cannot be denied.")
		}
		r.Notes = append(r.Notes,
			"Nanoseconds per decision, the medians of "+strconv.Itoa(l.rounds)+" rounds, and with 1,000 keys or fewer of "+strconv.Itoa(l.roundsOf(1))+". In a round all contenders take turns of "+strconv.Itoa(l.decisions)+" decisions per core, after a tenth as many to warm up. The last column is the time of the fastest other contender divided by the time of sash, the median of the ratios within rounds. Where it is below 1, sash loses.",
			"Throughput: keys are known beforehand; the time divided by the decisions of all goroutines. Latency: each key depends on the last answer, by an atomic, so that no two look-ups overlap; the time that one goroutine waits while it has a core.",
			"More goroutines than cores share the decisions of a turn. These end before the scheduler would preempt a goroutine, so such rows measure many goroutines that begin and end, not many that are preempted. -decisions makes turns longer.",
			"Take is the call that also returns what is left, or how long to wait; with sash and x-time-rate that is another call than Allow, with the others in its tables the only one they have. For x-time-rate it is a reservation, cancelled if denied, which does not tell what is left. Take is measured in throughput, of "+l.distributions[0]+" keys, by one goroutine, two, and one for each core, unless -full is given.",
			"Compose is Allow, or the only call, of a key that is put together of two strings in the call, measured as Take is. Where the limiter lets the key escape, that is an allocation.",
			"All keys are tracked. No window ends while calls are measured; exhausted keys were exhausted before. Keys are in new bytes. Garbage is collected between turns, which favours limiters that allocate.",
			"sash is a counter, and sash-default the algorithm that a limit has by default; sash-default, sash-log and sash-large have other limits than sash (see below). sash-log, sash-large and the coarse clock are measured up to "+keys.Label(maxVariantKeys)+" keys. With more keys only admitted calls are measured, unless -answers or -full are given.")
		r.Notes = append(r.Notes, notesOn(s.all)...)
		return r, nil
	}
	return p
}

// speedRows returns the rows for the flags. Without -full, it leaves out those that measures
// leaves out, and many keys are not exhausted.
func (l *lab) speedRows() (rows []row) {
	for _, n := range l.keys {
		for _, answer := range l.answers {
			if n == 1 && answer == half {
				continue // one key has no half
			}
			if n > maxVariantKeys && answer != admitted && len(l.answers) == len(answers) && !l.full {
				continue
			}
			for _, mode := range l.modes {
				for _, distribution := range l.distributions {
					if n == 1 && distribution != l.distributions[0] {
						continue // all distributions of one key are the same
					}
					for _, g := range l.goroutines {
						for _, call := range l.calls {
							if r := (row{n, distribution, answer, mode, g, call}); l.measures(r) {
								rows = append(rows, r)
							}
						}
					}
				}
			}
		}
	}
	return rows
}

// measures reports whether r is measured without -full. More than two goroutines are measured only in
// throughput with uniform keys, and so are Take and Compose, by one goroutine, two, and one for each core.
func (l *lab) measures(r row) bool {
	plain := r.mode == throughput && r.distribution == l.distributions[0]
	few := r.goroutines <= 2
	if r.call != callAllow {
		return l.full || plain && (few || r.goroutines == runtime.GOMAXPROCS(0))
	}
	return l.full || few || plain
}

// plan returns the steps of all rows. Rows with the same number of keys share tables, and
// contenders that do not fit into memory at once are measured in groups.
func (s *speedTest) plan() (p plan) {
	s.samples = map[row]map[string]*samples{}
	for _, n := range s.keys {
		if !slices.ContainsFunc(s.rows, func(r row) bool { return r.keys == n }) {
			continue
		}
		of := s.all
		if n > maxVariantKeys {
			of = slices.DeleteFunc(slices.Clone(of), func(p peers.Peer) bool {
				return p.Name != "sash" && slices.ContainsFunc(peers.Variants(), func(v peers.Peer) bool { return v.Name == p.Name }) || p.Clock == "coarse"
			})
		}
		groups, left := s.groups(n, of)
		for _, out := range left {
			s.notes = append(s.notes, leftOut("with "+keys.Label(n)+" keys", out))
		}
		for _, g := range groups {
			p.steps = append(p.steps, s.measure(n, g)...)
		}
	}
	return p
}

// groups divides contenders into groups whose tables with n keys fit into memory. The first
// contender is in all groups, since the others are compared with it.
func (l *lab) groups(n int, all []peers.Peer) (groups [][]peers.Peer, left []peers.Peer) {
	base := all[0]
	if !l.fits(n, base) {
		return nil, all
	}
	rest := slices.Clone(all[1:])
	for {
		group := []peers.Peer{base}
		rest = slices.DeleteFunc(rest, func(p peers.Peer) bool {
			if !l.fits(n, append(slices.Clone(group), p)...) {
				return false
			}
			group = append(group, p)
			return true
		})
		if len(group) > 1 || len(groups) == 0 {
			groups = append(groups, group)
		}
		if len(group) == 1 || len(rest) == 0 {
			return groups, rest
		}
	}
}

// measure returns the steps that measure all rows with n keys for one group.
func (s *speedTest) measure(n int, group []peers.Peer) (steps []step) {
	tables := make([]peers.Table, len(group))
	for i, p := range group {
		steps = append(steps, step{fillCost(n), func(ctx context.Context) error {
			tables[i] = p.New(peers.PlentyOf(n))
			return fill(ctx, p, tables[i], n)
		}})
	}
	exhausted := false // whether odd keys have nothing left
	for _, answer := range answers {
		rows := slices.DeleteFunc(slices.Clone(s.rows), func(r row) bool { return r.keys != n || r.answer != answer })
		if len(rows) == 0 {
			continue
		}
		if answer != admitted {
			steps = append(steps, exhaust(group, tables, n, answer == denied, exhausted)...)
			exhausted = true
		}
		for _, r := range rows {
			steps = append(steps, step{s.cost(n, group), func(ctx context.Context) error { return s.row(ctx, r, group, tables) }})
		}
	}
	return append(steps, step{0, func(context.Context) error {
		for i := range tables {
			tables[i].Close()
			tables[i] = peers.Table{}
		}
		debug.FreeOSMemory()
		return nil
	}})
}

// exhaust returns the steps that exhaust keys with odd numbers, or with all, all keys. odd is
// whether odd keys are exhausted already.
func exhaust(group []peers.Peer, tables []peers.Table, n int, all, odd bool) (steps []step) {
	for i, p := range group {
		if p.Free {
			continue
		}
		steps = append(steps, step{fillCost(n) / 4, func(ctx context.Context) error {
			if tables[i].Exhaust == nil {
				return nil
			}
			return forEach(ctx, n, runtime.GOMAXPROCS(0), func(k int) {
				if k%2 == 1 && !odd || k%2 == 0 && all {
					tables[i].Exhaust(keys.New(k))
				}
			})
		}})
	}
	return steps
}

// cost estimates the duration of a row.
func (s *speedTest) cost(n int, group []peers.Peer) time.Duration {
	each := 150 // ns
	if n > 1000 {
		each = 900
	}
	return time.Duration((s.roundsOf(n)+1)*s.decisions) * time.Duration(1000+each*len(group)) * time.Nanosecond
}

// roundsOf returns the number of rounds for n keys.
func (l *lab) roundsOf(n int) int {
	if n > 1000 {
		return l.rounds
	}
	return 5 * l.rounds
}

// row measures one row, for the contenders that can give its answers.
func (s *speedTest) row(ctx context.Context, r row, group []peers.Peer, tables []peers.Table) error {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var able []int
	for i, p := range group {
		answers := r.answer == admitted || !p.Free && tables[i].Exhaust != nil
		if answers && callOf(tables[i], r.call) != nil {
			able = append(able, i)
		}
	}
	ns := make([]float64, len(group))
	for round := range 1 + s.roundsOf(r.keys) {
		t, yes := r.turn(s.decisions, int64(round))
		for _, k := range rounds.Order(len(able), round) {
			if err := ctx.Err(); err != nil {
				return err
			}
			i := able[k]
			var got int64
			ns[i], got = t.run(callOf(tables[i], r.call))
			s.sample(r, group[i]).count(r, got, yes, t.decisions())
			s.tidy()
		}
		if round == 0 {
			continue // the first round runs with cold caches
		}
		for _, i := range able {
			x := s.sample(r, group[i])
			x.ns, x.base = append(x.ns, ns[i]), append(x.base, ns[0])
		}
	}
	return nil
}

// callOf returns a call of a table, or nil if it has none such.
func callOf(table peers.Table, call string) func(key string) bool {
	switch {
	case call == callTake:
		return table.Take
	case call == callAllow:
		return table.Allow
	case table.Compose == nil:
		return nil
	}
	return func(key string) bool { return table.Compose(key[:len(key)/2], key[len(key)/2:]) }
}

// turn returns the calls of a round, and the number of calls that will be admitted, as far as
// that is known.
func (r row) turn(decisions int, round int64) (t turn, yes int64) {
	t.chained = r.mode == latency
	each := max(1, decisions*min(r.goroutines, runtime.GOMAXPROCS(0))/r.goroutines)
	for g := range r.goroutines {
		choose := keys.Chooser(r.distribution, r.keys, round<<20+int64(g))
		t.warming = append(t.warming, r.script(each/10, choose))
		t.scripts = append(t.scripts, r.script(each, func() int {
			k := choose()
			if r.answer == admitted || r.answer == half && k%2 == 0 {
				yes++
			}
			return k
		}))
	}
	return t, yes
}

func (r row) script(n int, choose func() int) (s script) {
	s[0] = keys.Script(n, choose)
	if r.mode == latency {
		s[1] = keys.Script(n, choose)
	}
	return s
}

func (s *speedTest) sample(r row, p peers.Peer) *samples {
	if s.samples[r] == nil {
		s.samples[r] = map[string]*samples{}
	}
	if s.samples[r][p.Label()] == nil {
		s.samples[r][p.Label()] = &samples{peer: p}
	}
	return s.samples[r][p.Label()]
}

// count records the share of wrong answers. It is not known if the answers themselves choose
// among exhausted keys and others.
func (x *samples) count(r row, got, want int64, of int) {
	if r.mode == latency {
		switch r.answer {
		case half:
			return
		case admitted:
			want = int64(of)
		}
	}
	wrong := got - want
	if !x.peer.Free {
		x.wrong = max(x.wrong, math.Abs(float64(wrong))/float64(of))
	}
}

// doubtful reports whether more answers were wrong than lost swaps can explain.
func (x *samples) doubtful() bool { return x.wrong > 0.001 }

// tidy collects garbage if there is much of it. It is called between turns.
func (l *lab) tidy() {
	if readMetric("/memory/classes/heap/objects:bytes")-readMetric("/gc/heap/live:bytes") > float64(l.slack())/2 {
		runtime.GC()
	}
}

// readMetric returns a runtime metric as a float64.
func readMetric(name string) float64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	if sample[0].Value.Kind() == metrics.KindFloat64 {
		return sample[0].Value.Float64()
	}
	return float64(sample[0].Value.Uint64())
}

// A speedRecord is one figure in JSON.
type speedRecord struct {
	Keys         int       `json:"keys"`
	Distribution string    `json:"dist"`
	Answer       string    `json:"answer"`
	Mode         string    `json:"mode"`
	Call         string    `json:"call"`
	Goroutines   int       `json:"goroutines"`
	Impl         string    `json:"impl"`
	Clock        string    `json:"clock"`
	Ns           float64   `json:"ns_per_decision"` // the median
	Times        *float64  `json:"times_sash"`      // the median of the ratios within rounds
	Wrong        float64   `json:"wrong_answers"`   // the greatest share of a turn
	Samples      []float64 `json:"samples_ns"`
}

// result returns the results so far.
func (s *speedTest) result() report.Result {
	records := []speedRecord{}
	for _, r := range s.rows {
		for _, p := range s.all {
			if x := s.samples[r][p.Label()]; x != nil && len(x.ns) > 0 {
				records = append(records, speedRecord{
					r.keys, r.distribution, r.answer, r.mode, r.call, r.goroutines, p.Name, p.Clock,
					rounds.Median(x.ns), finite(rounds.Ratio(x.ns, x.base)), x.wrong, x.ns,
				})
			}
		}
	}
	return report.Result{Records: records, Tables: s.tables(), Plots: s.plots(), Notes: slices.Clone(s.notes)}
}

func (s *speedTest) tables() (tables []report.Table) {
	for _, call := range calls {
		for _, mode := range modes {
			for _, answer := range answers {
				if t := s.table(call, mode, answer); len(t.Rows) > 0 {
					tables = append(tables, t)
				}
			}
		}
	}
	return tables
}

func (s *speedTest) table(call, mode, answer string) report.Table {
	t := report.Table{Title: call + ", " + mode + ", " + answer, Columns: []string{"keys", "asked for", "goroutines"}}
	rows := slices.DeleteFunc(slices.Clone(s.rows), func(r row) bool {
		return r.call != call || r.mode != mode || r.answer != answer || s.samples[r] == nil
	})
	of := slices.DeleteFunc(slices.Clone(s.all), func(p peers.Peer) bool {
		return !slices.ContainsFunc(rows, func(r row) bool { return s.samples[r][p.Label()] != nil })
	})
	for _, p := range of {
		t.Columns = append(t.Columns, p.Label())
	}
	t.Columns = append(t.Columns, "fastest other", "× sash")
	for _, r := range rows {
		t.Rows = append(t.Rows, s.line(r, of))
		t.Notes = append(t.Notes, s.doubts(r)...)
	}
	return t
}

// line returns the cells of a row of a table.
func (s *speedTest) line(r row, of []peers.Peer) []string {
	distribution := r.distribution
	if r.keys == 1 {
		distribution = report.None
	}
	cells := []string{keys.Label(r.keys), distribution, strconv.Itoa(r.goroutines)}
	for _, p := range of {
		cell := report.None
		if x := s.samples[r][p.Label()]; x != nil {
			cell = figure(rounds.Median(x.ns))
			if x.doubtful() {
				cell += "*"
			}
		}
		cells = append(cells, cell)
	}
	if p, ratio := s.fastest(r); ratio > 0 {
		return append(cells, p.Name, times(ratio))
	}
	return append(cells, report.None, report.None)
}

// fastest returns the peer of s.others that takes least, and how many times what sash
// takes; 0 if there is none.
func (s *speedTest) fastest(r row) (fastest peers.Peer, ratio float64) {
	for _, p := range s.others {
		if x := s.samples[r][p.Label()]; x != nil && len(x.ns) > 0 {
			if own := rounds.Ratio(x.ns, x.base); ratio == 0 || own < ratio {
				fastest, ratio = p, own
			}
		}
	}
	return fastest, ratio
}

// doubts returns a note for each contender whose answers differ from the row.
func (s *speedTest) doubts(r row) (notes []string) {
	for _, p := range s.all {
		if x := s.samples[r][p.Label()]; x != nil && x.doubtful() {
			notes = append(notes, fmt.Sprintf("\\* %s with %s keys, %s, goroutines: %d: up to %.1f %% of its answers were others.",
				p.Label(), keys.Label(r.keys), r.distribution, r.goroutines, 100*x.wrong))
		}
	}
	return notes
}

// plots returns plots of the times by the number of keys, for one goroutine, and by the
// number of goroutines, for one number of keys.
func (s *speedTest) plots() (plots []report.Plot) {
	at := func(n, goroutines int, answer, mode string) row {
		return row{n, s.distributions[0], answer, mode, goroutines, s.calls[0]}
	}
	for _, mode := range s.modes {
		for _, answer := range s.answers {
			p := report.Plot{Name: mode + "-" + fileName(answer), X: "keys"}
			if mode == throughput && answer == admitted {
				p.Name = "keys"
			}
			p.Title = fmt.Sprintf("Nanoseconds a decision by the number of keys, %s: %s, %s, %s, goroutines: %d", s.distributions[0], s.calls[0], mode, answer, s.goroutines[0])
			var rows []row
			for _, n := range s.keys {
				rows = append(rows, at(n, s.goroutines[0], answer, mode))
				p.Places, p.At = append(p.Places, keys.Label(n)), append(p.At, float64(n))
			}
			plots = append(plots, s.plot(p, rows))
		}
	}
	for _, answer := range s.answers {
		n := s.keys[min(1, len(s.keys)-1)]
		p := report.Plot{Name: "goroutines-" + fileName(answer), X: "goroutines"}
		p.Title = fmt.Sprintf("Nanoseconds a decision by the number of goroutines: %s, %s, %s keys", s.calls[0], answer, keys.Label(n))
		var rows []row
		for _, g := range s.goroutines {
			rows = append(rows, at(n, g, answer, throughput))
			p.Places, p.At = append(p.Places, strconv.Itoa(g)), append(p.At, float64(g))
		}
		plots = append(plots, s.plot(p, rows))
	}
	return plots
}

// plot completes p with the times of rows: of sash with its default and with a counter, of the nearest peers,
// and of the floor.
func (s *speedTest) plot(p report.Plot, rows []row) report.Plot {
	p.Y = "ns a decision"
	for _, c := range slices.Concat([]peers.Peer{peers.Default(), s.all[0]}, s.nearest(rows), []peers.Peer{peers.Floor()}) {
		p.Series = append(p.Series, series(c, s.medians(c, rows)))
	}
	return p
}

// medians returns the time of a contender in each row, or NaN.
func (s *speedTest) medians(of peers.Peer, rows []row) (ns []float64) {
	for _, r := range rows {
		median := math.NaN()
		if x := s.samples[r][of.Label()]; x != nil {
			median = rounds.Median(x.ns)
		}
		ns = append(ns, median)
	}
	return ns
}

// nearest returns the four of s.others with the least geometric means of the times in rows.
func (s *speedTest) nearest(rows []row) []peers.Peer {
	own := s.medians(s.all[0], rows)
	mean := func(p peers.Peer) (sum float64) {
		for i, ns := range s.medians(p, rows) {
			if math.IsNaN(own[i]) {
				continue // no contender was measured
			}
			sum += math.Log(ns)
		}
		if math.IsNaN(sum) {
			return math.Inf(1)
		}
		return sum
	}
	all := slices.SortedStableFunc(slices.Values(s.others), func(a, b peers.Peer) int { return cmp.Compare(mean(a), mean(b)) })
	return all[:min(4, len(all))]
}

// fileName returns the form of an answer that is used in names of files.
func fileName(answer string) string {
	if answer == half {
		return "half"
	}
	return answer
}
