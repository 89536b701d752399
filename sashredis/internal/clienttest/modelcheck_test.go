package clienttest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/reference"
	"github.com/seed-30da4c49/sash/sashredis"
)

// An asked is a call for units of keys, and what the model knows when it begins.
type asked struct {
	*process
	what            string
	names           []string
	keys            []string // in the store, each once
	limits          [][]sash.Limit
	n, leave        int64
	upTo            bool  // it takes what there is, at most n
	taken           int64 // by one that takes what there is
	charge, reserve bool
	returned        atomic.Bool
	unanswered      atomic.Bool // it was sent, and no answer has come
	began           time.Time
	turn            int   // of the world, when it began
	seq, last       int   // of the world, when it began and ended; last is math.MaxInt if it may come to pass later
	wrong           error // limits that are wrong
	unlimited       bool
	lease           *grant                // that has admitted it
	local           reference.Reservation // of what the fallback has admitted
	forgot          bool                  // it is a Reset that has forgotten what the process had of its key
}

// ask returns a call that begins now. The world must be locked.
func (p *process) ask(what string, names []string, n int64, charge, reserve bool) *asked {
	return p.askUnder(p.limitsOf, what, names, n, charge, reserve)
}

// askUnder is ask of a call whose keys have those limits.
func (p *process) askUnder(limitsOf func(name string) []sash.Limit, what string, names []string, n int64, charge, reserve bool) *asked {
	p.turns++
	a := &asked{process: p, what: what, names: names, n: n, charge: charge, reserve: reserve, began: time.Now(), turn: p.turns, seq: p.seq, last: math.MaxInt}
	var seen []string
	for _, name := range names {
		if slices.Contains(seen, name) {
			continue
		}
		seen = append(seen, name)
		limits := limitsOf(name)
		if slices.Equal(limits, wrongLimits) {
			a.wrong = sash.ErrInvalidLimit
			return a
		}
		text, suffix := wire(name, limits)
		if text == "" {
			continue
		}
		if p.maxAhead > 0 {
			text += strconv.Itoa(p.maxAhead)
		}
		p.world.limits[text] = slices.DeleteFunc(slices.Clone(limits), func(l sash.Limit) bool { return l == sash.Unlimited() })
		a.keys, a.limits = append(a.keys, p.prefix+p.tagOf(name)+name+suffix), append(a.limits, p.world.limits[text])
		k := p.key(a.keys[len(a.keys)-1])
		if k.known == "" {
			k.known = strings.Clone(name)
		}
		if k.uses == nil && p.leasing {
			k.uses = reference.NewTable(modelLimits(limits))
			k.uses.NameOf = p.table.NameOf
		}
	}
	a.unlimited = len(a.keys) == 0
	return a
}

func (a *asked) faultf(format string, args ...any) {
	a.failf("%s: %s", a, fmt.Sprintf(format, args...))
}

func (a *asked) String() string {
	names := make([]string, len(a.names))
	for i, name := range a.names {
		names[i] = fmt.Sprintf("%.12q", name)
	}
	return fmt.Sprintf("%s.%s(%v, %d), leaving %d, began at %v", a.process.name, a.what, names, a.n, a.leave, a.began.Sub(a.world.began))
}

// is reports whether s is a slot of a.
func (a *asked) is(s *slot) bool {
	n, leave := inScript(a.n, a.leave)
	if a.upTo {
		n = min(a.n, 1<<51-1)
	}
	return s.by == a.process && s.seq > a.seq && s.seq <= a.last && !s.claimed && (s.of == nil || s.of == a) &&
		s.n == n && s.leave == leave && s.upTo == a.upTo && s.charge == a.charge && s.reserve == a.reserve && slices.Equal(s.keys, a.keys)
}

// slot claims a slot of a for which holds is true, or returns nil. It is the latest, as a has just ended: an
// earlier one may be of a call like a that has ended before, and whose slot is not known yet. If there is no
// other, it is one that was presumed to be an attempt of another call that waits.
func (a *asked) slot(holds func(s *slot) bool) *slot {
	var presumed *slot
	for _, s := range slices.Backward(a.slots) {
		switch {
		case !a.is(s) || !holds(s):
		case s.presumed:
			presumed = cmp.Or(presumed, s)
		default:
			s.claimed = true
			return s
		}
	}
	if presumed != nil {
		presumed.claimed, presumed.presumed = true, false
		a.unknown--
	}
	return presumed
}

// reserved claims the slot that has admitted a, a WaitReserve that has ended now or is given back, or returns
// nil. That is the latest one that it may be, and rather one that a has sent by itself. It may be another one
// of the same batch: these are alike.
func (a *asked) reserved() (found *slot) {
	for _, s := range a.slots {
		if a.is(s) && s.delivered && s.admitted && !s.repeated && (found == nil || found.of == nil || s.of == a) {
			found = s
		}
	}
	if found != nil {
		found.claimed = true
	}
	return found
}

// presumes takes all slots of a that no call has claimed for attempts of a, if holds is true for them.
func (a *asked) presumes(holds func(s *slot) bool) {
	for _, s := range a.slots {
		if a.is(s) && !s.presumed && holds(s) {
			s.presumed = true
			a.unknown++
		}
	}
}

// checks checks the answer to a, and returns its slot, if the store has decided it.
func (a *asked) checks(ctx context.Context, d sashredis.Decision) *slot {
	a.intime(ctx, 2)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notes("%s -> %+v by %v, %v", a, d.Decision, d.By, d.Err)
	fault := ""
	var s *slot
	switch {
	case a.wrong != nil:
		if d.Allowed || !errors.Is(d.Err, a.wrong) || d.RetryAfter != sash.Never {
			fault = "wrong limits are not refused"
		}
		return nil
	case len(a.names) == 0:
		if d.Allowed || d.RetryAfter != sash.Never || d.Err != nil {
			fault = "no keys are not denied"
		}
	case a.unlimited:
		if d.Allowed != (a.n >= 0) || d.Err != nil || d.By != sashredis.ByStore {
			fault = "an unlimited key"
		}
	default:
		a.decided[d.By]++
		s, fault = a.byWhom(d)
	}
	if fault != "" {
		a.fails("%s -> %+v by %v, %v: %s", a, d.Decision, d.By, d.Err, fault)
	}
	return s
}

// byWhom checks the answer to a by the rules of who has decided it.
func (a *asked) byWhom(d sashredis.Decision) (s *slot, fault string) {
	switch d.By {
	case sashredis.ByStore:
		if d.Err != nil {
			return nil, "the store refuses it"
		}
		if s = a.slot(func(s *slot) bool { return s.delivered && a.confirms(s, d.Decision) }); s == nil {
			return nil, "no answer of the store says so" + a.wanted()
		}
	case sashredis.ByMirror:
		fault = a.byMirror(d)
	case sashredis.ByLease:
		fault = a.byLease(d)
	case sashredis.ByFallback:
		fault = a.byFallback(d)
	}
	return s, fault
}

// wanted tells what the answers are that a may have had.
func (a *asked) wanted() (text string) {
	for _, s := range a.slots {
		if a.is(s) && s.delivered && s.exact {
			text += fmt.Sprintf("; wanted %+v", s.verdict.Answer())
		}
	}
	return text
}

// confirms reports whether d is the answer to s.
func (a *asked) confirms(s *slot, d sash.Decision) bool {
	if s.taken != a.taken {
		return false
	}
	if !s.exact {
		return s.admitted == d.Allowed
	}
	return a.confirmed(s.verdict, d)
}

// confirmed reports whether d is the answer of v. Several limits may be equal to the limit of d.
func (a *asked) confirmed(v reference.Verdict, d sash.Decision) bool {
	for i, key := range a.keys {
		for j, l := range a.limits[i] {
			if l == d.Limit && v.Confirms(reference.Answer{
				Allowed: d.Allowed, Remaining: d.Remaining, RetryAfter: int64(d.RetryAfter), ResetAfter: int64(d.ResetAfter),
				DecidingKey: key, Deciding: j,
			}) {
				return true
			}
		}
	}
	return false
}

// holdsNow lets the keys of a have the limits of a now.
func (a *asked) holdsNow() {
	for i, key := range a.keys {
		if model := modelLimits(a.limits[i]); !slices.Equal(a.table.Limits(key), model) {
			a.table.SetLimitsAt(a.world.now()*1000, key, model)
		}
	}
}

// considers returns what the model says of a now.
func (a *asked) considers() reference.Verdict {
	a.holdsNow()
	n := max(a.n, -1)
	if a.upTo {
		n = 1
	}
	return a.table.Leaving(a.leave).Consider(a.world.now()*1000, n, a.keys...)
}

// byMirror checks a denial by the mirror: the store would deny, too, whatever units that are held are given
// back, unless the keys have become less in another way than by these and with time since the process has
// heard of them.
func (a *asked) byMirror(d sashredis.Decision) (fault string) {
	sole, freed := true, false
	age := time.Duration(0)
	for _, key := range a.keys {
		k, known := a.key(key), a.known[key]
		if k.inexact || k.less > known.seq {
			return ""
		}
		sole, freed = sole && k.heardOfAll(a.process), freed || k.freed > known.seq
		age = max(age, time.Since(known.heard))
	}
	v := a.considers()
	if d.Allowed || d.Err != nil || v.Allowed || v.LeastWait() == 0 {
		return "the store might admit it"
	}
	if !sole || a.back {
		return ""
	}
	const rounding = int64(time.Microsecond) - 1 // of the store's reading, which v is told by
	slack := int64(2*a.timeout + age/1000 + 2*time.Microsecond)
	if got := int64(d.RetryAfter); !v.AdmitsAfter(max(got, got+rounding)) || !freed && v.AdmitsAfter(got-slack-1) {
		return fmt.Sprintf("by all that the process knows, its wait is %v", time.Duration(v.Answer().RetryAfter))
	}
	return ""
}

// byLease checks an admission from a lease, and uses its units.
func (a *asked) byLease(d sashredis.Decision) (fault string) {
	if !d.Allowed || d.Err != nil || !a.charge || a.n <= 0 || len(a.keys) != 1 || a.leave > 0 || a.upTo {
		return "a lease only admits, and not what leaves units or takes what there is"
	}
	now := a.world.now()
	k := a.key(a.keys[0])
	for i := len(a.grants) - 1; i >= 0; i-- {
		g := a.grants[i]
		if g.by != a.process || g.key != a.keys[0] || !g.delivered || g.over || g.left+g.maybe < a.n || g.dropped && !a.mayPrecede(g.droppedAt) {
			continue
		}
		if now >= g.until && !a.set {
			return fmt.Sprintf("the lease has ended at %d, and it is %d", g.until, now)
		}
		g.maybe -= max(0, a.n-g.left)
		g.left -= min(g.left, a.n)
		a.lease = g
		a.holdsNow() // not the limits of another call for the key
		a.usesLeased(g, now, a.n)
		return ""
	}
	if k.loose {
		return ""
	}
	return "no lease has as many units"
}

// gaveUp checks that a Wait which has ended with err was sure not to be admitted before its deadline, whatever
// units that are held are given back, if that is why it has ended.
func (a *asked) gaveUp(ctx context.Context, err error) {
	if err == nil || !strings.Contains(err.Error(), "at the earliest") {
		return
	}
	k := a.key(a.keys[0])
	known := a.known[k.name]
	// What this process has given back since the call began may have come after the answer.
	if k.inexact || k.less > min(known.seq, a.seq) || a.back {
		return
	}
	deadline, _ := ctx.Deadline()
	left, age := time.Until(deadline), time.Since(known.heard)
	slack := 2*a.timeout + (left+age)/1000 + 2*time.Microsecond
	if least := a.considers().LeastWait(); time.Duration(least) < left-slack {
		a.fails("%s -> %v: it may be admitted in %v", a, err, time.Duration(least))
	}
}

// mayPrecede reports whether what a process now does for a may have come before what it did at t:
// events of one instant come in any order, but for those that began after the other had ended.
func (a *asked) mayPrecede(t turn) bool { return t.at.Equal(time.Now()) && a.turn < t.number }

// byFallback checks an answer of the fallback.
func (a *asked) byFallback(d sashredis.Decision) (fault string) {
	hopeless, most := a.n < 0, a.n
	for _, limits := range a.limits {
		for _, l := range limits {
			most = min(most, modelMost(l))
			hopeless = hopeless || modelMost(l) == 0 && a.n > 0 || !a.upTo && a.n > modelMost(l)-a.leave
		}
	}
	canceled := errors.Is(d.Err, context.Canceled)
	if !errors.Is(d.Err, sashredis.ErrUnavailable) {
		a.unsure = append(a.unsure, a)
	}
	local, _ := a.fallback.shares()
	a.alone = a.alone || local && a.heard == 0 && !canceled && !hopeless
	switch {
	case d.Err == nil:
		return "no reason is told"
	case errors.Is(d.Err, sashredis.ErrUnavailable) && !a.mayBeOpen():
		return fmt.Sprintf("the breaker is open after %d failures of the store in a row", a.inARow)
	case hopeless && (d.Allowed || d.RetryAfter != sash.Never):
		return "it is never admitted"
	case !d.Allowed && d.RetryAfter <= 0:
		return "a denial without a wait"
	case (canceled || a.fallback.mode == "deny") && d.Allowed:
		return "it is admitted"
	case !canceled && !hopeless && a.fallback.mode == "admit" && !d.Allowed:
		return "it is denied"
	case a.upTo && d.Allowed && a.fallback.mode == "admit" && a.taken != most:
		return fmt.Sprintf("it takes %d, and %d are ever admitted", a.taken, most)
	case d.Allowed && local:
		return a.byShares()
	}
	return ""
}

// byShares checks what the fallback has admitted: by itself, it is within the exact rule of the
// shares, however often the store was away.
func (a *asked) byShares() (fault string) {
	now := a.sharesTime()
	if a.set {
		return "" // it goes on by its own clock then
	}
	if slices.ContainsFunc(a.names, func(name string) bool { return a.mayPrecede(a.resets[name]) }) {
		return "" // the shares of before count, or it is forgotten
	}
	if len(a.limits) != len(a.names) || len(a.keys) != len(a.names) {
		return "" // a key that is named twice, or unlimited
	}
	shares := make([]string, len(a.names))
	for i, name := range a.names {
		shares[i] = shareOf(name, a.limits[i])
		a.shares.SetLimitsAt(now, shares[i], localLimits(a.fallback.of(a.limits[i])))
	}
	latest := now
	if !a.alone {
		latest = max(now, a.latest)
	}
	n := a.n
	if a.upTo {
		n = a.taken
	}
	leave := (a.leave*a.fallback.num + max(a.fallback.den, 1) - 1) / max(a.fallback.den, 1)
	if !a.back && !a.shares.Leaving(leave).Consider(latest, n, shares...).Allowed {
		return "the fallback admits more than its share"
	}
	if !a.charge || n <= 0 {
		return ""
	}
	all, v := a.shares.DecideReserve(now, n, shares...)
	if a.local = all[0]; !v.Allowed {
		for _, share := range shares {
			a.shares.Spend(now, n, share)
		}
	}
	return ""
}

// sharesTime returns the time by which the fallback decides, in nanoseconds.
func (p *process) sharesTime() int64 {
	if p.clock != nil {
		return p.clock.Now()
	}
	if p.heard == 0 || p.alone {
		return time.Now().UnixNano()
	}
	return p.heard + int64(time.Since(p.heardAt))
}

// intime checks that a has ended with its context, and within so many time-outs.
func (a *asked) intime(ctx context.Context, timeouts int) {
	took := time.Since(a.began)
	most := time.Duration(timeouts) * a.timeout
	if d, ok := ctx.Deadline(); ok {
		most = min(most, max(d.Sub(a.began), 0))
	}
	if took > most {
		a.faultf("it has taken %v, and may %v", took, most)
	}
}

func modelMost(l sash.Limit) int64 {
	if l.Burst > 0 && l.Count > 0 {
		return l.Burst
	}
	return l.Count
}
