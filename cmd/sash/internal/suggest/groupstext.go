package suggest

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
)

// table writes a row for each group.
func (r *groupingReport) table(w io.Writer, about *heading) {
	fmt.Fprintf(w, "\nby %s: the most %s that %v%% of the clients of a group had in any window, and the suggested limit\n", r.Fields, about.Unit, about.Percentile)
	table := output.NewTable(w)
	header := "events\tof all\tclients\t"
	for _, v := range r.Groups[0].Windows {
		header += "in " + output.Short(v.window) + "\tlimit\t"
	}
	fmt.Fprintln(table, header+"clients denied\t  group")
	implied, none := false, false
	for i := range r.Groups {
		g := &r.Groups[i]
		row := fmt.Sprintf("%s\t%s\t%s\t", humanize.Comma(g.Events), output.Percent(g.Share), humanize.Comma(int64(g.Clients)))
		for _, v := range g.Windows {
			limit := g.limit(&v)
			implied, none = implied || limit[0] == '(', none || limit == "-"
			row += humanize.Comma(v.distribution.percentile(about.Percentile)) + "\t" + limit + "\t"
		}
		denied := "-"
		if g.Policy != nil {
			denied = humanize.Comma(int64(g.Policy.Clients))
		}
		fmt.Fprintln(table, row+denied+"\t  "+g.Group)
	}
	if n := r.Others; n != nil {
		blank := strings.Repeat("\t", 2*len(r.Groups[0].Windows)+2)
		fmt.Fprintf(table, "%s\t%s%s\t  %s, which -groups leaves out\n", humanize.Comma(n.Events), output.Percent(n.Share), blank, output.Count(int64(n.Groups), "other group"))
	}
	table.Flush()
	if implied {
		fmt.Fprintln(w, "( ) adds nothing to the other limits of its group")
	}
	if none {
		fmt.Fprintln(w, "- no suggestion: the events of a group must span three windows, and cost something")
	}
	if slices.ContainsFunc(r.Groups, func(g groupReport) bool { return len(g.Where) == 0 }) {
		fmt.Fprintln(w, "some groups have values that -where cannot say, such as one with a comma")
	}
}

// limit returns the cell with the limit that is suggested for a window.
func (f *findings) limit(v *windowReport) string {
	switch {
	case v.Suggested == nil:
		return "-"
	case !slices.Contains(f.Policy.Limits, v.Suggested.Limit):
		return "(" + rate(v.Suggested.Limit) + ")"
	}
	return rate(v.Suggested.Limit)
}

// clients writes the clients of all groups that exceed suggested limits most, n at most.
func (r *groupingReport) clients(w io.Writer, about *heading, n int) {
	type member struct {
		*client
		*groupReport
		excess float64
	}
	var all []member
	for i := range r.Groups {
		g := &r.Groups[i]
		for j := range g.Top {
			if c := &g.Top[j]; len(c.Above) > 0 {
				all = append(all, member{c, g, c.excess(g.Windows)})
			}
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b member) int { return cmp.Compare(b.excess, a.excess) })
	fmt.Fprintf(w, "\nclients most above the suggested limits of a group; %s in their busiest windows\n", about.Unit)
	table := output.NewTable(w)
	header := "events\tof group\t"
	for _, v := range r.Groups[0].Windows {
		header += output.Short(v.window) + "\t"
	}
	fmt.Fprintln(table, header+"client\t  group")
	for _, m := range all[:min(n, len(all))] {
		row := fmt.Sprintf("%s\t%s\t", humanize.Comma(m.client.Events), output.Percent(m.client.Share))
		for i, units := range m.Busiest {
			row += humanize.Comma(units) + m.mark(&m.Windows[i]) + "\t"
		}
		fmt.Fprintln(table, row+m.Client+"\t  "+m.Group)
	}
	table.Flush()
	fmt.Fprintln(w, "* above the suggested limit")
}

// excess is study.excess of a client in a report.
func (c *client) excess(windows []windowReport) (times float64) {
	for i, v := range windows {
		if v.Suggested != nil && slices.Contains(c.Above, v.Suggested.Limit) {
			times = max(times, float64(c.Busiest[i])/float64(v.Suggested.Limit.Count))
		}
	}
	return times
}

// mark returns a star if the client is above the limit that is suggested for a window.
func (c *client) mark(v *windowReport) string {
	if v.Suggested != nil && slices.ContainsFunc(c.Above, func(l sash.Limit) bool { return l == v.Suggested.Limit }) {
		return "*"
	}
	return " "
}

// cautions returns the warnings about the log, and then those about groups. Groups with a warning of the same text
// share it. So do groups with one of the same kind, unless it says what to try.
func (r *report) cautions() (all []string) {
	for _, v := range r.Warnings {
		all = append(all, v.Text)
	}
	at := map[string]int{} // the index in shared, by what groups share
	var shared []sharedWarning
	var groups []groupReport
	for i := range r.By {
		groups = append(groups, r.By[i].Groups...)
	}
	for i := range groups {
		for _, v := range groups[i].Warnings {
			key := v.Kind
			if v.Kind == "two kinds of clients" || v.Kind == "incident" {
				key = v.Text
			}
			if _, found := at[key]; !found {
				at[key] = len(shared)
				shared = append(shared, sharedWarning{text: v.Text})
			}
			s := &shared[at[key]]
			if s.groups = append(s.groups, groups[i].Group); v.Text != s.text {
				s.alike = true
			}
		}
	}
	for _, s := range shared {
		all = append(all, s.String(len(groups)))
	}
	return all
}

// A sharedWarning is a warning that groups share.
type sharedWarning struct {
	text   string // of the first group
	groups []string
	alike  bool // whether a text differs from the first
}

// String returns the warning, with the groups that it is about, of that many.
func (s *sharedWarning) String(of int) string {
	switch {
	case s.alike:
		return fmt.Sprintf("%s: %s The like is true of %s.", s.groups[0], s.text, listed(s.groups[1:]))
	case len(s.groups) == of:
		return "Each group: " + s.text
	}
	return listed(s.groups) + ": " + s.text
}

// listed returns the first few of names, and how many others there are.
func listed(names []string) string {
	const few = 3
	if len(names) <= few+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %s", strings.Join(names[:few], ", "), output.Count(int64(len(names)-few), "other group"))
}
