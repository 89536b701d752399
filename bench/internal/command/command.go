// Package command is what the commands of this module have in common.
package command

import (
	"context"
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

// Main runs a command with its arguments, and exits with the status that it returns.
// Its context ends with an interrupt; a second one ends the process at once.
func Main(run func(ctx context.Context, args []string) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:]))
}

// Say writes every line of an error of the command of that name.
func Say(stderr io.Writer, name string, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "%s: %s\n", name, strings.TrimSuffix(line, "\n"))
	}
}
