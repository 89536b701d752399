package replay_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/replay"
)

// choosePolicy lets some programs write the policy into a file, if the file can say what was measured.
func (s *settings) choosePolicy(r *rand.Rand) {
	if !s.fitsFile() || r.IntN(2) == 0 {
		return
	}
	s.policy = filepath.Join(s.dir, fmt.Sprintf("limits of %d.yaml", r.Uint32()))
	routed := slices.Contains(s.form.fields, "method") && slices.Contains(s.form.fields, "path") // or others cannot be replayed
	if other := pick(r, otherPolicies); other != "" && routed {
		if err := os.WriteFile(s.policy, []byte(other), 0o600); err != nil {
			panic(err)
		}
	}
	s.give("policy", s.policy, r)
}

// otherPolicies are files that a policy can be added to.
var otherPolicies = []string{
	"", "",
	"# the limits\npolicies:\n  - name: other\n    limits: [1000/s] # of all\n    key: everyone\n    pattern: /other\n",
	"policies:\n- key: address\n  name: other\n  limits: 5/m\n  pattern: /other",
	"parts: [&all {name: one, limits: 5/m, key: everyone, pattern: /other}]\npolicies:\n     - name: other\n       limits: 1/h\n       key: everyone\n       pattern: /other\n\n     - *all\n\n# the end\n",
}

// fitsFile reports whether a policy file can say what was measured.
func (s *settings) fitsFile() bool {
	for _, k := range s.key {
		if !slices.Contains([]string{"addr", "agent", "referer"}, k.name) {
			return false
		}
	}
	for _, w := range s.where {
		if !w.not && !slices.Contains([]string{"GET", "HEAD,GET", "/a", "/", "/b/*", "shop.example", "2xx", "404,200"}, w.text) {
			return false
		}
	}
	return s.cost == "" || s.cost == "size"
}

// takePolicyFile takes the policy from the file that suggest has written, in place of Go code.
func (p *program) takePolicyFile() {
	text, err := os.ReadFile(p.set.policy)
	if err != nil {
		p.fail("%v", err)
		return
	}
	before := strings.Count(string(text), "name: other")
	p.equal("the names in the file", strings.Count(string(text), "name: "), before+strings.Count(string(text), "name: one")+1)
	p.policy = fmt.Sprintf("fromFile(%q, %q)", text, p.set.name)
}

// enforce runs the command that replays the file.
func (p *program) enforce(words []string) {
	var err error
	if p.enforced, err = replay.Enforce(context.Background(), words[2:], strings.NewReader(p.stdin)); err != nil {
		p.fail("%s: %v", p.commands[0], err)
	}
}

// compareEnforced compares what became of each request under the file with what was replayed of the limits, with
// the requests that tell no client, and those that the policy is not for. A policy cannot leave anything out, and
// its pattern is for all spellings of a path, such as //a, and one of GET for HEAD. So it is not compared with
// recordings of less.
func (p *program) compareEnforced() {
	if p.set.policy == "" || slices.ContainsFunc(p.set.where, func(w where) bool { return w.not || w.text == "/a" || w.text == "GET" }) {
		return
	}
	type outcome struct {
		at  int64
		was string
	}
	of := map[*request]string{}
	for _, q := range p.strangers {
		of[q] = "unidentified"
	}
	for i, e := range p.events {
		of[e.request] = "admitted"
		if p.together[i].Denied&1 == 1 {
			of[e.request] = "denied"
		}
	}
	anywhere := p.set.selection
	anywhere.where = nil
	var want []outcome
	for _, q := range p.requests {
		at := q.at / int64(p.set.form.step) * int64(p.set.form.step)
		if anywhere.has(at, q) {
			want = append(want, outcome{at, cmp.Or(of[q], "admitted")})
		}
	}
	slices.SortStableFunc(want, func(a, b outcome) int { return cmp.Compare(a.at, b.at) })
	p.equal("the number of requests replayed by the file", len(p.enforced), len(want))
	for i, w := range want {
		if got := p.enforced[i]; p.err == nil && (got.At != w.at || got.Outcome != w.was) {
			p.fail("the file: request %d at %d is %s, want %+v", i, got.At, got.Outcome, w)
		}
	}
}
