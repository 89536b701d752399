// Package sashredis limits rates across machines: all processes of a fleet share one count,
// kept in Redis or Valkey, with the answers of package sash.
//
//	limiter, err := sashredis.New(rueidisconn.New(client), []sash.Limit{sash.PerMinute(100)},
//		sashredis.WithFallback(sashredis.FallbackLocal(1, 8)))
//	...
//	if d := limiter.Take(ctx, key, 1); !d.Allowed {
//		// d.RetryAfter is the wait, d.By who decided
//	}
//
// All algorithms of sash work: [sash.SlidingCounter], [sash.SlidingLog], [sash.SlidingBuckets],
// [sash.SlidingParts], [sash.TokenBucket] and [sash.Concurrency], several limits of a key and several
// keys, all or nothing, and costs of any size. One script decides a call in one round trip, at the time
// of the store, in exact integers. So the processes need no synchronized clocks.
//
// # What needs no round trip
//
//   - A denial that is certain: see [WithMirror]. A flood on a denied key stays in its process.
//   - A call that another one for the same key can take along: there is one round trip for a
//     key at a time, and calls that come during it share the next.
//   - A call that a lease covers, if you ask for leases: see [WithLease].
//   - A call while the store is away: see [WithFallback] and [WithBreaker].
//
// # Limits that calls bring
//
// [New] gets the limits of all keys, [WithLimitsFor] finds the limits of each, and [Limiter.TakeLimits] takes the
// limits of the call, such as the limits of a session's plan. [Limiter.WithLimits] has all methods under such limits.
//
// # Priorities on one count
//
// [Limiter.TakeLeaving] is admitted only if some units remain for more urgent calls of the whole fleet, and
// [Limiter.TakeUpTo] takes what there is. Both are decided by the store, or denied in-process.
// [Limiter.WaitLeaving] waits for such units, behind the more urgent calls of its process.
//
// # What is under way
//
// [sash.AtOnce] limits the units that all processes hold at a time:
//
//	limits := []sash.Limit{sash.PerSecond(50), sash.AtOnce(10, time.Minute)}
//	limiter, err := sashredis.New(conn, limits, sashredis.WithFallback(sashredis.FallbackDeny))
//	...
//	r, d := limiter.Reserve(ctx, key, 1)
//	if d.Allowed {
//		defer r.Release(context.WithoutCancel(ctx))
//		...
//	}
//
// A unit is held until its reservation is settled, by [Reservation.Release] or in any other way, and no
// longer than the lease, by the time of the store. So the units of a process that was killed are back once
// their leases end, and no earlier. A lease must outlast the work. The unit of a Reserve or a WaitReserve whose
// answer was lost, and of a Release whose outcome is not known, is held until its lease ends; and so is each
// unit of a Take or a Wait, which nothing settles.
//
// A unit that one process gives back is there for all at once. So the mirror denies nothing because of such
// a limit, and no units are leased under one. [Limiter.WaitReserve] waits for a unit, and returns a reservation
// to release. See [Limiter.Wait] for how a call waits.
//
// # Consistency
//
// Decisions of the store, and with it of calls that share a round trip, are linearizable: each
// takes effect at one instant between its beginning and its end, for all keys and limits of it.
// Denials by the mirror are, too, unless counts become less in another way than with time: a
// refund or a Reset elsewhere, other limits, a failover. With leases, what is used never exceeds
// what the exact rule admits; what is leased and not used is denied to others for a while.
//
// More is admitted than that in these cases:
//   - The store loses counts: on a failover what was not replicated, at most Count for each key
//     and window; with an eviction policy that drops keys which have not expired, those.
//   - A lease outlives its window, since the store's clock was set forward or this machine was
//     suspended, or outlives a Reset: at most the units leased.
//   - The fallback decides: see [FallbackLocal].
//
// A call whose outcome is unknown, since the connection broke or the time was over, is never
// sent again: it may have been charged.
package sashredis
