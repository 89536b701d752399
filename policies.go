package sash

import (
	"strings"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/xsync"
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

// each calls f for every policy and its name, until f returns false.
func (p *policies) each(f func(name string, p *policy) bool) {
	if m := p.made.Load(); m != nil {
		m.Range(f)
	}
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
