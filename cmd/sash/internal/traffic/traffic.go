// Package traffic reads recorded requests: access logs, columns of time and client, and CSV
// with costs. The documentation of package replay describes the formats, and how unusual
// lines are read.
package traffic

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// An Event is one request. It takes 16 bytes, since there may be very many.
type Event struct {
	At             int64 // Unix nanoseconds
	Client, charge uint32
}

// Traffic is the events read from files.
//
// Invariant: every line is counted once, so Lines = Events + Blank + Unreadable + Headings.
type Traffic struct {
	key     Key     // of a log
	Columns Columns // of a CSV
	Events  []Event
	Clients []string          // the names of clients, by Event.Client
	number  map[string]uint32 // the inverse of Clients
	name    []byte            // a reused buffer

	charges []Charge // by Event.charge, if the columns have a cost
	billed  int64    // the sum of all estimates and costs

	Lines, Blank, Unreadable, Headings, CutShort, OutOfOrder int64

	Faults    []FaultyLine // the first MaxFaults unreadable lines
	BrokenOff []FaultyLine // the files that could not be read to the end, with their last line
}

// MaxFaults is the greatest number of unreadable lines kept.
const MaxFaults = 1000

// A FaultyLine is a line that could not be read.
type FaultyLine struct {
	File string `json:"file"`
	Line int64  `json:"line"` // from 1
	Why  string `json:"why"`
	Text string `json:"text,omitempty"` // the beginning of the line, quoted
}

func newTraffic(key Key, c Columns) *Traffic {
	return &Traffic{key: key, Columns: c, number: make(map[string]uint32)}
}

// KeyNames returns the names of the fields or columns that identify a client, or "" if there
// are none.
func (t *Traffic) KeyNames() string {
	if t.Columns.IsCSV() {
		return strings.Join(t.Columns.Key, ",")
	}
	return t.key.String()
}

// A source is one file of traffic while it is read.
type source struct {
	*Traffic
	file   string
	line   int64
	sheet  *sheet // nil for a log
	known  bool   // whether format is known, from the first line read
	format format
	newest int64 // the latest time of a line so far
}

func (t *Traffic) source(file string) *source {
	s := &source{Traffic: t, file: file, newest: math.MinInt64}
	if t.Columns.IsCSV() {
		s.sheet = newSheet()
	}
	return s
}

// take counts a line, and adds an event if the line can be read. An error means that the
// file lacks the fields that the flags name.
func (s *source) take(line string) error {
	s.Lines++
	s.line++
	switch {
	case isBlank(line):
		s.Blank++
		return nil
	case s.sheet != nil:
		return s.takeRow(line)
	}
	return s.takeLogLine(line)
}

// takeLogLine is take for a log.
func (s *source) takeLogLine(line string) error {
	r, err := s.parse(line)
	if err != nil {
		s.fault(err.Error(), line)
		return nil
	}
	if f, missing := s.key.missing(r.format); missing && s.known {
		s.fault(fmt.Sprintf("no %s, which -key wants: the line is %v", f, r.format), line)
		return nil
	} else if missing {
		return fmt.Errorf("-key %v: %s has no %s, line %d is %v", s.key, s.file, f, s.line, r.format)
	}
	s.known, s.format = true, r.format
	if r.fields[Addr] == "-" && r.format != tsv && slices.Contains(s.key, Addr) {
		s.fault(`no addr, which -key wants: it is "-"`, line)
		return nil
	}
	if r.cut {
		s.CutShort++
	}
	s.add(Event{At: r.at}, s.key.appendName(s.name[:0], &r))
	return nil
}

// parse parses a line. A file is a .tsv or an access log, and not both. An access log may
// have lines of both log formats.
func (s *source) parse(line string) (record, error) {
	r, err := parseLine(line)
	switch {
	case err != nil && !s.known:
		return r, fmt.Errorf("neither a log line nor time, tab, client: %w", err)
	case err == nil && s.known && (r.format == tsv) != (s.format == tsv):
		return r, fmt.Errorf("the line is %v, the file %v", r.format, s.format)
	}
	return r, err
}

// add adds e, for the client of that name.
func (s *source) add(e Event, name []byte) {
	if e.At < s.newest {
		s.OutOfOrder++
	}
	s.newest = max(s.newest, e.At)
	e.Client = s.client(name)
	s.Events = append(s.Events, e)
}

// client returns the number of the client of that name. It keeps name as the buffer for the
// next name.
func (t *Traffic) client(name []byte) uint32 {
	t.name = name
	n, seen := t.number[string(t.name)]
	if !seen {
		n = uint32(len(t.Clients))
		name := string(t.name)
		t.Clients = append(t.Clients, name)
		t.number[name] = n
	}
	return n
}

// takeUnread counts a line that was not read to its end.
func (s *source) takeUnread(why, beginning string) {
	s.Lines++
	s.line++
	s.fault(why, beginning)
}

// fault counts the line as unreadable.
func (s *source) fault(why, line string) {
	s.Unreadable++
	if len(s.Faults) < MaxFaults {
		s.Faults = append(s.Faults, FaultyLine{s.file, s.line, why, Clip(line)})
	}
}

// breakOff records that the file cannot be read beyond this line.
func (s *source) breakOff(err error) {
	s.BrokenOff = append(s.BrokenOff, FaultyLine{File: s.file, Line: s.line, Why: err.Error()})
}

// sort sorts events by time. Events of one instant stay in the order in which they were
// read.
func (t *Traffic) sort() {
	byTime := func(a, b Event) int { return cmp.Compare(a.At, b.At) }
	if !slices.IsSortedFunc(t.Events, byTime) {
		slices.SortStableFunc(t.Events, byTime)
	}
}

// EventsOf counts the events of some clients.
func (t *Traffic) EventsOf(clients []uint32) map[uint32]int64 {
	counts := make(map[uint32]int64, len(clients))
	for _, c := range clients {
		counts[c] = 0
	}
	if len(clients) == 0 {
		return counts
	}
	for _, e := range t.Events {
		if n, wanted := counts[e.Client]; wanted {
			counts[e.Client] = n + 1
		}
	}
	return counts
}

// Span returns the times of the first event and the last.
func (t *Traffic) Span() (first, last time.Time) {
	if len(t.Events) == 0 {
		return first, last
	}
	return Instant(t.Events[0].At), Instant(t.Events[len(t.Events)-1].At)
}

func Instant(ns int64) time.Time { return time.Unix(0, ns).UTC() }

func isBlank(line string) bool {
	for _, c := range []byte(line) {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}
