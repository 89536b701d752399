// Command mutants shows that sash's tests notice the faults that limiters are known to have.
// It makes the faults one at a time, runs tests on each, and reports the test that failed.
//
//	go run ./fuzz/mutants [flags]
//	go run ./fuzz/mutants -run late -race
//
// A mutant is one file of the root module, of sashredis or of cmd/sash with one text replaced. It may
// be a script that runs in a store. The source is not changed: the go command reads the mutant in
// place of the file (go help build: -overlay). These are errors before any test runs, so that
// mutants stay up to date:
//   - a text that does not occur exactly once in its file
//   - a pattern of tests with an alternative that matches no test
//
// A mutant that does not compile is an error in the report.
//
// First the tests of each package needed run on the original source. Then each mutant is
// tried on the tests of its own package, and, if they do not kill it, on the tests of the root
// package or, for sashredis, of fuzz/fleet. Those of cmd/sash are first tried on the model of
// what it prints. Those of sashredis need redis-server or
// valkey-server in PATH. In each package the tests that should notice it run first, and then all short
// tests. Tests hang if they take five times as long as on the original source, and at least
// a minute. A hang is a kill, too. A kill is late if the tests that should notice the mutant have
// passed before: one of them is missing or wrong, or depends on luck.
//
// The report is a table in Markdown. The exit status is 0 if no mutant is alive, 1 if one is
// alive or was not tried, 2 if the command line is wrong, and 130 after an interrupt.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"syscall"

	"github.com/seed-30da4c49/sash/internal/command"
	"github.com/seed-30da4c49/sash/internal/progress"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

type options struct {
	names regexp.Regexp
	race  bool
	list  bool
	jobs  int
}

func parseArgs(args []string, stderr io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.TextVar(&o.names, "run", regexp.MustCompile(""), "try the mutants whose name `regexp` matches")
	flags.BoolVar(&o.race, "race", false, "run the tests under the race detector")
	flags.BoolVar(&o.list, "list", false, "list the mutants, and try none")
	flags.IntVar(&o.jobs, "j", runtime.GOMAXPROCS(0), "try so `many` at once")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		err = fmt.Errorf("no arguments are wanted, got %s", strings.Join(flags.Args(), " "))
	} else if o.jobs < 1 {
		err = fmt.Errorf("-j must be at least 1, got %d", o.jobs)
	}
	return o, err
}

// run is the command: its arguments and streams in, its exit status out.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseArgs(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return command.OK
	case err != nil:
		fmt.Fprintln(stderr, "mutants:", err)
		return command.Usage
	}
	h := &hunt{jobs: o.jobs, report: stdout, progress: progress.On(stderr, -1, "")}
	if err := o.run(ctx, h); err != nil {
		h.progress.Clear()
		if ctx.Err() != nil {
			fmt.Fprintln(stderr, "mutants: interrupted")
			return command.Interrupted
		}
		fmt.Fprintln(stderr, "mutants:", err)
		return command.Failed
	}
	return command.OK
}

func (o *options) run(ctx context.Context, h *hunt) error {
	var chosen []mutant
	for _, m := range mutants {
		if o.names.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant's name matches %s", &o.names)
	}
	root, err := packageDir(ctx)
	if err != nil {
		return err
	}
	if err := check(root, chosen); err != nil {
		return err
	}
	if o.list {
		return list(h.report, chosen)
	}
	h.tests = tests{root: root, race: o.race, all: "."}
	return h.run(ctx, chosen)
}

func list(w io.Writer, mutants []mutant) error {
	for _, m := range mutants {
		if _, err := fmt.Fprintf(w, "%-40s %-22s %s\n", m.name, m.file, m.fault); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%d mutants\n", len(mutants))
	return err
}
