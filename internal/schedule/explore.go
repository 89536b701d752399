package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"strings"
)

// A Case is a small test to run through all schedules: its actors, and the check made
// when they have ended. Each run has a Case of its own, and all must be alike.
type Case struct {
	Actors []func()
	Check  func(steps []Step) error
}

// A Report counts the schedules explored.
type Report struct {
	Schedules int // schedules run to their end and checked
	Redundant int // schedules left because they were equivalent to one of those
	Steps     int // steps of all schedules
	Longest   int // steps of the longest schedule
}

// Explore runs a case through every schedule up to equivalence. Two schedules are
// equivalent if they differ only in the order of independent accesses: accesses to
// different places, or two that only read.
//
// This is source-set dynamic partial-order reduction with sleep sets, algorithm 1 of
// Abdulla, Aronis, Jonsson and Sagonas, "Optimal Dynamic Partial Order Reduction"
// (POPL 2014).
//
// The error is of the first Check that fails, or of a panic or a deadlock, with the
// steps that led there.
func Explore(start func() Case) (Report, error) {
	return explore(&explorer{start: start})
}

// ExploreAll runs a case through every schedule, equivalent ones too.
func ExploreAll(start func() Case) (Report, error) {
	return explore(&explorer{start: start, all: true})
}

// An explorer makes runs. Each follows the run before it up to some step, and chooses
// another actor there.
type explorer struct {
	start  func() Case
	all    bool // whether any two steps count as dependent
	report Report

	// These describe the last run, up to the step where it was found to be redundant:
	// its choices, its steps, and for each step the set of those that come before it in
	// every equivalent run.
	choices []choice
	steps   []Step
	before  []set
}

// A choice is the choice of the actor that makes the next step.
type choice struct {
	chosen int
	ready  actors // the actors that could make it
	wanted actors // the actors that were chosen, are, or will be
	asleep []Step // the next steps of actors not to choose until a step depends on theirs
}

// actors is a set of actors, by number.
type actors uint

func (s actors) has(actor int) bool { return s>>actor&1 == 1 }
func (s actors) first() int         { return bits.TrailingZeros(uint(s)) }

func (c *choice) sleeping() (s actors) {
	for i := range c.asleep {
		s |= 1 << c.asleep[i].Actor
	}
	return s
}

func explore(x *explorer) (Report, error) {
	for from := 0; from >= 0; from = x.next() {
		if err := x.run(false); err != nil {
			x.run(true) // the same run once more, for its trace
			return x.report, fmt.Errorf("%w, after\n%s", err, trace(x.steps))
		}
		for i := from; i < len(x.choices); i++ {
			x.relate(i)
		}
	}
	return x.report, nil
}

// run makes one run. It makes the choices recorded in x.choices, and then new ones until
// no actor is ready.
func (x *explorer) run(traced bool) error {
	c := x.start()
	r := newRun(c.Actors, traced)
	r.steps = make([]Step, 0, len(x.steps)+1) // it has about as many as the last one
	redundant := false
	// A redundant run goes on to its end, since its actors cannot be stopped halfway. Its
	// further choices are not recorded.
	for ready := r.ready(); ready != 0; ready = r.ready() {
		i := len(r.steps)
		if i == len(x.choices) && !redundant {
			redundant = !x.choose(ready, r.steps)
		}
		chosen := ready.first()
		if i < len(x.choices) {
			chosen = x.choices[i].chosen
		}
		if !ready.has(chosen) || i > 0 && i <= len(x.before) && !r.steps[i-1].like(x.steps[i-1]) {
			return errors.New("the case is not the same each time")
		}
		if i == longest {
			return errors.New("endless")
		}
		r.turn(chosen)
	}
	x.steps = r.steps
	x.report.Steps += len(r.steps)
	x.report.Longest = max(x.report.Longest, len(r.steps))
	if err := r.fault(); err != nil {
		return err
	}
	if redundant {
		x.report.Redundant++
		return nil
	}
	x.report.Schedules++
	return c.Check(r.steps)
}

// longest is how many steps a run may have.
const longest = 10_000

// choose adds a choice among ready, after steps. It reports false, and adds none, if all
// runs that continue from here have been explored.
func (x *explorer) choose(ready actors, steps []Step) bool {
	c := choice{ready: ready}
	// An actor stays asleep until a step is made that depends on its next one.
	if last := len(steps) - 1; last >= 0 {
		for _, s := range x.choices[last].asleep {
			if !x.dependent(&s, &steps[last]) {
				c.asleep = append(c.asleep, s)
			}
		}
	}
	awake := ready &^ c.sleeping()
	if awake == 0 {
		return false
	}
	c.chosen = awake.first()
	c.wanted = 1 << c.chosen
	x.choices = append(x.choices, c)
	return true
}

// next changes the last choice for which another actor is wanted. It returns the number
// of steps before that choice, or -1 if there is none.
func (x *explorer) next() int {
	for last := len(x.choices) - 1; last >= 0; last-- {
		c := &x.choices[last]
		c.asleep = append(c.asleep, x.steps[last]) // all runs with this step are explored
		if left := c.wanted &^ c.sleeping(); left != 0 {
			c.chosen = left.first()
			x.before = x.before[:last]
			return last
		}
		x.choices = x.choices[:last]
	}
	return -1
}

// dependent reports whether the order of two steps can make a difference.
func (x *explorer) dependent(a, b *Step) bool {
	return x.all || a.Actor == b.Actor ||
		a.kind == begin && b.kind == end || a.kind == end && b.kind == begin ||
		a.Wrote && b.looks(a.place) || b.Wrote && a.looks(b.place)
}

// looks reports whether s reads or awaits the place.
func (s *Step) looks(place int) bool { return s.place == place || s.awaits == place }

// like reports whether s and o are the same step of two runs.
func (s Step) like(o Step) bool {
	return s.Actor == o.Actor && s.kind == o.kind && s.place == o.place && s.Wrote == o.Wrote
}

// relate computes x.before[j], the steps that come before the j-th in every equivalent
// run. It also finds races: dependent steps of two actors, with no step between that
// orders them. For each race it asks for a run with the other order.
func (x *explorer) relate(j int) {
	var before set
	var races []int
	// Going backwards, a step that is in before already is ordered by a later one.
	for i := j - 1; i >= 0; i-- {
		if before.has(i) || !x.dependent(&x.steps[i], &x.steps[j]) {
			continue
		}
		if x.steps[i].Actor != x.steps[j].Actor && x.steps[j].wokenBut(i) {
			races = append(races, i)
		}
		before.add(x.before[i])
		before.put(i)
	}
	x.before = append(x.before, before)
	for _, i := range races {
		x.reverse(i, j)
	}
}

// wokenBut reports whether s could have been made without the i-th step.
func (s *Step) wokenBut(i int) bool {
	return !s.Waited || slices.ContainsFunc(s.wakers, func(waker int) bool { return waker != i })
}

// reverse asks for a run with the race of the i-th and j-th steps reversed. In place of
// the i-th step, that run continues with the steps that do not come after it, and then
// with the j-th.
func (x *explorer) reverse(i, j int) {
	var rest set
	var initials actors // the actors that can make the first step of rest
	for k := i + 1; k <= j; k++ {
		if k < j && x.before[k].has(i) {
			continue
		}
		if !x.before[k].meets(rest) {
			initials |= 1 << x.steps[k].Actor
		}
		rest.put(k)
	}
	// A run that begins with any of the initials will do. If none is wanted or asleep
	// yet, ask for one.
	c := &x.choices[i]
	if initials&(c.wanted|c.sleeping()) == 0 {
		c.wanted |= 1 << initials.first()
	}
}

// A set is a set of steps, by index.
type set []uint64

func (s set) has(i int) bool { return i>>6 < len(s) && s[i>>6]>>(i&63)&1 == 1 }

func (s *set) put(i int) {
	for i>>6 >= len(*s) {
		*s = append(*s, 0)
	}
	(*s)[i>>6] |= 1 << (i & 63)
}

func (s *set) add(o set) {
	for i, word := range o {
		if i == len(*s) {
			*s = append(*s, 0)
		}
		(*s)[i] |= word
	}
}

func (s set) meets(o set) bool {
	for i := range min(len(s), len(o)) {
		if s[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

// trace returns a line for each step, with the source line that made it.
func trace(steps []Step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "  %d ", s.Actor)
		switch {
		case s.kind == begin:
			b.WriteString("begins")
		case s.kind == end:
			b.WriteString("ends")
		default:
			b.WriteString(s.String())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func (s Step) String() string {
	what := "reads"
	switch {
	case s.Lost:
		what = "loses"
	case s.Wrote:
		what = "writes"
	}
	if s.Waited {
		what = "has waited, " + what
	}
	what = fmt.Sprintf("%s %x at place %d", what, s.Value, s.place)
	frames := runtime.CallersFrames(s.stack)
	for frame, more := frames.Next(); more; frame, more = frames.Next() {
		function := frame.Function[strings.LastIndexByte(frame.Function, '/')+1:]
		what += fmt.Sprintf(", %s %s:%d", function, frame.File[strings.LastIndexByte(frame.File, '/')+1:], frame.Line)
	}
	return what
}
