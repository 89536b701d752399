// Package fiberlimit puts a limiter of [httplimit] into fiber, version 3:
//
//	limiter := httplimit.Must(httplimit.New(policies, httplimit.WithPathFolding()))
//	app := fiber.New()
//	app.Use(fiberlimit.New(limiter))
//
// All that the documentation of [httplimit.Limiter.Middleware] says holds, but for what is said
// here. Handlers find the charges of a request, for [httplimit.ChargeOf], in c.Context().
//
// # Requests
//
// The policies see a request of net/http without a body. Its path and host are those by which
// fiber chooses a route, c.Path() and c.Host(); its address is the connection's. It does
// not share the memory of fasthttp, so a function of a policy may keep what it reads.
//
// Fiber serves /LOGIN and /login/ as /login, unless its configuration says otherwise. So [New]
// asks for a limiter with [httplimit.WithPathFolding]. The route of a request is not known yet
// when it is decided, so [httplimit.ByRoute] finds none.
//
// PathValue returns the parameters of the path under which the limiter is mounted, so
// [httplimit.ByPathValue] works for app.Get("/users/:id", fiberlimit.New(limiter), handler). What fiber
// alone knows, such as the account that an earlier handler has put into the context, is found by [By]
// and [ContextOf]:
//
//	Key: fiberlimit.By(func(c fiber.Ctx) (string, bool) { return fiber.Locals[string](c, "account"), true })
//
// # Refusals
//
// Refusals are problem details, unless the limiter or [WithDenied] says otherwise. An error that WithDenied
// returns goes to the ErrorHandler of the app:
//
//	fiberlimit.New(limiter, fiberlimit.WithDenied(func(fiber.Ctx, httplimit.Denial) error {
//		return fiber.NewError(fiber.StatusTooManyRequests, "slow down")
//	}))
//
// # Responses
//
// Fiber sends the response when all handlers have returned. If the response decides what a
// request is charged, the handler takes it as it is when the handlers behind have returned:
//
//   - If they return an error, the ErrorHandler of the app answers it at once, and the handler
//     returns nil, as fiber's own logger does.
//   - Middleware that changes responses belongs behind the limiter.
//   - The bytes of a response with a known length are that length, even if the client hangs up
//     before it has them all: fasthttp does not tell.
//   - A stream or a file is settled when it has been sent, and a hijacked connection, such as a
//     websocket's, when the function returns that uses it. Until then, units that sash.AtOnce
//     bounds are held, and what the handler says by ChargeOf holds. Fiber uses its context for other
//     requests by then, so [ContextOf] finds none in a Settle of these.
//   - If the client is gone before it is sent the answer to an upgrade, fasthttp does not call that
//     function, and does not tell. Then the charge stays, and units that are held come back when
//     their lease ends.
//
// A response is uncertain in the sense of [httplimit.Policy].Charge in these cases:
//
//   - A handler panics, or the context of the request has ended.
//   - The body of the request is streamed by StreamRequestBody, since it is not known whether it
//     was read without fault.
//   - The body of the response is streamed without a known length, as by SendStreamWriter.
//   - The status is 200 and there is no body, as if no handler had answered.
//   - The timeout middleware has answered.
//
// Mount it in apps that fiber's own server serves. Under adaptor.FiberApp, which serves an app by
// net/http, charges of streams and files are settled late; there, put httplimit's Middleware around.
//
// # Prefork
//
// With EnablePrefork, fiber serves by as many processes as there are cores, and each of them counts
// alone. Together they admit as many times what a limit says. So give the limiter a store that the
// processes share, by [httplimit.WithStore], or divide the limits by the number of processes. [New]
// warns in the log of each child process that has no store.
//
// # Clients that hang up
//
// Fasthttp does not notice that a client hangs up. So a request that waits in a
// [httplimit.Queue] goes on waiting, and is served in its turn.
package fiberlimit

import (
	"log"
	"net/http"

	"github.com/gofiber/fiber/v3"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/internal/adapter"
)

// New returns a handler that limits the requests that fiber passes to it, and answers those that
// are refused. It is for App.Use, for groups and for single routes. It panics if l or an option is nil, or if
// l has no [httplimit.WithPathFolding], without which clients would get past a policy by another
// spelling of the path.
//
// A request costs the copy of its header, and the time of [httplimit.Limiter.Decide].
func New(l *httplimit.Limiter, options ...Option) fiber.Handler {
	adapter.Check(l != nil, "fiberlimit: New: limiter")
	o := adapter.Configure("fiberlimit: New", options)
	if !l.FoldsPaths() {
		panic("fiberlimit: New: the limiter must have httplimit.WithPathFolding, since fiber serves /LOGIN and /login/ as /login")
	}
	if fiber.IsChild() && l.Store() == nil {
		log.Print("fiberlimit: each process of prefork counts alone, so together they admit a multiple of each limit: give the limiter httplimit.WithStore")
	}
	return func(c fiber.Ctx) error {
		if o.Skips(c) {
			return c.Next()
		}
		r := newRequest(c)
		reported := http.Header{}
		v := l.Decide(reported, r)
		setHeader(c, reported)
		switch {
		case v.Outcome != httplimit.Admitted:
			c.Response().ResetBody() // of an answer that another handler has begun
			return o.Refuse(c, v, header{c}, func() {
				refuse(c, func(w http.ResponseWriter) { l.Refuse(w, r, v) })
			})
		case v.Charges == nil:
			return c.Next()
		}
		return serve(c, r, v.Charges)
	}
}

// serve calls the handlers behind, and settles the charges by their response.
func serve(c fiber.Ctx, r *http.Request, charges *httplimit.Charges) error {
	response := httplimit.Response{Uncertain: true} // until the handlers have returned
	later := false                                  // whether it is settled when it has ended
	defer func() {
		if !later {
			charges.Settle(response)
		}
	}()
	streamed := c.Request().IsBodyStream() // before a handler reads it
	c.SetContext(charges.Context(r.Context()))
	err := c.Next()
	if c.IsAbandoned() { // the timeout middleware has answered; a handler may still write to c
		return err
	}
	if err != nil && c.App().ErrorHandler(c, err) != nil {
		_ = c.SendStatus(http.StatusInternalServerError) // as fiber does
	}
	response = responseOf(c)
	if streamed || r.Context().Err() != nil {
		response.Uncertain = true
	}
	if lasts(c) {
		response.Bytes, later = max(response.Bytes, 0), true
		s := &settlement{charges, response}
		adapter.TakeBack[fiber.Ctx](r)    // fiber uses c for other requests by then
		c.RequestCtx().SetUserValue(s, s) // its own key: another limiter may have one
	}
	return nil
}

// A settlement settles the charges of a response that is streamed, or of a connection that is hijacked.
type settlement struct {
	charges  *httplimit.Charges
	response httplimit.Response
}

// Close is called by fasthttp when it has sent the response, or has failed to, and when the function returns that has
// hijacked the connection.
func (s *settlement) Close() error {
	s.charges.Settle(s.response)
	return nil
}

// lasts reports whether the response of c has only begun, and fasthttp tells when it has ended.
func lasts(c fiber.Ctx) bool {
	closes := c.Request().Header.ConnectionClose() || c.Response().ConnectionClose() // then it hijacks nothing
	return c.Response().IsBodyStream() || c.RequestCtx().Hijacked() && !closes
}

// responseOf returns the response that is in c. Bytes is -1 if its length is not known.
func responseOf(c fiber.Ctx) httplimit.Response {
	own := c.Response()
	r := httplimit.Response{Status: own.StatusCode(), Header: headerOf(c)}
	if c.RequestCtx().Hijacked() {
		r.Status = http.StatusSwitchingProtocols
		return r
	}
	if own.IsBodyStream() {
		r.Bytes = int64(own.Header.ContentLength())
		r.Uncertain = r.Bytes < 0
	} else {
		r.Bytes = int64(len(own.Body()))
		r.Uncertain = r.Bytes == 0 && r.Status == http.StatusOK
	}
	if c.Method() == http.MethodHead || bodiless(r.Status) {
		r.Bytes = 0 // fasthttp sends none
	}
	return r
}

// bodiless reports whether a response of that status has no body.
func bodiless(status int) bool {
	return status < 200 || status == http.StatusNoContent || status == http.StatusNotModified
}
