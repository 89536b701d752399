package queue

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A sleeper is a waiter with what it has seen in its latest Begin.
type sleeper struct {
	*Waiter[string]
	begun, trying, behind bool
	at                    int64   // the instant of its latest Begin
	seen                  []int64 // the units that were claimed then, at each of its places
	untold                bool    // whether there was a change since
}

// sleepers are waiters of one Queues, with the claims of all of them.
type sleepers struct {
	Queues[string]
	all []*sleeper
}

// claimed returns the most units of key that any waiter before w claims at now.
func (s *sleepers) claimed(w *sleeper, key string, now int64) (most int64) {
	for _, o := range s.all {
		for i := range o.Places {
			c := o.Places[i].Claim
			before := o.turn().isBefore(w.turn()) && o.Undemanding == w.Undemanding && o.Places[i].Key == key
			if before && (c.Units == Everything || c.From <= now) {
				most = max(most, c.Units)
			}
		}
	}
	return most
}

// hasTurn reports whether w is the first of its group, and no earlier waiter claims Everything of its keys.
func (s *sleepers) hasTurn(w *sleeper) bool {
	for _, o := range s.all {
		if o.Group != "" && o.Group == w.Group && o.Undemanding == w.Undemanding && o.Number < w.Number {
			return false
		}
	}
	return !slices.ContainsFunc(w.Places, func(p Place[string]) bool {
		return s.claimed(w, p.Key, math.MinInt64) == Everything
	})
}

// fault returns what is wrong with w, a waiter that sleeps; "" if nothing is.
func (s *sleepers) fault(w *sleeper) string {
	switch turn := s.hasTurn(w); {
	case w.untold && s.telling == nil:
		return "it was not told of a change, and none is telling"
	case w.behind && turn:
		return "it sleeps without a timer, though it has its turn"
	case w.behind || !turn:
		return ""
	}
	for i := range w.Places {
		p := &w.Places[i]
		if (p.Claim.Units == Everything || p.Claim.Waits) && s.claimed(w, p.Key, w.at) < w.seen[i] {
			return "less is claimed of a key that it waits for"
		}
	}
	return ""
}

// Whatever calls come in whatever order, no waiter sleeps that has its turn, or that is left more at a key
// for which it waits. None stays untold of a change. This looks at the claims alone, and knows nothing of
// lines and wake-ups.
func TestQueues_NoneSleepsThatCouldGoOn(t *testing.T) {
	for seed := range uint64(1000) {
		random := rand.New(rand.NewPCG(seed, 77))
		s, now := &sleepers{}, int64(0)
		for step := range 150 {
			now += random.Int64N(3)
			what := s.step(random, now)
			for _, w := range s.all {
				if w.begun && !w.trying && len(w.wake) == 0 {
					require.Empty(t, s.fault(w), "seed %d, step %d: %s, waiter %d", seed, step, what, w.Number)
				}
			}
		}
	}
}

// step makes a random call at now, and returns what it was.
func (s *sleepers) step(random *rand.Rand, now int64) string {
	if len(s.all) == 0 || len(s.all) < 10 && random.IntN(4) == 0 {
		s.enter(random)
		return "Enter"
	}
	w, key := s.all[random.IntN(len(s.all))], fmt.Sprint(random.IntN(3))
	switch random.IntN(10) {
	case 0:
		s.Leave(w.Waiter)
		s.all = slices.DeleteFunc(s.all, func(o *sleeper) bool { return o == w })
		return "Leave"
	case 1:
		for _, o := range s.all {
			o.untold = o.untold || slices.ContainsFunc(o.Places, func(p Place[string]) bool { return p.Key == key })
		}
		s.Change(key)
		return "Change"
	case 2:
		for _, o := range s.all {
			o.untold = true
		}
		s.ChangeAll()
		return "ChangeAll"
	}
	switch {
	case w.trying:
		s.end(w, random, now)
		return "End"
	case len(w.wake) > 0 || !w.begun || random.IntN(4) == 0:
		s.begin(w, now)
		return "Begin"
	}
	return "nothing"
}

func (s *sleepers) enter(random *rand.Rand) {
	keys := random.Perm(3)[:1+random.IntN(3)]
	slices.Sort(keys)
	w := &sleeper{Waiter: &Waiter[string]{Undemanding: random.IntN(5) == 0}}
	if len(keys) > 1 && random.IntN(3) > 0 {
		w.Group = fmt.Sprint(keys)
	} else if random.IntN(2) == 0 {
		w.Yields = random.Int64N(3)
	}
	for _, key := range keys {
		w.Places = append(w.Places, Place[string]{Key: fmt.Sprint(key), Claim: Claim{Units: Everything}})
	}
	s.Enter(w.Waiter)
	s.all = append(s.all, w)
}

func (s *sleepers) begin(w *sleeper, now int64) {
	for len(w.wake) > 0 {
		<-w.Woken()
	}
	turn := s.Begin(w.Waiter, now)
	w.begun, w.trying, w.behind, w.untold, w.at, w.seen = true, turn, !turn, false, now, nil
	for i := range w.Places {
		w.seen = append(w.seen, w.Places[i].Claimed)
	}
	if !turn {
		w.Woken() // it is about to block
	}
}

func (s *sleepers) end(w *sleeper, random *rand.Rand, now int64) {
	claims, units := make([]Claim, len(w.Places)), random.Int64N(4)
	last := random.IntN(len(claims)+1) - 1
	if w.Undemanding {
		units = 0
	}
	for i := range claims {
		claims[i] = Claim{Units: units, From: now + random.Int64N(9) - 4, Waits: last < 0}
		if i == last {
			claims[i] = Claim{Units: Everything}
		}
	}
	s.End(w.Waiter, claims)
	w.trying = false
	w.Woken() // it is about to block
}
