package httplimit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed-30da4c49/sash"
)

// A Transport is an [http.RoundTripper] that lets each request wait for its turn
// before it is sent, so that a client keeps to the limits of the servers it calls:
//
//	client := &http.Client{Transport: &httplimit.Transport{Limiter: limiter}}
//
// A request waits as [sash.Limiter.Wait] does, on the key of its host, for as long
// as its context allows. The Transport also holds that key back when the server asks
// for it: later requests of the key, and those that wait already, are not sent until
// the time has passed. It retries nothing by itself, and follows no redirect: the
// client does, and each hop waits under its own key.
//
// A server asks for it in two ways. One is a 429 or 503 with a Retry-After, which is a
// date or a number of seconds; a fraction is rounded up. The other is a RateLimit in
// any response that says that a quota is used up: "default";r=0;t=30 holds the key back
// for 30 seconds. If several quotas are used up, the longest t holds. If a response
// asks in both ways, Retry-After holds.
//
// The error of a request that is not sent wraps that of its context as soon as
// this ends, [context.DeadlineExceeded] at once if the deadline is sure to come
// first, [sash.ErrExceedsLimit] for a cost that is never admitted, and is a
// [*TurnError] under NoWait. Its body has not been read, and is closed. A request
// whose context ends after it was admitted stays charged; so does one that is held
// back at that moment, and it is charged again when it is sent.
//
// A Transport is safe for concurrent use; its fields must not be changed once it is
// used, nor a Transport copied. Admission takes a lock twice, and starts no goroutine.
// A key costs memory while requests of it wait, and 7 kB while it is held back. It is
// forgotten with its next request after that, or as others are held back: there are
// never more than 32, or twice as many as were held at one time, and never more than
// MaxHeld.
type Transport struct {
	// Limiter admits the requests. It is required: without one, every request is
	// an error.
	Limiter *sash.Limiter

	// Base sends what was admitted. Nil means [http.DefaultTransport].
	Base http.RoundTripper

	// Key is what a request is counted under. Nil means [ByHost]. A request of which
	// it cannot be told is an error.
	Key KeyFunc

	// Cost is how many units a request takes. Nil means 1. One that costs 0 waits
	// only while its key is over its limits or held back; a negative cost is never
	// admitted.
	Cost func(r *http.Request) int64

	// NoWait makes a request that would have to wait fail with a [*TurnError].
	NoWait bool

	// MaxHold bounds how long one response holds a key back. 0 means an hour; if it
	// is negative, Retry-After and RateLimit are not heeded. The Limiter's clock
	// measures it.
	MaxHold time.Duration

	// MaxHeld bounds how many keys are held back at a time. 0 or less means 1024.
	// Beyond it, the key whose time would end first, which may be the new one, is not
	// held back: its next request waits for the Limiter only. Requests of it that wait
	// already wait on.
	MaxHeld int

	mu    sync.Mutex
	gates map[string]*gate
	holds int // how many gates have a hold, passed or not
	roomy int // how many of these there may be before those that have passed are looked for
}

// A TurnError says that a [Transport] with NoWait did not send a request, because
// it would have had to wait.
type TurnError struct {
	// RetryAfter is how long it would have to wait, if nothing else is charged.
	RetryAfter time.Duration
	// Held reports whether it is the server that asked to wait, with Retry-After or
	// RateLimit; else it is the Limiter.
	Held bool
}

// Error returns, for example, "httplimit: not sent: the limiter admits it in 1.5s".
func (e *TurnError) Error() string {
	if e.Held {
		return fmt.Sprintf("httplimit: not sent: the server asked to wait for another %v", e.RetryAfter)
	}
	return fmt.Sprintf("httplimit: not sent: the limiter admits it in %v", e.RetryAfter)
}

var (
	errNoLimiter = errors.New("httplimit: Transport.Limiter must not be nil")
	errNoKey     = errors.New("httplimit: not sent: the request does not tell the key to count it under")
)

// defaultMaxHold is the longest window that services commonly limit by and ask to
// be waited for. One that asks for a year has made a mistake.
const defaultMaxHold = time.Hour

// defaultMaxHeld is the number of keys whose holds take some 7 MB.
const defaultMaxHeld = 1024

// RoundTrip sends r once it is admitted, and returns the answer as it came. It
// changes nothing of r.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := false
	defer func() {
		if !sent && r.Body != nil {
			r.Body.Close()
		}
	}()
	key, err := t.admit(r)
	if err != nil {
		return nil, err
	}
	sent = true
	response, err := t.base().RoundTrip(r)
	if err == nil {
		t.heed(key, response)
	}
	return response, err
}

// CloseIdleConnections does what Base does, so that
// [http.Client.CloseIdleConnections] works through a Transport.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// ByHost keys the requests of a [Transport] by the host of the URL that they are
// sent to, in lower case, without a trailing dot, and with its port unless that is the
// scheme's own: "example.com", "example.com:8080", "[2001:db8::1]". Requests that a
// server receives have no such URL, and their identity cannot be told by it.
func ByHost() KeyFunc {
	return func(key []byte, r *http.Request) ([]byte, bool) {
		if r.URL == nil {
			return key, false
		}
		host := hostOf(r.URL)
		return append(key, host...), host != ""
	}
}

// hostOf returns the host of u, written in one way. It is empty if u has none.
func hostOf(u *url.URL) string {
	host, port, _ := cutPort(u.Host)
	host = hostName(host)
	if strings.IndexByte(host, ':') >= 0 {
		host = "[" + host + "]"
	}
	switch scheme := strings.ToLower(u.Scheme); {
	case host == "", port == "", scheme == "http" && port == "80", scheme == "https" && port == "443":
		return host
	}
	return host + ":" + port
}

// admit returns once r may be sent, and the key that it was charged to.
func (t *Transport) admit(r *http.Request) (key string, err error) {
	if t.Limiter == nil {
		return "", errNoLimiter
	}
	key, ok := t.key(r)
	if !ok {
		return "", errNoKey
	}
	n := int64(1)
	if t.Cost != nil {
		n = t.Cost(r)
	}
	if t.NoWait {
		return key, t.take(key, n)
	}
	return key, t.wait(r.Context(), key, n)
}

func (t *Transport) key(r *http.Request) (key string, ok bool) {
	of := t.Key
	if of == nil {
		of = ByHost()
	}
	b, ok := of(nil, r)
	return string(b), ok
}

// take charges n units to key if that needs no waiting.
func (t *Transport) take(key string, n int64) error {
	if left := t.held(key); left > 0 {
		return &TurnError{RetryAfter: left, Held: true}
	}
	d := t.Limiter.Take(key, n)
	switch {
	case d.Allowed:
		return nil
	case d.RetryAfter == sash.Never:
		return fmt.Errorf("httplimit: not sent: a cost of %d under a limit of %v: %w", n, d.Limit, sash.ErrExceedsLimit)
	}
	return &TurnError{RetryAfter: d.RetryAfter}
}

// A gate is where the requests of one key wait. It is there while any of them does,
// and while the key is held back.
type gate struct {
	hold     hold
	requests int

	// news ends when the key is held back, or for longer. Whoever waits then asks
	// again, instead of being admitted by the Limiter while nothing may be sent.
	news context.Context
	tell context.CancelFunc
}

// wait blocks until n units are admitted for key, which is not held back.
func (t *Transport) wait(ctx context.Context, key string, n int64) error {
	g := t.enter(key)
	defer t.leave(key, g)
	for {
		h, news := t.look(g)
		err := t.pass(ctx, news, h, key, n)
		if ctx.Err() != nil || news.Err() == nil {
			return err
		}
		// Even if it was admitted just then: it is charged once more, for being sent with
		// what is admitted later.
	}
}

// pass waits for h, and then for the limiter, unless there is news.
func (t *Transport) pass(ctx, news context.Context, h hold, key string, n int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(news, cancel)()
	if err := h.wait(ctx); err != nil {
		return fmt.Errorf("httplimit: not sent: the server asked to wait: %w", err)
	}
	if err := t.Limiter.Wait(ctx, key, n); err != nil {
		return fmt.Errorf("httplimit: not sent: %w", err)
	}
	return nil
}

// enter adds a request to those that wait at the gate of key.
func (t *Transport) enter(key string) *gate {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.gate(key)
	g.requests++
	return g
}

func (t *Transport) leave(key string, g *gate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g.requests--
	if g.idle() {
		t.forget(key, g)
	}
}

func (t *Transport) look(g *gate) (h hold, news context.Context) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return g.hold, g.news
}

// gate returns the gate of key, a new one if need be. It must be called with mu held.
func (t *Transport) gate(key string) *gate {
	g := t.gates[key]
	if g == nil {
		g = new(gate)
		g.news, g.tell = context.WithCancel(context.Background())
		if t.gates == nil {
			t.gates = map[string]*gate{}
		}
		t.gates[key] = g
	}
	return g
}

// idle reports whether g is the same as no gate. It must be called with mu held.
func (g *gate) idle() bool { return g.requests == 0 && g.hold.left() == 0 }

// heed holds key back for as long as response asks.
func (t *Transport) heed(key string, response *http.Response) {
	longest := t.MaxHold
	if longest == 0 {
		longest = defaultMaxHold
	}
	if d := min(askedToWait(response), longest); d > 0 {
		t.holdBack(key, d)
	}
}

// holdBack lets no request of key pass for d. It never shortens what was asked
// before: answers may come in another order than they were given.
func (t *Transport) holdBack(key string, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.gates[key]
	if g != nil && g.hold.left() >= d {
		return
	}
	if g == nil || g.hold == (hold{}) {
		if !t.makeRoom(d) {
			return
		}
		g = t.gate(key)
		t.holds++
	}
	g.hold = newHold(t.Limiter.Clock(), d)
	g.tell()
	g.news, g.tell = context.WithCancel(context.Background())
}

// makeRoom makes room for one more hold, which is for d, and reports whether there is
// any. It must be called with mu held.
//
// It forgets the holds that have passed whenever there are twice as many as it left
// the last time, so that it costs each new one a few looks at most. With MaxHeld of
// them, it looks at all each time, and forgets the one that would end first.
func (t *Transport) makeRoom(d time.Duration) bool {
	const few = 32
	most := t.MaxHeld
	if most <= 0 {
		most = defaultMaxHeld
	}
	if t.holds < min(max(t.roomy, few), most) {
		return true
	}
	var first *gate
	var firstKey string
	for key, g := range t.gates {
		switch left := g.hold.left(); {
		case left == 0:
			t.forget(key, g)
		case left < d:
			first, firstKey, d = g, key, left
		}
	}
	t.roomy = 2 * t.holds
	if t.holds < most {
		return true
	}
	if first != nil {
		t.forget(firstKey, first)
	}
	return first != nil
}

// forget ends the hold of g, and forgets g unless requests wait there. Those know the
// hold that they wait for, and wait on. It must be called with mu held.
func (t *Transport) forget(key string, g *gate) {
	if g.hold != (hold{}) {
		g.hold = hold{}
		t.holds--
	}
	if g.requests == 0 {
		delete(t.gates, key)
	}
}

// held returns for how long key is still held back.
func (t *Transport) held(key string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.gates[key]
	if g == nil {
		return 0
	}
	left := g.hold.left()
	if g.idle() {
		t.forget(key, g)
	}
	return left
}

// A hold is a time that must pass; the zero hold has passed. Only package sash can
// wait for any clock, a manual one included, and only in a limiter, so a hold is one
// that is over its limit for just that time.
type hold struct{ limiter *sash.Limiter }

func newHold(clock sash.Clock, d time.Duration) hold {
	l := sash.Must(sash.New(sash.Per(1, d).Log(), sash.WithClock(clock), sash.WithSweepInterval(-1)))
	r, _ := l.Reserve("", 1)
	r.Commit(2) // one more than the limit, until both are back
	return hold{l}
}

func (h hold) left() time.Duration {
	if h.limiter == nil {
		return 0
	}
	return h.limiter.Peek("", 0).RetryAfter
}

// wait blocks until h has passed. It returns at once, with an error, if the deadline
// of ctx comes before that.
func (h hold) wait(ctx context.Context) error {
	if h.limiter == nil {
		return nil
	}
	return h.limiter.Wait(ctx, "", 0)
}

// askedToWait returns for how long the server asks not to be called, and not more than
// 292 years. What it says wrongly is not heeded.
func askedToWait(response *http.Response) time.Duration {
	if d := toldToWait(response); d > 0 {
		return d
	}
	return untilMore(response.Header)
}

// toldToWait returns the Retry-After of a 429 or 503. With another status, it is not
// about the rate of calls.
func toldToWait(response *http.Response) time.Duration {
	if response.StatusCode != http.StatusTooManyRequests && response.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	value := response.Header.Get("Retry-After")
	if d, ok := parseSeconds(value); ok {
		return d
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	// By the server's clock, if it says what that shows: ours may be wrong.
	now, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return until.Sub(now)
}

// parseSeconds reads s, which must be digits, or digits and a fraction, and rounds it
// up to a whole second. A number too large for a Duration is the longest one.
func parseSeconds(s string) (d time.Duration, ok bool) {
	whole, fraction, fractional := strings.Cut(s, ".")
	if whole == "" || digits(whole) < len(whole) || fractional && fraction == "" || digits(fraction) < len(fraction) {
		return 0, false
	}
	const most = int64(sash.Never / time.Second)
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || seconds >= most {
		return sash.Never, true
	}
	if strings.Trim(fraction, "0") != "" {
		seconds++
	}
	return time.Duration(seconds) * time.Second, true
}
