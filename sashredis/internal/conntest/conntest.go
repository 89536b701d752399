// Package conntest tests implementations of sashredis.Conn.
package conntest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/redistest"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/internal/bridge"
)

// A Dial returns a Conn to the server at addr, with a client that waits for [Patience] and whose
// other options are mostly the defaults, and a function that closes the client.
type Dial func(t testing.TB, addr string) (conn sashredis.Conn, closeClient func())

// Patience is for how long clients wait for a server.
const Patience = time.Minute

// soon is by when a call must have ended that is to end at once, also on a machine under load. It is
// less than Patience, so a call that ends only with its client is found out.
const soon = 20 * time.Second

// The scripts of the tests. All of them but fail reply with text.
var (
	incr = script("return tostring(redis.call('INCR', KEYS[1]))")
	echo = script("return table.concat({#KEYS, #ARGV, KEYS[1] or '', ARGV[1] or '', ARGV[#ARGV] or ''}, '|')")
	push = script("return tostring(redis.call('LPUSH', KEYS[1], 'x'))")
	set  = script("redis.call('SET', KEYS[1], ARGV[1]) return ARGV[1]")
	move = script("redis.call('SET', KEYS[1], '') redis.call('SET', KEYS[2], '') return ''")
	fail = script("return redis.error_reply('SASH of this ' .. ARGV[1])")
)

// script returns a script that no other test has.
func script(text string) *sashredis.Script {
	return bridge.Of[sashredis.Limiter, sashredis.Option, sashredis.Script]().Script(text + fmt.Sprint(" -- ", rand.Uint64()))
}

// connect returns a Conn whose client is closed at the end of the test.
func connect(t testing.TB, dial Dial, addr string) sashredis.Conn {
	t.Helper()
	conn, closeClient := dial(t, addr)
	t.Cleanup(closeClient)
	return conn
}

// Replies tests the answers of a server, which may be one that is not a real one.
func Replies(t *testing.T, dial Dial, addr string) {
	conn := connect(t, dial, addr)
	ctx := t.Context()
	run := func(s *sashredis.Script, keys, args []string) string {
		t.Helper()
		reply, err := conn.Run(ctx, s, keys, args)
		require.NoError(t, err)
		return reply
	}

	assert.Equal(t, "1|2|{k}|a|\r\nb", run(echo, []string{"{k}"}, []string{"a", "\r\nb"}))
	assert.Equal(t, "2|1|{k}|a|a", run(echo, []string{"{k}", "{k}2"}, []string{"a"}))
	assert.Equal(t, "1|0|k||", run(echo, []string{"k"}, nil))
	assert.Equal(t, "0|1||a|a", run(echo, nil, []string{"a"}))
	assert.Equal(t, "0|0|||", run(echo, nil, nil))
	assert.Equal(t, "1|1|k||", run(echo, []string{"k"}, []string{""}))
	assert.Empty(t, run(set, []string{"k"}, []string{""}))
	long := strings.Repeat("\x00\xff", 1<<16)
	assert.Equal(t, long, run(set, []string{"k"}, []string{long}))
	many := make([]string, 1000)
	for i := range many {
		many[i] = strconv.Itoa(i)
	}
	assert.Equal(t, "1|1000|k|0|999", run(echo, []string{"k"}, many))

	_, err := conn.Run(ctx, push, []string{"k"}, nil)
	assert.ErrorContains(t, err, "WRONGTYPE")
	_, err = conn.Run(ctx, fail, []string{"k"}, []string{"test"})
	assert.ErrorContains(t, err, "SASH of this test")
	deadline, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	_, err = conn.Run(deadline, fail, []string{"k"}, []string{"test"})
	assert.ErrorContains(t, err, "SASH of this test")
	assert.NotErrorIs(t, err, context.DeadlineExceeded)
	assert.NotErrorIs(t, err, context.Canceled)
}

// Single tests a Conn to one server.
func Single(t *testing.T, dial Dial) {
	start := func(t testing.TB) *redistest.Server { return redistest.Start(t) }
	single(t, dial, start)
	t.Run("ServesAgainAfterARestart", func(t *testing.T) { restart(t, dial) })
	t.Run("AReplicaRefuses", func(t *testing.T) { replica(t, dial) })
}

// SingleNode tests a Conn to a cluster that is one server. Dial must return a client of a cluster
// that dials addr, whatever the addresses are that the cluster tells.
func SingleNode(t *testing.T, dial Dial) {
	// It serves 2 s after it has all slots, so there is one for all tests.
	s := redistest.StartTCP(t, "--cluster-enabled", "yes", "--cluster-config-file", "nodes")
	add := []string{"CLUSTER", "ADDSLOTS"}
	for slot := range 16384 {
		add = append(add, strconv.Itoa(slot))
	}
	s.Command(add...)
	s.Until("it serves", func(ctx context.Context) bool {
		_, err := s.Do(ctx, "GET", "k")
		return err == nil
	})
	single(t, dial, func(testing.TB) *redistest.Server {
		s.Command("FLUSHALL")
		s.Command("SCRIPT", "FLUSH")
		return s
	})
}

// single has the tests that need one server, which start returns as if it was new.
func single(t *testing.T, dial Dial, start func(testing.TB) *redistest.Server) {
	t.Run("Replies", func(t *testing.T) { Replies(t, dial, start(t).Addr()) })
	t.Run("UnknownScriptCostsOneMoreRoundTripAndRunsOnce", func(t *testing.T) { unknownScript(t, dial, start) })
	t.Run("ADoneContextSendsNothing", func(t *testing.T) { done(t, dial, start) })
	t.Run("CutConnectionsRunNothingTwice", func(t *testing.T) { cut(t, dial, start) })
	t.Run("AnswersThatMayPassAreNotAwaited", func(t *testing.T) { busy(t, dial, start) })
	t.Run("ManyAtOnce", func(t *testing.T) { many(t, dial, start) })
	t.Run("CallsEndWithTheirContextsWhileAServerIsPaused", func(t *testing.T) { paused(t, dial, start) })
	t.Run("CallsEndWithTheirContextsWhileAConnectionIsSilent", func(t *testing.T) { silent(t, dial, start) })
	t.Run("NothingIsLeftOnceTheClientIsClosed", func(t *testing.T) { closed(t, dial, start) })
}

// scripts returns how many times the proxy was asked to run a script while f ran. It disturbs
// each of them.
func scripts(p *redistest.Proxy, fault redistest.Fault, f func()) int {
	var n atomic.Int64
	p.OnRequest(func(args []string) redistest.Fault {
		if !isScript(args) {
			return redistest.Forward
		}
		n.Add(1)
		return fault
	})
	f()
	p.OnRequest(nil)
	return int(n.Load())
}

func isScript(args []string) bool {
	return strings.EqualFold(args[0], "EVALSHA") || strings.EqualFold(args[0], "EVAL")
}

func unknownScript(t *testing.T, dial Dial, start func(testing.TB) *redistest.Server) {
	s := start(t)
	p := redistest.StartProxy(t, s.Addr())
	conn := connect(t, dial, p.Addr())
	run := func() {
		_, err := conn.Run(t.Context(), incr, []string{"k"}, nil)
		require.NoError(t, err)
	}
	assert.Equal(t, 2, scripts(p, redistest.Forward, run))
	assert.Equal(t, 1, scripts(p, redistest.Forward, run))
	s.Command("SCRIPT", "FLUSH")
	assert.Equal(t, 2, scripts(p, redistest.Forward, run))
	assert.Equal(t, 1, scripts(p, redistest.Forward, run))
	assert.Equal(t, "4", s.Command("GET", "k"))
}

func done(t *testing.T, dial Dial, start func(testing.TB) *redistest.Server) {
	s := start(t)
	p := redistest.StartProxy(t, s.Addr())
	conn := connect(t, dial, p.Addr())
	_, err := conn.Run(t.Context(), incr, []string{"k"}, nil)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Zero(t, scripts(p, redistest.Forward, func() {
		_, err := conn.Run(ctx, incr, []string{"k"}, nil)
		assert.ErrorIs(t, err, context.Canceled)
	}))
	assert.Equal(t, "1", s.Command("GET", "k"))
}

// cut tests connections that break before the server has a call and after it has one.
func cut(t *testing.T, dial Dial, start func(testing.TB) *redistest.Server) {
	for _, known := range []bool{false, true} {
		for _, cancellable := range []bool{false, true} {
			for fault, charged := range map[redistest.Fault]any{redistest.CutBefore: nil, redistest.CutAfter: "1"} {
				s := start(t)
				p := redistest.StartProxy(t, s.Addr())
				conn := connect(t, dial, p.Addr())
				_, err := conn.Run(t.Context(), echo, nil, nil)
				require.NoError(t, err)
				fresh := func() context.Context {
					if !cancellable {
						return context.Background()
					}
					ctx, cancel := context.WithTimeout(context.Background(), soon)
					t.Cleanup(cancel)
					return ctx
				}
				if known {
					s.Command("SCRIPT", "LOAD", incr.Text())
				}
				var n atomic.Int64
				p.OnRequest(func(args []string) redistest.Fault {
					if known && isScript(args) || strings.EqualFold(args[0], "EVAL") {
						if n.Add(1) <= 3 { // so that a client which repeats the call is found out
							return fault
						}
					}
					return redistest.Forward
				})
				_, err = conn.Run(fresh(), incr, []string{"k"}, nil)
				assert.Error(t, err)
				assert.Equal(t, charged, s.Command("GET", "k"))
				p.OnRequest(nil)
				assert.Equal(t, int64(1), n.Load())

				// It goes on with a new connection.
				ctx := fresh()
				require.EventuallyWithT(t, func(t *assert.CollectT) {
					reply, err := conn.Run(ctx, echo, nil, nil)
					assert.NoError(t, err)
					assert.Equal(t, "0|0|||", reply)
				}, soon, time.Millisecond)
				assert.Equal(t, charged, s.Command("GET", "k"))
			}
		}
	}
}

// busy tests answers after which clients repeat other commands.
func busy(t *testing.T, dial Dial, start func(testing.TB) *redistest.Server) {
	s := start(t)
	p := redistest.StartProxy(t, s.Addr())
	conn := connect(t, dial, p.Addr())
	for _, answer := range []string{
		"LOADING Redis is loading the dataset in memory", "TRYAGAIN Multiple keys", "CLUSTERDOWN The cluster is down",
		"MASTERDOWN Link with MASTER is down", "BUSY Redis is busy running a script", "OOM command not allowed",
		"NOREPLICAS Not enough good replicas to write.", "max number of clients reached",
	} {
		// A script that has charged before it fails.
		failed := script("redis.call('INCR', KEYS[1]) return redis.error_reply(ARGV[1])")
		s.Command("SCRIPT", "LOAD", failed.Text())
		s.Command("DEL", "k")
		assert.Equal(t, 1, scripts(p, redistest.Forward, func() {
			_, err := conn.Run(t.Context(), failed, []string{"k"}, []string{answer})
			assert.ErrorContains(t, err, answer)
		}), answer)
		assert.Equal(t, "1", s.Command("GET", "k"))
	}
}

func replica(t *testing.T, dial Dial) {
	_, s := redistest.StartReplicated(t)
	conn := connect(t, dial, s.Addr())
	_, err := conn.Run(t.Context(), incr, []string{"k"}, nil)
	assert.ErrorContains(t, err, "READONLY")
}

func many(t *testing.T, dial Dial, start func(testing.TB) *redistest.Server) {
	s := start(t)
	conn := connect(t, dial, s.Addr())
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for j := range 20 {
				own := fmt.Sprint(i, "/", j)
				reply, err := conn.Run(ctx, set, []string{"k" + own}, []string{own})
				assert.NoError(t, err)
				assert.Equal(t, own, reply)
				_, err = conn.Run(ctx, incr, []string{"k"}, nil)
				assert.NoError(t, err)
			}
		})
	}
	wg.Wait()
	assert.Equal(t, "1000", s.Command("GET", "k"))
}

// inTime checks that f ends with its context, whichever way that ends: at a deadline, and before
// one or without one.
func inTime(t *testing.T, f func(context.Context) error) {
	t.Helper()
	const early = 50 * time.Millisecond
	check := func(ctx context.Context, want error) {
		t.Helper()
		begin := time.Now()
		err := f(ctx)
		for ctx.Err() == nil && !errors.Is(err, want) { // such as a connection that is lost
			require.Error(t, err)
			err = f(ctx)
		}
		assert.ErrorIs(t, err, want)
		assert.Less(t, time.Since(begin), soon)
	}
	ctx, cancel := context.WithTimeout(context.Background(), early)
	defer cancel()
	check(ctx, context.DeadlineExceeded)
	ctx, cancel = context.WithTimeout(context.Background(), time.Hour)
	time.AfterFunc(early, cancel)
	check(ctx, context.Canceled)
	ctx, cancel = context.WithCancel(context.Background())
	time.AfterFunc(early, cancel)
	check(ctx, context.Canceled)
}

func paused(t *testing.T, dial Dial, start func(testing.TB) *redistest.Server) {
	s := start(t)
	conn := connect(t, dial, s.Addr())
	run := func(ctx context.Context) error {
		_, err := conn.Run(ctx, incr, []string{"k"}, nil)
		return err
	}
	require.NoError(t, run(t.Context()))
	s.Pause()
	inTime(t, run) // on the open connection
	inTime(t, run) // on new ones
	// More calls than clients have connections, or room in their buffers.
	begin := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var wg sync.WaitGroup
	for range 3000 {
		wg.Go(func() { assert.Error(t, run(ctx)) }) // some fail with the connection of others
	}
	wg.Wait()
	assert.Less(t, time.Since(begin), soon)
	s.Resume()

	// All goroutines that were left behind end, and no call comes a second time.
	none(t, "await.Do")
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		assert.NoError(t, run(context.Background()))
	}, soon, time.Millisecond)
	before, _ := strconv.Atoi(s.Command("GET", "k").(string))
	assert.LessOrEqual(t, before, 1+6+3000+int(soon/time.Millisecond))
	require.NoError(t, run(t.Context()))
	after, _ := strconv.Atoi(s.Command("GET", "k").(string))
	assert.Equal(t, before+1, after)
}

func silent(t *testing.T, dial Dial, start func(testing.TB) *redistest.Server) {
	for fault, charged := range map[redistest.Fault]any{redistest.StallBefore: nil, redistest.StallAfter: "1"} {
		s := start(t)
		p := redistest.StartProxy(t, s.Addr())
		conn := connect(t, dial, p.Addr())
		_, err := conn.Run(t.Context(), echo, nil, nil)
		require.NoError(t, err)
		s.Command("SCRIPT", "LOAD", incr.Text())

		// Each call has a key of its own.
		var calls int
		var mu sync.Mutex
		sent := map[string]int{}
		p.OnRequest(func(args []string) redistest.Fault {
			if !isScript(args) {
				return redistest.Forward
			}
			mu.Lock()
			defer mu.Unlock()
			sent[args[3]]++
			return fault
		})
		asked := func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(sent) > 0
		}
		for tries := 0; tries < 20 && !asked(); tries++ { // a slow machine may send nothing in time
			inTime(t, func(ctx context.Context) error {
				calls++
				_, err := conn.Run(ctx, incr, []string{fmt.Sprint("k", calls)}, nil)
				if ctx.Err() != nil {
					p.Cut() // so that the next call needs a new connection
					none(t, "await.Do")
				}
				return err
			})
		}
		p.OnRequest(nil)
		mu.Lock()
		defer mu.Unlock()
		assert.NotEmpty(t, sent)
		for key, n := range sent {
			assert.Equal(t, 1, n, key)
			s.Until("the server has done what it was sent", func(context.Context) bool { return s.Command("GET", key) == charged })
		}
	}
}

func closed(t *testing.T, dial Dial, start func(testing.TB) *redistest.Server) {
	s := start(t)
	conn, closeClient := dial(t, s.Addr())
	_, err := conn.Run(t.Context(), incr, []string{"k"}, nil)
	require.NoError(t, err)
	s.Pause()
	defer s.Resume()
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
			defer cancel()
			_, err := conn.Run(ctx, incr, []string{"k"}, nil)
			assert.Error(t, err)
		})
	}
	wg.Wait()
	closeClient()
	none(t, "await.Do", "/redis/go-redis/", "/redis/rueidis")
}

func restart(t *testing.T, dial Dial) {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	conn := connect(t, dial, s.Addr())
	run := func(timeout time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), timeout)
		defer cancel()
		_, err := conn.Run(ctx, incr, []string{"k"}, nil)
		return err
	}
	require.NoError(t, run(time.Minute))
	s.Kill()
	assert.Error(t, run(time.Second))
	assert.Error(t, run(time.Second))
	s.Restart()
	require.EventuallyWithT(t, func(t *assert.CollectT) { assert.NoError(t, run(time.Minute)) }, 2*soon, 10*time.Millisecond)
	assert.Equal(t, "2", s.Command("GET", "k"))
}

// none waits until no goroutine is in any of the functions or packages with these names.
func none(t testing.TB, names ...string) {
	t.Helper()
	deadline := time.Now().Add(2 * soon)
	for {
		var found []string
		for _, stack := range strings.Split(stacks(), "\n\n") {
			for _, name := range names {
				if strings.Contains(stack, name) {
					found = append(found, stack)
					break
				}
			}
		}
		if len(found) == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("%d goroutines are left, such as this:\n%s", len(found), found[0])
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// stacks returns the stacks of all goroutines.
func stacks() string {
	for n := 1 << 20; ; n *= 2 {
		b := make([]byte, n)
		if got := runtime.Stack(b, true); got < n {
			return string(b[:got])
		}
	}
}

// Cluster tests a Conn to a cluster.
func Cluster(t *testing.T, dial Dial) {
	nodes := redistest.StartCluster(t)
	conn := connect(t, dial, nodes[0].Addr())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := func(key string) string {
		t.Helper()
		reply, err := conn.Run(ctx, incr, []string{key}, nil)
		require.NoError(t, err)
		return reply
	}

	// Keys of all nodes.
	for i := range 30 {
		key := fmt.Sprint("key", i)
		assert.Equal(t, "1", run(key))
		assert.Equal(t, "2", run(key))
	}

	// Keys of two slots, of one node and of two.
	for range 3 {
		for _, keys := range [][]string{{"b", "f"}, {"a", "b"}, {"b", "a"}} { // slots 3300, 3168, 15495
			_, err := conn.Run(ctx, move, keys, nil)
			assert.ErrorContains(t, err, "CROSSSLOT")
		}
		_, err := conn.Run(ctx, move, []string{"{a}1", "{a}2"}, nil)
		assert.NoError(t, err)
	}

	// Slot 3300, of b, goes from the first node to the second.
	from, to := nodes[0], nodes[1]
	fromID, toID := from.Command("CLUSTER", "MYID").(string), to.Command("CLUSTER", "MYID").(string)
	assert.Equal(t, "1", run("b"))
	to.Command("CLUSTER", "SETSLOT", "3300", "IMPORTING", fromID)
	from.Command("CLUSTER", "SETSLOT", "3300", "MIGRATING", toID)
	assert.Equal(t, "2", run("b"))    // is still there
	assert.Equal(t, "1", run("{b}1")) // ASK
	to.Command("SCRIPT", "FLUSH")     // ASK, NOSCRIPT, ASK
	assert.Equal(t, "2", run("{b}1")) //
	assert.Equal(t, "1", run("{b}2")) //
	_, err := conn.Run(ctx, move, []string{"b", "{b}1"}, nil)
	assert.ErrorContains(t, err, "TRYAGAIN")
	host, port, _ := strings.Cut(to.Addr(), ":")
	from.Command("MIGRATE", host, port, "b", "0", "10000")
	to.Command("CLUSTER", "SETSLOT", "3300", "NODE", toID)
	from.Command("CLUSTER", "SETSLOT", "3300", "NODE", toID)
	assert.Equal(t, "3", run("b")) // MOVED
	assert.Equal(t, "3", run("{b}1"))
	_, err = from.Do(ctx, "GET", "b")
	assert.ErrorContains(t, err, "MOVED")

	// A node that does not answer.
	to.Pause()
	inTime(t, func(ctx context.Context) error {
		_, err := conn.Run(ctx, incr, []string{"b"}, nil)
		return err
	})
	to.Resume()
	none(t, "await.Do")
	require.Eventually(t, func() bool {
		_, err := conn.Run(ctx, incr, []string{"b"}, nil)
		return err == nil
	}, 2*soon, 10*time.Millisecond)

	// A node that is gone is not replaced by another, nor is a call repeated elsewhere.
	nodes[2].Kill()
	_, err = conn.Run(ctx, incr, []string{"a"}, nil)
	assert.Error(t, err)
	assert.False(t, errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil, "%v", err)
}
