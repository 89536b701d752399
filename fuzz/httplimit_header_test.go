package fuzz

import (
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// FuzzHeaders makes requests of any cost at any time under two policies of any name and
// limits. It reads the response headers with an independent parser of structured fields
// (RFC 9651). They must agree with the answers of the limiter below.
func FuzzHeaders(f *testing.F) {
	for _, s := range []struct {
		name, unit     string
		count, window  int64
		other          int64
		costs, advance int64
	}{
		{"each", "", 3, int64(time.Minute), 5, 1, int64(time.Second)},
		{`"q" \s`, "content-bytes", 1000, 1500000000, 1, 700, 1},
		{"~ ", "", math.MaxInt64, math.MaxInt64, 9, math.MaxInt64, math.MaxInt64 / 3},
		{"x", "y", 1, 1, 1, 2, 0},
		{"huge", "", 1e15, int64(time.Hour), 1e15 + 1, 1e15, 999999999},
	} {
		f.Add(s.name, s.unit, s.count, s.window, s.other, s.costs, s.advance)
	}
	f.Fuzz(func(t *testing.T, name, unit string, count, window, other, cost, advance int64) {
		var costs int64
		clock := sash.NewManualClock(0)
		key := httplimit.By(func(*http.Request) (string, bool) { return name, true })
		first := httplimit.Policy{
			Name: "a" + name, Unit: unit, Limits: []sash.Limit{{Count: count, Window: time.Duration(window), Algorithm: sash.SlidingLog}}, Key: key,
			Cost: func(*http.Request) int64 { return costs },
		}
		second := httplimit.Policy{Name: "b", Limits: []sash.Limit{sash.Per(other, time.Minute).Counter(), sash.Per(other, time.Hour).Log()}, Key: key}
		l, err := httplimit.New(first, second,
			httplimit.WithClock(clock), httplimit.WithSweepInterval(-1), httplimit.WithXRateLimit(), httplimit.WithPartitionKey())
		if err != nil {
			return
		}
		h := l.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for i := range 4 {
			costs = cost >> i
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
			h.ServeHTTP(w, r)
			c := &answer{t, w, l, r}
			c.check(first, cost>>i, second)
			clock.Advance(time.Duration(max(advance>>(2*i), 0)))
		}
	})
}

// An answer is a response to check.
type answer struct {
	*testing.T
	*httptest.ResponseRecorder
	limiter *httplimit.Limiter
	request *http.Request
}

func (c *answer) check(first httplimit.Policy, cost int64, second httplimit.Policy) {
	c.Helper()
	policies, quotas := c.list("Ratelimit-Policy"), c.list("Ratelimit")
	if len(policies) != 3 || len(quotas) != 2 {
		c.Fatalf("%v", c.Header())
	}
	c.policy(policies[0], first.Name, first.Unit, first.Limits[0])
	c.policy(policies[1], "b-1m", "", second.Limits[0])
	c.policy(policies[2], "b-1h", "", second.Limits[1])
	c.quota(quotas[0], first)
	c.quota(quotas[1], second)
	if c.Code == http.StatusOK {
		if c.Header()["Retry-After"] != nil {
			c.Errorf("%v", c.Header())
		}
		return
	}
	c.denial(first, cost, second)
}

func (c *answer) list(name string) httpsfv.List {
	c.Helper()
	list, err := httpsfv.UnmarshalList(c.Header()[name])
	if err != nil {
		c.Fatalf("%s: %v: %q", name, err, c.Header()[name])
	}
	return list
}

const maxInteger = 999_999_999_999_999

// item returns the name and the parameters of a member. It checks that all parameters are
// known.
func (c *answer) item(m httpsfv.Member, known ...string) (name string, params func(string) any) {
	c.Helper()
	item, ok := m.(httpsfv.Item)
	if !ok {
		c.Fatalf("%#v", m)
	}
	for _, p := range item.Params.Names() {
		if !slices.Contains(known, p) {
			c.Errorf("parameter %s", p)
		}
	}
	pk, _ := item.Params.Get("pk")
	if b, ok := pk.([]byte); !ok || len(b) != 8 {
		c.Errorf("pk: %#v", pk)
	}
	return item.Value.(string), func(name string) any {
		value, _ := item.Params.Get(name)
		return value
	}
}

func (c *answer) policy(m httpsfv.Member, name, unit string, l sash.Limit) {
	c.Helper()
	got, params := c.item(m, "q", "qu", "w", "pk")
	if got != name || params("q") != min(l.Count, maxInteger) {
		c.Errorf("%q, want %q of %v", c.Header()["Ratelimit-Policy"], name, l)
	}
	if qu := params("qu"); unit == "" && qu != nil || unit != "" && qu != unit {
		c.Errorf("qu: %#v, want %q", qu, unit)
	}
	w, said := params("w").(int64)
	if said != (l.Window >= time.Second) || said && (w != ceil(l.Window)) {
		c.Errorf("w: %v %v, want %v", w, said, l.Window)
	}
}

// quotaName returns the name of the quota of p to which the limit of d belongs.
func quotaName(p httplimit.Policy, d sash.Decision) string {
	if len(p.Limits) == 1 {
		return p.Name
	}
	return p.Name + map[time.Duration]string{time.Minute: "-1m", time.Hour: "-1h"}[d.Limit.Window]
}

// quota checks an item of RateLimit against the answers of the limiter below, while the
// clock stands still. The item must name the quota that denies one unit more than is left.
func (c *answer) quota(m httpsfv.Member, p httplimit.Policy) {
	c.Helper()
	got, params := c.item(m, "r", "t", "pk")
	key, ok := c.limiter.KeyFor(p.Name, c.request)
	if !ok {
		c.Fatal("no key")
	}
	left := c.limiter.Sash().Peek(key, 0).Remaining
	if r := params("r"); r != min(left, maxInteger) {
		c.Errorf("r: %v, want %d", r, left)
	}
	next := c.limiter.Sash().Peek(key, left+1)
	if want := quotaName(p, next); got != want {
		c.Errorf("%q, want %q", got, want)
	}
	more := next.RetryAfter
	t, said := params("t").(int64)
	if said != (more != sash.Never) || said && t != ceil(more) {
		c.Errorf("t: %v %v, want %v", t, said, more)
	}
}

func (c *answer) denial(first httplimit.Policy, cost int64, second httplimit.Policy) {
	c.Helper()
	var problem struct {
		Type, Title string
		Status      int
		Violated    []string `json:"violated-policies"`
	}
	if err := json.Unmarshal(c.Body.Bytes(), &problem); err != nil || c.Code != 429 || problem.Status != 429 || c.Header().Get("Cache-Control") != "no-store" {
		c.Fatalf("%d %v %s: %v", c.Code, c.Header(), c.Body, err)
	}
	var want []string
	var wait time.Duration
	for _, asked := range []struct {
		policy httplimit.Policy
		n      int64
	}{{first, cost}, {second, 1}} {
		key, _ := c.limiter.KeyFor(asked.policy.Name, c.request)
		d := c.limiter.Sash().Peek(key, asked.n)
		wait = max(wait, d.RetryAfter)
		if !d.Allowed {
			want = append(want, quotaName(asked.policy, d))
		}
	}
	if !slices.Equal(want, problem.Violated) {
		c.Errorf("violated %q, want %q", problem.Violated, want)
	}
	said := c.Header().Get("Retry-After")
	if wait == sash.Never && said != "" || wait != sash.Never && said != strconv.FormatInt(ceil(wait), 10) {
		c.Errorf("Retry-After %q, want %v", said, wait)
	}
	for _, name := range []string{"X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"} {
		if n, err := strconv.ParseInt(c.Header().Get(name), 10, 64); err != nil || n < 0 {
			c.Errorf("%s: %q", name, c.Header()[name])
		}
	}
}

// ceil returns d in seconds, rounded up.
func ceil(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d-1)/time.Second) + 1
}
