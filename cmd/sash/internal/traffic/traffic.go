// Package traffic reads recorded requests: access logs of many servers, columns with a header,
// and JSON lines. The documentation of package replay describes the formats, and how unusual
// lines are read.
//
// Files are read as streams. Read merges them by time, and passes the events on in order, so
// it needs memory for the clients and for a bounded number of lines, not for all events.
package traffic

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// An Event is one request.
type Event struct {
	At     int64  // Unix nanoseconds
	Client uint32 // an index of Traffic.Clients
	Status uint16 // of the response; 0 if the log does not tell
	Charge
	carried *carried // nil unless Settings.Fields or Settings.Lasting is set
}

// Traffic is what has been read from files, but for the events.
//
// Invariant: every line is counted once, so
// Lines = Events + LeftOut + Blank + Unreadable + Headings + Parts.
type Traffic struct {
	Events  int64
	Clients []string // the names of clients, by Event.Client
	Counts  []int64  // the numbers of events of clients, by Event.Client
	Cost    string   // the sum of fields that an event costs, or ""
	Key     Key      // the fields that identify a client; empty if all events are one client's

	Lines, Blank, Unreadable, Headings, CutShort, OutOfOrder int64

	LeftOut int64 // lines that could be read, and that the Selection does not have

	// Parts counts the lines of a collector whose rest comes in a later one.
	Parts int64

	// Late counts the events that came too late to be put in order. They are passed on at the
	// time of the event before them.
	Late int64
	// Mixed counts the unreadable lines that another format reads, among all Faults.
	Mixed int64

	Formats   []FileFormat // of each file with a line that could be read
	Faults    []FaultyLine // the first MaxFaults unreadable lines
	BrokenOff []FaultyLine // the files that could not be read to the end, with their last line
	NoneRead  []FaultyLine // the first unreadable line, but comments, of each other file that has no readable one
	Jumps     []Jump       // the greatest jump of the clock in each file that has one

	// OtherUnit is a unit in which all times of a file that was read as microseconds, OtherUnitOf,
	// would be of this century. It is "" if there is none.
	OtherUnit, OtherUnitOf string

	// Forwarded counts the events with X-Forwarded-For, in files that log it.
	Forwarded int64

	// Valued counts the events that have a value of each of Settings.Fields.
	Valued []int64

	WholeSeconds bool // whether all times are, and there are some

	trusting    bool // whether proxies are believed
	first, last int64
	number      map[string]uint32 // the inverse of Clients
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

// A FileFormat is the format of a file, and the reason for it.
type FileFormat struct {
	File   string `json:"file"`
	Format string `json:"format"` // as -format takes it
	Why    string `json:"why"`
	how    string // the end of Why: the prefixes of lines, and the fields of JSON
}

// A Jump is a place in a file at which the time leaps back by more than servers log late, or
// forward by more than a year.
type Jump struct {
	File string        `json:"file"`
	Line int64         `json:"line"`
	By   time.Duration `json:"by_ns"` // negative if back
}

// Read reads the files of s, and passes all events to each, in the order of time and in
// batches. A batch is valid during the call only. Events of one instant keep the order in
// which they stand in a file, and the order of the files. A file that breaks off is read as
// far as possible. "-" stands for stdin. Every byte read is also written to bar.
//
// During a call of each, the Traffic passed has the names and counts of clients up to the
// batch, and Read returns it with all figures. An error means that files are missing, or lack
// the fields that the settings name; or it is the error of each, or of ctx.
func Read(ctx context.Context, s *Settings, files []string, stdin io.Reader, bar io.Writer, each func(*Traffic, []Event) error) (*Traffic, error) {
	if _, err := CheckFiles(files, stdin); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the goroutines that read files
	t := &Traffic{
		Cost: s.Cost.String(), Key: s.keyOf(s.columns()), Valued: make([]int64, len(s.Fields)), WholeSeconds: true,
		trusting: len(s.Trust) > 0, number: make(map[string]uint32),
	}
	m := merger{t: t, each: each}
	for _, name := range files {
		src := newSource(s, name, len(files))
		m.streams = append(m.streams, newStream(t, src.start(ctx, stdin, bar), s.room(len(files))))
		m.sources = append(m.sources, src)
	}
	if err := m.run(ctx); err != nil {
		return nil, err
	}
	for _, src := range m.sources {
		t.addFile(src)
	}
	if err := t.chooseKey(m.sources); err != nil {
		return nil, err
	}
	t.WholeSeconds = t.WholeSeconds && t.Events > 0
	return t, nil
}

// addFile adds the figures of a file that has been read.
func (t *Traffic) addFile(s *source) {
	t.Lines += s.lines
	t.Blank += s.blank
	t.Unreadable += s.unreadable
	t.Headings += s.headings
	t.LeftOut += s.leftOut
	t.Parts += s.parts
	t.CutShort += s.cutShort
	t.OutOfOrder += s.outOfOrder
	t.Mixed += s.mixed
	t.Forwarded += s.forwarded
	t.WholeSeconds = t.WholeSeconds && !s.fractions
	for i, n := range s.valued {
		t.Valued[i] += n
	}
	room := min(MaxFaults-len(t.Faults), len(s.faults))
	t.Faults = append(t.Faults, s.faults[:room]...)
	t.BrokenOff = append(t.BrokenOff, s.brokenOff...)
	if !s.counted && s.unread != nil && len(s.brokenOff) == 0 {
		t.NoneRead = append(t.NoneRead, *s.unread)
	}
	if s.known {
		how := s.how()
		t.Formats = append(t.Formats, FileFormat{s.file, s.decoder.name(), s.why + how, how})
	}
	if m, ok := s.decoder.(*micros); ok && s.known {
		if unit := m.unitOf(s.newest); unit != "" && unit == m.unitOf(s.oldest) {
			t.OtherUnit, t.OtherUnitOf = unit, s.file
		}
	}
	if s.jump != (Jump{}) {
		t.Jumps = append(t.Jumps, s.jump)
	}
}

// chooseKey sets Key to the key by which the files have been read. It refuses files if some of them
// tell clients apart by default and others do not.
func (t *Traffic) chooseKey(sources []*source) error {
	var by *source
	for _, s := range sources {
		switch {
		case !s.known:
		case by == nil:
			by, t.Key = s, s.key
		case len(s.key) != len(by.key):
			return fmt.Errorf("clients are told apart by %q in %s, and by %q in %s: name the fields by -key, or -key none", by.key, by.file, s.key, s.file)
		}
	}
	return nil
}

// client returns the number of the client of that name.
func (t *Traffic) client(name []byte) uint32 {
	n, seen := t.number[string(name)]
	if !seen {
		n = uint32(len(t.Clients))
		name := string(name)
		t.Clients = append(t.Clients, name)
		t.Counts = append(t.Counts, 0)
		t.number[name] = n
	}
	return n
}

// count counts events that are about to be passed on.
func (t *Traffic) count(events []Event) {
	if t.Events == 0 {
		t.first = events[0].At
	}
	t.Events += int64(len(events))
	t.last = events[len(events)-1].At
	for _, e := range events {
		t.Counts[e.Client]++
	}
}

// Span returns the times of the first event and the last.
func (t *Traffic) Span() (first, last time.Time) {
	if t.Events == 0 {
		return first, last
	}
	return Instant(t.first), Instant(t.last)
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

// FormatLines says in lines which formats files have, and why. Files that are read in the same way share a line.
func FormatLines(formats []FileFormat) (all []string) {
	for i, f := range formats {
		differs := func(g FileFormat) bool { return g.Format != f.Format || g.how != f.how }
		if i > 0 && !differs(formats[i-1]) {
			continue
		}
		of := ""
		if slices.ContainsFunc(formats, differs) {
			of = f.File + " "
		}
		all = append(all, fmt.Sprintf("%sread as %s: %s", of, f.Format, f.Why))
	}
	return all
}
