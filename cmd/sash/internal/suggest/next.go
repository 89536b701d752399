package suggest

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// A step is what to do next, with the command or the code for it.
type step struct {
	Text string `json:"text"`
	Code string `json:"code"`
}

// nextSteps returns the way from the suggestions to limits that are enforced.
func nextSteps(f *findings, o *options) []step {
	if f.Policy == nil {
		return []step{}
	}
	limits, key := f.Policy.Limits, f.key
	if o.file != nil {
		return fileSteps(limits, key, o)
	}
	return []step{
		{"Replay them: whom do they deny, and when? Parts take less memory than a log; the replay says where they differ.", replayCommands(limits, o)},
		{"Shadow them in production: the policy decides, and denies nothing. Count its outcomes for a week.", policyCode(limits, key, o)},
		{"Enforce them: remove Shadow, and go on counting.", ""},
	}
}

// fileSteps is nextSteps of a policy that was added to a file.
func fileSteps(limits []sash.Limit, key traffic.Key, o *options) []step {
	// The file tells clients and costs, and for which requests the policy is.
	words := append([]string{"sash replay -policy", quoted(o.policy)}, o.input("key", "trust", "cost", "where")...)
	return []step{
		{"Replay the file: whom does it deny, and when? Parts take less memory than a log; the replay of single limits says where they differ.",
			strings.Join(words, " ") + "\n" + replayCommands(limits, o)},
		{"Shadow it in production: policyfile.Load reads the file, policyfile.Watch follows it. The policy decides, and denies nothing. Count its outcomes for a week.", policyText(o.policyName(), limits, key, o)},
		{"Enforce it: write shadow: false, and go on counting.", ""},
	}
}

// replayCommands returns commands that replay the limits: each alone, as a log and by
// what sash.Per would choose in place of a log, and all together, as the policy decides.
func replayCommands(limits []sash.Limit, o *options) string {
	var alone, all []string
	for _, l := range limits {
		log := "-limit " + quoted(rate(l)+" log")
		alone, all = append(alone, log), append(all, log)
		if l.Count > sash.SmallCount {
			alone = append(alone, "-limit "+rate(l))
		}
		if o.settles() {
			all = append(all, "-limit "+quoted(fmt.Sprintf("%s burst %d", rate(l), 2*l.Count))) // as httplimit carries debts
		}
	}
	command := func(limits []string, flags ...string) string {
		words := append([]string{"sash replay"}, flags...)
		if estimate := o.estimate(); estimate > 0 {
			words = append(words, fmt.Sprint("-estimate ", estimate))
		}
		words = append(append(words, limits...), o.input()...)
		return strings.Join(words, " ") + "\n"
	}
	text := command(alone)
	if len(all) > 1 {
		text += command(all, "-together")
	}
	return text
}

// policyCode returns the Go code of the shadow policy. It tells clients apart, and counts, as was
// measured.
func policyCode(limits []sash.Limit, key traffic.Key, o *options) string {
	var calls []string
	for _, l := range limits {
		calls = append(calls, limitCode(l))
	}
	c := scopeOf(&o.Selection)
	fields := []string{`Name:   "suggested",`}
	if c.pattern != "" {
		fields = append(fields, fmt.Sprintf("Pattern: %q,", c.pattern))
	}
	fields = append(fields, "Limits: []sash.Limit{"+strings.Join(calls, ", ")+"},", "Key:    "+keyCode(key, o.Trust))
	if len(c.statuses) > 0 {
		fields = append(fields, "Charge: "+c.chargeCode()+",")
	}
	switch {
	case o.Cost == nil:
	case o.settles():
		fields = append(fields, `Unit:   "content-bytes",`, "Settle: httplimit.SettleBytes(), // known afterwards: the request that exceeds a limit is served")
	default:
		fields = append(fields, fmt.Sprintf("Unit:   %q,", asUnit(o.Cost)), "Cost:   …, // func(*http.Request) int64: the "+o.unit()+"; or Settle, if they are known afterwards")
	}
	for _, remark := range c.remarks {
		fields = append(fields, "// "+remark)
	}
	fields = append(fields, "Shadow: true,")
	return "httplimit.Policy{\n\t" + strings.Join(fields, "\n\t") + "\n}\n"
}

// asUnit returns the sum as the Unit of a policy, which is printable ASCII.
func asUnit(cost *traffic.Sum) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' {
			return '_'
		}
		return c
	}, cost.String())
}

// settles reports whether the policy settles what a request has cost after its response.
func (o *options) settles() bool { return o.Cost != nil && o.Cost.String() == "size" }

// estimate returns what the policy takes until it settles a request; 0 if it does not settle.
func (o *options) estimate() int64 {
	if o.settles() {
		return 1
	}
	return 0
}

// keyCode returns the Go code of the Key of a policy, and a remark.
func keyCode(key traffic.Key, trust []netip.Prefix) string {
	var parts []string
	for _, f := range key {
		code, known := requestCode[f.Name()]
		switch bits4, bits6, networks := f.Networks(); {
		case f.Name() == traffic.Addr:
			parts = append(parts, addressCode(bits4, bits6, trust))
		case known && !networks:
			parts = append(parts, "httplimit.By(func(r *http.Request) (string, bool) { return "+code+", true })")
		default:
			parts = append(parts, "…")
		}
	}
	code := strings.Join(parts, ", ")
	switch len(parts) {
	case 0:
		return "httplimit.Everyone(),"
	case 1:
		code += ","
	default:
		code = "httplimit.Join(" + code + "),"
	}
	var remarks []string
	if strings.Contains(code, "…,") || strings.Contains(code, "…)") {
		remarks = append(remarks, "…: the httplimit.KeyFunc of "+key.String())
	}
	if len(trust) == 0 && strings.Contains(code, "ByAddress") {
		remarks = append(remarks, "behind a proxy: httplimit.ByAddress(httplimit.TrustProxies(…))")
	}
	if len(remarks) > 0 {
		code += " // " + strings.Join(remarks, "; ")
	}
	return code
}

// requestCode is the Go code of what fields of a log are in a request.
var requestCode = map[string]string{
	"method": "r.Method", "host": "r.Host", "path": "r.URL.EscapedPath()", "agent": "r.UserAgent()", "referer": "r.Referer()",
}

// addressCode returns the Go code of the KeyFunc of addresses behind those proxies. That
// many leading bits of an address count.
func addressCode(bits4, bits6 int, trust []netip.Prefix) string {
	var options []string
	if len(trust) > 0 {
		var networks []string
		for _, n := range trust {
			networks = append(networks, fmt.Sprintf("netip.MustParsePrefix(%q)", n))
		}
		options = append(options, "httplimit.TrustProxies("+strings.Join(networks, ", ")+")")
	}
	if bits4 != 32 {
		options = append(options, fmt.Sprintf("httplimit.IPv4Prefix(%d)", bits4))
	}
	if bits6 != 64 {
		options = append(options, fmt.Sprintf("httplimit.IPv6Prefix(%d)", bits6))
	}
	return "httplimit.ByAddress(" + strings.Join(options, ", ") + ")"
}

// textOf returns a limit as people write it, with the word log if sash.Per would not choose one.
func textOf(l sash.Limit) string {
	if l.Count > sash.SmallCount {
		return rate(l) + " log"
	}
	return rate(l)
}

// limitCode returns a limit as a Go expression.
func limitCode(l sash.Limit) string {
	var call string
	switch l.Window {
	case time.Second:
		call = fmt.Sprintf("sash.PerSecond(%d)", l.Count)
	case time.Minute:
		call = fmt.Sprintf("sash.PerMinute(%d)", l.Count)
	case time.Hour:
		call = fmt.Sprintf("sash.PerHour(%d)", l.Count)
	default:
		call = fmt.Sprintf("sash.Per(%d, %s)", l.Count, durationCode(l.Window))
	}
	if l.Count > sash.SmallCount {
		call += ".Log()"
	}
	return call
}

// durationCode returns a duration as a Go expression, in the largest unit that divides it.
func durationCode(d time.Duration) string {
	for _, u := range []struct {
		length time.Duration
		name   string
	}{{time.Hour, "time.Hour"}, {time.Minute, "time.Minute"}, {time.Second, "time.Second"}, {time.Millisecond, "time.Millisecond"}} {
		if d%u.length == 0 {
			return fmt.Sprintf("%d*%s", d/u.length, u.name)
		}
	}
	return fmt.Sprintf("%d", int64(d))
}

// quoted returns a word for a shell.
func quoted(word string) string {
	if word != "" && strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%") == "" {
		return word
	}
	if !strings.ContainsAny(word, "\"$`\\!") {
		return `"` + word + `"`
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
