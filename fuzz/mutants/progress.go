package main

import (
	"fmt"
	"io"
	"os"
)

// A progress is a line that says how far things are; it is shown on a terminal only.
type progress struct{ terminal io.Writer }

func newProgress(w io.Writer) progress {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return progress{w}
		}
	}
	return progress{}
}

func (p progress) show(format string, args ...any) {
	if p.terminal != nil {
		fmt.Fprintf(p.terminal, "\r\x1b[K"+format, args...)
	}
}

func (p progress) clear() { p.show("") }
