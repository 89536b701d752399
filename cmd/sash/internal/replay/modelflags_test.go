package replay_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// settings are the command line of a program, and what the reference needs of it.
type settings struct {
	dir     string // of files
	args    []string
	given   []string // the names of the flags, for the count of what was crossed
	form    *form
	logger  *logger
	key     []keyPart // nil is the default
	none    bool      // -key none, or columns without -key
	trust   []netip.Prefix
	cost    string
	windows []time.Duration
	begin   int64 // of the recording, in Unix nanoseconds
	selection

	percentile, headroom string
	top                  int
	svg                  string // the file
	policy, name         string // the file that the policy is added to, and its name there
	ambiguous            bool   // whether nothing tells which of two addresses is the client
	attacked             bool   // whether some clients are a botnet

	by      []string // fields that the same program is run by, too; nil: none
	reading []string // args, without the flags that write files
}

// A flagOf is a flag of suggest. Its function gives it to some programs, in the way of the form,
// and must leave the settings alone in the others.
type flagOf struct {
	name string
	add  func(s *settings, r *rand.Rand)
}

// flags are all flags of suggest, in the order in which programs choose them.
var flags = []flagOf{
	{"format", (*settings).chooseFormat},
	{"time", (*settings).chooseTime},
	{"unit", (*settings).chooseUnit},
	{"separator", (*settings).chooseSeparator},
	{"key", (*settings).chooseKey},
	{"trust", (*settings).chooseTrust},
	{"cost", (*settings).chooseCost},
	{"window", (*settings).chooseWindows},
	{"from", (*settings).chooseFrom},
	{"to", (*settings).chooseTo},
	{"without", (*settings).chooseWithout},
	{"where", (*settings).chooseWhere},
	{"percentile", func(s *settings, r *rand.Rand) {
		if r.IntN(4) > 0 {
			s.percentile = pick(r, []string{"0.1", "5", "12.5", "25", "25", "33", "40", "50", "50", "66.6", "75", "80", "90", "95.5", "99", "100"})
			s.give("percentile", s.percentile, r)
		}
	}},
	{"headroom", func(s *settings, r *rand.Rand) {
		if r.IntN(3) > 0 {
			s.headroom = pick(r, []string{"1", "1", "1", "1", "1", "1.1", "1.25", "2", "3", "10"})
			s.give("headroom", s.headroom, r)
		}
	}},
	{"top", func(s *settings, r *rand.Rand) {
		if r.IntN(3) == 0 {
			s.top = r.IntN(4) * 20
			s.give("top", []string{"0", "20", "40", "60"}[s.top/20], r)
		}
	}},
	{"name", func(s *settings, r *rand.Rand) {
		if r.IntN(6) == 0 {
			s.name = pick(r, []string{"api", "log in", "42", `it's "1": #x`})
			s.give("name", s.name, r)
		}
	}},
	{"policy", (*settings).choosePolicy},
	{"json", func(s *settings, r *rand.Rand) {
		if r.IntN(2) == 0 {
			s.give("json", "", r)
		}
	}},
	{"svg", func(s *settings, r *rand.Rand) {
		if r.IntN(40) == 0 {
			s.svg = filepath.Join(s.dir, fmt.Sprintf("picture %d of $it.svg", r.Uint32()))
			s.give("svg", s.svg, r)
		}
	}},
	{"by", (*settings).chooseBy},
	{"groups", func(*settings, *rand.Rand) {}}, // given with by
	{"reorder", func(s *settings, r *rand.Rand) {
		if r.IntN(3) == 0 {
			s.give("reorder", []string{"2", "40", "4096"}[r.IntN(3)], r)
		}
	}},
}

// give gives a flag, written in any of the ways in which flags can be.
func (s *settings) give(name, value string, r *rand.Rand) {
	dashes := pick(r, []string{"-", "-", "--"})
	words := []string{dashes + name, value}
	switch {
	case value == "":
		words = words[:1]
	case r.IntN(2) == 0:
		words = []string{dashes + name + "=" + value}
	}
	s.args = append(s.args, words...)
	if name != "svg" && name != "policy" {
		s.reading = append(s.reading, words...)
	}
	if !slices.Contains(s.given, name) {
		s.given = append(s.given, name)
	}
}

// newSettings chooses flags for logs of a form, of clients behind proxies or not.
func newSettings(r *rand.Rand, f *form, w *world, dir string) *settings {
	s := &settings{dir: dir, form: f, begin: w.begin, percentile: "99.9", headroom: "1.5", name: "suggested", top: 8, attacked: w.bots > 0, logger: &logger{random: r, form: f, separator: ","}}
	w.trusted = len(w.proxies) > 0 && f.forwarded && r.IntN(4) > 0
	if w.trusted {
		s.trust = w.proxies
	}
	for _, flag := range flags {
		flag.add(s, r)
	}
	w.polite = s.ambiguous
	return s
}

func (s *settings) chooseFormat(r *rand.Rand) {
	if !s.form.columns && r.IntN(3) == 0 {
		s.logger.collector = pick(r, collectors)
	}
	if s.ambiguous = strings.HasPrefix(s.form.names[0], "%{X-Forwarded-For}i %h ") && r.IntN(3) == 0; s.ambiguous {
		return
	}
	if !s.form.detected && !s.form.columns && s.form.time == "" || r.IntN(3) == 0 {
		s.give("format", pick(r, s.form.names), r)
	}
}

func (s *settings) chooseTime(r *rand.Rand) {
	if s.form.time != "" && (!s.form.detected || r.IntN(2) == 0) {
		s.give("time", s.form.time, r)
	}
}

func (s *settings) chooseUnit(r *rand.Rand) {
	units := []string{"s", "ms", "us", "ns"}
	if s.form.names[0] == "micros" {
		units = units[2:]
	}
	if s.form.numbers && r.IntN(3) == 0 {
		s.logger.unit = pick(r, units)
		s.give("unit", s.logger.unit, r)
	}
}

func (s *settings) chooseSeparator(r *rand.Rand) {
	switch {
	case !s.form.columns:
	case s.form.names[0] == "tsv":
		s.logger.separator = "\t"
		if r.IntN(2) == 0 {
			s.give("separator", pick(r, []string{`\t`, "tab", "\t"}), r)
		}
	default:
		s.logger.separator = pick(r, []string{",", ";", "|"})
		if r.IntN(2) == 0 {
			s.give("separator", s.logger.separator, r)
		}
	}
}

// chooseKey chooses fields of the form. With proxies to be trusted, the address is one of them.
func (s *settings) chooseKey(r *rand.Rand) {
	switch n := r.IntN(8); {
	case s.attacked && !s.form.columns:
		return
	case n < 3 && !(s.form.columns && s.trust != nil):
		s.none = s.form.columns
		return
	case n == 3 && s.trust == nil:
		s.none = true
		s.give("key", "none", r)
		return
	}
	fields := slices.Clone(s.form.fields)
	r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	fields = fields[:1+r.IntN(min(3, len(fields)))]
	if s.trust != nil && !slices.Contains(fields, "addr") {
		fields[0] = "addr"
	}
	var names []string
	for _, name := range fields {
		k := keyPart{name: name}
		if name == "addr" || slices.Contains([]string{"id.orig_h", "request.remote_ip", "ClientHost"}, name) {
			bits := pick(r, [][2]int{{32, 128}, {32, 64}, {32, 48}, {24, 56}, {16, 128}, {32, 61}, {31, 127}})
			if k.bits4, k.bits6 = bits[0], bits[1]; name == "addr" && r.IntN(4) == 0 {
				k.bits4, k.bits6 = 0, 0
			}
		}
		s.key = append(s.key, k)
		names = append(names, k.String())
	}
	s.give("key", strings.Join(names, pick(r, []string{",", ", "})), r)
}

func (s *settings) chooseTrust(r *rand.Rand) {
	for _, n := range s.trust {
		s.give("trust", n.String(), r)
	}
}

func (s *settings) chooseCost(r *rand.Rand) {
	if len(s.form.costs) > 0 && r.IntN(3) == 0 {
		s.cost = pick(r, s.form.costs)
		s.give("cost", s.cost, r)
	}
}

var windows = map[string]time.Duration{
	"1s": time.Second, "10s": 10 * time.Second, "1m": time.Minute, "90s": 90 * time.Second, "1h": time.Hour, "1d": 24 * time.Hour, "7d": 7 * 24 * time.Hour,
	"250ms": 250 * time.Millisecond, "1.5s": 1500 * time.Millisecond, "700us": 700 * time.Microsecond, "36h": 36 * time.Hour, "1w": 7 * 24 * time.Hour,
}

func (s *settings) chooseWindows(r *rand.Rand) {
	s.windows = []time.Duration{time.Second, time.Minute, time.Hour}
	if r.IntN(3) == 0 {
		return
	}
	s.windows = nil
	var names []string
	for name := range windows {
		names = append(names, name)
	}
	slices.Sort(names) // so that a seed is a program
	for range 1 + r.IntN(4) {
		name := pick(r, names)
		if !slices.Contains(s.windows, windows[name]) {
			s.windows = append(s.windows, windows[name])
			s.give("window", name, r)
		}
	}
	slices.Sort(s.windows)
}

// keyOf returns the fields that tell clients apart.
func (s *settings) keyOf() []keyPart {
	switch {
	case s.none:
		return nil
	case s.key == nil:
		return []keyPart{{"addr", 32, 64}}
	}
	return s.key
}

// settles reports whether costs are known after the response.
func (s *settings) settles() bool { return s.cost == "size" }

// measures returns how suggest measures events.
func (s *settings) measures() mode {
	if s.settles() {
		return measured
	}
	return before
}

// costOf returns what a request costs.
func (s *settings) costOf(q *request) (units int64) {
	if s.cost == "" {
		return 1
	}
	for summand := range strings.SplitSeq(s.cost, "+") {
		units += q.units(summand, s.form)
	}
	return units
}

// events returns the events that requests in the order of lines are, in the order of time, and those
// that tell no client. Both have only what is selected.
func (s *settings) events(requests []*request) (all []event, strangers []*request) {
	for _, q := range requests {
		e := event{at: q.at / int64(s.form.step) * int64(s.form.step), cost: s.costOf(q), request: q}
		if !s.selection.has(e.at, q) {
			continue
		}
		known := true
		for _, k := range s.keyOf() {
			part, ok := q.identity(k, s.trust)
			known = known && ok
			e.client += part + " "
		}
		if !known {
			strangers = append(strangers, q)
			continue
		}
		all = append(all, e)
	}
	slices.SortStableFunc(all, func(a, b event) int { return cmp.Compare(a.at, b.at) })
	return all, strangers
}
