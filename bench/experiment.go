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
	"github.com/seed-30da4c49/sash/bench/internal/report"
	"github.com/seed-30da4c49/sash/internal/progress"
)

// An experiment answers a question by measurements.
type experiment struct {
	name, question string
	plan           func(*lab) plan
}

func experiments() []experiment {
	return []experiment{
		{"speed", "how long a decision takes", planSpeed},
		{"ratios", "how much more one call costs than another, and whether that is within bounds", planRatios},
		{"floor", "how long the steps of a decision take", planFloor},
		{"tail", "how long the worst calls take", planTail},
		{"memory", "how much memory a key takes, and what it costs the garbage collector", planMemory},
		{"waiters", "what other calls cost while many wait", planWaiters},
	}
}

func names(all []experiment) (names []string) {
	for _, e := range all {
		names = append(names, e.name)
	}
	return names
}

// A plan is the steps of an experiment. result returns the result of the steps done so far, if there
// are any.
type plan struct {
	steps  []step
	result func() (report.Result, error)
}

// A step is a part of a plan. Its cost estimates its duration, for the progress bar. When it
// is interrupted it ends early, with the context's error.
type step struct {
	cost time.Duration
	do   func(ctx context.Context) error
}

// A lab is the settings and the machine of experiments.
type lab struct {
	*options
	here   report.Environment
	budget int64 // the bytes of memory that experiments may use
}

// share is the part of the free memory that may be used.
const share = 0.6

func newLab(o *options, here report.Environment) *lab {
	l := &lab{options: o, here: here, budget: int64(share * float64(here.Free))}
	if strconv.IntSize == 32 {
		l.budget = min(l.budget, 1<<30) // of the address space
	}
	return l
}

// slack returns the bytes of garbage at which it is collected between turns.
func (l *lab) slack() int64 { return max(l.budget/8, 64<<20) }

// fits reports whether tables of all peers with n keys each fit into memory, with room for
// growth and garbage.
func (l *lab) fits(n int, all ...peers.Peer) bool {
	var bytes int64
	for _, p := range all {
		bytes += int64(n) * p.Bytes
	}
	return bytes+bytes/4+l.slack() <= l.budget
}

// fitting returns the peers whose tables with n keys fit into memory, and the peer Nothing.
// The notes name the peers left out. If the first peer does not fit, all are left out, since
// the others are compared with it.
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

// notMeasured begins each note on what would not fit into memory.
const notMeasured = "**Left out**"

func leftOut(where string, p peers.Peer) string {
	return fmt.Sprintf(notMeasured+" %s: %s would take more than %.0f %% of the free memory.", where, p.Label(), 100*share)
}

// run makes the chosen experiments one after the other. It writes the results of each, and
// prints its tables.
func (l *lab) run(ctx context.Context, stdout, stderr io.Writer) error {
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
	bar := progress.On(stderr, total.Milliseconds(), "measuring")
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

// run does every step. If none fails, it then frees the garbage before the next experiment.
func (p plan) run(ctx context.Context, bar *progress.Bar) error {
	for _, s := range p.steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := s.do(ctx); err != nil {
			return err
		}
		bar.Add(s.cost.Milliseconds())
	}
	debug.FreeOSMemory()
	return nil
}

// publish writes the result of an experiment, and prints its tables.
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

// ctxInterval is the number of rounds between two checks of a context in long loops.
const ctxInterval = 1 << 12

// fill inserts n keys into a table of p, by one goroutine for each core. Garbage is not
// collected while it runs, if there is room for it: collections of earlier tables would take
// longer than the rest.
func fill(ctx context.Context, p peers.Peer, table peers.Table, n int) error {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	goroutines := runtime.GOMAXPROCS(0)
	if p.Serial {
		goroutines = 1
	}
	return forEach(ctx, n, goroutines, func(i int) { table.Allow(keys.New(i)) })
}

// forEach calls do with every number below n, in that many goroutines.
func forEach(ctx context.Context, n, goroutines int, do func(i int)) error {
	together(goroutines, func(g int) {
		for i := g; i < n; i += goroutines {
			if i/goroutines%ctxInterval == 0 && ctx.Err() != nil {
				return
			}
			do(i)
		}
	})
	return ctx.Err()
}

// fillCost estimates the duration of fill for n keys.
func fillCost(n int) time.Duration {
	return time.Duration(n) * 2500 * time.Nanosecond / time.Duration(runtime.GOMAXPROCS(0))
}

// notesOn returns a note on each peer, with its version, its algorithm and its shortcomings.
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

// series returns the series of a peer in a plot.
func series(p peers.Peer, values []float64) report.Series {
	s := report.Series{Name: p.Title(), Values: values}
	switch {
	case p.Own():
		s.Role = report.Own
	case p.Free:
		s.Role = report.Floor
	}
	return s
}

// figure formats a number: with one decimal if it is less than 10, and else rounded.
func figure(x float64) string {
	switch {
	case math.IsNaN(x):
		return report.None
	case x < 10:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return humanize.Comma(int64(math.Round(x)))
}

// times formats a ratio.
func times(x float64) string {
	switch {
	case math.IsNaN(x):
		return report.None
	case x < 10:
		return strconv.FormatFloat(x, 'f', 2, 64) + " ×"
	}
	return humanize.Comma(int64(math.Round(x))) + " ×"
}

// finite returns x, or nil if JSON cannot represent it.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
