package sashredis

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"
)

// ask lets the store decide a call, and the fallback if it cannot.
//
// This process has at most one round trip under way for the same keys, limits and kind of call.
// Calls that come during it wait for its end, and make the next one together. Each gets the answer
// that a round trip of its own would have brought.
func (l *Limiter) ask(ctx context.Context, c *waiting) (a answer) {
	targets, r := c.targets, c.request
	err := l.attempt(ctx, c)
	switch {
	case err == nil:
		a = c.answer()
	case isMisuse(err):
		a.Decision, a.call.request = refused(err), r
	default:
		return l.decideAway(targets, r, err) // c may be in a batch
	}
	l.release(c)
	return a
}

// attempt lets the store decide c, with the other calls of its batch, unless ctx has ended or the
// breaker is open. After an error, c may still be in a batch.
func (l *Limiter) attempt(ctx context.Context, c *waiting) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := l.breaker.allow(l.local.Now()); err != nil {
		return err
	}
	f := l.flightOf(c)
	if !l.flights.join(f, c) {
		return l.fly(ctx, f, c)
	}
	l.stats.combined.Add(1)
	select {
	case b := <-c.ready:
		if b.panicked != nil {
			panic(b.panicked)
		}
		return b.err
	case <-ctx.Done():
		// If it has not been sent, it has not happened. Otherwise the outcome is unknown.
		l.flights.withdraw(f, c).giveBack()
		return ctx.Err()
	}
}

// fly makes the round trip of c, whose flight was none before, in the goroutine of the caller: no
// other call depends on its context. If calls wait at its end, fly starts a goroutine for them.
func (l *Limiter) fly(ctx context.Context, f flight, c *waiting) error {
	defer func() { // also if the Conn panics
		if next := l.flights.next(f); next != nil {
			go l.flyOn(f, next)
		}
	}()
	b := l.newBatch(c)
	l.decide(ctx, b)
	return b.err
}

// flyOn makes round trips for calls that have waited, until there are none.
func (l *Limiter) flyOn(f flight, calls []*waiting) {
	for calls != nil {
		calls = l.flyOnce(f, calls)
	}
}

// flyOnce makes the round trip of calls, a batch of the flight, and returns the next batch. If the store does not
// answer, the calls that wait by then do not wait for another round trip. If the Conn ends the goroutine, another
// one goes on.
func (l *Limiter) flyOnce(f flight, calls []*waiting) (next []*waiting) {
	b := l.newBatch(calls...)
	b.err = errEnded // until it is decided
	returned := false
	defer func() {
		b.panicked = recover() // each caller panics, in its own goroutine
		for _, c := range calls {
			c.lent.giveBack()
			c.ready <- b // there is room
		}
		if b.panicked == nil && b.err != nil && !isMisuse(b.err) {
			unsent := &batch{err: fmt.Errorf("%w: %w", errUnsent, b.err)}
			for _, c := range l.flights.waitingFor(f) {
				c.ready <- unsent
			}
		}
		next = l.flights.next(f)
		if ended := !returned && b.panicked == nil; ended && next != nil {
			go l.flyOn(f, next)
		}
	}()
	// If the caller of the first gives up, the others still wait. Its trace goes on.
	l.decide(l.lend(f, calls), b)
	returned = true
	return nil
}

// errEnded is the error of calls whose round trip has ended its goroutine.
var errEnded = errors.New("sashredis: the Conn has ended its goroutine")

// errUnsent is the error of a call that was not sent, since a call before it failed.
var errUnsent = errors.New("not sent, as an earlier call for the key has failed")

// newBatch returns the batch of calls for the same keys.
func (l *Limiter) newBatch(calls ...*waiting) *batch {
	first := calls[0]
	b := &batch{calls: calls, targets: slices.Clone(first.targets), keys: make([]string, len(first.targets))}
	if first.op == reserve {
		b.token = rand.Text()
	}
	for i, t := range b.targets {
		b.keys[i] = l.storeKey(t)
	}
	return b
}

// A flight is what calls that share round trips have in common.
type flight struct {
	name     string // of the key, or of all keys and their limits if there are several
	limits   string // of the key
	reserves bool
}

// flightOf returns the flight of c.
func (l *Limiter) flightOf(c *waiting) flight {
	if len(c.targets) == 1 {
		return flight{c.targets[0].name, c.targets[0].limits, c.op == reserve}
	}
	buf := make([]byte, 0, 128)
	for _, t := range c.targets {
		for _, text := range []string{t.name, t.limits} { // with their lengths: they may hold any bytes
			buf = append(binary.AppendUvarint(buf, uint64(len(text))), text...)
		}
	}
	return flight{name: string(buf), reserves: c.op == reserve}
}

// A waiting call is one that waits for a batch, or makes it.
type waiting struct {
	call
	ctx     context.Context // of its caller
	targets []target
	lent    *lentContext // which a round trip has of it; nil: none; guarded by the lock of its flight
	ready   chan *batch  // receives its batch once that has been answered
	gone    bool         // its caller has given up; guarded by the lock of its flight
}

// newWaiting returns the call r for targets.
//
// Calls are pooled by the limiter, not by the package: a channel that is made in a bubble of
// testing/synctest must not be used by a limiter of another one.
func (l *Limiter) newWaiting(ctx context.Context, targets []target, r request) *waiting {
	c, ok := l.waitings.Get().(*waiting)
	if !ok {
		c = &waiting{ready: make(chan *batch, 1)}
	}
	c.call, c.ctx, c.targets = call{request: r}, ctx, append(c.targets, targets...)
	return c
}

// release makes c available for other calls, unless it had very many keys: their memory would be kept.
// No other goroutine may hold a pointer to it.
func (l *Limiter) release(c *waiting) {
	const most = 64
	if cap(c.targets) > most {
		return
	}
	clear(c.targets)
	*c = waiting{ready: c.ready, targets: c.targets[:0]}
	l.waitings.Put(c)
}

// flights are the round trips that are under way, and the calls that wait for them to end.
//
// Invariant: a flight is in the map from the join that returns false until a next that returns
// nothing. In between, one goroutine makes round trips for it.
type flights struct{ shards [64]flightShard }

type flightShard struct {
	mu      sync.Mutex
	waiting map[flight][]*waiting // nil: no call has come yet
	_       [48]byte              // of another cache line
}

// hashSeed is for the names of keys, which clients may choose.
var hashSeed = maphash.MakeSeed()

// lock locks the shard of a flight, and returns it.
func (f *flights) lock(of flight) *flightShard {
	s := &f.shards[maphash.String(hashSeed, of.name)%uint64(len(f.shards))]
	s.mu.Lock()
	return s
}

// join lets c wait for the next batch of its flight, and reports true. If there is no such flight,
// it reports false: there is one now, and the caller must make the round trip, and then call next
// until it returns nothing.
func (f *flights) join(of flight, c *waiting) bool {
	s := f.lock(of)
	defer s.mu.Unlock()
	calls, underway := s.waiting[of]
	if !underway {
		if s.waiting == nil {
			s.waiting = map[flight][]*waiting{}
		}
		s.waiting[of] = nil
		return false
	}
	s.waiting[of] = append(calls, c)
	return true
}

// next returns the calls of the next batch. If there are none, the flight has ended.
func (f *flights) next(of flight) (calls []*waiting) {
	s := f.lock(of)
	defer s.mu.Unlock()
	calls = slices.DeleteFunc(s.waiting[of], func(c *waiting) bool { return c.gone })
	if len(calls) == 0 {
		delete(s.waiting, of)
		return nil
	}
	end := batchEnd(calls)
	s.waiting[of] = slices.Clip(calls[end:])
	return slices.Clip(calls[:end])
}

// batchEnd returns how many of calls make a batch. That is all of them unless their costs differ
// so often that they would keep the server from other work.
func batchEnd(calls []*waiting) (end int) {
	const most = 512
	n := 0
	for group := range groups(calls) {
		if n++; n > most {
			break
		}
		end += len(group)
	}
	return end
}

// waitingFor returns all calls that wait for the next batch, which then wait no more.
func (f *flights) waitingFor(of flight) (calls []*waiting) {
	s := f.lock(of)
	defer s.mu.Unlock()
	calls = slices.DeleteFunc(s.waiting[of], func(c *waiting) bool { return c.gone })
	s.waiting[of] = nil
	return calls
}

// withdraw leaves c out of the next batch. If c is in a batch already, that has no effect. It returns what the batch
// has of its context.
func (f *flights) withdraw(of flight, c *waiting) *lentContext {
	s := f.lock(of)
	defer s.mu.Unlock()
	c.gone = true
	return c.lent
}

// A lentContext has the values of the context of a call, and no end. Once it is given back, it has no values: a
// context is not read after its call has returned, as it may be another request's by then. A nil one is none.
type lentContext struct {
	context.Context // the background
	mu              sync.Mutex
	of              context.Context // nil: it was given back
}

// Value returns the value of the context that c is of.
func (c *lentContext) Value(key any) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of == nil {
		return nil
	}
	return c.of.Value(key)
}

// giveBack gives c back, and waits for the end of a Value.
func (c *lentContext) giveBack() {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.of = nil
	}
}

// lend lends the contexts of calls, a batch of the flight, to a round trip, and returns the first. A hook has all.
func (l *Limiter) lend(of flight, calls []*waiting) context.Context {
	if l.hook == nil {
		calls = calls[:1]
	}
	s := l.flights.lock(of)
	defer s.mu.Unlock()
	for _, c := range calls {
		c.lent = &lentContext{Context: context.Background()}
		if !c.gone {
			c.lent.of = c.ctx
		}
	}
	return calls[0].lent
}
