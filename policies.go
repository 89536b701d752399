package sash

import (
	"strings"
	"sync/atomic"

	"github.com/puzpuzpuz/xsync/v3"
)

// A policies is a concurrent map of policies by name, which costs nothing while it
// is empty, as it is in most limiters.
type policies struct {
	made atomic.Pointer[xsync.MapOf[string, *policy]]
}

func (p *policies) get(name string) (found *policy, ok bool) {
	if m := p.made.Load(); m != nil {
		return m.Load(name)
	}
	return nil, false
}

// all returns the map to write to.
func (p *policies) all() *xsync.MapOf[string, *policy] {
	if m := p.made.Load(); m != nil {
		return m
	}
	p.made.CompareAndSwap(nil, xsync.NewMapOf[string, *policy]())
	return p.made.Load()
}

// plan returns the policy of keys that have limits of their own: the same for
// the same limits, so that a million keys under one plan do not cost as many.
func (l *Limiter) plan(limits []Limit) *policy {
	const most = 4096 // who makes up limits for each key pays for each
	name := planName(limits)
	if p, ok := l.plans.get(name); ok {
		return p
	}
	p := l.newPolicy(limits, false)
	if l.plans.all().Size() < most {
		p, _ = l.plans.all().LoadOrStore(name, p)
	}
	return p
}

func planName(limits []Limit) string {
	var b strings.Builder
	for _, limit := range limits {
		b.WriteString(limit.String())
		b.WriteByte(',')
	}
	return b.String()
}
