package frameworks_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/adaptor"
	"github.com/gorilla/mux"
	adapter "github.com/gwatts/gin-adapter"
	echo4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/echo4limit"
	"github.com/seed-30da4c49/sash/httplimit/echolimit"
	"github.com/seed-30da4c49/sash/httplimit/fiberlimit"
	"github.com/seed-30da4c49/sash/httplimit/ginlimit"
)

// A mount builds a site under a limiter. The site has one route, POST /login, which counts
// its calls in served and checks the password.
type mount struct {
	build func(t *testing.T, limiter *httplimit.Limiter, served *atomic.Int64) http.Handler

	// Whether the middleware sees the statuses of right logins, and of wrong ones.
	showsRight, showsWrong bool
	// Whether requests that no route matches are limited.
	limitsUnmatched bool
}

// mounts are the places that the package documentation lists for the middleware, and some
// more where it works.
var mounts = map[string]mount{
	"ServeMux, around":  {aroundServeMux, true, true, true},
	"chi, around":       {aroundChi, true, true, true},
	"chi, Use":          {inChi, true, true, true},
	"gorilla, around":   {aroundGorilla, true, true, true},
	"gorilla, Use":      {inGorilla, true, true, false},
	"gin, around":       {around(newGin), true, true, true},
	"gin, gin-adapter":  {with(newGin, ginByAdapter), true, true, true},
	"gin, by hand":      {inGinByHand, false, false, true},
	"gin, ginlimit":     {with(newGin, bare(ginlimit.Middleware)), true, true, true},
	"echo, around":      {around(newEcho), true, true, true},
	"echo, wrapped":     {with(newEcho, echoWrapped), true, false, true},
	"echo, echolimit":   {with(newEcho, bare(echolimit.Middleware)), true, true, true},
	"echo4, around":     {around(newEcho4), true, true, true},
	"echo4, wrapped":    {with(newEcho4, echo4Wrapped), true, false, true},
	"echo4, echo4limit": {with(newEcho4, bare(echo4limit.Middleware)), true, true, true},
	"fiber, around":     {aroundFiber, true, true, true},
	"fiber, wrapped":    {inFiberWrapped, false, false, true},
	"fiber, fiberlimit": {inFiber, true, true, true},
}

func handle(served *atomic.Int64) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		if r.FormValue("password") != "right" {
			http.Error(w, "wrong", http.StatusUnauthorized)
			return
		}
		io.WriteString(w, "welcome")
	}
}

func aroundServeMux(_ *testing.T, limiter *httplimit.Limiter, served *atomic.Int64) http.Handler {
	m := http.NewServeMux()
	m.Handle("POST /login", handle(served))
	return limiter.Middleware(m)
}

func aroundChi(_ *testing.T, limiter *httplimit.Limiter, served *atomic.Int64) http.Handler {
	r := chi.NewRouter()
	r.Post("/login", handle(served))
	return limiter.Middleware(r)
}

func inChi(_ *testing.T, limiter *httplimit.Limiter, served *atomic.Int64) http.Handler {
	r := chi.NewRouter()
	r.Use(limiter.Middleware)
	r.Post("/login", handle(served))
	return r
}

func aroundGorilla(_ *testing.T, limiter *httplimit.Limiter, served *atomic.Int64) http.Handler {
	r := mux.NewRouter()
	r.Handle("/login", handle(served)).Methods("POST")
	return limiter.Middleware(r)
}

func inGorilla(_ *testing.T, limiter *httplimit.Limiter, served *atomic.Int64) http.Handler {
	r := mux.NewRouter()
	r.Use(limiter.Middleware)
	r.Handle("/login", handle(served)).Methods("POST")
	return r
}

// around puts the limiter around a site of a framework.
func around[M any, H http.Handler](newSite func(*atomic.Int64, ...M) H) func(*testing.T, *httplimit.Limiter, *atomic.Int64) http.Handler {
	return func(_ *testing.T, limiter *httplimit.Limiter, served *atomic.Int64) http.Handler {
		return limiter.Middleware(newSite(served))
	}
}

// with puts middleware of a framework, made of the limiter, into a site.
func with[M any, H http.Handler](newSite func(*atomic.Int64, ...M) H, use func(*httplimit.Limiter) M) func(*testing.T, *httplimit.Limiter, *atomic.Int64) http.Handler {
	return func(_ *testing.T, limiter *httplimit.Limiter, served *atomic.Int64) http.Handler {
		return newSite(served, use(limiter))
	}
}

// bare returns an adapter without options.
func bare[M, O any](use func(*httplimit.Limiter, ...O) M) func(*httplimit.Limiter) M {
	return func(l *httplimit.Limiter) M { return use(l) }
}

func ginByAdapter(l *httplimit.Limiter) gin.HandlerFunc { return adapter.Wrap(l.Middleware) }

func echoWrapped(l *httplimit.Limiter) echo.MiddlewareFunc { return echo.WrapMiddleware(l.Middleware) }

func echo4Wrapped(l *httplimit.Limiter) echo4.MiddlewareFunc {
	return echo4.WrapMiddleware(l.Middleware)
}

// newGin returns an engine with the middleware of use.
func newGin(served *atomic.Int64, use ...gin.HandlerFunc) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.Use(use...)
	e.POST("/login", func(c *gin.Context) {
		served.Add(1)
		if c.PostForm("password") != "right" {
			c.AbortWithStatus(http.StatusUnauthorized)
			return
		}
		c.String(http.StatusOK, "welcome")
	})
	return e
}

// inGinByHand has the usual handwritten adapter: gin's handlers write to gin's own writer.
func inGinByHand(_ *testing.T, limiter *httplimit.Limiter, served *atomic.Int64) http.Handler {
	return newGin(served, func(c *gin.Context) {
		called := false
		limiter.Middleware(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			called = true
			c.Request = r
			c.Next()
		})).ServeHTTP(c.Writer, c.Request)
		if !called {
			c.Abort()
		}
	})
}

// logIn is the handler of both versions of echo.
func logIn(c echoContext, served *atomic.Int64, wrong error) error {
	served.Add(1)
	if c.FormValue("password") != "right" {
		return wrong
	}
	return c.String(http.StatusOK, "welcome")
}

func newEcho(served *atomic.Int64, use ...echo.MiddlewareFunc) *echo.Echo {
	e := echo.New()
	e.Use(use...)
	e.POST("/login", func(c *echo.Context) error {
		return logIn(c, served, echo.NewHTTPError(http.StatusUnauthorized, "wrong"))
	})
	return e
}

func newEcho4(served *atomic.Int64, use ...echo4.MiddlewareFunc) *echo4.Echo {
	e := echo4.New()
	e.Use(use...)
	e.POST("/login", func(c echo4.Context) error {
		return logIn(c, served, echo4.NewHTTPError(http.StatusUnauthorized, "wrong"))
	})
	return e
}

func newFiber(served *atomic.Int64, use ...any) *fiber.App {
	app := fiber.New()
	if len(use) > 0 {
		app.Use(use...)
	}
	app.Post("/login", func(c fiber.Ctx) error {
		served.Add(1)
		if c.FormValue("password") != "right" {
			return fiber.ErrUnauthorized
		}
		return c.SendString("welcome")
	})
	return app
}

func aroundFiber(_ *testing.T, limiter *httplimit.Limiter, served *atomic.Int64) http.Handler {
	return limiter.Middleware(adaptor.FiberApp(newFiber(served)))
}

func inFiberWrapped(t *testing.T, limiter *httplimit.Limiter, served *atomic.Int64) http.Handler {
	return serveFiber(t, newFiber(served, adaptor.HTTPMiddleware(limiter.Middleware)))
}

func inFiber(t *testing.T, limiter *httplimit.Limiter, served *atomic.Int64) http.Handler {
	return serveFiber(t, newFiber(served, fiberlimit.New(limiter)))
}

// serveFiber serves the app by fiber's own server, not net/http's.
func serveFiber(t *testing.T, app *fiber.App) http.Handler {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- app.Listener(listener, fiber.ListenConfig{DisableStartupMessage: true}) }()
	t.Cleanup(func() {
		require.NoError(t, app.Shutdown())
		require.NoError(t, <-ended)
	})
	return at{listener.Addr().String()}
}

// An at is the address of a site that has a server of its own.
type at struct{ address string }

func (at) ServeHTTP(http.ResponseWriter, *http.Request) { panic("not a server of net/http") }

// A client speaks to a site over HTTP.
type client struct {
	*testing.T
	*http.Client
	url    string
	served atomic.Int64
}

func newClient(t *testing.T, m mount, policies ...httplimit.Option) *client {
	limiter := httplimit.Must(httplimit.New(append(policies, httplimit.WithPathFolding(),
		httplimit.WithClock(sash.NewManualClock(0)), httplimit.WithSweepInterval(-1))...))
	t.Cleanup(func() { limiter.Close() })
	c := &client{T: t, Client: &http.Client{Transport: &http.Transport{}, Timeout: time.Minute}}
	c.url = urlOf(t, m.build(t, limiter, &c.served))
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// urlOf returns the URL of a site, which it serves if the site has no server of its own.
func urlOf(t *testing.T, h http.Handler) string {
	if there, ok := h.(at); ok {
		return "http://" + there.address
	}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func (c *client) post(path, password string) *http.Response {
	response, err := c.PostForm(c.url+path, url.Values{"password": {password}})
	require.NoError(c, err)
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(c, errors.Join(err, response.Body.Close()))
	return response
}

// postTo posts to a target as it stands, and returns the status.
func (c *client) postTo(target string) int { return postTo(c, c.url, target).StatusCode }

// postTo posts to a target of a site, as it stands, and returns the response without its body.
func postTo(t require.TestingT, site, target string) *http.Response {
	conn, err := net.Dial("tcp", strings.TrimPrefix(site, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = io.WriteString(conn, "POST "+target+" HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n")
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	return response
}

// status sends a request such as "GET /", and returns the status of the response.
func (c *client) status(request string) int {
	method, path, _ := strings.Cut(request, " ")
	r, err := http.NewRequest(method, c.url+path, nil)
	require.NoError(c, err)
	response, err := c.Do(r)
	require.NoError(c, err)
	require.NoError(c, response.Body.Close())
	return response.StatusCode
}

// logins returns the statuses of n logins.
func (c *client) logins(n int, password string) (statuses []int) {
	for range n {
		statuses = append(statuses, c.post("/login", password).StatusCode)
	}
	return statuses
}

func policy(name, pattern string, count int64) httplimit.Policy {
	return httplimit.Policy{
		Name: name, Pattern: pattern, Limits: []sash.Limit{sash.PerHour(count).Log()}, Key: httplimit.ByAddress(),
	}
}

// login returns a policy that charges only failed logins.
func login(count int64) httplimit.Policy {
	p := policy("login", "POST /login", count)
	p.Charge = func(status int) bool { return status == http.StatusUnauthorized }
	return p
}

func TestFrameworks_ServeWhatIsAdmittedAndNoMore(t *testing.T) {
	for name, m := range mounts {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, m, policy("all", "", 2))
			first := c.post("/login", "right")
			require.Equal(t, http.StatusOK, first.StatusCode)
			require.Equal(t, `"all";q=2;w=3600`, first.Header.Get("RateLimit-Policy"))
			require.Equal(t, `"all";r=1;t=3600`, first.Header.Get("RateLimit"))
			require.Equal(t, []int{401, 429, 429}, c.logins(3, "wrong"))
			denied := c.post("/login", "right")
			require.Equal(t, http.StatusTooManyRequests, denied.StatusCode)
			require.Equal(t, "3600", denied.Header.Get("Retry-After"))
			require.Equal(t, "application/problem+json", denied.Header.Get("Content-Type"))
			require.EqualValues(t, 2, c.served.Load())
		})
	}
}

// Guesses are limited even where the middleware does not see the answer.
func TestFrameworks_LimitFailedLogins(t *testing.T) {
	for name, m := range mounts {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, m, login(3))
			require.Equal(t, []int{401, 401, 401, 429, 429}, c.logins(5, "wrong"))
			require.Equal(t, []int{429}, c.logins(1, "right"))
			require.EqualValues(t, 3, c.served.Load())
		})
	}
}

// Where the middleware sees the status, right logins are given back. Elsewhere all charges
// stay.
func TestFrameworks_GiveBackWhatTheyShowWasNoFailure(t *testing.T) {
	for name, m := range mounts {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, m, login(3))
			if m.showsRight {
				require.Equal(t, []int{200, 200, 200, 200, 200}, c.logins(5, "right"))
			} else {
				require.Equal(t, []int{200, 200, 200, 429, 429}, c.logins(5, "right"))
			}

			failures := login(3) // the opposite policy: it gives failures back where it sees them
			failures.Charge = func(status int) bool { return status != http.StatusUnauthorized }
			c = newClient(t, m, failures)
			if m.showsWrong {
				require.Equal(t, []int{401, 401, 401, 401, 401}, c.logins(5, "wrong"))
			} else {
				require.Equal(t, []int{401, 401, 401, 429, 429}, c.logins(5, "wrong"))
			}
		})
	}
}

func TestFrameworks_LimitRequestsThatNoRouteMatches(t *testing.T) {
	for name, m := range mounts {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, m, policy("all", "", 1))
			require.Equal(t, http.StatusNotFound, c.post("/absent", "").StatusCode)
			if m.limitsUnmatched {
				require.Equal(t, http.StatusTooManyRequests, c.post("/absent", "").StatusCode)
			} else {
				require.Equal(t, http.StatusNotFound, c.post("/absent", "").StatusCode)
			}
		})
	}
}

// Fiber parses the target of a request by rules of its own.
func TestFiber_ServesNoSpellingPastThePolicy(t *testing.T) {
	for _, name := range []string{"fiber, around", "fiber, wrapped", "fiber, fiberlimit"} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, mounts[name], policy("login", "POST /login", 1))
			require.Equal(t, []int{401, 429}, c.logins(2, "wrong"))
			for _, target := range []string{"/login#x", "/LOGIN/#", "//h/login?://", "//u@h/Login/#://", "//h/login#?://", "http://h/LOGIN", "//login", "/logi%6E"} {
				require.NotEqual(t, http.StatusUnauthorized, c.postTo(target), target)
			}
			require.EqualValues(t, 1, c.served.Load())
		})
	}
}

// gin's Stream calls CloseNotify of its writer, and panics if the writer below has none.
func TestGin_StreamsUnderAPolicyWithCharge(t *testing.T) {
	stream := func(_ *testing.T, limiter *httplimit.Limiter, _ *atomic.Int64) http.Handler {
		e := newGin(new(atomic.Int64))
		e.GET("/stream", func(c *gin.Context) {
			chunks := strings.NewReader("abc")
			c.Stream(func(w io.Writer) bool {
				_, err := io.CopyN(w, chunks, 1)
				return err == nil
			})
		})
		return limiter.Middleware(e)
	}
	p := policy("failures", "", 1)
	p.Charge = func(status int) bool { return status >= 400 }
	c := newClient(t, mount{build: stream}, p)
	for range 3 { // none of them is charged
		response, err := c.Get(c.url + "/stream")
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, errors.Join(err, response.Body.Close()))
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, "abc", string(body))
	}
}
