package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// A report is one replay.
type report struct {
	output.Summary
	CutShort           int64 `json:"cut_short"`            // events whose line ended inside the user agent
	OutOfOrder         int64 `json:"out_of_order"`         // events older than one before them in their file
	UnreadableLinesCap int   `json:"unreadable_lines_cap"` // the greatest number of unreadable lines listed

	Warnings []string `json:"warnings"` // what makes the answers doubtful, and what to do about it

	Cost     string `json:"cost,omitempty"`     // the sum of columns, if events have costs
	Estimate string `json:"estimate,omitempty"` // the sum of columns, if calls reserve
	Settle   string `json:"settle,omitempty"`   // the time from a reservation to its settlement, if not 0

	Limits []verdict `json:"limits,omitzero"` // in the order given, or one for all together; none if there were no events

	Policies *enforcementReport `json:"policies,omitempty"` // with -policy, in place of the limits

	sorted bool // whether lines that were out of order have been put in order, but for late ones
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
	BusiestMinute time.Time `json:"busiest_minute"` // the minute of the most denials
	InBusiest     int64     `json:"denied_in_busiest_minute"`
}

// report returns the report on what was read.
func (o *options) report(files []string, t *traffic.Traffic) report {
	r := report{
		Summary:  output.Summarize(files, t, traffic.MaxFaults),
		CutShort: t.CutShort, OutOfOrder: t.OutOfOrder, UnreadableLinesCap: traffic.MaxFaults,
		Warnings: t.Warnings(o.windows()),
		Cost:     t.Cost, Estimate: o.Estimate.String(),
		sorted: o.Reorder != traffic.InOrder,
	}
	if o.settle > 0 {
		r.Settle = o.settle.String()
	}
	return r
}

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
	r.Heading(w)
	r.oddities(w)
	for _, text := range r.Warnings {
		fmt.Fprintf(w, "WARNING: %s\n", text)
	}
	if r.Policies != nil && r.Events > 0 {
		r.Policies.text(w)
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

const (
	toTheMinute = "2006-01-02 15:04"
	// shownFaults is the number of unreadable lines that the text shows with reasons. It
	// lists further ones by number.
	shownFaults = 10
)

// oddities writes the numbers of lines that were out of order, cut short or not read.
func (r *report) oddities(w io.Writer) {
	if r.OutOfOrder > 0 {
		how := ""
		if r.sorted {
			how = ": replayed sorted by time"
		}
		fmt.Fprintf(w, "%s out of order, older than one before in the same file%s\n", output.Count(r.OutOfOrder, "line"), how)
	}
	if r.CutShort > 0 {
		fmt.Fprintf(w, "%s cut short inside the user agent, replayed all the same\n", output.Count(r.CutShort, "line"))
	}
	if r.Blank > 0 {
		fmt.Fprintf(w, "%s skipped\n", output.Count(r.Blank, "blank line"))
	}
	r.Incomplete(w)
	if r.Unreadable > 0 {
		r.unreadable(w)
	}
}

func (r *report) unreadable(w io.Writer) {
	fmt.Fprintf(w, "%s of %s unreadable, skipped:\n", humanize.Comma(r.Unreadable), output.Count(r.Lines, "line"))
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
	table := output.NewTable(w)
	fmt.Fprintln(table, "denied\tof events\tclients denied\texactly denied\twrongly admitted\twrongly denied\twrong of events\t  limit")
	for _, v := range r.Limits {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %v\n",
			humanize.Comma(v.Denied), output.Percent(v.DeniedShare), humanize.Comma(int64(v.DeniedClients)),
			humanize.Comma(v.ExactDenied), humanize.Comma(v.WronglyAdmitted), humanize.Comma(v.WronglyDenied),
			output.Percent(v.ErrorShare), v.name())
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
		table := output.NewTable(w)
		fmt.Fprintln(table, "denied\tof denials\t  limit")
		for _, d := range v.Together {
			fmt.Fprintf(table, "%s\t%s\t  %v\n", humanize.Comma(d.Denied), output.Percent(d.Share), d.Limit)
		}
		table.Flush()
	}
}

// text writes the clients that the limits deny most.
func (v *verdict) text(w io.Writer) { topText(w, v.name(), v.Top) }

// topText writes the clients that are denied most under what has that name.
func topText(w io.Writer, name string, top []denials) {
	if len(top) == 0 {
		return
	}
	fmt.Fprintf(w, "\ndenied most under %s, times in UTC\n", name)
	table := output.NewTable(w)
	fmt.Fprintln(table, "denied\tof its events\tfirst denied\tlast denied\tbusiest minute\tdenied in it\t  client")
	for _, d := range top {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t  %s\n",
			humanize.Comma(d.Denied), humanize.Comma(d.Events),
			d.First.Format(output.ToTheSecond), d.Last.Format(output.ToTheSecond),
			d.BusiestMinute.Format(toTheMinute), humanize.Comma(d.InBusiest), d.Client)
	}
	table.Flush()
}
