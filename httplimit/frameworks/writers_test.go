package frameworks_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/gin-gonic/gin"
	echo4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/echo4limit"
	"github.com/seed-30da4c49/sash/httplimit/echolimit"
	"github.com/seed-30da4c49/sash/httplimit/ginlimit"
)

// A writing is a handler of a framework whose handlers write to an http.ResponseWriter. The
// framework answers an error by 500.
type writing func(http.ResponseWriter, *http.Request) error

// A writer serves all requests by a handler of its framework, behind the limiter. The framework's
// middleware that recovers from panics is outside of the limiter, inside of it, or nowhere.
type writer func(recovers recovery, handler writing) site

type recovery int

const (
	nowhere recovery = iota
	outside
	inside
)

// writers are the frameworks whose handlers write to an http.ResponseWriter.
var writers = map[string]writer{
	"gin": func(recovers recovery, handler writing) site {
		return func(_ *testing.T, l *httplimit.Limiter) http.Handler {
			gin.SetMode(gin.ReleaseMode)
			e := gin.New()
			useAround(recovers, func(h gin.HandlerFunc) { e.Use(h) }, ginlimit.Middleware(l), gin.RecoveryWithWriter(io.Discard))
			e.Any("/*path", func(c *gin.Context) {
				if err := handler(c.Writer, c.Request); err != nil && !c.Writer.Written() {
					c.AbortWithStatus(http.StatusInternalServerError)
				}
			})
			return e
		}
	},
	"echo":  echoes["echo"].writer(),
	"echo4": echoes["echo4"].writer(),
}

// useAround uses the limiter, and the middleware that recovers before it or after it.
func useAround[M any](recovers recovery, use func(M), limiter, recover M) {
	if recovers == outside {
		use(recover)
	}
	use(limiter)
	if recovers == inside {
		use(recover)
	}
}

// inProtocols runs a test with a server that speaks HTTP/1, and with one that speaks HTTP/2. Both
// serve the site behind the limiter of the witness.
func (s site) inProtocols(t *testing.T, test func(*testing.T, *witness, *httptest.Server)) {
	for major := 1; major <= 2; major++ {
		t.Run(fmt.Sprint("HTTP ", major), func(t *testing.T) {
			w := newWitness(t)
			server := httptest.NewUnstartedServer(s(t, w.limiter))
			server.Config.ErrorLog = quiet
			server.EnableHTTP2 = major == 2
			server.StartTLS()
			t.Cleanup(server.Close)
			test(t, w, server)
		})
	}
}

// send sends a request to a server, and returns the response. Its body is still open.
func send(t *testing.T, ctx context.Context, s *httptest.Server) *http.Response {
	r, err := http.NewRequestWithContext(ctx, "GET", s.URL, nil)
	require.NoError(t, err)
	response, err := s.Client().Do(r)
	require.NoError(t, err)
	require.Equal(t, s.EnableHTTP2, response.ProtoMajor == 2)
	return response
}

// A flush reaches the client at once, and all bytes are counted.
func TestAdapters_StreamWhatIsFlushed(t *testing.T) {
	for name, of := range writers {
		t.Run(name, func(t *testing.T) {
			read := make(chan bool)
			s := of(nowhere, func(w http.ResponseWriter, _ *http.Request) error {
				for range 3 {
					io.WriteString(w, "some ")
					w.(http.Flusher).Flush()
					<-read
				}
				_, err := io.Copy(w, io.LimitReader(endless{}, 1<<20))
				return err
			})
			s.inProtocols(t, func(t *testing.T, told *witness, server *httptest.Server) {
				response := send(t, t.Context(), server)
				for range 3 {
					_, err := io.ReadFull(response.Body, make([]byte, 5))
					require.NoError(t, err)
					read <- true
				}
				n, err := io.Copy(io.Discard, response.Body)
				require.NoError(t, errors.Join(err, response.Body.Close()))
				require.EqualValues(t, 1<<20, n)
				require.Equal(t, fmt.Sprintf("200, %d bytes", 15+1<<20), told.next(t))
			})
		})
	}
}

// endless is a reader without an end.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// A client that hangs up in the middle of a response leaves it uncertain.
func TestAdapters_NoticeThatAClientHangsUp(t *testing.T) {
	for name, of := range writers {
		t.Run(name, func(t *testing.T) {
			s := of(nowhere, func(w http.ResponseWriter, r *http.Request) error {
				for r.Context().Err() == nil {
					if _, err := w.Write(make([]byte, 1<<10)); err != nil {
						<-r.Context().Done()
					}
					w.(http.Flusher).Flush()
				}
				return r.Context().Err()
			})
			s.inProtocols(t, func(t *testing.T, told *witness, server *httptest.Server) {
				ctx, hangUp := context.WithCancel(t.Context())
				response := send(t, ctx, server)
				_, err := io.ReadFull(response.Body, make([]byte, 1<<10))
				require.NoError(t, err)
				hangUp()
				response.Body.Close()
				require.Equal(t, "200?", told.next(t))
			})
		})
	}
}

// A queueing is a client of a site in a synctest bubble, whose policy serves one request at a time
// and lets others wait. Each handler notes the path of its request, and answers when it is released.
type queueing struct {
	*testing.T
	client  http.Client
	release chan bool
	mu      sync.Mutex
	log     []string // what became of the requests, in order
}

// inQueue runs a test in a bubble with a site of that framework, whose server speaks HTTP of that
// version through pipes.
func inQueue(t *testing.T, of writer, major int, test func(*queueing)) {
	synctest.Test(t, func(t *testing.T) {
		q := &queueing{T: t, release: make(chan bool)}
		s := of(nowhere, func(w http.ResponseWriter, r *http.Request) error {
			q.note(r.URL.Path + " is served")
			<-q.release
			_, err := io.WriteString(w, "hello")
			return err
		})
		p := policy("queue", "", 1)
		p.Key = httplimit.Everyone()
		p.Queue = httplimit.Queue{Wait: sash.Never, Requests: 10}
		p.Charge = func(int) bool { return false }
		p.ChargeUncertain = p.Charge
		limiter := httplimit.Must(httplimit.New(p, httplimit.WithClock(sash.NewManualClock(0)), httplimit.WithSweepInterval(-1),
			httplimit.WithObserver(func(e httplimit.Event) {
				if e.Outcome == httplimit.Abandoned {
					q.note("abandoned")
				}
			})))
		defer limiter.Close()
		var protocols http.Protocols
		protocols.SetHTTP1(major == 1)
		protocols.SetUnencryptedHTTP2(major == 2)
		pipes := &pipeListener{accepted: make(chan net.Conn), closed: make(chan struct{})}
		server := &http.Server{Handler: s(t, limiter), Protocols: &protocols, ErrorLog: quiet}
		go server.Serve(pipes)
		defer server.Close()
		transport := &http.Transport{Protocols: &protocols, DialContext: pipes.dial}
		defer transport.CloseIdleConnections()
		q.client.Transport = transport
		test(q)
	})
}

func (q *queueing) note(what string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.log = append(q.log, what)
}

// ask sends a request, and returns when it is served or waits. hangUp ends it.
func (q *queueing) ask(path string) (hangUp context.CancelFunc) {
	ctx, hangUp := context.WithCancel(q.Context())
	go func() {
		r, _ := http.NewRequestWithContext(ctx, "GET", "http://h"+path, nil)
		response, err := q.client.Do(r)
		if err != nil {
			return
		}
		io.Copy(io.Discard, response.Body)
		response.Body.Close()
		q.note(fmt.Sprint(path, " got ", response.StatusCode))
	}()
	synctest.Wait()
	return hangUp
}

// happened returns what has happened since the last call.
func (q *queueing) happened() (log []string) {
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	log, q.log = q.log, nil
	return log
}

// A pipeListener accepts connections in memory.
type pipeListener struct {
	accepted chan net.Conn
	once     sync.Once
	closed   chan struct{}
}

func (l *pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	l.accepted <- theirs
	return ours, nil
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// Requests that wait are served in their order. One whose client hangs up is not, and holds up no
// others.
func TestAdapters_ServeAQueueInItsOrder(t *testing.T) {
	for name, of := range writers {
		for major := 1; major <= 2; major++ {
			t.Run(fmt.Sprint(name, ", HTTP ", major), func(t *testing.T) {
				inQueue(t, of, major, func(q *queueing) {
					q.ask("/first")
					require.Equal(t, []string{"/first is served"}, q.happened())
					q.ask("/second")
					hangUp := q.ask("/gone")
					q.ask("/third")
					require.Empty(t, q.happened())
					hangUp()
					require.Equal(t, []string{"abandoned"}, q.happened())
					for _, next := range []string{"/second", "/third"} {
						q.release <- true
						require.Contains(t, q.happened(), next+" is served")
					}
					q.release <- true
					require.Equal(t, []string{"/third got 200"}, q.happened())
				})
			})
		}
	}
}

func TestAdapters_ShowWhatAClientDoes(t *testing.T) {
	for name, of := range writers {
		t.Run(name, func(t *testing.T) {
			hello := of(nowhere, func(w http.ResponseWriter, _ *http.Request) error {
				_, err := io.WriteString(w, "hello")
				return err
			})
			upload := of(nowhere, func(w http.ResponseWriter, r *http.Request) error {
				if _, err := io.ReadAll(r.Body); err != nil {
					return err
				}
				_, err := io.WriteString(w, "thanks")
				return err
			})
			require.Equal(t, "200, 0 bytes", hello.told(t, "HEAD", "/"))
			require.Equal(t, "200, 6 bytes", upload.told(t, "POST", "/"))
			require.Equal(t, "200?", hello.toldOf(t, newGone(), httptest.NewRequest("GET", "/", nil)))
			require.Equal(t, "500?", upload.toldOf(t, httptest.NewRecorder(), cutRequest("/")))
		})
	}
}

// A panic that passes through the limiter leaves the response uncertain, whoever answers it.
func TestAdapters_KnowAPanic(t *testing.T) {
	for name, of := range writers {
		t.Run(name, func(t *testing.T) {
			early := func(http.ResponseWriter, *http.Request) error { panic("oh") }
			late := func(w http.ResponseWriter, _ *http.Request) error {
				w.WriteHeader(202)
				io.WriteString(w, "hi")
				panic("oh")
			}
			require.Equal(t, "500", of(inside, early).told(t, "GET", "/")[:3])
			require.Equal(t, "0?", of(outside, early).told(t, "GET", "/"))
			require.Equal(t, "202?", of(outside, late).told(t, "GET", "/"))
			recorded := httptest.NewRecorder()
			require.Equal(t, "0?", of(outside, early).toldOf(t, recorded, httptest.NewRequest("GET", "/", nil)))
			require.Equal(t, http.StatusInternalServerError, recorded.Code)
		})
	}
}

// A websocket or another upgrade takes over the connection.
func TestAdapters_LetHandlersHijack(t *testing.T) {
	const upgrade = "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
	for name, of := range writers {
		t.Run(name, func(t *testing.T) {
			w := newWitness(t)
			site := of(nowhere, func(w http.ResponseWriter, _ *http.Request) error {
				conn, buffer, err := w.(http.Hijacker).Hijack()
				if err != nil {
					return err
				}
				defer conn.Close()
				buffer.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
				buffer.Flush()
				said, _ := buffer.ReadString('\n')
				buffer.WriteString("you said " + said)
				return buffer.Flush()
			})(t, w.limiter)
			conn := dial(t, serve(t, site), upgrade)
			require.Equal(t, http.StatusSwitchingProtocols, conn.response().StatusCode)
			io.WriteString(conn.Conn, "hello\n")
			rest, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.Equal(t, "you said hello\n", string(rest))
			require.Equal(t, "101", w.next(t))
		})
	}
}

func TestAdapters_LeaveResponseControllersWhatTheyCanDo(t *testing.T) {
	for name, of := range writers {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, "200, 2 bytes", of(nowhere, func(w http.ResponseWriter, _ *http.Request) error {
				controller := http.NewResponseController(w)
				if err := errors.Join(controller.EnableFullDuplex(), controller.Flush()); err != nil {
					return err
				}
				_, err := io.WriteString(w, "hi")
				return err
			}).told(t, "GET", "/"))
		})
	}
}

// ByRoute keys requests by the framework's route.
func TestAdapters_KeyByRoute(t *testing.T) {
	for name, build := range map[string]func(*testing.T, *httplimit.Limiter, *atomic.Int64) http.Handler{
		"gin": func(_ *testing.T, l *httplimit.Limiter, served *atomic.Int64) http.Handler {
			e := newGin(served, ginlimit.Middleware(l))
			e.POST("/users/:id", func(c *gin.Context) { c.String(200, c.Param("id")) })
			return e
		},
		"echo": func(_ *testing.T, l *httplimit.Limiter, served *atomic.Int64) http.Handler {
			e := newEcho(served, echolimit.Middleware(l))
			e.POST("/users/:id", func(c *echo.Context) error { return c.String(200, c.Param("id")) })
			return e
		},
		"echo4": func(_ *testing.T, l *httplimit.Limiter, served *atomic.Int64) http.Handler {
			e := newEcho4(served, echo4limit.Middleware(l))
			e.POST("/users/:id", func(c echo4.Context) error { return c.String(200, c.Param("id")) })
			return e
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := policy("routes", "", 1)
			p.Key = httplimit.FirstOf(httplimit.ByRoute(), httplimit.Everyone())
			c := newClient(t, mount{build: build}, p)
			var statuses []int
			for _, path := range []string{"/users/1", "/users/2", "/login", "/absent", "/else"} {
				statuses = append(statuses, c.post(path, "right").StatusCode)
			}
			require.Equal(t, []int{200, 429, 200, 404, 429}, statuses)
		})
	}
}
