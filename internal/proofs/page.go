package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What the command writes stands between these. The first line is where it was run, and a table
// follows.
const (
	begin = "<!-- figures proofs -->\n"
	end   = "<!-- /figures -->\n"
)

// A page is a document with the table.
type page struct {
	before, stamp string
	table         []string // its lines
	after         string
	rows          []*row
}

// A row is a line of the table that has commands.
type row struct {
	line  int
	cells []string
}

// The cells of a row.
const (
	promiseCell = iota
	commandsCell
	sizeCell
	tookCell
	elsewhereCell
	cellsOfARow
)

// parsePage finds the table in the text of a document.
func parsePage(text string) (*page, error) {
	before, rest, found := strings.Cut(text, begin)
	body, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return nil, fmt.Errorf("want a table between %q and %q", begin, end)
	}
	stamp, table, _ := strings.Cut(strings.TrimSpace(body), "\n\n")
	p := &page{before: before, stamp: stamp, after: after}
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != cellsOfARow {
			return nil, fmt.Errorf("want %d cells, got %q", cellsOfARow, line)
		}
		if r := (&row{len(p.table), cells}); len(r.commands()) > 0 {
			p.rows = append(p.rows, r)
		}
		p.table = append(p.table, line)
	}
	if len(p.rows) == 0 {
		return nil, errors.New("the table has no commands")
	}
	return p, nil
}

// text returns the text of the document.
func (p *page) text() string {
	for _, r := range p.rows {
		p.table[r.line] = "|" + strings.Join(r.cells, "|") + "|"
	}
	return p.before + begin + p.stamp + "\n\n" + strings.Join(p.table, "\n") + "\n" + end + p.after
}

func (r *row) promise() string { return strings.TrimSpace(r.cells[promiseCell]) }

var code = regexp.MustCompile("`([^`]*)`")

// commands returns the command lines of r. Other code in its cell is no command.
func (r *row) commands() (lines []string) {
	for _, m := range code.FindAllStringSubmatch(r.cells[commandsCell], -1) {
		if strings.Contains(m[1], "go test ") || strings.Contains(m[1], "go run ") {
			lines = append(lines, m[1])
		}
	}
	return lines
}

// set writes the size, unless the commands have not counted, and the time.
func (r *row) set(size string, took time.Duration) {
	if size != "" {
		r.cells[sizeCell] = " " + size + " "
	}
	r.cells[tookCell] = " " + shown(took) + " "
}

// shown returns a time as a reader wants it.
func shown(d time.Duration) string {
	if d >= 2*time.Minute {
		return fmt.Sprintf("%.0f min", d.Minutes())
	}
	return fmt.Sprintf("%.0f s", d.Seconds())
}

var (
	// unit matches a number that tests and commands print of what they have tried.
	unit = regexp.MustCompile(`\b(\d[\d,]*) (programs|histories|schedules|mutants|calls answered alike)\b`)
	// executions matches a line of go test -fuzz, whose last has the total.
	executions = regexp.MustCompile(`(?m)^fuzz: .*\bexecs: (\d+) `)
	soaked     = regexp.MustCompile(`(?m)^\| all \| ([\d,]+) \|`) // the calls of bench/soak
	passed     = regexp.MustCompile(`(?m)^--- PASS: Test`)
	benchmark  = regexp.MustCompile(`(?m)^Benchmark\S+\s+\d+\s`)
	fuzzing    = regexp.MustCompile(`(?m)^(=== RUN   Fuzz|fuzz: elapsed: 0s)`)
)

// sizeOf returns what commands with that output have tried: the numbers that they print themselves, or
// else how many tests have passed.
func sizeOf(output string) string {
	total := make(map[string]int)
	var units []string
	add := func(n int, unit string) {
		if !slices.Contains(units, unit) {
			units = append(units, unit)
		}
		total[unit] += n
	}
	for _, m := range unit.FindAllStringSubmatch(output, -1) {
		if n, err := strconv.Atoi(strings.ReplaceAll(m[1], ",", "")); err == nil {
			add(n, m[2])
		}
	}
	// Each target of several begins at 0, so the last line before the next beginning is its total.
	for _, part := range fuzzing.Split(output, -1) {
		if all := executions.FindAllStringSubmatch(part, -1); len(all) > 0 {
			if n, err := strconv.Atoi(all[len(all)-1][1]); err == nil {
				add(n, "inputs")
			}
		}
	}
	for _, m := range soaked.FindAllStringSubmatch(output, -1) {
		if n, err := strconv.Atoi(strings.ReplaceAll(m[1], ",", "")); err == nil {
			add(n, "calls")
		}
	}
	if len(units) == 0 {
		if n := len(passed.FindAllString(output, -1)); n > 0 {
			add(n, "tests")
		}
		if n := len(benchmark.FindAllString(output, -1)); n > 0 {
			add(n, "benchmarks")
		}
	}
	var parts []string
	for _, unit := range units {
		n := total[unit]
		if n == 1 {
			unit = strings.TrimSuffix(unit, "s")
		}
		parts = append(parts, grouped(n)+" "+unit)
	}
	return strings.Join(parts, ", ")
}

// grouped returns n with a comma before each three digits.
func grouped(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
