package conntest_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/redistest"
)

// start starts a server and a proxy of it, and a client that repeats nothing.
func start(t *testing.T) (*redistest.Server, *redistest.Proxy, *redis.Client) {
	s := redistest.Start(t)
	p := redistest.StartProxy(t, s.Addr())
	c := redis.NewClient(&redis.Options{
		Network: p.Network(), Addr: p.Addr(), MaxRetries: -1, PoolSize: 1, ReadTimeout: time.Minute, DisableIdentity: true,
	})
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.Ping(t.Context()).Err())
	return s, p, c
}

// on makes the proxy disturb commands of that name.
func on(p *redistest.Proxy, name string, f redistest.Fault) {
	p.OnRequest(func(args []string) redistest.Fault {
		if args[0] == name {
			return f
		}
		return redistest.Forward
	})
}

func TestProxy_CountsWhatItPassesOn(t *testing.T) {
	_, p, c := start(t)
	before := p.Counts()
	assert.Equal(t, int64(1), before.Connections)
	require.NoError(t, c.Set(t.Context(), "a", "\r\n", 0).Err())
	got, err := c.MGet(t.Context(), "a", "b").Result()
	require.NoError(t, err)
	assert.Equal(t, []any{"\r\n", nil}, got)
	_, err = c.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		for range 100 {
			pipe.Incr(t.Context(), "n")
		}
		return nil
	})
	require.NoError(t, err)
	d := p.Counts().Sub(before)
	assert.Equal(t, int64(102), d.Requests)
	assert.Equal(t, int64(102), d.Replies)
	assert.Zero(t, d.Connections)
	assert.Equal(t, int64(len("*3\r\n$3\r\nset\r\n$1\r\na\r\n$2\r\n\r\n\r\n*3\r\n$4\r\nmget\r\n$1\r\na\r\n$1\r\nb\r\n")+
		100*len("*2\r\n$4\r\nincr\r\n$1\r\nn\r\n")), d.Sent)
	assert.Equal(t, int64(len("+OK\r\n*2\r\n$2\r\n\r\n\r\n_\r\n")+9*len(":1\r\n")+90*len(":10\r\n")+len(":100\r\n")), d.Received)
}

func TestProxy_CutsBeforeARequest(t *testing.T) {
	s, p, c := start(t)
	on(p, "incr", redistest.CutBefore)
	assert.Error(t, c.Incr(t.Context(), "a").Err())
	assert.Nil(t, s.Command("GET", "a"))
	p.OnRequest(nil)
	assert.NoError(t, c.Incr(t.Context(), "a").Err())
}

func TestProxy_CutsAfterARequest(t *testing.T) {
	s, p, c := start(t)
	on(p, "incr", redistest.CutAfter)
	assert.Error(t, c.Incr(t.Context(), "a").Err())
	assert.Equal(t, "1", s.Command("GET", "a"))
	p.OnRequest(nil)
	assert.Equal(t, int64(2), c.Incr(t.Context(), "a").Val())
}

func TestProxy_CutsOnlyThatRequestOfSeveral(t *testing.T) {
	_, p, c := start(t)
	on(p, "incr", redistest.CutAfter)
	var set *redis.StatusCmd
	_, err := c.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		set = pipe.Set(t.Context(), "b", "1", 0)
		pipe.Incr(t.Context(), "a")
		return nil
	})
	assert.Error(t, err)
	assert.Equal(t, "OK", set.Val())
}

func TestProxy_StallsBeforeAndAfterARequest(t *testing.T) {
	for fault, after := range map[redistest.Fault]any{redistest.StallBefore: nil, redistest.StallAfter: "1"} {
		s, p, c := start(t)
		asked, ended := make(chan struct{}), make(chan error, 1)
		p.OnRequest(func(args []string) redistest.Fault {
			if args[0] != "incr" {
				return redistest.Forward
			}
			close(asked)
			return fault
		})
		go func() { ended <- c.Incr(t.Context(), "a").Err() }()
		<-asked
		select {
		case err := <-ended:
			t.Errorf("%v: there was an answer: %v", fault, err)
		case <-time.After(20 * time.Millisecond):
		}
		if after != nil {
			s.Until("the request has come", func(context.Context) bool { return s.Command("GET", "a") == after })
		}
		assert.Equal(t, after, s.Command("GET", "a"))
		p.Cut()
		assert.Error(t, <-ended)
	}
}

func TestProxy_CutsAllConnections(t *testing.T) {
	_, p, c := start(t)
	p.Cut()
	before := p.Counts().Connections
	for c.Ping(t.Context()).Err() != nil { // the client may notice late
		require.NoError(t, t.Context().Err())
	}
	assert.Equal(t, before+1, p.Counts().Connections)
}

func TestProxy_DelaysEachDirectionAndKeepsOrder(t *testing.T) {
	_, p, c := start(t)
	const delay = 10 * time.Millisecond
	p.SetDelay(delay)
	begin := time.Now()
	cmds, err := c.Pipelined(t.Context(), func(pipe redis.Pipeliner) error {
		for range 500 {
			pipe.Incr(t.Context(), "n")
		}
		return nil
	})
	require.NoError(t, err)
	took := time.Since(begin)
	assert.GreaterOrEqual(t, took, 2*delay)
	assert.Less(t, took, 500*delay) // they are under way at once
	for i, cmd := range cmds {
		assert.Equal(t, int64(i+1), cmd.(*redis.IntCmd).Val())
	}
}
