package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

const packagePath = "github.com/seed-30da4c49/sash"

// packageDir returns the directory of the root package.
func packageDir(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", packagePath).Output()
	if err != nil {
		return "", fmt.Errorf("go list %s: %w: %s", packagePath, err, stderrOf(err))
	}
	return string(bytes.TrimSpace(out)), nil
}

func stderrOf(err error) []byte {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return exit.Stderr
	}
	return nil
}

// tests are the tests of one package.
type tests struct {
	root string // the directory of the root package
	dir  string // the directory of the package, relative to root
	temp string // the directory of all temporary files
	race bool
	all  string                   // the pattern of all tests, as of go test -run
	took map[string]time.Duration // how long each test takes on the original source; nil before that has run
}

// packageDir returns the directory of the package.
func (t *tests) packageDir() string { return filepath.Join(t.root, filepath.FromSlash(t.dir)) }

// build makes the test binary of m. A nil m stands for the original source.
func (t *tests) build(ctx context.Context, m *mutant) (binary string, err error) {
	place, err := os.MkdirTemp(t.temp, "")
	if err != nil {
		return "", err
	}
	binary = filepath.Join(place, "sash.test.exe")
	args := []string{"test", "-c", "-vet=off", "-gcflags=-dwarf=false", "-ldflags=-w", "-o", binary}
	if t.race {
		args = append(args, "-race")
	}
	if m != nil {
		overlay, err := t.overlay(place, *m)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	build := exec.CommandContext(ctx, "go", append(args, ".")...)
	build.Dir = t.packageDir()
	build.Env = append(build.Environ(), "GOTMPDIR="+place, "GOGC=400")        // most of the time is the compiler's
	build.Cancel = func() error { return build.Process.Signal(os.Interrupt) } // so that go ends its compilers
	build.WaitDelay = 5 * time.Second
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not compile: %w\n%s", err, out)
	}
	return binary, nil
}

// overlay writes the mutated file of m to place, and an overlay by which the go command reads
// it. It returns the name of the overlay.
func (t *tests) overlay(place string, m mutant) (string, error) {
	text, err := m.text(t.root)
	if err != nil {
		return "", err
	}
	source := filepath.Join(t.root, filepath.FromSlash(m.file))
	mutated, overlay := filepath.Join(place, filepath.Base(source)), filepath.Join(place, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{
		"Replace": {source: mutated},
	})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(
		os.WriteFile(mutated, []byte(text), 0o600),
		os.WriteFile(overlay, replace, 0o600),
	)
}

// errNoTest reports that a pattern matches no test of a package.
var errNoTest = errors.New("no test matches")

// A failure is the result of a test binary that failed.
type failure struct {
	test string // the first test that failed
	hung bool
	late bool // the tests that should notice the mutant had passed before
}

// run runs the tests of binary that pattern matches, without those in skipped, until one
// fails, and returns what they print. failed is nil if none fails. If a test fails only because it saw no
// contention, run runs the tests again.
func (t *tests) run(ctx context.Context, binary, pattern string, skipped ...string) (failed *failure, out []byte, err error) {
	for range 5 {
		failed, out, err = t.once(ctx, binary, pattern, skipped)
		if failed == nil || !bytes.Contains(out, []byte("this test has shown ")) {
			return failed, out, err
		}
	}
	return nil, out, fmt.Errorf("the machine is too busy for %s:\n%s", failed.test, out)
}

// once runs the tests like run, a single time.
func (t *tests) once(ctx context.Context, binary, pattern string, skipped []string) (*failure, []byte, error) {
	args := []string{"-test.run=" + pattern, "-test.short", "-test.failfast",
		"-test.v", "-test.paniconexit0", "-test.timeout=" + t.timeout(pattern).String()}
	if len(skipped) > 0 {
		args = append(args, "-test.skip=^("+strings.Join(skipped, "|")+")$")
	}
	test := exec.CommandContext(ctx, binary, args...)
	test.Dir = t.packageDir()
	test.Env = append(test.Environ(),
		"SASH_ALL_STEPS=1",    // of random trials, under -short too
		"SASH_REDIS=required", // tests that are skipped notice nothing
	)
	out, err := test.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		return nil, out, ctx.Err()
	case err == nil && bytes.Contains(out, []byte("testing: warning: no tests to run")):
		return nil, out, fmt.Errorf("%w %s", errNoTest, pattern)
	case err == nil:
		return nil, out, nil
	case !errors.As(err, &exit) || !exit.Exited():
		return nil, out, fmt.Errorf("its tests did not end by themselves: %w", err)
	}
	return &failure{test: failed(out), hung: bytes.Contains(out, []byte("panic: test timed out after "))}, out, nil
}

// timeout returns the time after which the tests that pattern matches are taken to hang.
func (t *tests) timeout(pattern string) time.Duration {
	if t.took == nil {
		return 10 * time.Minute
	}
	matches := regexp.MustCompile(pattern)
	var sum time.Duration
	for test, took := range t.took {
		if matches.MatchString(test) {
			sum += took
		}
	}
	return max(5*sum, minTimeout)
}

var passedLine = regexp.MustCompile(`(?m)^--- PASS: (\S+) \((\S+)\)`)

// times returns how long each test took, given what the tests print.
func times(out []byte) map[string]time.Duration {
	took := map[string]time.Duration{}
	for _, m := range passedLine.FindAllSubmatch(out, -1) {
		took[string(m[1])], _ = time.ParseDuration(string(m[2]))
	}
	return took
}

var (
	failedLine = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	beganLine  = regexp.MustCompile(`(?m)^=== RUN +([^\s/]+)`)
)

// failed returns the name of the first test that failed according to out. If the process
// crashed before a test failed, it returns the name of the test that began last.
func failed(out []byte) string {
	if m := failedLine.FindSubmatch(out); m != nil {
		return string(m[1])
	}
	if all := beganLine.FindAllSubmatch(out, -1); len(all) > 0 {
		return string(all[len(all)-1][1])
	}
	return "no test"
}
