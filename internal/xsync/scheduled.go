//go:build schedules

package xsync

import (
	"unsafe"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/seed-30da4c49/sash/internal/schedule"
)

// A MapOf is an xsync.MapOf whose operations are steps. While the function of a
// Compute makes steps, which it does under a lock, nobody else writes, and what it
// returns is put in its place in one more step. That lock is the map's here, and not
// one bucket's: that is the same for one key, and for two keys in two maps.
type MapOf[K comparable, V comparable] struct {
	*xsync.MapOf[K, V]
	computing bool
}

func NewMapOf[K, V comparable]() *MapOf[K, V] {
	return &MapOf[K, V]{MapOf: xsync.NewMapOf[K, V]()}
}

func (m *MapOf[K, V]) Load(key K) (value V, ok bool) {
	schedule.Access(unsafe.Pointer(m), func() schedule.Effect {
		value, ok = m.MapOf.Load(key)
		return schedule.Effect{}
	})
	return value, ok
}

func (m *MapOf[K, V]) Size() (size int) {
	schedule.Access(unsafe.Pointer(m), func() schedule.Effect {
		size = m.MapOf.Size()
		return schedule.Effect{}
	})
	return size
}

func (m *MapOf[K, V]) Compute(key K, f func(old V, loaded bool) (V, bool)) (value V, ok bool) {
	m.write(func() (changed bool) {
		value, ok = m.MapOf.Compute(key, func(old V, loaded bool) (V, bool) {
			made := schedule.Made()
			value, remove := f(old, loaded)
			if schedule.Made() > made {
				schedule.Access(unsafe.Pointer(m), func() schedule.Effect { return schedule.Effect{Wrote: true} })
			}
			changed = remove == loaded || loaded && value != old
			return value, remove
		})
		return changed
	})
	return value, ok
}

func (m *MapOf[K, V]) LoadOrStore(key K, value V) (actual V, loaded bool) {
	m.write(func() (changed bool) {
		actual, loaded = m.MapOf.LoadOrStore(key, value)
		return !loaded
	})
	return actual, loaded
}

func (m *MapOf[K, V]) Store(key K, value V) {
	m.write(func() (changed bool) {
		m.MapOf.Store(key, value)
		return true
	})
}

func (m *MapOf[K, V]) Delete(key K) {
	m.write(func() (changed bool) {
		_, loaded := m.MapOf.LoadAndDelete(key)
		return loaded
	})
}

// Range copies all there is in one step; with one key, xsync does no other.
func (m *MapOf[K, V]) Range(f func(key K, value V) bool) {
	type pair struct {
		key   K
		value V
	}
	var pairs []pair
	m.write(func() (changed bool) {
		m.MapOf.Range(func(key K, value V) bool {
			pairs = append(pairs, pair{key, value})
			return true
		})
		return false
	})
	for _, p := range pairs {
		if !f(p.key, p.value) {
			return
		}
	}
}

// Hold takes the lock that writers take, in one step, once no other has it.
func (m *MapOf[K, V]) Hold() {
	m.write(func() (changed bool) { return true })
	m.computing = true
}

// Release gives back the lock of Hold.
func (m *MapOf[K, V]) Release() {
	schedule.Access(unsafe.Pointer(m), func() schedule.Effect {
		m.computing = false
		return schedule.Effect{Wrote: true}
	})
}

// write makes op, which takes a lock, once nobody computes.
func (m *MapOf[K, V]) write(op func() (changed bool)) {
	if _, exploring := schedule.Running(); !exploring {
		op()
		return
	}
	for done := false; !done; {
		schedule.Access(unsafe.Pointer(m), func() schedule.Effect {
			if m.computing {
				schedule.Pause(unsafe.Pointer(m))
				return schedule.Effect{}
			}
			m.computing, done = true, true
			changed := op()
			m.computing = false
			return schedule.Effect{Wrote: changed}
		})
	}
}
