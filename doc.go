// Package sash limits, per key, how often things may happen: in sliding windows of time, or
// by a rate and a burst. It works inside one Go process, and decides from memory, exactly,
// in some tens of nanoseconds, for millions of keys.
//
//	limiter := sash.Must(sash.New(sash.PerMinute(100)))
//	defer limiter.Close()
//
//	if d := limiter.Take(clientAddress, 1); !d.Allowed {
//		// Too many; one more is admitted in exactly d.RetryAfter.
//	}
//
// Nearly all programs need no more than these ten names:
//
//   - [New] makes a limiter of limits such as [PerMinute](100).
//   - [Limiter.Allow] answers yes or no, and [Limiter.Take] also what is left and how long to wait.
//   - [Limiter.TakeAll] charges several keys, or none, and [Limiter.Wait] blocks until a call is admitted.
//   - [Limiter.Reserve] is for a cost that is known only afterwards, and for what must not happen too often
//     at once.
//   - [WithLimitsFor] gives keys limits of their own, and [WithMaxKeys] bounds the memory.
//   - [NewManualClock] is for tests that do not sleep.
//
// The rest of the package is for what these leave open. The sections below say what holds for all calls.
//
// # Words
//
//   - A unit is what a limit counts. A call costs one unit, unless it names another cost.
//   - To charge units to a key is to count them against the limits of the key. An admitted
//     call is charged its cost. A denied call is charged nothing, unless
//     [WithChargeDenied] says so.
//   - An aligned window begins at a multiple of its length on the limiter's clock, and so
//     does an aligned bucket. Neither begins with the first call of a key. Under
//     [SystemClock], neither begins with a minute, hour or day of the wall clock:
//     [PerDay] does not start at midnight.
//   - A key is idle if it has the state of a key never seen. An idle key can be
//     evicted, and no answer under its limits changes by it.
//
// # Limits and algorithms
//
// A [Limit] admits Count units per Window to each key, or Count units at a time. Its algorithm says what
// that means:
//
//   - [SlidingParts] counts in each of the last sixteen parts of Window. It never denies a
//     client that keeps to Count in any window, and admits at most Count in any 15/16 of one that
//     sixteen divides. All units of a part are back at once, and the parts of each key begin
//     at instants of its own.
//   - [SlidingLog] records the time of each charge. It admits at most Count in any
//     window, and takes about 16 bytes for each charge that it remembers.
//   - [SlidingCounter] keeps two numbers per key: the units charged in the current
//     aligned window, and those charged in the window before. The latter are taken to be
//     spread evenly over their window: they count in proportion to the part of it that the
//     sliding window still covers. It admits at most Count in an aligned window, and less than
//     twice Count in any. Under steady demand it admits one unit less than Count per window, and
//     it may deny a client that keeps to Count.
//   - [SlidingBuckets] counts per aligned bucket of Precision. All units of a bucket are
//     back at once. It admits at most Count in the aligned buckets that make up a window,
//     and takes 16 bytes for each bucket in use.
//   - [TokenBucket] keeps the instant at which the bucket of the key will be full. A full
//     bucket holds Burst units, and units flow back at the rate of Count per Window. It
//     admits at most Burst at once, and at most Burst + Count*T/Window in any interval of
//     length T. It takes as much memory as a counter, or some 100 bytes more.
//   - [Concurrency] records the units that are held: at most Count at a time. A unit is held until
//     its reservation is settled, and no longer than Window, the lease. [AtOnce] makes such a limit. It bounds
//     what is under way, where the others bound a rate.
//
// [Per], [PerSecond] and the like choose the log for a Count of at most [SmallCount], and
// parts above it. [Limit.Parts], [Limit.Log], [Limit.Counter], [Limit.Buckets] and
// [Limit.TokenBucket] choose otherwise. All but the last have one number, Count, for
// the rate and for the burst. Choose the token bucket where these are two numbers:
//
//	sash.New(sash.PerSecond(10).TokenBucket(100)) // 10 a second on average, 100 at once
//
// All arithmetic that decides is in integers. It is exact to the nanosecond and the unit,
// for any Count and any Window.
//
// A limiter may have several limits. A call is admitted if all of them admit it:
//
//	sash.New(sash.PerSecond(10), sash.PerMinute(120), sash.PerHour(240).Log())
//
// A limit with a Count of 0 admits nothing, and [Unlimited] everything. Keys may have limits
// of their own: see [WithLimitsFor] and [Limiter.SetLimits].
// [Limiter.Reconfigure] changes the limits while calls run.
//
// # Decisions
//
// [Limiter.Allow] answers yes or no. [Limiter.Take] returns a [Decision]: how many units
// are left, and how long to wait. The wait is exact: if nothing else is charged, the same
// call is admitted after it, and denied a nanosecond earlier.
//
// A call is charged to all of several limits or to none. With [Limiter.TakeAll], it is
// charged to all of several keys or to none.
//
// [Limiter.TakeLeaving] is admitted only if some units remain for more urgent calls, and
// [Limiter.TakeUpTo] takes what there is.
//
// [Limiter.Wait] blocks until a call is admitted, [Limiter.WaitAll] until it is admitted for
// several keys. [Limiter.Reserve] charges an estimate, for a call whose cost is known only
// afterwards, and holds units that [AtOnce] limits until [Reservation.Release].
//
// # Time
//
// A limiter reads its [Clock] once per decision, and again if it makes an entry or the limits
// change during the call. Time never runs backwards for a key. A reading may be older than the
// newest one that the key has seen, because the clock was set back or the goroutine was preempted.
// Then the newest one counts in its place. So an old reading neither rewinds nor erases anything,
// and readmits nothing. Under [TokenBucket], a call is decided at its own reading even if that is
// old. It may be denied for that reason, and is never admitted for it.
//
// The default clock is [SystemClock]. It reads the processor's time-stamp counter where the kernel
// vouches for that, and an operator can rule the counter out by SASH_CLOCK=system.
//
// A limiter that is made in a bubble of testing/synctest keeps the time of the bubble, on
// [SystemClock] and on a [CoarseClock] that is made there.
//
// [Limiter.Snapshot] and [Limiter.Restore] carry the state into another process. The time
// in between counts as passed.
//
// # Memory
//
// A key under one [SlidingParts] costs 51 to 66 bytes in addition to the bytes of the key, by its
// length, up to a Count of 255. It costs 16 bytes more up to 65,535, and some 280 above that. A key
// under one counter costs 35 to 50 bytes, and so does a key under one token bucket that fits one
// word: see [Limit.TokenBucket]. The janitor evicts idle keys; for clocks that are set back, see
// [Limiter.Sweep].
//
// Only [WithMaxKeys] bounds the number of keys. Without it, callers must not be free to
// make up keys. Only [WithMaxWaiters] bounds the number of calls that wait.
//
// # Concurrency
//
// Every method is safe for concurrent use. A decision on a tracked key takes no lock in the
// table. It does not allocate, with two exceptions: a log makes more room, or the key is
// moved because the limits change.
//
//   - Under one [SlidingParts] of at most 65,535 units, an admission in the current part is one
//     compare-and-swap, and a denial writes nothing. The first admission in a part, and one that has
//     lost a few races to others, holds up others on the key for a few stores.
//   - Under one counter or token bucket that fits one word, a decision is lock-free. An
//     admission is one compare-and-swap, and a denial writes nothing.
//   - In all other cases, a denial takes no lock, unless it loses four races to
//     admissions. Admissions on one key hold each other up for a few stores, or while one
//     of them makes more room in a log.
//   - While [Limiter.TakeAll] charges a key, other calls on the key wait: for about a
//     hundred nanoseconds, and longer where it has to wait for its other keys.
//   - While limits change, and when a key is first reserved from, other calls on the key
//     wait until its entry is replaced.
package sash
