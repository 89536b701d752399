package traffic

import "time"

// A Part is some events of a Traffic. It has their clients alone, and numbers them among themselves. Of its
// Traffic, Events, Clients, Counts, the Span, WholeSeconds and the Key are set: what Read would return if the files
// had no other events.
type Part struct {
	Traffic
	of      *Traffic
	numbers map[uint32]uint32 // by Event.Client of the whole
}

// NewPart returns a part of t without events.
func (t *Traffic) NewPart() *Part {
	return &Part{Traffic{WholeSeconds: true}, t, map[uint32]uint32{}}
}

// Add adds an event of the whole, and returns it with the number that its client has in the part. It can be kept:
// it carries no values. Events are added in the order of time.
func (p *Part) Add(e Event) Event {
	n, known := p.numbers[e.Client]
	if !known {
		n = uint32(len(p.Clients))
		p.numbers[e.Client] = n
		p.Clients, p.Counts = append(p.Clients, p.of.Clients[e.Client]), append(p.Counts, 0)
	}
	e.Client, e.carried = n, nil
	p.count([]Event{e})
	p.WholeSeconds = p.WholeSeconds && e.At%int64(time.Second) == 0
	return e
}

// End returns the traffic of the part, once the whole has been read.
func (p *Part) End() *Traffic {
	p.Key = p.of.Key
	return &p.Traffic
}
