package replay

import (
	"cmp"
	"context"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
	"github.com/seed-30da4c49/sash/internal/progress"
)

// replay reads the files, and replays them under each policy.
func (o *options) replay(ctx context.Context, stdin io.Reader, stderr io.Writer) ([]report, error) {
	size, err := traffic.CheckFiles(o.files, stdin)
	if err != nil {
		return nil, err
	}
	bar := progress.On(stderr, size, "replaying")
	defer bar.Clear()
	var reports []report
	for _, files := range o.streams() {
		trials, err := o.newTrials()
		if err != nil {
			return nil, err
		}
		t, err := traffic.Read(ctx, &o.Settings, files, stdin, bar, trials.take)
		if err != nil {
			return nil, err
		}
		reports = append(reports, o.report(files, t, trials.verdicts(t, o)))
	}
	return reports, nil
}

// streams returns the files of each replay.
func (o *options) streams() [][]string {
	if !o.each {
		return [][]string{o.files}
	}
	return slices.Collect(slices.Chunk(o.files, 1))
}

// trials replay traffic under each policy.
type trials []*trial

func (o *options) newTrials() (all trials, err error) {
	for _, p := range o.policies() {
		t, err := o.newTrial(p)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// take replays events under each policy. The trials share nothing but what they read, so they run
// at the same time.
func (all trials) take(on *traffic.Traffic, events []traffic.Event) error {
	var running sync.WaitGroup
	for _, t := range all {
		running.Go(func() { t.run(on.Clients, events) })
	}
	running.Wait()
	return nil
}

// verdicts returns the results. There are none without events.
func (all trials) verdicts(on *traffic.Traffic, o *options) []verdict {
	verdicts := []verdict{}
	for _, t := range all {
		if on.Events > 0 {
			verdicts = append(verdicts, t.verdict(on, o))
		}
	}
	return verdicts
}

// A trial replays traffic under one policy, and also under the exact limits in its place.
// Each limiter has its own history.
type trial struct {
	policy  policy
	clock   *sash.ManualClock
	chosen  *sash.Limiter
	exact   *sash.Limiter // nil if chosen is exact itself
	sweepIn int           // events until the next sweep

	pending *pending // nil if the cost of an event is known when it is decided
	ledger  *ledger  // nil if events have no costs

	denied, exactDenied, wronglyAdmitted, wronglyDenied int64

	decided []int64           // denials by the limit that decided
	tallies map[uint32]*tally // clients denied at least once
}

func (o *options) newTrial(p policy) (*trial, error) {
	t := &trial{policy: p, clock: sash.NewManualClock(0), decided: make([]int64, len(p)), tallies: make(map[uint32]*tally)}
	if o.Estimate != nil {
		t.pending = &pending{wait: o.settle}
	}
	if o.Cost != nil {
		t.ledger = newLedger(p)
	}
	var err error
	if t.chosen, err = p.limiter(t.clock); err != nil {
		return nil, err
	}
	if !p.exact() {
		t.exact, err = p.exactly().limiter(t.clock)
	}
	return t, err
}

// run replays events of these clients.
func (t *trial) run(clients []string, events []traffic.Event) {
	for _, e := range events {
		t.take(e, clients[e.Client])
	}
	t.sweep(len(events))
}

// take replays one event.
func (t *trial) take(e traffic.Event, name string) {
	if t.pending != nil {
		// Costs that were known before the event are settled at their own instants, which sets the clock.
		t.pending.settle(e.At, t.clock)
	}
	t.clock.Set(e.At)
	d := t.decide(t.chosen, e, name)
	right := d.Allowed
	if t.exact != nil {
		right = t.decide(t.exact, e, name).Allowed
	}
	if t.ledger != nil {
		t.ledger.add(e, d.Allowed)
	}
	if !d.Allowed {
		t.denied++
		t.decided[slices.Index(t.policy, d.Limit)]++
		t.tally(e)
	}
	switch {
	case !right && d.Allowed:
		t.wronglyAdmitted++
	case right && !d.Allowed:
		t.wronglyDenied++
	}
	if !right {
		t.exactDenied++
	}
}

// decide takes the units that e asks for from l. If the cost may differ, it reserves them.
func (t *trial) decide(l *sash.Limiter, e traffic.Event, name string) sash.Decision {
	if t.pending == nil {
		return l.Take(name, e.Asked)
	}
	r, d := l.Reserve(name, e.Asked)
	if d.Allowed {
		t.pending.add(e.At, r, e.Cost)
	}
	return d
}

// sweep evicts idle clients from time to time, so that a long replay needs memory only for
// the others. It changes no answer. The number of events between two sweeps is the number of
// clients left by the first, so a sweep costs a constant time for each event.
func (t *trial) sweep(events int) {
	if t.sweepIn -= events; t.sweepIn > 0 {
		return
	}
	t.chosen.Sweep()
	t.sweepIn = max(leastSweep, t.chosen.Len())
	if t.exact != nil {
		t.exact.Sweep()
		t.sweepIn = max(t.sweepIn, t.exact.Len())
	}
}

// leastSweep is the least number of events between two sweeps.
const leastSweep = 1 << 14

// A tally counts the denials of one client under one policy.
type tally struct {
	denied      int64
	first, last int64 // times of the first and last denial

	minute, inMinute   int64 // the minute of the last denial, and denials in it
	busiest, inBusiest int64 // the minute of the most denials so far
}

func (t *trial) tally(e traffic.Event) {
	c := t.tallies[e.Client]
	if c == nil {
		c = &tally{first: e.At}
		t.tallies[e.Client] = c
	}
	c.denied++
	c.last = e.At
	minute := traffic.Instant(e.At).Truncate(time.Minute).Unix()
	if minute != c.minute {
		c.minute, c.inMinute = minute, 0
	}
	if c.inMinute++; c.inMinute > c.inBusiest {
		c.busiest, c.inBusiest = minute, c.inMinute
	}
}

// verdict returns the result of a trial.
func (t *trial) verdict(on *traffic.Traffic, o *options) verdict {
	events := on.Events
	v := verdict{
		Denied:          t.denied,
		DeniedShare:     output.Share(t.denied, events),
		DeniedClients:   len(t.tallies),
		Exact:           t.exact == nil,
		ExactDenied:     t.exactDenied,
		WronglyAdmitted: t.wronglyAdmitted,
		WronglyDenied:   t.wronglyDenied,
		ErrorShare:      output.Share(t.wronglyAdmitted+t.wronglyDenied, events),
		Top:             t.top(on, o.top),
	}
	if o.together {
		v.Together = t.decisions()
	} else {
		v.Limit = t.policy[0]
	}
	if t.ledger != nil {
		v.Units = t.ledger.account(on)
	}
	return v
}

// decisions returns how many denials each limit decided.
func (t *trial) decisions() (all []decision) {
	for i, l := range t.policy {
		all = append(all, decision{l, t.decided[i], output.Share(t.decided[i], t.denied)})
	}
	return all
}

// top returns the n clients denied most. Of equals, the one denied first comes first.
func (t *trial) top(on *traffic.Traffic, n int) []denials {
	clients := make([]uint32, 0, len(t.tallies))
	for c := range t.tallies {
		clients = append(clients, c)
	}
	// Clients are numbered in the order in which they appear, so the order is the same at each run.
	slices.SortFunc(clients, func(a, b uint32) int {
		x, y := t.tallies[a], t.tallies[b]
		return cmp.Or(cmp.Compare(y.denied, x.denied), cmp.Compare(x.first, y.first), cmp.Compare(a, b))
	})
	clients = clients[:min(n, len(clients))]
	top := []denials{}
	for _, c := range clients {
		top = append(top, t.tallies[c].denials(on.Clients[c], on.Counts[c]))
	}
	return top
}

func (c *tally) denials(name string, events int64) denials {
	return denials{
		Client:        name,
		Events:        events,
		Denied:        c.denied,
		First:         traffic.Instant(c.first),
		Last:          traffic.Instant(c.last),
		BusiestMinute: time.Unix(c.busiest, 0).UTC(),
		InBusiest:     c.inBusiest,
	}
}
