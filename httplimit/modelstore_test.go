package httplimit_test

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/bridge"
)

// A modelStore is a store in this process. It answers as the documentation of Store says, and notes
// what it was asked.
type modelStore struct {
	*model
	*sash.Limiter
	limitsFor func(key string) []sash.Limit
	mu        sync.Mutex
	asked     map[string]int64 // when each key was last asked for
	reserved  []string         // keys, since the model has looked
	unsettled int              // number of reservations that are open
}

func (s *modelStore) open(keys httplimit.StoreKeys) (httplimit.Store, error) {
	s.asked, s.limitsFor = map[string]int64{}, keys.LimitsFor
	s.Limiter = sash.Must(sash.New(keys.Limits[0][0], sash.WithLimitsFor(keys.LimitsFor), sash.WithSweepInterval(-1)))
	return s, nil
}

// follow gives all keys the limits that they have now.
func (s *modelStore) follow() {
	ofSash.Reconfigure(s.Limiter, bridge.Setup[sash.Limit]{
		Limits: s.Limits(), LimitsFor: s.limitsFor, SweepInterval: -1,
	}, func(publish func() bool) { publish() })
}

// answer returns the answer to a call whose decision is d, and which must leave units of each key.
func (s *modelStore) answer(keys []string, n int64, leave []int64, d sash.Decision, charged bool) httplimit.StoreDecision {
	a := httplimit.StoreDecision{Decision: d, By: "store"}
	for i, key := range keys {
		s.asked[key] = s.clock.Now()
		now, next := ofSash.NextLeaving(s.Limiter, key, leave[i])
		if charged {
			now.Allowed, now.RetryAfter = true, 0
		} else {
			now = ofSash.PeekLeaving(s.Limiter, key, n, leave[i])
		}
		next.Remaining = max(next.Remaining-leave[i], 0)
		a.Keys = append(a.Keys, httplimit.KeyDecision{Decision: now, Next: next})
	}
	return a
}

// ofSash are the functions of package sash that it does not export.
var ofSash = bridge.Of[sash.Limiter, sash.Option, sash.Limit, sash.Clock, sash.Decision, sash.Reservation]()

// leavesOf returns leave, and no units of each key if it is nil.
func leavesOf(keys []string, leave []int64) []int64 {
	if leave == nil {
		return make([]int64, len(keys))
	}
	return leave
}

func (s *modelStore) Take(_ context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	s.mu.Lock()
	defer s.mu.Unlock()
	leave = leavesOf(keys, leave)
	d, _ := ofSash.TakeAllOn(s.Limiter, keys, bridge.Leaving(leave), n)
	return s.answer(keys, n, leave, d, d.Allowed)
}

func (s *modelStore) Peek(_ context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	s.mu.Lock()
	defer s.mu.Unlock()
	leave = leavesOf(keys, leave)
	return s.answer(keys, n, leave, ofSash.PeekAllOn(s.Limiter, keys, bridge.Leaving(leave), n), false)
}

func (s *modelStore) Reserve(_ context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved = append(s.reserved, keys...)
	leave = leavesOf(keys, leave)
	reservations, d, _ := ofSash.ReserveAllOn(s.Limiter, keys, bridge.Leaving(leave), n)
	a := s.answer(keys, n, leave, d, d.Allowed)
	for i := range a.Keys {
		if d.Allowed {
			s.unsettled++
			a.Keys[i].Commit = func(_ context.Context, actual int64) error {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.unsettled--
				reservations[i].Commit(actual)
				return nil
			}
		}
	}
	return a
}

func (s *modelStore) Wait(ctx context.Context, key string, n int64) error {
	return s.Limiter.Wait(ctx, key, n)
}

func (s *modelStore) Close() error { return s.Limiter.Close() }

// checkReserved checks that the store was asked for reservations only where a charge may change, or
// several are made one after the other, or for requests that have waited. A reservation makes its key
// dear for good, so a request that waits for one key must not be the cause of one of another.
func (s *modelStore) checkReserved() {
	s.mu.Lock()
	reserved := s.reserved
	s.reserved = nil
	s.mu.Unlock()
	for _, key := range reserved {
		if !slices.ContainsFunc(s.exchanges, func(x *exchange) bool { return s.mayReserve(x, key) }) {
			s.failf("the store was asked to reserve %q", key)
		}
	}
}

// askedLately reports whether a key of x was asked for so lately that x may not ask again yet.
func (s *modelStore) askedLately(x *exchange, now int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(x.expected.enforcedTakes(), func(t modelTake) bool {
		real, _ := s.realKey(t.key)
		at, asked := s.asked[real]
		return asked && now < at+int64(time.Millisecond)
	})
}

// checkOpen checks that no reservation is open once all admitted requests are settled.
func (s *modelStore) checkOpen() {
	settled := !slices.ContainsFunc(s.exchanges, func(x *exchange) bool { return x.admitted && x.settled.order == 0 })
	if s.unsettled < 0 || settled && s.unsettled > 0 {
		s.failf("%d reservations are open", s.unsettled)
	}
}

// mayReserve reports whether x may reserve a key of the store.
func (s *modelStore) mayReserve(x *exchange, key string) bool {
	takes := x.expected.takes
	waited := x.expected.waits || isWaiting(x) || x.decided.at > x.arrived.at
	if !waited && !slices.ContainsFunc(takes, func(t modelTake) bool { return t.changes || t.holds() || t.cost != takes[0].cost }) {
		return false
	}
	return slices.ContainsFunc(takes, func(t modelTake) bool {
		real, _ := s.realKey(t.key)
		return real == key
	})
}
