package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash/internal/progress"
)

// A hunt tries mutants and reports on them.
type hunt struct {
	tests    tests // the settings that all packages share
	packages map[string]*tests
	jobs     int
	report   io.Writer
	progress *progress.Bar
}

// A verdict is the result of trying a mutant. At most one of killed and err is set. If
// neither is, the mutant is alive.
type verdict struct {
	killed *failure
	err    error // the reason why the mutant was not tried
	took   time.Duration
}

// minTimeout is the shortest time after which tests are taken to hang. It suffices for a
// few tests on a busy machine.
const minTimeout = time.Minute

// run tries the mutants. It returns an error if the tests fail without a mutant, or do not
// kill each mutant. It runs only the tests of packages that the mutants need, and leaves no
// file and no process behind.
func (h *hunt) run(ctx context.Context, mutants []mutant) (err error) {
	began := time.Now()
	if h.tests.temp, err = os.MkdirTemp("", "sash-mutants-"); err != nil {
		return err
	}
	defer os.RemoveAll(h.tests.temp)
	h.packages = map[string]*tests{}
	for _, m := range mutants {
		for _, dir := range m.packages() {
			if h.packages[dir] != nil {
				continue
			}
			t := h.tests
			t.dir = dir
			h.packages[dir] = &t
			h.progress.Describe(fmt.Sprintf("the tests of %s without a mutant", dir))
			if err := t.unmutated(ctx); err != nil {
				return err
			}
		}
	}
	fmt.Fprintln(h.report, "| mutant | fault | killed by | seconds |\n|---|---|---|---:|")
	var alive, untried []string
	late := 0
	for i, v := range h.verdicts(ctx, mutants) {
		h.progress.Describe(fmt.Sprintf("%d of %d mutants, %d alive", i, len(mutants), len(alive)))
		v := <-v
		h.progress.Clear()
		switch {
		case ctx.Err() != nil:
			continue // the other mutants end at once, and remove their files
		case v.err != nil:
			untried = append(untried, fmt.Sprintf("%s: %v", mutants[i].name, v.err))
		case v.killed == nil:
			alive = append(alive, mutants[i].name)
		case v.killed.late:
			late++
		}
		fmt.Fprintf(h.report, "| %s | %s | %s | %.1f |\n", mutants[i].name, mutants[i].fault, v.killer(), v.took.Seconds())
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Fprintf(h.report, "\n%d mutants, %d alive, %d not tried, %d killed late, in %v\n",
		len(mutants), len(alive), len(untried), late, time.Since(began).Round(time.Second))
	if len(untried) > 0 {
		return errors.New("not tried:\n" + strings.Join(untried, "\n"))
	}
	if len(alive) > 0 {
		return errors.New("alive: " + strings.Join(alive, ", "))
	}
	return nil
}

// killer returns the text of the report about the test that killed the mutant.
func (v verdict) killer() string {
	switch {
	case v.err != nil:
		return "**not tried**"
	case v.killed == nil:
		return "**alive**"
	}
	text := v.killed.test
	if v.killed.late {
		text += ", late"
	}
	if v.killed.hung {
		text += ", which hung"
	}
	return text
}

// unmutated runs the tests on the original source, and notes how long each takes.
func (t *tests) unmutated(ctx context.Context) error {
	binary, err := t.build(ctx, nil)
	if err != nil {
		return fmt.Errorf("without a mutant: %w", err)
	}
	defer os.RemoveAll(filepath.Dir(binary))
	failed, out, err := t.run(ctx, binary, t.all)
	if err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("without a mutant %s fails:\n%s", failed.test, out)
	}
	t.took = times(out)
	return nil
}

// verdicts tries the mutants, jobs of them at once. It returns a channel for each mutant, which
// receives its verdict.
func (h *hunt) verdicts(ctx context.Context, mutants []mutant) []chan verdict {
	places := make([]chan verdict, len(mutants))
	for i := range places {
		places[i] = make(chan verdict, 1)
	}
	next := make(chan int)
	for range h.jobs {
		go func() {
			for i := range next {
				places[i] <- h.try(ctx, mutants[i])
			}
		}()
	}
	go func() {
		for i := range mutants {
			next <- i
		}
		close(next)
	}()
	return places
}

// try tries m on the tests of its packages that should notice it, and, if they do not, on all tests of these.
func (h *hunt) try(ctx context.Context, m mutant) (v verdict) {
	began := time.Now()
	defer func() { v.took = time.Since(began) }()
	var binaries []string // of the packages
	defer func() {
		for _, binary := range binaries {
			os.RemoveAll(filepath.Dir(binary))
		}
	}()
	anyNamed := false
	for _, dir := range m.packages() {
		binary, err := h.packages[dir].build(ctx, &m)
		if err != nil {
			return verdict{err: err}
		}
		binaries = append(binaries, binary)
		killed, _, err := h.packages[dir].run(ctx, binary, m.tests)
		switch {
		case errors.Is(err, errNoTest): // those that should notice it are in another package
		case killed != nil || err != nil:
			return verdict{killed: killed, err: err}
		default:
			anyNamed = true
		}
	}
	if !anyNamed {
		return verdict{err: fmt.Errorf("%w %s", errNoTest, m.tests)}
	}
	for i, dir := range m.packages() {
		if killed, err := h.packages[dir].runAll(ctx, binaries[i]); killed != nil || err != nil {
			return verdict{killed: killed, err: err}
		}
	}
	return verdict{}
}

// runAll runs all tests of binary, whose mutant those that should notice it have not killed. Now a test may
// kill it by chance, so the test must fail twice.
func (t *tests) runAll(ctx context.Context, binary string) (killed *failure, err error) {
	for once := []string(nil); ; {
		first, _, err := t.run(ctx, binary, t.all, once...)
		if first == nil {
			return nil, err
		}
		killed, _, err = t.run(ctx, binary, "^"+first.test+"$")
		if err != nil {
			return nil, err
		}
		if killed != nil {
			killed.late = true
			return killed, nil
		}
		once = append(once, first.test)
	}
}
