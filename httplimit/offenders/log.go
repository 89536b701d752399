package offenders

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/puzpuzpuz/xsync/v3"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// A Log writes one record when a policy denies a client, and the next one for that client and
// policy only after the Window of the limit that denied it has passed. So a flood of requests does
// not cause a flood of records. The zero Log is ready to use. Give its Observe to
// [httplimit.WithObserver].
//
// The message is "request denied", and the attributes are:
//
//   - policy: the name of the policy
//   - shadow: true, if the policy is only tried out, and denied nothing
//   - limit: the limit that denied, such as "5/1m0s log"
//   - client: the fingerprint of the client, or what Name says
//   - retry_after: how long the client has to wait; absent if the request is never admitted
//   - by: who decided, under [httplimit.WithStore]
//   - error: why the store did not decide
//   - unlogged: the number of denials, since the record before, whose client did not fit
//     among Size; absent if there were none
//
// A Log also writes a record when a request leaves less of a limit than the Near of its policy, and the
// next one for that client, policy and limit only after the Window of the limit has passed. So it is quiet
// about a client that hovers about the share. The message is "near limit", and the attributes are policy,
// shadow, limit, client, by and unlogged. Its clients are told apart if
// [httplimit.WithEventFingerprints], or [httplimit.WithEventIdentities], also names httplimit.Admitted and
// httplimit.Settled.
//
// All methods are safe for concurrent use. The fields must not be changed once the Log is used,
// and it must not be copied. An event of neither kind costs two branches. An event without a record
// takes no lock and allocates nothing, also if its client does not fit. A record costs what the
// Logger takes. If all of Size clients are remembered, a new one costs a look at each of them,
// once some may be forgotten.
type Log struct {
	// Logger writes the records. Nil means [slog.Default] at the time of each record.
	Logger *slog.Logger

	// Level is the level of the records. The zero Level is [slog.LevelInfo].
	Level slog.Level

	// Size bounds the number of clients to remember at a time, so it also bounds the number of
	// records in a window. A client that does not fit has no record, and is counted in the
	// attribute unlogged. A client counts once for its denials under a policy, and once for each limit of
	// which it has little left. 0 or less means 1000. Each takes about 150 bytes, and up to 128 more if
	// clients are named.
	Size int

	// Clock tells when windows have passed. Nil means [sash.CoarseClock] of 10 milliseconds, which
	// costs least; a window may then be taken for that much shorter. To keep the time of a limiter
	// that has a clock of its own, give that.
	Clock sash.Clock

	// Name names clients by their identities; it needs [httplimit.WithEventIdentities]. [Address]
	// and [Identity] suit most policies. Nil writes fingerprints, which differ in every process;
	// it needs [httplimit.WithEventFingerprints]. Name is called for each record, with at most the
	// first 128 bytes of an identity. It must be safe for concurrent use.
	Name func(policy, identity string) string

	begin sync.Once
	clock sash.Clock // set by begin

	// next has, for each subject to remember, the instant from which it may have its next record.
	next     *xsync.MapOf[subject, *atomic.Int64] // set by begin
	mu       sync.Mutex                           // held by who changes next
	full     atomic.Int64                         // the instant before which there is no room in next; math.MinInt64: there may be
	unlogged atomic.Int64                         // clients that did not fit, since the latest record
}

// defaultWindow is the time between records on a client whose event has no limit, which
// only an event that is not one of httplimit's lacks.
const defaultWindow = time.Minute

// A subject is what records are about: a client that is denied, or a limit of which it has little left.
type subject struct {
	client
	near sash.Limit // the zero Limit if it is denied
}

// Observe writes a record of an event if it is a denial, also one by a shadow, and the first of its
// client and policy in a window; and of each limit in its Near, if it is the first of these. It is for
// [httplimit.WithObserver], with httplimit.WithEventFingerprints(httplimit.Denied).
func (l *Log) Observe(e httplimit.Event) {
	if e.Outcome == httplimit.Denied {
		l.record(&e, sash.Limit{})
	}
	for _, limit := range e.Near {
		l.record(&e, limit)
	}
}

// record writes a record of the denial e or, unless near is zero, of that limit in its Near.
func (l *Log) record(e *httplimit.Event, near sash.Limit) {
	l.begin.Do(l.start)
	now, s := l.clock.Now(), subject{clientOf(e, l.Name != nil), near}
	if next, known := l.next.Load(s); known && now < next.Load() {
		return
	}
	logger := l.Logger
	if logger == nil {
		logger = slog.Default()
	}
	message, limit := "near limit", near
	if near == (sash.Limit{}) {
		message, limit = "request denied", e.Decision.Limit
	}
	// A record below the level must not suppress a later one.
	if logger.Enabled(context.Background(), l.Level) && l.claim(s, now, limit.Window) {
		logger.LogAttrs(context.Background(), l.Level, message, l.attributes(e, s.client, limit)...)
	}
}

// start prepares l for its first denial.
func (l *Log) start() {
	l.clock = l.Clock
	if l.clock == nil {
		l.clock = sash.CoarseClock(defaultResolution)
	}
	l.next = xsync.NewMapOfWithHasher[subject, *atomic.Int64](func(s subject, seed uint64) uint64 {
		return s.hash() ^ uint64(s.near.Window) ^ seed
	})
	l.full.Store(math.MinInt64)
}

// claim reports whether the record of c is to be written: one call for each subject and window is
// told so. If there is no room for c, none is.
func (l *Log) claim(c subject, now int64, window time.Duration) bool {
	if window <= 0 {
		window = defaultWindow
	}
	until := now + min(int64(window), math.MaxInt64-max(now, 0))
	// In a flood of clients that do not fit, no lock is taken.
	_, known := l.next.Load(c)
	if !known && now < l.full.Load() {
		l.unlogged.Add(1)
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	// Another call may have claimed the record before this one got the lock.
	next, known := l.next.Load(c)
	switch {
	case known && now < next.Load():
		return false
	case known:
		next.Store(until)
		return true
	case l.next.Size() >= l.size() && !l.forget(now):
		l.unlogged.Add(1)
		return false
	}
	next = new(atomic.Int64)
	next.Store(until)
	c.client = c.clone()
	l.next.Store(c, next)
	return true
}

func (l *Log) size() int {
	if l.Size <= 0 {
		return defaultSize
	}
	return l.Size
}

// forget forgets the clients that may have a new record by now, and reports whether there were
// any. If not, it sets full to the first instant at which there will be one. The caller holds mu.
func (l *Log) forget(now int64) (any bool) {
	earliest := int64(math.MaxInt64)
	l.next.Range(func(c subject, next *atomic.Int64) bool {
		if at := next.Load(); at > now {
			earliest = min(earliest, at)
			return true
		}
		l.next.Delete(c)
		any = true
		return true
	})
	if any {
		earliest = math.MinInt64
	}
	l.full.Store(earliest)
	return any
}

// attributes returns the attributes of a record on c, by a limit.
func (l *Log) attributes(e *httplimit.Event, c client, limit sash.Limit) []slog.Attr {
	all := append(make([]slog.Attr, 0, 8), slog.String("policy", c.policy))
	if e.Shadow {
		all = append(all, slog.Bool("shadow", true))
	}
	all = append(all, slog.String("limit", limit.String()), slog.String("client", c.name(l.Name)))
	if e.Outcome == httplimit.Denied && e.Decision.RetryAfter != sash.Never {
		all = append(all, slog.Duration("retry_after", e.Decision.RetryAfter))
	}
	if e.By != "" {
		all = append(all, slog.String("by", e.By))
	}
	if e.Err != nil {
		all = append(all, slog.Any("error", e.Err))
	}
	if n := l.unlogged.Swap(0); n > 0 {
		all = append(all, slog.Int64("unlogged", n))
	}
	return all
}
