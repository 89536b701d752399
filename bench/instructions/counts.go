package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
)

// growth is how many times as many instructions a row may take as in the file.
const growth = 1.03

// A count is the instructions of one call in a row.
type count struct {
	row          string
	instructions float64
}

// counts are the counts of several rows, and the version of Go that compiled them.
type counts struct {
	version string
	rows    []count
}

// here returns the version of Go that compiled this program.
func here() string { return runtime.Version() }

// comparable returns an error if counts of these two versions of Go do not compare.
func comparable(before, now string) error {
	if before == now {
		return nil
	}
	return fmt.Errorf("the file has the counts of %s, and this is %s, which compiles the code otherwise: "+
		"compare with GOTOOLCHAIN=%[1]s in the environment, "+
		"or write the file anew with -update and without -run", before, now)
}

// compare returns an error for each row that has grown, that is missing, or that is not in the file.
func compare(before, after counts) error {
	var faults []error
	for _, b := range before.rows {
		a, found := after.of(b.row)
		switch {
		case !found:
			faults = append(faults,
				fmt.Errorf("%s: it is in the file, and there is no such row; -update removes it", b.row))
		case a > b.instructions*growth:
			faults = append(faults,
				fmt.Errorf("%s: %.1f -> %.1f instructions, %+.2f %%, and at most %+.0f %% is allowed",
					b.row, b.instructions, a, (a/b.instructions-1)*100, (growth-1)*100))
		}
	}
	for _, a := range after.rows {
		if _, found := before.of(a.row); !found {
			faults = append(faults, fmt.Errorf("%s: it is not in the file; -update writes it", a.row))
		}
	}
	return errors.Join(faults...)
}

// of returns the count of the row of that name.
func (c counts) of(row string) (instructions float64, found bool) {
	for _, each := range c.rows {
		if each.row == row {
			return each.instructions, true
		}
	}
	return 0, false
}

// split returns the counts of the rows that match pattern, and of the others.
func (c counts) split(pattern *regexp.Regexp) (matching, others counts) {
	matching.version, others.version = c.version, c.version
	for _, each := range c.rows {
		to := &others
		if pattern.MatchString(each.row) {
			to = &matching
		}
		to.rows = append(to.rows, each)
	}
	return matching, others
}

// join returns these counts and the counts of others that are still rows, in the order of the rows.
func (c counts) join(others counts) counts {
	joined := counts{version: c.version}
	for _, r := range rows() {
		for _, from := range []counts{c, others} {
			if n, found := from.of(r.name); found {
				joined.rows = append(joined.rows, count{r.name, n})
			}
		}
	}
	return joined
}

// print prints the counts next to the counts before.
func (c counts) print(w io.Writer, before counts) {
	fmt.Fprintf(w, "%-56s %9s %9s\n", "instructions a call", "before", "now")
	for _, each := range c.rows {
		if b, found := before.of(each.row); found {
			fmt.Fprintf(w, "%-56s %9.1f %9.1f %+6.1f %%\n", each.row, b, each.instructions, (each.instructions/b-1)*100)
		} else {
			fmt.Fprintf(w, "%-56s %9s %9.1f\n", each.row, "", each.instructions)
		}
	}
}

// comment begins the file.
const comment = `# The instructions of a call in each row, and the version of Go that compiled it.
# go run ./bench/instructions compares with them, and with -update writes them.
`

// write writes the counts to a file.
func (c counts) write(file string) error { return os.WriteFile(file, []byte(c.text()), 0o666) }

// text returns the text of a file with the counts.
func (c counts) text() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s%s\n", comment, c.version)
	for _, each := range c.rows {
		fmt.Fprintf(&text, "%8.1f %s\n", each.instructions, each.row)
	}
	return text.String()
}

// readCounts reads the counts from a file.
func readCounts(file string) (c counts, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return c, fmt.Errorf("%w: run this in the root of the repository, or give -file", err)
	}
	return parseCounts(file, text)
}

// parseCounts reads the text of a file, whose name is for errors.
func parseCounts(file string, text []byte) (c counts, err error) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		switch {
		case strings.HasPrefix(line, "#"):
		case c.version == "":
			c.version = line
		default:
			instructions, name, _ := strings.Cut(line, " ")
			n, err := strconv.ParseFloat(instructions, 64)
			if err != nil || !(n > 0) || name == "" {
				return c, fmt.Errorf("%s:%d: want a number of instructions > 0 and the name of a row, got %q",
					file, number, line)
			}
			c.rows = append(c.rows, count{name, n})
		}
	}
	return c, lines.Err()
}
