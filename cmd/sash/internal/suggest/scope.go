package suggest

import (
	"net/url"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// A scope is which requests were measured, in the terms of a policy.
type scope struct {
	pattern  string   // of the requests that the policy is for; "": all
	statuses []string // that stay charged, as a policy file has them: 401 or 4xx; none: all
	unsaid   []string // conditions that name what is counted, and that a policy cannot have
	remarks  []string // what the policy counts that was not measured
}

// scopeOf returns the scope of a selection. A condition becomes part of a policy if it names what is counted.
// One that leaves something out, such as an incident, says how to measure, and not what to limit.
//
// A condition that another implies adds nothing.
func scopeOf(s *traffic.Selection) (c scope) {
	var method, host, path string
	for i := range s.Where {
		if isImplied(s.Where, i) {
			continue
		}
		w, one := &s.Where[i], ""
		if len(w.Values) == 1 && !w.Not {
			one = w.Values[0]
		}
		switch {
		case w.Field == "method" && method == "" && !w.Not && len(w.Values) == 2 && slices.Contains(w.Values, "GET") && slices.Contains(w.Values, "HEAD"):
			method = "GET "
		case w.Field == "method" && method == "" && isPlain(one):
			if method = one + " "; one == "GET" {
				c.remarks = append(c.remarks, "measured where method=GET; a pattern of GET is for HEAD, too")
			}
		case w.Field == "host" && host == "" && isPlain(one) && !strings.Contains(one, ":"):
			host = one
		case w.Field == "path" && path == "" && patternOf(one) != "":
			path = patternOf(one)
		case w.Field == "status" && !w.Not && c.statuses == nil && areStatuses(w.Values):
			c.statuses = w.Values
		default:
			c.remarks = append(c.remarks, "measured where "+w.String()+"; it counts the others, too")
			if !w.Not {
				c.unsaid = append(c.unsaid, w.String())
			}
		}
	}
	if path == "" && method+host != "" {
		path = "/"
	}
	c.pattern = method + host + path
	return c
}

// isImplied reports whether another condition implies the i-th. Of two that imply each other, only the later is.
func isImplied(all []traffic.Where, i int) bool {
	for j := range all {
		if j != i && all[j].Implies(&all[i]) && (j < i || !all[i].Implies(&all[j])) {
			return true
		}
	}
	return false
}

// isPlain reports whether a value stands for itself alone, in a condition and in a pattern.
func isPlain(value string) bool {
	return value != "" && value != "-" && !strings.ContainsAny(value, "*{} /")
}

// patternOf returns the path of a pattern for the paths that a value of -where stands for, or "".
func patternOf(value string) string {
	path, tree := strings.CutSuffix(value, "*")
	switch _, err := url.PathUnescape(path); {
	case err != nil:
		return "" // the server refuses such a request before any policy
	case !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "*{} ?") || strings.Contains(path, "//") || strings.Contains(path, "/."):
		return ""
	case tree && !strings.HasSuffix(path, "/"):
		return "" // it stands for a part of a segment, too
	case !tree && strings.HasSuffix(path, "/"):
		return path + "{$}"
	}
	return path
}

// areStatuses reports whether all values are statuses, or classes of them.
func areStatuses(values []string) bool {
	for _, v := range values {
		digits := strings.TrimSuffix(v, "xx")
		if len(v) != 3 || len(digits) == 2 || v[0] < '1' || v[0] > '5' || strings.Trim(digits, "0123456789") != "" {
			return false
		}
	}
	return true
}

// chargeCode returns the Go code of the Charge of a policy.
func (c *scope) chargeCode() string {
	var conditions []string
	for _, v := range c.statuses {
		if class, found := strings.CutSuffix(v, "xx"); found {
			conditions = append(conditions, "status/100 == "+class)
		} else {
			conditions = append(conditions, "status == "+v)
		}
	}
	return "func(status int) bool { return " + strings.Join(conditions, " || ") + " }"
}
