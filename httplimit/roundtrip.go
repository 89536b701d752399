package httplimit

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// RoundTrip sends r once it is admitted, and returns the response unchanged. It does
// not modify r.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	// Base closes the body of a request that is sent. Close it here in all other cases,
	// including a panic in Key or Cost.
	sent := false
	defer func() {
		if !sent && r.Body != nil {
			r.Body.Close()
		}
	}()
	key, err := t.Admit(r)
	if err != nil {
		return nil, err
	}
	sent = true
	response, err := t.base().RoundTrip(r)
	if err == nil {
		t.Obey(key, response)
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
func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// Admit waits as RoundTrip does, and returns once r may be sent, with the key to hold back if the
// server asks for it: the one that was charged, and of an RPC its method, too, unless there is a
// Key. It sends nothing. It returns the same errors as RoundTrip, and leaves the body of
// r alone. It is for calls of other protocols, which [Transport.Obey] or
// [Transport.HoldBack] must tell of the answer.
func (t *Transport) Admit(r *http.Request) (key string, err error) {
	switch {
	case t.Limiter == nil && t.Store == nil:
		return "", errNoLimiter
	case t.Limiter != nil && t.Store != nil:
		return "", errTwoLimiters
	}
	key, ok := t.key(r)
	if !ok {
		return "", errNoKey
	}
	n := int64(1)
	if t.Cost != nil {
		n = t.Cost(r)
	}
	held := t.holdKey(r, key) // a limiter counts all methods of a host together
	if t.NoWait {
		return held, t.takeNow(r.Context(), key, held, n)
	}
	return held, t.wait(r.Context(), key, held, n)
}

// holdKey returns the key that a denial of r holds back, where r is charged to key: the denial
// of an RPC says nothing about other methods.
func (t *Transport) holdKey(r *http.Request, key string) string {
	if method, ok := r.Context().Value(bridge.Method{}).(string); ok && t.Key == nil {
		return key + method
	}
	return key
}

// key returns the key of r.
func (t *Transport) key(r *http.Request) (key string, ok bool) {
	of := t.Key
	if of == nil {
		of = ByHost()
	}
	b, ok := of(nil, r)
	return string(b), ok
}

// takeNow charges n units to key if that requires no waiting.
func (t *Transport) takeNow(ctx context.Context, key, held string, n int64) error {
	if left := t.heldFor(held); left > 0 {
		return &TurnError{RetryAfter: left, Held: true}
	}
	d, err := t.take(ctx, key, n)
	switch {
	case d.Allowed:
		return nil
	case ctx.Err() != nil && err != nil: // so the store could not be asked
		return fmt.Errorf("httplimit: not sent: %w", ctx.Err())
	case d.RetryAfter == sash.Never && err != nil:
		return fmt.Errorf("httplimit: not sent: %w", err)
	case d.RetryAfter == sash.Never:
		return fmt.Errorf("httplimit: not sent: a cost of %d under a limit of %v: %w", n, d.Limit, sash.ErrExceedsLimit)
	}
	return &TurnError{RetryAfter: d.RetryAfter, Err: err}
}

// take charges n units to key. The error is why a store did not decide.
func (t *Transport) take(ctx context.Context, key string, n int64) (d sash.Decision, err error) {
	if t.Store == nil {
		return t.Limiter.Take(key, n), nil
	}
	answer := t.Store.Take(ctx, []string{key}, n)
	ensureRetryAfter(&answer.Decision)
	return answer.Decision, answer.Err
}

// wait blocks until n units are charged to key and held is not held back.
func (t *Transport) wait(ctx context.Context, key, held string, n int64) error {
	g := t.acquireGate(held)
	defer t.releaseGate(held, g)
	for {
		until, changed := t.holdOf(g)
		err := t.waitOnce(ctx, changed, until, key, n)
		if ctx.Err() != nil || changed.Err() == nil {
			return err
		}
		// The server has asked to hold key back while the request waited. Start over, even
		// if the limiter admitted it at that moment: the request will be sent later, so it
		// must be charged then, for the limit to hold at that time.
	}
}

// waitOnce waits for the instant until which key is held back, and then for the limiter. It stops when
// ctx or news ends.
func (t *Transport) waitOnce(ctx, news context.Context, until int64, key string, n int64) error {
	// Whichever ends first, ctx or news, ends the wait. AfterFunc needs no goroutine until then.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(news, cancel)()
	if err := t.waitHold(ctx, until); err != nil {
		return err
	}
	if err := t.waitForTurn(ctx, key, n); err != nil {
		return fmt.Errorf("httplimit: not sent: %w", err)
	}
	return nil
}

// waitForTurn blocks until n units are charged to key.
func (t *Transport) waitForTurn(ctx context.Context, key string, n int64) error {
	if t.Store == nil {
		return t.Limiter.Wait(ctx, key, n)
	}
	return t.Store.Wait(ctx, key, n)
}

// Obey holds key back for as long as a response asks, by its status, Retry-After and
// RateLimit, at most MaxHold. It is what RoundTrip does with a response. The key must be one
// that Admit has returned.
func (t *Transport) Obey(key string, response *http.Response) {
	t.HoldBack(key, fields.RequestedWait(response))
}

// HoldBack holds key back for d from now, at most MaxHold. It never shortens a hold. If d is
// not positive, or MaxHold is negative, it does nothing. The key must be one that Admit has
// returned.
func (t *Transport) HoldBack(key string, d time.Duration) {
	longest := t.MaxHold
	if longest == 0 {
		longest = defaultMaxHold
	}
	if d = min(d, longest); d > 0 {
		t.holdBack(key, d)
	}
}
