package main

import (
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

// What the answers are. A key with an odd number is the one that has nothing left
// where half are denied.
const (
	admitted = "admitted"
	half     = "50:50"
	denied   = "denied"
)

// How keys follow each other.
const (
	throughput = "throughput" // they are known beforehand
	latency    = "latency"    // each follows from the last answer
)

var (
	answers = []string{admitted, half, denied}
	modes   = []string{throughput, latency}
)

// A row is one thing to measure of all contenders.
type row struct {
	keys         int
	distribution string
	answer, mode string
	goroutines   int
}

// few is up to how many keys variants of sash and the floor are measured too.
const few = 1_000_000

// A speedTest is rows that are measured, and what is known of them.
type speedTest struct {
	*lab
	rows    []row
	all     []peers.Peer
	samples map[row]map[string]*samples // by contender
	notes   []string
}

// samples are of one contender in one row.
type samples struct {
	peer  peers.Peer
	ns    []float64 // by round
	base  []float64 // of the first contender, in the same round
	wrong float64   // share of answers that were not those that are measured
}

func planSpeed(l *lab) plan {
	variants := append(peers.Variants(), peers.Floor(), peers.CoarseFloor())
	s := &speedTest{lab: l, rows: l.speedRows(), all: append(l.field(), variants...)}
	p := s.plan()
	p.result = func() (report.Result, error) {
		r := s.result()
		if len(s.rows) == 0 {
			r.Notes = append(r.Notes, "**Nothing to measure:** of one key one cannot deny half.")
		}
		r.Notes = append(r.Notes,
			"Nanoseconds a decision, medians of "+strconv.Itoa(l.rounds)+" rounds, with 1,000 keys and fewer of "+strconv.Itoa(l.roundsOf(1))+", in which all take turns of "+strconv.Itoa(l.decisions)+" decisions a core, after a tenth as many to warm up. The last column is how many times what sash takes the fastest peer takes, the median of the rounds: where it is below 1, sash loses.",
			"Throughput: keys are known beforehand; the time of all goroutines over the decisions of all. Latency: each key follows from the last answer, by way of an atomic, so that no two look-ups overlap; what one goroutine waits, while it has a core.",
			"More goroutines than cores share their turn's decisions, which end before the scheduler would take a core from one: such rows are of many that begin and end, not of many that are held up. -decisions makes turns longer.",
			"All keys are tracked. Nobody comes to the end of a window: what is denied has been used up before. Keys are in fresh bytes. Garbage is collected between turns, which spares those that make some.",
			"sash-log and sash-large are of other limits than sash (see below), and no peer's job; they and the coarse clock are measured up to "+keys.Label(few)+" keys. More keys are only asked for what is admitted, unless -answers or -full say otherwise.")
		r.Notes = append(r.Notes, notesOn(s.all)...)
		return r, nil
	}
	return p
}

// speedRows returns the rows that the flags ask for. Unless all is to be measured, more
// goroutines than two are left to throughput with uniform keys, and what takes long to
// use up is not.
func (l *lab) speedRows() (rows []row) {
	for _, n := range l.keys {
		for _, answer := range l.answers {
			if n == 1 && answer == half {
				continue // half of one key
			}
			if n > few && answer != admitted && len(l.answers) == len(answers) && !l.full {
				continue
			}
			for _, mode := range l.modes {
				for _, distribution := range l.distributions {
					if n == 1 && distribution != l.distributions[0] {
						continue // there is nothing to choose
					}
					for _, g := range l.goroutines {
						if l.full || g <= 2 || mode == throughput && distribution == l.distributions[0] {
							rows = append(rows, row{n, distribution, answer, mode, g})
						}
					}
				}
			}
		}
	}
	return rows
}

// plan measures the rows of one number of keys after the other, each with as many
// contenders at a time as fit into memory.
func (s *speedTest) plan() (p plan) {
	s.samples = map[row]map[string]*samples{}
	for _, n := range s.keys {
		if !slices.ContainsFunc(s.rows, func(r row) bool { return r.keys == n }) {
			continue
		}
		of := s.all
		if n > few {
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

// groups divides contenders into groups that fit into memory with n keys each. The
// first contender is in all of them, since the others are compared with it.
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

// measure returns the steps that measure all rows of n keys with one group.
func (s *speedTest) measure(n int, group []peers.Peer) (steps []step) {
	tables := make([]peers.Table, len(group))
	for i, p := range group {
		steps = append(steps, step{fillCost(n), func(ctx context.Context) error {
			tables[i] = p.New(peers.Plenty)
			return fill(ctx, p, tables[i], n)
		}})
	}
	used := false // of odd keys
	for _, answer := range answers {
		rows := slices.DeleteFunc(slices.Clone(s.rows), func(r row) bool { return r.keys != n || r.answer != answer })
		if len(rows) == 0 {
			continue
		}
		if answer != admitted {
			steps = append(steps, exhaust(group, tables, n, answer == denied, used)...)
			used = true
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

// exhaust returns the steps that leave nothing to keys with odd numbers, or to all; of
// which odd ones may have nothing left already.
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

// cost is about how long a row takes.
func (s *speedTest) cost(n int, group []peers.Peer) time.Duration {
	each := 150 // ns
	if n > 1000 {
		each = 900
	}
	return time.Duration((s.roundsOf(n)+1)*s.decisions) * time.Duration(1000+each*len(group)) * time.Nanosecond
}

// roundsOf returns how many rounds there are with n keys.
func (l *lab) roundsOf(n int) int {
	if n > 1000 {
		return l.rounds
	}
	return 5 * l.rounds
}

// row measures one row of the contenders that can do it.
func (s *speedTest) row(ctx context.Context, r row, group []peers.Peer, tables []peers.Table) error {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var able []int
	for i, p := range group {
		if r.answer == admitted || !p.Free && tables[i].Exhaust != nil {
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
			ns[i], got = t.run(tables[i].Allow)
			s.sample(r, group[i]).count(r, got, yes, t.decisions())
			s.tidy()
		}
		if round == 0 {
			continue // which finds everything cold
		}
		for _, i := range able {
			x := s.sample(r, group[i])
			x.ns, x.base = append(x.ns, ns[i]), append(x.base, ns[0])
		}
	}
	return nil
}

// turn returns what all goroutines ask in a round, and how many of the keys they are
// known to ask for have something left.
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

// count notes how many answers were wrong. How many yeses are wanted is not known where
// the answers choose among keys of both kinds.
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

// doubtful reports whether more answers were wrong than lost swaps explain.
func (x *samples) doubtful() bool { return x.wrong > 0.001 }

// tidy collects garbage if much of it lies about, while nobody is measured.
func (l *lab) tidy() {
	if readMetric("/memory/classes/heap/objects:bytes")-readMetric("/gc/heap/live:bytes") > float64(l.slack())/2 {
		runtime.GC()
	}
}

// readMetric reads a metric of the runtime, of either kind of number.
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
	Goroutines   int       `json:"goroutines"`
	Impl         string    `json:"impl"`
	Clock        string    `json:"clock"`
	Ns           float64   `json:"ns_per_decision"` // the median
	Times        *float64  `json:"times_sash"`      // the median of ratios within rounds
	Wrong        float64   `json:"wrong_answers"`   // their greatest share
	Samples      []float64 `json:"samples_ns"`
}

// result sums up what was measured so far.
func (s *speedTest) result() report.Result {
	records := []speedRecord{}
	for _, r := range s.rows {
		for _, p := range s.all {
			if x := s.samples[r][p.Label()]; x != nil && len(x.ns) > 0 {
				records = append(records, speedRecord{
					r.keys, r.distribution, r.answer, r.mode, r.goroutines, p.Name, p.Clock,
					rounds.Median(x.ns), finite(rounds.Ratio(x.ns, x.base)), x.wrong, x.ns,
				})
			}
		}
	}
	return report.Result{Records: records, Tables: s.tables(), Plots: s.plots(), Notes: slices.Clone(s.notes)}
}

func (s *speedTest) tables() (tables []report.Table) {
	for _, mode := range modes {
		for _, answer := range answers {
			t := report.Table{Title: mode + ", " + answer, Columns: []string{"keys", "asked for", "goroutines"}}
			rows := slices.DeleteFunc(slices.Clone(s.rows), func(r row) bool {
				return r.mode != mode || r.answer != answer || s.samples[r] == nil
			})
			of := slices.DeleteFunc(slices.Clone(s.all), func(p peers.Peer) bool {
				return !slices.ContainsFunc(rows, func(r row) bool { return s.samples[r][p.Label()] != nil })
			})
			for _, p := range of {
				t.Columns = append(t.Columns, p.Label())
			}
			t.Columns = append(t.Columns, "fastest peer", "× sash")
			for _, r := range rows {
				t.Rows = append(t.Rows, s.line(r, of))
				t.Notes = append(t.Notes, s.doubts(r)...)
			}
			if len(t.Rows) > 0 {
				tables = append(tables, t)
			}
		}
	}
	return tables
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

// fastest returns the peer that takes least beside sash, and how many times what sash
// takes; 0 if there is none.
func (s *speedTest) fastest(r row) (fastest peers.Peer, ratio float64) {
	for _, p := range s.field()[1:] {
		if x := s.samples[r][p.Label()]; x != nil && len(x.ns) > 0 {
			if own := rounds.Ratio(x.ns, x.base); ratio == 0 || own < ratio {
				fastest, ratio = p, own
			}
		}
	}
	return fastest, ratio
}

// doubts says whose answers in a row were not those that the row is about.
func (s *speedTest) doubts(r row) (notes []string) {
	for _, p := range s.all {
		if x := s.samples[r][p.Label()]; x != nil && x.doubtful() {
			notes = append(notes, fmt.Sprintf("\\* %s with %s keys, %s, goroutines: %d: up to %.1f %% of its answers were others.",
				p.Label(), keys.Label(r.keys), r.distribution, r.goroutines, 100*x.wrong))
		}
	}
	return notes
}

// plots draws, for one goroutine, times by number of keys, and, for most goroutines,
// those of one number of keys.
func (s *speedTest) plots() (plots []report.Plot) {
	at := func(n, goroutines int, answer, mode string) row {
		return row{n, s.distributions[0], answer, mode, goroutines}
	}
	for _, mode := range s.modes {
		for _, answer := range s.answers {
			var rows []row
			for _, n := range s.keys {
				rows = append(rows, at(n, s.goroutines[0], answer, mode))
			}
			p := s.plot(rows, func(r row) string { return keys.Label(r.keys) })
			p.Name, p.X = mode+"-"+fileName(answer), "keys, "+s.distributions[0]
			p.Title = fmt.Sprintf("%s, %s, goroutines: %d", mode, answer, s.goroutines[0])
			plots = append(plots, p)
		}
	}
	for _, answer := range s.answers {
		n := s.keys[min(1, len(s.keys)-1)]
		var rows []row
		for _, g := range s.goroutines {
			rows = append(rows, at(n, g, answer, throughput))
		}
		p := s.plot(rows, func(r row) string { return strconv.Itoa(r.goroutines) })
		p.Name, p.X = "goroutines-"+fileName(answer), "goroutines"
		p.Title = fmt.Sprintf("throughput, %s, %s keys", answer, keys.Label(n))
		plots = append(plots, p)
	}
	return plots
}

func (s *speedTest) plot(rows []row, place func(row) string) report.Plot {
	p := report.Plot{Y: "ns a decision"}
	for _, r := range rows {
		p.Places = append(p.Places, place(r))
	}
	for _, c := range s.all {
		line := report.Series{Name: c.Label()}
		for _, r := range rows {
			ns := math.NaN()
			if x := s.samples[r][c.Label()]; x != nil {
				ns = rounds.Median(x.ns)
			}
			line.Values = append(line.Values, ns)
		}
		p.Series = append(p.Series, line)
	}
	return p
}

// fileName returns an answer as it stands in the name of a file.
func fileName(answer string) string {
	if answer == half {
		return "half"
	}
	return answer
}
