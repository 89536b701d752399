package replay

import (
	"context"
	"io"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// A Decided is an event, and which policies have denied it: a bit for each, in their order.
type Decided struct {
	At, Cost int64
	Client   string
	Denied   uint64
}

// Decide replays what Run would replay with these arguments, and returns every event, in the order
// in which it was decided.
func Decide(ctx context.Context, args []string, stdin io.Reader) (all []Decided, err error) {
	o, err := parseArgs(args)
	if err != nil {
		return nil, err
	}
	trials, err := o.newTrials()
	if err != nil {
		return nil, err
	}
	_, err = traffic.Read(ctx, &o.Settings, o.files, stdin, io.Discard, func(on *traffic.Traffic, events []traffic.Event) error {
		for i, e := range events {
			d := Decided{At: e.At, Cost: e.Cost, Client: on.Clients[e.Client]}
			for bit, t := range trials.all {
				before := t.denied
				t.run(on.Clients, events[i:i+1])
				d.Denied |= uint64(t.denied-before) << bit
			}
			all = append(all, d)
		}
		return nil
	})
	return all, err
}

// Enforced is what became of an event under -policy.
type Enforced struct {
	At      int64
	Outcome string // admitted, denied, unidentified, no request, or no route
}

// Enforce is Decide for arguments with -policy: it replays what Run would replay, and returns what
// became of every event, in the order in which it was decided.
func Enforce(ctx context.Context, args []string, stdin io.Reader) (all []Enforced, err error) {
	o, err := parseArgs(args)
	if err != nil {
		return nil, err
	}
	if err := o.loadPolicies(); err != nil {
		return nil, err
	}
	e, err := o.newEnforcement()
	if err != nil {
		return nil, err
	}
	_, err = traffic.Read(ctx, &o.Settings, o.files, stdin, io.Discard, func(_ *traffic.Traffic, events []traffic.Event) error {
		for i := range events {
			before := *e
			if err := e.decide(&events[i]); err != nil {
				return err
			}
			outcome := "admitted"
			switch {
			case e.denied > before.denied:
				outcome = "denied"
			case e.unidentified > before.unidentified:
				outcome = "unidentified"
			case e.noRequest > before.noRequest:
				outcome = "no request"
			case e.noRoute > before.noRoute:
				outcome = "no route"
			}
			all = append(all, Enforced{events[i].At, outcome})
		}
		return nil
	})
	return all, err
}
