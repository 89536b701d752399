// Command bench measures sash beside every limiter that one might pick instead, on
// your machine, in one process and in turns, and says where sash loses:
//
//	go run ./bench                          # all experiments, about five minutes
//	go run ./bench -quick                   # all of them on a few keys, in seconds
//	go run ./bench -experiments speed -keys 1,1k -goroutines 1,2,4,8 -rounds 21
//	go run ./bench -experiments speed,memory -keys 10_000_000
//
// Experiments are:
//
//	speed     nanoseconds a decision, by how many keys there are, how they are asked
//	          for, what the answer is and how many goroutines ask; as throughput, and
//	          as latency, where each key follows from the last answer
//	floor     the same for the steps that a decision is made of: what is left to win
//	tail      how long the worst calls take while a table grows from nothing, and while
//	          idle keys are swept out, with arrivals that do not wait for answers
//	memory    bytes and objects for each key, what they cost the garbage collector, and
//	          how long calls take while it runs
//	accuracy  what approximate limits admit and deny beside the exact log, on recorded
//	          traffic and on made-up traffic at its worst
//
// Each writes a table in Markdown, all figures in JSON, and plots in SVG, with the
// machine, the Go version, the commit and the command, and shows the table. A machine
// that does anything else at the same time measures that.
//
// What would need more than 60 % of the memory that is free is left out, and the
// results say so. Limiters that ask a server are not here: they do another job.
//
// The exit status is 0; 1 if something failed, 2 if the command line was wrong; 130 if
// interrupted: then what was measured until then is written.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/seed-30da4c49/sash/bench/internal/command"
	"github.com/seed-30da4c49/sash/bench/internal/progress"
	"github.com/seed-30da4c49/sash/bench/internal/report"
)

func main() {
	command.Main(func(ctx context.Context, args []string) int { return run(ctx, args, os.Stdout, os.Stderr) })
}

// run is the command: its arguments and streams in, its exit status out.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parseArgs(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		o.usage(stdout)
		return command.OK
	case err != nil:
		command.Say(stderr, "bench", err)
		fmt.Fprintln(stderr, "bench: -h explains the flags")
		return command.Usage
	}
	here := report.Here(ctx, commandLine(args))
	err = newLab(o, here).run(ctx, stdout, stderr, progress.On(stderr))
	switch {
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "bench: interrupted; what was measured is written")
		return command.Interrupted
	case err != nil:
		command.Say(stderr, "bench", err)
		return command.Failed
	}
	return command.OK
}

// commandLine returns the command as one would type it again.
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
