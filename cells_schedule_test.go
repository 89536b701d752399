//go:build schedules

package sash

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/schedule"
)

// A life is of one key in a cells: the cells that it has had, nil for none, in order.
// Who looks for it meets one that it has or had, and none from before what anybody
// had met when the look began. That is all that those who call a cells rely on.
type life struct {
	m   *cells
	k   key
	had []*cell
	met int // the number of the newest that somebody has met, or put there
}

// become makes c the cell of the key, nil for none.
func (l *life) become(c *cell) {
	number := len(l.had)
	l.had = append(l.had, c) // it may be met from now on
	l.m.update(l.k, func(*cell) *cell { return c })
	l.met = max(l.met, number)
}

func (l *life) put()  { schedule.Call(func() { l.become(newCounter(l.k.name)) }) }
func (l *life) drop() { schedule.Call(func() { l.become(nil) }) }

// look fails if it meets what the key had before what somebody had met already.
func (l *life) look() (err error) {
	met := -1
	schedule.Call(func() {
		least := l.met
		c := l.m.load(l.k)
		for i := least; i < len(l.had) && met < 0; i++ {
			if l.had[i] == c {
				met = i
			}
		}
		if met < 0 {
			err = fmt.Errorf("met %p, where number %d of %p or a later one was to be met", c, least, l.had)
		}
	})
	l.met = max(l.met, met)
	return err
}

// Every order of the steps of one who writes, and one or two who look.
func TestSchedules_Cells(t *testing.T) {
	one := func(string) uint64 { return 0 } // one home, one tag
	others := func(m *cells, n int) {
		for i := range n {
			m.update(key{0, strconv.Itoa(i)}, func(*cell) *cell { return newCounter(strconv.Itoa(i)) })
		}
	}
	drop := func(m *cells, some ...int) {
		for _, i := range some {
			m.update(key{0, strconv.Itoa(i)}, func(*cell) *cell { return nil })
		}
	}
	for name, c := range map[string]struct {
		before         func(m *cells) // what is there before the key
		write          func(l *life)
		lookers, looks int
		grids          int // of how many buckets it has another, in the end; 0 for the same
	}{
		"another in its place": {nil, func(l *life) { l.put() }, 2, 2, 0},
		"gone and back":        {nil, func(l *life) { l.drop(); l.put() }, 2, 1, 0},
		"gone, back and gone":  {nil, func(l *life) { l.drop(); l.put(); l.drop() }, 1, 2, 0},
		"another in its place, which leaves": {nil, func(l *life) {
			l.drop()
			others(l.m, 1)
			drop(l.m, 0)
			l.put()
		}, 1, 2, 0},
		"while its map grows":                {func(m *cells) { others(m, 2) }, func(l *life) { others(l.m, 4) }, 1, 2, 2},
		"while its map shrinks":              {func(m *cells) { others(m, 8); drop(m, 2, 3, 4, 5, 6, 7) }, func(l *life) { drop(l.m, 0, 1) }, 1, 2, 2},
		"gone while its map grows, and back": {func(m *cells) { others(m, 2) }, func(l *life) { l.drop(); others(l.m, 4); l.put() }, 1, 2, 2},
		"far from its home":                  {func(m *cells) { others(m, 9) }, func(l *life) { drop(l.m, 0); l.drop(); l.put() }, 1, 2, 0},
		"back to its home":                   {func(m *cells) { others(m, 8) }, func(l *life) { l.drop(); drop(l.m, 0); l.put() }, 1, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := schedule.Explore(func() schedule.Case {
				l := &life{m: new(cells), k: key{0, "k"}}
				l.m.init(newNursery(one), 0, 0, 0)
				if c.before != nil {
					c.before(l.m)
				}
				l.become(newCounter(l.k.name))
				before := l.m.grid.Load()
				var failed error
				actors := []func(){func() { c.write(l) }}
				for range c.lookers {
					actors = append(actors, func() {
						for range c.looks {
							if err := l.look(); err != nil {
								failed = err
							}
						}
					})
				}
				return schedule.Case{Actors: actors, Check: func([]schedule.Step) error {
					if now := l.m.grid.Load(); c.grids == 0 && now != before || c.grids > 0 && (now == before || len(now.buckets) != c.grids) {
						return fmt.Errorf("it has %d buckets, of %d before", len(now.buckets), len(before.buckets))
					}
					return failed
				}}
			})
			t.Logf("%d schedules, %d redundant, longest %d, %d steps", r.Schedules, r.Redundant, r.Longest, r.Steps)
			require.NoError(t, err)
			require.Greater(t, r.Schedules, 10, "hardly any explored: this test has shown nothing")
		})
	}
}
