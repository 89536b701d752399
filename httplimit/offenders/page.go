package offenders

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// A Page counts which clients are denied most now, and shows them as an [http.Handler]. The zero
// Page is ready to use. Give its Observe to [httplimit.WithObserver], and mount it where only
// operators can reach it: it does not ask for credentials.
//
// # Now
//
// A Page covers the last one to two periods. It counts in periods, and keeps the current
// one and the one before: so a denial is shown for at least one Period, and for less than two.
//
// # How exact
//
// A Page has a fixed number of counters for each period, Size. Of N denials in the time that it
// covers, the count of a client is never too low, and at most N/Size too high; each count comes
// with its own bound, which is mostly far lower, and 0 as long as no more than Size clients were
// denied in a period. A client that was denied more than N/Size times is always among those
// shown. A client counts once for each policy that has denied it.
//
// # Cost and concurrency
//
// All methods are safe for concurrent use. The fields must not be changed once the Page is used,
// and it must not be copied.
//
// An event that is no denial costs a branch. A denial of a client that has a counter takes no lock
// and allocates nothing. A denial of another one takes a lock, and allocates what replaces the
// counter that it takes over: a fraction of a microsecond. If many counters have grown since the
// last such denial, it puts them in order, which takes some ten nanoseconds for each.
//
// A counter takes about 170 bytes, and up to 128 more if clients are named. There are at most Size
// for each of two periods, and no more than there are clients.
type Page struct {
	// Size is the number of counters for each period. 0 or less means 1000. More make the counts
	// more exact, and cost memory.
	Size int

	// Period is half of the longest time that the page covers. 0 or less means 5 minutes.
	Period time.Duration

	// Clock is the clock that tells the periods, and when clients were last denied. Nil means
	// [sash.CoarseClock] of 10 milliseconds, which costs least.
	Clock sash.Clock

	// Name names clients by their identities; it needs [httplimit.WithEventIdentities]. [Address]
	// and [Identity] suit most policies. Nil shows fingerprints, which differ in every process; it
	// needs [httplimit.WithEventFingerprints]. Name is called when the page is shown, with at most
	// the first 128 bytes of an identity. It must be safe for concurrent use.
	Name func(policy, identity string) string

	begin   sync.Once
	clock   sash.Clock // set by begin
	mu      sync.Mutex // held to replace periods
	periods atomic.Pointer[periods]
}

// periods are the two periods that a page covers.
type periods struct {
	current  *sketch
	previous *sketch // nil: nothing was denied in the period before
}

const (
	defaultSize       = 1000
	defaultPeriod     = 5 * time.Minute
	defaultResolution = 10 * time.Millisecond
)

// Observe counts an event if it is a denial, also one by a shadow. It is for
// [httplimit.WithObserver]:
//
//	page := new(offenders.Page)
//	limiter, err := httplimit.New(
//		httplimit.WithObserver(page.Observe),
//		httplimit.WithEventFingerprints(httplimit.Denied),
//		policy,
//	)
//
// One Page may observe several limiters. It takes policies of the same name for one, and
// fingerprints of two limiters differ.
func (p *Page) Observe(e httplimit.Event) {
	if e.Outcome == httplimit.Denied {
		p.count(&e)
	}
}

func (p *Page) count(e *httplimit.Event) {
	p.begin.Do(p.start)
	now := p.clock.Now()
	c := clientOf(e, p.Name != nil)
	p.periodsAt(now).current.add(&c, e, now)
}

// start prepares p for its first call.
func (p *Page) start() {
	p.clock = p.Clock
	if p.clock == nil {
		p.clock = sash.CoarseClock(defaultResolution)
	}
	p.periods.Store(&periods{current: newSketch(p.size(), p.clock.Now())})
}

func (p *Page) size() int {
	if p.Size <= 0 {
		return defaultSize
	}
	return p.Size
}

func (p *Page) period() int64 {
	if p.Period <= 0 {
		return int64(defaultPeriod)
	}
	return int64(p.Period)
}

// periodsAt returns the periods at an instant, and begins the next one if it is due. A call that
// still adds to a period that has just ended is counted there.
func (p *Page) periodsAt(now int64) *periods {
	in := p.periods.Load()
	if now-in.current.start < p.period() {
		return in
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// Another call may have begun the period before this one got the lock.
	in = p.periods.Load()
	period, passed := p.period(), now-in.current.start
	if passed < period {
		return in
	}
	next := &periods{current: newSketch(p.size(), now)}
	if passed-period < period {
		next = &periods{current: newSketch(p.size(), in.current.start+period), previous: in.current}
	}
	p.periods.Store(next)
	return next
}
