package suggest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// A grouping is the events of each group of one -by, each group with a study of its own. An event is in one group of
// each grouping.
//
// Invariant: a group is studied as if the log had its events alone. So its findings are what -where finds, with the
// conditions of the group.
type grouping struct {
	o      *options
	by     traffic.By
	from   int // the index of its first value among the values of an event
	all    []*group
	byName map[string]*group
	name   []byte // of the group of the last event
}

// groupings has a grouping for each -by.
type groupings struct {
	o      *options
	all    []*grouping
	values []string // of the last event
}

// A group is the events with the same values of the fields of a -by, as far as these count.
type group struct {
	name  string
	where []traffic.Where // that hold for its events and no others
	said  bool            // whether -where can say them
	on    *traffic.Part
	study *study          // of the events that do not wait; nil: all of them wait
	wait  []traffic.Event // to be studied, at most eventsThatWait
}

const (
	// maxGroups is the greatest number of groups of a -by. More are likely to be names and numbers in paths.
	maxGroups = 10_000
	// eventsThatWait is how many events of a group are studied together. Most groups of a log have fewer, and
	// take no memory for a study unless they are shown.
	eventsThatWait = 64
)

func newGroupings(o *options) *groupings {
	a, from := &groupings{o: o}, 0
	for _, by := range o.by {
		a.all = append(a.all, &grouping{o: o, by: by, from: from, byName: map[string]*group{}})
		from += len(by)
	}
	return a
}

// take counts events, which are in the order of time.
func (a *groupings) take(on *traffic.Traffic, events []traffic.Event) error {
	for i := range events {
		a.values = events[i].Values(a.values[:0])
		for _, b := range a.all {
			g, err := b.groupOf(on, a.values[b.from:])
			if err != nil {
				return err
			}
			if g.wait = append(g.wait, g.on.Add(events[i])); len(g.wait) == eventsThatWait {
				g.studyWaiting(a.o)
			}
		}
	}
	return nil
}

// groupOf returns the group of an event with these values.
func (a *grouping) groupOf(on *traffic.Traffic, values []string) (*group, error) {
	a.name = a.by.AppendName(a.name[:0], values)
	if g := a.byName[string(a.name)]; g != nil {
		return g, nil
	}
	if len(a.all) == maxGroups {
		return nil, a.tooMany()
	}
	g := &group{name: string(a.name), on: on.NewPart()}
	g.where, g.said = a.by.Where(values)
	a.all, a.byName[g.name] = append(a.all, g), g
	return g, nil
}

// tooMany says that there are too many groups, and what to try.
func (a *grouping) tooMany() error {
	advice := "name fields with fewer values, or leave some out by -where"
	switch segments := a.by.Parts(traffic.Path); {
	case segments == 0:
		advice = "group by the first segments of the path, as path/1 does, or leave out what no route serves by -where 'status!=404'"
	case segments > 1:
		advice = "group by fewer segments, as path/1 does, or leave out what no route serves by -where 'status!=404'"
	}
	return fmt.Errorf("-by %s: the log has more than %d groups, such as %s: %s", a.by, maxGroups, traffic.Clip(string(a.name)), advice)
}

// studyWaiting studies the events that wait.
func (g *group) studyWaiting(o *options) {
	if g.study == nil {
		g.study = o.newStudy()
	}
	g.study.take(nil, g.wait)
	g.wait = g.wait[:0]
}

// A groupingReport is what a recording says about the groups of one -by.
type groupingReport struct {
	Fields string        `json:"fields"` // by which events are grouped
	Groups []groupReport `json:"groups"` // that are shown: those with most events, most first
	Others *others       `json:"others,omitempty"`
}

// A groupReport is what a recording says about one group.
type groupReport struct {
	Group   string   `json:"group"` // its values
	Where   []string `json:"where"` // the conditions of -where that choose it; none if -where cannot say them
	Events  int64    `json:"events"`
	Share   float64  `json:"share"` // of all events
	Clients int      `json:"clients"`
	findings

	policyName, policyText string // for the file of -policy; empty if the group has no policy there
}

// others are the groups that are not shown, if there are any. They are not studied, alone or together.
type others struct {
	Groups int     `json:"groups"`
	Events int64   `json:"events"`
	Share  float64 `json:"share"`           // of all events
	Where  string  `json:"where,omitempty"` // the condition of -where that chooses all of them, if one can
}

// report returns the results.
func (a *groupings) report(on *traffic.Traffic) *report {
	r := a.o.newReport(on)
	if on.Events == 0 {
		return r
	}
	r.Warnings = logWarnings(on)
	for _, b := range a.all {
		r.By = append(r.By, b.report(on))
		r.Next = append(r.Next, b.nextSteps(&r.By[len(r.By)-1])...)
	}
	r.Next = append(r.Next, a.policySteps(r)...)
	return r
}

// report returns the results of the groups with most events.
func (a *grouping) report(on *traffic.Traffic) groupingReport {
	slices.SortFunc(a.all, func(g, h *group) int {
		return cmp.Or(cmp.Compare(h.on.Events, g.on.Events), strings.Compare(g.name, h.name))
	})
	r := groupingReport{Fields: a.by.String()}
	for _, g := range a.shown() {
		r.Groups = append(r.Groups, g.report(a.o, on))
	}
	r.Others = a.others(on)
	return r
}

// shown returns the groups that are shown, once all are sorted.
func (a *grouping) shown() []*group { return a.all[:min(a.o.groups, len(a.all))] }

// report returns the results of a group.
func (g *group) report(o *options, on *traffic.Traffic) groupReport {
	if len(g.wait) > 0 {
		g.studyWaiting(o)
	}
	g.study.on = g.on.End()
	in := o.in(g)
	r := groupReport{
		Group: g.name, Where: []string{}, Events: g.on.Events, Share: output.Share(g.on.Events, on.Events),
		Clients: len(g.on.Clients), findings: g.study.findings(in),
	}
	if o.file != nil {
		r.choosePolicy(in, g.said)
	}
	if !g.said {
		r.Next = []step{} // no command can choose its events
		return r
	}
	for i := range g.where {
		r.Where = append(r.Where, g.where[i].String())
	}
	return r
}

// choosePolicy sets the policy for the file of -policy, or warns why there is none.
func (r *groupReport) choosePolicy(in *options, said bool) {
	text, err := in.fileText(&r.findings)
	if !said {
		err = errors.New("-where has no way to say its values")
	}
	if err == nil {
		r.policyName, r.policyText = in.policyName(), text
		return
	}
	r.Warnings = append(r.Warnings, warning{"no policy", fmt.Sprintf("%s gets no policy for it: %v.", in.policy, err)})
	in.file = nil // so that the next steps have Go code
	r.Next = nextSteps(&r.findings, in)
}

// in returns the options under which the events of a group alone are read: by its conditions, and those given.
func (o *options) in(g *group) *options {
	c := *o
	c.by, c.name = nil, strings.TrimSpace(o.name+" "+g.name)
	c.Where = append(slices.Clone(g.where), o.Where...)
	c.args = nil
	for i := range g.where {
		c.args = append(c.args, "-where", g.where[i].String())
	}
	c.args = append(c.args, o.args...)
	return &c
}

// others returns what is known of the groups that are not shown.
func (a *grouping) others(on *traffic.Traffic) *others {
	shown := a.shown()
	n := others{Groups: len(a.all) - len(shown), Events: on.Events}
	if n.Groups == 0 {
		return nil
	}
	not := traffic.Where{Field: shown[0].where[0].Field, Not: true}
	said := len(a.by) == 1
	for _, g := range shown {
		n.Events -= g.on.Events
		not.Values = append(not.Values, g.where[0].Values...)
		said = said && g.said
	}
	if said {
		n.Where = not.String()
	}
	n.Share = output.Share(n.Events, on.Events)
	return &n
}

// nextSteps returns how to look at groups.
func (a *grouping) nextSteps(r *groupingReport) (steps []step) {
	o, shown := a.o, a.shown()
	alone := []string{"by", "groups", "json", "policy", "name"} // what is left out for one group
	if i := slices.IndexFunc(shown, func(g *group) bool { return g.said }); i >= 0 {
		words := append([]string{"sash suggest"}, o.in(shown[i]).words(alone...)...)
		steps = append(steps, step{"Look at one group by " + r.Fields + ": what would each limit have denied, and whom?", strings.Join(words, " ") + "\n"})
	}
	if r.Others != nil && r.Others.Where != "" {
		words := append([]string{"sash suggest -where " + quoted(r.Others.Where)}, o.words(alone...)...)
		steps = append(steps, step{"Look at all others by " + r.Fields + ", as one.", strings.Join(words, " ") + "\n"})
	}
	return steps
}

// policySteps returns how to go on to policies.
func (a *groupings) policySteps(r *report) []step {
	o := a.o
	limited := func(g groupReport) bool { return g.Policy != nil && (o.file == nil || g.policyText != "") }
	switch {
	case !slices.ContainsFunc(r.By, func(b groupingReport) bool { return slices.ContainsFunc(b.Groups, limited) }):
	case o.file != nil:
		words := append([]string{"sash replay -policy", quoted(o.policy)}, o.input("key", "trust", "cost", "where")...)
		return []step{
			{"Replay the file: whom do its policies deny together, and when?", strings.Join(words, " ") + "\n"},
			{"Shadow them in production: policyfile.Load reads the file, policyfile.Watch follows it. " +
				"The policies decide, and deny nothing. Count their outcomes for a week.", ""},
			{"Enforce them: write shadow: false, and go on counting.", ""},
		}
	case o.fileFaults() == nil:
		words := append([]string{"sash suggest -policy limits.yaml"}, o.words("json", "policy")...)
		return []step{{"Add a policy for each group that is shown to a file.", strings.Join(words, " ") + "\n"}}
	}
	return nil
}
