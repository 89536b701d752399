package suggest

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// A calendar counts the events of each minute, and how many of them were answered by 5xx. It has the minutes with
// events, in the order of time.
type calendar []minute

type minute struct {
	at             int64 // Unix time in minutes
	events, failed int64
}

// add counts an event, which is not earlier than the last one.
func (c *calendar) add(e traffic.Event) {
	last := len(*c) - 1
	if at := minuteOf(e.At); last < 0 || (*c)[last].at != at {
		*c = append(*c, minute{at: at})
		last++
	}
	m := &(*c)[last]
	m.events++
	if e.Status/100 == 5 {
		m.failed++
	}
}

// from returns the minutes that end after an instant.
func (c calendar) from(at int64) calendar {
	i, _ := slices.BinarySearchFunc(c, minuteOf(at), func(m minute, want int64) int { return cmp.Compare(m.at, want) })
	return c[i:]
}

// eventsIn returns the number of events of the minutes of a span.
func (c calendar) eventsIn(s traffic.Span) (n int64) {
	for _, m := range c[len(c)-len(c.from(s.From)) : len(c)-len(c.from(s.To))] {
		n += m.events
	}
	return n
}

// fails reports whether most events of the minute of an instant, which has events, were answered by 5xx.
func (c calendar) fails(at int64) bool {
	m := c.from(at)[0]
	return 2*m.failed > m.events
}

// minuteOf returns an instant in Unix time in minutes.
func minuteOf(at int64) int64 {
	m := at / int64(time.Minute)
	if at%int64(time.Minute) < 0 {
		m--
	}
	return m
}

const (
	// leastBusy is the least number of busy clients whose busiest windows tell of an incident.
	leastBusy = 10
	// incidentLength is how long an incident is, unless a window is longer.
	incidentLength = 10 * time.Minute
	// shortOfAll is the part of the recording, as a divisor, that an incident is at most.
	shortOfAll = 10
	// mostWindows is the share of the busiest windows that lie in an incident.
	mostWindows = 2. / 3
	// allEvents is the share of all events from which on what is left would be no recording.
	allEvents = 0.9
)

// warnOfIncidents returns warnings if the busiest windows of busy clients, which set the percentile, tell of an
// incident: most of them lie in a few minutes, or in minutes in which most requests failed.
func (s *study) warnOfIncidents(f *findings) (all []string) {
	for i, v := range f.Windows {
		if v.Suggested == nil {
			continue
		}
		least := max(2, v.Suggested.AtPercentile/2)
		ends := s.gauge.endsOf(i, least)
		if len(ends) < leastBusy {
			continue
		}
		of := fmt.Sprintf("of the busiest windows of %s, of the %s with %d or more in one,", output.Short(v.window), output.Count(int64(len(ends)), "client"), least)
		if span, n := s.incident(ends, v.window); n > 0 {
			share := output.Share(s.calendar.eventsIn(span), s.on.Events)
			all = append(all, fmt.Sprintf("%.0f%% %s lie from %s to %s, with %s of the events. If that was an incident, leave it out: -without %s.",
				100*output.Share(int64(n), int64(len(ends))), of, traffic.Instant(span.From).Format("2006-01-02 15:04"), traffic.Instant(span.To).Format("15:04"), output.Percent(share), span))
		}
		failed := 0
		for _, at := range ends {
			if s.calendar.fails(at) {
				failed++
			}
		}
		if share := output.Share(int64(failed), int64(len(ends))); share >= mostWindows {
			all = append(all, fmt.Sprintf("%.0f%% %s end in minutes in which most answers were 5xx: clients may have tried again. To leave these out: -where 'status!=5xx'.",
				100*share, of))
		}
	}
	return all
}

// incident returns the time in which most of the windows lie that have these ends, and how many do, if that is
// a short part of the recording. Else it returns 0.
func (s *study) incident(ends []int64, window time.Duration) (span traffic.Span, n int) {
	length := max(incidentLength, window)
	if s.span()/shortOfAll < length {
		return span, 0
	}
	slices.Sort(ends)
	first := 0
	for from, to := 0, 0; to < len(ends); to++ {
		for uint64(ends[to])-uint64(ends[from]) > uint64(length) { // at most 64 bits apart
			from++
		}
		if to-from+1 > n {
			first, n = from, to-from+1
		}
	}
	begin := ends[first]
	if begin > math.MinInt64+int64(window) {
		begin -= int64(window)
	}
	span.From = minuteOf(begin) * int64(time.Minute)
	span.To = (minuteOf(ends[first+n-1]) + 1) * int64(time.Minute)
	if output.Share(int64(n), int64(len(ends))) < mostWindows || output.Share(s.calendar.eventsIn(span), s.on.Events) > allEvents {
		return span, 0
	}
	return span, n
}
