package httplimit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/seed-30da4c49/sash"
)

// charges are those of a request that may be given back, once it is answered.
type charges []charge

type charge struct {
	*policy
	reservation sash.Reservation
	observer    func(Event)
	event       Event // to be reported if it does not just stay
}

// charges returns those of c's takes that depend on the outcome.
func (c *call) charges() (all charges) {
	for i := range c.takes {
		t := &c.takes[i]
		if !t.givesBack() || t.Shadow && !t.decision.Allowed {
			continue
		}
		one := charge{policy: t.policy, reservation: t.reservation, observer: c.observer}
		if c.observer != nil {
			one.event = c.named(t, GivenBack)
		}
		all = append(all, one)
	}
	return all
}

// serve calls next, and settles the charges by what it answers. If next panics, the
// panic goes on after that.
func (all charges) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w, ctx: r.Context()}
	returned := false
	defer func() { all.settle(r, rec.status, returned && rec.certain()) }()
	next.ServeHTTP(rec.wrapped(), r)
	returned = true
}

func (all charges) settle(r *http.Request, status int, certain bool) {
	for i := range all {
		all[i].settle(r, status, certain)
	}
}

// settle keeps c or gives it back. A panic ends here: there is an answer already, and
// the other charges are to be settled too.
func (c *charge) settle(r *http.Request, status int, certain bool) {
	defer logPanics(r)
	if !c.keep(r, status, certain) {
		c.reservation.Cancel()
		c.observe(GivenBack)
	}
}

// keep asks the policy whether c is to stay. If that panics, c stays.
func (c *charge) keep(r *http.Request, status int, certain bool) (stays bool) {
	ask := c.Charge
	if !certain {
		ask = c.ChargeUncertain
	}
	if ask == nil {
		return true
	}
	defer func() {
		if fault := recover(); fault != nil {
			logPanic(r, c.policy, fault)
			stays = true
			c.observe(Failed)
		}
	}()
	return ask(status)
}

func (c *charge) observe(outcome Outcome) {
	if c.observer != nil {
		c.event.Outcome = outcome
		c.observer(c.event)
	}
}

// A recorder is a ResponseWriter that remembers what the client was sent. Handlers are
// given one that has the other methods of the ResponseWriter it stands for, and those
// only, as far as they are net/http's: handlers ask whether a writer can flush, and what
// says it can must be able to. http.ResponseController finds whatever else there is.
type recorder struct {
	http.ResponseWriter
	ctx    context.Context // of the request; done once the client has hung up
	status int             // that the client was sent; 0: none
	broken bool            // whether a write has failed
}

// Unwrap is for http.ResponseController.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// certain reports whether the client was sent the status, and all that the handler has
// written after it. It is asked when the handler has returned.
func (rec *recorder) certain() bool {
	return rec.status != 0 && !rec.broken && rec.connected()
}

// connected reports whether the client has not hung up yet, as far as is known.
func (rec *recorder) connected() bool { return rec.ctx.Err() == nil }

// wrote remembers the first status that is an answer: 1xx ones come before it,
// but for 101, after which there is none. A status that is written after the client
// has hung up is not remembered. The client was not sent it, and may have caused it:
// a proxy whose client has hung up writes 502.
func (rec *recorder) wrote(status int) {
	final := status >= 200 || status == http.StatusSwitchingProtocols
	if rec.status == 0 && final && rec.connected() {
		rec.status = status
	}
}

// check remembers whether a write has failed.
func (rec *recorder) check(err error) {
	if err != nil {
		rec.failed(err)
	}
}

// failed remembers that a write has failed. One that is refused because the response
// has no body, or because the writer cannot do it, leaves the response whole.
func (rec *recorder) failed(err error) {
	if !errors.Is(err, http.ErrBodyNotAllowed) && !errors.Is(err, errors.ErrUnsupported) {
		rec.broken = true
	}
}

func (rec *recorder) WriteHeader(status int) {
	rec.wrote(status)
	rec.ResponseWriter.WriteHeader(status)
}

func (rec *recorder) Write(b []byte) (n int, err error) {
	rec.wrote(http.StatusOK)
	n, err = rec.ResponseWriter.Write(b)
	rec.check(err)
	return n, err
}

func (rec *recorder) WriteString(s string) (n int, err error) {
	rec.wrote(http.StatusOK)
	n, err = io.WriteString(rec.ResponseWriter, s)
	rec.check(err)
	return n, err
}

// closeNotifier is http.CloseNotifier, which is deprecated. Handlers still ask for it.
type closeNotifier interface{ CloseNotify() <-chan bool }

// wrapped returns rec with the methods that the writers of HTTP/1 and HTTP/2 have, or
// those of them that wrappers around these usually do. It allocates nothing: each type
// of recorder is one pointer.
func (rec *recorder) wrapped() http.ResponseWriter {
	_, notifies := rec.ResponseWriter.(closeNotifier)
	if _, flushes := rec.ResponseWriter.(http.Flusher); !flushes {
		if notifies {
			return notifyingRecorder{rec}
		}
		return rec
	}
	flushing := flushingRecorder{rec}
	if _, hijacks := rec.ResponseWriter.(http.Hijacker); hijacks {
		return wrapHijacker(hijackingRecorder{flushing}, notifies)
	}
	_, pushes := rec.ResponseWriter.(http.Pusher)
	switch {
	case pushes && notifies:
		return notifyingRecorder2{recorder2{flushing}}
	case pushes:
		return recorder2{flushing}
	case notifies:
		return notifyingFlushingRecorder{flushing}
	}
	return flushing
}

type flushingRecorder struct{ *recorder }

func (rec flushingRecorder) Flush() { _ = rec.FlushError() }

// FlushError is what http.ResponseController calls, if it is there.
func (rec flushingRecorder) FlushError() error {
	rec.wrote(http.StatusOK)
	err := http.NewResponseController(rec.ResponseWriter).Flush()
	rec.check(err)
	return err
}

type hijackingRecorder struct{ flushingRecorder }

func (rec hijackingRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := rec.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		rec.wrote(http.StatusSwitchingProtocols)
	}
	return conn, buffer, err
}

// wrapHijacker returns rec with the further methods that its writer has.
func wrapHijacker(rec hijackingRecorder, notifies bool) http.ResponseWriter {
	_, reads := rec.ResponseWriter.(io.ReaderFrom)
	switch {
	case reads && notifies:
		return notifyingRecorder1{recorder1{rec}}
	case reads:
		return recorder1{rec}
	case notifies:
		return notifyingHijackingRecorder{rec}
	}
	return rec
}

type recorder1 struct{ hijackingRecorder }

func (rec recorder1) ReadFrom(r io.Reader) (int64, error) {
	connected := rec.connected() // before the client can have hung up because of what it reads
	n, err := rec.ResponseWriter.(io.ReaderFrom).ReadFrom(r)
	if n > 0 && rec.status == 0 && connected { // else the status is still open
		rec.status = http.StatusOK
	}
	rec.check(err)
	return n, err
}

type recorder2 struct{ flushingRecorder }

func (rec recorder2) Push(target string, options *http.PushOptions) error {
	return rec.ResponseWriter.(http.Pusher).Push(target, options)
}

// The recorders above, of writers that have CloseNotify.
type (
	notifyingRecorder          struct{ *recorder }
	notifyingFlushingRecorder  struct{ flushingRecorder }
	notifyingHijackingRecorder struct{ hijackingRecorder }
	notifyingRecorder1         struct{ recorder1 }
	notifyingRecorder2         struct{ recorder2 }
)

func (rec *recorder) closeNotify() <-chan bool {
	return rec.ResponseWriter.(closeNotifier).CloseNotify()
}

func (rec notifyingRecorder) CloseNotify() <-chan bool          { return rec.closeNotify() }
func (rec notifyingFlushingRecorder) CloseNotify() <-chan bool  { return rec.closeNotify() }
func (rec notifyingHijackingRecorder) CloseNotify() <-chan bool { return rec.closeNotify() }
func (rec notifyingRecorder1) CloseNotify() <-chan bool         { return rec.closeNotify() }
func (rec notifyingRecorder2) CloseNotify() <-chan bool         { return rec.closeNotify() }
