// Package sash is keyed sliding-window rate limiting inside one Go process: ask
// it, on every request, whether this client may go on, and it answers in
// nanoseconds, exactly, from millions of keys, with no network and no store.
//
//	limiter := sash.Must(sash.New(sash.PerMinute(100)))
//	defer limiter.Close()
//
//	if d := limiter.Take(clientAddress, 1); !d.Allowed {
//		// Too many; one more is admitted in exactly d.RetryAfter.
//	}
//
// # Limits and algorithms
//
// A [Limit] admits Count units per Window to each key. Its algorithm says what
// "per Window" means:
//
//   - [SlidingCounter], the default, keeps two numbers per key, of the current
//     and the previous aligned window, and weighs the previous one by how much
//     of it the sliding window still covers. It admits at most Count in an
//     aligned window and less than twice Count in any.
//   - [SlidingLog] remembers when each admission was made. It admits at most
//     Count in any window, and takes 16 bytes or so per admission it remembers.
//   - [SlidingBuckets] counts per bucket of Precision, all of which is back at
//     once. It admits at most Count in the aligned buckets that make up a window,
//     and takes 16 bytes for each bucket in use.
//
// A limiter may have several limits, which all must admit what a key takes:
//
//	sash.New(sash.PerSecond(10), sash.PerMinute(120), sash.PerHour(240).Log())
//
// and keys may have limits of their own: [WithLimitsFor], [Limiter.SetLimits].
// [Limiter.Reconfigure] changes the limits while calls run.
//
// All arithmetic that decides is in integers, and exact to the nanosecond and
// the unit, for any Count and any Window.
//
// # Decisions
//
// [Limiter.Allow] answers yes or no. [Limiter.Take] answers with a [Decision]:
// how many units are left, and how long to wait, which is exact: the same call
// is denied a nanosecond earlier and admitted then, if nothing else is charged.
// A call that is denied is charged nothing, unless [WithChargeDenied] says so: not
// to any of several limits, and with [Limiter.TakeAll] not to any of several keys.
//
// [Limiter.Wait] blocks until a call is admitted. [Limiter.Reserve] charges an
// estimate, for what costs as much as it turns out to.
//
// # Time
//
// A limiter reads its [Clock] once per decision. Time never runs backwards for
// a key: a reading that is older than what the key has seen, because the clock
// was set back or the goroutine lost its core, counts as the newest seen. It
// neither rewinds nor wipes anything, and readmits nothing.
//
// A limiter that is made in a bubble of testing/synctest keeps the bubble's time, on
// [SystemClock] and on a [CoarseClock] that is made there.
//
// [Limiter.Snapshot] and [Limiter.Restore] carry all of it into another process, in
// which time has gone on.
//
// # Memory and concurrency
//
// A key under one counter costs about 35 bytes beside its own, and is evicted by
// the janitor once its state equals that of a key never seen, so that no answer
// changes by it (see [Limiter.Sweep] for clocks that are set back). The number
// of keys is bounded by [WithMaxKeys] only: without it, keys must not be a caller's
// free choice.
//
// Every method is safe for concurrent use. A decision on a tracked key takes no
// lock in the table and does not allocate, but for a log that outgrows its room,
// and for a key that is carried over while limits change.
// Under one counter that fits one word it is lock-free: admitting is one
// compare-and-swap, and a denial writes nothing. Everywhere else denials take no
// lock either, and admissions on one key hold each other up for a few stores, or
// while one of them makes more room in a log. While [Limiter.TakeAll] charges a
// key, other calls on it wait, for about a hundred nanoseconds; and while limits
// change or a key is first reserved from, for as long as its cell is replaced.
package sash
