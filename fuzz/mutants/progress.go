package main

import (
	"fmt"
	"io"
	"os"
)

// A progress is a line about the progress of a run. It is shown only on a terminal.
type progress struct{ terminal io.Writer }

// newProgress returns a progress that is shown on w if w is a terminal.
func newProgress(w io.Writer) progress {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return progress{w}
		}
	}
	return progress{}
}

// show replaces the line.
func (p progress) show(format string, args ...any) {
	if p.terminal != nil {
		fmt.Fprintf(p.terminal, "\r\x1b[K"+format, args...)
	}
}

// clear removes the line.
func (p progress) clear() { p.show("") }
