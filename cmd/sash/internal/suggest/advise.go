package suggest

import (
	"fmt"
	"math"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
)

// enoughWindows is the number of windows that a recording must cover for a suggestion. A
// shorter one has hardly a window that it covers whole.
const enoughWindows = 3

// advise returns what a study tells about the i-th window, and the limit that it suggests.
func (s *study) advise(i int, o *options) windowReport {
	window, d, peak := s.windows[i], s.distribution(i), s.gauge.peaks[i]
	r := windowReport{
		Window: window.String(),
		P50:    d.percentile(50), P90: d.percentile(90), P99: d.percentile(99), P999: d.percentile(99.9), Max: d.percentile(100),
		window: window, distribution: d,
	}
	if peak.units > 0 {
		r.Busiest = &busiest{Client: s.on.Clients[peak.client], End: time.Unix(0, peak.end).UTC()}
	}
	for c, count := range candidates {
		r.Candidates = append(r.Candidates, s.candidate(i, d, c))
		if d.above(count) == 0 {
			break
		}
	}
	r.Suggested, r.NotSuggested = s.suggest(i, d, o)
	if last := r.Candidates[len(r.Candidates)-1]; r.Suggested != nil && r.Suggested.Limit.Count > last.Limit.Count {
		r.Candidates = append(r.Candidates, r.Suggested.candidate)
	}
	return r
}

// candidate returns what the limit of the c-th candidate for the i-th window would have done.
func (s *study) candidate(i int, d distribution, c int) candidate {
	clients, denied := d.above(candidates[c]), s.gauge.denied[i][c]
	return candidate{
		Limit:        sash.Per(candidates[c], s.windows[i]).Log(),
		Clients:      clients,
		ClientsShare: output.Share(int64(clients), int64(len(d))),
		Denied:       denied,
		DeniedShare:  output.Share(denied, s.on.Events),
	}
}

// suggest returns the least candidate for the i-th window that leaves the clients at the percentile alone, with
// headroom. If it returns none, it says why.
func (s *study) suggest(i int, d distribution, o *options) (_ *suggestion, why string) {
	window := s.windows[i]
	if s.span()/enoughWindows < window {
		return nil, fmt.Sprintf("the recording covers %v, too short for windows of %s: %v or more would do",
			s.span().Round(time.Second), output.Short(window), enoughWindows*window)
	}
	base := d.percentile(o.percentile)
	wanted := math.Ceil(float64(base) * o.headroom)
	if base == 0 {
		return nil, "no event costs anything at the percentile"
	}
	if wanted > float64(candidates[len(candidates)-1]) {
		return nil, fmt.Sprintf("the busiest window at the percentile holds %s, times %v: no candidate is that large",
			humanize.Comma(base), o.headroom)
	}
	r := &suggestion{candidate: s.candidate(i, d, atLeast(int64(wanted))), AtPercentile: base}
	r.Reason = s.reason(r, d, o, window)
	return r, ""
}

// reason says in words how a suggestion follows from the recording, and what it does.
func (s *study) reason(r *suggestion, d distribution, o *options, window time.Duration) string {
	within := fmt.Sprintf("%v%% of %s", o.percentile, output.Count(int64(len(d)), "client"))
	if d.rank(o.percentile) == len(d)-1 {
		within = "all of " + output.Count(int64(len(d)), "client")
	}
	text := fmt.Sprintf("%s had at most %s in any %s", within, humanize.Comma(r.AtPercentile), output.Short(window))
	if o.headroom != 1 {
		text += fmt.Sprintf("; %v times that is %s", o.headroom, humanize.Commaf(math.Round(float64(r.AtPercentile)*o.headroom*10)/10))
	}
	text += fmt.Sprintf("; %s is the next candidate", humanize.Comma(r.Limit.Count))
	if r.Clients == 0 {
		return text + ". It would have denied no client."
	}
	text += fmt.Sprintf(". It would have denied %s (%s) of %s", output.Count(r.Denied, "event"), output.Percent(r.DeniedShare), output.Count(int64(r.Clients), "client"))
	if left := d.below(r.Limit.Count); left > 0 {
		text += fmt.Sprintf(". The busiest of the others had %s", humanize.Comma(left))
	}
	return text + "."
}

// policy returns the suggested limits that are worth having next to each other.
//
// A limit adds nothing to a longer one of no higher Count, which denies first. And it adds
// nothing to a shorter one that admits no more in the longer window.
func policy(windows []windowReport) (limits []sash.Limit) {
	for i := range windows {
		if r := windows[i].Suggested; r != nil && !implied(r.Limit, windows) {
			limits = append(limits, r.Limit)
		}
	}
	return limits
}

// implied reports whether another suggested limit denies whatever l denies.
func implied(l sash.Limit, windows []windowReport) bool {
	for i := range windows {
		if r := windows[i].Suggested; r != nil && r.Limit != l && implies(r.Limit, l) {
			return true
		}
	}
	return false
}

// implies reports whether no client that keeps to a, a log, can exceed b.
func implies(a, b sash.Limit) bool {
	if a.Window >= b.Window {
		return a.Count <= b.Count
	}
	windows := math.Ceil(float64(b.Window) / float64(a.Window)) // of a, that cover one of b
	return windows*float64(a.Count) <= float64(b.Count)
}

// touched returns the number of clients that at least one of the suggested limits denies. These are the
// clients that the policy of them denies: the first event that it denies is the first with more than a
// Count in a window, since all before it were admitted.
func (s *study) touched(windows []windowReport) (clients int) {
	for client := range s.on.Counts {
		if s.excess(client, windows) > 0 {
			clients++
		}
	}
	return clients
}
