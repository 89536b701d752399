package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// columns says what is read of a CSV. Without a time there is no CSV to read.
type columns struct {
	time           string
	key            []string // none: all events are one client's
	cost, estimate *sum     // nil: each event costs one unit; its cost is known
}

// isCSV reports whether files are CSV, and not logs.
func (c *columns) isCSV() bool { return c.time != "" }

// everybody is the one client that there is where nothing tells clients apart.
const everybody = "all"

// parseColumns reads names joined by commas. Its error names every wrong one.
func parseColumns(s string) (names []string, err error) {
	var faults []error
	for name := range strings.SplitSeq(s, ",") {
		switch name = strings.TrimSpace(name); {
		case name == "":
			faults = append(faults, fmt.Errorf("-key: %s has a column without a name", clip(s)))
		case slices.Contains(names, name):
			faults = append(faults, fmt.Errorf("-key: %s is named twice", name))
		default:
			names = append(names, name)
		}
	}
	return names, errors.Join(faults...)
}

// A sheet is a CSV while it is read. A row of it is one line: encoding/csv is
// given one at a time, so that a quote which is never closed costs that line and
// not the rest of the file, and lines are counted as they are in other files.
type sheet struct {
	line  strings.Reader
	rows  *csv.Reader
	index map[string]int // of columns by name; nil until the header is read
	width int
}

func newSheet() *sheet {
	f := &sheet{}
	f.rows = csv.NewReader(&f.line)
	f.rows.FieldsPerRecord = -1 // addRow counts them, and says how many there are
	f.rows.ReuseRecord = true
	f.rows.TrimLeadingSpace = true
	return f
}

// split returns the values of a line, until it is called again.
func (f *sheet) split(line string) ([]string, error) {
	f.line.Reset(line)
	row, err := f.rows.Read()
	var fault *csv.ParseError
	if errors.As(err, &fault) {
		err = fault.Err // without its line number, which counts from elsewhere
	}
	return row, err
}

// takeRow is take for a CSV.
func (s *source) takeRow(line string) error {
	if s.sheet.index == nil {
		s.headings++
		return s.takeHeader(strings.TrimPrefix(line, "\ufeff")) // as spreadsheets begin a file
	}
	row, err := s.sheet.split(line)
	if err == nil {
		err = s.addRow(row)
	}
	if err != nil {
		s.fault(err.Error(), line)
	}
	return nil
}

// takeHeader reads the names of the columns. Its error says every column that is
// wanted and not there.
func (s *source) takeHeader(line string) error {
	names, err := s.sheet.split(line)
	if err != nil {
		return fmt.Errorf("-time %s: %s is no CSV, its line %d is %s: %w", s.columns.time, s.file, s.line, clip(line), err)
	}
	var faults []error
	want := func(flag string, columns ...string) {
		for _, c := range columns {
			switch first := slices.Index(names, c); {
			case first < 0:
				faults = append(faults, fmt.Errorf("-%s: %s has no column %s, its header is %s", flag, s.file, clip(c), clip(line)))
			case slices.Contains(names[first+1:], c):
				faults = append(faults, fmt.Errorf("-%s: %s has two columns %s, its header is %s", flag, s.file, clip(c), clip(line)))
			}
		}
	}
	want("time", s.columns.time)
	want("key", s.columns.key...)
	if s.columns.cost != nil {
		want("cost", s.columns.cost.columns...)
	}
	if s.columns.estimate != nil {
		want("estimate", s.columns.estimate.columns...)
	}
	s.sheet.width, s.sheet.index = len(names), map[string]int{}
	for i, name := range names {
		s.sheet.index[name] = i
	}
	return errors.Join(faults...)
}

// addRow makes a row an event.
func (s *source) addRow(row []string) error {
	if len(row) != s.sheet.width {
		return fmt.Errorf("%d columns, the header has %d", len(row), s.sheet.width)
	}
	value := func(column string) string { return row[s.sheet.index[column]] }
	at, err := parseDateTime(value(s.columns.time))
	if err != nil {
		return err
	}
	e := event{at: at, charge: uint32(len(s.charges))}
	if s.columns.cost != nil {
		c, err := s.columns.charge(value)
		if err == nil {
			err = s.bill(c)
		}
		if err != nil {
			return err
		}
	}
	s.add(e, s.columns.appendName(s.name[:0], value))
	return nil
}

// charge returns what a row costs, in which value finds a column.
func (c *columns) charge(value func(column string) string) (charge, error) {
	cost, err := c.cost.of(value)
	if err != nil || c.estimate == nil {
		return charge{cost, cost}, err
	}
	asked, err := c.estimate.of(value)
	return charge{asked, cost}, err
}

// appendName appends the name of the client of a row, in which value finds a
// column.
func (c *columns) appendName(name []byte, value func(column string) string) []byte {
	if len(c.key) == 0 {
		return append(name, everybody...)
	}
	for i, column := range c.key {
		v := value(column)
		if v == "" {
			v = "-" // as in other files
		}
		name = appendValue(name, i, v)
	}
	return name
}

var dateTimes = [...]string{
	"2006-01-02 15:04:05", // any fraction of a second is read besides
	"2006-01-02T15:04:05Z07:00",
	"2006-01-02T15:04:05",
	"2006-01-02 15:04:05Z07:00",
}

// parseDateTime reads a time such as 2023-11-16 18:15:46.68059, in UTC unless it
// names another zone.
func parseDateTime(s string) (int64, error) {
	for _, layout := range dateTimes {
		if t, err := time.Parse(layout, s); err == nil {
			return nanoseconds(t, s)
		}
	}
	return 0, fmt.Errorf("time %s is not like 2006-01-02 15:04:05.999 or 2006-01-02T15:04:05Z", clip(s))
}
