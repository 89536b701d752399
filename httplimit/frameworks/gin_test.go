package frameworks_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/ginlimit"
)

// newGinSite serves the handlers of gin at /.
func newGinSite(l *httplimit.Limiter, handlers ...gin.HandlerFunc) *gin.Engine {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.Use(ginlimit.Middleware(l))
	e.Any("/", handlers...)
	return e
}

func TestGin_ShowsWhatHandlersWrite(t *testing.T) {
	for name, c := range map[string]struct {
		handler gin.HandlerFunc
		want    string
	}{
		"a body":                       {func(c *gin.Context) { c.String(201, "hello") }, "201, 5 bytes"},
		"JSON":                         {func(c *gin.Context) { c.JSON(401, gin.H{"a": 1}) }, "401, 7 bytes"},
		"a body without a status":      {func(c *gin.Context) { c.Writer.Write([]byte("hello")) }, "200, 5 bytes"},
		"a string without a status":    {func(c *gin.Context) { io.WriteString(c.Writer, "hello") }, "200, 5 bytes"},
		"a redirect":                   {func(c *gin.Context) { c.Redirect(307, "/elsewhere") }, "307, 46 bytes"},
		"an aborted status":            {func(c *gin.Context) { c.AbortWithStatus(403) }, "403, 0 bytes"},
		"an aborted error":             {func(c *gin.Context) { c.AbortWithError(403, io.EOF) }, "403, 0 bytes"},
		"a status alone":               {func(c *gin.Context) { c.Status(204) }, "204, 0 bytes"},
		"the status 200 alone":         {func(c *gin.Context) { c.Status(200) }, "200, 0 bytes"},
		"another status":               {func(c *gin.Context) { c.Status(200); c.AbortWithStatus(401) }, "401, 0 bytes"},
		"another status with a body":   {func(c *gin.Context) { c.Status(200); c.String(401, "wrong") }, "401, 5 bytes"},
		"a status that comes too late": {func(c *gin.Context) { c.String(401, "wrong"); c.Status(200) }, "401, 5 bytes"},
		"a flush":                      {func(c *gin.Context) { c.Status(202); c.Writer.Flush(); c.Writer.Write([]byte("late")) }, "202, 4 bytes"},
		"nothing":                      {func(*gin.Context) {}, "0?"},
		"an error and nothing":         {func(c *gin.Context) { c.Error(io.EOF) }, "0?"},
		"an error and a status":        {func(c *gin.Context) { c.Status(202); c.Error(io.EOF) }, "0?"},
		"a panic":                      {func(*gin.Context) { panic("oh") }, "0?"},
		"a panic with a status":        {func(c *gin.Context) { c.String(202, "hi"); panic("oh") }, "202?"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWitness(t)
			address := serveHTTP(t, newGinSite(w.limiter, c.handler))
			wire := dial(t, address, "GET / HTTP/1.1\r\nHost: h\r\n\r\n")
			require.Equal(t, c.want, w.next(t))
			if c.want[len(c.want)-1] != '?' { // the client is sent what the limiter was told
				require.Equal(t, c.want[:3], wire.response().Status[:3])
			}
		})
	}
}

func TestGin_ShowsTheStatusOfARequestWithoutARoute(t *testing.T) {
	w := newWitness(t)
	response := dial(t, serveHTTP(t, newGinSite(w.limiter)), "GET /absent HTTP/1.1\r\nHost: h\r\n\r\n").response()
	require.Equal(t, http.StatusNotFound, response.StatusCode)
	require.Equal(t, "404, 0 bytes", w.next(t)) // gin writes the body later
}

// Middleware around the limiter writes after it, and the limiter does not believe that nothing
// else comes.
func TestGin_LetsMiddlewareBeforeItAnswer(t *testing.T) {
	errorsAsStatus := func(c *gin.Context) {
		own := c.Writer
		c.Next()
		require.Same(t, own, c.Writer)
		if c.Errors.Last() != nil && !c.Writer.Written() {
			c.String(http.StatusUnauthorized, "wrong")
		}
	}
	s := site(func(_ *testing.T, l *httplimit.Limiter) http.Handler {
		e := gin.New()
		e.Use(errorsAsStatus, ginlimit.Middleware(l))
		e.GET("/", func(c *gin.Context) { c.Error(errors.New("wrong")) })
		return e
	})
	recorded := httptest.NewRecorder()
	require.Equal(t, "0?", s.toldOf(t, recorded, httptest.NewRequest("GET", "/", nil)))
	require.Equal(t, http.StatusUnauthorized, recorded.Code)
	require.Equal(t, "wrong", recorded.Body.String())
}

// A recovery that does not abort lets the next handler go on.
func TestGin_ServesNothingIfAFunctionPanics(t *testing.T) {
	recovers := func(c *gin.Context) {
		defer func() {
			if recover() != nil {
				c.Status(http.StatusInternalServerError)
			}
		}()
		c.Next()
	}
	unknown := limits(func(key []byte, _ *http.Request) ([]byte, bool) { return key, false }, sash.PerHour(1))
	aborts := limits(nil, sash.PerHour(9))
	aborts.Cost = func(*http.Request) int64 { panic(http.ErrAbortHandler) }
	for name, p := range map[string]httplimit.Policy{
		"denied": limits(nil, sash.PerHour(0)), "unidentified": unknown, "skipped": limits(nil, sash.PerHour(9)), "a policy aborts": aborts,
	} {
		t.Run(name, func(t *testing.T) {
			skip := func(*gin.Context) bool {
				if name == "skipped" {
					panic("oh")
				}
				return false
			}
			b := newBed(t, func(l *httplimit.Limiter) any {
				gin.SetMode(gin.ReleaseMode)
				e := gin.New()
				e.Use(recovers, ginlimit.Middleware(l, ginlimit.WithSkipper(skip),
					ginlimit.WithDenied(func(*gin.Context, httplimit.Denial) { panic("oh") }),
					ginlimit.WithUnidentified(func(*gin.Context) { panic("oh") })))
				e.GET("/", func(c *gin.Context) { c.String(http.StatusOK, "served") })
				return e
			}, p)
			r := b.get("/")
			body := ""
			if name == "a policy aborts" {
				body = `{"type":"about:blank","title":"Internal Server Error","status":500}`
			}
			require.Equal(t, reply{500, body, r.header}, r)
		})
	}
}
