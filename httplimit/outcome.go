package httplimit

import (
	"bufio"
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
		if t.Charge == nil || t.Shadow && !t.decision.Allowed {
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

// serve calls next, and settles the charges by the status it answers with. If next
// panics, that is 500, whatever it had written; the panic goes on.
func (all charges) serve(next http.Handler, w http.ResponseWriter, r *http.Request) {
	rec := &recorder{ResponseWriter: w}
	returned := false
	defer func() {
		if !returned {
			rec.status = http.StatusInternalServerError
		}
		all.settle(r, rec.status)
	}()
	next.ServeHTTP(rec.wrapped(), r)
	rec.wrote(http.StatusOK)
	returned = true
}

func (all charges) settle(r *http.Request, status int) {
	for i := range all {
		all[i].settle(r, status)
	}
}

// settle keeps c or gives it back. A panic ends here: there is an answer already, and
// the other charges are to be settled too.
func (c *charge) settle(r *http.Request, status int) {
	defer logPanics(r)
	if !c.keep(r, status) {
		c.reservation.Cancel()
		c.observe(GivenBack)
	}
}

// keep asks whether c is to stay. If that panics, it is.
func (c *charge) keep(r *http.Request, status int) (stays bool) {
	defer func() {
		if fault := recover(); fault != nil {
			logPanic(r, c.policy, fault)
			stays = true
			c.observe(Failed)
		}
	}()
	return c.Charge(status)
}

func (c *charge) observe(outcome Outcome) {
	if c.observer != nil {
		c.event.Outcome = outcome
		c.observer(c.event)
	}
}

// A recorder is a ResponseWriter that remembers the status. Handlers are given one
// that has the other methods of the ResponseWriter it stands for, and those only,
// as far as they are net/http's: handlers ask whether a writer can flush, and what
// says it can must be able to. http.ResponseController finds whatever else there is.
type recorder struct {
	http.ResponseWriter
	status int // 0: none yet
}

// Unwrap is for http.ResponseController.
func (rec *recorder) Unwrap() http.ResponseWriter { return rec.ResponseWriter }

// wrote remembers the first status that is an answer: 1xx ones come before it,
// but for 101, after which there is none.
func (rec *recorder) wrote(status int) {
	if rec.status == 0 && (status >= 200 || status == http.StatusSwitchingProtocols) {
		rec.status = status
	}
}

func (rec *recorder) WriteHeader(status int) {
	rec.wrote(status)
	rec.ResponseWriter.WriteHeader(status)
}

func (rec *recorder) Write(b []byte) (int, error) {
	rec.wrote(http.StatusOK)
	return rec.ResponseWriter.Write(b)
}

func (rec *recorder) WriteString(s string) (int, error) {
	rec.wrote(http.StatusOK)
	return io.WriteString(rec.ResponseWriter, s)
}

// wrapped returns rec with the methods that the writers of HTTP/1 and HTTP/2 have, or
// those of them that wrappers around these usually do.
func (rec *recorder) wrapped() http.ResponseWriter {
	_, flushes := rec.ResponseWriter.(http.Flusher)
	_, hijacks := rec.ResponseWriter.(http.Hijacker)
	_, reads := rec.ResponseWriter.(io.ReaderFrom)
	_, pushes := rec.ResponseWriter.(http.Pusher)
	switch {
	case flushes && hijacks && reads:
		return &recorder1{hijackingRecorder{flushingRecorder{rec}}}
	case flushes && hijacks:
		return &hijackingRecorder{flushingRecorder{rec}}
	case flushes && pushes:
		return &recorder2{flushingRecorder{rec}}
	case flushes:
		return &flushingRecorder{rec}
	}
	return rec
}

type flushingRecorder struct{ *recorder }

func (rec *flushingRecorder) Flush() { _ = rec.FlushError() }

// FlushError is what http.ResponseController calls, if it is there.
func (rec *flushingRecorder) FlushError() error {
	rec.wrote(http.StatusOK)
	return http.NewResponseController(rec.ResponseWriter).Flush()
}

type hijackingRecorder struct{ flushingRecorder }

func (rec *hijackingRecorder) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffer, err := rec.ResponseWriter.(http.Hijacker).Hijack()
	if err == nil {
		rec.wrote(http.StatusSwitchingProtocols)
	}
	return conn, buffer, err
}

type recorder1 struct{ hijackingRecorder }

func (rec *recorder1) ReadFrom(r io.Reader) (int64, error) {
	n, err := rec.ResponseWriter.(io.ReaderFrom).ReadFrom(r)
	if n > 0 { // else the status is still open
		rec.wrote(http.StatusOK)
	}
	return n, err
}

type recorder2 struct{ flushingRecorder }

func (rec *recorder2) Push(target string, options *http.PushOptions) error {
	return rec.ResponseWriter.(http.Pusher).Push(target, options)
}
