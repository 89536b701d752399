package httplimit

import (
	"context"
	"time"

	"github.com/seed-30da4c49/sash"
)

// A Store decides for a fleet: the processes that use it share their counts. Give it to a [Limiter] by
// [WithStore], or to a [Transport]. Package sashredis/httpstore has one that keeps the counts in Redis or
// Valkey.
//
// A store may have a method CheckLimits([]sash.Limit) error. [Limiter.Reconfigure] calls it with the limits of each
// policy, and changes nothing if the store refuses them.
//
// All methods must be safe for concurrent use. Take, Peek and Reserve must return in a short time,
// whatever ctx is: the middleware passes them a context that does not end when the client hangs up. The
// keys of one call differ, and the store may keep them and leave.
type Store interface {
	// Take charges n units to each of keys if all of them admit n, at one instant. Else it charges
	// nothing. An n of 0 charges nothing.
	//
	// A key admits n if its limits do, and if as many units of it remain under each of them as leave has
	// at its index, as by [sash.Limiter.TakeLeaving]. None need remain if leave is nil.
	Take(ctx context.Context, keys []string, n int64, leave []int64) StoreDecision

	// Peek returns what Take would, and charges nothing.
	Peek(ctx context.Context, keys []string, n int64, leave []int64) StoreDecision

	// Reserve is Take of charges that may change, or hold units, until the Commit of each key. Then nothing
	// need remain. If the Limiter knows that a key holds units, it calls Reserve, and never Take. If only the store
	// knows it, since the store has other limits for the key, its Take must do what Reserve does.
	Reserve(ctx context.Context, keys []string, n int64, leave []int64) StoreDecision

	// Wait blocks until n units are charged to key. It returns the same errors as [sash.Limiter.Wait].
	Wait(ctx context.Context, key string, n int64) error

	// Close ends what the store runs in this process. The Limiter that has opened the store closes it.
	Close() error
}

// A StoreDecision is the answer of a [Store] to one call.
type StoreDecision struct {
	// Decision is the answer for all keys together. The RetryAfter of a denial, here and in Keys, is more
	// than 0, or [sash.Never]. If it is not, it counts as 100 ms.
	sash.Decision
	// Keys has an element for each key of the call, in their order.
	Keys []KeyDecision
	// By tells who decided, such as "store" or "fallback".
	By string
	// Err is why the store did not decide, nil if it did. The Decision holds all the same.
	Err error
}

// A KeyDecision is what one key of a call says, whatever the others say.
type KeyDecision struct {
	// Decision is what a [sash.Limiter.Peek] on this key returns, at the instant of the call, or what a
	// Peek of a call would return that must leave units. If the call
	// was admitted, it is the decision on the charge. If there is an Err, and the Limit of a denial is
	// [sash.Unlimited], no quota denies: the store does not know whether one would.
	sash.Decision
	// Next is the decision on one unit more than is left after the call, as [sash.Limiter.TakeThenPeek]
	// returns it. If the call must leave units, they do not count as left: Next is the decision on one unit
	// more than such a call may then have, and its Remaining is what such a call may have. Its RetryAfter is
	// [sash.Never] if the time until more is left is not known.
	Next sash.Decision
	// Commit changes the charge of this key to the units that the call has cost, even if that is more
	// than is left. Only a Reserve that was admitted sets it, or a Take that is a Reserve. It is called once
	// at most, also with the units that were charged: then there is nothing to change. In any case it gives
	// back all units that the key holds by the Reserve, under limits by [sash.AtOnce].
	Commit func(ctx context.Context, actual int64) error
	// Holds says that the key holds units until the Commit. It need not be set if the limits that the Limiter
	// knows say so. Else Commit would be called before the response.
	Holds bool
}

// StoreKeys describes the keys of a [Limiter] to the [Store] that it opens.
type StoreKeys struct {
	// Limits are the limits of each policy, and of each of its plans, when the store is opened.
	Limits [][]sash.Limit
	// LimitsFor returns the limits of a key: the limits of its policy, or limits of its own by
	// [sash.WithLimitsFor]. [Limiter.Reconfigure] changes them, so ask for them at each call. They do not change
	// while a call of Take, Peek or Reserve is under way. Of a policy that Reconfigure has taken away, a key has none.
	LimitsFor func(key string) []sash.Limit
}

// ensureRetryAfter makes the RetryAfter of a denial by a store positive.
func ensureRetryAfter(d *sash.Decision) {
	if !d.Allowed && d.RetryAfter <= 0 {
		d.RetryAfter = 100 * time.Millisecond // the store does not say
	}
}
