package schedule

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A memory is a few places that hold small numbers.
type memory [4]int

func (m *memory) load(place int) (value int) {
	Access(unsafe.Pointer(&m[place]), func() Effect {
		value = m[place]
		return Effect{}
	})
	return value
}

func (m *memory) store(place, value int) {
	Access(unsafe.Pointer(&m[place]), func() Effect {
		m[place] = value
		return Effect{Wrote: true}
	})
}

func (m *memory) swap(place, old, new int) (swapped bool) {
	Access(unsafe.Pointer(&m[place]), func() Effect {
		if swapped = m[place] == old; swapped {
			m[place] = new
		}
		return Effect{Wrote: swapped, Lost: !swapped}
	})
	return swapped
}

// A program is the actors that run on a memory. Each returns what it has read.
type program []func(m *memory) int

func called(f func(m *memory) int) func(m *memory) int {
	return func(m *memory) (saw int) {
		Call(func() { saw = f(m) })
		return saw
	}
}

// outcomes explores p. It returns every combination of the actors' results and the
// memory's last contents.
func (p program) outcomes(explore func(func() Case) (Report, error)) (seen map[string]int, r Report, err error) {
	seen = map[string]int{}
	r, err = explore(func() Case {
		m, c, saw := new(memory), Case{}, make([]int, len(p))
		for i, f := range p {
			c.Actors = append(c.Actors, func() { saw[i] = f(m) })
		}
		c.Check = func([]Step) error {
			seen[fmt.Sprint(saw, *m)]++
			return nil
		}
		return c
	})
	return seen, r, err
}

func stores(places ...int) func(m *memory) int {
	return func(m *memory) int {
		for i, place := range places {
			m.store(place, i)
		}
		return 0
	}
}

func TestExploreAll_MakesEverySchedule(t *testing.T) {
	for _, c := range []struct {
		program program
		want    int // the multinomial of the numbers of steps
	}{
		{program{stores(0)}, 1},
		{program{stores(0), stores(1)}, 2},
		{program{stores(0, 1, 2), stores(0, 1, 2)}, 20},
		{program{stores(0, 1), stores(2, 3), stores(0, 3)}, 90},
		{program{stores(0, 0, 0, 0), stores(1, 1, 1, 1), stores(2, 2)}, 3150},
		{program{called(stores(0)), called(stores(1))}, 20},
	} {
		_, r, err := c.program.outcomes(ExploreAll)
		require.NoError(t, err)
		require.Equal(t, c.want, r.Schedules)
		require.Zero(t, r.Redundant)
	}
}

func TestExplore_MakesOneOfEquivalentSchedules(t *testing.T) {
	load := func(places ...int) func(m *memory) int {
		return func(m *memory) (sum int) {
			for _, place := range places {
				sum = 10*sum + m.load(place)
			}
			return sum
		}
	}
	for _, c := range []struct {
		program program
		want    int
	}{
		{program{stores(0, 0, 0), stores(1, 1, 1), stores(2, 2, 2)}, 1},
		{program{load(0, 1, 2), load(2, 1, 0)}, 1},
		{program{stores(1), load(1)}, 2},
		{program{stores(0, 1), load(1)}, 2},
		{program{stores(0), stores(0), stores(0)}, 6},
		{program{stores(0, 1), stores(0, 2)}, 2},
		{program{stores(0), load(0), load(0), load(0)}, 8},
		{program{called(stores(0)), called(stores(1))}, 3}, // either ends before the other begins, or neither
		{program{stores(0, 1), load(0, 1)}, 4},             // either load sees either
	} {
		_, r, err := c.program.outcomes(Explore)
		require.NoError(t, err)
		require.Equal(t, c.want, r.Schedules)
	}
}

// lock takes a lock, and waits for it, in the way of an entry's lock.
func (m *memory) lock(place int) {
	for !m.swap(place, 0, 1) {
		Pause(unsafe.Pointer(&m[place]))
	}
}

// Programs with locks, waits and lost swaps have the same outcomes with the reduction as
// without it.
func TestExplore_SeesWhatExploreAllSees(t *testing.T) {
	count := func(m *memory) int { // as decideWord
		for n := 0; ; n++ {
			if old := m.load(0); m.swap(0, old, old+1) {
				return n
			}
		}
	}
	locked := func(m *memory) int {
		m.lock(1)
		was := m.load(0)
		m.store(0, was+1)
		m.store(1, 0)
		return was
	}
	both := func(m *memory) int { // a sequence lock
		for {
			version := m.load(2)
			if version&1 == 1 {
				Pause(unsafe.Pointer(&m[2]))
				continue
			}
			a, b := m.load(0), m.load(3)
			if m.load(2) == version {
				return 10*a + b
			}
		}
	}
	write := func(m *memory) int {
		m.store(2, 1)
		m.store(0, 5)
		m.store(3, 6)
		m.store(2, 2)
		return 0
	}
	torn := func(m *memory) int { return 10*m.load(3) + m.load(0) }
	flag := func(m *memory) int {
		for m.load(3) == 0 {
			Pause(unsafe.Pointer(&m[3]))
		}
		return m.load(0)
	}
	for name, p := range map[string]program{
		"count":            {count, count},
		"three count":      {count, count, count},
		"locked":           {locked, locked},
		"locked and read":  {locked, locked, func(m *memory) int { return m.load(0) }},
		"sequence lock":    {write, both},
		"torn":             {write, torn},
		"torn for two":     {write, torn, func(m *memory) int { return m.load(0) }},
		"flag":             {write, flag},
		"flag and count":   {write, flag, func(m *memory) int { m.store(0, 9); return 0 }},
		"either wakes":     {flag, stores(0, 3, 3), stores(3, 3)},
		"a swap and again": {func(m *memory) int { m.swap(0, 0, 1); m.swap(0, 1, 2); return 0 }, func(m *memory) int { m.swap(0, 1, 3); return m.load(0) }},
	} {
		t.Run(name, func(t *testing.T) {
			want, all, err := p.outcomes(ExploreAll)
			require.NoError(t, err)
			got, reduced, err := p.outcomes(Explore)
			require.NoError(t, err)
			require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
			require.LessOrEqual(t, reduced.Schedules, all.Schedules)
			t.Logf("%d outcomes, %d schedules, and %d redundant, of %d", len(want), reduced.Schedules, reduced.Redundant, all.Schedules)
		})
	}
}

// Of the schedules of random programs, exactly one is run of each equivalence class.
func TestExplore_RunsEachOrderOnce(t *testing.T) {
	contended := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var p program
		for range 2 + rng.IntN(2) {
			var steps []func(m *memory)
			for range 1 + rng.IntN(3) {
				place := rng.IntN(2)
				steps = append(steps, []func(m *memory){
					func(m *memory) { m.load(place) },
					func(m *memory) { m.store(place, 1) },
					func(m *memory) { m.swap(place, 0, 1) },
				}[rng.IntN(3)])
			}
			p = append(p, func(m *memory) int {
				for _, step := range steps {
					step(m)
				}
				return 0
			})
		}
		want, got := map[string]int{}, map[string]int{}
		all, err := p.orders(ExploreAll, want)
		require.NoError(t, err)
		reduced, err := p.orders(Explore, got)
		require.NoError(t, err)
		require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)), "seed %d", seed)
		require.Equal(t, len(got), reduced.Schedules, "seed %d", seed)
		if len(want) > 4 && len(want) < all.Schedules {
			contended++
		}
	}
	require.Greater(t, contended, 100)
}

// orders explores p, and counts its schedules by the order of their dependent steps.
func (p program) orders(explore func(func() Case) (Report, error), count map[string]int) (Report, error) {
	return explore(func() Case {
		m, c := new(memory), Case{}
		for _, f := range p {
			c.Actors = append(c.Actors, func() { f(m) })
		}
		c.Check = func(steps []Step) error {
			x := explorer{steps: steps, choices: make([]choice, len(steps))}
			clocks := make([][]string, len(p))
			for i, s := range steps {
				x.relate(i)
				clock := make([]int, len(p)) // how many steps of each come before
				for j := range i {
					if x.before[i].has(j) {
						clock[steps[j].Actor]++
					}
				}
				clocks[s.Actor] = append(clocks[s.Actor], fmt.Sprint(clock, s.Wrote))
			}
			count[fmt.Sprint(clocks)]++
			return nil
		}
		return c
	})
}

func TestExplore_ReportsWhatGoesWrong(t *testing.T) {
	times := 0
	for want, p := range map[string]program{
		"deadlock": {func(m *memory) int { m.lock(0); m.lock(0); return 0 }},
		"endless": {func(m *memory) int {
			for {
				m.load(0)
			}
		}},
		"actor 1 panics": {stores(0), func(m *memory) int { m.load(0); panic("boo") }},
		"not the same":   {stores(0, 0), func(m *memory) int { times++; m.load(times % 2); return m.load(0) }},
	} {
		_, _, err := p.outcomes(Explore)
		require.ErrorContains(t, err, want)
	}
	_, err := Explore(func() Case {
		m := new(memory)
		return Case{
			Actors: []func(){func() { m.store(0, 1) }, func() { m.store(0, 2) }},
			Check: func([]Step) error {
				if m[0] == 1 {
					return errors.New("the first came last")
				}
				return nil
			},
		}
	})
	require.ErrorContains(t, err, "the first came last, after\n  1 writes")
	require.ErrorContains(t, err, "schedule_test.go:")
}

func TestAccess_OutsideOfActorsIsMadeAtOnce(t *testing.T) {
	var m memory
	_, exploring := Running()
	require.False(t, exploring)
	m.store(0, 5)
	Pause(unsafe.Pointer(&m[0]))
	require.Equal(t, 5, m.load(0))
	require.Zero(t, Made())
}
