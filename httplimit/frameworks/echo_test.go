package frameworks_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	echo4 "github.com/labstack/echo/v4"
	middleware4 "github.com/labstack/echo/v4/middleware"
	"github.com/labstack/echo/v5"
	"github.com/labstack/echo/v5/middleware"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/echo4limit"
	"github.com/seed-30da4c49/sash/httplimit/echolimit"
)

// An echoContext is what both versions of echo's Context have.
type echoContext interface {
	String(status int, s string) error
	JSON(status int, v any) error
	NoContent(status int) error
	FormValue(name string) string
	Stream(status int, contentType string, r io.Reader) error
	Request() *http.Request
}

// An echoSite serves all requests by a handler of a version of echo, behind the limiter.
type echoSite func(recovers recovery, handler func(echoContext, http.ResponseWriter) error) site

// echoes are the versions of echo.
var echoes = map[string]echoSite{
	"echo": func(recovers recovery, handler func(echoContext, http.ResponseWriter) error) site {
		return func(_ *testing.T, l *httplimit.Limiter) http.Handler {
			e := echo.New()
			useAround(recovers, func(m echo.MiddlewareFunc) { e.Use(m) }, echolimit.Middleware(l), middleware.Recover())
			e.Any("/*", func(c *echo.Context) error { return handler(c, c.Response()) })
			return e
		}
	},
	"echo4": func(recovers recovery, handler func(echoContext, http.ResponseWriter) error) site {
		return func(_ *testing.T, l *httplimit.Limiter) http.Handler {
			e := echo4.New()
			quiet := middleware4.RecoverWithConfig(middleware4.RecoverConfig{LogErrorFunc: func(_ echo4.Context, err error, _ []byte) error { return err }})
			useAround(recovers, func(m echo4.MiddlewareFunc) { e.Use(m) }, echo4limit.Middleware(l), quiet)
			e.Any("/*", func(c echo4.Context) error { return handler(c, c.Response()) })
			return e
		}
	},
}

// writer returns the writer of a version of echo.
func (s echoSite) writer() writer {
	return func(recovers recovery, handler writing) site {
		return s(recovers, func(c echoContext, w http.ResponseWriter) error { return handler(w, c.Request()) })
	}
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
			"nothing":      {func(echoContext, http.ResponseWriter) error { return nil }, "200, 0 bytes"},
			"a panic":      {func(echoContext, http.ResponseWriter) error { panic("oh") }, "0?"},
		} {
			t.Run(version+", "+name, func(t *testing.T) {
				w := newWitness(t)
				wire := dial(t, serve(t, site(nowhere, c.handler)(t, w.limiter)), "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
				require.Equal(t, c.want, w.next(t))
				if c.want[len(c.want)-1] != '?' { // the client is sent what the limiter was told
					require.Equal(t, c.want[:3], wire.response().Status[:3])
				}
			})
		}
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

// Compression around the limiter sends nothing before the limiter has returned.
func TestEcho_ShowsWhatIsCompressedAroundIt(t *testing.T) {
	for version, s := range map[string]site{
		"echo": func(_ *testing.T, l *httplimit.Limiter) http.Handler {
			e := echo.New()
			e.Use(middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 100}), echolimit.Middleware(l))
			e.GET("/", func(c *echo.Context) error { return c.String(200, c.QueryParam("body")) })
			e.GET("/error", func(*echo.Context) error { return echo.ErrUnauthorized })
			return e
		},
		"echo4": func(_ *testing.T, l *httplimit.Limiter) http.Handler {
			e := echo4.New()
			e.Use(middleware4.GzipWithConfig(middleware4.GzipConfig{MinLength: 100}), echo4limit.Middleware(l))
			e.GET("/", func(c echo4.Context) error { return c.String(200, c.QueryParam("body")) })
			e.GET("/error", func(echo4.Context) error { return echo4.ErrUnauthorized })
			return e
		},
	} {
		t.Run(version, func(t *testing.T) {
			for target, want := range map[string]string{
				"/?body=hello": "200, 5 bytes", "/?body=" + strings.Repeat("a", 1000): "200, 1000 bytes", "/?body=": "200, 0 bytes", "/error": "401, 27 bytes",
			} {
				w := newWitness(t)
				recorded := httptest.NewRecorder()
				r := httptest.NewRequest("GET", target, nil)
				r.Header.Set("Accept-Encoding", "gzip")
				s(t, w.limiter).ServeHTTP(recorded, r)
				require.Equal(t, want, w.next(t), target)
				require.Equal(t, want[:3], fmt.Sprint(recorded.Code))
				if recorded.Header().Get("Content-Encoding") == "" {
					require.Equal(t, want[5:], fmt.Sprintf("%d bytes", recorded.Body.Len())) // once
				}
			}
		})
	}
}

// The limiter is shown the status that a hook of the response has made of the handler's.
func TestEcho_ShowsWhatHooksMakeOfAStatus(t *testing.T) {
	s := echoes["echo4"](nowhere, func(c echoContext, w http.ResponseWriter) error {
		response := w.(*echo4.Response)
		response.Before(func() { response.Status = http.StatusUnauthorized })
		return c.String(200, "hello")
	})
	require.Equal(t, "401, 5 bytes", s.told(t, "GET", "/"))
	s = echoes["echo"](nowhere, func(c echoContext, w http.ResponseWriter) error {
		response, err := echo.UnwrapResponse(w)
		if err != nil {
			return err
		}
		response.Before(func() { response.Status = http.StatusUnauthorized })
		return c.String(200, "hello")
	})
	require.Equal(t, "401, 5 bytes", s.told(t, "GET", "/"))
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
