// Command soak lets limiters of every algorithm and option stand what they are made
// for, all at once, and checks throughout that they keep what they promise: floods
// of keys, caps that overflow, clocks that jump both ways, changes of limits,
// sweeps, snapshots and restores, while many goroutines call.
//
//	go run ./bench/soak [-for 10m] [-seed N] [-workers N] [-first] [-json]
//
// Some keys of each limiter are kept aside: what they are admitted is booked, with
// the clock's readings before and after each call, and added up by windows, without
// any of the limiter's own arithmetic. More than the limit's proven bound that
// certainly lies in one window is an over-admission: under SlidingLog more than
// Count in any window, under SlidingCounter more than Count in an aligned one or
// Count*(1+f) in any that ends the fraction f into one, under SlidingBuckets more
// than Count in as many buckets as make up a window. The Counts of these keys
// change, too, and the lower ones are held while they are in force.
//
// Of all others it checks each decision for contradictions, that the number of
// keys never passes the cap, and that the first unit of a new key is admitted; and
// at the end that every key becomes idle, and that neither heap nor goroutines have
// grown. Snapshots are restored into other limiters, and must hold all that kept
// keys had been charged.
//
// A clock stands still for 64 calls on average, so a window takes as long as its
// calls need. The seed chooses what is called; the order in which goroutines run is
// the scheduler's.
//
// It writes a live line to stderr, if that is a terminal, and a table in Markdown at
// the end, or with -json the fields of the type report. The exit status is 0; 1 if
// anything was found wrong; 2 if the command line was wrong; 130 if interrupted,
// which ends the run, with its table.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"time"

	"github.com/seed-30da4c49/sash/bench/internal/command"

	"golang.org/x/term"
)

func main() {
	command.Main(func(ctx context.Context, args []string) int {
		return invoke(ctx, args, right, os.Stdout, os.Stderr)
	})
}

// options is what the command line says, and what to soak.
type options struct {
	duration time.Duration
	seed     uint64
	workers  int
	first    bool // fault ends it
	json     bool
	build    build
}

// invoke is the command: its arguments in, its exit status out.
func invoke(ctx context.Context, args []string, build build, stdout, stderr io.Writer) int {
	o := options{build: build}
	switch err := o.parse(args, stderr); {
	case errors.Is(err, flag.ErrHelp):
		return command.OK
	case err != nil:
		return command.Usage
	}
	r := run(ctx, o, terminal(stderr))
	if err := r.write(stdout, o.json); err != nil {
		fmt.Fprintf(stderr, "soak: writing the report: %v\n", err)
		return command.Failed
	}
	switch {
	case r.failed():
		return command.Failed
	case ctx.Err() != nil:
		return command.Interrupted
	}
	return command.OK
}

// parse reads the command line, and says what is wrong with it.
func (o *options) parse(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&o.duration, "for", 10*time.Minute, "soak for this `DURATION`: -for 30s")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64(), "choose by this `NUMBER` what is called; by chance, if it is not given")
	flags.IntVar(&o.workers, "workers", 4*runtime.GOMAXPROCS(0), "call from so many `GOROUTINES`, by default 4 for each core")
	flags.BoolVar(&o.first, "first", false, "end with the first fault")
	flags.BoolVar(&o.json, "json", false, "report as JSON")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	switch {
	case o.duration <= 0:
		err = fmt.Errorf("-for must be > 0, got %v", o.duration)
	case o.workers < 1:
		err = fmt.Errorf("-workers must be >= 1, got %d", o.workers)
	case flags.NArg() > 0:
		err = fmt.Errorf("no arguments are expected, got %q", flags.Args())
	}
	if err != nil {
		fmt.Fprintf(stderr, "soak: %v\nsoak: -h explains the flags\n", err)
	}
	return err
}

// terminal returns w if that is one, else what takes all and shows nothing.
func terminal(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return w
	}
	return io.Discard
}
