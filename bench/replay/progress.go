package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress draws bars on a terminal, and nothing on anything else.
type progress struct {
	out     io.Writer
	visible bool
}

func newProgress(out io.Writer) progress {
	f, ok := out.(*os.File)
	return progress{out, ok && term.IsTerminal(int(f.Fd()))}
}

// A bar shows how much of a job is done; what is written to it counts in bytes.
type bar struct{ *progressbar.ProgressBar }

// bytes begins a bar over so many bytes, -1 for an unknown number of them.
func (p progress) bytes(total int64, what string) bar {
	return p.begin(total, what, progressbar.OptionShowBytes(true))
}

// events begins a bar over so many events.
func (p progress) events(total int64, what string) bar {
	return p.begin(total, what, progressbar.OptionShowCount())
}

func (p progress) begin(total int64, what string, more ...progressbar.Option) bar {
	return bar{progressbar.NewOptions64(total, append(more,
		progressbar.OptionSetWriter(p.out),
		progressbar.OptionSetVisibility(p.visible),
		progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(30),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionClearOnFinish(),
	)...)}
}

// end clears the bar, finished or not.
func (b bar) end() { b.Finish() }
