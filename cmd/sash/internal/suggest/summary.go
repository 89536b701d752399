package suggest

import (
	"fmt"
	"io"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
)

// shownFaults is the number of unreadable lines that a report has.
const shownFaults = 3

// summary writes what was read.
func (r *report) summary(w io.Writer) {
	r.Heading(w)
	r.Incomplete(w)
	if r.Unreadable == 0 {
		return
	}
	fmt.Fprintf(w, "%s of %s unreadable, skipped; sash replay lists more:\n", humanize.Comma(r.Unreadable), output.Count(r.Lines, "line"))
	for _, f := range r.UnreadableLines {
		fmt.Fprintf(w, "  %s:%d: %s: %s\n", f.File, f.Line, f.Why, f.Text)
	}
}
