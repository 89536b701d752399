package frameworks_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/gofiber/fiber/v3"
	echo4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/echo4limit"
	"github.com/seed-30da4c49/sash/httplimit/echolimit"
	"github.com/seed-30da4c49/sash/httplimit/fiberlimit"
	"github.com/seed-30da4c49/sash/httplimit/ginlimit"
)

// A level is where a limiter is mounted.
type level int

const (
	aroundAll level = iota
	onGroup
	onRoute
)

// levels are sites with GET /in/a, in a group, and GET /out, with the limiter at a level.
var levels = map[string]func(level) site{
	"gin": func(at level) site {
		return func(_ *testing.T, l *httplimit.Limiter) http.Handler {
			gin.SetMode(gin.ReleaseMode)
			e, m, ok := gin.New(), ginlimit.Middleware(l), func(c *gin.Context) { c.String(200, "ok") }
			e.HandleMethodNotAllowed = true
			if at == aroundAll {
				e.Use(m)
			}
			g := e.Group("/in", only(at == onGroup, m)...)
			g.GET("/a", append(only(at == onRoute, m), ok)...)
			e.GET("/out", ok)
			return e
		}
	},
	"echo": func(at level) site {
		return func(_ *testing.T, l *httplimit.Limiter) http.Handler {
			e, m, ok := echo.New(), echolimit.Middleware(l), func(c *echo.Context) error { return c.String(200, "ok") }
			e.Use(only(at == aroundAll, m)...)
			e.Group("/in", only(at == onGroup, m)...).GET("/a", ok, only(at == onRoute, m)...)
			e.GET("/out", ok)
			return e
		}
	},
	"echo4": func(at level) site {
		return func(_ *testing.T, l *httplimit.Limiter) http.Handler {
			e, m, ok := echo4.New(), echo4limit.Middleware(l), func(c echo4.Context) error { return c.String(200, "ok") }
			e.Use(only(at == aroundAll, m)...)
			e.Group("/in", only(at == onGroup, m)...).GET("/a", ok, only(at == onRoute, m)...)
			e.GET("/out", ok)
			return e
		}
	},
	"fiber": func(at level) site {
		return func(t *testing.T, l *httplimit.Limiter) http.Handler {
			app, m, ok := fiber.New(), fiberlimit.New(l), func(c fiber.Ctx) error { return c.SendString("ok") }
			if at == aroundAll {
				app.Use(m)
			}
			g := app.Group("/in", only[any](at == onGroup, m)...)
			if at == onRoute {
				g.Get("/a", m, ok)
			} else {
				g.Get("/a", ok)
			}
			app.Get("/out", ok)
			return serveFiber(t, app)
		}
	},
}

// only returns m alone, if it is wanted.
func only[M any](wanted bool, m M) []M {
	if wanted {
		return []M{m}
	}
	return nil
}

// A limiter limits what is behind it, and nothing else.
func TestAdapters_LimitWhatIsBehindThem(t *testing.T) {
	for name, at := range levels {
		t.Run(name, func(t *testing.T) {
			for level, want := range map[level][]int{
				aroundAll: {200, 429, 429, 429, 429},
				onGroup:   {200, 429, 200, 404, 405},
				onRoute:   {200, 429, 200, 404, 405},
			} {
				c := newClient(t, at(level).mount(), policy("all", "", 1))
				var statuses []int
				for _, r := range []string{"GET /in/a", "GET /in/a", "GET /out", "GET /absent", "POST /out"} {
					statuses = append(statuses, c.status(r))
				}
				require.Equal(t, want, statuses, level)
			}
		})
	}
}

// A request that the router refuses has its status, so a policy may let it be.
func TestAdapters_ShowWhatTheRouterRefuses(t *testing.T) {
	for name, at := range levels {
		t.Run(name, func(t *testing.T) {
			for request, want := range map[string]string{"GET /absent": "404", "POST /out": "405", "GET /in/a": "200, 2 bytes"} {
				w := newWitness(t)
				c := &client{T: t, Client: http.DefaultClient, url: "http://" + serve(t, at(aroundAll)(t, w.limiter))}
				require.Equal(t, want[:3], fmt.Sprint(c.status(request)))
				told := w.next(t)
				require.Equal(t, want, told[:len(want)], request)
				require.NotContains(t, told, "?")
			}
		})
	}
}
