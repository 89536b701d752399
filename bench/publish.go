package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash/bench/internal/report"
	"github.com/seed-30da4c49/sash/internal/figures"
)

// A measurement is commands, and the blocks of figures that their output gives. All commands run in the root
// of the repository.
type measurement struct {
	gives    []string // the names of the blocks
	commands []string // as the documents name them
	quick    []string // the same commands with -quick
	needs    []string // programs; one of them must be in PATH
	read     func(all []output) (map[string]string, error)
	draws    map[string]string // files that the first command writes, and where in the repository they go
}

// An output is what a command has printed, and the directory of the files that it has written.
type output struct{ stdout, dir string }

// environmentBlock is the block that says where, when and with what the figures were measured.
const environmentBlock = "environment"

// A publication fills the blocks of the documents in root.
type publication struct {
	root  string
	out   string // of the results, and with quick of the documents
	quick bool
	here  report.Environment
	all   []measurement
	drawn map[string]string // pictures, by where they go
}

// publish measures all figures, and writes them into the documents, all or none.
func (o *options) publish(ctx context.Context, here report.Environment, stderr io.Writer) error {
	p := &publication{root: ".", out: filepath.Join(o.out, "publish"), quick: o.quick, here: here, all: measurements()}
	return p.run(ctx, stderr)
}

func (p *publication) run(ctx context.Context, stderr io.Writer) error {
	p.drawn = map[string]string{}
	documents, err := p.documents(ctx)
	if err != nil {
		return err
	}
	commit, clean, err := p.head(ctx)
	if err != nil {
		return err
	}
	if !clean && !p.quick {
		return errors.New("-publish: the working tree has changes, so no commit has what is measured: commit or stash them")
	}
	if err := errors.Join(p.check(documents), report.CanWrite(p.out), p.isOutside(ctx, p.out)); err != nil {
		return fmt.Errorf("-publish: %w", err)
	}
	values, err := p.measure(ctx, stderr)
	if err != nil {
		return err
	}
	now, clean, err := p.head(ctx)
	if err != nil {
		return err
	}
	if !p.quick && (now != commit || !clean) {
		return errors.New("-publish: the working tree has changed while it was measured; no document is written")
	}
	if !p.quick {
		p.here.Commit = commit
	}
	values[environmentBlock] = p.environment()
	return p.write(documents, values, stderr)
}

// git returns what git prints in the root.
func (p *publication) git(ctx context.Context, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "git", args...)
	c.Dir = p.root
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// head returns the commit that is checked out, and whether the working tree is the same.
func (p *publication) head(ctx context.Context) (commit string, clean bool, err error) {
	commit, err = p.git(ctx, "rev-parse", "--short=7", "HEAD")
	if err != nil {
		return "", false, err
	}
	changes, err := p.git(ctx, "status", "--porcelain")
	return commit, changes == "", err
}

// isOutside returns a fault if files in dir would be changes of the working tree.
func (p *publication) isOutside(ctx context.Context, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	_, err = p.git(ctx, "check-ignore", "-q", filepath.Join(dir, "file"))
	if exit := new(exec.ExitError); errors.As(err, &exit) && exit.ExitCode() == 1 { // not ignored; 128: not in the tree
		return fmt.Errorf("the results would change the working tree: %s is in it, and not ignored", dir)
	}
	return nil
}

// documents returns the documents that have blocks, by name.
func (p *publication) documents(ctx context.Context) (map[string]string, error) {
	if _, err := os.Stat(filepath.Join(p.root, "go.work")); err != nil {
		return nil, errors.New("-publish: run it in the root of the repository")
	}
	names, err := p.git(ctx, "ls-files", "*.md")
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	for name := range strings.Lines(names) {
		name = strings.TrimSpace(name)
		if slices.Contains(figures.Exempt, name) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(p.root, name))
		if err != nil {
			return nil, err
		}
		blocks, err := figures.Parse(string(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if len(blocks) > 0 {
			found[name] = string(text)
		}
	}
	return found, nil
}

// check returns a fault for each block that nothing gives, for each that no document has, and for each program
// that is missing.
func (p *publication) check(documents map[string]string) error {
	given := map[string]string{environmentBlock: ""}
	var faults []error
	for _, m := range p.all {
		for _, name := range m.gives {
			given[name] = ""
		}
		if len(m.needs) > 0 && !slices.ContainsFunc(m.needs, func(program string) bool { _, err := exec.LookPath(program); return err == nil }) {
			faults = append(faults, fmt.Errorf("%s needs %s in PATH", m.commands[0], strings.Join(m.needs, " or ")))
		}
	}
	placed := map[string]bool{}
	for name, text := range documents {
		if _, err := figures.Fill(text, given); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
		blocks, _ := figures.Parse(text)
		for _, b := range blocks {
			placed[b.Name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !placed[name] {
			faults = append(faults, fmt.Errorf("no document has figures %s", name))
		}
	}
	return errors.Join(faults...)
}

// measure runs all commands, one after the other.
func (p *publication) measure(ctx context.Context, stderr io.Writer) (map[string]string, error) {
	values := map[string]string{}
	begin := time.Now()
	for i, m := range p.all {
		var outputs []output
		commands := m.commands
		if p.quick {
			commands = m.quick
		}
		for j, line := range commands {
			fmt.Fprintf(stderr, "bench: %v: %d of %d: %s\n", time.Since(begin).Round(time.Second), i+1, len(p.all), line)
			out, err := p.command(ctx, line, filepath.Join(p.out, fmt.Sprintf("%02d-%d", i+1, j+1)))
			if err != nil {
				return nil, err
			}
			outputs = append(outputs, out)
		}
		got, err := m.read(outputs)
		for file, to := range m.draws {
			picture, fault := os.ReadFile(filepath.Join(outputs[0].dir, file))
			p.drawn[to], err = string(picture), errors.Join(err, fault)
		}
		for _, name := range m.gives {
			switch text, ok := got[name]; {
			case err == nil && (!ok || text == ""):
				err = fmt.Errorf("it gives no figures %s", name)
			case err == nil && !p.quick && (text == report.None || strings.Contains(text, "NaN")):
				err = fmt.Errorf("figures %s lack a value: %s", name, text)
			case err == nil && strings.Contains(text, "\n"): // a table, and not a figure in a line
				values[name] = text + "\n\n" + spans(m.commands)
			default:
				values[name] = text
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(m.commands, "; "), err)
		}
	}
	fmt.Fprintf(stderr, "bench: measured in %v\n", time.Since(begin).Round(time.Second))
	return values, nil
}

// spans returns commands as spans of code, a line each.
func spans(commands []string) string { return "`" + strings.Join(commands, "`,\n`") + "`" }

// command runs a line. The programs of this module are told to write into dir.
func (p *publication) command(ctx context.Context, line, dir string) (output, error) {
	args := words(line)
	var env []string
	for strings.Contains(args[0], "=") {
		env, args = append(env, args[0]), args[1:]
	}
	if args[1] == "run" && strings.HasPrefix(args[2], "./bench") {
		args = append(args, "-out", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return output{}, err
	}
	c := exec.CommandContext(ctx, args[0], args[1:]...)
	c.Dir, c.Env = p.root, append(os.Environ(), env...)
	interruptible(c)
	c.WaitDelay = 20 * time.Second
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if ctx.Err() != nil {
		return output{}, ctx.Err()
	}
	if err == nil && strings.Contains(stdout.String(), "--- FAIL") { // go test may pass if a benchmark fails
		err = errors.New("a benchmark fails")
	}
	if err == nil && !p.quick && strings.Contains(stdout.String(), notMeasured) {
		err = errors.New("a measurement is left out")
	}
	if err != nil {
		return output{}, fmt.Errorf("%s: %w\n%s%s", line, err, last(stdout.String(), 20), last(stderr.String(), 20))
	}
	return output{stdout.String(), dir}, os.WriteFile(filepath.Join(dir, "stdout"), stdout.Bytes(), 0o644)
}

// words splits a line at spaces. Single quotes join.
func words(line string) (all []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

// last returns the last n lines of s.
func last(s string, n int) string {
	lines := slices.Collect(strings.Lines(s))
	return strings.Join(lines[max(0, len(lines)-n):], "")
}

func (p *publication) environment() string {
	e := p.here
	return fmt.Sprintf("All figures on this page are of one run of `go run ./bench -publish`:\n%s, %d cores, Go %s, %s, clock: %s; commit %s, %s.",
		e.CPU, e.Cores, e.Go, e.System, e.Clock, e.Commit, e.Time.Format(time.DateOnly))
}

// write fills the documents, and writes them and the pictures. If one cannot be filled, none is written.
func (p *publication) write(documents, values map[string]string, stderr io.Writer) error {
	dir := p.root
	if p.quick {
		dir = p.out
	}
	filled := maps.Clone(p.drawn)
	var faults []error
	for name, text := range documents {
		var err error
		if filled[name], err = figures.Fill(text, values); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return err
	}
	const unfinished = ".unfinished"
	names := slices.Sorted(maps.Keys(filled))
	defer func() {
		for _, name := range names {
			os.Remove(filepath.Join(dir, name) + unfinished) // where it has not become the document
		}
	}()
	for _, name := range names {
		to := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(to+unfinished, []byte(filled[name]), 0o644); err != nil {
			return err
		}
	}
	for _, name := range names { // a rename needs no room, so none fails where the writing has not
		to := filepath.Join(dir, name)
		if err := os.Rename(to+unfinished, to); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "bench: wrote %s\n", to)
	}
	return nil
}

// records returns the records that an experiment has written.
func records[T any](o output, experiment string) ([]T, error) {
	encoded, err := os.ReadFile(filepath.Join(o.dir, experiment+".json"))
	if err != nil {
		return nil, err
	}
	var r struct {
		Records []T `json:"records"`
	}
	if err := json.Unmarshal(encoded, &r); err != nil {
		return nil, err
	}
	if len(r.Records) == 0 {
		return nil, errors.New("it has measured nothing")
	}
	return r.Records, nil
}
