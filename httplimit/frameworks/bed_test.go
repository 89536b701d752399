package frameworks_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gofiber/fiber/v3"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// A bed is a site in memory, behind a limiter whose clock the test moves.
type bed struct {
	*testing.T
	limiter *httplimit.Limiter
	clock   *sash.ManualClock
	send    func(*http.Request) *http.Response
}

// A reply is what a client is sent.
type reply struct {
	status int
	body   string
	header http.Header
}

// newBed mounts a limiter with those options by mount, which returns an http.Handler or a *fiber.App.
func newBed(t *testing.T, mount func(*httplimit.Limiter) any, options ...httplimit.Option) *bed {
	clock := sash.NewManualClock(0)
	b := newStoreBed(t, mount, append(options, httplimit.WithClock(clock), httplimit.WithSweepInterval(-1))...)
	b.clock = clock
	return b
}

// newStoreBed is newBed for a limiter with a store, which has no clock.
func newStoreBed(t *testing.T, mount func(*httplimit.Limiter) any, options ...httplimit.Option) *bed {
	limiter, err := httplimit.New(append(options, httplimit.WithPathFolding())...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, limiter.Close()) })
	return &bed{T: t, limiter: limiter, send: sender(t, mount(limiter))}
}

// sender returns a function that sends a request to a site in memory.
func sender(t *testing.T, site any) func(*http.Request) *http.Response {
	if app, ok := site.(*fiber.App); ok {
		return func(r *http.Request) *http.Response {
			response, err := app.Test(r, fiber.TestConfig{Timeout: time.Minute})
			require.NoError(t, err)
			return response
		}
	}
	return func(r *http.Request) *http.Response {
		w := httptest.NewRecorder()
		site.(http.Handler).ServeHTTP(w, r)
		return w.Result()
	}
}

// get sends a GET with these names and values of headers.
func (b *bed) get(path string, headers ...string) reply {
	r := httptest.NewRequest("GET", path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	response := b.send(r)
	body, err := io.ReadAll(response.Body)
	require.NoError(b, err)
	return reply{response.StatusCode, string(body), response.Header}
}

// gets sends a GET for each path, and returns the statuses.
func (b *bed) gets(paths ...string) (statuses []int) {
	for _, path := range paths {
		statuses = append(statuses, b.get(path).status)
	}
	return statuses
}

// times sends n requests for /, and returns how many had each status.
func (b *bed) times(n int) map[int]int {
	counts := map[int]int{}
	for range n {
		counts[b.get("/").status]++
	}
	return counts
}

// together is times of requests that are sent at the same time.
func (b *bed) together(n int) map[int]int {
	statuses := make(chan int)
	for range n {
		go func() { statuses <- b.get("/").status }()
	}
	counts := map[int]int{}
	for range n {
		counts[<-statuses]++
	}
	return counts
}

// limits returns a policy with these limits for all requests, which are one client's unless key says otherwise.
func limits(key httplimit.KeyFunc, limits ...sash.Limit) httplimit.Policy {
	if key == nil {
		key = httplimit.Everyone()
	}
	return httplimit.Policy{Name: "all", Limits: limits, Key: key}
}

// A testStore admits all, or fails. It notes the context of each call.
type testStore struct {
	fault       error // why it denies all calls; nil: it admits them
	commitFault error // why it settles none
	calls       []context.Context
}

// option has a limiter use s.
func (s *testStore) option() httplimit.Option {
	return httplimit.WithStore(func(httplimit.StoreKeys) (httplimit.Store, error) { return s, nil })
}

func (s *testStore) Take(ctx context.Context, keys []string, _ int64, _ []int64) httplimit.StoreDecision {
	s.calls = append(s.calls, ctx)
	one := sash.Decision{Allowed: s.fault == nil, Limit: sash.PerHour(1)}
	if s.fault != nil {
		one.RetryAfter, one.Limit = time.Second, sash.Unlimited()
	}
	d := httplimit.StoreDecision{Decision: one, By: "store", Err: s.fault}
	for range keys {
		d.Keys = append(d.Keys, httplimit.KeyDecision{Decision: one, Next: one, Commit: func(context.Context, int64) error { return s.commitFault }})
	}
	return d
}

func (s *testStore) Peek(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	return s.Take(ctx, keys, n, leave)
}

func (s *testStore) Reserve(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	return s.Take(ctx, keys, n, leave)
}

func (s *testStore) Wait(context.Context, string, int64) error { return s.fault }

func (s *testStore) Close() error { return nil }
