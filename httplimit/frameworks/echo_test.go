package frameworks_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	echo4 "github.com/labstack/echo/v4"
	middleware4 "github.com/labstack/echo/v4/middleware"
	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/frameworks/echo4limit"
	"github.com/seed-30da4c49/sash/httplimit/frameworks/echolimit"
)

// An echoContext is what both versions of echo's Context have.
type echoContext interface {
	String(status int, s string) error
	JSON(status int, v any) error
	NoContent(status int) error
	Stream(status int, contentType string, r io.Reader) error
	Request() *http.Request
}

// An echoSite returns the site of a version of echo with the handler at /, behind the
// middleware of that version that recovers from panics, if it is wanted.
type echoSite func(recovers bool, handler func(echoContext, http.ResponseWriter) error) site

// echoes are the versions of echo.
var echoes = map[string]echoSite{
	"echo": func(recovers bool, handler func(echoContext, http.ResponseWriter) error) site {
		return func(_ *testing.T, l *httplimit.Limiter) http.Handler {
			e := echo.New()
			e.Use(echolimit.Middleware(l))
			if recovers {
				e.Use(middleware.Recover())
			}
			e.Any("/", func(c *echo.Context) error { return handler(c, c.Response()) })
			return e
		}
	},
	"echo4": func(recovers bool, handler func(echoContext, http.ResponseWriter) error) site {
		return func(_ *testing.T, l *httplimit.Limiter) http.Handler {
			e := echo4.New()
			e.Use(echo4limit.Middleware(l))
			if recovers {
				e.Use(middleware4.RecoverWithConfig(middleware4.RecoverConfig{LogErrorFunc: func(_ echo4.Context, err error, _ []byte) error { return err }}))
			}
			e.Any("/", func(c echo4.Context) error { return handler(c, c.Response()) })
			return e
		}
	},
}

// A statusError is an error that both versions of echo answer by its status.
func statusError(version string, status int) error {
	if version == "echo4" {
		return echo4.NewHTTPError(status, "wrong")
	}
	return echo.NewHTTPError(status, "wrong")
}

func TestEcho_ShowsWhatHandlersWrite(t *testing.T) {
	for version, site := range echoes {
		for name, c := range map[string]struct {
			handler func(echoContext, http.ResponseWriter) error
			want    string
		}{
			"a body":         {func(c echoContext, _ http.ResponseWriter) error { return c.String(201, "hello") }, "201, 5 bytes"},
			"JSON":           {func(c echoContext, _ http.ResponseWriter) error { return c.JSON(401, []int{1}) }, "401, 4 bytes"},
			"a status":       {func(c echoContext, _ http.ResponseWriter) error { return c.NoContent(204) }, "204, 0 bytes"},
			"a written body": {func(_ echoContext, w http.ResponseWriter) error { _, err := w.Write([]byte("hello")); return err }, "200, 5 bytes"},
			"a written error": {func(_ echoContext, w http.ResponseWriter) error {
				http.Error(w, "wrong", http.StatusUnauthorized)
				return nil
			}, "401, 6 bytes"},
			"a flush": {func(_ echoContext, w http.ResponseWriter) error {
				w.WriteHeader(202)
				w.(http.Flusher).Flush()
				_, err := w.Write([]byte("late"))
				return err
			}, "202, 4 bytes"},
			"an error":     {func(echoContext, http.ResponseWriter) error { return statusError(version, 401) }, "401, 20 bytes"},
			"another one":  {func(echoContext, http.ResponseWriter) error { return io.EOF }, "500, 36 bytes"},
			"a late error": {func(c echoContext, _ http.ResponseWriter) error { return errors.Join(c.String(200, "hi"), io.EOF) }, "200, 2 bytes"},
			"nothing":      {func(echoContext, http.ResponseWriter) error { return nil }, "0?"},
			"a panic":      {func(echoContext, http.ResponseWriter) error { panic("oh") }, "0?"},
		} {
			t.Run(version+", "+name, func(t *testing.T) {
				w := newWitness(t)
				wire := dial(t, serve(t, site(false, c.handler)(t, w.limiter)), "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
				require.Equal(t, c.want, w.next(t))
				if c.want[len(c.want)-1] != '?' { // the client is sent what the limiter was told
					require.Equal(t, c.want[:3], wire.response().Status[:3])
				}
			})
		}
	}
}

func TestEcho_ShowsWhatAClientDoes(t *testing.T) {
	for version, site := range echoes {
		t.Run(version, func(t *testing.T) {
			hello := site(false, func(c echoContext, _ http.ResponseWriter) error { return c.String(200, "hello") })
			upload := site(false, func(c echoContext, _ http.ResponseWriter) error {
				if _, err := io.ReadAll(c.Request().Body); err != nil {
					return err
				}
				return c.String(200, "thanks")
			})
			require.Equal(t, "200, 0 bytes", hello.told(t, "HEAD", "/"))
			require.Equal(t, "200, 6 bytes", upload.told(t, "POST", "/"))
			require.Equal(t, "200?", hello.toldOf(t, newGone(), httptest.NewRequest("GET", "/", nil)))
			require.Equal(t, "500?", upload.toldOf(t, httptest.NewRecorder(), cutRequest("/")))
		})
	}
}

func TestEcho_Recovers(t *testing.T) {
	for version, site := range echoes {
		t.Run(version, func(t *testing.T) {
			panics := site(true, func(echoContext, http.ResponseWriter) error { panic("oh") })
			require.Equal(t, "500, 36 bytes", panics.told(t, "GET", "/"))
		})
	}
}

// An error is answered once, and middleware around the limiter still learns of it.
func TestEcho_AnswersAnErrorOnce(t *testing.T) {
	var passed []error
	for version, s := range map[string]site{
		"echo": func(_ *testing.T, l *httplimit.Limiter) http.Handler {
			e := echo.New()
			e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
				return func(c *echo.Context) error {
					response, _ := echo.UnwrapResponse(c.Response())
					own := response.ResponseWriter
					err := next(c)
					require.Equal(t, own, response.ResponseWriter)
					passed = append(passed, err)
					return err
				}
			}, echolimit.Middleware(l))
			e.GET("/", func(*echo.Context) error { return echo.ErrUnauthorized })
			return e
		},
		"echo4": func(_ *testing.T, l *httplimit.Limiter) http.Handler {
			e := echo4.New()
			e.Use(func(next echo4.HandlerFunc) echo4.HandlerFunc {
				return func(c echo4.Context) error {
					own := c.Response().Writer
					err := next(c)
					require.Equal(t, own, c.Response().Writer)
					passed = append(passed, err)
					return err
				}
			}, echo4limit.Middleware(l))
			e.GET("/", func(echo4.Context) error { return echo4.ErrUnauthorized })
			return e
		},
	} {
		t.Run(version, func(t *testing.T) {
			passed = nil
			recorded := httptest.NewRecorder()
			require.Equal(t, "401, 27 bytes", s.toldOf(t, recorded, httptest.NewRequest("GET", "/", nil)))
			require.Equal(t, 27, recorded.Body.Len())
			require.Len(t, passed, 1)
			require.ErrorContains(t, passed[0], "Unauthorized")
		})
	}
}

// The limiter is shown the status that a hook of the response has made of the handler's.
func TestEcho_ShowsWhatHooksMakeOfAStatus(t *testing.T) {
	s := echoes["echo4"](false, func(c echoContext, w http.ResponseWriter) error {
		response := w.(*echo4.Response)
		response.Before(func() { response.Status = http.StatusUnauthorized })
		return c.String(200, "hello")
	})
	require.Equal(t, "401, 5 bytes", s.told(t, "GET", "/"))
	s = echoes["echo"](false, func(c echoContext, w http.ResponseWriter) error {
		response, err := echo.UnwrapResponse(w)
		if err != nil {
			return err
		}
		response.Before(func() { response.Status = http.StatusUnauthorized })
		return c.String(200, "hello")
	})
	require.Equal(t, "401, 5 bytes", s.told(t, "GET", "/"))
}

func TestEcho_Hijacks(t *testing.T) {
	for version, site := range echoes {
		t.Run(version, func(t *testing.T) {
			w := newWitness(t)
			h := site(false, func(_ echoContext, w http.ResponseWriter) error {
				conn, buffer, err := w.(http.Hijacker).Hijack()
				if err != nil {
					return err
				}
				defer conn.Close()
				buffer.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello")
				return buffer.Flush()
			})(t, w.limiter)
			conn := dial(t, serve(t, h), "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
			require.Equal(t, http.StatusSwitchingProtocols, conn.response().StatusCode)
			rest, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.Equal(t, "hello", string(rest))
			require.Equal(t, "101", w.next(t))
		})
	}
}

// Without echo's own response, which other middleware may replace, one is made.
func TestEcho_WorksWithoutItsOwnResponse(t *testing.T) {
	type plain struct{ http.ResponseWriter }
	s := site(func(_ *testing.T, l *httplimit.Limiter) http.Handler {
		e := echo.New()
		e.Use(func(next echo.HandlerFunc) echo.HandlerFunc {
			return func(c *echo.Context) error {
				c.SetResponse(plain{c.Response()})
				return next(c)
			}
		}, echolimit.Middleware(l))
		e.GET("/", func(*echo.Context) error { return echo.ErrUnauthorized })
		return e
	})
	require.Equal(t, "401, 27 bytes", s.told(t, "GET", "/"))
}

// ByRoute keys requests by echo's route.
func TestEcho_KeysByRoute(t *testing.T) {
	for version, build := range map[string]func(*testing.T, *httplimit.Limiter, *atomic.Int64) http.Handler{
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
		t.Run(version, func(t *testing.T) {
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
