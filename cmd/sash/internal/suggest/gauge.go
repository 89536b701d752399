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
// It keeps what it knows of a client in one place. Of a client with events in the longest window that ends now,
// it keeps these, once for all windows; and for each window, those in it that a candidate denies.
type gauge struct {
	windows  []int64    // in nanoseconds, in ascending order
	least    int64      // that an event asks for, in units
	trailing []trailing // by client, and by window within a client
	events   [][]event  // by client: those in the longest of its trailing windows, and fewer older ones, oldest first
	denied   [][]int64  // events, by window and candidate
	peaks    []peak     // by window

	sinceSweep int // events since idle clients were swept
}

// A trailing is the window of one length that ends at the last event of a client, and the busiest so far.
type trailing struct {
	first   int      // the index of its oldest event
	units   int64    // of all its events
	denials *denials // nil if there are none
	busiest busy
}

// A busy is the units of a busiest window.
type busy struct {
	units int64
	end   int64 // the first instant at which the window held them
}

// A peak is the busiest window of all clients.
type peak struct {
	busy
	client uint32
}

// An event is all units of one instant.
type event struct{ at, units int64 }

// denials are the events of a trailing window that candidates deny.
type denials struct {
	events []denial // oldest first
	units  []int64  // of the events that each candidate denies; as long as there are any
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
	g.grow(int(client) + 1)
	all := g.trailing[int(client)*len(g.windows):][:len(g.windows)]
	asked := max(units, g.least)
	for i := range all {
		t := &all[i]
		t.expire(g.events[client], at, g.windows[i])
		if held := t.units + asked; held > t.busiest.units {
			t.busiest = busy{held, at}
			if held > g.peaks[i].units {
				g.peaks[i] = peak{t.busiest, client}
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
	g.events[client] = appendEvent(g.events[client], event{at, units}, all)
	g.sweep(at)
}

// grow makes room for that many clients.
func (g *gauge) grow(clients int) {
	if missing := clients - len(g.events); missing > 0 {
		g.events = append(g.events, make([][]event, missing)...)
		g.trailing = append(g.trailing, make([]trailing, missing*len(g.windows))...)
	}
}

// appendEvent appends an event of a client, after each of its trailing windows has been told.
func appendEvent(events []event, e event, all []trailing) []event {
	if last := len(events) - 1; last >= 0 && events[last].at == e.at {
		events[last].units += e.units
		return events
	}
	// Once those that have left the longest window are as many as those in it, they are dropped.
	if gone := all[len(all)-1].first; 2*gone >= len(events) {
		events = slices.Delete(events, 0, gone)
		for i := range all {
			all[i].first -= gone
		}
	}
	return append(events, e)
}

// unitsIn returns the units of the busiest window of each client, for the i-th length.
func (g *gauge) unitsIn(i int) []int64 {
	units := make([]int64, len(g.events))
	for client := range units {
		units[client] = g.busiest(client, i).units
	}
	return units
}

// busiest returns the busiest window of a client, for the i-th length.
func (g *gauge) busiest(client, i int) busy { return g.trailing[client*len(g.windows)+i].busiest }

// endsOf returns the ends of the busiest windows with that many units or more, for the i-th length.
func (g *gauge) endsOf(i int, least int64) (ends []int64) {
	for client := range g.events {
		if b := g.busiest(client, i); b.units >= least {
			ends = append(ends, b.end)
		}
	}
	return ends
}

// sweep drops the events of clients that have none in the longest window at now. It does so once in as many
// events as there are clients, so it costs a few steps for each event.
func (g *gauge) sweep(now int64) {
	if g.sinceSweep++; g.sinceSweep < max(1024, len(g.events)) {
		return
	}
	g.sinceSweep = 0
	n := len(g.windows)
	for client, events := range g.events {
		if len(events) > 0 && events[len(events)-1].isOutside(now, g.windows[n-1]) {
			g.events[client] = nil
			for i := range g.trailing[client*n:][:n] {
				t := &g.trailing[client*n+i]
				*t = trailing{busiest: t.busiest}
			}
		}
	}
}

// isOutside reports whether e is as old as the window at now.
func (e event) isOutside(now, window int64) bool {
	return uint64(now)-uint64(e.at) >= uint64(window) // they are at most 64 bits apart
}

// expire drops the events, and the denials of them, that are as old as the window at now.
func (t *trailing) expire(events []event, now, window int64) {
	for t.first < len(events) && events[t.first].isOutside(now, window) {
		t.units -= events[t.first].units
		t.first++
	}
	if t.denials != nil {
		t.denials.expire(now, window)
	}
}

func (d *denials) expire(now, window int64) {
	for len(d.events) > 0 && d.events[0].isOutside(now, window) {
		for c := range d.events[0].by.all() {
			d.units[c] -= d.events[0].units
		}
		d.events = d.events[1:]
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
		if t.denials != nil && i < len(t.denials.units) {
			admitted -= t.denials.units[i]
		}
		if units > count-admitted {
			by.add(i)
		}
	}
	return by
}

// deny adds the denials of an event.
func (t *trailing) deny(e denial) {
	if t.denials == nil {
		t.denials = new(denials)
	}
	d := t.denials
	for len(d.units) < e.by.len() {
		d.units = append(d.units, 0)
	}
	for c := range e.by.all() {
		d.units[c] += e.units
	}
	if last := len(d.events) - 1; last >= 0 && d.events[last].at == e.at && d.events[last].by == e.by {
		d.events[last].units += e.units
		return
	}
	d.events = append(d.events, e)
}
