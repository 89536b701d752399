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
)

// A hunt tries mutants and reports on them.
type hunt struct {
	tests    *tests
	jobs     int
	report   io.Writer
	progress progress
}

// A verdict is what became of a mutant: of three, at most one is set, and if none
// is, it is alive.
type verdict struct {
	killed *failure
	err    error // that kept it from being tried
	took   time.Duration
}

// leastTimeout is how long tests may take before they hang, at least: even the few
// of a mutant on a busy machine.
const leastTimeout = time.Minute

// run tries the mutants, and returns an error if the tests fail without any, or not
// for each of them. It leaves no file and no process behind.
func (h *hunt) run(ctx context.Context, mutants []mutant) (err error) {
	began := time.Now()
	if h.tests.temp, err = os.MkdirTemp("", "sash-mutants-"); err != nil {
		return err
	}
	defer os.RemoveAll(h.tests.temp)
	h.progress.show("the tests without a mutant")
	if err := h.unmutated(ctx); err != nil {
		return err
	}
	fmt.Fprintln(h.report, "| mutant | fault | killed by | seconds |\n|---|---|---|---:|")
	var alive, untried []string
	for i, v := range h.verdicts(ctx, mutants) {
		h.progress.show("%d of %d mutants, %d alive", i, len(mutants), len(alive))
		v := <-v
		h.progress.clear()
		switch {
		case ctx.Err() != nil:
			continue // the others end at once, and what they have made has to be removed
		case v.err != nil:
			untried = append(untried, fmt.Sprintf("%s: %v", mutants[i].name, v.err))
		case v.killed == nil:
			alive = append(alive, mutants[i].name)
		}
		fmt.Fprintf(h.report, "| %s | %s | %s | %.1f |\n", mutants[i].name, mutants[i].fault, v.killer(), v.took.Seconds())
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fmt.Fprintf(h.report, "\n%d mutants, %d alive, %d not tried, in %v\n",
		len(mutants), len(alive), len(untried), time.Since(began).Round(time.Second))
	if len(untried) > 0 {
		return errors.New("not tried:\n" + strings.Join(untried, "\n"))
	}
	if len(alive) > 0 {
		return errors.New("alive: " + strings.Join(alive, ", "))
	}
	return nil
}

func (v verdict) killer() string {
	switch {
	case v.err != nil:
		return "**not tried**"
	case v.killed == nil:
		return "**alive**"
	case v.killed.hung:
		return v.killed.test + ", which hung"
	}
	return v.killed.test
}

// unmutated runs the tests on the source as it is, and sets what they may take.
func (h *hunt) unmutated(ctx context.Context) error {
	binary, err := h.tests.build(ctx, nil)
	if err != nil {
		return fmt.Errorf("without a mutant: %w", err)
	}
	defer os.RemoveAll(filepath.Dir(binary))
	h.tests.timeout = 10 * time.Minute
	began := time.Now()
	failed, err := h.tests.run(ctx, binary, h.tests.all)
	if err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("without a mutant %s fails:\n%s", failed.test, failed.output)
	}
	h.tests.timeout = max(5*time.Since(began), leastTimeout)
	return nil
}

// verdicts tries the mutants, jobs of them at once, and returns where the verdict on
// each will be.
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

// try tries m on the tests that should notice it, and else on all. A kill by one of
// the others, which is none to count on, has to come twice.
func (h *hunt) try(ctx context.Context, m mutant) (v verdict) {
	began := time.Now()
	defer func() { v.took = time.Since(began) }()
	binary, err := h.tests.build(ctx, &m)
	if err != nil {
		return verdict{err: err}
	}
	defer os.RemoveAll(filepath.Dir(binary))
	v.killed, v.err = h.tests.run(ctx, binary, m.tests)
	for once := []string(nil); v.killed == nil && v.err == nil; {
		first, err := h.tests.run(ctx, binary, h.tests.all, once...)
		if first == nil {
			return verdict{err: err}
		}
		v.killed, v.err = h.tests.run(ctx, binary, "^"+first.test+"$")
		once = append(once, first.test)
	}
	return v
}
