package peers

import (
	"sync"

	"github.com/RussellLuo/slidingwindow"
)

var slidingWindow = Peer{
	Name: "slidingwindow", Clock: "system", Module: "github.com/RussellLuo/slidingwindow", Bytes: 300,
	Keeps: "two-counter sliding window behind a mutex; a sync.Map",
	Lacks: "eviction: keys stay for ever; truncated weights, so that one too many is admitted now and then",
	New: func(q Quota) Table {
		var limiters sync.Map
		local := func() (slidingwindow.Window, slidingwindow.StopFunc) { return slidingwindow.NewLocalWindow() }
		of := func(key string) *slidingwindow.Limiter {
			l, ok := limiters.Load(key)
			if !ok {
				made, _ := slidingwindow.NewLimiter(q.Window, q.Count, local)
				l, _ = limiters.LoadOrStore(key, made)
			}
			return l.(*slidingwindow.Limiter)
		}
		return Table{
			Allow:   func(key string) bool { return of(key).Allow() },
			Compose: func(first, second string) bool { return of(first + second).Allow() },
			// It does not tell how many units are left.
			Exhaust: func(key string) { of(key).SetLimit(0) },
			Close:   func() {},
		}
	},
}
