// Command proofs runs the commands of the table of guarantees, one after the other, and writes into the
// table what they have tried and how long they took:
//
//	go run ./internal/proofs               # all rows, in some hours on two cores
//	go run ./internal/proofs -run Redis    # the rows whose promise or commands match a regular expression
//	go run ./internal/proofs -list         # the commands, and none is run
//
// A row keeps its cells if its commands fail, or if none of its tests passes, and the end of their output is
// printed. A row that is not run keeps its cells, too, and the line above the table says how many rows were
// run. If another commit is checked out while a row runs, this command ends.
//
// The exit status is 0; 1 if a command failed; 2 if the command line was wrong; 130 if interrupted.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash/internal/command"
)

const name = "proofs"

func main() {
	command.Main(func(ctx context.Context, args []string) int {
		return run(ctx, args, shell, os.Stdout, os.Stderr)
	})
}

// options are the settings of the command line.
type options struct {
	page    string
	pattern *regexp.Regexp
	list    bool
}

// run runs the command, with runLine to run a command line of the table.
func run(ctx context.Context, args []string, runLine func(ctx context.Context, line string) (string, error), stdout, stderr io.Writer) int {
	o := options{pattern: regexp.MustCompile("")}
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.page, "page", "docs/guarantees.md", "the `FILE` with the table; the default is found in the root of the repository")
	flags.BoolVar(&o.list, "list", false, "list the commands, and run none")
	flags.Func("run", "run only the rows that match this `REGEXP`", func(s string) (err error) {
		o.pattern, err = regexp.Compile(s)
		return err
	})
	err := flags.Parse(args)
	if n := flags.NArg(); err == nil && n > 0 {
		err = fmt.Errorf("%q is no flag, and only flags are expected", flags.Arg(0))
	}
	if err != nil {
		return command.Refuse(name, err, func(w io.Writer) { flags.SetOutput(w); flags.PrintDefaults() }, stdout, stderr)
	}
	err = o.prove(ctx, runLine, stdout)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		fmt.Fprintln(stderr, name+": interrupted")
		return command.Interrupted
	case err != nil:
		command.Say(stderr, name, err)
		return command.Failed
	}
	return command.OK
}

// prove runs the chosen rows. It writes the page after each, so that an interrupt loses one row.
func (o *options) prove(ctx context.Context, runLine func(context.Context, string) (string, error), stdout io.Writer) error {
	text, err := os.ReadFile(o.page)
	if err != nil {
		return fmt.Errorf("%w: run this in the root of the repository, or give -page", err)
	}
	p, err := parsePage(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", o.page, err)
	}
	var faults []error
	head := o.head(ctx, runLine)
	done, matched := 0, 0
	for _, r := range p.rows {
		if !o.pattern.MatchString(r.promise() + " " + strings.Join(r.commands(), " ")) {
			continue
		}
		matched++
		if o.list {
			fmt.Fprintln(stdout, strings.Join(r.commands(), "\n"))
			continue
		}
		output, took, err := runRow(ctx, r.commands(), runLine)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			faults = append(faults, err)
			continue
		}
		if now := o.head(ctx, runLine); now != head {
			return errors.Join(append(faults, fmt.Errorf("commit %s was checked out at the beginning, and %s is now", head, now))...)
		}
		done++
		r.set(sizeOf(output), took)
		fmt.Fprintf(stdout, "%8s  %s: %s\n", shown(took), r.promise(), sizeOf(output))
		p.stamp = stampOf(head, done, len(p.rows))
		faults = append(faults, os.WriteFile(o.page, []byte(p.text()), 0o666))
	}
	if matched == 0 {
		faults = append(faults, fmt.Errorf("no row matches %q", o.pattern))
	}
	return errors.Join(faults...)
}

// runRow runs command lines one after the other, and returns their output and how long they took.
func runRow(ctx context.Context, lines []string, runLine func(context.Context, string) (string, error)) (all string, took time.Duration, err error) {
	began := time.Now()
	for _, line := range lines {
		output, err := runLine(ctx, line)
		if err != nil {
			return "", 0, fmt.Errorf("%s: %w\n%s", line, err, lastLines(output, 30))
		}
		if strings.Contains(line, "go test ") && sizeOf(output) == "" {
			return "", 0, fmt.Errorf("%s: no test has passed\n%s", line, lastLines(output, 30))
		}
		all += output
	}
	return all, time.Since(began), nil
}

// shell runs a command line. Tests run anew, and name each test.
func shell(ctx context.Context, line string) (string, error) {
	c := exec.CommandContext(ctx, "sh", "-c", line)
	c.Env = append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -count=1 -v"))
	output, err := c.CombinedOutput()
	return string(output), err
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// head returns the commit that is checked out, and says so if the working tree has changes other than to the page.
func (o *options) head(ctx context.Context, runLine func(context.Context, string) (string, error)) string {
	commit, err := runLine(ctx, "git rev-parse --short HEAD")
	if err != nil {
		return "unknown"
	}
	if changes, err := runLine(ctx, "git status --porcelain -- ':/' ':(exclude)"+o.page+"'"); err != nil || changes != "" {
		return strings.TrimSpace(commit) + " with changes"
	}
	return strings.TrimSpace(commit)
}

// stampOf returns where the rows were run.
func stampOf(commit string, done, rows int) string {
	where := fmt.Sprintf("at commit %s, with %s on %d cores of %s", commit, runtime.Version(), runtime.NumCPU(), processor())
	if done < rows {
		return fmt.Sprintf("%d of %d rows were last run %s. The others were run before, or not yet.", done, rows, where)
	}
	return fmt.Sprintf("All %d rows were run %s.", rows, where)
}

// processor returns the name of the processor, or its architecture.
func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo") // where there is none, the architecture is known
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return runtime.GOARCH
}
