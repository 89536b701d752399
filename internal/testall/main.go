// Command testall runs the tests of every module of the workspace, with the race detector:
//
//	go run ./internal/testall
//
// It prints what fails and, at the end, how many packages of how many modules it ran and which
// tests were skipped and why, such as for want of a Redis. Its arguments are passed to go test.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash/internal/command"
)

func main() {
	command.Main(func(ctx context.Context, args []string) int {
		err := run(ctx, args, os.Stdout)
		switch {
		case ctx.Err() != nil:
			command.Say(os.Stderr, "testall", errors.New("interrupted"))
			return command.Interrupted
		case err != nil:
			command.Say(os.Stderr, "testall", err)
			return command.Failed
		}
		return command.OK
	})
}

// longest is the package whose tests take longest. They mostly wait for stores, so they begin first, and others
// run beside them.
const longest = "github.com/seed-30da4c49/sash/sashredis/internal/clienttest"

const usage = `Usage: go run ./internal/testall [flags of go test]

Runs the tests of every module with the race detector. Such flags are -short, -count=1 and -run PATTERN.
`

// run runs the tests, and returns an error unless all of them pass.
func run(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) > 0 && slices.Contains([]string{"-h", "-help", "--help"}, args[0]) {
		_, err := io.WriteString(stdout, usage)
		return err
	}
	modules, err := modulesOf(ctx)
	if err != nil {
		return err
	}
	args = slices.Concat([]string{"test", "-json", "-race", "-timeout", "30m"}, args, []string{longest, "work"})
	tests := exec.CommandContext(ctx, "go", args...)
	tests.Cancel = func() error { return tests.Process.Signal(os.Interrupt) }
	tests.Stderr = os.Stderr
	events, err := tests.StdoutPipe()
	if err != nil {
		return err
	}
	if err := tests.Start(); err != nil {
		return err
	}
	r := report{stdout: stdout, modules: modules, output: make(map[string][]string), skipped: make(map[string][]string)}
	if err := r.read(events); err != nil {
		return err
	}
	err = tests.Wait()
	r.summarize()
	return err
}

// modulesOf returns the module of each package of the workspace.
func modulesOf(ctx context.Context) (map[string]string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.ImportPath}} {{.Module.Path}}", "work").Output()
	if err != nil {
		return nil, fmt.Errorf("go list work: %w", err)
	}
	modules := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		pkg, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		modules[pkg] = module
	}
	return modules, nil
}

// A report is made of the events of go test -json.
type report struct {
	stdout  io.Writer
	modules map[string]string   // by package
	output  map[string][]string // of tests that run, by package and test
	skipped map[string][]string // names of tests, by the reason
	ran     []string            // packages that have tests
}

// An event is one line of go test -json.
type event struct{ Action, Package, Test, Output string }

func (r *report) read(events io.Reader) error {
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(r.stdout, lines.Text()) // of the go command itself
			continue
		}
		r.add(e)
	}
	return lines.Err()
}

// add keeps the output of a test until it ends, and prints it if the test has failed.
func (r *report) add(e event) {
	test := e.Package + " " + e.Test
	switch e.Action {
	case "output":
		r.output[test] = append(r.output[test], e.Output)
		return
	case "build-output":
		fmt.Fprint(r.stdout, e.Output)
		return
	case "fail":
		fmt.Fprint(r.stdout, strings.Join(r.output[test], ""))
	case "skip":
		if e.Test != "" {
			reason := reasonOf(r.output[test])
			r.skipped[reason] = append(r.skipped[reason], test)
		}
	case "pass":
		if e.Test == "" {
			fmt.Fprint(r.stdout, last(r.output[test]))
		}
	default:
		return
	}
	if e.Test == "" && e.Action != "skip" {
		r.ran = append(r.ran, e.Package)
	}
	delete(r.output, test)
}

// last returns the last line that go test prints of a package: ok, its name and its time.
func last(output []string) string {
	if len(output) == 0 {
		return ""
	}
	return output[len(output)-1]
}

// reasonOf returns what a test said when it was skipped.
func reasonOf(output []string) string {
	for _, line := range output {
		if _, said, found := strings.Cut(line, ".go:"); found {
			_, reason, _ := strings.Cut(said, ": ")
			return strings.TrimSpace(reason)
		}
	}
	return "for no stated reason"
}

// summarize prints what ran and what was skipped.
func (r *report) summarize() {
	modules := make(map[string]bool)
	for _, pkg := range r.ran {
		modules[r.modules[pkg]] = true
	}
	fmt.Fprintf(r.stdout, "\n%d packages of %d modules\n", len(r.ran), len(modules))
	for _, reason := range slices.Sorted(maps.Keys(r.skipped)) {
		fmt.Fprintf(r.stdout, "skipped %d tests: %s\n", len(r.skipped[reason]), reason)
		for _, test := range r.skipped[reason] {
			fmt.Fprintln(r.stdout, "\t"+test)
		}
	}
}
