package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// notable is the share by which a count must change for the change to be in the history.
const notable = 0.01

// inHistory are the rows that the history follows: the calls that most programs make, under each kind
// of limits.
var inHistory = []string{
	"counter, Allow", "counter, Take", "counter, Take, denied", "counter, Take, new key", "counter, Reserve and Commit",
	"counter, TakeAll of two keys, denied", "large counter, Take, denied",
	"parts of 16 bits, Take", "bucket, Take", "log, Take", "at once, Take", "two limits, Take, denied", "three limits, Take, denied",
	"httplimit, two policies", "httplimit, two policies, denied",
}

// A change is a commit after which some rows have other counts.
type change struct {
	commit, date, subject string
	rows                  []changedRow
}

// A changedRow is a row with its count in the commit, and in the parent whose count is nearest.
type changedRow struct {
	row         string
	before, now float64 // before is 0 if the row was not counted
}

// history returns the changes of a file of counts that git has, newest first. It follows the rows given.
// A merge changes a row only if its count is none of its parents'.
func history(ctx context.Context, file string, rows []string) (changes []change, err error) {
	dir, name := filepath.Split(file)
	git := func(args ...string) (string, error) {
		command := exec.CommandContext(ctx, "git", args...)
		command.Dir = dir
		var stderr bytes.Buffer
		command.Stderr = &stderr
		out, err := command.Output()
		if err != nil {
			err = fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
		}
		return string(out), err
	}
	shallow, err := git("rev-parse", "--is-shallow-repository")
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(shallow) == "true" {
		return nil, errors.New("this clone is shallow, so it has a part of the history only: git fetch --unshallow gets the rest")
	}
	commits, err := git("log", "--topo-order", "--date=short", "--format=%h%x00%P%x00%ad%x00%s", "--", name)
	if err != nil {
		return nil, err
	}
	if commits == "" {
		return nil, fmt.Errorf("no commit has %s", name)
	}
	at := func(commit string) (counts, error) {
		if listed, err := git("ls-tree", "--name-only", commit, "--", name); err != nil || listed == "" {
			return counts{}, err // the file was not there
		}
		text, err := git("show", commit+":./"+name)
		if err != nil {
			return counts{}, err
		}
		return parseCounts(commit+":"+name, []byte(text))
	}
	for line := range strings.Lines(commits) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\x00")
		now, err := at(fields[0])
		if err != nil {
			return nil, err
		}
		var parents []counts
		for _, parent := range strings.Fields(fields[1]) {
			before, err := at(parent)
			if err != nil {
				return nil, err
			}
			parents = append(parents, before)
		}
		c := change{commit: fields[0], date: fields[2], subject: fields[3]}
		for _, row := range rows {
			if r := (changedRow{row: row}); r.find(now, parents) {
				c.rows = append(c.rows, r)
			}
		}
		if len(c.rows) > 0 {
			changes = append(changes, c)
		}
	}
	return changes, nil
}

// find sets the counts of r, and reports whether the count in now differs from the counts in all parents.
func (r *changedRow) find(now counts, parents []counts) bool {
	var found bool
	if r.now, found = now.of(r.row); !found {
		return false
	}
	for _, parent := range parents {
		before, found := parent.of(r.row)
		if found && distance(r.now, before) <= notable {
			return false
		}
		if found && (r.before == 0 || distance(r.now, before) < distance(r.now, r.before)) {
			r.before = before
		}
	}
	return true
}

// distance returns the share of before by which now differs from it.
func distance(now, before float64) float64 { return max(now-before, before-now) / before }

const historyBegin = `# The hot path, change by change

The instructions of a call after each commit that changed them by over 1 %, newest first. They are the counts of
[counts.txt](../bench/instructions/counts.txt) in the commits of this repository, which
` + "`go run ./bench/instructions -update`" + ` has written. That happens at a release, and where a row has grown by over
3 %. So small gains appear at the next release, and what came before the first count is not here.
[How speed is kept](../CONTRIBUTING.md#how-speed-is-kept) says how they are counted.
` + "`go run ./bench/instructions -history docs/history.md`" + ` writes this page.

`

// writeHistory writes the changes as a page in Markdown, with the counts as they are now.
func writeHistory(file string, rows []string, changes []change, now counts) error {
	var text bytes.Buffer
	text.WriteString(historyBegin + "| row | first count | now | change |\n|---|---:|---:|---:|\n")
	for _, row := range rows {
		first := 0.0
		for _, c := range changes { // newest first
			for _, r := range c.rows {
				if r.row == row {
					first = r.now
				}
			}
		}
		if last, found := now.of(row); found && first > 0 {
			fmt.Fprintf(&text, "| %s | %.0f | %.0f | %+.1f %% |\n", row, first, last, (last/first-1)*100)
		}
	}
	text.WriteString("\n## The commits\n\n| commit | date | subject | row | before | after | change |\n|---|---|---|---|---:|---:|---:|\n")
	for _, c := range changes {
		commit, date, subject := "`"+c.commit+"`", c.date, strings.ReplaceAll(c.subject, "|", "\\|")
		first := 0
		for _, r := range c.rows {
			if r.before == 0 {
				first++
				continue
			}
			fmt.Fprintf(&text, "| %s | %s | %s | %s | %.0f | %.0f | %+.1f %% |\n", commit, date, subject, r.row, r.before, r.now, (r.now/r.before-1)*100)
			commit, date, subject = "", "", "" // of the line above
		}
		if first > 0 {
			fmt.Fprintf(&text, "| %s | %s | %s | first counts: %d | | | |\n", commit, date, subject, first)
		}
	}
	return os.WriteFile(file, text.Bytes(), 0o666)
}
