package frameworks_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/echo4limit"
	"github.com/seed-30da4c49/sash/httplimit/echolimit"
	"github.com/seed-30da4c49/sash/httplimit/fiberlimit"
	"github.com/seed-30da4c49/sash/httplimit/ginlimit"
)

// answer is all of a response that does not depend on the time, or on the server's own headers.
func (c *client) answer(method, path string) string {
	r, err := http.NewRequest(method, c.url+path, nil)
	require.NoError(c, err)
	response, err := c.Do(r)
	require.NoError(c, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(c, errors.Join(err, response.Body.Close()))
	for _, own := range []string{"Date", "Server", "Connection", "Vary"} {
		response.Header.Del(own)
	}
	return fmt.Sprintln(response.StatusCode, response.ContentLength, response.Header, string(body))
}

// A client cannot tell the frameworks apart by how it is refused.
func TestFrameworks_RefuseAlike(t *testing.T) {
	nobody := policy("nobody", "PUT /", 1)
	nobody.Key = func(key []byte, _ *http.Request) ([]byte, bool) { return key, false }
	panics := policy("panics", "DELETE /", 1)
	panics.Key = func([]byte, *http.Request) ([]byte, bool) { panic("oh") }
	refusals := func(m mount) (all []string) {
		c := newClient(t, m, policy("a", "", 0), policy("b", "GET /login", 0), nobody, panics, httplimit.WithXRateLimit())
		for _, method := range []string{"GET", "POST", "HEAD", "OPTIONS", "PUT", "DELETE"} {
			all = append(all, c.answer(method, "/login"))
		}
		return all
	}
	want := refusals(mounts["ServeMux, around"])
	for name, m := range mounts {
		if m.limitsUnmatched { // else those without a route are not refused
			t.Run(name, func(t *testing.T) { require.Equal(t, want, refusals(m)) })
		}
	}
}

// No spelling of a path, and no other method, reaches a handler past its policy.
func TestFrameworks_ServeNoSpellingPastThePolicy(t *testing.T) {
	targets := []string{
		"/login", "/LOGIN", "/Login", "/login/", "/login//", "//login", "/./login", "/x/../login", "/login/.",
		"/logi%6E", "/%6Cogin", "/login%2F", "/%2Flogin", "/%2e/login", "/login;x", "/login?x", "/login#x", "//h/login", "http://h/login", "http://H.:80/login",
	}
	for name, m := range mounts {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, m, policy("login", "POST /login", 1))
			require.Equal(t, []int{401}, c.logins(1, "wrong"))
			for _, target := range targets {
				require.NotEqual(t, http.StatusUnauthorized, c.postTo(target), target)
			}
			require.EqualValues(t, 1, c.served.Load())
		})
	}
}

// say is what a handler makes of its charge, by its path.
func say(path string, charge *httplimit.Charge) {
	switch path {
	case "/commit":
		charge.Commit(7)
	case "/add":
		charge.Add(4)
	case "/cancel":
		charge.Cancel()
	case "/keep":
		charge.Keep()
	}
}

// sayers are sites whose handlers say what they cost, and answer all requests by 500.
var sayers = map[string]site{
	"gin":   writers["gin"](nowhere, sayAndFail),
	"echo":  writers["echo"](nowhere, sayAndFail),
	"echo4": writers["echo4"](nowhere, sayAndFail),
	"fiber": func(t *testing.T, l *httplimit.Limiter) http.Handler {
		app := fiber.New()
		app.Use(fiberlimit.New(l))
		app.Get("/*", func(c fiber.Ctx) error {
			say(c.Path(), httplimit.ChargeOf(c.Context(), "tokens"))
			return io.EOF
		})
		return serveFiber(t, app)
	},
}

func sayAndFail(_ http.ResponseWriter, r *http.Request) error {
	say(r.URL.Path, httplimit.ChargeOf(r.Context(), "tokens"))
	return io.EOF
}

// What the handler says goes before what the policy says of the status.
func TestAdapters_LetTheHandlerSay(t *testing.T) {
	for name, s := range sayers {
		t.Run(name, func(t *testing.T) {
			p := tokens()
			p.Charge = func(status int) bool { return status < 500 }
			p.Cost = func(*http.Request) int64 { return 2 }
			c := newClient(t, s.mount(), p)
			spent := int64(0)
			for _, step := range []struct {
				path string
				cost int64
			}{{"/commit", 7}, {"/add", 4}, {"/cancel", 0}, {"/keep", 2}, {"/nothing", 0}} {
				response, err := c.Get(c.url + step.path)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				require.Equal(t, 500, response.StatusCode)
				require.Equal(t, fmt.Sprintf(`"tokens";r=%d`, 100-spent-2), strings.Split(response.Header.Get("RateLimit"), ";t=")[0], step.path)
				spent += step.cost
			}
		})
	}
}

// A request holds its slot until its handler has returned, whatever it returns.
func TestAdapters_HoldASlotUntilTheHandlerReturns(t *testing.T) {
	served, proceed := make(chan bool), make(chan error)
	wait := func(http.ResponseWriter, *http.Request) error {
		served <- true
		return <-proceed
	}
	for name, s := range map[string]site{
		"gin":   writers["gin"](nowhere, wait),
		"echo":  writers["echo"](nowhere, wait),
		"echo4": writers["echo4"](nowhere, wait),
		"fiber": fiberSite(func(fiber.Ctx) error { return wait(nil, nil) }),
	} {
		t.Run(name, func(t *testing.T) {
			p := policy("slots", "", 1)
			p.Limits = []sash.Limit{sash.AtOnce(1, time.Hour)}
			c := newClient(t, s.mount(), p)
			for _, end := range []error{nil, io.EOF, nil} {
				ended := make(chan bool)
				go func() {
					defer close(ended)
					if response, err := c.Get(c.url + "/"); err == nil {
						response.Body.Close()
					}
				}()
				<-served
				require.Equal(t, 429, c.status("GET /"))
				proceed <- end
				<-ended
			}
		})
	}
}

// The functions of a policy read the headers and the query of a request in every framework.
func TestAdapters_LetPoliciesReadTheRequest(t *testing.T) {
	for name, s := range sayers {
		t.Run(name, func(t *testing.T) {
			skips := policy("skips", "", 0)
			skips.Skip = func(r *http.Request) bool { return r.Header.Get("X-Skip") != "" && r.URL.Query().Get("q") == "1" }
			c := newClient(t, s.mount(), skips)
			r, err := http.NewRequest("GET", c.url+"/?q=1", nil)
			require.NoError(t, err)
			r.Header.Set("X-Skip", "yes")
			response, err := c.Do(r)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, 500, response.StatusCode)
			require.Empty(t, response.Header.Get("RateLimit"))
			response, err = c.Get(c.url + "/")
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			require.Equal(t, 429, response.StatusCode)
		})
	}
}

func TestAdapters_RefuseNoLimiter(t *testing.T) {
	for _, build := range []func(){
		func() { ginlimit.Middleware(nil) }, func() { echolimit.Middleware(nil) },
		func() { echo4limit.Middleware(nil) }, func() { fiberlimit.New(nil) },
	} {
		require.Panics(t, build)
	}
}

// Admitted requests and no more, whichever goroutines serve them.
func TestAdapters_AdmitExactlyTheLimit(t *testing.T) {
	for name, s := range sayers {
		t.Run(name, func(t *testing.T) {
			p := policy("all", "", 50)
			p.Charge = func(int) bool { return true }
			c := newClient(t, s.mount(), p)
			statuses := make(chan int, 200)
			for range 8 {
				go func() {
					for range 25 {
						response, err := c.Get(c.url + "/commit")
						if err != nil {
							statuses <- 0
							continue
						}
						_, _ = io.Copy(io.Discard, response.Body)
						response.Body.Close()
						statuses <- response.StatusCode
					}
				}()
			}
			counts := map[int]int{}
			for range cap(statuses) {
				counts[<-statuses]++
			}
			require.Equal(t, map[int]int{500: 50, 429: 150}, counts)
		})
	}
}
