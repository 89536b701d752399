package replay_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/replay"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/suggest"
	"github.com/seed-30da4c49/sash/internal/command"
)

// A program is a recording and a command line of suggest. It is a function of its seed.
type program struct {
	seed     uint64
	dir      string
	world    *world
	set      *settings
	sent     []*request // in the order of time
	servers  int        // that log them
	places   int        // that a line may be late
	requests []*request // in the order of lines
	files    []string
	stdin    string

	events    []event
	strangers []*request // that tell no client
	garbage   int        // lines that are no requests

	report   report
	commands []string // that the report tells to run
	alone    []replay.Decided
	together []replay.Decided
	enforced []replay.Enforced // by the file of -policy
	printed  printedProgram
	asked    []*replay.Decided // by replay, for each request of printed; nil for a stranger's
	policy   string            // the code of the policy, completed; empty if there is none

	steps []string
	err   error
}

// A report is the part of the report of suggest that the model compares.
type report struct {
	Events     int64  `json:"events"`
	Clients    int    `json:"clients"`
	Key        string `json:"key"`
	Unreadable int    `json:"unreadable"`
	LeftOut    int    `json:"left_out"`
	Windows    []struct {
		Window     string      `json:"window"`
		P50        int64       `json:"p50"`
		P90        int64       `json:"p90"`
		P99        int64       `json:"p99"`
		P999       int64       `json:"p99.9"`
		Max        int64       `json:"max"`
		Candidates []candidate `json:"candidates"`
		Suggested  *candidate  `json:"suggested"`
	} `json:"windows"`
	Policy *struct {
		Limits  []sash.Limit `json:"limits"`
		Clients int          `json:"clients"`
	} `json:"policy"`
	Top      []json.RawMessage             `json:"top"`
	Warnings []struct{ Kind, Text string } `json:"warnings"`
	Next     []struct{ Text, Code string } `json:"next"`
}

type candidate struct {
	Limit        sash.Limit `json:"limit"`
	Clients      int        `json:"clients"`
	Denied       int64      `json:"denied"`
	AtPercentile int64      `json:"at_percentile"` // of the suggested one
}

// newProgram returns the program of a seed, with its files below dir.
func newProgram(seed uint64, dir string) *program {
	r := rand.New(rand.NewPCG(seed, 0x5a5b))
	p := &program{seed: seed, dir: dir}
	f := pick(r, forms)
	p.world = newWorld(r, r.IntN(2) == 0)
	p.set = newSettings(r, f, p.world, dir)
	p.sent = p.world.requests(p.set.windows)
	p.printed.Enforced = r.IntN(2) == 0
	if r.IntN(2) == 0 {
		p.places = r.IntN([]int{4, 60}[r.IntN(2)])
	}
	p.servers = []int{1, 1, 1, 2, 3}[r.IntN(5)]
	p.write()
	return p
}

// write makes the logs of one server or several, and gives them to suggest as files or as standard
// input.
func (p *program) write() {
	r := rand.New(rand.NewPCG(p.seed, 0x106))
	p.set.logger.random = r
	servers, logs := make([][]*request, p.servers), []string{}
	for _, q := range p.sent {
		i := r.IntN(len(servers))
		servers[i] = append(servers[i], q)
	}
	for i, requests := range servers {
		requests = late(r, requests, p.places)
		p.requests = append(p.requests, requests...)
		text, garbage := p.set.logger.log(requests)
		p.garbage += garbage
		logs = append(logs, text)
		if len(servers) == 1 && r.IntN(3) > 0 {
			p.stdin = text
			continue
		}
		name := filepath.Join(p.dir, fmt.Sprintf("%d-%d%s", p.seed, i, pick(r, []string{".log", " it's.log", "$a.log", "ü.log"})))
		if err := os.WriteFile(name, packed(text, r), 0o600); err != nil {
			p.fail("%v", err)
		}
		p.files = append(p.files, name)
	}
	p.events, p.strangers = p.set.events(p.requests)
	if len(p.sent) < 10 { // a program that has been shrunk
		p.step("%s", strings.Join(logs, "--\n"))
	}
	p.step("%s: %d requests of %d clients, %d of them bots; proxies %v; %d servers; up to %d places late", p.set.form.names[0], len(p.sent), len(p.world.clients), p.world.bots, p.world.proxies, p.servers, p.places)
}

func (p *program) step(format string, args ...any) {
	p.steps = append(p.steps, fmt.Sprintf(format, args...))
}

func (p *program) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

func packed(text string, r *rand.Rand) []byte {
	if r.IntN(6) > 0 {
		return []byte(text)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write([]byte(text))
	z.Close()
	return b.Bytes()
}

// suggest runs suggest, and compares its report with the reference.
func (p *program) suggest() {
	args := slices.Concat(p.set.args, []string{"-json"}, p.files)
	p.step("sash suggest %q", args)
	var stdout, stderr bytes.Buffer
	status := suggest.Run(context.Background(), args, strings.NewReader(p.stdin), &stdout, &stderr)
	switch {
	case p.set.ambiguous:
		if status != command.Failed || stdout.Len() > 0 || !strings.Contains(stderr.String(), "-format '%{X-Forwarded-For}i %h") {
			p.fail("lines that begin with two addresses: status %d, %s%s", status, &stdout, &stderr)
		}
		return
	case len(p.events) == 0:
		p.equal("the status without events", status, command.Failed)
		return
	case status == command.Failed && p.set.policy != "" && strings.Contains(stderr.String(), "no limit is suggested, so"):
	case status != command.OK:
		p.fail("status %d, stderr %s", status, &stderr)
		return
	}
	if err := json.Unmarshal(stdout.Bytes(), &p.report); err != nil {
		p.fail("%v", err)
		return
	}
	if len(p.report.Next) == 3 {
		p.commands = strings.Split(strings.TrimSuffix(p.report.Next[0].Code, "\n"), "\n")
		if p.policy = completed(p.report.Next[1].Code); p.set.policy != "" {
			p.takePolicyFile()
		}
		p.step("%s", strings.Join(p.commands, "\n"))
		p.step("%s", p.policy)
	}
	p.checkReport()
	p.checkText()
	p.checkPicture()
	p.checkGroups()
}

// checkText compares the report in words with that in JSON.
func (p *program) checkText() {
	if p.err != nil || slices.Contains(p.set.given, "json") || p.policy == "" || p.set.policy != "" { // a policy is added once
		return
	}
	var stdout, stderr bytes.Buffer
	suggest.Run(context.Background(), slices.Concat(p.set.args, p.files), strings.NewReader(p.stdin), &stdout, &stderr)
	text := strings.ReplaceAll(stdout.String(), "\n       ", "\n")
	for _, step := range p.report.Next {
		if !strings.Contains(text, step.Text+"\n"+step.Code) {
			p.fail("the report in words has no %q, %s:\n%s", step.Text, step.Code, text)
		}
	}
}

// checkPicture checks that there is a picture if one is wanted.
func (p *program) checkPicture() {
	if p.set.svg == "" {
		return
	}
	picture, err := os.ReadFile(p.set.svg)
	if err != nil || !bytes.Contains(picture, []byte("</svg>")) {
		p.fail("the picture: %v", err)
	}
}

func (p *program) checkReport() {
	r := &p.report
	names := map[string]bool{}
	for _, e := range p.events {
		names[e.client] = true
	}
	p.equal("events", r.Events, int64(len(p.events)))
	p.equal("unreadable lines", r.Unreadable, len(p.strangers)+p.garbage)
	p.equal("lines left out", r.LeftOut, len(p.requests)-len(p.events)-len(p.strangers))
	p.equal("clients", r.Clients, len(names))
	p.equal("clients shown", len(r.Top), min(p.set.top, len(names)))
	if p.err == nil {
		for i := range r.Windows {
			p.checkWindow(i)
		}
		p.checkWarnings()
	}
}

func (p *program) checkWindow(i int) {
	r, window := &p.report.Windows[i], p.set.windows[i]
	sorted := busiest(p.events, window, p.set.measures())
	p.equal("a window", r.Window, window.String())
	for share, got := range map[string]int64{"50": r.P50, "90": r.P90, "99": r.P99, "99.9": r.P999, "100": r.Max} {
		p.equal("the percentile "+share+" of "+r.Window, got, percentile(sorted, share))
	}
	tried := r.Candidates
	if r.Suggested != nil {
		tried = append(slices.Clone(tried[len(tried)/2:len(tried)/2+1]), *r.Suggested)
	}
	for _, c := range tried {
		n, clients := tally(p.events, decide(p.events, []sash.Limit{c.Limit}, p.set.measures()))
		p.equal(fmt.Sprint("events denied by ", c.Limit), c.Denied, n)
		p.equal(fmt.Sprint("clients denied by ", c.Limit), c.Clients, clients)
	}
	span := time.Duration(p.events[len(p.events)-1].at - p.events[0].at)
	want := suggested(percentile(sorted, p.set.percentile), p.set.headroom)
	if span/3 < window {
		want = 0
	}
	got := int64(0)
	if r.Suggested != nil {
		got = r.Suggested.Limit.Count
		p.equal("the window suggested", r.Suggested.Limit.Window, window)
		p.equal("the percentile suggested for", r.Suggested.AtPercentile, percentile(sorted, p.set.percentile))
	}
	p.equal("the count suggested for "+r.Window, got, want)
}

func (p *program) equal(what string, got, want any) {
	if got != want {
		p.fail("%s: got %v, want %v", what, got, want)
	}
}

// replay runs the commands that the report tells to run, and compares them with the reference.
func (p *program) replay(words [][]string) {
	if p.err != nil || p.policy == "" {
		return
	}
	if p.set.policy != "" {
		p.enforce(words[0])
		words = words[1:]
	}
	for i, w := range words {
		if len(w) < 3 || w[0] != "sash" || w[1] != "replay" {
			p.fail("command %q", w)
			return
		}
		decided, err := replay.Decide(context.Background(), w[2:], strings.NewReader(p.stdin))
		if err != nil {
			p.fail("%s: %v", p.commands[i], err)
			return
		}
		if p.together = decided; i == 0 {
			p.alone = decided
		}
	}
	p.compareEvents()
	if p.err == nil {
		p.compareReplay()
	}
	if p.err == nil {
		p.compareEnforced()
	}
}

// compareEvents compares the events that were replayed with the reference. Each client has one name
// there, and no other client has it.
func (p *program) compareEvents() {
	p.equal("the number of events replayed together", len(p.together), len(p.events))
	p.equal("the number of events replayed alone", len(p.alone), len(p.events))
	clients := newNames()
	for i, d := range p.together {
		if p.err != nil {
			return
		}
		if e := p.events[i]; !clients.match(d.Client, e.client) || d.At != e.at || d.Cost != e.cost {
			p.fail("event %d is %+v, want %d, cost %d, of %s, who was %q", i, d, e.at, e.cost, e.client, clients.left[e.client])
		}
	}
}

// compareReplay compares what was replayed with the reference, and with the report.
func (p *program) compareReplay() {
	limits := p.report.Policy.Limits
	alone, together := before, before
	if p.set.settles() {
		alone, together = settled, carried
	}
	p.compareDenials("together", p.together, 0, decide(p.events, limits, together))
	bit := 0
	for _, l := range limits {
		p.compareDenials(l.String()+" alone", p.alone, bit, decide(p.events, []sash.Limit{l}, alone))
		if bit++; l.Count > sash.SmallCount {
			bit++ // of the parts, which are no exact limit
		}
	}
	known := decide(p.events, limits, p.set.measures())
	_, clients := tally(p.events, known)
	p.equal("clients denied by the policy", p.report.Policy.Clients, clients)
	p.compareClients(known)
	var all []sash.Limit
	for i := range p.report.Windows {
		if c := p.report.Windows[i].Suggested; c != nil {
			all = append(all, c.Limit)
			n, clients := tally(p.events, decide(p.events, []sash.Limit{c.Limit}, p.set.measures()))
			p.equal(fmt.Sprint("events denied by ", c.Limit), c.Denied, n)
			p.equal(fmt.Sprint("clients denied by ", c.Limit), c.Clients, clients)
		}
	}
	_, clients = tally(p.events, decide(p.events, all, p.set.measures()))
	p.equal("clients denied by all suggested limits", p.report.Policy.Clients, clients)
}

// compareDenials compares the policy of that bit with the reference.
func (p *program) compareDenials(what string, decided []replay.Decided, bit int, want []bool) {
	for i, d := range decided {
		if denied := d.Denied>>bit&1 == 1; denied != want[i] {
			p.fail("replayed, %s: event %d, %+v: denied: %t, want %t", what, i, d, denied, want[i])
			return
		}
	}
}

// compareClients fails if replay denies an event of a client that the report says is not denied.
func (p *program) compareClients(known []bool) {
	of := map[string]bool{}
	for i, e := range p.events {
		of[e.client] = of[e.client] || known[i]
	}
	for i, e := range p.events {
		if p.together[i].Denied&1 == 1 && !of[e.client] {
			p.fail("replayed: event %d of %s is denied, a client that the report says is not", i, e.client)
		}
	}
}

// prepare makes the requests for the printed policy, in the order of time, with those that tell no
// client.
func (p *program) prepare() {
	if p.err != nil || p.policy == "" {
		return
	}
	strange := slices.Clone(p.strangers)
	slices.SortStableFunc(strange, func(a, b *request) int { return cmp.Compare(a.at, b.at) })
	ask := func(at int64, q *request, d *replay.Decided) {
		p.asked = append(p.asked, d)
		p.printed.Requests = append(p.printed.Requests, p.ask(at, q))
	}
	for i, e := range p.events {
		for len(strange) > 0 && strange[0].at <= e.at {
			ask(strange[0].at, strange[0], nil)
			strange = strange[1:]
		}
		ask(e.at, e.request, &p.together[i])
	}
}

// ask returns a request for the printed policy.
func (p *program) ask(at int64, q *request) printedRequest {
	var fields []string
	for _, k := range p.set.keyOf() {
		if !slices.Contains([]string{"addr", "method", "host", "path", "agent", "referer"}, k.name) {
			part, _ := q.identity(k, nil)
			fields = append(fields, part)
		}
	}
	return printedRequest{
		At: at, Remote: q.peer.String(), Forwarded: q.forwarded, Method: q.method, Target: q.target(), Host: q.host,
		Agent: q.agent, Referer: q.referer, Fields: fields, Cost: p.set.costOf(q), Size: q.size,
	}
}

// comparePrinted compares what the printed policy has decided with the replay, event for event. Both
// must tell the same clients apart.
func (p *program) comparePrinted(result printedResult) {
	if result.Fault != "" || len(result.Outcomes) != len(p.printed.Requests) {
		p.fail("the printed policy: %s after %d requests", result.Fault, len(result.Outcomes))
		return
	}
	if !slices.Equal(result.Limits, p.report.Policy.Limits) {
		p.fail("the printed policy has the limits %v, want %v", result.Limits, p.report.Policy.Limits)
		return
	}
	clients := newNames()
	for i, d := range p.asked {
		want := byte('u')
		switch {
		case d == nil:
		case d.Denied&1 == 1:
			want = 'd'
		default:
			want = 'a'
		}
		got := result.Outcomes[i]
		if got == want && (d == nil || clients.match(d.Client, result.Identities[i])) {
			continue
		}
		p.fail("the printed policy: request %d, %+v: %c of client %q, want %c, %+v", i, p.printed.Requests[i], got, result.Identities[i], want, d)
		return
	}
}

// names are the clients as two sides name them.
type names struct{ left, right map[string]string }

func newNames() names { return names{map[string]string{}, map[string]string{}} }

// match reports whether both names are of the same client, for all that is known of both.
func (n names) match(left, right string) bool {
	l, isLeft := n.left[right]
	r, isRight := n.right[left]
	if !isLeft && !isRight {
		n.left[right], n.right[left] = left, right
		return true
	}
	return isLeft && isRight && l == left && r == right
}

// shrunk returns a program that fails as p does, with fewer requests, and nothing compiled. It is p if
// there is none.
func (p *program) shrunk(dir string) *program {
	if p.world.bots > 0 || p.set.ambiguous { // these must have their requests
		return p
	}
	for n := len(p.sent) / 2; n > 0; n /= 2 {
		for from := 0; from+n <= len(p.sent); {
			smaller := &program{seed: p.seed, dir: dir, world: p.world, set: p.set, servers: p.servers, places: p.places,
				sent: slices.Delete(slices.Clone(p.sent), from, from+n)}
			smaller.write()
			smaller.suggest()
			words, err := shellWords(smaller.commands)
			if err == nil {
				smaller.replay(words)
			}
			if smaller.err == nil {
				from += n
				continue
			}
			p = smaller
		}
	}
	return p
}

// String returns what a program has done, and where it went wrong.
func (p *program) String() string {
	text := fmt.Sprintf("seed %d\n%s\n", p.seed, strings.Join(p.steps, "\n"))
	if p.err != nil {
		text += fmt.Sprintf("%v\nto repeat it: SASH_MODEL_SEED=%d go test -run TestModel_Printed ./cmd/sash/internal/replay\n", p.err, p.seed)
	}
	return text
}
