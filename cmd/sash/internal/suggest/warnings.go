package suggest

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// A warning says why figures may mislead, and what to try.
type warning struct {
	Kind string `json:"kind"`
	Text string `json:"text"`
}

const (
	// dominantShare is the share of all events from which on one client dominates.
	dominantShare = 0.1
	// fewClients is the number of clients up to which one of them is expected to dominate.
	fewClients = 10
	// coarseWindows is the number of stamps in a window up to which it matters that a stamp
	// is rounded.
	coarseWindows = 10
	// aDay is a little less than a day: the first event of a day is not at midnight.
	aDay = 23 * time.Hour
)

// logWarnings returns why the log may mislead.
func logWarnings(on *traffic.Traffic) []warning {
	all := []warning{}
	for _, text := range on.Warnings(nil) { // those about short windows are in warnOfStamps
		all = append(all, warning{"log", text})
	}
	return all
}

// warnings returns what to know before the suggestions of f are used.
func (s *study) warnings(f *findings, o *options) []warning {
	all := []warning{}
	add := func(kind, text string) {
		if text != "" {
			all = append(all, warning{kind, text})
		}
	}
	add("few clients", s.warnOfFewClients(o))
	for _, text := range s.warnOfKinds(f, o.percentile) {
		add("two kinds of clients", text)
	}
	for _, text := range s.warnOfIncidents(f) {
		add("incident", text)
	}
	add("dominant client", s.warnOfDominant())
	add("whole seconds", s.warnOfStamps())
	if f.suggested() > 0 && s.span() < aDay {
		add("short recording", fmt.Sprintf("The recording covers %v. Other hours and days may be busier.", s.span().Round(time.Second)))
	}
	return all
}

// warnOfFewClients returns a warning if no client is above the percentile.
func (s *study) warnOfFewClients(o *options) string {
	d := make(distribution, len(s.on.Clients))
	if len(d) == 1 || o.percentile == 100 || d.rank(o.percentile) < len(d)-1 {
		return "" // of one client, the log's own warning tells
	}
	return fmt.Sprintf("With %d clients, the percentile %v is the busiest of them. So no limit is suggested that denies any.", len(s.on.Clients), o.percentile)
}

// warnOfKinds returns warnings if clients of another kind than most, such as crawlers or a botnet,
// may have set the percentile: if it is above a border between them, in a window or by all events.
func (s *study) warnOfKinds(f *findings, percentile float64) (all []string) {
	if percentile == 100 {
		return nil
	}
	told := map[int]bool{} // the numbers of clients of another kind
	n := len(s.on.Clients)
	for i, v := range f.Windows {
		b, found := s.border(s.gauge.unitsIn(i), percentile, false)
		if v.Suggested == nil || !found {
			continue
		}
		told[b.above] = true
		most := ""
		if b.events >= s.on.Events/largeShare {
			most = fmt.Sprintf(", with %s of the events", output.Percent(output.Share(b.events, s.on.Events)))
		}
		all = append(all, fmt.Sprintf("In %s, the percentile %v is %s. But %s at %s or above%s, and all others at %s or below. If the first are to be denied, try -percentile %v.",
			output.Short(v.window), percentile, humanize.Comma(v.distribution.percentile(percentile)), traffic.Count(int64(b.above), "client is", "clients are"), humanize.Comma(b.high), most, humanize.Comma(b.low), b.leaves(n)))
	}
	if b, found := s.border(s.on.Counts, percentile, true); found && f.suggested() > 0 && !told[b.above] {
		all = append(all, fmt.Sprintf("%s of the events are of %s with %s or more each, and all others have %s or fewer. If the first are to be denied, try -percentile %v.",
			output.Percent(output.Share(b.events, s.on.Events)), output.Count(int64(b.above), "client"), humanize.Comma(b.high), humanize.Comma(b.low), b.leaves(n)))
	}
	return all
}

// warnOfDominant returns a warning if one of many clients has a large share of all events.
func (s *study) warnOfDominant() string {
	most := 0
	for i, n := range s.on.Counts {
		if n > s.on.Counts[most] || n == s.on.Counts[most] && s.on.Clients[i] < s.on.Clients[most] {
			most = i
		}
	}
	of := output.Share(s.on.Counts[most], s.on.Events)
	if len(s.on.Counts) <= fewClients || of < dominantShare {
		return ""
	}
	return fmt.Sprintf("%s of the events are of one client, %s: a crawler, or many people behind one address? Such people need another -key, or limits of their own (Limiter.SetLimits).",
		output.Percent(of), s.on.Clients[most])
}

// warnOfStamps returns a warning if times are whole seconds and a window has few of them.
func (s *study) warnOfStamps() string {
	if !s.on.WholeSeconds {
		return ""
	}
	for _, w := range s.windows {
		if w <= coarseWindows*time.Second {
			return fmt.Sprintf("Times are whole seconds. So a window of %s may have held up to %s what is shown: leave room for that.",
				output.Short(w), times(w))
		}
	}
	return ""
}

// times returns how much more a window can have held than whole seconds show: it meets one
// second more than it is long.
func times(w time.Duration) string {
	seconds := max(1, float64(w)/float64(time.Second))
	return fmt.Sprintf("%.3g times", (seconds+1)/seconds)
}
