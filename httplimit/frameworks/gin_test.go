package frameworks_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/frameworks/ginlimit"
)

// ginSite serves the handlers of gin at /.
func ginSite(handlers ...gin.HandlerFunc) site {
	return func(_ *testing.T, l *httplimit.Limiter) http.Handler {
		return newGinSite(l, handlers...)
	}
}

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

func TestGin_ShowsWhatAClientDoes(t *testing.T) {
	hello := ginSite(func(c *gin.Context) { c.String(200, "hello") })
	upload := ginSite(func(c *gin.Context) {
		if _, err := io.ReadAll(c.Request.Body); err != nil {
			c.String(500, "no body")
			return
		}
		c.String(200, "thanks")
	})
	require.Equal(t, "200, 0 bytes", hello.told(t, "HEAD", "/"))
	require.Equal(t, "200, 6 bytes", upload.told(t, "POST", "/"))
	require.Equal(t, "200?", hello.toldOf(t, newGone(), httptest.NewRequest("GET", "/", nil)))
	require.Equal(t, "500?", upload.toldOf(t, httptest.NewRecorder(), cutRequest("/")))
}

// A Recovery behind the middleware answers 500; before it, the response is uncertain.
func TestGin_Recovers(t *testing.T) {
	recovery := gin.RecoveryWithWriter(io.Discard)
	panics := func(*gin.Context) { panic("oh") }
	require.Equal(t, "500, 0 bytes", ginSite(recovery, panics).told(t, "GET", "/"))

	before := site(func(_ *testing.T, l *httplimit.Limiter) http.Handler {
		e := gin.New()
		e.Use(recovery, ginlimit.Middleware(l))
		e.GET("/", panics)
		return e
	})
	recorded := httptest.NewRecorder()
	require.Equal(t, "0?", before.toldOf(t, recorded, httptest.NewRequest("GET", "/", nil)))
	require.Equal(t, http.StatusInternalServerError, recorded.Code) // by gin's own writer
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

func TestGin_Hijacks(t *testing.T) {
	hijack := func(c *gin.Context) {
		conn, buffer, err := c.Writer.Hijack()
		if err != nil {
			panic(err)
		}
		defer conn.Close()
		buffer.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nhello")
		buffer.Flush()
	}
	w := newWitness(t)
	conn := dial(t, serveHTTP(t, newGinSite(w.limiter, hijack)), "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
	require.Equal(t, http.StatusSwitchingProtocols, conn.response().StatusCode)
	rest, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "hello", string(rest))
	require.Equal(t, "101", w.next(t))
}

func TestGin_LeavesResponseControllersWhatTheyCanDo(t *testing.T) {
	require.Equal(t, "200, 2 bytes", ginSite(func(c *gin.Context) {
		controller := http.NewResponseController(c.Writer)
		if err := errors.Join(controller.EnableFullDuplex(), controller.Flush()); err != nil {
			panic(err)
		}
		c.String(200, "hi")
	}).told(t, "GET", "/"))
}

// ByRoute keys requests by gin's route.
func TestGin_KeysByRoute(t *testing.T) {
	p := policy("routes", "", 1)
	p.Key = httplimit.FirstOf(httplimit.ByRoute(), httplimit.Everyone())
	c := newClient(t, mount{build: inGinWithUsers}, p)
	var statuses []int
	for _, path := range []string{"/users/1", "/users/2", "/login", "/absent", "/else"} {
		statuses = append(statuses, c.post(path, "right").StatusCode)
	}
	require.Equal(t, []int{200, 429, 200, 404, 429}, statuses)
}

func inGinWithUsers(_ *testing.T, limiter *httplimit.Limiter, served *atomic.Int64) http.Handler {
	e := newGin(served, ginlimit.Middleware(limiter))
	e.POST("/users/:id", func(c *gin.Context) { c.String(200, c.Param("id")) })
	return e
}
