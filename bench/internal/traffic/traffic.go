// Package traffic reads recorded requests: access logs, columns of time and client,
// and CSV with costs. Command replay explains what it reads and what it makes of
// lines that are odd.
package traffic

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// An Event is one request: 16 bytes, of which there may be very many.
type Event struct {
	At             int64 // Unix nanoseconds
	Client, charge uint32
}

// Traffic is what could be read of some files.
//
// Every line is counted once: lines = events + blank + unreadable + headings.
type Traffic struct {
	key     Key     // of a log
	Columns Columns // of a CSV, if that is what is read
	Events  []Event
	Clients []string // names, by the number in event
	number  map[string]uint32
	name    []byte // reused

	charges []Charge // by the number in event, if the columns have a cost
	billed  int64    // all of them, estimates and costs

	Lines, Blank, Unreadable, Headings, CutShort, OutOfOrder int64

	Faults    []FaultyLine // the first MaxFaults of those unreadable
	BrokenOff []FaultyLine // files that could not be read to the end, with the last line begun
}

// MaxFaults is how many unreadable lines are kept to be shown.
const MaxFaults = 1000

// A FaultyLine is a line that could not be read.
type FaultyLine struct {
	File string `json:"file"`
	Line int64  `json:"line"` // from 1
	Why  string `json:"why"`
	Text string `json:"text,omitempty"` // quoted, its beginning
}

func newTraffic(key Key, c Columns) *Traffic {
	return &Traffic{key: key, Columns: c, number: make(map[string]uint32)}
}

// KeyNames returns what tells clients apart; nothing, if nothing does.
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
	sheet  *sheet // nil: a log
	known  bool   // whether a line has said what the format is
	format format
	newest int64 // latest time of any line so far
}

func (t *Traffic) source(file string) *source {
	s := &source{Traffic: t, file: file, newest: math.MinInt64}
	if t.Columns.IsCSV() {
		s.sheet = newSheet()
	}
	return s
}

// take counts a line and, if it can be read, makes it an event. The error is
// not about the line: the file has no such fields as the flags name.
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
	if f, some := s.key.missing(r.format); some && s.known {
		s.fault(fmt.Sprintf("no %s, which -key wants: the line is %v", f, r.format), line)
		return nil
	} else if some {
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

// parse reads a line. A .tsv and an access log do not share a file, but one
// server may have written both log formats.
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

// add adds e, of the client of that name.
func (s *source) add(e Event, name []byte) {
	if e.At < s.newest {
		s.OutOfOrder++
	}
	s.newest = max(s.newest, e.At)
	e.Client = s.client(name)
	s.Events = append(s.Events, e)
}

// client returns the number of the client of that name, which is reused.
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

// takeUnread counts a line of which only the beginning was read, or nothing.
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

// breakOff notes that the file cannot be read beyond this line.
func (s *source) breakOff(err error) {
	s.BrokenOff = append(s.BrokenOff, FaultyLine{File: s.file, Line: s.line, Why: err.Error()})
}

// sort puts events in the order they happened in; those of one instant stay in
// the order they were read in.
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
