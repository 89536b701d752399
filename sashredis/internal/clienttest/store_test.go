package clienttest

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/goredisconn"
	"github.com/seed-30da4c49/sash/sashredis/internal/bridge"
)

var internals = bridge.Of[sashredis.Limiter, sashredis.Option, sashredis.Script]()

// inside returns what tests see of a limiter.
func inside(l *sashredis.Limiter) bridge.Inside { return internals.Inside(l) }

// flights returns for how many keys a round trip of l is under way.
func flights(l *sashredis.Limiter) (keys int) { return inside(l).Flights }

// waiting returns how many calls of l wait for a round trip.
func waiting(l *sashredis.Limiter) (calls int) { return inside(l).Waiting }

// A fakeStore is an embedded store with a clock that a test moves. It lets a test look at each
// round trip, hold it up, or make it fail.
type fakeStore struct {
	t      *testing.T
	server *miniredis.Miniredis
	conn   sashredis.Conn

	mu      sync.Mutex
	now     time.Time
	runs    int
	arrived chan struct{} // a round trip has arrived, if hold is not nil
	hold    chan struct{} // each round trip waits for one of these, or until it is closed
	arrive  func()        // runs when a round trip arrives
	before  func()        // runs before the script
	after   func()        // runs after it
	err     error         // if it is set, no script runs
	lost    error         // if it is set, scripts run, and their replies are lost
}

func newStore(t *testing.T) *fakeStore {
	s := &fakeStore{t: t, server: miniredis.RunT(t), now: time.Unix(1_800_000_000, 0)}
	s.server.SetTime(s.now)
	client := redis.NewClient(&redis.Options{Addr: s.server.Addr()})
	t.Cleanup(func() { client.Close() })
	s.conn = goredisconn.New(client)
	return s
}

// advance moves the clock of the store.
func (s *fakeStore) advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = s.now.Add(d)
	s.server.SetTime(s.now)
}

// set changes how round trips go from now on.
func (s *fakeStore) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// holdUp makes round trips wait from now on until release is called. arrived receives when one
// has arrived.
func (s *fakeStore) holdUp() (arrived <-chan struct{}, release func()) {
	hold := make(chan struct{})
	s.set(func() { s.arrived, s.hold = make(chan struct{}, 100), hold })
	return s.arrived, func() {
		s.set(func() { s.hold = nil })
		close(hold)
	}
}

func (s *fakeStore) Run(ctx context.Context, script *sashredis.Script, keys, args []string) (string, error) {
	s.mu.Lock()
	s.runs++
	hold, arrived, arrive, before, after, err, lost := s.hold, s.arrived, s.arrive, s.before, s.after, s.err, s.lost
	s.mu.Unlock()
	if arrive != nil {
		arrive()
	}
	if hold != nil {
		arrived <- struct{}{}
		select {
		case <-hold:
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	if before != nil {
		before()
	}
	if err != nil {
		return "", err
	}
	reply, err := s.conn.Run(ctx, script, keys, args)
	if after != nil {
		after()
	}
	if lost != nil {
		return "", lost
	}
	return reply, err
}

// count returns the round trips so far.
func (s *fakeStore) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runs
}

// limiter returns a limiter on s. Its local clock stands still until the test moves it.
func (s *fakeStore) limiter(limits []sash.Limit, options ...sashredis.Option) (*sashredis.Limiter, *sash.ManualClock) {
	local := sash.NewManualClock(0)
	options = append([]sashredis.Option{
		sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(10 * time.Second), internals.LocalClock(local),
	}, options...)
	l, err := sashredis.New(s, limits, options...)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { l.Close() })
	return l, local
}

// eventually waits until holds does. It is for what another goroutine is sure to do.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !holds(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
	}
}

var errAway = errors.New("the store is away, says the test")
