package frameworks_test

import (
	"bytes"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"
	echo4 "github.com/labstack/echo/v4"
	"github.com/labstack/echo/v5"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/echo4limit"
	"github.com/seed-30da4c49/sash/httplimit/echolimit"
	"github.com/seed-30da4c49/sash/httplimit/ginlimit"
)

// A formSite is a site whose handler answers with the password in the form of a request.
type formSite struct {
	mount func(*httplimit.Limiter) http.Handler
	key   httplimit.KeyFunc // the account in the form, as the framework reads it
	body  httplimit.KeyFunc // all of the body, which it puts back, as the framework's context has it
}

// peek reads the body of r, and puts it back.
func peek(r *http.Request) (string, bool) {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	return "all", err == nil
}

// field returns a field of the form of r as value reads it. The files of the form are on the disk.
func field(r *http.Request, value func(string) string, name string) string {
	_ = r.ParseMultipartForm(1) // other forms are read, too
	return value(name)
}

var formSites = map[string]formSite{
	"net/http": {
		mount: func(l *httplimit.Limiter) http.Handler {
			return l.Middleware(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, field(r, r.PostFormValue, "password"))
			}))
		},
		key:  byAccount,
		body: httplimit.By(peek),
	},
	"gin": {
		mount: func(l *httplimit.Limiter) http.Handler {
			gin.SetMode(gin.ReleaseMode)
			e := gin.New()
			e.POST("/", ginlimit.Middleware(l), func(c *gin.Context) { c.String(200, field(c.Request, c.PostForm, "password")) })
			return e
		},
		key:  ginlimit.By(func(c *gin.Context) (string, bool) { return field(c.Request, c.PostForm, "account"), true }),
		body: ginlimit.By(func(c *gin.Context) (string, bool) { return peek(c.Request) }),
	},
	"echo": {
		mount: func(l *httplimit.Limiter) http.Handler {
			e := echo.New()
			e.POST("/", func(c *echo.Context) error {
				return c.String(200, field(c.Request(), c.FormValue, "password"))
			}, echolimit.Middleware(l))
			return e
		},
		key:  echolimit.By(func(c *echo.Context) (string, bool) { return field(c.Request(), c.FormValue, "account"), true }),
		body: echolimit.By(func(c *echo.Context) (string, bool) { return peek(c.Request()) }),
	},
	"echo4": {
		mount: func(l *httplimit.Limiter) http.Handler {
			e := echo4.New()
			e.POST("/", func(c echo4.Context) error {
				return c.String(200, field(c.Request(), c.FormValue, "password"))
			}, echo4limit.Middleware(l))
			return e
		},
		key:  echo4limit.By(func(c echo4.Context) (string, bool) { return field(c.Request(), c.FormValue, "account"), true }),
		body: echo4limit.By(func(c echo4.Context) (string, bool) { return peek(c.Request()) }),
	},
}

// byAccount is the account in the form, as net/http reads it.
var byAccount = httplimit.By(func(r *http.Request) (string, bool) { return field(r, r.PostFormValue, "account"), true })

// A body can be read only once. So handlers find the form that the function of a policy has read, or the body that it
// has put back, by the request or by the framework's context. Once the response is complete, the server deletes the files of the form.
func TestAdapters_PoliciesAndHandlersReadOneForm(t *testing.T) {
	for framework, site := range formSites {
		for by, key := range map[string]httplimit.KeyFunc{
			"request": byAccount, "context": site.key, "": httplimit.Everyone(), "body": httplimit.By(peek), "body by context": site.body,
		} {
			for charging, charge := range map[string]func(int) bool{"": nil, ", charged by status": func(int) bool { return true }} {
				for kind, post := range map[string]func(*testing.T, string) (int, string){"a form": postForm, "files": postFiles} {
					t.Run(framework+", key by "+by+charging+", "+kind, func(t *testing.T) {
						files := t.TempDir()
						t.Setenv("TMPDIR", files)
						p := limits(key, sash.PerHour(1))
						p.Charge = charge
						l, err := httplimit.New(p)
						require.NoError(t, err)
						defer l.Close()
						server := httptest.NewServer(site.mount(l))
						status, body := post(t, server.URL)
						require.Equal(t, 200, status)
						require.Equal(t, "right", body)
						status, _ = post(t, server.URL)
						require.Equal(t, 429, status)
						server.Close() // which waits until the files are deleted
						left, err := os.ReadDir(files)
						require.NoError(t, err)
						require.Empty(t, left)
					})
				}
			}
		}
	}
}

// credentials are the fields of a form.
var credentials = url.Values{"account": {"ann"}, "password": {"right"}}

func postForm(t *testing.T, to string) (status int, body string) {
	return post(t, to, "application/x-www-form-urlencoded", strings.NewReader(credentials.Encode()))
}

// postFiles posts the form with a file.
func postFiles(t *testing.T, to string) (status int, body string) {
	var text bytes.Buffer
	w := multipart.NewWriter(&text)
	for name := range credentials {
		require.NoError(t, w.WriteField(name, credentials.Get(name)))
	}
	file, err := w.CreateFormFile("photo", "photo.jpg")
	require.NoError(t, err)
	_, err = io.WriteString(file, "more than a byte")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return post(t, to, w.FormDataContentType(), &text)
}

func post(t *testing.T, to, contentType string, content io.Reader) (status int, body string) {
	response, err := http.Post(to, contentType, content)
	require.NoError(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response.StatusCode, string(text)
}
