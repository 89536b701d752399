package httplimit

import (
	"cmp"
	"strings"

	"github.com/seed-30da4c49/sash/internal/queue"
)

// A waiter is a request that waits instead of being refused. It has a place for each of its policies
// with a Queue. It is in the Queue while it claims everything there. If it is denied in its turn, it claims
// everything of the policies that deny it. Under the others, later waiters may go first.
//
// No waiter starves by that. Once it was overtaken under a policy, it insists there: it keeps its
// turn while only faster policies deny it. A waiter that insists gets what it needs of its slowest
// policy first, keeps that, and so on to the fastest.
type waiter struct {
	queue.Waiter[string]
	stands []stand // of its places
}

// A stand is how a waiter has fared under one policy.
type stand struct {
	*policy
	yielded   bool // whether the policy has admitted the waiter when another one denied it
	overtaken bool // whether the policy has denied it after that
}

// A counted names the places of a Queue that are counted together: all, or with a key those of requests that
// have it under some policy.
type counted struct{ queue, key string }

// newWaiter returns a waiter of takes. number is the Number of the waiter that it replaces; 0: none.
func newWaiter(takes []take, number int64) *waiter {
	w := new(waiter)
	w.Number = number
	keys, clients := make([]string, len(takes)), []string(nil) // under all policies; under those that tell clients apart
	for i := range takes {
		t := &takes[i]
		keys[i] = strings.Clone(t.key)
		if t.body < t.end { // only Everyone has an empty identity
			clients = append(clients, keys[i])
		}
	}
	for i := range takes {
		if t := &takes[i]; t.queues() {
			p := queue.Place[string]{Key: keys[i]}
			p.Bounds = t.policy.bounds(p.Key, clients)
			w.Places, w.stands = append(w.Places, p), append(w.stands, stand{policy: t.policy})
		}
	}
	return w
}

// bounds returns the bounds of a request in the Queue of p, where key is its key under p, and clients are its
// keys under the policies that tell clients apart.
func (p *policy) bounds(key string, clients []string) []queue.Bound {
	bounds := []queue.Bound{{Of: counted{queue: p.Name}, Most: p.Queue.Requests}}
	if p.Queue.RequestsEach > 0 {
		bounds = append(bounds, queue.Bound{Of: counted{p.Name, key}, Most: p.Queue.RequestsEach})
	}
	perClient := cmp.Or(p.Queue.RequestsPerClient, p.Queue.Requests-p.Queue.Requests/2)
	for _, client := range clients {
		if client != key { // RequestsEach is its bound
			bounds = append(bounds, queue.Bound{Of: counted{p.Name, client}, Most: perClient})
		}
	}
	return bounds
}

// policyAt returns the policy of a place of w; nil if it is Nowhere.
func (w *waiter) policyAt(place int) *policy {
	if place == queue.Nowhere {
		return nil
	}
	return w.stands[place].policy
}

// claims returns what w claims after a denial in its turn.
func (w *waiter) claims(denies func(*policy) bool) []queue.Claim {
	claims := make([]queue.Claim, len(w.stands))
	for i := range w.stands {
		s := &w.stands[i]
		if denies(s.policy) {
			s.overtaken = s.yielded
		} else if s.yielded = true; !w.insists(s, denies) {
			continue
		}
		claims[i].Units = queue.Everything
	}
	return claims
}

// insists reports whether w holds up others under the policy of s, which admits it: it was overtaken there,
// and only faster policies deny it.
func (w *waiter) insists(s *stand, denies func(*policy) bool) bool {
	if !s.overtaken {
		return false
	}
	for i := range w.stands {
		if other := w.stands[i].policy; denies(other) && !s.slower(other) {
			return false
		}
	}
	return true
}

// slower orders policies: p comes before other if its windows are longer or, if they are as long,
// it admits less.
func (p *policy) slower(other *policy) bool {
	return cmp.Or(
		cmp.Compare(other.pace.Window, p.pace.Window),
		cmp.Compare(p.pace.Count, other.pace.Count),
		cmp.Compare(p.number, other.number)) < 0
}
