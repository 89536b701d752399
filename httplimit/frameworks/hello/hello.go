// Package hello tests one service that is written for each framework: with sash in gin, echo, echo4 and fiber,
// which are the programs of the adapters' documents, and with the limiters that the users of the frameworks know
// in peers. Each account has 100 requests an hour, and 5 for reports.
package hello

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gofiber/fiber/v3"
	"github.com/stretchr/testify/require"
)

// A Service is a service in memory.
type Service func(*http.Request) (*http.Response, error)

// Serve returns the service of a framework on net/http.
func Serve(h http.Handler) Service {
	return func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Result(), nil
	}
}

// ServeFiber returns the service of an app of fiber.
func ServeFiber(app *fiber.App) Service {
	return func(r *http.Request) (*http.Response, error) { return app.Test(r, fiber.TestConfig{}) }
}

// CheckPeer checks what every service must answer.
func (s Service) CheckPeer(t *testing.T) {
	for range 5 {
		s.expect(t, "/api/reports", "a", "200 all is well")
	}
	s.expect(t, "/api/reports", "a", "429 {\"message\":\"slow down\"}")
	s.expect(t, "/api/hello", "a", "200 hello, a") // the route alone is limited to 5
	s.expect(t, "/api/reports", "b", "200 all is well")
	for range 100 {
		s.expect(t, "/api/hello", "c", "200 hello, c")
	}
	s.expect(t, "/api/hello", "c", "429 {\"message\":\"slow down\"}")
	s.expect(t, "/health", "c", "200 well")
}

// Check is CheckPeer of a service with sash: clients are also told of their quotas, and a report that is denied
// counts nowhere.
func (s Service) Check(t *testing.T) {
	s.CheckPeer(t)
	header := s.expect(t, "/api/reports", "a", "429 {\"message\":\"slow down\"}")
	require.NotEmpty(t, header.Get("Retry-After"))
	require.Equal(t, "no-store", header.Get("Cache-Control"))
	require.Contains(t, header.Get("RateLimit"), `"reports";r=0`)
	require.Contains(t, header.Get("RateLimit"), `"api";r=94`) // after 5 reports and a hello
}

// expect sends a GET of an account, and checks the status and the body of the response. It returns the header.
func (s Service) expect(t *testing.T, path, account, want string) http.Header {
	r := httptest.NewRequest("GET", path, nil)
	r.Header.Set("X-Account", account)
	response, err := s(r)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	if n := len(body); n > 0 && body[n-1] == '\n' { // echo ends JSON by a line break
		body = body[:n-1]
	}
	require.Equal(t, want, fmt.Sprint(response.StatusCode, " ", string(body)), path)
	return response.Header
}
