package suggest

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
)

// text writes the report for human readers. With -by, it shows that many clients of all groups.
func (r *report) text(w io.Writer, top int) {
	r.summary(w)
	switch {
	case r.Events == 0:
		return
	case len(r.By) > 0:
		for i := range r.By {
			r.By[i].table(w, &r.heading)
			r.By[i].clients(w, &r.heading, top)
		}
	default:
		r.percentiles(w)
		for i := range r.Windows {
			r.Windows[i].text(w)
		}
		r.suggestions(w)
		r.buckets(w)
		r.clients(w)
	}
	cautions := r.cautions()
	if len(cautions) > 0 {
		fmt.Fprintln(w, "\nbe careful")
	}
	for _, text := range cautions {
		fmt.Fprintf(w, "  - %s\n", text)
	}
	if len(r.Next) > 0 {
		fmt.Fprintln(w, "\nnext")
	}
	for i, v := range r.Next {
		fmt.Fprintf(w, "  %d. %s\n%s", i+1, v.Text, indented(v.Code))
	}
}

// percentiles writes a row for each window.
func (r *report) percentiles(w io.Writer) {
	fmt.Fprintf(w, "\n%s in the busiest window of each client, wherever it begins\n", r.Unit)
	table := output.NewTable(w)
	fmt.Fprintln(table, "window\tp50\tp90\tp99\tp99.9\tmax\t  busiest client")
	for _, v := range r.Windows {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t  %s\n", output.Short(v.window), humanize.Comma(v.P50), humanize.Comma(v.P90),
			humanize.Comma(v.P99), humanize.Comma(v.P999), humanize.Comma(v.Max), v.Busiest)
	}
	table.Flush()
}

func (b *busiest) String() string {
	if b == nil {
		return "none"
	}
	return fmt.Sprintf("%s, until %s", b.Client, b.End.Format(output.ToTheSecond))
}

// text writes what candidates would have denied.
func (v *windowReport) text(w io.Writer) {
	fmt.Fprintf(w, "\nwhat a limit per %s would have denied (a log)\n", output.Short(v.window))
	table := output.NewTable(w)
	fmt.Fprintln(table, "limit\tclients\tof clients\tevents\tof events\t")
	for _, c := range v.rows() {
		mark := ""
		if v.Suggested != nil && v.Suggested.Limit == c.Limit {
			mark = "  <- suggested"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", rate(c.Limit), humanize.Comma(int64(c.Clients)),
			output.Percent(c.ClientsShare), humanize.Comma(c.Denied), output.Percent(c.DeniedShare), mark)
	}
	table.Flush()
}

// rows returns the candidates to show: from what one in ten clients exceeds, or the suggested if that is less, to the
// last. If these are many, they are those that begin with 1, 2 or 5, the last, and the suggested.
func (v *windowReport) rows() []candidate {
	const few = 12
	first := v.P90
	if v.Suggested != nil {
		first = min(first, v.Suggested.Limit.Count)
	}
	rows := v.Candidates[min(atLeast(first), len(v.Candidates)-1):]
	if len(rows) <= few {
		return rows
	}
	last := rows[len(rows)-1]
	return slices.DeleteFunc(slices.Clone(rows), func(c candidate) bool {
		suggested := v.Suggested != nil && v.Suggested.Limit == c.Limit
		return c != last && !suggested && !isCoarse(c.Limit.Count)
	})
}

// isCoarse reports whether n is 1, 2 or 5 times a power of ten.
func isCoarse(n int64) bool {
	for n%10 == 0 {
		n /= 10
	}
	return n == 1 || n == 2 || n == 5
}

// suggestions writes the limit for each window, and the policy that they make.
func (r *report) suggestions(w io.Writer) {
	fmt.Fprintln(w, "\nsuggested")
	for _, v := range r.Windows {
		if v.Suggested == nil {
			fmt.Fprintf(w, "  nothing for %s: %s.\n", output.Short(v.window), v.NotSuggested)
			continue
		}
		fmt.Fprintf(w, "  %s: %s\n", rate(v.Suggested.Limit), v.Suggested.Reason)
	}
	if p := r.Policy; p != nil && len(p.Limits) < r.suggested() {
		fmt.Fprintf(w, "  Enough is %s: the others add nothing to it. It would have denied %s.\n",
			rates(p.Limits), p.denied())
	} else if p != nil && len(p.Limits) > 1 {
		fmt.Fprintf(w, "  Together they would have denied %s.\n", p.denied())
	}
}

// buckets writes the token buckets that leave as many clients alone.
func (r *report) buckets(w io.Writer) {
	if len(r.Buckets) == 0 {
		return
	}
	fmt.Fprintf(w, "\nor a token bucket: for each rate, the burst that leaves %v%% of the clients alone, times %v\n", r.Percentile, r.Headroom)
	table := output.NewTable(w)
	fmt.Fprintln(table, "limit\tclients denied\tof clients\t")
	for _, b := range r.Buckets {
		fmt.Fprintf(table, "%d/m burst %d\t%s\t%s\t\n", b.Limit.Count, b.Limit.Burst, humanize.Comma(int64(b.Clients)), output.Percent(b.ClientsShare))
	}
	table.Flush()
}

// denied says how many clients the limits deny.
func (p *together) denied() string {
	if p.Clients == 0 {
		return "no client"
	}
	return fmt.Sprintf("%s (%s)", output.Count(int64(p.Clients), "client"), output.Percent(p.ClientsShare))
}

// suggested returns the number of windows with a suggestion.
func (f *findings) suggested() (n int) {
	for _, v := range f.Windows {
		if v.Suggested != nil {
			n++
		}
	}
	return n
}

// clients writes the clients that exceed the suggested limits most, or the busiest.
func (r *report) clients(w io.Writer) {
	if len(r.Top) == 0 {
		return
	}
	fmt.Fprintf(w, "\nclients most above the suggested limits, then the busiest; %s in their busiest windows\n", r.Unit)
	table := output.NewTable(w)
	header := "events\tof all\t"
	for _, v := range r.Windows {
		header += output.Short(v.window) + "\t"
	}
	fmt.Fprintln(table, header+"  client")
	starred := false
	for _, c := range r.Top {
		starred = starred || len(c.Above) > 0
		row := fmt.Sprintf("%s\t%s\t", humanize.Comma(c.Events), output.Percent(c.Share))
		for i, n := range c.Busiest {
			row += humanize.Comma(n) + c.mark(&r.Windows[i]) + "\t"
		}
		fmt.Fprintln(table, row+"  "+c.Client)
	}
	table.Flush()
	if starred {
		fmt.Fprintln(w, "* above the suggested limit")
	}
}

// rate returns a limit as people write it: 100/m, and not 100/1m0s log. A limit is always
// a log here.
func rate(l sash.Limit) string {
	window := output.Short(l.Window)
	if strings.HasPrefix(window, "1") && len(window) == 2 {
		window = window[1:]
	}
	return fmt.Sprintf("%d/%s", l.Count, window)
}

// rates returns limits joined by "and".
func rates(limits []sash.Limit) string {
	var names []string
	for _, l := range limits {
		names = append(names, rate(l))
	}
	return strings.Join(names, " and ")
}

// indented returns the lines of code, indented.
func indented(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		b.WriteString("       " + line)
	}
	if code != "" && !strings.HasSuffix(code, "\n") {
		b.WriteString("\n")
	}
	return b.String()
}
