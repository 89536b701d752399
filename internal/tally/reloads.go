package tally

import (
	"sync"
	"time"
)

// Reloads are what became of attempts to load changed policies.
type Reloads struct {
	Loaded, Failed int64
	Successful     bool      // whether the last attempt was
	LastSuccess    time.Time // zero: none was
}

// reloads are Reloads that are safe for concurrent use.
type reloads struct {
	mu sync.Mutex
	Reloads
}

// ObserveReload counts an attempt to load changed policies. err is why the former policies were kept, or nil.
// Unlike requests, attempts also count before a limiter is watched.
func (t *Tally) ObserveReload(err error) {
	r := &t.reloads
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Successful = err == nil
	if err != nil {
		r.Failed++
		return
	}
	r.Loaded++
	r.LastSuccess = time.Now()
}

// read returns the attempts so far, or nil if there were none.
func (r *reloads) read() *Reloads {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.Loaded+r.Failed == 0 {
		return nil
	}
	all := r.Reloads
	return &all
}
