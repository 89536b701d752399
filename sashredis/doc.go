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
// [sash.SlidingParts] and [sash.TokenBucket], several limits of a key and several keys, all or
// nothing, and costs of any size. One script decides a call in one round trip, at the time of the
// store, in exact integers. So the processes need no synchronized clocks.
//
// # What needs no round trip
//
//   - A denial that is certain: see [WithMirror]. A flood on a denied key stays in its process.
//   - A call that another one for the same key can take along: there is one round trip for a
//     key at a time, and calls that come during it share the next.
//   - A call that a lease covers, if you ask for leases: see [WithLease].
//   - A call while the store is away: see [WithFallback] and [WithBreaker].
//
// # Priorities on one count
//
// [Limiter.TakeLeaving] is admitted only if some units remain for more urgent calls of the whole fleet, and
// [Limiter.TakeUpTo] takes what there is. Both are decided by the store, or denied in-process.
// [Limiter.WaitLeaving] waits for such units, behind the more urgent calls of its process.
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
