package main

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash/bench/internal/keys"
	"github.com/seed-30da4c49/sash/bench/internal/report"
	"github.com/seed-30da4c49/sash/bench/internal/rounds"
)

// table returns a table in Markdown. The columns from the text-th on are figures.
func table(text int, columns []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(columns)
	for i := range columns {
		if i < text {
			b.WriteString("|---")
		} else {
			b.WriteString("|---:")
		}
	}
	b.WriteString("|\n")
	for _, cells := range rows {
		line(cells)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// keysOf names a number of keys in words.
func keysOf(n int) string {
	switch n {
	case 1:
		return "one key"
	case 1_000_000:
		return "a million keys"
	case 10_000_000:
		return "ten million keys"
	}
	return humanize.Comma(int64(n)) + " keys"
}

// digits formats a figure with about three digits.
func digits(x float64) string {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return report.None
	case math.Abs(x) < 1:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case math.Abs(x) < 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return humanize.Comma(int64(math.Round(x)))
}

// span formats nanoseconds with two or three digits and a unit.
func span(ns float64) string {
	if math.IsNaN(ns) {
		return report.None
	}
	for _, unit := range []struct {
		ns   float64
		name string
	}{{1, "ns"}, {1e3, "µs"}, {1e6, "ms"}} {
		if x := ns / unit.ns; math.Abs(x) < 999.5 {
			return digits(x) + " " + unit.name
		}
	}
	return digits(ns/1e9) + " s"
}

// A contender is a column of the tables of speed.
type contender struct{ impl, clock string }

// contendersOf returns what was measured, in order: sash's ways to decide, and then the others. The floors and
// the limits that no default leads to have other tables.
func contendersOf(all []speedRecord) (own, others []contender) {
	for _, r := range all {
		c := contender{r.Impl, r.Clock}
		switch {
		case r.Impl == "floor" || r.Impl == "sash-log" || r.Impl == "sash-large":
		case slices.Contains(own, c) || slices.Contains(others, c):
		case strings.HasPrefix(r.Impl, "sash"):
			own = append(own, c)
		default:
			others = append(others, c)
		}
	}
	return own, others
}

func (c contender) title() string {
	name := strings.TrimPrefix(c.impl, "sash-")
	if c.impl == "sash" {
		name = "counter"
	}
	if c.clock == "coarse" {
		name += ", coarse clock"
	}
	if strings.HasPrefix(c.impl, "sash") {
		return "sash, " + name
	}
	return name
}

// speedTable returns the table of one call.
func speedTable(all []speedRecord, call string) string {
	all = slices.DeleteFunc(slices.Clone(all), func(r speedRecord) bool { return r.Call != call })
	own, others := contendersOf(all)
	columns := []string{"", "", "cores"}
	for _, c := range slices.Concat(own, others) {
		columns = append(columns, c.title())
	}
	type where struct {
		keys       int
		answer     string
		goroutines int
	}
	var rows [][]string
	var seen []where
	for _, r := range all {
		w := where{r.Keys, r.Answer, r.Goroutines}
		if slices.Contains(seen, w) {
			continue
		}
		seen = append(seen, w)
		cells := []string{keysOf(w.keys), w.answer, strconv.Itoa(w.goroutines)}
		fastest := math.NaN()
		for i, c := range slices.Concat(own, others) {
			k := slices.IndexFunc(all, func(r speedRecord) bool {
				return w == where{r.Keys, r.Answer, r.Goroutines} && c == contender{r.Impl, r.Clock}
			})
			if k < 0 {
				cells = append(cells, "")
				continue
			}
			cell := humanize.Comma(int64(math.Round(all[k].Ns)))
			if i == 0 {
				cell = "**" + cell + "**"
			}
			if all[k].Wrong > 0.001 {
				cell += "\\*"
			}
			cells = append(cells, cell)
			if i >= len(own) && all[k].Times != nil && !(*all[k].Times > fastest) {
				fastest = *all[k].Times
			}
		}
		rows = append(rows, append(cells, digits(fastest)+" ×"))
	}
	return table(2, append(columns, "fastest other"), rows)
}

func readSpeed(all []output) (map[string]string, error) {
	found, err := records[speedRecord](all[0], "speed")
	if err != nil {
		return nil, err
	}
	values := map[string]string{"speed-allow": speedTable(found, callAllow), "speed-take": speedTable(found, callTake)}
	_, others := contendersOf(found)
	for name, n := range map[string]int{"one": found[0].Keys, "million": found[len(found)-1].Keys} { // but with -quick
		fastest := math.NaN()
		values["default-"+name] = report.None
		for _, r := range found {
			if r.Keys != n || r.Call != callAllow || r.Answer != admitted || r.Goroutines != 1 {
				continue
			}
			switch (contender{r.Impl, r.Clock}) {
			case contender{"sash", "system"}:
				values["allow-"+name] = span(r.Ns)
			case contender{"sash-default", "system"}:
				values["default-"+name] = span(r.Ns)
			}
			if slices.Contains(others, contender{r.Impl, r.Clock}) && !(r.Ns > fastest) {
				fastest = r.Ns
			}
		}
		values["other-"+name] = span(fastest)
	}
	return values, nil
}

func readTenMillion(all []output) (map[string]string, error) {
	found, err := records[speedRecord](all[0], "speed")
	if err != nil {
		return nil, err
	}
	return map[string]string{"speed-ten-million": speedTable(found, callAllow)}, nil
}

func readClocks(all []output) (map[string]string, error) {
	var rows [][]string
	for i, o := range all {
		found, err := records[speedRecord](o, "speed")
		if err != nil {
			return nil, err
		}
		row := 0
		for _, r := range found {
			if r.Impl == "sash" && r.Clock == "system" {
				if i == 0 {
					rows = append(rows, []string{keysOf(r.Keys)})
				}
				if row >= len(rows) {
					return nil, errors.New("the two runs have other rows")
				}
				times := math.NaN()
				for _, x := range found {
					if x.Impl == "go-limiter" && x.Keys == r.Keys && x.Times != nil {
						times = *x.Times
					}
				}
				rows[row] = append(rows[row], span(r.Ns), digits(times))
				row++
			}
		}
	}
	return map[string]string{"clock": table(1, []string{"", "the default clock", "× go-limiter", "the system's clock", "× go-limiter"}, rows)}, nil
}

func readFloor(all []output) (map[string]string, error) {
	found, err := records[speedRecord](all[0], "floor")
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, r := range found {
		if r.Impl != "floor" || r.Clock != "system" || r.Mode != throughput || r.Answer != admitted || r.Times == nil {
			continue
		}
		if r.Goroutines == 1 {
			rows = append(rows, []string{keysOf(r.Keys)})
		}
		if len(rows) > 0 {
			rows[len(rows)-1] = append(rows[len(rows)-1], strconv.FormatFloat(*r.Times, 'f', 2, 64))
		}
	}
	return map[string]string{"floor": table(1, []string{"", "one core", "two cores"}, rows)}, nil
}

func readRatios(all []output) (map[string]string, error) {
	found, err := records[ratioRecord](all[0], "ratios")
	if err != nil {
		return nil, err
	}
	columns, rows := []string{"", "divided by", "at most"}, [][]string{}
	var memory [][]string
	var failed []string
	judged := 0
	for _, r := range found {
		switch r.Unit {
		case "bytes", "objects":
			i := slices.IndexFunc(memory, func(cells []string) bool { return cells[0] == r.Of })
			if i < 0 {
				i, memory = len(memory), append(memory, []string{r.Of})
			}
			memory[i] = append(memory[i], r.cell())
			continue
		case "ratio":
		default:
			continue
		}
		if r.AtMost != nil {
			if judged++; !r.holds() {
				failed = append(failed, fmt.Sprintf("- `%s` by `%s`, %s, %s: %s", r.Of, r.By, keysOf(r.Keys), coresOf(r.Goroutines), strings.Trim(r.cell(), "*")))
			}
		}
		column := keysOf(r.Keys) + ", " + coresOf(r.Goroutines)
		c := slices.Index(columns, column)
		if c < 0 {
			c, columns = len(columns), append(columns, column)
		}
		i := slices.IndexFunc(rows, func(cells []string) bool { return cells[0] == r.Of && cells[1] == r.By })
		if i < 0 {
			i, rows = len(rows), append(rows, []string{r.Of, r.By, boundsOf(r.Of, r.By)})
		}
		for len(rows[i]) <= c {
			rows[i] = append(rows[i], "")
		}
		rows[i][c] = strconv.FormatFloat(r.Value, 'f', 2, 64)
	}
	for i := range rows {
		for len(rows[i]) < len(columns) {
			rows[i] = append(rows[i], "")
		}
	}
	kept := fmt.Sprintf("%d of %d bounds were kept.", judged-len(failed), judged)
	if len(failed) > 0 {
		kept += " These were not:\n\n" + strings.Join(failed, "\n")
	} else {
		kept += "\n"
	}
	return map[string]string{
		"ratios": table(2, columns, rows), "bounds": kept,
		"key-memory": table(1, []string{keysOf(1_000_000), "bytes a key, without its own", "objects a key"}, memory),
	}, nil
}

func coresOf(n int) string {
	if n == 1 {
		return "1 core"
	}
	return strconv.Itoa(n) + " cores"
}

// boundsOf returns the bounds of a comparison.
func boundsOf(of, by string) string {
	for _, c := range comparisons() {
		if c.of != of || c.by != by {
			continue
		}
		var all []string
		for _, n := range []int{0, 1, 1000, 1_000_000} {
			if bound, ok := c.atMost[n]; ok {
				text := strconv.FormatFloat(bound, 'f', -1, 64)
				if n > 0 {
					text += " with " + keys.Label(n)
				}
				all = append(all, text)
			}
		}
		return strings.Join(all, ", ")
	}
	return ""
}

func readMemory(all []output) (map[string]string, error) {
	found, err := records[memoryRecord](all[0], "memory")
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, r := range found {
		if r.Impl == "nothing" {
			continue
		}
		keeps := "the key"
		if r.Hashes {
			keeps = "its hash"
		}
		rows = append(rows, []string{r.title(), keeps, digits(r.Bytes), digits(r.Objects), span(r.Collection * 1e9)})
	}
	return map[string]string{"memory": table(2, []string{keysOf(found[0].Keys), "keeps", "bytes a key, with the name", "objects a key", "processor time of a garbage collection"}, rows)}, nil
}

func (r memoryRecord) title() string { return contender{r.Impl, r.Clock}.title() }

func readTail(all []output) (map[string]string, error) {
	found, err := records[tailRecord](all[0], "tail")
	if err != nil {
		return nil, err
	}
	var rows [][]string
	values := map[string]string{}
	for _, r := range found {
		if r.Scenario != "grow" {
			continue
		}
		name := contender{r.Impl, r.Clock}.title()
		if r.Impl == "nothing" {
			name = "no table"
		}
		if r.Impl == "sash" {
			values["tail-worst"] = span(r.Ns["max"])
		}
		rows = append(rows, []string{name, span(r.Ns["p99.9"]), span(r.Ns["p99.99"]), span(r.Ns["max"])})
	}
	values["tail"] = table(1, []string{"late by", "p99.9", "p99.99", "the worst call"}, rows)
	return values, nil
}

func readWaiters(all []output) (map[string]string, error) {
	found, err := records[waitersRecord](all[0], "waiters")
	if err != nil {
		return nil, err
	}
	cell := func(ns float64) string {
		if ns == 0 {
			return ""
		}
		return span(ns)
	}
	var rows [][]string
	for _, r := range found {
		if r.Waiters == found[0].Waiters { // the smallest crowd is in the results only
			continue
		}
		readings := ""
		if r.Commit > 0 {
			readings = humanize.Comma(r.Readings)
		}
		rows = append(rows, []string{r.For, humanize.Comma(int64(r.Waiters)), cell(r.Commit), readings, cell(r.WaitAll), cell(r.Reconfigure), cell(r.Slowest)})
	}
	return map[string]string{"waiters": table(1, []string{"they wait for", "calls that wait", "a unit is given back", "readings of the clock",
		"`WaitAll` of a free key", "`Reconfigure`", "another client"}, rows)}, nil
}

var lengthLine = regexp.MustCompile(`: (.+) and a name of (\d+) bytes: ([\d.]+) bytes more`)

func readLengths(all []output) (map[string]string, error) {
	columns, rows := []string{"length of the name"}, [][]string{}
	least, most := math.Inf(1), math.Inf(-1)
	for line := range strings.Lines(all[0].stdout) {
		m := lengthLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		bytes, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(columns, m[2]) {
			columns = append(columns, m[2])
		}
		if len(rows) == 0 || rows[len(rows)-1][0] != m[1] {
			rows = append(rows, []string{m[1]})
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], strconv.FormatFloat(bytes, 'f', 0, 64))
		if m[1] == "parts of a byte" {
			least, most = min(least, bytes), max(most, bytes)
		}
	}
	if strings.Contains(all[0].stdout, "--- SKIP") { // with -quick
		return map[string]string{"lengths": table(0, []string{report.None}, nil), "key-bytes": report.None}, nil
	}
	if len(rows) == 0 {
		return nil, errors.New("it has printed no lengths")
	}
	return map[string]string{"lengths": table(1, columns, rows), "key-bytes": fmt.Sprintf("%.0f to %.0f bytes", least, most)}, nil
}

// A goBench is one line of go test -bench, or the medians of several with the same name.
type goBench struct {
	name    string // without "Benchmark"
	samples map[string][]float64
}

func (b goBench) of(unit string) float64 { return rounds.Median(b.samples[unit]) }

// benchmarks reads the output of go test -bench.
func benchmarks(all ...output) (found []goBench, err error) {
	for _, o := range all {
		lines := bufio.NewScanner(strings.NewReader(o.stdout))
		for lines.Scan() {
			cells := strings.Fields(lines.Text())
			name, ok := strings.CutPrefix(lines.Text(), "Benchmark")
			if !ok || len(cells) < 4 {
				continue
			}
			name = strings.Fields(name)[0]
			i := slices.IndexFunc(found, func(b goBench) bool { return b.name == name })
			if i < 0 {
				i, found = len(found), append(found, goBench{name, map[string][]float64{}})
			}
			for k := 2; k+1 < len(cells); k += 2 {
				x, err := strconv.ParseFloat(cells[k], 64)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", lines.Text(), err)
				}
				found[i].samples[cells[k+1]] = append(found[i].samples[cells[k+1]], x)
			}
		}
	}
	if len(found) == 0 {
		return nil, errors.New("it has printed no benchmark")
	}
	return found, nil
}

// readFlood returns what a flood does. That no held key gets a call through is a promise, and checked here.
func readFlood(all []output) (map[string]string, error) {
	found, err := benchmarks(all...)
	if err != nil {
		return nil, err
	}
	b := found[0]
	heap := func(when string) string { return digits(b.of("heap-"+when+"-MB")) + " MB" }
	return map[string]string{
		"flood": table(1, []string{"keys displaced", "heap when full", "after half of the flood", "after the flood", "median call", "p99.99"},
			[][]string{{humanize.Comma(int64(b.of("displaced"))), heap("full"), heap("half"), heap("end"), span(b.of("p50-ns")), span(b.of("p99.99-ns"))}}),
		"flood-early": digits(b.of("early-%")) + " %",
	}, nil
}

func readHostile(all []output) (map[string]string, error) {
	found, err := benchmarks(all...)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, b := range found {
		what := "a call for a tracked key"
		if strings.Contains(b.name, "insert") {
			what = "a new key"
		}
		rows = append(rows, []string{what, span(b.of("hostile-ns")), span(b.of("ordinary-ns")), strconv.FormatFloat(b.of("hostile/ordinary"), 'f', 2, 64)})
	}
	return map[string]string{"hostile": table(1, []string{"", "keys that collide", "random keys", "ratio"}, rows)}, nil
}

func readSnapshot(all []output) (map[string]string, error) {
	found, err := benchmarks(all...)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, b := range found {
		what := "to a snapshot"
		if strings.HasPrefix(b.name, "Restore") {
			what = "back from it"
		}
		rows = append(rows, []string{what, span(b.of("ns/op"))})
	}
	return map[string]string{"snapshot": table(1, []string{"a million keys", ""}, rows)}, nil
}

func readMiddleware(all []output) (map[string]string, error) {
	found, err := benchmarks(all...)
	if err != nil {
		return nil, err
	}
	columns := []string{"takes longer by"}
	rows := [][]string{
		{"httplimit", "over-httplimit-ns"}, {"with the older headers too", "over-httplimit+X-ns"},
		{"the same under a counter", "over-httplimit-counter+X-ns"}, {"the same for one route", "over-httplimit-route+X-ns"},
		{"the same under two policies", "over-httplimit-two+X-ns"}, {"httprate, with the older headers", "over-httprate-ns"},
	}
	for _, b := range found {
		_, answer, _ := strings.Cut(b.name, "=")
		columns = append(columns, answer)
	}
	for i, row := range rows {
		cells := row[:1:1]
		for _, b := range found {
			cells = append(cells, span(b.of(row[1])))
		}
		rows[i] = cells
	}
	return map[string]string{"middleware": table(1, columns, rows)}, nil
}

func readObservers(all []output) (map[string]string, error) {
	found, err := benchmarks(all...)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	for _, b := range found {
		parts := strings.Split(b.name, "/")
		if len(parts) != 3 {
			return nil, fmt.Errorf("%s has no result and clients", b.name)
		}
		_, result, _ := strings.Cut(parts[1], "=")
		_, clients, _ := strings.Cut(parts[2], "=")
		rows = append(rows, []string{result, clients, span(b.of("metrics-ns")), span(b.of("metrics+page-ns")), span(b.of("floor-ns")), span(b.of("without-ns"))})
	}
	return map[string]string{"observers": table(1, []string{"", "clients", "metrics", "metrics and a page of offenders", "floor", "a request without them"}, rows)}, nil
}

func readObserve(all []output) (map[string]string, error) {
	var rows [][]string
	for i, module := range []string{"sashprometheus", "sashotel"} {
		found, err := benchmarks(all[i])
		if err != nil {
			return nil, err
		}
		for _, b := range found {
			_, result, _ := strings.Cut(b.name, "=")
			name, cores := module, "1"
			result, two := strings.CutSuffix(result, "-2")
			if two || strings.HasSuffix(b.name, "-2") {
				cores = "2"
			}
			if result != "" {
				name += ", " + result
			}
			rows = append(rows, []string{name, cores, span(b.of("ns/op")), digits(b.of("allocs/op"))})
		}
	}
	return map[string]string{"observe": table(1, []string{"an event of one policy", "cores", "", "allocations"}, rows)}, nil
}

func readRPC(all []output) (map[string]string, error) {
	var rows [][]string
	for i, module := range []string{"grpclimit", "connectlimit"} {
		found, err := benchmarks(all[i])
		if err != nil {
			return nil, err
		}
		slices.SortFunc(found, func(a, b goBench) int { return strings.Compare(a.name, b.name) }) // some run in any order
		for _, b := range found {
			rows = append(rows, []string{module, "`" + b.name + "`", span(b.of("ns/op")), digits(b.of("B/op")), digits(b.of("allocs/op"))})
		}
	}
	return map[string]string{"rpc": table(2, []string{"", "", "time", "bytes", "allocations"}, rows)}, nil
}

// A fleetRecord is a row of bench/fleet.
type fleetRecord struct {
	Part    string             `json:"part"`
	Impl    string             `json:"impl"`
	Callers int                `json:"callers"`
	Values  map[string]float64 `json:"values"`
}

func readFleet(all []output) (map[string]string, error) {
	found, err := records[fleetRecord](all[0], "fleet")
	if err != nil {
		return nil, err
	}
	value := func(part, impl string, callers int, name string) float64 {
		for _, r := range found {
			if r.Part == part && r.Impl == impl && (callers == 0 || r.Callers == callers) {
				if x, ok := r.Values[name]; ok {
					return x
				}
			}
		}
		return math.NaN()
	}
	const rate = "decisions_per_second"
	shown := func(x float64, unit string) string {
		switch {
		case math.IsNaN(x) || x == 0 && unit == "script_us": // no such row, or no script
			return ""
		case unit == rate && x >= 1e6:
			return digits(x/1e6) + " M"
		case unit == rate && x >= 1000:
			return digits(x/1000) + " k"
		case strings.HasSuffix(unit, "_ns"):
			return span(x)
		}
		return digits(x)
	}
	contenders := []struct{ title, impl string }{
		{"sash, rueidis", "sash counter, rueidis"}, {"sash, go-redis", "sash counter, go-redis"}, {"sash, leases", "sash counter leased, rueidis"},
		{"redis_rate", "redis_rate"}, {"throttled", "throttled"}, {"ulule", "ulule"},
	}
	measured := []struct {
		title, part string
		callers     int
		value       string
	}{
		{"one hot key, 1 caller: decisions/s", "hot", 1, rate}, {"16 callers", "hot", 16, rate}, {"256 callers", "hot", 256, rate},
		{"the same, 256 callers: p99", "hot", 256, "p99_ns"}, {"known keys, 256 callers: decisions/s", "known", 256, rate},
		{"the same: server µs a decision", "known", 256, "server_us"}, {"the same: script µs", "known", 256, "script_us"},
		{"the same: allocations a decision", "known", 256, "allocations"}, {"a flood on 1,000 denied keys: calls/s", "flood on 1k", 0, rate},
	}
	columns := []string{""}
	for _, c := range contenders {
		columns = append(columns, c.title)
	}
	var rows [][]string
	for _, m := range measured {
		cells := []string{m.title}
		for _, c := range contenders {
			cell := shown(value(m.part, c.impl, m.callers, m.value), m.value)
			if value(m.part, c.impl, m.callers, "failed") > 0 {
				cell += "\\*"
			}
			cells = append(cells, cell)
		}
		rows = append(rows, cells)
	}
	floors := []struct {
		title, part, ours, floor string
		callers                  int
		value                    string
	}{
		{"one hot key, 256 callers: decisions/s", "hot", "sash counter, rueidis", "nothing, shared, rueidis", 256, rate},
		{"the same, and each call decided in-process", "hot", "sash counter, rueidis", "nothing, shared, decided, rueidis", 256, rate},
		{"known keys, 256 callers, by rueidis: decisions/s", "known", "sash counter, rueidis", "read and write, rueidis", 256, rate},
		{"the same by go-redis", "known", "sash counter, go-redis", "read and write, go-redis", 256, rate},
		{"the same: script µs, by rueidis", "known", "sash counter, rueidis", "read and write, rueidis", 256, "script_us"},
		{"a unit of a lease, 1 core: ns", "leases", "sash counter leased, rueidis", "one word", 1, "ns_per_call"},
		{"the same, 2 cores: ns", "leases", "sash counter leased, rueidis", "one word", 2, "ns_per_call"},
		{"a denial by the mirror, one key: ns", "flood on 1", "sash counter, rueidis", "sash in-process", 0, "ns_per_call"},
		{"the same, and each denial counted", "flood on 1", "sash counter, rueidis", "sash in-process, counted", 0, "ns_per_call"},
		{"a denial by the mirror, 1,000 keys: ns", "flood on 1k", "sash counter, rueidis", "sash in-process", 0, "ns_per_call"},
		{"the same, and each denial counted", "flood on 1k", "sash counter, rueidis", "sash in-process, counted", 0, "ns_per_call"},
	}
	var bounds [][]string
	for _, f := range floors {
		ours, floor := value(f.part, f.ours, f.callers, f.value), value(f.part, f.floor, f.callers, f.value)
		bounds = append(bounds, []string{f.title, shown(ours, f.value), shown(floor, f.value), strconv.FormatFloat(ours/floor, 'f', 2, 64)})
	}
	var refunds [][]string
	for _, r := range found {
		if r.Part == "refunds" {
			v := func(name string) string { return digits(r.Values[name]) }
			refunds = append(refunds, []string{r.Impl, v("back_commands"), v("back_us"), v("take_before_commands"), v("take_before_us"), v("take_after_commands"), v("take_after_us")})
		}
	}
	return map[string]string{
		"fleet":        table(1, columns, rows),
		"fleet-floors": table(1, []string{"", "sash", "floor", "ratio"}, bounds),
		"refunds":      table(1, []string{"given back", "commands", "µs", "a Take before: commands", "µs", "a Take after: commands", "µs"}, refunds),
	}, nil
}
