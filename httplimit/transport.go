package httplimit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
	"github.com/seed-30da4c49/sash/httplimit/internal/hostname"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// A Transport is an [http.RoundTripper] that lets each request wait for its turn before it is sent, so
// that a client keeps to the limits of the servers that it calls:
//
//	client := &http.Client{Transport: &httplimit.Transport{Limiter: limiter}}
//
// The kind of limit tells how requests are spaced. Under sash.PerSecond(10).Log(), ten are sent at once,
// and ten more after a second. A [sash.TokenBucket] paces them: sash.PerSecond(10).TokenBucket(1) sends
// one each 100 milliseconds, and a larger Burst lets that many go at once after a pause. They
// reach the server less evenly spaced: a request on a new connection arrives later than one on an open
// connection.
//
// A request waits as in [sash.Limiter.Wait], on the key of its host, for as long as its context allows.
// The Transport retries nothing by itself, and follows no redirect: the client does, and each hop waits
// under its own key.
//
// # Requests under way
//
// A Limiter with a limit by [sash.AtOnce] bounds the requests that are under way for a key. A request holds
// its units until Base has failed, or until the body of the response was closed or read to its end, or a read
// of it has failed. A response without a body holds nothing. Nothing renews the lease: after it, the units
// are free while the response is still being read. A Store cannot tell that such units are back. So the
// limits of a Store must not hold any, or each request holds them for the lease.
//
// # Held keys
//
// The Transport also holds a key back when the server asks for it by a denial. Requests of that key,
// including those that wait already, are then not sent until the time has passed. Then they wait for the
// limiter again, in any order. A server asks for it by a 429 or 503 with one of these. If it has both, the
// first holds:
//
//   - Retry-After, which is a date or a number of seconds. A fraction is rounded up.
//   - In a 429, a RateLimit that reports that a quota is used up: "default";r=0;t=30 holds the key back
//     for 30 seconds. If several quotas are used up, the longest t holds. A RateLimit of more than 64 KiB
//     has no effect.
//
// A RateLimit in any other response has no effect, as the limiter has admitted that request. The quota
// may be for one user or one route, and other requests may be admitted.
//
// While a key is held back, its requests are charged nothing. But what the Limiter is sure to refuse is
// refused at once: a cost that is never admitted, and a request whose deadline comes before the Limiter
// admits it. A Store is not asked until the time has passed.
//
// Keys are held back in this process alone, also with a Store.
//
// # Errors
//
// The error of a request that is not sent wraps one of these. The body of such a request has not been
// read, and is closed.
//
//   - The error of its context, as soon as the context ends. A request whose context has ended already is
//     charged nothing. If the deadline is certain to come first, it is [context.DeadlineExceeded] at
//     once. If the server has asked to wait beyond it, it is in a [*TurnError], which tells for how long.
//   - [sash.ErrExceedsLimit] for a cost that is never admitted.
//   - A [*TurnError] under NoWait, if the request would have to wait.
//   - [sash.ErrInvalidLimit] if [sash.WithLimitsFor] returns wrong limits for the key.
//   - [sash.ErrTooManyWaiters] if as many calls wait as [sash.WithMaxWaiters] allows.
//   - With a Store, what is wrong with a call that it refuses, or why it did not decide.
//
// It wraps none of them if the key of the request cannot be told, or if the Transport has neither a Limiter
// nor a Store, or has both.
//
// A request whose context ends after it was admitted stays charged. So does a request that is held back
// at the moment of its admission, and it is charged again when it is sent.
//
// # Cost and concurrency
//
// A Transport is safe for concurrent use. Its fields must not be changed once it is used, and it must not
// be copied. Admission takes a lock three times, and once under NoWait. It starts no goroutine.
//
// A key costs memory while requests of it wait, and some 200 bytes while it is held back. That memory is
// freed at the key's next request after the time has passed, or when other keys are held back. So there
// are never more such keys than 32 or twice the number that were held at one time, whichever is more, and
// never more than MaxHeld.
type Transport struct {
	// Limiter admits the requests. Either a Limiter or a Store is required: without one, and with both,
	// every request is an error.
	Limiter *sash.Limiter

	// Store admits the requests instead, together with the requests of all processes that share it.
	// Requests of this process wait in order for one key; requests of several processes are admitted in
	// any order. While the store does not answer, its fallback decides.
	Store Store

	// Base sends the admitted requests. Nil means [http.DefaultTransport].
	Base http.RoundTripper

	// Key returns the key that a request is charged to. Nil means [ByHost]. A request whose key cannot be
	// told is an error.
	Key KeyFunc

	// Cost returns how many units a request takes. Nil means 1. A request with a cost of 0 waits only
	// while its key is over its limits or held back. A negative cost is never admitted.
	Cost func(r *http.Request) int64

	// NoWait makes a request that would have to wait fail with a [*TurnError]. While its key is held back, the
	// request is told the later of two times: the one that the server asked for, and the one at which the
	// Limiter admits it.
	NoWait bool

	// MaxHold bounds for how long one response holds a key back, on the Limiter's clock or, with a Store,
	// on the system's. 0 means an hour. If it is negative, Retry-After and RateLimit are ignored.
	MaxHold time.Duration

	// MaxHeld bounds how many keys are held back at a time. 0 or less means 16384. Beyond it, the domain
	// with the most of these keys loses the one whose time would end first, which may be the new one. So
	// the names of one domain end no holds of domains that have fewer. The next request of that key waits
	// for the Limiter only. Requests of it that wait already keep waiting.
	//
	// The domain of a host is its last two labels, or its last three if two are a public suffix such as
	// "co.uk". Of IPv4 it is the address, and of IPv6 its first 48 bits. With a Key, each key is a
	// domain.
	MaxHeld int

	gates gates // by the key of holds
}

// A TurnError reports that a [Transport] did not send a request that would have had to wait: with NoWait,
// or since the server asked to wait beyond the deadline of its context.
type TurnError struct {
	// RetryAfter is how long the request would have to wait, if nothing else is charged. Units that others
	// hold under a limit by [sash.AtOnce] may be given back at any time. So for these it is a second at most.
	RetryAfter time.Duration
	// Held reports whether RetryAfter is what the server asked for, with Retry-After or RateLimit. Otherwise,
	// the Limiter denies the request for that time.
	Held bool
	// Err is [context.DeadlineExceeded] if the deadline of the request would end its wait. With a Store,
	// it is why the Store did not decide. Otherwise it is nil.
	Err error
}

// Unwrap returns Err.
func (e *TurnError) Unwrap() error { return e.Err }

// Error returns, for example, "httplimit: not sent: the limiter admits it in 1.5s".
func (e *TurnError) Error() string {
	why, reason := "the limiter admits it in", ""
	if e.Err != nil {
		why, reason = "the fallback of the store admits it in", ": "+e.Err.Error()
	}
	if e.Held {
		why = "the server asked to wait for another"
	}
	return fmt.Sprintf("httplimit: not sent: %s %v%s", why, e.RetryAfter, reason)
}

var (
	errNoLimiter   = errors.New("httplimit: Transport.Limiter must not be nil, unless there is a Store")
	errTwoLimiters = errors.New("httplimit: Transport must not have both a Limiter and a Store")
	errNoKey       = errors.New("httplimit: not sent: the request does not tell the key to count it under")
)

// RoundTrip sends r once it is admitted, and returns the response unchanged, but for a body that gives units
// back. It does not modify r.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	// Base closes the body of a request that is sent. Close it here in all other cases, including a panic
	// in Key or Cost.
	sent := false
	defer func() {
		if !sent && r.Body != nil {
			r.Body.Close()
		}
	}()
	key, held, err := t.admit(r)
	if err != nil {
		return nil, err
	}
	// Whatever happens until there is a body to give the units back: that must not leave them held.
	passedOn := false
	defer func() {
		if !passedOn {
			held.Release()
		}
	}()
	sent = true
	response, err := t.base().RoundTrip(r)
	if err == nil {
		t.Obey(key, response)
		passedOn = holdUntilRead(r.Method, response, held)
	}
	return response, err
}

// CloseIdleConnections closes the idle connections of Base, if Base can. So
// [http.Client.CloseIdleConnections] works through a Transport.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

// base returns Base or its default.
func (t *Transport) base() http.RoundTripper { return cmp.Or(t.Base, http.DefaultTransport) }

// Admit waits as RoundTrip does, and returns once r may be sent, with the key to hold back if the server
// asks for it: the one that was charged, and of an RPC its method, too, unless there is a Key. It sends
// nothing. It returns the same errors as RoundTrip, and leaves the body of r alone. It is for calls of
// other protocols, which [Transport.Obey] or [Transport.HoldBack] must tell of the answer. Under a limit by
// [sash.AtOnce], use [Transport.Reserve]: Admit holds units for the whole lease.
func (t *Transport) Admit(r *http.Request) (key string, err error) {
	key, _, err = t.admit(r)
	return key, err
}

// Reserve is [Transport.Admit] of a call that holds units, if a limit by [sash.AtOnce] says so, until release
// is called. That must be once the call has ended, whatever has ended it. Further calls have no effect. It is
// nil if there is an error.
func (t *Transport) Reserve(r *http.Request) (key string, release func(), err error) {
	key, held, err := t.admit(r)
	if err != nil {
		return key, nil, err
	}
	return key, held.Release, nil
}

// admit is Reserve. What is returned holds nothing, unless a limit of the Limiter holds units.
func (t *Transport) admit(r *http.Request) (key string, held sash.Reservation, err error) {
	switch {
	case t.Limiter == nil && t.Store == nil:
		return "", held, errNoLimiter
	case t.Limiter != nil && t.Store != nil:
		return "", held, errTwoLimiters
	}
	keyOf, n := t.Key, int64(1)
	if keyOf == nil {
		keyOf = ByHost()
	}
	charged, ok := keyOf(nil, r)
	if !ok {
		return "", held, errNoKey
	}
	if t.Cost != nil {
		n = t.Cost(r)
	}
	key = string(charged)
	gate := key
	// A limiter counts the methods of a host together, but the denial of an RPC is about one method.
	if method, ok := r.Context().Value(bridge.Method{}).(string); ok && t.Key == nil {
		gate += method
	}
	if t.NoWait {
		held, err = t.takeNow(r.Context(), key, gate, n)
	} else {
		held, err = t.wait(r.Context(), key, gate, n)
	}
	return gate, held, err
}

// takeNow charges n units to key if that requires no waiting.
func (t *Transport) takeNow(ctx context.Context, key, gate string, n int64) (held sash.Reservation, err error) {
	if err := ctx.Err(); err != nil { // as Wait does: such a request must not use up a quota
		return held, fmt.Errorf("httplimit: not sent: %w", err)
	}
	var answer StoreDecision
	left := t.gates.heldFor(gate, t.clock())
	switch {
	case left > 0 && t.Store != nil:
		return held, &TurnError{RetryAfter: left, Held: true}
	case left > 0:
		answer.Decision = internals.PeekUncharged(t.Limiter, key, n)
	case t.Store != nil:
		answer = t.Store.Take(ctx, []string{key}, n, nil)
		ensureRetryAfter(&answer.Decision)
	default:
		held, answer.Decision = internals.TakeHolding(t.Limiter, key, n, 0, nil)
	}
	if t.Limiter != nil && answer.RetryAfter == sash.Never {
		answer.Err = internals.LimitsFault(t.Limiter, key) // as a store says it
	}
	switch d, err := answer.Decision, answer.Err; {
	case d.Allowed && left <= 0:
		return held, nil
	case ctx.Err() != nil && err != nil: // so the store could not be asked
		return held, fmt.Errorf("httplimit: not sent: %w", ctx.Err())
	case d.RetryAfter == sash.Never && err != nil:
		return held, fmt.Errorf("httplimit: not sent: %w", err)
	case d.RetryAfter == sash.Never:
		return held, fmt.Errorf("httplimit: not sent: a cost of %d under a limit of %v: %w", n, d.Limit, sash.ErrExceedsLimit)
	}
	// The request must wait for the server and for the limiter. The later of both is told.
	if wait, _ := waitFor(t.Limiter, &answer.Decision, key, n, 0); wait > left {
		return held, &TurnError{RetryAfter: wait, Err: answer.Err}
	}
	return held, &TurnError{RetryAfter: left, Held: true}
}

// wait blocks until n units are charged to key and gate is not held back.
func (t *Transport) wait(ctx context.Context, key, gate string, n int64) (held sash.Reservation, err error) {
	g := t.gates.enter(gate)
	defer t.gates.leave(gate, g, t.clock())
	for {
		until, changed := t.gates.holdOf(gate, g)
		held, err = t.waitOnce(ctx, changed, until, key, n)
		if changed.Err() == nil {
			return held, err
		}
		// The server has asked to hold key back while the request waited. Start over, even if the limiter
		// admitted it at that moment: the request will be sent later, so it must be charged then, for the
		// limit to hold at that time. Until then it holds nothing.
		held.Release()
		if err := ctx.Err(); err != nil { // the error of waitOnce may tell only that it was to start over
			return sash.Reservation{}, fmt.Errorf("httplimit: not sent: the server asked to wait: %w", err)
		}
	}
}

// waitOnce waits until that instant, and then for the limiter, unless ctx or news ends. It returns an error
// at once if that is of no use.
func (t *Transport) waitOnce(ctx, news context.Context, until int64, key string, n int64) (held sash.Reservation, err error) {
	// Whichever ends first, ctx or news, ends the wait. AfterFunc needs no goroutine until then.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(news, cancel)()
	clock := t.clock()
	for left := timeLeft(clock, until); left > 0; left = timeLeft(clock, until) { // a manual clock may go back
		if err := t.hopeless(ctx, left, key, n); err != nil {
			return held, err
		}
		blockUntil(ctx, clock, until, nil, nil)
	}
	if t.Store != nil {
		err = t.Store.Wait(ctx, key, n)
	} else {
		held, err = internals.WaitHolding(t.Limiter, ctx, key, n)
	}
	if err != nil {
		return held, fmt.Errorf("httplimit: not sent: %w", err)
	}
	return held, nil
}

// hopeless returns the error of a request whose key is held back for left, and that need not wait for it: ctx
// has ended, its deadline is certain to come first, or the Limiter never admits the request. Otherwise it
// returns nil. A Store is not asked.
func (t *Transport) hopeless(ctx context.Context, left time.Duration, key string, n int64) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("httplimit: not sent: the server asked to wait: %w", err)
	}
	least := time.Duration(0) // how long the limiter denies the request at least
	if t.Limiter != nil {
		var err error
		if least, err = internals.LeastWait(t.Limiter, key, n); err != nil {
			return fmt.Errorf("httplimit: not sent: %w", err)
		}
	}
	deadline, ok := ctx.Deadline()
	switch {
	case !ok:
		return nil
	case left > time.Until(deadline):
		return &TurnError{RetryAfter: left, Held: true, Err: context.DeadlineExceeded}
	case least > time.Until(deadline):
		return fmt.Errorf("httplimit: not sent: the limiter admits it in %v at the earliest: %w", least, context.DeadlineExceeded)
	}
	return nil
}

// clock returns the clock of the holds.
func (t *Transport) clock() sash.Clock { return clockOf(t.Limiter) }

// Obey holds key back for as long as a response asks, by its status, Retry-After and RateLimit, at most
// MaxHold. It is what RoundTrip does with a response. The key must be one that Admit has returned.
func (t *Transport) Obey(key string, response *http.Response) {
	t.HoldBack(key, fields.RequestedWait(response))
}

// HoldBack holds key back for d from now, at most MaxHold. It never shortens a hold. If d is not
// positive, or MaxHold is negative, it does nothing. The key must be one that Admit has returned.
func (t *Transport) HoldBack(key string, d time.Duration) {
	if d = min(d, cmp.Or(t.MaxHold, time.Hour)); d <= 0 {
		return
	}
	most := t.MaxHeld
	if most <= 0 {
		most = 1 << 14 // whose holds take about 3 MB
	}
	t.gates.hold(key, t.domain(key), t.clock(), d, most)
}

// domain returns the domain of key, by which the holds of one owner are bounded.
func (t *Transport) domain(key string) string {
	if t.Key != nil {
		return key
	}
	host, _, _ := strings.Cut(key, "/") // what follows is a method
	return hostname.Domain(host)
}
