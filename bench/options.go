package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-30da4c49/sash/bench/internal/keys"
	"github.com/seed-30da4c49/sash/bench/internal/peers"
)

// options are the settings of the command line.
type options struct {
	experiments   []string
	peers         []string
	keys          []int
	distributions []string
	answers       []string
	modes         []string
	calls         []string
	goroutines    []int
	rounds        int
	decisions     int
	grow          int
	rate          int
	out           string
	quick, full   bool
	publishes     bool

	flags *flag.FlagSet
}

// setDefaults sets the defaults without -quick.
func (o *options) setDefaults() {
	o.keys, o.goroutines = []int{1, 1000, 1_000_000}, ordered(1, 2, 4, 8, runtime.GOMAXPROCS(0))
	o.rounds, o.decisions = 5, 20_000
	o.grow, o.rate = 500_000, 250_000
	o.out = resultsHere()
}

// setQuick sets the defaults with -quick.
func (o *options) setQuick() {
	o.keys, o.goroutines = []int{1, 1000}, []int{1, 2}
	o.rounds, o.decisions = 3, 1000
	o.grow, o.rate = 10_000, 400_000
	o.out = filepath.Join(resultsHere(), "quick")
}

// parseArgs reads the command line. Its error names every fault found, or is flag.ErrHelp.
// The options can print the usage in any case.
func parseArgs(args []string) (*options, error) {
	o := &options{
		experiments: names(experiments()), peers: peerNames(), distributions: keys.Distributions,
		answers: answers, modes: modes, calls: calls,
		flags: flag.NewFlagSet("bench", flag.ContinueOnError),
	}
	if o.setDefaults(); slices.ContainsFunc(args, isQuick) {
		o.setQuick()
	}
	o.flags.SetOutput(io.Discard) // run prints errors and usage
	var faults []error
	// The functions return no error, because flag would stop at the first.
	read := func(name, usage string, set func(string) error) {
		o.flags.Func(name, usage, func(s string) error {
			if err := set(s); err != nil {
				faults = append(faults, fmt.Errorf("-%s: %w", name, err))
			}
			return nil
		})
	}
	o.define(read)
	if err := o.flags.Parse(args); err != nil {
		return o, errors.Join(append(faults, err)...)
	}
	return o, errors.Join(append(faults, o.check())...)
}

// isQuick reports whether an argument is the flag -quick, on which other flags'
// defaults depend.
func isQuick(arg string) bool {
	return slices.Contains([]string{"-quick", "--quick", "-quick=true", "--quick=true"}, arg)
}

// define defines the flags. It uses read for the flags whose errors are collected.
func (o *options) define(read func(name, usage string, set func(string) error)) {
	selection := func(name, usage string, to *[]string) {
		all := slices.Clone(*to)
		read(name, usage+", of "+strings.Join(all, ",")+" (default all)", func(s string) (err error) {
			*to, err = choose(s, all)
			return err
		})
	}
	selection("experiments", "run these `EXPERIMENTS`: -experiments speed,memory", &o.experiments)
	selection("peers", "measure these `PEERS` as well as sash: -peers go-limiter,x-time-rate", &o.peers)
	selection("dists", "the `DISTRIBUTIONS` of keys in speed, and in floor the first of them", &o.distributions)
	selection("answers", "the `ANSWERS` of speed", &o.answers)
	selection("modes", "the `MODES` of speed", &o.modes)
	selection("calls", "the `CALLS` of speed: Allow for yes or no, Take for the whole answer, Compose for Allow of a key put together in the call", &o.calls)
	read("keys", "how many keys there are, such as 10M if there is the memory, and some minutes, for them: in speed and ratios each of these `NUMBERS`, in floor those up to 1M, in memory the greatest: -keys 1k,10_000_000 (default "+labels(o.keys)+")", func(s string) (err error) {
		o.keys, err = numbers(s, keys.Parse)
		return err
	})
	read("goroutines", "how many goroutines ask at once in speed, and up to 2 in floor and ratios, each of these `NUMBERS`, more than 2 only in throughput with uniform keys, and for Take and Compose only as many as there are cores, unless -full (default "+labels(o.goroutines)+")", func(s string) (err error) {
		o.goroutines, err = numbers(s, goroutines)
		return err
	})
	read("grow", "grow tables to this `NUMBER` of keys in tail (default "+keys.Label(o.grow)+")", func(s string) (err error) {
		o.grow, err = keys.Parse(s)
		return err
	})
	count := func(name, usage string, to *int, limit int) {
		read(name, fmt.Sprintf("%s (default %s)", usage, keys.Label(*to)), func(s string) (err error) {
			*to, err = keys.Number(s, limit)
			return err
		})
	}
	count("rate", "let `NUMBER` calls arrive a second in tail, and a fifth of them in memory", &o.rate, 100_000_000)
	count("rounds", "report the median of this `NUMBER` of rounds in speed, floor and tail; of five times as many in ratios, and with 1,000 keys and fewer, which take little time", &o.rounds, 10_000)
	count("decisions", "make this `NUMBER` of decisions a core in a turn of speed, ratios and floor", &o.decisions, 1_000_000)
	o.flags.StringVar(&o.out, "out", o.out, "write results to this `DIRECTORY`; by default -quick has another")
	o.flags.BoolVar(&o.quick, "quick", false, "fewer keys, rounds and decisions, where other flags do not say how many: it takes seconds, and its figures say nothing")
	o.flags.BoolVar(&o.publishes, "publish", false, "measure every figure of the documents, and write them there: it takes about a quarter of an hour, a clean working tree, and no other flag but -out and -quick. With -quick the documents are written to publish in the directory of results")
	o.flags.BoolVar(&o.full, "full", false, "measure every combination of flags in speed: by default more than 1M keys are only asked for what is admitted")
}

// resultsHere returns the directory of results in bench, if the working directory is bench or
// its parent.
func resultsHere() string {
	if _, err := os.Stat(filepath.Join("bench", "go.mod")); err == nil {
		return filepath.Join("bench", "results")
	}
	return "results"
}

func (o *options) check() error {
	var faults []error
	if o.out == "" {
		faults = append(faults, errors.New("-out names no directory"))
	}
	if n := o.flags.NArg(); n > 0 {
		faults = append(faults, fmt.Errorf("%q is no flag, and only flags are expected", o.flags.Arg(0)))
	}
	o.flags.Visit(func(f *flag.Flag) {
		if o.publishes && !slices.Contains([]string{"publish", "quick", "out"}, f.Name) {
			faults = append(faults, fmt.Errorf("-publish has a list of what it measures, and takes no -%s", f.Name))
		}
	})
	return errors.Join(faults...)
}

// choose parses names joined by commas, and returns them in the order of all. Its error names
// every name that is not in all.
func choose(s string, all []string) (chosen []string, err error) {
	var faults []error
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(s, ",") {
		name = strings.TrimSpace(name)
		if !slices.Contains(all, name) {
			faults = append(faults, fmt.Errorf("there is no %q, want some of %s", name, strings.Join(all, ",")))
		}
		wanted[name] = true
	}
	for _, name := range all {
		if wanted[name] {
			chosen = append(chosen, name)
		}
	}
	return chosen, errors.Join(faults...)
}

// numbers parses numbers joined by commas, and returns them in order without duplicates.
func numbers(s string, parse func(string) (int, error)) (all []int, err error) {
	var faults []error
	for part := range strings.SplitSeq(s, ",") {
		n, err := parse(part)
		faults = append(faults, err)
		all = append(all, n)
	}
	return ordered(all...), errors.Join(faults...)
}

// ordered returns numbers in order without duplicates.
func ordered(all ...int) []int { return slices.Compact(slices.Sorted(slices.Values(all))) }

func goroutines(s string) (int, error) {
	const limit = 10_000
	n, err := strconv.Atoi(strings.TrimSpace(s))
	if err != nil || n < 1 || n > limit {
		return 0, fmt.Errorf("%q is no number of goroutines: want one from 1 to %d", s, limit)
	}
	return n, nil
}

// peerNames returns the names of the peers other than sash.
func peerNames() (all []string) {
	for _, p := range peers.Field()[1:] {
		all = append(all, p.Name)
	}
	return all
}

// field returns sash and the chosen peers.
func (o *options) field() []peers.Peer {
	return slices.DeleteFunc(peers.Field(), func(p peers.Peer) bool {
		return p.Name != "sash" && !slices.Contains(o.peers, p.Name)
	})
}

func labels(all []int) string {
	var labels []string
	for _, n := range all {
		labels = append(labels, keys.Label(n))
	}
	return strings.Join(labels, ",")
}

const usageText = `Usage: go run ./bench [flags]

Measures sash and competing limiters, and writes tables, JSON and plots. Experiments are:

`

func (o *options) usage(w io.Writer) {
	io.WriteString(w, usageText)
	for _, e := range experiments() {
		fmt.Fprintf(w, "  %-9s %s\n", e.name, e.question)
	}
	io.WriteString(w, "\nFlags:\n")
	o.flags.SetOutput(w)
	o.flags.PrintDefaults()
	io.WriteString(w, "\nExit status: 0; 1 if something failed; 2 for a wrong command line; 130 if\ninterrupted, and then the figures measured so far are written.\n")
}
