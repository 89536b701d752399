package suggest

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// A summary tells what was read. Lines = Events + Blank + Unreadable + Headings.
type summary struct {
	Files   []string   `json:"files"` // "-" is standard input
	Key     string     `json:"key"`   // fields or columns that identify a client; empty if there is only the client "all"
	Lines   int64      `json:"lines"`
	Events  int64      `json:"events"`
	Clients int        `json:"clients"`
	First   *time.Time `json:"first,omitempty"` // times of the first and last event
	Last    *time.Time `json:"last,omitempty"`

	Blank      int64 `json:"blank"`
	Unreadable int64 `json:"unreadable"`
	Headings   int64 `json:"headings,omitempty"` // lines that name the columns of a CSV

	Formats         []traffic.FileFormat `json:"formats"`          // of the files of which a line could be read
	UnreadableLines []traffic.FaultyLine `json:"unreadable_lines"` // the first of them
	BrokenOff       []traffic.FaultyLine `json:"broken_off"`       // files not read beyond that line
}

func (o *options) summary(t *traffic.Traffic) summary {
	s := summary{
		Files: o.files, Key: t.Key,
		Lines: t.Lines, Events: t.Events, Clients: len(t.Clients),
		Blank: t.Blank, Unreadable: t.Unreadable, Headings: t.Headings,
		Formats:         append([]traffic.FileFormat{}, t.Formats...),
		UnreadableLines: append([]traffic.FaultyLine{}, t.Faults[:min(shownFaults, len(t.Faults))]...),
		BrokenOff:       append([]traffic.FaultyLine{}, t.BrokenOff...),
	}
	if s.Events > 0 {
		first, last := t.Span()
		s.First, s.Last = &first, &last
	}
	return s
}

// shownFaults is the number of unreadable lines that a report has.
const shownFaults = 3

func (s *summary) source() string { return strings.Join(s.Files, ", ") }

// headline says in a line what was read.
func (s *summary) headline() string {
	clients := "by one client, as no -key tells any apart"
	if s.Key != "" {
		clients = fmt.Sprintf("by %s, told apart by %s", count(int64(s.Clients), "client"), s.Key)
	}
	return fmt.Sprintf("%s: %s %s", s.source(), count(s.Events, "event"), clients)
}

// times says in a line from when to when the recording is.
func (s *summary) times() string {
	if s.First == nil {
		return ""
	}
	return fmt.Sprintf("from %s to %s UTC, %v", s.First.Format(toTheSecond), s.Last.Format(toTheSecond), s.Last.Sub(*s.First).Round(time.Second))
}

func (s *summary) text(w io.Writer) {
	fmt.Fprintln(w, s.headline())
	if s.First != nil {
		fmt.Fprintln(w, s.times())
	}
	for _, line := range traffic.FormatLines(s.Formats) {
		fmt.Fprintln(w, line)
	}
	for _, b := range s.BrokenOff {
		fmt.Fprintf(w, "NOT COMPLETE: %s could be read to line %d only: %s\n", b.File, b.Line, b.Why)
	}
	if s.Unreadable == 0 {
		return
	}
	fmt.Fprintf(w, "%s of %s unreadable, skipped; sash replay lists more:\n", humanize.Comma(s.Unreadable), count(s.Lines, "line"))
	for _, f := range s.UnreadableLines {
		fmt.Fprintf(w, "  %s:%d: %s: %s\n", f.File, f.Line, f.Why, f.Text)
	}
}
