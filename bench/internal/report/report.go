// Package report writes results as tables in Markdown, as JSON and as plots. Each names the
// machine, the Go version, the commit and the command.
package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Result is the result of one experiment.
type Result struct {
	Experiment  string      `json:"experiment"`
	Question    string      `json:"question"` // the question that it answers
	Environment Environment `json:"environment"`
	Interrupted bool        `json:"interrupted"` // before all was measured
	Notes       []string    `json:"notes"`       // the method, and what was left out
	Records     any         `json:"records"`     // a list of all figures

	Tables []Table `json:"-"`
	Plots  []Plot  `json:"-"`
}

// A Table is a table for human readers.
type Table struct {
	Title   string
	Columns []string
	Rows    [][]string
	Notes   []string
}

// CanWrite makes dir. It returns an error if no file can be written there.
func CanWrite(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".bench")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Write makes dir and writes r to files there. It returns their names. Plots with nothing to
// show are left out, and their files of an earlier run are removed.
func (r *Result) Write(dir string) (files []string, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	write := func(name string, content []byte, err error) error {
		if err == nil {
			name = filepath.Join(dir, name)
			err = os.WriteFile(name, content, 0o644)
		}
		if err == nil {
			files = append(files, name)
		}
		return err
	}
	encoded, err := json.MarshalIndent(r, "", "\t")
	if err := write(r.Experiment+".json", append(encoded, '\n'), err); err != nil {
		return files, err
	}
	for _, p := range r.Plots {
		if err := os.Remove(filepath.Join(dir, p.file(r.Experiment))); err != nil && !errors.Is(err, os.ErrNotExist) {
			return files, err
		}
	}
	r.Plots = slices.DeleteFunc(r.Plots, func(p Plot) bool { return !p.shows() })
	for _, p := range r.Plots {
		svg, err := p.svg(r.Environment)
		if err := write(p.file(r.Experiment), svg, err); err != nil {
			return files, err
		}
	}
	var b bytes.Buffer
	r.Markdown(&b)
	for _, p := range r.Plots {
		fmt.Fprintf(&b, "\n![%s](%s)\n", p.Title, p.file(r.Experiment))
	}
	return files, write(r.Experiment+".md", b.Bytes(), nil)
}

// Markdown writes r without its plots.
func (r *Result) Markdown(w io.Writer) {
	fmt.Fprintf(w, "# %s: %s\n\n%s.\nClock: %s.\n`%s`\n", r.Experiment, r.Question, r.Environment, r.Environment.Clock, r.Environment.Command)
	if r.Interrupted {
		fmt.Fprintf(w, "\n**Interrupted:** this is what was measured until then.\n")
	}
	for _, t := range r.Tables {
		t.markdown(w)
	}
	if len(r.Notes) > 0 {
		fmt.Fprintln(w)
	}
	list(w, r.Notes)
}

func list(w io.Writer, notes []string) {
	for _, n := range notes {
		fmt.Fprintf(w, "- %s\n", n)
	}
}

// markdown writes t with aligned columns. Numbers are aligned to the right.
func (t *Table) markdown(w io.Writer) {
	widths := make([]int, len(t.Columns))
	for _, row := range append([][]string{t.Columns}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	fmt.Fprintf(w, "\n## %s\n\n", t.Title)
	t.row(w, widths, t.Columns)
	for i, width := range widths {
		if t.isText(i) {
			fmt.Fprintf(w, "|%s", strings.Repeat("-", width+2))
		} else {
			fmt.Fprintf(w, "|%s:", strings.Repeat("-", width+1))
		}
	}
	fmt.Fprintln(w, "|")
	for _, row := range t.Rows {
		t.row(w, widths, row)
	}
	if len(t.Notes) > 0 {
		fmt.Fprintln(w)
	}
	list(w, t.Notes)
}

func (t *Table) row(w io.Writer, widths []int, cells []string) {
	for i, cell := range cells {
		padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
		if t.isText(i) {
			fmt.Fprintf(w, "| %s%s ", cell, padding)
		} else {
			fmt.Fprintf(w, "| %s%s ", padding, cell)
		}
	}
	fmt.Fprintln(w, "|")
}

// isText reports whether a column contains text other than numbers with units.
func (t *Table) isText(column int) bool {
	for _, row := range t.Rows {
		if cell := row[column]; cell != "" && cell != None && strings.Trim(cell, "0123456789.,%×+-*~ nµmsk") != "" {
			return true
		}
	}
	return false
}

// None stands for a missing figure.
const None = "—"
