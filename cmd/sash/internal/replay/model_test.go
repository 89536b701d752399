package replay_test

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/suggest"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
	"github.com/seed-30da4c49/sash/internal/command"
	"github.com/seed-30da4c49/sash/internal/race"
)

const batchOfPrograms = 1000

// TestModel_PrintedPoliciesDecideAsReplayed runs random programs. Each is a recording by random
// clients in one of the formats, and a command line of suggest with random flags. It compares
//   - the figures of the report with a reference that reads the requests and not their log;
//   - what replay decides on each event, by the command that the report prints, with the reference;
//   - what the printed policy decides on each request, compiled and run by httplimit on a clock that
//     stands at the times of the events, with what replay has decided.
//
// The model does not reach clients that are logged by the names of their hosts, or that come through
// a Unix socket: a server does not know these when it decides. Nor does it reach lines that are no
// requests to net/http, paths that differ only in which characters are escaped, and an
// X-Forwarded-For that is sent and empty, which most logs do not tell from none. Its logs are shorter
// than what is read at once, so no line is too late for -reorder: see TestRead_SortsWithinBoundedRoom.
// All files of a program have one format.
func TestModel_PrintedPoliciesDecideAsReplayed(t *testing.T) {
	few := uint64(150)
	if race.Enabled || testing.Short() && os.Getenv("SASH_ALL_STEPS") == "" {
		few = 60
	}
	programs, first := number(t, "SASH_MODEL_PROGRAMS", few), uint64(1)
	if seed := number(t, "SASH_MODEL_SEED", 0); seed > 0 {
		programs, first = 1, seed
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // each reading of a log takes a large buffer for a short time
	var c crossings
	for begin := first; begin < first+programs && !t.Failed(); begin += batchOfPrograms {
		dir := t.TempDir()
		b := make(batch, min(batchOfPrograms, first+programs-begin))
		for i := range b {
			b[i] = newProgram(begin+uint64(i), dir)
		}
		require.NoError(t, b.run(dir))
		for _, p := range b {
			c.count(p)
			switch {
			case p.err != nil && !t.Failed():
				t.Errorf("%vThe same with fewer requests, unless it fails only once compiled:\n%v", p, p.shrunk(dir))
			case p.err != nil:
				t.Error(p)
			case programs == 1:
				t.Log(p)
			}
		}
		require.NoError(t, os.RemoveAll(dir))
	}
	t.Log(c.String())
}

// crossings count what programs have met.
type crossings struct {
	programs, policies, denying, requests, denied int
	pairs                                         map[[2]string]int
}

func (c *crossings) count(p *program) {
	if c.pairs == nil {
		c.pairs = map[[2]string]int{}
	}
	c.programs++
	c.requests += len(p.requests)
	if p.policy != "" {
		c.policies++
	}
	before := c.denied
	for _, d := range p.together {
		c.denied += int(d.Denied & 1)
	}
	if c.denied > before {
		c.denying++
	}
	all := append(slices.Clone(p.set.given), p.set.form.names[0])
	for i, a := range all {
		for _, b := range all[i+1:] {
			c.pairs[[2]string{a, b}]++
		}
	}
}

func (c *crossings) String() string {
	return fmt.Sprintf("%d programs, %d policies compiled and run, %d of them deny; %d requests, %d of them denied; %d pairs of flags, and of a flag and a format, have met", c.programs, c.policies, c.denying, c.requests, c.denied, len(c.pairs))
}

// A flag of suggest, or a format, that the tables of the model lack would be tested by no program.
func TestModel_KnowsEveryFlagAndFormat(t *testing.T) {
	var usage, stderr bytes.Buffer
	require.Equal(t, command.OK, suggest.Run(t.Context(), []string{"-h"}, nil, &usage, &stderr))
	var has, known []string
	for _, m := range regexp.MustCompile(`(?m)^  -(\w+)`).FindAllStringSubmatch(usage.String(), -1) {
		has = append(has, m[1])
	}
	for _, f := range flags {
		known = append(known, f.name)
	}
	require.NotEmpty(t, has)
	require.ElementsMatch(t, has, known)
	var read []string
	for _, f := range forms {
		read = append(read, f.names...)
	}
	require.Subset(t, read, traffic.FormatNames())
}

// A batch is programs whose policies are compiled together.
type batch []*program

// each calls do for all programs, a processor each.
func (b batch) each(do func(i int, p *program)) {
	var running sync.WaitGroup
	next := make(chan int)
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for i := range next {
				if b[i].err == nil {
					do(i, b[i])
				}
			}
		})
	}
	for i := range b {
		next <- i
	}
	close(next)
	running.Wait()
}

// run runs all programs. It returns an error if that is not possible; what the programs find is in
// each.
func (b batch) run(dir string) error {
	b.each(func(_ int, p *program) { p.suggest() })
	var lines []string
	from := make([]int, len(b)+1)
	for i, p := range b {
		lines = append(lines, p.commands...)
		from[i+1] = len(lines)
	}
	words, err := shellWords(lines)
	if err != nil {
		return err
	}
	b.each(func(i int, p *program) {
		p.replay(words[from[i]:from[i+1]])
		p.prepare()
	})
	return b.runPrinted(dir)
}

// runPrinted compiles the printed policies, and runs them.
func (b batch) runPrinted(dir string) error {
	printer := newPrinter()
	var ran []*program
	var programs []printedProgram
	for _, p := range b {
		if p.err == nil && p.policy != "" {
			p.printed.Policy = printer.add(p.policy)
			ran, programs = append(ran, p), append(programs, p.printed)
		}
	}
	binary, err := printer.build(dir)
	if err != nil {
		return err
	}
	results, err := runPrinted(binary, programs)
	if err != nil {
		return err
	}
	if len(results) != len(ran) {
		return fmt.Errorf("%d results of %d programs", len(results), len(ran))
	}
	for i, p := range ran {
		p.comparePrinted(results[i])
	}
	return nil
}

// number returns the value of an environment variable, or other.
func number(t *testing.T, name string, other uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return other
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, name)
	return n
}
