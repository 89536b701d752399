// Package rueidisconn runs the scripts of package sashredis with a client of rueidis.
package rueidisconn

import (
	"context"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/internal/await"
)

// New returns a [sashredis.Conn] that runs scripts with client, which may be a client of a single
// server, of a cluster, or of servers behind Sentinel. It does not close client.
//
// A call costs one round trip, and one more if the server does not know the script yet. The
// client sends calls of many goroutines together on one connection to each server, so it is the
// recommended one. A call is never repeated when its outcome is unknown, nor is its reply cached.
// A cluster client follows MOVED and ASK, which say that the script did not run.
//
// A call ends with its context. The client may go on waiting for the server then. It does so in a
// goroutine that ends when the server answers, when the client's ConnWriteTimeout (10 s by
// default) has passed without one, or when the client is closed.
//
// The client's options can stay at their defaults, with one exception: ConnLifetime must not be
// set. When a connection has lived for so long, rueidis sends the calls that are under way on it
// again, and they may be charged twice. DisableCache avoids the cost of a cache that scripts do
// not use. DisableAutoPipelining makes each call take a connection of its own.
func New(client rueidis.Client) sashredis.Conn { return &conn{client} }

type conn struct{ client rueidis.Client }

// Run implements [sashredis.Conn].
func (c *conn) Run(ctx context.Context, s *sashredis.Script, keys, args []string) (string, error) {
	reply, err := await.Do(ctx, c.call(ctx, "EVALSHA", s.SHA1(), keys, args))
	if e, ok := rueidis.IsRedisErr(err); ok && e.IsNoScript() {
		// The script did not run. From now on this server knows it.
		return await.Do(ctx, c.call(ctx, "EVAL", s.Text(), keys, args))
	}
	return reply, err
}

// call returns a call of a script, by its digest or its text. The builder copies keys and args. It never
// marks the command as repeatable.
func (c *conn) call(ctx context.Context, name, script string, keys, args []string) *call {
	command := c.client.B().Arbitrary(name, script, strconv.Itoa(len(keys)))
	if len(keys) > 0 {
		// The first key says where the script is sent. The others are passed as arguments,
		// which are the same on the wire: the builder panics if a key is of another slot,
		// where a server answers CROSSSLOT.
		command = command.Keys(keys[0]).Args(keys[1:]...)
	}
	return &call{c.client, ctx, command.Args(args...).Build()}
}

// A call is one command for one script. It holds no memory of the caller of Run.
type call struct {
	client rueidis.Client
	ctx    context.Context
	cmd    rueidis.Completed
}

// Make implements [await.Call].
func (c *call) Make() await.Result {
	resp := c.client.Do(c.ctx, c.cmd)
	reply, err := resp.ToString()
	return await.Result{Reply: reply, Err: err, Answered: resp.NonRedisError() == nil}
}
