// Package await ends calls with their contexts, also for clients that wait for a server without
// regard to the context.
package await

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Call is a call of a client. It must not use memory that the caller of [Do] may change.
type Call interface {
	// Make makes the call, and returns how it ended. It is called at most once.
	Make() Result
}

// A Result is how a call ended.
type Result struct {
	Reply string
	Err   error
	// Answered reports whether the server answered. If Err is set, it is the server's then.
	Answered bool
}

// Do makes a call and returns how it ended. Once ctx is done, Do returns an error that wraps that
// of ctx, whether the call has ended or not. No other error wraps the error of a context. If ctx is
// done already, the call is not made.
//
// If ctx can be done, the call is made in a goroutine of its own. That goroutine ends with the
// call, which may be after Do has returned.
func Do(ctx context.Context, call Call) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	done := ctx.Done()
	if done == nil {
		return call.Make().of(ctx)
	}
	// There is room for the result, so that the goroutine ends even if its result is not received.
	results := make(chan Result, 1)
	go func() { results <- call.Make() }()
	select {
	case r := <-results:
		return r.of(ctx)
	case <-done:
		select {
		case r := <-results: // an answer that has come is better than none
			return r.of(ctx)
		default:
			return "", ctx.Err()
		}
	}
}

// of returns r as the result of a call with ctx.
func (r Result) of(ctx context.Context) (string, error) {
	if r.Err == nil || r.Answered {
		return r.Reply, r.Err
	}
	// Clients pass deadlines on to connections. So a client may report a time-out of its
	// connection, and may do so before ctx itself is done.
	cause := ctx.Err()
	if d, ok := ctx.Deadline(); cause == nil && ok && !time.Now().Before(d) {
		cause = context.DeadlineExceeded
	}
	switch {
	case cause == nil && (errors.Is(r.Err, context.Canceled) || errors.Is(r.Err, context.DeadlineExceeded)):
		// Calls may wait for a connection together. Then all of them fail with the context of
		// the one that makes it.
		return "", fmt.Errorf("of another call: %v", r.Err)
	case cause == nil || errors.Is(r.Err, cause):
		return "", r.Err
	}
	return "", fmt.Errorf("%w: %w", cause, r.Err)
}
