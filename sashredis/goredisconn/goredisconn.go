// Package goredisconn runs the scripts of package sashredis with a client of go-redis.
package goredisconn

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/internal/await"
)

// New returns a [sashredis.Conn] that runs scripts with client: a [redis.Client], which may be
// one of [redis.NewFailoverClient], a [redis.ClusterClient] or a [redis.Ring]. It does not close
// client.
//
// A call costs one round trip on a connection of the client's pool, and one more if the server
// does not know the script yet. It is never repeated when its outcome is unknown, whatever
// MaxRetries is. A cluster client follows answers that say that the script did not run or could
// not write: MOVED, ASK, READONLY.
//
// A call ends with its context. The client may go on waiting for the server then. It does so in a
// goroutine that keeps the connection until the server answers, the client's ReadTimeout has
// passed, or the client is closed. So ReadTimeout must not be disabled. ContextTimeoutEnabled has
// no effect on these calls: a connection to a distant server may take longer to make than a call
// may wait, and is there for the next one.
//
// Calls run in parallel on up to PoolSize connections. Further calls wait for one to be free. The
// default of 10 for each CPU suits most programs. Those with many calls at once on different keys
// are better served by rueidis, which sends calls of many goroutines together.
//
// A Ring knows no slots. So a call with several keys is refused there, with an error that says
// CROSSSLOT, unless all of them have the same hash tag.
func New(client redis.UniversalClient) sashredis.Conn {
	_, ring := client.(*redis.Ring)
	return &conn{client, ring}
}

type conn struct {
	client redis.UniversalClient
	ring   bool
}

// errCrossSlot is what a cluster would answer.
var errCrossSlot = errors.New("goredisconn: CROSSSLOT the keys of a call on a Ring must have the same hash tag")

// Run implements [sashredis.Conn].
func (c *conn) Run(ctx context.Context, s *sashredis.Script, keys, args []string) (string, error) {
	if c.ring && !sameTag(keys) {
		return "", errCrossSlot
	}
	reply, err := await.Do(ctx, c.call(ctx, evalsha, s.SHA1(), keys, args))
	if err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
		// The script did not run. From now on this server knows it.
		return await.Do(ctx, c.call(ctx, eval, s.Text(), keys, args))
	}
	return reply, err
}

// The names of commands are boxed once.
var evalsha, eval any = "evalsha", "eval"

// A call is one command for one script. It holds no memory of the caller of Run.
type call struct {
	redis.StringCmd
	client redis.UniversalClient
	ctx    context.Context
}

// NoRetry returns true: the script may have run if there was no reply.
func (*call) NoRetry() bool { return true }

// Make implements [await.Call].
func (c *call) Make() await.Result {
	_ = c.client.Process(c.ctx, c) // c keeps its error
	reply, err := c.Result()
	return await.Result{Reply: reply, Err: err, Answered: answered(err)}
}

// answered reports whether err comes from a server.
func answered(err error) bool {
	if err == nil {
		return true
	}
	var answer redis.Error
	return errors.As(err, &answer)
}

// call returns a call of a script, by its digest or its text. The args are copied at once, and
// passed by pointers, which saves an allocation for each. Others are strings, because hooks of
// the client may show them.
func (c *conn) call(ctx context.Context, name any, script string, keys, args []string) *call {
	copies := make([]string, 0, 1+len(args))
	copies = append(append(copies, strconv.Itoa(len(keys))), args...)
	all := make([]any, 0, 2+len(keys)+len(copies))
	all = append(all, name, script, &copies[0])
	for _, k := range keys {
		all = append(all, k)
	}
	for i := range args {
		all = append(all, &copies[1+i])
	}
	ctx = context.WithoutCancel(ctx) // the deadline of a call must not end the making of a connection
	result := &call{*redis.NewStringCmd(ctx, all...), c.client, ctx}
	if len(keys) > 0 {
		result.SetFirstKeyPos(3) // by which a cluster client and a Ring find the server
	}
	result.SetStepCount(1) // otherwise a cluster client first asks a server for all its commands
	return result
}

// sameTag reports whether all keys have the same hash tag, so that they are on one shard of a
// Ring, whichever shards it has.
func sameTag(keys []string) bool {
	return !slices.ContainsFunc(keys, func(k string) bool { return tag(k) != tag(keys[0]) })
}

// tag returns the part of key that decides where it is stored: what is in the first braces, or
// all of it if there are none or they are empty.
func tag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if inside, _, ok := strings.Cut(rest, "}"); ok && inside != "" {
			return inside
		}
	}
	return key
}
