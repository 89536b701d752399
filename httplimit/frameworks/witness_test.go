package frameworks_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// A witness is a policy that tells what it was told of a response: "401, 5 bytes", or "401?" if
// that is uncertain. It is for all requests.
type witness struct {
	limiter *httplimit.Limiter
	told    chan string
}

func newWitness(t *testing.T) *witness {
	w := &witness{told: make(chan string, 10)}
	status := ""
	w.limiter = httplimit.Must(httplimit.New(httplimit.Policy{
		Name:   "witness",
		Limits: []sash.Limit{sash.PerHour(1000).Log()},
		Key:    httplimit.Everyone(),
		Charge: func(s int) bool {
			status = fmt.Sprint(s)
			if s == http.StatusSwitchingProtocols {
				w.told <- status // and no Settle
			}
			return true
		},
		ChargeUncertain: func(s int) bool {
			w.told <- fmt.Sprint(s, "?")
			return true
		},
		Settle: func(r *httplimit.Response) int64 {
			w.told <- fmt.Sprintf("%s, %d bytes", status, r.Bytes)
			return -1
		},
	}, httplimit.WithPathFolding(), httplimit.WithClock(sash.NewManualClock(0)), httplimit.WithSweepInterval(-1)))
	t.Cleanup(func() { w.limiter.Close() })
	return w
}

// next returns what the next response was.
func (w *witness) next(t *testing.T) string {
	select {
	case told := <-w.told:
		return told
	case <-time.After(time.Minute):
		t.Fatal("the request was never settled")
		return ""
	}
}

// quiet is a log that nobody reads.
var quiet = log.New(io.Discard, "", 0)

// serveHTTP serves h by a server of net/http that logs nothing, and returns its address.
func serveHTTP(t *testing.T, h http.Handler) (address string) {
	server := httptest.NewUnstartedServer(h)
	server.Config.ErrorLog = quiet
	server.Start()
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// A wire is a connection to a server.
type wire struct {
	*testing.T
	net.Conn
	*bufio.Reader
}

// dial opens a connection and sends a request as it stands.
func dial(t *testing.T, address, request string) *wire {
	conn, err := net.Dial("tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute))) // if the server hangs
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	return &wire{t, conn, bufio.NewReader(conn)}
}

func (w *wire) Read(b []byte) (int, error) { return w.Reader.Read(b) }

// response reads a response whose body is of no interest.
func (w *wire) response() *http.Response {
	r, err := http.ReadResponse(w.Reader, nil)
	require.NoError(w, err)
	return r
}

// A site serves handlers of a framework, each at its path, behind a limiter.
type site func(*testing.T, *httplimit.Limiter) http.Handler

// mount returns s as a mount.
func (s site) mount() mount {
	return mount{build: func(t *testing.T, l *httplimit.Limiter, _ *atomic.Int64) http.Handler { return s(t, l) }}
}

// told sends a request to the path over a connection, and returns what the witness was told of the response.
func (s site) told(t *testing.T, method, path string) string {
	w := newWitness(t)
	address := serve(t, s(t, w.limiter))
	dial(t, address, method+" "+path+" HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody").response()
	return w.next(t)
}

// toldOf returns what the witness was told if the site answers r by w, in the test's own
// goroutine.
func (s site) toldOf(t *testing.T, writer http.ResponseWriter, r *http.Request) string {
	w := newWitness(t)
	s(t, w.limiter).ServeHTTP(writer, r)
	return w.next(t)
}

// serve serves h, by a server of its own if it has none, and returns its address.
func serve(t *testing.T, h http.Handler) (address string) {
	if there, ok := h.(at); ok {
		return there.address
	}
	return serveHTTP(t, h)
}

// A gone is an http.ResponseWriter whose client is gone.
type gone struct{ *httptest.ResponseRecorder }

func (gone) Write([]byte) (int, error) { return 0, net.ErrClosed }

func (gone) WriteString(string) (int, error) { return 0, net.ErrClosed }

// newGone returns a writer whose client is gone.
func newGone() gone { return gone{httptest.NewRecorder()} }

// cutRequest is a POST whose client hangs up within the body.
func cutRequest(path string) *http.Request {
	return httptest.NewRequest("POST", path, io.MultiReader(strings.NewReader("first"), failing{}))
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
