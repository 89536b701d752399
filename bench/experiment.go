package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash/bench/internal/keys"
	"github.com/seed-30da4c49/sash/bench/internal/peers"
	"github.com/seed-30da4c49/sash/bench/internal/progress"
	"github.com/seed-30da4c49/sash/bench/internal/report"
)

// An experiment answers a question, step by step.
type experiment struct {
	name, question string
	plan           func(*lab) plan
}

func experiments() []experiment {
	return []experiment{
		{"speed", "how long a decision takes", planSpeed},
		{"floor", "how long the steps that a decision is made of take", planFloor},
		{"tail", "how long the worst calls take", planTail},
		{"memory", "what a key takes, and costs the garbage collector", planMemory},
		{"accuracy", "what approximate limits get wrong", planAccuracy},
	}
}

func names(all []experiment) (names []string) {
	for _, e := range all {
		names = append(names, e.name)
	}
	return names
}

// A plan is what an experiment will do. Its result is asked for after the last step
// that was done, be it none.
type plan struct {
	steps  []step
	result func() (report.Result, error)
}

// A step takes about as long as its cost, of which bars are drawn. It ends early, with
// the context's error, when it is interrupted.
type step struct {
	cost time.Duration
	do   func(ctx context.Context) error
}

// A lab is where experiments are made.
type lab struct {
	*options
	here   report.Environment
	budget int64 // bytes that may be in use
}

// share is how much of the memory that is free may be used.
const share = 0.6

func newLab(o *options, here report.Environment) *lab {
	l := &lab{options: o, here: here, budget: int64(share * float64(here.Free))}
	if strconv.IntSize == 32 {
		l.budget = min(l.budget, 1<<30) // of addresses
	}
	return l
}

// slack is how much garbage may lie about before it is collected between turns.
func (l *lab) slack() int64 { return max(l.budget/8, 64<<20) }

// fits reports whether n keys of each of those fit into memory, with room for tables
// to grow and for garbage.
func (l *lab) fits(n int, all ...peers.Peer) bool {
	var bytes int64
	for _, p := range all {
		bytes += int64(n) * p.Bytes
	}
	return bytes+bytes/4+l.slack() <= l.budget
}

// fitting returns those of all that n keys of fit into memory, and what stands beside
// them all, and says whom it leaves out where: everybody, if it is the first, whom the
// others are compared with.
func (l *lab) fitting(n int, all []peers.Peer, where string) (fitting []peers.Peer, notes []string) {
	for _, p := range all {
		if l.fits(n, p) && l.fits(n, all[0]) {
			fitting = append(fitting, p)
		} else {
			notes = append(notes, leftOut(where, p))
		}
	}
	if len(fitting) > 0 {
		fitting = append(fitting, peers.Nothing())
	}
	return fitting, notes
}

func leftOut(where string, p peers.Peer) string {
	return fmt.Sprintf("**Left out** %s: %s would take more than %.0f %% of the free memory.", where, p.Label(), 100*share)
}

// run makes the experiments that were chosen, one after the other, writes the results
// of each, and shows its tables.
func (l *lab) run(ctx context.Context, stdout, stderr io.Writer, d progress.Drawer) error {
	if err := report.CanWrite(l.out); err != nil {
		return fmt.Errorf("-out: %w", err)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(l.budget))
	var chosen []experiment
	var plans []plan
	var total time.Duration
	for _, e := range experiments() {
		if slices.Contains(l.experiments, e.name) {
			p := e.plan(l)
			chosen, plans, total = append(chosen, e), append(plans, p), total+p.cost()
		}
	}
	fmt.Fprintf(stderr, "bench: %s, about %v; %s of memory at most\n", strings.Join(names(chosen), ", "),
		total.Round(time.Second), humanize.IBytes(uint64(l.budget)))
	bar := d.Work(total.Milliseconds(), "measuring")
	defer bar.End()
	for i, e := range chosen {
		bar.Describe(e.name)
		err := plans[i].run(ctx, bar)
		bar.Clear()
		if err := errors.Join(err, l.publish(e, plans[i], err != nil, stdout, stderr)); err != nil {
			return err
		}
	}
	return nil
}

func (p plan) cost() (total time.Duration) {
	for _, s := range p.steps {
		total += s.cost
	}
	return total
}

// run does every step, and leaves no garbage to the next experiment, unless there is
// to be none.
func (p plan) run(ctx context.Context, bar progress.Bar) error {
	for _, s := range p.steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.do(ctx); err != nil {
			return err
		}
		bar.Add64(s.cost.Milliseconds())
	}
	debug.FreeOSMemory()
	return nil
}

// publish writes and shows what was found.
func (l *lab) publish(e experiment, p plan, interrupted bool, stdout, stderr io.Writer) error {
	r, err := p.result()
	if err != nil {
		return err
	}
	r.Experiment, r.Question, r.Environment, r.Interrupted = e.name, e.question, l.here, interrupted
	r.Markdown(stdout)
	fmt.Fprintln(stdout)
	files, err := r.Write(l.out)
	if err != nil {
		return fmt.Errorf("writing results of %s: %w", e.name, err)
	}
	fmt.Fprintf(stderr, "bench: wrote %s\n", strings.Join(files, ", "))
	return nil
}

// every asks of ctx now and then, in long loops.
const every = 1 << 12

// fill makes a table of p track n keys, by as many goroutines as there are cores.
// Garbage is not collected meanwhile, if there is room for it: with what was there
// before that would take longer than the rest.
func fill(ctx context.Context, p peers.Peer, table peers.Table, n int) error {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	goroutines := runtime.GOMAXPROCS(0)
	if p.Serial {
		goroutines = 1
	}
	return forEach(ctx, n, goroutines, func(i int) { table.Allow(keys.New(i)) })
}

// forEach calls do with every number below n, in some goroutines.
func forEach(ctx context.Context, n, goroutines int, do func(i int)) error {
	together(goroutines, func(g int) {
		for i := g; i < n; i += goroutines {
			if i/goroutines%every == 0 && ctx.Err() != nil {
				return
			}
			do(i)
		}
	})
	return ctx.Err()
}

// fillCost is about how long fill takes for n keys.
func fillCost(n int) time.Duration {
	return time.Duration(n) * 2500 * time.Nanosecond / time.Duration(runtime.GOMAXPROCS(0))
}

// notesOn says what of peers a reader must know.
func notesOn(all []peers.Peer) (notes []string) {
	for _, p := range all {
		note := p.Name
		if v := p.Version(); strings.HasPrefix(v, "v") { // of sash itself there is none
			note += " " + v
		}
		note += ": " + p.Keeps
		if p.Lacks != "" {
			note += ". Lacks: " + p.Lacks
		}
		if !slices.Contains(notes, note+".") {
			notes = append(notes, note+".")
		}
	}
	return append(notes, "Left out: limiters that ask a server, such as those over Redis.")
}

// figure writes a number with as many digits as it is worth.
func figure(x float64) string {
	switch {
	case math.IsNaN(x):
		return report.None
	case x < 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return humanize.Comma(int64(math.Round(x)))
}

// times writes how many times something is.
func times(x float64) string {
	switch {
	case math.IsNaN(x):
		return report.None
	case x < 10:
		return strconv.FormatFloat(x, 'f', 2, 64) + " ×"
	}
	return humanize.Comma(int64(math.Round(x))) + " ×"
}

// finite returns x, and nil for what JSON has no number for.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
