package check

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/policies"
)

// A finding is a warning about a policy.
type finding struct {
	place        policies.Place
	policy, text string
}

// warnings returns what of a file is likely to be a mistake, in the order of the policies.
func warnings(file *policies.File) (all []finding) {
	for i := range file.Policies {
		p := &file.Policies[i]
		for _, look := range []func(*policies.File, int) string{
			neverAdmits, oddMethod, twin, counter, shortLease, longQueue, missesProxies, skipsProxies, chosenKey, chosenPlan, locks, hangUps, shadow,
		} {
			if text := look(file, i); text != "" {
				all = append(all, finding{p.Place, p.Name, text})
			}
		}
	}
	return all
}

// oddMethod finds a method that clients do not send, and a host that is a method for want of a space.
func oddMethod(file *policies.File, i int) string {
	method, host, path := partsOf(file.Policies[i].Pattern)
	upper, named := strings.ToUpper(method), strings.ToUpper(strings.TrimSpace(host))
	switch {
	case method != "" && !usualMethod(upper):
		return fmt.Sprintf("its pattern matches no usual request: HTTP has no registered method %s", method)
	case method != upper:
		return fmt.Sprintf("its pattern matches no usual request, as methods are compared with their case: write %s", upper)
	case method == "" && slices.Contains(commonMethods, named):
		return fmt.Sprintf("its pattern is for a host named %q: write \"%s %s\"", strings.TrimSpace(host), named, path)
	}
	return ""
}

// commonMethods are the methods for which a host is taken that is named like one.
var commonMethods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE"}

// usualMethod reports whether method is in the registry of HTTP's methods, or is PURGE, which caches take.
// See https://www.iana.org/assignments/http-methods.
func usualMethod(method string) bool {
	const usual = " ACL BASELINE-CONTROL BIND CHECKIN CHECKOUT CONNECT COPY DELETE GET HEAD LABEL LINK LOCK MERGE" +
		" MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE MOVE OPTIONS ORDERPATCH PATCH POST PRI PROPFIND" +
		" PROPPATCH PURGE PUT QUERY REBIND REPORT SEARCH TRACE UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE" +
		" UPDATEREDIRECTREF VERSION-CONTROL "
	return strings.Contains(usual, " "+method+" ")
}

// twin finds a policy before that differs by nothing but its name and limits.
func twin(file *policies.File, i int) string {
	p := &file.Policies[i]
	for _, other := range file.Policies[:i] {
		if sameRequests(p, &other) {
			return fmt.Sprintf("it has the pattern, the key and the charges of %q: one policy with the limits of both decides the same", other.Name)
		}
	}
	return ""
}

// sameRequests reports whether two policies charge the same clients for the same requests.
func sameRequests(p, q *policies.Policy) bool {
	plain := func(p *policies.Policy) bool {
		return p.Policy.Cost == nil && p.Policy.Leave == nil && p.Policy.Settle == nil && p.Policy.Skip == nil && p.Plans == nil && p.Queue.Wait == 0 && p.ChargeUncertain == nil
	}
	return plain(p) && plain(q) && p.Pattern == q.Pattern && p.Shadow == q.Shadow && p.Unit == q.Unit && p.Near == q.Near &&
		slices.Equal(p.Charge, q.Charge) && sameKey(&p.Key, &q.Key)
}

// sameKey reports whether two keys are the same, wherever they stand.
func sameKey(a, b *policies.Key) bool {
	if len(a.Parts) != len(b.Parts) {
		return false
	}
	for i := range a.Parts {
		if !sameKey(&a.Parts[i], &b.Parts[i]) {
			return false
		}
	}
	return a.Kind == b.Kind && a.Name == b.Name && reflect.DeepEqual(a.Address, b.Address)
}

// patience is after what time most clients and proxies give up.
const patience = time.Minute

func longQueue(file *policies.File, i int) string {
	if wait := file.Policies[i].Queue.Wait; wait > patience {
		return fmt.Sprintf("its queue lets requests wait for %s: most proxies and clients give up after %s, and the server's WriteTimeout counts the wait", output.Short(wait), output.Short(patience))
	}
	return ""
}

// hangUps finds charges that a client gets back by hanging up.
func hangUps(file *policies.File, i int) string {
	const cancelled, deadlineExceeded, none = 1, 4, 0
	p := &file.Policies[i]
	switch stays := p.ChargeUncertain; {
	case stays == nil:
	case p.OfCodes() && !(stays(cancelled) && stays(deadlineExceeded)):
		return "a client that cancels its call is charged nothing: add CANCELLED and DEADLINE_EXCEEDED to charge-uncertain"
	case !p.OfCodes() && !stays(none):
		return "a client that hangs up before the answer is charged nothing: add none to charge-uncertain"
	}
	return ""
}

func shadow(file *policies.File, i int) string {
	if file.Policies[i].Shadow {
		return "it is a shadow, and denies nothing"
	}
	return ""
}

// notes returns what to know of a file.
func notes(file *policies.File) (all []string) {
	direct := false
	for i := range file.Policies {
		for _, a := range addresses(&file.Policies[i]) {
			if a.Behind() {
				return nil
			}
			direct = true
		}
	}
	if direct {
		all = append(all, "no key trusts a proxy: if one stands before the server, all its clients share one count; name it by trust-proxies")
	}
	return all
}
