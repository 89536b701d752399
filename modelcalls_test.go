package sash

import (
	"bytes"
	"math"
	"slices"
	"testing/synctest"
	"time"

	"github.com/seed-30da4c49/sash/internal/reference"
)

// A modelCall is a call that programs make, or another step.
type modelCall struct {
	name    string // of the method, or of what else it does
	weight  int    // how often it is drawn
	allowed func(m *model) bool
	run     func(m *model)
}

// modelCalls are all calls.
var modelCalls []modelCall

func init() { // the calls refer to each other
	modelCalls = []modelCall{
		{"Limiter.Take", 12, nil, func(m *model) { m.take("Take", m.l.Take) }},
		{"Limiter.TakeBytes", 3, nil, func(m *model) { m.take("TakeBytes", m.takeBytes) }},
		{"Limiter.Allow", 3, nil, func(m *model) { m.allow("Allow", 1, func(key string, _ int64) bool { return m.l.Allow(key) }) }},
		{"Limiter.AllowN", 4, nil, func(m *model) { m.allow("AllowN", 0, m.l.AllowN) }},
		{"Limiter.AllowBytes", 2, nil, func(m *model) { m.allow("AllowBytes", 1, m.allowBytes) }},
		{"Limiter.TakeThenPeek", 4, nil, (*model).takeThenPeek},
		{"Limiter.Peek", 4, nil, (*model).peek},
		{"Limiter.TakeLeaving", 6, nil, (*model).takeLeaving},
		{"Limiter.TakeUpTo", 6, nil, (*model).takeUpTo},
		{"Limiter.TakeAll", 6, nil, (*model).takeAll},
		{"Limiter.PeekAll", 3, nil, (*model).peekAll},
		{"Limiter.Reserve", 6, nil, (*model).reserve},
		{"Limiter.ReserveAll", 3, nil, (*model).reserveAll},
		{"Limiter.ReserveLeaving", 3, nil, (*model).reserveLeaving},
		{"Reservation.Commit", 8, (*model).settles, (*model).commit},
		{"Reservation.Cancel", 2, (*model).settles, func(m *model) {
			m.settleOne(func(r *modelReservation) { m.settleTo(r, 0, r.ours.Cancel) })
		}},
		{"Reservation.Release", 4, (*model).settles, func(m *model) {
			m.settleOne(func(r *modelReservation) { m.settleTo(r, r.n, r.ours.Release) })
		}},
		{"many reservations", 2, (*model).settles, (*model).reserveMany},
		{"Limiter.Reset", 3, nil, (*model).reset},
		{"Limiter.Sweep", 3, func(m *model) bool { return !m.late }, (*model).sweep},
		{"Limiter.SetLimits", 3, nil, (*model).changeKey},
		{"Limiter.Reconfigure", 2, nil, (*model).reconfigure},
		{"Limiter.Snapshot", 2, (*model).settles, (*model).snapshot},
		{"Limiter.Restore", 2, (*model).settles, (*model).restore},
		{"Limiter.Close", 1, nil, func(m *model) { m.isErr("Close", m.l.Close(), nil) }},
		{"Limiter.Limits", 1, nil, (*model).ask},
		{"ManualClock.Advance", 16, nil, (*model).advance},
		{"ManualClock.Set", 4, func(m *model) bool { return m.late }, (*model).setClock},
		{"Limiter.Wait", 4, (*model).canWait, func(m *model) { m.beginWait("Wait") }},
		{"Limiter.WaitAll", 6, (*model).canWait, func(m *model) { m.beginWait("WaitAll") }},
		{"Limiter.WaitReserve", 3, (*model).canWait, func(m *model) { m.beginWait("WaitReserve") }},
		{"Limiter.WaitLeaving", 4, (*model).canWait, func(m *model) { m.beginWait("WaitLeaving") }},
		{"a caller gives up", 2, (*model).someWait, (*model).giveUp},
	}
}

// modelChecks are the methods that are called after each step, to see the state.
var modelChecks = []string{"Limiter.Stats", "Limiter.Len", "ManualClock.Now", "Limiter.Clock"}

// key draws a key.
func (m *model) key() string { return modelNames()[m.rng.IntN(m.keys())] }

// keys returns the number of keys of the program.
func (m *model) keys() int { return 2 + int(m.result.program.seed%7) }

// someKeys draws keys for a call on several, some of them twice.
func (m *model) someKeys() (keys []string) {
	n := m.rng.IntN(5)
	if m.rng.IntN(10) == 0 {
		n = 9 + m.rng.IntN(4)
	}
	for range n {
		keys = append(keys, m.key())
	}
	return keys
}

// cost draws the cost of a call on the key.
func (m *model) cost(name string) int64 {
	limits := m.limitsOf(name)
	most, left := limits[m.rng.IntN(len(limits))].most(), m.last.Remaining
	switch m.rng.IntN(16) {
	case 0:
		return left
	case 1:
		return plusSaturated(left, 1)
	case 2:
		return left/2 + 1
	case 3, 4:
		return most
	case 5:
		return most/2 + 1
	case 6:
		return most/3 + 1
	case 7:
		return []int64{0, -1, math.MinInt64, math.MaxInt64, plusSaturated(most, 1), 0}[m.rng.IntN(6)]
	}
	return 1 + m.rng.Int64N(3)
}

// distance draws how far time goes on: near the edges of windows, and the ends of waits.
func (m *model) distance() time.Duration {
	limits := m.limitsOf(m.key())
	l := limits[m.rng.IntN(len(limits))]
	if l == Unlimited() {
		return 1
	}
	d := []time.Duration{1, l.Window, l.Window / 2, l.Window / 3, 2 * l.Window, l.Window / 16, l.Precision,
		m.last.RetryAfter, m.last.ResetAfter, time.Duration(m.rng.Int64N(int64(l.Window)))}[m.rng.IntN(10)]
	if rest := l.Window - time.Duration(uint64(m.now())%uint64(l.Window)); m.rng.IntN(4) == 0 && m.now() >= 0 {
		d = rest
	}
	if m.rng.IntN(3) == 0 {
		d += time.Duration(m.rng.IntN(3) - 1)
	}
	const longest = 5 * 365 * 24 * time.Hour
	return min(max(d, 0), longest)
}

func (m *model) take(call string, take func(string, int64) Decision) {
	name := m.key()
	n := m.cost(name)
	p := m.place([]string{name}, false)
	got := take(name, n)
	m.taken(call, got, p, n)
}

// taken checks the answer to a call that charges.
func (m *model) taken(call string, got Decision, p placing, n int64) {
	v := m.charge(p, n)
	m.same(call, got, v, p, n)
	m.afterCharge(p, n, got)
}

// charge has the reference decide a call, and charge it.
func (m *model) charge(p placing, n int64) reference.Verdict {
	if len(p.refused) > 0 {
		return m.table.Leaving(p.leave).Foresee(m.now(), 0, p.names...)
	}
	return m.table.Leaving(p.leave).Decide(m.now(), n, p.names...)
}

func (m *model) takeLeaving() {
	name := m.key()
	n, leave := m.cost(name), m.cost(name)
	p := m.place([]string{name}, false)
	p.leave = leave
	got := m.l.TakeLeaving(name, n, leave)
	if got.Allowed && got.Remaining < leave {
		m.fail("TakeLeaving(%s, %d, %d) has left %d", modelName(name), n, leave, got.Remaining)
	}
	m.taken("TakeLeaving", got, p, n)
}

// takeUpTo checks that as many units are taken as there are: one more would be denied.
func (m *model) takeUpTo() {
	name := m.key()
	most := m.cost(name)
	p := m.place([]string{name}, false)
	taken, got := m.l.TakeUpTo(name, most)
	m.did("TakeUpTo(%s, %d) takes %d", modelName(name), most, taken)
	n := taken
	switch {
	case most <= 0:
		n = most
	case taken == 0:
		n = 1
	}
	if taken < 0 || taken > max(most, 0) || got.Allowed != (taken > 0) && most > 0 {
		m.fail("TakeUpTo(%s, %d) takes %d", modelName(name), most, taken)
	}
	if taken < most && taken > 0 && (len(p.refused) > 0 || m.table.Foresee(m.now(), taken+1, p.names...).Allowed) {
		m.fail("TakeUpTo(%s, %d) takes %d, and there are more", modelName(name), most, taken)
	}
	m.taken("TakeUpTo", got, p, n)
}

func (m *model) afterCharge(p placing, n int64, got Decision) {
	m.charged(p, n, got.Allowed)
	if m.observed && n != 0 {
		for _, name := range p.keys {
			m.told = append(m.told, observation{name, n, got})
		}
		m.orderTold()
	}
	m.sync(p.keys)
}

// orderTold sorts what the observer has seen of the keys of one call, whose order is not defined.
func (m *model) orderTold() {
	if len(m.told) > 1 && len(m.seen) == len(m.told) {
		for i, o := range m.seen {
			if !slices.Contains(m.told, o) || slices.Contains(m.seen[:i], o) {
				return
			}
		}
		m.seen = slices.Clone(m.told)
	}
}

// takeBytes calls TakeBytes with a slice that is overwritten then.
func (m *model) takeBytes(name string, n int64) Decision {
	key := []byte(name)
	d := m.l.TakeBytes(key, n)
	clear(key)
	return d
}

func (m *model) allowBytes(name string, _ int64) bool {
	key := []byte(name)
	defer clear(key)
	return m.l.AllowBytes(key)
}

// allow makes a call that only returns whether n units are admitted, or those that are drawn if n
// is 0.
func (m *model) allow(call string, n int64, allow func(string, int64) bool) {
	name := m.key()
	if n == 0 {
		n = m.cost(name)
	}
	p := m.place([]string{name}, false)
	got := allow(name, n)
	m.did("%s(%s, %d) at %d is %v", call, modelName(name), n, m.now(), got)
	v := m.charge(p, n)
	if want := v.Allowed && (len(p.refused) == 0 || n == 0); got != want {
		m.fail("%s(%s, %d) is %v", call, modelName(name), n, got)
	}
	m.charged(p, n, got)
	if m.observed && n != 0 && len(m.seen) == 1 { // what the decision was is seen by others
		m.told = append(m.told, observation{name, n, m.seen[0].d})
		if m.seen[0].d.Allowed != got {
			m.fail("the observer has seen %+v", m.seen[0].d)
		}
	}
	m.sync(p.keys)
}

func (m *model) takeThenPeek() {
	name := m.key()
	n := m.cost(name)
	p := m.place([]string{name}, false)
	got, next := m.l.TakeThenPeek(name, n)
	m.taken("TakeThenPeek", got, p, n)
	more := plusSaturated(got.Remaining, 1)
	p = m.place([]string{name}, false)
	m.same("the Peek after it", next, m.table.Foresee(m.now(), more, p.names...), p, more)
}

func (m *model) peek() {
	name := m.key()
	n := m.cost(name)
	p := m.place([]string{name}, false)
	got := m.l.Peek(name, n)
	m.same("Peek", got, m.consider(p, n), p, n)
	m.sync(p.keys)
}

func (m *model) consider(p placing, n int64) reference.Verdict {
	if len(p.refused) > 0 {
		return m.table.Foresee(m.now(), 0, p.names...)
	}
	return m.table.Consider(m.now(), n, p.names...)
}

// noKeys checks the answer to a call that names no key, and reports whether keys are none.
func (m *model) noKeys(got Decision, keys []string) bool {
	if want := (Decision{Limit: withoutUnlimited(m.limits)[0], RetryAfter: Never}); len(keys) == 0 && got != want {
		m.fail("a call on no key is %+v, want %+v", got, want)
	}
	return len(keys) == 0
}

func (m *model) takeAll() {
	keys := m.someKeys()
	n := m.cost(m.key())
	p := m.place(keys, false)
	got := m.l.TakeAll(keys, n)
	if !m.noKeys(got, keys) {
		m.taken("TakeAll", got, p, n)
	}
}

func (m *model) peekAll() {
	keys := m.someKeys()
	n := m.cost(m.key())
	p := m.place(keys, false)
	if got := m.l.PeekAll(keys, n); !m.noKeys(got, keys) {
		m.same("PeekAll", got, m.consider(p, n), p, n)
		m.sync(p.keys)
	}
}

// A modelReservation is a reservation of the limiter, and the reference's.
type modelReservation struct {
	ours   Reservation
	theirs reference.Reservation
	key    string
	n      int64
	shared string // the name of the quota that it is of, if its key shared one
	open   bool
}

func (m *model) reserve() {
	name := m.key()
	n := m.cost(name)
	p := m.place([]string{name}, false)
	ours, got := m.l.Reserve(name, n)
	m.reserved("Reserve", []Reservation{ours}, got, []string{name}, p, n)
}

func (m *model) reserveLeaving() {
	name := m.key()
	n, leave := m.cost(name), m.cost(name)
	p := m.place([]string{name}, false)
	p.leave = leave
	ours, got := m.l.ReserveLeaving(name, n, leave)
	m.reserved("ReserveLeaving", []Reservation{ours}, got, []string{name}, p, n)
}

func (m *model) reserveAll() {
	keys := m.someKeys()
	n := m.cost(m.key())
	p := m.place(keys, false)
	ours, got := m.l.ReserveAll(keys, n)
	if m.noKeys(got, keys) {
		return
	}
	var all []Reservation // one for each key
	for i, name := range keys {
		first := slices.Index(keys, name)
		if ours[i] != ours[first] {
			m.fail("a key that is named twice has two reservations")
		}
		if first == i {
			all = append(all, ours[i])
		}
	}
	m.reserved("ReserveAll", all, got, p.keys, p, n)
}

// reserved checks the answer to a call that reserves n units of the keys, each given
// once.
func (m *model) reserved(call string, ours []Reservation, got Decision, keys []string, p placing, n int64) {
	if len(p.refused) > 0 {
		m.taken(call, got, p, n)
		for _, r := range ours {
			if r != (Reservation{}) && n != 0 {
				m.fail("%s was denied, and returned a reservation", call)
			}
			if r != (Reservation{}) { // of nothing
				m.did("  a reservation of nothing, for a key without room")
			}
		}
		return
	}
	theirs, v := m.table.Leaving(p.leave).DecideReserve(m.now(), n, p.names...)
	m.same(call, got, v, p, n)
	m.afterCharge(p, n, got)
	for i, name := range keys {
		m.addReservation(ours[i], theirs[i], name, p.names[i], n)
	}
}

func (m *model) addReservation(ours Reservation, theirs reference.Reservation, name, place string, n int64) {
	if (ours == Reservation{}) != theirs.Equal(reference.Reservation{}) {
		m.fail("the reservation of %s is %v", modelName(name), ours)
	}
	r := &modelReservation{ours: ours, theirs: theirs, key: name, n: n, open: ours != Reservation{}}
	if place != name {
		r.shared = place
	}
	m.reservations = append(m.reservations, r)
}

// settles reports whether the program may give back.
func (m *model) settles() bool { return !m.late }

// settleOne settles one of the reservations, which may be settled already.
func (m *model) settleOne(settle func(r *modelReservation)) {
	if len(m.reservations) == 0 {
		return
	}
	r := m.reservations[m.rng.IntN(len(m.reservations))]
	if m.rng.IntN(3) > 0 {
		r = m.reservations[len(m.reservations)-1]
	}
	settle(r)
}

func (m *model) commit() {
	m.settleOne(func(r *modelReservation) {
		limits := m.limitsOf(r.key)
		count := min(limits[m.rng.IntN(len(limits))].Count, 1<<40)
		actual := []int64{r.n, 0, 1, r.n - 1, r.n + 1, r.n / 2, 2 * min(r.n, 1<<40), count, 3 * count, -1}[m.rng.IntN(10)]
		if m.maxKeys > 0 && len(m.waits) > 0 {
			actual = min(actual, r.n) // it may evict a key that is waited for
		}
		m.settleTo(r, actual, func() { r.ours.Commit(actual) })
	})
}

// settleTo settles r to actual units, by a call.
func (m *model) settleTo(r *modelReservation, actual int64, call func()) {
	m.did("%d units of %s are settled to %d at %d, for the first time: %v", r.n, modelName(r.key), actual, m.now(), r.open)
	p := m.place([]string{r.key}, false)
	call()
	above := max(actual, 0) - r.n
	if r.open && above > 0 && r.shared != "" && p.shared {
		m.table.Spend(m.now(), above, p.names[0])
	} else if r.open {
		if r.shared != "" {
			m.table.Spend(m.now(), max(above, 0), r.key)
		} else {
			m.table.Settle(m.now(), r.theirs, actual)
		}
		if above > 0 && m.spends(r.key) {
			m.track(r.key)
		}
	}
	r.open = false
	synctest.Wait() // calls that wait may go on
	m.settle()
	m.sync([]string{r.key})
	p = m.place([]string{r.key}, false)
	m.same("Peek", m.l.Peek(r.key, 0), m.consider(p, 0), p, 0)
	m.sync([]string{r.key})
}

// reserveMany reserves many times from one key, while time passes, and settles all of them to less.
func (m *model) reserveMany() {
	name, first := m.key(), len(m.reservations)
	l := m.limitsOf(name)[0]
	if m.maxKeys > 0 || len(m.waits) > 0 || l.most() < 70 || m.rng.IntN(4) > 0 {
		return
	}
	n := 1 + m.rng.Int64N(max(1, l.most()/100))
	between := l.Window / time.Duration(max(1, l.Count/n)) / time.Duration(1+m.rng.IntN(4))
	for range 66 + m.rng.IntN(60) {
		ours, got := m.l.Reserve(name, n)
		theirs, v := m.table.DecideReserve(m.now(), n, name)
		if got.Allowed != v.Allowed {
			m.fail("Reserve(%s, %d) at %d is %+v", modelName(name), n, m.now(), got)
		}
		m.afterCharge(placing{keys: []string{name}, names: []string{name}}, n, got)
		m.addReservation(ours, theirs[0], name, name, n)
		m.pass(between)
		m.sync(nil)
	}
	m.did("and many more reservations of %d units, each %v later", n, between)
	all := slices.Clone(m.reservations[first:])
	m.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, r := range all[min(m.rng.IntN(2*len(all)), len(all))/2:] {
		actual := m.rng.Int64N(r.n + 1)
		r.ours.Commit(actual)
		if r.open {
			m.table.Settle(m.now(), r.theirs, actual)
		}
		r.open = false
	}
	m.did("many of them are settled to less")
	m.last = m.l.Peek(name, 0)
	p := m.place([]string{name}, false)
	m.same("Peek", m.last, m.consider(p, 0), p, 0)
}

func (m *model) reset() {
	name := m.key()
	m.did("Reset(%s) at %d", modelName(name), m.now())
	if got := m.l.Reset(name); got != m.tracked[name] {
		m.fail("Reset(%s) is %v", modelName(name), got)
	}
	m.forget(name)
}

// sweep checks that a sweep evicts exactly the idle keys that no call waits for.
func (m *model) sweep() {
	want := 0
	for name := range m.tracked {
		if !m.isWaitedFor(name) && m.table.Idle(m.now(), name) {
			want++
		}
	}
	m.did("Sweep() at %d", m.now())
	if got := m.l.Sweep(); got != want {
		m.fail("Sweep() is %d, want %d", got, want)
	}
	m.stats.Sweeps++
}

func (m *model) changeKey() {
	name := m.key()
	var limits []Limit
	switch {
	case m.rng.IntN(12) == 0:
		limits = []Limit{{Count: 1, Window: -1}}
	case m.rng.IntN(6) == 0:
		limits = []Limit{Unlimited()}
	case !m.tracked[name] && m.rng.IntN(2) == 0:
		limits = m.drawn().someLimits(1 + m.rng.IntN(2))
	case m.rng.IntN(4) > 0:
		limits = m.retuned(m.rng, m.limitsOf(name))
	case m.tracked[name]:
		if m.own[name] && !m.isSame(name) {
			return // it is not known how charges migrate from these to those
		}
	}
	err := m.l.SetLimits(name, limits...)
	m.did("SetLimits(%s, %v) at %d", modelName(name), limits, m.now())
	if validate(limits) != nil || limits == nil && validate(m.plans[name]) != nil {
		m.isErr("SetLimits", err, ErrInvalidLimit)
		return
	}
	m.isErr("SetLimits", err, nil)
	if !m.tracked[name] {
		m.table.Reset(name) // it may be idle, but not under the new limits
	}
	m.setLimits(name, limits)
	if unlimited := m.limitsOf(name); withoutUnlimited(unlimited)[0] == Unlimited() {
		delete(m.tracked, name)
	}
}

// isSame reports whether the limits that a key has by SetLimits differ in Count and Burst alone
// from those that it has without.
func (m *model) isSame(name string) bool {
	without := m.plans[name]
	if without == nil {
		without = m.limits
	}
	return slices.EqualFunc(m.limitsOf(name), without, Limit.equalButAmounts)
}

// drawn returns a config that draws from the numbers of the step.
func (m *model) drawn() *modelConfig {
	c := *m.modelConfig
	c.rng = m.rng
	return &c
}

func (m *model) reconfigure() {
	limits := m.retuned(m.rng, m.limits)
	switch {
	case m.rng.IntN(10) == 0:
		m.isErr("Reconfigure", m.l.Reconfigure(), ErrNoLimit)
		return
	case m.rng.IntN(10) == 0:
		m.isErr("Reconfigure", m.l.Reconfigure(append(limits, Limit{})...), ErrInvalidLimit)
		return
	}
	m.did("Reconfigure(%v) at %d", limits, m.now())
	m.isErr("Reconfigure", m.l.Reconfigure(limits...), nil)
	m.limits = limits
	m.table.ReconfigureAt(m.now(), m.models(limits))
}

// A modelSnapshot is the bytes of a snapshot, and what they are of.
type modelSnapshot struct {
	bytes   []byte
	limits  []Limit
	table   *reference.Table
	tracked []string
	own     map[string]bool
	at      int64
	wall    time.Time
}

func (m *model) snapshot() {
	var b bytes.Buffer
	m.isErr("Snapshot", m.l.Snapshot(&b), nil)
	m.did("Snapshot() at %d", m.now())
	s := &modelSnapshot{bytes: b.Bytes(), limits: m.limits, table: reference.NewTable(m.models(m.limits)), own: map[string]bool{}, at: m.now(), wall: time.Now()}
	for _, name := range modelNames() {
		if s.own[name] = m.own[name]; m.own[name] || m.tracked[name] {
			m.table.Save(name, s.table)
		}
		if m.tracked[name] {
			s.tracked = append(s.tracked, name)
		}
	}
	m.saved = append(m.saved, s)
}

func (m *model) restore() {
	if len(m.saved) == 0 {
		return
	}
	s := m.saved[m.rng.IntN(len(m.saved))]
	saved := s.bytes
	switch m.rng.IntN(6) {
	case 0:
		saved = saved[:m.rng.IntN(len(saved))]
	case 1:
		saved = slices.Clone(saved)
		saved[m.rng.IntN(len(saved))] ^= 1 << m.rng.IntN(8)
	}
	err := m.l.Restore(bytes.NewReader(saved))
	m.did("Restore() at %d of the snapshot made at %d, whole: %v", m.now(), s.at, bytes.Equal(saved, s.bytes))
	if !bytes.Equal(saved, s.bytes) || !slices.Equal(withoutUnlimited(s.limits), withoutUnlimited(m.limits)) {
		m.isErr("Restore", err, ErrBadSnapshot)
		return
	}
	m.isErr("Restore", err, nil)
	m.shift = s.at + int64(time.Since(s.wall)) - m.clock.Now()
	m.table.Restore(s.table)
	m.tracked, m.order = map[string]bool{}, map[string]int{}
	for _, name := range s.tracked {
		m.tracked[name] = true
	}
	for _, name := range modelNames() {
		m.own[name] = s.own[name]
		if plan, own := m.overrides(name); own && !m.own[name] {
			m.table.SetLimitsAt(m.now(), name, m.models(plan))
		}
	}
}

// ask checks what does not change.
func (m *model) ask() {
	if got := m.l.Limits(); !slices.Equal(got, withoutUnlimited(m.limits)) {
		m.fail("Limits() is %v", got)
	}
	if m.l.Clock() != m.clock {
		m.fail("Clock() is %v", m.l.Clock())
	}
}

func (m *model) advance() { m.pass(m.distance()) }

// pass lets time pass. Where the clock is a ManualClock, the bubble's may go on as well.
func (m *model) pass(d time.Duration) {
	const last = math.MaxInt64 - int64(5*365*24*time.Hour)
	if m.now() > last || m.clock.Now() > last {
		return
	}
	switch {
	case m.bubbleClock:
		time.Sleep(m.atMost(d)) // of the bubble
	case m.rng.IntN(8) == 0:
		m.manual.Set(m.clock.Now() + int64(d))
	default:
		m.manual.Advance(d)
	}
	if !m.bubbleClock && m.rng.IntN(8) == 0 {
		time.Sleep(m.atMost(m.distance()))
	}
	synctest.Wait()
}

// atMost returns d, or less if the janitor would sweep too often in the meantime.
func (m *model) atMost(d time.Duration) time.Duration {
	if m.interval < 0 {
		return d
	}
	return min(d, 20*m.l.current.Load().sweepInterval())
}

// setClock sets the clock back.
func (m *model) setClock() {
	at := plusSaturated(m.clock.Now(), -int64(m.distance()))
	m.manual.Set(at)
	m.did("the clock is set to %d", at)
}
