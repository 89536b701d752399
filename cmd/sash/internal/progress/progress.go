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

// A Bar shows how much of a job is done. It is also a writer, which counts the bytes written.
type Bar struct{ *progressbar.ProgressBar }

// Bytes begins a bar for total bytes; -1 if the number is not known.
func (d Drawer) Bytes(total int64, what string) Bar {
	return d.begin(total, what, progressbar.OptionShowBytes(true))
}

// Events begins a bar for total events.
func (d Drawer) Events(total int64, what string) Bar {
	return d.begin(total, what, progressbar.OptionShowCount())
}

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
