package sashredis

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/window"
	"github.com/seed-30da4c49/sash/sashredis/internal/bridge"
)

// Allow is shorthand for Take(ctx, key, 1).Allowed.
func (l *Limiter) Allow(ctx context.Context, key string) bool {
	return l.Take(ctx, key, 1).Allowed
}

// Take charges n units to key if every limit admits them. Else it charges nothing. An n of 0 is a
// [Limiter.Peek], and a negative n is denied with [sash.Never].
//
// A call that the store decides costs one round trip, in which other calls of this process for
// the key take part: each is decided by itself, in the order in which they came. A call that is
// denied in-process, or admitted from a lease, costs some tens of nanoseconds.
//
// If the store does not answer in time, or ctx ends, the fallback decides, and Err says why. A
// call that has been sent may then have been charged.
func (l *Limiter) Take(ctx context.Context, key string, n int64) Decision {
	var a answer
	l.callOne(ctx, key, request{op: take, n: n}, &a)
	return a.Decision
}

// Peek returns what a Take would that takes no units of a lease: see [WithLease]. It charges nothing and
// stores nothing. It costs as much as such a Take.
func (l *Limiter) Peek(ctx context.Context, key string, n int64) Decision {
	var a answer
	l.callOne(ctx, key, request{op: peek, n: n}, &a)
	return a.Decision
}

// TakeAll charges n units to each of keys if all of them admit n, at one instant. Else it charges
// nothing. A key named twice counts once. Without keys, it is denied with [sash.Never].
//
// On a Redis cluster, all keys must share a slot: see [WithHashTag].
func (l *Limiter) TakeAll(ctx context.Context, keys []string, n int64) Decision {
	return l.callAll(ctx, keys, request{op: take, n: n})
}

// PeekAll returns what TakeAll would. It charges nothing and stores nothing.
func (l *Limiter) PeekAll(ctx context.Context, keys []string, n int64) Decision {
	return l.callAll(ctx, keys, request{op: peek, n: n})
}

// An op is what a call does.
type op = bridge.Op

const (
	take    = bridge.Take
	peek    = bridge.Peek
	reserve = bridge.Reserve
	upTo    = reserve + 1 // takes what there is of one key
)

// A request is what a caller asks for.
type request struct {
	op     op
	n      int64   // units; of upTo, how many at most and, once it is answered, how many were taken
	leaves []int64 // units that must remain of each key; nil: none of any. It does not change
}

// charges reports whether r is charged if it is admitted.
func (r *request) charges() bool { return r.op != peek && r.n > 0 }

// leases reports whether r may take units of a lease. A call that leaves units does not: only the store
// knows what is left. Nor does upTo: a lease holds a part of what there is.
func (r *request) leases() bool { return r.op == take && r.n > 0 && r.leaves == nil }

// leave returns how many units of the key of that index must remain.
func (r *request) leave(index int) int64 {
	if r.leaves == nil {
		return 0
	}
	return max(r.leaves[index], 0)
}

// needs returns how many units of the key of that index must be there to admit r. If r is for less than 0
// units, it returns these: they are never admitted, whatever is there.
func (r *request) needs(index int) int64 {
	switch {
	case r.op == upTo:
		return 1
	case r.n < 0:
		return r.n
	}
	return window.Plus(r.n, r.leave(index))
}

// callOne sets a, which is zero, to the answer to a call for one key. The target is zero if the limits of
// the key are wrong.
//
// Here and below, the caller has the memory for what is set: copies at each return would take as long as
// the mirror takes to decide.
func (l *Limiter) callOne(ctx context.Context, key string, r request, a *answer) target {
	targets := make([]target, 1)
	switch err := l.resolve(key, &targets[0]); {
	case err != nil:
		a.Decision = l.refuseLimits(err)
	case targets[0].unlimited:
		a.Decision, a.call.request = unlimited(r.n), r
	default:
		l.call(ctx, targets, r, a)
	}
	return targets[0]
}

func (l *Limiter) callAll(ctx context.Context, keys []string, r request) Decision {
	targets, d := l.targets(keys, r.n)
	if len(targets) > 0 {
		var a answer
		l.callUnleased(ctx, targets, r, &a)
		return a.Decision
	}
	return d
}

// refuseLimits returns the denial of a call for a key with wrong limits.
func (l *Limiter) refuseLimits(err error) Decision {
	l.stats.invalid.Add(1)
	return refused(err)
}

// call sets a, which is zero, to the answer to r, a call for targets. There is at least one. A Take for one
// of them is decided from its lease, if there are as many units.
func (l *Limiter) call(ctx context.Context, targets []target, r request, a *answer) {
	if l.lessees != nil && r.leases() && len(targets) == 1 && l.lessees.take(&targets[0], r.n, &a.Decision) {
		l.stats.by[ByLease].Add(1)
		return
	}
	l.callUnleased(ctx, targets, r, a)
}

// callUnleased is call without leases. The mirror decides if it is sure, and else the store.
func (l *Limiter) callUnleased(ctx context.Context, targets []target, r request, a *answer) {
	if r.op != reserve { // where a reservation is charged is known only from the store
		a.call.request, a.at = r, l.quick.Now()
		a.certain = l.mirror.deny(targets, &a.call.request, a.at, &a.Decision)
	}
	if a.certain == 0 {
		*a = l.ask(ctx, l.newWaiting(ctx, targets, r))
	}
	l.stats.by[a.By].Add(1)
}

// targets returns the targets of keys that have limits, each once. If there are no keys, or the limits of
// one are wrong, d denies the call. Else it is what a key without limits says to n units.
func (l *Limiter) targets(keys []string, n int64) (targets []target, d Decision) {
	seen := make(map[string]bool, len(keys))
	for _, key := range keys {
		if seen[key] {
			continue
		}
		seen[key] = true
		var t target
		err := l.resolve(key, &t)
		if err != nil {
			return nil, l.refuseLimits(err)
		}
		if !t.unlimited {
			targets = append(targets, t)
		}
	}
	if len(keys) == 0 {
		return nil, refused(nil)
	}
	return targets, unlimited(n)
}

// A batch is calls for the same keys that the store decides in one round trip.
type batch struct {
	calls   []*waiting // in the order in which they are decided
	targets []target
	keys    []string // of the targets, in the store
	token   string   // of reservations or of a lease; "": there are none
	want    *wanted  // nil: no lease is wanted

	views            []view
	charged          int64 // units, for the calls
	leased, leaseEnd int64 // units charged for a lease, until when
	err              error
	panicked         any // what the Conn has panicked with; nil: it has not
}

// groups returns calls in groups: one after the other, with the same cost. A call that takes what there is
// is a group by itself.
func groups(calls []*waiting) iter.Seq[[]*waiting] {
	return func(yield func([]*waiting) bool) {
		for len(calls) > 0 {
			end, first := 1, calls[0]
			for end < len(calls) && calls[end].sharesGroup(first) {
				end++
			}
			if !yield(calls[:end]) {
				return
			}
			calls = calls[end:]
		}
	}
}

// sharesGroup reports whether c and o are alike to the store.
func (c *call) sharesGroup(o *waiting) bool {
	return c.n == o.n && slices.Equal(c.leaves, o.leaves) && c.charges() == o.charges() && c.op != upTo && o.op != upTo
}

// appendCalls appends the calls of b as a script reads them.
func (b *batch) appendCalls(text []byte) []byte {
	const impossible = 1 << 52 // no limit admits it; the scripts know no negative numbers, and no larger ones
	for group := range groups(b.calls) {
		if len(text) > 0 {
			text = append(text, ' ')
		}
		first, n, operation, times := group[0], group[0].n, byte('?'), int64(len(group))
		switch {
		case first.op == upTo: // as many calls for one unit, one after the other
			n, operation, times = 1, '^', min(n, maxExact)
		case n < 0 || n > maxExact:
			n = impossible
		}
		if operation == '?' && first.charges() {
			operation = '+'
		}
		text = strconv.AppendInt(text, n, 10)
		text = append(text, operation)
		text = first.appendLeaves(strconv.AppendInt(text, times, 10))
	}
	return text
}

// appendLeaves appends the units that must remain of each key as a script reads them. More than there can
// be are as many as no limit admits.
func (r *request) appendLeaves(text []byte) []byte {
	mark := byte('-')
	for i := range r.leaves {
		text = strconv.AppendInt(append(text, mark), min(r.leave(i), maxExact+1), 10)
		mark = ','
	}
	return text
}

// decide lets the store decide the calls of b, and keeps what it has answered.
func (l *Limiter) decide(ctx context.Context, b *batch) {
	want := ""
	if l.lessees != nil && len(b.targets) == 1 && b.token == "" {
		if b.want = l.lessees.want(b); b.want != nil {
			defer l.lessees.underway.Done() // also if the Conn panics
			want, b.token = b.want.text, rand.Text()
		}
	}
	args := make([]string, 0, 4+len(b.targets))
	args = append(args, l.reading(), string(b.appendCalls(make([]byte, 0, 16))), b.token, want)
	chosen := b.targets[0].scripts
	for _, t := range b.targets {
		args = append(args, t.scriptLimits())
		if t.scripts != chosen {
			chosen = scriptsOf[len(scriptsOf)-1] // they know all algorithms
		}
	}
	v := view{sent: l.local.Now()}
	reply, err := l.run(ctx, chosen.take, b.keys, args, b.calls...)
	v.received = l.local.Now()
	if err == nil {
		err = b.parse(reply, v)
	}
	if b.err = err; err == nil {
		l.learn(b)
	}
}

// learn keeps what the answer to b tells of its keys once units are charged to them. If units were
// charged for a lease, too, it begins the lease.
func (l *Limiter) learn(b *batch) {
	if l.storeClock != nil {
		l.storeClock.follow(b.views[0].at - b.views[0].received)
	}
	if l.lessees != nil && len(b.targets) == 1 {
		l.lessees.used(b)
	}
	for i, t := range b.targets {
		v, charged := b.views[i], b.charged
		if b.leased > 0 {
			v, charged = v.with(t.ruleset, b.charged+b.leased), 0
			l.lessees.grant(b.want, t, &v, b.leased, b.leaseEnd)
		}
		l.mirror.keep(t, v, charged, b)
	}
}

// parse parses the reply of the store to b: the time, how many calls of each group were admitted,
// the lease, a token for each key, and the states. v tells when it was sent and received.
func (b *batch) parse(reply string, v view) error {
	var fields [5]string
	rest, more := reply, true
	for i := range fields {
		if fields[i], rest, more = strings.Cut(rest, "|"); more != (i < len(fields)-1) {
			return nonsense("answered %q", reply)
		}
	}
	micros, err := number(fields[0])
	if err != nil {
		return err
	}
	if err := b.parseCounts(fields[1]); err != nil {
		return err
	}
	var buf [2]int64
	lease, err := parseNumbers(buf[:0], fields[2])
	if err != nil || len(lease) != 2 || lease[0] < 0 || lease[0] > 0 && b.want == nil {
		return nonsense("answered %q for a lease", fields[2])
	}
	b.leased, b.leaseEnd, v.at = lease[0], lease[1], micros*microsecond
	return b.parseViews(v, fields[3], fields[4])
}

// parseCounts parses how many calls of each group were admitted. They came before those that were
// denied.
func (b *batch) parseCounts(text string) error {
	var buf [16]int64
	number := 0
	for range groups(b.calls) {
		number++
	}
	counts, err := parseNumbers(buf[:0], text)
	if err != nil || len(counts) != number {
		return nonsense("answered %q for %d groups of calls", text, number)
	}
	for group := range groups(b.calls) {
		first, admitted, most := group[0], counts[0], int64(len(group))
		counts = counts[1:]
		if first.op == upTo {
			most = first.n
		}
		if admitted < 0 || admitted > most {
			return nonsense("admitted %d of %d calls", admitted, most)
		}
		if first.op == upTo {
			first.n = admitted // alone in its group, it has taken as many units
		}
		for place, c := range group {
			c.batch, c.admitted, c.before = b, int64(place) < admitted, b.charged
			if c.admitted && c.charges() {
				b.charged += c.n
			}
		}
	}
	return nil
}

// parseViews parses the state of each key under each limit. v is their view without it.
func (b *batch) parseViews(v view, tokens, answers string) error {
	rules := 0
	for _, t := range b.targets {
		rules += len(t.rules)
	}
	if strings.Count(answers, ";")+1 != rules || strings.Count(tokens, " ")+1 != len(b.targets) {
		return nonsense("answered %q and %q for %d states of %d keys", tokens, answers, rules, len(b.targets))
	}
	var buf [8]int64
	b.views = make([]view, len(b.targets))
	states := make([]state, rules)
	for i, t := range b.targets {
		v.states, states = states[:len(t.rules):len(t.rules)], states[len(t.rules):]
		v.token, tokens, _ = strings.Cut(tokens, " ")
		shift := t.shift()
		for j := range t.rules {
			var field string
			field, answers, _ = strings.Cut(answers, ";")
			numbers, err := parseNumbers(buf[:0], field)
			if err != nil {
				return err
			}
			known := false
			if v.states[j], known = t.rules[j].parse(numbers, v.at); !known {
				return nonsense("answered %q as the state under %v", field, t.rules[j].Limit)
			}
			v.states[j].shift = shift
		}
		b.views[i] = v
	}
	return nil
}

// A call is one caller's part of a batch.
type call struct {
	request

	// Set once the store has decided it.
	batch    *batch
	admitted bool
	before   int64 // units charged by the calls of the batch before it
}

// An answer is the answer to a call.
type answer struct {
	Decision
	call  call               // its batch is nil unless the store has decided it
	at    int64              // of a denial by the mirror: the reading of the local clock
	local []sash.Reservation // of the fallback, one for each key

	// certain is for how long the store is sure to deny the call, by what it or the mirror has answered,
	// whatever units that are held are given back.
	certain time.Duration
}

// basis returns what the decision of the key of that index on c follows from.
func (c *call) basis(index int) basis {
	v := &c.batch.views[index]
	return basis{view: v, ruleset: c.batch.targets[index].ruleset, now: v.at, charged: c.before}
}

// answer returns the answer to c, which the store has decided.
func (c *call) answer() (a answer) {
	d := sash.Decision{Allowed: c.admitted}
	for i := range c.batch.targets {
		b := c.basis(i)
		if d.Allowed { // of a Peek, too: it tells what would be left
			b.charged += c.n
		}
		if !b.decide(c.needs(i), &d) {
			err := nonsense("left out what a denial of %d units follows from", c.needs(i))
			return answer{Decision: refused(err), call: call{request: c.request}}
		}
		a.certain = max(a.certain, b.certain)
	}
	if d.Allowed == (d.RetryAfter > 0) {
		err := fmt.Errorf("sashredis: the server's answer (allowed: %v) does not follow from its state: %w", d.Allowed, ErrServer)
		return answer{Decision: refused(err), call: call{request: c.request}}
	}
	a.Decision, a.call = Decision{Decision: d}, *c
	return a
}

// asks returns the units that b asks for, that a lease might have and rs may admit, and the largest cost
// among them.
func (b *batch) asks(rs *ruleset) (units, largest int64) {
	for _, c := range b.calls {
		if c.leases() && !rs.neverAdmits(c.n) {
			units, largest = min(units+c.n, maxExact), max(largest, c.n)
		}
	}
	return units, largest
}
