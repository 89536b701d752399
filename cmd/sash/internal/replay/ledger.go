package replay

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// A ledger counts the units of a trial whose events have costs.
type ledger struct {
	maxCost                           int64 // the highest cost that can be admitted
	asked, admitted, above, givenBack int64
	tooLarge                          int64 // the number of events that ask for more than maxCost
	windows                           []*traffic.Trailing
}

func newLedger(p policy) *ledger {
	b := &ledger{maxCost: p.maxCost()}
	for _, l := range p {
		b.windows = append(b.windows, traffic.NewTrailing(l))
	}
	return b
}

// add counts an event.
func (b *ledger) add(e traffic.Event, allowed bool) {
	b.asked += e.Asked
	if e.Asked > b.maxCost {
		b.tooLarge++
	}
	if !allowed {
		return
	}
	b.admitted += e.Asked
	b.above += max(0, e.Cost-e.Asked)
	b.givenBack += max(0, e.Asked-e.Cost)
	for _, w := range b.windows {
		w.Add(e, e.Cost)
	}
}

// account is the part of a verdict in units.
//
// Invariant: Asked = Admitted + Denied, and Spent = Admitted + ChargedAbove - GivenBack.
type account struct {
	Asked        int64   `json:"asked"` // the estimates, or the costs if there are no estimates
	Admitted     int64   `json:"admitted"`
	Denied       int64   `json:"denied"`
	DeniedShare  float64 `json:"denied_share"`           // of units asked
	ChargedAbove int64   `json:"charged_above_estimate"` // once all is settled
	GivenBack    int64   `json:"given_back"`
	Spent        int64   `json:"spent"`        // the costs of all admitted events
	MostAtOnce   int64   `json:"most_at_once"` // the highest cost that can be admitted: the least Count, or Burst of a token bucket
	TooLarge     int64   `json:"too_large"`    // the number of events that ask for more, which are denied

	Peaks []peak `json:"most_in_window"` // one for each limit; none if nothing was spent
}

// A peak is the most units that one client spent in one window of a limit, with all of
// a cost at the time of its event.
type peak struct {
	Limit   sash.Limit `json:"limit"`
	Units   int64      `json:"units"`
	OfCount float64    `json:"of_count"` // of a token bucket: of Burst + Count, the most that it admits in a window
	Client  string     `json:"client"`
	End     time.Time  `json:"end"` // of the window: the first at which it held them
}

// account returns the totals.
func (b *ledger) account(on *traffic.Traffic) *account {
	a := &account{
		Asked:        b.asked,
		Admitted:     b.admitted,
		Denied:       b.asked - b.admitted,
		DeniedShare:  output.Share(b.asked-b.admitted, b.asked),
		ChargedAbove: b.above,
		GivenBack:    b.givenBack,
		Spent:        b.admitted + b.above - b.givenBack,
		MostAtOnce:   b.maxCost,
		TooLarge:     b.tooLarge,
		Peaks:        []peak{},
	}
	for _, w := range b.windows {
		if w.Most > 0 {
			a.Peaks = append(a.Peaks, peak{w.Limit, w.Most, output.Share(w.Most, inWindow(w.Limit)), on.Clients[w.Client], traffic.Instant(w.End)})
		}
	}
	return a
}

// units writes the part of the report in units.
func (r *report) units(w io.Writer) {
	if r.Cost == "" {
		return
	}
	fmt.Fprintf(w, "\nin units of %s\n", r.Cost)
	if r.Estimate != "" {
		fmt.Fprintf(w, "asked, admitted and denied as estimated by %s, settled %s\n", r.Estimate, r.settled())
	}
	r.accounts(w)
	for _, v := range r.Limits {
		if n := v.Units.TooLarge; n > 0 {
			fmt.Fprintf(w, "%s denied for asking more than %s at once, which %s never admits\n",
				output.Count(n, "event"), humanize.Comma(v.Units.MostAtOnce), v.name())
		}
	}
	r.peaks(w)
}

func (r *report) settled() string {
	if r.Settle == "" {
		return "at once"
	}
	return r.Settle + " later"
}

func (r *report) accounts(w io.Writer) {
	table := output.NewTable(w)
	fmt.Fprintln(table, "asked\tadmitted\tdenied\tof units\tcharged above\tgiven back\tspent\t  limit")
	for _, v := range r.Limits {
		a := v.Units
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n",
			humanize.Comma(a.Asked), humanize.Comma(a.Admitted), humanize.Comma(a.Denied), output.Percent(a.DeniedShare),
			humanize.Comma(a.ChargedAbove), humanize.Comma(a.GivenBack), humanize.Comma(a.Spent), v.name())
	}
	table.Flush()
}

func (r *report) peaks(w io.Writer) {
	if !slices.ContainsFunc(r.Limits, func(v verdict) bool { return len(v.Units.Peaks) > 0 }) {
		return
	}
	fmt.Fprintln(w, "\nmost units that a client spent in one window, times in UTC")
	table := output.NewTable(w)
	fmt.Fprintln(table, "spent\tof the limit\tuntil\tlimit\t  client")
	for _, v := range r.Limits {
		for _, p := range v.Units.Peaks {
			fmt.Fprintf(table, "%s\t%s\t%s\t%v\t  %s\n",
				humanize.Comma(p.Units), output.Percent(p.OfCount), p.End.Format(output.ToTheSecond), p.Limit, p.Client)
		}
	}
	table.Flush()
}
