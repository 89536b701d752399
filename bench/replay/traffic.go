package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// An event is one request: 16 bytes, of which there may be very many.
type event struct {
	at             int64 // Unix nanoseconds
	client, charge uint32
}

// traffic is what could be read of some files.
//
// Every line is counted once: lines = events + blank + unreadable + headings.
type traffic struct {
	key     clientKey // of a log
	columns columns   // of a CSV, if that is what is read
	events  []event
	clients []string // names, by the number in event
	number  map[string]uint32
	name    []byte // reused

	charges []charge // by the number in event, if the columns have a cost
	billed  int64    // all of them, estimates and costs

	lines, blank, unreadable, headings, cutShort, outOfOrder int64

	faults    []faultyLine // the first maxFaults of those unreadable
	brokenOff []faultyLine // files that could not be read to the end, with the last line begun
}

// maxFaults is how many unreadable lines are kept to be shown.
const maxFaults = 1000

// A faultyLine is a line that could not be read.
type faultyLine struct {
	File string `json:"file"`
	Line int64  `json:"line"` // from 1
	Why  string `json:"why"`
	Text string `json:"text,omitempty"` // quoted, its beginning
}

func newTraffic(key clientKey, c columns) *traffic {
	return &traffic{key: key, columns: c, number: make(map[string]uint32)}
}

// keyNames returns what tells clients apart; nothing, if nothing does.
func (t *traffic) keyNames() string {
	if t.columns.isCSV() {
		return strings.Join(t.columns.key, ",")
	}
	return t.key.String()
}

// A source is one file of traffic while it is read.
type source struct {
	*traffic
	file   string
	line   int64
	sheet  *sheet // nil: a log
	known  bool   // whether a line has said what the format is
	format format
	newest int64 // latest time of any line so far
}

func (t *traffic) source(file string) *source {
	s := &source{traffic: t, file: file, newest: math.MinInt64}
	if t.columns.isCSV() {
		s.sheet = newSheet()
	}
	return s
}

// take counts a line and, if it can be read, makes it an event. The error is
// not about the line: the file has no such fields as the flags name.
func (s *source) take(line string) error {
	s.lines++
	s.line++
	switch {
	case isBlank(line):
		s.blank++
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
	if r.cut {
		s.cutShort++
	}
	s.add(event{at: r.at}, s.key.appendName(s.name[:0], &r))
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
func (s *source) add(e event, name []byte) {
	if e.at < s.newest {
		s.outOfOrder++
	}
	s.newest = max(s.newest, e.at)
	e.client = s.client(name)
	s.events = append(s.events, e)
}

// client returns the number of the client of that name, which is reused.
func (t *traffic) client(name []byte) uint32 {
	t.name = name
	n, seen := t.number[string(t.name)]
	if !seen {
		n = uint32(len(t.clients))
		name := string(t.name)
		t.clients = append(t.clients, name)
		t.number[name] = n
	}
	return n
}

// takeUnread counts a line of which only the beginning was read, or nothing.
func (s *source) takeUnread(why, beginning string) {
	s.lines++
	s.line++
	s.fault(why, beginning)
}

// fault counts the line as unreadable.
func (s *source) fault(why, line string) {
	s.unreadable++
	if len(s.faults) < maxFaults {
		s.faults = append(s.faults, faultyLine{s.file, s.line, why, clip(line)})
	}
}

// breakOff notes that the file cannot be read beyond this line.
func (s *source) breakOff(err error) {
	s.brokenOff = append(s.brokenOff, faultyLine{File: s.file, Line: s.line, Why: err.Error()})
}

// sort puts events in the order they happened in; those of one instant stay in
// the order they were read in.
func (t *traffic) sort() {
	byTime := func(a, b event) int { return cmp.Compare(a.at, b.at) }
	if !slices.IsSortedFunc(t.events, byTime) {
		slices.SortStableFunc(t.events, byTime)
	}
}

// span returns the times of the first event and the last.
func (t *traffic) span() (first, last time.Time) {
	if len(t.events) == 0 {
		return first, last
	}
	return instant(t.events[0].at), instant(t.events[len(t.events)-1].at)
}

func instant(ns int64) time.Time { return time.Unix(0, ns).UTC() }

func isBlank(line string) bool {
	for _, c := range []byte(line) {
		if c != ' ' && c != '\t' && c != '\r' {
			return false
		}
	}
	return true
}
