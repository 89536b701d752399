// Command soak runs limiters of every algorithm and option under everything that they are
// made for at once: floods of keys, caps that overflow, clocks that jump both ways, changes
// of limits, sweeps, snapshots and restores, while many goroutines call. It checks
// throughout that the limiters keep their promises.
//
//	go run ./bench/soak [-for 10m] [-seed N] [-workers N] [-first] [-json]
//
// Some keys of each limiter have an account. It records the units admitted to the key, with
// the clock's readings before and after each call, and adds them up by windows, without
// any of the limiter's own arithmetic. An over-admission is more than the limit's proven
// bound that certainly lies in one window:
//
//   - under SlidingLog, more than Count in any window;
//   - under SlidingCounter, more than Count in an aligned window, or more than Count*(1+f)
//     in a window that ends the fraction f into an aligned one;
//   - under SlidingBuckets, more than Count in as many buckets as make up a window;
//   - under SlidingParts, more than Count in any 15/16 of a window;
//   - under TokenBucket, more than Burst + Count*T/Window in an interval of length T.
//
// The Counts and Bursts of these keys change, too, and lowered ones are checked while they
// are in force. The Count of a TokenBucket, its rate, changes only where the clock never goes
// back: see plan.lowered. Further checks:
//
//   - each decision is free of contradictions;
//   - the number of keys is never above the cap;
//   - the first unit of a new key is admitted;
//   - snapshots, restored into other limiters, hold all units charged to keys with accounts;
//   - at the end every key becomes idle, and neither heap nor goroutines have grown.
//
// A clock stands still for 64 calls on average, so a window takes as long as its calls
// need. The seed chooses the calls. The order in which goroutines run is the scheduler's.
//
// Soak writes a live line to stderr, if that is a terminal, and at the end a table in
// Markdown, or with -json the fields of the type report. The exit status is 0; 1 if a fault
// was found; 2 if the command line was wrong; 130 if the run was interrupted, and then the
// table is written, too.
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

	"github.com/seed-30da4c49/sash/internal/command"
	"github.com/seed-30da4c49/sash/internal/progress"
)

func main() {
	command.Main(func(ctx context.Context, args []string) int {
		return invoke(ctx, args, right, os.Stdout, os.Stderr)
	})
}

// options are the settings of the command line, and the limiters to run.
type options struct {
	duration time.Duration
	seed     uint64
	workers  int
	first    bool // whether the first fault ends the run
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
	r := run(ctx, o, progress.Terminal(stderr))
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

// parse reads the command line. It prints what is wrong with it.
func (o *options) parse(args []string, stderr io.Writer) error {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.DurationVar(&o.duration, "for", 10*time.Minute, "soak for this `DURATION`: -for 30s")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64(), "choose by this `NUMBER` what is called; by chance, if it is not given")
	flags.IntVar(&o.workers, "workers", 4*runtime.GOMAXPROCS(0), "call from this many `GOROUTINES`, by default 4 for each core")
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
