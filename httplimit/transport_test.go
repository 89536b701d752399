package httplimit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
)

// A farEnd answers the requests of a Transport without a network.
type farEnd func(r *http.Request) (*http.Response, error)

func (f farEnd) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// kept returns the keys that cost memory: where a request waits, or that are or were held back.
func (s *gates) kept() map[string]bool {
	keys := map[string]bool{}
	for key := range s.byKey {
		keys[key] = true
	}
	for key := range s.holds {
		keys[key] = true
	}
	return keys
}

// says returns a response with that status and headers: pairs of name and value.
func says(status int, headers ...string) *http.Response {
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: status, Header: h, Body: http.NoBody}
}

// saysTwice returns a response with two lines of one header.
func saysTwice(status int, name, first, second string) *http.Response {
	response := says(status, name, first)
	response.Header.Add(name, second)
	return response
}

func answersOK(*http.Request) (*http.Response, error) { return says(200), nil }

// A sentBody is a body that counts its reads and closes.
type sentBody struct{ reads, closes int }

func (b *sentBody) Read([]byte) (int, error) { b.reads++; return 0, io.EOF }
func (b *sentBody) Close() error             { b.closes++; return nil }

func newOutgoing(t *testing.T, limit sash.Limit, options ...sash.Option) *sash.Limiter {
	l := sash.Must(sash.New(append(options, limit)...))
	t.Cleanup(func() { l.Close() })
	return l
}

// get sends a request to url through tr, and returns its body and the error.
func get(ctx context.Context, tr *Transport, url string) (*sentBody, error) {
	body := new(sentBody)
	r, err := http.NewRequestWithContext(ctx, "POST", url, body)
	if err != nil {
		return body, err
	}
	_, err = tr.RoundTrip(r)
	return body, err
}

func TestTransport_LetsEachHostWaitForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var mu sync.Mutex
		sent := map[string][]time.Duration{}
		tr := &Transport{
			Limiter: newOutgoing(t, sash.PerSecond(2).Log()),
			Base: farEnd(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				sent[r.URL.Path] = append(sent[r.URL.Path], time.Since(start))
				return says(200), nil
			}),
		}
		for _, u := range []string{
			"http://a.example/a", "http://A.example.:80/a", "HTTP://a.EXAMPLE/a", "http://a.example/a", "http://a.example:80/a",
			"https://b.example:443/b", "https://b.example./b", "https://B.example:/b",
			"http://a.example:8080/port", "http://[2001:DB8::1]:80/v6", "http://[2001:db8:0::1]/v6", "https://a.example:80/other",
		} {
			go func() {
				_, err := get(t.Context(), tr, u)
				require.NoError(t, err)
			}()
		}
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, map[string][]time.Duration{
			"/a":     {0, 0, time.Second, time.Second, 2 * time.Second},
			"/b":     {0, 0, time.Second},
			"/port":  {0},
			"/v6":    {0, 0},
			"/other": {0},
		}, sent)
		require.Empty(t, tr.gates.kept())
	})
}

// A token bucket paces the requests of a host: as many at once as it holds, and then one
// each Window/Count. That is exact, and so it is after any number of requests.
func TestTransport_PacesByATokenBucket(t *testing.T) {
	for _, c := range []struct {
		limit    sash.Limit
		requests int
	}{
		{sash.PerSecond(10).TokenBucket(100), 150},
		{sash.PerSecond(3).TokenBucket(2), 60},               // an interval that is no whole number of nanoseconds
		{sash.Per(12345, time.Minute).TokenBucket(50), 200},  // one whose state takes more than a word
		{sash.Per(2, 50*time.Nanosecond).TokenBucket(1), 10}, // a short one
		{sash.PerHour(7).TokenBucket(3), 10},                 // a long one
	} {
		synctest.Test(t, func(t *testing.T) {
			var mu sync.Mutex
			var sent []time.Duration
			start := time.Now()
			tr := &Transport{Limiter: newOutgoing(t, c.limit), Base: farEnd(func(*http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				sent = append(sent, time.Since(start))
				return says(200), nil
			})}
			all := func(requests int) {
				sent, start = nil, time.Now()
				var g sync.WaitGroup
				for range requests {
					g.Go(func() { get(t.Context(), tr, "http://a.example/") })
				}
				g.Wait()
			}
			var want []time.Duration
			for i := range int64(c.requests) {
				intervals := max(i-c.limit.Burst+1, 0)
				want = append(want, time.Duration((intervals*int64(c.limit.Window)+c.limit.Count-1)/c.limit.Count))
			}
			all(c.requests)
			require.Equal(t, want, sent, c.limit)
			<-time.After(time.Duration(c.limit.Burst+1) * c.limit.Window) // long enough for the bucket to fill
			all(c.requests)
			require.Equal(t, want, sent, "%v, after a pause", c.limit)
			require.Empty(t, tr.gates.kept())
		})
	}
}

// A request that costs more waits for as long as its units take to flow back; one that costs
// more than a bucket holds is an error, and so is one whose deadline is too soon.
func TestTransport_TakesCostsFromATokenBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start, sent := time.Now(), time.Duration(-1)
		tr := &Transport{
			Limiter: newOutgoing(t, sash.PerSecond(10).TokenBucket(100)),
			Cost:    func(r *http.Request) int64 { n, _ := strconv.ParseInt(r.URL.Path[1:], 10, 64); return n },
			Base: farEnd(func(*http.Request) (*http.Response, error) {
				sent = time.Since(start)
				return says(200), nil
			}),
		}
		for _, c := range []struct{ path, at string }{{"100", "0s"}, {"1", "100ms"}, {"25", "2.6s"}, {"100", "12.6s"}} {
			_, err := get(t.Context(), tr, "http://a.example/"+c.path)
			require.NoError(t, err)
			require.Equal(t, c.at, sent.String(), c.path)
		}
		_, err := get(t.Context(), tr, "http://a.example/101")
		require.ErrorIs(t, err, sash.ErrExceedsLimit)
		ctx, cancel := context.WithTimeout(t.Context(), 499*time.Millisecond)
		defer cancel()
		_, err = get(ctx, tr, "http://a.example/5")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 12600*time.Millisecond, time.Since(start), "at once")

		tr.NoWait = true
		_, err = get(t.Context(), tr, "http://a.example/7")
		require.Equal(t, &TurnError{RetryAfter: 700 * time.Millisecond}, err)
		_, err = get(t.Context(), tr, "http://a.example/101")
		require.ErrorIs(t, err, sash.ErrExceedsLimit)
		require.ErrorContains(t, err, "a cost of 101 under a limit of 10/1s burst 100")
	})
}

func TestTransport_HoldsBackAsAsked(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	date := now.Format(http.TimeFormat)
	for name, c := range map[string]struct {
		response *http.Response
		longest  time.Duration
		want     time.Duration
	}{
		"429":                 {response: says(429, "Retry-After", "7"), want: 7 * time.Second},
		"503":                 {response: says(503, "Retry-After", "007"), want: 7 * time.Second},
		"date":                {response: says(429, "Date", date, "Retry-After", "Fri, 20 Nov 2026 12:01:30 GMT"), want: 90 * time.Second},
		"RFC 850":             {response: says(429, "Date", date, "Retry-After", "Friday, 20-Nov-26 12:01:30 GMT"), want: 90 * time.Second},
		"asctime":             {response: says(429, "Date", date, "Retry-After", "Fri Nov 20 12:01:30 2026"), want: 90 * time.Second},
		"too long":            {response: says(429, "Retry-After", "3601"), want: time.Hour},
		"far too long":        {response: says(429, "Retry-After", "9223372037"), want: time.Hour},
		"no int64":            {response: says(429, "Retry-After", "99999999999999999999999999"), want: time.Hour},
		"far date":            {response: says(429, "Date", date, "Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"), want: time.Hour},
		"own bound":           {response: says(429, "Retry-After", "60"), longest: 5 * time.Second, want: 5 * time.Second},
		"not heeded":          {response: says(429, "Retry-After", "60"), longest: -1},
		"zero":                {response: says(429, "Retry-After", "0")},
		"past date":           {response: says(429, "Date", date, "Retry-After", "Fri, 20 Nov 2026 11:59:59 GMT")},
		"this very date":      {response: says(429, "Date", date, "Retry-After", date)},
		"none":                {response: says(429)},
		"negative":            {response: says(429, "Retry-After", "-7")},
		"signed":              {response: says(429, "Retry-After", "+7")},
		"fraction":            {response: says(429, "Retry-After", "1.5"), want: 2 * time.Second},
		"small fraction":      {response: says(503, "Retry-After", "0.001"), want: time.Second},
		"fraction of nothing": {response: says(429, "Retry-After", "7.00"), want: 7 * time.Second},
		"huge fraction":       {response: says(429, "Retry-After", "9223372036.5"), want: time.Hour},
		"no fraction":         {response: says(429, "Retry-After", "7.")},
		"only a fraction":     {response: says(429, "Retry-After", ".5")},
		"two fractions":       {response: says(429, "Retry-After", "1.5.5")},

		"quota used up":              {response: says(429, "RateLimit", `"a";r=0;t=30`), want: 30 * time.Second},
		"used up by an error":        {response: says(404, "RateLimit", `"a";r=0;t=30`)},
		"used up, denied":            {response: says(429, "RateLimit", `"a";r=0;t=30`), want: 30 * time.Second},
		"used up, and retry sooner":  {response: says(429, "RateLimit", `"a";r=0;t=30`, "Retry-After", "7"), want: 7 * time.Second},
		"used up, and no denial":     {response: says(200, "RateLimit", `"a";r=0;t=30`, "Retry-After", "7")},
		"used up, and admitted":      {response: says(200, "RateLimit", `"a";r=0;t=30`)},
		"used up, wrongly denied":    {response: says(429, "RateLimit", `"a";r=0;t=30`, "Retry-After", "soon"), want: 30 * time.Second},
		"used up for too long":       {response: says(429, "RateLimit", `"a";r=0;t=999999999999999`), want: time.Hour},
		"used up, own bound":         {response: says(429, "RateLimit", `"a";r=0;t=60`), longest: 5 * time.Second, want: 5 * time.Second},
		"used up, not heeded":        {response: says(429, "RateLimit", `"a";r=0;t=60`), longest: -1},
		"used up, no time":           {response: says(429, "RateLimit", `"a";r=0`)},
		"used up, and back":          {response: says(429, "RateLimit", `"a";r=0;t=0`)},
		"left":                       {response: says(429, "RateLimit", `"a";r=1;t=30`)},
		"left, ten":                  {response: says(429, "RateLimit", `"a";r=10;t=30`)},
		"nothing left to say":        {response: says(429, "RateLimit", `"a";t=30`)},
		"several policies":           {response: says(429, "RateLimit", `"a";r=0;t=5, "b";r=0;t=40,"c";r=0;t=7 , "d";r=1;t=99`), want: 40 * time.Second},
		"several lines":              {response: saysTwice(429, "RateLimit", `"a";r=0;t=5`, `"b";r=0;t=40`), want: 40 * time.Second},
		"more parameters":            {response: says(429, "RateLimit", `"a";pk=:sdfjLJUOUH==:;t=30; x;y=?0; z="r=1,\";r=2;t=3";r=0;w=1.5;v=tok/en;u=@-17;q=-3`), want: 30 * time.Second},
		"a display string":           {response: says(429, "RateLimit", `"a";y=%"\";r=0;t=30`), want: 30 * time.Second},
		"a parameter without a name": {response: says(429, "RateLimit", `"a";;r=0;t=30`)},
		"a value without a name":     {response: says(429, "RateLimit", `"a";r=0;t=30;=1`)},
		"a name like a quota":        {response: says(429, "RateLimit", `"a\";r=0;t=50,";r=3;t=4, "b;r=0;t=60";r=0;t=6`), want: 6 * time.Second},
		"a token for a name":         {response: says(429, "RateLimit", `default;r=0;t=30`), want: 30 * time.Second},
		"the last parameter holds":   {response: says(429, "RateLimit", `"a";r=0;r=1;t=30, "b";r=0;t=50;t=6`), want: 6 * time.Second},
		"a fraction of t":            {response: says(429, "RateLimit", `"a";r=0;t=1.5`), want: 2 * time.Second},
		"no number left":             {response: says(429, "RateLimit", `"a";r="0";t=30, "b";r;t=30, "c";r=0.0;t=30, "d";r=-1;t=30`)},
		"no number of seconds":       {response: says(429, "RateLimit", `"a";r=0;t="30", "b";r=0;t, "c";r=0;t=-30, "d";r=0;t=soon`)},
		"an old draft":               {response: says(429, "RateLimit", `limit=100, remaining=0, reset=30`)},
		"cut short":                  {response: says(429, "RateLimit", `"a";r=0;t=30, "b`)},
		"a comma at the end":         {response: says(429, "RateLimit", `"a";r=0;t=30,`)},
		"no comma":                   {response: says(429, "RateLimit", `"a";r=0;t=30 "b"`)},
		"an inner list":              {response: says(429, "RateLimit", `("a");r=0;t=30`)},
		"no name":                    {response: says(429, "RateLimit", `;r=0;t=30`)},
		"a huge number":              {response: says(429, "RateLimit", `"a";r=0;t=1234567890123456`)},
		"empty":                      {response: says(429, "RateLimit", ``)},
		"duration":                   {response: says(429, "Retry-After", "7s")},
		"other digits":               {response: says(429, "Retry-After", "٧")},
		"garbage":                    {response: says(429, "Retry-After", "\x00soon, I hope")},
		"another zone":               {response: says(429, "Date", date, "Retry-After", "Fri, 20 Nov 2026 12:01:30 CET")},
		"success":                    {response: says(200, "Retry-After", "7")},
		"redirect":                   {response: says(301, "Retry-After", "7")},
		"500":                        {response: says(500, "Retry-After", "7")},
		"date, by our own time":      {response: says(429, "Retry-After", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))},
	} {
		t.Run(name, func(t *testing.T) {
			clock := sash.NewManualClock(0)
			tr := &Transport{
				Limiter: newOutgoing(t, sash.PerHour(100).Log(), sash.WithClock(clock)),
				Base:    farEnd(func(*http.Request) (*http.Response, error) { return c.response, nil }),
				MaxHold: c.longest, NoWait: true,
			}
			_, err := get(t.Context(), tr, "http://a.example/")
			require.NoError(t, err)
			require.Equal(t, c.want, tr.gates.heldFor("a.example", tr.clock()))
			require.Zero(t, tr.gates.heldFor("b.example", tr.clock()))
			if c.want == 0 {
				require.Empty(t, tr.gates.kept())
				return
			}
			clock.Advance(c.want - 1)
			body, err := get(t.Context(), tr, "http://a.example/")
			require.Equal(t, &TurnError{RetryAfter: 1, Held: true}, err)
			require.Equal(t, &sentBody{closes: 1}, body)
			require.EqualValues(t, 99, tr.Limiter.Peek("a.example", 0).Remaining, "what is held back is not charged")
			clock.Advance(1)
			_, err = get(t.Context(), tr, "http://a.example/")
			require.NoError(t, err)
		})
	}
}

// Without a Date of the server, a Retry-After with a date is compared with the local time,
// which the synctest bubble controls.
func TestTransport_HoldsBackUntilADate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(90 * time.Second).UTC()
		response := says(503, "Retry-After", until.Format(http.TimeFormat))
		tr := &Transport{
			Limiter: newOutgoing(t, sash.PerHour(100)),
			Base:    farEnd(func(*http.Request) (*http.Response, error) { return response, nil }),
		}
		for range 2 {
			_, err := get(t.Context(), tr, "http://a.example/")
			require.NoError(t, err)
		}
		require.Equal(t, until, time.Now().UTC())
	})
}

// Requests that are held back are sent exactly when the Limiter's clock has passed the
// time, even a clock that is advanced manually.
func TestTransport_SendsWhatWasHeldBackOnAManualClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := sash.NewManualClock(0)
		var sent atomic.Int64
		tr := &Transport{
			Limiter: newOutgoing(t, sash.PerMinute(2).Log(), sash.WithClock(clock)),
			Base: farEnd(func(*http.Request) (*http.Response, error) {
				if sent.Add(1) == 1 {
					return says(429, "Retry-After", "10"), nil
				}
				return says(200), nil
			}),
		}
		_, err := get(t.Context(), tr, "http://a.example/")
		require.NoError(t, err)
		for range 4 {
			go get(t.Context(), tr, "http://a.example/")
		}
		for _, step := range []struct {
			advance time.Duration
			want    int64
		}{
			{0, 1}, {10*time.Second - 1, 1}, {1, 2}, // the second of this minute
			{50*time.Second - 1, 2}, {1, 3}, {10 * time.Second, 4}, {50 * time.Second, 5},
		} {
			clock.Advance(step.advance)
			synctest.Wait()
			require.Equal(t, step.want, sent.Load(), "%+v", step)
		}
		require.Empty(t, tr.gates.kept())
	})
}

// A request that waits for the limiter when the server asks to wait is held back too. It is
// not charged for its first wait.
func TestTransport_HoldsBackWhatWaitsAlready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		asks := make(chan struct{})
		var mu sync.Mutex
		var sent []time.Duration
		tr := &Transport{
			Limiter: newOutgoing(t, sash.PerSecond(1).Log()),
			Base: farEnd(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				sent = append(sent, time.Since(start))
				first := len(sent) == 1
				mu.Unlock()
				if first {
					<-asks
					return says(429, "Retry-After", "30"), nil
				}
				return says(200), nil
			}),
		}
		short, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		tooSoon := make(chan error, 1)
		go get(t.Context(), tr, "http://a.example/")
		synctest.Wait()
		for range 3 {
			go get(t.Context(), tr, "http://a.example/")
		}
		synctest.Wait()
		go func() {
			_, err := get(short, tr, "http://a.example/")
			tooSoon <- err
		}()
		<-time.After(500 * time.Millisecond)
		close(asks)
		synctest.Wait()
		require.ErrorIs(t, <-tooSoon, context.DeadlineExceeded, "at once")
		<-time.After(time.Minute)
		synctest.Wait()
		require.Equal(t, []time.Duration{0, 30500 * time.Millisecond, 31500 * time.Millisecond, 32500 * time.Millisecond}, sent)
		require.Empty(t, tr.gates.kept())
	})
}

// A request of a key that is held back must also be admitted by the limiter. Under NoWait it is told the
// later of both, and nothing is charged, so that it is sent after that time.
func TestTransport_TellsTheLaterOfItsHoldAndItsLimiter(t *testing.T) {
	limited := sash.PerMinute(1).Log()
	for name, c := range map[string]struct {
		limits []sash.Limit
		used   int64
		hold   time.Duration
		want   TurnError
	}{
		"the hold":     {[]sash.Limit{limited}, 1, 2 * time.Minute, TurnError{RetryAfter: 2 * time.Minute, Held: true}},
		"the limiter":  {[]sash.Limit{limited}, 1, 10 * time.Second, TurnError{RetryAfter: 59 * time.Second}},
		"both":         {[]sash.Limit{limited}, 1, 59 * time.Second, TurnError{RetryAfter: 59 * time.Second, Held: true}},
		"it admits":    {[]sash.Limit{limited}, 0, 10 * time.Second, TurnError{RetryAfter: 10 * time.Second, Held: true}},
		"a bucket":     {[]sash.Limit{sash.PerMinute(2).TokenBucket(2)}, 2, 10 * time.Second, TurnError{RetryAfter: 29 * time.Second}},
		"a long lease": {[]sash.Limit{sash.AtOnce(1, time.Hour)}, 1, time.Millisecond, TurnError{RetryAfter: time.Second}},
		"a lease and a rate": {[]sash.Limit{sash.AtOnce(1, time.Hour), sash.PerMinute(1).Log()}, 1, time.Millisecond,
			TurnError{RetryAfter: 59 * time.Second}},
		"a long hold and a lease": {[]sash.Limit{sash.AtOnce(1, time.Hour)}, 1, 10 * time.Second,
			TurnError{RetryAfter: 10 * time.Second, Held: true}},
	} {
		for _, options := range [][]sash.Option{nil, {sash.WithChargeDenied()}} {
			t.Run(name, func(t *testing.T) {
				clock := sash.NewManualClock(0)
				options := append(options, sash.WithClock(clock), sash.WithLimits(c.limits[1:]...))
				tr := &Transport{Limiter: newOutgoing(t, c.limits[0], options...), Base: farEnd(answersOK), NoWait: true}
				used, d := tr.Limiter.Reserve("a.example", c.used)
				require.True(t, d.Allowed)
				clock.Advance(time.Second)
				tr.HoldBack("a.example", c.hold)
				before := tr.Limiter.Peek("a.example", 0)
				for range 3 {
					_, err := get(t.Context(), tr, "http://a.example/")
					require.Equal(t, &c.want, err)
				}
				require.Equal(t, before, tr.Limiter.Peek("a.example", 0), "nothing is charged")
				clock.Advance(c.want.RetryAfter)
				used.Release()
				_, err := get(t.Context(), tr, "http://a.example/")
				require.NoError(t, err)
			})
		}
	}
}

// What the limiter alone is sure to refuse is refused at once, though the key is held back.
func TestTransport_RefusesWhatTheLimiterRefusesThoughHeldBack(t *testing.T) {
	for name, c := range map[string]struct {
		cost     int64
		deadline time.Duration // 0: none
		hold     time.Duration
		noWait   bool
		want     error
		says     string
	}{
		"more than the limit":             {cost: 2, hold: time.Minute, want: sash.ErrExceedsLimit, says: "2 is more than 1/1h0m0s log ever admits"},
		"a negative cost":                 {cost: -1, hold: time.Minute, want: sash.ErrExceedsLimit, says: "got -1"},
		"more than the limit, no waiting": {cost: 2, hold: time.Minute, noWait: true, want: sash.ErrExceedsLimit, says: "a cost of 2 under a limit of 1/1h0m0s log"},
		"a negative cost, no waiting":     {cost: -1, hold: time.Minute, noWait: true, want: sash.ErrExceedsLimit, says: "a cost of -1"},
		"more, and beyond the deadline":   {cost: 2, deadline: time.Second, hold: time.Minute, want: sash.ErrExceedsLimit, says: "2 is more than"},
		"the limiter is too late": {cost: 1, deadline: 30 * time.Minute, hold: time.Minute, want: context.DeadlineExceeded,
			says: "httplimit: not sent: the limiter admits it in 1h0m0s at the earliest: context deadline exceeded"},
		"both are, and the limiter is later": {cost: 1, deadline: time.Second, hold: time.Minute, want: context.DeadlineExceeded,
			says: "the server asked to wait for another 1m0s: context deadline exceeded"},
		"both are, and the hold is later": {cost: 1, deadline: time.Second, hold: 2 * time.Hour, want: context.DeadlineExceeded,
			says: "the server asked to wait for another 2h0m0s: context deadline exceeded"},
		"a cost of 0": {cost: 0, deadline: time.Second, hold: time.Minute, want: context.DeadlineExceeded,
			says: "the server asked to wait for another 1m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := &Transport{
					Limiter: newOutgoing(t, sash.PerHour(1).Log()), NoWait: c.noWait, MaxHold: 5 * time.Hour,
					Base: farEnd(func(*http.Request) (*http.Response, error) { panic("it was sent") }),
					Cost: func(*http.Request) int64 { return c.cost },
				}
				require.True(t, tr.Limiter.Allow("a.example"))
				tr.HoldBack("a.example", c.hold)
				ctx, start := t.Context(), time.Now()
				if c.deadline > 0 {
					until, cancel := context.WithTimeout(ctx, c.deadline)
					defer cancel()
					ctx = until
				}
				_, err := get(ctx, tr, "http://a.example/")
				require.ErrorIs(t, err, c.want)
				require.ErrorContains(t, err, c.says)
				require.Equal(t, start, time.Now(), "at once")
				turn := new(TurnError)
				require.Equal(t, strings.Contains(c.says, "the server"), errors.As(err, &turn), "it is since the server asked to wait")
			})
		})
	}
}

// Wrong limits are no quota that a request exceeds, whether it may wait or not, and is held back or not.
func TestTransport_TellsOfWrongLimits(t *testing.T) {
	for _, noWait := range []bool{false, true} {
		for _, held := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				wrong := sash.WithLimitsFor(func(string) []sash.Limit { return []sash.Limit{{Count: -1}} })
				tr := &Transport{Limiter: newOutgoing(t, sash.PerHour(1), wrong), NoWait: noWait}
				if held {
					tr.HoldBack("a.example", time.Minute)
				}
				start := time.Now()
				_, err := get(t.Context(), tr, "http://a.example/")
				require.ErrorIs(t, err, sash.ErrInvalidLimit)
				require.NotErrorIs(t, err, sash.ErrExceedsLimit)
				require.Equal(t, start, time.Now(), "at once")
			})
		}
	}
}

// A request that waits already is refused at once when its key is held back, if the limiter has become too
// late for it: the methods of a host are held back one by one, and counted together.
func TestTransport_RefusesWhatWaitsOnceTheLimiterIsTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &Transport{Limiter: newOutgoing(t, sash.PerHour(1).Log()), Base: farEnd(answersOK)}
		tr.HoldBack("a.example", time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
		defer cancel()
		failed := make(chan error, 1)
		go func() {
			_, err := get(ctx, tr, "http://a.example/")
			failed <- err
		}()
		synctest.Wait()
		require.Empty(t, failed, "it waits")
		require.True(t, tr.Limiter.Allow("a.example"))
		start := time.Now()
		tr.HoldBack("a.example", 2*time.Minute)
		require.ErrorContains(t, <-failed, "the limiter admits it in 1h0m0s at the earliest")
		require.Equal(t, start, time.Now(), "at once")
	})
}

// Units that are held may be given back at any time, so they refuse no request that is held back.
func TestTransport_WaitsForUnitsThatAreHeldThoughHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &Transport{Limiter: newOutgoing(t, sash.AtOnce(1, time.Hour)), Base: farEnd(answersOK)}
		used, d := tr.Limiter.Reserve("a.example", 1)
		require.True(t, d.Allowed)
		time.AfterFunc(20*time.Second, used.Release)
		tr.HoldBack("a.example", 10*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		_, err := get(ctx, tr, "http://a.example/")
		require.NoError(t, err)
		require.Equal(t, 20*time.Second, time.Since(start))
	})
}

// Responses may arrive in any order. The longest time holds.
func TestTransport_NeverShortensAHold(t *testing.T) {
	clock := sash.NewManualClock(0)
	tr := &Transport{Limiter: newOutgoing(t, sash.PerHour(1), sash.WithClock(clock))}
	for _, c := range []struct{ asked, want time.Duration }{{10, 10}, {5, 10}, {20, 20}, {20, 20}} {
		tr.HoldBack("k", c.asked*time.Second)
		require.Equal(t, c.want*time.Second, tr.gates.heldFor("k", tr.clock()))
	}
	clock.Advance(15 * time.Second)
	tr.HoldBack("k", 5*time.Second)
	require.Equal(t, 5*time.Second, tr.gates.heldFor("k", tr.clock()))
	tr.HoldBack("k", 6*time.Second)
	require.Equal(t, 6*time.Second, tr.gates.heldFor("k", tr.clock()))
}

func TestTransport_SaysWhyItDidNotSend(t *testing.T) {
	ended, end := context.WithCancel(t.Context())
	end()
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for name, c := range map[string]struct {
		ctx     context.Context
		prepare func(tr *Transport)
		is      error
		says    string
	}{
		"context has ended": {ended, func(*Transport) {}, context.Canceled, "httplimit: not sent: context canceled"},
		"context has ended, held back": {ended, func(tr *Transport) { tr.HoldBack("a.example", time.Minute) }, context.Canceled,
			"httplimit: not sent: the server asked to wait: context canceled"},
		"context has ended, no waiting": {ended, func(tr *Transport) { tr.NoWait = true }, context.Canceled,
			"httplimit: not sent: context canceled"},
		"context has ended, no waiting, held back": {ended, func(tr *Transport) { tr.NoWait = true; tr.HoldBack("a.example", time.Minute) },
			context.Canceled, "httplimit: not sent: context canceled"},
		"deadline too soon": {soon, func(tr *Transport) { tr.Limiter.Allow("a.example") }, context.DeadlineExceeded,
			"admitted in 1h0m0s at the earliest"},
		"deadline too soon, held back": {soon, func(tr *Transport) { tr.HoldBack("a.example", 2*time.Minute) }, context.DeadlineExceeded,
			"httplimit: not sent: the server asked to wait for another 2m0s: context deadline exceeded"},
		"cost above the limit": {soon, func(tr *Transport) { tr.Cost = func(*http.Request) int64 { return 2 } }, sash.ErrExceedsLimit,
			"httplimit: not sent: sash: Wait: 2 is more than 1/1h0m0s log ever admits"},
		"negative cost": {soon, func(tr *Transport) { tr.Cost = func(*http.Request) int64 { return -1 } }, sash.ErrExceedsLimit, "got -1"},
		"cost above the limit, no waiting": {soon, func(tr *Transport) {
			tr.NoWait, tr.Cost = true, func(*http.Request) int64 { return 2 }
		}, sash.ErrExceedsLimit, "httplimit: not sent: a cost of 2 under a limit of 1/1h0m0s log: exceeds the limit"},
		"negative cost, no waiting": {soon, func(tr *Transport) {
			tr.NoWait, tr.Cost = true, func(*http.Request) int64 { return -1 }
		}, sash.ErrExceedsLimit, "a cost of -1"},
		"no waiting": {soon, func(tr *Transport) { tr.NoWait = tr.Limiter.Allow("a.example") }, nil,
			"httplimit: not sent: the limiter admits it in 1h0m0s"},
		"no waiting, held back": {soon, func(tr *Transport) { tr.NoWait = true; tr.HoldBack("a.example", 2*time.Minute) }, nil,
			"httplimit: not sent: the server asked to wait for another 2m0s"},
		"no key": {soon, func(tr *Transport) { tr.Key = ByHeader("Account") }, errNoKey,
			"httplimit: not sent: the request does not tell the key"},
		"no limiter": {soon, func(tr *Transport) { tr.Limiter = nil }, errNoLimiter,
			"httplimit: Transport.Limiter must not be nil"},
	} {
		t.Run(name, func(t *testing.T) {
			clock := sash.NewManualClock(0)
			tr := &Transport{
				Limiter: newOutgoing(t, sash.PerHour(1).Log(), sash.WithClock(clock)),
				Base:    farEnd(func(*http.Request) (*http.Response, error) { panic("it was sent") }),
			}
			c.prepare(tr)
			body, err := get(c.ctx, tr, "http://a.example/")
			require.ErrorContains(t, err, c.says)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			require.Equal(t, &sentBody{closes: 1}, body, "closed, and not read")
		})
	}
}

func TestByHost_IsOneKeyForOneHost(t *testing.T) {
	for u, want := range map[string]string{
		"http://example.com/": "example.com", "http://EXAMPLE.com./": "example.com", "http://example.com.:80/": "example.com",
		"https://example.com.:443/": "example.com", "https://Example.com.:8443/": "example.com:8443", "http://example.com:443/": "example.com:443",
		"http://[2001:DB8::0:1]:80/": "[2001:db8::1]", "http://[2001:db8::1]:8080/": "[2001:db8::1]:8080", "http://192.0.2.1./": "192.0.2.1",
		"http://[fe80::1%25eth0]:80/": "[fe80::1%eth0]", "http://example.com:/": "example.com", "ftp://example.com:80/": "example.com:80",
	} {
		r, err := http.NewRequest("GET", u, nil)
		require.NoError(t, err)
		key, ok := ByHost()(nil, r)
		require.True(t, ok)
		require.Equal(t, want, string(key), u)
	}
	_, ok := ByHost()(nil, &http.Request{URL: &url.URL{Scheme: "http", Host: ":80"}})
	require.False(t, ok, "a port is no host")
}

// At the bound, the hosts that ask for the longest times are held back.
func TestTransport_HoldsBackSoManyHostsAtATime(t *testing.T) {
	for bound, field := range map[int]int{1: 1, 3: 3, 100: 100, 1 << 14: 0, 1025: 1025} {
		clock := sash.NewManualClock(0)
		tr := &Transport{Limiter: newOutgoing(t, sash.PerHour(1e6), sash.WithClock(clock)), MaxHeld: field, MaxHold: 2 * time.Hour}
		host := strconv.Itoa
		held := func() (n int) {
			for i := range 2*bound + 2 {
				if tr.gates.heldFor(host(i), tr.clock()) > 0 {
					n++
				}
			}
			return n
		}
		for i := range bound {
			tr.HoldBack(host(i), time.Duration(1000+i)*time.Millisecond)
		}
		require.Equal(t, bound, held())
		tr.HoldBack(host(bound), 999*time.Millisecond) // would pass first
		require.Equal(t, bound, held())
		require.Zero(t, tr.gates.heldFor(host(bound), tr.clock()))
		tr.HoldBack(host(bound), time.Hour)
		require.Equal(t, bound, held())
		require.Zero(t, tr.gates.heldFor(host(0), tr.clock()), "it would have ended first")
		require.Equal(t, time.Hour, tr.gates.heldFor(host(bound), tr.clock()))
		tr.HoldBack(host(bound), 2*time.Hour) // a host that is held back is held for longer
		require.Equal(t, bound, held())
		require.Equal(t, 2*time.Hour, tr.gates.heldFor(host(bound), tr.clock()))
		require.LessOrEqual(t, len(tr.gates.kept()), bound)

		clock.Advance(time.Hour) // all others have passed
		for i := range bound - 1 {
			tr.HoldBack(host(i), time.Minute)
		}
		require.Equal(t, bound, held())
		require.Positive(t, tr.gates.heldFor(host(bound), tr.clock()))
		require.LessOrEqual(t, len(tr.gates.kept()), max(2*bound, 33))
	}
}

// Hostile domains have names without end, and ports, and all ask to be held back for ever.
// They end no hold of other domains.
func TestTransport_ADomainEndsNoHoldsOfOthers(t *testing.T) {
	clock := sash.NewManualClock(0)
	tr := &Transport{Limiter: newOutgoing(t, sash.PerHour(1e6), sash.WithClock(clock)), MaxHeld: 300}
	for i := range 100 {
		tr.HoldBack(fmt.Sprintf("api%d.example", i), time.Minute)
	}
	for i := range 2000 {
		tr.HoldBack(fmt.Sprintf("n%d.hostile.co.uk:8443", i), time.Hour)
		tr.HoldBack(fmt.Sprintf("hostile.example:%d", i), time.Hour)
		tr.HoldBack(fmt.Sprintf("192.0.2.1:%d", i), time.Hour)
		tr.HoldBack(fmt.Sprintf("[2001:db8:0:%x::1]:%d", i, i), time.Hour)
	}
	for i := range 100 {
		require.Equal(t, time.Minute, tr.gates.heldFor(fmt.Sprintf("api%d.example", i), tr.clock()))
	}
	require.Len(t, tr.gates.kept(), 300)
	require.Len(t, tr.gates.perDomain, 104)
	require.Len(t, tr.gates.holds, 300)
	require.Equal(t, 50, tr.gates.perDomain["hostile.co.uk"], "a quarter of what is left")
	tr.HoldBack("late.example", time.Second)
	require.Equal(t, time.Second, tr.gates.heldFor("late.example", tr.clock()), "one more host is held back, though for less time than any other")

	clock.Advance(time.Hour)
	tr.HoldBack("api.example", time.Second)
	require.Len(t, tr.gates.kept(), 1)
	require.Equal(t, map[string]int{"api.example": 1}, tr.gates.perDomain)
}

// A short name under a country domain is one domain, and not the public suffix of many.
func TestTransport_AShortDomainEndsNoHoldsOfOthers(t *testing.T) {
	for _, hostile := range []string{"abc.io", "t.co", "x.ai", "abcd.io", "go.io"} {
		tr := &Transport{Limiter: newOutgoing(t, sash.PerHour(1e6), sash.WithClock(sash.NewManualClock(0))), MaxHeld: 100}
		for i := range 20 {
			tr.HoldBack(fmt.Sprintf("api%d.example", i), time.Minute)
		}
		for i := range 200 {
			tr.HoldBack(fmt.Sprintf("n%d.%s", i, hostile), time.Hour)
		}
		for i := range 20 {
			require.Equal(t, time.Minute, tr.gates.heldFor(fmt.Sprintf("api%d.example", i), tr.clock()), hostile)
		}
	}
}

func TestTransport_HostsOfADomain(t *testing.T) {
	for host, want := range map[string]string{
		"example.com": "example.com", "example.com:81": "example.com", "a.b.example.com:80": "example.com", "a.example.co.uk": "example.co.uk",
		"example.co.uk": "example.co.uk", "a.b.example.io": "example.io", "localhost": "localhost", "localhost:81": "localhost",
		"n1.abc.io": "abc.io", "n1.t.co": "t.co", "n1.x.ai": "x.ai", "n1.go.io": "go.io", "go.io": "go.io", "a.b.go.jp": "b.go.jp",
		"a.b.com.io": "b.com.io", "a.b.gouv.fr": "b.gouv.fr", "a.b.any.np": "b.any.np", "a.b.co.com": "co.com", "a.b.co.museum": "co.museum",
		"192.0.2.1": "192.0.2.1", "192.0.2.1:80": "192.0.2.1", "[2001:db8::1]:80": "2001:db8::/48", "[2001:db8:0:7::1]": "2001:db8::/48",
		"[fe80::1%eth0]:80": "fe80::/48", "api.example.com:443/pkg.Service/Method": "example.com", "": "",
	} {
		require.Equal(t, want, new(Transport).domain(host), host)
	}
}

// If a flood of hosts asks to wait, memory is bounded, and requests are still sent.
func TestTransport_IsNotFilledByAFloodOfHosts(t *testing.T) {
	tr := &Transport{
		Limiter: newOutgoing(t, sash.PerHour(9), sash.WithClock(sash.NewManualClock(0))),
		Base:    farEnd(func(*http.Request) (*http.Response, error) { return says(429, "RateLimit", `"a";r=0;t=3600`), nil }),
		MaxHeld: 50, NoWait: true,
	}
	for i := range 2000 {
		_, err := get(t.Context(), tr, fmt.Sprintf("http://host%d.example/", i))
		require.NoError(t, err)
		require.LessOrEqual(t, len(tr.gates.kept()), 50)
	}
	_, err := get(t.Context(), tr, "http://host0.example/")
	require.ErrorContains(t, err, "the server asked to wait", "what is held back stays so")
}

// If the hold of a key ends at the bound while requests of the key wait, new requests are
// not held back. The waiting requests are not sent early, and obey a new hold.
func TestTransport_WhatWaitsWaitsOnThoughItsKeyIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &Transport{Limiter: newOutgoing(t, sash.PerHour(9).Log()), Base: farEnd(answersOK), MaxHeld: 1}
		start := time.Now()
		waiting := func() chan time.Duration {
			sent := make(chan time.Duration, 1)
			go func() {
				if _, err := get(t.Context(), tr, "http://a.example/"); err != nil {
					t.Error(err)
				}
				sent <- time.Since(start)
			}()
			synctest.Wait()
			return sent
		}
		tr.HoldBack("a.example", 10*time.Second)
		first := waiting()
		tr.HoldBack("b.example", 20*time.Second)
		require.Zero(t, tr.gates.heldFor("a.example", tr.clock()))
		require.Zero(t, <-waiting())
		require.Equal(t, 10*time.Second, <-first)

		tr.HoldBack("b.example", 20*time.Second)
		tr.HoldBack("a.example", 30*time.Second)
		second := waiting()
		tr.HoldBack("b.example", 40*time.Second)
		tr.HoldBack("a.example", 50*time.Second)
		require.Equal(t, 60*time.Second, <-second)
		synctest.Wait()
		require.LessOrEqual(t, len(tr.gates.kept()), 1)
	})
}

// A Transport that talks to a server with this middleware sends as much as the server admits, and
// one request more whenever a quota is used up: by its denial the Transport learns when to go on.
func TestTransport_KeepsToTheLimitsOfOurOwnServers(t *testing.T) {
	for _, c := range []struct {
		burst  sash.Limit
		want   []time.Duration // the seconds at which the first requests are admitted
		denied int
	}{
		{sash.PerSecond(2).Log(), []time.Duration{0, 0, 1, 1, 2, 60, 60, 61, 3600, 3600}, 10},
		{sash.Per(1, 4*time.Second).TokenBucket(3), []time.Duration{0, 0, 0, 4, 8, 60, 60, 60, 3600, 3600}, 8},
	} {
		sent, denied := sentTo(t, c.burst)
		require.Equal(t, c.want, sent[:len(c.want)])
		require.Equal(t, c.denied, denied)
	}
}

// sentTo returns the seconds of two hours at which a Transport sends as many requests as it
// can to a server under that limit and others, and how many of them are denied.
func sentTo(t *testing.T, burst sash.Limit) (sent []time.Duration, denied int) {
	clock := sash.NewManualClock(0)
	server := Must(New(
		Policy{Name: "burst", Limits: []sash.Limit{burst}, Key: Everyone()},
		Policy{Name: "steady", Limits: []sash.Limit{sash.PerMinute(5).Log(), sash.PerHour(8).Log()}, Key: Everyone()},
		WithClock(clock)))
	defer server.Close()
	h := server.Middleware(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	tr := &Transport{
		Limiter: newOutgoing(t, sash.PerSecond(1000), sash.WithClock(clock)), NoWait: true,
		Base: farEnd(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			if w.Code == http.StatusTooManyRequests {
				denied++
			} else {
				sent = append(sent, time.Duration(clock.Now())/time.Second)
			}
			return w.Result(), nil
		}),
	}
	for clock.Now() < int64(2*time.Hour) {
		_, err := get(t.Context(), tr, "http://a.example/")
		var turn *TurnError
		if errors.As(err, &turn) {
			require.True(t, turn.Held)
			clock.Advance(turn.RetryAfter)
			continue
		}
		require.NoError(t, err)
	}
	return sent, denied
}

func TestTransport_RefusesARequestWithoutAHost(t *testing.T) {
	tr := &Transport{Limiter: newOutgoing(t, sash.PerHour(1))}
	for _, u := range []*url.URL{nil, {Path: "/"}} {
		_, err := tr.RoundTrip(&http.Request{URL: u})
		require.ErrorIs(t, err, errNoKey)
	}
}

// The body is closed although the KeyFunc panics.
func TestTransport_ClosesTheBodyThoughAKeyPanics(t *testing.T) {
	tr := &Transport{Limiter: newOutgoing(t, sash.PerHour(1)), Key: func([]byte, *http.Request) ([]byte, bool) { panic("key") }}
	body := new(sentBody)
	require.PanicsWithValue(t, "key", func() {
		tr.RoundTrip(httptest.NewRequest("POST", "http://a.example/", body))
	})
	require.Equal(t, &sentBody{closes: 1}, body)
}

func TestTransport_PassesRequestsAndAnswersOnAsTheyAre(t *testing.T) {
	broken := errors.New("connection refused")
	tr := &Transport{
		Limiter: newOutgoing(t, sash.PerHour(9)),
		Key:     ByHeader("Account"),
		Cost:    func(r *http.Request) int64 { return 4 },
	}
	r, err := http.NewRequest("POST", "http://a.example/", new(sentBody))
	require.NoError(t, err)
	r.Header.Set("Account", "alice")
	before, answer := r.Clone(t.Context()), says(429, "Retry-After", "soon")
	for _, want := range []error{nil, broken} {
		tr.Base = farEnd(func(sent *http.Request) (*http.Response, error) {
			require.Same(t, r, sent)
			return answer, want
		})
		got, err := tr.RoundTrip(r)
		require.Same(t, answer, got)
		require.Equal(t, want, err)
	}
	require.Equal(t, before.Header, r.Header)
	require.Equal(t, before.URL, r.URL)
	require.Equal(t, new(sentBody), r.Body, "what is sent, Base reads and closes")
	require.EqualValues(t, 1, tr.Limiter.Peek("alice", 0).Remaining)
}

// Holds that have passed are purged, even of hosts that are never called again.
func TestTransport_ForgetsWhoIsHeldBackNoMore(t *testing.T) {
	clock := sash.NewManualClock(0)
	tr := &Transport{
		Limiter: newOutgoing(t, sash.PerSecond(1), sash.WithClock(clock)),
		Base: farEnd(func(*http.Request) (*http.Response, error) {
			return says(429, "Retry-After", "10"), nil
		}),
	}
	for i := range 10_000 {
		_, err := get(t.Context(), tr, fmt.Sprintf("http://host%d.example/", i))
		require.NoError(t, err)
		clock.Advance(100 * time.Millisecond)
		require.LessOrEqual(t, len(tr.gates.kept()), 202, "a hundred are held back at a time")
	}
	clock.Advance(10 * time.Second)
	require.Zero(t, tr.gates.heldFor("host9999.example", tr.clock()))
	require.NotContains(t, tr.gates.kept(), "host9999.example", "heldFor deletes a gate whose hold has passed")
}

// No request of many concurrent ones is sent while its key is held back. All are sent in
// the end, and the limit holds. The time is the synctest bubble's, so this is exact.
func TestTransport_SendsNothingWhileHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const requests, hosts, perSecond = 1000, 5, 7
		type visit struct{ at, held time.Time }
		var mu sync.Mutex
		visits := map[string][]visit{}
		tr := &Transport{
			Limiter: newOutgoing(t, sash.PerSecond(perSecond).Log()),
			Base: farEnd(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				defer mu.Unlock()
				seen := append(visits[r.URL.Host], visit{at: time.Now()})
				visits[r.URL.Host] = seen
				if len(seen)%20 != 0 {
					return says(200), nil
				}
				seen[len(seen)-1].held = time.Now().Add(3 * time.Second)
				return says(503, "Retry-After", "3"), nil
			}),
		}
		var failed atomic.Int64
		for i := range requests {
			go func() {
				if _, err := get(t.Context(), tr, fmt.Sprintf("http://host%d.example/", i%hosts)); err != nil {
					failed.Add(1)
				}
			}()
		}
		<-time.After(time.Hour)
		synctest.Wait()
		require.Zero(t, failed.Load())
		held := 0
		for host, seen := range visits {
			require.Len(t, seen, requests/hosts, host)
			for i := range seen {
				if i >= perSecond {
					require.GreaterOrEqual(t, seen[i].at.Sub(seen[i-perSecond].at), time.Second)
				}
				for _, earlier := range seen[:i] {
					// A request admitted at the same instant may have been sent already.
					if !seen[i].at.Equal(earlier.at) && !earlier.held.IsZero() {
						require.False(t, seen[i].at.Before(earlier.held), "sent while held back")
						held++
					}
				}
			}
		}
		require.NotZero(t, held)
	})
}

// The Transport works over a real connection, with a timeout of the client and a redirect.
func TestTransport_InAClient(t *testing.T) {
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/", http.StatusFound)
			return
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		w.Write(body)
	}))
	defer server.Close()
	limiter := newOutgoing(t, sash.PerHour(9).Log())
	client := &http.Client{Transport: &Transport{Limiter: limiter}, Timeout: time.Minute}
	defer client.CloseIdleConnections()

	response, err := client.Get(server.URL + "/moved")
	require.NoError(t, err)
	response.Body.Close()
	address, err := url.Parse(server.URL)
	require.NoError(t, err)
	require.EqualValues(t, 7, limiter.Peek(address.Host, 0).Remaining, "a redirect is two requests")

	start := time.Now()
	_, err = client.Post(server.URL, "text/plain", strings.NewReader("hello"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "the server asked to wait")
	require.Less(t, time.Since(start), time.Minute, "at once")
	require.EqualValues(t, 2, calls.Load())
}

func TestTransport_ClosesIdleConnectionsOfItsBase(t *testing.T) {
	base := &closing{}
	(&http.Client{Transport: &Transport{Base: base}}).CloseIdleConnections()
	require.True(t, base.closed)
	(&Transport{Base: farEnd(answersOK)}).CloseIdleConnections()
}

type closing struct {
	farEnd
	closed bool
}

func (c *closing) CloseIdleConnections() { c.closed = true }

// An interrupted is a clock that calls a function when it is read for the first time.
type interrupted struct {
	sash.Clock
	call func()
}

func (c *interrupted) Now() int64 {
	if f := c.call; f != nil {
		c.call = nil
		f()
	}
	return c.Clock.Now()
}

// A request that the limiter admits just as the server asks to wait is not sent. It is
// charged again when it is sent, so that the limit holds at that time, too.
func TestTransport_HoldsBackWhatIsBeingAdmitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &interrupted{Clock: sash.SystemClock()}
		tr := &Transport{Limiter: newOutgoing(t, sash.PerHour(9).Log(), sash.WithClock(clock)), Base: farEnd(answersOK)}
		clock.call = func() { tr.HoldBack("a.example", 30*time.Second) }
		start := time.Now()
		_, err := get(t.Context(), tr, "http://a.example/")
		require.NoError(t, err)
		require.Equal(t, 30*time.Second, time.Since(start))
		require.EqualValues(t, 7, tr.Limiter.Peek("a.example", 0).Remaining)
	})
}

// A redirect that needs the body again sends it again. Each time is a request of its own.
func TestTransport_SendsABodyAgainForARedirect(t *testing.T) {
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/", http.StatusTemporaryRedirect)
		}
	}))
	defer server.Close()
	limiter := newOutgoing(t, sash.PerHour(2).Log())
	client := &http.Client{Transport: &Transport{Limiter: limiter, NoWait: true}}
	defer client.CloseIdleConnections()
	response, err := client.Post(server.URL+"/moved", "text/plain", strings.NewReader("hello"))
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, []string{"hello", "hello"}, bodies)
	_, err = client.Get(server.URL)
	var turn *TurnError
	require.ErrorAs(t, err, &turn)
	require.False(t, turn.Held)
}

// A request holds its units until its response has been read or closed, or has failed, and the next one is sent
// then, in order, though the lease is long and its own deadline near.
func TestTransport_HoldsUnitsWhileARequestIsUnderWay(t *testing.T) {
	for name, end := range map[string]func(r *http.Response){
		"closed": func(r *http.Response) { r.Body.Close() },
		"read":   func(r *http.Response) { _, _ = io.Copy(io.Discard, r.Body) },
		"switched": func(r *http.Response) {
			_, err := r.Body.(io.Writer).Write([]byte("x"))
			require.NoError(t, err)
			r.Body.Close()
		},
		"closed twice": func(r *http.Response) { r.Body.Close(); r.Body.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newOutgoing(t, sash.AtOnce(1, time.Hour), sash.PerMinute(100).Log())
				tr := &Transport{Limiter: l, Base: farEnd(func(*http.Request) (*http.Response, error) {
					response := says(200)
					var body io.ReadCloser = io.NopCloser(strings.NewReader("hello"))
					if name == "switched" {
						body = struct {
							io.ReadCloser
							io.Writer
						}{body, io.Discard}
					}
					response.Body = body
					return response, nil
				})}
				first := newRequest(t, t.Context())
				response, err := tr.RoundTrip(first)
				require.NoError(t, err)
				_, err = response.Body.Read(make([]byte, 2))
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				sent := make(chan error, 1)
				go func() {
					_, err := tr.RoundTrip(newRequest(t, ctx))
					sent <- err
				}()
				synctest.Wait()
				require.Empty(t, sent, "it waits")
				end(response)
				require.NoError(t, <-sent)
				require.Zero(t, l.Peek("a.example", 0).Remaining, "the second holds the unit")
			})
		})
	}
}

func newRequest(t *testing.T, ctx context.Context) *http.Request {
	r, err := http.NewRequestWithContext(ctx, "GET", "http://a.example/", nil)
	require.NoError(t, err)
	return r
}

// A request that is not sent, or whose response has no body, holds nothing. What was charged otherwise stays.
func TestTransport_HoldsNothingWithoutAResponse(t *testing.T) {
	for name, base := range map[string]func(*http.Request) (*http.Response, error){
		"fails":      func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF },
		"panics":     func(*http.Request) (*http.Response, error) { panic("of a test") },
		"no body":    answersOK,
		"empty body": func(*http.Request) (*http.Response, error) { r := says(204); r.Body = http.NoBody; return r, nil },
		// HTTP/2 has another Body for none, as for a HEAD, and one that fails if a length was told.
		"HTTP/2":         func(*http.Request) (*http.Response, error) { return overHTTP2(200, 0), nil },
		"HTTP/2 no more": func(*http.Request) (*http.Response, error) { return overHTTP2(204, -1), nil },
		"HTTP/2 cached":  func(*http.Request) (*http.Response, error) { return overHTTP2(304, 5), nil },
	} {
		for _, noWait := range []bool{false, true} {
			l := newOutgoing(t, sash.AtOnce(2, time.Hour), sash.WithClock(sash.NewManualClock(0)))
			tr := &Transport{Limiter: l, Base: farEnd(base), NoWait: noWait}
			func() {
				defer func() { _ = recover() }()
				_, _ = tr.RoundTrip(newRequest(t, t.Context()))
			}()
			require.EqualValues(t, 2, l.Peek("a.example", 0).Remaining, name)
		}
	}
}

// overHTTP2 returns a response without a body as HTTP/2 has it.
func overHTTP2(status int, length int64) *http.Response {
	r := says(status)
	r.Body, r.ProtoMajor, r.ContentLength = io.NopCloser(http.NoBody), 2, length
	return r
}

// The answer to a HEAD tells a length, and has no body, which a client need not close.
func TestTransport_AHeadHoldsNothing(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "5")
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	l := newOutgoing(t, sash.AtOnce(1, time.Hour), sash.WithClock(sash.NewManualClock(0)))
	client := &http.Client{Transport: &Transport{Limiter: l, Base: server.Client().Transport, NoWait: true}}
	for range 2 {
		response, err := client.Head(server.URL) //nolint:bodyclose // there is none
		require.NoError(t, err)
		require.Equal(t, 2, response.ProtoMajor)
	}
}

// A connection that the server has switched to can be closed for writing alone, as without a limiter.
func TestTransport_ASwitchedConnectionClosesItsWriting(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffer, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(buffer, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
		_ = buffer.Flush()
		all, _ := io.ReadAll(buffer) // until the client writes no more
		_, _ = conn.Write(append([]byte("heard "), all...))
	}))
	defer server.Close()
	l := newOutgoing(t, sash.AtOnce(1, time.Hour))
	r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL, http.NoBody)
	require.NoError(t, err)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "test")
	response, err := (&Transport{Limiter: l}).RoundTrip(r)
	require.NoError(t, err)
	conn := response.Body.(io.ReadWriteCloser)
	_, err = io.WriteString(conn, "hello")
	require.NoError(t, err)
	require.NoError(t, conn.(interface{ CloseWrite() error }).CloseWrite())
	heard, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, "heard hello", string(heard))
	require.NoError(t, conn.Close())

	half := &heldConn{&heldBody{conn, sash.Reservation{}}, io.Discard}
	require.ErrorIs(t, half.CloseWrite(), errors.ErrUnsupported)
}

// A request that waits for a rate gives its units back, too, if the limits come to hold some while it waits.
func TestTransport_HoldsUnitsOfLimitsThatCameWhileItWaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newOutgoing(t, sash.PerMinute(1).Log())
		tr := &Transport{Limiter: l, Base: farEnd(answersOK)}
		require.True(t, l.Allow("a.example"))
		sent := make(chan error, 1)
		go func() {
			_, err := tr.RoundTrip(newRequest(t, t.Context()))
			sent <- err
		}()
		synctest.Wait()
		require.Empty(t, sent, "it waits")
		require.NoError(t, l.Reconfigure(sash.PerMinute(2).Log(), sash.AtOnce(1, time.Hour)))
		require.NoError(t, <-sent)
		require.NoError(t, l.Reconfigure(sash.AtOnce(1, time.Hour)))
		require.EqualValues(t, 1, l.Peek("a.example", 0).Remaining)
	})
}

// Without waiting, a request is told to come again soon. Reserve holds until it is released, once.
func TestTransport_ReserveHoldsUntilItIsReleased(t *testing.T) {
	l := newOutgoing(t, sash.AtOnce(1, time.Hour), sash.PerMinute(2).Log(), sash.WithClock(sash.NewManualClock(0)))
	tr := &Transport{Limiter: l, NoWait: true}
	key, release, err := tr.Reserve(newRequest(t, t.Context()))
	require.NoError(t, err)
	require.Equal(t, "a.example", key)
	turn := new(TurnError)
	_, none, err := tr.Reserve(newRequest(t, t.Context()))
	require.ErrorAs(t, err, &turn)
	require.Nil(t, none)
	require.Equal(t, time.Second, turn.RetryAfter)
	release()
	_, second, err := tr.Reserve(newRequest(t, t.Context()))
	require.NoError(t, err)
	release()
	_, err = tr.Admit(newRequest(t, t.Context()))
	require.ErrorAs(t, err, &turn)
	require.Equal(t, time.Minute, turn.RetryAfter, "the rate is used up, and the second holds the unit")
	second()
}

// A request that is held back at the moment of its admission holds nothing until it is sent.
func TestTransport_HoldsNothingWhileItIsHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := &interrupted{Clock: sash.SystemClock()}
		tr := &Transport{Limiter: newOutgoing(t, sash.AtOnce(1, time.Hour), sash.WithClock(clock)), Base: farEnd(answersOK)}
		clock.call = func() { tr.HoldBack("a.example", 30*time.Second) }
		start := time.Now()
		_, err := get(t.Context(), tr, "http://a.example/")
		require.NoError(t, err)
		require.Equal(t, 30*time.Second, time.Since(start), "and not when its lease has ended")
	})
}
