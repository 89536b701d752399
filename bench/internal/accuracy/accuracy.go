// Package accuracy sends traffic through approximate limits beside the exact log, and
// counts what they get wrong.
package accuracy

import (
	"context"
	"time"

	"github.com/RussellLuo/slidingwindow"
	"golang.org/x/time/rate"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/bench/internal/traffic"
)

// A Contender is a way to keep to a limit.
type Contender struct {
	Name string
	// Bound is how many times the limit's count is proven to be the most that it
	// admits in any window; 0 if nothing is. Strict: it stays below that.
	Bound  float64
	Strict bool
	start  func(limit sash.Limit, clock *sash.ManualClock) asker
}

// An asker answers whether one unit is admitted for a client, at a time that the clock
// it was started with shows too.
type asker func(client string, at int64) bool

// Contenders returns the exact log, and all that stand beside it.
func Contenders() []Contender {
	return []Contender{
		{"exact log", 1, false, algorithm(sash.Limit.Log)},
		{"two counters", 2, true, algorithm(func(l sash.Limit) sash.Limit { return l })},
		{"60 buckets", 2, false, algorithm(buckets(60))},
		{"10 buckets", 2, false, algorithm(buckets(10))},
		{"2 buckets", 2, false, algorithm(buckets(2))},
		{"fixed window", 2, false, algorithm(buckets(1))},
		{"token bucket, x-time-rate", 2, false, tokens},
		{"two counters, slidingwindow", 0, false, truncated},
	}
}

func algorithm(of func(sash.Limit) sash.Limit) func(sash.Limit, *sash.ManualClock) asker {
	return func(limit sash.Limit, clock *sash.ManualClock) asker {
		l := sash.Must(sash.New(of(limit), sash.WithClock(clock), sash.WithSweepInterval(-1)))
		return func(client string, _ int64) bool { return l.Allow(client) }
	}
}

// buckets rounds up: if they were narrower, n and one more would count.
func buckets(n time.Duration) func(sash.Limit) sash.Limit {
	return func(l sash.Limit) sash.Limit { return l.Buckets((l.Window + n - 1) / n) }
}

func tokens(limit sash.Limit, _ *sash.ManualClock) asker {
	return each(func() *rate.Limiter {
		return rate.NewLimiter(rate.Limit(float64(limit.Count)/limit.Window.Seconds()), int(limit.Count))
	}, func(l *rate.Limiter, at time.Time) bool { return l.AllowN(at, 1) })
}

func truncated(limit sash.Limit, _ *sash.ManualClock) asker {
	local := func() (slidingwindow.Window, slidingwindow.StopFunc) { return slidingwindow.NewLocalWindow() }
	return each(func() *slidingwindow.Limiter {
		l, _ := slidingwindow.NewLimiter(limit.Window, limit.Count, local)
		return l
	}, func(l *slidingwindow.Limiter, at time.Time) bool { return l.AllowN(at, 1) })
}

// each keeps a limiter for each client.
func each[L any](start func() L, allow func(L, time.Time) bool) asker {
	limiters := map[string]L{}
	return func(client string, at int64) bool {
		l, ok := limiters[client]
		if !ok {
			l = start()
			limiters[client] = l
		}
		return allow(l, time.Unix(0, at))
	}
}

// A Verdict is what one contender made of one traffic under one limit.
type Verdict struct {
	Contender       Contender
	Events, Denied  int64
	WronglyAdmitted int64 // what the exact log denied
	WronglyDenied   int64 // what the exact log admitted
	Most            int64 // units of one client in any window
}

// Judge sends traffic, whose events must be in order, through all contenders, each of
// which has its own history. The first is what the others are held to.
func Judge(ctx context.Context, t *traffic.Traffic, limit sash.Limit, contenders []Contender) ([]Verdict, error) {
	clock := sash.NewManualClock(0)
	verdicts := make([]Verdict, len(contenders))
	askers := make([]asker, len(contenders))
	spent := make([]*traffic.Trailing, len(contenders))
	for i, c := range contenders {
		verdicts[i].Contender, askers[i], spent[i] = c, c.start(limit, clock), traffic.NewTrailing(limit)
	}
	const look = 1 << 10 // events between two looks at the context
	for n, e := range t.Events {
		if n%look == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		clock.Set(e.At)
		client, right := t.Clients[e.Client], false
		for i, ask := range askers {
			admitted := ask(client, e.At)
			if i == 0 {
				right = admitted
			}
			verdicts[i].count(admitted, right)
			if admitted {
				spent[i].Add(e, 1)
			}
		}
	}
	for i := range verdicts {
		verdicts[i].Most = spent[i].Most
	}
	return verdicts, nil
}

func (v *Verdict) count(admitted, right bool) {
	v.Events++
	if !admitted {
		v.Denied++
	}
	switch {
	case admitted && !right:
		v.WronglyAdmitted++
	case !admitted && right:
		v.WronglyDenied++
	}
}
