package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-30da4c49/sash/bench/internal/keys"
)

// plenty admits all that callers can ask of one key. some admits all that they ask of one of
// many keys, and keeps a key for some time after one call.
var (
	plenty = quota{1_000_000_000, 24 * time.Hour}
	some   = quota{1000, 24 * time.Hour}
)

// A usage is what a key takes in the store, in bytes.
type usage struct{ bytes, usage, name float64 }

// fill calls once for each known key, and returns what the keys take.
func (l *lab) fill(ctx context.Context, s subject) (u usage, err error) {
	c, err := s.open(&wire{socket: l.socket}, some)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	// The connections and the script are no part of a key.
	probe := func(i int) string { return fmt.Sprintf("probe %d of %s", i, s.state) }
	if err := l.fillBy(ctx, c, 10*callers, probe); err != nil {
		return u, err
	}
	before, err := l.read(ctx)
	if err != nil {
		return u, err
	}
	if err := l.fillBy(ctx, c, l.known, keys.New); err != nil {
		return u, err
	}
	after, err := l.read(ctx)
	if err != nil {
		return u, err
	}
	u.bytes = (after.memory - before.memory) / float64(l.known)
	return u, l.sampleKeys(ctx, probe(0), &u)
}

// callers is the number of goroutines that fill the store.
const callers = 64

// fillBy calls n times, for the keys that name returns.
func (l *lab) fillBy(ctx context.Context, c *client, n int, name func(i int) string) error {
	var next atomic.Int64
	var done sync.WaitGroup
	faults := make([]error, callers)
	for g := range callers {
		done.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && faults[g] == nil && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				_, faults[g] = c.take(name(i))
			}
		})
	}
	done.Wait()
	return errors.Join(append(faults, ctx.Err())...)
}

// sampleKeys sets the average usage and length of the names of some keys.
func (l *lab) sampleKeys(ctx context.Context, probe string, u *usage) error {
	// What a limiter makes of a name is its own business. So look at what it made of the probe.
	made, err := l.admin.Keys(ctx, "*"+probe+"*").Result()
	if err != nil {
		return err
	}
	if len(made) != 1 {
		return fmt.Errorf("one key of the store should belong to %q, there are %q", probe, made)
	}
	const sampled = 100
	for i := range sampled {
		name := strings.Replace(made[0], probe, keys.New(i*7%l.known), 1)
		bytes, err := l.admin.MemoryUsage(ctx, name, 0).Result()
		if err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		u.usage += float64(bytes) / sampled
		u.name += float64(len(name)) / sampled
	}
	return nil
}
