// Package command holds the parts that the commands of this repository share.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
)

// Exit statuses.
const (
	OK          = 0
	Failed      = 1
	Usage       = 2 // the command line was wrong
	Interrupted = 130
)

// Main runs a command with its arguments, and exits with the status that run returns. An
// interrupt ends the context of run; a second one ends the process at once.
func Main(run func(ctx context.Context, args []string) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:]))
}

// Refuse reports an error of a command line, and returns the exit status. For
// flag.ErrHelp it prints the usage to stdout.
func Refuse(name string, err error, usage func(io.Writer), stdout, stderr io.Writer) int {
	if errors.Is(err, flag.ErrHelp) {
		usage(stdout)
		return OK
	}
	Say(stderr, name, err)
	fmt.Fprintf(stderr, "%s: -h explains the flags\n", name)
	return Usage
}

// Say writes each line of err after the name of the command.
func Say(stderr io.Writer, name string, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "%s: %s\n", name, strings.TrimSuffix(line, "\n"))
	}
}
