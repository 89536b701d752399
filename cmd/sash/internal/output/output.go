// Package output is what the reports of all subcommands have in common: the summary of what was
// read, tables and numbers.
package output

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
	"github.com/seed-30da4c49/sash/internal/command"
)

// A Summary tells what was read. Lines = Events + LeftOut + Blank + Unreadable + Headings + Parts.
type Summary struct {
	Files   []string   `json:"files"`            // "-" is standard input
	Key     string     `json:"key"`              // fields or columns that identify a client; empty if there is only the client "all"
	Policy  string     `json:"policy,omitempty"` // the file whose policies tell clients apart, each in its own way
	Lines   int64      `json:"lines"`
	Events  int64      `json:"events"`
	Clients int        `json:"clients"`
	First   *time.Time `json:"first,omitempty"` // times of the first and last event
	Last    *time.Time `json:"last,omitempty"`

	LeftOut    int64 `json:"left_out,omitempty"` // by -from, -to, -without and -where
	Blank      int64 `json:"blank"`
	Unreadable int64 `json:"unreadable"`
	Headings   int64 `json:"headings,omitempty"` // lines that name the columns of a CSV
	Parts      int64 `json:"parts,omitempty"`    // lines of a collector whose rest comes in a later one

	Formats         []traffic.FileFormat `json:"formats"`          // of the files with a line that could be read
	UnreadableLines []traffic.FaultyLine `json:"unreadable_lines"` // the first of them
	BrokenOff       []traffic.FaultyLine `json:"broken_off"`       // files not read beyond that line
	// NoneRead has the first unreadable line, but comments, of each other file that has no readable one.
	NoneRead []traffic.FaultyLine `json:"none_read,omitempty"`
}

// Summarize returns the summary of t, which was read from files, with at most that many
// unreadable lines.
func Summarize(files []string, t *traffic.Traffic, unreadable int) Summary {
	s := Summary{
		Files: files, Key: t.Key.String(),
		Lines: t.Lines, Events: t.Events, Clients: len(t.Clients),
		LeftOut: t.LeftOut, Blank: t.Blank, Unreadable: t.Unreadable, Headings: t.Headings, Parts: t.Parts,
		Formats:         append([]traffic.FileFormat{}, t.Formats...),
		UnreadableLines: append([]traffic.FaultyLine{}, t.Faults[:min(unreadable, len(t.Faults))]...),
		BrokenOff:       append([]traffic.FaultyLine{}, t.BrokenOff...),
		NoneRead:        t.NoneRead,
	}
	if s.Events > 0 {
		first, last := t.Span()
		s.First, s.Last = &first, &last
	}
	return s
}

// Source returns the names of the files, or of the first of very many.
func (s *Summary) Source() string {
	const most = 10
	if len(s.Files) > most {
		return fmt.Sprintf("%s and %s", strings.Join(s.Files[:most], ", "), Count(int64(len(s.Files)-most), "other file"))
	}
	return strings.Join(s.Files, ", ")
}

// nothing says that there is no event, and what to try.
func (s *Summary) nothing() string {
	if s.LeftOut > 0 {
		return fmt.Sprintf("no event is left in %s: -from, -to, -without and -where leave out all that can be read", s.Source())
	}
	if s.Unreadable == 0 && len(s.BrokenOff) == 0 {
		return "no event in " + s.Source()
	}
	text := "nothing readable in " + s.Source()
	if len(s.Formats) == 0 {
		text += ": name the format by -format, or the field of the time by -time"
	}
	if len(s.UnreadableLines) > 0 {
		first := s.UnreadableLines[0]
		text += fmt.Sprintf("; line %d of %s: %s", first.Line, first.File, first.Why)
	}
	return text
}

// incomplete says for each file that could not be read to its end, or has no readable line, what the report lacks.
// If no file has a readable line, nothing says so.
func (s *Summary) incomplete() (all []string) {
	for _, b := range s.BrokenOff {
		all = append(all, fmt.Sprintf("%s could be read to line %d only: %s", b.File, b.Line, b.Why))
	}
	if s.Events+s.LeftOut == 0 {
		return all
	}
	for _, f := range s.NoneRead {
		all = append(all, fmt.Sprintf("no line of %s can be read; line %d: %s", f.File, f.Line, f.Why))
	}
	return all
}

// Headline says in a line what was read.
func (s *Summary) Headline() string {
	clients := "by one client, as no -key tells any apart"
	switch {
	case s.Policy != "":
		clients = "under the policies of " + s.Policy
	case s.Key != "":
		clients = fmt.Sprintf("by %s, told apart by %s", Count(int64(s.Clients), "client"), s.Key)
	}
	return fmt.Sprintf("%s: %s %s", s.Source(), Count(s.Events, "event"), clients)
}

// Times says in a line from when to when the recording is. It is empty without events.
func (s *Summary) Times() string {
	if s.First == nil {
		return ""
	}
	return fmt.Sprintf("from %s to %s UTC, %v", s.First.Format(ToTheSecond), s.Last.Format(ToTheSecond), s.Last.Sub(*s.First).Round(time.Second))
}

// Heading writes what was read, from when to when, and in which formats.
func (s *Summary) Heading(w io.Writer) {
	fmt.Fprintln(w, s.Headline())
	if s.First != nil {
		fmt.Fprintln(w, s.Times())
	}
	if s.LeftOut > 0 {
		fmt.Fprintf(w, "%s left out by -from, -to, -without or -where\n", Count(s.LeftOut, "line"))
	}
	for _, line := range traffic.FormatLines(s.Formats) {
		fmt.Fprintln(w, line)
	}
}

// Incomplete writes which files could not be read, or not to the end.
func (s *Summary) Incomplete(w io.Writer) {
	for _, text := range s.incomplete() {
		fmt.Fprintf(w, "NOT COMPLETE: %s\n", text)
	}
}

// Complain writes to stderr, after the name of the command, which input the report does not cover. It
// returns the exit status.
func (s *Summary) Complain(name string, stderr io.Writer) int {
	status := command.OK
	for _, text := range s.incomplete() {
		fmt.Fprintf(stderr, "%s: %s\n", name, text)
		status = command.Failed
	}
	if s.Events == 0 {
		fmt.Fprintf(stderr, "%s: %s\n", name, s.nothing())
		status = command.Failed
	}
	return status
}

// ToTheSecond is the layout of instants.
const ToTheSecond = "2006-01-02 15:04:05"

// NewTable returns a writer that aligns columns to the right. Text after the last tab stays
// on the left, and may be long.
func NewTable(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
}

// Short returns a duration as people write it: 1m and not 1m0s, and 7d.
func Short(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}

// Percent returns a share of 1 as text.
func Percent(share float64) string { return fmt.Sprintf("%.3f%%", 100*share) }

// Count returns n with the name of what was counted, in the plural unless n is 1.
func Count(n int64, of string) string { return traffic.Count(n, of, of+"s") }

// Share returns part as a share of the whole, or 0 of nothing.
func Share(part, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}
