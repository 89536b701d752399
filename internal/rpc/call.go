package rpc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/seed-30da4c49/sash/httplimit"
)

// A Server is what the interceptors of a server share.
type Server struct {
	Limiter  *httplimit.Limiter // of calls
	Received *httplimit.Limiter // of each message that a stream receives; nil: none
	Sent     *httplimit.Limiter // of each message that a stream sends; nil: none
	Size     func(any) int64    // of a message, in bytes

	// RecordMetadata reports whether policies know what a handler of grpc-go sends as metadata.
	RecordMetadata bool

	errorOf func(*Refusal) error
}

// NewServer returns the server of l and options, which were given to that function. errorOf returns
// the error by which a message is refused.
func NewServer[Option ~func(*Server)](
	function string, l *httplimit.Limiter, options []Option, errorOf func(*Refusal) error,
) *Server {
	MustNotBeNil(function, l == nil)
	s := &Server{Limiter: l, Size: Size, errorOf: errorOf}
	for _, option := range options {
		MustNotBeNil(function, option == nil)
		option(s)
	}
	return s
}

// MustNotBeNil panics if that function was given nil: that is a mistake in the program, not in
// its input.
func MustNotBeNil(function string, isNil bool) {
	if isNil {
		panic(function + ": must not be given nil")
	}
}

// A Call is a call that was admitted. It must be settled.
type Call struct {
	// RateLimit is the headers that report quotas, to be sent to the client.
	RateLimit http.Header

	server  *Server
	arrived context.Context // done once the client has gone
	handled context.Context // of the handler
	request *http.Request
	charges *httplimit.Charges // nil: none may change

	// Messages are sent and received by goroutines of their own.
	bytes   atomic.Int64            // of the messages sent
	broken  atomic.Bool             // whether sending or receiving a message has failed
	refusal atomic.Pointer[Refusal] // of the message that has ended the stream; nil: none
	cancel  context.CancelFunc      // of handled; nil: no message is decided
}

// Begin decides a call. It returns either the admitted call or why it is refused.
func (s *Server) Begin(ctx context.Context, d *Description) (*Call, *Refusal) {
	c := &Call{server: s, arrived: ctx, handled: ctx, RateLimit: http.Header{}, request: d.Request(ctx, s.Size)}
	v := s.Limiter.Decide(c.RateLimit, c.request)
	if refusal := newRefusal(ctx, &v, c.RateLimit); refusal != nil {
		return nil, refusal
	}
	c.charges, c.handled = v.Charges, v.Charges.Context(ctx)
	return c, nil
}

// BeginStream is Begin for a stream, whose messages are decided as well.
func (s *Server) BeginStream(ctx context.Context, d *Description) (*Call, *Refusal) {
	c, refusal := s.Begin(ctx, d)
	if c != nil && (s.Received != nil || s.Sent != nil) {
		c.handled, c.cancel = context.WithCancel(c.handled)
	}
	return c, refusal
}

// Context returns the context for the handler.
func (c *Call) Context() context.Context { return c.handled }

// Refusal returns why the stream has ended, or nil if no message was refused.
func (c *Call) Refusal() *Refusal { return c.refusal.Load() }

// Receive calls receive, and decides the message that it has received. A refusal ends the
// stream.
func (c *Call) Receive(message any, receive func(any) error) error {
	if ended := c.Refusal(); ended != nil {
		return c.server.errorOf(ended)
	}
	if err := receive(message); err != nil {
		if !errors.Is(err, io.EOF) && c.Refusal() == nil {
			c.broken.Store(true)
		}
		return err
	}
	charges, err := c.decideMessage(c.server.Received, message)
	c.settleMessage(charges, message, nil)
	return err
}

// Send decides a message, and calls send if it is admitted. A refusal ends the stream.
func (c *Call) Send(message any, send func(any) error) error {
	charges, err := c.decideMessage(c.server.Sent, message)
	if err != nil {
		return err
	}
	err = errPanicked // until send has returned
	defer func() { c.settleMessage(charges, message, err) }()
	err = send(message)
	c.NoteSent(message, err)
	return err
}

// errPanicked is why a message was not sent for certain.
var errPanicked = errors.New("rpc: a panic while a message was sent")

// sizeOf returns the size of a message. One that is nil has none.
func (s *Server) sizeOf(message any) int64 {
	if message == nil {
		return 0
	}
	return s.Size(message)
}

// NoteSent records that a message was sent, or that this has failed.
func (c *Call) NoteSent(message any, err error) {
	switch {
	case err != nil:
		c.broken.Store(true)
	case c.charges != nil:
		c.bytes.Add(c.server.sizeOf(message))
	}
}

// decideMessage decides a message by l. It returns charges to be settled, or why the stream
// has ended.
func (c *Call) decideMessage(l *httplimit.Limiter, message any) (*httplimit.Charges, error) {
	if ended := c.Refusal(); ended != nil {
		return nil, c.server.errorOf(ended)
	}
	if l == nil {
		return nil, nil
	}
	r := withMessage(c.handled, c.request, message, c.server.Size)
	v := l.Decide(nil, r)
	refusal := newRefusal(c.handled, &v, nil)
	if refusal == nil {
		return v.Charges, nil
	}
	// The other direction may have ended the stream at the same time. The first refusal is
	// the answer. Cancel the handler's context only after it is stored: what the handler
	// then returns must not be taken for the answer.
	c.refusal.CompareAndSwap(nil, refusal)
	c.cancel()
	return nil, c.server.errorOf(c.Refusal())
}

// settleMessage settles the charges of a message that was admitted. err is why it was not
// sent.
func (c *Call) settleMessage(charges *httplimit.Charges, message any, err error) {
	if charges == nil {
		return
	}
	r := httplimit.Response{Uncertain: true}
	defer func() { charges.Settle(r) }() // also if the function of MessageSize panics, or they would hold units on
	r.Bytes, r.Uncertain = c.server.sizeOf(message), err != nil
}

// Settle settles the charges of the call. The code is the code of the answer, and header
// returns what the client is sent. returned tells whether the handler has returned, and has not
// panicked. Only the first call has an effect.
func (c *Call) Settle(code uint32, header func() http.Header, returned bool) {
	if c.cancel != nil {
		defer c.cancel()
	}
	if c.charges == nil {
		return
	}
	gone := c.arrived.Err()
	switch {
	case gone != nil:
		code = contextCode(gone)
	case !returned:
		code = Unknown
	}
	c.charges.Settle(httplimit.Response{
		Status:    int(code),
		Bytes:     c.bytes.Load(),
		Header:    header(),
		Uncertain: !returned || gone != nil || c.broken.Load(),
	})
}
