//go:build schedules

package xsync

import (
	"unsafe"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/seed-30da4c49/sash/internal/schedule"
)

// A MapOf is an xsync.MapOf whose operations are steps.
//
// The function of a Compute runs under a lock. If it makes steps, other writers wait, and
// storing its result is one more step. The lock is of the whole map here, and of one
// bucket in xsync. The difference does not show with one key, or with two keys in two
// maps.
type MapOf[K comparable, V comparable] struct {
	*xsync.MapOf[K, V]
	computing bool // whether an actor holds the lock
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
			// If f made steps, others ran in between. So the result is stored in a
			// step of its own, and not in the one that took the lock.
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

// Range copies all pairs in one step. With one key, xsync does the same.
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

// Hold takes the lock of writers in one step, once no other actor holds it.
func (m *MapOf[K, V]) Hold() {
	m.write(func() (changed bool) { return true })
	m.computing = true
}

// Release releases the lock taken by Hold.
func (m *MapOf[K, V]) Release() {
	schedule.Access(unsafe.Pointer(m), func() schedule.Effect {
		m.computing = false
		return schedule.Effect{Wrote: true}
	})
}

// write runs op under the lock, once no other actor holds it. op reports whether it
// changed the map.
func (m *MapOf[K, V]) write(op func() (changed bool)) {
	if _, exploring := schedule.Running(); !exploring {
		op()
		return
	}
	// Each round is one step: it takes the lock and runs op, or it finds the lock held
	// and waits for a write to the map. The function of a Compute may itself make steps
	// inside of op; computing keeps other writers out until op has returned.
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
