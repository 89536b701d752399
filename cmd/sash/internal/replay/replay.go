package replay

import (
	"cmp"
	"context"
	"io"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/progress"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// replay reads the files, and replays them under each policy.
func (o *options) replay(ctx context.Context, stdin io.Reader, p progress.Drawer) ([]report, error) {
	if _, err := traffic.CheckFiles(o.files); err != nil {
		return nil, err
	}
	var reports []report
	for _, files := range o.streams() {
		t, err := o.read(ctx, files, stdin, p)
		if err != nil {
			return nil, err
		}
		verdicts, err := o.judge(ctx, t, p)
		if err != nil {
			return nil, err
		}
		reports = append(reports, o.report(files, t, verdicts))
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

func (o *options) read(ctx context.Context, files []string, stdin io.Reader, p progress.Drawer) (*traffic.Traffic, error) {
	return traffic.Read(ctx, files, stdin, o.key, o.columns, p)
}

// judge replays t under each policy.
func (o *options) judge(ctx context.Context, t *traffic.Traffic, p progress.Drawer) ([]verdict, error) {
	verdicts := []verdict{}
	if len(t.Events) == 0 {
		return verdicts, nil
	}
	policies := o.policies()
	bar := p.Events(int64(len(t.Events)*len(policies)), "replaying")
	defer bar.End()
	for _, policy := range policies {
		r, err := o.newTrial(policy)
		if err != nil {
			return nil, err
		}
		if err := r.run(ctx, t, bar); err != nil {
			return nil, err
		}
		verdicts = append(verdicts, r.verdict(t, o))
	}
	return verdicts, nil
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
	if o.columns.Estimate != nil {
		t.pending = &pending{wait: o.settle}
	}
	if o.columns.Cost != nil {
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

// batch is the number of events between two checks for an interrupt, and two sweeps.
const batch = 1 << 14

func (t *trial) run(ctx context.Context, on *traffic.Traffic, b progress.Bar) error {
	for events := range slices.Chunk(on.Events, batch) {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, e := range events {
			t.take(e, on.Clients[e.Client], on.Charge(e))
		}
		t.sweep(len(events))
		b.Add(len(events))
	}
	return nil
}

// take replays one event.
func (t *trial) take(e traffic.Event, name string, c traffic.Charge) {
	if t.pending != nil {
		t.pending.settle(e.At, t.clock)
	}
	t.clock.Set(e.At)
	d := t.decide(t.chosen, e, name, c)
	right := d.Allowed
	if t.exact != nil {
		right = t.decide(t.exact, e, name, c).Allowed
	}
	if t.ledger != nil {
		t.ledger.add(e, c, d.Allowed)
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
func (t *trial) decide(l *sash.Limiter, e traffic.Event, name string, c traffic.Charge) sash.Decision {
	if t.pending == nil {
		return l.Take(name, c.Asked)
	}
	r, d := l.Reserve(name, c.Asked)
	if d.Allowed {
		t.pending.add(e.At, r, c.Cost)
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
	t.sweepIn = t.chosen.Len()
	if t.exact != nil {
		t.exact.Sweep()
		t.sweepIn = max(t.sweepIn, t.exact.Len())
	}
}

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
	events := int64(len(on.Events))
	v := verdict{
		Denied:          t.denied,
		DeniedShare:     share(t.denied, events),
		DeniedClients:   len(t.tallies),
		Exact:           t.exact == nil,
		ExactDenied:     t.exactDenied,
		WronglyAdmitted: t.wronglyAdmitted,
		WronglyDenied:   t.wronglyDenied,
		ErrorShare:      share(t.wronglyAdmitted+t.wronglyDenied, events),
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
		all = append(all, decision{l, t.decided[i], share(t.decided[i], t.denied)})
	}
	return all
}

// top returns the n clients denied most. Of equals, the one denied first comes first.
func (t *trial) top(on *traffic.Traffic, n int) []denials {
	clients := make([]uint32, 0, len(t.tallies))
	for c := range t.tallies {
		clients = append(clients, c)
	}
	slices.SortFunc(clients, func(a, b uint32) int {
		x, y := t.tallies[a], t.tallies[b]
		return cmp.Or(cmp.Compare(y.denied, x.denied), cmp.Compare(x.first, y.first), cmp.Compare(a, b))
	})
	clients = clients[:min(n, len(clients))]
	events := on.EventsOf(clients)
	top := []denials{}
	for _, c := range clients {
		top = append(top, t.tallies[c].denials(on.Clients[c], events[c]))
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

func share(part, of int64) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}
