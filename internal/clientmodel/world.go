package clientmodel

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// Headers of the calls.
const (
	UserHeader = "X-User"
	CallHeader = "X-Call"
)

// A Protocol is what the model knows of the clients and servers of one package.
type Protocol struct {
	HTTP    bool               // a denial tells whole seconds, and holds its host back. Else it is an RPC's
	Kinds   []string           // of calls. A stream's name begins with "stream"
	Classes []Class            // that answers have. One may be there several times
	Bodies  int                // how many bodies there are
	Follows func(c *Call) bool // a Redirect; nil: none has any

	// Path returns the path of a method.
	Path func(kind, method int) string

	// Open starts the servers of all hosts, and the clients. It is called in a bubble.
	Open func(w *World) Session
}

// Streams reports whether a kind of calls is streams.
func (p *Protocol) Streams(kind int) bool {
	return len(p.Kinds[kind]) > 6 && p.Kinds[kind][:6] == "stream"
}

// A Session is clients and servers that run.
type Session interface {
	// Do makes a call, and returns how it ends, without the instant.
	Do(ctx context.Context, c *Call) Reply
	Close()
}

// A World is what clients and servers share.
type World struct {
	Transport  *httplimit.Transport
	HoldsUnits bool               // whether the Transport does, while calls are under way
	Limiter    *httplimit.Limiter // decides for hosts that are Limited
	Hosts      []string

	session Session
	start   time.Time
	mu      sync.Mutex
	calls   []*real
}

// A real is a call as it happens.
type real struct {
	*Call
	Outcome
	hops int
}

// Limited reports whether the server of a host has policies.
func (w *World) Limited(host string) bool { return slices.Index(w.Hosts, host)%2 == 0 }

// rounding is more than a server's deadline may come before the client's, as deadlines are sent in
// milliseconds.
const rounding = 2 * time.Millisecond

var errBroken = errors.New("clientmodel: the connection breaks again")

// Arrive is called by a server when a call arrives. It returns what the handler answers, after the
// latency of the call, or an error if the client has gone by then.
func (w *World) Arrive(ctx context.Context, id string) (Answer, error) {
	i, err := strconv.Atoi(id)
	if err != nil {
		return Answer{}, err
	}
	c := w.calls[i]
	w.mu.Lock()
	c.hops++
	hop := c.hops
	again := hop > 1 && c.Answer.Class == Broken // net/http tries again on another connection
	if !again {
		c.Arrivals = append(c.Arrivals, time.Since(w.start))
	}
	w.mu.Unlock()
	if again {
		return Answer{}, errBroken
	}
	if c.Latency == 0 {
		return c.Answer, nil
	}
	select {
	case <-time.After(c.Latency):
	case <-ctx.Done():
		time.Sleep(rounding) // the client's own deadline comes first
		return Answer{}, ctx.Err()
	}
	if hop > 1 {
		return Answer{}, nil
	}
	return c.Answer, nil
}

// longest is longer than any program takes, in simulated time.
const longest = 10_000 * time.Hour

// open opens a world with the policies of a program, and returns a function that closes it.
func (w *World) open(p *Protocol, program *Program, settings Settings) (closes func()) {
	for _, h := range hosts {
		w.Hosts = append(w.Hosts, h.name)
	}
	w.Limiter = program.limiter(p)
	transport, closeLimiter := settings.transport(func(r *http.Request) int64 {
		i, _ := strconv.Atoi(r.Header.Get(CallHeader))
		return program.Calls[i].Cost
	})
	w.Transport, w.HoldsUnits = transport, settings.holdsUnits()
	w.session = p.Open(w)
	return func() {
		w.session.Close()
		closeLimiter()
		w.Limiter.Close()
	}
}

// run runs a program, and returns what becomes of each call. It is called in a bubble.
func run(p *Protocol, program *Program) []*real {
	w := &World{start: time.Now()}
	for i := range program.Calls {
		w.calls = append(w.calls, &real{Call: &program.Calls[i]})
	}
	defer w.open(p, program, program.Settings)()
	defer time.AfterFunc(longest, func() { panic(fmt.Sprintf("seed %d: a call never ends", program.Seed)) }).Stop()
	var all sync.WaitGroup
	for _, c := range w.calls {
		if !program.InTurn {
			all.Go(func() { w.do(c) })
			continue
		}
		w.do(c)
	}
	all.Wait()
	time.Sleep(2 * rounding) // until no server is in Arrive
	return w.calls
}

// do makes a call when its time has come.
func (w *World) do(c *real) {
	time.Sleep(c.At - time.Since(w.start))
	ctx := context.Background()
	if c.Deadline > 0 {
		until, cancel := context.WithTimeout(ctx, c.Deadline)
		defer cancel()
		ctx = until
	}
	if c.Cancel != 0 {
		until, cancel := context.WithCancel(ctx)
		defer cancel()
		if c.Cancel < 0 {
			cancel()
		} else {
			defer time.AfterFunc(c.Cancel, cancel).Stop()
		}
		ctx = until
	}
	reply := w.session.Do(ctx, c.Call)
	reply.At = time.Since(w.start)
	w.mu.Lock()
	defer w.mu.Unlock()
	c.Reply = reply
}

// limiter returns the limiter of the policies of a program.
func (p *Program) limiter(protocol *Protocol) *httplimit.Limiter {
	options := []httplimit.Option{httplimit.WithSweepInterval(-1)}
	for i, policy := range p.Policies {
		options = append(options, policy.httplimit(i, protocol))
	}
	if len(p.Policies) == 0 {
		options = append(options, httplimit.Policy{Name: "none", Limits: []sash.Limit{generous}, Key: httplimit.Everyone()})
	}
	return httplimit.Must(httplimit.New(options...))
}

func policyName(i int) string { return "p" + strconv.Itoa(i) }

func (p Policy) httplimit(i int, protocol *Protocol) httplimit.Policy {
	h := httplimit.Policy{Name: policyName(i), Limits: []sash.Limit{p.Limit}, Key: httplimit.Everyone()}
	switch {
	case p.ByUser && p.ByPath:
		h.Key = httplimit.Join(httplimit.ByHeader(UserHeader), httplimit.By(pathOf))
	case p.ByUser:
		h.Key = httplimit.ByHeader(UserHeader)
	case p.ByPath:
		h.Key = httplimit.By(pathOf)
	}
	if p.Path >= 0 {
		h.Skip = func(r *http.Request) bool {
			for kind := range protocol.Kinds {
				if protocol.Path(kind, p.Path) == r.URL.Path {
					return false
				}
			}
			return true
		}
	}
	return h
}

// key returns the key of a call under a policy, if the policy is for it.
func (p Policy) key(protocol *Protocol, c *Call) (key string, ok bool) {
	if p.ByUser {
		key = users[c.User]
	}
	if p.ByPath {
		key += protocol.Path(c.Kind, c.Method)
	}
	return key, p.Path < 0 || p.Path == c.Method
}

// Seconds returns the wait in a Retry-After that is a number of seconds, or 0.
func Seconds(text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > int64(sash.Never/time.Second) {
		return 0
	}
	return time.Duration(n) * time.Second
}

// SetHeaders sets the headers of a call, by a function that sets one.
func SetHeaders(c *Call, set func(name, value string)) {
	set(CallHeader, strconv.Itoa(c.ID))
	set(UserHeader, users[c.User])
}

// UnsentBy returns the Reply that says why a Transport has not sent a call. ok is false if err is
// none of its errors, or the error of a context.
func UnsentBy(err error) (r Reply, ok bool) {
	var turn *httplimit.TurnError
	if errors.As(err, &turn) {
		r.Wait, r.Held = turn.RetryAfter, turn.Held
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		r.Kind = Deadline
	case errors.Is(err, context.Canceled):
		r.Kind = Canceled
	case errors.Is(err, sash.ErrExceedsLimit):
		r.Kind = Exceeds
	case turn != nil:
		r.Kind = Turn
	default:
		return r, false
	}
	return r, true
}

// differ returns how two outcomes differ, or "".
func differ(got, want *Outcome) string {
	if slices.Equal(got.Arrivals, want.Arrivals) && got.Reply == want.Reply {
		return ""
	}
	return fmt.Sprintf("got:  %v\nwant: %v", got, want)
}
