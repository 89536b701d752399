package schedule

import (
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"strings"
)

// A Case is what is run through all schedules: actors, and what must hold after
// them. Each run has one that is made for it, all alike.
type Case struct {
	Actors []func()
	Check  func(steps []Step) error
}

// A Report says what was explored.
type Report struct {
	Schedules int // run to their end and checked
	Redundant int // left as soon as they were seen to be no others than those
	Steps     int // of all of them
	Longest   int // steps of the longest
}

// Explore runs a case through every schedule, but for those that differ from one
// that is run in no more than the order of accesses that cannot tell: to different
// places, or both only reading. This is source-set dynamic partial-order reduction
// with sleep sets, algorithm 1 of Abdulla, Aronis, Jonsson and Sagonas, "Optimal
// Dynamic Partial Order Reduction" (POPL 2014). The error is that of the first Check
// that fails, or of a deadlock, with the steps that led there.
func Explore(start func() Case) (Report, error) {
	return explore(&explorer{start: start})
}

// ExploreAll is Explore without that exception.
func ExploreAll(start func() Case) (Report, error) {
	return explore(&explorer{start: start, all: true})
}

// An explorer makes runs, each of which follows the one before up to some step,
// and takes another one there.
type explorer struct {
	start  func() Case
	all    bool // whether any two steps are taken to depend on one another
	report Report

	// Of the run that was made last, up to where it was seen to be redundant: the
	// choices that were made, the steps, and for each of them those that come before
	// it in every run that differs in no more than what cannot tell.
	choices []choice
	steps   []Step
	before  []set
}

// A choice is which actor makes the next step.
type choice struct {
	chosen int
	ready  actors // who could have been
	wanted actors // who has been, is, or will be
	asleep []Step // of actors who need not be, as long as nothing depends on their step
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
			x.run(true) // the same once more, for its trace
			return x.report, fmt.Errorf("%w, after\n%s", err, trace(x.steps))
		}
		for i := from; i < len(x.choices); i++ {
			x.relate(i)
		}
	}
	return x.report, nil
}

// run makes the choices there are, and then new ones until nobody can go on.
func (x *explorer) run(traced bool) error {
	c := x.start()
	r := newRun(c.Actors, traced)
	redundant := false
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

// choose makes a new choice among ready, after steps. It reports false if whatever
// is chosen has been explored.
func (x *explorer) choose(ready actors, steps []Step) bool {
	c := choice{ready: ready}
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

// next makes another choice, as late as there is one wanted, and returns after how
// many steps; -1 if there is none.
func (x *explorer) next() int {
	for last := len(x.choices) - 1; last >= 0; last-- {
		c := &x.choices[last]
		c.asleep = append(c.asleep, x.steps[last])
		if left := c.wanted &^ c.sleeping(); left != 0 {
			c.chosen = left.first()
			x.before = x.before[:last]
			return last
		}
		x.choices = x.choices[:last]
	}
	return -1
}

// dependent reports whether the order of two steps can tell.
func (x *explorer) dependent(a, b *Step) bool {
	return x.all || a.Actor == b.Actor ||
		a.kind == begin && b.kind == end || a.kind == end && b.kind == begin ||
		a.Wrote && b.looks(a.place) || b.Wrote && a.looks(b.place)
}

func (s *Step) looks(place int) bool { return s.place == place || s.awaits == place }

func (s Step) like(o Step) bool {
	return s.Actor == o.Actor && s.kind == o.kind && s.place == o.place && s.Wrote == o.Wrote
}

// relate finds which steps come before the j-th. Where one of another actor does,
// and nothing makes it so but that it came first, the other order is wanted, too.
func (x *explorer) relate(j int) {
	var before set
	var races []int
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

// reverse has a run wanted in which the j-th step is made, and what else need not
// come after the i-th, but not that one.
func (x *explorer) reverse(i, j int) {
	var rest set
	var initials actors // who can begin the rest
	for k := i + 1; k <= j; k++ {
		if k < j && x.before[k].has(i) {
			continue
		}
		if !x.before[k].meets(rest) {
			initials |= 1 << x.steps[k].Actor
		}
		rest.put(k)
	}
	c := &x.choices[i]
	if initials&(c.wanted|c.sleeping()) == 0 {
		c.wanted |= 1 << initials.first()
	}
}

// A set is one of steps, by index.
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

// trace says where each step was made.
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
