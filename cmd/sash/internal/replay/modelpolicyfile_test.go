package replay_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// choosePolicy lets some programs write the policy into a file, if the file can say what was measured.
func (s *settings) choosePolicy(r *rand.Rand) {
	if !s.fitsFile() || r.IntN(2) == 0 {
		return
	}
	s.policy = filepath.Join(s.dir, fmt.Sprintf("limits of %d.yaml", r.Uint32()))
	if other := pick(r, otherPolicies); other != "" {
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
		if !w.not && !slices.Contains([]string{"GET", "/a", "/", "/b/*", "shop.example", "2xx", "404,200"}, w.text) {
			return false
		}
	}
	return s.cost == "" || s.cost == "size"
}

// takePolicyFile takes the policy from the file that suggest has written, in place of Go code.
func (p *program) takePolicyFile() {
	p.commands = p.commands[1:] // which replays the file
	text, err := os.ReadFile(p.set.policy)
	if err != nil {
		p.fail("%v", err)
		return
	}
	before := strings.Count(string(text), "name: other")
	p.equal("the names in the file", strings.Count(string(text), "name: "), before+strings.Count(string(text), "name: one")+1)
	p.policy = fmt.Sprintf("fromFile(%q, %q)", text, p.set.name)
}
