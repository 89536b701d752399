package traffic

import (
	"encoding/csv"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// everybody is the name of the only client if no columns identify clients.
const everybody = "all"

// A columns reads columns with a header. A row is one line, and encoding/csv is given one line at
// a time. So a quote that is never closed makes one line unreadable, and not the rest of the
// file, and lines are counted as in other files.
type columns struct {
	*wanted
	format  string
	line    strings.Reader
	rows    *csv.Reader
	names   []string // nil until the header is read
	head    string   // the line of the header
	known   bool     // whether the format tells the names of the columns, and what other formats call them
	time    int
	sources []fieldSource
	clock   timeReader
}

func newColumns(format string, w *wanted) decoder {
	return &columns{wanted: w, format: format, clock: timeReader{unit: w.unit}}
}

// newCloudStorage reads the usage logs of Google Cloud Storage, which are columns of known names.
func newCloudStorage(w *wanted) decoder {
	known := *w
	known.time, known.separator = "time_micros", ","
	return &columns{wanted: &known, format: "gcs", known: true, clock: timeReader{unit: "us"}}
}

func (c *columns) name() string { return c.format }

func (c *columns) has(i int) bool { return c.sources[i].index >= 0 }

func (c *columns) datesEnds() bool { return false }

func (c *columns) decode(line string, r *record) error {
	r.title = strings.ToUpper(c.format)
	if c.names == nil {
		r.heading = true
		return c.header(strings.TrimPrefix(line, "\ufeff")) // as spreadsheets begin a file
	}
	if c.known && line == c.head { // as the files of several hours have it, if they are joined
		r.heading = true
		return nil
	}
	row, err := c.split(line)
	if err != nil {
		return err
	}
	if len(row) != len(c.names) {
		return fmt.Errorf("%d columns, the header has %d", len(row), len(c.names))
	}
	if r.at, err = c.clock.read(row[c.time]); err != nil {
		return err
	}
	if c.known {
		return c.pick(c.sources, row, c.names, r)
	}
	for i, s := range c.sources {
		if r.values[i] = "-"; s.index >= 0 {
			r.values[i] = s.apply(row[s.index])
		}
	}
	return c.checkKey(r.values)
}

// checkKey refuses a row whose client is unknown. A column named addr may otherwise have any text.
func (c *columns) checkKey(values []string) error {
	for i, f := range c.fields {
		if f.flag != "key" {
			continue
		}
		if err := f.checkValue(values[i]); err != nil {
			return err
		}
	}
	return nil
}

// withoutPort returns the address of an address with a port, and other text as it is.
func withoutPort(v string) string {
	if _, err := netip.ParseAddrPort(v); err != nil {
		return v
	}
	return hostOf(v)
}

// split returns the values of a line. They are valid until the next call.
func (c *columns) split(line string) ([]string, error) {
	c.line.Reset(line)
	row, err := c.rows.Read()
	var fault *csv.ParseError
	if errors.As(err, &fault) {
		err = fault.Err // without its line number, which counts from elsewhere
	}
	return row, err
}

// A headerError says that the first line of a file is no header with the columns wanted.
type headerError struct{ error }

// header reads the names of the columns. Its error names every wanted column that is missing.
func (c *columns) header(line string) error {
	names, err := c.headerBy(c.separators(line), line)
	if err != nil {
		return &headerError{fmt.Errorf("-time %s: %s is no %s, its line 1 is %s: %w", c.wanted.time, c.file, strings.ToUpper(c.format), Clip(line), err)}
	}
	var faults []error
	want := func(flag, name string) int {
		first := slices.Index(names, name)
		switch {
		case first < 0:
			faults = append(faults, fmt.Errorf("-%s: %s has no column %s, its header is %s", flag, c.file, Clip(name), Clip(line)))
		case slices.Contains(names[first+1:], name):
			faults = append(faults, fmt.Errorf("-%s: %s has two columns %s, its header is %s", flag, c.file, Clip(name), Clip(line)))
		}
		return first
	}
	c.time = want("time", c.wanted.time)
	if c.known {
		c.sources = c.sourcesAmong(names)
	}
	for _, f := range c.fields[len(c.sources):] {
		name := commonName(f.name)
		s := fieldSource{index: slices.Index(names, name)}
		if f.flag != "" {
			s.index = want(f.flag, name)
		}
		switch f.name {
		case lasting:
			s.part = inSeconds
		case Path:
			s.part = withoutQuery
		case Addr:
			s.part = withoutPort
		}
		c.sources = append(c.sources, s)
	}
	if len(faults) > 0 {
		return &headerError{errors.Join(faults...)}
	}
	c.names, c.head = slices.Clone(names), line
	c.rows.ReuseRecord = true
	return nil
}

// separators returns the characters that may separate the columns.
func (c *columns) separators(line string) []string {
	switch {
	case c.separator != "":
		return []string{c.separator}
	case c.format == "tsv":
		return []string{"\t"}
	}
	return []string{",", "\t", ";", "|", " "}
}

// headerBy returns the names of the columns, separated by the first of the separators by which
// there is a column of the time.
func (c *columns) headerBy(separators []string, line string) (names []string, err error) {
	for _, s := range slices.Concat(separators, separators[:1]) {
		c.rows = csv.NewReader(&c.line)
		c.rows.Comma = []rune(s)[0]
		c.rows.FieldsPerRecord = -1 // decode checks the number, and names it in its error
		c.rows.TrimLeadingSpace = s != "\t" && s != " "
		names, err = c.split(line)
		if err == nil && slices.Contains(names, c.wanted.time) {
			break
		}
	}
	return names, err
}
