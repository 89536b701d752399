package sash

import (
	"strings"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/xsync"
)

// A lazyMap is a concurrent map by name that is made when it is first written to. It
// costs a word while it is empty, as it is in most limiters.
type lazyMap[V comparable] struct {
	made atomic.Pointer[xsync.MapOf[string, V]]
}

func (p *lazyMap[V]) get(name string) (found V, ok bool) {
	if m := p.made.Load(); m != nil {
		return m.Load(name)
	}
	return found, false
}

// each calls f for every name and its value, until f returns false.
func (p *lazyMap[V]) each(f func(name string, value V) bool) {
	if m := p.made.Load(); m != nil {
		m.Range(f)
	}
}

// all returns the map to write to.
func (p *lazyMap[V]) all() *xsync.MapOf[string, V] {
	if m := p.made.Load(); m != nil {
		return m
	}
	p.made.CompareAndSwap(nil, xsync.NewMapOf[string, V]())
	return p.made.Load()
}

// An override is the policy that SetLimits gave a key. Each SetLimits makes a new
// one, so a caller that finds the same one again knows that it was there throughout.
type override struct{ policy *policy }

// plan returns the policy of keys that have limits of their own: the same for
// the same limits, so that a million keys under one plan do not cost as many.
func (t *terms) plan(limits []Limit) *policy {
	const most = 4096 // who makes up limits for each key pays for each
	name := planName(limits)
	if p, ok := t.plans.get(name); ok {
		return p
	}
	p := t.newPolicy(limits, false)
	if t.plans.all().Size() < most {
		p, _ = t.plans.all().LoadOrStore(name, p)
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
