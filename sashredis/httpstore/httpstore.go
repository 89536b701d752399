// Package httpstore lets the limiters of package httplimit in a fleet of processes share their
// counts, by package sashredis.
//
//	limiter := httplimit.Must(httplimit.New(
//		httplimit.WithStore(httpstore.New(goredisconn.New(client),
//			sashredis.WithFallback(sashredis.FallbackLocal(1, 4)))),
//		httplimit.Policy{Name: "api", Limits: []sash.Limit{sash.PerMinute(300)}, Key: httplimit.ByAddress()},
//	))
//	defer limiter.Close()
package httpstore

import (
	"context"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/internal/bridge"
)

// internals are the functions of package sashredis that it does not export.
var internals = bridge.Of[sashredis.Limiter, sashredis.Option, sashredis.Script]()

// A Store lets a [sashredis.Limiter] decide for package httplimit. Make one with [New] or [Of].
type Store struct{ limiter *sashredis.Limiter }

// New returns what [httplimit.WithStore] is given: a function that makes a [Store] with a limiter
// of its own. [sashredis.WithFallback] is required. A limit of a policy must be one that
// [sashredis.New] accepts.
//
// Limiters with the same prefix share the counts of policies with the same name and limits: see
// [sashredis.WithPrefix]. [sashredis.WithLimitsFor] gives keys limits of their own, as does
// sash.WithLimitsFor in [httplimit.WithSash]. On a cluster, see [httplimit.HashTag].
//
// A policy that may give charges back is always decided by the store, and so is a key that holds units. The
// others are also decided from the mirror and, if nothing must remain by a Leave, from leases. Headers of a
// decision from a lease tell what is left, but not when there is more. While [sashredis.FallbackAdmit] decides,
// headers tell of no quota.
func New(conn sashredis.Conn, options ...sashredis.Option) func(httplimit.StoreKeys) (httplimit.Store, error) {
	return func(keys httplimit.StoreKeys) (httplimit.Store, error) {
		own := internals.PolicyLimits(keys.Limits, keys.LimitsFor)
		// It goes last, since it adds to what WithLimitsFor has set.
		l, err := sashredis.New(conn, nil, append(options[:len(options):len(options)], own)...)
		if err != nil {
			return nil, err
		}
		return Of(l), nil
	}
}

// Of returns l as a store, for a [httplimit.Transport]:
//
//	&httplimit.Transport{Store: httpstore.Of(l)}
func Of(l *sashredis.Limiter) *Store { return &Store{l} }

// Limiter returns the limiter below, to peek at a key, reset it, or read its figures. The keys of
// the Store of a [httplimit.Limiter] are what its KeyFor returns.
func (s *Store) Limiter() *sashredis.Limiter { return s.limiter }

// Take implements [httplimit.Store].
func (s *Store) Take(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	return s.each(ctx, bridge.Take, keys, n, leave)
}

// Peek implements [httplimit.Store].
func (s *Store) Peek(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	return s.each(ctx, bridge.Peek, keys, n, leave)
}

// Reserve implements [httplimit.Store].
func (s *Store) Reserve(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	return s.each(ctx, bridge.Reserve, keys, n, leave)
}

func (s *Store) each(ctx context.Context, op bridge.Op, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	a := internals.Each(s.limiter, ctx, op, keys, n, leave)
	d := httplimit.StoreDecision{Decision: a.Decision, By: a.By, Err: a.Err, Keys: make([]httplimit.KeyDecision, len(a.Keys))}
	for i, k := range a.Keys {
		d.Keys[i] = httplimit.KeyDecision(k)
	}
	return d
}

// Wait implements [httplimit.Store]. It is [sashredis.Limiter.Wait].
func (s *Store) Wait(ctx context.Context, key string, n int64) error {
	return s.limiter.Wait(ctx, key, n)
}

// CheckLimits returns why the limits of a policy cannot be kept in the store, or nil.
func (s *Store) CheckLimits(limits []sash.Limit) error { return internals.CheckLimits(limits) }

// Close implements [httplimit.Store]. It is [sashredis.Limiter.Close].
func (s *Store) Close() error { return s.limiter.Close() }
