package traffic

import (
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Columns names the columns of a CSV to read. Without Time, files are logs.
type Columns struct {
	Time string
	Key  []string // columns that identify a client; if empty, all events are one client's
	Cost *Sum     // if nil, each event costs one unit
	// Estimate is the cost to reserve. If nil, the cost is known when an event is decided.
	Estimate *Sum
}

// IsCSV reports whether files are CSV, and not logs.
func (c *Columns) IsCSV() bool { return c.Time != "" }

// everybody is the name of the only client if no columns identify clients.
const everybody = "all"

// ParseColumns parses names joined by commas. Its error names every wrong one.
func ParseColumns(s string) (names []string, err error) {
	var faults []error
	for name := range strings.SplitSeq(s, ",") {
		switch name = strings.TrimSpace(name); {
		case name == "":
			faults = append(faults, fmt.Errorf("-key: %s has a column without a name", Clip(s)))
		case slices.Contains(names, name):
			faults = append(faults, fmt.Errorf("-key: %s is named twice", name))
		default:
			names = append(names, name)
		}
	}
	return names, errors.Join(faults...)
}

// A sheet reads a CSV. A row is one line, and encoding/csv is given one line at a time. So a
// quote that is never closed makes one line unreadable, and not the rest of the file, and
// lines are counted as in other files.
type sheet struct {
	line  strings.Reader
	rows  *csv.Reader
	index map[string]int // of columns by name; nil until the header is read
	width int
}

func newSheet() *sheet {
	f := &sheet{}
	f.rows = csv.NewReader(&f.line)
	f.rows.FieldsPerRecord = -1 // addRow checks the number, and names it in its error
	f.rows.ReuseRecord = true
	f.rows.TrimLeadingSpace = true
	return f
}

// split returns the values of a line. They are valid until the next call.
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
		s.Headings++
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

// takeHeader reads the names of the columns. Its error names every wanted column that is
// missing.
func (s *source) takeHeader(line string) error {
	names, err := s.sheet.split(line)
	if err != nil {
		return fmt.Errorf("-time %s: %s is no CSV, its line %d is %s: %w", s.Columns.Time, s.file, s.line, Clip(line), err)
	}
	var faults []error
	want := func(flag string, columns ...string) {
		for _, c := range columns {
			switch first := slices.Index(names, c); {
			case first < 0:
				faults = append(faults, fmt.Errorf("-%s: %s has no column %s, its header is %s", flag, s.file, Clip(c), Clip(line)))
			case slices.Contains(names[first+1:], c):
				faults = append(faults, fmt.Errorf("-%s: %s has two columns %s, its header is %s", flag, s.file, Clip(c), Clip(line)))
			}
		}
	}
	want("time", s.Columns.Time)
	want("key", s.Columns.Key...)
	if s.Columns.Cost != nil {
		want("cost", s.Columns.Cost.columns...)
	}
	if s.Columns.Estimate != nil {
		want("estimate", s.Columns.Estimate.columns...)
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
	at, err := parseDateTime(value(s.Columns.Time))
	if err != nil {
		return err
	}
	e := Event{At: at, charge: uint32(len(s.charges))}
	if s.Columns.Cost != nil {
		c, err := s.Columns.charge(value)
		if err == nil {
			err = s.bill(c)
		}
		if err != nil {
			return err
		}
	}
	s.add(e, s.Columns.appendName(s.name[:0], value))
	return nil
}

// charge returns the cost of a row, whose columns value returns.
func (c *Columns) charge(value func(column string) string) (Charge, error) {
	cost, err := c.Cost.of(value)
	if err != nil || c.Estimate == nil {
		return Charge{cost, cost}, err
	}
	asked, err := c.Estimate.of(value)
	return Charge{asked, cost}, err
}

// appendName appends the name of the client of a row, whose columns value returns.
func (c *Columns) appendName(name []byte, value func(column string) string) []byte {
	if len(c.Key) == 0 {
		return append(name, everybody...)
	}
	for i, column := range c.Key {
		v := value(column)
		if v == "" {
			v = "-" // as in other files
		}
		name = appendValue(name, i, v)
	}
	return name
}

var dateTimes = [...]string{
	"2006-01-02 15:04:05", // a fraction of a second is accepted as well
	"2006-01-02T15:04:05Z07:00",
	"2006-01-02T15:04:05",
	"2006-01-02 15:04:05Z07:00",
}

// parseDateTime parses a time such as 2023-11-16 18:15:46.68059, in UTC unless it names
// another zone.
func parseDateTime(s string) (int64, error) {
	for _, layout := range dateTimes {
		if t, err := time.Parse(layout, s); err == nil {
			return nanoseconds(t, s)
		}
	}
	return 0, fmt.Errorf("time %s is not like 2006-01-02 15:04:05.999 or 2006-01-02T15:04:05Z", Clip(s))
}
