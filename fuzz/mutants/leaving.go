package main

// ofLeaving are faults of the calls that leave units, and of TakeUpTo.
var ofLeaving = []mutant{
	// Units that must be left.
	{
		name: "leaving-nothing", fault: "a call need not leave anything",
		file: "algorithm.go", old: "return q.n + q.leave", new: "return q.n",
		tests: "TestTakeLeaving",
	},
	{
		name: "leaving-nothing-of-a-counter", fault: "a counter in one word does not know of units to be left",
		file: "window.go", old: "resultOf(r.admitsAt(p, q.needs()))", new: "resultOf(r.admitsAt(p, q.n))",
		tests: "TestTakeLeaving",
	},
	{
		name: "leaving-nothing-of-a-counter-among-others", fault: "a counter next to other limits does not know of units to be left",
		file: "window.go", old: "return r.admitsAt(p, q.needs())", new: "return r.admitsAt(p, q.n)",
		tests: "TestTakeLeaving",
	},
	{
		name: "leaving-nothing-of-a-log", fault: "a log does not know of units to be left",
		file: "log.go", old: "needs := q.needs()\n\t\tres", new: "needs := q.n\n\t\tres",
		tests: "TestTakeLeaving",
	},
	{
		name: "leaving-nothing-of-parts", fault: "parts do not know of units to be left",
		file: "parts.go", old: "return r.admitsAt(r.position(s, q.at), q.needs())", new: "return r.admitsAt(r.position(s, q.at), q.n)",
		tests: "TestTakeLeaving",
	},
	{
		name: "leaving-nothing-of-a-bucket", fault: "a token bucket in one word does not know of units to be left",
		file: "tokenbucket.go", old: "resultOf(r.bucket.Admits(lack, q.needs()))", new: "resultOf(r.bucket.Admits(lack, q.n))",
		tests: "TestTakeLeaving",
	},
	{
		name: "leaving-nothing-of-the-second-limit", fault: "only the first limit knows of units to be left",
		file: "kind.go", old: "if !own.rules[i].algorithm.admits(rs.stateOf(e, word, i), q) {\n\t\t\treturn false\n\t\t}",
		new:   "if !own.rules[i].algorithm.admits(rs.stateOf(e, word, i), q) {\n\t\t\treturn false\n\t\t}\nq.leave = 0",
		tests: "TestTakeLeaving_LeavesUnitsUnderEachLimit",
	},
	{
		name: "leaving-waits-for-its-own-units", fault: "RetryAfter of a log is the wait for n units, not for those to be left, too",
		file: "log.go", old: "o.retryAfter = r.retryAfter(v, p, needs, q.at)", new: "o.retryAfter = r.retryAfter(v, p, q.n, q.at)",
		tests: "TestReserveLeaving_WaitsFor",
	},
	{
		name: "leaving-waits-for-its-own-units-of-parts", fault: "the same, in parts",
		file: "parts.go", old: "o.retryAfter = r.retryAfter(s, p, units, needs)", new: "o.retryAfter = r.retryAfter(s, p, units, q.n)",
		tests: "TestReserveLeaving_WaitsFor",
	},
	{
		name: "leaving-waits-for-its-own-units-of-a-bucket", fault: "the same, of a token bucket",
		file: "tokenbucket.go", old: "r.bucket.RetryAfter(lack, q.needs())", new: "r.bucket.RetryAfter(lack, q.n)",
		tests: "TestReserveLeaving_WaitsFor",
	},
	{
		name: "leaving-waits-for-its-own-units-of-a-counter", fault: "the same, of a counter",
		file: "window.go", old: "r.counter.RetryAfter(p, q.needs())", new: "r.counter.RetryAfter(p, q.n)",
		tests: "TestReserveLeaving_WaitsFor",
	},
	{
		name: "leaving-charges-what-it-leaves", fault: "an admitted call is charged the units that it leaves, too",
		file: "rule.go", old: "case res == admitted:\n\t\treturn q.n", new: "case res == admitted:\n\t\treturn q.needs()",
		tests: "TestTakeLeaving|TestReserveLeaving",
	},
	{
		name: "leaving-charges-a-denial-what-it-leaves", fault: "a denied call is charged the units that it should have left, too",
		file: "rule.go", old: "min(max(q.n, 0)", new: "min(max(q.needs(), 0)",
		tests: "TestTakeLeaving_ChargesADeniedCall",
	},
	{
		name: "leaving-by-two-states", fault: "the look at what is there and the charge are of two states of the key",
		file: "leaving.go", old: "rs.tryFast(e, word, q.at, q.n, stores", new: "rs.tryFast(e, e.Word.Load(), q.at, q.n, stores",
		tests: "TestTakeLeaving_LooksAndCharges",
	},
	{
		name: "leaving-more-than-there-are-numbers", fault: "n+leave above an int64 is taken for the greatest int64",
		file: "algorithm.go", old: "return q.n + q.leave", new: "return int64(min(uint64(q.n)+uint64(q.leave), 1<<63-1))",
		tests: "TestTakeLeaving_OfTheGreatestCount",
	},
	{
		name: "leaving-tracks-what-is-never-admitted", fault: "a call that is never admitted makes an entry",
		file: "take.go", old: "satisfiable(q.needs())", new: "satisfiable(q.n)",
		tests: "TestTakeLeaving_IsNeverAdmitted",
	},
	{
		name: "leaving-nothing-of-a-shared-quota", fault: "a key without room need not leave anything",
		file: "take.go", old: "before: before, leave: q.leave}}", new: "before: before}}",
		tests: "TestTakeLeaving_OfAKeyWithoutRoom",
	},
	{
		name: "leaving-what-has-no-room", fault: "a key without room has units left",
		file: "targets.go", old: "if q.needs() != 0 {", new: "if q.n != 0 {",
		tests: "TestTakeLeaving_OfAKeyWithoutRoom",
	},

	// Calls that wait.
	{
		name: "leaving-behind-the-background", fault: "urgent calls queue behind calls in the background",
		file: "wait.go", old: ", Yields: mostToLeave(targets)}", new: "}",
		tests: "TestWaitLeaving_UrgentCallsGoFirst",
	},
	{
		name: "leaving-looks-at-all-that-wait", fault: "an urgent call enters a queue in which it would be the first",
		file: "wait.go", old: "l.queues.Claims(t.name, t.leave)", new: "l.queues.Claims(t.name, math.MaxInt64)",
		tests: "TestWaitLeaving_Fails",
	},
	{
		name: "leaving-what-is-claimed-as-well", fault: "the units that earlier calls claim must be left in addition",
		file: "targets.go", old: "max(t.leave, t.claimed)", new: "t.leave + t.claimed",
		tests: "TestWaitLeaving_ClaimedUnits",
	},
	{
		name: "leaving-forecasts-its-own-units", fault: "a call with a deadline waits in vain for the units that it leaves",
		file: "wait.go", old: "window.Plus(ahead, window.Plus(n, leave))", new: "window.Plus(ahead, n)",
		tests: "TestWaitLeaving_FailsAtOnceBehind",
	},
	{
		name: "leaving-queues-by-number", fault: "waiters are ordered by their numbers alone",
		file: "internal/queue/line.go", old: "return t.yields < o.yields || t.yields == o.yields && t.number < o.number", new: "return t.number < o.number",
		tests: "TestQueues_EqualANaiveReference",
	},
	{
		name: "leaving-claims-of-all", fault: "a new waiter is told of claims of those that would be behind it",
		file: "internal/queue/queue.go", old: "turn{yields, math.MaxInt64}", new: "turn{math.MaxInt64, math.MaxInt64}",
		tests: "TestQueues_EqualANaiveReference",
	},
	{
		name: "wait-for-room-that-is-never-there", fault: "a call waits for ever once its keys need more room than there is",
		file: "wait.go", old: "if d.RetryAfter == Never {", new: "if false {",
		tests: "TestWaitAll_FailsOnceItsKeys",
	},

	// What there is.
	{
		name: "upto-one-less", fault: "TakeUpTo leaves the last unit",
		file: "algorithm.go", old: "max(1, min(q.upTo, left))", new: "max(1, min(q.upTo, left-1))",
		tests: "TestTakeUpTo",
	},
	{
		name: "upto-one-more", fault: "TakeUpTo asks for a unit more than there is",
		file: "algorithm.go", old: "max(1, min(q.upTo, left))", new: "max(1, min(q.upTo, left+1))",
		tests: "TestTakeUpTo",
	},
	{
		name: "upto-all-or-none", fault: "TakeUpTo takes all that it is asked for, or nothing",
		file: "upto.go", old: "q.at, 1, tells, d, nil) == denied", new: "q.at, q.upTo, tells, d, nil) == denied",
		tests: "TestTakeUpTo",
	},
	{
		name: "upto-by-the-first-limit", fault: "what is left of the first limit is taken for what is left of all",
		file: "kind.go", old: "least = min(least, o.remaining)", new: "if i == 0 {\nleast = o.remaining\n}",
		tests: "TestTakeUpTo_UnderSeveralLimits",
	},
	{
		name: "upto-without-the-lock", fault: "other calls charge the key between the look at what is left and the charge",
		file: "kind.go", old: "word, alive := rs.lock(e)\n\tif !alive {\n\t\treturn retry\n\t}\n\tq.fit(rs.remaining(e, word, q.at))",
		new:   "q.fit(rs.remaining(e, e.Word.Load(), q.at))\n\tword, alive := rs.lock(e)\n\tif !alive {\n\t\treturn retry\n\t}",
		tests: "TestRace_TwoCallsTakeAllThereIs",
	},
	{
		name: "upto-tells-the-most", fault: "an observer is told of the units asked for, not of those taken",
		file: "upto.go", old: "l.observe(k, q.n, d)", new: "l.observe(k, most, d)",
		tests: "TestTakeUpTo_TellsTheObserver",
	},
	{
		name: "upto-of-a-shared-quota", fault: "a key without room takes one unit at most",
		file: "takeall.go", old: "q.fit(remainingOfAll(targets, q.at))", new: "q.fit(1)",
		tests: "TestTakeUpTo_OfAKeyWithoutRoom",
	},
}
