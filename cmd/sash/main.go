// Command sash helps an operator choose a limit before it is switched on. It reads access
// logs, and needs no clone of the repository:
//
//	go install github.com/seed-30da4c49/sash/cmd/sash@latest
//	sash suggest access.log
//	sash replay -limit 10/s -limit "60/m log" access.log
//
// The subcommands are
//
//	replay   what a limit would have done to recorded traffic
//	suggest  which limit to set, by recorded traffic
//
// sash SUBCOMMAND -h explains each. The exit status is that of the subcommand, or 2 if there
// is none of that name.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/replay"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/suggest"
	"github.com/seed-30da4c49/sash/internal/command"
)

// A subcommand is what the first argument selects. Its run takes the arguments after that,
// and returns the exit status.
type subcommand struct {
	name, about string
	run         func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int
}

var subcommands = []subcommand{
	{"replay", "what a limit would have done to recorded traffic", replay.Run},
	{"suggest", "which limit to set, by recorded traffic", suggest.Run},
}

func main() {
	command.Main(func(ctx context.Context, args []string) int {
		return run(ctx, args, os.Stdin, os.Stdout, os.Stderr)
	})
}

// run runs the subcommand that args begin with, and returns its exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		return command.Refuse("sash", errors.New("no subcommand"), usage, stdout, stderr)
	}
	for _, s := range subcommands {
		if s.name == args[0] {
			return s.run(ctx, args[1:], stdin, stdout, stderr)
		}
	}
	err := fmt.Errorf("no subcommand %q", args[0])
	switch args[0] {
	case "help", "-h", "-help", "--help":
		err = flag.ErrHelp
	}
	return command.Refuse("sash", err, usage, stdout, stderr)
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Usage: sash SUBCOMMAND [flags] [FILE...]\n\n")
	for _, s := range subcommands {
		fmt.Fprintf(w, "  %-8s %s\n", s.name, s.about)
	}
	fmt.Fprint(w, "\nsash SUBCOMMAND -h explains a subcommand and its flags.\n")
}
