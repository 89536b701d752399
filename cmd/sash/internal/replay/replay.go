package replay

import (
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

// A replay is sent the events of a stream, in the order of time.
type replay interface {
	take(on *traffic.Traffic, events []traffic.Event) error
	// report adds what became of them.
	report(on *traffic.Traffic, to *report) error
}

// replay reads the files, and replays them under each limit, or under the policies of a file.
func (o *options) replay(ctx context.Context, stdin io.Reader, stderr io.Writer) ([]report, error) {
	size, err := traffic.CheckFiles(o.files, stdin)
	if err != nil {
		return nil, err
	}
	if err := o.loadPolicies(); err != nil {
		return nil, err
	}
	bar := progress.On(stderr, size, "replaying")
	defer bar.Clear()
	var reports []report
	for _, files := range o.streams() {
		p, err := o.newReplay()
		if err != nil {
			return nil, err
		}
		t, err := traffic.Read(ctx, &o.Settings, files, stdin, bar, p.take)
		if err != nil {
			return nil, err
		}
		r := o.report(files, t)
		if err := p.report(t, &r); err != nil {
			return nil, err
		}
		reports = append(reports, r)
	}
	return reports, nil
}

func (o *options) newReplay() (replay, error) {
	if o.file != nil {
		return o.newEnforcement()
	}
	return o.newTrials()
}

// streams returns the files of each replay.
func (o *options) streams() [][]string {
	if !o.each {
		return [][]string{o.files}
	}
	return slices.Collect(slices.Chunk(o.files, 1))
}

// trials replay traffic under each policy.
type trials struct {
	*options
	all []*trial
}

func (o *options) newTrials() (*trials, error) {
	all := &trials{options: o}
	for _, p := range o.alternatives() {
		t, err := o.newTrial(p)
		if err != nil {
			return nil, err
		}
		all.all = append(all.all, t)
	}
	return all, nil
}

// take replays events under each policy. The trials share nothing but what they read, so they run
// at the same time.
func (all *trials) take(on *traffic.Traffic, events []traffic.Event) error {
	var running sync.WaitGroup
	for _, t := range all.all {
		running.Go(func() { t.run(on.Clients, events) })
	}
	running.Wait()
	return nil
}

// report adds the results. There are none without events.
func (all *trials) report(on *traffic.Traffic, to *report) error {
	to.Limits = []verdict{}
	for _, t := range all.all {
		if on.Events > 0 {
			to.Limits = append(to.Limits, t.verdict(on, all.options))
		}
	}
	return nil
}

// A trial replays traffic under one policy, and also under the exact limits in its place.
// Each limiter has its own history.
type trial struct {
	policy  policy
	clock   *sash.ManualClock
	chosen  *sash.Limiter
	exact   *sash.Limiter // nil if chosen is exact itself
	sweeper sweeper

	settle  time.Duration         // from a reservation to its settlement
	pending *pending[reservation] // nil if the cost of an event is known when it is decided
	ledger  *ledger               // nil if events have no costs

	denied, exactDenied, wronglyAdmitted, wronglyDenied int64

	decided []int64 // denials by the limit that decided
	tallies tallies
}

// A reservation is one that is to be settled to the actual cost.
type reservation struct {
	sash.Reservation
	cost int64
}

func (o *options) newTrial(p policy) (*trial, error) {
	t := &trial{policy: p, clock: sash.NewManualClock(0), decided: make([]int64, len(p)), tallies: tallies{}}
	if o.Estimate != nil {
		t.settle = o.settle
		t.pending = &pending[reservation]{settle: func(r reservation) { r.Commit(r.cost) }}
	}
	if o.Cost != nil {
		t.ledger = newLedger(p)
	}
	var err error
	if t.chosen, err = p.limiter(t.clock); err != nil {
		return nil, err
	}
	t.sweeper.limiters = []*sash.Limiter{t.chosen}
	if !p.exact() {
		if t.exact, err = p.exactly().limiter(t.clock); err != nil {
			return nil, err
		}
		t.sweeper.limiters = append(t.sweeper.limiters, t.exact)
	}
	return t, nil
}

// run replays events of these clients.
func (t *trial) run(clients []string, events []traffic.Event) {
	for _, e := range events {
		t.take(e, clients[e.Client])
	}
	t.sweeper.count(len(events), len(clients))
}

// take replays one event.
func (t *trial) take(e traffic.Event, name string) {
	if t.pending != nil {
		// Costs that were known before the event are settled at their own instants, which sets the clock.
		t.pending.settleBy(e.At, t.clock)
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
		t.tallies.add(e.Client, e.At)
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
		t.pending.add(e.At, int64(t.settle), reservation{r, e.Cost})
	}
	return d
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
		Top:             t.tallies.top(o.top, func(c uint32) string { return on.Clients[c] }, on.Counts),
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
