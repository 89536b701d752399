// Command bench measures sash and competing limiters on your machine, in one process and by
// turns. It also shows where sash loses:
//
//	go run ./bench                          # all experiments, about ten minutes
//	go run ./bench -quick                   # all of them on a few keys, in seconds
//	go run ./bench -experiments speed -keys 1,1k -goroutines 1,2,4,8 -rounds 21
//	go run ./bench -experiments speed,memory -keys 10_000_000
//	go run ./bench -publish                 # every figure of the documents, about a quarter of an hour
//
// Experiments are:
//
//	speed     nanoseconds per decision, by the number of keys, their distribution, the
//	          answer, the call (for yes or no, for the whole answer, or of a key that it puts
//	          together) and the number of goroutines; as throughput, and as latency, where each key depends on the
//	          last answer
//	ratios    how much more one call of sash costs than another: Take than Allow, two limits
//	          than one, a log than a counter; new keys, composed keys, bytes; with bounds
//	floor     speed for the steps of a decision: how much faster it could be
//	tail      the time of the worst calls while a table grows from nothing, and while idle
//	          keys are swept out, with arrivals that do not wait for answers
//	memory    bytes and objects per key, their cost to the garbage collector, and the time
//	          of calls while it runs
//	waiters   the time of other calls while thousands wait: units that are given back, a
//	          WaitAll, a Reconfigure
//
// Each experiment writes a table in Markdown, all figures in JSON, and plots in SVG, with
// the machine, the Go version, the commit, the clock and the command, and prints the table. Other work
// on the machine disturbs the figures.
//
// With -publish it runs these experiments, bench/fleet and benchmarks, each with settings of its own, which the documents
// name. Then it writes their figures into the documents, between the markers of figures, with the machine and the
// commit. The documents are written all or none, so an interrupt changes nothing.
//
// A measurement that would need more than 60 % of the free memory is left out, and the
// results say so. Limiters that ask a server do another job: bench/fleet measures those.
//
// The exit status is 0; 1 if something failed; 2 if the command line was wrong; 130 if
// interrupted, and then the figures measured so far are written.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/seed-30da4c49/sash/bench/internal/report"
	"github.com/seed-30da4c49/sash/internal/command"
)

func main() {
	command.Main(func(ctx context.Context, args []string) int { return run(ctx, args, os.Stdout, os.Stderr) })
}

// run runs the command with these arguments and streams, and returns its exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseArgs(args)
	if err != nil {
		return command.Refuse("bench", err, o.usage, stdout, stderr)
	}
	here := report.Here(ctx, commandLine(args))
	if o.publishes {
		err = o.publish(ctx, here, stderr)
	} else {
		err = newLab(o, here).run(ctx, stdout, stderr)
	}
	switch {
	case errors.Is(err, context.Canceled) && o.publishes:
		fmt.Fprintln(stderr, "bench: interrupted; no document is written")
		return command.Interrupted
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "bench: interrupted; what was measured is written")
		return command.Interrupted
	case err != nil:
		command.Say(stderr, "bench", err)
		return command.Failed
	}
	return command.OK
}

// commandLine returns the command line, quoted so that a shell reads the same arguments.
func commandLine(args []string) string {
	line := "go run ./bench"
	for _, a := range args {
		if strings.ContainsAny(a, " \t'\"$*?[]()<>|&;\\`") || a == "" {
			a = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
		}
		line += " " + a
	}
	return line
}
