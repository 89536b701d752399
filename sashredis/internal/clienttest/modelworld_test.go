package clienttest

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/reference"
	"github.com/seed-30da4c49/sash/sashredis"
)

// A world is a store, the exact model of what is charged there, and processes that share it.
// The model is told of each script when it runs, at the time of the store. It says what the
// script must answer, and what the calls must that it decides.
type world struct {
	began time.Time

	mu      sync.Mutex // guards the fields below
	store   *scriptStore
	base    int64 // what the store's clock showed when the world began, in nanoseconds
	ppm     int64 // by how much it is faster than the clock of the processes, in parts per million
	offset  int64 // by how much it has been set forward, in nanoseconds
	table   *reference.Table
	limits  map[string][]sash.Limit // by how a script reads them
	seq     int                     // counts what has happened to keys
	turns   int                     // counts what tells the order of events of one instant
	slots   []*slot
	grants  []*grant
	guesses []guess
	unsure  []*asked // calls that may or may not have been charged
	keys    map[string]*keyState
	set     bool // the clock has been set
	back    bool // and it ran back
	fault   string
	log     []string
	verbose bool
}

// A keyState is what is known of a key of the store beside its charges.
type keyState struct {
	name     string
	known    string           // its name to the processes, which does not lie in the memory of a request
	less     int              // the latest event by which it became less than charges tell
	freed    int              // the latest by which nothing but units that are held were given back
	charged  map[*process]int // the latest charge of each process
	unheard  map[*process]int // charges that it has not heard of
	leased   bool             // it was leased
	leaseEnd int64            // the end of the latest lease, in microseconds; 0: none
	inexact  bool             // the reference does not know it exactly: see hasBucket
	gaveBack bool             // units of a token bucket were given back
	loose    bool             // units of a lease may be used once more
	uses     *reference.Table
}

// A slot is one call that a script has decided.
type slot struct {
	seq             int
	by              *process
	keys            []string
	n, leave        int64
	upTo            bool  // it takes what there is, at most n
	taken           int64 // by one that takes what there is
	charge, reserve bool
	of              *asked // the WaitReserve that has sent it by itself; nil: another call, or several
	at              int64
	exact, admitted bool
	verdict         reference.Verdict
	reserved        []reference.Reservation
	used            reference.Reservation // of what is used by itself
	delivered       bool                  // its answer has reached the limiter
	repeated        bool                  // the connection has run the script twice, and this is the first run
	claimed         bool                  // by a call
	presumed        bool                  // by a call that waits, which may have tried once less
}

// A grant is units leased to a process.
type grant struct {
	by        *process
	key       string
	token     string
	end       int64 // microseconds
	until     int64 // of its use, in microseconds
	units     int64
	left      int64 // at least
	maybe     int64 // units more that may be left: who has admitted the calls that took them is a guess
	reserved  reference.Reservation
	delivered bool
	dropped   bool   // by a Reset
	over      bool   // given back, or begun anew
	limits    string // under which it was granted, as a script reads them
	exceeded  bool   // since it was granted, its key was charged past these: by a reservation, or under other limits

	deliveredAt time.Time
	droppedAt   turn
}

// A turn tells when an event was. Of two of one instant, the one of the larger number was noted later.
type turn struct {
	number int
	at     time.Time
}

// A request is a script on its way.
type request struct {
	by         *process
	waits      *asked // the WaitReserve that it is of; nil: of none
	settles    *held  // the reservation that it settles; nil: none that the model holds
	script     *sashredis.Script
	keys, args []string
	// Set once it has run.
	slots   []*slot
	grant   *grant
	settled bool // it gives back, and charges nothing
	spends  bool // it charges what was spent past a reservation
	reset   bool
	seq     int
	at      int64
}

func (w *world) failf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails(format, args...)
}

// fails is failf with mu held. The first fault counts.
func (w *world) fails(format string, args ...any) {
	if w.fault == "" {
		w.fault = fmt.Sprintf(format, args...)
		w.notes("FAULT: %s", w.fault)
	}
}

func (w *world) notef(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes(format, args...)
}

func (w *world) notes(format string, args ...any) {
	if !w.verbose {
		return
	}
	w.log = append(w.log, fmt.Sprintf("%12v  ", time.Since(w.began))+fmt.Sprintf(format, args...))
}

func (w *world) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault != ""
}

// now returns the time of the store in microseconds. w must be locked.
func (w *world) now() int64 {
	elapsed := int64(time.Since(w.began))
	return (w.base + elapsed + elapsed/1000*w.ppm/1000 + w.offset) / 1000
}

func (w *world) key(name string) *keyState {
	k := w.keys[name]
	if k == nil {
		k = &keyState{name: name, charged: map[*process]int{}, unheard: map[*process]int{}}
		w.keys[name] = k
	}
	return k
}

// charges notes a charge by p.
func (k *keyState) charges(p *process, seq int) {
	if k.charged[p] < seq {
		k.charged[p] = seq
		k.unheard[p]++
	}
}

// heardOfAll reports whether p knows of all that is charged. What it has charged itself it knows
// of, once that is answered.
func (k *keyState) heardOfAll(p *process) bool {
	for by, seq := range k.charged {
		if by != p && seq > p.known[k.name].seq {
			return false
		}
	}
	return k.unheard[p] == 0
}

// scriptKind returns what a script does, as its first comments say.
func scriptKind(s *sashredis.Script) string {
	for kind, text := range map[string]string{
		"take": "-- Decides calls on keys", "settle": "-- Settles units that were charged",
		"reset": "-- Forgets a key", "ping": "-- Returns the time, and reads no key",
	} {
		if strings.Contains(s.Text(), text) {
			return kind
		}
	}
	return ""
}

// run runs r in the store, and tells the model of it.
func (w *world) run(r *request) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store.now = w.now()
	reply, err := w.store.run(r.script, r.keys, r.args)
	w.notes("  %s: %s %q %q -> %q %v", r.by.name, scriptKind(r.script), r.keys, r.args, reply, err)
	if err != nil {
		w.fails("a script fails: %v", err)
		return reply, err
	}
	at := w.store.now
	if r.args[0] != "" {
		at, _ = strconv.ParseInt(r.args[0], 10, 64)
	}
	for _, key := range w.store.expired {
		if !w.table.Idle(at*1000, key) && !w.key(key).inexact {
			w.fails("key %q has expired although it is in use", key)
		}
		if w.key(key).leased && w.set {
			w.key(key).loose = true
		}
		w.forgets(key)
	}
	w.seq++
	r.seq, r.at = w.seq, at
	switch kind := scriptKind(r.script); kind {
	case "take":
		w.took(r, at, strings.Split(reply, "|"))
	case "settle":
		w.settled(r, at)
	case "reset":
		r.reset = true
		w.forgets(r.keys[0])
		w.key(r.keys[0]).loose = w.key(r.keys[0]).leased
		w.becomesLess(r.keys[0], r)
	case "ping":
	default:
		w.fails("the model does not know the script %q", r.script.Text()[:200])
	}
	return reply, nil
}

// forgets forgets a key. Units that are leased may be used once more.
func (w *world) forgets(key string) {
	w.table.Reset(key)
	k := w.key(key)
	k.inexact, k.leaseEnd = false, 0
	if k.uses != nil {
		k.uses.Reset(key)
	}
}

// becomesLess notes that r has made a key less.
func (w *world) becomesLess(key string, r *request) { w.key(key).less = r.seq }

// knows lets the model have the limits under which a script is to decide.
func (w *world) knows(key, text string, at int64) bool {
	limits, ok := w.limits[text]
	if !ok {
		w.fails("a script is to decide by %q, the limits of no key", text)
		return false
	}
	model := modelLimits(limits)
	if !slices.Equal(w.table.Limits(key), model) {
		w.table.SetLimitsAt(at*1000, key, model)
	}
	return true
}

// took tells the model of a script that has decided calls.
func (w *world) took(r *request, at int64, reply []string) {
	for i, key := range r.keys {
		if !w.knows(key, r.args[4+i], at) {
			return
		}
	}
	counts := strings.Fields(reply[1])
	lease := strings.Fields(reply[2])
	units, _ := strconv.ParseInt(lease[0], 10, 64)
	exact := true
	for _, key := range r.keys {
		k := w.key(key)
		k.inexact = k.inexact || k.gaveBack && w.back
		exact = exact && !k.inexact
	}
	for i, group := range strings.Fields(r.args[1]) {
		var n int64
		var op rune
		var times, admitted int
		if _, err := fmt.Sscanf(group, "%d%c%d", &n, &op, &times); err != nil {
			w.fails("a script is to decide %q", group)
			return
		}
		said, _ := strconv.Atoi(counts[i])
		of := r.waits
		if times > 1 || len(counts) > 1 {
			of = nil // it has not sent it by itself
		}
		made := slot{seq: r.seq, by: r.by, of: of, keys: r.keys, n: n, charge: op != '?', reserve: r.args[2] != "" && r.args[3] == "", at: at, exact: exact}
		if _, leave, leaves := strings.Cut(group, "-"); leaves {
			made.leave, _ = strconv.ParseInt(leave, 10, 64)
		}
		if op == '^' {
			made.upTo, made.n, made.taken = true, int64(times), int64(said)
			times, said = 1, min(said, 1)
		}
		for j := range times {
			s := new(slot)
			*s = made
			w.decide(s, j < said)
			if s.admitted {
				admitted++
			}
			r.slots, w.slots = append(r.slots, s), append(w.slots, s)
		}
		if admitted != said {
			w.fails("the store admits %d of %d calls for %d units of %q, and the exact model %d", said, times, n, r.keys, admitted)
		}
	}
	for _, g := range w.grants {
		if i := slices.Index(r.keys, g.key); i >= 0 && r.args[4+i] != g.limits {
			g.exceeded = true
		}
	}
	if units > 0 {
		w.leases(r, at, units, lease[1], reply[3])
	}
}

// hasBucket reports whether a token bucket is among the limits of a key. The reference does not
// know that
//   - a token bucket keeps back what is leased of it, until the lease ends,
//   - one that was given back all that it lacks is like one never charged, also at a time before
//     the charge.
func (w *world) hasBucket(text string) bool {
	return slices.ContainsFunc(w.limits[text], func(l sash.Limit) bool { return l.Algorithm == sash.TokenBucket })
}

const impossibleCost = 1 << 52

// inScript returns n and leave as scripts read them.
func inScript(n, leave int64) (int64, int64) {
	leave = min(leave, 1<<51)
	if n < 0 || n > 1<<51-1 {
		return impossibleCost, leave
	}
	return n, leave
}

// decide decides s by the model. If that is not exact, it goes by what the store has said.
func (w *world) decide(s *slot, said bool) {
	n, table := s.n, w.table.Leaving(s.leave)
	if n == impossibleCost {
		n = -1
	}
	if s.upTo {
		n = max(s.taken, 1)
		if s.exact && (s.taken > s.n || s.taken < s.n && s.taken > 0 && table.Consider(s.at*1000, n+1, s.keys...).Allowed) {
			w.fails("the store takes %d units of %q, of at most %d, and there are others", s.taken, s.keys, s.n)
		}
	}
	switch {
	case !s.exact:
		s.admitted = said
		for _, key := range s.keys {
			if said && s.charge && !w.key(key).inexact {
				w.table.Spend(s.at*1000, n, key)
			}
		}
	case !s.charge || n <= 0:
		s.verdict = table.Consider(s.at*1000, n, s.keys...)
		s.admitted = s.verdict.Allowed
	case s.reserve:
		s.reserved, s.verdict = table.DecideReserve(s.at*1000, n, s.keys...)
		s.admitted = s.verdict.Allowed
	default:
		s.verdict = table.Decide(s.at*1000, n, s.keys...)
		s.admitted = s.verdict.Allowed
	}
	if s.admitted && s.charge && n > 0 {
		for _, key := range s.keys {
			w.key(key).charges(s.by, s.seq)
			s.used = w.uses(key, s.at, n)
		}
	}
}

// uses tells the model of uses that n units of a key are used. Where leases are, what is used must
// be within the exact rule by itself.
func (w *world) uses(key string, at, n int64) (used reference.Reservation) {
	k := w.key(key)
	if k.uses == nil {
		return used
	}
	w.keepsUses(k, at)
	all, v := k.uses.DecideReserve(at*1000, n, key)
	if !v.Allowed {
		if !k.loose && !w.set {
			w.fails("key %q: with %d units at %d, more is used than %v admits", key, n, at, w.table.Limits(key))
		}
		k.loose = true
	}
	return all[0]
}

// keepsUses has the uses of k under the limits that k has.
func (w *world) keepsUses(k *keyState, at int64) {
	if model := w.table.Limits(k.name); !slices.Equal(k.uses.Limits(k.name), model) {
		k.uses.SetLimitsAt(at*1000, k.name, model)
	}
}

// usesLeased is uses of n units of g. What is charged past its limits takes nothing from a lease that there was.
func (w *world) usesLeased(g *grant, at, n int64) {
	if k := w.key(g.key); g.exceeded && k.uses != nil {
		w.keepsUses(k, at)
		k.uses.Spend(at*1000, n, g.key)
		return
	}
	w.uses(g.key, at, n)
}

// leases tells the model that r was granted a lease.
func (w *world) leases(r *request, at, units int64, until, token string) {
	g := &grant{by: r.by, key: r.keys[0], limits: r.args[4], token: token, units: units, left: units}
	g.end, _ = strconv.ParseInt(until, 10, 64)
	k := w.key(g.key)
	k.leased = true
	longest := at + r.by.leaseFor.Microseconds()
	g.until = min(g.end, longest)
	// Leases that run together end together.
	if units > r.by.leaseUnits || g.end > longest && g.end != k.leaseEnd && !w.back || g.end <= at {
		w.fails("a lease of %d units for %d us, of at most %d for %v", units, g.end-at, r.by.leaseUnits, r.by.leaseFor)
	}
	k.leaseEnd = g.end
	k.inexact = k.inexact || w.hasBucket(r.args[4])
	if !k.inexact {
		all, v := w.table.DecideReserve(at*1000, units, g.key)
		if g.reserved = all[0]; !v.Allowed {
			w.fails("%d units of %q are leased, which the exact model denies", units, g.key)
		}
	}
	r.grant = g
	w.grants = append(w.grants, g)
}

// settled tells the model of a script that gives back or charges what was spent.
func (w *world) settled(r *request, at int64) {
	key := r.keys[0]
	if !w.knows(key, r.args[1], at) {
		return
	}
	left, _ := strconv.ParseInt(r.args[2], 10, 64)
	r.settled, r.spends = left >= 0, left < 0
	switch {
	case left > 0:
		w.becomesLess(key, r)
		w.key(key).gaveBack = w.key(key).gaveBack || w.hasBucket(r.args[1])
	case holds(w.limits[r.args[1]]):
		w.key(key).freed = r.seq
	}
	if r.spends {
		w.key(key).charges(r.by, r.seq)
		for _, g := range w.grants {
			g.exceeded = g.exceeded || g.key == key
		}
	}
	if most := w.mayTouch(r.args[1]); r.settled && w.store.touched > most {
		w.fails("giving %d units of %q back touches %d members, and may touch %d", left, key, w.store.touched, most)
	}
	h := r.settles
	if a := r.waits; a != nil {
		if h = a.abandons(); h == nil {
			w.fails("%s gives back what it was not admitted for", a)
			return
		}
	}
	if h != nil {
		if h.ran {
			w.fails("a reservation is settled twice")
		}
		if h.ran = true; h.key != key || left != h.left() || r.args[6] != strconv.FormatInt(h.n, 10) {
			w.fails("%d units of %q are settled, of a reservation of %d of %q that has cost %d", left, key, h.n, h.key, h.actual)
		}
		switch {
		case w.key(key).inexact:
		case h.exact:
			w.table.Settle(at*1000, h.reserved, h.actual)
		case r.spends: // the key has been forgotten since, and is exact again
			w.table.Spend(at*1000, -left, key)
		}
		if k := w.key(key); k.uses != nil {
			k.uses.Settle(at*1000, h.used, h.actual)
		}
		return
	}
	w.returned(r, key, at, left)
}

// mayTouch returns how many members the server reads and writes at most for what is given back
// under limits: some for each binary digit of their counts.
func (w *world) mayTouch(text string) (members int) {
	members = 40
	for _, l := range w.limits[text] {
		members += 4 * bits.Len64(uint64(l.Count))
	}
	return members
}

// returned tells the model that units of a lease are given back.
func (w *world) returned(r *request, key string, at, units int64) {
	for _, g := range w.grants {
		if g.by == r.by && g.key == key && !g.over && g.delivered && strconv.FormatInt(g.end, 10) == r.args[5] && g.token == r.args[4] && g.left <= units && units <= g.left+g.maybe {
			g.over = true
			if !w.key(key).inexact {
				w.table.Settle(at*1000, g.reserved, g.units-units)
			}
			return
		}
	}
	w.fails("%s gives %d units of %q back, of no lease that has as many left", r.by.name, units, key)
}

// delivers notes that the answer to r has reached its limiter.
func (w *world) delivers(r *request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range r.slots {
		s.delivered = true
		r.by.heard, r.by.heardAt = s.at*1000, time.Now()
		r.by.latest = max(r.by.latest, r.by.heard)
	}
	if g := r.grant; g != nil {
		for _, o := range w.grants { // it takes the place of the one before
			if o.by == g.by && o.key == g.key && o.left+o.maybe == 0 {
				o.over = true
			}
		}
		g.delivered, g.deliveredAt = true, time.Now()
		g.by.leased += g.units
	}
	for _, key := range r.keys {
		if k := w.key(key); r.spends {
			k.unheard[r.by]--
		} else if len(r.slots) > 0 && r.seq >= k.charged[r.by] {
			k.unheard[r.by] = 0
		}
		// What is of an earlier time, since the clock was set, is not newer for a mirror.
		known := r.by.known[key]
		if (len(r.slots) > 0 || r.reset || r.settled) && r.seq > known.seq && r.at >= known.at {
			r.by.known[key] = knowledge{r.seq, r.at, time.Now()}
		}
	}
}

// holds reports whether units are held under one of limits.
func holds(limits []sash.Limit) bool {
	return slices.ContainsFunc(limits, func(l sash.Limit) bool { return l.Algorithm == sash.Concurrency })
}

// knowledge is what a process has last heard of a key.
type knowledge struct {
	seq   int
	at    int64 // by the clock of the store, in microseconds
	heard time.Time
}

// modelLimits returns limits as the reference has them.
func modelLimits(limits []sash.Limit) []reference.Limit {
	model := make([]reference.Limit, len(limits))
	for i, l := range limits {
		model[i] = reference.Limit{
			Unlimited: l == sash.Unlimited(),
			Log:       l.Algorithm == sash.SlidingLog || l.Algorithm == sash.Concurrency, Held: l.Algorithm == sash.Concurrency,
			Parts: l.Algorithm == sash.SlidingParts, Micros: l.Algorithm == sash.SlidingParts,
			Precision: int64(l.Precision), Burst: l.Burst, Count: l.Count, Window: int64(l.Window),
		}
	}
	return model
}

// localLimits returns limits as the reference has them for package sash itself.
func localLimits(limits []sash.Limit) []reference.Limit {
	model := modelLimits(limits)
	for i := range model {
		model[i].Micros = false
	}
	return model
}

// shareOf returns the name of a key in the shares of the fallback: one of its own for limits that share no state.
func shareOf(name string, limits []sash.Limit) string {
	_, suffix := wire(name, limits)
	return name + suffix
}

// wire returns the limits of a key as scripts read them, and what is equal of limits whose keys share a
// state.
func wire(name string, limits []sash.Limit) (text, suffix string) {
	shift := ""
	for _, l := range limits {
		if l == sash.Unlimited() {
			continue
		}
		micros := l.Window.Microseconds()
		suffix += ","
		switch l.Algorithm {
		case sash.SlidingCounter:
			text += fmt.Sprintf("c %d %d;", micros, l.Count)
			suffix += fmt.Sprintf("c%d", micros)
		case sash.TokenBucket:
			burst := l.Burst
			if l.Count == 0 {
				burst = 0
			}
			text += fmt.Sprintf("t %d %d %d;", micros, l.Count, burst)
			suffix += fmt.Sprintf("t%d/%d", l.Count, micros)
		case sash.SlidingParts:
			parts := int64(16)
			for micros%parts != 0 {
				parts--
			}
			text += fmt.Sprintf("p %d %d %d %d;", micros/parts, parts, l.Count, micros/parts/64)
			suffix += fmt.Sprintf("p%dx%d", micros/parts, parts)
			shift = fmt.Sprintf("%d ", xxhash.Sum64String(name)%64)
		default:
			length := max(l.Precision.Microseconds(), 1)
			life := (micros + length - 1) / length
			letter := "r"
			if l.Algorithm == sash.Concurrency {
				letter = "h"
			}
			text += fmt.Sprintf("%s %d %d %d;", letter, length, life, l.Count)
			suffix += fmt.Sprintf("%s%dx%d", letter, length, life)
		}
	}
	return shift + text, strings.Replace(suffix, ",", ":", 1)
}
