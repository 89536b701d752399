package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/bench/internal/keys"
	"github.com/seed-30da4c49/sash/bench/internal/report"
	"github.com/seed-30da4c49/sash/bench/internal/rounds"
)

// A comparison divides the time of one subject by the time of another.
type comparison struct {
	of, by string // the names of subjects
	atMost bounds
}

// bounds are the greatest values meant to be measured, by the number of keys. The bound of 0
// holds for all numbers of keys that are not named.
type bounds map[int]float64

// with returns the bound with n keys, or nil if there is none.
func (b bounds) with(n int) *float64 {
	for _, number := range []int{n, 0} {
		if bound, ok := b[number]; ok {
			return &bound
		}
	}
	return nil
}

func always(bound float64) bounds { return bounds{0: bound} }

// comparisons returns what is compared.
func comparisons() []comparison {
	return []comparison{
		{"Take", "Allow", bounds{1000: 1.3, 1_000_000: 1.1}},
		{"Take, denied", "Allow, denied", always(1.8)},
		{"Take", "go-limiter's Take", bounds{1_000_000: 0.5}},
		{"TakeAll of two keys", "Allow", always(4)},
		{"TakeAll of a key and a common one", "Allow", always(3)},
		{"Allow, parts", "Allow", nil},
		{"Take, parts", "Take", nil},
		{"Allow, parts, denied", "Allow, denied", nil},
		{"Take, parts, denied", "Take, denied", nil},
		{"Take, parts, new key", "Take, new key", nil},
		{"Allow, large", "Allow", nil},
		{"Take, large", "Take", nil},
		{"Allow, two limits", "Allow", always(2.5)},
		{"Take, two limits", "Take", always(2.5)},
		{"Allow, two limits, denied", "Allow, denied", always(2.5)},
		{"Take, two limits, denied", "Take, denied", nil},
		{"Allow, four limits", "Allow", nil},
		{"Allow, log and counter", "Allow", nil},
		{"TakeAll of two keys, two limits", "Allow, two limits", nil},
		{"Allow and three stores", "Allow", nil},
		{"a lock and two stores", "a swap", nil},
		{"Allow, log", "Allow", bounds{1: 2, 1000: 2}},
		{"Take, log", "Take", nil},
		{"Allow, log, denied", "Allow, denied", bounds{1: 1.5, 1000: 1.5}},
		{"Take, log, denied", "Take, denied", nil},
		{"Allow, composed key", "Allow", nil},
		{"Take, new key", "go-limiter's Take, new key", nil},
		{"Take, two limits, new key", "Take, new key", nil},
		{"Take, bucket, new key", "Take, new key", nil},
		{"Allow, bucket", "Allow", always(1.2)},
		{"Take, bucket", "Take", always(1.2)},
		{"Allow, bucket, denied", "Allow, denied", always(1.2)},
		{"Take, bucket, denied", "Take, denied", always(1.2)},
		{"Take, bucket, denied", "Allow, bucket, denied", nil},
		{"Allow, bucket", "x/time/rate's Allow", always(0.4)},
		{"Take, log, new key", "Take, new key", nil},
	}
}

// A ratioTest is the results of the experiment so far.
type ratioTest struct {
	*lab
	crowds []*crowd
	held   []*holding
	notes  []string
}

// A crowd is the results for one number of keys and of goroutines.
type crowd struct {
	keys, goroutines int
	subjects         []*subjectTimes
}

// subjectTimes are the results of one subject.
type subjectTimes struct {
	subject
	ns          []float64 // nanoseconds per call, by round
	allocations float64   // per call, of composed keys
	wrong       float64   // the greatest share of answers other than those to measure
}

func planRatios(l *lab) (p plan) {
	t := &ratioTest{lab: l}
	for _, n := range l.keys {
		if int64(n)*bytesOfStage+l.slack() > l.budget {
			t.notes = append(t.notes, fmt.Sprintf(notMeasured+" with %s keys: the limiters would take more than %.0f %% of the free memory.", keys.Label(n), 100*share))
			continue
		}
		p.steps = append(p.steps, step{l.ratiosCost(n), func(ctx context.Context) error {
			crowds, err := l.measureCrowds(ctx, n)
			t.crowds = append(t.crowds, crowds...)
			return err
		}})
	}
	for _, h := range holdings(slices.Max(l.keys)) {
		if int64(h.keys)*bytesOfHolding+l.slack() > l.budget {
			continue // noted above
		}
		p.steps = append(p.steps, step{time.Duration(h.units) * fillCost(h.keys), func(ctx context.Context) error {
			err := h.measure(ctx)
			if err == nil {
				t.held = append(t.held, h)
			}
			return err
		}})
	}
	p.result = func() (report.Result, error) { return t.result(), nil }
	return p
}

// bytesOfStage is about the memory that a stage takes for each of its keys.
const bytesOfStage = 2000

// ratiosCost estimates the duration of measureCrowds.
func (l *lab) ratiosCost(n int) time.Duration {
	each := 4 * time.Microsecond // for one call of every subject
	if n > few {
		each = 12 * time.Microsecond
	}
	return 8*fillCost(n) + time.Duration(len(upTo(2, l.goroutines))*l.roundsOf(1)*l.decisions)*each
}

// measureCrowds lets all subjects take turns, in rounds, for each number of goroutines. With
// few keys each round has limiters of its own, so that no ratio depends on where in memory one
// of them lies. It returns the crowds that are complete.
func (l *lab) measureCrowds(ctx context.Context, n int) (complete []*crowd, err error) {
	defer debug.FreeOSMemory()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	s := &stage{}
	defer func() { s.close() }()
	last := n // the number of the last key that any call was made for
	unseen := func() int { last++; return last }
	for _, g := range upTo(2, l.goroutines) {
		c := &crowd{keys: n, goroutines: g}
		for round := range l.roundsOf(1) {
			if s.subjects == nil || n <= few {
				s.close()
				if s, err = newStage(ctx, n); err != nil {
					return complete, err
				}
			}
			if err := c.round(ctx, l, s, round, unseen); err != nil {
				return complete, err
			}
		}
		complete = append(complete, c)
	}
	return complete, nil
}

// round lets all subjects take their turns once.
func (c *crowd) round(ctx context.Context, l *lab, s *stage, round int, unseen func() int) error {
	tracked, inserted := c.turn(l.decisions, round, nil), c.turn(l.decisions, round, unseen)
	if c.subjects == nil {
		for _, sub := range s.subjects {
			c.subjects = append(c.subjects, &subjectTimes{subject: sub})
		}
	}
	for _, i := range rounds.Order(len(s.subjects), round) {
		if err := ctx.Err(); err != nil {
			return err
		}
		sub, t := s.subjects[i], tracked
		if sub.inserts {
			t = inserted
		}
		c.subjects[i].measure(sub, t)
		if sub.composed && round == 0 {
			c.subjects[i].allocations = allocations(sub.calls, t.scripts[0][0])
		}
		l.tidy()
	}
	return nil
}

// turn returns the calls of a round: for tracked keys, or for those that unseen numbers.
func (c *crowd) turn(decisions, round int, unseen func() int) turn {
	r := row{c.keys, keys.Uniform, admitted, throughput, c.goroutines, callAllow}
	t, _ := r.turn(decisions, int64(round))
	if unseen == nil {
		return t
	}
	for _, scripts := range [][]script{t.warming, t.scripts} {
		for g := range scripts {
			scripts[g] = r.script(len(scripts[g][0]), unseen)
		}
	}
	return t
}

// measure lets s, which is x's subject in this round, take its turn.
func (x *subjectTimes) measure(s subject, t turn) {
	ns, admitted := t.time(func(keys script) int64 { return s.calls(keys[0]) })
	x.ns = append(x.ns, ns)
	wrong := admitted
	if !s.denies {
		wrong = int64(t.decisions()) - admitted
	}
	x.wrong = max(x.wrong, float64(wrong)/float64(t.decisions()))
}

// allocations returns the number of objects that a call allocates, on average. It is the least
// of several tries, since the logs of some keys may have to grow first.
func allocations(calls func(keys []string) int64, keys []string) float64 {
	least := math.Inf(1)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		calls(keys)
		runtime.ReadMemStats(&after)
		least = min(least, float64(after.Mallocs-before.Mallocs)/float64(len(keys)))
	}
	return least
}

// find returns the results of the subject of that name, or nil.
func (c *crowd) find(name string) *subjectTimes {
	for _, x := range c.subjects {
		if x.name == name {
			return x
		}
	}
	return nil
}

// A ratioRecord is one figure in JSON.
type ratioRecord struct {
	Of         string    `json:"of"`
	By         string    `json:"by,omitempty"` // what it is divided by, if it is a ratio
	Unit       string    `json:"unit"`
	Keys       int       `json:"keys"`
	Goroutines int       `json:"goroutines,omitempty"`
	Value      float64   `json:"value"`
	AtMost     *float64  `json:"at_most"`
	Wrong      float64   `json:"wrong_answers,omitempty"` // the greatest share of a turn
	Samples    []float64 `json:"samples,omitempty"`
}

// holds reports whether the value is within its bound, to two decimals as it is shown.
func (r ratioRecord) holds() bool {
	return r.AtMost == nil || math.Round(r.Value*100) <= math.Round(*r.AtMost*100)
}

// cell returns the value, and how it compares with its bound.
func (r ratioRecord) cell() string {
	value := figure(r.Value)
	if r.Unit == "ratio" || r.Unit == "allocations" {
		value = strconv.FormatFloat(r.Value, 'f', 2, 64)
	}
	switch {
	case r.Wrong > 0.001: // more than lost swaps can explain
		return value + "*"
	case r.AtMost == nil:
		return value
	case r.holds():
		return value + " ≤ " + strconv.FormatFloat(*r.AtMost, 'f', -1, 64)
	}
	return "**" + value + " > " + strconv.FormatFloat(*r.AtMost, 'f', -1, 64) + "**"
}

// what returns what the record is about.
func (r ratioRecord) what() string {
	if r.By == "" {
		return r.Of
	}
	return r.Of + " / " + r.By
}

// where returns the conditions of the record.
func (r ratioRecord) where() string {
	where := "keys: " + keys.Label(r.Keys)
	if r.Goroutines > 0 { // else it is memory
		where += ", goroutines: " + strconv.Itoa(r.Goroutines)
	}
	return where
}

// records returns the figures of c.
func (c *crowd) records() (all []ratioRecord) {
	for _, x := range c.subjects {
		r := ratioRecord{Of: x.name, Unit: "ns", Keys: c.keys, Goroutines: c.goroutines, Value: rounds.Median(x.ns), Wrong: x.wrong, Samples: x.ns}
		all = append(all, r)
		if x.composed {
			r.Unit, r.Value, r.AtMost, r.Wrong, r.Samples = "allocations", x.allocations, new(float64), 0, nil
			all = append(all, r)
		}
	}
	for _, m := range comparisons() {
		of, by := c.find(m.of), c.find(m.by)
		if of == nil || by == nil {
			// newStage has no TakeAll of two keys if there is only one key. With more than
			// few keys it leaves out some calls, whose limiters would take seconds to fill.
			continue
		}
		all = append(all, ratioRecord{Of: m.of, By: m.by, Unit: "ratio", Keys: c.keys, Goroutines: c.goroutines, Value: rounds.Ratio(of.ns, by.ns), AtMost: m.atMost.with(c.keys)})
	}
	return all
}

func (t *ratioTest) result() report.Result {
	records := []ratioRecord{}
	for _, c := range t.crowds {
		records = append(records, c.records()...)
	}
	for _, h := range t.held {
		records = append(records, h.records()...)
	}
	return report.Result{Records: records, Notes: t.explanations(), Tables: []report.Table{
		verdict(records),
		matrix("ratios", records, "ratio"),
		matrix("allocations per call", records, "allocations"),
		matrix("bytes per key", records, "bytes"),
		matrix("objects per key", records, "objects"),
		matrix("nanoseconds per call", records, "ns"),
	}}
}

// verdict returns a table of the bounds that are not kept.
func verdict(records []ratioRecord) report.Table {
	judged, kept := 0, 0
	t := report.Table{Columns: []string{"where", "what", "unit", "is"}}
	for _, r := range records {
		switch {
		case r.AtMost == nil:
			continue
		case r.holds():
			kept++
		default:
			t.Rows = append(t.Rows, []string{r.where(), r.what(), r.Unit, r.cell()})
		}
		judged++
	}
	t.Title = fmt.Sprintf("%d of %d bounds are kept", kept, judged)
	return t
}

// matrix returns a table of the records of one unit: a row for what each is about, and a
// column for each of the conditions.
func matrix(title string, records []ratioRecord, unit string) report.Table {
	t := report.Table{Title: title, Columns: []string{unit}}
	for _, r := range records {
		if r.Unit != unit {
			continue
		}
		column := slices.Index(t.Columns, r.where())
		if column < 0 {
			column = len(t.Columns)
			t.Columns = append(t.Columns, r.where())
		}
		row := slices.IndexFunc(t.Rows, func(cells []string) bool { return cells[0] == r.what() })
		if row < 0 {
			row = len(t.Rows)
			t.Rows = append(t.Rows, []string{r.what()})
		}
		for len(t.Rows[row]) <= column {
			t.Rows[row] = append(t.Rows[row], report.None)
		}
		t.Rows[row][column] = r.cell()
	}
	for i := range t.Rows {
		for len(t.Rows[i]) < len(t.Columns) {
			t.Rows[i] = append(t.Rows[i], report.None)
		}
	}
	return t
}

// explanations returns the notes of the result.
func (t *ratioTest) explanations() []string {
	return append(slices.Clone(t.notes),
		"Times are the medians of "+strconv.Itoa(t.roundsOf(1))+" rounds. In a round all calls take turns of "+strconv.Itoa(t.decisions)+" for each core, for the same keys, after a tenth as many to warm up. A ratio is the median of the ratios within rounds. With "+keys.Label(few)+" keys or fewer each round has limiters of its own.",
		"\\*: in some turn, more than a thousandth of the answers were others than those to measure.",
		"The limit is "+list(oneWord)+", which fits into one word. *Large* is "+list(large)+", which does not. *Two limits* are "+list(twoCounters)+"; *four limits* are "+list(fourCounters)+". *Parts* are the default, of 65,535 units in a window so short that calls cannot use them up, and nearly all are in the current part; *parts, denied* and *parts, new key* are of "+list(parts)+". *Log* is of 10 units, in a window so short that they are back as fast as they are charged, and has grown as large as it gets. *Log, denied* is "+list(smallLog)+", used up; so is every limit that is *denied*. *Bucket* is "+list(bucket)+", in one word. *Bucket, denied* is "+list(smallBucket)+", used up. x/time/rate has a limiter for each key in a sync.Map.",
		"The keys are tracked, except each *new key*, for which there was no call before: its limiter begins without keys. A *composed key* is put together in the call, of a prefix and the key. The keys of *TakeAll* are two of the tracked ones, drawn independently.",
		"*Allow and three stores* and *a lock and two stores* are floors: what a charge under two limits, or of a log, must write at least. *A swap* is what a charge of a counter writes. The last two decide nothing, and are of one key, whatever the number of keys.",
		"What a key takes is what the heap holds after a collection. The bytes are without the key itself, on average "+strconv.FormatFloat(meanLength(slices.Max(t.keys)), 'f', 1, 64)+". Units of one key are charged a second apart.")
}

// list returns limits as text.
func list(limits []sash.Limit) string {
	var all []string
	for _, l := range limits {
		all = append(all, l.String())
	}
	return strings.Join(all, " and ")
}
