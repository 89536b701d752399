package suggest

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/race"
)

// A token bucket denies a client at least once if and only if the client needs more than its Burst.
func TestBuckets_TellWhomATokenBucketDenies(t *testing.T) {
	t.Parallel()
	touched, untouched := 0, 0
	for seed := range uint64(race.Trials(40)) {
		calls := randomCalls(rand.New(rand.NewPCG(seed, 4)))
		spread := []int64{1, 20, 300}[seed%3] // a minute has many of them, or few
		var g bucketGauge
		for i := range calls {
			calls[i].at, calls[i].units = calls[i].at*spread, 1
			g.add(calls[i].client, calls[i].at)
		}
		for i, rate := range bucketRates {
			for _, burst := range []int64{1, 2, 3, 5, 8, 20, 60, 100} {
				clients, _ := decide(t, sash.PerMinute(rate).TokenBucket(burst), 0, calls)
				for client := range g.clients {
					need := g.need(client, i)
					require.Equal(t, clients[uint32(client)], need > burst, "seed %d, %d/m burst %d, client %d needs %d", seed, rate, burst, client, need)
				}
				touched, untouched = touched+len(clients), untouched+len(g.clients)-len(clients)
			}
		}
	}
	assert.Greater(t, touched, race.Trials(1000), "these calls tell nothing")
	assert.Greater(t, untouched, race.Trials(1000), "these calls tell nothing")
}

// All flows back in a gap of months, also in one of just more nanoseconds times units than 64 bits hold.
func TestBuckets_FlowBackInMonths(t *testing.T) {
	for i, rate := range bucketRates {
		if rate == 1 {
			continue // in all the time there is, less flows back
		}
		gap := math.MaxUint64/uint64(rate) + 1
		var g bucketGauge
		for _, at := range []int64{0, 0, 0, int64(gap)} {
			g.add(0, at)
		}
		require.EqualValues(t, 3, g.need(0, i), "%d/m", rate)
		require.Equal(t, unitParts, g.clients[0].spent[i], "%d/m", rate)
	}
}

// Each bucket is of use: a higher rate comes with a smaller burst.
func TestBuckets_OfTheShop(t *testing.T) {
	r := invoke("", "-json", "-percentile", "99.8", shop).report(t)
	require.Greater(t, len(r.Buckets), 2)
	for i, b := range r.Buckets {
		require.Equal(t, sash.TokenBucket, b.Limit.Algorithm)
		require.LessOrEqual(t, b.Clients, 8, "99.8%% of 3,546 clients are left alone")
		require.GreaterOrEqual(t, 2*b.Limit.Burst, 3*b.AtPercentile)
		if i > 0 {
			require.Greater(t, b.Limit.Count, r.Buckets[i-1].Limit.Count)
			require.Less(t, b.Limit.Burst, r.Buckets[i-1].Limit.Burst)
		}
	}
	text := invoke("", "-percentile", "99.8", shop).stdout
	require.Contains(t, text, "or a token bucket: for each rate, the burst that leaves 99.8% of the clients alone, times 1.5\n")
	require.Contains(t, text, "  3/m burst 12               6      0.169%\n")
	require.NotContains(t, invoke("", "-cost", "size", shop).stdout, "token bucket: for each rate")
}
