//go:build schedules

package sash

import (
	"strings"

	"github.com/seed-30da4c49/sash/internal/hashmap"
	"github.com/seed-30da4c49/sash/internal/xsync"
)

// shardBits is small here: a sweep makes a step for each shard.
const shardBits = 1

// A shard has the methods of a hashmap.Map. Each look-up and each update is one step, as
// all other goroutines see it. So an exploration does not go through the steps inside a
// map for each case. Package hashmap explores those by themselves.
type shard struct {
	m *xsync.MapOf[string, *hashmap.Entry]
}

func (m *shard) Init(*hashmap.Table, int, int, int) { m.m = xsync.NewMapOf[string, *hashmap.Entry]() }

func (m *shard) Load(_ uint64, name string) *hashmap.Entry {
	e, _ := m.m.Load(name)
	return e
}

// Guess always guesses right.
func (m *shard) Guess(hash uint64, name string) *hashmap.Entry { return m.Load(hash, name) }

func (m *shard) Update(_ uint64, name string, f func(found *hashmap.Entry) (next *hashmap.Entry)) *hashmap.Entry {
	e, _ := m.m.Compute(strings.Clone(name), func(found *hashmap.Entry, _ bool) (*hashmap.Entry, bool) {
		next := f(found)
		return next, next == nil
	})
	return e
}

func (m *shard) Lock(int) { m.m.Hold() }
func (m *shard) Unlock()  { m.m.Release() }

func (m *shard) AppendEntries(buf []*hashmap.Entry) []*hashmap.Entry {
	m.m.Range(func(_ string, e *hashmap.Entry) bool {
		buf = append(buf, e)
		return true
	})
	return buf
}

func (m *shard) Size() int { return m.m.Size() }
