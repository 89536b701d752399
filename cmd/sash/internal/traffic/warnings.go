package traffic

import (
	"fmt"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Warnings returns what of the traffic makes the answers about windows of these lengths doubtful,
// and what to do about it.
func (t *Traffic) Warnings(windows []time.Duration) []string {
	all := []string{}
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if short := shorterThan(time.Minute, windows); t.WholeSeconds && t.Events > 1 && short != "" {
		warn("all times are whole seconds, so the requests of a second seem to come at once: in windows of %s the denials, and the errors of a counter, are partly those of the clock; "+
			"log fractions of a second, such as $msec of nginx", short)
	}
	if len(t.Clients) == 1 && t.Events > 1 && t.Key != "" {
		warn("all events are of one client, %s: if it is a proxy, name it by -trust, and log X-Forwarded-For", t.Clients[0])
	}
	if t.OtherUnit != "" {
		warn("the times of %s are read as microseconds, so they are of %d: if they are in another unit, name it, as by -unit %s", t.OtherUnitOf, Instant(t.first).Year(), t.OtherUnit)
	}
	for _, j := range t.Jumps {
		direction := "ahead"
		if j.By < 0 {
			direction = "back"
		}
		warn("the clock of %s jumps %s by %v at line %d: requests at one time of the log were not made at one time; if it is local time, log the zone or UTC", j.File, direction, j.By.Abs().Round(time.Second), j.Line)
	}
	if t.Mixed > 0 {
		warn("%s of another format than their file: split it by format", lines(t.Mixed))
	}
	if t.Late > 0 {
		warn("%s too late to be put in order, and taken for as late as the line before: sort the files by time, or raise -reorder", came(t.Late))
	}
	return all
}

// shorterThan returns the windows shorter than d, as text.
func shorterThan(d time.Duration, windows []time.Duration) string {
	var short []string
	for _, w := range windows {
		if w < d {
			short = append(short, w.String())
		}
	}
	return strings.Join(short, ", ")
}

func lines(n int64) string {
	if n == 1 {
		return "1 line is"
	}
	return humanize.Comma(n) + " lines are"
}

func came(n int64) string {
	if n == 1 {
		return "1 line came"
	}
	return humanize.Comma(n) + " lines came"
}
