package frameworks_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/fiberlimit"
)

// longs are sites whose GET / answers at once with its header, and ends when ended is closed or receives.
var longs = map[string]func(ended <-chan bool) site{
	"gin, a websocket":   longWebsocket("gin"),
	"echo, a websocket":  longWebsocket("echo"),
	"echo4, a websocket": longWebsocket("echo4"),
	"gin, events":        longEvents("gin"),
	"echo, events":       longEvents("echo"),
	"echo4, events":      longEvents("echo4"),
	"fiber, a websocket": func(ended <-chan bool) site {
		return fiberSite(func(c fiber.Ctx) error {
			c.RequestCtx().Hijack(func(net.Conn) { <-ended })
			return c.SendStatus(fiber.StatusSwitchingProtocols)
		})
	},
	"fiber, events": func(ended <-chan bool) site {
		return fiberSite(func(c fiber.Ctx) error {
			return c.SendStreamWriter(func(w *bufio.Writer) {
				io.WriteString(w, "data: hello\n\n")
				w.Flush()
				<-ended
			})
		})
	},
	"fiber, a file": func(ended <-chan bool) site {
		return fiberSite(func(c fiber.Ctx) error {
			return c.SendStream(io.MultiReader(strings.NewReader(strings.Repeat("a", 1<<20)), ending(ended)), 1<<20+1)
		})
	},
}

// ending is a reader of one byte, which comes when the channel does.
type ending <-chan bool

func (e ending) Read(b []byte) (int, error) {
	<-e
	b[0] = 'a'
	return 1, io.EOF
}

func longWebsocket(framework string) func(<-chan bool) site {
	return func(ended <-chan bool) site {
		return writers[framework](nowhere, func(w http.ResponseWriter, _ *http.Request) error {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return err
			}
			defer conn.Close()
			io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			<-ended
			return nil
		})
	}
}

func longEvents(framework string) func(<-chan bool) site {
	return func(ended <-chan bool) site {
		return writers[framework](nowhere, func(w http.ResponseWriter, _ *http.Request) error {
			io.WriteString(w, "data: hello\n\n")
			w.(http.Flusher).Flush()
			<-ended
			return nil
		})
	}
}

// A websocket, a stream of events and a download hold their slot until they have ended. Then the next request that
// waits has it.
func TestAdapters_HoldASlotOfALongResponse(t *testing.T) {
	for name, long := range longs {
		t.Run(name, func(t *testing.T) {
			ended := make(chan bool)
			defer close(ended)
			p := policy("slots", "", 1)
			p.Limits = []sash.Limit{sash.AtOnce(1, time.Hour)}
			p.Queue = httplimit.Queue{Wait: sash.Never, Requests: 1}
			denied := make(chan bool, 10)
			served := make(chan int, 1)
			c := newClient(t, mount{build: func(t *testing.T, l *httplimit.Limiter, _ *atomic.Int64) http.Handler {
				return long(ended)(t, l)
			}}, p, httplimit.WithSash(sash.WithObserver(func(_ string, _ int64, d sash.Decision) {
				if !d.Allowed {
					denied <- true
				}
			})))
			address := strings.TrimPrefix(c.url, "http://")
			const upgrade = "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"
			first := dial(t, address, upgrade).response()
			go func() {
				r := dial(t, address, upgrade).response()
				served <- r.StatusCode
			}()
			select {
			case <-denied: // it waits
			case <-served:
				t.Fatal("the next one is served while the first one lasts")
			}
			ended <- true
			require.Equal(t, first.StatusCode, <-served)
		})
	}
}

// fasthttp neither calls a function that hijacks nor tells, if it cannot send the answer.
func TestFiber_AnUpgradeThatIsNotSentHoldsItsUnitsForTheirLease(t *testing.T) {
	var app *fiber.App
	b := newBed(t, func(l *httplimit.Limiter) any {
		app = fiber.New()
		app.Use(fiberlimit.New(l))
		app.Get("/", func(c fiber.Ctx) error { return c.SendStatus(fiber.StatusNoContent) })
		app.Get("/upgrade", func(c fiber.Ctx) error {
			c.RequestCtx().Hijack(func(net.Conn) { t.Error("it was called") })
			return c.SendStatus(fiber.StatusSwitchingProtocols)
		})
		return app
	}, limits(nil, sash.AtOnce(1, time.Hour)))
	ours, theirs := net.Pipe()
	go io.WriteString(ours, "GET /upgrade HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	require.ErrorIs(t, (&fasthttp.Server{Handler: app.Handler(), Logger: quiet}).ServeConn(mute{theirs}), net.ErrClosed)
	require.NoError(t, ours.Close())
	require.Equal(t, 429, b.get("/").status)
	b.clock.Advance(time.Hour)
	require.Equal(t, 204, b.get("/").status)
}

// A mute is a connection whose client has gone when it is answered.
type mute struct{ net.Conn }

func (mute) Write([]byte) (int, error) { return 0, net.ErrClosed }
