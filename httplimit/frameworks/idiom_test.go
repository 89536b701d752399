package frameworks_test

import (
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v3"
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

// An idiom is how the users of a framework write a service. Its first middleware takes the account from
// X-Account, and puts it into the framework's context. The limiter skips requests with X-Skip. Its refusals are
// errors, which the application answers in its own way: "app: ", and what is wrong. The service has
// GET /users/:id.
type idiom struct {
	site site
	// byAccount, byAddress and planOf find what the framework knows.
	byAccount, byAddress httplimit.KeyFunc
	planOf               func(*http.Request) (string, bool)
}

var (
	errSlowDown = errors.New("slow down")
	errWho      = errors.New("who are you")
)

// statusOf is the status by which an application answers an error.
func statusOf(err error) int {
	switch {
	case errors.Is(err, errSlowDown):
		return http.StatusTooManyRequests
	case errors.Is(err, errWho):
		return http.StatusUnauthorized
	}
	return http.StatusInternalServerError
}

var idioms = map[string]idiom{
	"gin": {
		site:      ginIdiom,
		byAccount: ginlimit.By(func(c *gin.Context) (string, bool) { return accountOf(c.GetString("account")) }),
		byAddress: ginlimit.ByClientIP(httplimit.IPv4Prefix(24)),
		planOf: func(r *http.Request) (string, bool) {
			c, ok := ginlimit.ContextOf(r)
			return c.GetString("account"), ok
		},
	},
	"echo": {
		site:      echoIdiom,
		byAccount: echolimit.By(func(c *echo.Context) (string, bool) { return accountOf(c.Get("account")) }),
		byAddress: echolimit.ByRealIP(httplimit.IPv4Prefix(24)),
		planOf: func(r *http.Request) (string, bool) {
			c, ok := echolimit.ContextOf(r)
			return c.Get("account").(string), ok
		},
	},
	"echo4": {
		site:      echo4Idiom,
		byAccount: echo4limit.By(func(c echo4.Context) (string, bool) { return accountOf(c.Get("account")) }),
		byAddress: echo4limit.ByRealIP(httplimit.IPv4Prefix(24)),
		planOf: func(r *http.Request) (string, bool) {
			c, ok := echo4limit.ContextOf(r)
			return c.Get("account").(string), ok
		},
	},
	"fiber": {
		site:      fiberIdiom,
		byAccount: fiberlimit.By(func(c fiber.Ctx) (string, bool) { return accountOf(c.Locals("account")) }),
		byAddress: fiberlimit.ByIP(httplimit.IPv4Prefix(24)),
		planOf: func(r *http.Request) (string, bool) {
			c, ok := fiberlimit.ContextOf(r)
			return c.Locals("account").(string), ok
		},
	},
}

// accountOf returns the account that a context has under its key.
func accountOf(value any) (string, bool) {
	account, _ := value.(string)
	return account, account != ""
}

func ginIdiom(t *testing.T, l *httplimit.Limiter) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	require.NoError(t, e.SetTrustedProxies([]string{"127.0.0.1"}))
	e.Use(func(c *gin.Context) {
		c.Set("account", c.GetHeader("X-Account"))
		c.Next()
		if err := c.Errors.Last(); err != nil {
			c.String(statusOf(err), "app: "+err.Error())
		}
	})
	e.GET("/users/:id", ginlimit.Middleware(l,
		ginlimit.WithSkipper(func(c *gin.Context) bool { return c.GetHeader("X-Skip") != "" }),
		ginlimit.WithDenied(func(c *gin.Context, _ httplimit.Denial) { c.Error(errSlowDown) }),
		ginlimit.WithUnidentified(func(c *gin.Context) { c.Error(errWho) }),
	), func(c *gin.Context) { c.String(http.StatusOK, "hello") })
	return e
}

func echoIdiom(_ *testing.T, l *httplimit.Limiter) http.Handler {
	e := echo.New()
	e.IPExtractor = echo.ExtractIPFromXFFHeader()
	e.HTTPErrorHandler = func(c *echo.Context, err error) { c.String(statusOf(err), "app: "+err.Error()) }
	e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c *echo.Context) error {
			c.Set("account", c.Request().Header.Get("X-Account"))
			return next(c)
		}
	}, echolimit.Middleware(l,
		echolimit.WithSkipper(func(c *echo.Context) bool { return c.Request().Header.Get("X-Skip") != "" }),
		echolimit.WithDenied(func(*echo.Context, httplimit.Denial) error { return errSlowDown }),
		echolimit.WithUnidentified(func(*echo.Context) error { return errWho }),
	))
	e.GET("/users/:id", func(c *echo.Context) error { return c.String(http.StatusOK, "hello") })
	return e
}

func echo4Idiom(_ *testing.T, l *httplimit.Limiter) http.Handler {
	e := echo4.New()
	e.IPExtractor = echo4.ExtractIPFromXFFHeader()
	e.HTTPErrorHandler = func(err error, c echo4.Context) { c.String(statusOf(err), "app: "+err.Error()) }
	e.Use(func(next echo4.HandlerFunc) echo4.HandlerFunc {
		return func(c echo4.Context) error {
			c.Set("account", c.Request().Header.Get("X-Account"))
			return next(c)
		}
	}, echo4limit.Middleware(l,
		echo4limit.WithSkipper(func(c echo4.Context) bool { return c.Request().Header.Get("X-Skip") != "" }),
		echo4limit.WithDenied(func(echo4.Context, httplimit.Denial) error { return errSlowDown }),
		echo4limit.WithUnidentified(func(echo4.Context) error { return errWho }),
	))
	e.GET("/users/:id", func(c echo4.Context) error { return c.String(http.StatusOK, "hello") })
	return e
}

func fiberIdiom(t *testing.T, l *httplimit.Limiter) http.Handler {
	app := fiber.New(fiber.Config{
		TrustProxy: true, TrustProxyConfig: fiber.TrustProxyConfig{Loopback: true}, ProxyHeader: fiber.HeaderXForwardedFor,
		ErrorHandler: func(c fiber.Ctx, err error) error { return c.Status(statusOf(err)).SendString("app: " + err.Error()) },
	})
	app.Use(func(c fiber.Ctx) error {
		c.Locals("account", c.Get("X-Account"))
		return c.Next()
	})
	app.Get("/users/:id", fiberlimit.New(l,
		fiberlimit.WithNext(func(c fiber.Ctx) bool { return c.Get("X-Skip") != "" }),
		fiberlimit.WithDenied(func(fiber.Ctx, httplimit.Denial) error { return errSlowDown }),
		fiberlimit.WithUnidentified(func(fiber.Ctx) error { return errWho }),
	), func(c fiber.Ctx) error { return c.SendString("hello") })
	return serveFiber(t, app)
}

// asked sends a request with these names and values of headers, and returns its status and body.
func (c *client) asked(path string, headers ...string) (status int, body string, header http.Header) {
	r, err := http.NewRequest("GET", c.url+path, nil)
	require.NoError(c, err)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := c.Do(r)
	require.NoError(c, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(c, errors.Join(err, response.Body.Close()))
	return response.StatusCode, string(text), response.Header
}

// statuses sends a request for each of the values of a header, and returns their statuses.
func (c *client) statuses(path, header string, values ...string) (all []int) {
	for _, v := range values {
		status, _, _ := c.asked(path, header, v)
		all = append(all, status)
	}
	return all
}

// forEachIdiom runs a test with a client of a service of each framework, which has the policy of p.
func forEachIdiom(t *testing.T, p func(idiom) httplimit.Policy, test func(*client)) {
	for name, i := range idioms {
		t.Run(name, func(t *testing.T) { test(newClient(t, i.site.mount(), p(i))) })
	}
}

func TestIdioms_KeyByWhatTheFrameworkKnows(t *testing.T) {
	forEachIdiom(t, func(i idiom) httplimit.Policy {
		p := policy("accounts", "", 2)
		p.Key = i.byAccount
		return p
	}, func(c *client) {
		require.Equal(t, []int{200, 200, 200, 429, 200, 429}, c.statuses("/users/1", "X-Account", "a", "b", "a", "a", "b", "b"))
	})
}

func TestIdioms_KeyByTheFrameworksAddress(t *testing.T) {
	forEachIdiom(t, func(i idiom) httplimit.Policy {
		p := policy("addresses", "", 1)
		p.Key = i.byAddress
		return p
	}, func(c *client) {
		require.Equal(t, []int{200, 429, 200}, c.statuses("/users/1", "X-Forwarded-For", "192.0.2.1", "192.0.2.9", "198.51.100.1"))
	})
}

func TestIdioms_KeyByParametersOfThePath(t *testing.T) {
	forEachIdiom(t, func(idiom) httplimit.Policy {
		p := policy("users", "", 1)
		p.Key = httplimit.ByPathValue("id")
		return p
	}, func(c *client) {
		var statuses []int
		for _, path := range []string{"/users/1", "/users/2", "/users/1"} {
			status, _, _ := c.asked(path)
			statuses = append(statuses, status)
		}
		// Each of these middlewares is where the route is known.
		require.Equal(t, []int{200, 200, 429}, statuses)
	})
}

func TestIdioms_ChoosePlansByWhatTheFrameworkKnows(t *testing.T) {
	forEachIdiom(t, func(i idiom) httplimit.Policy {
		p := policy("plans", "", 1)
		p.Plans = map[string][]sash.Limit{"big": {sash.PerHour(3).Log()}}
		p.Plan = func(r *http.Request) string {
			plan, ok := i.planOf(r)
			require.True(t, ok)
			return plan
		}
		return p
	}, func(c *client) {
		require.Equal(t, []int{200, 200, 200, 429}, c.statuses("/users/1", "X-Account", "big", "big", "big", "big"))
	})
}

// A refusal goes the way of the application's errors, with the headers of the limiter.
func TestIdioms_RefuseInTheApplicationsWay(t *testing.T) {
	forEachIdiom(t, func(i idiom) httplimit.Policy {
		p := policy("accounts", "", 1)
		p.Key = i.byAccount
		return p
	}, func(c *client) {
		status, body, _ := c.asked("/users/1")
		require.Equal(t, 401, status)
		require.Equal(t, "app: who are you", body)
		status, body, _ = c.asked("/users/1", "X-Account", "a")
		require.Equal(t, 200, status)
		require.Equal(t, "hello", body)
		status, body, header := c.asked("/users/1", "X-Account", "a")
		require.Equal(t, 429, status)
		require.Equal(t, "app: slow down", body)
		require.Equal(t, "3600", header.Get("Retry-After"))
		require.Equal(t, "no-store", header.Get("Cache-Control"))
		require.Equal(t, `"accounts";r=0;t=3600`, header.Get("RateLimit"))
	})
}

func TestIdioms_SkipWhatTheFrameworkSays(t *testing.T) {
	forEachIdiom(t, func(idiom) httplimit.Policy { return policy("none", "", 0) }, func(c *client) {
		status, _, header := c.asked("/users/1", "X-Skip", "yes")
		require.Equal(t, 200, status)
		require.Empty(t, header.Get("RateLimit"))
		require.Equal(t, []int{429}, c.statuses("/users/1", "X-Else", "yes"))
	})
}

// Under another middleware, no request has a framework's context.
func TestIdioms_KnowNothingUnderAnotherMiddleware(t *testing.T) {
	for name, i := range idioms {
		t.Run(name, func(t *testing.T) {
			for _, key := range []httplimit.KeyFunc{i.byAccount, i.byAddress} {
				p := policy("accounts", "", 1)
				p.Key = key
				require.Equal(t, 400, newClient(t, mounts["ServeMux, around"], p).status("GET /"))
			}
		})
	}
}

func TestIdioms_RefuseNoOption(t *testing.T) {
	l := httplimit.Must(httplimit.New(policy("all", "", 1), httplimit.WithPathFolding()))
	defer l.Close()
	for message, build := range map[string]func(){
		"ginlimit: Middleware: option 1: must not be nil":          func() { ginlimit.Middleware(l, nil) },
		"echolimit: Middleware: option 1: must not be nil":         func() { echolimit.Middleware(l, nil) },
		"echo4limit: Middleware: option 1: must not be nil":        func() { echo4limit.Middleware(l, nil) },
		"fiberlimit: New: option 1: must not be nil":               func() { fiberlimit.New(l, nil) },
		"ginlimit: WithDenied: f: must not be nil":                 func() { ginlimit.WithDenied(nil) },
		"echolimit: WithUnidentified: f: must not be nil":          func() { echolimit.WithUnidentified(nil) },
		"echo4limit: WithSkipper: skip: must not be nil":           func() { echo4limit.WithSkipper(nil) },
		"fiberlimit: WithNext: next: must not be nil":              func() { fiberlimit.WithNext(nil) },
		"ginlimit: By: identity: must not be nil":                  func() { ginlimit.By(nil) },
		"httplimit: ByPathValue: name must not be empty":           func() { httplimit.ByPathValue("") },
		"httplimit: IPv4Prefix: bits must be from 1 to 32, got 33": func() { fiberlimit.ByIP(httplimit.IPv4Prefix(33)) },
		"httplimit: ByAddressOf: must not be given nil":            func() { echolimit.ByRealIP(nil) },
	} {
		require.PanicsWithValue(t, message, build)
	}
}
