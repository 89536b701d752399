package replay

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/policies"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// needs are the fields of a log that the policies of a file look at. A log without one of them is refused,
// or replayed on an assumption that the report states.
type needs struct {
	file    string
	fields  []traffic.Field
	assumed []string // of each field that a log may be without, what is assumed then; "": nothing that matters
	lasting string   // what needs to know how long requests last; "": nothing
	routed  bool     // whether a key is the route
	proxies []string // networks of trusted proxies
	sources []string // headers in which they name their clients
}

// needsOf returns what the policies of a file need.
func needsOf(file *policies.File) *needs {
	n := &needs{file: file.Name}
	n.assume(traffic.Method, "") // by which lines are told that are no requests
	n.assume(traffic.Path, "")
	for i := range file.Policies {
		n.policy(&file.Policies[i])
	}
	return n
}

// policy adds what p needs.
func (n *needs) policy(p *policies.Policy) {
	by := fmt.Sprintf("policy %s, for %q", n.file, p.Name)
	switch {
	case p.Pattern == "":
	case hasMethod(p.Pattern):
		n.need(traffic.Method, by)
		n.need(traffic.Path, by)
	default:
		n.need(traffic.Path, by)
	}
	if hasHost(p.Pattern) {
		n.need(traffic.Host, by)
	}
	if len(p.Skip.Methods) > 0 {
		n.need(traffic.Method, by)
	}
	if len(p.Skip.Networks) > 0 {
		n.address(&p.Skip.Address, by)
	}
	n.key(&p.Key, by, "")
	if p.Plan != "" {
		n.assume(traffic.Header(p.Plan), fmt.Sprintf("the log has no header %s, so no request has a plan under %q", p.Plan, p.Name))
	}
	if p.Leave.Header != "" {
		n.assume(traffic.Header(p.Leave.Header), fmt.Sprintf("the log has no header %s, so no request leaves anything under %q", p.Leave.Header, p.Name))
	}
	n.response(p, by)
	if holds(p) {
		n.lasting = by
	}
}

// response adds what p needs of the responses.
func (n *needs) response(p *policies.Policy, by string) {
	if p.Policy.Charge != nil || p.ChargeUncertain != nil {
		n.need(traffic.Status, by)
	}
	if p.OfCodes() {
		n.need("code of gRPC", by) // which is read from no log
	}
	if p.Settle.Bytes {
		n.need(traffic.Size, by)
	}
	if p.Settle.Header != "" {
		n.need(traffic.AnswerHeader(p.Settle.Header), by)
	}
	if p.Policy.Settle != nil {
		n.assume(traffic.Status, "the log has no status, so each response is taken for a 200")
	}
}

// key adds what a key needs. If the log lacks the header of a choice that is not the last, other says what
// is assumed.
func (n *needs) key(k *policies.Key, by, other string) {
	switch k.Kind {
	case policies.ByAddress:
		n.address(&k.Address, by)
	case policies.ByHeader:
		if name := traffic.Header(k.Name); other == "" {
			n.need(name, by)
		} else {
			n.assume(name, fmt.Sprintf("the log has no header %s, so it is taken for one that no client has sent: %s", k.Name, other))
		}
	case policies.ByRoute:
		n.routed = true
		n.need(traffic.Method, by)
		n.need(traffic.Path, by)
		n.assume(traffic.Host, "the log has no host, so routes with a host serve no request")
	}
	for i := range k.Parts {
		choice := other
		if k.Kind == policies.FirstOf && i < len(k.Parts)-1 {
			choice = "the key of each is the next choice"
		}
		n.key(&k.Parts[i], by, choice)
	}
}

// address adds what the address of a client needs.
func (n *needs) address(a *policies.Address, by string) {
	n.need(traffic.Addr, by)
	switch {
	case a.Hops: // without the header, no identity can be told
		n.need(traffic.Header(a.Header), by)
	case a.Behind():
		n.proxies, n.sources = append(n.proxies, a.Proxies...), append(n.sources, a.Header)
		n.assume(traffic.Header(a.Header), fmt.Sprintf("the log has no %s, so the address in it is taken for the client's, as in the log of the proxy itself", a.Header))
	}
}

// need adds a field that a log must have.
func (n *needs) need(name, by string) { n.add(name, by, "") }

// assume adds a field that a log may be without, and what is assumed then.
func (n *needs) assume(name, otherwise string) { n.add(name, "", otherwise) }

// add adds a field, unless it is there. What must be there for one policy must be there.
func (n *needs) add(name, by, otherwise string) {
	i := slices.IndexFunc(n.fields, func(f traffic.Field) bool { return f.Name == name })
	if i < 0 {
		n.fields = append(n.fields, traffic.Field{Name: name, For: by})
		n.assumed = append(n.assumed, otherwise)
		return
	}
	if n.fields[i].For == "" && by != "" {
		n.fields[i].For, n.assumed[i] = by, ""
	}
}

// index returns the index of the field of that name, or -1.
func (n *needs) index(name string) int {
	return slices.IndexFunc(n.fields, func(f traffic.Field) bool { return f.Name == name })
}

// assumptions returns what was assumed about the log, since it has not the field. It is an error if a header
// that must be there is in no line.
func (n *needs) assumptions(on *traffic.Traffic) (all []string, err error) {
	if on.Events == 0 {
		return nil, nil
	}
	var faults []error
	for i, f := range n.fields {
		switch {
		case on.Valued[i] > 0:
		case f.For == "":
			if n.assumed[i] != "" && !slices.Contains(all, n.assumed[i]) {
				all = append(all, n.assumed[i])
			}
		case f.Name != traffic.Size && f.Name != traffic.Addr: // 0 bytes may be logged as none
			faults = append(faults, fmt.Errorf("-%s: no line has a value of the %s", f.For, f.Name))
		}
	}
	return all, errors.Join(faults...)
}

// withHeaders returns the name of a format whose sizes are of the headers, too, if the size is needed and a
// file has such a format.
func (n *needs) withHeaders(formats []traffic.FileFormat) string {
	for _, f := range formats {
		if n.index(traffic.Size) >= 0 && traffic.CountsHeaders(f.Format) {
			return f.Format
		}
	}
	return ""
}

// named reports whether the log has a header in which proxies name their clients.
func (n *needs) named(on *traffic.Traffic) bool {
	for _, header := range n.sources {
		if on.Valued[n.index(traffic.Header(header))] > 0 {
			return true
		}
	}
	return false
}

// hasMethod reports whether a pattern has a method.
func hasMethod(pattern string) bool { return strings.ContainsAny(pattern, " \t") }

// hasHost reports whether a pattern has a host.
func hasHost(pattern string) bool {
	if i := strings.IndexAny(pattern, " \t"); i >= 0 {
		pattern = strings.TrimLeft(pattern[i:], " \t")
	}
	return pattern != "" && pattern[0] != '/'
}

// holds reports whether a limit of p holds units.
func holds(p *policies.Policy) bool {
	return slices.ContainsFunc(p.AllLimits(), func(l sash.Limit) bool { return l.Algorithm == sash.Concurrency })
}
