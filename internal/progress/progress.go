// Package progress draws progress bars on a terminal. On other outputs it draws nothing.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// Terminal returns w if it is a terminal, and io.Discard otherwise.
func Terminal(w io.Writer) io.Writer {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return w
		}
	}
	return io.Discard
}

// A Bar shows on one line how much of a job is done. It is also a writer, which counts the bytes
// written. It is safe for concurrent use.
type Bar struct {
	terminal io.Writer
	total    int64 // not known if it is less than 1
	began    time.Time

	mu    sync.Mutex // guards the fields below
	what  string
	done  int64
	drawn time.Time
	clear bool // since Clear, until Describe
	width int  // of the line on the terminal
}

// On begins a bar on out, for a job of total bytes or other units; -1 if the number is not known.
func On(out io.Writer, total int64, what string) *Bar {
	return &Bar{terminal: Terminal(out), total: total, what: what, began: time.Now()}
}

// Write counts the bytes of p, and never fails.
func (b *Bar) Write(p []byte) (int, error) {
	b.Add(int64(len(p)))
	return len(p), nil
}

// Add counts n units more as done.
func (b *Bar) Add(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done += n
	const interval = 100 * time.Millisecond // each reader of a log calls this thousands of times a second
	if now := time.Now(); !b.clear && now.Sub(b.drawn) >= interval {
		b.drawn = now
		b.draw(now.Sub(b.began))
	}
}

// Describe changes what the job is called.
func (b *Bar) Describe(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.what, b.clear = what, false
	b.draw(time.Since(b.began))
}

// Clear empties the line, for other output. It stays empty until Describe: what is still being done
// may be added, but is not drawn.
func (b *Bar) Clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	fmt.Fprintf(b.terminal, "\r%*s\r", b.width, "")
	b.width, b.clear = 0, true
}

// draw draws the line over the former one. b.mu must be held.
func (b *Bar) draw(elapsed time.Duration) {
	line := b.line(elapsed)
	fmt.Fprintf(b.terminal, "\r%-*s", b.width, line)
	b.width = len(line)
}

// line returns the line once the job has taken that long.
func (b *Bar) line(elapsed time.Duration) string {
	switch {
	case b.done == 0:
		return b.what
	case b.total < 1:
		return fmt.Sprintf("%s: %.1f million", b.what, float64(b.done)/1e6)
	}
	const cells = 30
	share := min(float64(b.done)/float64(b.total), 1)
	left := time.Duration(float64(elapsed) * (1 - share) / share)
	return fmt.Sprintf("%s %3.0f%% |%-*s| %v left", b.what, 100*share, cells, strings.Repeat("=", int(share*cells)), left.Round(time.Second))
}
