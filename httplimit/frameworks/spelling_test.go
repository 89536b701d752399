package frameworks_test

import (
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/go-chi/chi/v5"
	"github.com/gofiber/fiber/v3"
	"github.com/gorilla/mux"
	echo4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/fiberlimit"
)

// trees are sites that serve all below /api/, and /user/{name}/posts, as each router reads
// paths. Nothing else is found.
var trees = map[string]func(t *testing.T, limiter *httplimit.Limiter) http.Handler{
	"ServeMux": func(_ *testing.T, l *httplimit.Limiter) http.Handler {
		m := http.NewServeMux()
		m.HandleFunc("/api/", serveNothing)
		m.HandleFunc("/user/{name}/posts", serveNothing)
		return l.Middleware(m)
	},
	"chi": func(_ *testing.T, l *httplimit.Limiter) http.Handler {
		r := chi.NewRouter()
		r.HandleFunc("/api/*", serveNothing)
		r.HandleFunc("/user/{name}/posts", serveNothing)
		return l.Middleware(r)
	},
	"gorilla, SkipClean": func(_ *testing.T, l *httplimit.Limiter) http.Handler {
		r := mux.NewRouter().SkipClean(true)
		r.PathPrefix("/api/").HandlerFunc(serveNothing)
		r.HandleFunc("/user/{name}/posts", serveNothing)
		return l.Middleware(r)
	},
	"gin": func(_ *testing.T, l *httplimit.Limiter) http.Handler {
		gin.SetMode(gin.ReleaseMode)
		e := gin.New()
		e.Any("/api/*rest", func(c *gin.Context) { c.Status(http.StatusTeapot) })
		e.Any("/user/:name/posts", func(c *gin.Context) { c.Status(http.StatusTeapot) })
		return l.Middleware(e)
	},
	"echo": func(_ *testing.T, l *httplimit.Limiter) http.Handler {
		e := echo.New()
		e.Any("/api/*", func(c *echo.Context) error { return c.NoContent(http.StatusTeapot) })
		e.Any("/user/:name/posts", func(c *echo.Context) error { return c.NoContent(http.StatusTeapot) })
		return l.Middleware(e)
	},
	"echo4": func(_ *testing.T, l *httplimit.Limiter) http.Handler {
		e := echo4.New()
		e.Any("/api/*", func(c echo4.Context) error { return c.NoContent(http.StatusTeapot) })
		e.Any("/user/:name/posts", func(c echo4.Context) error { return c.NoContent(http.StatusTeapot) })
		return l.Middleware(e)
	},
	"fiber": func(t *testing.T, l *httplimit.Limiter) http.Handler {
		app := fiber.New()
		app.Use(fiberlimit.New(l))
		app.All("/api/*", func(c fiber.Ctx) error { return c.SendStatus(http.StatusTeapot) })
		app.All("/user/:name/posts", func(c fiber.Ctx) error { return c.SendStatus(http.StatusTeapot) })
		return serveFiber(t, app)
	},
}

func serveNothing(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }

// Routers differ in whether they clean a path. A handler is reached past no policy, whichever
// reading its router has.
func TestFrameworks_ReachNoHandlerPastThePolicyByPathsThatAreNotClean(t *testing.T) {
	paths := []string{ // the first four name no file below /api/ once they are clean
		"/api/..", "/api/x/../..", "/api//..", "/api/./../secret",
		"/api/%2e%2e", "/api/x/%2E%2e/..", "/%61pi/..", "/%61pi/%2e%2e", "/api%2F..", "/api/..%2f..", "/api%2f/%2e./x", "/api/../", "/api/.", "/api//", "/api/..;", `/api/..\x`, `/api\..\x`,
		"/x/../api/y", "/x/%2e%2e/api/y", "//api/y", "//api/..", "/./api/..", "/%2e/api/..", "/api/../api/x", "/.api/x", "/api/.x", "/api/...",
		"/user//posts", "/user/./posts", "/user/../posts", "/user/%2e%2e/posts", "/user/%2f/posts", "//user//posts", "/user/x/posts/..", "/user/x//posts", "/user/x/./posts",
	}
	for name, build := range trees {
		for _, folding := range []bool{false, true} {
			if name == "fiber" && !folding { // fiberlimit asks for it
				continue
			}
			t.Run(name+map[bool]string{true: ", folding"}[folding], func(t *testing.T) {
				options := []httplimit.Option{
					policy("api", "/api/", 1e9), policy("posts", "/user/{name}/posts", 1e9),
					httplimit.WithClock(sash.NewManualClock(0)), httplimit.WithSweepInterval(-1),
				}
				if folding {
					options = append(options, httplimit.WithPathFolding())
				}
				limiter := httplimit.Must(httplimit.New(options...))
				t.Cleanup(func() { limiter.Close() })
				site := urlOf(t, build(t, limiter))
				for i, path := range paths {
					for range 3 { // the third time from the cache
						response := postTo(t, site, path)
						served, counted := response.StatusCode == http.StatusTeapot, response.Header.Get("RateLimit") != ""
						require.False(t, served && !counted, path)
						if i < 4 && name != "ServeMux" {
							require.True(t, served, path)
						}
					}
				}
			})
		}
	}
}
