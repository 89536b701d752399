// Package schedule runs a few actors through every order of their steps. A step is
// one access to shared data, together with the local work of its actor after it.
//
// Under the build tag schedules, each operation of packages atomic and xsync is such an
// access. Actors are coroutines of the exploring goroutine. Only one runs at a time, and
// it runs until its next access.
package schedule

import (
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"unsafe"
)

// An Effect describes one access.
type Effect struct {
	Wrote bool
	Lost  bool   // whether it was a compare-and-swap that found another value
	Value uint64 // the value of a Uint64 that was read or written
}

// A Step is an access, or the beginning or the end of a Call.
type Step struct {
	Actor int
	Effect
	Waited bool // whether the actor waited for another one, after a Pause

	kind   kind
	place  int   // the number of the place, in the order of first accesses
	awaits int   // if Waited: the place that had to be written to,
	wakers []int // and the steps that wrote there
	stack  []uintptr
}

type kind uint8

const (
	access kind = iota
	begin
	end
)

// An actor is a coroutine that stops before each of its steps, and makes the step when
// it is resumed.
type actor struct {
	run    *run
	number int
	resume func() (struct{}, bool)
	yield  func(struct{}) bool
	paused bool
	awaits int   // if paused: the place that another actor must write to
	wakers []int // the steps of others that have written there since its own last access
	done   bool
	fault  error // the panic that ended it
}

// running is the actor that is running, or nil.
var running atomic.Pointer[actor]

// Running returns the number of the calling actor. If the caller is no actor, ok is
// false.
func Running() (actor int, ok bool) {
	a := running.Load()
	if a == nil {
		return 0, false
	}
	return a.number, true
}

// Made returns the number of steps made so far in the run of the calling actor; 0 if the
// caller is no actor.
func Made() int {
	if a := running.Load(); a != nil {
		return len(a.run.steps)
	}
	return 0
}

// Access runs op, which accesses place, when it is the turn of the calling actor. If the
// caller is no actor, it runs op at once. If op makes accesses itself, the step counts as
// a write.
func Access(place unsafe.Pointer, op func() Effect) {
	a := running.Load()
	if a == nil {
		op()
		return
	}
	made := a.step(Step{kind: access, place: a.run.place(place), Effect: Effect{Wrote: true}})
	effect := op()
	// Further steps inside of op may have been interleaved with steps of others. Then
	// the effect does not describe this step alone, and it stays a write.
	if made == len(a.run.steps)-1 {
		a.run.steps[made].Effect = effect
	}
}

// Pause makes the calling actor wait until another one has written to place since the
// caller last accessed it. If that has already happened, it does not wait. Pause does
// nothing if the caller is no actor.
func Pause(place unsafe.Pointer) {
	a := running.Load()
	if a == nil {
		return
	}
	a.paused, a.awaits, a.wakers = true, a.run.place(place), nil
	// Writes since the caller's last access are its wakers already. Others are added as
	// they are made, by turn.
	for i := len(a.run.steps) - 1; i >= 0; i-- {
		if s := &a.run.steps[i]; s.place == a.awaits && s.Actor == a.number {
			break
		}
		a.wake(i)
	}
}

// wake adds the i-th step to the wakers of a if a waits for it.
func (a *actor) wake(i int) {
	if s := &a.run.steps[i]; a.paused && s.Actor != a.number && s.place == a.awaits && s.Wrote {
		a.wakers = append(a.wakers, i)
	}
}

// Call runs f as a call: schedules that differ in whether it ended before another call
// began count as different.
func Call(f func()) {
	a := running.Load()
	a.step(Step{kind: begin, place: nowhere})
	f()
	a.step(Step{kind: end, place: nowhere})
}

const nowhere = -1

// step suspends a before the step s. It returns the index of s once it is a's turn.
func (a *actor) step(s Step) int {
	s.Actor, s.Waited, s.awaits = a.number, a.paused, nowhere
	if s.Waited {
		s.awaits = a.awaits
	}
	if a.run.traced {
		s.stack = make([]uintptr, 8)
		s.stack = s.stack[:runtime.Callers(3, s.stack)]
	}
	a.yield(struct{}{}) // other actors run until the explorer resumes this one
	if s.Waited {
		s.wakers, a.paused = a.wakers, false
	}
	a.run.steps = append(a.run.steps, s)
	return len(a.run.steps) - 1
}

// ready reports whether a can make its next step.
func (a *actor) ready() bool { return !a.done && (!a.paused || len(a.wakers) > 0) }

// A run is the execution of one schedule.
type run struct {
	actors []*actor
	steps  []Step
	// places numbers the addresses accessed. It also keeps them reachable, so that no
	// address is freed and used again within the run.
	places map[unsafe.Pointer]int
	traced bool // whether steps record their stacks
}

// newRun returns a run of actors. Each stops before its first step.
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

// turn resumes an actor, which makes its next step and runs until the one after.
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

// ready returns the actors that can make their next step.
func (r *run) ready() (ready actors) {
	for i, a := range r.actors {
		if a.ready() {
			ready |= 1 << i
		}
	}
	return ready
}

// fault returns the error of a run in which no actor is ready: a panic, or a deadlock if
// an actor has not ended.
func (r *run) fault() error {
	for _, a := range r.actors {
		if a.fault != nil {
			return a.fault
		}
		if !a.done {
			return fmt.Errorf("deadlock: actor %d waits for a step that no other will make", a.number)
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
