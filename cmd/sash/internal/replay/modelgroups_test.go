package replay_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/replay"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/suggest"
	"github.com/seed-30da4c49/sash/internal/command"
)

// A groupsReport is the part of a report of suggest -by that the models compare.
type groupsReport struct {
	By []struct {
		Fields string
		Groups []groupReport
	}
}

type groupReport struct {
	Group  string
	Where  []string
	Events int64
	groupFindings
}

// groupFindings are what suggest finds for a group, or for what -where chooses.
type groupFindings struct {
	Windows, Policy, Top json.RawMessage
	Next                 []struct{ Text, Code string }
}

// TestModel_PoliciesOfGroupsAreEnforced runs random programs. Each is a recording of visits, and a file to which
// suggest adds a policy for each group. What replay says of each request under that file is what the middleware
// decides, as in TestModel_PoliciesAreEnforcedAsByTheMiddleware. If the groups are told apart by the path or the
// host alone, each request is counted by one policy at most: that denies as many as its limits deny by the command
// that the report prints for the group.
func TestModel_PoliciesOfGroupsAreEnforced(t *testing.T) {
	total := map[string]int{}
	for seed := uint64(1); seed <= number(t, "SASH_MODEL_PROGRAMS", 60) && !t.Failed(); seed++ {
		p := newCase(seed)
		if err := p.runGroups(t, total); err != nil {
			t.Errorf("seed %d, %v: %v\n%s", seed, p.args, err, p.policies)
		}
	}
	t.Log(total)
	for _, what := range []string{"files", "policies", "policies that deny", "denied", "admitted", "given back"} {
		require.Positive(t, total[what], what)
	}
}

// runGroups lets suggest write the file of the program, and runs it.
func (p *policyCase) runGroups(t *testing.T, total map[string]int) error {
	p.routes, p.lasting, p.shadow, p.name = nil, false, false, "limits.yaml"
	for _, v := range p.visits {
		v.socket, v.noise = false, false                // suggest counts what is no request to net/http
		v.path = strings.TrimPrefix(v.path, "//api/..") // a policy is for all spellings of a path
	}
	p.log, p.visits = p.diary.write(p.visits, false)
	by := []string{"path", "path/1", "path/2", "method,path", "path,status/1", "status", "method,path/1,status"}
	if p.diary.host {
		by = append(by, "host", "host,path")
	}
	file := filepath.Join(t.TempDir(), p.name)
	p.random.Shuffle(len(by), func(i, j int) { by[i], by[j] = by[j], by[i] })
	args := []string{"-json", "-by", by[0], "-policy", file, "-percentile", pick(p.random, []string{"20", "50", "80"}), "-headroom", "1", "-window", "2s", "-window", "10s"}
	if p.chance(4) {
		args = append(args, "-by", by[1])
	}
	if p.diary.format != "" {
		args = append(args, "-format", p.diary.format)
	}
	if p.diary.time != "" {
		args = append(args, "-time", p.diary.time, "-key", "addr/64")
	}
	var stdout, stderr bytes.Buffer
	if status := suggest.Run(context.Background(), args, strings.NewReader(p.log), &stdout, &stderr); status != command.OK {
		if strings.Contains(stderr.String(), "no group has a policy") {
			return nil
		}
		return fmt.Errorf("suggest %q: %s", args, &stderr)
	}
	var r groupsReport
	if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	p.policies = strings.ReplaceAll(string(text), "shadow: true", "shadow: false")
	total["files"]++
	if err := p.run(t, total); err != nil {
		return fmt.Errorf("suggest %q: %w", args, err)
	}
	return p.compareGroups(&r, total)
}

// compareGroups compares how many requests each policy denies with what its limits deny by the printed command.
func (p *policyCase) compareGroups(r *groupsReport, total map[string]int) error {
	var stdout, stderr bytes.Buffer
	if status := replay.Run(context.Background(), p.args, strings.NewReader(p.log), &stdout, &stderr); status != command.OK {
		return fmt.Errorf("replay: %s", &stderr)
	}
	var enforced struct {
		Policies struct {
			Policies []struct {
				Name   string
				Denied int
			}
		}
	}
	if err := json.Unmarshal(stdout.Bytes(), &enforced); err != nil {
		return err
	}
	for _, policy := range enforced.Policies.Policies {
		total["policies"]++
		if by := r.By[0].Fields; len(r.By) > 1 || strings.Contains(by, ",") || by == "status" {
			continue
		}
		i := slices.IndexFunc(r.By[0].Groups, func(g groupReport) bool { return g.Group == policy.Name })
		if i < 0 {
			return fmt.Errorf("no group for the policy %q", policy.Name)
		}
		commands := strings.Split(strings.TrimSpace(r.By[0].Groups[i].Next[0].Code), "\n")
		words, err := shellWords(commands[len(commands)-1:])
		if err != nil {
			return err
		}
		decided, err := replay.Decide(context.Background(), words[0][2:], strings.NewReader(p.log))
		if err != nil {
			return err
		}
		denied := 0
		for _, d := range decided {
			denied += int(d.Denied & 1)
		}
		if denied != policy.Denied {
			return fmt.Errorf("%s: %d are denied under the file, and %d by %q", policy.Name, policy.Denied, denied, words[0])
		}
		if denied > 0 {
			total["policies that deny"]++
		}
	}
	return nil
}

// chooseBy lets some programs find the same by groups. They run without it, too.
func (s *settings) chooseBy(r *rand.Rand) {
	var fields []string
	for _, f := range s.form.fields {
		if slices.Contains([]string{"method", "path", "host", "user", "agent", "status"}, f) {
			fields = append(fields, f)
		}
	}
	if len(fields) == 0 || r.IntN(4) > 0 {
		return
	}
	r.Shuffle(len(fields), func(i, j int) { fields[i], fields[j] = fields[j], fields[i] })
	s.by = fields[:1+r.IntN(min(2, len(fields)))]
	s.given = append(s.given, "by", "groups")
}

// checkGroups compares the groups of -by with the requests, and one of them with what -where finds.
func (p *program) checkGroups() {
	if p.set.by == nil || p.err != nil {
		return
	}
	var r groupsReport
	p.runSuggest(&r, "-by", strings.Join(p.set.by, ","), "-groups", "1000")
	if p.err != nil {
		return
	}
	groups := r.By[0].Groups
	events := map[string]int64{}
	for _, e := range p.events {
		name := ""
		for _, field := range p.set.by {
			name += cmp.Or(e.request.value(field), "-") + " "
		}
		events[name]++
	}
	var got, want []int64
	for i := range groups {
		got = append(got, groups[i].Events)
	}
	for _, n := range events {
		want = append(want, n)
	}
	slices.Sort(got)
	slices.Sort(want)
	p.equal("the events of groups", fmt.Sprint(got), fmt.Sprint(want))
	for i := range groups {
		g := &groups[i]
		if len(g.Where) == 0 || i > 0 && i != len(groups)/2 {
			continue
		}
		var where []string
		for _, w := range g.Where {
			where = append(where, "-where", w)
		}
		var alone struct {
			Events int64
			groupFindings
		}
		p.runSuggest(&alone, where...)
		p.equal("the events of the group "+g.Group, g.Events, alone.Events)
		a, _ := json.Marshal(alone.groupFindings)
		b, _ := json.Marshal(g.groupFindings)
		p.equal("the findings of the group "+g.Group, string(b), string(a))
	}
}

// runSuggest runs suggest with further flags, before the program's, and decodes its report.
func (p *program) runSuggest(report any, flags ...string) {
	args := slices.Concat(flags, p.set.reading, []string{"-json"}, p.files)
	var stdout, stderr bytes.Buffer
	if status := suggest.Run(context.Background(), args, strings.NewReader(p.stdin), &stdout, &stderr); status != command.OK {
		p.fail("sash suggest %q: status %d, %s", args, status, &stderr)
		return
	}
	if err := json.Unmarshal(stdout.Bytes(), report); err != nil {
		p.fail("%v", err)
	}
}
