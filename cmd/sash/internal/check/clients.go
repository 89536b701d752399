package check

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/policies"
)

// addresses returns the addresses in the key of a policy.
func addresses(p *policies.Policy) (all []*policies.Address) {
	for k := range p.Key.All {
		if k.Kind == policies.ByAddress {
			all = append(all, &k.Address)
		}
	}
	return all
}

// missesProxies finds a key by address that trusts no proxy, where the key of another policy does.
func missesProxies(file *policies.File, i int) string {
	behind := func(a *policies.Address) bool { return a.Behind() }
	own := addresses(&file.Policies[i])
	if len(own) == 0 || slices.ContainsFunc(own, behind) {
		return "" // one that has both is a fallback
	}
	for j := range file.Policies {
		if slices.ContainsFunc(addresses(&file.Policies[j]), behind) {
			return fmt.Sprintf("its key trusts no proxy, and the key of %q does: behind a proxy, all clients share one count here", file.Policies[j].Name)
		}
	}
	return ""
}

// skipsProxies finds a network to skip that is the network of a trusted proxy, which all requests come from.
func skipsProxies(file *policies.File, i int) string {
	p := &file.Policies[i]
	if p.Skip.Address.Behind() {
		return ""
	}
	for _, a := range addresses(p) {
		for _, proxy := range a.Proxies {
			for _, network := range p.Skip.Networks {
				if within(proxy, network) {
					return fmt.Sprintf("it skips %s, from which every request comes that passes the trusted proxy %s: give skip the address with trust-proxies", network, proxy)
				}
			}
		}
	}
	return ""
}

// within reports whether a network, or an address, lies within another.
func within(inner, outer string) bool {
	a, b := prefixOf(inner), prefixOf(outer)
	return a.IsValid() && b.IsValid() && b.Bits() <= a.Bits() && b.Contains(a.Addr())
}

func prefixOf(text string) netip.Prefix {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(addr, addr.BitLen())
	}
	n, _ := netip.ParsePrefix(text)
	return n
}

// chosenKey finds a key that clients can change at will, and no policy that bounds them otherwise.
func chosenKey(file *policies.File, i int) string {
	p := &file.Policies[i]
	if p.Key.Kind != policies.ByHeader {
		return ""
	}
	for j := range file.Policies {
		q := &file.Policies[j]
		bounds := q.Key.Kind == policies.ByAddress || q.Key.Kind == policies.Everyone
		if bounds && !q.Shadow && len(q.Charge) == 0 && covers(q.Pattern, p.Pattern) {
			return ""
		}
	}
	return fmt.Sprintf("a client that makes up values of %s has a new count with each: add a policy by address, or put the limiter behind what checks them", p.Key.Name)
}

// covers reports whether it is plain that a pattern matches every request that another one matches.
func covers(wide, narrow string) bool {
	if wide == "" || wide == narrow {
		return true
	}
	method, host, path := partsOf(wide)
	ofMethod, ofHost, ofPath := partsOf(narrow)
	return (method == "" || method == ofMethod) && (host == "" || host == ofHost) &&
		(path == ofPath || strings.HasSuffix(path, "/") && !strings.Contains(path, "{") && strings.HasPrefix(ofPath, path))
}

// partsOf returns the parts of a pattern. The empty pattern is every path.
func partsOf(pattern string) (method, host, path string) {
	if i := strings.IndexAny(pattern, " \t"); i >= 0 {
		method, pattern = pattern[:i], strings.TrimLeft(pattern[i:], " \t")
	}
	i := max(0, strings.IndexByte(pattern, '/'))
	return method, pattern[:i], pattern[i:]
}

// sentByClients are headers that clients send, so that no proxy overwrites them.
var sentByClients = []string{"Accept", "Accept-Language", "Authorization", "Cookie", "Origin", "Referer", "User-Agent", "X-Api-Key", "X-Requested-With"}

func chosenPlan(file *policies.File, i int) string {
	if plan := file.Policies[i].Plan; slices.Contains(sentByClients, plan) {
		return fmt.Sprintf("its plan is told by %s, which clients send: they choose their limits; take a header that a proxy overwrites in each request", plan)
	}
	return ""
}

// locks finds wrong passwords that are counted by an account alone.
func locks(file *policies.File, i int) string {
	p := &file.Policies[i]
	failures := len(p.Charge) > 0
	for _, status := range p.Charge {
		failures = failures && slices.Contains([]string{"401", "403", "UNAUTHENTICATED", "PERMISSION_DENIED"}, status)
	}
	account := p.Key.Kind == policies.ByHeader || p.Key.Kind == policies.ByFunction
	if !failures || !account || p.Shadow {
		return ""
	}
	return fmt.Sprintf("any client can lock the account of another by wrong passwords: join %s with the address", p.Key.Name)
}
