// Package progress draws bars on a terminal, with the time left, and nothing on
// anything else.
package progress

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// A Drawer begins bars, one at a time.
type Drawer struct {
	out     io.Writer
	visible bool
}

// On returns a Drawer on out.
func On(out io.Writer) Drawer {
	f, ok := out.(*os.File)
	return Drawer{out, ok && term.IsTerminal(int(f.Fd()))}
}

// A Bar shows how much of a job is done; what is written to it counts in bytes.
type Bar struct{ *progressbar.ProgressBar }

// Bytes begins a bar over so many bytes, -1 for an unknown number of them.
func (d Drawer) Bytes(total int64, what string) Bar {
	return d.begin(total, what, progressbar.OptionShowBytes(true))
}

// Events begins a bar over so many events.
func (d Drawer) Events(total int64, what string) Bar {
	return d.begin(total, what, progressbar.OptionShowCount())
}

// Work begins a bar over so much work, in any unit.
func (d Drawer) Work(total int64, what string) Bar { return d.begin(total, what) }

func (d Drawer) begin(total int64, what string, more ...progressbar.Option) Bar {
	return Bar{progressbar.NewOptions64(total, append(more,
		progressbar.OptionSetWriter(d.out),
		progressbar.OptionSetVisibility(d.visible),
		progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(30),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionClearOnFinish(),
	)...)}
}

// End clears the bar, finished or not.
func (b Bar) End() { b.Finish() }
