//go:build schedules

package hashmap

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/schedule"
)

// maxRounds is the highest round that each loop may reach in any schedule.
var maxRounds = map[string]int{"hashMap.lock": 4}

// A history is of one name in a Map: the entries that it has had, nil for none, in order.
// A look-up of the name must return one that it has or had, and none older than the newest
// that any goroutine had seen when the look-up began. The users of a Map rely on no more.
type history struct {
	m    *Map
	name string
	had  []*Entry
	seen int // the index of the newest that a goroutine has seen or stored
}

// store makes e the entry of the name, nil for none.
func (h *history) store(e *Entry) {
	index := len(h.had)
	h.had = append(h.had, e) // look-ups may return it from now on
	h.m.Update(0, h.name, func(*Entry) *Entry { return e })
	h.seen = max(h.seen, index)
}

func (h *history) put()  { schedule.Call(func() { h.store(New(h.name)) }) }
func (h *history) drop() { schedule.Call(func() { h.store(nil) }) }

// load looks the name up. It fails if the result is older than what a goroutine had seen
// before.
func (h *history) load() (err error) {
	seen := -1
	schedule.Call(func() {
		oldest := h.seen
		e := h.m.Load(0, h.name)
		for i := oldest; i < len(h.had) && seen < 0; i++ {
			if h.had[i] == e {
				seen = i
			}
		}
		if seen < 0 {
			err = fmt.Errorf("found %p, want number %d of %p or a later one", e, oldest, h.had)
		}
	})
	h.seen = max(h.seen, seen)
	return err
}

// Every order of the steps of one goroutine that updates, and of one or two that look up.
func TestSchedules_Map(t *testing.T) {
	one := func(string) uint64 { return 0 } // one home bucket, one h2
	others := func(m *Map, n int) {
		for i := range n {
			m.Update(0, strconv.Itoa(i), func(*Entry) *Entry { return New(strconv.Itoa(i)) })
		}
	}
	drop := func(m *Map, names ...int) {
		for _, i := range names {
			m.Update(0, strconv.Itoa(i), func(*Entry) *Entry { return nil })
		}
	}
	for name, c := range map[string]struct {
		before         func(m *Map) // adds entries before the one of the name
		update         func(h *history)
		readers, loads int
		buckets        int // of the other table that it has in the end; 0 for the same table
	}{
		"replaced":                {nil, func(h *history) { h.put() }, 2, 2, 0},
		"removed, added":          {nil, func(h *history) { h.drop(); h.put() }, 2, 1, 0},
		"removed, added, removed": {nil, func(h *history) { h.drop(); h.put(); h.drop() }, 1, 2, 0},
		"another in its slot for a time": {nil, func(h *history) {
			h.drop()
			others(h.m, 1)
			drop(h.m, 0)
			h.put()
		}, 1, 2, 0},
		"while the map grows":                {func(m *Map) { others(m, 2) }, func(h *history) { others(h.m, 4) }, 1, 2, 2},
		"while the map shrinks":              {func(m *Map) { others(m, 8); drop(m, 2, 3, 4, 5, 6, 7) }, func(h *history) { drop(h.m, 0, 1) }, 1, 2, 2},
		"removed while the map grows, added": {func(m *Map) { others(m, 2) }, func(h *history) { h.drop(); others(h.m, 4); h.put() }, 1, 2, 2},
		"far from its home":                  {func(m *Map) { others(m, 9) }, func(h *history) { drop(h.m, 0); h.drop(); h.put() }, 1, 2, 0},
		"back to its home":                   {func(m *Map) { others(m, 8) }, func(h *history) { h.drop(); drop(h.m, 0); h.put() }, 1, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := schedule.Explore(func() schedule.Case {
				h := &history{m: new(Map), name: "k"}
				h.m.Init(NewEmptyTable(one), 0, 0, 0)
				if c.before != nil {
					c.before(h.m)
				}
				h.store(New(h.name))
				before := h.m.table.Load()
				var failed error
				actors := []func(){func() { c.update(h) }}
				for range c.readers {
					actors = append(actors, func() {
						for range c.loads {
							if err := h.load(); err != nil {
								failed = err
							}
						}
					})
				}
				return schedule.Case{Actors: actors, Check: func([]schedule.Step) error {
					if now := h.m.table.Load(); c.buckets == 0 && now != before || c.buckets > 0 && (now == before || len(now.buckets) != c.buckets) {
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
