package httplimit_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// loginPolicy returns the policy of the README that charges only failed logins.
func loginPolicy() httplimit.Policy {
	return httplimit.Policy{
		Name:    "login",
		Pattern: "POST /login",
		Limits:  []sash.Limit{sash.PerHour(5).Log()},
		Key:     httplimit.ByAddress(),
		Charge:  func(status int) bool { return status == http.StatusUnauthorized },
	}
}

// downloadPolicy returns a policy that charges everything but failures of the server.
func downloadPolicy() httplimit.Policy {
	return httplimit.Policy{
		Name:   "downloads",
		Limits: []sash.Limit{sash.PerHour(5).Log()},
		Key:    httplimit.ByAddress(),
		Charge: func(status int) bool { return status < 500 },
	}
}

// A front is a site whose handler is a reverse proxy before an upstream server.
type front struct {
	*site
	*httptest.Server
	done chan struct{} // receives when a request has been settled
}

// newFront starts the upstream server, and the reverse proxy under the policies.
func newFront(t *testing.T, upstream http.HandlerFunc, http2 bool, policies ...httplimit.Option) *front {
	behind := httptest.NewServer(upstream)
	t.Cleanup(behind.Close)
	target, err := url.Parse(behind.URL)
	require.NoError(t, err)
	quiet := log.New(io.Discard, "", 0)
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ErrorLog = quiet

	f := &front{site: newSite(t, policies...), done: make(chan struct{}, 1)}
	f.answer = proxy.ServeHTTP
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { f.done <- struct{}{} }() // a panic goes on
		f.site.ServeHTTP(w, r)
	}))
	f.Config.ErrorLog = quiet
	if f.EnableHTTP2 = http2; http2 {
		f.StartTLS()
	} else {
		f.Start()
	}
	t.Cleanup(f.Server.Close)
	return f
}

// wait blocks until the server has settled one more request.
func (f *front) wait(t *testing.T) {
	select {
	case <-f.done:
	case <-time.After(time.Minute):
		t.Fatal("the request is still under way")
	}
}

// send opens a connection and sends a request as it stands.
func (f *front) send(t *testing.T, request string) *wire {
	w := dial(t, f.Server)
	_, err := io.WriteString(w, request)
	require.NoError(t, err)
	return w
}

// settled sends a request and waits until the server has settled it. It returns the
// status of the first response.
func (f *front) settled(t *testing.T, request string) (status string) {
	w := f.send(t, request)
	f.wait(t)
	line := make([]byte, len("HTTP/1.1 429"))
	_, err := io.ReadFull(w, line)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return strings.TrimPrefix(string(line), "HTTP/1.1 ")
}

// large returns a handler that answers with the status, and with a body that is larger
// than the buffers of a connection.
func large(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		block := make([]byte, 1<<16)
		for range 50 << 20 / len(block) {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
}

// Types of HTTP/2 frames.
const (
	frameHeaders   = 0x1
	frameRSTStream = 0x3
	frameSettings  = 0x4
)

// A stalling is a client of HTTP/2 that never lets the server send a byte of a body.
type stalling struct {
	*testing.T
	conn *tls.Conn
}

func newStalling(t *testing.T, f *front) *stalling {
	config := f.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", f.Listener.Addr().String(), config)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute))) // if the server hangs
	c := &stalling{t, conn}
	_, err = io.WriteString(conn, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	require.NoError(t, err)
	c.write(frameSettings, 0, 0, []byte{0, 4, 0, 0, 0, 0}) // SETTINGS_INITIAL_WINDOW_SIZE is 0
	return c
}

func (c *stalling) write(kind, flags byte, stream uint32, payload []byte) {
	n := len(payload)
	frame := binary.BigEndian.AppendUint32([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags}, stream)
	_, err := c.conn.Write(append(frame, payload...))
	require.NoError(c, err)
}

// post sends a complete request without a body.
func (c *stalling) post(stream uint32, path string) {
	const endStream, endHeaders = 0x1, 0x4
	var block []byte
	for _, field := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", "h"}, {":path", path}} {
		block = append(block, 0) // a literal field, not indexed, with a new name
		for _, text := range field {
			block = append(append(block, byte(len(text))), text...)
		}
	}
	c.write(frameHeaders, endStream|endHeaders, stream, block)
}

// awaitHeaders blocks until the server has sent the headers of the response.
func (c *stalling) awaitHeaders(stream uint32) {
	const ack = 0x1
	for {
		var head [9]byte
		_, err := io.ReadFull(c.conn, head[:])
		require.NoError(c, err)
		payload := make([]byte, int(head[0])<<16|int(head[1])<<8|int(head[2]))
		_, err = io.ReadFull(c.conn, payload)
		require.NoError(c, err)
		switch kind, flags := head[3], head[4]; {
		case kind == frameHeaders && binary.BigEndian.Uint32(head[5:]) == stream:
			return
		case kind == frameSettings && flags&ack == 0:
			c.write(frameSettings, ack, 0, nil)
		}
	}
}

// reset cancels a stream.
func (c *stalling) reset(stream uint32) {
	const cancel = 0x8
	c.write(frameRSTStream, 0, stream, []byte{0, 0, 0, cancel})
}

// The client learns from the headers that its guess was wrong, and aborts the response.
func TestCharge_IsKeptWhenTheClientResetsTheStream(t *testing.T) {
	f := newFront(t, large(http.StatusUnauthorized), true, loginPolicy())
	c := newStalling(t, f)
	for i := range uint32(8) {
		stream := 2*i + 1
		c.post(stream, "/login")
		c.awaitHeaders(stream)
		c.reset(stream)
		f.wait(t)
	}
	require.EqualValues(t, 5, f.served.Load())
}

func TestCharge_IsKeptWhenTheClientStopsReading(t *testing.T) {
	for name, c := range map[string]struct {
		policy httplimit.Policy
		status int
	}{
		"wrong logins": {loginPolicy(), http.StatusUnauthorized},
		"downloads":    {downloadPolicy(), http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFront(t, large(c.status), false, c.policy)
			for range 8 {
				w := f.send(t, "POST /login HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
				_, err := w.in.ReadString('\n')
				require.NoError(t, err)
				require.NoError(t, w.Close())
				f.wait(t)
			}
			require.EqualValues(t, 5, f.served.Load())
		})
	}
}

// A ReverseProxy writes 502 once the client has hung up, and no client reads that.
func TestCharge_IsKeptWhenTheClientHangsUpBeforeTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		policy httplimit.Policy
		body   string // after which the client hangs up
	}{
		"logins":             {loginPolicy(), "password"},
		"downloads":          {downloadPolicy(), "password"},
		"half of the body":   {loginPolicy(), "pass"},
		"half of the upload": {downloadPolicy(), "pass"},
	} {
		t.Run(name, func(t *testing.T) {
			arrived := make(chan struct{}, 1)
			f := newFront(t, func(_ http.ResponseWriter, r *http.Request) {
				arrived <- struct{}{}
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			}, false, c.policy)
			for range 5 {
				w := f.send(t, "POST /login HTTP/1.1\r\nHost: h\r\nContent-Length: 8\r\n\r\n"+c.body)
				<-arrived
				require.NoError(t, w.Close())
				f.wait(t)
			}
			key, _ := f.KeyFor(c.policy.Name, &http.Request{RemoteAddr: "127.0.0.1"})
			require.Zero(t, f.Sash().Peek(key, 0).Remaining)
		})
	}
}

// A ReverseProxy answers 502 if it cannot read the body. The client is still connected.
func TestCharge_IsKeptWhenTheClientSendsAMalformedBody(t *testing.T) {
	f := newFront(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }, false, downloadPolicy())
	for _, want := range []string{"502", "502", "502", "502", "502", "429", "429"} {
		require.Equal(t, want, f.settled(t, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nno length\r\n"))
	}
}

// That the body is not read to its end is here the decision of the upstream.
func TestCharge_IsGivenBackWhenTheUpstreamAnswersEarly(t *testing.T) {
	f := newFront(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, false, downloadPolicy())
	for range 7 {
		status := f.settled(t, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 8\r\nExpect: 100-continue\r\n\r\n")
		require.NotEqual(t, "429", status)
	}
}

// A handler may leave the body unread, or close it. A handler around the middleware sees
// the changes that it makes to the request.
func TestCharge_IsAskedOfAnswersToRequestsWithABody(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"read": func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) },
		"left": func(http.ResponseWriter, *http.Request) {},
		"closed": func(_ http.ResponseWriter, r *http.Request) {
			require.NoError(t, r.Body.Close())
			_, err := r.Body.Read(make([]byte, 1))
			require.Error(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, downloadPolicy())
			s.answer = func(w http.ResponseWriter, r *http.Request) {
				answer(w, r)
				r.Pattern = name
				r.SetPathValue("name", name)
				w.WriteHeader(http.StatusServiceUnavailable)
			}
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				own := r.Body
				s.ServeHTTP(w, r)
				require.Equal(t, name, r.Pattern)
				require.Equal(t, name, r.PathValue("name"))
				require.Equal(t, own, r.Body)
			}))
			defer server.Close()
			for range 7 {
				response, err := server.Client().Post(server.URL, "text/plain", strings.NewReader("password"))
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				require.Equal(t, http.StatusServiceUnavailable, response.StatusCode)
			}
		})
	}
}

var errGone = errors.New("the client is gone")

// A serverWriter has the methods of net/http's writer for HTTP/1. If err is not nil, its
// writes fail, as on a connection that the client has closed.
type serverWriter struct {
	*httptest.ResponseRecorder
	err error
}

func (w serverWriter) Write(b []byte) (int, error) {
	if w.err != nil {
		return 0, w.err
	}
	return w.ResponseRecorder.Write(b)
}

func (w serverWriter) WriteString(s string) (int, error) { return w.Write([]byte(s)) }

func (w serverWriter) ReadFrom(r io.Reader) (int64, error) {
	n, err := io.Copy(struct{ io.Writer }{w.ResponseRecorder}, r)
	return n, errors.Join(err, w.err)
}

func (w serverWriter) FlushError() error { return w.err }

func (w serverWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, w.err }

// uncertain holds answers that the client may or may not have been sent, and
// the status that it was sent, if any.
var uncertain = map[string]struct {
	answer func(w http.ResponseWriter, hangUp func())
	gone   bool // whether writes fail
	sent   int
	unseen bool // whether nothing is wrong, but that the handler has shown no response
}{
	"nothing is written":   {answer: func(http.ResponseWriter, func()) {}, unseen: true},
	"informational only":   {answer: func(w http.ResponseWriter, _ func()) { w.WriteHeader(103) }, unseen: true},
	"panic":                {answer: func(http.ResponseWriter, func()) { panic("mine") }},
	"abort":                {answer: func(http.ResponseWriter, func()) { panic(http.ErrAbortHandler) }},
	"abort after status":   {answer: func(w http.ResponseWriter, _ func()) { w.WriteHeader(403); panic(http.ErrAbortHandler) }, sent: 403},
	"abort after body":     {answer: func(w http.ResponseWriter, _ func()) { io.WriteString(w, "x"); panic(http.ErrAbortHandler) }, sent: 200},
	"hang-up, no answer":   {answer: func(_ http.ResponseWriter, hangUp func()) { hangUp() }},
	"hang-up, then 502":    {answer: func(w http.ResponseWriter, hangUp func()) { hangUp(); w.WriteHeader(502) }},
	"hang-up, then body":   {answer: func(w http.ResponseWriter, hangUp func()) { hangUp(); io.WriteString(w, "x") }},
	"status, then hang-up": {answer: func(w http.ResponseWriter, hangUp func()) { w.WriteHeader(404); hangUp() }, sent: 404},
	"hang-up, then copy": {answer: func(w http.ResponseWriter, hangUp func()) {
		hangUp()
		w.(io.ReaderFrom).ReadFrom(strings.NewReader("x"))
	}},
	"hang-up during copy": {answer: func(w http.ResponseWriter, hangUp func()) {
		w.(io.ReaderFrom).ReadFrom(&last{strings.NewReader("x"), hangUp})
	}, sent: 200},
	"write fails":  {answer: func(w http.ResponseWriter, _ func()) { w.Write([]byte("x")) }, gone: true, sent: 200},
	"string fails": {answer: func(w http.ResponseWriter, _ func()) { w.WriteHeader(401); io.WriteString(w, "x") }, gone: true, sent: 401},
	"flush fails": {answer: func(w http.ResponseWriter, _ func()) {
		_ = http.NewResponseController(w).Flush()
	}, gone: true, sent: 200},
	"copy fails": {answer: func(w http.ResponseWriter, _ func()) {
		w.(io.ReaderFrom).ReadFrom(strings.NewReader("x"))
	}, gone: true, sent: 200},
}

// A last is a reader that calls a function when its end is read.
type last struct {
	io.Reader
	call func()
}

func (r *last) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if err == io.EOF {
		r.call()
	}
	return n, err
}

// answerUncertainly serves one request with that answer of uncertain.
func (s *site) answerUncertainly(name string) {
	c := uncertain[name]
	ctx, hangUp := context.WithCancel(context.Background())
	defer hangUp()
	s.answer = func(w http.ResponseWriter, _ *http.Request) { c.answer(w, hangUp) }
	w := serverWriter{ResponseRecorder: httptest.NewRecorder()}
	if c.gone {
		w.err = errGone
	}
	defer func() { _ = recover() }()
	s.ServeHTTP(w, newRequest("GET /", "X-Key", "k").WithContext(ctx))
}

func TestCharge_IsNotAskedOfUncertainAnswers(t *testing.T) {
	for name := range uncertain {
		t.Run(name, func(t *testing.T) {
			p := per("each", "", sash.PerHour(5).Log())
			p.Charge = func(status int) bool { t.Errorf("asked of %d", status); return false }
			s := newSite(t, p)
			s.answerUncertainly(name)
			require.EqualValues(t, 4, s.left(t, "each"))
		})
	}
}

func TestChargeUncertain_IsAskedWithTheStatusThatWasSent(t *testing.T) {
	for name, c := range uncertain {
		t.Run(name, func(t *testing.T) {
			var asked []int
			var events []string
			p := per("each", "", sash.PerHour(5).Log())
			p.ChargeUncertain = func(status int) bool {
				asked = append(asked, status)
				return len(asked) == 1
			}
			s := newSite(t, p, httplimit.WithObserver(func(e httplimit.Event) { events = append(events, e.Outcome.String()) }))
			s.answerUncertainly(name)
			require.EqualValues(t, 4, s.left(t, "each"))
			s.answerUncertainly(name)
			require.EqualValues(t, 4, s.left(t, "each"))
			require.Equal(t, []int{c.sent, c.sent}, asked)
			want := []string{"admitted", "admitted", "given back"}
			if c.unseen {
				want = slices.Insert(want, 1, "unseen") // while the charge stays
			}
			require.Equal(t, want, events)
		})
	}
}

func TestChargeUncertain_IsNotAskedOfCertainAnswers(t *testing.T) {
	p := per("each", "", sash.PerHour(5).Log())
	p.ChargeUncertain = func(status int) bool { t.Errorf("asked of %d", status); return false }
	p.Shadow = true
	s := newSite(t, p)
	for i, answer := range []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) },
		func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") },
		// These statuses have no body, so the answer is complete without it.
		func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(304)
			_, err := w.Write([]byte("x"))
			require.ErrorIs(t, err, http.ErrBodyNotAllowed)
		},
		func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(204)
			_, err := io.WriteString(w, "x")
			require.ErrorIs(t, err, http.ErrBodyNotAllowed)
		},
	} {
		s.answer = answer
		s.do("GET /", "X-Key", "k")
		require.EqualValues(t, 4-i, s.left(t, "each"))
	}
}

// Each policy settles its own charge of an uncertain answer.
func TestChargeUncertain_OfOnePolicyChangesNoOther(t *testing.T) {
	lenient, strict := failures(5), failures(5)
	strict.Name = "strict"
	lenient.ChargeUncertain = func(int) bool { return false }
	faulty := per("faulty", "", sash.PerHour(5).Log())
	faulty.ChargeUncertain = func(int) bool { panic("secret") }
	s := newSite(t, faulty, lenient, strict)
	logged := captureLog(t)
	s.answerUncertainly("abort")
	require.Equal(t, []int64{4, 5, 4}, []int64{s.left(t, "faulty"), s.left(t, "failures"), s.left(t, "strict")})
	require.Contains(t, logged.String(), `httplimit: panic in policy "faulty": secret`)
}
