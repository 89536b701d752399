//go:build schedules

package sash

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/atomic"
	"github.com/seed-30da4c49/sash/internal/bridge"
	"github.com/seed-30da4c49/sash/internal/schedule"
)

// Small cases are run through every schedule of their steps (see package schedule). For each
// schedule there must be a serial order of the calls with two properties:
//   - No call comes before a call that had ended when it began.
//   - The same calls, one after the other in that order, have the same answers, and leave a
//     limiter that gives the same answers.

// maxRounds holds the number of rounds that each loop may take in any schedule. A call starts
// over because another call made a step. So most of these numbers grow with the calls that the
// other actors of a scene make. The rounds of takeAllLocked do not, nor do the rounds of loops that
// have a bound of their own.
var maxRounds = map[string]int{
	"decideVersion": 4, "tryTakeAll": 4,
	"takeAllLocked under a cap": math.MaxInt, // while other calls take all the room
	"takeAllLocked":             3,
	"lock":                      6, "lockOwn": 3, "decideWord": 4, "beginResize": 4,
	"decide": 4, "insertEntry": 2, "lookup": 3, "find": 3, "raiseFloor": 3, "makeRoom": 5,
	"Reset": 3, "giveBack": 3, "spend": 4, "seed": 4, "appendEntry": 1, "appendKey": 1,
	"forWriting":  2,
	"lockChanges": 1, // no scene replaces a WithLimitsFor
}

// A scene is a case: calls of several actors, and what must come of them.
type scene struct {
	name     string
	variants []string       // of limits that it is for; nil: all
	count    int64          // of the limit; 0: 3 units, a minute
	before   func(s *stage) // runs before the calls
	actors   [][]call
	admits   []int64         // the numbers of units admitted over all schedules: each of these in some schedule, and no others
	leaves   map[int64]int64 // units left of the first key at the end, by the units admitted; nil: not checked
	meets    meetings
}

// meetings are events that must occur in some schedule. Without contention a scene shows
// nothing.
type meetings uint8

const (
	losses meetings = 1 << iota // a compare-and-swap is lost
	deaths                      // a dead entry is found
	waits                       // a call waits for another call
)

// A call is a call of a method of Limiter.
type call struct {
	name   string
	do     func(s *stage) any // returns its answer
	units  int64              // charged if it is admitted
	unsure bool               // no serial order need give its answer
	late   bool               // its first reading of the clock is 0
}

func (c call) String() string { return c.name }

// A stage holds the limiter of a scene in one schedule.
type stage struct {
	l           *Limiter
	kind        variant
	clock       *sceneClock
	a, b        string // two keys, of two shards
	c, d        string // two more, of the same shards
	reservation Reservation
	resolved    resolved // of the first key, for insert

	made    [][]made // the calls made, by actor
	instant int      // the number of calls begun and ended so far
}

// A made is a call that was made, with the instants at which it began and ended, its readings
// of the clock, and its answer.
type made struct {
	began, ended int
	late         bool
	readings     []int64
	answer       any
}

// A sceneClock returns the time to which it is set. Setting it and reading it are steps. While
// it has a script, it returns the readings of the script, and then the last of them for ever.
type sceneClock struct {
	now    atomic.Int64
	script []int64
	stage  *stage
}

func (c *sceneClock) Now() int64 {
	if len(c.script) > 0 {
		now := c.script[0]
		c.script = c.script[min(1, len(c.script)-1):]
		return now
	}
	actor, playing := schedule.Running()
	if !playing {
		return c.now.Load()
	}
	calls := c.stage.made[actor]
	return calls[len(calls)-1].read(c)
}

// read reads the clock for m.
func (m *made) read(c *sceneClock) (now int64) {
	if m.late {
		m.late = false
	} else {
		now = c.now.Load()
	}
	if n := len(m.readings); n == 0 || m.readings[n-1] != now {
		m.readings = append(m.readings, now)
	}
	return now
}

func (c *sceneClock) set(seconds int64) { c.now.Store(seconds * int64(sec)) }

// A variant is a kind of entry, with the limits that make a limiter use it.
type variant struct {
	name   string
	limits func(count int64) []Limit // the first is the one that decides
}

var variants = []variant{
	{"counter", func(n int64) []Limit { return []Limit{Per(n, time.Minute).Counter()} }},
	{"log", func(n int64) []Limit { return []Limit{Per(n, time.Minute).Log()} }},
	{"buckets", func(n int64) []Limit { return []Limit{Per(n, time.Minute).Buckets(30 * sec)} }},
	{"token bucket", func(n int64) []Limit { return []Limit{Per(n, time.Minute).TokenBucket(n)} }},
	{"parts", func(n int64) []Limit { return []Limit{Per(n, time.Minute).Parts()} }},
	{"two counters", func(n int64) []Limit {
		return []Limit{Per(n, time.Minute).Counter(), Per(n+2, time.Minute/2).Counter()}
	}},
	{"log and counter", func(n int64) []Limit { return []Limit{Per(n, time.Minute).Log(), Per(n+2, time.Minute/2).Counter()} }},
}

// stage returns a stage for the calls of sc.
func (sc *scene) stage(t *testing.T, kind variant, options []Option) *stage {
	s := &stage{kind: kind, clock: new(sceneClock), made: make([][]made, len(sc.actors))}
	s.clock.stage = s
	options = append([]Option{WithClock(s.clock)}, options...)
	for _, l := range kind.limits(cmp.Or(sc.count, 3)) {
		options = append(options, l)
	}
	s.l = newTest(t, options...)
	s.l.hasher = testHasher
	s.a, s.b, s.c, s.d = sceneKeys[0], sceneKeys[1], sceneKeys[2], sceneKeys[3]
	if sc.before != nil {
		sc.before(s)
	}
	return s
}

// sceneKeys are four keys. The first and the third lie in one shard, the others in the other, and the one that is
// named first is locked first. In another order a scene would have other schedules.
var sceneKeys = func() (keys [4]string) {
	for i, n := 0, 0; n < len(keys); i++ {
		keys[n] = strconv.Itoa(i)
		if k := hashed(keys[n]); k.shard() == n%2 && (n < 2 || hashed(keys[n-2]).hash < k.hash) {
			n++
		}
	}
	return keys
}()

// A play is a scene under one variant, and the results of its schedules.
type play struct {
	*testing.T
	scene
	kind    variant
	options []Option

	orders   [][]int           // every serial order of the calls, as the order of their actors
	serial   map[string]ending // the endings of serial orders, by order and readings
	admitted map[int64]int     // numbers of schedules, by the units admitted
	met      map[meetings]int  // numbers of schedules, by event
}

// An ending holds the answers of the calls, by actor, and the state after them.
type ending struct {
	answers [][]any
	left    left
}

// A left is the state after the calls, as the answers about the keys now and later.
type left struct {
	peeks [18]Decision
	keys  int // after a sweep
}

func (e ending) equal(o ending) bool {
	return e.left == o.left && slices.EqualFunc(e.answers, o.answers, slices.Equal[[]any])
}

func (p *play) run() {
	p.serial, p.admitted, p.met = map[string]ending{}, map[int64]int{}, map[meetings]int{}
	p.interleave(nil)
	r, err := schedule.Explore(p.begin)
	p.Logf("%d schedules, %d redundant, longest %d, %d steps; lost %d, dead %d, waited %d; units admitted: %v",
		r.Schedules, r.Redundant, r.Longest, r.Steps, p.met[losses], p.met[deaths], p.met[waits], p.admitted)
	require.NoError(p, err)
	require.Greater(p, r.Schedules, 1, "no other schedule was explored")
	require.Equal(p, p.admits, slices.Sorted(maps.Keys(p.admitted)), "units admitted")
	for _, m := range []meetings{losses, deaths, waits} {
		if p.meets&m != 0 {
			require.Positive(p, p.met[m], "no contention: this scene has shown nothing")
		}
	}
}

// interleave appends to p.orders each order of the calls that begins with done.
func (p *play) interleave(done []int) {
	all := true
	for actor, calls := range p.actors {
		var made int
		for _, a := range done {
			if a == actor {
				made++
			}
		}
		if made < len(calls) {
			all = false
			p.interleave(append(slices.Clone(done), actor))
		}
	}
	if all {
		p.orders = append(p.orders, done)
	}
}

func (p *play) begin() schedule.Case {
	s := p.stage(p.T, p.kind, p.options)
	c := schedule.Case{Check: func(steps []schedule.Step) error { return p.check(s, steps) }}
	for actor, calls := range p.actors {
		c.Actors = append(c.Actors, func() {
			for _, next := range calls {
				s.play(actor, next)
			}
		})
	}
	return c
}

// play makes c and records its readings and its answer.
func (s *stage) play(actor int, c call) {
	all := &s.made[actor]
	*all = append(*all, made{late: c.late})
	m := &(*all)[len(*all)-1]
	schedule.Call(func() {
		s.instant++
		m.began = s.instant
		m.answer = c.do(s)
	})
	s.instant++
	m.ended = s.instant
}

// check returns an error if the calls made on a stage are not linearizable, or if its table is
// not as it must be after them.
func (p *play) check(s *stage, steps []schedule.Step) error {
	p.meet(steps)
	if err := s.l.checkQuiescent(); err != nil {
		return err
	}
	var units int64
	for actor, calls := range p.actors {
		for i, c := range calls {
			answer := s.made[actor][i].answer
			if isAdmitted(answer) {
				units += c.units
			}
			if was, ok := answer.(whatThereWas); ok {
				units += was.taken
			}
		}
	}
	p.admitted[units]++
	got := p.ending(s)
	if want, told := p.leaves[units]; told && got.left.peeks[0].Remaining != want {
		return fmt.Errorf("%d units admitted, and %d left: %+v", units, got.left.peeks[0].Remaining, got)
	}
	for i, order := range p.orders {
		if s.allows(order) && p.follows(s, i, nil, got) {
			return nil
		}
	}
	return fmt.Errorf("no serial order of %v has these answers: %+v", p.actors, got)
}

func isAdmitted(answer any) bool {
	switch a := answer.(type) {
	case Decision:
		return a.Allowed
	case bool:
		return a
	}
	return false
}

func (p *play) meet(steps []schedule.Step) {
	var met meetings
	for _, step := range steps {
		if step.Lost {
			met |= losses
		}
		if !step.Wrote && step.Value&^(multi|replaced) == dead {
			met |= deaths
		}
		if step.Waited {
			met |= waits
		}
	}
	for _, m := range []meetings{losses, deaths, waits} {
		if met&m != 0 {
			p.met[m]++
		}
	}
}

// checkQuiescent returns an error if the table is not as it must be while no call runs.
func (l *Limiter) checkQuiescent() (err error) {
	g, entries := l.current.Load(), 0
	if g.old.Load() != nil {
		return errors.New("a generation has its old one left")
	}
	g.keys.rangeAll(func(k key, e *entry) bool {
		word, counts := e.Word.Load(), uint64(dead|locked)
		if word&multi != 0 || g.ruleset.kind == kindLog {
			counts |= resizing
		}
		if entries++; word&counts != 0 {
			err = fmt.Errorf("the entry of %q is left as %x", k.name, word)
		}
		return true
	})
	if err == nil && entries != l.Len() {
		err = fmt.Errorf("%d entries, %d keys", entries, l.Len())
	}
	return err
}

// ending returns the ending of the calls made on a stage.
func (p *play) ending(s *stage) (e ending) {
	for actor, calls := range p.actors {
		var answers []any
		for i, c := range calls {
			if !c.unsure {
				answers = append(answers, s.made[actor][i].answer)
			}
		}
		e.answers = append(e.answers, answers)
	}
	peeks := e.left.peeks[:0]
	now := s.clock.now.Load()
	for _, after := range []time.Duration{0, time.Minute / 2, time.Minute} {
		s.clock.now.Store(now + int64(after))
		for _, k := range []string{s.a, s.b} {
			peeks = append(peeks, s.l.Peek(k, 0), s.l.Peek(k, 1), s.l.Peek(k, 3))
		}
	}
	s.clock.now.Store(now)
	s.l.Sweep()
	e.left.keys = s.l.Len()
	return e
}

// allows reports whether order keeps the order of calls that did not overlap: no call comes
// before a call that had ended when it began.
func (s *stage) allows(order []int) bool {
	next := make([]int, len(s.made))
	latest := 0 // the latest beginning of the calls so far
	for _, actor := range order {
		m := s.made[actor][next[actor]]
		next[actor]++
		if m.ended < latest {
			return false
		}
		latest = max(latest, m.began)
	}
	return true
}

// follows reports whether got is the ending of the calls made one after the other in an
// order, each at clock readings that it had in the schedule.
func (p *play) follows(s *stage, order int, scripts [][]int64, got ending) bool {
	if done := len(scripts); done < len(p.orders[order]) {
		actor, nth := p.orders[order][done], 0
		for _, a := range p.orders[order][:done] {
			if a == actor {
				nth++
			}
		}
		readings := s.made[actor][nth].readings
		if len(readings) == 0 {
			return p.follows(s, order, append(slices.Clone(scripts), nil), got)
		}
		for i := range readings {
			if p.follows(s, order, append(slices.Clone(scripts), readings[i:]), got) {
				return true
			}
		}
		return false
	}
	name := fmt.Sprint(order, scripts, s.clock.now.Load())
	want, ok := p.serial[name]
	if !ok {
		want = p.serially(p.orders[order], scripts, s.clock.now.Load())
		p.serial[name] = want
	}
	return want.equal(got)
}

// serially makes the calls one after the other in an order, each at the readings of its
// script, and returns their ending at now.
func (p *play) serially(order []int, scripts [][]int64, now int64) ending {
	s := p.stage(p.T, p.kind, p.options)
	for i, actor := range order {
		c := p.actors[actor][len(s.made[actor])]
		s.clock.script = scripts[i]
		s.made[actor] = append(s.made[actor], made{answer: c.do(s)})
	}
	s.clock.script = nil
	s.clock.now.Store(now)
	return p.ending(s)
}

func take(n int64) call {
	return call{name: "Take", units: n, do: func(s *stage) any { return s.l.Take(s.a, n) }}
}

func allow(n int64) call {
	return call{name: "AllowN", units: n, do: func(s *stage) any { return s.l.AllowN(s.a, n) }}
}

// late returns c with a first clock reading of 0, the oldest of all.
func late(c call) call {
	c.late = true
	return c
}

// takeLeaving is a TakeLeaving that leaves one unit.
func takeLeaving(n int64) call {
	return call{name: "TakeLeaving", units: n, do: func(s *stage) any { return s.l.TakeLeaving(s.a, n, 1) }}
}

// A whatThereWas is the answer of a TakeUpTo.
type whatThereWas struct {
	taken int64
	d     Decision
}

func takeUpTo(most int64) call {
	return call{name: "TakeUpTo", do: func(s *stage) any {
		taken, d := s.l.TakeUpTo(s.a, most)
		return whatThereWas{taken, d}
	}}
}

func peek(n int64) call {
	return call{name: "Peek", do: func(s *stage) any { return s.l.Peek(s.a, n) }}
}

func takeAll(n int64) call {
	return call{name: "TakeAll", units: n, do: func(s *stage) any { return s.l.TakeAll([]string{s.a, s.b}, n) }}
}

func peekAll(n int64) call {
	return call{name: "PeekAll", do: func(s *stage) any { return s.l.PeekAll([]string{s.a, s.b}, n) }}
}

// takeAllOfThree is a TakeAll of both keys and of the fourth.
func takeAllOfThree(n int64) call {
	return call{name: "TakeAll with a fourth key", units: n, do: func(s *stage) any {
		return s.l.TakeAll([]string{s.a, s.b, s.d}, n)
	}}
}

func takeAllBack(n int64) call {
	return call{name: "TakeAll in reverse", units: n, do: func(s *stage) any { return s.l.TakeAll([]string{s.b, s.a}, n) }}
}

func takeOther(n int64) call {
	return call{name: "Take of the second key", units: n, do: func(s *stage) any { return s.l.Take(s.b, n) }}
}

// takeNew is a Take of a third key.
func takeNew(n int64) call {
	return call{name: "Take of a third key", units: n, do: func(s *stage) any { return s.l.Take("third", n) }}
}

func reserve(n int64) call {
	return call{name: "Reserve", do: func(s *stage) any {
		r, d := s.l.Reserve(s.a, n)
		s.reservation = r
		return d
	}}
}

func commit(n int64) call {
	return call{name: "Commit", do: func(s *stage) any {
		s.reservation.Commit(n)
		return nil
	}}
}

func reset() call {
	return call{name: "Reset", do: func(s *stage) any { return s.l.Reset(s.a) }}
}

// insert is the part of a Take that inserts an entry, under limits resolved before.
func insert() call {
	return call{name: "insert", do: func(s *stage) any {
		s.l.insert(s.resolved, s.l.key(s.a), nil)
		return nil
	}}
}

// sweep may evict an entry that a call has inserted and not charged yet. The call then inserts
// another one, so no serial order has that number of evictions.
// seed tells a past that leaves that many units under each limit of the scene.
func seed(left int64) call {
	return call{name: fmt.Sprintf("seed(%d)", left), do: func(s *stage) any {
		var pasts []bridge.Past[Limit]
		for _, l := range s.kind.limits(3) {
			pasts = append(pasts, bridge.Past[Limit]{Limit: l, Left: left})
		}
		s.l.seed(s.a, pasts)
		return nil
	}}
}

func sweep() call {
	return call{name: "Sweep", unsure: true, do: func(s *stage) any { return s.l.Sweep() }}
}

func setClock(seconds int64) call {
	return call{name: "Set", do: func(s *stage) any {
		s.clock.set(seconds)
		return nil
	}}
}

func setLimits(count int64) call {
	return call{name: "SetLimits", do: func(s *stage) any { return s.l.SetLimits(s.a, s.kind.limits(count)...) }}
}

func unsetLimits() call {
	return call{name: "SetLimits", do: func(s *stage) any { return s.l.SetLimits(s.a) }}
}

func reconfigure(count int64) call {
	return call{name: "Reconfigure", do: func(s *stage) any { return s.l.Reconfigure(s.kind.limits(count)...) }}
}

func reconfigureTo(limits ...Limit) call {
	return call{name: "Reconfigure", do: func(s *stage) any { return s.l.Reconfigure(limits...) }}
}

// replace gives the first key limits of its own, and the limiter others.
func replace(count int64) call {
	return call{name: "replace", do: func(s *stage) any {
		s.l.replace(s.kind.limits(1), &setup{interval: -1, limitsFor: func(key string) []Limit {
			if key == s.a {
				return s.kind.limits(count)
			}
			return nil
		}}, atOnce)
		return nil
	}}
}

// reconfigureSetup gives all keys the limiter's own limits.
func reconfigureSetup(count int64) call {
	return call{name: "replace", do: func(s *stage) any {
		s.l.replace(s.kind.limits(count), &setup{interval: -1}, atOnce)
		return nil
	}}
}

// replaceByNone makes the first key unlimited.
func replaceByNone() call {
	return call{name: "replace", do: func(s *stage) any {
		s.l.replace(s.kind.limits(3), &setup{interval: -1, limitsFor: func(string) []Limit { return []Limit{Unlimited()} }}, atOnce)
		return nil
	}}
}

// taken takes n units of the first key at 0, and then sets the clock to seconds.
func taken(n, seconds int64) func(s *stage) {
	return func(s *stage) {
		s.l.AllowN(s.a, n)
		s.clock.set(seconds)
	}
}

// playEach plays each scene under each of the variants that it is for.
func playEach(t *testing.T, scenes []scene, options ...Option) {
	for _, sc := range scenes {
		for _, kind := range variants {
			if sc.variants != nil && !slices.Contains(sc.variants, kind.name) {
				continue
			}
			t.Run(sc.name+"/"+kind.name, func(t *testing.T) {
				(&play{T: t, scene: sc, kind: kind, options: options}).run()
			})
		}
	}
}

// Three callers have a thousand times as many schedules as two. So have calls that make a ring
// or insert an entry. So not every scene is for all variants.
var (
	small    = []string{"counter", "log", "two counters"}
	logs     = []string{"log", "log and counter"}
	weighted = []string{"counter", "two counters"} // units come back bit by bit
	whole    = []string{"log", "buckets"}          // a unit comes back at once
)

func TestSchedules_OneKey(t *testing.T) {
	playEach(t, []scene{
		{
			name:   "the last units",
			before: taken(1, 0),
			actors: [][]call{{take(2)}, {allow(2)}},
			admits: []int64{2},
			meets:  losses,
		},
		{
			name:     "the last units for three",
			variants: []string{"counter"},
			before:   taken(1, 0),
			actors:   [][]call{{take(1)}, {allow(1)}, {take(1)}},
			admits:   []int64{2},
			meets:    losses,
		},
		{
			name:     "a key never seen",
			variants: small,
			actors:   [][]call{{take(2)}, {allow(2)}},
			admits:   []int64{2},
			meets:    losses | waits,
		},
		{
			name:     "a key never seen for three",
			variants: []string{"counter"},
			actors:   [][]call{{take(2)}, {allow(1)}, {peek(3)}},
			admits:   []int64{3},
			meets:    losses,
		},
		{
			name:     "a peek during a stream of calls",
			variants: []string{"log"},
			count:    9,
			before:   taken(1, 0),
			actors:   [][]call{{peek(1)}, {allow(1), allow(1), allow(1), allow(1)}},
			admits:   []int64{4},
			meets:    waits,
		},
		{
			name:   "a peek between",
			before: taken(1, 0),
			actors: [][]call{{take(1), allow(1)}, {peek(1)}},
			admits: []int64{2},
		},
	})
}

// Units that are to be left are left, and all that there is, is taken.
func TestSchedules_LeavingAndUpTo(t *testing.T) {
	playEach(t, []scene{
		{
			name:   "a unit is left, or the other call has taken one",
			before: taken(1, 0),
			actors: [][]call{{takeLeaving(1)}, {take(1)}},
			admits: []int64{1, 2},
			meets:  losses,
		},
		{
			name:   "one of two calls leaves a unit",
			before: taken(1, 0),
			actors: [][]call{{takeLeaving(1)}, {takeLeaving(1)}},
			admits: []int64{1},
			meets:  losses,
		},
		{
			name:   "what there is",
			before: taken(1, 0),
			actors: [][]call{{takeUpTo(4)}, {take(1)}},
			admits: []int64{2},
			leaves: map[int64]int64{2: 0},
			meets:  losses,
		},
		{
			name:   "what there is, twice",
			before: taken(1, 0),
			actors: [][]call{{takeUpTo(4)}, {takeUpTo(1)}},
			admits: []int64{2},
			leaves: map[int64]int64{2: 0},
		},
		{
			name:     "what there is, while the limits become lower and the key is reset",
			variants: []string{"log"},
			count:    5,
			before: func(s *stage) {
				for second := range int64(2) {
					s.clock.set(second)
					s.l.Allow(s.a)
				}
				s.clock.set(2)
			},
			actors: [][]call{{takeUpTo(4)}, {setLimits(1), reset()}},
			admits: []int64{0, 1, 3},
		},
		{
			name:     "a key never seen",
			variants: small,
			actors:   [][]call{{takeUpTo(4)}, {takeLeaving(1)}},
			admits:   []int64{3},
		},
	})
}

// Denied attempts are charged, too.
func TestSchedules_ChargeDenied(t *testing.T) {
	playEach(t, []scene{
		{
			name:   "the last units",
			before: taken(1, 0),
			actors: [][]call{{take(2)}, {allow(2)}},
			admits: []int64{2},
			meets:  losses,
		},
		{
			name:     "the last units for three",
			variants: []string{"counter"},
			before:   taken(1, 0),
			actors:   [][]call{{take(2)}, {allow(2)}, {take(1)}},
			admits:   []int64{1, 2},
			meets:    losses,
		},
	}, WithChargeDenied())
}

func TestSchedules_AroundARotation(t *testing.T) {
	playEach(t, []scene{
		{
			name:   "two in a new window",
			before: taken(1, 90),
			actors: [][]call{{take(2)}, {allow(2)}},
			admits: []int64{2},
			meets:  losses,
		},
		{
			name:     "three in a new window",
			variants: []string{"counter"},
			before:   taken(1, 90),
			actors:   [][]call{{take(1)}, {allow(1)}, {allow(1)}},
			admits:   []int64{2},
			meets:    losses,
		},
		{
			name:     "late readings",
			variants: weighted,
			before:   taken(1, 0),
			actors:   [][]call{{take(2)}, {allow(2)}, {setClock(90)}},
			admits:   []int64{2},
			meets:    losses,
		},
		{
			name:     "late readings of a log", // units taken at 0 and at 90 are not in one window
			variants: whole,
			before:   taken(1, 0),
			actors:   [][]call{{take(2)}, {allow(2)}, {setClock(90)}},
			admits:   []int64{2, 4},
			meets:    losses,
		},
	})
}

func TestSchedules_AroundAnEviction(t *testing.T) {
	playEach(t, []scene{
		{
			name:   "a caller and a sweep",
			before: taken(3, 120),
			actors: [][]call{{take(2)}, {sweep()}},
			admits: []int64{2},
			meets:  losses | deaths,
		},
		{
			name:     "two callers, one of them late, and a sweep",
			variants: []string{"counter"},
			before:   taken(3, 120),
			actors:   [][]call{{late(allow(2))}, {allow(2)}, {sweep()}},
			admits:   []int64{2},
			leaves:   map[int64]int64{2: 1},
			meets:    losses | deaths,
		},
		{
			name:     "two sweeps",
			variants: []string{"counter"},
			before:   taken(3, 120),
			actors:   [][]call{{allow(2)}, {sweep()}, {sweep()}},
			admits:   []int64{2},
			meets:    losses | deaths,
		},
		{
			name:   "a late reading",
			before: taken(3, 0),
			actors: [][]call{{take(2)}, {setClock(150), sweep()}},
			admits: []int64{0, 2},
			leaves: map[int64]int64{0: 3, 2: 1}, // units admitted are charged in the present
			meets:  losses | deaths,
		},
		{
			name: "two late readings of a key evicted",
			before: func(s *stage) {
				taken(3, 150)(s)
				s.l.Sweep()
			},
			variants: weighted,
			actors:   [][]call{{late(allow(2))}, {late(allow(2))}},
			admits:   []int64{2},
			leaves:   map[int64]int64{2: 1},
			meets:    losses,
		},
		{
			name: "two late readings of a log evicted",
			before: func(s *stage) {
				taken(3, 110)(s)
				s.l.Sweep()
			},
			variants: whole[:1],
			actors:   [][]call{{late(allow(2))}, {late(allow(2))}},
			admits:   []int64{2},
			leaves:   map[int64]int64{2: 1},
			meets:    losses,
		},
		{
			name:     "a peek",
			before:   taken(3, 120),
			actors:   [][]call{{take(2)}, {peek(2)}, {sweep()}},
			variants: []string{"counter"},
			admits:   []int64{2},
			meets:    losses | deaths,
		},
	})
}

func TestSchedules_Reset(t *testing.T) {
	playEach(t, []scene{
		{
			name:   "of a full key",
			before: taken(3, 0),
			actors: [][]call{{take(2)}, {reset()}},
			admits: []int64{0, 2},
			meets:  deaths,
		},
		{
			name:     "with two callers",
			variants: []string{"counter"},
			before:   taken(3, 0),
			actors:   [][]call{{allow(2)}, {allow(2)}, {reset()}},
			admits:   []int64{0, 2},
			meets:    deaths,
		},
		{
			name:     "during a peek",
			variants: []string{"counter"},
			before:   taken(3, 0),
			actors:   [][]call{{take(2)}, {peek(1)}, {reset()}},
			admits:   []int64{0, 2},
			meets:    deaths,
		},
	})
}

func TestSchedules_AroundALogsGrowth(t *testing.T) {
	full := func(s *stage) { // charges the two records for which the ring has room
		s.l.AllowN(s.a, 1)
		s.clock.set(1)
		s.l.AllowN(s.a, 1)
		s.clock.set(2)
	}
	burst := func(s *stage) {
		for now := range int64(20) {
			s.clock.set(now)
			s.l.AllowN(s.a, 1)
		}
		s.clock.set(100)
		s.l.AllowN(s.a, 1)
		s.clock.set(101)
	}
	playEach(t, []scene{
		{
			name:     "two need room",
			variants: logs,
			count:    5,
			before:   full,
			actors:   [][]call{{take(1)}, {allow(2)}},
			admits:   []int64{3},
			meets:    losses | waits,
		},
		{
			name:     "two need room for the last unit",
			variants: logs,
			before:   full,
			actors:   [][]call{{take(1)}, {allow(1)}},
			admits:   []int64{1},
			meets:    losses,
		},
		{
			name:     "three need room",
			variants: []string{"log"},
			count:    5,
			before:   full,
			actors:   [][]call{{allow(1), allow(1)}, {allow(1)}},
			admits:   []int64{3},
			meets:    losses | waits,
		},
		{
			name:     "one needs room and the key is reset",
			variants: logs,
			count:    5,
			before:   full,
			actors:   [][]call{{take(1)}, {reset()}},
			admits:   []int64{1},
			meets:    losses | waits | deaths,
		},
		{
			name:     "one needs room and the limits change",
			variants: logs,
			count:    5,
			before:   full,
			actors:   [][]call{{take(1)}, {setLimits(6)}},
			admits:   []int64{1},
			meets:    losses | waits | deaths,
		},
		{
			name:     "room is given back",
			variants: logs,
			count:    40,
			before:   burst,
			actors:   [][]call{{take(1)}, {sweep()}},
			admits:   []int64{1},
			meets:    losses | waits,
		},
		{
			name:     "room is given back during two calls",
			variants: []string{"log"},
			count:    40,
			before:   burst,
			actors:   [][]call{{take(1)}, {peek(1)}, {sweep()}},
			admits:   []int64{1},
			meets:    losses | waits,
		},
	})
}

func TestSchedules_Reservations(t *testing.T) {
	withDirectRefunds(t, 0) // so that small logs have refunds
	playEach(t, []scene{
		{
			name:   "given back",
			before: taken(1, 0),
			actors: [][]call{{reserve(2), commit(0)}, {take(2)}},
			admits: []int64{0, 2},
			meets:  losses | waits,
		},
		{
			name:   "spent past the limit",
			before: taken(1, 0),
			actors: [][]call{{reserve(1), commit(3)}, {take(1)}},
			admits: []int64{0, 1},
			meets:  losses | waits,
		},
		{
			name:   "and a sweep",
			before: taken(3, 120),
			actors: [][]call{{reserve(2), commit(1)}, {sweep()}},
			admits: []int64{0},
			meets:  deaths,
		},
		{
			name:   "and a reset",
			before: taken(1, 0),
			actors: [][]call{{reserve(2), commit(1)}, {reset()}},
			admits: []int64{0},
			meets:  deaths,
		},
	})
}

// A Commit charges what was used and gives back what was held at one instant, whatever other calls do.
func TestSchedules_UnitsThatAreHeld(t *testing.T) {
	withDirectRefunds(t, 0)
	held := variant{"held", func(n int64) []Limit { return []Limit{AtOnce(n, time.Minute)} }}
	next := variant{"held and counter", func(n int64) []Limit { return []Limit{AtOnce(n, time.Minute), Per(n+2, time.Minute/2).Counter()} }}
	for _, kind := range []variant{held, next} {
		for _, sc := range []scene{
			{
				name:   "released",
				before: taken(1, 0),
				actors: [][]call{{reserve(2), commit(2)}, {take(2)}},
				admits: []int64{0, 2},
				meets:  losses | waits,
			},
			{
				name:   "used more",
				before: taken(1, 0),
				actors: [][]call{{reserve(2), commit(4)}, {peek(1), peek(1)}},
				admits: []int64{0},
				meets:  waits,
			},
			{
				name:   "and a sweep",
				before: taken(3, 120),
				actors: [][]call{{reserve(2), commit(2)}, {sweep()}},
				admits: []int64{0},
				meets:  deaths,
			},
			{
				name:   "and a reset",
				before: taken(1, 0),
				actors: [][]call{{reserve(2), commit(3)}, {reset()}},
				admits: []int64{0},
				meets:  deaths,
			},
			{
				name:   "and a change of limits",
				before: taken(1, 0),
				actors: [][]call{{reserve(2), commit(2)}, {setLimits(5)}},
				admits: []int64{0},
				meets:  deaths,
			},
		} {
			t.Run(sc.name+"/"+kind.name, func(t *testing.T) { (&play{T: t, scene: sc, kind: kind}).run() })
		}
	}
}

// What is charged for a past is the difference to what calls have charged before that instant, whatever other
// calls do.
func TestSchedules_Seeds(t *testing.T) {
	playEach(t, []scene{
		{
			name:   "a key with an entry",
			before: taken(1, 0),
			actors: [][]call{{seed(1)}, {take(2)}},
			admits: []int64{0, 2},
			leaves: map[int64]int64{0: 1, 2: 0},
			meets:  losses | waits,
		},
		{
			name:     "a key never seen",
			variants: small,
			actors:   [][]call{{seed(1)}, {take(2)}},
			admits:   []int64{0, 2},
			leaves:   map[int64]int64{0: 1, 2: 1},
		},
		{
			name:   "and a sweep",
			before: taken(3, 120),
			actors: [][]call{{seed(1)}, {sweep()}},
			admits: []int64{0},
			leaves: map[int64]int64{0: 1},
			meets:  deaths,
		},
		{
			name:   "and a change of limits",
			before: taken(1, 0),
			actors: [][]call{{seed(1)}, {setLimits(5)}},
			admits: []int64{0},
			meets:  deaths,
		},
	})
}

// Calls that insert the same key at the same time count it once under the cap. So none of
// them finds the table full because of the others, and none evicts the entry that another has
// just charged.
func TestSchedules_OneNewKeyUnderACap(t *testing.T) {
	for overflow, name := range map[Overflow]string{
		EvictLeastUsed: "EvictLeastUsed", DenyNew: "DenyNew", ShareOverflow: "ShareOverflow",
	} {
		t.Run(name, func(t *testing.T) {
			playEach(t, []scene{
				{
					name:     "both fit",
					variants: []string{"counter", "log"},
					actors:   [][]call{{allow(2)}, {take(1)}},
					admits:   []int64{3},
					meets:    waits,
				},
				{
					name:     "one fits",
					variants: []string{"counter"},
					actors:   [][]call{{take(2)}, {peek(2), allow(2)}},
					admits:   []int64{2},
					meets:    waits,
				},
			}, WithMaxKeys(1, overflow))
		})
	}
}

func TestSchedules_ChangesOfLimits(t *testing.T) {
	playEach(t, []scene{
		{
			name:   "SetLimits",
			before: taken(2, 0),
			actors: [][]call{{take(2)}, {setLimits(4)}},
			admits: []int64{0, 2},
			meets:  deaths | waits,
		},
		{
			name:   "SetLimits of a key never seen",
			actors: [][]call{{take(3)}, {setLimits(2)}},
			admits: []int64{0, 3},
			meets:  deaths | waits,
		},
		{
			name:     "SetLimits of a key taken from while another looks for it",
			variants: []string{"counter", "two counters"},
			actors:   [][]call{{peek(1)}, {allow(2), setLimits(4)}},
			admits:   []int64{2},
		},
		{
			// Once a Peek has found the override, no call may be decided by the limits from
			// before the override.
			name:     "SetLimits of a key that is being inserted, and a peek",
			variants: []string{"counter"},
			before:   func(s *stage) { s.resolved = s.l.current.Load().resolve(s.a) },
			actors:   [][]call{{insert()}, {setLimits(5)}, {peek(4), peek(4)}},
			admits:   []int64{0},
		},
		{
			// The same holds for a call that is never admitted, and so stores nothing.
			name:     "SetLimits of a key that is being inserted, and an impossible cost",
			variants: []string{"counter"},
			before:   func(s *stage) { s.resolved = s.l.current.Load().resolve(s.a) },
			actors:   [][]call{{insert()}, {setLimits(5)}, {take(9), peek(4)}},
			admits:   []int64{0},
		},
		{
			name: "SetLimits to none",
			before: func(s *stage) {
				setLimits(4).do(s)
				s.l.AllowN(s.a, 2)
			},
			actors: [][]call{{take(2)}, {unsetLimits()}},
			admits: []int64{0, 2},
			meets:  losses | deaths,
		},
		{
			name:   "Reconfigure",
			before: taken(2, 0),
			actors: [][]call{{take(2)}, {reconfigure(4)}},
			admits: []int64{0, 2},
			meets:  losses | deaths,
		},
		{
			name:   "Reconfigure and a key never seen",
			actors: [][]call{{take(3)}, {reconfigure(2)}},
			admits: []int64{0, 3},
		},
		{
			name:     "Reconfigure with two callers",
			variants: []string{"counter"},
			before:   taken(2, 0),
			actors:   [][]call{{allow(2)}, {allow(1)}, {reconfigure(4)}},
			admits:   []int64{1, 2},
			meets:    losses | deaths,
		},
		{
			name:   "Reconfigure and a reset",
			before: taken(2, 0),
			actors: [][]call{{reset()}, {reconfigure(4)}},
			admits: []int64{0},
			meets:  deaths,
		},
		{
			name:     "Reconfigure and a reservation",
			variants: []string{"counter", "log"},
			before:   taken(2, 0),
			actors:   [][]call{{reserve(1), commit(0)}, {reconfigure(4)}},
			admits:   []int64{0},
			meets:    deaths,
		},
		{
			name:   "a setup that gives a key limits of its own",
			before: taken(2, 0),
			actors: [][]call{{take(2)}, {replace(4)}},
			admits: []int64{0, 2},
			meets:  losses | deaths,
		},
		{
			name:   "a setup that takes a key its own limits away",
			before: func(s *stage) { replace(4).do(s); taken(2, 0)(s) },
			actors: [][]call{{take(2)}, {reconfigureSetup(3)}},
			admits: []int64{0, 2},
			meets:  losses | deaths,
		},
		{
			name:   "a setup and a key never seen",
			actors: [][]call{{take(3)}, {replace(2)}},
			admits: []int64{0, 3},
		},
		{
			name:     "a setup that makes a key unlimited",
			variants: small,
			before:   taken(2, 0),
			actors:   [][]call{{take(2)}, {replaceByNone()}},
			admits:   []int64{0, 2},
			meets:    deaths,
		},
	})
}

// A key that does not fit is refused by the old limits or by the new ones. Both the Limit of
// the answer and its RetryAfter follow from them.
func TestSchedules_ChangesOfLimitsWhileKeysAreRefused(t *testing.T) {
	full := func(s *stage) { s.l.Allow(s.b) }
	longer := reconfigureTo(Per(3, time.Hour).Counter())
	playEach(t, []scene{
		{
			name:     "one key",
			variants: []string{"counter", "token bucket"},
			before:   full,
			actors:   [][]call{{take(1)}, {longer}},
			admits:   []int64{0},
			meets:    waits,
		},
		{
			name:     "a look at one key",
			variants: []string{"counter"},
			before:   full,
			actors:   [][]call{{peek(1)}, {longer}},
			admits:   []int64{0},
			meets:    waits,
		},
	}, WithMaxKeys(1, DenyNew))
}

func TestSchedules_SeveralKeys(t *testing.T) {
	both := func(n, seconds int64) func(s *stage) {
		return func(s *stage) {
			s.l.AllowN(s.a, n)
			s.l.AllowN(s.b, n)
			s.clock.set(seconds)
		}
	}
	playEach(t, []scene{
		{
			name:   "in opposite orders",
			before: both(1, 0),
			actors: [][]call{{takeAll(2)}, {takeAllBack(2)}},
			admits: []int64{2},
			meets:  losses | waits,
		},
		{
			name:   "and the first of them",
			before: both(1, 0),
			actors: [][]call{{takeAll(2)}, {take(2)}},
			admits: []int64{2},
			meets:  losses | waits,
		},
		{
			// The last one is charged by a swap if its word is all of its state. Then no call waits for its lock.
			name:   "and the last of them",
			before: both(1, 0),
			actors: [][]call{{takeAll(2)}, {takeOther(2)}},
			admits: []int64{2},
			meets:  losses,
		},
		{
			name:     "and each of them",
			variants: []string{"counter"},
			before:   both(1, 0),
			actors:   [][]call{{takeAll(2)}, {takeOther(2)}, {allow(2)}},
			admits:   []int64{2, 4},
			meets:    losses | waits,
		},
		{
			name:     "never seen",
			variants: []string{"counter"},
			actors:   [][]call{{takeAll(2)}, {takeAllBack(2)}},
			admits:   []int64{2},
			meets:    losses | waits,
		},
		{
			name:     "never seen, and the first of them",
			variants: []string{"log and counter"},
			actors:   [][]call{{takeAll(2)}, {take(2)}},
			admits:   []int64{2},
			meets:    losses,
		},
		{
			name:     "and a sweep",
			variants: []string{"counter"},
			before:   both(3, 120),
			actors:   [][]call{{takeAll(2)}, {sweep()}},
			admits:   []int64{2},
			meets:    deaths,
		},
		{
			name:   "looking at both while one is charged, then the other",
			count:  20,
			before: both(1, 0),
			actors: [][]call{{peekAll(1)}, {take(6), takeOther(4)}},
			admits: []int64{10},
		},
		{
			name:     "and a reset of one",
			variants: []string{"counter"},
			before:   both(3, 0),
			actors:   [][]call{{takeAll(0), takeOther(1)}, {reset()}},
			admits:   []int64{0},
			meets:    deaths,
		},
		{
			name:     "during a stream of calls on one of them, charging",
			variants: []string{"counter"},
			count:    9,
			before:   both(1, 0),
			actors:   [][]call{{takeAll(1)}, {takeOther(1), takeOther(1), takeOther(1), takeOther(1), takeOther(1), takeOther(1)}},
			admits:   []int64{7},
			meets:    losses | waits,
		},
		{
			name:     "during a stream of calls on one of them, asking",
			variants: []string{"counter"},
			count:    9,
			before:   both(1, 0),
			actors:   [][]call{{takeAll(0)}, {takeOther(1), takeOther(1), takeOther(1), takeOther(1), takeOther(1)}},
			admits:   []int64{5},
			meets:    waits,
		},
		{
			name:     "during a stream of calls on one of them, denied",
			variants: []string{"counter"},
			count:    9,
			before: func(s *stage) {
				both(1, 0)(s)
				s.l.AllowN(s.a, 8)
			},
			actors: [][]call{{takeAll(1)}, {takeOther(1), takeOther(1), takeOther(1), takeOther(1), takeOther(1), takeOther(1)}},
			admits: []int64{6},
			meets:  waits,
		},
		{
			name:     "two without an entry",
			variants: []string{"counter"},
			actors:   [][]call{{takeAll(0)}, {takeOther(1), allow(1), reset()}},
			admits:   []int64{2},
			meets:    waits,
		},
		{
			name:     "two without an entry, charging",
			variants: []string{"counter"},
			before:   func(s *stage) { s.l.AllowN(s.b, 2) },
			actors:   [][]call{{takeAll(2)}, {allow(2)}},
			admits:   []int64{2},
		},
		{
			name:     "denied by what was never there at once",
			variants: []string{"counter"},
			before:   both(1, 0),
			actors:   [][]call{{takeAll(2)}, {takeOther(1), allow(1)}},
			admits:   []int64{2},
			meets:    losses | waits,
		},
	})
}

// A call on several keys finds room for those without an entry at the instant at which it finds
// the others as they are, not at an earlier one. It evicts a key that another call has just inserted
// once at most.
func TestSchedules_SeveralKeysUnderACap(t *testing.T) {
	// Once the third key has taken the last room, the first is charged.
	against := func(name string, c call) []scene {
		return []scene{{
			name:     name,
			variants: []string{"counter"},
			before:   taken(1, 0),
			actors:   [][]call{{c}, {takeNew(1), take(1)}},
			admits:   []int64{2},
		}}
	}
	for overflow, name := range map[Overflow]string{DenyNew: "DenyNew", ShareOverflow: "ShareOverflow"} {
		t.Run(name, func(t *testing.T) {
			playEach(t, against("one has no entry", peekAll(1)), WithMaxKeys(2, overflow))
		})
	}
	playEach(t, against("two have no entry, and are denied", takeAllOfThree(3)), WithMaxKeys(3, DenyNew))
}

// A map that one call makes while another clears it is there for the call that writes to it.
func TestSchedules_ALazyMapIsThereForWriting(t *testing.T) {
	r, err := schedule.Explore(func() schedule.Case {
		m, missing := new(lazyMap[int]), false
		write := func() { missing = missing || m.forWriting() == nil }
		return schedule.Case{Actors: []func(){write, write, m.clear}, Check: func([]schedule.Step) error {
			if missing {
				return errors.New("forWriting returned no map")
			}
			return nil
		}}
	})
	require.NoError(t, err)
	require.Greater(t, r.Schedules, 5)
}
