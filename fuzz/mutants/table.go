package main

// mutants are the faults: those that the field is known for, and others as easily
// made, room by room. A text is as short as is enough to stand in its file once, so
// that it outlives what happens around it.
var mutants = []mutant{
	// The sliding counter.
	{
		name: "counter-rewinds", fault: "a late reading clears the window it is late for",
		file: "window.go", old: "case index < w.index:", new: "case index < w.index && false:",
		tests: "TestRace_LateReadings|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-late-offset", fault: "a late reading keeps its place, in a window it is not of",
		file: "window.go", old: "return moment{w, behind(t, w.index*int64(r.Window))}", new: "return moment{w, elapsed}",
		tests: "TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-no-prev", fault: "curr does not become prev",
		file: "window.go", old: "return window{index, w.curr, 0}", new: "return window{index, 0, 0}",
		tests: "TestCounter",
	},
	{
		name: "counter-half-rotated", fault: "curr becomes prev, and stays",
		file: "window.go", old: "return window{index, w.curr, 0}", new: "return window{index, w.curr, w.curr}",
		tests: "TestCounter",
	},
	{
		name: "counter-rotated-twice", fault: "curr is lost to a second rotation, prev is not",
		file: "window.go", old: "return window{index, w.curr, 0}", new: "return window{index, w.prev, 0}",
		tests: "TestCounter",
	},
	{
		name: "counter-idle-remembers", fault: "after a longer idle the last count still weighs",
		file: "window.go", old: "return window{index: index}\n", new: "return window{index, w.curr, 0}\n",
		tests: "TestCounter",
	},
	{
		name: "counter-epoch-wraps", fault: "idle for as long as 16 bits of epoch: an old count is read as current",
		file: "window.go", old: "case index == w.index:", new: "case (index-w.index)&0xffff == 0:",
		tests: "TestCounter_Idle",
	},
	{
		name: "counter-word-too-small", fault: "windows that do not fit the word are put there",
		file: "window.go", old: "fits := windows < locked &&", new: "fits := windows < locked ||",
		tests: "TestLayout|TestCounter_Idle",
	},
	{
		name: "counter-weight-truncated", fault: "the weight of prev is rounded down: one more is admitted",
		file: "window.go", old: "roomHi, roomLo := bits.Mul64(uint64(room), uint64(r.Window))",
		new: "whole, _ := bits.Div64(hi, lo, uint64(r.Window))\n" +
			"hi, lo = bits.Mul64(whole, uint64(r.Window))\n" +
			"roomHi, roomLo := bits.Mul64(uint64(room), uint64(r.Window))",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-refuses-the-last", fault: "what fits to the unit is denied",
		file: "window.go", old: "lo <= roomLo", new: "lo < roomLo",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-64-bit-products", fault: "products are cut to 64 bits",
		file: "window.go", old: "return hi < roomHi || hi == roomHi && lo <= roomLo", new: "_, _ = hi, roomHi\nreturn lo <= roomLo",
		tests: "TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-remaining-rounds-up", fault: "Remaining says one more than is admitted",
		file: "window.go", old: "weighted++", new: "weighted += 0",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-retry-forgets-curr", fault: "RetryAfter lets prev fade, and forgets that curr becomes prev",
		file: "window.go", old: "size-elapsed+r.faded(m.curr, r.Count-n))", new: "size-elapsed)",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-retry-is-the-window", fault: "RetryAfter is until the window ends",
		file: "window.go", old: "saturate(m.late(), from-elapsed)", new: "saturate(m.late(), size-elapsed)",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-retry-rounds-up", fault: "RetryAfter is a nanosecond too long",
		file: "window.go", old: "return uint64(r.Window) - left", new: "return uint64(r.Window) - left + 1",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-late-waits-too-short", fault: "RetryAfter of a late reading counts from the window's start",
		file: "window.go", old: "return uint64(-min(m.offset, 0))", new: "return 0",
		tests: "TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-resets-too-soon", fault: "ResetAfter forgets that curr becomes prev",
		file: "window.go", old: "return saturate(m.late(), size-elapsed+size)", new: "return saturate(m.late(), size-elapsed)",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-swept-too-soon", fault: "a sweep drops what still weighs as prev",
		file: "window.go", old: "counting := int64(2)", new: "counting := int64(1)",
		tests: "TestSweep_EvictsExactly|TestAnswers_AreTheSame",
	},
	{
		name: "counter-window-one-too-long", fault: "a window's end belongs to it",
		file: "window.go", old: "uint64(elapsed) < uint64(r.Window)", new: "uint64(elapsed) <= uint64(r.Window)",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-truncates-below-zero", fault: "instants before 0 are rounded towards it",
		file: "window.go", old: "rest < 0 {", new: "rest < -d {",
		tests: "TestAnswers_EqualTheReferences|TestWait_OnAClockBelowZero",
	},
	{
		name: "counter-hint-of-no-window", fault: "the hint names a window that began before time",
		file: "window.go", old: "if index*int64(r.Window) <= t {", new: "if true {",
		tests: "TestCounter_Steps",
	},
	{
		name: "counter-starts-in-the-past", fault: "a late reading books an evicted key into its forgotten past",
		file: "window.go", old: "start := r.start(t)", new: "start := t",
		tests: "TestEvict",
	},
	{
		name: "counter-two-steps", fault: "it checks, then counts",
		file: "window.go", old: "!c.word.CompareAndSwap(word, r.layout.pack(m.window))", new: "c.word.Swap(r.layout.pack(m.window)) == locked",
		tests: "TestRace_TightLoops",
	},
	{
		name: "counter-quick-two-steps", fault: "the short way checks, then counts",
		file: "window.go", old: "return true, c.word.CompareAndSwap(word, word+uint64(n))", new: "return true, c.word.Swap(word+uint64(n)) != 0",
		tests: "TestRace_TightLoops",
	},
	{
		name: "counter-quick-adds", fault: "the short way charges whatever the word has become",
		file: "window.go", old: "return true, c.word.CompareAndSwap(word, word+uint64(n))", new: "time.Sleep(1)\nreturn true, c.word.Add(uint64(n)) != 0",
		tests: "TestRace_OneKey",
	},
	{
		name: "counter-quick-no-lock-bit", fault: "the short way charges a cell that is locked",
		file: "window.go", old: "if word>>(2*r.layout.count&63)", new: "if word&^locked>>(2*r.layout.count&63)",
		tests: "TestQuick",
	},
	{
		name: "counter-quick-denied-free", fault: "the short way lets denied attempts go uncharged",
		file: "window.go", old: "return false, !r.chargeDenied", new: "return false, true",
		tests: "TestCounter_ChargesDenied|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-charges-the-dead", fault: "a call charges a cell that a sweep has killed",
		file: "window.go", old: "if word&dead != 0 {", new: "if word == 0 && word&dead != 0 {",
		tests: "TestEvict|TestRace_SweepsLoseNothing",
	},
	{
		name: "counter-no-lock-bit", fault: "a call passes over the lock of those that take several keys",
		file: "window.go", old: "if word&locked != 0 {", new: "if word == 0 && word&locked != 0 {",
		tests: "TestTake_Awaits",
	},

	// Its wide cell.
	{
		name: "wide-believes-torn-reads", fault: "a denial is answered from halves of two states",
		file: "wide.go", old: "return (c.word.Load()^word)>>lowBits == 0", new: "return true",
		tests: "TestWideCounter_Knows",
	},
	{
		name: "wide-generation-stays", fault: "a lock ends in the generation that it began in",
		file: "wide.go", old: "(word>>lowBits + 1) << lowBits", new: "(word >> lowBits) << lowBits",
		tests: "TestWideCounter_Knows",
	},
	{
		name: "wide-carries", fault: "the low bits carry into the generation",
		file: "wide.go", old: "more <= lowMask-word&lowMask", new: "more <= lowMask",
		tests: "TestWideCounter",
	},
	{
		name: "wide-quick-carries", fault: "on the short way the low bits carry into the generation",
		file: "wide.go", old: "uint64(n) > lowMask-word&lowMask", new: "uint64(n) > lowMask",
		tests: "TestWideCounter",
	},
	{
		name: "wide-quick-old-window", fault: "the short way reads an old count as current",
		file: "wide.go", old: "w.index != index || w.curr == 0", new: "w.curr == 0",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "wide-quick-no-lock-bit", fault: "the short way reads what is being written",
		file: "wide.go", old: "word&(dead|several|locked) != 0", new: "word&(dead|several) != 0",
		tests: "TestQuick",
	},
	{
		name: "wide-no-prev", fault: "a new window does not write prev",
		file: "wide.go", old: "c.prev.Store(after.prev)", new: "",
		tests: "TestCounter",
	},

	// Logs and buckets.
	{
		name: "log-back-late", fault: "a unit is back a nanosecond late",
		file: "log.go", old: "uint64(t)-uint64(v.at(i)) < uint64(span)", new: "uint64(t)-uint64(v.at(i)) <= uint64(span)",
		tests: "TestLog",
	},
	{
		name: "log-rewinds", fault: "a late reading is booked before what is there",
		file: "log.go", old: "a.at = max(r.tickOf(q.at), newest)", new: "a.at = r.tickOf(q.at)",
		tests: "TestLog|TestAnswers_EqualTheReferences",
	},
	{
		name: "log-starts-in-the-past", fault: "a late reading books an evicted key into its forgotten past",
		file: "log.go", old: "a.at = r.tickOf(r.start(q.at))", new: "a.at = r.tickOf(q.at)",
		tests: "TestEvict",
	},
	{
		name: "log-without-bound", fault: "denied attempts that are charged make it grow without end",
		file: "log.go", old: "if r.chargeDenied { // more than Count", new: "if r.chargeDenied && v == nil { // more than Count",
		tests: "TestLog_ChargesDenied",
	},
	{
		name: "log-run-for-each-unit", fault: "units of one instant take a run each",
		file: "log.go", old: "a.merge = a.at == newest", new: "a.merge = a.at != a.at",
		tests: "TestLog",
	},
	{
		name: "log-room-past-count", fault: "its room is more than Count will ever need",
		file: "log.go", old: "room = int(min(int64(room), most))", new: "room = int(max(int64(room), most))",
		tests: "TestLog_Grows",
	},
	{
		name: "log-two-steps", fault: "it checks, then counts",
		file: "log.go", old: "if !c.lock(word) {", new: "if !c.lock(word) && word == dead {",
		tests: "TestRace_SweepsLoseNothing",
	},
	{
		name: "log-grows-over-a-charge", fault: "what is charged while it grows is lost",
		file: "log.go", old: "if c.reserve(word) {", new: "if c.reserve(word) || true {",
		tests: "TestLog_GrowsOnly",
	},
	{
		name: "log-shrinks-back-to-life", fault: "a dead log that shrinks is alive again",
		file: "log.go", old: "next != nil && alive &&", new: "next != nil && (alive || true) &&",
		tests: "TestLog_DoesNotShrink",
	},
	{
		name: "log-shrinks-over-a-charge", fault: "what is charged while it shrinks is lost",
		file: "log.go", old: "&& alive && c.reserve(word) {", new: "&& alive {",
		tests: "TestRace_LogsShrink",
	},
	{
		name: "log-believes-torn-reads", fault: "a denial is answered from halves of two states",
		file:  "log.go",
		old:   "v := c.ring.Load().view()\n\t\ta, allowed := r.consult(&v, q)\n\t\ta.units = r.cost(q, allowed, a.booked)\n\t\tif d != nil {\n\t\t\tr.logged(d, &v, &a, q, allowed)\n\t\t}\n\t\tswitch store := q.charge && a.units > 0; {\n\t\tcase !store:\n\t\t\tif c.unchanged(word) {",
		new:   "v := c.ring.Load().view()\natomic.Pause(nil)\nv.total = c.ring.Load().view().total\na, allowed := r.consult(&v, q)\na.units = r.cost(q, allowed, a.booked)\nif d != nil {\nr.logged(d, &v, &a, q, allowed)\n}\nswitch store := q.charge && a.units > 0; {\ncase !store:\nif true {",
		tests: "TestRace_PeeksSeeOneState",
	},
	{
		name: "log-retry-of-the-oldest", fault: "RetryAfter is when the first unit is back, whatever the cost",
		file: "log.go", old: "return v.at(max(0, v.holding(uint64(units))-1))", new: "return v.at(min(v.count-1, v.live(a.at, math.MaxInt64)))",
		tests: "TestLog|TestAnswers_EqualTheReferences",
	},
	{
		name: "log-swept-too-soon", fault: "a sweep drops what counts for a nanosecond more",
		file: "log.go", old: "uint64(tick)-uint64(units) < uint64(r.span)", new: "uint64(tick)-uint64(units) < uint64(r.span)-1",
		tests: "TestSweep_EvictsExactly|TestAnswers_AreTheSame",
	},
	{
		name: "buckets-rounded-down", fault: "a precision that does not divide the window loses a bucket",
		file: "buckets.go", old: "int64((l.Window-1)/l.Precision) + 1", new: "int64(l.Window / l.Precision)",
		tests: "TestAnswers_EqualTheReferences",
	},
	{
		name: "buckets-retry-from-their-start", fault: "RetryAfter counts from the bucket's start",
		file: "buckets.go", old: "return time.Duration(lo - uint64(elapsed))", new: "return time.Duration(lo)",
		tests: "TestAnswers_EqualTheReferences",
	},
	{
		name: "buckets-truncate-below-zero", fault: "instants before 0 are rounded towards it",
		file: "buckets.go", old: "return divide(t, r.tick)", new: "return t / r.tick, t % r.tick",
		tests: "TestAnswers_EqualTheReferences",
	},

	// The life of a cell.
	{
		name: "cell-killed-unseen", fault: "a sweep finds a key idle, then kills it unseen",
		file: "cell.go", old: "return c.word.CompareAndSwap(word, dead|word&several)", new: "c.word.Store(dead | word&several); return true",
		tests: "TestEvict|TestRace_SweepsLoseNothing",
	},
	{
		name: "cell-no-lock-bit", fault: "a lock is not taken",
		file: "cell.go", old: "return c.word.CompareAndSwap(word, word|locked)", new: "return c.word.Load() == word",
		tests: "TestRace_TakeAllInAnyOrder|TestRace_EveryLimit",
	},
	{
		name: "cell-lock-not-awaited", fault: "a lock is passed over",
		file: "cell.go", old: "if word&locked == 0 {", new: "if true {",
		tests: "TestTake_Awaits",
	},
	{
		name: "cell-grown-by-two", fault: "two make room at once, and one loses what the other holds",
		file: "cell.go", old: "return word&growing == 0 && c.word", new: "return c.word",
		tests: "TestLog_WhileItGrows",
	},
	{
		name: "cell-version-stays", fault: "a state that comes and goes is not noticed (ABA)",
		file: "cell.go", old: "return (word + 1) &^", new: "return word &^",
		tests: "TestLog_GrowsOnly",
	},
	{
		name: "cell-survives-its-successor", fault: "a cell that gave way to another is charged on",
		file: "cell.go", old: "c.word.Store(dead | word&several)", new: "c.word.Store(word)",
		tests: "TestReserve_Carries|TestRace_ChangingLimits",
	},
	{
		name: "cell-settled-while-it-grows", fault: "a log that is making room is carried over, killed or given back to",
		file: "cell.go", old: "if word&growing == 0 ||", new: "if true || word&growing == 0 ||",
		tests: "TestReset_Awaits",
	},
	{
		name: "cell-believes-torn-reads", fault: "an answer is not proven to be of one state",
		file: "cell.go", old: "return c.word.Load() == word", new: "return true",
		tests: "TestTakeAll_IsNotDenied",
	},

	// The table.
	{
		name: "table-removes-the-successor", fault: "who removes a dead cell removes the one that took its place",
		file: "sharded.go", old: "if found == c {\n\t\t\treturn nil", new: "if found != nil {\n\t\t\treturn nil",
		tests: "TestSharded",
	},

	{
		name: "table-inserts-over", fault: "of two that see a key first, the second replaces the cell of the first",
		file: "sharded.go", old: "if found == nil && still() {", new: "if still() {",
		tests: "TestSharded",
	},

	{
		name: "table-inserts-late", fault: "a key is given a cell under limits that no longer hold",
		file: "sharded.go", old: "if found == nil && still() {", new: "if found == nil {",
		tests: "TestWithLimitsFor_While",
	},

	{
		name: "table-writes-to-the-old", fault: "who waited while a map grew writes to what it was before, and is lost",
		file: "cells.go", old: "if m.grid.Load() == g {", new: "if g != nil {",
		tests: "TestRace_Cells|TestRace_Shards",
	},

	{
		name: "table-keeps-callers-bytes", fault: "the table keeps a key whose bytes the caller reuses",
		file: "cell.go", old: "= elsewhere, strings.Clone(name)", new: "= elsewhere, strings.TrimSuffix(name, \"\")",
		tests: "TestLimiter_KeepsACopy",
	},
	{
		name: "table-compares-tags", fault: "two keys of one shard, home and tag share a quota",
		file: "cells.go", old: "if c := m.guess(k); c != nil && c.named(k.name) {", new: "if c := m.guess(k); c != nil {",
		tests: "TestSharded_ComparesWhole|TestCells",
	},
	{
		name: "allow-compares-tags", fault: "the same, where Allow guesses",
		file: "limiter.go", old: "if c != nil && c.length == uint64(len(key)) && same(c.behind(), key) {", new: "if c != nil {",
		tests: "TestAllow_ComparesWhole",
	},
	{
		name: "names-by-their-beginnings", fault: "two keys that begin alike share a quota",
		file: "cell.go", old: "== *(*uint64)(p) && *(*uint64)(unsafe.Add(a, n-8)) == *(*uint64)(unsafe.Add(p, n-8))", new: "== *(*uint64)(p)",
		tests: "TestCell_IsNamedByEveryByte",
	},
	{
		name: "table-stops-early", fault: "a key that found its home full is not found any more",
		file: "cells.go", old: "if tags < onePast {", new: "if tags < 2*onePast {",
		tests: "TestCells",
	},
	{
		name: "table-forgets-passers", fault: "with one key that passed a bucket, all that did are lost",
		file: "cells.go", old: "passed.Store(tags - onePast)", new: "passed.Store(tags % onePast)",
		tests: "TestCells",
	},
	{
		name: "table-count-wraps", fault: "256 keys that pass a bucket are none",
		file: "cells.go", old: "if tags/onePast < manyPast {\n\t\t\tb.tags", new: "{\n\t\t\tb.tags",
		tests: "TestCells",
	},
	{
		name: "table-searches-for-ever", fault: "who looks for what is not there goes round and round",
		file: "cells.go", old: "for i := range uint64(len(g.buckets)) {\n\t\tbucket", new: "for i := uint64(0); ; i++ {\n\t\tbucket",
		tests: "TestCells_AllBucketsPassed",
	},
	{
		name: "table-grows-astray", fault: "keys are not found where a map that has grown has put them",
		file: "cells.go", old: "g.add(key{hash: g.hasher(names[i])}, c)", new: "g.add(key{hash: uint64(i)}, c)",
		tests: "TestCells|TestSharded",
	},
	{
		name: "table-grows-at-once", fault: "all shards grow at the same moment",
		file: "cells.go", old: "int64(3*shards+2*shard) / (6 * shards)", new: "3 / 4",
		tests: "TestSharded_ShardsGrowInTurn",
	},
	{
		name: "table-replaces-nothing", fault: "a cell that is to give way to another stays",
		file: "cells.go", old: "g.buckets[bucket].places[place].Store(next)", new: "g.buckets[bucket].places[place].Store(found)",
		tests: "TestCells|TestReconfigure|TestReserve",
	},

	{
		name: "hash-without-a-seed", fault: "keys that collide can be made",
		file: "hash.go", old: "return hasher{rand.Uint64(), maphash.MakeSeed()}", new: "return hasher{rand.Uint64() & 0, maphash.MakeSeed()}",
		tests: "TestHasher",
	},

	// Eviction.
	{
		name: "evict-without-dead-mark", fault: "an idle key is deleted, not killed: a call under way charges what is gone",
		file: "maxkeys.go", old: "found == c && c.kill(word); !killed", new: "found == c && c.unchanged(word); !killed",
		tests: "TestEvict|TestRace_SweepsLoseNothing",
	},
	{
		name: "room-evicts-its-own-key", fault: "calls that make one key at once evict it in turn, for ever",
		file: "maxkeys.go", old: "return l.full(g, 1, self[:])", new: "return l.full(g, 1, self[:0])",
		tests: "TestMaxKeys_MakesNoRoom",
	},
	{
		name: "evict-waited-for", fault: "a key is evicted while calls wait for it",
		file: "gc.go", old: "l.queues.waiting(k.name) || ", new: "",
		tests: "TestWait_KeepsItsKey",
	},
	{
		name: "evict-forgets-no-past", fault: "a late reading finds the quota of an evicted key again",
		file: "policy.go", old: "p.forget(since)", new: "_ = since",
		tests: "TestEvict",
	},
	{
		name: "evict-moves-past-back", fault: "a second eviction makes the first one's past come back",
		file: "policy.go", old: "if since <= old || ", new: "if ",
		tests: "TestRule_Forgotten",
	},
	{
		name: "evict-while-it-grows", fault: "a log that is making room is evicted",
		file: "policy.go", old: "since, ok = r.expired(&v, now)\n\t\treturn word, since, ok && word&growing == 0", new: "since, ok = r.expired(&v, now)\n\t\treturn word, since, ok",
		tests: "TestLog_WhileItGrows|TestEvict",
	},
	{
		name: "evict-by-the-first-limit", fault: "a key is evicted as soon as its first limit is fresh",
		file: "compound.go", old: "if !ok {", new: "if !ok && i == 0 {",
		tests: "TestPolicies_AreTheSame",
	},
	{
		name: "evict-forgets-first-limit", fault: "the past is forgotten only until the first limit is fresh",
		file: "compound.go", old: "if i == 0 || from > since {", new: "if i == 0 {",
		tests: "TestEvict",
	},
	{
		name: "janitor-holds-its-limiter", fault: "a limiter dropped without Close is never collected",
		file: "gc.go", old: "defer timer.Stop()", new: "defer timer.Stop()\ndefer runtime.KeepAlive(l.Value())",
		tests: "TestJanitor_EndsOnce",
	},
	{
		name: "janitor-sleeps-for-a-window", fault: "the janitor of a year's window comes once a year",
		file: "gc.go", old: "return min(max(longest/2, time.Second), 10*time.Minute)", new: "return max(longest/2, time.Second)",
		tests: "TestSweepInterval",
	},

	// Costs, and who is charged.
	{
		name: "cost-below-zero", fault: "a negative cost gives quota back",
		file: "policy.go", old: "return 0 <= n && n <= r.Count", new: "return n <= r.Count",
		tests: "TestLimiter_CostsAreAnything|TestAnswers_EqualTheReferences",
	},
	{
		name: "cost-of-a-denial", fault: "denied calls are charged unasked",
		file: "policy.go", old: "case q.denied:", new: "case q.denied || q.charge:",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "cost-of-denials-unbounded", fault: "charged denials pass Count",
		file: "policy.go", old: "return min(max(q.n, 0), max(r.Count-booked, 0))", new: "return max(q.n, 0)",
		tests: "TestCounter_ChargesDenied|TestAnswers_EqualTheReferences",
	},
	{
		name: "cost-of-a-denial-below-zero", fault: "a negative cost that is denied gives quota back",
		file: "policy.go", old: "return min(max(q.n, 0), max(r.Count-booked, 0))", new: "return min(q.n, max(r.Count-booked, 0))",
		tests: "TestLimiter_CostsAreAnything|TestAnswers_EqualTheReferences",
	},
	{
		name: "take-tracks-denied-keys", fault: "keys that are never admitted fill the memory",
		file: "limiter.go", old: "if !q.stores(s.policy.possible(q.n)) {", new: "if !q.charge {",
		tests: "TestTake_ADenial",
	},
	{
		name: "take-charges-the-past", fault: "a call that finds its key evicted charges the instant it read before",
		file: "limiter.go", old: "now, not then.\n\t\t\t\tq.at = g.at(l.clock.Now())", new: "now, not then.",
		tests: "TestEvict",
	},
	{
		name: "reset-without-dead-mark", fault: "a key that is reset is deleted, not killed",
		file: "limiter.go", old: "g.kill(k, c, word|locked) //", new: "g.keys.remove(k, c)\nc.word.Store(word) //",
		tests: "TestReserve|TestCancel",
	},

	// Several limits, several keys.
	{
		name: "limits-first-only", fault: "only the first limit is asked",
		file: "compound.go", old: "if !c.policy.rules[i].admitted", new: "if i == 0 && !c.policy.rules[i].admitted",
		tests: "TestSeveralLimits|TestPolicies_EqualTheReference",
	},
	{
		name: "limits-charged-in-sequence", fault: "a call that one limit denies is charged to those before it",
		file: "compound.go", old: "allowed := c.admits(q)",
		new: "allowed := c.admits(q)\n" +
			"if r, p := &c.policy.rules[0], &c.parts[0]; !allowed && q.charge && r.Algorithm == SlidingCounter && r.admitted(p, q) && c.lock(word) {\n" +
			"r.answer(p, q, true, true, nil)\n" +
			"c.unlock(word)\n" +
			"}",
		tests: "TestPolicies_EqualTheReference",
	},
	{
		name: "limits-no-prev", fault: "under several limits curr does not become prev",
		file: "compound.go", old: "p.prev.Store(w.prev)\n\t}", new: "}",
		tests: "TestPolicies_EqualTheReference",
	},
	{
		name: "limits-two-steps", fault: "several limits are checked, then charged",
		file: "compound.go", old: "case c.roomy(word, q) && c.lock(word):", new: "case c.roomy(word, q):",
		tests: "TestRace_EveryLimit",
	},
	{
		name: "limits-believe-torn-reads", fault: "a denial is answered from halves of two states",
		file:  "compound.go",
		old:   "allowed := c.admits(q)\n\t\tswitch {\n\t\tcase !q.stores(allowed):\n\t\t\tif d != nil {\n\t\t\t\tc.answer(q, allowed, false, d)\n\t\t\t}\n\t\t\tif c.unchanged(word) {",
		new:   "allowed := c.admits(q)\natomic.Pause(nil)\nswitch {\ncase !q.stores(allowed):\nif d != nil {\nc.answer(q, allowed, false, d)\n}\nif true {",
		tests: "TestRace_PeeksSeeOneState",
	},
	{
		name: "limits-old-window", fault: "the short way reads an old count as current",
		file: "compound.go", old: "ok && w.index == index && w.curr > 0", new: "ok && w.curr > 0",
		tests: "TestPolicies_EqualTheReference",
	},
	{
		name: "limits-overflow", fault: "what is spent past the limit wraps to less than nothing",
		file: "compound.go", old: "m.curr = plus(m.curr, r.cost(q, admitted, m.curr))", new: "m.curr += r.cost(q, admitted, m.curr)",
		tests: "TestCommit",
	},
	{
		name: "limits-one-line", fault: "two limits pass for one when a charge is given back",
		file: "compound.go", old: "c.parts[i].line = line - uint64(i)", new: "c.parts[i].line = line",
		tests: "TestReserve|TestCancel",
	},
	{
		name: "limits-shortest-wait", fault: "RetryAfter is that of the limit that has to be waited for least",
		file: "decision.go", old: "d.RetryAfter = max(d.RetryAfter, o.RetryAfter)", new: "d.RetryAfter = min(d.RetryAfter, o.RetryAfter)",
		tests: "TestSeveralLimits|TestPolicies_EqualTheReference",
	},
	{
		name: "keys-last-decides", fault: "only the last of several keys is asked",
		file: "together.go", old: "case !t.policy.admits(t.cell, t.word, q):", new: "case i == len(targets)-1 && !t.policy.admits(t.cell, t.word, q):",
		tests: "TestTakeAll|TestPolicies_EqualTheReference",
	},
	{
		name: "keys-twice", fault: "a key that is named twice counts twice",
		file: "together.go", old: "return slices.CompactFunc(all, func(a, b target) bool { return a.key == b.key })", new: "return all",
		tests: "TestTakeAll_TellsKeysApart",
	},
	{
		name: "keys-by-hash", fault: "two keys of one hash count as one",
		file: "together.go", old: "return a.key == b.key", new: "return a.hash == b.hash",
		tests: "TestTakeAll_TellsKeysApart",
	},
	{
		name: "keys-in-sequence", fault: "several keys are checked, then charged",
		file: "together.go", old: "case roomy(targets, *q) && tryLockAll(targets):", new: "case roomy(targets, *q):",
		tests: "TestTakeAll|TestRace_TakeAllInAnyOrder",
	},
	{
		name: "keys-that-share-are-asked-twice", fault: "a key that shares a quota with another of the call is asked by a word that was not read",
		file: "together.go", old: "case t.lodging == sharing:", new: "case t.lodging == sharing && t.policy == nil:",
		tests: "TestTakeAll_OfKeysThatShare",
	},
	{
		name: "keys-locked-by-nobody", fault: "a call that waits for the locks of its keys goes on without them",
		file: "cell.go", old: "if !alive || c.lock(word) {", new: "if !alive || c.unchanged(word) {",
		tests: "TestRace",
	},
	{
		name: "keys-left-locked", fault: "a call that cannot lock all keys holds on to some",
		file: "together.go", old: "unlockAll(targets)\n\t\t\truntime.Gosched()", new: "runtime.Gosched()",
		tests: "TestTakeAll_Unlocks",
	},
	{
		name: "keys-at-two-instants", fault: "a denial reads one key before a change and another after it",
		file: "together.go", old: "t.cell != nil && !t.cell.unchanged(t.word) {", new: "t.cell != nil && t.policy == nil {",
		tests: "TestTakeAll_KnowsWhat",
	},
	{
		name: "keys-first-seen-meanwhile", fault: "a denial takes a key for unseen that was charged meanwhile",
		file: "together.go", old: "absent > 1 || !l.absent(t.standing, t.key)", new: "absent > 1",
		tests: "TestTakeAll_ReadsAll|TestHistories|TestRace",
	},
	{
		name: "keys-charge-the-past", fault: "a call that finds a key evicted charges the instant it read before",
		file: "together.go", old: "q.at = g.at(l.clock.Now()) // as in ask", new: "",
		tests: "TestEvict_UnderAny",
	},
	{
		name: "keys-named-by-lock-order", fault: "of equal limits, the one of the key that is locked first is named",
		file: "together.go", old: "d.join(&one, t.order < first)", new: "d.join(&one, first < 0)",
		tests: "TestPolicies_EqualTheReference",
	},

	// Reservations.
	{
		name: "reserve-settled-twice", fault: "a reservation is given back twice",
		file: "reserve.go", old: "!r.of.settled.CompareAndSwap(false, true)", new: "r.of.settled.Swap(false)",
		tests: "TestReserve_SettlesOnce",
	},
	{
		name: "reserve-settled-below-zero", fault: "a negative cost gives back more than was taken",
		file: "reserve.go", old: "max(actual, 0)", new: "max(actual, -1)",
		tests: "TestReserve_OfBadInput|TestReserve_EqualsTheReference",
	},
	{
		name: "reserve-back-to-the-present", fault: "what was taken in another window is given back to this one",
		file: "reserve.go", old: "switch tick {", new: "switch w.index {",
		tests: "TestCancel|TestReserve_EqualsTheReference",
	},
	{
		name: "reserve-back-for-ever", fault: "what no longer counts is given back to the window before this",
		file: "reserve.go", old: "case w.index - 1:", new: "default:",
		tests: "TestCancel_OfAWindow",
	},
	{
		name: "reserve-back-to-another-run", fault: "what no longer counts is given back to a later instant",
		file: "reserve.go", old: " || v.at(i) != tick {", new: " {",
		tests: "TestCancel|TestReserve",
	},
	{
		name: "reserve-back-to-another-life", fault: "a key that was reset is given back what it never held",
		file: "reserve.go", old: "return b.line == p.line", new: "return true",
		tests: "TestCancel",
	},
	{
		name: "reserve-forgets-no-past", fault: "a late reading is admitted to what was emptied by giving back",
		file: "reserve.go", old: "r.forget(r.begin(r.newest(p)))", new: "r.newest(p)",
		tests: "TestReserve_OnAnyClock",
	},
	{
		name: "reserve-wakes-nobody", fault: "who waits sleeps on when quota is given back",
		file: "reserve.go", old: "l.queues.nudge(r.key.name)", new: "",
		tests: "TestWait_Notices",
	},

	// Waiting.
	{
		name: "wait-charges-the-cancelled", fault: "a Wait whose context has ended is charged, or admitted",
		file: "wait.go", old: "if err := ctx.Err(); err != nil {", new: "if err := ctx.Err(); err != nil && l == nil {",
		tests: "TestWait_EndsWithItsContext",
	},
	{
		name: "wait-overtakes", fault: "a Wait is admitted before those that came before it",
		file: "wait.go", old: "turn := one.waiters.Front() == w.place", new: "turn := one.waiters.Front() != nil",
		tests: "TestWait_FirstCome",
	},
	{
		name: "wait-new-overtakes", fault: "a new Wait does not look who waits already",
		file: "wait.go", old: "alone := n == 0 || !l.queues.waiting(key)", new: "alone := n == 0 || key == key",
		tests: "TestWait_OvertakesNobody",
	},
	{
		name: "wait-charges-in-the-queue", fault: "a Wait is charged before its turn",
		file: "wait.go", old: "charge: turn && n > 0", new: "charge: n > 0",
		tests: "TestWait",
	},
	{
		name: "wait-tells-nobody", fault: "who leaves the queue does not wake the next",
		file: "wait.go", old: "next.Value.(*waiter).tell()", new: "_ = next",
		tests: "TestWait",
	},
	{
		name: "wait-to-the-deadline", fault: "a Wait that cannot end in time waits all the same",
		file: "wait.go", old: "ok && d.RetryAfter > time.Until(deadline)", new: "ok && d.RetryAfter > time.Until(deadline) && key != key",
		tests: "TestWait_FailsAtOnce",
	},
	{
		name: "wait-leaks-queues", fault: "the queue of a key stays when nobody waits any more",
		file: "wait.go", old: "delete(q.byKey, key)", new: "",
		tests: "TestWait",
	},
	{
		name: "wait-charged-for-waiting", fault: "each look of a Wait is charged as a denied attempt",
		file: "wait.go", old: "charge: turn && n > 0}", new: "charge: turn && n > 0, denied: l.chargeDenied}",
		tests: "TestWait_IsNotCharged",
	},
	{
		name: "wait-counts-one-twice", fault: "units that have been charged count among those waited for",
		file: "wait.go", old: "q.units -= uint64(w.n)", new: "",
		tests: "TestWait",
	},

	// Limits that change.
	{
		name: "reconfigure-not-refused", fault: "below several HTTP policies, Reconfigure changes the first of them only",
		file: "reconfigure.go", old: "if l.noReconfigure != nil {", new: "if l.noReconfigure != nil && l == nil {",
		tests: "TestReconfigure_CanBeRefused",
	},
	{
		name: "inspect-trusts-limits", fault: "invalid limits of a key below an HTTP policy are not those of the policy",
		file: "bridge.go", old: "validOrNone(c.limitsFor(key))", new: "c.limitsFor(key)",
		tests: "TestInspect",
	},
	{
		name: "change-over-a-charge", fault: "what is charged while a key is carried over is lost",
		file: "carry.go", old: "prior.policy.acquire(old)", new: "prior.policy.settled(old)\nl.clock.Now()",
		tests: "TestRace_ChangingLimits",
	},
	{
		name: "change-leaves-two-cells", fault: "the cell that was carried over is charged on",
		file: "carry.go", old: "old.die(word)", new: "old.word.Store(word)",
		tests: "TestRace_ChangingLimits",
	},
	{
		name: "change-takes-the-earliest", fault: "a unit of which only the window is known is back too soon",
		file: "carry.go", old: "return number*grain + (grain - 1)", new: "return begin",
		tests: "TestReconfigure",
	},
	{
		name: "change-hears-the-smallest", fault: "of two like limits the one that knows less is heard",
		file: "carry.go", old: "a.Count > b.Count)", new: "a.Count < b.Count)",
		tests: "TestReconfigure_Hears",
	},
	{
		name: "change-looks-too-far-back", fault: "buckets are taken to remember all of their oldest one",
		file: "carry.go", old: "return (r.span - 1) * r.tick", new: "return r.span * r.tick",
		tests: "TestReconfigure",
	},
	{
		name: "change-forgets-the-time", fault: "a key that was given all back forgets the time it has seen",
		file: "carry.go", old: "if units > 0 || newest {", new: "if units > 0 {",
		tests: "TestReconfigure_CarriesTheTime",
	},
	{
		name: "change-not-rotated", fault: "what is carried over ends up in one window",
		file: "carry.go", old: "w = w.moved(index)", new: "w.index = index",
		tests: "TestReconfigure",
	},
	{
		name: "change-has-no-prior", fault: "a key that is asked for before it is carried over has a fresh quota",
		file: "reconfigure.go", old: "g.prior.Store(prior)", new: "",
		tests: "TestRace_ChangingLimits|TestRace_ReconfigureHidesNoKey",
	},
	{
		name: "change-wakes-nobody", fault: "who waits sleeps on when the limits rise",
		file: "reconfigure.go", old: "l.queues.nudgeAll()", new: "",
		tests: "TestWait_Notices",
	},
	{
		name: "change-of-one-wakes-nobody", fault: "who waits sleeps on when the limits of the key rise",
		file: "reconfigure.go", old: "l.queues.nudge(key)", new: "",
		tests: "TestWait_Notices",
	},
	{
		name: "change-hides-a-key", fault: "a key that somebody else is carrying over is not found",
		file: "regime.go", old: "return g.keys.load(k)", new: "return nil",
		tests: "TestRace_ResetsFind",
	},

	{
		name: "change-not-noticed", fault: "a key that is first seen while its limits change keeps the old ones",
		file: "regime.go", old: "return l.now.Load() == s.regime && override == s.override", new: "return l.now.Load() == s.regime && override == override",
		tests: "TestWithLimitsFor_While|TestReserve_WhileItsLimitsRise",
	},
	{
		name: "absent-at-another-time", fault: "a key that was absent before its limits changed is answered for by the new ones, as if it still were",
		file: "regime.go", old: "return l.find(s.regime, k) == nil && l.holds(s, k.name)", new: "return l.holds(s, k.name)",
		tests: "TestSetLimits_OfAKeyTakenFrom",
	},
	{
		name: "plan-unchecked", fault: "a wrong limit of WithLimitsFor is used",
		file: "regime.go", old: "if validate(limits) != nil {", new: "if limits == nil {",
		tests: "TestWithLimitsFor",
	},
	{
		name: "plan-before-override", fault: "WithLimitsFor goes before SetLimits",
		file: "regime.go", old: "s.override != nil {", new: "s.override != nil && l.limitsFor == nil {",
		tests: "TestReconfigure_KeepsLimits",
	},
	{
		name: "plan-for-each-key", fault: "every key has a plan of its own in memory",
		file: "policies.go", old: "if t.plans.all().Size() < most {", new: "if t.plans.all().Size() > most {",
		tests: "TestWithLimitsFor",
	},

	// A bound on the keys.
	{
		name: "cap-one-too-many", fault: "one key more than the bound",
		file: "maxkeys.go", old: "used >= c.most", new: "used > c.most",
		tests: "TestMaxKeys",
	},
	{
		name: "cap-evicts-the-held", fault: "a flood washes out who is held at the limit",
		file: "maxkeys.go", old: "one.exceeds(least)", new: "least.exceeds(one)",
		tests: "TestEvictLeastUsed",
	},
	{
		name: "cap-small-sample", fault: "a flood evicts keys held at their limit from a table that they are half of",
		file: "maxkeys.go", old: "sampleSeats = 128", new: "sampleSeats = 12",
		tests: "TestEvictLeastUsed_KeepsAHalf",
	},
	{
		name: "cap-sample-of-neighbours", fault: "a sample is of neighbouring seats, and displaces a held key among free ones",
		file: "maxkeys.go", old: "if all {", new: "if seat = &c.seats[i]; all {",
		tests: "TestEvictLeastUsed_LooksBeyond",
	},
	{
		name: "cap-evicts-the-first", fault: "of keys with as much left, one that was there before the flood is displaced",
		file: "maxkeys.go", old: "return c.joined > o.joined", new: "return c.joined < o.joined",
		tests: "TestEvictLeastUsed",
	},
	{
		name: "cap-forgets-who-came-first", fault: "a key whose limits change counts as inserted last",
		file: "carry.go", old: "g.reseat(k, c, next)", new: "g.seat(k, next)",
		tests: "TestEvictLeastUsed_OfEquals",
	},
	{
		name: "cap-loses-what-was-spent", fault: "a Commit of more than was reserved finds no room, and is forgotten",
		file: "reserve.go", old: "keep(k.name), nil, true)\n\t\t\tcontinue", new: "keep(k.name), nil, false)\n\t\t\treturn",
		tests: "TestCommit",
	},
	{
		name: "cap-admits-a-debt", fault: "a call of 0 units is admitted with a RetryAfter, if one of its keys does not fit",
		file: "overflow.go", old: "d := Decision{Allowed: admitted,", new: "d := Decision{Allowed: q.n == 0,",
		tests: "TestTakeAll_OfNothing",
	},
	{
		name: "cap-compares-units", fault: "what is left is compared in units, not as a part of Count",
		file: "maxkeys.go", old: "bits.Mul64(uint64(c.left), uint64(o.count))", new: "bits.Mul64(uint64(c.left), uint64(c.count))",
		tests: "TestEvictLeastUsed",
	},
	{
		name: "cap-keeps-the-count-of-the-evicted", fault: "what is evicted still counts",
		file: "maxkeys.go", old: "g.leave(1)\n\t\treturn nil", new: "return nil",
		tests: "TestMaxKeys",
	},
	{
		name: "cap-counts-who-came-second", fault: "two inserts of one key count twice",
		file: "sharded.go", old: "if found == nil && still() {", new: "if still() && found == nil {",
		tests: "TestRace_NeverMoreKeys",
	},

	// Across a restart.
	{
		name: "snapshot-torn", fault: "a key is written as halves of two states",
		file: "snapshot.go", old: "case p.unchanged(c, word):", new: "case true:",
		tests: "TestRace_Snapshots|TestSnapshot",
	},
	{
		name: "restore-believes-a-clock-set-back", fault: "time runs back across a restart",
		file: "restore.go", old: "max(down, 0)", new: "down",
		tests: "TestSnapshot|TestRestore",
	},
	{
		name: "restore-without-checksum", fault: "a flipped bit is restored",
		file: "restore.go", old: "if s.digest.Sum64() != sum {", new: "if s.digest.Sum64() != sum && sum == 0 {",
		tests: "TestRestore",
	},
	{
		name: "restore-under-other-limits", fault: "counts made under other limits are restored",
		file: "restore.go", old: "!slices.Equal(theirs, limits)", new: "!slices.Equal(theirs[:0], limits[:0])",
		tests: "TestRestore",
	},
	{
		name: "restore-limits-without-number", fault: "a key is restored under as many limits as the snapshot says",
		file: "restore.go", old: "if n > maxLimits {", new: "if n > maxLimits<<40 {",
		tests: "TestRestore",
	},
	{
		name: "restore-forgets-the-future", fault: "keys that hold nothing are restored to any instant ahead",
		file: "restore.go", old: "ahead > maxAhead {", new: "ahead > maxAhead && now == 0 {",
		tests: "TestRestore",
	},
	{
		name: "snapshot-not-restorable", fault: "after the clock was far ahead, no snapshot can be restored",
		file: "snapshot.go", old: "min(g.forgotten.Load(), plus(begun, maxAhead))", new: "g.forgotten.Load()",
		tests: "TestSnapshot",
	},

	// Time.
	{
		name: "coarse-two-goroutines", fault: "two readers that find the clock asleep start it twice",
		file: "clock.go", old: "if t := c.reading.Load(); t != asleep {", new: "if t := c.reading.Load(); t != asleep && c.wake.TryLock() {",
		tests: "TestCoarseClock",
	},
	{
		name: "coarse-falls-asleep", fault: "the clock stops while it is read",
		file: "clock.go", old: "if c.read.Swap(false) {", new: "if !c.read.Load() {",
		tests: "TestCoarseClock",
	},
	{
		name: "coarse-stale-when-woken", fault: "after a pause the first reading is that before it",
		file: "clock.go", old: "c.reading.Store(asleep)\n}", new: "}",
		tests: "TestCoarseClock",
	},
	{
		name: "coarse-in-a-bubble", fault: "in a bubble of synctest the clock is the one that is shared outside",
		file: "clock.go", old: "if inBubble() {", new: "if false {",
		tests: "TestCoarseClock_InABubble",
	},
	{
		name: "coarse-woken-in-a-bubble", fault: "a reader in a bubble of synctest starts the goroutine in there",
		file: "clock.go", old: "if c.foreign() {", new: "if false {",
		tests: "TestCoarseClock_MadeOutside",
	},
	{
		name: "manual-rings-late", fault: "what is due at an instant is not woken at it",
		file: "clock.go", old: "if at <= c.now.Load() {", new: "if at < c.now.Load() {",
		tests: "TestWait_OnAManualClock",
	},
	{
		name: "tsc-runs-back", fault: "a new line begins below the old one",
		file: "tsc.go", old: "begin := max(b.ns, l.end)", new: "begin := b.ns",
		tests: "TestTSC_Stays|TestTSC_NeverRunsBack",
	},
	{
		name: "tsc-drifts", fault: "what a line is ahead is never made up for",
		file: "tsc.go", old: "next.rate = rate - uint64(ahead)<<32/ticks", new: "next.rate = rate",
		tests: "TestTSC_ComesBack",
	},
	{
		name: "tsc-follows-a-counter-astray", fault: "a counter that changes its rate is believed",
		file: "tsc.go", old: "> l.rate/astray {", new: "> l.rate*astray {",
		tests: "TestTSC_Follows",
	},
	{
		name: "tsc-believes-one-rate", fault: "after a suspension between its first two looks, the clock stands for hours",
		file: "tsc.go", old: "ticks == 0 || max(", new: "ticks == 0 || l.rate > 0 && max(",
		tests: "TestTSC_ASuspended",
	},
	{
		name: "tsc-follows-a-counter-back", fault: "a counter that runs back is believed",
		file: "tsc.go", old: "b.ns <= a.ns || b.ticks <= a.ticks ||", new: "b.ns <= a.ns || b.ticks == a.ticks ||",
		tests: "TestTSC_Follows",
	},
	{
		name: "tsc-in-a-bubble", fault: "in a bubble of synctest the limiter lives in real time",
		file: "clock.go", old: "case inBubble():", new: "case false:",
		tests: "TestSystemClock_InABubble",
	},
	{
		name: "tsc-overtaken", fault: "a reader that was overtaken puts its old line in the place of the new one",
		file: "tsc.go", old: "if c.line.CompareAndSwap(l, next) {", new: "if c.line.Store(next); true {",
		tests: "TestTSC_AReaderThatWasOvertaken|TestTSC_NeverRunsBack",
	},
	{
		name: "tsc-gives-up-below", fault: "the system's clock is read as it is when a line that was ahead is given up",
		file: "tsc.go", old: "return max(now, l.ns), now < l.end", new: "return now, now < l.end",
		tests: "TestTSC_StandsStill|TestTSC_NeverRunsBack",
	},
	{
		name: "tsc-out-of-order", fault: "the counter is read before the reading that another core has told",
		file: "tsc_amd64.s", old: "LFENCE", new: "NOP",
		tests: "TestSystemClock_NeverRunsBack",
	},

	// What is written and read.
	{
		name: "text-loses-the-precision", fault: "a limit's text leaves out the precision",
		file: "limit.go", old: `" buckets " + l.Precision.String()`, new: `" buckets " + l.Window.String()`,
		tests: "TestLimit|TestParseLimit",
	},
	{
		name: "text-overwrites", fault: "a text that cannot be read clears the limit",
		file: "limit.go", old: "if err == nil {\n\t\t*l = parsed", new: "if err == nil || parsed.Count == 0 {\n\t\t*l = parsed",
		tests: "TestLimit",
	},
	{
		name: "zero-limit-has-no-text", fault: "a decision without a limit cannot be written as JSON",
		file: "limit.go", old: "if l == (Limit{}) {", new: "if false {",
		tests: "TestZeroValues|TestLimit_OnlyTheZero",
	},
	{
		name: "half-a-limit-is-no-text", fault: "a limit that is not zero, but has no count, is written as nothing",
		file: "limit.go", old: "if l == (Limit{}) {", new: "if l.Count == 0 {",
		tests: "TestLimit",
	},
	{
		name: "limit-of-nothing", fault: "a limit of nothing is taken for one",
		file: "limit.go", old: "if l.Count < 1 {", new: "if l.Count < 0 {",
		tests: "TestParseLimit|TestNew",
	},
	{
		name: "limit-of-no-precision", fault: "a precision longer than the window is taken",
		file: "limit.go", old: "} else if l.Precision > l.Window {", new: "} else if l.Precision < 0 {",
		tests: "TestParseLimit|TestNew",
	},
	{
		name: "limits-report-one-fault", fault: "of several wrong limits only the last is named",
		file: "limit.go", old: "faults = append(faults, l.validate(", new: "faults = append(faults[:0], l.validate(",
		tests: "TestSeveralLimits_Report|TestNew",
	},
}
