package main

// ofSash are the faults of package sash: those that rate limiters are known for, and others as
// easily made. A text is only as long as it must be to stand in its file once, so that it
// outlives changes around it.
var ofSash = []mutant{
	// The sliding counter.
	{
		name: "counter-rewinds", fault: "a late reading clears the window it is late for",
		file: "internal/window/counter.go", old: "case index > s.Index:", new: "case index != s.Index:",
		tests: "TestCounter|TestRace_LateReadings|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-late-offset", fault: "a late reading keeps its place, in a window that it is not in",
		file: "internal/window/counter.go", old: "return Position{s, -int64(min(uint64(c.Begins(s.Index))-uint64(t), uint64(Never)))}", new: "return Position{s, elapsed}",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-no-prev", fault: "curr does not become prev",
		file: "internal/window/counter.go", old: "return State{index, s.Curr, 0}", new: "return State{index, 0, 0}",
		tests: "TestCounter",
	},
	{
		name: "counter-half-rotated", fault: "curr becomes prev, and stays",
		file: "internal/window/counter.go", old: "return State{index, s.Curr, 0}", new: "return State{index, s.Curr, s.Curr}",
		tests: "TestCounter",
	},
	{
		name: "counter-rotated-twice", fault: "curr is lost to a second rotation, prev is not",
		file: "internal/window/counter.go", old: "return State{index, s.Curr, 0}", new: "return State{index, s.Prev, 0}",
		tests: "TestCounter",
	},
	{
		name: "counter-idle-remembers", fault: "after a longer idle the last count still weighs",
		file: "internal/window/counter.go", old: "return State{Index: index}\n", new: "return State{index, s.Curr, 0}\n",
		tests: "TestCounter",
	},
	{
		name: "counter-epoch-wraps", fault: "idle for as long as 16 bits of epoch: an old count is read as current",
		file: "internal/window/counter.go", old: "case index == s.Index:", new: "case (index-s.Index)&0xffff == 0:",
		tests: "TestCounter_Idle",
	},
	{
		name: "counter-word-too-small", fault: "windows that do not fit into the word are put there",
		file: "word.go", old: "uint64(latest)-uint64(earliest) < windows {", new: "uint64(latest)-uint64(earliest) < 16*windows {",
		tests: "TestLayout|TestCounter_Idle",
	},
	{
		name: "counter-weight-truncated", fault: "the weight of prev is rounded down: one more is admitted",
		file: "internal/window/counter.go", old: "roomHi, roomLo := bits.Mul64(uint64(room), uint64(c.Window))", new: "whole, _ := bits.Div64(hi, lo, uint64(c.Window))\nhi, lo = bits.Mul64(whole, uint64(c.Window))\nroomHi, roomLo := bits.Mul64(uint64(room), uint64(c.Window))",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-refuses-the-last", fault: "the last unit that fits is denied",
		file: "internal/window/counter.go", old: "lo <= roomLo", new: "lo < roomLo",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-admits-below-zero", fault: "a negative cost is admitted, and gives quota back",
		file: "window.go", old: "return n >= 0 && r.counter.Admits", new: "return r.counter.Admits",
		tests: "TestCounter|TestLimiter_CostsAreAnything|TestAnswers_EqualTheReferences|TestTakeAll|TestSeveralLimits",
	},
	{
		name: "limits-admit-below-zero", fault: "the same, under several limits",
		file: "unlimited.go", old: "bool { return q.n >= 0 }", new: "bool { return true }",
		tests: "TestLimiter_CostsAreAnything|TestUnlimited|TestAlgorithms",
	},
	{
		name: "counter-64-bit-products", fault: "products are cut to 64 bits",
		file: "internal/window/counter.go", old: "return hi < roomHi || hi == roomHi && lo <= roomLo", new: "_, _ = hi, roomHi\nreturn lo <= roomLo",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-remaining-rounds-up", fault: "Remaining is one more than is admitted",
		file: "internal/window/counter.go", old: "weighted++", new: "weighted += 0",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-retry-forgets-curr", fault: "RetryAfter lets prev fade, and forgets that curr becomes prev",
		file: "internal/window/counter.go", old: "size-elapsed+c.fadesTo(p.Curr, c.Count-n))", new: "size-elapsed)",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-retry-is-the-window", fault: "RetryAfter is until the window ends",
		file: "internal/window/counter.go", old: "Wait(p.Lateness(), from-elapsed)", new: "Wait(p.Lateness(), size-elapsed)",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-retry-rounds-up", fault: "RetryAfter is a nanosecond too long",
		file: "internal/window/counter.go", old: "return uint64(c.Window) - left", new: "return uint64(c.Window) - left + 1",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-late-waits-too-short", fault: "RetryAfter of a late reading counts from the window's start",
		file: "internal/window/counter.go", old: "return uint64(-min(p.Offset, 0))", new: "return 0",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-resets-too-soon", fault: "ResetAfter forgets that curr becomes prev",
		file: "internal/window/counter.go", old: "return Wait(p.Lateness(), size-elapsed+size)", new: "return Wait(p.Lateness(), size-elapsed)",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-swept-too-soon", fault: "a sweep evicts a key whose prev still weighs",
		file: "internal/window/counter.go", old: "counting := int64(2)", new: "counting := int64(1)",
		tests: "TestCounter|TestSweep_EvictsExactly|TestAnswers_AreTheSame",
	},
	{
		name: "counter-window-one-too-long", fault: "a window's end belongs to it",
		file: "internal/window/counter.go", old: "uint64(elapsed) < uint64(c.Window)", new: "uint64(elapsed) <= uint64(c.Window)",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-truncates-below-zero", fault: "instants before 0 are rounded towards it",
		file: "internal/window/integer.go", old: "remainder < 0 {", new: "remainder < -d {",
		tests: "TestDivide|TestAnswers_EqualTheReferences|TestWait_OnAClockBelowZero",
	},
	{
		name: "counter-hint-of-no-window", fault: "the hint is a window that begins before the first instant of an int64",
		file: "rule.go", old: "if number*size <= t && (", new: "if (",
		tests: "TestCounter_Steps",
	},
	{
		name: "counter-starts-in-the-past", fault: "a late reading charges an evicted key before the floor",
		file: "window.go", old: "start := r.clampToFloor(t)", new: "start := t",
		tests: "TestEvict",
	},
	{
		name: "counter-two-steps", fault: "it checks, then counts",
		file: "kind.go", old: "!e.Word.CompareAndSwap(word, rs.word.packCharged(after))", new: "e.Word.Swap(rs.word.packCharged(after)) == locked",
		tests: "TestRace_TightLoops|TestRace_OneKey|TestRace_Sweeps",
	},
	{
		name: "counter-fast-two-steps", fault: "the fast path checks, then counts",
		file: "take.go", old: "_, _, _, res = (*slidingCounter)(r).charge(e, e.Word.Load(), at, n)", new: "word := e.Word.Load()\natomic.Pause(nil)\nif _, _, _, res = (*slidingCounter)(r).charge(nil, word, at, n); res == admitted {\ne.Word.Swap(word + uint64(n))\n}",
		tests: "TestRace_TightLoops",
	},
	{
		name: "counter-fast-adds", fault: "the fast path charges a word that has changed since it was checked",
		file: "take.go", old: "_, _, _, res = (*slidingCounter)(r).charge(e, e.Word.Load(), at, n)", new: "word := e.Word.Load()\natomic.Pause(nil)\nif _, _, _, res = (*slidingCounter)(r).charge(nil, word, at, n); res == admitted {\ne.Word.Add(uint64(n))\n}",
		tests: "TestRace_OneKey",
	},
	{
		name: "counter-fast-no-lock-bit", fault: "the fast path charges an entry that is locked",
		file: "window.go", old: "w := r.layout.unpack(word)\n\tif !ok", new: "w := r.layout.unpack(word &^ locked)\n\tif !ok",
		tests: "TestTryFast",
	},
	{
		name: "counter-fast-denied-free", fault: "the fast path lets denied attempts go uncharged",
		file: "window.go", old: "if r.chargeDenied {\n\t\t\treturn 0, 0, 0, retry\n\t\t}\n\t\treturn w.Prev", new: "return w.Prev",
		tests: "TestCounter_ChargesDenied|TestAnswers_EqualTheReferences",
	},
	{
		name: "counter-charges-the-dead", fault: "a call charges an entry that a sweep has killed",
		file: "kind.go", old: "if word&dead != 0 {", new: "if word == 0 && word&dead != 0 {",
		tests: "TestEvict|TestRace_SweepsLoseNothing",
	},
	{
		name: "counter-no-lock-bit", fault: "a call ignores the lock of a call that takes several keys",
		file: "kind.go", old: "if word&locked != 0 {", new: "if word == 0 && word&locked != 0 {",
		tests: "TestTake_WaitsForALocked",
	},

	// Its word, which has epochs for some windows only.
	{
		name: "counter-hint-without-an-epoch", fault: "the hint is a window without an epoch, which a locked word may equal",
		file: "rule.go", old: " && (r.kind == kindMulti || r.layout.holds(t)) {", new: " {",
		tests: "TestCounter_TakesNoLockedWord",
	},
	{
		name: "counter-in-a-word-that-does-not-hold-it", fault: "a counter in one word is charged before or after its epochs",
		file: "kind.go", old: "return rs.packed.holds(at)", new: "return rs.packed.holds(at) || rs.rules[0].Algorithm == SlidingCounter",
		tests: "TestCounter_CountsBeforeAndAfter",
	},
	{
		name: "counter-epochs-a-window-short", fault: "the layout holds an instant whose window has no epoch",
		file: "word.go", old: "e.begin <= t &&", new: "e.begin-int64(day) <= t &&",
		tests: "TestLayout|TestCounter_CountsBeforeAndAfter",
	},
	{
		name: "counter-spills-into-the-flags", fault: "an epoch past the last one sets the bits above it",
		file: "word.go", old: "l.packEpoch(min(uint64(w.Index-l.first), l.lastEpoch()), w)", new: "l.packEpoch(uint64(w.Index-l.first), w)",
		tests: "TestLayout_SaysWhatDoesNotFit",
	},
	{
		name: "counter-too-large-for-its-word", fault: "a state that does not fit is put into a word",
		file: "word.go", old: "fits = epoch >= 2 && epoch <= l.lastEpoch() && uint64(w.Prev|", new: "fits = uint64(w.Prev|",
		tests: "TestLayout_SaysWhatDoesNotFit",
	},
	{
		name: "counter-for-less-than-a-year", fault: "a counter whose epochs last for a day is kept in one word",
		file: "word.go", old: "return e, uint64(e.end)-uint64(e.begin) >= uint64(minSpan)", new: "return e, true",
		tests: "TestLayout_HoldsAYear",
	},

	// Logs and buckets.
	{
		name: "log-back-late", fault: "a unit counts a nanosecond too long",
		file: "ring.go", old: "uint64(now)-uint64(v.tick(i)) < uint64(life)", new: "uint64(now)-uint64(v.tick(i)) <= uint64(life)",
		tests: "TestLog",
	},
	{
		name: "log-rewinds", fault: "a late reading is charged before the newest record",
		file: "log.go", old: "p.tick = max(r.ticks.Of(q.at), newest)", new: "p.tick = r.ticks.Of(q.at)",
		tests: "TestLog|TestAnswers_EqualTheReferences",
	},
	{
		name: "log-starts-in-the-past", fault: "a late reading charges an evicted key before the floor",
		file: "log.go", old: "p.tick = r.ticks.Of(r.clampToFloor(q.at))", new: "p.tick = r.ticks.Of(q.at)",
		tests: "TestEvict",
	},
	{
		name: "log-without-bound", fault: "denied attempts that are charged make it grow without end",
		file: "log.go", old: "last := v.count\n", new: "last := 0\n",
		tests: "TestLog_ChargesDenied",
	},
	{
		name: "log-record-for-each-unit", fault: "units of one tick take a record each",
		file: "log.go", old: "p.merge = p.tick == newest", new: "p.merge = p.tick == newest && v == nil",
		tests: "TestLog",
	},
	{
		name: "log-room-past-count", fault: "its room is more than Count will ever need",
		file: "ring.go", old: "room = int(min(int64(room), usual))", new: "room = int(max(int64(room), usual))",
		tests: "TestLog_Grows",
	},
	{
		name: "log-two-steps", fault: "it checks, then counts",
		file: "log.go", old: "\t\tif !e.tryLock(word) {", new: "\t\tif !e.tryLock(word) && word == dead {",
		tests: "TestTryFast_BelievesNoState",
	},
	{
		name: "log-grows-over-a-charge", fault: "units that are charged while it grows are lost",
		file: "kind.go", old: "if !alive || e.tryBeginResize(word) {", new: "if true || e.tryBeginResize(word) {",
		tests: "TestLog_IsNotCharged",
	},
	{
		name: "parts-swap-over-lanes", fault: "a part that begins after a whole window leaves older units in their lanes",
		file: "parts.go", old: "p.turned >= int(r.ticks.Life) && r.lanesOf(s).sumFrom(0) == 0 {", new: "p.turned >= int(r.ticks.Life) {",
		tests: "TestParts",
	},
	{
		name: "parts-swap-too-early", fault: "the units of the newest part are gone one part before they may be",
		file: "parts.go", old: "p.turned >= int(r.ticks.Life) && r.lanesOf(s)", new: "p.turned >= int(r.ticks.Life)-1 && r.lanesOf(s)",
		tests: "TestParts",
	},
	{
		name: "log-replaced-while-it-is-read", fault: "a call reads a log after another has charged the one that took its place",
		file: "generation.go", old: "\te.Word.Store(word | locked)\n\tg.replace(", new: "\tg.replace(",
		tests: "TestLog_IsNotRead",
	},
	{
		name: "log-replaced-after-its-death", fault: "a call that finds a log dead makes an empty one before the larger one is there",
		file: "generation.go", old: "\te.Word.Store(word | locked)\n\tg.replace(", new: "\te.markDead(word)\n\tg.replace(",
		tests: "TestLog_IsNotRead",
	},
	{
		name: "log-replaced-is-taken-for-evicted", fault: "a snapshot under a cap lacks a log that grew while it was written",
		file: "snapshot.go", old: "case word&(dead|replaced) == dead|replaced:", new: "case word&(dead|replaced) == dead|replaced && word&multi != 0:",
		tests: "TestSnapshot_HasALog",
	},
	{
		name: "log-replaced-in-secret", fault: "a sample does not find the log that took the place of another",
		file: "generation.go", old: "\tg.replaceSample(own, e, next)\n\te.markDead(word)", new: "\te.markDead(word)",
		tests: "TestMaxKeys|TestEvict",
	},
	{
		name: "log-larger-is-unused", fault: "a log that took the place of another seems never to have been charged",
		file: "generation.go", old: "\tnext.unlock(next.Word.Load()) // only an unused entry has the first version\n", new: "",
		tests: "TestLog|TestMaxKeys",
	},
	{
		name: "log-outgrown-under-its-lock", fault: "a call that has locked a log leaves it locked for want of room",
		file: "kind.go", old: "\t\t\te.Word.Store(word) // nothing has changed\n\t\t\treturn outgrown", new: "\t\t\treturn outgrown",
		tests: "TestKinds",
	},
	{
		name: "log-outgrown-under-all-locks", fault: "a call on several keys charges a log without room",
		file: "takeall.go", old: "if markOutgrown(targets, asked, res) {", new: "if markOutgrown(targets, asked, res) && round < 0 {",
		tests: "TestTakeAll|TestLog|TestMaxKeys",
	},
	{
		name: "limits-grow-over-a-charge", fault: "under several limits, units that are charged while a log grows are lost",
		file: "multi.go", old: "if e.tryBeginResize(word) {", new: "if e.tryBeginResize(word) || true {",
		tests: "TestSeveralLimits_GrowOnly",
	},
	{
		name: "log-shrinks-back-to-life", fault: "a dead log that shrinks is alive again",
		file: "generation.go", old: "\tif !alive {\n\t\treturn\n\t}\n\t// From here on no call charges e", new: "\tif !alive && word == 0 {\n\t\treturn\n\t}\n\t// From here on no call charges e",
		tests: "TestLog_DoesNotShrink",
	},
	{
		name: "limits-shrink-back-to-life", fault: "a dead entry with several limits that shrinks is alive again",
		file: "multi.go", old: "next != nil && alive &&", new: "next != nil && (alive || true) &&",
		tests: "TestLog_DoesNotShrink",
	},
	{
		name: "log-shrinks-over-a-charge", fault: "units that are charged while it shrinks are lost",
		file: "multi.go", old: "&& alive && e.tryBeginResize(word) {", new: "&& alive {",
		tests: "TestSeveralLimits_ShrinkOnly",
	},
	{
		name: "log-fast-two-steps", fault: "its fast path locks from another word than it has read the ring under",
		file: "log.go", old: "\t\tif !e.tryLock(word) {\n\t\t\treturn retry\n\t\t}", new: "\t\tif word = e.Word.Load(); !e.tryLock(word) {\n\t\t\treturn retry\n\t\t}",
		tests: "TestTryFast_Believes",
	},
	{
		name: "log-fast-rewinds", fault: "its fast path charges a late reading after the newest record",
		file: "log.go", old: "tick < last || used == 0 {", new: "used == 0 {",
		tests: "TestLog|TestAnswers_EqualTheReferences",
	},
	{
		name: "log-fast-forgets-the-floor", fault: "its fast path charges a state that was emptied by giving back before the floor",
		file: "log.go", old: "tick < last || used == 0 {", new: "tick < last {",
		tests: "TestCancel",
	},
	{
		name: "log-fast-counts-what-has-expired", fault: "its fast path denies by units that no longer count",
		file: "log.go", old: "(exact || used > r.Count-n || slot == base) &&", new: "exact &&",
		tests: "TestLog|TestAnswers_EqualTheReferences|TestSeveralLimits_EqualTheReference",
	},
	{
		name: "log-fast-tells-what-has-expired", fault: "the decision of its fast path counts units that no longer count",
		file: "log.go", old: "(exact || used > r.Count-n ||", new: "(used > r.Count-n ||",
		tests: "TestLog|TestAnswers_EqualTheReferences",
	},
	{
		name: "log-fast-overwrites", fault: "its fast path charges a ring without room",
		file: "ring.go", old: "return slot != base", new: "return slot != base || true",
		tests: "TestLog|TestAnswers_EqualTheReferences",
	},
	{
		name: "log-fast-drops-what-counts", fault: "its fast path drops a record that still counts to make room",
		file: "log.go", old: "if r.ticks.Counts(atomic.LoadInt64(&g.slot(oldest).tick), tick) {", new: "if used <= r.Count-n {",
		tests: "TestLog|TestAnswers_EqualTheReferences",
	},
	{
		name: "log-fast-drops-one-too-few", fault: "its fast path gives up dropping, and takes what is left for the answer",
		file: "log.go", old: "if dropped == most {\n\t\t\treturn c, 0, false\n\t\t}", new: "if dropped == most {\n\t\t\tbreak\n\t\t}",
		tests: "TestLog|TestAnswers_EqualTheReferences",
	},
	{
		name: "take-fast-denied-forgets-next-window", fault: "RetryAfter of a denied Take is when its window ends",
		file: "window.go", old: "Denial(window.Position{State: window.State{Prev: prev, Curr: curr}", new: "Denial(window.Position{State: window.State{Prev: prev}",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "log-base-overwritten", fault: "a ring has no slot for the base",
		file: "ring.go", old: "g.slots = uint32(room + 1)", new: "g.slots = uint32(max(1, room))",
		tests: "TestLog|TestRing",
	},
	{
		name: "log-retry-of-the-oldest", fault: "RetryAfter is when the first unit stops counting, whatever the cost",
		file: "log.go", old: "return v.tick(max(0, v.firstWithin(uint64(units))-1))", new: "return v.tick(min(v.count-1, v.firstLive(p.tick, math.MaxInt64)))",
		tests: "TestLog|TestAnswers_EqualTheReferences",
	},
	{
		name: "log-swept-too-soon", fault: "a sweep evicts a key whose units count for one tick more",
		file: "log.go", old: "r.ticks.Counts(charged, tick) {", new: "r.ticks.Counts(charged, tick+1) {",
		tests: "TestSweep_EvictsExactly|TestAnswers_AreTheSame",
	},
	{
		name: "buckets-rounded-down", fault: "a precision that does not divide the window loses a bucket",
		file: "internal/window/ticks.go", old: "(window-1)/precision + 1", new: "window / precision",
		tests: "TestTicks|TestAnswers_EqualTheReferences",
	},
	{
		name: "buckets-retry-from-their-start", fault: "RetryAfter counts from the bucket's start",
		file: "internal/window/ticks.go", old: "return time.Duration(lo - uint64(elapsed))", new: "return time.Duration(lo)",
		tests: "TestTicks|TestAnswers_EqualTheReferences",
	},
	{
		name: "buckets-truncate-below-zero", fault: "instants before 0 are rounded towards it",
		file: "internal/window/ticks.go", old: "return Divide(t, k.Length)", new: "return t / k.Length, t % k.Length",
		tests: "TestTicks|TestAnswers_EqualTheReferences",
	},

	// The life of an entry.
	{
		name: "entry-killed-unseen", fault: "a sweep finds a key idle, then kills it unseen",
		file: "entry.go", old: ".Word.CompareAndSwap(word, dead|word&multi)", new: ".Word.Swap(dead|word&multi) != locked",
		tests: "TestEvict|TestRace_SweepsLoseNothing",
	},
	{
		name: "entry-not-locked", fault: "a lock is not taken",
		file: "entry.go", old: ".Word.CompareAndSwap(word, word|locked)", new: ".Word.Load() == word",
		tests: "TestRace_TakeAllInAnyOrder|TestRace_EveryLimit",
	},
	{
		name: "entry-lock-not-awaited", fault: "a lock is ignored",
		file: "entry.go", old: "if word&locked == 0 {", new: "if true {",
		tests: "TestTake_WaitsForALocked",
	},
	{
		name: "entry-grown-by-two", fault: "two calls make room at once, and one loses the charges of the other",
		file: "entry.go", old: "return word&resizing == 0 && ", new: "return ",
		tests: "TestLog_WhileItGrows",
	},
	{
		name: "entry-version-stays", fault: "a state that comes and goes is not noticed (ABA)",
		file: "entry.go", old: "return (word + 1) &^", new: "return word &^",
		tests: "TestSeveralLimits_GrowOnly",
	},
	{
		name: "entry-survives-its-successor", fault: "an entry that was replaced by another is charged on",
		file: "entry.go", old: ".Word.Store(dead | replaced | word&multi)", new: ".Word.Store(word)",
		tests: "TestReserve_Carries|TestRace_ChangingLimits",
	},
	{
		name: "entry-quiescent-while-it-grows", fault: "an entry that is making room is migrated, killed or given back to",
		file: "kind.go", old: "if word&resizing == 0 ||", new: "if true || word&resizing == 0 ||",
		tests: "TestReset_Awaits",
	},
	{
		name: "entry-believes-torn-reads", fault: "an answer is not proven to be of one state",
		file: "entry.go", old: ".Word.Load() == word", new: ".Word.Load()|1 != 0",
		tests: "TestTakeAll_ValidatesItsReads",
	},

	{
		name: "entry-kind-without-a-case", fault: "a switch over kinds has no case for one of them",
		file: "kind.go", old: "\tcase kindLog:\n\t\troom := 1 // for the charge that an empty entry is made for\n\t\tif first.ring != nil {\n\t\t\troom = max(room, first.ring.room())\n\t\t}\n\t\te := newLogEntry(first.ring.view(), room, name)\n\t\tif !empty {\n\t\t\te.unlock(e.Word.Load()) // only an unused entry has the first version\n\t\t}\n\t\treturn e\n", new: "",
		tests: "TestKinds",
	},
	{
		name: "entry-kind-that-does-not-panic", fault: "an entry of a new kind is taken for a log",
		file: "kind.go", old: "\tcase kindLog:\n\t\treturn state{ring: e.ring()}\n\tcase kindMulti:\n\t\treturn e.asMulti().states[i].load() // word by word: torn, unless e is locked or word validates\n\tdefault:\n\t\tpanic(unknownKind(k))", new: "\tcase kindMulti:\n\t\treturn e.asMulti().states[i].load()\n\tdefault:\n\t\treturn state{ring: e.ring()}",
		tests: "TestKinds",
	},
	{
		name: "log-says-that-it-has-room", fault: "an algorithm that keeps records asks for no room",
		file: "log.go", old: "return p.units > 0 && count > v.room()", new: "return p.units > 0 && count > v.room() && v.count < 0",
		tests: "TestLog|TestKinds",
	},
	{
		name: "limit-of-another-algorithm", fault: "an algorithm that has no rule is compiled to the rule of a log",
		file: "compile.go", old: "case SlidingLog, SlidingBuckets:", new: "case SlidingLog, SlidingBuckets, Concurrency + 1:",
		tests: "TestAlgorithms",
	},

	// The table.
	{
		name: "table-removes-the-successor", fault: "removing a dead entry removes the entry that replaced it",
		file: "sharded.go", old: "if found == old {", new: "if found != nil {",
		tests: "TestSharded",
	},

	{
		name: "table-inserts-over", fault: "of two calls that see a key first, the second replaces the entry of the first",
		file: "sharded.go", old: "if found == nil && valid() {", new: "if valid() {",
		tests: "TestSharded",
	},

	{
		name: "table-inserts-late", fault: "a key is given an entry under limits that are no longer valid",
		file: "sharded.go", old: "if found == nil && valid() {", new: "if found == nil {",
		tests: "TestWithLimitsFor_While",
	},

	{
		name: "table-writes-to-the-old", fault: "a call that waited while a map grew writes to the old table, and its entry is lost",
		file: "internal/hashmap/hashmap.go", old: "if m.table.Load() == t {", new: "if t != nil {",
		tests: "TestRace_Entries|TestRace_Shards",
	},

	{
		name: "table-keeps-callers-bytes", fault: "the table keeps a key whose bytes the caller reuses",
		file: "internal/hashmap/entry.go", old: "= external, strings.Clone(name)", new: "= external, strings.TrimSuffix(name, \"\")",
		tests: "TestEntry_KeepsACopy|TestLimiter_KeepsACopy",
	},
	{
		name: "table-compares-h2", fault: "two keys of one shard, home and h2 share a quota",
		file: "internal/hashmap/hashmap.go", old: "if e := m.Guess(hash, name); e != nil && e.HasName(name) {", new: "if e := m.Guess(hash, name); e != nil {",
		tests: "TestMap|TestSharded_ComparesWhole",
	},
	{
		name: "observer-gets-the-callers-memory", fault: "an observer is told a key that changes when the caller reuses its buffer",
		file: "limiter.go", old: "name = strings.Clone(k.name)", new: "name, _ = k.name, strings.Clone",
		tests: "TestObserver",
	},
	{
		name: "allow-compares-h2", fault: "the fast path of Allow takes another key of the same shard, home and h2 for its own",
		file: "take.go", old: "h.HasInlineLen(len(key)) && h.InlineNameIs(key) { // HasName, without a call\n\t\t\t//", new: "h.HasInlineLen(len(key)) {\n//",
		tests: "TestAllow_ComparesWhole",
	},
	{
		name: "take-compares-h2", fault: "the same, on the fast path of Take",
		file: "take.go", old: "h.HasInlineLen(len(key)) && h.InlineNameIs(key) && n > 0", new: "h.HasInlineLen(len(key)) && n > 0",
		tests: "TestAllow_ComparesWhole",
	},
	{
		name: "take-fast-tells-the-state-before", fault: "the fast path of Take returns the decision from before its charge",
		file: "window.go", old: "return w.Prev, w.Curr + n, elapsed, admitted", new: "return w.Prev, w.Curr, elapsed, admitted",
		tests: "TestAnswers_EqualTheReferences",
	},
	{
		name: "take-fast-forgets-the-previous-window", fault: "the fast path of Take admits by the current window alone",
		file: "take.go", old: "if res == admitted && prev == 0 {", new: "if res == admitted {",
		tests: "TestAnswers_EqualTheReferences",
	},
	{
		name: "take-fast-resets-too-soon", fault: "the fast path of Take forgets that what it charged counts in the next window, too",
		file: "internal/window/counter.go", old: "2*uint64(c.Window)-uint64(elapsed)", new: "uint64(c.Window)-uint64(elapsed)",
		tests: "TestAnswers_EqualTheReferences",
	},
	{
		name: "names-by-their-beginnings", fault: "two keys that begin alike share a quota",
		file: "internal/hashmap/entry.go", old: "== *(*uint64)(b) && *(*uint64)(unsafe.Add(a, n-8)) == *(*uint64)(unsafe.Add(b, n-8))", new: "== *(*uint64)(b)",
		tests: "TestEntry_ComparesEveryByteOfItsName",
	},
	{
		name: "table-stops-early", fault: "a key that found its home full is not found any more",
		file: "internal/hashmap/hashmap.go", old: "if meta < overflowOne {", new: "if meta < 2*overflowOne {",
		tests: "TestMap",
	},
	{
		name: "table-forgets-overflows", fault: "with one key that overflowed a bucket, all that did are lost",
		file: "internal/hashmap/hashmap.go", old: "overflowed.Store(meta - overflowOne)", new: "overflowed.Store(meta % overflowOne)",
		tests: "TestMap",
	},
	{
		name: "table-count-wraps", fault: "256 keys that overflow a bucket are none",
		file: "internal/hashmap/hashmap.go", old: "if meta/overflowOne < overflowSaturated {\n\t\t\tb.meta", new: "{\n\t\t\tb.meta",
		tests: "TestMap",
	},
	{
		name: "table-searches-for-ever", fault: "a look-up of a key that is not there never ends",
		file: "internal/hashmap/hashmap.go", old: "for i := range uint64(len(t.buckets)) {\n\t\tbucket", new: "for i := uint64(0); ; i++ {\n\t\tbucket",
		tests: "TestMap_LookUpsEnd",
	},
	{
		name: "table-grows-astray", fault: "keys are not found where a map that has grown has put them",
		file: "internal/hashmap/hashmap.go", old: "t.add(t.hash(names[i]), e)", new: "t.add(uint64(i), e)",
		tests: "TestMap|TestSharded",
	},
	{
		name: "table-grows-at-once", fault: "all shards grow at the same moment",
		file: "internal/hashmap/hashmap.go", old: "int64(3*Shards+2*shard) / (6 * Shards)", new: "3 / 4",
		tests: "TestSharded_ShardsGrowInTurn",
	},
	{
		name: "table-replaces-nothing", fault: "an entry that is to be replaced stays",
		file: "internal/hashmap/hashmap.go", old: "t.buckets[bucket].slots[slot].Store(next)", new: "t.buckets[bucket].slots[slot].Store(found)",
		tests: "TestMap|TestReconfigure|TestReserve",
	},

	{
		name: "hash-without-a-seed", fault: "keys that collide can be made",
		file: "hash.go", old: "return hasher{rand.Uint64(), maphash.MakeSeed()}", new: "return hasher{rand.Uint64() & 0, maphash.MakeSeed()}",
		tests: "TestHasher",
	},

	// Eviction.
	{
		name: "evict-without-dead-mark", fault: "an idle key is deleted, not killed: a call under way charges the entry that is gone",
		file: "generation.go", old: "found == e && e.tryKill(word); !killed", new: "found == e && e.validate(word); !killed",
		tests: "TestEvict|TestRace_SweepsLoseNothing",
	},
	{
		name: "room-evicts-its-own-key", fault: "calls that make one key at once evict it in turn, for ever",
		file: "take.go", old: "!l.evictFor(g, 1, self[:]) {", new: "!l.evictFor(g, 1, nil) {",
		tests: "TestMaxKeys_MakesNoRoom",
	},
	{
		name: "evict-waited-for", fault: "a key is evicted while calls wait for it",
		file: "gc.go", old: "if !waits && l.queues.Has(k.name) {", new: "if false {",
		tests: "TestWait_KeepsItsKey",
	},
	{
		name: "evict-leaves-the-floor", fault: "a late reading finds the quota of an evicted key again",
		file: "kind.go", old: "rs.raiseFloor(since)", new: "_ = since",
		tests: "TestEvict",
	},
	{
		name: "evict-lowers-the-floor", fault: "a second eviction lowers the floor that the first one raised",
		file: "timeline.go", old: "if since <= old || ", new: "if ",
		tests: "TestTimeline",
	},
	{
		name: "evict-while-it-grows", fault: "a log that is making room is evicted",
		file: "kind.go", old: "if word&(dead|locked) != 0 || word&resizing != 0 && rs.kindOf(word).resizable() {", new: "if word&(dead|locked) != 0 {",
		tests: "TestLog_WhileItGrows|TestEvict",
	},
	{
		name: "evict-by-the-first-limit", fault: "a key is evicted as soon as no unit counts under its first limit",
		file: "kind.go", old: "if !ok {\n\t\t\treturn 0, false", new: "if !ok && i == 0 {\n\t\t\treturn 0, false",
		tests: "TestSeveralLimits_AreTheSame",
	},
	{
		name: "evict-floor-of-the-first-limit", fault: "the floor rises only to where the first limit is idle",
		file: "kind.go", old: "if i == 0 || one > since {", new: "if i == 0 {",
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
		file: "rule.go", old: "return 0 <= n && n <= l.most()", new: "return n <= l.most()",
		tests: "TestLimiter_CostsAreAnything|TestAnswers_EqualTheReferences",
	},
	{
		name: "cost-of-a-denial", fault: "denied calls are charged unasked",
		file: "rule.go", old: "case q.chargeDenied:", new: "case q.chargeDenied || q.charge:",
		tests: "TestCounter|TestAnswers_EqualTheReferences",
	},
	{
		name: "cost-of-denials-unbounded", fault: "charged denials pass Count",
		file: "rule.go", old: "return min(max(q.n, 0), max(l.Count-charged, 0))", new: "return max(q.n, 0)",
		tests: "TestCounter_ChargesDenied|TestAnswers_EqualTheReferences",
	},
	{
		name: "cost-of-a-denial-below-zero", fault: "a negative cost that is denied gives quota back",
		file: "rule.go", old: "return min(max(q.n, 0), max(l.Count-charged, 0))", new: "return min(q.n, max(l.Count-charged, 0))",
		tests: "TestLimiter_CostsAreAnything|TestAnswers_EqualTheReferences",
	},
	{
		name: "take-tracks-denied-keys", fault: "keys that are never admitted fill the memory",
		file: "take.go", old: "if r.ruleset.neverCharges || !q.stores(resultOf(r.ruleset.satisfiable(q.needs()))) {", new: "if !q.charge {",
		tests: "TestTake_ADenial",
	},
	{
		name: "take-charges-the-past", fault: "a call that finds its key evicted charges the instant it read before",
		file: "take.go", old: "q.at = g.instant(l.clock.Now())\n\t\t}\n\t\tif e != nil && q.charge", new: "}\n\t\tif e != nil && q.charge",
		tests: "TestEvict",
	},
	{
		name: "reset-without-dead-mark", fault: "a key that is reset is deleted, not killed",
		file: "generation.go", old: "g.tryKill(k, e, word|locked)", new: "g.keys.compareAndDelete(k, e)\ne.Word.Store(word)",
		tests: "TestReserve|TestCancel",
	},

	// Several limits, several keys.
	{
		name: "wait-observed-in-the-queue", fault: "a call is in the queue until its observer has returned",
		file: "wait.go", old: "if d, at = l.attempt(targets, n, true); d.Allowed {", new: "if d, at = l.attempt(targets, n, true); d.Allowed {\nl.observeAll(targets, n, d)",
		tests: "TestWait_ASlowObserver",
	},
	{
		name: "limits-first-only", fault: "only the first limit is asked",
		file: "kind.go", old: "if !own.rules[i].algorithm.admits", new: "if i == 0 && !own.rules[i].algorithm.admits",
		tests: "TestSeveralLimits|TestSeveralLimits_EqualTheReference",
	},
	{
		name: "next-of-one-limit", fault: "under several limits, TakeThenPeek returns the next decision of the last limit",
		file: "kind.go", old: "next.clear()", new: "",
		tests: "TestTakeThenPeek",
	},
	{
		name: "next-of-a-shared-quota", fault: "the same, where the key shares a quota",
		file: "take.go", old: "next.clear()", new: "",
		tests: "TestTakeThenPeek",
	},
	{
		name: "next-of-another-entry", fault: "TakeThenPeek returns a next decision that was made by an entry before it was replaced",
		file: "decision.go", old: "if d != nil {\n\t\t*d = Decision{}", new: "if d != nil && d.Allowed {\n\t\t*d = Decision{}",
		tests: "TestTakeThenPeek",
	},
	{
		name: "limits-charged-in-sequence", fault: "a call that one limit denies is charged to those before it",
		file: "kind.go", old: "if !own.rules[i].algorithm.admits(rs.stateOf(e, word, i), q) {", new: "if !own.rules[i].algorithm.admits(rs.stateOf(e, word, i), q) {\nif r := &own.rules[0]; i > 0 && q.charge && r.Algorithm == SlidingCounter {\ns := &e.asMulti().states[0]\nafter, _, _ := r.algorithm.apply(s.load(), q, admitted, stores)\ns.store(after)\n}",
		tests: "TestSeveralLimits_EqualTheReference",
	},
	{
		name: "limits-no-prev", fault: "under several limits curr does not become prev",
		file: "algorithm.go", old: "\tif s.words[1].Load() != after.b {\n\t\ts.words[1].Store(after.b)\n\t}\n", new: "",
		tests: "TestSeveralLimits_EqualTheReference",
	},
	{
		name: "limits-two-steps", fault: "several limits are checked, then charged",
		file: "kind.go", old: "\t\t\t\tif e.tryLock(word) {", new: "\t\t\t\tif e.tryLock(word) || true {",
		tests: "TestDecideVersion_ChargesNoState",
	},
	{
		name: "limits-rings-unknown", fault: "under several limits a log never gets room",
		file: "compile.go", old: "rs.rings = rs.rings || isRing", new: "rs.rings = isRing && len(rs.rules) == 0",
		tests: "TestSeveralLimits_EqualTheReference|TestSeveralLimits",
	},
	{
		name: "limits-rings-of-the-last", fault: "under several limits a log gets no room if a counter comes after it",
		file: "compile.go", old: "rs.rings = rs.rings || isRing", new: "rs.rings = isRing",
		tests: "TestSeveralLimits_EqualTheReference|TestSeveralLimits",
	},
	{
		name: "limits-fast-two-steps", fault: "several limits are checked, then charged, on the fast path",
		file: "multi.go", old: "charges && !e.tryLock(word) {", new: "charges && !e.tryLock(word) && word == dead {",
		tests: "TestTryFast_Believes",
	},
	{
		name: "limits-fast-first-only", fault: "the fast path asks only the first limit",
		file: "multi.go", old: "try(&states[i], at, n, m); res != admitted {", new: "try(&states[i], at, n, m); true {",
		tests: "TestSeveralLimits|TestSeveralLimits_EqualTheReference",
	},
	{
		name: "limits-fast-last-decides", fault: "an admitted call names the last of two equal limits",
		file: "rule.go", old: "remaining == left.remaining && left.key < left.order {", new: "remaining == left.remaining {",
		tests: "TestSeveralLimits_EqualTheReference",
	},
	{
		name: "peek-fast-charges", fault: "a Peek charges",
		file: "kind.go", old: "\t\t\te = nil // charge then", new: "\t\t\t// charge then",
		tests: "TestPeek|TestAnswers_EqualTheReferences",
	},
	{
		name: "peek-fast-charges-a-log", fault: "a Peek charges a log",
		file: "log.go", old: "if m&stores != 0 {\n\t\tc.charge", new: "if true {\n\t\tc.charge",
		tests: "TestPeek|TestAnswers_EqualTheReferences",
	},
	{
		name: "janitor-kills-without-a-floor", fault: "a key that was locked for a moment is evicted, and the past is not forgotten",
		file: "kind.go", old: "if !ok || !e.validate(word) {\n\t\treturn word, false\n\t}\n", new: "if !e.validate(word) {\nreturn word, ok\n}\nif !ok {\nreturn word, false\n}\n",
		tests: "TestSweep_EvictsNoKeyThatIsLocked",
	},
	{
		name: "counter-read-by-halves", fault: "a counter that is charged while it is read divides by what does not fit",
		file: "window.go", old: "elapsed = 0 // w is torn, and what follows from it is not used", new: "_ = elapsed",
		tests: "TestAlgorithms_SurviveWhatIsTorn",
	},
	{
		name: "log-read-by-halves", fault: "a log that is charged while it is read has fewer records than none",
		file: "ring.go", old: "max(0, v.count-dropped)", new: "v.count - dropped",
		tests: "TestLog_SurvivesWhatIsTorn",
	},
	{
		name: "limits-believe-torn-reads", fault: "a denial is answered from halves of two states",
		file: "kind.go", old: "if e.validate(word) {\n\t\t\t\treturn res", new: "if true {\n\t\t\t\treturn res",
		tests: "TestRace_PeeksSeeOneState",
	},
	{
		name: "counter-not-rotated", fault: "an old count is read as current",
		file: "internal/window/counter.go", old: "return Position{s.Rotate(index), elapsed}", new: "return Position{s, elapsed}",
		tests: "TestCounter|TestSeveralLimits_EqualTheReference",
	},
	{
		name: "limits-overflow", fault: "units spent past the limit wrap to less than nothing",
		file: "window.go", old: "p.Curr = int64(min(uint64(p.Curr)+uint64(units), math.MaxInt64))", new: "p.Curr += units",
		tests: "TestCommit",
	},
	{
		name: "limits-one-lineage", fault: "two limits pass for one when a charge is given back",
		file: "targets.go", old: "	for i := range origins {\n\t\tif e.states[i].lineage.Load() == nil {\n\t\t\torigins[i].lineage = newLineage()", new: "one := newLineage()\n	for i := range origins {\n\t\tif e.states[i].lineage.Load() == nil {\n\t\t\torigins[i].lineage = one",
		tests: "TestReserve|TestCancel",
	},
	{
		name: "limits-shortest-wait", fault: "RetryAfter comes from the limit that has to be waited for least",
		file: "decision.go", old: "d.RetryAfter = max(d.RetryAfter, o.RetryAfter)", new: "d.RetryAfter = min(d.RetryAfter, o.RetryAfter)",
		tests: "TestSeveralLimits|TestSeveralLimits_EqualTheReference",
	},
	{
		name: "keys-last-decides", fault: "only the last of several keys is asked",
		file: "targets.go", old: "case !t.ruleset.admits(t.entry, t.word, q):", new: "case i == len(targets)-1 && !t.ruleset.admits(t.entry, t.word, q):",
		tests: "TestTakeAll|TestSeveralLimits_EqualTheReference",
	},
	{
		name: "keys-twice", fault: "a key that is named twice counts twice",
		file: "targets.go", old: "return slices.CompactFunc(all, func(a, b target) bool { return a.key == b.key })", new: "return all",
		tests: "TestTakeAll_TellsKeysApart",
	},
	{
		name: "keys-by-hash", fault: "two keys of one hash count as one",
		file: "targets.go", old: "return a.key == b.key", new: "return a.hash == b.hash",
		tests: "TestTakeAll_TellsKeysApart",
	},
	{
		name: "keys-in-sequence", fault: "several keys are checked, then charged",
		file: "takeall.go", old: "tryLockAll(targets) && l.confirmFresh(g, targets):", new: "l.confirmFresh(g, targets):",
		tests: "TestTakeAll|TestRace_TakeAllInAnyOrder",
	},
	{
		name: "keys-that-share-are-asked-twice", fault: "a key that shares a quota with another of the call is asked by a word that was not read",
		file: "targets.go", old: "case t.placement == placedWithAnother:", new: "case t.placement == placedWithAnother && t.ruleset == nil:",
		tests: "TestAdmitAll|TestTakeAll_OfKeysThatShare",
	},
	{
		name: "keys-not-locked", fault: "a call that waits for the locks of its keys goes on without them",
		file: "kind.go", old: "if !alive || e.tryLock(word) {", new: "if !alive || e.validate(word) {",
		tests: "TestRace",
	},
	{
		name: "keys-left-locked", fault: "a call that cannot lock all keys holds on to some",
		file: "targets.go", old: "unlockAll(targets)\n\t\t\truntime.Gosched()", new: "runtime.Gosched()",
		tests: "TestTakeAll_Unlocks",
	},
	{
		name: "keys-at-two-instants", fault: "a denial reads one key before a change and another after it",
		file: "targets.go", old: "t.entry != nil && !t.entry.validate(t.word) {", new: "t.entry != nil && t.ruleset == nil {",
		tests: "TestTakeAll_ValidatesItsReads",
	},
	{
		name: "keys-first-seen-since", fault: "a denial takes a key for unseen that was charged since",
		file: "targets.go", old: "!fits || !l.confirmAbsent(t.resolved, t.key)", new: "!fits",
		tests: "TestTakeAll_ReadsAll|TestRace",
	},
	{
		name: "keys-charge-the-past", fault: "a call that finds a key evicted charges the instant it read before",
		file: "takeall.go", old: "case l.insertMissing(targets):\n\t\t\tq.at = g.instant(l.clock.Now())", new: "case l.insertMissing(targets):",
		tests: "TestEvict_UnderAny",
	},
	{
		name: "keys-fast-in-sequence", fault: "several keys are checked, then charged, on the fast path",
		file: "takeall.go", old: "if t := &f.all[i]; !t.entry.tryLock(t.word) {", new: "if t := &f.all[i]; !t.entry.tryLock(t.word) && t.word == dead {",
		tests: "TestTakeAll|TestRace_TakeAllInAnyOrder|TestRace",
	},
	{
		name: "keys-fast-left-locked", fault: "the fast path of several keys holds on to those that it has locked",
		file: "takeall.go", old: "\t\t\tf.unlock(i)\n", new: "",
		tests: "TestTakeAll_ChargesNothingAfterAChange|TestRace_TakeAllInAnyOrder|TestTakeAll_Unlocks",
	},
	{
		name: "keys-fast-named-by-lock-order", fault: "of equal limits, an admitted call names the one of the key that is locked first",
		file: "rule.go", old: " || o.remaining == left.remaining && left.key < left.order {", new: " {",
		tests: "TestTakeAll_Names",
	},
	{
		name: "keys-named-by-lock-order", fault: "of equal limits, the one of the key that is locked first is named",
		file: "targets.go", old: "d.join(&one, order < first)", new: "d.join(&one, first < 0)",
		tests: "TestSeveralLimits_EqualTheReference",
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
		name: "reserve-back-to-the-present", fault: "units taken in another window are given back to this one",
		file: "window.go", old: "switch number {", new: "switch w.Index {",
		tests: "TestCancel|TestReserve_EqualsTheReference",
	},
	{
		name: "reserve-back-for-ever", fault: "units that no longer count are given back to the window before this one",
		file: "window.go", old: "case w.Index - 1:", new: "default:",
		tests: "TestCancel_OfAWindow",
	},
	{
		name: "reserve-back-to-the-record-before", fault: "units are given back to the record before their own",
		file: "ring.go", old: "for j := -1; j < i; j++ {", new: "for j := -1; j < i-1; j++ {",
		tests: "TestRing_GivesBack",
	},
	{
		name: "reserve-back-to-the-record-after", fault: "units are given back to the record after their own",
		file: "ring.go", old: "for j := i; j < v.count; j++ {", new: "for j := i + 1; j < v.count; j++ {",
		tests: "TestRing_GivesBack",
	},
	{
		name: "reserve-back-to-another-life", fault: "a key that was reset is given back units that it was never charged",
		file: "multi.go", old: "return o.lineage == g.root", new: "return true",
		tests: "TestCancel",
	},
	{
		name: "reserve-leaves-the-floor", fault: "a late reading is admitted before a state that was emptied by giving back",
		file: "multi.go", old: "r.raiseFloor(seen)", new: "_ = seen",
		tests: "TestReserve_OnAnyClock",
	},
	{
		name: "reserve-notifies-none", fault: "a Wait sleeps on when quota is given back",
		file: "reserve.go", old: "l.queues.Free(r.key.name, 0)", new: "",
		tests: "TestWait_Notices",
	},

	// Waiting.
	{
		name: "wait-charges-the-cancelled", fault: "a Wait whose context has ended is charged, or admitted",
		file: "wait.go", old: "if err := ctx.Err(); err != nil {", new: "if err := ctx.Err(); err != nil && l == nil {",
		tests: "TestWait_EndsWithItsContext",
	},
	{
		name: "wait-overtakes", fault: "a waiter has its turn where an earlier one claims everything",
		file: "internal/queue/queue.go", old: "if p.Claimed == Everything {\n\t\t\tw.Behind = i", new: "if p.Claimed == Everything && p == nil {\n\t\t\tw.Behind = i",
		tests: "TestQueues_EqualANaive|TestWaitAll_DelaysNoOther",
	},
	{
		name: "wait-new-overtakes", fault: "a new Wait does not look for calls that wait already",
		file: "wait.go", old: "alone := n == 0 || !l.isWaitedFor(targets)", new: "alone := n == 0 || n > 0",
		tests: "TestWait_OvertakesNoOther",
	},
	{
		name: "wait-charges-in-the-queue", fault: "a Wait is charged before its turn",
		file: "wait.go", old: "charge: turn && n > 0", new: "charge: n > 0",
		tests: "TestWait_Overtakes",
	},
	{
		name: "wait-notifies-none", fault: "a Wait that leaves the queue does not wake the next",
		file: "internal/queue/queue.go", old: "q.claim(p, Claim{})\n\t\tbefore", new: "before",
		tests: "TestWait", in: ".",
	},
	{
		name: "wait-to-the-deadline", fault: "a Wait that cannot be admitted in time waits until its deadline",
		file: "wait.go", old: "ok && least > left {", new: "ok && least > left && least < 0 {",
		tests: "TestWait_FailsAtOnce",
	},
	{
		name: "wait-leaks-queues", fault: "the queue of a key stays when no call waits any more",
		file: "internal/queue/queue.go", old: "delete(w.crowd.lines, p.Key)", new: "_ = p.Key",
		tests: "TestWait", in: ".",
	},
	{
		name: "wait-charged-for-waiting", fault: "each look of a Wait is charged as a denied attempt",
		file: "wait.go", old: "charge: turn && n > 0}, waits", new: "charge: turn && n > 0, chargeDenied: l.chargeDenied}, waits",
		tests: "TestWait_IsNotCharged",
	},
	{
		name: "wait-counts-one-twice", fault: "units that have been charged count among those waited for",
		file: "internal/queue/line.go", old: "if !p.trying {", new: "if !p.trying || p.trying {",
		tests: "TestWait", in: ".",
	},
	{
		name: "waitall-looks-at-one-queue", fault: "a WaitAll is admitted once it has its turn in one of its queues",
		file: "internal/queue/queue.go", old: "p.Claimed = before.claimed()", new: "if i == 0 {\np.Claimed = before.claimed()\n}",
		tests: "TestWaitAll", in: ".",
	},
	{
		name: "waitall-wakes-one-queue", fault: "a WaitAll that leaves wakes the calls of one of its keys only",
		file: "internal/queue/queue.go", old: "q.claim(p, Claim{})\n\t\tbefore", new: "if i == 0 {\nq.claim(p, Claim{})\n}\nbefore",
		tests: "TestWaitAll", in: ".",
	},
	{
		name: "waitall-wakes-the-next-only", fault: "a WaitAll that leaves wakes only the call behind it, which may wait for another key",
		file: "internal/queue/line.go", old: "return p.Claim.Units == Everything || p.right.wake(by)", new: "return p.hears || p.right.wake(by)",
		tests: "TestQueues_Equal|TestWaitAll",
	},
	{
		name: "waitall-starves", fault: "calls that wait for one key take what a WaitAll waits for",
		file: "internal/queue/line.go", old: "p.inForce = p.inForce || p.Claim.Units > 0 && p.Claim.From <= now", new: "_ = now",
		tests: "TestWaitAll", in: ".",
	},
	{
		name: "waitall-claims-all-the-time", fault: "a WaitAll holds back units that come back before it can be admitted",
		file: "wait.go", old: "window.Sub(readyAt, l.rulesetOf(w.Places[i].Key).looksBack())", new: "window.Sub(readyAt, math.MaxInt64)",
		tests: "TestWaitAll",
	},
	{
		name: "waitall-claims-too-late", fault: "a charge that still counts when a WaitAll could be admitted delays it",
		file: "wait.go", old: "window.Sub(readyAt, l.rulesetOf(w.Places[i].Key).looksBack())", new: "window.Sub(readyAt, l.rulesetOf(w.Places[i].Key).looksBack()/2)",
		tests: "TestWaitAll",
	},
	{
		name: "waitall-claims-everything", fault: "a WaitAll holds up the calls for all of its keys",
		file: "wait.go", old: "if i == last {", new: "if i >= 0 {",
		tests: "TestWaitAll",
	},
	{
		name: "waitall-claims-nothing-whole", fault: "calls for the key that a WaitAll waits for are admitted before it",
		file: "wait.go", old: "if i == last {", new: "if i < 0 {",
		tests: "TestWait_Overtakes|TestWaitAll",
	},
	{
		name: "waitall-waits-by-time-only", fault: "a WaitAll whose turn has not come at one key holds up the waiters of a key that admits it later",
		file: "internal/queue/queue.go", old: "if p.Claimed == Everything {\n\t\t\tc.Units", new: "if w.Behind != Nowhere {\n\t\t\tc.Units",
		tests: "TestWaitAll_IsWaitedFor", in: ".",
	},
	{
		name: "waitall-shrinks-in-silence", fault: "calls that a WaitAll lets go first are not woken",
		file: "internal/queue/queue.go", old: "if shrinks && before", new: "if shrinks && c.Units == 0 && before",
		tests: "TestWaitAll", in: ".",
	},
	{
		name: "wait-forecasts-by-other-parts", fault: "a Wait that would be in time is refused, by parts that are not its key's",
		file: "wait.go", old: "early := r.early(name)", new: "early := int64(0)",
		tests: "TestWait_ForecastsByTheParts",
	},
	{
		name: "waitall-forecasts-others", fault: "a Wait that may go before a WaitAll fails for the units of that",
		file: "wait.go", old: "if len(targets) == 1 {", new: "if len(targets) > 0 {",
		tests: "TestWaitAll_IsNotForecast",
	},
	{
		name: "waitall-for-a-small-quota", fault: "a WaitAll waits for ever for a shared quota that never admits as much",
		file: "wait.go", old: "return g.ruleset.exceededBy(n, mostToLeave(targets))", new: "return nil",
		tests: "TestWaitAll_FailsAtOnceIfTheSharedQuota",
	},
	{
		name: "wait-queues-in-vain", fault: "a Wait that is sure to come too late is not refused before it queues",
		file: "wait.go", old: "return tooLate(ctx, l.leastWait(targets, n))", new: "return nil",
		tests: "TestAtOnce_ADeadlineStillCounts",
	},
	{
		name: "waitall-beyond-the-cap", fault: "a WaitAll of more keys than can ever be tracked waits for ever",
		file: "keycap.go", old: "return c == nil || keys <= c.max }", new: "return c == nil || keys != 0 }",
		tests: "TestWaitAll_UnderACap",
	},
	{
		name: "waitall-claims-without-a-turn", fault: "a call whose turn has not come at one key holds up others at its other keys",
		file: "internal/queue/queue.go", old: "p, c := &w.Places[i], Claim{}", new: "p, c := &w.Places[i], w.Places[i].Claim",
		tests: "TestWaitAll", in: ".",
	},
	{
		name: "waitall-misses-its-turn", fault: "a call that waits for its turn is not woken when it comes",
		file: "internal/queue/queue.go", old: "c.Waits || c.Units == Everything, false", new: "c.Waits, false",
		tests: "TestWaitAll", in: ".",
	},
	{
		name: "waitall-misses-what-happens-while-it-tries", fault: "a call that tries is woken only for the key of its turn",
		file: "internal/queue/queue.go", old: "p.trying, p.hears = true, true", new: "p.trying = true",
		tests: "TestQueues_Equal|TestWaitAll|TestRace_WaitAll",
	},
	{
		name: "waitall-deaf-to-all", fault: "a WaitAll whose keys have just come to admit it is not woken for what has made them",
		file: "wait.go", old: "c.Waits = n, last == queue.Nowhere", new: "c.Waits = n, false",
		tests: "TestWaitAll_IsWokenForAny",
	},
	{
		name: "takeall-goes-by-the-word-of-another-entry", fault: "a call that starts over judges the entry that a key has got since by the word of the one before",
		file: "takeall.go", old: "			loadWords(targets)\n", new: "",
		tests: "TestTakeAll_KeepsLimits",
	},
	{
		name: "takeall-leaves-what-it-made", fault: "a TakeAll that one key denies leaves the entry that it has made for another",
		file: "takeall.go", old: "\tif !d.Allowed {\n\t\tl.remove", new: "\tif !d.Allowed && q.n < 0 {\n\t\tl.remove",
		tests: "TestTakeAll_LeavesNoKey",
	},
	{
		name: "takeall-leaves-what-was-replaced", fault: "an entry that was made and not charged is not known for unused once the limits have changed",
		file: "migrate.go", old: "\tif from.unused(word) {", new: "\tif from.unused(word) && isMulti != isMulti {",
		tests: "TestTakeAll_LeavesNoKey",
	},
	{
		name: "takeall-denies-what-it-has-not-validated", fault: "a denied TakeAll reads its keys at different instants",
		file: "takeall.go", old: "\treturn f.validate()\n}\n\n// noKeys", new: "\treturn f.count > 0\n}\n\n// noKeys",
		tests: "TestPeekAll",
	},
	{
		name: "window-denied-for-nothing", fault: "the fast path denies an attempt that is to be charged under WithChargeDenied",
		file: "window.go", old: "w.Curr == 0 || r.chargeDenied {", new: "w.Curr == 0 {",
		tests: "TestTakeAll_ChargesADenied",
	},
	{
		name: "takeall-leaves-locks", fault: "a TakeAll whose last key has changed leaves the others locked",
		file: "takeall.go", old: "\t\t\tf.unlock(locks)\n", new: "",
		tests: "TestTakeAll_ChargesNothingAfterAChange",
	},
	{
		name: "takeall-swaps-without-locks", fault: "a TakeAll charges its last key at an instant at which the others are not locked",
		file: "takeall.go", old: "if !f.lock(locks) {", new: "if !f.lock(locks / 2) {",
		tests: "TestTakeAll_ChargesNothingAfterAChange",
	},
	{
		name: "takeall-denied-by-the-last", fault: "a denied TakeAll names another of several equal limits, by the order of hashes",
		file: "takeall.go", old: "} else if d.join(&one, t.order < first) {\n\t\t\tfirst = t.order", new: "} else if d.join(&one, t.order < first && i < 0) {\n\t\t\tfirst = t.order",
		tests: "TestTakeAll|TestModel",
	},
	{
		name: "limits-denied-from-torn-states", fault: "a denial under several limits is told from states of different instants",
		file: "multi.go", old: "} else if !e.validate(word) { // nothing is written", new: "} else if d == nil && !e.validate(word) { // nothing is written",
		tests: "TestTryFast_BelievesNoState",
	},
	{
		name: "limits-next-asks-for-too-little", fault: "under several limits, the decision on one unit more is on what is left",
		file: "multi.go", old: "n: d.Remaining + 1}, denied, 0, next)", new: "n: d.Remaining}, denied, 0, next)",
		tests: "TestTakeThenPeek|TestModel",
	},
	{
		name: "waitall-at-the-first-instant", fault: "at the first instant of a clock, a call with its turn claims too little of its key",
		file: "wait.go", old: "last == queue.Nowhere || admitsAt > readyAt {", new: "admitsAt > readyAt {",
		tests: "TestWaitAll_KeepsItsOrder",
	},
	{
		name: "waitall-hears-all", fault: "a unit that is given back wakes all calls that another key denies as well",
		file: "wait.go", old: "c.Waits = n, last == queue.Nowhere", new: "c.Waits = n, true",
		tests: "TestWaitAll_AUnitWakesFew",
	},
	{
		name: "waitall-oversleeps", fault: "a WaitAll does not look for the key that denies it next once the last one admits it",
		file: "wait.go", old: "				due = window.Plus(at, int64(wait))\n", new: "",
		tests: "TestWaitAll_WaitsForOne",
	},
	{
		name: "waitall-for-the-same-keys-each-by-itself", fault: "a WaitAll that turns from one key to another makes all others for the same keys do so",
		file: "wait.go", old: "w.Group = setName(targets)", new: "_ = setName(targets)",
		tests: "TestWaitAll_AUnitWakesFew",
	},
	{
		name: "waitall-other-keys-of-one-name", fault: "calls for other keys pass for calls for the same keys",
		file: "wait.go", old: "		name = binary.AppendUvarint(name, uint64(len(targets[i].name)))\n", new: "		_ = binary.MaxVarintLen64\n",
		tests: "TestWaitAll_TellsSets",
	},
	{
		name: "queue-next-of-a-group-sleeps", fault: "a waiter that comes to lead its group is not woken",
		file: "internal/queue/queue.go", old: "		n.Wake()\n", new: "",
		tests: "TestQueues_Equal",
	},
	{
		name: "queue-next-of-a-group-claims-nothing", fault: "later waiters come between two of a group",
		file: "internal/queue/queue.go", old: "q.claim(&n.Places[i], Claim{Units: Everything})", new: "_ = i",
		tests: "TestQueues_Equal",
	},
	{
		name: "queue-group-leaks", fault: "a group stays when it has no waiters any more",
		file: "internal/queue/queue.go", old: "		delete(w.crowd.groups, w.Group)\n", new: "",
		tests: "TestQueues_Equal",
	},
	{
		name: "queue-tells-the-first", fault: "only the first waiter is told of a change",
		file: "internal/queue/queue.go", old: "		q.telling = nil\n		q.tellNext()\n", new: "		q.telling = nil\n",
		tests: "TestQueues_Tell",
	},
	{
		name: "queue-waits-for-those-awake", fault: "a waiter that runs its caller's code holds up the news for all others",
		file: "internal/queue/queue.go", old: "if !w.awake.Load() {", new: "if !w.awake.Load() || true {",
		tests: "TestWait_AHanging",
	},
	{
		name: "queue-tells-until-one-leaves", fault: "a waiter that leaves when it is told of a change does not pass the word on",
		file: "internal/queue/queue.go", old: "Remove(w.inNews)\n	q.passOn(w)", new: "Remove(w.inNews)",
		tests: "TestQueues_Tell",
	},
	{
		name: "queue-tells-all-at-once", fault: "a change wakes all waiters at once, and other goroutines wait for them",
		file: "internal/queue/queue.go", old: "		q.telling = w\n", new: "		defer q.tellNext()\n",
		tests: "TestQueues_Tell",
	},
	{
		name: "queue-tells-of-the-first-change", fault: "waiters that have been told of a change are not told of the next, if others have not been told",
		file: "internal/queue/queue.go", old: "q.moveNews(e.Value.(*Waiter[K]), 1-q.told)\n", new: "break\n",
		tests: "TestQueues_Tell",
	},
	{
		name: "queue-looks-at-claims-again", fault: "each waiter visits all claims that are in force",
		file: "internal/queue/line.go", old: "		s.most = p.Claim.Units\n", new: "		s.most, s.from = p.Claim.Units, p.Claim.From\n",
		tests: "TestQueues_TakeFewSteps",
	},
	{
		name: "wait-for-nothing-queues", fault: "a Wait for 0 units is behind those that wait for units",
		file: "internal/queue/queue.go", old: "if w.Undemanding {", new: "if false {",
		tests: "TestWait_ForNothing", in: ".",
	},
	{
		name: "max-waiters-plus-one", fault: "one call more waits than WithMaxWaiters allows",
		file: "internal/queue/queue.go", old: "q.Len() >= most", new: "q.Len() > most",
		tests: "TestWithMaxWaiters|TestRace_WithMaxWaiters", in: ".",
	},
	{
		name: "max-waiters-not-kept", fault: "WithMaxWaiters has no effect",
		file: "new.go", old: "c.maxWaiters,", new: "1 << 30,",
		tests: "TestModel$",
	},
	{
		name: "max-waiters-before-the-limit", fault: "a call that is never admitted is told that too many wait",
		file: "wait.go", old: "	if err := l.waitError(ctx, targets, n, d.RetryAfter); err != nil {\n", new: "	if err := error(nil); err != nil {\n",
		tests: "TestWithMaxWaiters",
	},
	{
		name: "max-waiters-below-zero", fault: "New accepts a negative number of waiters",
		file: "options.go", old: "c.require(n >= 0, \"WithMaxWaiters", new: "c.require(n >= -1, \"WithMaxWaiters",
		tests: "TestNew_Names",
	},
	{
		name: "stats-without-waiters", fault: "Stats does not tell how many calls wait",
		file: "new.go", old: "Waiters: l.queues.Len()", new: "Waiters: 0",
		tests: "TestWithMaxWaiters",
	},
	{
		name: "queue-wakes-those-without-a-turn", fault: "a claim that shrinks wakes waiters that an earlier one holds up",
		file: "internal/queue/queue.go", old: "shrinks && before.whole().everything == 0", new: "shrinks",
		tests: "TestQueues_Equal",
	},
	{
		name: "queue-wakes-too-many", fault: "a change at a key wakes waiters that wait for another one",
		file: "internal/queue/line.go", old: "if p.hears && p.waiter.Number != by {", new: "if p.waiter.Number != by {",
		tests: "TestQueues_AWaiterHoldsUpNone|TestQueues_Equal",
	},
	{
		name: "queue-claims-from-the-start", fault: "a claim from a later instant on counts before that",
		file: "internal/queue/line.go", old: "case p.inForce:", new: "case p.inForce || p.Claim.Units > 0:",
		tests: "TestQueues_Equal",
	},
	{
		name: "peekall-fast-believes-two-instants", fault: "PeekAll answers from keys that it has read at different instants",
		file: "takeall.go", old: "if !t.entry.validate(t.word) {", new: "if !t.entry.validate(t.word) && t.order < 0 {",
		tests: "TestPeekAll",
	},
	{
		name: "peekall-fast-charges", fault: "PeekAll takes what it looks at, on its fast path",
		file: "takeall.go", old: "if fast.tell(g, at, n, &d); fast", new: "if fast.charge(g, at, n, &d); !fast",
		tests: "TestPeekAll",
	},
	{
		name: "peekall-charges", fault: "PeekAll takes what it looks at",
		file: "takeall.go", old: "l.takeAll(targets, g, &request{query: query{at: at, n: n, chargeDenied", new: "l.takeAll(targets, g, &request{query: query{at: at, n: n, charge: n > 0, chargeDenied",
		tests: "TestPeekAll",
	},

	// Limits that change.
	{
		name: "reconfigure-not-refused", fault: "below several HTTP policies, Reconfigure changes the first of them only",
		file: "reconfigure.go", old: "if err := old.setup.noReconfigure; err != nil {", new: "if err := old.setup.noReconfigure; err != nil && l == nil {",
		tests: "TestReconfigure_CanBeRefused",
	},
	{
		name: "change-over-a-charge", fault: "units that are charged while a key is migrated are lost",
		file: "migrate.go", old: "if !alive || e.tryLock(word) {", new: "if l.clock.Now(); true {",
		tests: "TestRace_ChangingLimits|TestMigrate",
	},
	{
		name: "change-dates-too-early", fault: "units that are charged after a change of limits has read the clock are dated before",
		file: "migrate.go", old: "word, alive = rs.loadQuiescent(e)\n\t\tnow = g.instant(l.clock.Now())", new: "now = g.instant(l.clock.Now())\n\t\tword, alive = rs.loadQuiescent(e)",
		tests: "TestMigrate",
	},
	{
		name: "change-waits-for-charges", fault: "a clock that charges the key holds up a change of its limits for ever",
		file: "migrate.go", old: "for range optimisticRounds {\n\t\tword, alive = rs.loadQuiescent(e)", new: "for {\n\t\tword, alive = rs.loadQuiescent(e)",
		tests: "TestMigrate",
	},
	{
		name: "change-leaves-two-entries", fault: "the entry that was migrated is charged on",
		file: "migrate.go", old: "e.markDead(word)\n\t}", new: "e.Word.Store(word)\n\t}",
		tests: "TestRace_ChangingLimits",
	},
	{
		name: "change-takes-the-earliest", fault: "a unit that is known by its window alone stops counting too soon",
		file: "algorithm.go", old: "return number*size + (size - 1)", new: "return h.beginningOf(number)",
		tests: "TestReconfigure",
	},
	{
		name: "change-follows-the-smallest", fault: "of two equal limits the one that knows less is replayed",
		file: "migrate.go", old: "return a.Count > b.Count ", new: "return a.Count < b.Count ",
		tests: "TestReconfigure_Replays",
	},
	{
		name: "change-forgets-the-place", fault: "a bucket with a new rate takes the units of the first bucket, not of its own",
		file: "migrate.go", old: "best = min(place, len(rules)-1)", new: "best = 0",
		tests: "TestTokenBucket_Inherits",
	},
	{
		name: "change-looks-too-far-back", fault: "buckets are taken to remember all of their oldest one",
		file: "log.go", old: "remembers: (r.ticks.Life - 1) * r.ticks.Length", new: "remembers: r.ticks.Life * r.ticks.Length",
		tests: "TestReconfigure",
	},
	{
		name: "change-forgets-the-time", fault: "a key whose units were all given back forgets the time that it has seen",
		file: "log.go", old: "if units > 0 || i == current.count-1 {", new: "if units > 0 {",
		tests: "TestReconfigure_CarriesTheTime",
	},
	{
		name: "change-not-rotated", fault: "all migrated units end up in one window",
		file: "window.go", old: "w = w.Rotate(index)", new: "w.Index = index",
		tests: "TestReconfigure",
	},
	{
		name: "change-has-no-old", fault: "a key that is asked for before it is migrated has a fresh quota",
		file: "reconfigure.go", old: "g.old.Store(old)", new: "",
		tests: "TestRace_ChangingLimits|TestRace_ReconfigureHidesNoKey",
	},
	{
		name: "change-notifies-none", fault: "a Wait sleeps on when the limits rise",
		file: "reconfigure.go", old: "l.queues.ChangeAll()", new: "",
		tests: "TestWait_Notices",
	},
	{
		name: "change-of-one-notifies-none", fault: "a Wait sleeps on when the limits of its key rise",
		file: "reconfigure.go", old: "l.queues.Change(key)", new: "",
		tests: "TestWait_Notices",
	},
	{
		name: "change-hides-a-key", fault: "a key that another call is migrating is not found",
		file: "lookup.go", old: "return g.keys.load(k)", new: "return nil",
		tests: "TestReconfigure_AKeyThatIsMigrated|TestRace_ResetsFind",
	},

	// What WithLimitsFor returns, replaced with the limits.
	{
		name: "replace-keeps-limits-of-keys", fault: "a key that was charged before keeps the limits that the former WithLimitsFor gave it",
		file: "migrate.go", old: "case g.setup != old.setup:", new: "case g.setup != old.setup && own == old.ruleset:",
		tests: "TestReplace_LimitsOfTracked",
	},
	{
		name: "replace-always-asks", fault: "Reconfigure asks WithLimitsFor for keys that are tracked",
		file: "migrate.go", old: "case g.setup != old.setup:", new: "case g != old:",
		tests: "TestReconfigure_AsksForNo",
	},
	{
		name: "replace-keeps-wrong-limits", fault: "a key for which WithLimitsFor returned wrong limits once is denied until it is evicted",
		file: "migrate.go", old: "case rs.unlimited() || rs.fault != nil:", new: "case rs.unlimited():",
		tests: "TestReplace_KeysThatAreNotTracked",
	},
	{
		name: "replace-keeps-the-unlimited", fault: "a key that has become unlimited stays in the table",
		file: "migrate.go", old: "case rs.unlimited() || rs.fault != nil:", new: "case rs.fault != nil:",
		tests: "TestReplace_KeysThatAreNotTracked",
	},
	{
		name: "replace-keeps-rulesets", fault: "limits that no key has any more fill the cache of rulesets",
		file: "reconfigure.go", old: "g.rulesets.clear()", new: "",
		tests: "TestReplace_Forgets",
	},
	{
		name: "replace-of-another-generation", fault: "a change of limits that comes in between is lost, with what was charged since",
		file: "reconfigure.go", old: "if published = l.current.Load() == old; !published {", new: "if published = true; !published {",
		tests: "TestReplace_DoesNotPublish",
	},
	{
		name: "replace-before-others-end", fault: "the limits are replaced while a Snapshot or a SetLimits relies on them",
		file: "reconfigure.go", old: "if !l.changes.TryLock() {", new: "if !l.changes.TryLock() && l == nil {",
		tests: "TestReplace_DoesNotPublish",
	},
	{
		name: "setlimits-asks-the-former", fault: "SetLimits without limits gives a key the limits of a WithLimitsFor that has been replaced",
		file: "reconfigure.go", old: "if len(limits) > 0 || l.current.Load().setup == s {", new: "if len(limits) > 0 || s != nil {",
		tests: "TestReplace_WhileTheFormer",
	},
	// Policies that are replaced while requests are decided.
	{
		name: "policies-half-replaced", fault: "a request is charged to the former policies under the new limits",
		file: "httplimit/call.go", old: "c.within = c.sections.opened.Load() == c.table", new: "c.within = c.sections.opened.Load() != nil",
		tests: "TestReconfigure_WhileARequestIsAbout",
	},
	{
		name: "policies-replaced-within", fault: "policies are replaced while requests are being charged",
		file: "httplimit/section.go", old: "s.stripes[i].calls.Load() != 0", new: "s.stripes[i].calls.Load() < 0",
		tests: "TestReconfigure_WaitsFor|TestReconfigure_NoRequest",
	},
	{
		name: "sections-not-closed", fault: "requests begin to be charged while policies are replaced",
		file: "httplimit/section.go", old: "s.opened.Store(nil)", new: "",
		tests: "TestReconfigure_WaitsFor|TestReconfigure_NoRequest",
	},
	{
		name: "section-not-ended", fault: "after a panic in the function of a sash.WithObserver, no policy can be replaced any more",
		file: "httplimit/decide.go", old: "if c.within { // a function", new: "if c == nil { // a function",
		tests: "TestReconfigure_AfterAPanic",
	},
	{
		name: "section-while-waiting", fault: "while a request waits in a queue, no policy can be replaced",
		file: "httplimit/queue.go", old: "	c.end()\n	if c.store", new: "	if c.store",
		tests: "TestReconfigure_WhileRequestsWait",
	},
	{
		name: "policies-not-told-to-waiters", fault: "requests wait on for limits that were replaced",
		file: "httplimit/reconfigure.go", old: "l.waits.ChangeAll()", new: "",
		tests: "TestReconfigure_WhileRequestsWait",
	},
	{
		name: "waiters-lose-their-place", fault: "requests that wait lose their order when policies are replaced",
		file: "httplimit/queue.go", old: "w := newWaiter(takes, c.place)", new: "w := newWaiter(takes, 0)",
		tests: "TestReconfigure_WhileRequestsWait",
	},
	{
		name: "waiters-wait-anew", fault: "requests wait for longer than their policy says when policies are replaced",
		file: "httplimit/queue.go", old: "if c.place == 0 {\n\t\tc.came", new: "if c.place >= 0 {\n\t\tc.came",
		tests: "TestReconfigure_WhileRequestsWait",
	},
	{
		name: "policy-numbers-reused", fault: "a new policy inherits the counts of one that is gone",
		file: "httplimit/table.go", old: "byNumber: make(map[int]*policy), next: former.next,", new: "byNumber: make(map[int]*policy), next: len(former.byName) - 1,",
		tests: "TestReconfigure_",
	},
	{
		name: "events-of-former-policies", fault: "a request that starts over is reported under shadows that do not decide it",
		file: "httplimit/call.go", old: "c.enforced, c.missed = c.takes[:0], nil, nil", new: "c.enforced = c.takes[:0], nil",
		tests: "TestReconfigure_ReportsTheNew",
	},
	{
		name: "plan-ignored", fault: "all plans have the Limits of their policy",
		file: "httplimit/policy.go", old: "cmp.Or(p.plans[p.Plan(r)], p)", new: "cmp.Or(p, p.plans[p.Plan(r)])",
		tests: "TestPlans",
	},
	{
		name: "plan-forged-in-a-store", fault: "the keys of a plan in a store are the keys of a policy whose Name ends in the Name of the plan",
		file: "httplimit/table.go", old: "name += storedPlan + plan", new: "name += plan",
		tests: "TestPlans",
	},
	{
		name: "plan-takes-names-of-others", fault: "a plan and another policy have quotas of one name",
		file: "httplimit/options.go", old: "taken && name != \"\" && first != i+1 //", new: "taken && name == p.Name && first != i+1 //",
		tests: "TestPlans|TestNew",
	},
	{
		name: "policies-gone-stay", fault: "keys of policies that are gone stay in the table",
		file: "httplimit/table.go", old: "return []sash.Limit{sash.Unlimited()}", new: "return nil",
		tests: "TestReconfigure_",
	},
	{
		name: "policies-swept-by-the-former", fault: "keys are swept by the windows of the former policies",
		file: "httplimit/reconfigure.go", old: "SweepInterval: next.sweepInterval(l.sweepInterval),", new: "SweepInterval: l.table.Load().sweepInterval(l.sweepInterval),",
		tests: "TestReconfigure_Sweeps",
	},

	{
		name: "change-not-noticed", fault: "a key that is first seen while its limits change keeps the old ones",
		file: "lookup.go", old: "return l.current.Load() == r.generation && override == r.override", new: "return l.current.Load() == r.generation && override == override",
		tests: "TestWithLimitsFor_While|TestReserve_WhileItsLimitsRise",
	},
	{
		name: "absent-at-another-time", fault: "a key without an entry is decided by limits that it got after it had one",
		file: "lookup.go", old: "return l.find(r.generation, k) == nil && l.stillValid(r, k.name)", new: "return l.stillValid(r, k.name)",
		tests: "TestSetLimits_OfAKeyTakenFrom",
	},
	{
		name: "ruleset-unchecked", fault: "for a wrong limit of WithLimitsFor the limiter's own limits are used",
		file: "generation.go", old: "r.ruleset = g.newDenying(fault)", new: "",
		tests: "TestWithLimitsFor",
	},
	{
		name: "ruleset-before-override", fault: "WithLimitsFor takes precedence over SetLimits",
		file: "generation.go", old: "r.override != nil {", new: "r.override != nil && g.setup.limitsFor == nil {",
		tests: "TestReconfigure_KeepsLimits",
	},
	{
		name: "ruleset-for-each-key", fault: "every key has a ruleset of its own in memory",
		file: "overrides.go", old: "if o.rulesets.forWriting().Size() < maxCached {", new: "if o.rulesets.forWriting().Size() > maxCached {",
		tests: "TestWithLimitsFor",
	},

	// None and all.
	{
		name: "none-carried-by-none", fault: "a key that admits nothing is charged the units spent",
		file: "reserve.go", old: "own.neverCharges || !own.spends", new: "!own.spends",
		tests: "TestCountZero",
	},
	{
		name: "none-is-stored", fault: "a key that admits nothing gets an entry when it is denied",
		file: "compile.go", old: "rs.unlimited() || rs.admitsNothing()", new: "rs.unlimited()",
		tests: "TestCountZero",
	},
	{
		name: "none-frees-the-others", fault: "next to a limit of nothing the other limits are not charged denied attempts",
		file: "rule.go", old: "return none && !denied", new: "return none",
		tests: "TestCountZero",
	},
	{
		name: "none-takes-room", fault: "a key that takes no room counts among those that do not fit",
		file: "overflow.go", old: "case !t.needsEntry():", new: "case t.entry != nil:",
		tests: "TestUnlimited_Takes",
	},
	{
		name: "room-at-an-earlier-instant", fault: "a call on several keys has room for one although the last was taken before it read another",
		file: "targets.go", old: "fits := t.placement == placedFresh || ", new: "fits := true || t.placement == placedFresh || ",
		tests: "TestMaxKeys",
	},
	{
		name: "room-before-the-locks", fault: "a call that locks its keys has room for them although another call has taken it since",
		file: "lockorder.go", old: "ok = ok && fit == g.cap.", new: "ok = ok && fit || ok && !g.cap.",
		tests: "TestMaxKeys",
	},
	{
		name: "room-of-a-key-just-inserted", fault: "two calls evict each other's new keys for ever",
		file: "capacity.go", old: "item.seq >= before &&", new: "before == 0 &&",
		tests: "TestMaxKeys",
	},
	{
		name: "room-of-no-key-since", fault: "a call evicts no key that was inserted since it began, though it is idle",
		file: "capacity.go", old: "item.seq >= before && item.generation.ruleset.unused(item.entry.Word.Load())", new: "item.seq >= before",
		tests: "TestMaxKeys",
	},
	{
		name: "none-makes-room", fault: "a call on an exempt key evicts an idle key",
		file: "take.go", old: "if !r.ruleset.neverCharges && !l.evictFor(", new: "if !l.evictFor(",
		tests: "TestUnlimited_Takes",
	},
	{
		name: "none-kept-before-others", fault: "to make room, a key that is denied in any case is kept and another evicted",
		file: "capacity.go", old: "if c.count == 0 {", new: "if false {",
		tests: "TestCountZero_IsEvicted",
	},
	{
		name: "unlimited-is-stored", fault: "a TakeAll makes an entry for an exempt key",
		file: "compile.go", old: "rs.unlimited() || rs.admitsNothing()", new: "rs.admitsNothing()",
		tests: "TestUnlimited",
	},
	{
		name: "unlimited-unconfirmed", fault: "a TakeAll charges other keys for a key that is no longer exempt",
		file: "targets.go", old: "ok = ok && l.stillValid(t.resolved, t.name)", new: "ok = ok && t.entry == nil",
		tests: "TestTakeAll_Notices",
	},
	{
		name: "unlimited-unlooked", fault: "a TakeAll charges other keys for a key that was charged under other limits in between",
		file: "targets.go", old: "ok = ok && g.keys.load(t.key) == nil", new: "ok = ok && t.entry == nil",
		tests: "TestTakeAll_Notices",
	},
	{
		name: "unlimited-under-locks", fault: "a key that becomes exempt while a call locks its keys gets an entry",
		file: "lockorder.go", old: "|| t.placement == placedFresh {", new: "{",
		tests: "TestUnlimited_Under",
	},
	{
		name: "unlimited-lacks-room", fault: "room is taken for a key that needs none",
		file: "lockorder.go", old: "\t\t\tif targets[i].needsEntry() {", new: "\t\t\tif targets[i].entry == nil {",
		tests: "TestUnlimited_Under",
	},
	{
		name: "unlimited-still-full", fault: "a call with an exempt key does not notice that there is room",
		file: "lockorder.go", old: "roomFor(targets)", new: "int64(len(targets))",
		tests: "TestUnlimited_Notices",
	},
	{
		name: "unlimited-stays-tracked", fault: "a key keeps its entry when it becomes exempt",
		file: "migrate.go", old: "\tif rs.unlimited() {", new: "\tif false {",
		tests: "TestUnlimited_IsNoLonger",
	},
	{
		name: "unlimited-for-all", fault: "a limiter that becomes unlimited forgets keys with limits of their own",
		file: "migrate.go", old: "return own // the key keeps them", new: "return g.ruleset",
		tests: "TestUnlimited_IsNoLonger",
	},
	{
		name: "unlimited-among-others", fault: "Unlimited is a limit next to others",
		file: "compile.go", old: "if len(others) == 0 {", new: "if len(others) >= 0 {",
		tests: "TestUnlimited_Adds",
	},
	{
		name: "unlimited-is-settled", fault: "what was taken without a limit can be settled",
		file: "reserve.go", old: "!d.Allowed || rs.unlimited() || t.holding", new: "!d.Allowed || t.holding",
		tests: "TestUnlimited",
	},
	{
		name: "unlimited-unsettles-others", fault: "what was taken from a key with limits of its own cannot be settled where the limiter is unlimited",
		file: "reserve.go", old: "rs = rs.of(t.entry)", new: "rs = t.ruleset",
		tests: "TestUnlimited_LetsOthers",
	},
	{
		name: "unlimited-loses-its-algorithm", fault: "a log of the numbers of Unlimited is read as Unlimited",
		file: "limittext.go", old: "l.Algorithm = SlidingLog // as it stands: the numbers may be the same as in Unlimited", new: "l = l.Log()",
		tests: "TestUnlimited_Text",
	},
	{
		name: "unlimited-is-told", fault: "clients are told of a quota where there is none",
		file: "httplimit/internal/quota/quota.go", old: "return l == sash.Unlimited()", new: "return false",
		tests: "TestHeaders_OfUnlimited", in: "httplimit",
	},
	{
		name: "wrong-limits-uncounted", fault: "calls that wrong limits deny are not counted",
		file: "lookup.go", old: "if rs.fault != nil && q.charge &&", new: "if rs.fault != nil && !q.charge &&",
		tests: "TestWithLimitsFor_Wrong",
	},
	{
		name: "wrong-limits-unsaid", fault: "a Wait does not say that the limits are wrong",
		file: "wait.go", old: "if rs.fault != nil {", new: "if false {",
		tests: "TestWithLimitsFor_Wrong",
	},
	{
		name: "limits-of-the-caller", fault: "an option changes with the caller's slice of limits",
		file: "options.go", old: "limits = slices.Clone(limits) //", new: "limits = slices.Clip(limits) //",
		tests: "TestWithLimits_",
	},
	{
		name: "limits-for-sash", fault: "httplimit takes limits in WithSash",
		file: "bridge.go", old: "len(c.limits) > 0", new: "len(c.limits) > 9",
		tests: "TestInspect",
	},

	// A bound on the keys.
	{
		name: "cap-one-too-many", fault: "one key more than the bound",
		file: "keycap.go", old: "used >= c.max", new: "used > c.max",
		tests: "TestMaxKeys",
	},
	{
		name: "cap-evicts-the-held", fault: "a flood evicts the keys that are held at their limit",
		file: "capacity.go", old: "next.evictBefore(least)", new: "least.evictBefore(next)",
		tests: "TestEvictLeastUsed",
	},
	{
		name: "cap-small-sample", fault: "a flood evicts keys held at their limit from a table that they are half of",
		file: "capacity.go", old: "sampleSlots = 128", new: "sampleSlots = 12",
		tests: "TestEvictLeastUsed_KeepsAHalf",
	},
	{
		name: "cap-sample-of-neighbours", fault: "a sample is of neighbouring slots, and evicts a held key among free ones",
		file: "capacity.go", old: "if all {", new: "if slot = &c.slots[i]; all {",
		tests: "TestEvictLeastUsed_LooksBeyond",
	},
	{
		name: "cap-evicts-the-first", fault: "of keys with as much left, one that was there before the flood is evicted",
		file: "capacity.go", old: "cmp.Compare(c.seq, o.seq)", new: "cmp.Compare(o.seq, c.seq)",
		tests: "TestEvictLeastUsed",
	},
	{
		name: "cap-displaces-though-there-is-room", fault: "a key is evicted though another one has just given up its place",
		file: "capacity.go", old: "return c.generation.cap.lacks(keys) && c.generation.tryKill", new: "return c.generation.tryKill",
		tests: "TestEvictLeastUsed_DisplacesNoKey",
	},
	{
		name: "cap-forgets-the-order", fault: "a key whose limits change counts as inserted last",
		file: "migrate.go", old: "func() bool { return true })\n\t\tg.replaceSample(k, e, next)", new: "func() bool { return true })\n\t\tg.addSample(k, next)",
		tests: "TestEvictLeastUsed_OfEquals",
	},
	{
		name: "cap-loses-what-was-spent", fault: "a Commit of more units than were reserved finds no room, and is forgotten",
		file: "reserve.go", old: "k.name), nil, true)\n\t\t\tcontinue", new: "k.name), nil, false)\n\t\t\treturn",
		tests: "TestCommit",
	},
	{
		name: "cap-admits-a-debt", fault: "a call of 0 units is admitted with a RetryAfter, if one of its keys does not fit",
		file: "overflow.go", old: "d := Decision{Allowed: res == admitted,", new: "d := Decision{Allowed: q.n == 0,",
		tests: "TestTakeAll_OfNothing",
	},
	{
		name: "cap-refuses-by-other-limits", fault: "a key that does not fit is refused by the old limits, and told to wait by the new ones",
		file: "overflow.go", old: "r.generation.sweepInterval()", new: "l.current.Load().sweepInterval()",
		tests: "TestDenyNew",
	},
	{
		name: "cap-compares-units", fault: "the units left are compared, not the part of Count",
		file: "capacity.go", old: "bits.Mul64(uint64(c.left), uint64(o.count))", new: "bits.Mul64(uint64(c.left), uint64(c.count))",
		tests: "TestEvictLeastUsed",
	},
	{
		name: "cap-keeps-the-count-of-the-evicted", fault: "an evicted key still counts",
		file: "generation.go", old: "g.release(1)\n\t\treturn nil", new: "return nil",
		tests: "TestMaxKeys",
	},
	{
		name: "cap-counts-the-second", fault: "two inserts of one key count twice",
		file: "sharded.go", old: "if found == nil && valid() {", new: "if valid() && found == nil {",
		tests: "TestMaxKeys_OfAKeyThatIs|TestRace_NeverMoreKeys",
	},

	// Across a restart.
	{
		name: "snapshot-torn", fault: "a key is written as halves of two states",
		file: "snapshot.go", old: "case rs.validate(e, word):", new: "case true:",
		tests: "TestRace_Snapshots|TestSnapshot",
	},
	{
		name: "restore-believes-a-clock-set-back", fault: "time runs back across a restart",
		file: "restore.go", old: "max(down, 0)", new: "down",
		tests: "TestSnapshot|TestRestore",
	},
	{
		name: "restore-without-checksum", fault: "a flipped bit is restored",
		file: "snapshotblocks.go", old: "if s.digest.Sum64() != sum {", new: "if s.digest.Sum64() != sum && sum == 0 {",
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
		file: "restore.go", old: "ahead > maxAhead {", new: "ahead > maxAhead && floor < now {",
		tests: "TestRestore",
	},
	{
		name: "snapshot-not-restorable", fault: "after the clock was far ahead, no snapshot can be restored",
		file: "snapshot.go", old: "min(g.floor.Load(), window.Plus(begun, maxAhead))", new: "window.Plus(g.floor.Load(), 0)",
		tests: "TestSnapshot",
	},

	// Time.
	{
		name: "coarse-two-goroutines", fault: "two readers that find the clock asleep start it twice",
		file: "clock.go", old: "if t := c.reading.Load(); t != asleep {", new: "if t := c.reading.Load(); t != asleep && c.mu.TryLock() {",
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
		name: "manual-fires-late", fault: "what is due at an instant is not woken at it",
		file: "clock.go", old: "if at <= c.now.Load() {", new: "if at < c.now.Load() {",
		tests: "TestWait_OnAManualClock",
	},
	{
		name: "tsc-runs-back", fault: "a calibration begins below the end of the one before",
		file: "internal/tsc/tsc.go", old: "ns := max(now.ns, cal.end)", new: "ns := now.ns",
		tests: "TestClock_Stays|TestClock_NeverRunsBack",
	},
	{
		name: "tsc-drifts", fault: "what a calibration is ahead is never made up for",
		file: "internal/tsc/tsc.go", old: "next.rate = rate - uint64(ahead)<<32/span", new: "next.rate = rate",
		tests: "TestClock_ComesBack",
	},
	{
		name: "tsc-follows-a-counter-astray", fault: "a counter that changes its rate is believed",
		file: "internal/tsc/tsc.go", old: "> cal.rate/maxDrift {", new: "> cal.rate*maxDrift {",
		tests: "TestClock_Follows",
	},
	{
		name: "tsc-believes-one-rate", fault: "after a suspension between its first two samples, the clock is slow for half a second",
		file: "internal/tsc/tsc.go", old: "span == 0 || max(", new: "span == 0 || cal.rate > 0 && max(",
		tests: "TestClock_ASuspended",
	},
	{
		name: "tsc-in-a-bubble", fault: "in a bubble of synctest the limiter lives in real time",
		file: "clock.go", old: "case inBubble():", new: "case false:",
		tests: "TestSystemClock_InABubble",
	},
	{
		name: "tsc-overtaken", fault: "a reader that was overtaken replaces the new calibration by its older one",
		file: "internal/tsc/tsc.go", old: "if c.calibration.CompareAndSwap(cal, next) {", new: "if c.calibration.Store(next); true {",
		tests: "TestClock_AReaderThatWasOvertaken|TestClock_NeverRunsBack",
	},
	{
		name: "tsc-gives-up-below", fault: "the system's clock is read as it is after a calibration that was ahead",
		file: "internal/tsc/tsc.go", old: "return max(now, cal.begin.ns), now < cal.end", new: "return now, now < cal.end",
		tests: "TestClock_StandsStill|TestClock_NeverRunsBack",
	},
	{
		name: "tsc-out-of-order", fault: "the counter is read before the reading that another core has stored is loaded",
		file: "internal/tsc/tsc_amd64.s", old: "LFENCE", new: "NOP",
		tests: "TestReadOrdered",
	},
	{
		name: "tsc-misled-for-long", fault: "a counter that has jumped is believed for ten times as long",
		file: "internal/tsc/tsc.go", old: "calibrationSpan = 100 * time.Millisecond", new: "calibrationSpan = time.Second",
		tests: "TestClock_AMigration",
	},
	{
		name: "tsc-never-settles", fault: "a calibration begins however far it is ahead",
		file: "internal/tsc/tsc.go", old: "if ahead > int64(calibrationSpan/maxDrift) {", new: "if ahead > int64(calibrationSpan*maxDrift) {",
		tests: "TestClock_BeginsNoCalibrationFarAhead",
	},
	{
		name: "tsc-before-its-calibration", fault: "a counter set back to before the calibration is covered by it",
		file: "internal/tsc/tsc.go", old: "return ticks-cal.begin.ticks < cal.span }", new: "return ticks < cal.begin.ticks+cal.span }",
		tests: "TestClock_AMigration",
	},
	{
		name: "tsc-rate-of-two-moments", fault: "a rate is taken from a sample whose reader has lost its core in between",
		file: "internal/tsc/tsc.go", old: "if !precise {", new: "if false {",
		tests: "TestClock_TakesNoRate",
	},
	{
		name: "tsc-loose-samples", fault: "a sample is precise that took a tick too long",
		file: "internal/tsc/tsc.go", old: "width <= maxSampleTicks", new: "width <= maxSampleTicks+1",
		tests: "TestClock_ASampleIsPrecise",
	},
	{
		name: "tsc-no-counter-is-so-fast", fault: "after suspensions of one length, again and again, the clock stands for hours",
		file: "internal/tsc/tsc.go", old: "if rate < 1<<32/maxTicks {", new: "if rate == 0 {",
		tests: "TestClock_BelievesNoRate",
	},
	{
		name: "tsc-follows-a-counter-back", fault: "a counter that runs back is believed",
		file: "internal/tsc/tsc.go", old: "if rate < 1<<32/maxTicks {", new: "if rate < 1<<32/maxTicks && b.ticks > a.ticks {",
		tests: "TestClock_Follows",
	},
	{
		name: "tsc-on-any-source", fault: "the counter is read where the kernel keeps time by a timer on the board",
		file: "internal/tsc/choice.go", old: "case p.current != \"kvm-clock\" && p.current", new: "case p.current == \"\" && p.current",
		tests: "TestPlatform_Chooses",
	},
	{
		name: "tsc-not-on-kvm", fault: "virtual machines under KVM pay for the system's clock",
		file: "internal/tsc/choice.go", old: "case p.current != \"kvm-clock\" && p.current", new: "case p.current",
		tests: "TestPlatform_Chooses",
	},
	{
		name: "tsc-not-on-hyper-v", fault: "virtual machines under Hyper-V pay for the system's clock",
		file: "internal/tsc/choice.go", old: " && p.current != \"hyperv_clocksource_tsc_page\":", new: ":",
		tests: "TestPlatform_Chooses",
	},
	{
		name: "tsc-unstable", fault: "a counter is read that the kernel has found unstable",
		file: "internal/tsc/choice.go", old: "case !slices.Contains(p.available, \"tsc\"):", new: "case !slices.Contains(p.available, \"tsc\") && p.available == nil:",
		tests: "TestPlatform_Chooses",
	},
	{
		name: "tsc-not-invariant", fault: "a counter is read that stops or changes its rate with the processor's",
		file: "internal/tsc/choice.go", old: "case !p.invariant:", new: "case false:",
		tests: "TestPlatform_Chooses",
	},
	{
		name: "tsc-invariant-by-another-bit", fault: "a counter is taken for invariant if the processor says something else",
		file: "internal/tsc/choice.go", old: "invariant   = 1 << 8", new: "invariant   = 1 << 7",
		tests: "TestPlatform_IsInvariant",
	},
	{
		name: "tsc-invariant-by-no-leaf", fault: "an answer of the processor is believed that it does not know",
		file: "internal/tsc/choice.go", old: "highest < powerLeaf {", new: "highest == 0 {",
		tests: "TestPlatform_IsInvariant",
	},
	{
		name: "tsc-not-to-be-ruled-out", fault: "SASH_CLOCK=system is not read",
		file: "internal/tsc/choice.go", old: "os.Getenv(Setting)", new: "\"\"",
		tests: "TestSystemClock_SASH_CLOCK",
	},
	{
		name: "tsc-ruled-out-in-vain", fault: "SASH_CLOCK=system changes nothing",
		file: "internal/tsc/choice.go", old: "case p.setting == \"system\":", new: "case p.setting == \"system \":",
		tests: "TestPlatform_Chooses",
	},
	{
		name: "tsc-unknown-setting", fault: "an operator who misspells the setting has the counter that is distrusted",
		file: "internal/tsc/choice.go", old: "case p.setting != \"\":", new: "case false:",
		tests: "TestPlatform_Chooses",
	},
	{
		name: "tsc-unreadable", fault: "an architecture without a counter follows one that stands at 0",
		file: "internal/tsc/choice.go", old: "case !p.readable:", new: "case false:",
		tests: "TestPlatform_Chooses",
	},
	{
		name: "tsc-read-with-its-line", fault: "no clock source has the name that the kernel's file tells",
		file: "internal/tsc/choice.go", old: "strings.TrimSpace(string(current))", new: "string(current)",
		tests: "TestPlatform_IsWhat",
	},

	// What is written and read.
	{
		name: "small-count-is-less", fault: "a Count of SmallCount is kept in parts",
		file: "limit.go", old: "if count <= SmallCount {\n\t\treturn l.Log()", new: "if count < SmallCount {\n\t\treturn l.Log()",
		tests: "TestPer_|TestLimit_TextRoundTrips",
	},
	{
		name: "small-count-is-more", fault: "SmallCount is 17",
		file: "limit.go", old: "const SmallCount = 16", new: "const SmallCount = 17",
		tests: "TestPer_",
	},
	{
		name: "small-counts-are-counters", fault: "Per chooses the counter for small Counts",
		file: "limit.go", old: "if count <= SmallCount {\n\t\treturn l.Log()", new: "if count <= SmallCount {\n\t\treturn l",
		tests: "TestPer_|TestWait_GetsAllOfASmallCount",
	},
	{
		name: "small-counts-are-in-parts", fault: "Per chooses parts for every Count",
		file: "limit.go", old: "if count <= SmallCount {\n\t\treturn l.Log()", new: "if count <= SmallCount {\n\t\treturn l.Parts()",
		tests: "TestPer_",
	},
	{
		name: "default-is-a-counter", fault: "Per chooses the counter above SmallCount",
		file: "limit.go", old: "\t}\n\treturn l.Parts()", new: "\t}\n\treturn l.Counter()",
		tests: "TestPer_|TestLimit_TextRoundTrips",
	},
	{
		name: "text-chooses-no-log", fault: "a limit in text that names no algorithm is a counter",
		file: "limittext.go", old: "case len(algorithm) == 0: // Per", new: "case len(algorithm) == 0:\n\t\tl = l.Counter() // Per",
		tests: "TestPer_|TestParseLimit",
	},
	{
		name: "text-counter-unread", fault: "the word counter is read, and does not hold",
		file: "limittext.go", old: "l = l.Counter()", new: "_ = l",
		tests: "TestParseLimit|TestLimit_TextRoundTrips",
	},
	{
		name: "text-counter-unwritten", fault: "the text of a counter does not say that it is one",
		file: "limittext.go", old: `words = " counter"`, new: `words = ""`,
		tests: "TestLimit_TextRoundTrips",
	},
	{
		name: "text-large-counter-unwritten", fault: "the text of a counter above SmallCount does not say that it is one",
		file: "limittext.go", old: `words = " counter"`, new: "if l.Count <= SmallCount {\n\t\t\twords = \" counter\"\n\t\t}",
		tests: "TestLimit_TextRoundTrips",
	},
	{
		name: "text-small-parts-unwritten", fault: "the text of SmallCount units in parts does not say that it is in parts",
		file: "limittext.go", old: "if l != Per(l.Count, l.Window) {", new: "if false {",
		tests: "TestLimit_TextRoundTrips",
	},
	{
		name: "counter-keeps-a-precision", fault: "a counter made of a limit in buckets keeps the Precision",
		file: "limit.go", old: "return l.keptBy(SlidingCounter, 0, 0)", new: "return l.keptBy(SlidingCounter, l.Precision, 0)",
		tests: "TestLimit_TheLastChoice",
	},
	{
		name: "text-loses-the-precision", fault: "a limit's text leaves out the precision",
		file: "limittext.go", old: `" buckets " + l.Precision.String()`, new: `" buckets " + l.Window.String()`,
		tests: "TestLimit|TestParseLimit",
	},
	{
		name: "text-overwrites", fault: "a text that cannot be read clears the limit",
		file: "limittext.go", old: "if err == nil {\n\t\t*l = parsed", new: "if err == nil || parsed.Count == 0 {\n\t\t*l = parsed",
		tests: "TestLimit",
	},
	{
		name: "zero-limit-has-no-text", fault: "a decision without a limit cannot be written as JSON",
		file: "limittext.go", old: "if l == (Limit{}) {", new: "if false {",
		tests: "TestZeroValues|TestLimit_OnlyTheZero",
	},
	{
		name: "half-a-limit-is-no-text", fault: "a limit that is not zero, but has no count, is written as nothing",
		file: "limittext.go", old: "if l == (Limit{}) {", new: "if l.Count == 0 {",
		tests: "TestLimit",
	},
	{
		name: "limit-of-less-than-nothing", fault: "a limit of a negative Count is taken for one",
		file: "limit.go", old: "if l.Count < 0 {", new: "if l.Count < -1 {",
		tests: "TestParseLimit|TestNew",
	},
	{
		name: "limit-of-no-precision", fault: "a precision longer than the window is taken",
		file: "limit.go", old: "l.Algorithm == SlidingBuckets && l.Precision > l.Window:", new: "l.Algorithm == SlidingBuckets && l.Precision < 0:",
		tests: "TestParseLimit|TestNew",
	},
	{
		name: "limits-report-one-fault", fault: "of several wrong limits only the last is named",
		file: "limit.go", old: "faults = append(faults, l.faults(", new: "faults = append(faults[:0], l.faults(",
		tests: "TestSeveralLimits_Report|TestNew",
	},
	{
		name: "tokens-divided-interval", fault: "the interval of a token bucket is divided out, and its rest is lost",
		file: "internal/window/tokenbucket.go", old: "func (b TokenBucket) Cost(n int64) Amount { return multiply(n, b.Window) }", new: "func (b TokenBucket) Cost(n int64) Amount { return multiply(n, b.Window/max(1, b.Count)*max(1, b.Count)) }",
		tests: "TestTokenBucket|TestAnswers_EqualTheReferences",
	},
	{
		name: "tokens-fast-divided-interval", fault: "the same, in one word",
		file: "word.go", old: "uint64(b.Count/step), uint64(b.Window/step)", new: "uint64(step/step), uint64(b.Window/max(1, b.Count))",
		tests: "TestTokenBucket|TestAnswers_EqualTheReferences",
	},
	{
		name: "tokens-late-reading-refills", fault: "a late reading moves the time of a token bucket back, so that units flow in twice",
		file: "internal/window/tokenbucket.go", old: "if d.Empty() || t > d.At {", new: "if d.At > t {\nd.At = t\n}\nif d.Empty() || t > d.At {",
		tests: "TestTokenBucket|TestAnswers_EqualTheReferences",
	},
	{
		name: "tokens-late-reading-lacks-less", fault: "a late reading is decided by what the bucket lacks at its newest time",
		file: "internal/window/tokenbucket.go", old: "return d.Lack.Plus(b.flow(uint64(d.At) - uint64(t)))", new: "return d.Lack",
		tests: "TestTokenBucket|TestAnswers_EqualTheReferences",
	},
	{
		name: "tokens-fast-late-reading-rewinds", fault: "a late reading sets a token bucket in one word to an earlier time",
		file: "word.go", old: "next = max(word, now) + uint64(n)*l.cost", new: "next = now + uint64(n)*l.cost",
		tests: "TestTokenBucket|TestAnswers_EqualTheReferences",
	},
	{
		name: "tokens-burst-off-by-one", fault: "a token bucket admits a unit more than Burst",
		file: "internal/window/tokenbucket.go", old: "!b.Cost(b.Burst-n).Less(lack)", new: "!b.Cost(b.Burst-n+1).Less(lack)",
		tests: "TestTokenBucket|TestAnswers_EqualTheReferences",
	},
	{
		name: "tokens-fast-burst-off-by-one", fault: "a step too little is enough for a token bucket in one word",
		file: "word.go", old: "l.full, l.span = full, int64((maxSteps-full)/l.rate)", new: "l.full, l.span = full+1, int64((maxSteps-full)/l.rate)",
		tests: "TestTokenBucket|TestAnswers_EqualTheReferences",
	},
	{
		name: "tokens-fast-more-than-burst", fault: "a cost whose steps are more than 64 bits is taken for a small one",
		file: "tokenbucket.go", old: "if !ok || word-1 >= maxSteps || n > r.Burst {", new: "if !ok || word-1 >= maxSteps {",
		tests: "TestTokenBucket|TestAnswers_EqualTheReferences",
	},
	{
		name: "tokens-before-the-first-charge", fault: "a token bucket never charged was full at instant 0, and not before",
		file: "internal/window/tokenbucket.go", old: "case d.Empty():\n\t\treturn Amount{}\n", new: "",
		tests: "TestTokenBucket|TestAnswers_EqualTheReferences",
	},
	{
		name: "tokens-before-the-span", fault: "time before the span of a word is taken for time within it",
		file: "word.go", old: "t > l.base && since <= uint64(l.span)", new: "since <= uint64(l.span)",
		tests: "TestTokenBucket",
	},
	{
		name: "tokens-after-the-span", fault: "time after the span of a word is taken for time within it",
		file: "word.go", old: "t > l.base && since <= uint64(l.span)", new: "t > l.base",
		tests: "TestTokenBucket",
	},
	{
		name: "tokens-in-a-word-that-does-not-hold-them", fault: "a key is charged outside the span of its word",
		file: "kind.go", old: "return rs.packed.holds(at)", new: "return rs.packed.holds(at) || rs.rules[0].Algorithm == TokenBucket",
		tests: "TestTokenBucket",
	},
	{
		name: "tokens-fast-forgets-the-floor", fault: "the fast path charges a token bucket never charged before the floor",
		file: "tokenbucket.go", old: "if !ok || word-1 >= maxSteps || n > r.Burst {", new: "if !ok || word > maxSteps || n > r.Burst {",
		tests: "TestEvict",
	},
	{
		name: "tokens-forget-the-floor", fault: "an evicted token bucket is charged before the floor",
		file: "tokenbucket.go", old: "at = r.clampToFloor(at)", new: "at = q.at",
		tests: "TestEvict",
	},
	{
		name: "tokens-two-steps", fault: "a token bucket is checked, then charged",
		file: "tokenbucket.go", old: "if e != nil && !e.Word.CompareAndSwap(word, charged) {", new: "if e != nil && e.Word.Swap(charged) == dead {",
		tests: "TestTryFast_Charges",
	},
	{
		name: "tokens-swept-too-soon", fault: "a token bucket is evicted up to a nanosecond before it is full",
		file: "internal/window/tokenbucket.go", old: "if b.Lack(d, now) != (Amount{}) {", new: "if !b.Lack(d, now).Less(b.flow(1)) {",
		tests: "TestTokenBucket|TestAnswers_AreTheSame|TestSweep",
	},
	{
		name: "tokens-retry-rounded-down", fault: "RetryAfter of a token bucket is rounded down",
		file: "internal/window/tokenbucket.go", old: "if rest > 0 && time < math.MaxUint64 {", new: "if rest > 0 && b.Count < 0 {",
		tests: "TestTokenBucket|TestAnswers_EqualTheReferences",
	},
	{
		name: "tokens-fast-retry-rounded-down", fault: "the same, in one word",
		file: "word.go", old: "(steps + l.rate - 1) / l.rate", new: "steps / l.rate",
		tests: "TestTokenBucket|TestAnswers_EqualTheReferences",
	},
	{
		name: "tokens-fast-denied-counts-its-units", fault: "Remaining of a denied call on a token bucket counts the units that were denied",
		file: "word.go", old: "lack -= uint64(n) * l.cost", new: "lack -= uint64(n-n) * l.cost",
		tests: "TestTokenBucket|TestAnswers_EqualTheReferences",
	},
	{
		name: "tokens-given-back-when-full-since", fault: "a token bucket that was full since gets back what it lacked",
		file: "lineage.go", old: "least.Less(cost) {\n\t\tcost = least", new: "least.Less(cost) {\n_ = least",
		tests: "TestTokenBucket_GivesBack",
	},
	{
		name: "tokens-given-back-at-another-rate", fault: "what can be given back is not rounded as what the bucket lacks",
		file: "lineage.go", old: "l.lack.Plus(roundedUp)", new: "l.lack",
		tests: "TestTokenBucket_GivesBackAfterAny",
	},
	{
		name: "tokens-given-back-twice", fault: "a second refund does not know of the first",
		file: "lineage.go", old: ".lack.Minus(cost)\n", new: ".lack.Minus(window.Amount{})\n",
		tests: "TestTokenBucket_GivesBack",
	},
	{
		name: "tokens-given-back-after-a-denied-attempt", fault: "what was charged before a denied attempt is given back",
		file: "tokenbucket.go", old: "if res == denied {\n\t\t// Nothing", new: "if res == denied && g == nil {\n\t\t// Nothing",
		tests: "TestTokenBucket_GivesBack",
	},
	{
		name: "idle-keys-held-by-waiters", fault: "an idle key that a call waits for makes room for no other call that waits",
		file: "wait.go", old: "targets[i].waits = true", new: "targets[i].waits = false",
		tests: "TestWait_|TestWaitAll_",
	},
	{
		name: "tokens-open-forgotten", fault: "a bucket forgets the open reservations of lows that a lower one replaces",
		file: "lineage.go", old: "g.open + g.dropFrom(len(g.lows), lack)", new: "g.open + min(0, g.dropFrom(len(g.lows), lack))",
		tests: "TestTokenBucket_GivesBack",
	},
	{
		name: "tokens-open-after-commit", fault: "a reservation that is committed as reserved stays open",
		file: "reserve.go", old: "left > 0 || r.of.settles", new: "left > 0 || r.of.settles && left < 0",
		tests: "TestTokenBucket_GivesBack",
	},
	{
		name: "tokens-denied-attempts-charge-nothing", fault: "WithChargeDenied leaves what is less than a unit in a bucket",
		file: "tokenbucket.go", old: "left.Less(cost) {\n\t\t\treturn left", new: "left.Less(cost) {\n\t\t\treturn window.Amount{}",
		tests: "TestTokenBucket|TestAnswers_EqualTheReferences",
	},
	{
		name: "tokens-inherit-less", fault: "a bucket lacks less under another rate than before",
		file: "internal/window/tokenbucket.go", old: "return Debt{now, lack.MulDiv(1, step).MulDiv(step, 1)}", new: "return Debt{now, lack.MulDiv(1, step).Minus(Amount{0, 1}).MulDiv(step, 1)}",
		tests: "TestTokenBucket|TestReconfigure",
	},
	{
		name: "tokens-snapshot-without-burst", fault: "a snapshot forgets the burst",
		file: "snapshot.go", old: "if l.Algorithm == TokenBucket {", new: "if l.Algorithm == TokenBucket && l.Burst < 0 {",
		tests: "TestSnapshot|TestRestore",
	},
}
