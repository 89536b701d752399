// Command systems finds what does not compile on other systems.
//
//	go run ./internal/release/systems GOOS/GOARCH...
//
// It checks the types of each package and test of the workspace from their source, also of those that they import.
// It compiles nothing, which would take many times as long. Its exit status is 0 if all types are right on each
// system, 1 if not, and 2 if the command line is wrong.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"

	"github.com/seed-30da4c49/sash/internal/command"
)

const name = "systems"

func main() {
	command.Main(func(ctx context.Context, args []string) int {
		return run(ctx, ".", args, os.Stdout, os.Stderr)
	})
}

// run runs the command in the workspace or module that contains dir, and returns the exit status.
func run(ctx context.Context, dir string, systems []string, stdout, stderr io.Writer) int {
	if len(systems) == 0 {
		command.Say(stderr, name, errors.New("want systems, such as windows/amd64"))
		return command.Usage
	}
	status := command.OK
	for _, system := range systems {
		checked, faults, err := check(ctx, dir, system)
		if err != nil {
			command.Say(stderr, name, fmt.Errorf("%s: %w", system, err))
			return command.Failed
		}
		for _, fault := range faults {
			command.Say(stderr, name, fmt.Errorf("%s: %s", system, fault))
			status = command.Failed
		}
		fmt.Fprintf(stdout, "%s: %d packages, %d faults\n", system, checked, len(faults))
	}
	return status
}

// check checks the types of all packages on a system. It returns how many there are, and what is wrong.
func check(ctx context.Context, dir, system string) (checked int, faults []string, err error) {
	goos, goarch, ok := strings.Cut(system, "/")
	if !ok {
		return 0, nil, errors.New("a system is GOOS/GOARCH")
	}
	roots, err := packages.Load(&packages.Config{
		// By NeedDeps the types of imported packages come from their source, too, without the bodies of functions.
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedTypesInfo | packages.NeedTypesSizes | packages.NeedSyntax,
		Context: ctx,
		Dir:     dir,
		Env:     append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0"),
		Tests:   true,
	}, "work")
	for p := range packages.Postorder(roots) {
		checked++
		for _, e := range p.Errors {
			faults = append(faults, e.Error())
		}
	}
	slices.Sort(faults)
	return checked, slices.Compact(faults), err // a package and its variant for tests have the same faults
}
