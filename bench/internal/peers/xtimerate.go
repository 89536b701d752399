package peers

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// xTimeRate is the usual handwritten keyed limiter, without the race of two first calls.
var xTimeRate = Peer{
	Name: "x-time-rate", Clock: "system", Module: "golang.org/x/time", Bytes: 280,
	Keeps: "token bucket in floats behind a mutex; a sync.Map",
	Lacks: "eviction: keys stay for ever, and what one would add for that is not charged here; no window, twice the limit within one",
	New: func(q Quota) Table {
		var limiters sync.Map
		perToken := rate.Every(q.refill())
		of := func(key string) *rate.Limiter {
			l, ok := limiters.Load(key)
			if !ok {
				l, _ = limiters.LoadOrStore(key, rate.NewLimiter(perToken, int(q.Count)))
			}
			return l.(*rate.Limiter)
		}
		return Table{
			Allow:   func(key string) bool { return of(key).Allow() },
			Compose: func(first, second string) bool { return of(first + second).Allow() },
			// A reservation tells how long to wait, and must be cancelled if the call
			// does not. How many units are left would be another call.
			Take: func(key string) bool {
				now := time.Now()
				r := of(key).ReserveN(now, 1)
				if r.DelayFrom(now) == 0 {
					return true
				}
				r.CancelAt(now)
				return false
			},
			Exhaust: func(key string) {
				l, now := of(key), time.Now()
				l.AllowN(now, int(l.TokensAt(now)))
			},
			Close: func() {},
		}
	},
}
