package httplimit_test

import (
	"context"
	"sync"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// A modelStore is a store in this process. It answers as the documentation of Store says, and notes
// what it was asked.
type modelStore struct {
	*model
	*sash.Limiter
	mu    sync.Mutex
	asked map[string]int // by the name of the method
}

func (s *modelStore) open(keys httplimit.StoreKeys) (httplimit.Store, error) {
	s.asked = map[string]int{}
	s.Limiter = sash.Must(sash.New(keys.Limits[0][0], sash.WithLimitsFor(keys.LimitsFor), sash.WithSweepInterval(-1)))
	return s, nil
}

// answer returns the answer to a call whose decision is d.
func (s *modelStore) answer(method string, keys []string, n int64, d sash.Decision, charged bool) httplimit.StoreDecision {
	s.asked[method]++
	a := httplimit.StoreDecision{Decision: d, By: "store"}
	for _, key := range keys {
		now, next := s.TakeThenPeek(key, 0)
		if charged {
			now.Allowed, now.RetryAfter = true, 0
		} else {
			now = s.Limiter.Peek(key, n)
		}
		a.Keys = append(a.Keys, httplimit.KeyDecision{Decision: now, Next: next})
	}
	return a
}

func (s *modelStore) Take(_ context.Context, keys []string, n int64) httplimit.StoreDecision {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.TakeAll(keys, n)
	return s.answer("Take", keys, n, d, d.Allowed)
}

func (s *modelStore) Peek(_ context.Context, keys []string, n int64) httplimit.StoreDecision {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answer("Peek", keys, n, s.PeekAll(keys, n), false)
}

func (s *modelStore) Reserve(_ context.Context, keys []string, n int64) httplimit.StoreDecision {
	s.mu.Lock()
	defer s.mu.Unlock()
	reservations, d := s.ReserveAll(keys, n)
	a := s.answer("Reserve", keys, n, d, d.Allowed)
	for i := range a.Keys {
		if d.Allowed {
			a.Keys[i].Commit = func(_ context.Context, actual int64) error {
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
