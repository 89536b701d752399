package httplimit_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// A modelCall is something that the program does: a client, the server, or its operator. do returns
// what it has done, or an empty string if that is not possible now. covers are the functions and
// methods of the package that it calls.
type modelCall struct {
	name   string
	covers string
	do     func(m *model) string
}

// modelCalls are all that a program does. One that stands here twice is done twice as often.
var modelCalls []modelCall

func init() { // they refer to themselves
	modelCalls = []modelCall{
		{"a request of HTTP/1.1", "New Must Limiter.Middleware Denial.ServeHTTP", func(m *model) string { return m.sendBy(false, 1) }},
		{"a request of HTTP/1.1", "", func(m *model) string { return m.sendBy(false, 1) }},
		{"a request of HTTP/2", "", func(m *model) string { return m.sendBy(true, 1) }},
		{"a request of HTTP/2", "", func(m *model) string { return m.sendBy(true, 1) }},
		{"a part of a request", "", func(m *model) string { return m.sendBy(m.random.IntN(2) == 0, m.random.Float64()) }},
		{"the rest of a request", "", (*model).sendRest},
		{"requests in a pipeline", "", (*model).pipeline},
		{"Decide", "Limiter.Decide Limiter.Refuse", (*model).decideDirectly},
		{"Settle", "Charges.Settle", (*model).settleDirectly},
		{"Serve", "Charges.Serve Charges.Context ChargeOf Charge.Commit Charge.Add Charge.Cancel Charge.Keep Charge.Estimate", (*model).serveDirectly},
		{"a handler goes on", "", (*model).goOn},
		{"a handler goes on", "", (*model).goOn},
		{"a client reads", "", (*model).read},
		{"a client hangs up", "", (*model).hangUp},
		{"a client half-closes", "", (*model).halfClose},
		{"a client resets its stream", "", (*model).resetStream},
		{"a request's context ends", "", (*model).leave},
		{"time passes", "", (*model).wait},
		{"time passes", "", (*model).wait},
		{"Reconfigure", "Limiter.Reconfigure Limiter.Policies", (*model).reconfigure},
		{"SetLimits", "Limiter.Sash Limiter.KeyFor Limiter.ParseKey", (*model).setOwnLimits},
		{"Reset", "Limiter.Store", (*model).reset},
		{"Sweep", "Limiter.FoldsPaths", (*model).sweep},
		{"Close", "Limiter.Close", (*model).close},
	}
}

// modelClientNames are the names of clients. One of them has limits of its own, one has no name, and
// one has a long one.
var modelClientNames = []string{"ann", "ann", "bob", "bob", "carl", "", strings.Repeat("long", 40)}

// newExchange returns a random request, which is not sent yet.
func (m *model) newExchange() *exchange {
	x := &exchange{
		number: len(m.exchanges), kind: pick(m.random, modelTargets), host: pick(m.random, modelHosts),
		script: newScript(m.random), proceed: make(chan struct{}, 1), foreign: m.random.IntN(5) == 0,
	}
	m.mu.Lock()
	m.exchanges = append(m.exchanges, x)
	m.mu.Unlock()
	x.method, x.target = x.kind.method, x.kind.target
	x.field("X-Number", strconv.Itoa(x.number))
	if name := pick(m.random, modelClientNames); name != "" {
		x.field("X-Key", name)
	}
	if m.random.IntN(3) == 0 {
		x.field("X-Cost", pick(m.random, []string{"0", "1", "2", "2", "3", "5", "-1", "50"}))
	}
	if m.random.IntN(2) == 0 {
		x.field("X-Leave", pick(m.random, []string{"1", "1", "2", "3", "5", "-4", "9223372036854775807"}))
	}
	if m.random.IntN(3) == 0 {
		x.field("X-Plan", pick(m.random, []string{"gold", "none", "unknown"}))
	}
	if m.random.IntN(6) == 0 {
		x.field("X-Skip", m.pickPolicy().Name)
	}
	if m.random.IntN(20) == 0 {
		x.field("X-Panic", m.pickPolicy().Name+" "+pick(m.random, []string{"Skip", "Plan", "Key", "Cost", "Leave"}))
	}
	if x.method == "POST" && m.random.IntN(2) == 0 {
		x.body = 1 + m.random.IntN(30)
	}
	return x
}

func (x *exchange) field(name, value string) { x.fields = append(x.fields, [2]string{name, value}) }

func (x *exchange) String() string {
	s := fmt.Sprintf("exchange %d: %s %s %s %v", x.number, x.method, x.target, x.host, x.fields[1:])
	if x.body > 0 {
		s += fmt.Sprintf(" body %d", x.body)
	}
	for _, step := range x.script {
		s += fmt.Sprintf(", %s %d", step.call.name, step.n)
	}
	return s
}

func (m *model) pickPolicy() *modelPolicy { return pick(m.random, m.policies) }

// clientBy returns a client that can send a request, perhaps a new one.
func (m *model) clientBy(http2 bool) *modelClient {
	for _, c := range m.clients {
		free := c.http2 == http2 && !c.ended && c.unsent == nil
		if free && (http2 || !slices.ContainsFunc(c.sent, func(x *exchange) bool { return !x.ended })) && m.random.IntN(2) == 0 {
			return c
		}
	}
	room := pick(m.random, []int{200, 1 << 20}) // bytes: a slow client, or a fast one
	address := fmt.Sprintf("192.0.2.%d:%d", 1+m.random.IntN(3), 1024+len(m.clients))
	pipeRoom := room
	if http2 {
		pipeRoom = 1 << 20
	}
	ofClient, ofServer := newModelConns(address, pipeRoom)
	c := newModelClient(ofClient, http2, uint32(room))
	m.clients = append(m.clients, c)
	m.listener.conns <- ofServer
	return c
}

func (m *model) sendBy(http2 bool, part float64) string {
	c, x := m.clientBy(http2), m.newExchange()
	c.send(x, part)
	return fmt.Sprintf("%.2f of %v", part, x)
}

func (m *model) sendRest() string {
	for _, c := range m.clients {
		if c.unsent != nil && !c.ended {
			c.sendRest()
			return fmt.Sprint("exchange ", c.sent[len(c.sent)-1].number)
		}
	}
	return ""
}

func (m *model) pipeline() string {
	c := m.clientBy(false)
	x, y := m.newExchange(), m.newExchange()
	c.send(x, 1)
	c.send(y, 1)
	return fmt.Sprint(x, "; ", y)
}

// directly is the key under which the context of a request says that no server has read it.
type directly struct{}

// direct returns x as a request that no server has read.
func (m *model) direct(x *exchange) *http.Request {
	target, _ := url.ParseRequestURI(x.target)
	r := &http.Request{Method: x.method, URL: target, Host: x.host, Header: http.Header{}, Body: http.NoBody, RemoteAddr: "192.0.2.1:99", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	for _, field := range x.fields {
		r.Header.Set(field[0], field[1])
	}
	ctx := context.WithValue(context.Background(), http.ServerContextKey, m.server) // which logs panics
	ctx, x.leave = context.WithCancel(context.WithValue(ctx, directly{}, true))
	return r.WithContext(ctx)
}

func (m *model) decideDirectly() string {
	x := m.newExchange()
	x.foreign, x.body = true, 0
	r := m.direct(x)
	x.request, x.ctx, x.arrived = r.Clone(context.Background()), r.Context(), m.moment()
	h := http.Header{}
	if m.random.IntN(4) == 0 {
		h = nil
	}
	go func() {
		v := m.limiter.Decide(h, r)
		now := m.moment()
		x.admitted, x.header, x.left = v.Outcome == httplimit.Admitted, h, r.Context().Err() != nil
		if v.Outcome != httplimit.Admitted {
			w := httptest.NewRecorder()
			m.limiter.Refuse(w, r, v)
			x.status, x.ended = w.Code, true
		}
		x.verdict, x.decided = &v, now
	}()
	return x.String()
}

// openDirectly returns an exchange that Decide has admitted, and that is not settled.
func (m *model) openDirectly() *exchange {
	for _, x := range m.exchanges {
		if x.verdict != nil && x.admitted && !x.ended {
			return x
		}
	}
	return nil
}

func (m *model) settleDirectly() string {
	x := m.openDirectly()
	if x == nil {
		return ""
	}
	r := httplimit.Response{
		Status: pick(m.random, []int{0, 200, 204, 401, 418, 500}), Bytes: int64(m.random.IntN(9)),
		Header: http.Header{"X-Units": {pick(m.random, units)}}, Uncertain: m.random.IntN(2) == 0,
	}
	x.answer = &r
	x.settled = m.moment()
	x.verdict.Charges.Settle(r)
	x.verdict.Charges.Settle(httplimit.Response{Status: 200, Bytes: 99}) // it has no effect
	x.ended = true
	return fmt.Sprintf("exchange %d: %d, %d bytes, uncertain %t, %v", x.number, r.Status, r.Bytes, r.Uncertain, r.Header)
}

func (m *model) serveDirectly() string {
	x := m.openDirectly()
	if x == nil {
		return ""
	}
	r := m.direct(x)
	x.script = slices.DeleteFunc(x.script, func(s handlerStep) bool {
		return strings.HasPrefix(s.call.name, "waits") || s.call.name == "WriteHeader(103)" // a ResponseRecorder takes it for the last
	})
	x.ctx = r.Context()
	func() {
		defer func() { _ = recover() }() // a panic of the handler goes through
		x.verdict.Charges.Serve(http.HandlerFunc(m.handle), httptest.NewRecorder(), r)
	}()
	x.ended = true
	return x.String()
}

func (m *model) goOn() string {
	for _, x := range m.exchanges {
		if x.did.paused && m.random.IntN(3) > 0 {
			x.goOn()
			return fmt.Sprint("exchange ", x.number)
		}
	}
	return ""
}

// pickClient returns a client that is connected, nil if there is none.
func (m *model) pickClient() *modelClient {
	var all []*modelClient
	for _, c := range m.clients {
		if !c.gone {
			all = append(all, c)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return pick(m.random, all)
}

func (m *model) read() string {
	c := m.pickClient()
	if c == nil || len(c.sent) == 0 || c.ended {
		return ""
	}
	x, n := pick(m.random, c.sent), pick(m.random, []int{1, 50, 5000})
	if c.http2 && (x.reset || x.ended || c.unsent != nil) {
		return ""
	}
	c.allow(x, n)
	return fmt.Sprintf("exchange %d: %d bytes", x.number, n)
}

func (m *model) hangUp() string {
	c := m.pickClient()
	if c == nil {
		return ""
	}
	c.receive()
	c.gone, c.ended = true, true
	if m.random.IntN(2) == 0 {
		c.Reset()
	} else {
		c.Close()
	}
	return c.String()
}

func (m *model) halfClose() string {
	c := m.pickClient()
	if c == nil || c.ended {
		return ""
	}
	c.ended = true
	_ = c.CloseWrite()
	return c.String()
}

func (m *model) resetStream() string {
	c := m.pickClient()
	if c == nil || !c.http2 || c.ended || c.unsent != nil || len(c.sent) == 0 {
		return ""
	}
	x := pick(m.random, c.sent)
	if x.reset {
		return ""
	}
	c.resetStream(x)
	return fmt.Sprint("exchange ", x.number)
}

func (m *model) leave() string {
	for _, x := range m.exchanges {
		if x.leave != nil && !x.ended && m.random.IntN(2) == 0 {
			x.leave()
			return fmt.Sprint("exchange ", x.number)
		}
	}
	return ""
}

// wait lets time pass. It stops whenever a request that waits may be admitted, or has waited for long
// enough.
func (m *model) wait() string {
	d := time.Duration(m.random.Int64N(int64(pick(m.random, []time.Duration{time.Millisecond, 2 * time.Second, 20 * time.Second, 2 * time.Minute}))))
	for end := m.clock.Now() + int64(d); m.clock.Now() < end; m.settle() {
		now := m.clock.Now()
		next := end
		for _, x := range m.exchanges {
			if !x.expected.waits {
				continue
			}
			for i := range x.expected.enforcedTakes() {
				t := &x.expected.takes[i]
				at := now + int64(m.peek(t.key, t.cost).RetryAfter)
				until := x.arrived.at + int64(t.Queue.Wait)
				for _, at := range []int64{at, until} {
					if now < at && at < next {
						next = at
					}
				}
			}
		}
		m.sleep(time.Duration(next - now))
	}
	return d.String()
}

// reconfigure changes, adds and removes policies. Limits change in what package reference defines:
// their Count and Burst.
func (m *model) reconfigure() string {
	m.reconfigured = m.step
	next := slices.Clone(m.policies)
	for i, p := range next {
		changed := *p
		changed.Limits = slices.Clone(p.Limits)
		if l := &changed.Limits[0]; m.random.IntN(2) == 0 && mayRaise(*l) {
			l.Count += int64(m.random.IntN(3))
		}
		if m.random.IntN(4) == 0 {
			changed.Queue = httplimit.Queue{}
		}
		if m.random.IntN(4) == 0 {
			changed.Pattern = pick(m.random, modelPatterns)
		}
		if m.random.IntN(4) == 0 && m.store == nil {
			changed.Near = pick(m.random, modelNears)
		}
		next[i] = &changed
	}
	if len(next) > 1 && m.random.IntN(3) == 0 {
		next = slices.Delete(next, 0, 1)
	}
	if m.random.IntN(3) == 0 {
		next = append(next, m.newPolicy())
	}
	m.random.Shuffle(len(next), func(i, j int) { next[i], next[j] = next[j], next[i] })
	return m.replace(next)
}

func (m *model) setOwnLimits() string {
	key := m.pickKey()
	if key == "" {
		return ""
	}
	real, ok := m.realKey(key)
	if !ok || m.store != nil {
		return ""
	}
	limits := slices.Clone(m.keys[key].take.limits)
	if !mayRaise(limits[0]) {
		return ""
	}
	limits[0].Count++ // package reference defines what becomes of the charges then
	if err := m.limiter.Sash().SetLimits(real, limits...); err != nil {
		m.failf("SetLimits: %v", err)
	}
	m.keys[key].take.own = true
	m.setLimits(key, limits)
	return fmt.Sprintf("%q %v", key, limits)
}

// mayRaise reports whether package reference defines what becomes of charges if the Count of l is
// raised.
func mayRaise(l sash.Limit) bool { return l.Count > 0 && l != sash.Unlimited() }

// pickKey returns a key for which no request waits; empty if there is none.
func (m *model) pickKey() string {
	if len(m.names) == 0 {
		return ""
	}
	key := pick(m.random, m.names)
	for _, x := range m.exchanges {
		if x.expected.waits {
			return "" // it would not learn of the change
		}
	}
	return key
}

func (m *model) reset() string {
	key := m.pickKey()
	if key == "" {
		return ""
	}
	real, ok := m.realKey(key)
	if !ok {
		return ""
	}
	if m.store != nil {
		m.limiter.Store().(*modelStore).Reset(real)
	} else {
		m.limiter.Sash().Reset(real)
	}
	m.table.Reset(key)
	return fmt.Sprintf("%q", key)
}

func (m *model) sweep() string {
	if m.store != nil || m.limiter.FoldsPaths() != m.folds {
		return ""
	}
	return fmt.Sprint(m.limiter.Sash().Sweep(), " keys")
}

// close ends the waiting of all requests. It is done to few programs, in which nothing waits any more.
func (m *model) close() string {
	if m.closed || m.random.IntN(4) > 0 {
		return ""
	}
	m.closed = true
	if err := m.limiter.Close(); err != nil {
		m.failf("Close: %v", err)
	}
	return "the limiter"
}
