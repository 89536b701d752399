package main

// ofParts are faults of SlidingParts.
var ofParts = []mutant{
	{
		name: "parts-all-at-once", fault: "the parts of all keys begin at one instant",
		file: "internal/window/parts.go", old: "int64(xxhash.Sum64String(name) % Shifts)", new: "int64(xxhash.Sum64String(name) % 1)",
		tests: "TestParts_EachKey|TestParts_AreNoHerd",
	},
	{
		name: "parts-without-the-newest", fault: "the units of a part are forgotten when the next part begins",
		file: "lanes.go", old: "next |= units << (at % 64)", new: "next |= 0 << (at % 64)",
		tests: "TestLanes|TestAnswers_EqualTheReferences",
	},
	{
		name: "parts-count-too-long", fault: "lanes past the last one are not emptied",
		file: "lanes.go", old: "next &= 1<<(max(end, w*64)-w*64) - 1", new: "next &= 1<<63 - 1",
		tests: "TestLanes|TestAnswers_EqualTheReferences",
	},
	{
		name: "parts-move-within-words", fault: "lanes that move from a word to the next are lost",
		file: "lanes.go", old: "next |= l.load(w-words-1) >> 1 >> (63 - shift)", new: "next |= 0 >> (63 - shift)",
		tests: "TestLanes|TestAnswers_EqualTheReferences",
	},
	{
		name: "parts-freed-a-lane-late", fault: "units come back a part after the last one that is needed",
		file: "lanes.go", old: "if held >= units {", new: "if held > units {",
		tests: "TestLanes|TestAnswers_EqualTheReferences",
	},
	{
		name: "parts-drop-a-lane-too-few", fault: "the first part that does not count is counted",
		file: "parts.go", old: "return max(0, int(r.ticks.Life)-1-turned) }", new: "return max(0, int(r.ticks.Life)-turned) }",
		tests: "TestAnswers_EqualTheReferences",
	},
	{
		name: "parts-unlocked", fault: "a call stores lanes without the lock of the entry",
		file: "parts.go", old: "if !e.tryLock(word) {", new: "if !e.validate(word) {",
		tests: "TestRace_PartsBeginTogether",
	},
	{
		name: "parts-charged-unseen", fault: "a charge by a word that has changed since is told, but not made",
		file: "parts.go", old: "valid = e.Word.CompareAndSwap(word, word+uint64(n)) // as in charge", new: "e.Word.CompareAndSwap(word, word+uint64(n))",
		tests: "TestParts|TestRace",
	},
	{
		name: "parts-torn-denial", fault: "a denial is told by lanes of another state",
		file: "parts.go", old: "return o, e.validate(word)", new: "return o, true",
		tests: "TestParts",
	},
	{
		name: "parts-torn-decision", fault: "a denial in a later part is told by lanes of another state",
		file: "parts.go", old: "\t\tif !e.validate(word) {\n\t\t\treturn retry // what", new: "\t\tif false {\n\t\t\treturn retry // what",
		tests: "TestParts",
	},
	{
		name: "parts-remember-the-first-part", fault: "the last part of time is taken for the first",
		file: "rule.go", old: "if number*size <= t && (r.kind", new: "if (number*size <= t || number < 0) && (r.kind",
		tests: "TestParts",
	},
	{
		name: "parts-stay-narrow", fault: "lanes that are too narrow for what is spent lose units",
		file: "parts.go", old: "return bitsFor(r.position(s, q.at).used+uint64(q.n)) > bits", new: "return false",
		tests: "TestParts",
	},
	{
		name: "parts-grow-at-once", fault: "lanes grow for units that count no more",
		file: "parts.go", old: "return bitsFor(r.position(s, q.at).used+uint64(q.n)) > bits", new: "return true",
		tests: "TestParts",
	},
	{
		name: "parts-move-to-narrow-lanes", fault: "a key that moves to other limits loses what is too much for narrow lanes",
		file: "parts.go", old: "> s.ring.lanes().bits {", new: "> fullLane {",
		tests: "TestParts",
	},
	{
		name: "parts-grow-empty", fault: "lanes that grow forget what they held",
		file: "parts.go", old: "next.lanes().copy(g.lanes())", new: "next.lanes().copy(lanes{})",
		tests: "TestParts",
	},
	{
		name: "parts-narrow-for-denials", fault: "denied attempts that are charged do not fit into their lanes",
		file: "parts.go", old: "if r.chargeDenied {\n\t\tbits = fullLane", new: "if false {\n\t\tbits = fullLane",
		tests: "TestParts|TestSeveralLimits|TestSnapshot_ChangesNoAnswer",
	},
	{
		name: "parts-count-below-zero", fault: "a key that has spent more units than an int64 holds is admitted",
		file: "parts.go", old: "return int64(min(used, math.MaxInt64)) // Commits", new: "return int64(used) // Commits",
		tests: "TestParts",
	},
	{
		name: "parts-held-for-a-copy", fault: "a snapshot reads a busy key again and again",
		file: "snapshot.go", old: "return e.tryLock(word) // for a few words", new: "return false",
		tests: "TestKinds",
	},
	{
		name: "parts-charge-another-part", fault: "a call is charged in the newest part of the key, whatever its own is",
		file: "parts.go", old: "if !ok || r.packing().part(word) != part {", new: "if !ok || r.packing().part(word) > part {",
		tests: "TestAnswers_EqualTheReferences",
	},
	{
		name: "parts-begin-before-the-floor", fault: "an empty key begins before the floor",
		file: "parts.go", old: "if start := r.clampToFloor(at); start > at {", new: "if start := r.clampToFloor(at); start > math.MaxInt64-1 {",
		tests: "TestEvict_OnAClockSetBack",
	},
	{
		name: "parts-in-a-word-that-does-not-hold-them", fault: "a key is charged outside the epochs of its word",
		file: "kind.go", old: "return rs.packed.holds(at)", new: "return rs.packed.holds(at) || rs.kind == kindParts",
		tests: "TestParts|TestAnswers_EqualTheReferences|TestModel",
	},
	{
		name: "parts-newest-is-empty", fault: "an entry whose newest part was given back tells that it counts",
		file: "parts.go", old: "(s.b == 0 || r.newest(s) > 0)", new: "(s.b == 0 || r.newest(s) >= 0)",
		tests: "TestParts|TestModel|TestSnapshot",
	},
	{
		name: "parts-charge-denied-for-ever", fault: "denied attempts of more than Count units count",
		file: "lanes.go", old: "if sum >= most {", new: "if sum >= most+1 {",
		tests: "TestLanes|TestAnswers_EqualTheReferences",
	},
	{
		name: "parts-freed-a-part-early", fault: "RetryAfter ends before the units are back",
		file: "parts.go", old: "return s.a - 1 - int64(r.lanesOf(s).freeing(", new: "return s.a - 2 - int64(r.lanesOf(s).freeing(",
		tests: "TestAnswers_EqualTheReferences",
	},
	{
		name: "parts-denial-a-part-early", fault: "RetryAfter of a denial on the fast path ends before the units are back",
		file: "parts.go", old: "o.retryAfter = time.Duration(int64(last-lane)*r.ticks.Length - elapsed)", new: "o.retryAfter = time.Duration(int64(last-lane-1)*r.ticks.Length - elapsed)",
		tests: "TestAnswers_EqualTheReferences",
	},
	{
		name: "parts-restored-unshifted", fault: "a snapshot restores the parts of all keys under one shift",
		file: "restore.go", old: "r.begin(name)", new: "r.begin(\"\")",
		tests: "TestSnapshot",
	},
	{
		name: "parts-migrated-unshifted", fault: "a change of limits keeps the parts of all keys under one shift",
		file: "migrate.go", old: "r.inherit(r.begin(e.Name())", new: "r.inherit(r.begin(\"\")",
		tests: "TestReconfigure|TestReserve|TestModel",
	},
	{
		name: "parts-fresh-unshifted", fault: "an untracked key is answered under the shift of another",
		file: "kind.go", old: "if rs.shifted == nil {", new: "if rs.shifted == nil || name != \"\" {",
		tests: "TestAnswers_EqualTheReferences|TestModel",
	},
	{
		name: "parts-dated-early", fault: "units that are known by their part alone are dated at its beginning",
		file: "parts.go", old: "return max(r.ticks.Begins(part, shift), min(now, r.ticks.Ends(part, shift)))", new: "return r.ticks.Begins(part, shift)",
		tests: "TestKinds_EveryOneIsDecided",
	},
	{
		name: "parts-given-back-to-the-newest", fault: "a refund of an older part is given back to the newest",
		file: "parts.go", old: "case number == s.a:", new: "case number <= s.a:",
		tests: "TestReserve|TestModel",
	},
	{
		name: "parts-expire-with-the-newest-part", fault: "a key is idle although an older part still counts",
		file: "parts.go", old: "if part < s.a || r.ticks.Counts(last, part) {", new: "if part < s.a || part == last {",
		tests: "TestAnswers_AreTheSame|TestSweep",
	},
}
