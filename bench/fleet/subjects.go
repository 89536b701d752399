package main

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/goredisconn"
	"github.com/seed-30da4c49/sash/sashredis/rueidisconn"
)

// A quota is a number of units in each window.
type quota struct {
	Count  int64
	Window time.Duration
}

// A client is a limiter of one process.
type client struct {
	// take charges one unit to key, and reports whether it was admitted. An error means
	// that the call was not decided.
	take func(key string) (bool, error)
	// stats returns what sashredis counts; nil: another limiter.
	stats func() sashredis.Stats
	close func() error
}

// A subject is a limiter with certain settings.
type subject struct {
	name string
	// state names what it keeps for a key in the store. Subjects with the same state share it.
	state string
	open  func(w *wire, q quota) (*client, error)
	// excess returns by how many units what was admitted surely breaks the limiter's own rule.
	excess func(all []admission, q quota) int64
	peer   bool // another project's limiter
	floor  bool // it decides nothing
}

// The clients of Redis.
const (
	viaRueidis = "rueidis"
	viaGoRedis = "go-redis"
)

// patience is the time-out of all clients. It is the default of go-redis.
const patience = 3 * time.Second

// errFallback is returned if the store did not decide.
var errFallback = errors.New("the store did not decide")

// goRedis returns a client of go-redis with its usual settings.
func goRedis(w *wire, options redis.Options) *redis.Client {
	options.Network, options.Addr = "unix", w.socket
	options.Dialer = func(ctx context.Context, _, _ string) (net.Conn, error) { return w.dial(ctx) }
	return redis.NewClient(&options)
}

// newRueidis returns a client of rueidis.
func newRueidis(w *wire) (rueidis.Client, error) {
	return rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{w.socket}, DisableCache: true, ForceSingleClient: true,
		DialCtxFn: func(ctx context.Context, _ string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return w.dial(ctx)
		},
	})
}

// connect returns a connection of sashredis, and what closes its client.
func connect(via string, w *wire) (sashredis.Conn, func() error, error) {
	if via == viaGoRedis {
		c := goRedis(w, redis.Options{ContextTimeoutEnabled: true})
		return goredisconn.New(c), c.Close, nil
	}
	c, err := newRueidis(w)
	if err != nil {
		return nil, nil, err
	}
	return rueidisconn.New(c), func() error { c.Close(); return nil }, nil
}

// Names of algorithms, in the names of subjects.
const (
	counter = "counter"
	log     = "log"
	bucket  = "token bucket"
)

// limit returns the limit of q under an algorithm.
func (q quota) limit(algorithm string) sash.Limit {
	l := sash.Limit{Count: q.Count, Window: q.Window}
	switch algorithm {
	case log:
		l.Algorithm = sash.SlidingLog
	case bucket:
		l.Algorithm, l.Burst = sash.TokenBucket, q.Count
	}
	return l
}

// ours returns sashredis with an algorithm and further options.
func ours(algorithm, via, with string, options ...sashredis.Option) subject {
	s := subject{name: "sash " + algorithm + with + ", " + via, state: "sash " + algorithm}
	s.excess = map[string]func([]admission, quota) int64{counter: excessOfCounter, log: excessOfLog, bucket: excessOfBucket}[algorithm]
	s.open = func(w *wire, q quota) (*client, error) {
		conn, end, err := connect(via, w)
		if err != nil {
			return nil, err
		}
		all := append([]sashredis.Option{sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(patience)}, options...)
		l, err := sashredis.New(conn, []sash.Limit{q.limit(algorithm)}, all...)
		if err != nil {
			return nil, errors.Join(err, end())
		}
		return &client{
			take: func(key string) (bool, error) {
				d := l.Take(context.Background(), key, 1)
				if d.By == sashredis.ByFallback || d.Err != nil {
					return false, errors.Join(errFallback, d.Err)
				}
				return d.Allowed, nil
			},
			stats: l.Stats,
			close: func() error { return errors.Join(l.Close(), end()) },
		}, nil
	}
	return s
}

// peer returns the subject of another project, whose client is made of one of go-redis.
func peer(name string, excess func([]admission, quota) int64, make func(c *redis.Client, q quota) (func(key string) (bool, error), error)) subject {
	return subject{name: name, state: name, excess: excess, peer: true, open: func(w *wire, q quota) (*client, error) {
		c := goRedis(w, redis.Options{})
		take, err := make(c, q)
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return &client{take: take, close: c.Close}, nil
	}}
}

// theirs returns the subjects of other projects.
func theirs() []subject {
	ctx := context.Background()
	return []subject{
		peer("redis_rate", excessOfBucket, func(c *redis.Client, q quota) (func(string) (bool, error), error) {
			l := redis_rate.NewLimiter(c)
			limit := redis_rate.Limit{Rate: int(q.Count), Burst: int(q.Count), Period: q.Window}
			return func(key string) (bool, error) {
				r, err := l.Allow(ctx, key, limit)
				return err == nil && r.Allowed > 0, err
			}, nil
		}),
		peer("throttled", excessOfBucket, func(c *redis.Client, q quota) (func(string) (bool, error), error) {
			store, err := goredisstore.NewCtx(c, "throttled:")
			if err != nil {
				return nil, err
			}
			l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
				MaxRate: throttled.PerDuration(int(q.Count), q.Window), MaxBurst: int(q.Count) - 1,
			})
			return func(key string) (bool, error) {
				limited, _, err := l.RateLimitCtx(ctx, key, 1)
				return err == nil && !limited, err
			}, err
		}),
		peer("ulule", excessOfFixed, func(c *redis.Client, q quota) (func(string) (bool, error), error) {
			store, err := ululeredis.NewStore(c)
			if err != nil {
				return nil, err
			}
			l := limiter.New(store, limiter.Rate{Period: q.Window, Limit: q.Count})
			return func(key string) (bool, error) {
				r, err := l.Get(ctx, key)
				return err == nil && !r.Reached, err
			}, nil
		}),
	}
}

// core returns package sash, which keeps its limits in this process.
func core() subject {
	return subject{name: "sash in-process", open: func(_ *wire, q quota) (*client, error) {
		l, err := sash.New(q.limit(counter))
		if err != nil {
			return nil, err
		}
		return &client{
			take:  func(key string) (bool, error) { return l.Take(key, 1).Allowed, nil },
			close: func() error { l.Close(); return nil },
		}, nil
	}}
}

// forHotKey returns the subjects on one key.
func forHotKey() []subject {
	return append([]subject{
		ours(counter, viaRueidis, ""),
		ours(counter, viaGoRedis, ""),
		leasing(),
		woken(),
		decided(),
	}, append(theirs(), floors()...)...)
}

// leasing returns sashredis with leases that suit a hot key.
func leasing() subject {
	return ours(counter, viaRueidis, " leased", sashredis.WithLease(1<<20, time.Second))
}

// forManyKeys returns the subjects on many keys.
func forManyKeys() (all []subject) {
	for _, via := range []string{viaRueidis, viaGoRedis} {
		for _, algorithm := range []string{counter, log, bucket} {
			all = append(all, ours(algorithm, via, ""))
		}
	}
	all = append(all, ours(counter, viaRueidis, " without mirror", sashredis.WithMirror(0)))
	return append(all, append(theirs(), floors()...)...)
}

// forFlood returns the subjects on denied keys.
func forFlood() []subject {
	return append([]subject{
		ours(counter, viaRueidis, ""),
		ours(log, viaRueidis, ""),
		ours(bucket, viaRueidis, ""),
		ours(counter, viaGoRedis, ""),
		ours(counter, viaRueidis, " without mirror", sashredis.WithMirror(0)),
		counted(),
	}, theirs()...)
}

// forFleet returns the subjects in several processes.
func forFleet() []subject {
	return append([]subject{
		ours(counter, viaRueidis, ""),
		ours(log, viaRueidis, ""),
		ours(bucket, viaRueidis, ""),
		ours(counter, viaRueidis, " leased", sashredis.WithLease(100, 50*time.Millisecond)),
		ours(bucket, viaRueidis, " leased", sashredis.WithLease(100, 50*time.Millisecond)),
	}, theirs()...)
}

// named returns the subject of all with that name.
func named(all []subject, name string) (subject, bool) {
	i := slices.IndexFunc(all, func(s subject) bool { return s.name == name })
	if i < 0 {
		return subject{}, false
	}
	return all[i], true
}

// versions returns the versions of the peers and of the clients.
func versions() (notes []string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, path := range []string{
		"github.com/go-redis/redis_rate/v10", "github.com/throttled/throttled/v2", "github.com/ulule/limiter/v3",
		"github.com/redis/go-redis/v9", "github.com/redis/rueidis",
	} {
		for _, m := range info.Deps {
			if m.Path == path {
				notes = append(notes, path+" "+m.Version)
			}
		}
	}
	return notes
}
