package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/cpuid/v2"

	"github.com/seed-30da4c49/sash/bench/internal/callgrind"
)

// tries is how often each row is counted, with a table of its own each time. Its count is the least,
// which leaves out what happens in some of the tries, such as the heap growing by an arena.
const tries = 7

// countable returns an error if instructions cannot be counted here.
func countable() error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("instructions are counted on linux/amd64 only, and this is %s/%s",
			runtime.GOOS, runtime.GOARCH)
	}
	if !cpuid.CPU.Has(cpuid.AVX2) {
		return errors.New("this processor has no AVX2, so the runtime of Go executes other code than for the file")
	}
	if _, err := exec.LookPath("valgrind"); err != nil {
		return fmt.Errorf("%w: install the package valgrind", err)
	}
	return nil
}

// countAll counts the instructions of a call in each row. One process for each core, which is this
// program under callgrind, counts a part of the rows.
func countAll(ctx context.Context, chosen []row) (counts, error) {
	if err := countable(); err != nil {
		return counts{}, err
	}
	processes := min(runtime.NumCPU(), len(chosen))
	samples, faults := make([]map[string][]float64, processes), make([]error, processes)
	var all sync.WaitGroup
	for p := range processes {
		var names []string
		for i := p; i < len(chosen); i += processes {
			names = append(names, chosen[i].name)
		}
		all.Go(func() { samples[p], faults[p] = countIn(ctx, names) })
	}
	all.Wait()
	if err := errors.Join(faults...); err != nil {
		return counts{}, err
	}
	c := counts{version: here()}
	for i, r := range chosen {
		of := samples[i%processes][r.name]
		if len(of) != tries {
			return counts{}, fmt.Errorf("%s: callgrind has written %d counts, and not %d", r.name, len(of), tries)
		}
		c.rows = append(c.rows, count{r.name, slices.Min(of)})
	}
	return c, nil
}

// countIn counts the rows of these names in a process under callgrind. It returns the instructions of
// a call in each try.
func countIn(ctx context.Context, names []string) (map[string][]float64, error) {
	dir, err := os.MkdirTemp("", "instructions")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Nothing runs but the calls: no collection of garbage, no signals that preempt a goroutine, and no
	// thread that takes over its processor. And the runtime does without RDTSCP: callgrind tells it that
	// there is one, but executes it only on a processor that has it.
	cmd := exec.CommandContext(ctx, "valgrind", append([]string{
		"--quiet", "--tool=callgrind", "--collect-atstart=no", "--vgdb=no", // which would leave pipes when it is interrupted
		"--callgrind-out-file=" + filepath.Join(dir, "out"), self,
	}, names...)...)
	cmd.Env = append(os.Environ(), "GOGC=off", "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1,cpu.rdtscp=off")
	if output, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", cmd.Args[0], err, bytes.TrimSpace(output))
	}
	return readDumps(dir)
}

// serveCounts counts the rows of these names. It is what this program does under callgrind.
func serveCounts(names []string) error {
	all := rows()
	for _, name := range names {
		i := slices.IndexFunc(all, func(r row) bool { return r.name == name })
		if i < 0 {
			return fmt.Errorf("there is no row %q", name)
		}
		for range tries {
			run := all[i].prepare()
			var admitted int
			callgrind.Count(name, func() { admitted = run() })
			if err := all[i].check(admitted); err != nil {
				return err
			}
		}
	}
	return nil
}

// readDumps reads the files that callgrind has written to dir. It returns the instructions of a call
// in each try of a row.
func readDumps(dir string) (map[string][]float64, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	samples := make(map[string][]float64)
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		if name, total, found := parseDump(text); found {
			samples[name] = append(samples[name], total/callsARow)
		}
	}
	return samples, nil
}

// parseDump returns the name of the row of a file of callgrind, and its instructions. The file that
// callgrind writes at the end has no row.
func parseDump(text []byte) (name string, instructions float64, found bool) {
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		if trigger, ok := strings.CutPrefix(lines.Text(), "desc: Trigger: Client Request: "); ok {
			name = trigger
		}
		if total, ok := strings.CutPrefix(lines.Text(), "summary: "); ok {
			n, err := strconv.ParseFloat(total, 64)
			return name, n, err == nil && name != ""
		}
	}
	return "", 0, false
}
