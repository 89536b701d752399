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
//
// All arithmetic that decides is in integers, and exact to the nanosecond and
// the unit, for any Count and any Window.
//
// # Decisions
//
// [Limiter.Allow] answers yes or no. [Limiter.Take] answers with a [Decision]:
// how many units are left, and how long to wait, which is exact: the same call
// is denied a nanosecond earlier and admitted then, if nothing else is charged.
// A call that is denied is charged nothing, unless [WithChargeDenied] says so.
//
// # Time
//
// A limiter reads its [Clock] once per decision. Time never runs backwards for
// a key: a reading that is older than what the key has seen, because the clock
// was set back or the goroutine lost its core, counts as the newest seen. It
// neither rewinds nor wipes anything, and readmits nothing.
//
// # Memory and concurrency
//
// A key under a counter costs about 70 bytes beside its own, and is evicted by
// the janitor once its state equals that of a key never seen, so that no answer
// changes by it (see [Limiter.Sweep] for clocks that are set back). The number
// of keys is not bounded: keys must not be a caller's free choice unless
// something else bounds them.
//
// Every method is safe for concurrent use. A decision on a tracked key takes no
// lock in the table and does not allocate, but for a log that outgrows its room.
// Under a counter that fits one word it is lock-free: admitting is one
// compare-and-swap, and a denial writes nothing. Under a log, and under counters
// of very large limits, denials take no lock either, and admissions on one key
// hold each other up for a few stores, or while one of them makes more room in
// the log.
package sash
