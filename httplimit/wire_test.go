package httplimit_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// A wire is a connection to a server on which a test writes requests as they stand.
type wire struct {
	net.Conn
	in *bufio.Reader
}

func dial(t *testing.T, server *httptest.Server) *wire {
	conn, err := net.Dial("tcp", server.Listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute))) // if the server hangs
	t.Cleanup(func() { conn.Close() })
	return &wire{conn, bufio.NewReader(conn)}
}

// say sends one request and returns the response, and all of it as text.
func (w *wire) say(request string) (answer *http.Response, text string, err error) {
	if _, err = io.WriteString(w, request); err != nil {
		return nil, "", err
	}
	var head bytes.Buffer
	method, _, _ := strings.Cut(request, " ")
	if answer, err = http.ReadResponse(w.in, &http.Request{Method: method}); err != nil {
		return nil, "", err
	}
	body, err := io.ReadAll(answer.Body)
	_ = answer.Header.Write(&head)
	return answer, head.String() + string(body), err
}

// forgeries are headers by which a client claims to be another one, numbered n.
var forgeries = []func(n int) string{
	func(int) string { return "" },
	func(n int) string { return fmt.Sprintf("X-Forwarded-For: 6.6.6.%d\r\n", n) },
	func(n int) string { return fmt.Sprintf("x-forwarded-for:\t6.6.6.%d , 10.0.0.1 \r\n", n) },
	func(n int) string { return fmt.Sprintf("X-FORWARDED-FOR: [2001:db8:6666:%x::1%%eth0]:80\r\n", n) },
	func(n int) string { return fmt.Sprintf("X-Forwarded-For: 6.6.6.%d,\r\n 127.0.0.1\r\n", n) },
	func(n int) string { return strings.Repeat(fmt.Sprintf("X-Forwarded-For: 6.6.6.%d\r\n", n), 100) },
	func(n int) string {
		return "X-Forwarded-For: " + strings.Repeat(fmt.Sprintf("6.6.6.%d,", n), 2_000) + "\r\n"
	},
	func(n int) string { return fmt.Sprintf("X-Forwarded-For: \"6.6.6.%d\r\nX-Forwarded-For: ,,\r\n", n) },
	func(n int) string { return fmt.Sprintf("Forwarded: for=6.6.6.%d\r\nForwarded: for=\"\r\n", n) },
	func(n int) string {
		return fmt.Sprintf("X-Real-IP: 6.6.6.%d\r\nTrue-Client-IP: 6.6.6.%[1]d\r\nClient-IP: 6.6.6.%[1]d\r\nX_Forwarded_For: 6.6.6.%[1]d\r\nVia: 1.1 6.6.6.%[1]d\r\n", n)
	},
}

// starts are request lines. A policy for every request matches them all.
var starts = []string{
	"GET / HTTP/1.1", "HEAD / HTTP/1.1", "OPTIONS * HTTP/1.1", "GET http://6.6.6.6/ HTTP/1.1", "CONNECT 6.6.6.6:443 HTTP/1.1", "BREW //../x%2f?y HTTP/1.1",
}

// A meeting is a barrier that a number of goroutines pass once.
type meeting struct {
	mu      sync.Mutex
	missing int
	all     chan struct{}
}

func newMeeting(n int) *meeting { return &meeting{missing: n, all: make(chan struct{})} }

func (m *meeting) wait(ctx context.Context) {
	m.mu.Lock()
	if m.missing--; m.missing == 0 {
		close(m.all)
	}
	m.mu.Unlock()
	select {
	case <-m.all:
	case <-ctx.Done():
	}
}

// The first requests of 64 connections are in the limiter at one time, and claim in every
// way to come from other clients. All connections without a proxy are one client; those
// through a trusted proxy are the clients that it names. Each client gets exactly its
// quota, and no header reports more than that.
func TestMiddleware_IsNotForgedOnTheWireUnder64Connections(t *testing.T) {
	const connections, each, limit = 64, 9, 40
	for name, c := range map[string]struct {
		clients int
		trusted string
		proxy   func(client int) string // returns the text that the proxy appends to the headers
	}{
		"directly": {1, "10.0.0.0/8", func(int) string { return "" }},
		"by a proxy": {4, "127.0.0.0/8", func(client int) string {
			return fmt.Sprintf("X-Forwarded-For: 198.51.100.%d, 127.0.0.9\r\n", client)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			together := newMeeting(connections)
			s := newSite(t, httplimit.Policy{
				Name: "all", Limits: []sash.Limit{sash.Per(limit, 90*time.Second).Log()},
				Key: httplimit.ByAddress(httplimit.TrustProxies(prefix(c.trusted))),
				Skip: func(r *http.Request) bool {
					if r.Header.Get("First") != "" {
						together.wait(r.Context())
					}
					return false
				},
			})
			server := httptest.NewUnstartedServer(s)
			server.Config.DisableGeneralOptionsHandler = true // the general handler would answer OPTIONS * itself
			server.Start()
			defer server.Close()
			var mu sync.Mutex
			admitted, denied := map[int]int{}, map[int]int{}
			var g sync.WaitGroup
			for i := range connections {
				w, client := dial(t, server), i%c.clients
				g.Go(func() {
					for j := range each {
						request := starts[(i+j)%len(starts)] + "\r\nHost: h\r\n" + forgeries[(i/4+j)%len(forgeries)](i) + c.proxy(client)
						if j == 0 {
							request += "First: yes\r\n"
						}
						answer, text, err := w.say(request + "\r\n")
						if err != nil {
							t.Error(err)
							w.Close()
							return
						}
						mu.Lock()
						switch {
						case strings.Contains(text, "6.6.6") || strings.Contains(text, "198.51"):
							t.Errorf("told who it is: %s", text)
						case answer.StatusCode == 200:
							admitted[client]++
						case answer.StatusCode == 429 && answer.Header.Get("RateLimit") == `"all";r=0;t=90` && answer.Header.Get("Retry-After") == "90":
							denied[client]++
						default:
							t.Errorf("%s: %s %s", request, answer.Status, text)
						}
						mu.Unlock()
					}
				})
			}
			g.Wait()
			for client := range c.clients {
				require.Equal(t, limit, admitted[client])
				require.Equal(t, connections*each/c.clients-limit, denied[client])
			}
			require.EqualValues(t, limit*c.clients, s.served.Load())
			require.Equal(t, c.clients, s.Sash().Len())

			// The first request is admitted exactly Retry-After seconds later.
			w, request := dial(t, server), "GET / HTTP/1.1\r\nHost: h\r\n"+c.proxy(0)+"\r\n"
			for _, step := range []struct {
				advance time.Duration
				status  int
			}{{90*time.Second - 1, 429}, {1, 200}} {
				s.clock.Advance(step.advance)
				answer, _, err := w.say(request)
				require.NoError(t, err)
				require.Equal(t, step.status, answer.StatusCode)
			}
		})
	}
}
