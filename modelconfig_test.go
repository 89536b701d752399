package sash

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// A modelConfig is the options of a program's limiter, and what the program may do for them.
type modelConfig struct {
	rng          *rand.Rand
	limits       []Limit
	plans        map[string][]Limit // of WithLimitsFor, by key; nil for none
	chargeDenied bool
	observed     bool
	maxKeys      int
	overflow     Overflow
	maxWaiters   int // math.MaxInt: no bound
	sizeHint     int
	interval     time.Duration // of the janitor; negative: none
	bubbleClock  bool          // whether the clock is the bubble's, not a ManualClock
	start        int64         // of a ManualClock
	split        int           // the number of limits given by WithLimits

	// late is whether the clock may go back. Then no key is evicted and nothing is given back:
	// the reference would remember the time that such a key has seen.
	late bool

	features []string
}

// modelOptions are all options, and how a program draws them. Those that it may leave out it
// leaves out half of the time.
var modelOptions = []struct {
	name   string
	always bool
	draw   func(c *modelConfig)
}{
	{"Limit", true, (*modelConfig).drawLimits},
	{"WithLimits", false, func(c *modelConfig) { c.split = c.rng.IntN(len(c.limits) + 1) }},
	{"WithClock", true, (*modelConfig).drawClock},
	{"WithChargeDenied", false, func(c *modelConfig) { c.chargeDenied = c.rng.IntN(2) == 0 }},
	{"WithObserver", false, func(c *modelConfig) { c.observed = true }},
	{"WithSizeHint", false, func(c *modelConfig) { c.sizeHint = c.rng.IntN(1000) }},
	{"WithSweepInterval", false, (*modelConfig).drawInterval},
	{"WithLimitsFor", false, (*modelConfig).drawPlans},
	{"WithMaxKeys", false, (*modelConfig).drawMaxKeys},
	{"WithMaxWaiters", false, func(c *modelConfig) { c.maxWaiters = c.rng.IntN(5) }},
}

// drawConfig draws the options of the program with that seed.
func drawConfig(seed uint64) *modelConfig {
	c := &modelConfig{rng: rand.New(rand.NewPCG(seed, 0)), interval: -1, maxWaiters: math.MaxInt}
	for _, o := range modelOptions {
		if o.always || c.rng.IntN(2) == 0 {
			o.draw(c)
			c.features = append(c.features, o.name)
		}
	}
	for _, l := range c.limits {
		c.features = append(c.features, l.Algorithm.String())
	}
	if len(c.limits) > 1 {
		c.features = append(c.features, "several limits")
	}
	if c.late {
		c.features = append(c.features, "late readings")
	}
	if c.maxKeys > 0 {
		c.features = append(c.features, modelOverflows[c.overflow])
	}
	slices.Sort(c.features)
	c.features = slices.Compact(c.features)
	return c
}

var modelOverflows = map[Overflow]string{EvictLeastUsed: "EvictLeastUsed", DenyNew: "DenyNew", ShareOverflow: "ShareOverflow"}

var modelAlgorithms = []func(c *modelConfig, l Limit) Limit{
	SlidingCounter: func(_ *modelConfig, l Limit) Limit { return l.Counter() },
	SlidingLog:     func(_ *modelConfig, l Limit) Limit { return l.Log() },
	SlidingBuckets: func(c *modelConfig, l Limit) Limit {
		return l.Buckets(max(1, l.Window/time.Duration(1+c.rng.IntN(12))-time.Duration(c.rng.IntN(2))))
	},
	TokenBucket: func(c *modelConfig, l Limit) Limit {
		return l.TokenBucket(max(1, []int64{l.Count, 1, l.Count / 2, 2 * min(l.Count, 1<<50), 3}[c.rng.IntN(5)]))
	},
	SlidingParts: func(_ *modelConfig, l Limit) Limit { return l.Parts() },
	Concurrency:  func(_ *modelConfig, l Limit) Limit { return AtOnce(l.Count, l.Window) },
}

func (c *modelConfig) drawLimits() {
	n := 1
	if c.rng.IntN(3) == 0 {
		n = 2 + c.rng.IntN(3)
	}
	c.limits = c.someLimits(n)
}

// someLimits draws limits of different windows. So it is known from which of them another one
// takes its charges.
func (c *modelConfig) someLimits(n int) (limits []Limit) {
	for len(limits) < n {
		l := c.limit()
		if !slices.ContainsFunc(limits, func(o Limit) bool { return o.Window == l.Window }) {
			limits = append(limits, l)
		}
	}
	return limits
}

func (c *modelConfig) limit() Limit {
	windows := []time.Duration{1, 7, 1000, 999_983, time.Second, time.Minute, time.Hour, 24 * time.Hour}
	counts := []int64{1, 2, 3, 3, 5, 10, 10, 17, 100, 240, 500, 8191, 8192, 1 << 22, 1e9, 1e15}
	l := Per(counts[c.rng.IntN(len(counts))], windows[c.rng.IntN(len(windows))])
	if c.rng.IntN(40) == 0 {
		l.Count = 0
	}
	return modelAlgorithms[c.rng.IntN(len(modelAlgorithms))](c, l)
}

// retuned returns the limits with other Counts and Bursts, and other leases. What a token bucket lacks at
// readings before its Count has changed, and what is held then by another lease, is not defined.
func (c *modelConfig) retuned(rng *rand.Rand, limits []Limit) []Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		l := &limits[i]
		if *l == Unlimited() || rng.IntN(3) == 0 {
			continue
		}
		count := max(1, []int64{l.Count / 2, l.Count + 1, 2 * min(l.Count, 1<<50), 1 + rng.Int64N(20)}[rng.IntN(4)])
		if l.Algorithm == TokenBucket {
			l.Burst = max(1, []int64{l.Burst, l.Burst / 2, l.Burst + 1, l.Count}[rng.IntN(4)])
		}
		if l.Algorithm != TokenBucket || !c.late {
			l.Count = count
		}
		if l.Algorithm == Concurrency && !c.late && rng.IntN(2) == 0 {
			l.Window = max(1, []time.Duration{l.Window / 2, 2 * min(l.Window, 24*time.Hour), l.Window - 1}[rng.IntN(3)])
		}
	}
	return limits
}

func (c *modelConfig) drawClock() {
	switch c.rng.IntN(4) {
	case 0:
		c.bubbleClock = true
	case 1:
		c.late = true
	}
	c.start = []int64{0, -1, 1, -1e10, 1_700_000_000e9, math.MinInt64, -int64(time.Hour) - 1}[c.rng.IntN(7)]
}

func (c *modelConfig) drawInterval() {
	if !c.late {
		c.interval = []time.Duration{0, time.Millisecond, 3 * time.Second, time.Hour}[c.rng.IntN(4)]
	}
}

// drawPlans gives some keys limits of their own. One key gets wrong limits.
func (c *modelConfig) drawPlans() {
	names := modelNames()
	c.plans = map[string][]Limit{
		names[1]: c.someLimits(1),
		names[2]: c.someLimits(1 + c.rng.IntN(2)),
		names[3]: {Unlimited()},
		names[4]: {{Count: -1, Window: time.Second}},
	}
}

func (c *modelConfig) drawMaxKeys() {
	if c.late || c.bubbleClock {
		return
	}
	c.overflow = []Overflow{EvictLeastUsed, DenyNew, DenyNew, ShareOverflow}[c.rng.IntN(4)]
	c.maxKeys = 1 + c.rng.IntN(5)
}

// options returns the options of the limiter.
func (m *model) options() (options []Option) {
	options = append(options, WithLimits(m.limits[:m.split]...))
	for _, l := range m.limits[m.split:] {
		options = append(options, l)
	}
	options = append(options, WithClock(m.clock), WithSizeHint(m.sizeHint), WithSweepInterval(m.interval))
	if m.chargeDenied {
		options = append(options, WithChargeDenied())
	}
	if m.observed {
		options = append(options, WithObserver(m.observe))
	}
	if m.plans != nil {
		options = append(options, WithLimitsFor(func(key string) []Limit { return m.plans[key] }))
	}
	if m.maxKeys > 0 {
		options = append(options, WithMaxKeys(m.maxKeys, m.overflow))
	}
	if m.maxWaiters < math.MaxInt {
		options = append(options, WithMaxWaiters(m.maxWaiters))
	}
	return options
}

// modelHasher is the hasher of all models. So the same keys share a shard in all of them.
var modelHasher = sync.OnceValue(func() *hasher { h := newHasher(); return &h })

// modelNames returns the keys of the programs. Which of them share a shard does not depend on
// the seeds of the hasher: 0, 1 and 2 do, and 3 and 4, and 5 and 6.
var modelNames = sync.OnceValue(func() []string {
	names := []string{""}
	base := key{modelHasher().hash(""), ""}.shard()
	for i, shard := range []int{base, base, base + 1, base + 1, base + 2, base + 2, base + 3} {
		for n := 0; ; n++ {
			name := fmt.Sprintf("%d%06d%s", i+1, n, strings.Repeat("-", 7*i))
			if (key{modelHasher().hash(name), name}).shard() == shard%shards {
				names = append(names, name)
				break
			}
		}
	}
	return names
})

// modelName returns the key in a step for a reader.
func modelName(name string) string {
	if i := slices.Index(modelNames(), name); i >= 0 {
		return fmt.Sprintf("k%d", i)
	}
	return name
}
