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

// packageDir returns where the package under test lies.
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

// tests are those of the package in dir.
type tests struct {
	dir     string
	temp    string // where all is made
	race    bool
	all     string        // which there are, as of go test -run
	timeout time.Duration // after which they hang
}

// build makes the test binary of m, nil for the source as it is.
func (t *tests) build(ctx context.Context, m *mutant) (binary string, err error) {
	place, err := os.MkdirTemp(t.temp, "")
	if err != nil {
		return "", err
	}
	binary = filepath.Join(place, "sash.test.exe")
	args := []string{"test", "-c", "-vet=off", "-o", binary}
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
	build.Dir = t.dir
	build.Env = append(build.Environ(), "GOTMPDIR="+place)
	build.Cancel = func() error { return build.Process.Signal(os.Interrupt) } // so that it ends its compilers
	build.WaitDelay = 5 * time.Second
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not compile: %w\n%s", err, out)
	}
	return binary, nil
}

// overlay writes m to place, and returns the file by which the go command reads it.
func (t *tests) overlay(place string, m mutant) (string, error) {
	text, err := m.text(t.dir)
	if err != nil {
		return "", err
	}
	mutated, overlay := filepath.Join(place, m.file), filepath.Join(place, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(t.dir, m.file): mutated},
	})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(
		os.WriteFile(mutated, []byte(text), 0o600),
		os.WriteFile(overlay, replace, 0o600),
	)
}

// A failure is what a test binary that failed leaves.
type failure struct {
	test   string // the first that failed
	hung   bool
	output []byte
}

// run runs those tests of binary that pattern names, until one fails; nil if none
// does, but those named in skipped. That a test saw no contention is no failure of what
// it tests: then it runs again.
func (t *tests) run(ctx context.Context, binary, pattern string, skipped ...string) (failed *failure, err error) {
	for range 5 {
		failed, err = t.once(ctx, binary, pattern, skipped)
		if failed == nil || !bytes.Contains(failed.output, []byte("this test has shown ")) {
			return failed, err
		}
	}
	return nil, fmt.Errorf("the machine is too busy for %s:\n%s", failed.test, failed.output)
}

func (t *tests) once(ctx context.Context, binary, pattern string, skipped []string) (*failure, error) {
	args := []string{"-test.run=" + pattern, "-test.short", "-test.failfast",
		"-test.v", "-test.paniconexit0", "-test.timeout=" + t.timeout.String()}
	if len(skipped) > 0 {
		args = append(args, "-test.skip=^("+strings.Join(skipped, "|")+")$")
	}
	test := exec.CommandContext(ctx, binary, args...)
	test.Dir = t.dir
	out, err := test.CombinedOutput()
	exit := (*exec.ExitError)(nil)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil && bytes.Contains(out, []byte("testing: warning: no tests to run")):
		return nil, fmt.Errorf("no test matches %s", pattern)
	case err == nil:
		return nil, nil
	case !errors.As(err, &exit) || !exit.Exited():
		return nil, fmt.Errorf("its tests did not end by themselves: %w", err)
	}
	return &failure{
		test:   failed(out),
		hung:   bytes.Contains(out, []byte("panic: test timed out after ")),
		output: out,
	}, nil
}

var (
	failedLine = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	beganLine  = regexp.MustCompile(`(?m)^=== RUN +([^\s/]+)`)
)

// failed returns the test that out says has failed first; if the process crashed
// before it could, the one that had begun last.
func failed(out []byte) string {
	if m := failedLine.FindSubmatch(out); m != nil {
		return string(m[1])
	}
	if all := beganLine.FindAllSubmatch(out, -1); len(all) > 0 {
		return string(all[len(all)-1][1])
	}
	return "no test"
}
