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
			for bit, t := range trials {
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
