package clienttest

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
)

// A modelCall is a public call of the package, or an event of its surroundings.
type modelCall struct {
	weight int
	event  bool // no call is under way meanwhile
	do     func(p *program, q caller, r *rand.Rand)
}

// A caller makes a call of a process: by its limiter, or by what WithLimits of that returns.
type caller struct {
	*process
	*sashredis.Limiter
	given []sash.Limit // to WithLimits, or with the call; nil: each key has the limits that it has
}

// modelCalls are all public calls, and the events.
var modelCalls = map[string]modelCall{
	"Allow":               {weight: 4, do: (*program).allow},
	"Take":                {weight: 30, do: (*program).take},
	"Peek":                {weight: 6, do: (*program).peek},
	"TakeLeaving":         {weight: 8, do: (*program).takeLeaving},
	"TakeUpTo":            {weight: 8, do: (*program).takeUpTo},
	"TakeAll":             {weight: 8, do: (*program).takeAll},
	"PeekAll":             {weight: 3, do: (*program).peekAll},
	"Wait":                {weight: 6, do: (*program).wait},
	"WaitLeaving":         {weight: 4, do: (*program).waitLeaving},
	"WaitReserve":         {weight: 6, do: (*program).waitReserve},
	"Reserve":             {weight: 10, do: (*program).reserve},
	"ReserveLeaving":      {weight: 4, do: (*program).reserveLeaving},
	"Reservation.Commit":  {weight: 8, do: (*program).settle},
	"Reservation.Cancel":  {weight: 3, do: (*program).cancel},
	"Reservation.Release": {weight: 6, do: (*program).release},
	"Reset":               {weight: 4, do: (*program).reset},
	"TakeLimits":          {weight: 8, do: (*program).takeLimits},
	"WithLimits":          {weight: 24}, // its do is set by init, since it makes all other calls of keys
	"Stats":               {weight: 1, do: (*program).stats},
	"Close":               {weight: 1, do: func(_ *program, q caller, _ *rand.Rand) { q.closes() }},

	"a while":         {weight: 10, do: func(*program, caller, *rand.Rand) {}},
	"weather":         {weight: 8, do: (*program).changeWeather},
	"caller's clock":  {weight: 8, event: true, do: (*program).moveClock},
	"plan":            {weight: 2, event: true, do: (*program).changePlan},
	"panics":          {weight: 2, do: (*program).beginPanics},
	"forgets all":     {weight: 1, event: true, do: (*program).forgetAll},
	"evicts":          {weight: 1, event: true, do: (*program).evict},
	"sets its clock":  {weight: 1, event: true, do: (*program).setClock},
	"many, then back": {weight: 1, do: (*program).many},
	"comes and goes":  {weight: 1, event: true, do: (*program).comeAndGo},
}

// asItself returns the caller of calls under the limits that keys have.
func (p *process) asItself() caller { return caller{process: p, Limiter: p.Limiter} }

func init() {
	c := modelCalls["WithLimits"]
	c.do = (*program).withLimits
	modelCalls["WithLimits"] = c
}

// underLimits are the calls that WithLimits is tested with: all of keys.
var underLimits = []string{
	"Allow", "Take", "Take", "Take", "Peek", "TakeLeaving", "TakeUpTo", "TakeAll", "PeekAll", "Wait", "WaitLeaving", "WaitReserve",
	"Reserve", "ReserveLeaving", "Reset",
}

// withLimits makes another call under given limits.
func (p *program) withLimits(q caller, r *rand.Rand) {
	given := p.give(q.process, r)
	verb := underLimits[r.IntN(len(underLimits))]
	modelCalls[verb].do(p, caller{q.process, q.WithLimits(given...), given}, r)
}

func (p *program) takeLimits(q caller, r *rand.Rand) {
	q.given = p.give(q.process, r)
	p.one(q, r, "TakeLimits", true)
}

// give returns limits to give to calls of q. In most programs these are the limits that a key has: then no lease
// is ended. In the others, calls under other limits come between.
func (p *program) give(q *process, r *rand.Rand) []sash.Limit {
	limits := slices.Clone(q.limitsOf(p.names[0]))
	switch {
	case p.seed%3 > 0:
		return limits
	case r.IntN(8) == 0:
		return p.newLimits(r)
	case r.IntN(12) == 0:
		return wrongLimits
	}
	p.vary(limits, r)
	return limits
}

// limitsOf returns the limits under which q makes a call for a key, or wrongLimits.
func (q caller) limitsOf(name string) []sash.Limit {
	if q.given != nil {
		return q.given
	}
	return q.process.limitsOf(name)
}

// begins returns a call that begins now, under the limits of q.
func (q caller) begins(what string, names []string, n int64, charge, reserve bool) *asked {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.askUnder(q.limitsOf, what, names, n, charge, reserve)
}

// name returns the name of a key, in most programs most often the same.
func (p *program) name(r *rand.Rand) string {
	if p.seed%4 > 0 && r.IntN(3) > 0 {
		return p.names[0]
	}
	return p.names[r.IntN(len(p.names))]
}

// cost returns a number of units for a key of that name.
func (p *program) cost(q caller, name string, r *rand.Rand) int64 {
	most := int64(1)
	for _, l := range q.limitsOf(name) {
		most = max(modelMost(l), 1)
	}
	switch r.IntN(14) {
	case 0:
		return 0
	case 1:
		return -1 - r.Int64N(3)
	case 2:
		return most + r.Int64N(2)
	case 3:
		return 1 + r.Int64N(most)
	case 4:
		return 1 << 62
	}
	return 1 + r.Int64N(most/4+1)
}

func (p *program) take(q caller, r *rand.Rand) { p.one(q, r, "Take", true) }
func (p *program) peek(q caller, r *rand.Rand) { p.one(q, r, "Peek", false) }

func (p *program) one(q caller, r *rand.Rand, what string, charge bool) {
	name := p.name(r)
	n := p.cost(q, name, r)
	ctx, cancel := p.context(q.process, r, false)
	call := q.Peek
	switch {
	case what == "TakeLimits":
		call = func(ctx context.Context, key string, n int64) sashredis.Decision {
			return q.TakeLimits(ctx, key, n, q.given...)
		}
	case charge:
		call = q.Take
	}
	times := 1 + r.IntN(4)*r.IntN(2)*r.IntN(2) // at once, to share round trips
	for range times {
		time.Sleep(time.Nanosecond) // until the call before is under way, so that their order follows from the seed
		a := q.begins(what, []string{name}, n, charge && n > 0, false)
		p.background(a, func() {
			defer cancel()
			a.checks(ctx, call(a.own(ctx), name, n))
		})
	}
}

// leaving notes that a leaves units.
func (a *asked) leaving(leave int64) *asked {
	a.leave = max(leave, 0)
	return a
}

func (p *program) takeLeaving(q caller, r *rand.Rand) {
	name := p.name(r)
	n, leave := p.cost(q, name, r), p.cost(q, name, r)
	ctx, cancel := p.context(q.process, r, false)
	for range 1 + r.IntN(3)*r.IntN(2) { // at once, to share round trips
		time.Sleep(time.Nanosecond)
		a := q.begins("TakeLeaving", []string{name}, n, n > 0, false).leaving(leave)
		p.background(a, func() {
			defer cancel()
			d := q.TakeLeaving(a.own(ctx), name, n, leave)
			if d.Allowed && d.By == sashredis.ByStore && d.Remaining < a.leave {
				a.faultf("it has left %d", d.Remaining)
			}
			a.checks(ctx, d)
		})
	}
}

func (p *program) takeUpTo(q caller, r *rand.Rand) {
	name := p.name(r)
	most := p.cost(q, name, r)
	ctx, cancel := p.context(q.process, r, false)
	for range 1 + r.IntN(3)*r.IntN(2) { // at once, to share round trips
		time.Sleep(time.Nanosecond)
		a := q.begins("TakeUpTo", []string{name}, most, most > 0, false)
		a.upTo = most > 0
		p.background(a, func() {
			defer cancel()
			taken, d := q.TakeUpTo(a.own(ctx), name, most)
			if taken < 0 || taken > max(most, 0) || most > 0 && d.Allowed != (taken > 0) || a.unlimited && taken != max(most, 0) {
				a.faultf("it takes %d, and its Decision is %+v", taken, d)
			}
			a.taken = taken
			a.checks(ctx, d)
		})
	}
}

func (p *program) takeAll(q caller, r *rand.Rand) { p.all(q, r, "TakeAll", true) }
func (p *program) peekAll(q caller, r *rand.Rand) { p.all(q, r, "PeekAll", false) }

func (p *program) all(q caller, r *rand.Rand, what string, charge bool) {
	var names []string
	for range r.IntN(4) {
		names = append(names, p.name(r))
	}
	n := p.cost(q, p.name(r), r)
	ctx, cancel := p.context(q.process, r, false)
	call := q.PeekAll
	if charge {
		call = q.TakeAll
	}
	a := q.begins(what, names, n, charge && n > 0, false)
	p.background(a, func() {
		defer cancel()
		a.checks(ctx, call(a.own(ctx), names, n))
	})
}

// allow asks for one unit. The answer does not tell who has decided.
func (p *program) allow(q caller, r *rand.Rand) {
	name := p.name(r)
	ctx, cancel := p.context(q.process, r, false)
	if q.leasing {
		p.calls.Wait() // else it is not known whose units are leased
		defer p.calls.Wait()
	}
	a := q.begins("Allow", []string{name}, 1, true, false)
	p.background(a, func() {
		defer cancel()
		allowed := q.Allow(a.own(ctx), name)
		a.intime(ctx, 2)
		a.mu.Lock()
		defer a.mu.Unlock()
		a.notes("%s -> %v", a, allowed)
		if a.wrong != nil || a.unlimited {
			if allowed != (a.wrong == nil) {
				a.fails("%s -> %v", a, allowed)
			}
			return
		}
		a.guess(allowed)
	})
}

// guess finds who has decided a, if only the answer is known. It does so at once if that may be a
// lease, and else when all calls are known that have had a slot.
func (a *asked) guess(allowed bool) {
	a.unknown++
	a.last = a.world.seq
	atOnce := a.what == "Wait" || a.what == "WaitLeaving" || time.Since(a.began) == 0 // as calls are that a lease admits, but for one that waits
	if a.leasing && allowed && atOnce && !slices.ContainsFunc(a.slots, func(s *slot) bool { return a.is(s) && s.delivered && s.admitted }) {
		if a.byLease(sashredis.Decision{Decision: sash.Decision{Allowed: true}}) == "" {
			a.last = math.MaxInt
			a.unsure = append(a.unsure, a) // or the fallback has admitted it, after it was sent
			if a.lease != nil {
				a.lease.maybe += a.n
			}
			return
		}
	}
	a.guesses = append(a.guesses, guess{a, allowed})
}

// A guess is a call whose answer is known, and nothing else.
type guess struct {
	*asked
	allowed bool
}

// follows finds the slot of a guess. There may be none if the fallback or the mirror may have
// decided it.
func (g guess) follows() {
	found := g.slot(func(s *slot) bool { return s.delivered && s.admitted == g.allowed }) != nil
	if !found && g.allowed && g.fallback.mode == "deny" {
		g.fails("%s: nobody has admitted it", g)
	}
	if !found {
		g.last = math.MaxInt
		g.unsure = append(g.unsure, g.asked)
	}
}

func (p *program) wait(q caller, r *rand.Rand) {
	p.waitFor(q, r, "Wait", 0, func(ctx context.Context, name string, n, _ int64) error { return q.Wait(ctx, name, n) })
}

func (p *program) waitLeaving(q caller, r *rand.Rand) {
	p.waitFor(q, r, "WaitLeaving", p.cost(q, p.names[0], r), q.WaitLeaving)
}

// waitFor waits for units, by call.
func (p *program) waitFor(q caller, r *rand.Rand, what string, leave int64, call func(ctx context.Context, name string, n, leave int64) error) {
	name := p.name(r)
	n := p.cost(q, name, r)
	ctx, cancel := p.context(q.process, r, true)
	if q.leasing {
		p.calls.Wait() // else it is not known whose units are leased
		defer p.calls.Wait()
	}
	a := q.begins(what, []string{name}, n, n > 0, false).leaving(leave)
	p.background(a, func() {
		defer cancel()
		a.hasWaits()
		err := call(a.own(ctx), name, n, leave)
		a.hasWaited(ctx, err, func() { a.guess(true) })
	})
}

// waitReserve waits for units, and holds the reservation.
func (p *program) waitReserve(q caller, r *rand.Rand) {
	name := p.name(r)
	n := p.cost(q, name, r)
	ctx, cancel := p.context(q.process, r, true)
	if r.IntN(3) == 0 { // it often ends while the store decides
		soon, end := context.WithTimeout(ctx, time.Duration(r.Int64N(int64(2*time.Millisecond))))
		later := cancel
		ctx, cancel = soon, func() { end(); later() }
	}
	a := q.begins("WaitReserve", []string{name}, n, n > 0, true)
	p.background(a, func() {
		defer cancel()
		a.hasWaits()
		reservation, err := q.WaitReserve(context.WithValue(ctx, reserving{}, a), name, n)
		if err != nil && reservation != (sashredis.Reservation{}) {
			a.faultf("it returns a reservation and %v", err)
		}
		a.hasWaited(ctx, err, func() { p.holds(a, reservation, a.admits()) })
	})
}

// admits returns the slot that has admitted a, a WaitReserve that is admitted; nil: the fallback has.
func (a *asked) admits() *slot {
	a.last = a.world.seq
	s := a.reserved()
	switch {
	case s != nil:
		a.decided[sashredis.ByStore]++
	case a.fallback.mode == "deny":
		a.fails("%s: nobody has admitted it", a)
	default:
		a.unknown++
		a.last = math.MaxInt
		a.unsure = append(a.unsure, a) // it may have been sent before
	}
	return s
}

// hasWaited checks how a, which has waited, has ended. If it is admitted, it calls admitted.
func (a *asked) hasWaited(ctx context.Context, err error, admitted func()) {
	if d, ok := ctx.Deadline(); ok && time.Since(d) > 0 && time.Since(a.began) > 0 {
		a.faultf("it has ended %v after its deadline", time.Since(d))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notes("%s -> %v", a, err)
	switch {
	case a.wrong != nil:
		if err == nil || time.Since(a.began) > 0 {
			a.fails("%s: wrong limits", a)
		}
		return
	case a.unlimited:
		if (err == nil) != (a.n >= 0 && ctx.Err() == nil) && ctx.Err() == nil {
			a.fails("%s -> %v", a, err)
		}
		return
	}
	a.gaveUp(ctx, err)
	a.presumes(func(s *slot) bool { return s.delivered && !s.admitted })
	if err == nil {
		admitted()
	} else {
		a.unknown++
		a.unsure = append(a.unsure, a)
	}
	never := a.n < 0 || slices.ContainsFunc(a.limits[0], func(l sash.Limit) bool { return a.n > modelMost(l)-a.leave })
	if errors.Is(err, sash.ErrExceedsLimit) && !never {
		a.fails("%s -> %v", a, err)
	}
	if took := time.Since(a.began); never && took > 0 {
		a.fails("%s -> %v: it is never admitted, and has waited for %v", a, err, took)
	}
}

// hasWaits notes that p waits, also if a function of the user panics after it has asked.
func (p *process) hasWaits() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits = true
}

func (p *program) reserve(q caller, r *rand.Rand) {
	name := p.name(r)
	n := p.cost(q, name, r)
	ctx, cancel := p.context(q.process, r, false)
	a := q.begins("Reserve", []string{name}, n, n > 0, true)
	p.background(a, func() {
		defer cancel()
		reservation, d := q.Reserve(a.own(ctx), name, n)
		p.reserved(a, reservation, d, a.checks(ctx, d))
	})
}

func (p *program) reserveLeaving(q caller, r *rand.Rand) {
	name := p.name(r)
	n, leave := p.cost(q, name, r), p.cost(q, name, r)
	ctx, cancel := p.context(q.process, r, false)
	a := q.begins("ReserveLeaving", []string{name}, n, n > 0, true).leaving(leave)
	p.background(a, func() {
		defer cancel()
		reservation, d := q.ReserveLeaving(a.own(ctx), name, n, leave)
		p.reserved(a, reservation, d, a.checks(ctx, d))
	})
}

func (p *program) settle(_ caller, r *rand.Rand)  { p.commit(r, "Commit") }
func (p *program) cancel(_ caller, r *rand.Rand)  { p.commit(r, "Cancel") }
func (p *program) release(_ caller, r *rand.Rand) { p.commit(r, "Release") }

// commit settles a reservation by that call.
func (p *program) commit(r *rand.Rand, call string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.held) == 0 {
		return
	}
	h := p.held[r.IntN(len(p.held))]
	if h.busy {
		return
	}
	h.busy, h.actual = true, 0
	switch call {
	case "Commit":
		h.actual = r.Int64N(h.n+1) + h.n*int64(r.IntN(3)/2) - int64(r.IntN(20)/19)
	case "Release":
		h.actual = h.n
	}
	ctx, cancel := p.context(h.by, r, false)
	a := h.by.ask(call, nil, h.actual, false, false)
	actual := h.actual
	h.actual = max(h.actual, 0)
	p.background(a, func() {
		defer cancel()
		ended := ctx.Err() != nil
		settling := context.WithValue(a.own(ctx), settling{}, h)
		var err error
		switch call {
		case "Commit":
			err = h.Commit(settling, actual)
		case "Cancel":
			err = h.Cancel(settling)
		case "Release":
			err = h.Release(settling)
		}
		a.intime(ctx, 1)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.notes("%s: of %d -> %v", a, h.n, err)
		h.settles(a, err, ended)
	})
}

// settles checks how a settlement has ended.
func (h *held) settles(a *asked, err error, ended bool) {
	unsent := err != nil && (errors.Is(err, sashredis.ErrUnavailable) || ended)
	if ended && err == nil && h.sends() && !h.ran {
		a.fails("%s: its context had ended, and it is not sent", a)
	}
	if !unsent && !h.ofStore {
		a.shares.Settle(a.sharesTime(), h.local, h.actual)
	}
	if errors.Is(err, sashredis.ErrUnavailable) && !a.mayBeOpen() {
		a.fails("%s: %v after %d failures of the store in a row", a, err, a.inARow)
	}
	if err == nil && h.sends() && !h.ran {
		a.fails("%s: it is settled, and nothing was sent", a)
	}
	if unsent && !h.ran {
		h.busy = false // it may be settled again
	}
}

// reset forgets a key, and then takes of it.
func (p *program) reset(q caller, r *rand.Rand) {
	name := p.name(r)
	ctx, cancel := p.context(q.process, r, false)
	a := q.begins("Reset", []string{name}, 0, false, false)
	p.background(a, func() {
		defer cancel()
		q.mayForget(name)
		err := q.Reset(context.WithValue(a.own(ctx), resetting{}, a), name)
		q.forgetsHere(a) // if nothing was sent
		a.hasReset(ctx, err)
		a := q.begins("Take", []string{name}, 1, true, false)
		p.guarded(a, func() { a.checks(ctx, q.Take(ctx, name, 1)) })
	})
}

// hasReset checks how a Reset has ended.
func (a *asked) hasReset(ctx context.Context, err error) {
	a.intime(ctx, 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notes("%s -> %v", a, err)
	if (a.wrong != nil) != errors.Is(err, sash.ErrInvalidLimit) {
		a.fails("%s -> %v", a, err)
	}
	if err == nil && !a.unlimited && a.key(a.keys[0]).less <= a.seq {
		a.fails("%s: it has forgotten nothing", a)
	}
}

// mayForget notes that a Reset of a key is about to run in q.
func (q *process) mayForget(name string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.resets[name] = turn{math.MaxInt, time.Now()}
}

// forgetsHere lets the shares and the leases of q forget the key of the Reset a, unless that has been
// done. A Reset does so once the functions of the user have not panicked, and before it is sent. A
// lease that has come at the same instant may be newer.
func (q *process) forgetsHere(a *asked) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if a.forgot || a.wrong != nil || a.unlimited {
		return
	}
	a.forgot = true
	q.turns++
	now := turn{q.turns, time.Now()}
	q.shares.Reset(shareOf(a.names[0], a.limits[0]))
	q.resets[a.names[0]] = now
	for _, g := range q.grants {
		if g.by == q && slices.Contains(a.keys, g.key) && g.delivered && !g.dropped && !g.deliveredAt.Equal(now.at) {
			g.dropped, g.droppedAt = true, now
		}
	}
}

func (p *program) stats(q caller, _ *rand.Rand) { _ = q.Stats() }

// closes closes q, which gives its leases back.
func (q *process) closes() {
	began := time.Now()
	err := q.Close()
	if took := time.Since(began); took > 20*q.timeout {
		q.failf("%s.Close takes %v", q.name, took)
	}
	q.notef("%s.Close() -> %v", q.name, err)
}

func (p *program) changeWeather(q caller, r *rand.Rand) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q.weather = newWeather(r, q.timeout)
	p.notes("%s: the weather is %+v", q.name, q.weather)
}

// moveClock moves the clock of the callers, now and then back.
func (p *program) moveClock(_ caller, r *rand.Rand) {
	if p.clock == nil {
		return
	}
	d := time.Duration(r.Int64N(int64(p.scale)))
	if r.IntN(6) == 0 {
		d = -d
		p.back = true
	}
	p.clock.Advance(d)
	p.notef("the clock of the callers moves by %v", d)
}

// changePlan changes the limits of a key.
func (p *program) changePlan(_ caller, r *rand.Rand) {
	p.planMu.Lock()
	defer p.planMu.Unlock()
	name := p.name(r)
	limits := slices.Clone(p.plans[name])
	switch r.IntN(4) {
	case 0:
		limits = p.newLimits(r)
	case 1:
		limits = wrongLimits
	default:
		p.vary(limits, r)
	}
	p.plans[name] = limits
	p.notef("the limits of %q are %v", name, limits)
}

// vary changes the Count of limits, or the Burst of a token bucket, so that a key keeps its counts.
func (p *program) vary(limits []sash.Limit, r *rand.Rand) {
	for i, l := range limits {
		switch {
		case l == sash.Unlimited() || l.Count <= 0:
		case l.Algorithm == sash.TokenBucket:
			limits[i].Burst = 1 + r.Int64N(2*l.Count)
		default:
			limits[i].Count = 1 + r.Int64N(min(2*l.Count, 1<<51-1))
		}
	}
}

// beginPanics lets the functions of the user panic for a key, or for none any more.
func (p *program) beginPanics(_ caller, r *rand.Rand) {
	p.planMu.Lock()
	defer p.planMu.Unlock()
	if p.panics = ""; r.IntN(2) == 0 {
		p.panics = p.name(r)
	}
	p.notef("functions of the user panic for %q", p.panics)
}

// forgetAll lets the store forget all keys, as one does that is restarted without persistence.
func (p *program) forgetAll(caller, *rand.Rand) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, key := range sortedKeys(p.keys) {
		p.evicts(key)
	}
	p.notes("the store forgets all")
}

func (p *program) evict(_ caller, r *rand.Rand) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if keys := sortedKeys(p.store.values); len(keys) > 0 {
		key := keys[r.IntN(len(keys))]
		p.evicts(key)
		p.notes("the store forgets %q", key)
	}
}

func (w *world) evicts(key string) {
	delete(w.store.values, key)
	w.seq++
	w.forgets(key)
	k := w.key(key)
	k.less, k.loose = w.seq, k.leased
}

// setClock sets the clock of the store.
func (p *program) setClock(_ caller, r *rand.Rand) {
	if p.clock != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d := time.Duration(r.Int64N(int64(p.scale) * 2))
	if r.IntN(2) == 0 {
		d = -d
		p.back = true
	}
	p.seq++
	for _, k := range p.keys {
		if d > 0 {
			k.less = p.seq
		}
	}
	p.offset += int64(d)
	p.set = true
	p.notes("the clock of the store is set by %v", d)
}

// many charges a key many times, each at an instant of its own, and then gives the first back.
func (p *program) many(q caller, r *rand.Rand) {
	p.calls.Wait()
	name := p.name(r)
	ctx := context.Background()
	a := q.begins("Reserve", []string{name}, 1, true, true)
	ok := p.guarded(a, func() {
		reservation, d := q.Reserve(ctx, name, 1)
		p.reserved(a, reservation, d, a.checks(ctx, d))
	})
	for i := 0; i < 40 && ok && !p.failed(); i++ {
		time.Sleep(time.Duration(1+r.IntN(2000)) * time.Microsecond)
		a := q.begins("Take", []string{name}, 1, true, false)
		ok = p.guarded(a, func() { a.checks(ctx, q.Take(ctx, name, 1)) })
	}
	p.commit(r, "Cancel")
}

// comeAndGo lets the store be away several times, while a process goes on to take.
func (p *program) comeAndGo(q caller, r *rand.Rand) {
	name, ctx := p.name(r), context.Background()
	for range 2 + r.IntN(4) {
		for _, away := range []bool{true, false} {
			q.mu.Lock()
			q.weather = weather{latency: min(time.Millisecond, q.timeout/4), down: away, refuses: true}
			q.mu.Unlock()
			calls := 1 + r.IntN(2)
			if away {
				calls += q.failures + 2
			}
			for range calls {
				a := q.begins("Take", []string{name}, 1, true, false)
				if !p.guarded(a, func() { a.checks(ctx, q.Take(ctx, name, 1)) }) || p.failed() {
					return
				}
			}
			time.Sleep(q.pause)
		}
	}
}

// reserved notes that the reservation of a, which s has decided, is to be settled if it is admitted.
func (p *program) reserved(a *asked, reservation sashredis.Reservation, d sashredis.Decision, s *slot) {
	if !d.Allowed || a.unlimited {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds(a, reservation, s)
}

// holds notes that the reservation of a, which is admitted, is to be settled. The world must be locked.
func (p *program) holds(a *asked, reservation sashredis.Reservation, s *slot) {
	h := a.holding(s)
	h.Reservation = reservation
	p.held = append(p.held, h)
}

// holding returns what a holds by s, or by the fallback if s is nil.
func (a *asked) holding(s *slot) *held {
	h := &held{by: a.process, n: a.n, limits: a.limits[0], local: a.local, ofStore: s != nil, key: a.keys[0]}
	if s != nil {
		h.exact, h.used = s.exact, s.used
		if len(s.reserved) > 0 {
			h.reserved = s.reserved[0]
		}
	}
	return h
}

// abandons returns what a holds, a WaitReserve that has ended before it was admitted; nil: it is not admitted.
func (a *asked) abandons() *held {
	s := a.reserved()
	if s == nil {
		return nil
	}
	h := a.holding(s)
	h.busy = true
	return h
}

// totals checks what q counts against what the model has counted.
func (q *process) totals() {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.Stats()
	for by, got := range []int64{s.Store, s.Mirror, s.Lease, s.Fallback} {
		if n := q.decided[by]; got < n || got > n+int64(q.unknown) && !q.waits { // which ask as often as they must
			q.fails("%s counts %d calls decided by the %v; %d were, and perhaps some of %d more", q.name, got, sashredis.By(by), n, q.unknown)
		}
	}
	timed := int64(0)
	for _, n := range s.Times {
		timed += n
	}
	if timed != s.RoundTrips || s.Open && !q.mayBeOpen() {
		q.fails("%s has times of %d round trips of %d, and its breaker is open: %v", q.name, timed, s.RoundTrips, s.Open)
	}
	if q.hooked != nil && q.hooked.Load() != q.trips*(1<<32+1) {
		q.fails("%s has let its hook know of %#x of %#x round trips", q.name, q.hooked.Load(), q.trips)
	}
	if s.RoundTrips != q.trips {
		q.fails("%s counts %d round trips, and %d were", q.name, s.RoundTrips, q.trips)
	}
	if s.Leased != q.leased {
		q.fails("%s counts %d units leased, and %d were", q.name, s.Leased, q.leased)
	}
}

// audit checks that all that is charged is known to a call: one that was admitted, or one that
// has failed and may have been, and that alone.
func (w *world) audit() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, g := range w.guesses {
		g.follows()
	}
	for _, s := range w.slots {
		if !s.admitted || !s.charge || s.n <= 0 || s.claimed || s.repeated {
			continue
		}
		i := slices.IndexFunc(w.unsure, func(a *asked) bool { return a.is(s) })
		if i < 0 {
			w.fails("%d units of %q are charged at %d, for %s, by no call", s.n, s.keys, s.at, s.by.name)
			return
		}
		w.unsure = slices.Delete(w.unsure, i, i+1)
	}
}
