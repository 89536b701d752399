package worker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/redistest"
)

// waits are the two workers.
func waits(t *testing.T, server *redistest.Server) map[string]func(context.Context, string) error {
	client := redis.NewClient(&redis.Options{Network: server.Network(), Addr: server.Addr(), MaxRetries: -1, DialerRetries: 1, DialTimeout: time.Second})
	t.Cleanup(func() { client.Close() })
	after, err := NewAfter(client)
	require.NoError(t, err)
	t.Cleanup(func() { after.Close() })
	return map[string]func(context.Context, string) error{
		"before": NewBefore(client).Wait,
		"after":  func(ctx context.Context, customer string) error { return after.Wait(ctx, customer, 1) },
	}
}

// Ten calls of each customer are admitted at once, and others wait for a tenth of a second each.
func TestWorker_WaitsForItsTurn(t *testing.T) {
	for name, wait := range waits(t, redistest.Start(t)) {
		t.Run(name, func(t *testing.T) {
			for range 13 {
				require.NoError(t, wait(t.Context(), "a"))
			}
			require.NoError(t, wait(t.Context(), "b"))
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			require.ErrorIs(t, wait(ended, "a"), context.Canceled)
		})
	}
}

// Both go on without Redis. What was missing: one local bucket is for all customers.
func TestWorker_GoesOnWithoutRedis(t *testing.T) {
	server := redistest.Start(t)
	server.Kill()
	synctest.Test(t, func(t *testing.T) { // in which no time passes, so no token comes back
		t.Cleanup(func() { time.Sleep(time.Minute) }) // of the bubble: the last dial of a closed client ends
		admitted := map[string]int{}
		for name, wait := range waits(t, server) {
			for range 10 {
				for _, customer := range []string{"a", "b", "c"} {
					ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond) // a turn comes later
					if wait(ctx, customer) == nil {
						admitted[name]++
					}
					cancel()
				}
			}
		}
		require.Equal(t, map[string]int{"before": 10, "after": 30}, admitted)
	})
}
