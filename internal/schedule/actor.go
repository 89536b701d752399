// Package schedule runs a few actors through every order of their steps. A step is
// one access to what they share, and what its actor then does by itself.
//
// Packages atomic and xsync, under the build tag schedules, make each of their
// operations such an access. Actors are coroutines of the goroutine that explores:
// one runs at a time, until its next access.
package schedule

import (
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"unsafe"
)

// An Effect is what an access did.
type Effect struct {
	Wrote bool
	Lost  bool   // a compare-and-swap that found another value
	Value uint64 // that was found or written, of a Uint64
}

// A Step is an access that was made, or the beginning or the end of a Call.
type Step struct {
	Actor int
	Effect
	Waited bool // for another actor, since a Pause

	kind   kind
	place  int   // places are numbered as they are first asked for
	awaits int   // the place that had to be written to, if it has waited,
	wakers []int // and the steps that did
	stack  []uintptr
}

type kind uint8

const (
	access kind = iota
	begin
	end
)

// An actor stops before each of its steps, and makes it when it is resumed.
type actor struct {
	run    *run
	number int
	resume func() (struct{}, bool)
	yield  func(struct{}) bool
	paused bool
	awaits int   // the place for which it has paused
	wakers []int // steps of others that have written there since it looked
	done   bool
	fault  error // with which it ended
}

// running is the actor that has been resumed, nil for none.
var running atomic.Pointer[actor]

// Running returns the number of the caller, if it is an actor.
func Running() (actor int, ok bool) {
	a := running.Load()
	if a == nil {
		return 0, false
	}
	return a.number, true
}

// Made returns how many steps have been made in the run of the caller, if it is an
// actor.
func Made() int {
	if a := running.Load(); a != nil {
		return len(a.run.steps)
	}
	return 0
}

// Access makes op, which accesses place, once it is the turn of the caller; at once
// if that is no actor. There may be accesses inside of op; then it is a write.
func Access(place unsafe.Pointer, op func() Effect) {
	a := running.Load()
	if a == nil {
		op()
		return
	}
	made := a.step(Step{kind: access, place: a.run.place(place), Effect: Effect{Wrote: true}})
	effect := op()
	if made == len(a.run.steps)-1 {
		a.run.steps[made].Effect = effect
	}
}

// Pause makes the caller, if it is an actor, wait until another has written to place
// since the caller last accessed it; which may have happened already.
func Pause(place unsafe.Pointer) {
	a := running.Load()
	if a == nil {
		return
	}
	a.paused, a.awaits, a.wakers = true, a.run.place(place), nil
	for i := len(a.run.steps) - 1; i >= 0; i-- {
		if s := &a.run.steps[i]; s.place == a.awaits && s.Actor == a.number {
			break
		}
		a.wake(i)
	}
}

// wake notes the i-th step if it is one that a waits for.
func (a *actor) wake(i int) {
	if s := &a.run.steps[i]; a.paused && s.Actor != a.number && s.place == a.awaits && s.Wrote {
		a.wakers = append(a.wakers, i)
	}
}

// Call makes a call of which it counts whether it ended before another began.
func Call(f func()) {
	a := running.Load()
	a.step(Step{kind: begin, place: nowhere})
	f()
	a.step(Step{kind: end, place: nowhere})
}

const nowhere = -1

// step stops before s, and returns its index once it is the caller's turn.
func (a *actor) step(s Step) int {
	s.Actor, s.Waited, s.awaits = a.number, a.paused, nowhere
	if s.Waited {
		s.awaits = a.awaits
	}
	if a.run.traced {
		s.stack = make([]uintptr, 8)
		s.stack = s.stack[:runtime.Callers(3, s.stack)]
	}
	a.yield(struct{}{})
	if s.Waited {
		s.wakers, a.paused = a.wakers, false
	}
	a.run.steps = append(a.run.steps, s)
	return len(a.run.steps) - 1
}

// ready reports whether a can go on.
func (a *actor) ready() bool { return !a.done && (!a.paused || len(a.wakers) > 0) }

// A run is one schedule as it is made.
type run struct {
	actors []*actor
	steps  []Step
	places map[unsafe.Pointer]int // it also keeps one that is freed from coming again
	traced bool                   // whether steps have their stacks
}

// newRun returns a run of actors, each of which stops before its first step.
func newRun(actors []func(), traced bool) *run {
	r := &run{places: map[unsafe.Pointer]int{}, traced: traced}
	for i, f := range actors {
		a := &actor{run: r, number: i}
		a.resume, _ = iter.Pull(func(yield func(struct{}) bool) {
			defer func() {
				if p := recover(); p != nil {
					a.fault = fmt.Errorf("actor %d panics: %v\n%s", i, p, debug.Stack())
				}
			}()
			a.yield = yield
			f()
		})
		r.actors = append(r.actors, a)
		r.turn(i)
	}
	return r
}

// turn has an actor make its next step, and go on to the one after.
func (r *run) turn(number int) {
	a, made := r.actors[number], len(r.steps)
	running.Store(a)
	_, more := a.resume()
	running.Store(nil)
	a.done = !more
	for i := made; i < len(r.steps); i++ {
		for _, other := range r.actors {
			other.wake(i)
		}
	}
}

// ready returns the actors that can go on.
func (r *run) ready() (ready actors) {
	for i, a := range r.actors {
		if a.ready() {
			ready |= 1 << i
		}
	}
	return ready
}

// fault returns why the run, in which nobody can go on, is not over.
func (r *run) fault() error {
	for _, a := range r.actors {
		if a.fault != nil {
			return a.fault
		}
		if !a.done {
			return fmt.Errorf("deadlock: actor %d waits for a step that nobody will make", a.number)
		}
	}
	return nil
}

// place returns the number of a place.
func (r *run) place(p unsafe.Pointer) int {
	number, ok := r.places[p]
	if !ok {
		number = len(r.places)
		r.places[p] = number
	}
	return number
}
