package sash

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed-30da4c49/sash/internal/reference"
)

// A crowdClock is the clock of the bubble. Its readings let other callers run.
type crowdClock struct{}

func (crowdClock) Now() int64 {
	now := bubbleTime{}.Now()
	letOthersRun()
	return now
}

// letOthersRun lets other callers make some steps, half of the time.
func letOthersRun() {
	for range max(0, rand.IntN(8)-3) {
		runtime.Gosched()
	}
}

// A crowdCaller makes the calls of one goroutine in a phase. It shares nothing with the other
// callers but the limiter.
type crowdCaller struct {
	*modelCrowd
	rng    *rand.Rand
	number int
	keys   []int
	choice []int // of crowdCalls
	calls  []int // how often it made each of crowdCalls

	charged [crowdKeys]int64    // but for reservations
	charges []crowdCharge       // that were reserved
	open    []*crowdReservation // to be settled
	settled []*crowdReservation
	denied  []crowdCharge // what was not charged
	waits   []*crowdWait  // for which it may give up
	begun   []*crowdWait

	least, most [crowdKeys]int64 // what answers say that is left
	snapshot    []byte
	history     []crowdStep
}

// A crowdCharge is n units of each of some keys.
type crowdCharge struct {
	keys  []int
	n     int64
	leave int64               // units that the call must leave
	made  []*crowdReservation // nil for none
}

// A crowdReservation is a reservation, and what it is to be settled to.
type crowdReservation struct {
	key       int
	n, actual int64
	ours      Reservation
	theirs    reference.Reservation
}

// A crowdStep is a call, for a reader.
type crowdStep struct {
	call    string
	keys    []int
	n       int64
	allowed bool
}

func (c *crowdCaller) steps() (steps []string) {
	for _, s := range c.history {
		steps = append(steps, fmt.Sprintf("  caller %d: %s(%v, %d) %v", c.number, s.call, s.keys, s.n, s.allowed))
	}
	return steps
}

// crowdCalls are the calls that callers draw. Each of the first three may be the only one.
var crowdCalls []crowdCall

type crowdCall struct {
	name   string
	weight int
	when   func(m *modelCrowd) bool // nil: always
	run    func(c *crowdCaller)
}

func init() { // the calls refer to each other
	changing := func(m *modelCrowd) bool { return m.raise > 0 }
	forgetting := func(m *modelCrowd) bool { return m.forgets }
	crowdCalls = []crowdCall{
		{"Limiter.AllowN", 4, nil, func(c *crowdCaller) { c.allow(c.l.AllowN) }},
		{"Limiter.Take", 4, nil, func(c *crowdCaller) { c.take(c.l.Take) }},
		{"Limiter.Reserve", 3, nil, (*crowdCaller).reserve},
		{"Limiter.AllowBytes", 2, nil, (*crowdCaller).allowBytes},
		{"Limiter.TakeThenPeek", 2, nil, func(c *crowdCaller) { c.take(c.takeThenPeek) }},
		{"Limiter.TakeLeaving", 3, nil, (*crowdCaller).takeLeaving},
		{"Limiter.TakeUpTo", 3, nil, (*crowdCaller).takeUpTo},
		{"Limiter.TakeAll", 4, nil, (*crowdCaller).takeAll},
		{"Limiter.Peek", 2, nil, (*crowdCaller).peek},
		{"Limiter.PeekAll", 1, nil, func(c *crowdCaller) { c.l.PeekAll(c.namesOf(c.some()), c.cost()) }},
		{"Limiter.ReserveAll", 2, nil, (*crowdCaller).reserveAll},
		{"Limiter.ReserveLeaving", 2, nil, (*crowdCaller).reserveLeaving},
		{"Reservation.Commit", 6, nil, (*crowdCaller).settle},
		{"Limiter.Wait", 1, nil, func(c *crowdCaller) { c.wait("Wait") }},
		{"Limiter.WaitAll", 1, nil, func(c *crowdCaller) { c.wait("WaitAll") }},
		{"Limiter.WaitLeaving", 1, nil, func(c *crowdCaller) { c.wait("WaitLeaving") }},
		{"Limiter.WaitReserve", 1, nil, func(c *crowdCaller) { c.wait("WaitReserve") }},
		{"a caller gives up", 1, func(m *modelCrowd) bool { return len(m.waits) > 0 }, (*crowdCaller).giveUpOne},
		{"Limiter.Sweep", 2, nil, func(c *crowdCaller) { c.l.Sweep() }},
		{"Limiter.Snapshot", 1, nil, (*crowdCaller).save},
		{"Limiter.Len", 1, nil, func(c *crowdCaller) { c.l.Len() }},
		{"Limiter.Reconfigure", 3, changing, (*crowdCaller).reconfigure},
		{"Limiter.SetLimits", 3, changing, (*crowdCaller).setLimits},
		{"another WithLimitsFor", 2, changing, (*crowdCaller).replace},
		{"Limiter.Reset", 2, forgetting, (*crowdCaller).reset},
		{"Limiter.Restore", 1, forgetting, (*crowdCaller).restore},
	}
}

// run makes the calls. Then it settles what is still to be settled, but for a part of what it has
// reserved itself.
func (c *crowdCaller) run() {
	for range 10 + c.rng.IntN(30) {
		call := c.choice[c.rng.IntN(len(c.choice))]
		c.calls[call]++
		crowdCalls[call].run(c)
	}
	later := c.rng.IntN(4)
	if c.forgets {
		later = 0
	}
	for len(c.open) > later {
		c.settle()
	}
}

// key draws a key, and some draws several.
func (c *crowdCaller) key() int { return c.keys[c.rng.IntN(len(c.keys))] }

func (c *crowdCaller) some() []int {
	keys := slices.Clone(c.keys)
	c.rng.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return keys[:1+c.rng.IntN(len(keys))]
}

// cost draws the units of a call. Most of them are few, so that many calls are admitted.
func (c *crowdCaller) cost() int64 {
	if c.rng.IntN(8) == 0 {
		return max(1, c.limits[0].most()/4)
	}
	return 1 + c.rng.Int64N(3)
}

// allowed notes the result of a call.
func (c *crowdCaller) allowed(call string, keys []int, n int64, allowed bool, made ...*crowdReservation) {
	charge := crowdCharge{keys: keys, n: n, made: made}
	c.history = append(c.history, crowdStep{call, keys, n, allowed})
	switch {
	case !allowed:
		c.denied = append(c.denied, charge)
	case made != nil:
		c.charges, c.open = append(c.charges, charge), append(c.open, made...)
	default:
		for _, k := range keys {
			c.charged[k] += n
		}
	}
}

// left notes how many units an answer says are left.
func (c *crowdCaller) left(k int, left int64) {
	c.least[k], c.most[k] = min(c.least[k], left), max(c.most[k], left)
}

func (c *crowdCaller) allow(call func(key string, n int64) bool) {
	k, n := c.key(), c.cost()
	c.allowed("AllowN", []int{k}, n, call(c.names[k], n))
}

func (c *crowdCaller) allowBytes() {
	k := c.key()
	c.allowed("AllowBytes", []int{k}, 1, c.l.AllowBytes([]byte(c.names[k])))
}

func (c *crowdCaller) take(call func(key string, n int64) Decision) {
	k, n := c.key(), c.cost()
	d := call(c.names[k], n)
	c.allowed("Take", []int{k}, n, d.Allowed)
	c.left(k, d.Remaining)
}

func (c *crowdCaller) takeThenPeek(key string, n int64) Decision {
	d, _ := c.l.TakeThenPeek(key, n)
	return d
}

func (c *crowdCaller) takeLeaving() {
	k, n, leave := c.key(), c.cost(), c.cost()
	d := c.l.TakeLeaving(c.names[k], n, leave)
	c.leaving("TakeLeaving", k, n, leave, d)
}

func (c *crowdCaller) reserveLeaving() {
	k, n, leave := c.key(), c.cost(), c.cost()
	ours, d := c.l.ReserveLeaving(c.names[k], n, leave)
	c.leaving("ReserveLeaving", k, n, leave, d, c.reservation(c.rng, k, n, ours))
}

// leaving notes the decision of a call that leaves units.
func (c *crowdCaller) leaving(call string, k int, n, leave int64, d Decision, made ...*crowdReservation) {
	if d.Allowed && d.Remaining < leave {
		panic(fmt.Sprintf("%s has left %d, and not %d", call, d.Remaining, leave))
	}
	if !d.Allowed {
		n += leave // as many are not there
	}
	c.allowed(call, []int{k}, n, d.Allowed, made...)
	c.left(k, d.Remaining)
}

func (c *crowdCaller) takeUpTo() {
	k, most := c.key(), c.cost()
	taken, d := c.l.TakeUpTo(c.names[k], most)
	if taken < 0 || taken > most || d.Allowed != (taken > 0) || taken < most && d.Remaining > 0 && d.Allowed {
		panic(fmt.Sprintf("TakeUpTo has taken %d of %d units: %+v", taken, most, d))
	}
	c.allowed("TakeUpTo", []int{k}, max(taken, 1), d.Allowed)
	c.left(k, d.Remaining)
}

func (c *crowdCaller) takeAll() {
	keys, n := c.some(), c.cost()
	c.allowed("TakeAll", keys, n, c.l.TakeAll(c.namesOf(keys), n).Allowed)
}

func (c *crowdCaller) peek() {
	k, n := c.key(), c.rng.Int64N(3)
	d := c.l.Peek(c.names[k], n)
	if d.Allowed {
		d.Remaining += n
	}
	c.left(k, d.Remaining)
}

func (c *crowdCaller) reserve() {
	k, n := c.key(), c.cost()
	ours, d := c.l.Reserve(c.names[k], n)
	c.left(k, d.Remaining)
	c.allowed("Reserve", []int{k}, n, d.Allowed, c.reservation(c.rng, k, n, ours))
}

func (c *crowdCaller) reserveAll() {
	keys, n := c.some(), c.cost()
	all, d := c.l.ReserveAll(c.namesOf(keys), n)
	made := make([]*crowdReservation, len(keys))
	for i, k := range keys {
		made[i] = c.reservation(c.rng, k, n, all[i])
	}
	c.allowed("ReserveAll", keys, n, d.Allowed, made...)
}

// reservation draws what a reservation is to be settled to. More than was reserved may evict
// another key, where there is no room.
func (m *modelCrowd) reservation(rng *rand.Rand, k int, n int64, ours Reservation) *crowdReservation {
	r := &crowdReservation{key: k, n: n, actual: rng.Int64N(n + 1), ours: ours}
	if rng.IntN(4) == 0 && m.maxKeys == 0 && !m.forgets {
		r.actual = n + rng.Int64N(3)
	}
	return r
}

// settle settles one of the open reservations.
func (c *crowdCaller) settle() {
	if len(c.open) == 0 {
		return
	}
	i := c.rng.IntN(len(c.open))
	r := c.open[i]
	c.open = slices.Delete(c.open, i, i+1)
	if r.actual == 0 {
		r.ours.Cancel()
	} else {
		r.ours.Commit(r.actual)
	}
	c.history = append(c.history, crowdStep{"Commit", []int{r.key}, r.actual - r.n, true})
	c.settled = append(c.settled, r)
}

// save writes a snapshot.
func (c *crowdCaller) save() {
	var w bytes.Buffer
	_ = c.l.Snapshot(&w) // a Buffer takes all
	c.snapshot = w.Bytes()
}

// restore reads the caller's last snapshot.
func (c *crowdCaller) restore() {
	if c.snapshot == nil {
		c.save()
	}
	c.forgotten.Add(1) // before: what is admitted since counts
	if err := c.l.Restore(bytes.NewReader(c.snapshot)); err != nil && !errors.Is(err, ErrBadSnapshot) {
		panic(err)
	}
}

func (c *crowdCaller) reset() {
	if c.l.Reset(c.names[c.key()]) {
		c.forgotten.Add(1)
	}
}

func (c *crowdCaller) reconfigure() {
	limits := c.raised(c.rng)
	c.history = append(c.history, crowdStep{fmt.Sprint("Reconfigure to ", limits), nil, 0, true})
	if err := c.l.Reconfigure(limits...); err != nil {
		panic(err)
	}
}

// setLimits changes the limits of the one key that is this caller's to change.
func (c *crowdCaller) setLimits() {
	if c.number >= crowdKeys {
		return
	}
	k := c.number
	var limits []Limit
	if c.rng.IntN(4) > 0 {
		limits = c.raised(c.rng)
	}
	c.history = append(c.history, crowdStep{fmt.Sprint("SetLimits to ", limits), []int{k}, 0, true})
	if err := c.l.SetLimits(c.names[k], limits...); err != nil {
		panic(err)
	}
	c.own[k] = limits
}

// replace changes the limiter's own limits, and whether WithLimitsFor counts.
func (c *crowdCaller) replace() {
	s := &setup{interval: -1}
	if c.plans != nil && c.rng.IntN(2) == 0 {
		s.limitsFor = c.planOf
	}
	limits := c.raised(c.rng)
	c.history = append(c.history, crowdStep{fmt.Sprint("replace by ", limits), nil, 0, s.limitsFor != nil})
	c.l.replace(limits, s, func(publish func() bool) { letOthersRun(); publish() })
}

// A crowdWait is a call that waits.
type crowdWait struct {
	crowdCharge
	call   string
	ctx    context.Context
	cancel func()

	done  atomic.Bool // once it has returned, and what follows is written
	err   error
	ended error // the error of its context then
	at    int64 // the time then
}

func (w *crowdWait) String() string {
	return fmt.Sprintf("%s(%v, %d), leaving %d", w.call, w.keys, w.n, w.leave)
}

// wait begins a call that waits.
func (c *crowdCaller) wait(call string) {
	w := &crowdWait{call: call, crowdCharge: crowdCharge{keys: c.some(), n: c.cost()}}
	if call != "WaitAll" {
		w.keys = w.keys[:1]
	}
	if call == "WaitLeaving" {
		w.leave = c.cost()
	}
	if w.ctx, w.cancel = context.WithCancel(context.Background()); c.rng.IntN(3) == 0 {
		w.cancel()
		w.ctx, w.cancel = context.WithTimeout(context.Background(), c.limits[0].Window*time.Duration(c.rng.IntN(8))/4)
	}
	c.history = append(c.history, crowdStep{call, w.keys, w.n, false})
	c.begun, c.waits = append(c.begun, w), append(c.waits, w)
	rng := rand.New(rand.NewPCG(c.rng.Uint64(), 0))
	go c.modelCrowd.wait(w, rng)
}

// wait makes a call that waits.
func (m *modelCrowd) wait(w *crowdWait, rng *rand.Rand) {
	names := m.namesOf(w.keys)
	switch w.call {
	case "Wait":
		w.err = m.l.Wait(w.ctx, names[0], w.n)
	case "WaitAll":
		w.err = m.l.WaitAll(w.ctx, names, w.n)
	case "WaitLeaving":
		w.err = m.l.WaitLeaving(w.ctx, names[0], w.n, w.leave)
	case "WaitReserve":
		var ours Reservation
		if ours, w.err = m.l.WaitReserve(w.ctx, names[0], w.n); w.err == nil {
			w.made = []*crowdReservation{m.reservation(rng, w.keys[0], w.n, ours)}
		}
	}
	w.at, w.ended = m.now(), w.ctx.Err()
	w.cancel()
	w.done.Store(true)
}

// giveUpOne ends the context of a call that waits, or that has returned by now.
func (c *crowdCaller) giveUpOne() {
	if len(c.waits) > 0 {
		c.waits[c.rng.IntN(len(c.waits))].cancel()
	}
}

// wrongError returns what is wrong with the error of w; "" for nothing.
func (m *modelCrowd) wrongError(w *crowdWait) string {
	_, limited := w.ctx.Deadline()
	most := slices.MinFunc(m.limits, func(a, b Limit) int { return cmp.Compare(a.most(), b.most()) }).most()
	switch {
	case errors.Is(w.err, context.Canceled) && w.ended == nil:
		return "its context has not ended"
	case errors.Is(w.err, context.DeadlineExceeded) && !limited:
		return "its context has no deadline"
	case errors.Is(w.err, ErrExceedsLimit) && w.n+w.leave <= most && (m.maxKeys == 0 || len(w.keys) <= m.maxKeys):
		return "it is not above the limits"
	case errors.Is(w.err, ErrTooManyWaiters) && m.maxWaiters == math.MaxInt:
		return "any number of calls may wait"
	case errors.Is(w.err, context.Canceled), errors.Is(w.err, context.DeadlineExceeded), errors.Is(w.err, ErrExceedsLimit),
		errors.Is(w.err, ErrTooManyWaiters):
		return ""
	}
	return "it is none of a call that waits"
}
