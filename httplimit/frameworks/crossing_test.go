package frameworks_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v3"
	"github.com/gofiber/fiber/v3/middleware/recover"
	echo4 "github.com/labstack/echo/v4"
	middleware4 "github.com/labstack/echo/v4/middleware"
	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/echo4limit"
	"github.com/seed-30da4c49/sash/httplimit/echolimit"
	"github.com/seed-30da4c49/sash/httplimit/fiberlimit"
	"github.com/seed-30da4c49/sash/httplimit/ginlimit"
)

// A visit is one request in the context of its framework.
type visit struct {
	header  func(name string) string
	send    func(status int, body string) error
	context context.Context
}

// A layer is a limiter with the options of its adapter. What returns an error leaves the answer to the application,
// which is "app: ", and the error.
type layer struct {
	*httplimit.Limiter
	skip         func(visit) bool
	denied       func(visit, httplimit.Denial) error
	unidentified func(visit) error
}

// A crossing is a framework in which layers are put around a handler.
type crossing struct {
	// site serves GET /teams/:team/users/:id, behind what recovers from panics and the layers, the outermost first.
	site func(handler func(visit) error, layers ...layer) any
	by   func(func(visit) (string, bool)) httplimit.KeyFunc
	// contextual reports whether a request has the framework's context.
	contextual func(*http.Request) bool
}

var crossings = map[string]crossing{
	"gin": {
		site: ginCrossing(func(c *gin.Context, err error) { c.Error(err) }),
		by: func(key func(visit) (string, bool)) httplimit.KeyFunc {
			return ginlimit.By(func(c *gin.Context) (string, bool) { return key(ginVisit(c)) })
		},
		contextual: func(r *http.Request) bool { c, ok := ginlimit.ContextOf(r); return ok && c.FullPath() != "" },
	},
	"echo": {
		site: echoCrossing,
		by: func(key func(visit) (string, bool)) httplimit.KeyFunc {
			return echolimit.By(func(c *echo.Context) (string, bool) { return key(echoVisit(c)) })
		},
		contextual: func(r *http.Request) bool { c, ok := echolimit.ContextOf(r); return ok && c.Path() != "" },
	},
	"echo4": {
		site: echo4Crossing,
		by: func(key func(visit) (string, bool)) httplimit.KeyFunc {
			return echo4limit.By(func(c echo4.Context) (string, bool) { return key(echo4Visit(c)) })
		},
		contextual: func(r *http.Request) bool { c, ok := echo4limit.ContextOf(r); return ok && c.Path() != "" },
	},
	"fiber": {
		site: fiberCrossing,
		by: func(key func(visit) (string, bool)) httplimit.KeyFunc {
			return fiberlimit.By(func(c fiber.Ctx) (string, bool) { return key(fiberVisit(c)) })
		},
		contextual: func(r *http.Request) bool { c, ok := fiberlimit.ContextOf(r); return ok && c.Path() != "" },
	},
}

func ginVisit(c *gin.Context) visit {
	return visit{c.GetHeader, func(status int, body string) error { c.String(status, body); return nil }, c.Request.Context()}
}

// ginAnswer answers an error in the application's way.
func ginAnswer(c *gin.Context, err error) { c.String(statusOf(err), "app: "+err.Error()) }

// ginCrossing is the site of a crossing in gin, whose handlers, which return no errors, leave them by fail.
func ginCrossing(fail func(*gin.Context, error)) func(func(visit) error, ...layer) any {
	return func(handler func(visit) error, layers ...layer) any {
		return ginCrossingSite(fail, handler, layers)
	}
}

func ginCrossingSite(fail func(*gin.Context, error), handler func(visit) error, layers []layer) any {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	note := func(c *gin.Context, err error) {
		if err != nil {
			fail(c, err)
		}
	}
	e.Use(gin.RecoveryWithWriter(io.Discard), func(c *gin.Context) {
		c.Next()
		if err := c.Errors.Last(); err != nil && !c.Writer.Written() {
			ginAnswer(c, err)
		}
	})
	team := e.Group("/teams/:team")
	for _, l := range layers {
		var options []ginlimit.Option
		if l.skip != nil {
			options = append(options, ginlimit.WithSkipper(func(c *gin.Context) bool { return l.skip(ginVisit(c)) }))
		}
		if l.denied != nil {
			options = append(options, ginlimit.WithDenied(func(c *gin.Context, d httplimit.Denial) { note(c, l.denied(ginVisit(c), d)) }))
		}
		if l.unidentified != nil {
			options = append(options, ginlimit.WithUnidentified(func(c *gin.Context) { note(c, l.unidentified(ginVisit(c))) }))
		}
		team.Use(ginlimit.Middleware(l.Limiter, options...))
	}
	team.GET("/users/:id", func(c *gin.Context) { note(c, handler(ginVisit(c))) })
	return e
}

func echoVisit(c *echo.Context) visit {
	return visit{c.Request().Header.Get, c.String, c.Request().Context()}
}

func echoCrossing(handler func(visit) error, layers ...layer) any {
	e := echo.New()
	e.HTTPErrorHandler = func(c *echo.Context, err error) {
		if response, _ := echo.UnwrapResponse(c.Response()); response == nil || !response.Committed {
			c.String(statusOf(err), "app: "+err.Error())
		}
	}
	e.Use(middleware.Recover())
	team := e.Group("/teams/:team")
	for _, l := range layers {
		var options []echolimit.Option
		if l.skip != nil {
			options = append(options, echolimit.WithSkipper(func(c *echo.Context) bool { return l.skip(echoVisit(c)) }))
		}
		if l.denied != nil {
			options = append(options, echolimit.WithDenied(func(c *echo.Context, d httplimit.Denial) error { return l.denied(echoVisit(c), d) }))
		}
		if l.unidentified != nil {
			options = append(options, echolimit.WithUnidentified(func(c *echo.Context) error { return l.unidentified(echoVisit(c)) }))
		}
		team.Use(echolimit.Middleware(l.Limiter, options...))
	}
	team.GET("/users/:id", func(c *echo.Context) error { return handler(echoVisit(c)) })
	return e
}

func echo4Visit(c echo4.Context) visit {
	return visit{c.Request().Header.Get, c.String, c.Request().Context()}
}

func echo4Crossing(handler func(visit) error, layers ...layer) any {
	e := echo4.New()
	e.HTTPErrorHandler = func(err error, c echo4.Context) {
		if !c.Response().Committed {
			c.String(statusOf(err), "app: "+err.Error())
		}
	}
	e.Use(middleware4.RecoverWithConfig(middleware4.RecoverConfig{LogErrorFunc: func(_ echo4.Context, err error, _ []byte) error { return err }}))
	team := e.Group("/teams/:team")
	for _, l := range layers {
		var options []echo4limit.Option
		if l.skip != nil {
			options = append(options, echo4limit.WithSkipper(func(c echo4.Context) bool { return l.skip(echo4Visit(c)) }))
		}
		if l.denied != nil {
			options = append(options, echo4limit.WithDenied(func(c echo4.Context, d httplimit.Denial) error { return l.denied(echo4Visit(c), d) }))
		}
		if l.unidentified != nil {
			options = append(options, echo4limit.WithUnidentified(func(c echo4.Context) error { return l.unidentified(echo4Visit(c)) }))
		}
		team.Use(echo4limit.Middleware(l.Limiter, options...))
	}
	team.GET("/users/:id", func(c echo4.Context) error { return handler(echo4Visit(c)) })
	return e
}

func fiberVisit(c fiber.Ctx) visit {
	header := func(name string) string { return c.Get(name) }
	return visit{header, func(status int, body string) error { return c.Status(status).SendString(body) }, c.Context()}
}

func fiberCrossing(handler func(visit) error, layers ...layer) any {
	app := fiber.New(fiber.Config{ErrorHandler: func(c fiber.Ctx, err error) error {
		return c.Status(statusOf(err)).SendString("app: " + err.Error())
	}})
	app.Use(recover.New())
	team := app.Group("/teams/:team")
	for _, l := range layers {
		var options []fiberlimit.Option
		if l.skip != nil {
			options = append(options, fiberlimit.WithNext(func(c fiber.Ctx) bool { return l.skip(fiberVisit(c)) }))
		}
		if l.denied != nil {
			options = append(options, fiberlimit.WithDenied(func(c fiber.Ctx, d httplimit.Denial) error { return l.denied(fiberVisit(c), d) }))
		}
		if l.unidentified != nil {
			options = append(options, fiberlimit.WithUnidentified(func(c fiber.Ctx) error { return l.unidentified(fiberVisit(c)) }))
		}
		team.Use(fiberlimit.New(l.Limiter, options...))
	}
	team.Get("/users/:id", func(c fiber.Ctx) error { return handler(fiberVisit(c)) })
	return app
}

// user is a path of the site of a crossing.
const user = "/teams/1/users/1"

// A crossed is a crossing under test. Its handler does what X-Do says.
type crossed struct {
	*bed
	crossing
	nested []int // the statuses of the requests that handlers have sent
}

// forEachCrossing runs a test in each framework.
func forEachCrossing(t *testing.T, test func(*crossed)) {
	for name, c := range crossings {
		t.Run(name, func(t *testing.T) {
			test(&crossed{bed: &bed{T: t, clock: sash.NewManualClock(0)}, crossing: c})
		})
	}
}

// limit returns a limiter by the clock of c.
func (c *crossed) limit(options ...httplimit.Option) *httplimit.Limiter {
	l, err := httplimit.New(append(options, httplimit.WithPathFolding(), httplimit.WithClock(c.clock), httplimit.WithSweepInterval(-1))...)
	require.NoError(c, err)
	c.Cleanup(func() { require.NoError(c, l.Close()) })
	return l
}

// serve puts the layers around the handler of c.
func (c *crossed) serve(layers ...layer) { c.send = sender(c.T, c.site(c.handle, layers...)) }

// handle does what X-Do says: it fails, panics, or sends a request that is not skipped, or one that is.
func (c *crossed) handle(v visit) error {
	switch v.header("X-Do") {
	case "fail":
		return v.send(http.StatusInternalServerError, "failed")
	case "send":
		c.nested = append(c.nested, c.get(user).status)
	case "send skipped":
		c.nested = append(c.nested, c.get(user, "X-Skip", "yes").status)
	case "commit":
		httplimit.ChargeOf(v.context, "all").Commit(5)
	}
	return v.send(http.StatusOK, "ok")
}

// did returns the statuses of nested requests since the last call.
func (c *crossed) did() (nested []int) {
	nested, c.nested = c.nested, nil
	return nested
}

// answers checks the answer to a request.
func (c *crossed) answers(want string, headers ...string) reply {
	r := c.get(user, headers...)
	require.Equal(c, want, fmt.Sprint(r.status, " ", r.body))
	return r
}

func skipHeader(v visit) bool { return v.header("X-Skip") != "" }

func slowDown(visit, httplimit.Denial) error { return errSlowDown }

// A request that is skipped is charged nothing, holds nothing, and finds no charge.
func TestCrossing_SkippedRequestsTouchNothing(t *testing.T) {
	forEachCrossing(t, func(c *crossed) {
		slots := limits(nil, sash.AtOnce(1, time.Hour))
		slots.Name = "slots"
		tokens := limits(nil, sash.PerHour(10).Log())
		tokens.Settle = httplimit.SettleEstimate()
		tokens.Charge = failed
		l := c.limit(slots, tokens)
		c.serve(layer{Limiter: l, skip: skipHeader, denied: slowDown})
		for _, do := range []string{"", "fail", "commit", "send skipped"} {
			r := c.get(user, "X-Skip", "yes", "X-Do", do)
			require.Empty(c, r.header.Get("RateLimit"), do)
			require.Zero(c, l.Sash().Len(), do)
		}
		require.Equal(c, []int{200}, c.did())
		c.answers("200 ok", "X-Skip", "yes", "X-Do", "send") // the one within has the slot
		require.Equal(c, []int{200}, c.did())
		c.answers("200 ok", "X-Do", "send skipped") // and leaves the slot alone
		require.Equal(c, []int{200}, c.did())
		c.answers("200 ok", "X-Do", "send")
		require.Equal(c, []int{429}, c.did())
	})
}

// Charges follow the status that the client is sent, and Charge is not asked of refusals, whatever answers them.
func TestCrossing_RefusalsAreNotCharged(t *testing.T) {
	forEachCrossing(t, func(c *crossed) {
		var asked []int
		p := limits(nil, sash.PerHour(2).Log())
		p.Charge = func(status int) bool { asked = append(asked, status); return status >= 500 }
		c.serve(layer{Limiter: c.limit(p), denied: slowDown})
		c.answers("200 ok")
		c.answers("500 failed", "X-Do", "fail")
		c.answers("200 ok")
		c.answers("500 failed", "X-Do", "fail")
		c.answers("429 app: slow down")
		require.Equal(c, []int{200, 500, 200, 500}, asked)
		c.clock.Advance(time.Hour)
		c.answers("200 ok")
	})
}

// A limiter around another one gets its units back when the inner one refuses, or fails, in any way.
func TestCrossing_RefusalsWithinHoldNothing(t *testing.T) {
	oops := func(visit) (string, bool) { panic("oh") }
	unknown := func(visit) (string, bool) { return "", false }
	for name, within := range map[string]struct {
		layer func(*crossed) layer
		want  string // "": what problem details say, with its status
		code  int
	}{
		"denied by an error": {func(c *crossed) layer { return layer{Limiter: c.limit(limits(nil, sash.PerHour(0))), denied: slowDown} }, "app: slow down", 429},
		"denied by an answer": {func(c *crossed) layer {
			return layer{Limiter: c.limit(limits(nil, sash.PerHour(0))), denied: func(v visit, _ httplimit.Denial) error { return v.send(418, "tea") }}
		}, "tea", 418},
		"denied by a panic": {func(c *crossed) layer {
			return layer{Limiter: c.limit(limits(nil, sash.PerHour(0))), denied: func(visit, httplimit.Denial) error { panic(errors.New("oh")) }}
		}, "", 500},
		"denied by default": {func(c *crossed) layer { return layer{Limiter: c.limit(limits(nil, sash.PerHour(0)))} }, "", 429},
		"unidentified": {func(c *crossed) layer {
			return layer{Limiter: c.limit(limits(c.by(unknown), sash.PerHour(1))), denied: slowDown, unidentified: func(visit) error { return errWho }}
		}, "app: who are you", 401},
		"unidentified by a panic": {func(c *crossed) layer {
			return layer{Limiter: c.limit(limits(c.by(unknown), sash.PerHour(1))), unidentified: func(visit) error { panic(errors.New("oh")) }}
		}, "", 500},
		"a key that panics": {func(c *crossed) layer {
			return layer{Limiter: c.limit(limits(c.by(oops), sash.PerHour(1))), denied: slowDown, unidentified: func(visit) error { return errWho }}
		}, "", 500},
		"a skipper that panics": {func(c *crossed) layer {
			return layer{Limiter: c.limit(limits(nil, sash.PerHour(1))), skip: func(visit) bool { panic(errors.New("oh")) }, denied: slowDown}
		}, "", 500},
	} {
		t.Run(name, func(t *testing.T) {
			forEachCrossing(t, func(c *crossed) {
				slots := limits(nil, sash.AtOnce(1, time.Hour))
				slots.Name = "slots"
				inner := within.layer(c)
				c.serve(layer{Limiter: c.limit(slots), denied: func(visit, httplimit.Denial) error { return errors.New("no slot") }}, inner)
				for range 3 {
					r := c.get(user)
					require.Equal(c, within.code, r.status, r.body)
					if within.want != "" {
						require.Equal(c, within.want, r.body)
					}
				}
				require.Zero(c, inner.Sash().Len(), "nothing is charged within")
			})
		})
	}
}

// The functions of a policy that panic are answered by the limiter, so that the application's recovery learns of
// nothing, and tells the client nothing.
func TestCrossing_AKeyThatPanicsIsAnsweredByTheLimiter(t *testing.T) {
	forEachCrossing(t, func(c *crossed) {
		l := c.limit(limits(c.by(func(visit) (string, bool) { panic("secret") }), sash.PerHour(1)))
		c.serve(layer{Limiter: l, denied: slowDown, unidentified: func(visit) error { return errWho }})
		r := c.get(user)
		require.Equal(c, 500, r.status)
		require.Equal(c, "application/problem+json", r.header.Get("Content-Type"))
		require.NotContains(c, r.body, "secret")
	})
}

// A limiter around another one takes the refusal for the response that it is, with its bytes.
func TestCrossing_ARefusalWithinIsAResponse(t *testing.T) {
	for name, refusal := range map[string]struct {
		denied func(visit, httplimit.Denial) error
		want   string
		gin    string // gin answers an error around both limiters, which then do not know the answer
	}{
		"an error":  {slowDown, "429, 14 bytes", "0?"},
		"an answer": {func(v visit, _ httplimit.Denial) error { return v.send(418, "tea") }, "418, 3 bytes", "418, 3 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			for framework, of := range crossings {
				t.Run(framework, func(t *testing.T) {
					w := newWitness(t)
					c := &crossed{bed: &bed{T: t, clock: sash.NewManualClock(0)}, crossing: of}
					c.serve(layer{Limiter: w.limiter}, layer{Limiter: c.limit(limits(nil, sash.PerHour(0))), denied: refusal.denied})
					c.get(user)
					want := refusal.want
					if framework == "gin" {
						want = refusal.gin
					}
					require.Equal(t, want, w.next(t))
				})
			}
		})
	}
}

// Each of two limiters finds the framework's context, charges by itself, and tells its quota.
func TestCrossing_TwoLimitersInOneChain(t *testing.T) {
	forEachCrossing(t, func(c *crossed) {
		account := func(v visit) (string, bool) { return accountOf(v.header("X-Account")) }
		outer, inner := limits(c.by(account), sash.PerHour(20).Log()), limits(c.by(account), sash.PerHour(10).Log())
		outer.Name = "outer"
		inner.Settle = httplimit.SettleEstimate()
		for _, p := range []*httplimit.Policy{&outer, &inner} {
			p.Plans = map[string][]sash.Limit{"none": {sash.PerHour(0)}}
			p.Plan = func(r *http.Request) string { return map[bool]string{false: "none"}[c.contextual(r)] }
		}
		c.serve(layer{Limiter: c.limit(outer), skip: skipHeader}, layer{Limiter: c.limit(inner), denied: slowDown})
		told := func(do, skip string) string {
			headers := []string{"X-Account", "a", "X-Do", do}
			if skip != "" {
				headers = append(headers, "X-Skip", skip)
			}
			return fmt.Sprint(c.get(user, headers...).header.Values("RateLimit"))
		}
		require.Equal(c, `["outer";r=19;t=3600 "all";r=9;t=3600]`, told("commit", ""))
		require.Equal(c, `["all";r=4;t=3600]`, told("commit", "yes"))
		require.Equal(c, `["outer";r=18;t=3600 "all";r=0;t=3600]`, told("", "")) // 5 and 5 were committed
		r := c.get(user, "X-Account", "a")
		require.Equal(c, "app: slow down", r.body)
		require.Equal(c, []string{`"outer";r=17;t=3600`, `"all";r=0;t=3600`}, r.header.Values("RateLimit"))
		require.Equal(c, 200, c.get(user, "X-Account", "b").status)
	})
}

// A limiter on a group finds the parameters of the group's path.
func TestCrossing_KeyByTheParameterOfAGroup(t *testing.T) {
	forEachCrossing(t, func(c *crossed) {
		teams := limits(httplimit.ByPathValue("team"), sash.PerHour(2).Log())
		c.serve(layer{Limiter: c.limit(teams)})
		require.Equal(c, []int{200, 200, 200, 429, 200, 429},
			c.gets("/teams/1/users/1", "/teams/2/users/1", "/teams/1/users/2", "/teams/1/users/3", "/teams/2/users/9", "/teams/2/users/1"))
	})
}

// A limiter around the routes finds the parameters of each, and none of an earlier request.
func TestCrossing_KeyByTheParametersOfARoute(t *testing.T) {
	around := map[string]func(*httplimit.Limiter) any{
		"gin": func(l *httplimit.Limiter) any {
			gin.SetMode(gin.ReleaseMode)
			e := gin.New()
			e.Use(ginlimit.Middleware(l))
			e.GET("/users/:id", func(c *gin.Context) { c.String(200, "ok") })
			return e
		},
		"echo": func(l *httplimit.Limiter) any {
			e := echo.New()
			e.Use(echolimit.Middleware(l))
			e.GET("/users/:id", func(c *echo.Context) error { return c.String(200, "ok") })
			return e
		},
		"echo4": func(l *httplimit.Limiter) any {
			e := echo4.New()
			e.Use(echo4limit.Middleware(l))
			e.GET("/users/:id", func(c echo4.Context) error { return c.String(200, "ok") })
			return e
		},
	}
	for name, mount := range around {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, mount, limits(httplimit.ByPathValue("id"), sash.PerHour(1).Log()))
			require.Equal(t, []int{200, 400, 200, 429}, b.gets("/users/1", "/absent", "/users/2", "/users/1"))
		})
	}
}

func TestCrossing_KeyByAllParametersOfARoute(t *testing.T) {
	mounted := map[string]func(*httplimit.Limiter) any{
		"gin": func(l *httplimit.Limiter) any {
			gin.SetMode(gin.ReleaseMode)
			e := gin.New()
			e.GET("/teams/:team/users/:id", ginlimit.Middleware(l), func(c *gin.Context) { c.String(200, "ok") })
			return e
		},
		"echo": func(l *httplimit.Limiter) any {
			e := echo.New()
			e.GET("/teams/:team/users/:id", func(c *echo.Context) error { return c.String(200, "ok") }, echolimit.Middleware(l))
			return e
		},
		"echo4": func(l *httplimit.Limiter) any {
			e := echo4.New()
			e.GET("/teams/:team/users/:id", func(c echo4.Context) error { return c.String(200, "ok") }, echo4limit.Middleware(l))
			return e
		},
		"fiber": func(l *httplimit.Limiter) any {
			app := fiber.New()
			app.Get("/teams/:team/users/:id", fiberlimit.New(l), func(c fiber.Ctx) error { return c.SendString("ok") })
			return app
		},
	}
	for name, mount := range mounted {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, mount, limits(httplimit.Join(httplimit.ByPathValue("team"), httplimit.ByPathValue("id")), sash.PerHour(1).Log()))
			require.Equal(t, []int{200, 200, 200, 429, 429},
				b.gets("/teams/1/users/1", "/teams/1/users/2", "/teams/2/users/1", "/teams/1/users/2", "/teams/2/users/1"))
		})
	}
}

// A refusal of the application does not have the headers of content that a middleware has announced.
func TestCrossing_RefusalsDropTheDescriptionOfOtherContent(t *testing.T) {
	describe := func(set func(name, value string)) {
		for name, value := range map[string]string{"ETag": `"x"`, "Last-Modified": "Mon, 02 Jan 2006 15:04:05 GMT", "Content-Length": "1000", "X-Kept": "yes"} {
			set(name, value)
		}
	}
	unknown := limits(func(key []byte, _ *http.Request) ([]byte, bool) { return key, false }, sash.PerHour(1))
	for policy, p := range map[string]httplimit.Policy{"denied": limits(nil, sash.PerHour(0)), "unidentified": unknown} {
		for name, mount := range map[string]func(*httplimit.Limiter) any{
			"gin": func(l *httplimit.Limiter) any {
				gin.SetMode(gin.ReleaseMode)
				e := gin.New()
				e.Use(func(c *gin.Context) { describe(c.Header) }, ginlimit.Middleware(l,
					ginlimit.WithDenied(func(c *gin.Context, _ httplimit.Denial) { c.String(429, "no") }),
					ginlimit.WithUnidentified(func(c *gin.Context) { c.String(429, "no") })))
				return e
			},
			"echo": func(l *httplimit.Limiter) any {
				e := echo.New()
				e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
					return func(c *echo.Context) error { describe(c.Response().Header().Set); return next(c) }
				}, echolimit.Middleware(l,
					echolimit.WithDenied(func(c *echo.Context, _ httplimit.Denial) error { return c.String(429, "no") }),
					echolimit.WithUnidentified(func(c *echo.Context) error { return c.String(429, "no") })))
				return e
			},
			"echo4": func(l *httplimit.Limiter) any {
				e := echo4.New()
				e.Use(func(next echo4.HandlerFunc) echo4.HandlerFunc {
					return func(c echo4.Context) error { describe(c.Response().Header().Set); return next(c) }
				}, echo4limit.Middleware(l,
					echo4limit.WithDenied(func(c echo4.Context, _ httplimit.Denial) error { return c.String(429, "no") }),
					echo4limit.WithUnidentified(func(c echo4.Context) error { return c.String(429, "no") })))
				return e
			},
			"fiber": func(l *httplimit.Limiter) any {
				app := fiber.New()
				return app.Use(func(c fiber.Ctx) error { describe(c.Set); return c.Next() }, fiberlimit.New(l,
					fiberlimit.WithDenied(func(c fiber.Ctx, _ httplimit.Denial) error { return c.Status(429).SendString("no") }),
					fiberlimit.WithUnidentified(func(c fiber.Ctx) error { return c.Status(429).SendString("no") })))
			},
		} {
			t.Run(policy+"/"+name, func(t *testing.T) {
				r := newBed(t, mount, p).get("/")
				require.Equal(t, reply{429, "no", r.header}, r)
				require.Empty(t, r.header.Get("ETag")+r.header.Get("Last-Modified"))
				require.NotEqual(t, "1000", r.header.Get("Content-Length"))
				require.Equal(t, "yes", r.header.Get("X-Kept"))
			})
		}
	}
}

// A request that waits is served in its turn, one that finds no room is refused in the application's way, and one
// that is skipped does not wait.
func TestCrossing_Queues(t *testing.T) {
	// The first answer of fasthttp starts a goroutine for ever, which must not be in a bubble.
	newBed(t, fiberHello(), limits(nil, sash.PerHour(1))).get("/")
	for name, of := range crossings {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &crossed{bed: &bed{T: t, clock: sash.NewManualClock(0)}, crossing: of}
				p := limits(nil, sash.PerSecond(1).TokenBucket(1))
				p.Queue = httplimit.Queue{Wait: 10 * time.Second, Requests: 1}
				c.serve(layer{Limiter: c.limit(p), skip: skipHeader, denied: slowDown})
				c.answers("200 ok")
				statuses := make(chan reply, 1)
				ask := func(ctx context.Context) {
					w := httptest.NewRecorder()
					response := c.send(httptest.NewRequest("GET", user, nil).WithContext(ctx))
					_, err := io.Copy(w, response.Body)
					require.NoError(t, err)
					statuses <- reply{response.StatusCode, w.Body.String(), nil}
				}
				go ask(t.Context())
				synctest.Wait()
				c.answers("429 app: slow down") // there is no room
				c.answers("200 ok", "X-Skip", "yes")
				c.clock.Advance(time.Second)
				require.Equal(t, reply{200, "ok", nil}, <-statuses)

				if name == "fiber" {
					return // it does not notice that a client leaves
				}
				// A client that leaves is answered by the same function, and charged nothing.
				ctx, leave := context.WithCancel(t.Context())
				go ask(ctx)
				synctest.Wait()
				leave()
				require.Equal(t, reply{429, "app: slow down", nil}, <-statuses)
				c.clock.Advance(time.Second)
				c.answers("200 ok")
			})
		})
	}
}

// No request is taken for another one, though frameworks use their contexts again.
func TestCrossing_ContextsBelongToTheirRequests(t *testing.T) {
	forEachCrossing(t, func(c *crossed) {
		account := func(v visit) (string, bool) { return accountOf(v.header("X-Account")) }
		c.serve(layer{Limiter: c.limit(limits(c.by(account), sash.PerHour(10).Log())), skip: skipHeader, denied: slowDown})
		counts := make(chan map[string]int)
		for range 4 {
			go func() {
				admitted := map[string]int{}
				for i := range 40 {
					name := fmt.Sprint("account ", i%4)
					if c.get(user, "X-Account", name).status == 200 {
						admitted[name]++
					}
				}
				counts <- admitted
			}()
		}
		all := map[string]int{}
		for range 4 {
			for name, n := range <-counts {
				all[name] += n
			}
		}
		require.Equal(c, map[string]int{"account 0": 10, "account 1": 10, "account 2": 10, "account 3": 10}, all)
	})
}

// An answer that is committed is not answered again by the error that comes with it, and what the client is sent is
// what counts.
func TestEcho_AnErrorAfterTheResponseIsCommitted(t *testing.T) {
	for _, name := range []string{"echo", "echo4"} {
		t.Run(name, func(t *testing.T) {
			for _, admits := range []bool{true, false} { // whether the handler or WithDenied answers and fails
				w := newWitness(t)
				c := &crossed{bed: &bed{T: t, clock: sash.NewManualClock(0)}, crossing: crossings[name]}
				count := map[bool]int64{true: 1}[admits]
				both := func(v visit) error { return errors.Join(v.send(402, "answered"), errSlowDown) }
				c.send = sender(t, c.site(both, layer{Limiter: w.limiter}, layer{
					Limiter: c.limit(limits(nil, sash.PerHour(count))),
					denied:  func(v visit, _ httplimit.Denial) error { return both(v) },
				}))
				c.answers("402 answered")
				require.Equal(t, "402, 8 bytes", w.next(t))
			}
		})
	}
}
