// Package api is a service that limits each address: with a map of rate.Limiter, and with sash.
package api

import (
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

type visitors struct {
	mu        sync.Mutex
	byAddress map[string]*visitor
}

type visitor struct {
	limiter  *rate.Limiter
	lastSeen time.Time
}

// Before limits the requests to next. It forgets visitors until stop is closed.
func Before(next http.Handler, stop <-chan struct{}) http.Handler {
	v := &visitors{byAddress: make(map[string]*visitor)}
	go v.forgetIdle(stop)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		address, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil {
			http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
			return
		}
		if !v.limiterOf(address).Allow() {
			http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (v *visitors) limiterOf(address string) *rate.Limiter {
	v.mu.Lock()
	defer v.mu.Unlock()
	one, ok := v.byAddress[address]
	if !ok {
		one = &visitor{limiter: rate.NewLimiter(2, 4)}
		v.byAddress[address] = one
	}
	one.lastSeen = time.Now()
	return one.limiter
}

func (v *visitors) forgetIdle(stop <-chan struct{}) {
	ticker := time.NewTicker(time.Minute)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		v.mu.Lock()
		for address, one := range v.byAddress {
			if time.Since(one.lastSeen) > 3*time.Minute {
				delete(v.byAddress, address)
			}
		}
		v.mu.Unlock()
	}
}
