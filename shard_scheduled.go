//go:build schedules

package sash

import (
	"strings"

	"github.com/seed-30da4c49/sash/internal/xsync"
)

// shardBits is small: a sweep takes a step for each shard.
const shardBits = 1

// A shard is a map each of whose look-ups and updates is one step, as those of cells
// are to all who call them: so cases need not go through their steps, too.
type shard struct {
	m *xsync.MapOf[string, *cell]
}

func (m *shard) init(nursery *grid, shard, keys, least int) { m.m = xsync.NewMapOf[string, *cell]() }

func (m *shard) load(k key) *cell {
	c, _ := m.m.Load(k.name)
	return c
}

// guess guesses right.
func (m *shard) guess(k key) *cell { return m.load(k) }

func (m *shard) update(k key, f func(found *cell) (next *cell)) *cell {
	c, _ := m.m.Compute(strings.Clone(k.name), func(found *cell, _ bool) (*cell, bool) {
		next := f(found)
		return next, next == nil
	})
	return c
}

func (m *shard) freeze(int) { m.m.Hold() }
func (m *shard) unfreeze()  { m.m.Release() }

func (m *shard) all(others []*cell) []*cell {
	m.m.Range(func(_ string, c *cell) bool {
		others = append(others, c)
		return true
	})
	return others
}

func (m *shard) size() int { return m.m.Size() }
