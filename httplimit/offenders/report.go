package offenders

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
)

// A Report is what a [Page] shows.
type Report struct {
	Time     time.Time `json:"time"`      // when it was made
	Since    time.Time `json:"since"`     // the beginning of what it covers
	Denials  int64     `json:"denials"`   // N, of all clients since then
	Size     int       `json:"size"`      // counters for each period
	MaxError int64     `json:"max_error"` // no count is more too high than this, which is at most N/Size
	Clients  []Client  `json:"clients"`   // those denied most come first
}

// A Client is one client that one policy has denied.
type Client struct {
	Policy string `json:"policy"`
	Shadow bool   `json:"shadow,omitempty"` // whether the policy is only tried out, and would have denied it
	Name   string `json:"client"`           // the fingerprint, or what [Page].Name says; always printable
	// Denials is the number of denials. It is never too low, and at most Error too high.
	Denials int64      `json:"denials"`
	Error   int64      `json:"error"`
	Limit   sash.Limit `json:"limit"` // that denied it when it was first counted
	First   time.Time  `json:"first"` // when it was first counted; it may have been denied before
	Last    time.Time  `json:"last"`  // when it was last denied

	unknown bool // whether it is all clients that events do not tell apart
}

// Certain returns the number of denials that c had at least.
func (c Client) Certain() int64 { return c.Denials - c.Error }

// Report returns the clients that are denied most now. It costs some hundred nanoseconds for each
// counter, holds up only denials of clients without a counter, and clears nothing.
//
// Times are by the system's clock, reckoned back from now by the page's Clock.
func (p *Page) Report() Report {
	p.begin.Do(p.start)
	now, wall := p.clock.Now(), time.Now()
	in := p.periodsAt(now)
	tallies := []tally{in.current.tally()}
	if in.previous != nil {
		tallies = append(tallies, in.previous.tally())
	}
	at := func(clock int64) time.Time { return wall.Add(-max(0, time.Duration(now-clock))).Round(0) }
	r := Report{Time: wall.Round(0), Size: p.size(), Clients: []Client{}}
	for _, t := range tallies {
		r.Since = at(t.start)
		r.Denials += t.denials
		r.MaxError += t.unseen
	}
	for _, w := range merge(tallies) {
		r.Clients = append(r.Clients, Client{
			Policy: w.policy, Shadow: w.shadow, Name: w.name(p.Name), Denials: w.count, Error: w.excess,
			Limit: w.limit, First: at(w.firstSeen), Last: at(w.lastSeen),
			unknown: w.identity == "" && w.digest == 0,
		})
	}
	slices.SortFunc(r.Clients, func(a, b Client) int {
		return cmp.Or(cmp.Compare(b.Denials, a.Denials), cmp.Compare(a.Error, b.Error),
			cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Name, b.Name))
	})
	return r
}

// merge returns the rows of all tallies, one for each client. A client that one of them does not
// name may have been denied there, too, as often as a client that is not seen: that is added to
// its count, and to its excess. So the sums keep the bounds of the parts.
func merge(tallies []tally) (rows []row) {
	index := make(map[client]int)
	var unseen int64 // of all tallies before the current one
	for _, t := range tallies {
		for i := range rows {
			rows[i].count += t.unseen
			rows[i].excess += t.unseen
		}
		for _, w := range t.rows {
			i, known := index[w.client]
			if !known {
				index[w.client] = len(rows)
				w.count += unseen
				w.excess += unseen
				rows = append(rows, w)
				continue
			}
			all := &rows[i]
			all.count += w.count - t.unseen
			all.excess += w.excess - t.unseen
			all.firstSeen = min(all.firstSeen, w.firstSeen)
			all.lastSeen = max(all.lastSeen, w.lastSeen)
		}
		unseen += t.unseen
	}
	return rows
}
