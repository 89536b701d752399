package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/goredisconn"
	"github.com/seed-30da4c49/sash/sashredis/httpstore"
)

// A redisStore is a Redis in which the instances share their counts. Instances of a real fleet
// would each have a client of their own.
type redisStore struct {
	client   *redis.Client
	embedded *miniredis.Miniredis // nil: it is another process
	options  []sashredis.Option
}

// openRedis returns the Redis at an address such as 127.0.0.1:6379 or unix:/run/redis.sock. If the
// address is "embedded", it starts one in this process, which is for examples and tests.
func openRedis(ctx context.Context, addr string) (*redisStore, error) {
	s, network := &redisStore{options: []sashredis.Option{
		sashredis.WithPrefix("sash-example:"),
		// While Redis is away, each of the two instances admits half of each limit.
		sashredis.WithFallback(sashredis.FallbackLocal(1, 2)),
	}}, "tcp"
	if addr == "embedded" {
		var err error
		if s.embedded, err = miniredis.Run(); err != nil {
			return nil, err
		}
		addr = s.embedded.Addr()
	}
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		network, addr = "unix", path
	}
	s.client = redis.NewClient(&redis.Options{Network: network, Addr: addr, ContextTimeoutEnabled: true})
	if err := s.client.Ping(ctx).Err(); err != nil {
		s.Close()
		return nil, fmt.Errorf("no Redis at %q: %w", addr, err)
	}
	return s, nil
}

// open is for httplimit.WithStore. Each instance has a store of its own on the same client.
func (s *redisStore) open(keys httplimit.StoreKeys) (httplimit.Store, error) {
	return httpstore.New(goredisconn.New(s.client), s.options...)(keys)
}

func (s *redisStore) Close() error {
	err := s.client.Close()
	if s.embedded != nil {
		s.embedded.Close()
	}
	return err
}

// fromPagesOf lets the pages of those origins read what next answers: the page of one instance
// sends requests to the others, too, which are other origins to a browser (CORS). It goes around
// the limiter, so that preflights are not counted, and denials can be read.
func fromPagesOf(origins []string, next http.Handler) http.Handler {
	if len(origins) < 2 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Add("Vary", "Origin")
		origin := r.Header.Get("Origin")
		if !slices.Contains(origins, origin) {
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Origin", origin)
		if r.Method == http.MethodOptions && r.Header.Get("Access-Control-Request-Method") != "" {
			h.Set("Access-Control-Allow-Headers", "X-API-Key")
			h.Set("Access-Control-Max-Age", "600") // seconds
			w.WriteHeader(http.StatusNoContent)
			return
		}
		h.Set("Access-Control-Expose-Headers", "RateLimit, RateLimit-Policy, Retry-After")
		next.ServeHTTP(w, r)
	})
}
