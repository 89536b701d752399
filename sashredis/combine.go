package sashredis

import (
	"context"
	"hash/maphash"
	"slices"
	"sync"
)

// ask lets the store decide a call, and the fallback if it cannot.
//
// This process has at most one round trip under way for the same keys, limits and kind of call.
// Calls that come meanwhile wait for it, and make the next one together. So a key that everyone
// asks for costs a round trip per round-trip time, however many calls there are, and each has
// the answer that it would have had in a round trip of its own.
func (l *Limiter) ask(ctx context.Context, targets []target, n int64, charge bool, token string) answer {
	c := &waiting{call: call{n: n, charge: charge}, targets: targets, token: token}
	err := ctx.Err()
	switch {
	case err != nil:
	case !l.breaker.allows(l.local.Now()):
		err = l.breaker.unavailable()
	default:
		err = l.decideTogether(ctx, c)
	}
	switch {
	case err == nil:
		return c.answer()
	case isMisuse(err):
		return answer{Decision: refused(err)}
	}
	// If ctx has ended, a batch may be taking c in at this moment. So c is not read.
	return l.away.decide(targets, call{n: n, charge: charge}, token != "", err)
}

// decideTogether lets the store decide c, with the other calls of its batch.
func (l *Limiter) decideTogether(ctx context.Context, c *waiting) error {
	name, keys := l.flightName(c.targets, c.token != "")
	if !l.flights.join(name, c) {
		l.fly(ctx, name, keys, c)
		return c.batch.err
	}
	l.stats.combined.Inc()
	select {
	case <-c.ready:
		return c.batch.err
	case <-ctx.Done():
		// If it has not been sent, it has not happened. Otherwise nobody knows.
		l.flights.withdraw(name, c)
		return ctx.Err()
	}
}

// fly makes the round trip of c, whose flight was none before, in the goroutine of the caller:
// nobody else depends on its context. Calls that have come meanwhile get a goroutine.
func (l *Limiter) fly(ctx context.Context, name string, keys []string, c *waiting) {
	defer func() { // also if the Conn panics
		if next := l.flights.next(name); next != nil {
			go l.flyOn(name, keys, next)
		}
	}()
	l.decide(ctx, newBatch(keys, c))
}

// flyOn makes round trips for calls that have waited, until there are none.
func (l *Limiter) flyOn(name string, keys []string, calls []*waiting) {
	for calls != nil {
		l.decide(context.Background(), newBatch(keys, calls...))
		for _, c := range calls {
			close(c.ready)
		}
		calls = l.flights.next(name)
	}
}

// newBatch returns the batch of calls for the same keys.
func newBatch(keys []string, calls ...*waiting) *batch {
	b := &batch{targets: calls[0].targets, keys: keys, token: calls[0].token}
	for _, c := range calls {
		b.add(&c.call)
	}
	return b
}

// flightName returns what tells the flight of a call from others, and the keys of targets in the
// store.
func (l *Limiter) flightName(targets []target, reserves bool) (name string, keys []string) {
	buf := make([]byte, 0, 128)
	keys = make([]string, len(targets))
	for i, t := range targets {
		begin := len(buf)
		buf = l.appendKey(buf, t)
		keys[i] = string(buf[begin:])
		buf = append(buf, 0)
		buf = append(buf, t.limits...)
	}
	if reserves {
		buf = append(buf, 0)
	}
	return string(buf), keys
}

// A waiting call is one that waits for a batch, or makes it.
type waiting struct {
	call
	targets []target
	token   string
	ready   chan struct{} // closed once the batch has been answered; nil: it does not wait
}

// flights are the round trips that are under way, and the calls that wait for them to end.
//
// Invariant: a name is in the map from the join that returns false until a next that returns
// nothing. In between, one goroutine makes round trips for it.
type flights struct {
	seed   maphash.Seed
	shards [64]flightShard
}

type flightShard struct {
	mu      sync.Mutex
	waiting map[string][]*waiting
	_       [48]byte // of another cache line
}

func (f *flights) init() {
	f.seed = maphash.MakeSeed()
	for i := range f.shards {
		f.shards[i].waiting = map[string][]*waiting{}
	}
}

func (f *flights) shard(name string) *flightShard {
	return &f.shards[maphash.String(f.seed, name)%uint64(len(f.shards))]
}

// join lets c wait for the next batch of the flight of that name, and reports true. If there is
// no such flight, it reports false: there is one now, and the caller must make the round trip,
// and then call next until it returns nothing.
func (f *flights) join(name string, c *waiting) bool {
	s := f.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	calls, underway := s.waiting[name]
	if !underway {
		s.waiting[name] = nil
		return false
	}
	c.ready = make(chan struct{})
	s.waiting[name] = append(calls, c)
	return true
}

// next returns the calls of the next batch. If there are none, the flight has ended.
func (f *flights) next(name string) (calls []*waiting) {
	const most = 512 // so that a batch is short for the server, whatever the costs of its calls
	s := f.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	calls = s.waiting[name]
	if len(calls) == 0 {
		delete(s.waiting, name)
		return nil
	}
	if len(calls) <= most {
		s.waiting[name] = nil
		return calls
	}
	s.waiting[name] = calls[most:]
	return calls[:most:most]
}

// withdraw removes c if it is not in a batch yet.
func (f *flights) withdraw(name string, c *waiting) {
	s := f.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting[name], c); i >= 0 {
		s.waiting[name] = slices.Delete(slices.Clone(s.waiting[name]), i, i+1)
	}
}
