package suggest

import (
	"cmp"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// A report is what a recording says about limits.
type report struct {
	heading
	findings
	By []groupingReport `json:"by,omitempty"` // for each -by; its groups have the findings, and the warnings here are about the log
}

// A heading is what was read, and what was asked of it.
type heading struct {
	output.Summary
	Unit       string  `json:"unit"` // of counts: "events", or what an event costs
	Percentile float64 `json:"percentile"`
	Headroom   float64 `json:"headroom"`
}

// findings are what events say about limits.
type findings struct {
	Windows  []windowReport `json:"windows"`
	Buckets  []bucket       `json:"token_buckets,omitempty"` // by rate; none with -cost
	Policy   *together      `json:"policy,omitempty"`        // the suggested limits that are worth having together; none if none is suggested
	Top      []client       `json:"top"`                     // the clients that are furthest above the suggested limits, or the busiest
	Warnings []warning      `json:"warnings"`
	Next     []step         `json:"next"`

	key traffic.Key
}

// A windowReport is about windows of one length. Its numbers are events, or units of cost.
type windowReport struct {
	Window       string      `json:"window"`
	P50          int64       `json:"p50"` // percentiles of each client's busiest window
	P90          int64       `json:"p90"`
	P99          int64       `json:"p99"`
	P999         int64       `json:"p99.9"`
	Max          int64       `json:"max"`
	Busiest      *busiest    `json:"busiest,omitempty"`
	Candidates   []candidate `json:"candidates"` // up to the first that denies no client, and the suggested one
	Suggested    *suggestion `json:"suggested,omitempty"`
	NotSuggested string      `json:"not_suggested,omitempty"` // why no limit is suggested

	window       time.Duration
	distribution distribution
}

// busiest tells whose window is the busiest of all, and when it ended.
type busiest struct {
	Client string    `json:"client"`
	End    time.Time `json:"end"`
}

// A candidate is a limit, and what it would have denied.
type candidate struct {
	Limit        sash.Limit `json:"limit"`
	Clients      int        `json:"clients"` // denied at least once
	ClientsShare float64    `json:"clients_share"`
	Denied       int64      `json:"denied"` // events
	DeniedShare  float64    `json:"denied_share"`
}

// A suggestion is the candidate to choose for one window.
type suggestion struct {
	candidate
	AtPercentile int64  `json:"at_percentile"` // what the busiest window at the percentile holds
	Reason       string `json:"reason"`
}

// together is a policy of several limits.
type together struct {
	Limits       []sash.Limit `json:"limits"`
	Clients      int          `json:"clients"` // denied at least once
	ClientsShare float64      `json:"clients_share"`
}

// A client is one that suggested limits deny, or that is busy.
type client struct {
	Client  string       `json:"client"`
	Events  int64        `json:"events"`
	Share   float64      `json:"share"`   // of all events
	Busiest []int64      `json:"busiest"` // its busiest window, in the order of windows
	Above   []sash.Limit `json:"above"`   // the suggested limits that it exceeds
}

// newReport returns a report on what was read, without findings.
func (o *options) newReport(on *traffic.Traffic) *report {
	return &report{
		heading:  heading{output.Summarize(o.files, on, shownFaults), o.unit(), o.percentile, o.headroom},
		findings: findings{Windows: []windowReport{}, Top: []client{}, Warnings: []warning{}, Next: []step{}},
	}
}

// report returns the results.
func (s *study) report(o *options) *report {
	r := o.newReport(s.on)
	if s.on.Events > 0 {
		r.findings = s.findings(o)
		r.Warnings = append(logWarnings(s.on), r.Warnings...)
	}
	return r
}

// findings returns the results, but for what the log itself says.
func (s *study) findings(o *options) findings {
	f := findings{key: s.on.Key}
	for i := range s.windows {
		f.Windows = append(f.Windows, s.advise(i, o))
	}
	if s.bursts != nil {
		f.Buckets = s.buckets(o)
	}
	if limits := policy(f.Windows); len(limits) > 0 {
		clients := s.touched(f.Windows)
		f.Policy = &together{limits, clients, output.Share(int64(clients), int64(len(s.on.Clients)))}
	}
	f.Top = s.top(f.Windows, o.top)
	f.Warnings = s.warnings(&f, o)
	f.Next = nextSteps(&f, o)
	return f
}

// top returns the n clients that exceed the suggested limits most, and then the busiest. Their names decide
// between equal ones.
func (s *study) top(windows []windowReport, n int) []client {
	order := make([]int, len(s.on.Counts))
	excess := make([]float64, len(s.on.Counts))
	for i := range order {
		order[i], excess[i] = i, s.excess(i, windows)
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(excess[b], excess[a]), cmp.Compare(s.on.Counts[b], s.on.Counts[a]), cmp.Compare(s.on.Clients[a], s.on.Clients[b]))
	})
	clients := []client{}
	for _, i := range order[:min(n, len(order))] {
		clients = append(clients, s.client(i, windows))
	}
	return clients
}

// excess returns how many times a suggested limit the busiest window of a client is, for the
// limit that it exceeds most. It is 0 if the client exceeds none.
func (s *study) excess(client int, windows []windowReport) (times float64) {
	for i := range windows {
		if r, units := windows[i].Suggested, s.gauge.busiest(client, i).units; r != nil && units > r.Limit.Count {
			times = max(times, float64(units)/float64(r.Limit.Count))
		}
	}
	return times
}

func (s *study) client(i int, windows []windowReport) client {
	c := client{Client: s.on.Clients[i], Events: s.on.Counts[i], Share: output.Share(s.on.Counts[i], s.on.Events), Above: []sash.Limit{}}
	for j := range windows {
		units := s.gauge.busiest(i, j).units
		c.Busiest = append(c.Busiest, units)
		if r := windows[j].Suggested; r != nil && units > r.Limit.Count {
			c.Above = append(c.Above, r.Limit)
		}
	}
	return c
}
