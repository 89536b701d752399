package replay

import (
	"time"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/policies"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/window"
)

// An enforced is what a policy has decided.
type enforced struct {
	of     *policies.Policy
	shadow bool // whether it denies nothing

	admitted, denied, withheld, unidentified, givenBack, near int64

	waiting         int64         // denied requests that would have waited
	waited, longest time.Duration // what they would have waited

	// Units. A request asks for the cost; what it has cost in the end is spent.
	cost, asked, charged, above, back int64

	tallies    tallies
	numbers    map[string]uint32 // of clients, by their identities
	identities []string          // by number
	counts     []int64           // requests, by number
}

func newEnforced(of *policies.Policy, shadow bool) *enforced {
	p := &enforced{of: of, shadow: shadow, cost: 1, tallies: tallies{}, numbers: map[string]uint32{}}
	if of.Cost != nil {
		p.cost = *of.Cost
	}
	return p
}

// decided counts the decision on a request.
func (p *enforced) decided(e *httplimit.Event, at int64) {
	if e.Outcome == httplimit.Unidentified {
		p.unidentified++
		return
	}
	client := p.client(e.Identity)
	p.counts[client]++
	p.asked = window.Plus(p.asked, e.Cost)
	if len(e.Near) > 0 {
		p.near++
	}
	switch e.Outcome {
	case httplimit.Admitted:
		p.admitted++
		p.charged = window.Plus(p.charged, e.Cost)
	case httplimit.Denied:
		p.denied++
		p.tallies.add(client, at)
	case httplimit.Withheld:
		p.withheld++
	}
}

// settled counts a charge that was changed by the response. Requests of a file cost the same.
func (p *enforced) settled(e *httplimit.Event) {
	if len(e.Near) > 0 {
		p.near++
	}
	if e.Outcome == httplimit.GivenBack {
		p.givenBack++
		p.back = window.Plus(p.back, e.Cost)
		return
	}
	p.above = window.Plus(p.above, max(0, e.Cost-p.cost))
	p.back = window.Plus(p.back, max(0, p.cost-e.Cost))
}

// client returns the number of the client of an identity.
func (p *enforced) client(identity string) uint32 {
	n, seen := p.numbers[identity]
	if !seen {
		n = uint32(len(p.identities))
		p.identities = append(p.identities, identity)
		p.counts = append(p.counts, 0)
		p.numbers[identity] = n
	}
	return n
}

// nameOf returns the name of a client.
func (p *enforced) nameOf(client uint32) string { return p.of.Key.NameOf(p.identities[client]) }

// requests returns how many requests the policy has decided.
func (p *enforced) requests() int64 { return p.admitted + p.denied + p.withheld + p.unidentified }
