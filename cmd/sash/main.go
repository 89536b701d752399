// Command sash helps an operator choose limits before they are switched on. It reads access
// logs and files of policies, and needs no clone of the repository:
//
//	go install github.com/seed-30da4c49/sash/cmd/sash@latest
//	sash suggest access.log
//	sash replay -limit 10/s -limit "60/m log" access.log
//	sash check limits.yaml
//	sash replay -policy limits.yaml access.log
//
// The subcommands are
//
//	check    what the policies of a file do, and what is wrong with them
//	replay   what limits or policies would have done to recorded traffic
//	suggest  which limit to set, by recorded traffic
//
// sash SUBCOMMAND -h explains each. sash version tells which release this is, and by which clock
// limiters decide on this machine and in this environment, unless they are given another. The exit
// status is the subcommand's, or 2 if there is none of that name.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/check"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/replay"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/suggest"
	"github.com/seed-30da4c49/sash/internal/command"
	"github.com/seed-30da4c49/sash/internal/tsc"
)

// A subcommand is what the first argument selects. Its run takes the arguments after that,
// and returns the exit status.
type subcommand struct {
	name, about string
	run         func(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int
}

var subcommands = []subcommand{
	{"check", "what the policies of a file do, and what is wrong with them", check.Run},
	{"replay", "what limits or policies would have done to recorded traffic", replay.Run},
	{"suggest", "which limit to set, by recorded traffic", suggest.Run},
}

func main() {
	if os.Getenv("GOGC") == "" {
		// Each line of a log is garbage at once. With half as many collections, a long log takes a tenth less of the
		// processor, and half as much memory again.
		debug.SetGCPercent(200)
	}
	command.Main(func(ctx context.Context, args []string) int {
		return run(ctx, args, os.Stdin, os.Stdout, os.Stderr)
	})
}

// run runs the subcommand that args begin with, and returns its exit status.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		return refuse(errors.New("no subcommand"), stderr)
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		if len(args) > 1 {
			return run(ctx, []string{args[1], "-h"}, stdin, stdout, stderr)
		}
		usage(stdout)
		return command.OK
	case "version", "-v", "-version", "--version":
		if len(args) > 1 && args[1] == "-h" {
			usage(stdout)
			return command.OK
		} else if len(args) > 1 {
			return refuse(fmt.Errorf("%s expects no arguments, got %q", args[0], args[1:]), stderr)
		}
		fmt.Fprintf(stdout, "%s\nclock: %s\n", version(), tsc.Description())
		return command.OK
	}
	for _, s := range subcommands {
		if s.name == args[0] {
			return s.run(ctx, args[1:], stdin, stdout, stderr)
		}
	}
	if strings.HasPrefix(args[0], "-") {
		return refuse(fmt.Errorf("%s stands before the subcommand: flags come after it", args[0]), stderr)
	}
	return refuse(fmt.Errorf("no subcommand %q", args[0]), stderr)
}

// refuse reports an error of a command line that selects no subcommand, with those that there
// are, and returns the exit status.
func refuse(err error, stderr io.Writer) int {
	command.Say(stderr, "sash", err)
	fmt.Fprintln(stderr)
	usage(stderr)
	return command.Usage
}

// version returns the version that was installed, as the build records it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "sash (devel)"
	}
	return "sash " + info.Main.Version
}

func usage(w io.Writer) {
	fmt.Fprint(w, "Usage: sash SUBCOMMAND [flags] [FILE...]\n\n")
	for _, s := range subcommands {
		fmt.Fprintf(w, "  %-8s %s\n", s.name, s.about)
	}
	fmt.Fprintf(w, "  %-8s %s\n", "version", "which release of sash this is, and by which clock limiters decide here")
	fmt.Fprint(w, "\nsash SUBCOMMAND -h explains a subcommand and its flags.\n")
}
