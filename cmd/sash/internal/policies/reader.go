package policies

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/policyfile"
	"github.com/seed-30da4c49/sash/internal/policytree"
)

// A reader reads what policies are made of. It takes the values as they are: policyfile reports the faults.
type reader struct{ file *File }

func (r *reader) policies(list *policytree.Node) (all []Policy) {
	if list == nil {
		return nil
	}
	for _, n := range list.Items {
		all = append(all, r.policy(n))
	}
	return all
}

// policy reads what a policy is made of.
func (r *reader) policy(n *policytree.Node) Policy {
	p := Policy{
		Place:     placeOf(n),
		Key:       r.key(n.Field("key")),
		Plan:      headerOf(n.Field("plan")),
		Charge:    texts(n.Field("charge")),
		Uncertain: texts(n.Field("charge-uncertain")),
		Leave:     r.leave(n.Field("leave")),
		Skip:      r.skip(n.Field("skip")),
		Settle:    r.settle(n.Field("settle")),
	}
	if plan := n.Field("plan"); isText(plan) {
		r.function("WithPlan", plan)
	}
	switch cost := n.Field("cost"); {
	case isText(cost):
		r.function("WithCost", cost)
	case cost != nil:
		if units, err := strconv.ParseInt(cost.Text, 10, 64); err == nil {
			p.Cost = &units
		}
	}
	return p
}

func placeOf(n *policytree.Node) Place {
	if n == nil {
		return Place{1, 1}
	}
	return Place{n.Line, n.Column}
}

func isText(n *policytree.Node) bool { return n != nil && n.Kind == policytree.Text }

// headerOf returns the canonical name of the header in {header: NAME}, or "".
func headerOf(n *policytree.Node) string {
	if h := n.Field("header"); isText(h) {
		return http.CanonicalHeaderKey(h.Text)
	}
	return ""
}

// texts returns the texts of a list, or of a single value.
func texts(n *policytree.Node) (all []string) {
	for _, item := range n.Each() {
		all = append(all, item.Text)
	}
	return all
}

func (r *reader) function(option string, n *policytree.Node) {
	r.file.Functions = append(r.file.Functions, Function{placeOf(n), option, n.Text})
}

func (r *reader) leave(n *policytree.Node) (l Leave) {
	switch {
	case n == nil:
	case isText(n) && (n.Text == "" || n.Text[len(n.Text)-1] != '%'):
		r.function("WithLeave", n)
	case n.Kind != policytree.Mapping:
		l.Amount = n.Text
	default:
		l.Header, l.Classes = headerOf(n), map[string]string{}
		if classes := n.Field("classes"); classes != nil {
			for _, e := range classes.Entries {
				l.Classes[e.Name] = e.Value.Text
			}
		}
	}
	return l
}

func (r *reader) skip(n *policytree.Node) Skip {
	s := Skip{Methods: texts(n.Field("methods")), Networks: texts(n.Field("networks")), Address: addressOf(n.Field("address"))}
	function := n
	if !isText(n) {
		function = n.Field("function")
	}
	if isText(function) {
		r.function("WithSkip", function)
		s.Function = function.Text
	}
	return s
}

func (r *reader) settle(n *policytree.Node) (s Settle) {
	switch {
	case !isText(n):
		s.Header = headerOf(n)
	case n.Text == "bytes":
		s.Bytes = true
	case n.Text == "estimate":
		s.Estimate = true
	default:
		r.function("WithSettle", n)
	}
	return s
}

// options returns the options for the functions that are declared.
func options(functions []Function, declared []string) (all []policyfile.Option) {
	for _, f := range functions {
		if !slices.Contains(declared, f.Name) {
			continue // a fault of the file
		}
		switch f.Option {
		case "WithKey":
			all = append(all, policyfile.WithKey(f.Name, httplimit.Everyone()))
		case "WithPlan":
			all = append(all, policyfile.WithPlan(f.Name, func(*http.Request) string { return "" }))
		case "WithCost":
			all = append(all, policyfile.WithCost(f.Name, func(*http.Request) int64 { return 1 }))
		case "WithLeave":
			all = append(all, policyfile.WithLeave(f.Name, func(*http.Request) int64 { return 0 }))
		case "WithSkip":
			all = append(all, policyfile.WithSkip(f.Name, func(*http.Request) bool { return false }))
		case "WithSettle":
			all = append(all, policyfile.WithSettle(f.Name, httplimit.SettleEstimate()))
		}
	}
	return all
}
