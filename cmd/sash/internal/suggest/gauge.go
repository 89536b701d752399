package suggest

import "time"

// A gauge measures the busiest window of each client, for windows of one length, and what the
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
// It keeps the number of each client's busiest window, and the events that are still within
// the window: 32 bytes each, and up to twice that while they grow. Events of one instant share
// them, if the same candidates deny them.
type gauge struct {
	window  int64     // in nanoseconds
	least   int64     // that an event asks for, in units
	busiest []int64   // units of the busiest window so far, by client
	ends    []int64   // the first instant at which that window held them, by client
	recent  []*recent // by client; nil for a client without events in the window
	denied  []int64   // events, by candidate

	peak peak // the busiest window of all

	sinceSweep int // events since the recent ones were swept
}

// A peak is the busiest window of all clients.
type peak struct {
	units  int64
	client uint32
	end    int64 // the first instant at which the window held them
}

// recent holds the events of one client in the window that ends at its last event.
type recent struct {
	events []event // oldest first
	units  int64   // of all events
	denied []int64 // units of the events that each candidate denied; as long as there are any
}

// An event has a bit in denied for each candidate whose log has denied it. Several events of one
// instant are one, of all their units, if they have the same bits: they leave the window together.
type event struct {
	at, units int64
	denied    candidateSet
}

// add counts an event of a client. Clients are numbered from 0.
func (g *gauge) add(client uint32, at, units int64) {
	r := g.recentOf(client)
	r.expire(at, g.window)
	asked := max(units, g.least)
	held := r.units + asked // append adds only the units, which later windows hold
	e := event{at: at, units: units, denied: r.decide(asked)}
	r.append(e)
	for i := range e.denied.all() {
		g.denied[i]++
	}
	if held > g.busiest[client] {
		g.busiest[client], g.ends[client] = held, at
	}
	if held > g.peak.units {
		g.peak = peak{held, client, at}
	}
	g.sweep(at)
}

// newGauge returns a gauge of windows of that length. An event asks for no fewer than least units.
func newGauge(window time.Duration, least int64) *gauge {
	return &gauge{window: int64(window), least: least, denied: make([]int64, len(candidates))}
}

func (g *gauge) recentOf(client uint32) *recent {
	for uint32(len(g.busiest)) <= client {
		g.busiest, g.ends, g.recent = append(g.busiest, 0), append(g.ends, 0), append(g.recent, nil)
	}
	if g.recent[client] == nil {
		g.recent[client] = &recent{}
	}
	return g.recent[client]
}

// endsOf returns the ends of the busiest windows with that many units or more.
func (g *gauge) endsOf(least int64) (ends []int64) {
	for client, units := range g.busiest {
		if units >= least {
			ends = append(ends, g.ends[client])
		}
	}
	return ends
}

// sweep drops the events that have left the window at now, of all clients. It does so once in
// as many events as there are clients, so it costs a few steps for each event.
func (g *gauge) sweep(now int64) {
	if g.sinceSweep++; g.sinceSweep < max(1024, len(g.recent)) {
		return
	}
	g.sinceSweep = 0
	for i, r := range g.recent {
		if r == nil {
			continue
		}
		if r.expire(now, g.window); len(r.events) == 0 {
			g.recent[i] = nil
		}
	}
}

// expire drops the events that are as old as the window at now.
func (r *recent) expire(now, window int64) {
	for len(r.events) > 0 && uint64(now)-uint64(r.events[0].at) >= uint64(window) { // at most 64 bits apart
		r.charge(r.events[0], -1)
		r.events = r.events[1:]
	}
}

// decide returns which candidates deny an event that asks for that many units now. A candidate denies
// it if these, and what the candidate has admitted in the window, are more than its count.
func (r *recent) decide(units int64) (denied candidateSet) {
	for i, count := range candidates {
		admitted := r.units
		if count >= admitted+units {
			break // it has admitted all events of the window, and so have all larger ones
		}
		if i < len(r.denied) {
			admitted -= r.denied[i]
		}
		if units > count-admitted {
			denied.add(i)
		}
	}
	return denied
}

// append adds an event that has been decided.
func (r *recent) append(e event) {
	if last := len(r.events) - 1; last >= 0 && r.events[last].at == e.at && r.events[last].denied == e.denied {
		r.events[last].units += e.units
	} else {
		r.events = append(r.events, e)
	}
	for len(r.denied) < e.denied.len() {
		r.denied = append(r.denied, 0)
	}
	r.charge(e, 1)
}

// charge adds the units of e to the sums, or takes them away if times is -1.
func (r *recent) charge(e event, times int64) {
	r.units += times * e.units
	for i := range e.denied.all() {
		r.denied[i] += times * e.units
	}
}
