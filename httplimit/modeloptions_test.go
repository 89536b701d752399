package httplimit_test

import (
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// A modelOption is an option of New, and how the model chooses it.
type modelOption struct {
	name   string
	choose func(m *model, random *rand.Rand) []httplimit.Option // none: it is not given
}

// oneIn returns a function that gives options once in n times.
func oneIn(n int, give func(m *model, random *rand.Rand) []httplimit.Option) func(*model, *rand.Rand) []httplimit.Option {
	return func(m *model, random *rand.Rand) []httplimit.Option {
		if random.IntN(n) > 0 {
			return nil
		}
		return give(m, random)
	}
}

// modelOptions are all options of New, in an order in which they can be chosen.
var modelOptions = []modelOption{
	{"WithStore", oneIn(5, func(m *model, _ *rand.Rand) []httplimit.Option {
		m.store = &modelStore{model: m}
		return []httplimit.Option{httplimit.WithStore(m.store.open)}
	})},
	{"WithSash(WithChargeDenied)", oneIn(6, func(m *model, _ *rand.Rand) []httplimit.Option {
		if m.store != nil {
			return nil
		}
		m.chargesDenied = true
		return []httplimit.Option{httplimit.WithSash(sash.WithChargeDenied())}
	})},
	{"WithSash(WithLimitsFor)", oneIn(6, func(m *model, random *rand.Rand) []httplimit.Option {
		m.ownLimits = []sash.Limit{sash.Per(4, 20*time.Second).Log()} // which no policy has
		if random.IntN(2) == 0 {
			m.ownLimits = append(m.ownLimits, sash.AtOnce(2, 20*time.Second))
		}
		return []httplimit.Option{httplimit.WithSash(sash.WithLimitsFor(func(key string) []sash.Limit {
			if m.hasOwnLimits(key) {
				return m.ownLimits
			}
			return nil
		}))}
	})},
	{"WithSash(WithObserver)", oneIn(8, func(m *model, _ *rand.Rand) []httplimit.Option {
		if m.store != nil {
			return nil
		}
		return []httplimit.Option{httplimit.WithSash(sash.WithObserver(func(string, int64, sash.Decision) {}))}
	})},
	{"WithClock", oneIn(2, func(m *model, _ *rand.Rand) []httplimit.Option {
		if m.store != nil {
			return nil
		}
		return []httplimit.Option{httplimit.WithClock(m.clock)}
	})},
	{"WithSizeHint", oneIn(8, func(m *model, _ *rand.Rand) []httplimit.Option {
		if m.store != nil {
			return nil
		}
		return []httplimit.Option{httplimit.WithSizeHint(10)}
	})},
	{"WithSweepInterval", oneIn(2, func(m *model, random *rand.Rand) []httplimit.Option {
		if m.store != nil {
			return nil
		}
		return []httplimit.Option{httplimit.WithSweepInterval(pick(random, []time.Duration{-1, 5 * time.Second}))}
	})},
	{"WithPathFolding", oneIn(4, func(m *model, _ *rand.Rand) []httplimit.Option {
		m.folds = true
		return []httplimit.Option{httplimit.WithPathFolding()}
	})},
	{"WithoutRateLimit", oneIn(6, func(m *model, _ *rand.Rand) []httplimit.Option {
		m.withoutRateLimit = true
		return []httplimit.Option{httplimit.WithoutRateLimit()}
	})},
	{"WithXRateLimit", oneIn(3, func(m *model, _ *rand.Rand) []httplimit.Option {
		m.xRateLimit = true
		return []httplimit.Option{httplimit.WithXRateLimit()}
	})},
	{"WithXRateLimitTime", oneIn(6, func(m *model, _ *rand.Rand) []httplimit.Option {
		m.xRateLimit, m.resetTime = true, true
		return []httplimit.Option{httplimit.WithXRateLimitTime()}
	})},
	{"WithPartitionKey", oneIn(4, func(m *model, _ *rand.Rand) []httplimit.Option {
		if m.withoutRateLimit {
			return nil
		}
		m.partition = true
		return []httplimit.Option{httplimit.WithPartitionKey()}
	})},
	{"WithObserver", func(m *model, random *rand.Rand) []httplimit.Option {
		if random.IntN(8) == 0 {
			return nil
		}
		m.observed = true
		return []httplimit.Option{httplimit.WithObserver(m.observe), httplimit.WithObserver(m.count)}
	}},
	{"WithEventFingerprints", oneIn(3, func(m *model, random *rand.Rand) []httplimit.Option {
		if !m.observed {
			return nil
		}
		m.fingerprints = chooseOutcomes(random)
		return []httplimit.Option{httplimit.WithEventFingerprints(m.fingerprints...)}
	})},
	{"WithEventIdentities", oneIn(3, func(m *model, random *rand.Rand) []httplimit.Option {
		if !m.observed {
			return nil
		}
		m.identities = chooseOutcomes(random)
		return []httplimit.Option{httplimit.WithEventIdentities(m.identities...)}
	})},
	{"WithDenied", oneIn(4, func(m *model, _ *rand.Rand) []httplimit.Option {
		m.deniedBy = http.StatusServiceUnavailable
		return []httplimit.Option{httplimit.WithDenied(func(w http.ResponseWriter, r *http.Request, d httplimit.Denial) {
			m.exchangeOf(r).denial = &d
			w.WriteHeader(http.StatusServiceUnavailable)
		})}
	})},
	{"WithUnidentified", oneIn(4, func(m *model, _ *rand.Rand) []httplimit.Option {
		m.unidentifiedBy = http.StatusForbidden
		return []httplimit.Option{httplimit.WithUnidentified(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
		}))}
	})},
}

// chooseOutcomes returns the outcomes that an option names: none, which means all, or some.
func chooseOutcomes(random *rand.Rand) []httplimit.Outcome {
	some := []httplimit.Outcome{httplimit.Denied, httplimit.Settled, httplimit.GivenBack, httplimit.Unseen}
	return some[:pick(random, []int{0, 1, 4})]
}
