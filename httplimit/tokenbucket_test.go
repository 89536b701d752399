package httplimit_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// costly returns a policy whose cost is the header Cost, or 1 without it.
func costly(name, pattern string, limits ...sash.Limit) httplimit.Policy {
	p := per(name, pattern, limits...)
	p.Cost = func(r *http.Request) int64 {
		if n, err := strconv.ParseInt(r.Header.Get("Cost"), 10, 64); err == nil {
			return n
		}
		return 1
	}
	return p
}

// A bucketStep is a request and the headers of its response. The request has a method, a
// path and perhaps a cost.
type bucketStep struct {
	at      time.Duration
	request string
	status  int
	headers string // as rateHeaders returns them
}

func (s *site) take(t *testing.T, steps []bucketStep) {
	t.Helper()
	for _, c := range steps {
		s.clock.Set(int64(c.at))
		request := strings.Fields(c.request)
		w := s.do(request[0]+" "+request[1], "X-Key", "k", "Cost", append(request, "")[2])
		require.Equal(t, c.status, w.Code, "%v %s", c.at, c.request)
		require.Equal(t, c.headers, rateHeaders(w.Header()), "%v %s", c.at, c.request)
	}
}

// bucketHeaders returns the headers of a response as rateHeaders does. quota is the
// response's RateLimit, policy its RateLimit-Policy, retry its Retry-After or empty, and
// older its X-RateLimit headers: limit, remaining and reset.
func bucketHeaders(quota, policy, retry string, older [3]int64) string {
	all := "Ratelimit: " + quota + "\nRatelimit-Policy: " + policy
	if retry != "" {
		all += "\nRetry-After: " + retry
	}
	return all + fmt.Sprintf("\nX-Ratelimit-Limit: %d\nX-Ratelimit-Remaining: %d\nX-Ratelimit-Reset: %d", older[0], older[1], older[2])
}

func TestHeaders_OfATokenBucket(t *testing.T) {
	s := newSite(t, httplimit.WithXRateLimit(), costly("api", "", sash.PerSecond(10).TokenBucket(100)))
	headers := func(quota, retry string, remaining, reset int64) string {
		return bucketHeaders(quota, `"api";q=100;w=10`, retry, [3]int64{100, remaining, reset})
	}
	s.take(t, []bucketStep{
		{0, "GET / 0", 200, headers(`"api";r=100`, "", 100, 0)},
		{0, "GET /", 200, headers(`"api";r=99;t=1`, "", 99, 1)},
		{0, "GET / 99", 200, headers(`"api";r=0;t=1`, "", 0, 10)},
		{0, "GET /", 429, headers(`"api";r=0;t=1`, "1", 0, 10)},
		// t is until there is more; Retry-After is until there is enough.
		{0, "GET / 25", 429, headers(`"api";r=0;t=1`, "3", 0, 10)},
		{2*time.Second + 499999999, "GET / 25", 429, headers(`"api";r=24;t=1`, "1", 24, 8)},
		{2*time.Second + 500000000, "GET / 25", 200, headers(`"api";r=0;t=1`, "", 0, 10)},
		// A cost above the burst is never admitted, so there is no Retry-After.
		{3 * time.Second, "GET / 101", 429, headers(`"api";r=5;t=1`, "", 5, 10)},
		{time.Minute, "GET / 101", 429, headers(`"api";r=100`, "", 100, 0)},
		{time.Minute, "GET / 100", 200, headers(`"api";r=0;t=1`, "", 0, 10)},
	})
}

func TestHeaders_OfTokenBucketsOfAnySize(t *testing.T) {
	const fast, large = 999 * time.Millisecond, 1 << 62
	for _, c := range []struct {
		name           string
		limit          sash.Limit
		cost           string
		status         int
		policy, quota  string
		retry          string
		limit64, reset int64
		remaining      int64
	}{
		{"slow", sash.PerHour(3).TokenBucket(7), "2", 200, `q=7;w=8400`, `r=5;t=1200`, "", 7, 2400, 5},
		{"no whole seconds", sash.PerSecond(3).TokenBucket(10), "10", 200, `q=10;w=4`, `r=0;t=1`, "", 10, 4, 0},
		{"one second", sash.Per(3, 3*time.Second).TokenBucket(1), "1", 200, `q=1;w=1`, `r=0;t=1`, "", 1, 1, 0},
		{"just over a second", sash.Per(1, time.Second+1).TokenBucket(1), "1", 200, `q=1;w=2`, `r=0;t=2`, "", 1, 2, 0},
		{"under a second", sash.Per(1, fast).TokenBucket(1), "1", 200, `q=1`, `r=0;t=1`, "", 1, 1, 0},
		{"rounded up to a second", sash.Per(3, 3*time.Second-1).TokenBucket(1), "1", 200, `q=1;w=1`, `r=0;t=1`, "", 1, 1, 0},
		{"full within a window", sash.PerDay(86400).TokenBucket(1), "1", 200, `q=1;w=1`, `r=0;t=1`, "", 1, 1, 0},
		{"at once", sash.Per(large, 1).TokenBucket(5), "5", 200, `q=5`, `r=0;t=1`, "", 5, 1, 0},
		{"more than is ever admitted", sash.PerSecond(10).TokenBucket(2), "3", 429, `q=2`, `r=2`, "", 2, 0, 2},
		{"none", sash.PerMinute(0).TokenBucket(5), "1", 429, `q=0;w=60`, `r=0`, "", 0, 0, 0},
		{"a large burst", sash.Per(large, time.Second).TokenBucket(large), "1", 200, `q=999999999999999;w=1`, `r=999999999999999;t=1`, "", large, 1, large - 1},
		{"filling for ever", sash.Per(1, time.Hour).TokenBucket(large), "2", 200, `q=999999999999999;w=9223372037`, `r=999999999999999;t=3600`, "", large, 7200, large - 2},
		{"filling for 292 years", sash.Per(1, 2).TokenBucket(large), "3", 200, `q=999999999999999;w=9223372037`, `r=999999999999999;t=1`, "", large, 1, large - 3},
		{"filling for more than 292 years", sash.Per(1, 3).TokenBucket(large), "3", 200, `q=999999999999999;w=9223372037`, `r=999999999999999;t=1`, "", large, 1, large - 3},
		{"filling for 584 years", sash.Per(1, 4).TokenBucket(large), "3", 200, `q=999999999999999;w=9223372037`, `r=999999999999999;t=1`, "", large, 1, large - 3},
		{"filling for longer than 64 bits tell", sash.Per(3, large).TokenBucket(large), "3", 200, `q=999999999999999;w=9223372037`, `r=999999999999999;t=1537228673`, "", large, 4611686019, large - 3},
	} {
		s := newSite(t, httplimit.WithXRateLimit(), costly("b", "", c.limit))
		w := s.do("GET /", "X-Key", "k", "Cost", c.cost)
		require.Equal(t, c.status, w.Code, c.name)
		want := bucketHeaders(`"b";`+c.quota, `"b";`+c.policy, c.retry, [3]int64{c.limit64, c.remaining, c.reset})
		require.Equal(t, want, rateHeaders(w.Header()), c.name)
	}
}

// A token bucket next to other limits of its policy, and next to other policies.
func TestHeaders_OfATokenBucketAndOtherLimits(t *testing.T) {
	s := newSite(t, httplimit.WithXRateLimit(),
		costly("two", "GET /two", sash.PerSecond(10).TokenBucket(20), sash.PerMinute(30).Log(), sash.PerSecond(50).Counter()),
		costly("out", "GET /both", sash.PerSecond(1).TokenBucket(5)), costly("in", "/both", sash.PerMinute(8).Log()),
		costly("free", "/free", sash.Unlimited(), sash.PerSecond(1).TokenBucket(2)))
	two := `"two-1s";q=20;w=2, "two-1m";q=30;w=60, "two-1s-2";q=50;w=1`
	both := `"out";q=5;w=5, "in";q=8;w=60`
	s.take(t, []bucketStep{
		{0, "GET /two", 200, bucketHeaders(`"two-1s";r=19;t=1`, two, "", [3]int64{20, 19, 60})},
		{0, "GET /two 19", 200, bucketHeaders(`"two-1s";r=0;t=1`, two, "", [3]int64{20, 0, 60})},
		{0, "GET /two 5", 429, bucketHeaders(`"two-1s";r=0;t=1`, two, "1", [3]int64{20, 0, 60})},
		// The bucket has more again after 100 ms, but the log has none until the minute is over.
		{time.Second, "GET /two 10", 200, bucketHeaders(`"two-1m";r=0;t=59`, two, "", [3]int64{30, 0, 60})},
		{time.Second, "GET /two", 429, bucketHeaders(`"two-1m";r=0;t=59`, two, "59", [3]int64{30, 0, 60})},

		{10 * time.Second, "GET /both 5", 200, bucketHeaders(`"out";r=0;t=1, "in";r=3;t=60`, both, "", [3]int64{5, 0, 5})},
		{10 * time.Second, "GET /both 3", 429, bucketHeaders(`"out";r=0;t=1, "in";r=3;t=60`, both, "3", [3]int64{5, 0, 5})},
		// The log denies for longer than the bucket, which would admit two.
		{12 * time.Second, "GET /both 4", 429, bucketHeaders(`"out";r=2;t=1, "in";r=3;t=58`, both, "58", [3]int64{8, 3, 58})},
		{12 * time.Second, "GET /both 2", 200, bucketHeaders(`"out";r=0;t=1, "in";r=1;t=58`, both, "", [3]int64{5, 0, 5})},

		{20 * time.Second, "GET /free", 200, bucketHeaders(`"free";r=1;t=1`, `"free";q=2;w=2`, "", [3]int64{2, 1, 1})},
	})
}

// A key that is given a token bucket of its own, and one whose policy has a bucket and that
// is given another limit.
func TestHeaders_OfATokenBucketOfAKeysOwn(t *testing.T) {
	s := newSite(t, httplimit.WithXRateLimit(), httplimit.WithPartitionKey(), costly("plan", "", sash.PerMinute(2).Log()))
	key := must(s.KeyFor("plan", newRequest("GET /", "X-Key", "k")))
	pk := regexp.MustCompile(";pk=:[^:]+:")
	check := func(want bucketStep) {
		t.Helper()
		s.clock.Set(int64(want.at))
		w := s.do("GET /", "X-Key", "k")
		require.Equal(t, want.status, w.Code)
		got := rateHeaders(w.Header())
		require.Len(t, pk.FindAllString(got, -1), 2)
		require.Equal(t, want.headers, pk.ReplaceAllString(got, ""))
	}
	require.NoError(t, s.Sash().SetLimits(key, sash.PerSecond(1).TokenBucket(3)))
	bucket := func(quota, retry string, remaining, reset int64) string {
		return bucketHeaders(quota, `"plan";q=3;w=3`, retry, [3]int64{3, remaining, reset})
	}
	check(bucketStep{0, "", 200, bucket(`"plan";r=2;t=1`, "", 2, 1)})
	check(bucketStep{0, "", 200, bucket(`"plan";r=1;t=1`, "", 1, 2)})
	check(bucketStep{0, "", 200, bucket(`"plan";r=0;t=1`, "", 0, 3)})
	check(bucketStep{0, "", 429, bucket(`"plan";r=0;t=1`, "1", 0, 3)})
	// Of the three units one has flowed back, so two are owed to the log of the policy.
	s.clock.Set(int64(time.Second))
	require.NoError(t, s.Sash().SetLimits(key))
	check(bucketStep{time.Second, "", 429, bucketHeaders(`"plan";r=0;t=60`, `"plan";q=2;w=60`, "60", [3]int64{2, 0, 60})})
}

// Under WithChargeDenied, a client that goes on is denied until it pauses. Retry-After and t
// count what its denied request was charged.
func TestHeaders_OfATokenBucketThatDeniedRequestsAreChargedTo(t *testing.T) {
	s := newSite(t, httplimit.WithXRateLimit(), httplimit.WithSash(sash.WithChargeDenied()),
		costly("slow", "", sash.Per(1, 4*time.Second).TokenBucket(3)))
	headers := func(quota, retry string, remaining, reset int64) string {
		return bucketHeaders(quota, `"slow";q=3;w=12`, retry, [3]int64{3, remaining, reset})
	}
	s.take(t, []bucketStep{
		{0, "GET / 3", 200, headers(`"slow";r=0;t=4`, "", 0, 12)},
		{2 * time.Second, "GET /", 429, headers(`"slow";r=0;t=4`, "4", 0, 12)},
		{5 * time.Second, "GET /", 429, headers(`"slow";r=0;t=4`, "4", 0, 12)},
		{8 * time.Second, "GET / 2", 429, headers(`"slow";r=0;t=4`, "8", 0, 12)},
		{12 * time.Second, "GET /", 200, headers(`"slow";r=0;t=4`, "", 0, 12)},
		// A denied request takes no more than there is.
		{18 * time.Second, "GET / 99", 429, headers(`"slow";r=0;t=4`, "", 0, 12)},
		{26 * time.Second, "GET / 3", 429, headers(`"slow";r=0;t=4`, "12", 0, 12)},
	})

	// Of two policies, the one that would admit a request is charged for it, too.
	s = newSite(t, httplimit.WithSash(sash.WithChargeDenied()),
		costly("few", "", sash.PerMinute(1).TokenBucket(1)), costly("many", "", sash.PerHour(1).TokenBucket(10)))
	require.Equal(t, []int{200, 429, 429}, s.codes(3, "GET /", "X-Key", "k"))
	require.EqualValues(t, 7, s.left(t, "many"))
}

// What a client is told is true: it is denied before Retry-After, less the second to which
// that is rounded up, and admitted after it; there is more after t, and not a second before;
// and it is never denied while it spends no more than q in any w.
func TestHeaders_OfTokenBucketsTellTheTruth(t *testing.T) {
	number := func(h http.Header, field, parameter string) (n int64, ok bool) {
		found := regexp.MustCompile(";" + parameter + `=(\d+)`).FindStringSubmatch(h.Get(field))
		if found == nil {
			return 0, false
		}
		n, err := strconv.ParseInt(found[1], 10, 64)
		require.NoError(t, err)
		return n, true
	}
	type spent struct{ at, units int64 }
	retries, times, kept := 0, 0, 0
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 5))
		limit := sash.Per(1+random.Int64N(50), time.Duration(1+random.IntN(20_000))*time.Millisecond).TokenBucket(1 + random.Int64N(30))
		s := newSite(t, costly("b", "", limit))
		ask := func(cost int64) (int, http.Header) {
			w := s.do("GET /", "X-Key", "k", "Cost", strconv.FormatInt(cost, 10))
			return w.Code, w.Header()
		}
		units, _ := number(s.do("GET /", "X-Key", "k", "Cost", "0").Header(), "RateLimit-Policy", "q")
		window, hasWindow := number(s.do("GET /", "X-Key", "k", "Cost", "0").Header(), "RateLimit-Policy", "w")
		require.Equal(t, limit.Burst, units)

		// A client that keeps to q in any w.
		var history []spent
		for range 100 {
			s.clock.Advance(time.Duration(random.Int64N(int64(time.Duration(window+1) * time.Second / 4))))
			now, left := s.clock.Now(), units
			for _, h := range history {
				if now-h.at < window*int64(time.Second) {
					left -= h.units
				}
			}
			if n := left - random.Int64N(3); hasWindow && n > 0 {
				code, _ := ask(n)
				require.Equal(t, 200, code, "%v, %d units at %v", limit, n, time.Duration(now))
				history = append(history, spent{now, n})
				kept++
			}
		}

		// A client that asks for anything, and obeys.
		for range 50 {
			s.clock.Advance(time.Duration(random.Int64N(int64(2 * time.Second))))
			n := 1 + random.Int64N(units)
			code, h := ask(n)
			if code == http.StatusTooManyRequests {
				wait, err := strconv.Atoi(h.Get("Retry-After"))
				require.NoError(t, err)
				s.clock.Advance(time.Duration(wait-1) * time.Second)
				code, _ = ask(n)
				require.Equal(t, http.StatusTooManyRequests, code, "%v admits before it says", limit)
				s.clock.Advance(time.Second)
				code, h = ask(n)
				require.Equal(t, http.StatusOK, code, "%v denies after it says", limit)
				retries++
			}
			if more, ok := number(h, "RateLimit", "t"); ok {
				left := remaining(t, h, "b")
				s.clock.Advance(time.Duration(more-1) * time.Second)
				_, h = ask(0)
				require.Equal(t, left, remaining(t, h, "b"), "%v has more before it says", limit)
				s.clock.Advance(time.Second)
				_, h = ask(0)
				require.Greater(t, remaining(t, h, "b"), left, "%v has no more when it says", limit)
				times++
			}
		}
	}
	for _, n := range []int{retries, times, kept} {
		require.Greater(t, n, 500, "this traffic tells nothing")
	}
}

// A request that is given back leaves a bucket as if it had never come.
func TestCharge_OfATokenBucketIsGivenBack(t *testing.T) {
	p := per("login", "", sash.PerMinute(1).TokenBucket(2))
	p.Charge = func(status int) bool { return status == http.StatusUnauthorized }
	s := newSite(t, p)
	status := http.StatusOK
	s.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	require.Equal(t, []int{200, 200, 200, 200}, s.codes(4, "GET /", "X-Key", "k"))
	require.EqualValues(t, 2, s.left(t, "login"))
	status = http.StatusUnauthorized
	require.Equal(t, []int{401, 401, 429}, s.codes(3, "GET /", "X-Key", "k"))

	// While a request is under way, the bucket fills. Another request then finds it full, so
	// nothing comes back.
	s.clock.Advance(time.Hour)
	status = http.StatusOK
	s.answer = func(w http.ResponseWriter, _ *http.Request) {
		s.clock.Advance(time.Hour)
		s.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }
		require.Equal(t, []int{401}, s.codes(1, "GET /", "X-Key", "k"))
		w.WriteHeader(status)
	}
	require.Equal(t, []int{200}, s.codes(1, "GET /", "X-Key", "k"))
	require.EqualValues(t, 1, s.left(t, "login"))
}

func TestNew_SweepsByTheTimeInWhichATokenBucketFills(t *testing.T) {
	for _, c := range []struct {
		limit sash.Limit
		first time.Duration // of the sweeps
	}{
		{sash.PerSecond(1).TokenBucket(60), 30 * time.Second},
		{sash.PerHour(60).TokenBucket(1), 30 * time.Second},
		{sash.Per(1, 1<<62).TokenBucket(1 << 62), 10 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := httplimit.Must(httplimit.New(per("a", "", sash.Per(1, 1)), per("b", "", c.limit)))
			defer l.Close()
			<-time.After(c.first - time.Second)
			require.Zero(t, l.Sash().Stats().Sweeps, c.limit)
			<-time.After(2 * time.Second)
			synctest.Wait()
			require.EqualValues(t, 1, l.Sash().Stats().Sweeps, c.limit)
		})
	}
}
