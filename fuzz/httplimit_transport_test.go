package fuzz

import (
	"errors"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// answering is a RoundTripper that answers every request with two lines of RateLimit.
type answering [2]string

func (a answering) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Ratelimit": a[:]}, Body: http.NoBody}, nil
}

// FuzzRateLimit gives a Transport any two lines of RateLimit. The Transport must wait for
// the longest t of the quotas that are used up, as an independent parser of structured
// fields (RFC 9651) reads them. A field that this parser refuses must not panic.
func FuzzRateLimit(f *testing.F) {
	for _, s := range [][2]string{
		{`"a";r=0;t=32`, `"b";r=0;t=31`}, {`"a";r=0;t=30;pk=:YQ==:;x;y=?1;z=1.5`, `b;r=1;t=9`}, {`"a\",";r=0;t=5;t=6 ,`, `  "b";r=-0;t=2.5`},
		{`("a" "b");r=0;t=4`, `"c";r=0;t=3`}, {`"a";r=0;t=999999999999999`, `@17;r=00;t=007`}, {`*x:/y;r=0; t=8`, `?0;r=0;t=1`}, {`"a"`, ``},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		limiter := sash.Must(sash.New(sash.PerHour(1000), sash.WithClock(sash.NewManualClock(0)), sash.WithSweepInterval(-1)))
		transport := &httplimit.Transport{Limiter: limiter, Base: answering{first, second}, NoWait: true, MaxHold: 1e6 * time.Second}
		r, err := http.NewRequest("GET", "http://h/", nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := transport.RoundTrip(r); err != nil {
			t.Fatal(err)
		}
		var got time.Duration
		if _, err := transport.RoundTrip(r); err != nil {
			var turn *httplimit.TurnError
			if !errors.As(err, &turn) || !turn.Held {
				t.Fatal(err)
			}
			got = turn.RetryAfter
		}
		list, err := httpsfv.UnmarshalList([]string{first, second})
		if err != nil {
			return
		}
		if want := min(longestWait(list), 1e6*time.Second); got != want {
			t.Errorf("%q, %q: %v, want %v", first, second, got, want)
		}
	})
}

// longestWait returns the longest t of the members with an r of 0. It returns 0 for a list
// with a member that is no item, since that is no RateLimit.
func longestWait(list httpsfv.List) (longest time.Duration) {
	for _, m := range list {
		item, ok := m.(httpsfv.Item)
		if !ok {
			return 0
		}
		r, _ := item.Params.Get("r")
		t, _ := item.Params.Get("t")
		if r != int64(0) {
			continue
		}
		switch t := t.(type) {
		case int64:
			longest = max(longest, time.Duration(min(t, 1e7))*time.Second)
		case float64:
			longest = max(longest, time.Duration(math.Ceil(min(t, 1e7)))*time.Second)
		}
	}
	return longest
}
