// Command fleet measures sashredis and other limiters that keep their counts in Redis, on one
// server that it starts itself:
//
//	go run ./bench/fleet                     # about six minutes
//	go run ./bench/fleet -quick              # in seconds; its figures say nothing
//	go run ./bench/fleet -only hot,new
//
// It needs redis-server or valkey-server in PATH. The server listens on a unix socket, keeps
// nothing on disk, and shares the cores of the machine with the callers. Callers call again as
// soon as they have an answer: a closed loop. So a slow server slows the callers, and the
// percentiles are of what such callers see. The limiters take turns in rounds, and a figure is
// the median of the rounds.
//
// The parts are:
//
//	hot        one key, all admitted, with 1, 16 and 256 callers
//	new        keys that the store does not know yet, of a million
//	known      keys that the store knows, and what a key takes there
//	flood      denied calls, on one key and on a thousand
//	processes  eight processes on one key: what they admit, and what the limit admits
//	leases     the time of a decision on leased units, and what became of them
//	refunds    giving units back to a log, by how many records it has
//
// The exit status is 0; 1 if something failed; 2 if the command line was wrong; 130 if
// interrupted, and then the figures measured so far are written.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash/bench/internal/report"
	"github.com/seed-30da4c49/sash/internal/command"
	"github.com/seed-30da4c49/sash/internal/progress"
)

func main() {
	if os.Getenv(workerEnv) != "" {
		if err := work(os.Stdin, os.Stdout); err != nil {
			command.Say(os.Stderr, "fleet", err)
			os.Exit(command.Failed)
		}
		return
	}
	command.Main(func(ctx context.Context, args []string) int { return run(ctx, args, os.Stdout, os.Stderr) })
}

// parts are the parts of the measurement, in order.
var parts = []struct {
	name    string
	measure func(ctx context.Context, l *lab) error
}{
	{"hot", measureHot},
	{"new", measureNew},
	{"known", measureKnown},
	{"flood", measureFlood},
	{"processes", measureProcesses},
	{"leases", measureLeases},
	{"refunds", measureRefunds},
}

// options are the settings of the command line.
type options struct {
	only  []string
	out   string
	quick bool
	scale
}

// A scale is how much is measured.
type scale struct {
	callers   []int
	rounds    int
	turn      time.Duration // one limiter in one round
	keys      int           // number of new keys to choose from
	known     int           // keys that the store knows
	window    time.Duration // of processes
	windows   float64       // number of windows for which the processes run
	processes int
	records   []int // of a log to which units are given back
	settled   int   // calls that give back, at most
}

var (
	fully   = scale{[]int{1, 16, 256}, 5, 300 * time.Millisecond, 1_000_000, 100_000, 1900 * time.Millisecond, 2.1, 8, []int{10, 1000, 100_000}, 2000}
	quickly = scale{[]int{1, 16, 256}, 1, 20 * time.Millisecond, 1_000_000, 1000, 100 * time.Millisecond, 1.6, 2, []int{10, 100}, 20}
)

// run runs the command with these arguments and streams, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, flags, err := parseArgs(args)
	if err != nil {
		usage := func(w io.Writer) {
			fmt.Fprint(w, "Usage: go run ./bench/fleet [flags]\n\nMeasures limiters that keep their counts in Redis.\n\n")
			flags.SetOutput(w)
			flags.PrintDefaults()
		}
		return command.Refuse("fleet", err, usage, stdout, stderr)
	}
	line := strings.Join(append([]string{"go run ./bench/fleet"}, args...), " ")
	err = o.run(ctx, report.Here(ctx, line), stdout, stderr)
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "fleet: interrupted; what was measured is written")
		return command.Interrupted
	case err != nil:
		command.Say(stderr, "fleet", err)
		return command.Failed
	}
	return command.OK
}

// parseArgs reads the command line.
func parseArgs(args []string) (*options, *flag.FlagSet, error) {
	o := &options{scale: fully}
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints errors and usage
	only := flags.String("only", strings.Join(names, ","), "measure these `PARTS`")
	flags.StringVar(&o.out, "out", "", "write results to this `DIRECTORY`; by default bench/results, or quick there with -quick")
	flags.BoolVar(&o.quick, "quick", false, "fewer keys and shorter turns: it takes seconds, and its figures say nothing")
	if err := flags.Parse(args); err != nil {
		return o, flags, err
	}
	if o.quick {
		o.scale = quickly
	}
	if o.out == "" {
		o.out = resultsHere(o.quick)
	}
	var faults []error
	for name := range strings.SplitSeq(*only, ",") {
		if !slices.Contains(names, name) {
			faults = append(faults, fmt.Errorf("-only: there is no %q, want some of %s", name, strings.Join(names, ",")))
		}
		o.only = append(o.only, name)
	}
	if flags.NArg() > 0 {
		faults = append(faults, fmt.Errorf("%q is no flag, and only flags are expected", flags.Arg(0)))
	}
	return o, flags, errors.Join(faults...)
}

// resultsHere returns the directory of results in bench, if the working directory is bench or
// its parent.
func resultsHere(quick bool) string {
	dir := "results"
	if _, err := os.Stat(filepath.Join("bench", "go.mod")); err == nil {
		dir = filepath.Join("bench", dir)
	}
	if quick {
		dir = filepath.Join(dir, "quick")
	}
	return dir
}

// A lab is where measurements are made, and what they have found.
type lab struct {
	*options
	*server
	bar    *progress.Bar
	result report.Result
	found  []record
	goals  goals
}

// A record is one row of figures, in JSON.
type record struct {
	Part    string             `json:"part"`
	Impl    string             `json:"impl"`
	Callers int                `json:"callers,omitempty"`
	Values  map[string]float64 `json:"values"`
}

// run measures, and writes what it has found, even if it is interrupted.
func (o *options) run(ctx context.Context, here report.Environment, stdout, stderr io.Writer) (err error) {
	if err := report.CanWrite(o.out); err != nil {
		return fmt.Errorf("-out: %w", err)
	}
	s, err := startServer(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	m, err := s.read(ctx)
	if err != nil {
		return err
	}
	l := &lab{options: o, server: s, bar: progress.On(stderr, -1, "measuring")}
	begin := time.Now()
	for _, p := range parts {
		if err == nil && slices.Contains(o.only, p.name) {
			l.bar.Describe(p.name)
			if err = p.measure(ctx, l); err != nil {
				err = fmt.Errorf("%s: %w", p.name, err)
			}
		}
	}
	if ctx.Err() != nil { // whatever failed because of it
		err = ctx.Err()
	}
	l.bar.Clear()
	l.result.Experiment, l.result.Question = "fleet", "what a decision costs that many processes share"
	l.result.Environment, l.result.Interrupted = here, ctx.Err() != nil
	l.result.Tables = append(l.goals.table(), l.result.Tables...)
	l.result.Records = l.found
	l.result.Notes = l.notes(m.version, time.Since(begin))
	l.result.Markdown(stdout)
	files, fault := l.result.Write(o.out)
	if fault != nil {
		return errors.Join(err, fmt.Errorf("writing results: %w", fault))
	}
	fmt.Fprintf(stderr, "fleet: wrote %s\n", strings.Join(files, ", "))
	return err
}

// notes returns the method.
func (l *lab) notes(version string, took time.Duration) []string {
	return []string{
		fmt.Sprintf("Server: %s, with its defaults, on a unix socket, without persistence. It shares the cores with the callers. Clients and limiters: %s. All took %v.",
			version, strings.Join(versions(), ", "), took.Round(time.Second)),
		fmt.Sprintf("Callers are goroutines that call as soon as they have an answer (a closed loop). Turns of %v in rounds (%d), each in another order; a figure is the median of the rounds, a percentile is of all calls.", l.turn, l.rounds),
		"go-redis has its usual settings (at most 10 connections for each core), and for sashredis ContextTimeoutEnabled. sashredis has its defaults but for the time-out, which it takes from go-redis. So its mirror is on, unless the name says otherwise.",
		"Server µs are the processor time of the server. Script µs are the time of EVALSHA in its commandstats, without the connection. Commands include those that scripts call. A packet is a write to a connection, which may hold several commands. Bytes are counted in the protocol, both ways. Allocations are counted in the calling process, with its client.",
		"nothing: a script that returns an empty text, so what any limiter pays for one round trip. Shared: callers wait for the round trip of another, and each is woken by itself. Read and write: a script that reads the time and the key, and writes the key with an expiry.",
	}
}
