//go:build schedules

package sash

import (
	"strings"

	"github.com/seed-30da4c49/sash/internal/xsync"
)

// A sweep takes a step for each shard.
const shardBits = 1

// A cells is a map whose look-ups and updates are steps, each of them one: what
// cells.go promises.
type cells struct {
	m *xsync.MapOf[string, *cell]
}

type nursery struct{}

func newNursery(func(name string) uint64) nursery { return nursery{} }

func (m *cells) init(nursery, int) { m.m = xsync.NewMapOf[string, *cell]() }

func (m *cells) load(k key) *cell {
	c, _ := m.m.Load(k.name)
	return c
}

func (m *cells) update(k key, f func(found *cell) (next *cell)) *cell {
	c, _ := m.m.Compute(strings.Clone(k.name), func(found *cell, _ bool) (*cell, bool) {
		next := f(found)
		return next, next == nil
	})
	return c
}

func (m *cells) all(others []*cell) []*cell {
	m.m.Range(func(_ string, c *cell) bool {
		others = append(others, c)
		return true
	})
	return others
}

func (m *cells) size() int { return m.m.Size() }
