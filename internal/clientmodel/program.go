package clientmodel

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
)

// A Class is what an answer means to a client.
type Class int

const (
	OK          Class = iota
	Failed            // an error that denies nothing: 500, ABORTED
	Exhausted         // a denial: 429, RESOURCE_EXHAUSTED
	Unavailable       // 503, UNAVAILABLE
	TooLarge          // an answer that the client refuses to read. In gRPC that is RESOURCE_EXHAUSTED, too
	Broken            // no answer: the connection breaks
	Redirect          // 307 to another host
)

var classNames = [...]string{"OK", "Failed", "Exhausted", "Unavailable", "TooLarge", "Broken", "Redirect"}

func (c Class) String() string { return classNames[c] }

// A Told is one of the ways in which an answer tells how long to wait: what is sent, and what it
// means. A malformed one means nothing.
type Told struct {
	Text  string        // of a header; "": absent
	Delay time.Duration // of RetryInfo, in place of a Text
	Date  bool          // the Text is the date Wait after the answer
	Wait  time.Duration // 0: not to wait
	Valid bool
}

// An Answer is what a handler answers.
type Answer struct {
	Class      Class
	RetryInfo  Told
	Pushback   Told
	RetryAfter Told
	RateLimit  Told
	To         int // the host that a Redirect leads to
}

// A Call is one call of a client.
type Call struct {
	ID                 int
	At                 time.Duration // when it begins; if calls take turns, not before the last one has ended
	Kind               int           // one of Protocol.Kinds
	Host, Method, User int
	Cost               int64
	Latency            time.Duration // between its arrival and the server's decision
	Deadline, Cancel   time.Duration // after its beginning; 0: none. Before it if Cancel is negative
	Late               time.Duration // between the sending and the reading of a stream
	Again              time.Duration // if not 0, the client asks once more for the end of a stream, after that time
	Body               int           // one of the bodies of Protocol
	Answer             Answer
}

// A Policy is a policy of the server. Its key is made of what is set.
type Policy struct {
	Limit          sash.Limit
	ByUser, ByPath bool
	Path           int // if not negative, only calls of that method have the policy
}

// A Program is what clients and servers do.
type Program struct {
	Seed      int64
	InTurn    bool // one call after the other. Else calls run at once, and the client's Limiter has no rate
	Settings  Settings
	Policies  []Policy // of the hosts with even numbers
	Calls     []Call
	ambiguous bool // set by simulate: what becomes of it is open
}

// A host is a name that clients call. The domain is what the names of one owner share.
type host struct{ name, domain string }

var hosts = []host{
	{"api.example", "api.example"}, {"a.evil.example", "evil.example"}, {"b.evil.example", "evil.example"},
	{"evil.example:81", "evil.example"}, {"evil.example:82", "evil.example"}, {"192.0.2.1:81", "192.0.2.1"},
	{"192.0.2.1:82", "192.0.2.1"}, {"[2001:db8::1]", "2001:db8::/48"}, {"[2001:db8:0:7::2]:83", "2001:db8::/48"},
}

var users = []string{"ann", "bob", "cy"}

// pick returns one of several values.
func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// one reports true once in n times.
func one(r *rand.Rand, n int) bool { return r.IntN(n) == 0 }

// Generate returns the program of a seed.
func Generate(p *Protocol, seed int64) *Program {
	r := rand.New(rand.NewPCG(uint64(seed), 0x5a54))
	program := &Program{Seed: seed, InTurn: one(r, 2)}
	program.Settings = newSettings(r, p, program.InTurn)
	for range r.IntN(3) {
		program.Policies = append(program.Policies, newPolicy(r))
	}
	if len(program.Policies) > 0 && one(r, 4) {
		program.Policies[0].Limit = sash.AtOnce(1+r.Int64N(2), longest)
	}
	if one(r, 20) {
		program.Policies = []Policy{{Limit: sash.PerSecond(0), Path: -1}} // it is never known when to retry
	}
	switch r.IntN(10) {
	case 0, 1:
		program.crowd(r, p)
		return program
	case 2, 3:
		program.flood(r, p)
		return program
	case 4:
		program.hurry(r, p)
		return program
	}
	calls, span := 3+r.IntN(12), pick(r, time.Second, 20*time.Second, 3*time.Hour)
	few := 1 + r.IntN(len(hosts)) // so that calls meet
	for i := range calls {
		c := newCall(r, p, r.Int64N(int64(span)), few)
		c.ID = i
		if c.Host%2 == 0 && p.HTTP && c.Answer.Class == Exhausted && !c.Answer.RetryAfter.Valid {
			c.Answer.Class = Unavailable // else the quotas of the policies are the answer's
		}
		program.Calls = append(program.Calls, c)
	}
	return program
}

// crowd makes a program of many hosts that ask to wait, for clients that hold few of them back.
func (p *Program) crowd(r *rand.Rand, protocol *Protocol) {
	p.Policies = nil
	p.Settings.NoWait, p.Settings.MaxHold, p.Settings.MaxHeld = true, 0, 2+r.IntN(3)
	if one(r, 3) {
		p.Settings.Key = ""
	}
	for i := range 10 + r.IntN(20) {
		c := newCall(r, protocol, r.Int64N(int64(time.Minute)), len(hosts))
		c.ID, c.Method, c.Cost = i, 0, 1
		seconds := 5 + r.IntN(200)
		c.Answer = Answer{Class: Exhausted, RetryAfter: Told{Text: strconv.Itoa(seconds), Wait: time.Duration(seconds) * time.Second, Valid: true}}
		p.Calls = append(p.Calls, c)
	}
}

// flood makes a program of one client, which makes more calls to one host than [sash.SmallCount], under
// limits of about as many. The limits are what [sash.Per] makes of such a Count: of parts. The client
// waits for its own limit, or the server denies the calls, or both.
func (p *Program) flood(r *rand.Rand, protocol *Protocol) {
	window := newWindow(r)
	limit := func() sash.Limit { return sash.Per(sash.SmallCount+1+r.Int64N(5), window) }
	p.Policies = []Policy{{Limit: limit(), ByUser: one(r, 2), ByPath: one(r, 2), Path: -1}}
	if p.InTurn && one(r, 2) {
		p.Settings.Limits = []sash.Limit{limit()}
		if one(r, 2) {
			p.Policies = nil
		}
	}
	host := 2 * r.IntN((len(hosts)+1)/2) // of an even number: it has the policies
	for i := range sash.SmallCount + 4 + r.IntN(20) {
		c := newCall(r, protocol, r.Int64N(2*int64(window)), len(hosts))
		c.ID, c.Host, c.Method, c.User = i, host, 0, 1
		c.Latency = 1 + time.Duration(r.Int64N(int64(window)/100)) // several calls come within a window
		c.Answer = Answer{}                                        // only the policies hold back
		p.Calls = append(p.Calls, c)
	}
}

// hurry makes a program of calls with deadlines to one host, which often asks to wait. They take turns under
// a limit of the client's own that denies some of them, too, or wait at once for a slow Store. So a call may be
// too late for one of its waits, or for both.
func (p *Program) hurry(r *rand.Rand, protocol *Protocol) {
	p.Policies, p.Settings.MaxHold = nil, 0
	var within int64
	if p.InTurn = one(r, 2); p.InTurn {
		p.Settings.Limits = []sash.Limit{newPolicy(r).Limit}
		within = 2 * int64(p.Settings.Limits[0].Window)
	} else {
		p.Settings.Limits, p.Settings.NoWait, p.Settings.Store, p.Settings.Lag = []sash.Limit{generous}, false, true, newLag(r)
		within = 2 * int64(p.Settings.Lag)
	}
	for i := range 5 + r.IntN(10) {
		c := newCall(r, protocol, r.Int64N(within), 1)
		c.ID, c.Answer = i, Answer{}
		if one(r, 2) {
			c.Deadline, c.Cancel, c.Late = rounding+time.Duration(r.Int64N(within)), 0, 0
		}
		if one(r, 2) {
			seconds := 1 + r.IntN(int(time.Duration(within)/time.Second)+1)
			c.Answer = Answer{Class: Exhausted, RetryAfter: Told{Text: strconv.Itoa(seconds), Wait: time.Duration(seconds) * time.Second, Valid: true}}
		}
		p.Calls = append(p.Calls, c)
	}
}

// newWindow returns the window of a limit. Most have 16 parts under SlidingParts, and one is itself a part.
func newWindow(r *rand.Rand) time.Duration {
	return pick(r, time.Second, 10*time.Second, 100*time.Millisecond, 7*time.Second+13, time.Hour)
}

func newPolicy(r *rand.Rand) Policy {
	window := newWindow(r)
	limit := sash.Per(pick[int64](r, 1, 2, 5), window)
	switch r.IntN(5) {
	case 0:
		limit = limit.Counter()
	case 1:
		limit = limit.TokenBucket(1 + r.Int64N(3))
	case 2:
		limit = limit.Buckets(window)
	case 3:
		limit = limit.Parts()
	}
	return Policy{Limit: limit, ByUser: one(r, 2), ByPath: one(r, 3), Path: pick(r, -1, -1, 0)}
}

func newCall(r *rand.Rand, p *Protocol, at int64, few int) Call {
	c := Call{
		At: time.Duration(at), Kind: r.IntN(len(p.Kinds)), Host: r.IntN(few), Method: r.IntN(2), User: r.IntN(len(users)),
		Cost: 1, Latency: 1 + time.Duration(r.Int64N(int64(pick(r, time.Millisecond, time.Second)))), Body: r.IntN(max(p.Bodies, 1)),
	}
	if one(r, 10) {
		c.Cost = pick[int64](r, 0, 2, 3, -1, 1<<40)
	}
	c.Answer = newAnswer(r, p, few)
	switch r.IntN(8) {
	case 0:
		c.Deadline = rounding + time.Duration(r.Int64N(int64(pick(r, time.Second, time.Minute, 2*time.Hour))))
	case 1:
		c.Cancel = 1 + time.Duration(r.Int64N(int64(pick(r, time.Millisecond, time.Second, time.Minute))))
	case 2:
		c.Late = time.Duration(r.Int64N(int64(3 * time.Second)))
	case 3:
		if one(r, 2) {
			c.Cancel = -1
		}
	}
	if one(r, 3) {
		c.Again = 1 + time.Duration(r.Int64N(int64(3*time.Second)))
	}
	if !p.Streams(c.Kind) {
		c.Late, c.Again = 0, 0
	}
	return c
}

// newAnswer returns an answer that may tell a client to wait, in several ways at once, and also
// where that means nothing.
func newAnswer(r *rand.Rand, p *Protocol, few int) Answer {
	a := Answer{Class: pick(r, p.Classes...)}
	if a.Class == Redirect {
		a.To = r.IntN(few)
	}
	if one(r, 3) && a.Class != TooLarge {
		a.RetryAfter = newRetryAfter(r, p)
	}
	if one(r, 3) {
		a.RateLimit = pick(r, Told{Text: `"a";r=0;t=9`, Wait: 9 * time.Second, Valid: true}, Told{Text: `"a";r=3;t=9`}, Told{Text: `"a";r=0;t=0`},
			Told{Text: `"a";r=0;t=5, "b";r=0;t=8, "c";r=1;t=99`, Wait: 8 * time.Second, Valid: true}, Told{Text: `("a");r=0;t=7`})
	}
	if p.HTTP {
		return a
	}
	if one(r, 2) {
		a.RetryInfo = pick(r, delay(5*time.Second+1), delay(0), delay(-time.Hour), delay(100*time.Hour), delay(time.Duration(1+r.Int64N(int64(time.Minute)))))
	}
	if one(r, 4) && a.Class != TooLarge {
		a.Pushback = pick(r, Told{Text: "7003", Wait: 7003 * time.Millisecond, Valid: true}, Told{Text: "-1"}, Told{Text: "soon"},
			Told{Text: "4294967296"}, Told{Text: "0"})
	}
	return a
}

// delay returns a RetryInfo.
func delay(d time.Duration) Told { return Told{Delay: d, Wait: max(d, 0), Valid: true} }

func newRetryAfter(r *rand.Rand, p *Protocol) Told {
	if p.HTTP && one(r, 3) {
		return Told{Date: true, Wait: time.Duration(r.IntN(90)) * time.Second, Valid: true}
	}
	return pick(r, Told{Text: "7", Wait: 7 * time.Second, Valid: true}, Told{Text: "1.2", Wait: 2 * time.Second, Valid: true},
		Told{Text: "0", Valid: true}, Told{Text: "-5"}, Told{Text: "soon"}, Told{Text: "7s"}, Told{Text: ""},
		Told{Text: "3153600000", Wait: 3153600000 * time.Second, Valid: true},
		Told{Text: "99999999999999999999", Wait: sash.Never, Valid: true})
}

// String returns what is told, and "" if nothing is.
func (t Told) String() string {
	switch {
	case t.Date:
		return "the date in " + t.Wait.String()
	case t.Text == "" && t.Valid:
		return t.Delay.String()
	}
	return t.Text
}

// Present reports whether the answer has it.
func (t Told) Present() bool { return t.Valid || t.Text != "" }

// Value returns the text of a header, for an answer that is sent now.
func (t Told) Value() string {
	if t.Date {
		return time.Now().Add(t.Wait).UTC().Format("Mon, 02 Jan 2006 15:04:05 GMT")
	}
	return t.Text
}

// wait returns how long an answer tells a client to wait, by the documents of a protocol.
func (a *Answer) wait(p *Protocol) time.Duration {
	denies := a.Class == Exhausted || a.Class == Unavailable
	switch {
	case !denies:
		return 0
	case p.HTTP && a.RetryAfter.Valid:
		return a.RetryAfter.Wait
	case p.HTTP && a.Class == Exhausted:
		return a.RateLimit.Wait
	case p.HTTP:
		return 0
	case a.RetryInfo.Wait > 0:
		return a.RetryInfo.Wait
	case a.Pushback.Wait > 0:
		return a.Pushback.Wait
	}
	return a.RetryAfter.Wait
}

// String lists what a program does.
func (p *Program) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "in turn: %v\nsettings: %v\n", p.InTurn, p.Settings)
	for i, policy := range p.Policies {
		fmt.Fprintf(&b, "policy %d: %+v\n", i, policy)
	}
	for _, c := range p.Calls {
		fmt.Fprintf(&b, "call %+v\n", c)
	}
	return b.String()
}
