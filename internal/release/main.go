// Command release prepares a release of all modules of this repository. They have one version.
//
//	go run ./internal/release -version v0.1.0
//
// It checks that the tree is clean, that the change log has a section for the version, and that the
// modules agree with each other. Then it writes the version into each requirement of a module of
// this repository, and prints the tags in the order in which they must be pushed: a module after
// those it requires. It commits, tags and pushes nothing. If anything is wrong, it says what, and
// changes nothing.
//
// Modules are published unless a comment above the module line of their go.mod begins with
// "Not published".
//
//	go run ./internal/release -tidy
//
// does in every module what go mod tidy does, which itself looks for versions that are not
// released yet.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/seed-30da4c49/sash/internal/command"
)

const name = "release"

func main() {
	command.Main(func(ctx context.Context, args []string) int {
		return run(ctx, ".", args, os.Stdout, os.Stderr)
	})
}

// run runs the command in the repository that contains dir, and returns the exit status.
func run(ctx context.Context, dir string, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	version := flags.String("version", "", "the `version` to release, such as v0.1.0")
	tidy := flags.Bool("tidy", false, "tidy every go.mod and go.sum, and release nothing")
	err := flags.Parse(args)
	switch {
	case err != nil:
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case *tidy == (*version != ""):
		err = errors.New("either -version or -tidy is needed")
	}
	if err != nil {
		return command.Refuse(name, err, func(w io.Writer) {
			fmt.Fprintf(w, "usage: go run ./internal/release -version VERSION\n       go run ./internal/release -tidy\n\n")
			flags.SetOutput(w)
			flags.PrintDefaults()
		}, stdout, stderr)
	}
	if err := do(ctx, dir, *version, stdout); err != nil {
		command.Say(stderr, name, err)
		return command.Failed
	}
	return command.OK
}

// do releases version, or tidies the modules if version is empty.
func do(ctx context.Context, dir, version string, stdout io.Writer) error {
	r, err := open(ctx, dir)
	if err != nil {
		return err
	}
	if version == "" {
		return r.tidy(ctx)
	}
	if err := r.check(ctx, version); err != nil {
		return err
	}
	written, err := r.write(version)
	if err != nil {
		return err
	}
	for _, name := range written {
		fmt.Fprintln(stdout, "wrote", name)
	}
	fmt.Fprintln(stdout, "Commit what was written, if anything. Tag that commit, and push the tags in this order:")
	for _, m := range r.inOrder() {
		fmt.Fprintf(stdout, "\tgit tag %[1]s && git push origin %[1]s\n", m.tag(version))
	}
	return nil
}
