package httplimit_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/seed-30da4c49/sash/httplimit"
)

// An exchange is one request, what its handler does, and what has become of it. The server sets the
// fields of the lower half. The model reads them only while nothing moves.
type exchange struct {
	number               int
	kind                 modelTarget
	method, target, host string
	fields               [][2]string
	body                 int // bytes
	script               []handlerStep
	foreign              bool // whether a writer of another package is around the middleware

	client *modelClient // nil: it is decided without a server
	stream uint32       // of HTTP/2
	reset  bool
	leave  context.CancelFunc // ends the context of a request without a server

	proceed   chan struct{}
	request   *http.Request // as the middleware was given it; nil: it has not arrived yet
	ctx       context.Context
	arrived   moment
	admitted  bool // by the middleware
	left      bool // whether its client had gone when it was refused
	closedOut bool // whether it was refused since the limiter is closed
	ended     bool
	verdict   *httplimit.Verdict  // without a server
	answer    *httplimit.Response // by which it was settled without a handler
	denial    *httplimit.Denial   // that the function of WithDenied was told
	status    int                 // of a refusal, without a server
	header    http.Header         // when it was decided
	decided   moment
	settled   moment
	did       deeds
	expected  expectation // what the model knows of it
	inCrowd   atomic.Bool // whether others waited, too, when the model last looked
}

// A moment is an instant, and the place in the order of all that happened.
type moment struct {
	at    int64
	order int
	wall  int64 // in Unix nanoseconds, of the bubble
}

// deeds are what a handler has done and seen: all that its charges depend on.
type deeds struct {
	status    int // the first that was written while the client was connected
	wrote     int // the first that was written at all
	bytes     int64
	failed    bool // a write, or a read of the body
	panicked  bool
	hijacked  bool
	gone      bool // the client had hung up at the end
	header    http.Header
	said      map[string]said
	estimates map[string]int64 // that the handler was told
	paused    bool
}

// said is what a handler says of a charge.
type said struct {
	cost  int64
	whole bool // whether cost replaces the policy's
	more  int64
}

// A handlerStep is a call that a handler makes. n is its argument.
type handlerStep struct {
	call *handlerCall
	n    int
}

// A handlerCall is something that a handler may do with its response.
type handlerCall struct {
	name string
	do   func(h *handling, n int)
}

// A handling is a handler at work.
type handling struct {
	*exchange
	*model
	w http.ResponseWriter
	r *http.Request
}

// handlerCalls are all that handlers do, by random.
var handlerCalls = []handlerCall{
	{"Write", func(h *handling, n int) {
		h.noteStatus(200)
		h.wrote(h.w.Write(make([]byte, n)))
	}},
	{"WriteString", func(h *handling, n int) {
		h.noteStatus(200)
		h.wrote(io.WriteString(h.w, strings.Repeat("x", n)))
	}},
	{"io.Copy", func(h *handling, n int) {
		connected := h.connected()
		copied, err := io.Copy(h.w, io.LimitReader(zeros{}, int64(n)))
		if copied > 0 {
			h.noteWritten(connected)
		}
		h.wrote(int(copied), err)
	}},
	{"WriteHeader", func(h *handling, n int) {
		status := []int{200, 201, 204, 304, 401, 404, 418, 500}[n%8]
		h.noteStatus(status)
		h.w.WriteHeader(status)
	}},
	{"WriteHeader(103)", func(h *handling, _ int) {
		h.w.WriteHeader(http.StatusEarlyHints)
		if h.r.Context().Err() != nil {
			// The server of HTTP/2 sends it in another goroutine, which it does not wait for once
			// the stream is closed. Until that is done, the header must not be changed, neither by
			// the handler nor by the server, which does so when the handler returns.
			h.pause()
		}
	}},
	{"Flush", func(h *handling, _ int) {
		connected := h.connected()
		err := http.NewResponseController(h.w).Flush()
		if !errors.Is(err, errors.ErrUnsupported) {
			h.noteWritten(connected)
			h.wrote(0, err)
		}
	}},
	{"Flusher", func(h *handling, _ int) {
		if f, ok := h.w.(http.Flusher); ok {
			h.noteStatus(200)
			f.Flush()
			h.wrote(0, nil)
		}
	}},
	{"Body.Read", func(h *handling, n int) {
		_, err := io.CopyN(io.Discard, h.r.Body, int64(n))
		if err != nil && err != io.EOF && err != http.ErrBodyReadAfterClose { // which is the server's own doing
			h.did.failed = true
			h.pause()
		}
	}},
	{"a header with the cost", func(h *handling, n int) { h.w.Header().Set("X-Units", units[n%len(units)]) }},
	{"a trailer with the cost", func(h *handling, n int) {
		h.w.Header().Set(http.TrailerPrefix+"X-Units", units[n%len(units)])
	}},
	{"Commit", func(h *handling, n int) {
		h.say(n, func(c *httplimit.Charge, s *said) { c.Commit(int64(n)); s.whole, s.cost = true, int64(n) })
	}},
	{"Add", func(h *handling, n int) {
		h.say(n, func(c *httplimit.Charge, s *said) { c.Add(int64(n) - 2); s.more += int64(n) - 2 })
	}},
	{"Cancel", func(h *handling, n int) {
		h.say(n, func(c *httplimit.Charge, s *said) { c.Cancel(); s.whole, s.cost = true, 0 })
	}},
	{"Keep", func(h *handling, n int) {
		h.say(n, func(c *httplimit.Charge, s *said) { c.Keep(); s.whole, s.cost = true, c.Estimate() })
	}},
	{"Estimate", func(h *handling, n int) {
		h.say(n, func(c *httplimit.Charge, _ *said) { h.did.estimates[h.policyAt(n)] = c.Estimate() })
	}},
	{"waits", func(h *handling, _ int) { h.pause() }},
	{"waits for the client to go", func(h *handling, _ int) {
		select {
		case <-h.r.Context().Done():
		case <-h.stopping:
		}
		h.pause() // what else the client has done is known by then
	}},
	{"panics", func(h *handling, _ int) {
		h.did.panicked = true
		panic("a handler of the model panics")
	}},
	{"aborts", func(h *handling, _ int) {
		h.did.panicked = true
		panic(http.ErrAbortHandler)
	}},
	{"Hijack", func(h *handling, _ int) {
		conn, _, err := http.NewResponseController(h.w).Hijack()
		if err == nil {
			if !h.foreign { // the middleware does not see what is done to a writer inside another
				h.noteStatus(http.StatusSwitchingProtocols)
			}
			h.did.hijacked = true
			conn.Close()
		}
	}},
}

// units are what handlers put into the header X-Units.
var units = []string{"0", "3", "9", "", "-1", "x", " 2 ", "99999999999999999999"}

// zeros is endless. It has no WriteTo, so that io.Copy uses ReadFrom.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// newScript returns what a handler is to do.
func newScript(random *rand.Rand) (script []handlerStep) {
	for range random.IntN(6) {
		n := random.IntN(8)
		if random.IntN(4) == 0 {
			n = random.IntN(3000)
		}
		call := &handlerCalls[random.IntN(len(handlerCalls))]
		script = append(script, handlerStep{call, n})
	}
	return script
}

func (h *handling) connected() bool { return h.ctx.Err() == nil }

// mayBeLeft waits if the server may be about to see that the client has gone: an HTTP/1.1 server looks
// once it has read all of a request, in a goroutine of its own.
func (h *handling) mayBeLeft() {
	if h.client != nil && h.client.ended && !h.client.http2 && h.r.Context().Err() == nil {
		h.pause()
	}
}

// noteStatus notes that the client was sent a status, unless it was sent one before.
func (h *handling) noteStatus(status int) {
	if h.did.wrote == 0 {
		h.did.wrote = status
	}
	if h.did.status == 0 && h.connected() {
		h.did.status = status
	}
}

// noteWritten notes that something was written, before which the client was connected or not.
func (h *handling) noteWritten(connected bool) {
	if h.did.wrote == 0 {
		h.did.wrote = 200
	}
	if connected && h.did.status == 0 {
		h.did.status = 200
	}
}

// wrote notes what a write has returned. After a failure the handler waits: all that the client has
// done to it is known by then. The answer to a HEAD of HTTP/2 ends with its header, and its context then.
func (h *handling) wrote(n int, err error) {
	h.did.bytes += int64(n)
	failed := err != nil && !errors.Is(err, http.ErrBodyNotAllowed)
	h.did.failed = h.did.failed || failed
	if failed || h.method == http.MethodHead && h.client != nil && h.client.http2 {
		h.pause()
	}
}

// pause blocks until the model lets the handler go on.
func (h *handling) pause() {
	h.did.paused = true
	select {
	case <-h.proceed:
	case <-h.stopping:
	}
	h.did.paused = false
}

// stops reports whether the program has ended. All handlers then go on at once, and their clients
// are gone.
func (m *model) stops() bool {
	select {
	case <-m.stopping:
		return true
	default:
		return false
	}
}

// goOn lets a handler that is paused go on.
func (x *exchange) goOn() {
	x.did.paused = false
	x.proceed <- struct{}{}
}

func (h *handling) policyAt(n int) string { return "p" + strconv.Itoa(n%4) }

// say says something of the charge under one of the policies, if there is such a charge.
func (h *handling) say(n int, do func(*httplimit.Charge, *said)) {
	name := h.policyAt(n)
	c := httplimit.ChargeOf(h.r.Context(), name)
	if c == nil {
		do(nil, new(said)) // does nothing
		return
	}
	s := h.did.said[name]
	do(c, &s)
	h.did.said[name] = s
}

// handle is the handler behind the middleware.
func (m *model) handle(w http.ResponseWriter, r *http.Request) {
	h := &handling{exchange: m.exchangeOf(r), model: m, w: w, r: r}
	if now := m.moment(); h.verdict == nil {
		h.admitted, h.header, h.exchange.decided = true, w.Header().Clone(), now
	}
	h.did.said, h.did.estimates = map[string]said{}, map[string]int64{}
	defer func() {
		now := m.moment()
		h.did.gone, h.did.header, h.exchange.settled = !h.connected(), w.Header().Clone(), now
	}()
	if h.inCrowd.Load() {
		h.pause() // else it is not known which of the others were decided before its response was settled
	}
	for _, step := range h.script {
		step.call.do(h, step.n)
		if h.did.hijacked || h.stops() {
			break
		}
		h.mayBeLeft()
	}
}

// around is the handler around the middleware.
func (m *model) around(w http.ResponseWriter, r *http.Request) {
	x := m.exchangeOf(r)
	(&handling{exchange: x, model: m, r: r}).mayBeLeft()
	x.request, x.ctx = r.Clone(context.WithoutCancel(r.Context())), r.Context()
	x.arrived = m.moment()
	header := w.Header()
	defer func() {
		if now := m.moment(); !x.admitted {
			x.decided, x.header, x.left = now, header.Clone(), r.Context().Err() != nil
		}
		x.ended = true
	}()
	if x.foreign {
		w = foreignWriter{w}
	}
	m.middleware.ServeHTTP(w, r)
}

// exchangeOf returns the exchange of a request. A request that has waited may be decided while the model
// makes the next exchange.
func (m *model) exchangeOf(r *http.Request) *exchange {
	n, _ := strconv.Atoi(r.Header.Get("X-Number"))
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.exchanges[n]
}

// A foreignWriter is a writer of a framework.
type foreignWriter struct{ http.ResponseWriter }

func (w foreignWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
