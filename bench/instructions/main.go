// Command instructions counts the instructions of a call, for every operation of the hot path under
// every kind of limits, and compares them with the counts of the last release. From run to run most
// counts differ by less than 0.2 %, and none by over 1 %, whatever else the machine does:
//
//	go run ./bench/instructions              # all rows, in some 40 s on two cores
//	go run ./bench/instructions -run log     # the rows that match a regular expression
//	go run ./bench/instructions -update      # writes the counts to the file
//	go run ./bench/instructions -history FILE # writes what each commit has changed there; counts nothing
//
// It needs Linux on amd64, and valgrind, whose tool callgrind counts. The file belongs to one version
// of Go, since each compiles the code otherwise. The counts of another version are not compared.
//
// What a call costs also depends on the memory that it waits for, which is not counted here. Command
// bench measures time.
//
// The exit status is 0; 1 if a row takes over 3 % more instructions than in the file, if the rows are
// not those of the file, or if nothing could be counted; 2 if the command line was wrong; 130 if
// interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"

	"github.com/seed-30da4c49/sash/bench/internal/callgrind"
	"github.com/seed-30da4c49/sash/internal/command"
)

func main() {
	if callgrind.Running() {
		if err := serveCounts(os.Args[1:]); err != nil {
			command.Say(os.Stderr, "instructions", err)
			os.Exit(command.Failed)
		}
		return
	}
	command.Main(func(ctx context.Context, args []string) int { return run(ctx, args, os.Stdout, os.Stderr) })
}

// options are the settings of the command line.
type options struct {
	file    string
	pattern *regexp.Regexp
	update  bool
	history string // the page to write
	flags   *flag.FlagSet
}

func parseArgs(args []string) (*options, error) {
	o := &options{pattern: regexp.MustCompile(""), flags: flag.NewFlagSet("instructions", flag.ContinueOnError)}
	o.flags.SetOutput(io.Discard) // run prints errors and usage
	o.flags.StringVar(&o.file, "file", "bench/instructions/counts.txt",
		"the `FILE` of the counts to compare with; the default is found in the root of the repository")
	o.flags.BoolVar(&o.update, "update", false, "write the counts to the file, in place of comparing them")
	o.flags.StringVar(&o.history, "history", "",
		"count nothing, and write a `PAGE` of the commits at which the counts in the file have changed")
	o.flags.Func("run", "count and compare only the rows whose names match this `REGEXP`", func(s string) (err error) {
		o.pattern, err = regexp.Compile(s)
		return err
	})
	err := o.flags.Parse(args)
	if n := o.flags.NArg(); err == nil && n > 0 {
		err = fmt.Errorf("%q is no flag, and only flags are expected", o.flags.Arg(0))
	}
	return o, err
}

func (o *options) usage(w io.Writer) {
	fmt.Fprint(w, "Counts the instructions that each call executes. A call fails if it executes over 3 % more than by the file.\n\n")
	o.flags.SetOutput(w)
	o.flags.PrintDefaults()
}

// run runs the command with these arguments and streams, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseArgs(args)
	if err != nil {
		return command.Refuse("instructions", err, o.usage, stdout, stderr)
	}
	if o.history != "" {
		err = o.writeHistory(ctx)
	} else {
		err = o.count(ctx, stdout, stderr)
	}
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		fmt.Fprintln(stderr, "instructions: interrupted")
		return command.Interrupted
	case err != nil:
		command.Say(stderr, "instructions", err)
		return command.Failed
	}
	return command.OK
}

func (o *options) writeHistory(ctx context.Context) error {
	now, err := readCounts(o.file)
	if err != nil {
		return err
	}
	changes, err := history(ctx, o.file, inHistory)
	if err != nil {
		return err
	}
	return writeHistory(o.history, inHistory, changes, now)
}

// count counts the chosen rows, prints them, and compares them with the file or writes it. The file
// is read first, so that its faults are told at once.
func (o *options) count(ctx context.Context, stdout, stderr io.Writer) error {
	before, err := readCounts(o.file)
	if o.update && errors.Is(err, os.ErrNotExist) {
		before, err = counts{version: here()}, nil
	}
	if err != nil {
		return err
	}
	// A file that is written anew needs no comparison, unless it keeps some of the counts it has.
	if err := comparable(before.version, here()); err != nil && !(o.update && o.pattern.String() == "") {
		return err
	}
	chosen := slices.DeleteFunc(rows(), func(r row) bool { return !o.pattern.MatchString(r.name) })
	if len(chosen) == 0 {
		return fmt.Errorf("no row matches %q", o.pattern)
	}
	fmt.Fprintf(stderr, "instructions: counting %d rows with %s, %d times each\n", len(chosen), here(), tries)
	after, err := countAll(ctx, chosen)
	if err != nil {
		return err
	}
	before, others := before.split(o.pattern)
	after.print(stdout, before)
	if o.update {
		return after.join(others).write(o.file)
	}
	return compare(before, after)
}
