// Package progress draws progress bars on a terminal. On other outputs it draws nothing.
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

// On returns a Drawer that draws on out.
func On(out io.Writer) Drawer {
	f, ok := out.(*os.File)
	return Drawer{out, ok && term.IsTerminal(int(f.Fd()))}
}

// A Bar shows how much of a job is done.
type Bar struct{ *progressbar.ProgressBar }

// Work begins a bar for work in any unit.
func (d Drawer) Work(total int64, what string) Bar {
	return Bar{progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(d.out),
		progressbar.OptionSetVisibility(d.visible),
		progressbar.OptionSetDescription(what),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetWidth(30),
		progressbar.OptionUseANSICodes(true),
		progressbar.OptionClearOnFinish(),
	)}
}

// End clears the bar, finished or not.
func (b Bar) End() { b.Finish() }
