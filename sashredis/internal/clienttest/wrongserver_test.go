package clienttest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/redistest"
	"github.com/seed-30da4c49/sash/sashredis"
)

// fakeServer starts a server that gives those answers to EVALSHA and to EVAL, and says OK to
// whatever else a client says. It returns its address.
func fakeServer(t *testing.T, evalsha, eval string) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	serve := func(c net.Conn) {
		defer c.Close()
		r := bufio.NewReader(c)
		line := func() string {
			text, _ := r.ReadString('\n')
			return strings.TrimSpace(text)
		}
		for {
			n, err := strconv.Atoi(strings.TrimPrefix(line(), "*"))
			if err != nil {
				return
			}
			args := make([]string, n)
			for i := range args {
				size, _ := strconv.Atoi(strings.TrimPrefix(line(), "$"))
				text := make([]byte, size+2)
				if _, err := io.ReadFull(r, text); err != nil {
					return
				}
				args[i] = string(text[:size])
			}
			answer := "+OK"
			switch strings.ToUpper(args[0]) {
			case "HELLO":
				answer = "-ERR unknown command 'HELLO'"
			case "PING":
				answer = "+PONG"
			case "EVALSHA":
				answer = evalsha
			case "EVAL":
				answer = eval
			}
			fmt.Fprintf(c, "%s\r\n", answer)
		}
	}
	wg.Go(func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serve(c) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		wg.Wait() // clients close their connections before
	})
	return listener.Addr().String()
}

// refuses checks that each call on conn ends at once, without an answer of a store, and with an
// error that has all texts.
func refuses(t *testing.T, conn sashredis.Conn, texts ...string) {
	t.Helper()
	// The time-out is longer than the test waits. The breaker opens in between.
	l, err := sashredis.New(conn, nil, limitsOf(false), sashredis.WithFallback(sashredis.FallbackDeny),
		sashredis.WithTimeout(time.Hour), sashredis.WithBreaker(4, time.Hour))
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), slack)
	defer cancel()
	for range 2 {
		check := func(err error) {
			t.Helper()
			for _, text := range texts {
				require.ErrorContains(t, err, text)
			}
			require.NotErrorIs(t, err, context.DeadlineExceeded)
		}
		for key := range stormLimits {
			d := l.Take(ctx, key, 1)
			assert.False(t, d.Allowed)
			check(d.Err)
		}
		d := l.TakeAll(ctx, []string{"log", "counter"}, 1)
		assert.False(t, d.Allowed)
		check(d.Err)
		_, d = l.Reserve(ctx, "bucket", 1)
		assert.False(t, d.Allowed)
		check(d.Err)
		check(l.Reset(ctx, "bucket"))
	}
}

// A server that is none, too old, or not ready for scripts gives an error at once that says what
// to do, also when the breaker is open.
func TestServer_MayBeWrong(t *testing.T) {
	const noscript = "-NOSCRIPT No matching script. Please use EVAL."
	for name, c := range map[string]struct{ evalsha, eval, want string }{
		"without scripts": {"-ERR unknown command 'EVALSHA', with args beginning with: ", "", "must be Redis 6.2, Valkey 7.2 or newer"},
		"Redis 6.0": {noscript, "-ERR Error running script (call to f_6be71cce3a7b63590fffd9aff72cd56f9f5924f6): @user_script:12: @user_script: 12: ERR syntax error",
			"must be Redis 6.2, Valkey 7.2 or newer"},
		"Redis 4":      {noscript, "-ERR Error running script: @user_script:12: Write commands not allowed after non deterministic commands", "must be Redis 6.2"},
		"a Sentinel":   {"-ERR unknown command 'EVALSHA'", "", "must be Redis 6.2"},
		"loading":      {"-LOADING Redis is loading the dataset in memory", "", "LOADING"},
		"a proxy":      {"+OK", "+OK", "unexpected answer of the server"},
		"of a cluster": {"-MOVED 3300 127.0.0.1:7001", "", "client of the cluster"},
		"no memory":    {"-OOM command not allowed when used memory > 'maxmemory'.", "", "maxmemory"},
		"a replica":    {"-READONLY You can't write against a read only replica.", "", "connect the client to the primary"},
		"no password":  {"-NOAUTH Authentication required.", "", "password"},
		"no right":     {"-NOPERM this user has no permissions to run the 'evalsha' command", "", "permission"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, a := range adapters {
				addr := fakeServer(t, c.evalsha, c.eval)
				conn, closeClient := a.single(t, dialer("tcp", addr))
				t.Cleanup(closeClient)
				refuses(t, conn, c.want)
			}
		})
	}
}

// A server of another protocol is an error of the client, at the latest when it is used.
func TestServer_MaySpeakHTTP(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	conn, closeClient := adapters[0].single(t, dialer("tcp", server.Listener.Addr().String()))
	defer closeClient()
	refuses(t, conn, "HTTP")
}

// Real servers refuse, too, and charge nothing.
func TestServer_MayRefuse(t *testing.T) {
	leaveNothing(t)
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			server := redistest.Start(t, "--maxmemory-policy", "noeviction")
			conn, closeClient := a.single(t, dialer(server.Network(), server.Addr()))
			defer closeClient()
			size := func() any { return server.Command("DBSIZE") }

			server.Command("CONFIG", "SET", "maxmemory", "1")
			refuses(t, conn, "OOM", "maxmemory")
			server.Command("CONFIG", "SET", "maxmemory", "0")
			assert.Equal(t, int64(0), size())

			server.Command("ACL", "SETUSER", "default", "resetkeys", "~other:*")
			refuses(t, conn, "NOPERM", "permission")
			server.Command("ACL", "SETUSER", "default", "~*", "-evalsha")
			refuses(t, conn, "NOPERM", "permission")
			server.Command("ACL", "SETUSER", "default", "+@all", "-set", "-zadd")
			refuses(t, conn, "permission")
			server.Command("ACL", "SETUSER", "default", "+@all")
			assert.Equal(t, int64(0), size())

			server.Command("CONFIG", "SET", "min-replicas-to-write", "1")
			refuses(t, conn, "NOREPLICAS")
			server.Command("CONFIG", "SET", "min-replicas-to-write", "0")
			assert.Equal(t, int64(0), size())

			server.Command("REPLICAOF", "127.0.0.1", "1")
			server.Command("CONFIG", "SET", "replica-serve-stale-data", "yes")
			refuses(t, conn, "READONLY", "primary")
			server.Command("REPLICAOF", "NO", "ONE")
			assert.Equal(t, int64(0), size())

			l, err := sashredis.New(conn, nil, limitsOf(false), sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(ample))
			require.NoError(t, err)
			assert.True(t, l.Take(context.Background(), "log", 1).Allowed)
		})
	}
}

// A cluster refuses keys in several slots at once: they are denied, whatever the fallback is, and
// nothing is charged. With WithHashTag, keys share a slot.
func TestTakeAll_OnACluster(t *testing.T) {
	nodes := redistest.StartCluster(t)
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			conn, closeClient := a.cluster(t, nodes[0].Addr())
			defer closeClient()
			ctx := context.Background()
			limiter := func(options ...sashredis.Option) *sashredis.Limiter {
				l, err := sashredis.New(conn, []sash.Limit{sash.PerHour(100)}, append(options, sashredis.WithPrefix(a.name),
					sashredis.WithFallback(sashredis.FallbackAdmit), sashredis.WithTimeout(ample))...)
				require.NoError(t, err)
				return l
			}
			// On one node, and on several.
			for _, keys := range [][]string{{"a", "b"}, {"a", "b", "c", "d", "e", "f"}, {"user 1", "user 2"}} {
				l := limiter()
				for range 10 {
					d := l.TakeAll(ctx, keys, 1)
					assert.False(t, d.Allowed)
					assert.Equal(t, sash.Never, d.RetryAfter)
					assert.ErrorContains(t, d.Err, "CROSSSLOT")
					assert.ErrorContains(t, d.Err, "WithHashTag")
					assert.ErrorIs(t, d.Err, sashredis.ErrServer)
				}
				for _, key := range keys {
					assert.Equal(t, int64(100), l.Peek(ctx, key, 0).Remaining, "%q", key)
				}
			}
			l := limiter(sashredis.WithHashTag(func(key string) string { return key[:1] }))
			for n := range int64(5) {
				for _, group := range []string{"a", "b", "c"} {
					d := l.TakeAll(ctx, []string{group + "1", group + "2", group}, 1)
					require.NoError(t, d.Err)
					assert.True(t, d.Allowed)
					assert.Equal(t, 99-n, d.Remaining)
				}
			}
			assert.False(t, l.TakeAll(ctx, []string{"a1", "b1"}, 1).Allowed)
			assert.Equal(t, int64(95), l.Peek(ctx, "a1", 0).Remaining)
		})
	}
}
