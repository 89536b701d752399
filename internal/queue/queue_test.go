package queue

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/race"
)

// A naive is what queues should be, in the plainest way: a list of all waiters.
type naive struct {
	waiters      []*naiveWaiter
	untold, told []*naiveWaiter // in the order in which they are told of changes
	telling      *naiveWaiter
}

type naiveWaiter struct {
	yields      int64
	number      int64
	undemanding bool
	group       string
	places      []naivePlace
	woken       bool
}

type naivePlace struct {
	key     string
	claim   Claim
	units   int64
	bounds  []Bound
	trying  bool
	inForce bool
}

// compare is negative if w goes before other.
func (w *naiveWaiter) compare(other *naiveWaiter) int {
	return cmp.Or(cmp.Compare(w.yields, other.yields), cmp.Compare(w.number, other.number))
}

func (p *naivePlace) all() bool { return p.claim.Units == Everything }

// at returns the place of w at key, or nil.
func (w *naiveWaiter) at(key string) *naivePlace {
	for i := range w.places {
		if w.places[i].key == key {
			return &w.places[i]
		}
	}
	return nil
}

// before returns the places at the key before w.
func (m *naive) before(w *naiveWaiter, key string) (places []*naivePlace) {
	for _, other := range m.waiters {
		if p := other.at(key); p != nil && other.compare(w) < 0 && other.undemanding == w.undemanding {
			places = append(places, p)
		}
	}
	return places
}

// group returns the waiters of the group of w, but for w.
func (m *naive) group(w *naiveWaiter) (others []*naiveWaiter) {
	for _, other := range m.waiters {
		if w.group != "" && other != w && other.group == w.group && other.undemanding == w.undemanding {
			others = append(others, other)
		}
	}
	return others
}

// leads reports whether no earlier waiter is of the group of w.
func (m *naive) leads(w *naiveWaiter) bool {
	return !slices.ContainsFunc(m.group(w), func(other *naiveWaiter) bool { return other.number < w.number })
}

// claimed returns what the waiters before w claim of key at now.
func (m *naive) claimed(w *naiveWaiter, key string, now int64) (most int64) {
	for _, p := range m.before(w, key) {
		p.inForce = p.inForce || p.claim.From <= now
		if p.all() || p.inForce {
			most = max(most, p.claim.Units)
		}
	}
	return most
}

// wake wakes the waiters after w, or all if that is nil, that wait for key, up to the first that claims
// everything of it, but for by.
func (m *naive) wake(key string, undemanding bool, w *naiveWaiter, by int64) {
	for _, other := range m.waiters {
		p := other.at(key)
		if p == nil || w != nil && other.compare(w) <= 0 || other.undemanding != undemanding {
			continue
		}
		if other.number != by {
			other.woken = other.woken || p.trying || p.claim.Waits || p.all()
		}
		if p.all() {
			return
		}
	}
}

// claim sets what w claims of a key. It reports false if there is no room.
func (m *naive) claim(w *naiveWaiter, p *naivePlace, c Claim) bool {
	for _, b := range p.bounds {
		of := 0
		for _, other := range m.waiters {
			for i := range other.places {
				if q := &other.places[i]; q.all() && slices.Contains(q.bounds, b) {
					of++
				}
			}
		}
		if c.Units == Everything && !p.all() && of >= b.Most {
			return false
		}
	}
	old := p.claim
	p.claim, p.trying, p.inForce = c, false, false
	free := !slices.ContainsFunc(m.before(w, p.key), (*naivePlace).all)
	later := old.Units > 0 && c.Units > 0 && !p.all() && c.From > old.From
	if free && (c.Units < old.Units || later) {
		m.wake(p.key, w.undemanding, w, 0)
	}
	return true
}

func (m *naive) leave(w *naiveWaiter) {
	if others := m.group(w); m.leads(w) && len(others) > 0 {
		for i := range others[0].places {
			m.claim(others[0], &others[0].places[i], Claim{Units: Everything})
		}
		others[0].woken = true
	}
	for i := range w.places {
		m.claim(w, &w.places[i], Claim{})
	}
	of := func(other *naiveWaiter) bool { return other == w }
	m.waiters = slices.DeleteFunc(m.waiters, of)
	m.untold, m.told = slices.DeleteFunc(m.untold, of), slices.DeleteFunc(m.told, of)
	m.passOn(w)
}

// change has the waiters told that concerns.
func (m *naive) change(concerns func(*naiveWaiter) bool) {
	var others []*naiveWaiter
	for _, w := range m.told {
		if concerns(w) {
			m.untold = append(m.untold, w)
		} else {
			others = append(others, w)
		}
	}
	m.told = others
	m.tell()
}

func (m *naive) tell() {
	if m.telling == nil && len(m.untold) > 0 {
		m.telling = m.untold[0]
		m.untold, m.told = m.untold[1:], append(m.told, m.telling)
		m.telling.woken = true
	}
}

func (m *naive) passOn(w *naiveWaiter) {
	if m.telling == w {
		m.telling = nil
		m.tell()
	}
}

// begins notes that w looks, and so need not be told.
func (m *naive) begins(w *naiveWaiter) {
	if i := slices.Index(m.untold, w); i >= 0 {
		m.untold, m.told = slices.Delete(m.untold, i, i+1), append(m.told, w)
	}
	m.passOn(w)
}

// A pair is one waiter, and what it should be.
type pair struct {
	*Waiter[string]
	want   *naiveWaiter
	trying bool
}

// A program is a run of random calls on queues, and on what they should be.
type program struct {
	*testing.T
	*rand.Rand
	q     Queues[string]
	m     naive
	pairs []*pair
	gone  []int64 // numbers that may be taken again
	now   int64
}

var names = []string{"a", "b", "c"}

func TestQueues_EqualANaiveReference(t *testing.T) {
	programs := 500
	if testing.Short() || race.Enabled {
		programs = 100
	}
	for seed := range uint64(programs) {
		p := program{T: t, Rand: rand.New(rand.NewPCG(seed, 1))}
		for range 120 {
			p.step()
			p.check(fmt.Sprint("seed ", seed))
		}
		for len(p.pairs) > 0 {
			p.leave(p.pairs[p.IntN(len(p.pairs))])
			p.check(fmt.Sprint("seed ", seed))
		}
		waiters, keys, _ := p.q.Size()
		require.Zero(t, waiters+keys, "seed %d", seed)
	}
}

// step makes one random call.
func (p *program) step() {
	p.now += p.Int64N(4) - 1 // clocks may go back
	if len(p.pairs) == 0 || len(p.pairs) < 12 && p.IntN(4) == 0 {
		p.enter()
		return
	}
	w := p.pairs[p.IntN(len(p.pairs))]
	switch p.IntN(8) {
	case 0:
		p.leave(w)
	case 1:
		key := names[p.IntN(len(names))]
		by := w.Number * p.Int64N(2)
		p.q.Free(key, by)
		p.m.wake(key, false, nil, by)
		p.m.wake(key, true, nil, by)
	case 2:
		p.change()
	default:
		if w.trying {
			p.end(w)
		} else {
			p.begin(w)
		}
	}
}

// change tells the waiters of a key, or all, of a change.
func (p *program) change() {
	if p.IntN(4) == 0 {
		p.q.ChangeAll()
		p.m.change(func(*naiveWaiter) bool { return true })
		return
	}
	key := names[p.IntN(len(names))]
	p.q.Change(key)
	for _, undemanding := range []bool{false, true} { // in the order of each line
		for _, w := range p.m.waiters {
			if w.undemanding == undemanding && w.at(key) != nil {
				p.m.change(func(other *naiveWaiter) bool { return other == w })
			}
		}
	}
}

// enter adds a waiter, now and then with the number of one that has left, or in a group.
func (p *program) enter() {
	w := &Waiter[string]{Undemanding: p.IntN(4) == 0}
	if len(p.gone) > 0 && p.IntN(4) == 0 {
		w.Number, p.gone = p.gone[0], p.gone[1:]
	}
	if p.IntN(3) == 0 {
		w.Yields = p.Int64N(3)
	}
	want := &naiveWaiter{yields: w.Yields, undemanding: w.Undemanding}
	keys := p.Perm(len(names))[:1+p.IntN(len(names))]
	if w.Number == 0 && w.Yields == 0 && p.IntN(2) == 0 {
		w.Group = fmt.Sprint(slices.Sorted(slices.Values(keys)))
		want.group = w.Group
	}
	leads := p.m.leads(&naiveWaiter{number: math.MaxInt64, undemanding: w.Undemanding, group: w.Group})
	for _, i := range keys {
		place := Place[string]{Key: names[i], Units: p.Int64N(3)}
		switch {
		case p.IntN(4) == 0:
			place.Claim.Units = Everything
		case p.IntN(2) == 0 && w.Group == "":
			place.Bounds = []Bound{{names[i], 3}, {len(w.Places), 2 + len(w.Places)}}
		}
		w.Places = append(w.Places, place)
		n := naivePlace{key: place.Key, claim: place.Claim, units: place.Units, bounds: place.Bounds}
		if !leads {
			n.claim = Claim{}
		}
		want.places = append(want.places, n)
	}
	entered := p.q.EnterBelow(w, len(p.pairs)+p.IntN(8)) // now and then there is no room
	require.Equal(p, len(p.pairs)+1 == p.q.Len(), entered)
	if !entered {
		return
	}
	want.number = w.Number
	p.m.waiters, p.m.told = append(p.m.waiters, want), append(p.m.told, want)
	slices.SortFunc(p.m.waiters, (*naiveWaiter).compare)
	p.pairs = append(p.pairs, &pair{Waiter: w, want: want})
}

func (p *program) begin(w *pair) {
	turn, behind, full := true, Nowhere, Nowhere
	var claimed []int64
	p.m.begins(w.want)
	if !p.m.leads(w.want) {
		require.False(p, p.q.Begin(w.Waiter, p.now))
		require.Zero(p, w.Behind)
		return
	}
	for i := range w.want.places {
		claimed = append(claimed, p.m.claimed(w.want, w.want.places[i].key, p.now))
		if claimed[i] == Everything {
			turn, behind = false, i
		}
	}
	for i := range w.want.places {
		place := &w.want.places[i]
		if turn {
			place.trying = true
			continue
		}
		c := Claim{}
		if claimed[i] == Everything {
			c.Units = Everything
		}
		if !p.m.claim(w.want, place, c) {
			behind, full = i, i
			break
		}
	}
	require.Equal(p, turn, p.q.Begin(w.Waiter, p.now))
	require.Equal(p, behind, w.Behind)
	require.Equal(p, full, w.Full)
	for i := range w.Places {
		require.Equal(p, claimed[i], w.Places[i].Claimed)
	}
	if w.trying = turn; full != Nowhere {
		p.leave(w)
	}
}

func (p *program) end(w *pair) {
	claims, full := make([]Claim, len(w.Places)), Nowhere
	for i := range claims {
		switch p.IntN(8) {
		case 0:
			claims[i].Units = Everything
		case 1, 2, 3, 4:
			claims[i] = Claim{Units: p.Int64N(4), From: p.now + p.Int64N(9) - 4, Waits: p.IntN(2) == 0}
		}
	}
	for i := range claims {
		if !p.m.claim(w.want, &w.want.places[i], claims[i]) {
			full = i
			break
		}
	}
	p.q.End(w.Waiter, claims)
	require.Equal(p, full, w.Full)
	if w.trying = false; full != Nowhere {
		p.leave(w)
	}
}

func (p *program) leave(w *pair) {
	p.q.Leave(w.Waiter)
	p.m.leave(w.want)
	p.pairs = slices.DeleteFunc(p.pairs, func(other *pair) bool { return other == w })
	p.gone = append(p.gone, w.Number)
}

// check compares everything that can be asked, and the wake-ups.
func (p *program) check(what string) {
	for _, w := range p.pairs {
		require.Equal(p, w.want.woken, len(w.Woken()) > 0, "%s: whether %d was woken", what, w.Number)
		if p.IntN(3) == 0 && w.want.woken {
			<-w.Woken()
			w.want.woken = false
		}
		for i := range w.Places {
			units := int64(0)
			for _, before := range p.m.before(w.want, w.Places[i].Key) {
				if !before.trying {
					units += before.units
				}
			}
			require.Equal(p, units, p.q.Ahead(&w.Places[i]), what)
		}
	}
	for _, key := range names {
		has, claims, yields := false, false, p.Int64N(3)
		for _, w := range p.m.waiters {
			place := w.at(key)
			has = has || place != nil
			claims = claims || place != nil && place.claim.Units > 0 && !w.undemanding && w.yields <= yields
		}
		require.Equal(p, has, p.q.Has(key), what)
		require.Equal(p, claims, p.q.Claims(key, yields), what)
	}
}

// A crowd waits for a key of its own, and for one that it shares with all. The key that they share
// admits them all. None of them holds up another, and when one leaves, no other is woken.
func TestQueues_AWaiterHoldsUpNoneThatItDoesNotCompeteWith(t *testing.T) {
	var q Queues[string]
	var own []*Waiter[string]
	for i := range 100 {
		w := &Waiter[string]{Places: []Place[string]{{Key: fmt.Sprint(i)}, {Key: "shared"}}}
		q.Enter(w)
		require.True(t, q.Begin(w, 0), "waiter %d", i)
		q.End(w, []Claim{{Units: Everything}, {Units: 1}})
		own = append(own, w)
	}
	// Others come behind each of them at its own key, and are behind none at the shared one.
	for i := range 100 {
		w := &Waiter[string]{Places: []Place[string]{{Key: fmt.Sprint(i), Claim: Claim{Units: Everything}}, {Key: "shared", Claim: Claim{Units: Everything}}}}
		q.Enter(w)
		require.False(t, q.Begin(w, 0))
		require.Zero(t, w.Behind)
		require.Zero(t, w.Places[1].Claim)
	}
	last := &Waiter[string]{Places: []Place[string]{{Key: "shared"}}}
	q.Enter(last)
	require.True(t, q.Begin(last, 0))
	require.EqualValues(t, 1, last.Places[0].Claimed)
	q.End(last, []Claim{{Units: Everything}})

	q.Leave(own[50])
	for i, w := range own {
		require.Empty(t, w.Woken(), "waiter %d", i)
	}
	require.Len(t, last.Woken(), 1, "the key it waits for admits it sooner")
}

// However many wait, in whatever order they come again, each step passes few places.
func TestQueues_TakeFewSteps(t *testing.T) {
	n := 20_000
	if testing.Short() || race.Enabled {
		n = 2000
	}
	var q Queues[int]
	waiters := make([]*Waiter[int], n)
	enter := func(i int) {
		waiters[i] = &Waiter[int]{Number: int64(i + 1), Places: []Place[int]{{Claim: Claim{Units: Everything}}}}
		q.Enter(waiters[i])
	}
	few := 40 * bits.Len(uint(n))
	before := 0
	check := func(what string, calls int) {
		_, _, steps := q.Size()
		require.LessOrEqual(t, steps-before, calls*few, what)
		before = steps
	}
	for i := range n {
		enter(i)
	}
	check("they come", n)
	require.True(t, q.Begin(waiters[0], 0))
	for _, w := range waiters[1:] {
		require.False(t, q.Begin(w, 0))
	}
	check("they begin", n)
	random := rand.New(rand.NewPCG(1, 1))
	for _, i := range random.Perm(n) {
		q.Leave(waiters[i])
		enter(i)
	}
	check("they come again", 2*n)
	woken := 0
	for _, w := range waiters {
		for len(w.Woken()) > 0 {
			<-w.Woken()
			woken++
		}
	}
	for i, w := range waiters {
		require.True(t, q.Begin(w, 0))
		q.Free(0, 0)
		q.Leave(w)
		if i+1 < n {
			require.Len(t, waiters[i+1].Woken(), 1)
		}
		if i+2 < n {
			require.Empty(t, waiters[i+2].Woken())
		}
	}
	check("they go", n)
	for i := range n { // each claims more than those before it, and later
		w := &Waiter[int]{Places: make([]Place[int], 1)}
		q.Enter(w)
		require.True(t, q.Begin(w, int64(i)))
		require.EqualValues(t, i, w.Places[0].Claimed)
		q.End(w, []Claim{{Units: int64(i + 1), From: int64(i + 1)}})
	}
	check("their claims come into force", n)
}

// A crowdTest is waiters that are denied, each by the claims that it then makes.
type crowdTest struct {
	q       Queues[string]
	waiters []*Waiter[string]
	denied  func(i int) []Claim
}

// enter adds n waiters, which have looked once.
func (c *crowdTest) enter(n int, waiter func(i int) *Waiter[string]) {
	for i := range n {
		c.waiters = append(c.waiters, waiter(i))
		c.q.Enter(c.waiters[i])
		c.begin(i)
	}
	c.settle()
}

// settle lets all that are woken look, in their order, until none is. It returns how many looked.
func (c *crowdTest) settle() (woken int) {
	for before := -1; before < woken; {
		before = woken
		for i, w := range c.waiters {
			if len(w.Woken()) > 0 {
				<-w.Woken()
				woken++
				c.begin(i)
			}
		}
	}
	return woken
}

// Whatever 10,000 waiters wait for, units that are free again wake few of them, and each that leaves
// wakes the next.
func TestQueues_AUnitWakesFewHoweverManyWait(t *testing.T) {
	n := 10_000
	if testing.Short() || race.Enabled {
		n = 1000
	}
	all, one := Claim{Units: Everything}, Claim{Units: 1}
	place := func(key string) Place[string] { return Place[string]{Key: key, Claim: all} }
	last := 0 // the place that denies the first of the waiters
	for name, c := range map[string]*struct {
		crowdTest
		waiter       func(i int) *Waiter[string]
		woken, leave int
	}{
		"one key": {crowdTest{denied: func(int) []Claim { return []Claim{all} }},
			func(int) *Waiter[string] { return &Waiter[string]{Places: []Place[string]{place("a")}} }, 1, 1},
		"no units of one key": {crowdTest{denied: func(int) []Claim { return []Claim{all} }},
			func(int) *Waiter[string] {
				return &Waiter[string]{Undemanding: true, Places: []Place[string]{place("a")}}
			}, 1, 1},
		"the same keys": {crowdTest{denied: func(int) []Claim { return [][]Claim{{all, one}, {one, all}}[last] }},
			func(int) *Waiter[string] {
				return &Waiter[string]{Group: "ab", Places: []Place[string]{place("a"), place("b")}}
			}, 1, 1},
		"a key of its own, which denies it": {crowdTest{denied: func(int) []Claim { return []Claim{one, all} }},
			func(i int) *Waiter[string] {
				return &Waiter[string]{Places: []Place[string]{place("a"), place(fmt.Sprint(i))}}
			}, 0, 0},
		"a key of its own, which admits it": {crowdTest{denied: func(int) []Claim { return []Claim{all, one} }},
			func(i int) *Waiter[string] {
				return &Waiter[string]{Places: []Place[string]{place("a"), place(fmt.Sprint(i))}}
			}, 1, 1},
	} {
		last = 0
		c.enter(n, c.waiter)
		for range 3 {
			last = 1 - last
			c.q.Free("a", 0)
			c.q.Free("b", 0)
			require.Equal(t, c.woken, c.settle(), "%s: a unit is free again", name)
		}
		for range 10 {
			c.q.Leave(c.waiters[0])
			c.waiters = c.waiters[1:]
			require.Equal(t, c.leave, c.settle(), "%s: the first leaves", name)
		}
		for _, w := range c.waiters {
			c.q.Leave(w)
		}
		waiters, keys, _ := c.q.Size()
		require.Zero(t, waiters+keys, name)
	}
}

// Each waiter is told of a change, and no two are awake for that at one time. Some look or leave before,
// some leave instead of looking, and another change comes before all have been told of the first.
func TestQueues_TellAllOfAChangeOneAfterTheOther(t *testing.T) {
	const n, keys = 100, 7
	for round := range 30 {
		random := rand.New(rand.NewPCG(uint64(round), 3))
		c := crowdTest{denied: func(int) []Claim { return []Claim{{}} }}
		c.enter(n, func(i int) *Waiter[string] {
			return &Waiter[string]{Places: []Place[string]{{Key: fmt.Sprint(i % keys)}}}
		})
		concerned, looked, left := make([]bool, n), make([]bool, n), make([]bool, n)
		change := func() {
			key := random.IntN(2 * keys)
			if key < keys {
				c.q.Change(fmt.Sprint(key))
			} else {
				c.q.ChangeAll()
			}
			for i := range n {
				if !left[i] && (key >= keys || i%keys == key) {
					concerned[i], looked[i] = true, false
				}
			}
		}
		goOn := func(i int) {
			switch looked[i] = true; {
			case left[i]:
			case random.IntN(8) == 0:
				left[i] = true
				c.q.Leave(c.waiters[i])
			default:
				c.begin(i)
			}
		}
		change()
		for again := random.IntN(n / keys); ; again-- {
			if again == 0 {
				change()
			}
			var awake []int
			for i, w := range c.waiters {
				if len(w.Woken()) > 0 && !left[i] && !looked[i] {
					awake = append(awake, i)
				}
			}
			if len(awake) == 0 {
				break
			}
			require.Len(t, awake, 1)
			if random.IntN(4) == 0 {
				goOn(random.IntN(n)) // its time has come
			} else {
				<-c.waiters[awake[0]].Woken()
				goOn(awake[0])
			}
		}
		for i := range n {
			require.True(t, looked[i] || !concerned[i], "waiter %d is not told", i)
		}
	}
}

// begin lets waiter i look.
func (c *crowdTest) begin(i int) {
	if c.q.Begin(c.waiters[i], 0) {
		c.q.End(c.waiters[i], c.denied(i))
	}
}

// Waiters with random keys try at once, and some give up. All the others have their turn, and no two
// that share a key that they claim have it at one time.
func TestRace_QueuesInAnyOrder(t *testing.T) {
	const callers, calls, keys = 8, 300, 4
	synctest.Test(t, func(t *testing.T) {
		var q Queues[int]
		var held [keys]sync.Mutex
		var done sync.WaitGroup
		for caller := range callers {
			done.Go(func() {
				random := rand.New(rand.NewPCG(uint64(caller), 2))
				for i := range calls {
					w := &Waiter[int]{}
					for _, key := range random.Perm(keys)[:1+random.IntN(3)] {
						w.Places = append(w.Places, Place[int]{Key: key, Claim: Claim{Units: Everything}})
					}
					ctx, cancel := context.WithCancel(t.Context())
					if i%4 == 0 {
						go cancel()
					}
					q.Enter(w)
					turn := q.Begin(w, 0)
					for !turn && w.Block(ctx, nil) == nil {
						turn = q.Begin(w, 0)
					}
					if turn {
						var locked []*sync.Mutex
						for j := range w.Places {
							p := &w.Places[j]
							switch mu := &held[p.Key]; {
							case p.Claim.Units < Everything: // it has given the key up to later ones
							case mu.TryLock():
								locked = append(locked, mu)
							default:
								t.Error("two have their turn at one key")
							}
						}
						time.Sleep(time.Nanosecond) // until no other can go on before this one leaves
						for _, mu := range locked {
							mu.Unlock()
						}
					}
					q.Leave(w)
					cancel()
				}
			})
		}
		done.Wait()
		waiters, left, _ := q.Size()
		require.Zero(t, waiters+left)
	})
}
