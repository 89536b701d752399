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
	"github.com/seed-30da4c49/sash/internal/schedule"
)

// Small cases are run through every schedule of their steps (see package schedule).
// After each of them there must be a serial order of the calls, in which none comes
// before one that had ended when it began, so that the same calls, one after the
// other, have the same answers, and leave behind what answers the same.

// mostRounds is the highest round that each loop may reach in any schedule. A call
// starts over because another made a step, so most of these grow with the calls that
// the others make in a scene. The rounds of takeAllLocked do not, nor do those that
// have a bound of their own.
var mostRounds = map[string]int{
	"log.ask": 4, "compound.ask": 4, "tryTakeAll": 4,
	"takeAllLocked under a cap": math.MaxInt, // while other calls have all the room
	"takeAllLocked":             3,
	"acquire":                   6, "lockOwn": 3, "counter.ask": 4, "wide.ask": 4,
	"ask": 4, "insert": 2, "lookup": 3, "find": 3, "forget": 3, "makeRoom": 5,
	"Reset": 3, "giveBack": 3, "spend": 4, "appendCell": 1, "appendKey": 1, "cells.lock": 4,
}

// A scene is a case.
type scene struct {
	name   string
	sorts  []string       // of limits that it is for; nil: all
	count  int64          // of the limit; 0: 3 units, a minute
	before func(s *stage) // what comes before the calls
	actors [][]call
	admits []int64         // how many units the calls are admitted, in some schedule or other: these, and no others
	leaves map[int64]int64 // by that, for how many more the first key has room at the end; nil: not told
	meets  meetings
}

// meetings are what must be met with in some schedule: without contention a scene
// shows nothing.
type meetings uint8

const (
	losses meetings = 1 << iota // a compare-and-swap is lost
	deaths                      // a dead cell is found
	waits                       // one waits for what another is at
)

// A call is one of a Limiter's, with its cost if it counts as admitted.
type call struct {
	name   string
	do     func(s *stage) any // returns its answer
	units  int64
	unsure bool // whether its answer need not be that of any serial order
	late   bool // whether its first reading of the clock is 0
}

func (c call) String() string { return c.name }

// A stage is where a scene is played once.
type stage struct {
	l           *Limiter
	kind        sort
	clock       *sceneClock
	a, b        string // two keys, of two shards
	reservation Reservation
	standing    standing // of the first key, for insert

	made    [][]made // by actor
	instant int      // counts beginnings and ends
}

// A made call began and ended at instants, read the clock and has an answer.
type made struct {
	began, ended int
	late         bool
	readings     []int64
	answer       any
}

// A sceneClock is a clock that says what it is set to, which is a step; or, while a
// script is played, what that says, the last of it for ever.
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

// A sort is a kind of cell, and what it takes to have a limiter keep its keys in it.
type sort struct {
	name   string
	limits func(count int64) []Limit // the first is the one that decides
	shape  func(l *Limiter) *Limiter
}

var sorts = []sort{
	{"counter", func(n int64) []Limit { return []Limit{Per(n, time.Minute)} }, nil},
	{"wide", func(n int64) []Limit { return []Limit{Per(n, time.Minute)} }, widen},
	{"log", func(n int64) []Limit { return []Limit{Per(n, time.Minute).Log()} }, nil},
	{"buckets", func(n int64) []Limit { return []Limit{Per(n, time.Minute).Buckets(30 * sec)} }, nil},
	{"two counters", func(n int64) []Limit { return []Limit{Per(n, time.Minute), Per(n+2, time.Minute/2)} }, nil},
	{"log and counter", func(n int64) []Limit { return []Limit{Per(n, time.Minute).Log(), Per(n+2, time.Minute/2)} }, nil},
}

// stage returns a stage on which the calls of sc can be made.
func (sc *scene) stage(t *testing.T, kind sort, options []Option) *stage {
	s := &stage{kind: kind, clock: new(sceneClock), made: make([][]made, len(sc.actors))}
	s.clock.stage = s
	options = append([]Option{WithClock(s.clock)}, options...)
	for _, l := range kind.limits(cmp.Or(sc.count, 3)) {
		options = append(options, l)
	}
	s.l = newTest(t, options...)
	s.l.hasher = testHasher
	if kind.shape != nil {
		kind.shape(s.l)
	}
	s.a, s.b = sceneKeys[0], sceneKeys[1]
	if sc.before != nil {
		sc.before(s)
	}
	return s
}

// sceneKeys are of different shards, in the order in which they are locked.
var sceneKeys = func() (keys [2]string) {
	for i, shard := 0, 0; shard < len(keys); i++ {
		if keys[shard] = strconv.Itoa(i); hashed(keys[shard]).shard() == shard {
			shard++
		}
	}
	return keys
}()

// A play is a scene under one kind of limits, and what was seen of it.
type play struct {
	*testing.T
	scene
	kind    sort
	options []Option

	orders   [][]int // of actors, each with its calls in order: every serial order
	serial   map[string]ending
	admitted map[int64]int // schedules, by the units admitted
	met      map[meetings]int
}

// An ending is what the calls answered, by actor, and what is left after them.
type ending struct {
	answers [][]any
	left    left
}

// What is left is what the keys answer now and later.
type left struct {
	peeks [18]Decision
	keys  int // once those that hold nothing are swept
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
	require.Greater(p, r.Schedules, 1, "none explored")
	require.Equal(p, p.admits, slices.Sorted(maps.Keys(p.admitted)), "units admitted")
	for _, m := range []meetings{losses, deaths, waits} {
		if p.meets&m != 0 {
			require.Positive(p, p.met[m], "no contention: this scene has shown nothing")
		}
	}
}

// interleave appends every order of the calls that begins with done.
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
			for _, one := range calls {
				s.play(actor, one)
			}
		})
	}
	return c
}

// play makes c and keeps what came of it.
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

// check looks at a stage after its calls.
func (p *play) check(s *stage, steps []schedule.Step) error {
	p.meet(steps)
	if err := s.l.settledDown(); err != nil {
		return err
	}
	var units int64
	for actor, calls := range p.actors {
		for i, c := range calls {
			if admitted(s.made[actor][i].answer) {
				units += c.units
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

func admitted(answer any) bool {
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
		if !step.Wrote && (step.Value == dead || step.Value == dead|several) {
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

// settledDown reports what is wrong with the table while nobody is at it.
func (l *Limiter) settledDown() (err error) {
	g, cells := l.now.Load(), 0
	if g.prior.Load() != nil {
		return errors.New("a regime has a prior one left")
	}
	g.keys.each(func(k key, c *cell) bool {
		word, counts := c.word.Load(), uint64(dead|locked)
		if word&several != 0 || g.policy.kind == logCell {
			counts |= growing
		}
		if cells++; word&counts != 0 {
			err = fmt.Errorf("the cell of %q is left as %x", k.name, word)
		}
		return true
	})
	if err == nil && cells != l.Len() {
		err = fmt.Errorf("%d cells, %d keys", cells, l.Len())
	}
	return err
}

// ending returns that of a stage.
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

// allows reports whether no call comes in order before one that had ended when it
// began.
func (s *stage) allows(order []int) bool {
	next := make([]int, len(s.made))
	latest := 0 // beginning of those so far
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

// follows reports whether got is the ending of the calls in an order, one after the
// other, at readings of the clock that they had.
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

// serially makes the calls in an order, each at the readings of its script, and
// returns how that ends at now.
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

// The calls.

func take(n int64) call {
	return call{name: "Take", units: n, do: func(s *stage) any { return s.l.Take(s.a, n) }}
}

func allow(n int64) call {
	return call{name: "AllowN", units: n, do: func(s *stage) any { return s.l.AllowN(s.a, n) }}
}

// late returns c with a reading of the clock that is as old as can be.
func late(c call) call {
	c.late = true
	return c
}

func peek(n int64) call {
	return call{name: "Peek", do: func(s *stage) any { return s.l.Peek(s.a, n) }}
}

func takeAll(n int64) call {
	return call{name: "TakeAll", units: n, do: func(s *stage) any { return s.l.TakeAll([]string{s.a, s.b}, n) }}
}

func takeAllBack(n int64) call {
	return call{name: "TakeAll in reverse", units: n, do: func(s *stage) any { return s.l.TakeAll([]string{s.b, s.a}, n) }}
}

func takeOther(n int64) call {
	return call{name: "Take of the second key", units: n, do: func(s *stage) any { return s.l.Take(s.b, n) }}
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

// insert is the part of a Take that makes an entry, by limits read beforehand.
func insert() call {
	return call{name: "insert", do: func(s *stage) any {
		s.l.insert(s.standing, s.l.key(s.a), nil)
		return nil
	}}
}

// sweep may count a key that a caller has inserted and not charged yet, and the
// caller then inserts once more.
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

// taken has n units of the first key taken at 0, and then it is so many seconds later.
func taken(n, seconds int64) func(s *stage) {
	return func(s *stage) {
		s.l.AllowN(s.a, n)
		s.clock.set(seconds)
	}
}

// playEach plays each scene under each of the sorts that it is for.
func playEach(t *testing.T, scenes []scene, options ...Option) {
	for _, sc := range scenes {
		for _, kind := range sorts {
			if sc.sorts != nil && !slices.Contains(sc.sorts, kind.name) {
				continue
			}
			t.Run(sc.name+"/"+kind.name, func(t *testing.T) {
				(&play{T: t, scene: sc, kind: kind, options: options}).run()
			})
		}
	}
}

// Three callers have a thousand times as many schedules as two, and so has what
// makes a ring or an entry in the table, so that not every scene is for all sorts.
var (
	inWords  = []string{"counter", "wide"}
	small    = []string{"counter", "wide", "log", "two counters"}
	logs     = []string{"log", "log and counter"}
	weighted = []string{"counter", "wide", "two counters"} // what is back bit by bit
	whole    = []string{"log", "buckets"}                  // and at once
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
			name:   "the last units for three",
			sorts:  inWords,
			before: taken(1, 0),
			actors: [][]call{{take(1)}, {allow(1)}, {take(1)}},
			admits: []int64{2},
			meets:  losses,
		},
		{
			name:   "a key never seen",
			sorts:  small,
			actors: [][]call{{take(2)}, {allow(2)}},
			admits: []int64{2},
			meets:  losses | waits,
		},
		{
			name:   "a key never seen for three",
			sorts:  []string{"wide"},
			actors: [][]call{{take(2)}, {allow(1)}, {peek(3)}},
			admits: []int64{3},
			meets:  losses,
		},
		{
			name:   "a peek beside a stream of calls",
			sorts:  []string{"log"},
			count:  9,
			before: taken(1, 0),
			actors: [][]call{{peek(1)}, {allow(1), allow(1), allow(1), allow(1)}},
			admits: []int64{4},
			meets:  waits,
		},
		{
			name:   "a peek between",
			before: taken(1, 0),
			actors: [][]call{{take(1), allow(1)}, {peek(1)}},
			admits: []int64{2},
		},
	})
}

// A denied attempt is charged, too.
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
			name:   "the last units for three",
			sorts:  inWords,
			before: taken(1, 0),
			actors: [][]call{{take(2)}, {allow(2)}, {take(1)}},
			admits: []int64{1, 2},
			meets:  losses,
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
			name:   "three in a new window",
			sorts:  []string{"counter"},
			before: taken(1, 90),
			actors: [][]call{{take(1)}, {allow(1)}, {allow(1)}},
			admits: []int64{2},
			meets:  losses,
		},
		{
			name:   "late readings",
			sorts:  weighted,
			before: taken(1, 0),
			actors: [][]call{{take(2)}, {allow(2)}, {setClock(90)}},
			admits: []int64{2},
			meets:  losses,
		},
		{
			name:   "late readings of a log", // what was taken at 0 and at 90 is not in one window
			sorts:  whole,
			before: taken(1, 0),
			actors: [][]call{{take(2)}, {allow(2)}, {setClock(90)}},
			admits: []int64{2, 4},
			meets:  losses,
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
			name:   "two callers, one of them late, and a sweep",
			sorts:  []string{"wide"},
			before: taken(3, 120),
			actors: [][]call{{late(allow(2))}, {allow(2)}, {sweep()}},
			admits: []int64{2},
			leaves: map[int64]int64{2: 1},
			meets:  losses | deaths,
		},
		{
			name:   "two sweeps",
			sorts:  []string{"wide"},
			before: taken(3, 120),
			actors: [][]call{{allow(2)}, {sweep()}, {sweep()}},
			admits: []int64{2},
			meets:  losses | deaths,
		},
		{
			name:   "a late reading",
			before: taken(3, 0),
			actors: [][]call{{take(2)}, {setClock(150), sweep()}},
			admits: []int64{0, 2},
			leaves: map[int64]int64{0: 3, 2: 1}, // what is admitted is booked in the present
			meets:  losses | deaths,
		},
		{
			name: "two late readings of a key evicted",
			before: func(s *stage) {
				taken(3, 150)(s)
				s.l.Sweep()
			},
			sorts:  weighted,
			actors: [][]call{{late(allow(2))}, {late(allow(2))}},
			admits: []int64{2},
			leaves: map[int64]int64{2: 1},
			meets:  losses,
		},
		{
			name: "two late readings of a log evicted",
			before: func(s *stage) {
				taken(3, 110)(s)
				s.l.Sweep()
			},
			sorts:  whole[:1],
			actors: [][]call{{late(allow(2))}, {late(allow(2))}},
			admits: []int64{2},
			leaves: map[int64]int64{2: 1},
			meets:  losses,
		},
		{
			name:   "a peek",
			before: taken(3, 120),
			actors: [][]call{{take(2)}, {peek(2)}, {sweep()}},
			sorts:  inWords,
			admits: []int64{2},
			meets:  losses | deaths,
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
			name:   "with two callers",
			sorts:  inWords,
			before: taken(3, 0),
			actors: [][]call{{allow(2)}, {allow(2)}, {reset()}},
			admits: []int64{0, 2},
			meets:  deaths,
		},
		{
			name:   "beside a peek",
			sorts:  inWords,
			before: taken(3, 0),
			actors: [][]call{{take(2)}, {peek(1)}, {reset()}},
			admits: []int64{0, 2},
			meets:  deaths,
		},
	})
}

func TestSchedules_AroundALogsGrowth(t *testing.T) {
	full := func(s *stage) { // of the two runs that it has room for
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
			name:   "two need room",
			sorts:  logs,
			count:  5,
			before: full,
			actors: [][]call{{take(1)}, {allow(2)}},
			admits: []int64{3},
			meets:  losses | waits,
		},
		{
			name:   "two need room for the last unit",
			sorts:  logs,
			before: full,
			actors: [][]call{{take(1)}, {allow(1)}},
			admits: []int64{1},
			meets:  losses,
		},
		{
			name:   "three need room",
			sorts:  []string{"log"},
			count:  5,
			before: full,
			actors: [][]call{{allow(1), allow(1)}, {allow(1)}},
			admits: []int64{3},
			meets:  losses | waits,
		},
		{
			name:   "one needs room and the key is reset",
			sorts:  logs,
			count:  5,
			before: full,
			actors: [][]call{{take(1)}, {reset()}},
			admits: []int64{1},
			meets:  losses | waits | deaths,
		},
		{
			name:   "one needs room and the limits change",
			sorts:  logs,
			count:  5,
			before: full,
			actors: [][]call{{take(1)}, {setLimits(6)}},
			admits: []int64{1},
			meets:  losses | waits | deaths,
		},
		{
			name:   "room is given back",
			sorts:  logs,
			count:  40,
			before: burst,
			actors: [][]call{{take(1)}, {sweep()}},
			admits: []int64{1},
			meets:  losses | waits,
		},
		{
			name:   "room is given back beside two",
			sorts:  []string{"log"},
			count:  40,
			before: burst,
			actors: [][]call{{take(1)}, {peek(1)}, {sweep()}},
			admits: []int64{1},
			meets:  losses | waits,
		},
	})
}

// The low part of a large counter's word overflows.
func TestSchedules_AroundAnOverflow(t *testing.T) {
	brim := func(s *stage) {
		s.l.AllowN(s.a, 1)
		s.l.AllowN(s.a, lowMask-2)
	}
	playEach(t, []scene{
		{
			name:   "of two",
			sorts:  []string{"wide"},
			count:  lowMask + 2,
			before: brim,
			actors: [][]call{{take(2)}, {allow(2)}},
			admits: []int64{2},
			meets:  losses,
		},
		{
			name:   "of three",
			sorts:  []string{"wide"},
			count:  lowMask + 5,
			before: brim,
			actors: [][]call{{take(2)}, {allow(2)}, {take(2)}},
			admits: []int64{6},
			meets:  losses | waits,
		},
	})
}

func TestSchedules_Reservations(t *testing.T) {
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

// Calls that make one key at once take one place for it. So none of them finds the table
// full because of the others, and none evicts what another has just charged.
func TestSchedules_OneNewKeyUnderACap(t *testing.T) {
	for overflow, name := range map[Overflow]string{
		EvictLeastUsed: "EvictLeastUsed", DenyNew: "DenyNew", ShareOverflow: "ShareOverflow",
	} {
		t.Run(name, func(t *testing.T) {
			playEach(t, []scene{
				{
					name:   "both fit",
					sorts:  []string{"counter", "log"},
					actors: [][]call{{allow(2)}, {take(1)}},
					admits: []int64{3},
					meets:  waits,
				},
				{
					name:   "one fits",
					sorts:  []string{"counter"},
					actors: [][]call{{take(2)}, {peek(2), allow(2)}},
					admits: []int64{2},
					meets:  waits,
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
			name:   "SetLimits of a key taken from while another looks for it",
			sorts:  []string{"counter", "wide", "two counters"},
			actors: [][]call{{peek(1)}, {allow(2), setLimits(4)}},
			admits: []int64{2},
		},
		{
			// A Peek that finds the override must not come before a call that is still
			// decided by the limits from before it.
			name:   "SetLimits of a key that is being inserted, and a peek",
			sorts:  []string{"counter"},
			before: func(s *stage) { s.standing = s.l.standing(s.l.now.Load(), s.a) },
			actors: [][]call{{insert()}, {setLimits(5)}, {peek(4), peek(4)}},
			admits: []int64{0},
		},
		{
			// Nor must a call that is denied whatever is charged, and so stores nothing.
			name:   "SetLimits of a key that is being inserted, and an impossible cost",
			sorts:  []string{"counter"},
			before: func(s *stage) { s.standing = s.l.standing(s.l.now.Load(), s.a) },
			actors: [][]call{{insert()}, {setLimits(5)}, {take(9), peek(4)}},
			admits: []int64{0},
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
			name:   "Reconfigure with two callers",
			sorts:  []string{"counter"},
			before: taken(2, 0),
			actors: [][]call{{allow(2)}, {allow(1)}, {reconfigure(4)}},
			admits: []int64{1, 2},
			meets:  losses | deaths,
		},
		{
			name:   "Reconfigure and a reset",
			before: taken(2, 0),
			actors: [][]call{{reset()}, {reconfigure(4)}},
			admits: []int64{0},
			meets:  deaths,
		},
		{
			name:   "Reconfigure and a reservation",
			sorts:  []string{"counter", "log"},
			before: taken(2, 0),
			actors: [][]call{{reserve(1), commit(0)}, {reconfigure(4)}},
			admits: []int64{0},
			meets:  deaths,
		},
	})
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
			name:   "and one of them",
			before: both(1, 0),
			actors: [][]call{{takeAll(2)}, {takeOther(2)}},
			admits: []int64{2},
			meets:  losses | waits,
		},
		{
			name:   "and each of them",
			sorts:  inWords,
			before: both(1, 0),
			actors: [][]call{{takeAll(2)}, {takeOther(2)}, {allow(2)}},
			admits: []int64{2, 4},
			meets:  losses | waits,
		},
		{
			name:   "never seen",
			sorts:  inWords,
			actors: [][]call{{takeAll(2)}, {takeAllBack(2)}},
			admits: []int64{2},
			meets:  losses | waits,
		},
		{
			name:   "and a sweep",
			sorts:  inWords,
			before: both(3, 120),
			actors: [][]call{{takeAll(2)}, {sweep()}},
			admits: []int64{2},
			meets:  deaths,
		},
		{
			name:   "and a reset of one",
			sorts:  inWords,
			before: both(3, 0),
			actors: [][]call{{takeAll(0), takeOther(1)}, {reset()}},
			admits: []int64{0},
			meets:  deaths,
		},
		{
			name:   "beside a stream of calls on one of them, charging",
			sorts:  []string{"counter"},
			count:  9,
			before: both(1, 0),
			actors: [][]call{{takeAll(1)}, {takeOther(1), takeOther(1), takeOther(1), takeOther(1), takeOther(1), takeOther(1)}},
			admits: []int64{7},
			meets:  losses | waits,
		},
		{
			name:   "beside a stream of calls on one of them, asking",
			sorts:  []string{"counter"},
			count:  9,
			before: both(1, 0),
			actors: [][]call{{takeAll(0)}, {takeOther(1), takeOther(1), takeOther(1), takeOther(1), takeOther(1)}},
			admits: []int64{5},
			meets:  waits,
		},
		{
			name:  "beside a stream of calls on one of them, denied",
			sorts: []string{"counter"},
			count: 9,
			before: func(s *stage) {
				both(1, 0)(s)
				s.l.AllowN(s.a, 8)
			},
			actors: [][]call{{takeAll(1)}, {takeOther(1), takeOther(1), takeOther(1), takeOther(1), takeOther(1), takeOther(1)}},
			admits: []int64{6},
			meets:  waits,
		},
		{
			name:   "two without an entry",
			sorts:  []string{"counter"},
			actors: [][]call{{takeAll(0)}, {takeOther(1), allow(1), reset()}},
			admits: []int64{2},
			meets:  waits,
		},
		{
			name:   "two without an entry, charging",
			sorts:  inWords,
			before: func(s *stage) { s.l.AllowN(s.b, 2) },
			actors: [][]call{{takeAll(2)}, {allow(2)}},
			admits: []int64{2},
		},
		{
			name:   "denied by what was never there at once",
			sorts:  inWords,
			before: both(1, 0),
			actors: [][]call{{takeAll(2)}, {takeOther(1), allow(1)}},
			admits: []int64{2},
			meets:  losses | waits,
		},
	})
}
