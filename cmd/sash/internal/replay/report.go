package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// A report is one replay. Lines = Events + Blank + Unreadable + Headings.
type report struct {
	Files   []string   `json:"files"` // "-" is standard input
	Key     string     `json:"key"`   // fields or columns that identify a client; empty if there is only the client "all"
	Lines   int64      `json:"lines"`
	Events  int64      `json:"events"`
	Clients int        `json:"clients"`
	First   *time.Time `json:"first,omitempty"` // times of the first and last event
	Last    *time.Time `json:"last,omitempty"`

	Blank      int64 `json:"blank"`
	CutShort   int64 `json:"cut_short"`    // events whose line ended inside the user agent
	OutOfOrder int64 `json:"out_of_order"` // events older than one before them in their file
	Unreadable int64 `json:"unreadable"`
	Headings   int64 `json:"headings,omitempty"` // lines that name the columns of a CSV

	UnreadableLines    []traffic.FaultyLine `json:"unreadable_lines"`     // the first of them
	UnreadableLinesCap int                  `json:"unreadable_lines_cap"` // the greatest number listed
	BrokenOff          []traffic.FaultyLine `json:"broken_off"`           // files not read beyond that line

	Formats  []traffic.FileFormat `json:"formats"`  // of the files of which a line could be read
	Warnings []string             `json:"warnings"` // what makes the answers doubtful, and what to do about it

	Cost     string `json:"cost,omitempty"`     // the sum of columns, if events have costs
	Estimate string `json:"estimate,omitempty"` // the sum of columns, if calls reserve
	Settle   string `json:"settle,omitempty"`   // the time from a reservation to its settlement, if not 0

	Limits []verdict `json:"limits"` // in the order given, or one for all together; none if there were no events
}

// A verdict is the result of a replay under one limit, or under one policy of several.
type verdict struct {
	Limit         sash.Limit `json:"limit,omitzero"`     // of a limit replayed alone
	Together      []decision `json:"together,omitempty"` // of a policy, in the order given
	Denied        int64      `json:"denied"`
	DeniedShare   float64    `json:"denied_share"`   // of all events
	DeniedClients int        `json:"denied_clients"` // denied at least once

	Exact           bool    `json:"exact"`        // whether every limit is exact itself: a log or a token bucket
	ExactDenied     int64   `json:"exact_denied"` // by the exact limits: the logs of the same counts and windows, and the token buckets
	WronglyAdmitted int64   `json:"wrongly_admitted"`
	WronglyDenied   int64   `json:"wrongly_denied"`
	ErrorShare      float64 `json:"error_share"` // wrong answers of all events

	Units *account  `json:"units,omitempty"` // if events have costs
	Top   []denials `json:"top"`             // the clients denied most
}

// A decision counts the denials that one limit of a policy decided.
type decision struct {
	Limit  sash.Limit `json:"limit"`
	Denied int64      `json:"denied"`       // where this limit had the longest wait; of equals, the first given
	Share  float64    `json:"denied_share"` // of all denials
}

// name returns the limits that the verdict is about.
func (v *verdict) name() string {
	if len(v.Together) == 0 {
		return v.Limit.String()
	}
	var p policy
	for _, d := range v.Together {
		p = append(p, d.Limit)
	}
	return p.String()
}

// denials describes the denials of one client.
type denials struct {
	Client        string    `json:"client"`
	Events        int64     `json:"events"`
	Denied        int64     `json:"denied"`
	First         time.Time `json:"first"` // times of the first and last denial
	Last          time.Time `json:"last"`
	BusiestMinute time.Time `json:"busiest_minute"` // that of the most denials
	InBusiest     int64     `json:"denied_in_busiest_minute"`
}

func (o *options) report(files []string, t *traffic.Traffic, verdicts []verdict) report {
	r := report{
		Files: files, Key: t.Key,
		Lines: t.Lines, Events: t.Events, Clients: len(t.Clients),
		Blank: t.Blank, CutShort: t.CutShort, OutOfOrder: t.OutOfOrder, Unreadable: t.Unreadable, Headings: t.Headings,
		UnreadableLines: append([]traffic.FaultyLine{}, t.Faults...), UnreadableLinesCap: traffic.MaxFaults,
		BrokenOff: append([]traffic.FaultyLine{}, t.BrokenOff...),
		Formats:   append([]traffic.FileFormat{}, t.Formats...), Warnings: t.Warnings(o.windows()),
		Cost: t.Cost, Estimate: o.Estimate.String(),
		Limits: verdicts,
	}
	if o.settle > 0 {
		r.Settle = o.settle.String()
	}
	if r.Events > 0 {
		first, last := t.Span()
		r.First, r.Last = &first, &last
	}
	return r
}

func (r *report) source() string { return strings.Join(r.Files, ", ") }

// write writes all reports to w.
func write(w io.Writer, reports []report, asJSON bool) error {
	var out bytes.Buffer
	for i := range reports {
		if asJSON {
			if err := json.NewEncoder(&out).Encode(&reports[i]); err != nil {
				return err
			}
			continue
		}
		if i > 0 {
			out.WriteString("\n\n")
		}
		reports[i].text(&out)
	}
	_, err := out.WriteTo(w)
	return err
}

// text writes the report for human readers.
func (r *report) text(w io.Writer) {
	fmt.Fprintf(w, "%s: %s %s\n", r.source(), count(r.Events, "event"), r.clients())
	if r.First != nil {
		fmt.Fprintf(w, "from %s to %s UTC, %v\n", r.First.Format(toTheSecond), r.Last.Format(toTheSecond), r.Last.Sub(*r.First).Round(time.Second))
	}
	for _, line := range traffic.FormatLines(r.Formats) {
		fmt.Fprintln(w, line)
	}
	r.oddities(w)
	for _, text := range r.Warnings {
		fmt.Fprintf(w, "WARNING: %s\n", text)
	}
	if len(r.Limits) == 0 {
		return
	}
	fmt.Fprintln(w)
	r.comparison(w)
	r.decisions(w)
	r.units(w)
	for i := range r.Limits {
		r.Limits[i].text(w)
	}
}

func (r *report) clients() string {
	if r.Key == "" {
		return "by one client, as no -key tells any apart"
	}
	return fmt.Sprintf("by %s, told apart by %s", count(int64(r.Clients), "client"), r.Key)
}

const (
	toTheSecond = "2006-01-02 15:04:05"
	toTheMinute = "2006-01-02 15:04"
	// shownFaults is the number of unreadable lines that the text shows with reasons. It
	// lists further ones by number.
	shownFaults = 10
)

// oddities writes the numbers of lines that were out of order, cut short or not read.
func (r *report) oddities(w io.Writer) {
	if r.OutOfOrder > 0 {
		fmt.Fprintf(w, "%s out of order, older than one before in the same file: replayed sorted by time\n", count(r.OutOfOrder, "line"))
	}
	if r.CutShort > 0 {
		fmt.Fprintf(w, "%s cut short inside the user agent, replayed all the same\n", count(r.CutShort, "line"))
	}
	if r.Blank > 0 {
		fmt.Fprintf(w, "%s skipped\n", count(r.Blank, "blank line"))
	}
	for _, b := range r.BrokenOff {
		fmt.Fprintf(w, "NOT COMPLETE: %s could be read to line %d only: %s\n", b.File, b.Line, b.Why)
	}
	if r.Unreadable > 0 {
		r.unreadable(w)
	}
}

func (r *report) unreadable(w io.Writer) {
	fmt.Fprintf(w, "%s of %s unreadable, skipped:\n", humanize.Comma(r.Unreadable), count(r.Lines, "line"))
	shown := min(shownFaults, len(r.UnreadableLines))
	for _, f := range r.UnreadableLines[:shown] {
		fmt.Fprintf(w, "  %s:%d: %s: %s\n", f.File, f.Line, f.Why, f.Text)
	}
	for _, s := range stretches(r.UnreadableLines[shown:]) {
		fmt.Fprintf(w, "  %s\n", s)
	}
	if more := r.Unreadable - int64(len(r.UnreadableLines)); more > 0 {
		fmt.Fprintf(w, "  and %s after these, not listed\n", humanize.Comma(more))
	}
}

// stretches returns, for each file, the numbers of its lines. Consecutive lines are a range.
func stretches(lines []traffic.FaultyLine) (names []string) {
	for i := 0; i < len(lines); {
		file, ranges := lines[i].File, []string(nil)
		for i < len(lines) && lines[i].File == file {
			first := i
			for i++; i < len(lines) && lines[i].File == file && lines[i].Line == lines[i-1].Line+1; {
				i++
			}
			ranges = append(ranges, lineRange(lines[first].Line, lines[i-1].Line))
		}
		names = append(names, fmt.Sprintf("%s also: %s", file, strings.Join(ranges, ", ")))
	}
	return names
}

func lineRange(first, last int64) string {
	if first == last {
		return fmt.Sprint(first)
	}
	return fmt.Sprintf("%d-%d", first, last)
}

// comparison writes a table with a row for each policy.
func (r *report) comparison(w io.Writer) {
	table := newTable(w)
	fmt.Fprintln(table, "denied\tof events\tclients denied\texactly denied\twrongly admitted\twrongly denied\twrong of events\t  limit")
	for _, v := range r.Limits {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %v\n",
			humanize.Comma(v.Denied), percent(v.DeniedShare), humanize.Comma(int64(v.DeniedClients)),
			humanize.Comma(v.ExactDenied), humanize.Comma(v.WronglyAdmitted), humanize.Comma(v.WronglyDenied),
			percent(v.ErrorShare), v.name())
	}
	table.Flush()
}

// decisions writes how many denials each limit of a policy decided.
func (r *report) decisions(w io.Writer) {
	for _, v := range r.Limits {
		if len(v.Together) == 0 {
			continue
		}
		fmt.Fprintln(w, "\ndenials by the limit that decided, the one with the longest wait")
		table := newTable(w)
		fmt.Fprintln(table, "denied\tof denials\t  limit")
		for _, d := range v.Together {
			fmt.Fprintf(table, "%s\t%s\t  %v\n", humanize.Comma(d.Denied), percent(d.Share), d.Limit)
		}
		table.Flush()
	}
}

// text writes the clients that the limits deny most.
func (v *verdict) text(w io.Writer) {
	if len(v.Top) == 0 {
		return
	}
	fmt.Fprintf(w, "\ndenied most under %s, times in UTC\n", v.name())
	table := newTable(w)
	fmt.Fprintln(table, "denied\tof its events\tfirst denied\tlast denied\tbusiest minute\tdenied in it\t  client")
	for _, d := range v.Top {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t  %s\n",
			humanize.Comma(d.Denied), humanize.Comma(d.Events),
			d.First.Format(toTheSecond), d.Last.Format(toTheSecond),
			d.BusiestMinute.Format(toTheMinute), humanize.Comma(d.InBusiest), d.Client)
	}
	table.Flush()
}

// newTable returns a writer that aligns columns to the right. Text after the last tab stays
// on the left, and may be long.
func newTable(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
}

func percent(share float64) string { return fmt.Sprintf("%.3f%%", 100*share) }

func count(n int64, of string) string {
	if n != 1 {
		of += "s"
	}
	return humanize.Comma(n) + " " + of
}
