package frameworks_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/recover"
	"github.com/gofiber/fiber/v3/middleware/timeout"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/fiberlimit"
)

// fiberSite serves the handlers of fiber at /, behind a middleware that recovers from panics
// outside of the limiter.
func fiberSite(handlers ...any) site { return configuredFiberSite(fiber.Config{}, handlers...) }

func configuredFiberSite(config fiber.Config, handlers ...any) site {
	return func(t *testing.T, l *httplimit.Limiter) http.Handler {
		app := fiber.New(config)
		app.Use(recover.New(), fiberlimit.New(l))
		app.All("/", handlers[0], handlers[1:]...)
		return serveFiber(t, app)
	}
}

func TestFiber_ShowsWhatHandlersAnswer(t *testing.T) {
	goMod, err := os.Stat("go.mod")
	require.NoError(t, err)
	goModSize := fmt.Sprintf("200, %d bytes", goMod.Size())
	for name, c := range map[string]struct {
		handler fiber.Handler
		want    string
	}{
		"a body":            {func(c fiber.Ctx) error { return c.Status(201).SendString("hello") }, "201, 5 bytes"},
		"JSON":              {func(c fiber.Ctx) error { return c.Status(401).JSON([]int{1}) }, "401, 3 bytes"},
		"a status":          {func(c fiber.Ctx) error { c.Status(202); return nil }, "202, 0 bytes"},
		"no content":        {func(c fiber.Ctx) error { return c.SendStatus(204) }, "204, 0 bytes"},
		"not modified":      {func(c fiber.Ctx) error { return c.Status(304).SendString("hello") }, "304, 0 bytes"},
		"a stream":          {func(c fiber.Ctx) error { return c.SendStream(strings.NewReader("hello")) }, "200?"},
		"an error":          {func(fiber.Ctx) error { return fiber.ErrUnauthorized }, "401, 12 bytes"},
		"another error":     {func(fiber.Ctx) error { return io.EOF }, "500, 3 bytes"},
		"an error too late": {func(c fiber.Ctx) error { return errors.Join(c.SendString("hi"), io.EOF) }, "500, 3 bytes"},
		"no route":          {func(c fiber.Ctx) error { return c.Next() }, "404, 9 bytes"},
		"a known length":    {func(c fiber.Ctx) error { return c.SendStream(strings.NewReader("hello"), 5) }, "200, 5 bytes"},
		"a file":            {func(c fiber.Ctx) error { return c.SendFile("go.mod") }, goModSize},
		"an ended response": {func(c fiber.Ctx) error { return errors.Join(c.Status(201).SendString("hello"), c.End()) }, "201, 5 bytes"},
		"nothing":           {func(fiber.Ctx) error { return nil }, "200?"},
		"a panic":           {func(fiber.Ctx) error { panic("oh") }, "0?"},
		"an ended context": {func(c fiber.Ctx) error {
			ctx, cancel := context.WithCancel(c.Context())
			cancel()
			c.SetContext(ctx)
			return c.SendString("the handler's own context does not matter")
		}, "200, 41 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWitness(t)
			conn := dial(t, serve(t, fiberSite(c.handler)(t, w.limiter)), "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			response := conn.response()
			told := w.next(t)
			require.Equal(t, c.want, told)
			if told[len(told)-1] != '?' { // the client is sent what the limiter was told
				require.Equal(t, told[:3], response.Status[:3])
			}
		})
	}
}

func TestFiber_ShowsWhatAClientDoes(t *testing.T) {
	upload := func(c fiber.Ctx) error { return c.Send(c.Body()) }
	require.Equal(t, "200, 0 bytes", fiberSite(func(c fiber.Ctx) error { return c.SendString("hello") }).told(t, "HEAD", "/"))
	require.Equal(t, "200, 4 bytes", fiberSite(upload).told(t, "POST", "/"))

	streaming := configuredFiberSite(fiber.Config{StreamRequestBody: true}, upload)
	require.Equal(t, "200?", streaming.told(t, "POST", "/")) // the client may have sent less
}

func TestFiber_DoesNotBelieveAContextThatHasEnded(t *testing.T) {
	s := site(func(t *testing.T, l *httplimit.Limiter) http.Handler {
		app := fiber.New()
		app.Use(func(c fiber.Ctx) error {
			ctx, cancel := context.WithCancel(c.Context())
			defer cancel()
			c.SetContext(ctx)
			c.Locals("cancel", cancel)
			return c.Next()
		}, fiberlimit.New(l))
		app.Get("/", func(c fiber.Ctx) error {
			c.Locals("cancel").(context.CancelFunc)()
			return c.SendString("late")
		})
		return serveFiber(t, app)
	})
	require.Equal(t, "200?", s.told(t, "GET", "/"))
}

// The ErrorHandler of the app is called once, and its answer is what counts.
func TestFiber_AnswersAnErrorOnce(t *testing.T) {
	var calls atomic.Int64
	handler := func(c fiber.Ctx, err error) error {
		calls.Add(1)
		return c.Status(fiber.StatusTeapot).SendString(err.Error())
	}
	s := configuredFiberSite(fiber.Config{ErrorHandler: handler}, func(fiber.Ctx) error { return errors.New("tea") })
	require.Equal(t, "418, 3 bytes", s.told(t, "GET", "/"))
	require.EqualValues(t, 1, calls.Load())

	fails := func(fiber.Ctx, error) error { return io.EOF }
	s = configuredFiberSite(fiber.Config{ErrorHandler: fails}, func(fiber.Ctx) error { return io.EOF })
	require.Equal(t, "500, 21 bytes", s.told(t, "GET", "/"))
}

// The ErrorHandler is the mounted app's, as without the limiter.
func TestFiber_AnswersAnErrorByTheMountedApp(t *testing.T) {
	for _, mounted := range []bool{false, true} { // whether the limiter is in the mounted app
		s := site(func(t *testing.T, l *httplimit.Limiter) http.Handler {
			app := fiber.New()
			sub := fiber.New(fiber.Config{ErrorHandler: func(c fiber.Ctx, err error) error {
				return c.Status(fiber.StatusTeapot).SendString("sub: " + err.Error())
			}})
			if mounted {
				sub.Use(fiberlimit.New(l))
			} else {
				app.Use(fiberlimit.New(l))
			}
			sub.Post("/a", func(fiber.Ctx) error { return errors.New("tea") })
			app.Use("/sub", sub)
			return serveFiber(t, app)
		})
		require.Equal(t, "418, 8 bytes", s.told(t, "POST", "/sub/a"))
	}
}

func TestFiber_Hijacks(t *testing.T) {
	for _, status := range []int{fiber.StatusSwitchingProtocols, fiber.StatusOK} {
		w := newWitness(t)
		h := fiberSite(func(c fiber.Ctx) error {
			c.RequestCtx().Hijack(func(conn net.Conn) { io.WriteString(conn, "hello") })
			return c.SendStatus(status)
		})(t, w.limiter)
		conn := dial(t, serve(t, h), "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		require.Equal(t, status, conn.response().StatusCode)
		require.Equal(t, "101", w.next(t)) // as of every hijacked connection
	}
}

// A connection that is to be closed is not hijacked, and fasthttp does not tell when it has ended.
func TestFiber_HijacksNoConnectionThatCloses(t *testing.T) {
	w := newWitness(t)
	h := fiberSite(func(c fiber.Ctx) error {
		c.RequestCtx().Hijack(func(net.Conn) { t.Error("it was hijacked") })
		return c.SendStatus(fiber.StatusSwitchingProtocols)
	})(t, w.limiter)
	conn := dial(t, serve(t, h), "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	require.Equal(t, fiber.StatusSwitchingProtocols, conn.response().StatusCode)
	require.Equal(t, "101", w.next(t))
}

// tokens is a policy whose requests cost what their handler says, and else 1 of 100 units.
func tokens() httplimit.Policy {
	p := policy("tokens", "", 100)
	p.Key = httplimit.Everyone()
	p.Settle = httplimit.SettleEstimate()
	return p
}

// The handler of a stream may say what it costs until the stream has been sent.
func TestFiber_SettlesAStreamWhenItHasBeenSent(t *testing.T) {
	settled := make(chan httplimit.Event, 1)
	observe := httplimit.WithObserver(func(e httplimit.Event) {
		if e.Outcome == httplimit.Settled {
			settled <- e
		}
	})
	c := newClient(t, mount{build: func(t *testing.T, l *httplimit.Limiter, _ *atomic.Int64) http.Handler {
		return fiberSite(func(c fiber.Ctx) error {
			charge := httplimit.ChargeOf(c.Context(), "tokens")
			return c.SendStreamWriter(func(w *bufio.Writer) {
				for range 7 {
					io.WriteString(w, "token ")
					charge.Add(1)
				}
			})
		})(t, l)
	}}, tokens(), observe)
	response, err := c.Get(c.url + "/")
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, errors.Join(err, response.Body.Close()))
	require.Equal(t, strings.Repeat("token ", 7), string(body))
	select {
	case e := <-settled:
		require.EqualValues(t, 8, e.Cost)
	case <-time.After(time.Minute):
		t.Fatal("the stream was never settled")
	}
}

// Two limiters around a stream both settle it.
func TestFiber_SettlesAStreamUnderEachLimiter(t *testing.T) {
	settled := make(chan string, 2)
	observe := httplimit.WithObserver(func(e httplimit.Event) {
		if e.Outcome == httplimit.Settled {
			settled <- fmt.Sprint(e.Policy, " ", e.Cost)
		}
	})
	group := tokens()
	group.Name = "group"
	inner := httplimit.Must(httplimit.New(group, observe, httplimit.WithPathFolding(), httplimit.WithSweepInterval(-1)))
	defer inner.Close()
	c := newClient(t, mount{build: func(t *testing.T, l *httplimit.Limiter, _ *atomic.Int64) http.Handler {
		app := fiber.New()
		app.Use(fiberlimit.New(l))
		app.Group("/group", fiberlimit.New(inner)).Get("/", func(c fiber.Ctx) error {
			httplimit.ChargeOf(c.Context(), "tokens").Commit(5)
			httplimit.ChargeOf(c.Context(), "group").Commit(7)
			return c.SendStream(strings.NewReader("hello"))
		})
		return serveFiber(t, app)
	}}, tokens(), observe)
	response, err := c.Get(c.url + "/group")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	var all []string
	for range 2 {
		select {
		case e := <-settled:
			all = append(all, e)
		case <-time.After(time.Minute):
			t.Fatal("the stream was settled only under ", all)
		}
	}
	require.ElementsMatch(t, []string{"tokens 5", "group 7"}, all)
}

// A stream is settled also if its client hangs up in the middle of it.
func TestFiber_SettlesAStreamWhoseClientHangsUp(t *testing.T) {
	w := newWitness(t)
	failed := make(chan bool)
	h := fiberSite(func(c fiber.Ctx) error {
		return c.SendStreamWriter(func(w *bufio.Writer) {
			defer close(failed)
			for {
				if _, err := w.Write(make([]byte, 1<<10)); err != nil || w.Flush() != nil {
					return
				}
			}
		})
	})(t, w.limiter)
	conn := dial(t, serve(t, h), "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
	require.Equal(t, 200, conn.response().StatusCode)
	require.NoError(t, conn.Conn.Close())
	<-failed
	require.Equal(t, "200?", w.next(t))
}

// A request waits until another one gives its units back.
func TestFiber_ServesAQueue(t *testing.T) {
	p := policy("queue", "", 1)
	p.Queue = httplimit.Queue{Wait: sash.Never, Requests: 10}
	p.Charge = func(int) bool { return false }
	denied := make(chan bool, 10)
	served, release := make(chan bool), make(chan bool)
	c := newClient(t, mount{build: func(t *testing.T, l *httplimit.Limiter, _ *atomic.Int64) http.Handler {
		return fiberSite(func(c fiber.Ctx) error {
			served <- true
			<-release
			return c.SendString("hello")
		})(t, l)
	}}, p, httplimit.WithSash(sash.WithObserver(func(_ string, _ int64, d sash.Decision) {
		if !d.Allowed {
			denied <- true
		}
	})))
	answers := make(chan error)
	ask := func() {
		response, err := c.Get(c.url)
		if err == nil {
			err = response.Body.Close()
		}
		answers <- err
	}
	go ask()
	<-served
	go ask()
	<-denied
	release <- true
	require.NoError(t, <-answers)
	<-served // the second
	release <- true
	require.NoError(t, <-answers)
}

// A policy may keep what it reads of a request: the memory is not fasthttp's.
func TestFiber_GivesPoliciesTextsOfTheirOwn(t *testing.T) {
	var kept []*http.Request
	p := policy("all", "", 10)
	p.Skip = func(r *http.Request) bool { kept = append(kept, r); return false }
	c := newClient(t, mount{build: func(t *testing.T, l *httplimit.Limiter, _ *atomic.Int64) http.Handler {
		app := fiber.New(fiber.Config{DisableHeaderNormalizing: true}) // as clients write them
		app.Use(fiberlimit.New(l))
		return serveFiber(t, app)
	}}, p)
	conn := dial(t, strings.TrimPrefix(c.url, "http://"), "")
	for _, name := range []string{"alice", "mallo"} {
		_, err := io.WriteString(conn, "GET /"+name+"%20x?q="+name+" HTTP/1.1\r\nHost: "+name+".com\r\nx-name: "+name+"\r\nX-Name: 2\r\nUser-Agent: "+name+"\r\nCookie: name="+name+"\r\n\r\n")
		require.NoError(t, err)
		response := conn.response()
		_, err = io.Copy(io.Discard, response.Body)
		require.NoError(t, err)
	}
	r := kept[0]
	require.Equal(t, "/alice x", r.URL.Path)
	require.Equal(t, "/alice%20x", r.URL.RawPath)
	require.Equal(t, "q=alice", r.URL.RawQuery)
	require.Equal(t, "/alice%20x?q=alice", r.RequestURI)
	require.Equal(t, "alice.com", r.Host)
	require.Equal(t, []string{"alice", "2"}, r.Header["X-Name"])
	require.Equal(t, "alice", r.UserAgent())
	require.Empty(t, r.Header["Host"])
	cookie, err := r.Cookie("name")
	require.NoError(t, err)
	require.Equal(t, "alice", cookie.Value)
	require.Zero(t, r.ContentLength)
	require.Equal(t, http.NoBody, r.Body)
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", host)
}

func TestFiber_GivesPoliciesParametersOfTheirOwn(t *testing.T) {
	var kept []string
	p := policy("all", "", 100)
	p.Skip = func(r *http.Request) bool { kept = append(kept, r.PathValue("name")); return false }
	c := newClient(t, mount{build: func(t *testing.T, l *httplimit.Limiter, _ *atomic.Int64) http.Handler {
		app := fiber.New()
		app.Get("/:name", fiberlimit.New(l), func(c fiber.Ctx) error { return c.SendStatus(fiber.StatusNoContent) })
		return serveFiber(t, app)
	}}, p)
	conn := dial(t, strings.TrimPrefix(c.url, "http://"), "")
	var sent []string
	for i := range 50 { // so that some have the memory of others
		name := fmt.Sprintf("alice%02d", i)
		_, err := io.WriteString(conn, "GET /"+name+" HTTP/1.1\r\nHost: h\r\n\r\n")
		require.NoError(t, err)
		require.Equal(t, 204, conn.response().StatusCode)
		sent = append(sent, name)
	}
	require.Equal(t, sent, kept)
}

// Headers that other handlers have set stay on a denial, and lists are added to.
func TestFiber_KeepsTheHeadersOfOtherHandlers(t *testing.T) {
	c := newClient(t, mount{build: func(t *testing.T, l *httplimit.Limiter, _ *atomic.Int64) http.Handler {
		app := fiber.New()
		app.Use(func(c fiber.Ctx) error {
			c.Set("Access-Control-Allow-Origin", "*")
			c.Set("Vary", "Origin")
			c.Set("ETag", `"x"`)
			c.Set("RateLimit", `"outer";r=1`)
			c.Cookie(&fiber.Cookie{Name: "a", Value: "1"})
			c.Cookie(&fiber.Cookie{Name: "b", Value: "2"})
			return c.Next()
		}, fiberlimit.New(l))
		app.Post("/login", func(c fiber.Ctx) error { return c.SendString("welcome") })
		return serveFiber(t, app)
	}}, policy("all", "", 1), httplimit.WithDenied(func(w http.ResponseWriter, r *http.Request, d httplimit.Denial) {
		w.Header().Add("Vary", "Accept")
		w.Header().Del("RateLimit-Policy")
		http.Error(w, "no", http.StatusServiceUnavailable)
	}))
	admitted := c.post("/login", "right")
	require.Equal(t, []string{`"outer";r=1`, `"all";r=0;t=3600`}, admitted.Header["Ratelimit"])
	require.Equal(t, []string{`"all";q=1;w=3600`}, admitted.Header["Ratelimit-Policy"])
	denied := c.post("/login", "right")
	require.Equal(t, http.StatusServiceUnavailable, denied.StatusCode)
	require.Equal(t, []string{`"outer";r=1`, `"all";r=0;t=3600`}, denied.Header["Ratelimit"])
	require.Empty(t, denied.Header["Ratelimit-Policy"])
	require.Equal(t, []string{"Origin", "Accept"}, denied.Header["Vary"])
	require.Empty(t, denied.Header["Etag"])
	require.Equal(t, "*", denied.Header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, "text/plain; charset=utf-8", denied.Header.Get("Content-Type"))
	require.Len(t, denied.Cookies(), 2)
}

// Lines of one name keep their order, also where a header before them is replaced or deleted.
func TestFiber_KeepsTheOrderOfLines(t *testing.T) {
	var config fiber.Config
	for _, config.DisableHeaderNormalizing = range []bool{false, true} { // then ETag is written as the app does
		b := newBed(t, func(l *httplimit.Limiter) any {
			app := fiber.New(config)
			app.Use(func(c fiber.Ctx) error {
				c.Set("X-Ratelimit-Reset", "of another")
				c.Set("ETag", "of another")
				for _, link := range []string{"a", "b", "c"} {
					c.Response().Header.Add("Link", link)
				}
				return c.Next()
			}, fiberlimit.New(l, fiberlimit.WithDenied(func(c fiber.Ctx, _ httplimit.Denial) error { return c.SendStatus(429) })))
			app.Get("/", func(c fiber.Ctx) error { return c.SendStatus(204) })
			return app
		}, limits(nil, sash.PerHour(20).Log()), httplimit.WithXRateLimit())
		for i := range 40 { // the limiter sets its headers in no order
			want := 204
			if i >= 20 {
				want = 429
			}
			r := b.get("/")
			require.Equal(t, want, r.status)
			require.Equal(t, []string{"a", "b", "c"}, r.header["Link"])
			require.Equal(t, []string{"3600"}, r.header["X-Ratelimit-Reset"])
			require.Equal(t, want == 429, r.header.Get("ETag") == "")
		}
	}
}

// A refusal replaces the response that other handlers have begun.
func TestFiber_RefusesAsWithDeniedSays(t *testing.T) {
	for name, c := range map[string]struct {
		denied func(w http.ResponseWriter)
		status int
		body   string
	}{
		"nothing":           {func(http.ResponseWriter) {}, 200, ""},
		"a body":            {func(w http.ResponseWriter) { io.WriteString(w, "<p>no, "); io.WriteString(w, "no") }, 200, "<p>no, no"},
		"a status":          {func(w http.ResponseWriter) { w.WriteHeader(503) }, 503, ""},
		"the first status":  {func(w http.ResponseWriter) { w.WriteHeader(503); w.WriteHeader(200) }, 503, ""},
		"after early hints": {func(w http.ResponseWriter) { w.WriteHeader(103); w.WriteHeader(503) }, 503, ""},
	} {
		t.Run(name, func(t *testing.T) {
			denied := httplimit.WithDenied(func(w http.ResponseWriter, _ *http.Request, _ httplimit.Denial) { c.denied(w) })
			client := newClient(t, mount{build: func(t *testing.T, l *httplimit.Limiter, _ *atomic.Int64) http.Handler {
				app := fiber.New()
				app.Use(func(c fiber.Ctx) error {
					if err := c.Status(202).SendString("begun"); err != nil {
						return err
					}
					return c.Next()
				}, fiberlimit.New(l))
				return serveFiber(t, app)
			}}, policy("all", "", 0), denied)
			response, err := client.Get(client.url)
			require.NoError(t, err)
			body, err := io.ReadAll(response.Body)
			require.NoError(t, errors.Join(err, response.Body.Close()))
			require.Equal(t, c.status, response.StatusCode)
			require.Equal(t, c.body, string(body))
			if c.body != "" {
				require.Equal(t, http.DetectContentType(body), response.Header.Get("Content-Type"))
			}
		})
	}
}

// So does a refusal of the application.
func TestFiber_RefusesInTheApplicationsWayWhatWasBegun(t *testing.T) {
	unknown := limits(func(key []byte, _ *http.Request) ([]byte, bool) { return key, false }, sash.PerHour(1))
	for _, p := range []httplimit.Policy{limits(nil, sash.PerHour(0)), unknown} {
		b := newBed(t, func(l *httplimit.Limiter) any {
			app := fiber.New()
			return app.Use(func(c fiber.Ctx) error { return errors.Join(c.SendString("begun"), c.Next()) }, fiberlimit.New(l,
				fiberlimit.WithDenied(func(c fiber.Ctx, _ httplimit.Denial) error { return c.SendStatus(429) }),
				fiberlimit.WithUnidentified(func(c fiber.Ctx) error { return c.SendStatus(429) })))
		}, p)
		r := b.get("/")
		require.Equal(t, reply{429, "Too Many Requests", r.header}, r)
	}
}

func TestFiber_AsksForPathFolding(t *testing.T) {
	without := httplimit.Must(httplimit.New(policy("all", "", 1), httplimit.WithSweepInterval(-1)))
	defer without.Close()
	require.PanicsWithValue(t, "fiberlimit: New: the limiter must have httplimit.WithPathFolding, since fiber serves /LOGIN and /login/ as /login",
		func() { fiberlimit.New(without) })
}

// Whatever of the path fiber does not distinguish, the policy does not either.
func TestFiber_CountsEverySpellingThatItServes(t *testing.T) {
	for name, config := range map[string]fiber.Config{
		"as it comes": {}, "strict": {StrictRouting: true, CaseSensitive: true}, "unescaped": {UnescapePath: true},
	} {
		t.Run(name, func(t *testing.T) {
			var served atomic.Int64
			c := newClient(t, mount{build: func(t *testing.T, l *httplimit.Limiter, _ *atomic.Int64) http.Handler {
				app := fiber.New(config)
				app.Use(fiberlimit.New(l))
				app.Post("/login", func(c fiber.Ctx) error { served.Add(1); return c.SendString("welcome") })
				return serveFiber(t, app)
			}}, policy("login", "POST /login", 1))
			require.Equal(t, 200, c.postTo("/login"))
			for _, target := range []string{"/login", "/LOGIN", "/login/", "/Login//", "/logi%6E", "/%6Cogin", "/login%2F", "/login?x", "/login#x", "//login", "//h/login", "http://h/login"} {
				require.NotEqual(t, 200, c.postTo(target), target)
			}
			require.EqualValues(t, 1, served.Load())
		})
	}
}

// A policy of a proxy's network reads the header of fiber's request, and a request that comes
// through a Unix socket is known as such.
func TestFiber_KnowsAUnixSocket(t *testing.T) {
	p := policy("all", "", 1)
	p.Key = httplimit.ByAddress(httplimit.TrustUnixSocket())
	limiter := httplimit.Must(httplimit.New(p, httplimit.WithPathFolding(), httplimit.WithClock(sash.NewManualClock(0)), httplimit.WithSweepInterval(-1)))
	defer limiter.Close()
	app := fiber.New()
	app.Use(fiberlimit.New(limiter))
	path := t.TempDir() + "/s"
	listener, err := net.Listen("unix", path)
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true}) }()
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", path) }}}
	var statuses []int
	for _, address := range []string{"192.0.2.1", "192.0.2.1", "192.0.2.2"} {
		r, err := http.NewRequest("GET", "http://h/", nil)
		require.NoError(t, err)
		r.Header.Set("X-Forwarded-For", address)
		response, err := client.Do(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		statuses = append(statuses, response.StatusCode)
	}
	client.CloseIdleConnections()
	require.NoError(t, app.Shutdown())
	require.NoError(t, <-ended)
	require.Equal(t, []int{404, 429, 404}, statuses)
}

// When fiber's timeout middleware answers, its handler may still be at work on the response.
func TestFiber_DoesNotReadAResponseThatIsAbandoned(t *testing.T) {
	release := make(chan struct{})
	s := fiberSite(timeout.New(func(c fiber.Ctx) error {
		<-release
		return c.SendString("late")
	}, timeout.Config{Timeout: time.Millisecond}))
	require.Equal(t, "0?", s.told(t, "GET", "/"))
	close(release)
}

// A child of prefork is known by its environment.
func TestFiber_WarnsOfPreforkWithoutAStore(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	mount := func(options ...httplimit.Option) string {
		logged.Reset()
		l := httplimit.Must(httplimit.New(append(options, policy("all", "", 1), httplimit.WithPathFolding())...))
		defer l.Close()
		fiberlimit.New(l)
		return logged.String()
	}
	store := httplimit.WithStore(func(httplimit.StoreKeys) (httplimit.Store, error) { return emptyStore{}, nil })
	require.Empty(t, mount())
	t.Setenv("FIBER_PREFORK_CHILD", "1")
	require.True(t, fiber.IsChild())
	require.Contains(t, mount(), "each process of prefork counts alone")
	require.Empty(t, mount(store))
}

type emptyStore struct{ httplimit.Store }

func (emptyStore) Close() error { return nil }

// Fasthttp recovers from no panic, so http.ErrAbortHandler in a function of a policy must not end the process.
func TestFiber_SurvivesAPolicyThatAborts(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	p := policy("aborts", "", 1)
	p.Cost = func(*http.Request) int64 { panic(http.ErrAbortHandler) }
	var outcomes []httplimit.Outcome
	note := httplimit.WithObserver(func(e httplimit.Event) { outcomes = append(outcomes, e.Outcome) })
	l := httplimit.Must(httplimit.New(p, note, httplimit.WithPathFolding(), httplimit.WithSweepInterval(-1)))
	defer l.Close()
	app := fiber.New()
	var fault any // it would end the process
	notes := func(_ fiber.Ctx, f any) { fault = f }
	app.Use(recover.New(recover.Config{EnableStackTrace: true, StackTraceHandler: notes}), fiberlimit.New(l))
	app.Get("/", func(c fiber.Ctx) error { return c.SendString("it was served") })
	response, err := app.Test(httptest.NewRequest("GET", "/", nil))
	require.NoError(t, err)
	require.Nil(t, fault)
	require.Equal(t, 500, response.StatusCode)
	require.Equal(t, []httplimit.Outcome{httplimit.Failed}, outcomes)
	require.Empty(t, logged.String(), "it is not a fault")
}

// Fiber's context serves other requests once the handlers have returned, so a late settlement must not find it.
func TestFiber_KnowsItsContextUntilTheHandlersHaveReturned(t *testing.T) {
	for name, c := range map[string]struct {
		handler fiber.Handler
		known   bool
	}{
		"a body":   {func(c fiber.Ctx) error { return c.SendString("hello") }, true},
		"a stream": {func(c fiber.Ctx) error { return c.SendStream(strings.NewReader("hello")) }, false},
		"a file":   {func(c fiber.Ctx) error { return c.SendFile("go.mod") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			known := make(chan bool, 1)
			p := tokens()
			p.Cost = func(r *http.Request) int64 {
				if c, ok := fiberlimit.ContextOf(r); !ok || c.Path() != "/" {
					panic("it is not known")
				}
				return 1
			}
			p.Settle = func(r *httplimit.Response) int64 {
				_, ok := fiberlimit.ContextOf(r.Request)
				known <- ok
				return 1
			}
			client := newClient(t, mount{build: func(t *testing.T, l *httplimit.Limiter, _ *atomic.Int64) http.Handler {
				return fiberSite(c.handler)(t, l)
			}}, p)
			response, err := client.Get(client.url + "/")
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, 200, response.StatusCode)
			select {
			case got := <-known:
				require.Equal(t, c.known, got)
			case <-time.After(time.Minute):
				t.Fatal("the response was never settled")
			}
		})
	}
}
