package clientmodel

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/reference"
)

// A Reply is how a call ends, and when.
type Reply struct {
	At    time.Duration // from the beginning of the program
	Kind  ReplyKind
	Class Class         // of an answer
	Wait  time.Duration // that a denial, or the Transport, tells; 0: none
	Held  bool          // the server has asked for that wait
	Note  string        // what an adapter found wrong
}

// A ReplyKind is who ends a call.
type ReplyKind int

const (
	Answered ReplyKind = iota // the server has answered, or broken the connection
	Turn                      // under NoWait
	Deadline
	Canceled
	Exceeds // the cost is never admitted
	Unsent  // the Transport refuses the call
)

var kindNames = [...]string{"Answered", "Turn", "Deadline", "Canceled", "Exceeds", "Unsent"}

func (k ReplyKind) String() string { return kindNames[k] }

// An Outcome is what happens to a call: when it reaches a server, at each hop, and its end.
type Outcome struct {
	Arrivals []time.Duration
	Reply    Reply
}

func (o *Outcome) String() string { return fmt.Sprintf("arrives at %v, %+v", o.Arrivals, o.Reply) }

// A simulation is a program that runs on the reference: holds are instants in a map, and limits are
// limits of package reference. Time is simulated by a list of events.
type simulation struct {
	*Program
	p        *Protocol
	now      time.Duration
	events   []event
	calls    []*simulated
	holds    map[string]time.Duration // until when a key is held back
	queues   map[string][]*simulated  // by key of outgoing: calls that wait for units that are held
	outgoing *reference.Table         // the Transport's limiter
	incoming *reference.Table         // the policies
	limiter  *httplimit.Limiter       // of the policies. It is asked for names only
	names    map[string]string        // the keys of the policies, as their limiter names them

	// What has happened at which instant, to find out whether the order of two events is open.
	changed, began map[string]time.Duration // by key of holds
	decided        map[string]time.Duration // by key of policies
	asked, freed   map[string]time.Duration // by key of outgoing, where units are held
	open           bool                     // the order of two events at one instant matters
}

// A simulated is a call in a simulation.
type simulated struct {
	Call
	Outcome
	number   int
	deadline time.Duration // 0: none
	cancel   time.Duration // 0: it is not cancelled
	until    time.Duration // until when it is held back
	version  int           // of the wait: earlier ones are void
	waiting  bool          // for a hold to pass, or in a queue
	asks     bool          // the Store, which sees nothing of what happens until it answers
	again    bool          // it is to start over once the Store answers: its key is held back
	cut      ReplyKind     // how its context has ended while it asks; Answered: it has not
	charged  reference.Reservation
	answer   Answer // what the client is about to read
	redirect bool   // the next hop has begun
	done     bool
}

// An event is something that happens to a call.
type event struct {
	at      time.Duration
	happens func()
}

// simulate returns what becomes of each call of a program. It sets ambiguous if that depends on
// the order of two events at one instant.
func simulate(p *Protocol, program *Program) []*Outcome {
	s := &simulation{
		Program: program, p: p, limiter: program.limiter(p), holds: map[string]time.Duration{},
		outgoing: reference.NewTable(limitsOf(program.Settings.Limits)), incoming: reference.NewTable(limitsOf([]sash.Limit{generous})),
		changed: map[string]time.Duration{}, began: map[string]time.Duration{}, decided: map[string]time.Duration{}, names: map[string]string{},
		asked: map[string]time.Duration{}, freed: map[string]time.Duration{}, queues: map[string][]*simulated{},
	}
	defer s.limiter.Close()
	s.incoming.NameOf = func(key string) string { return s.names[key] }
	for i, c := range program.Calls {
		s.calls = append(s.calls, &simulated{Call: c, number: i})
	}
	if program.InTurn {
		s.beginNext(0)
	} else {
		for i := range s.calls {
			s.at(s.calls[i].At, func() { s.begin(s.calls[i]) })
		}
	}
	for len(s.events) > 0 {
		first := slices.IndexFunc(s.events, func(e event) bool { return e.at == s.earliest() })
		e := s.events[first]
		s.events = slices.Delete(s.events, first, first+1)
		s.now = e.at
		e.happens()
	}
	program.ambiguous = s.open
	outcomes := make([]*Outcome, len(s.calls))
	for i, c := range s.calls {
		outcomes[i] = &c.Outcome
	}
	return outcomes
}

func (s *simulation) earliest() time.Duration {
	return slices.MinFunc(s.events, func(a, b event) int { return cmp.Compare(a.at, b.at) }).at
}

func (s *simulation) at(t time.Duration, f func()) { s.events = append(s.events, event{t, f}) }

// beginNext begins call i once the one before has ended.
func (s *simulation) beginNext(i int) {
	if i < len(s.calls) {
		c := s.calls[i]
		s.at(max(s.now, c.At), func() { s.begin(c) })
	}
}

func (s *simulation) begin(c *simulated) {
	if c.Deadline > 0 {
		c.deadline = s.now + c.Deadline
		s.at(c.deadline, func() { s.cutShort(c, Deadline) })
	}
	if c.Cancel > 0 {
		c.cancel = s.now + c.Cancel
		s.at(c.cancel, func() { s.cutShort(c, Canceled) })
	}
	s.admit(c)
}

// cutShort ends a call whose context ends: at once, or when the Store answers.
func (s *simulation) cutShort(c *simulated, kind ReplyKind) {
	switch {
	case !c.asks:
		s.end(c, Reply{Kind: kind})
	case c.cut == Answered:
		c.cut = kind
	}
}

// end ends a call, unless it has ended.
func (s *simulation) end(c *simulated, r Reply) {
	if c.done {
		return
	}
	r.At = s.now
	if r.Kind == Answered && c.Again > 0 {
		r.At += c.Again
	}
	c.done, c.Reply = true, r
	s.leaveQueue(c)
	s.release(c)
	if s.InTurn {
		s.at(r.At, func() { s.beginNext(c.number + 1) })
	}
}

// admit lets a call, or its next hop, wait for its turn.
func (s *simulation) admit(c *simulated) {
	key, ok := s.Settings.key(s.p, &c.Call)
	if s.Settings.refused() || !ok {
		s.open = s.open || c.Cancel < 0 && s.p.Streams(c.Kind) // the side that receives may look at its context first
		s.end(c, Reply{Kind: Unsent})
		return
	}
	if c.Cancel < 0 {
		s.end(c, Reply{Kind: Canceled})
		return
	}
	held := s.Settings.holdKey(s.p, &c.Call, key)
	s.note(s.began, s.changed, held)
	c.until = s.holds[held]
	s.advance(c, key, held)
}

// advance lets a call wait for what is left of its hold, and then for the limiter.
func (s *simulation) advance(c *simulated, key, held string) {
	if s.Settings.Lag == 0 || s.Settings.NoWait || c.until > s.now {
		s.turn(c, key, held)
		return
	}
	c.asks, c.again = true, false
	s.sleep(c, s.now+s.Settings.Lag, false, func() {
		switch c.asks = false; {
		case c.cut != Answered:
			s.end(c, Reply{Kind: c.cut})
		case c.again:
			s.advance(c, key, held)
		default:
			s.turn(c, key, held)
		}
	})
}

// turn is advance of a call that the Store, if there is one, has begun to decide.
func (s *simulation) turn(c *simulated, key, held string) {
	n := s.Settings.cost(&c.Call)
	d := s.outgoing.Peek(int64(s.now), n, key)
	if s.Settings.Store && c.until > s.now {
		d = reference.Answer{Allowed: true} // it is not asked yet
	}
	waits := !s.Settings.NoWait && s.Settings.holdsUnits() && !s.InTurn
	if s.Settings.holdsUnits() && (s.Settings.NoWait || c.until <= s.now) {
		s.note(s.asked, s.asked, key)
		s.note(s.asked, s.freed, key)
	}
	switch {
	case !d.Allowed && d.RetryAfter == reference.Never:
		s.end(c, Reply{Kind: Exceeds})
	case c.until > s.now:
		s.holdOn(c, key, held, d)
	case !d.Allowed && s.Settings.NoWait:
		s.end(c, Reply{Kind: Turn, Wait: s.told(d)})
	case waits && (!d.Allowed || len(s.queues[key]) > 0):
		c.waiting, s.queues[key] = true, append(s.queues[key], c)
	case !d.Allowed && c.deadline > 0 && c.deadline < s.now+time.Duration(d.RetryAfter):
		s.end(c, Reply{Kind: Deadline})
	case !d.Allowed:
		s.sleep(c, s.now+time.Duration(d.RetryAfter), false, func() { s.turn(c, key, held) })
	default:
		s.take(c, key)
	}
}

// holdOn lets a call wait until its hold has passed. It ends the call if it may not wait, or not for that
// long. The limiter, which would decide d now, must admit the call, too. So a call that may not wait is told the
// later of both.
func (s *simulation) holdOn(c *simulated, key, held string, d reference.Answer) {
	told, sure := s.told(d), s.told(d)
	if !d.Allowed && s.isHeld(d) {
		sure = 0 // units may come back at any time
	}
	hold := Reply{Wait: c.until - s.now, Held: true}
	switch {
	case s.Settings.NoWait && told > hold.Wait:
		s.end(c, Reply{Kind: Turn, Wait: told})
	case s.Settings.NoWait:
		hold.Kind = Turn
		s.end(c, hold)
	case c.deadline > 0 && c.deadline < c.until:
		hold.Kind = Deadline
		s.end(c, hold)
	case c.deadline > 0 && c.deadline-s.now < sure:
		s.end(c, Reply{Kind: Deadline})
	default:
		s.sleep(c, c.until, true, func() { s.note(s.began, s.changed, held); s.advance(c, key, held) })
	}
}

// heldWait is what a client is told at most of units that are held: their holder may give them back at any
// time.
const heldWait = time.Second

// told returns the wait that a decision by the Transport's limiter tells, 0 if it admits.
func (s *simulation) told(d reference.Answer) time.Duration {
	switch wait := time.Duration(d.RetryAfter); {
	case d.Allowed:
		return 0
	case s.isHeld(d):
		return min(wait, heldWait)
	default:
		return wait
	}
}

// isHeld reports whether d, a denial by the Transport's limiter, is because of units that are held.
func (s *simulation) isHeld(d reference.Answer) bool {
	return s.Settings.Limits[d.Deciding].Algorithm == sash.Concurrency
}

// take charges a call that is admitted, and sends it.
func (s *simulation) take(c *simulated, key string) {
	c.charged, _ = s.outgoing.Reserve(int64(s.now), s.Settings.cost(&c.Call), key)
	for _, l := range s.Settings.Limits {
		if l.Algorithm == sash.Concurrency {
			s.at(s.now+l.Window, func() { s.wake(key) })
		}
	}
	s.send(c)
}

// release gives back the units that a call holds.
func (s *simulation) release(c *simulated) {
	if c.charged == (reference.Reservation{}) {
		return
	}
	s.outgoing.Settle(int64(s.now), c.charged, s.Settings.cost(&c.Call))
	c.charged = reference.Reservation{}
	key, _ := s.Settings.key(s.p, &c.Call)
	s.wake(key)
}

// wake sends the calls that wait in the queue of a key, in their order, while there are units.
func (s *simulation) wake(key string) {
	s.freed[key] = s.now
	for len(s.queues[key]) > 0 {
		c := s.queues[key][0]
		if !s.outgoing.Peek(int64(s.now), s.Settings.cost(&c.Call), key).Allowed {
			return
		}
		s.leaveQueue(c)
		s.take(c, key)
	}
}

// leaveQueue lets a call wait in no queue.
func (s *simulation) leaveQueue(c *simulated) {
	c.waiting = false
	for key, queue := range s.queues {
		s.queues[key] = slices.DeleteFunc(queue, func(o *simulated) bool { return o == c })
	}
}

// sleep calls f at an instant, unless the call has ended or sleeps for longer then.
func (s *simulation) sleep(c *simulated, until time.Duration, held bool, f func()) {
	if before := c.deadline - until; 0 <= before && before <= rounding || until == c.cancel {
		s.open = true
	}
	c.version++
	c.waiting = held
	version := c.version
	s.at(until, func() {
		if c.version == version && !c.done {
			c.waiting = false
			f()
		}
	})
}

// note records that something happens to key at this instant. The order is open if something else
// does, too, according to the other record.
func (s *simulation) note(record, other map[string]time.Duration, key string) {
	if at, ok := other[key]; ok && at == s.now && !s.InTurn {
		s.open = true
	}
	record[key] = s.now
}

// send sends a call. After its latency the server decides.
func (s *simulation) send(c *simulated) {
	c.Arrivals = append(c.Arrivals, s.now)
	sent := s.now
	s.sleep(c, s.now+c.Latency, false, func() {
		c.answer = s.decide(c)
		if late := sent + c.Late; s.p.Streams(c.Kind) && late > s.now {
			s.sleep(c, late, false, func() { s.read(c) })
		} else {
			s.read(c)
		}
	})
}

// decide returns what the server answers.
func (s *simulation) decide(c *simulated) Answer {
	answer := c.Answer
	if c.redirect {
		answer = Answer{}
	}
	if c.Host%2 != 0 {
		return answer
	}
	var keys []string
	for i, policy := range s.Policies {
		if key, ok := policy.key(s.p, &c.Call); ok {
			key = strconv.Itoa(i) + ":" + key
			keys = append(keys, key)
			s.note(s.decided, s.decided, key)
			if _, known := s.names[key]; !known {
				s.names[key] = s.nameOf(i, &c.Call)
				s.incoming.SetLimits(key, limitsOf([]sash.Limit{policy.Limit}))
			}
		}
	}
	if len(keys) == 0 {
		return answer
	}
	charged, d := s.incoming.ReserveAll(int64(s.now), 1, keys...)
	switch {
	case d.Allowed:
		for _, r := range charged { // the handler returns at once
			s.incoming.Settle(int64(s.now), r, 1)
		}
		return answer
	case d.RetryAfter == reference.Never:
		return Answer{Class: Exhausted}
	}
	return s.p.denial(time.Duration(d.RetryAfter))
}

// nameOf returns the name that the limiter has for a call under policy i. The parts of a key begin at
// instants that follow from that name. The Transport's limiter has the keys of calls themselves.
func (s *simulation) nameOf(i int, c *Call) string {
	r := &http.Request{URL: &url.URL{Path: s.p.Path(c.Kind, c.Method)}, Header: http.Header{UserHeader: {users[c.User]}}}
	name, ok := s.limiter.KeyFor(policyName(i), r)
	if !ok {
		panic("clientmodel: " + policyName(i) + " has no key for a call")
	}
	return name
}

// denial returns the answer to a call that is denied for d.
func (p *Protocol) denial(d time.Duration) Answer {
	if p.HTTP {
		d = (d + time.Second - 1).Truncate(time.Second)
		return Answer{Class: Exhausted, RetryAfter: Told{Text: strconv.Itoa(int(d / time.Second)), Wait: d, Valid: true}}
	}
	return Answer{Class: Exhausted, RetryInfo: delay(d)}
}

// read lets a client read an answer.
func (s *simulation) read(c *simulated) {
	key, _ := s.Settings.key(s.p, &c.Call)
	s.holdBack(s.Settings.holdKey(s.p, &c.Call, key), c.answer.wait(s.p))
	if c.answer.Class == Redirect && s.p.Follows(&c.Call) {
		s.release(c)
		c.redirect, c.Host = true, c.answer.To
		s.admit(c)
		return
	}
	r := Reply{Kind: Answered, Class: c.answer.Class}
	switch fails := r.Class == Failed || r.Class == Exhausted || r.Class == Unavailable; {
	case fails && s.p.HTTP:
		r.Wait = Seconds(c.answer.RetryAfter.Text)
	case fails:
		r.Wait = c.answer.RetryInfo.Delay
	}
	if r.Class == TooLarge {
		r.Class = Exhausted
	}
	s.end(c, r)
}

// holdBack holds a key back, and lets the calls that wait there wait for longer.
func (s *simulation) holdBack(key string, d time.Duration) {
	longest := s.Settings.MaxHold
	if longest == 0 {
		longest = time.Hour
	}
	until := s.now + min(d, longest, sash.Never-s.now)
	if min(d, longest) <= 0 || s.holds[key] >= until || s.holds[key] <= s.now && !s.room(key, until) {
		return
	}
	s.holds[key] = until
	s.note(s.changed, s.began, key)
	for _, c := range s.calls {
		own, ok := s.Settings.key(s.p, &c.Call)
		if !ok || c.done || !c.waiting && !c.asks || s.Settings.holdKey(s.p, &c.Call, own) != key {
			continue
		}
		if c.until = until; c.asks {
			c.again = true
			continue
		}
		s.leaveQueue(c)
		s.advance(c, own, key)
	}
}

// room reports whether there is room for a hold. If there is none, the domain with the most holds
// loses the one that would pass first, which may be the new one.
func (s *simulation) room(key string, until time.Duration) bool {
	live, count, most := []string{key}, map[string]int{}, 0
	for k, u := range s.holds {
		if u > s.now {
			live = append(live, k)
		}
	}
	if s.Settings.MaxHeld == 0 || len(live) <= s.Settings.MaxHeld {
		return true
	}
	for _, k := range live {
		count[s.Settings.domain(k)]++
		most = max(most, count[s.Settings.domain(k)])
	}
	ends := func(k string) time.Duration {
		if k == key {
			return until
		}
		return s.holds[k]
	}
	live = slices.DeleteFunc(live, func(k string) bool { return count[s.Settings.domain(k)] < most })
	slices.SortFunc(live, func(a, b string) int { return cmp.Compare(ends(a), ends(b)) })
	if len(live) > 1 && ends(live[0]) == ends(live[1]) {
		s.open = true // either may go
	}
	delete(s.holds, live[0])
	return live[0] != key
}

// limitsOf returns limits as package reference has them.
func limitsOf(limits []sash.Limit) []reference.Limit {
	out := make([]reference.Limit, len(limits))
	for i, l := range limits {
		out[i] = reference.Limit{
			Log: l.Algorithm == sash.SlidingLog || l.Algorithm == sash.Concurrency, Held: l.Algorithm == sash.Concurrency,
			Parts:     l.Algorithm == sash.SlidingParts,
			Precision: int64(l.Precision), Burst: l.Burst, Count: l.Count, Window: int64(l.Window),
		}
	}
	return out
}
