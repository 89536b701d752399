package clientmodel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// Settings are the options of a Transport, one for each of its fields.
type Settings struct {
	Limits  []sash.Limit // of Limiter, or of Store
	Store   bool
	Lag     time.Duration // how long the Wait of a Store takes to see that its context has ended, or to begin
	Neither bool          // neither Limiter nor Store
	Both    bool
	Key     string // the name of one of keyFuncs; "" is none
	Cost    bool
	NoWait  bool
	MaxHold time.Duration
	MaxHeld int
	Base    bool // of a Transport that does not use it
}

// Options are the fields of httplimit.Transport, and the settings that set them.
var Options = map[string]string{
	"Limiter": "Limits", "Store": "Store", "Base": "Base", "Key": "Key", "Cost": "Cost",
	"NoWait": "NoWait", "MaxHold": "MaxHold", "MaxHeld": "MaxHeld",
}

// generous is a limit that no program reaches.
var generous = sash.PerSecond(1 << 30)

// keyFuncs are the Keys. The second function is what the first one does, on a Call.
var keyFuncs = map[string]struct {
	of httplimit.KeyFunc
	is func(p *Protocol, c *Call) (string, bool)
}{
	"host":   {httplimit.ByHost(), func(_ *Protocol, c *Call) (string, bool) { return hosts[c.Host].name, true }},
	"user":   {httplimit.ByHeader(UserHeader), func(_ *Protocol, c *Call) (string, bool) { return users[c.User], true }},
	"method": {httplimit.By(pathOf), func(p *Protocol, c *Call) (string, bool) { return p.Path(c.Kind, c.Method), true }},
	"all":    {httplimit.Everyone(), func(*Protocol, *Call) (string, bool) { return "", true }},
	"not ann": {httplimit.By(func(r *http.Request) (string, bool) {
		return r.Header.Get(UserHeader), r.Header.Get(UserHeader) != users[0]
	}), func(_ *Protocol, c *Call) (string, bool) { return users[c.User], c.User != 0 }},
}

func pathOf(r *http.Request) (string, bool) { return r.URL.Path, true }

// newSettings returns random settings. No rate keeps calls waiting that run at once.
func newSettings(r *rand.Rand, p *Protocol, inTurn bool) Settings {
	s := Settings{Limits: []sash.Limit{generous}, Store: one(r, 5), NoWait: one(r, 4), Cost: one(r, 3), Base: !p.HTTP && one(r, 2)}
	if inTurn && one(r, 2) {
		s.Limits = []sash.Limit{newPolicy(r).Limit}
		if one(r, 3) {
			s.Limits = append(s.Limits, sash.PerHour(4).TokenBucket(7))
		}
	}
	if !s.Store && one(r, 4) {
		s.holdUnits(r, inTurn)
	}
	if one(r, 2) {
		s.Key = pick(r, "host", "user", "method", "all", "not ann")
	}
	s.MaxHold = pick(r, 0, 0, 0, -1, 3*time.Second, 5*time.Hour, 50*time.Hour)
	if s.NoWait && one(r, 3) {
		s.MaxHold = sash.Never
	}
	s.MaxHeld = pick(r, 0, 0, 0, 1, 2, 3)
	if s.Store && one(r, 2) {
		s.Lag = newLag(r)
	}
	s.Neither, s.Both = one(r, 60), one(r, 60)
	return s
}

// newLag returns the lag of a slow Store.
func newLag(r *rand.Rand) time.Duration {
	return 1 + time.Duration(r.Int64N(int64(pick(r, time.Second, 20*time.Second, 10*time.Minute))))
}

// holdUnits adds a limit of the calls under way. Calls that run at once have it alone, and cost 1 each, so
// that all that wait for a unit can use the next one.
func (s *Settings) holdUnits(r *rand.Rand, inTurn bool) {
	l := sash.AtOnce(1+r.Int64N(3), pick(r, longest, longest, time.Second))
	if inTurn {
		s.Limits = append(s.Limits, l)
		return
	}
	s.Limits, s.Cost = []sash.Limit{l}, false
}

// holdsUnits reports whether calls hold units.
func (s *Settings) holdsUnits() bool {
	return slices.ContainsFunc(s.Limits, func(l sash.Limit) bool { return l.Algorithm == sash.Concurrency })
}

// transport returns a Transport with the settings. It must be called in the bubble of its time.
func (s *Settings) transport(costs func(*http.Request) int64) (t *httplimit.Transport, closes func()) {
	limiter := sash.Must(sash.New(sash.WithLimits(s.Limits...), sash.WithSweepInterval(-1)))
	t = &httplimit.Transport{Limiter: limiter, NoWait: s.NoWait, MaxHold: s.MaxHold, MaxHeld: s.MaxHeld}
	if s.Store || s.Both {
		t.Store = &store{limiter, s.Lag}
	}
	if s.Neither || s.Store && !s.Both {
		t.Limiter = nil
	}
	if s.Neither {
		t.Store = nil
	}
	if s.Key != "" {
		t.Key = keyFuncs[s.Key].of
	}
	if s.Cost {
		t.Cost = costs
	}
	if s.Base {
		t.Base = unused{}
	}
	return t, func() { limiter.Close() }
}

// key returns the key of a call.
func (s *Settings) key(p *Protocol, c *Call) (string, bool) {
	if s.Key == "" {
		return hosts[c.Host].name, true
	}
	return keyFuncs[s.Key].is(p, c)
}

// holdKey returns the key that a denial of a call holds back, which is charged to key.
func (s *Settings) holdKey(p *Protocol, c *Call, key string) string {
	if s.Key == "" && !p.HTTP {
		return key + p.Path(c.Kind, c.Method)
	}
	return key
}

// domain returns the domain of a key of holds.
func (s *Settings) domain(key string) string {
	name, _, _ := strings.Cut(key, "/")
	if i := slices.IndexFunc(hosts, func(h host) bool { return h.name == name }); i >= 0 && s.Key == "" {
		return hosts[i].domain
	}
	return key
}

// cost returns the cost of a call.
func (s *Settings) cost(c *Call) int64 {
	if s.Cost {
		return c.Cost
	}
	return 1
}

// refused reports whether every call is an error.
func (s *Settings) refused() bool { return s.Neither || s.Both }

func (s Settings) String() string {
	type plain Settings
	return fmt.Sprintf("%+v", plain(s))
}

// unused is a Base that is not used.
type unused struct{}

func (unused) RoundTrip(*http.Request) (*http.Response, error) { panic("Base was used") }

// A store is a Store that decides by a limiter of this process. Its Wait begins, and sees that its context
// has ended, only after a lag, as one in the middle of a round trip does.
type store struct {
	limiter *sash.Limiter
	lag     time.Duration
}

func (s *store) Take(_ context.Context, keys []string, n int64, _ []int64) httplimit.StoreDecision {
	return httplimit.StoreDecision{Decision: s.limiter.TakeAll(slices.Clone(keys), n), By: "store"}
}

func (s *store) Peek(_ context.Context, keys []string, n int64, _ []int64) httplimit.StoreDecision {
	return httplimit.StoreDecision{Decision: s.limiter.PeekAll(keys, n), By: "store"}
}

func (s *store) Reserve(ctx context.Context, keys []string, n int64, leave []int64) httplimit.StoreDecision {
	return s.Take(ctx, keys, n, leave)
}

func (s *store) Wait(ctx context.Context, key string, n int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	time.Sleep(s.lag)
	return s.limiter.Wait(ctx, key, n)
}

func (s *store) Close() error { return nil }
