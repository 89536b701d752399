package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/replay"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/policyfile"
	"github.com/seed-30da4c49/sash/internal/command"
	"github.com/seed-30da4c49/sash/internal/race"
)

// TestModel_PoliciesAreEnforcedAsByTheMiddleware runs random programs. Each is a recording of visits in one
// of the formats, and a file of random policies. The same requests go through the middleware of a limiter
// with the same policies, on a clock that stands at the times of the requests, to a handler that answers as
// recorded, as late as recorded. What became of each request is compared with what replay says of it, and
// the counts of all outcomes with the report.
//
// A recording has no queue, so the policies of the middleware have none, either.
func TestModel_PoliciesAreEnforcedAsByTheMiddleware(t *testing.T) {
	log.SetOutput(io.Discard) // the warnings of a request that hangs up
	defer log.SetOutput(os.Stderr)
	few := uint64(400)
	if race.Enabled || testing.Short() && os.Getenv("SASH_ALL_STEPS") == "" {
		few = 120
	}
	programs, first := number(t, "SASH_MODEL_PROGRAMS", few), uint64(1)
	if seed := number(t, "SASH_MODEL_SEED", 0); seed > 0 {
		programs, first = 1, seed
	}
	total := map[string]int{}
	for seed := first; seed < first+programs && !t.Failed(); seed++ {
		p := newCase(seed)
		if err := p.run(t, total); err != nil {
			t.Errorf("seed %d, %v: %v\n%s\nSASH_MODEL_SEED=%d repeats it", seed, p.args, err, p.policies, seed)
		}
	}
	t.Log(total)
	if programs >= few {
		for _, outcome := range []string{"admitted", "denied", "unidentified", "no request", "no route", "withheld", "given back", "settled", "near"} {
			require.Positive(t, total[outcome], outcome)
		}
	}
}

// A policyCase is a program of the model of policies.
type policyCase struct {
	random   *rand.Rand
	diary    *diary
	windows  []time.Duration
	policies string // the file, in JSON, which is YAML as well
	name     string // of the file
	lasting  bool   // whether a limit holds units
	routes   []string
	shadow   bool
	args     []string
	log      string
	visits   []*visit
}

func newCase(seed uint64) *policyCase {
	r := rand.New(rand.NewPCG(seed, 12))
	p := &policyCase{random: r, diary: pick(r, diaries), name: pick(r, []string{"limits.yaml", "limits.json"}), shadow: r.IntN(3) == 0}
	p.windows = [][]time.Duration{{2 * time.Second}, {time.Second, 10 * time.Second}, {time.Minute, time.Hour}}[r.IntN(3)]
	var all []map[string]any
	for i := range 1 + r.IntN(4) {
		all = append(all, p.policy(i))
	}
	text, err := json.MarshalIndent(map[string]any{"policies": all}, "", " ")
	if err != nil {
		panic(err)
	}
	if p.policies = string(text); !strings.Contains(p.policies, `"route"`) {
		p.routes = nil
	}
	w := newWorld(r, p.diary.forwarded)
	for _, c := range w.clients {
		c.address = c.address.WithZone("")
	}
	p.log, p.visits = p.diary.write(visits(r, w, p.diary, p.windows), p.lasting)
	return p
}

func (p *policyCase) chance(of int) bool { return p.random.IntN(of) == 0 }

// policy returns a random policy, of what the diary has.
func (p *policyCase) policy(i int) map[string]any {
	r, d := p.random, p.diary
	all := map[string]any{"name": fmt.Sprintf("p%d", i), "key": p.key(2)}
	held := d.lasting && p.chance(4)
	p.lasting = p.lasting || held
	all["limits"] = p.limits(held)
	patterns := []string{"/", "/api/", "POST /login", "GET /files/{name}", "/files/{rest...}", "/login"}
	if d.host {
		patterns = append(patterns, "www.example.com/", "GET shop.example/api/")
	}
	optional := []struct {
		name  string
		value func() any
	}{
		{"pattern", func() any { return pick(r, patterns) }},
		{"cost", func() any { return pick(r, []int{0, 1, 2, 3}) }},
		{"leave", func() any { return pick(r, []any{1, 2, "30%", "100%"}) }},
		{"near", func() any { return pick(r, []string{"20%", "50%", "100%"}) }},
		{"unit", func() any { return "content-bytes" }},
		{"skip", func() any {
			return pick(r, []any{map[string]any{"methods": []string{"HEAD", "DELETE"}}, map[string]any{"networks": []string{"203.0.113.0/28", "2001:db8::/40"}}})
		}},
		{"charge", func() any { return pick(r, []any{401, []any{"4xx", 500}, "2xx", []any{"UNAUTHENTICATED", 404}}) }},
		{"charge-uncertain", func() any { return pick(r, []any{[]any{}, []any{"none"}, "4xx"}) }},
		{"settle", func() any { return pick(r, []any{"bytes", "estimate"}) }},
		{"queue", func() any { return map[string]any{"wait": "2s", "requests": 10} }},
		{"shadow", func() any { return true }},
	}
	for _, o := range optional {
		if p.chance(4) {
			all[o.name] = o.value()
		}
	}
	if d.headers && p.chance(3) {
		all["plan"] = map[string]any{"header": "x-plan"}
		all["plans"] = map[string]any{"gold": p.limits(held), "internal": "unlimited"}
	}
	if d.headers && p.chance(4) {
		all["leave"] = map[string]any{"header": "X-Class", "classes": map[string]any{"background": "50%", "batch": 2}}
	}
	if d.headers && p.chance(4) {
		all["settle"] = map[string]any{"header": "x-cost"}
	}
	return all
}

// limits returns one limit or several.
func (p *policyCase) limits(held bool) any {
	r, all := p.random, []string{}
	for range 1 + r.IntN(2) {
		kind := pick(r, []string{"", " log", " counter", " parts", " burst 6"})
		l := fmt.Sprintf("%d/%v%s", pick(r, []int{1, 2, 3, 5, 20}), pick(r, p.windows), kind)
		if !slices.Contains(all, l) {
			all = append(all, l)
		}
	}
	if held {
		all = append(all, fmt.Sprintf("%d at once for %v", 1+r.IntN(3), pick(r, p.windows)))
	}
	if len(all) == 1 && p.chance(2) {
		return all[0]
	}
	return all
}

// key returns a random key, of what the diary has, with keys in it up to a depth.
func (p *policyCase) key(depth int) any {
	r, d := p.random, p.diary
	address := map[string]any{}
	if p.chance(2) && d.forwarded {
		address["trust-proxies"] = []string{"10.0.0.0/8", "198.18.0.0/15", "fd00::/8", "192.0.2.9"}
		if p.chance(3) && strings.HasPrefix(d.name, "nginx") {
			address["trust-unix-socket"] = true
		}
	} else if p.chance(4) && d.forwarded {
		address["trust-hops"] = 1 + r.IntN(2)
	}
	if p.chance(3) {
		address["ipv4-prefix"], address["ipv6-prefix"] = 20+r.IntN(13), 30+r.IntN(90)
	}
	all := []any{"address", "everyone", map[string]any{"address": address}, map[string]any{"address": address}}
	if d.headers {
		all = append(all, map[string]any{"header": "X-API-Key"})
	}
	if p.chance(8) {
		p.routes = []string{"/api/", "/files/{name}", "POST /login"}
		all = []any{"route"}
	}
	if depth > 0 && p.chance(3) {
		parts := []any{p.key(depth - 1), p.key(depth - 1)}
		return map[string]any{pick(r, []string{"join", "first-of"}): parts}
	}
	return pick(r, all)
}

// run runs the program, and adds what it has met to total.
func (p *policyCase) run(t *testing.T, total map[string]int) error {
	file := filepath.Join(t.TempDir(), p.name)
	if err := os.WriteFile(file, []byte(p.policies), 0o600); err != nil {
		return err
	}
	loaded, err := policyfile.Load(file)
	if err != nil {
		return err
	}
	p.args = []string{"-policy", file, "-json"}
	if p.shadow {
		p.args = append(p.args, "-shadow")
	}
	for _, route := range p.routes {
		p.args = append(p.args, "-route", route)
	}
	if p.diary.format != "" {
		p.args = append(p.args, "-format", p.diary.format)
	}
	if p.diary.time != "" {
		p.args = append(p.args, "-time", p.diary.time)
	}
	got, err := replay.Enforce(t.Context(), p.args, strings.NewReader(p.log))
	if err != nil {
		return err
	}
	want := newStage(loaded, p)
	defer want.limiter.Close()
	for i, v := range p.visits {
		outcome := want.play(v)
		total[outcome]++
		if i >= len(got) || got[i].At != v.at || got[i].Outcome != outcome {
			return fmt.Errorf("visit %d of %d at %d, %+v: the middleware says %s, replay %+v", i, len(p.visits), v.at, *v.request, outcome, got[min(i, len(got)-1)])
		}
	}
	want.end()
	return p.compare(want, total)
}

// compare compares the report with the events of the middleware.
func (p *policyCase) compare(want *stage, total map[string]int) error {
	var stdout, stderr bytes.Buffer
	status := replay.Run(context.Background(), p.args, strings.NewReader(p.log), &stdout, &stderr)
	if status == command.Failed && strings.Contains(stderr.String(), "no line has a value of the header X-Forwarded-For") && !slices.ContainsFunc(p.visits, func(v *visit) bool { return len(v.forwarded) > 0 }) {
		total["refused"]++ // trust-hops, and no proxy
		return nil
	}
	if status != command.OK {
		return fmt.Errorf("status %d: %s", status, stderr.String())
	}
	var report struct {
		Policies struct {
			Policies []struct {
				Name                                                     string
				Requests, Admitted, Denied, Withheld, Unidentified, Near int
				GivenBack                                                int `json:"given_back"`
				Units                                                    *struct{ Spent int64 }
			}
		}
	}
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		return err
	}
	for _, got := range report.Policies.Policies {
		w := want.counts[got.Name]
		given := map[string]int{"admitted": got.Admitted, "denied": got.Denied, "withheld": got.Withheld, "unidentified": got.Unidentified, "given back": got.GivenBack, "near": got.Near}
		for name, n := range given {
			if total[name] += n; w[name] != n {
				return fmt.Errorf("%s: %d %s, and the middleware has %d", got.Name, n, name, w[name])
			}
		}
		total["settled"] += w["settled"]
		if got.Units != nil && got.Units.Spent != want.spent[got.Name] {
			return fmt.Errorf("%s: %d units are spent, and by the middleware %d", got.Name, got.Units.Spent, want.spent[got.Name])
		}
	}
	return nil
}

// A stage is the middleware, with a handler that answers as recorded.
type stage struct {
	clock   *sash.ManualClock
	limiter *httplimit.Limiter
	handler http.Handler
	counts  map[string]map[string]int // by policy and outcome
	spent   map[string]int64          // by policy
	costs   map[string]int64          // of a request, by policy
	playing []*scene                  // in the order of their ends
}

// A scene is a request that is under way.
type scene struct {
	*visit
	end     int64
	cancel  func()
	entered chan struct{}
	leave   chan struct{}
	done    chan struct{}
}

type sceneKey struct{}

func newStage(policies []httplimit.Policy, p *policyCase) *stage {
	s := &stage{clock: sash.NewManualClock(0), counts: map[string]map[string]int{}, spent: map[string]int64{}, costs: map[string]int64{}}
	options := []httplimit.Option{httplimit.WithClock(s.clock), httplimit.WithObserver(s.observe)}
	for _, policy := range policies {
		policy.Queue, policy.Shadow = httplimit.Queue{}, policy.Shadow && p.shadow
		options = append(options, policy)
		s.counts[policy.Name] = map[string]int{}
		if s.costs[policy.Name] = 1; policy.Cost != nil {
			s.costs[policy.Name] = policy.Cost(nil)
		}
	}
	s.limiter = httplimit.Must(httplimit.New(options...))
	s.handler = s.limiter.Middleware(http.HandlerFunc(s.serve))
	if len(p.routes) > 0 { // the middleware stands around each handler
		routes := http.NewServeMux()
		for _, pattern := range p.routes {
			routes.Handle(pattern, s.handler)
		}
		s.handler = routes
	}
	return s
}

func (s *stage) observe(e httplimit.Event) {
	s.counts[e.Policy][e.Outcome.String()]++
	if len(e.Near) > 0 {
		s.counts[e.Policy]["near"]++
	}
	switch e.Outcome {
	case httplimit.Admitted:
		s.spent[e.Policy] += e.Cost
	case httplimit.GivenBack:
		s.spent[e.Policy] -= e.Cost
	case httplimit.Settled:
		s.spent[e.Policy] += e.Cost - s.costs[e.Policy]
	}
}

// serve answers as recorded, when it may.
func (s *stage) serve(w http.ResponseWriter, r *http.Request) {
	c := r.Context().Value(sceneKey{}).(*scene)
	close(c.entered)
	<-c.leave
	if w.Header().Set("X-Cost", c.cost); c.cost == "" {
		w.Header().Del("X-Cost")
	}
	if c.visit.status == 499 || c.visit.status == 0 {
		c.cancel() // the client hangs up
	} else {
		w.WriteHeader(c.visit.status)
	}
	w.Write(make([]byte, c.size))
}

// play lets a request come at its time, and returns what becomes of it.
func (s *stage) play(v *visit) string {
	r := v.http()
	if r == nil {
		return "no request"
	}
	s.until(v.at)
	s.clock.Set(v.at)
	c := &scene{visit: v, end: v.at + int64(v.lasts), entered: make(chan struct{}), leave: make(chan struct{}), done: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), sceneKey{}, c))
	if c.cancel = cancel; v.socket {
		ctx = context.WithValue(ctx, http.LocalAddrContextKey, net.Addr(&net.UnixAddr{Net: "unix"}))
		r.RemoteAddr = "@"
	}
	w := httptest.NewRecorder()
	go func() {
		s.handler.ServeHTTP(w, r.WithContext(ctx))
		close(c.done)
	}()
	select {
	case <-c.entered:
		i, _ := slices.BinarySearchFunc(s.playing, c.end+1, func(c *scene, end int64) int { return int(max(-1, min(1, c.end-end))) })
		s.playing = slices.Insert(s.playing, i, c)
		return "admitted"
	case <-c.done:
	}
	switch w.Code {
	case http.StatusBadRequest:
		return "unidentified"
	case http.StatusTooManyRequests:
		return "denied"
	}
	return "no route" // the mux has answered
}

// until ends the requests that end by an instant, each at its own.
func (s *stage) until(at int64) {
	for len(s.playing) > 0 && s.playing[0].end <= at {
		s.clock.Set(s.playing[0].end)
		close(s.playing[0].leave)
		<-s.playing[0].done
		s.playing = s.playing[1:]
	}
}

// end ends all requests.
func (s *stage) end() {
	for len(s.playing) > 0 {
		s.until(s.playing[0].end)
	}
}
