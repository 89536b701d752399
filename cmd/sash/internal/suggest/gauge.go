package suggest

import (
	"slices"
	"time"
)

// A gauge measures the busiest window of each client, for windows of several lengths, and what the
// exact log of each candidate denies. It does so in one pass over the events in the order of
// time.
//
// A window that ends at an event holds the events of the same client that are less than
// the window's length older, as in a SlidingLog. A client's busiest window is the one with the
// most units. All events count, whether a limit would have admitted them or not.
//
// An event asks for its units, but for no fewer than least: a policy that settles takes them first. In
// the window that ends at the event, it has what it asks for, and its units in later ones.
//
// It keeps the busiest windows of each client. Of a client with events in the longest window that ends now, it
// keeps these, once for all windows; and for each window, those in it that a candidate denies.
type gauge struct {
	windows []int64   // in nanoseconds, in ascending order
	least   int64     // that an event asks for, in units
	busiest []busy    // by client, and by window within a client
	recent  []*recent // by client; nil for a client without events in the longest window
	denied  [][]int64 // events, by window and candidate
	peaks   []peak    // by window

	sinceSweep int // events since the recent ones were swept
}

// A busy is the busiest window of a client so far.
type busy struct {
	units int64
	end   int64 // the first instant at which the window held them
}

// A peak is the busiest window of all clients.
type peak struct {
	busy
	client uint32
}

// recent holds the last events of one client: those in the longest window that ends at its last event, and
// fewer older ones than these.
type recent struct {
	events   []event // oldest first, and one for each instant
	trailing []trailing
}

// An event is all units of one instant.
type event struct{ at, units int64 }

// A trailing is the window of one length that ends at the last event of a client.
type trailing struct {
	first   int      // the index of its oldest event
	units   int64    // of all its events
	denials []denial // of its events, oldest first
	denied  []int64  // units of the events that each candidate denied; as long as there are any
}

// A denial is events of one instant that the same candidates deny.
type denial struct {
	event
	by candidateSet
}

// newGauge returns a gauge of windows of those lengths, which are in ascending order. An event asks for no fewer
// than least units.
func newGauge(windows []time.Duration, least int64) *gauge {
	g := &gauge{least: least, peaks: make([]peak, len(windows))}
	for _, w := range windows {
		g.windows = append(g.windows, int64(w))
		g.denied = append(g.denied, make([]int64, len(candidates)))
	}
	return g
}

// add counts an event of a client. Clients are numbered from 0, and events come in the order of time.
func (g *gauge) add(client uint32, at, units int64) {
	r, busiest := g.of(client)
	asked := max(units, g.least)
	for i := range r.trailing {
		t := &r.trailing[i]
		t.expire(r.events, at, g.windows[i])
		if held := t.units + asked; held > busiest[i].units {
			busiest[i] = busy{held, at}
			if held > g.peaks[i].units {
				g.peaks[i] = peak{busiest[i], client}
			}
		}
		if by := t.decide(asked); !by.empty() {
			t.deny(denial{event{at, units}, by})
			for c := range by.all() {
				g.denied[i][c]++
			}
		}
		t.units += units // what it asked for was only for the window that ends with it
	}
	r.append(event{at, units})
	g.sweep(at)
}

// of returns the recent events of a client, and its busiest windows.
func (g *gauge) of(client uint32) (*recent, []busy) {
	n := len(g.windows)
	if missing := int(client) + 1 - len(g.recent); missing > 0 {
		g.recent = append(g.recent, make([]*recent, missing)...)
		g.busiest = append(g.busiest, make([]busy, missing*n)...)
	}
	if g.recent[client] == nil {
		g.recent[client] = &recent{trailing: make([]trailing, n)}
	}
	return g.recent[client], g.busiest[int(client)*n:][:n]
}

// unitsIn returns the units of the busiest window of each client, for the i-th length.
func (g *gauge) unitsIn(i int) []int64 {
	units := make([]int64, len(g.recent))
	for client := range units {
		units[client] = g.units(client, i)
	}
	return units
}

// units returns the units of the busiest window of a client, for the i-th length.
func (g *gauge) units(client, i int) int64 { return g.busiest[client*len(g.windows)+i].units }

// endsOf returns the ends of the busiest windows with that many units or more, for the i-th length.
func (g *gauge) endsOf(i int, least int64) (ends []int64) {
	for ; i < len(g.busiest); i += len(g.windows) {
		if g.busiest[i].units >= least {
			ends = append(ends, g.busiest[i].end)
		}
	}
	return ends
}

// sweep drops the events of clients that have none in the longest window at now. It does so once in as many
// events as there are clients, so it costs a few steps for each event.
func (g *gauge) sweep(now int64) {
	if g.sinceSweep++; g.sinceSweep < max(1024, len(g.recent)) {
		return
	}
	g.sinceSweep = 0
	for i, r := range g.recent {
		if r != nil && r.events[len(r.events)-1].isOutside(now, g.windows[len(g.windows)-1]) {
			g.recent[i] = nil
		}
	}
}

// isOutside reports whether e is as old as the window at now.
func (e event) isOutside(now, window int64) bool {
	return uint64(now)-uint64(e.at) >= uint64(window) // they are at most 64 bits apart
}

// append adds an event for which each trailing window has been told.
func (r *recent) append(e event) {
	if last := len(r.events) - 1; last >= 0 && r.events[last].at == e.at {
		r.events[last].units += e.units
		return
	}
	// Once those that have left the longest window are as many as those in it, they are dropped.
	if gone := r.trailing[len(r.trailing)-1].first; 2*gone >= len(r.events) {
		r.events = slices.Delete(r.events, 0, gone)
		for i := range r.trailing {
			r.trailing[i].first -= gone
		}
	}
	r.events = append(r.events, e)
}

// expire drops the events, and the denials of them, that are as old as the window at now.
func (t *trailing) expire(events []event, now, window int64) {
	for t.first < len(events) && events[t.first].isOutside(now, window) {
		t.units -= events[t.first].units
		t.first++
	}
	for len(t.denials) > 0 && t.denials[0].isOutside(now, window) {
		for c := range t.denials[0].by.all() {
			t.denied[c] -= t.denials[0].units
		}
		t.denials = t.denials[1:]
	}
}

// decide returns which candidates deny an event that asks for that many units now. A candidate denies
// it if these, and what the candidate has admitted in the window, are more than its count.
func (t *trailing) decide(units int64) (by candidateSet) {
	for i, count := range candidates {
		admitted := t.units
		if count >= admitted+units {
			break // it has admitted all events of the window, and so have all larger ones
		}
		if i < len(t.denied) {
			admitted -= t.denied[i]
		}
		if units > count-admitted {
			by.add(i)
		}
	}
	return by
}

// deny adds the denials of an event.
func (t *trailing) deny(d denial) {
	for len(t.denied) < d.by.len() {
		t.denied = append(t.denied, 0)
	}
	for c := range d.by.all() {
		t.denied[c] += d.units
	}
	if last := len(t.denials) - 1; last >= 0 && t.denials[last].at == d.at && t.denials[last].by == d.by {
		t.denials[last].units += d.units
		return
	}
	t.denials = append(t.denials, d)
}
