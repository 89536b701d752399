package main

// ofHolding are faults of limits of the units that are held at a time.
var ofHolding = []mutant{
	{
		name: "holding-after-a-panic", fault: "units are held for their lease if the observer of the call that reserves them panics",
		file: "reserve.go", old: "			if !returned {\n				l.reservation", new: "			if !returned && n == 0 {\n				l.reservation",
		tests: "TestAtOnce_AnObserverThatPanics",
	},
	{
		name: "holding-after-a-panic-in-httplimit", fault: "a request holds units for their lease if the observer of package sash panics",
		file: "holding.go", old: "		l.observeReserved(targets, n, d)\n		return l.res", new: "		l.observe(k, n, d)\n		return l.res",
		tests: "TestAtOnce_AnObserverThatPanics",
	},
	{
		name: "holding-what-was-used", fault: "a Commit gives back only what was not used, as under a log",
		file: "compile.go", old: "r.held = concurrency{(*slidingLog)(r)}, false, true", new: "r.held = concurrency{(*slidingLog)(r)}, false, false",
		tests: "TestAtOnce_AnySettlingReleases",
	},
	{
		name: "holding-after-use-of-all", fault: "a Commit of all that was reserved gives nothing back",
		file: "compile.go", old: "horizon().dated || rs.rules[i].held", new: "horizon().dated",
		tests: "TestAtOnce_AnySettlingReleases",
	},
	{
		name: "holding-after-use-of-more", fault: "a Commit to more than was reserved charges the rest, and releases nothing",
		file: "reserve.go", old: "freed := e.asMulti().giveBack(r.origins, r.n, 0)\n\t\te.unlock(word)\n", new: "freed := len(r.origins) < 0\n\t\te.unlock(word)\n",
		tests: "TestAtOnce_OtherLimitsKeepWhatWasUsed",
	},
	{
		name: "holding-what-was-spent", fault: "what was used past a reservation is held, too",
		file: "concurrency.go", old: "if q.spent {\n", new: "if false {\n",
		tests: "TestAtOnce_OtherLimitsKeepWhatWasUsed",
	},
	{
		name: "holding-spends-an-entry", fault: "what was used past a reservation makes an entry, although nothing is charged",
		file: "reserve.go", old: "if s.ruleset.neverCharges || !s.ruleset.spends {", new: "if s.ruleset.neverCharges {",
		tests: "TestAtOnce_SpendsNothing",
	},
	{
		name: "holding-denied", fault: "a denied attempt that is charged takes units to be held",
		file: "compile.go", old: "concurrency{(*slidingLog)(r)}, false, true", new: "concurrency{(*slidingLog)(r)}, t.chargeDenied, true",
		tests: "TestAtOnce_NextToALimitOfNothing",
	},
	{
		name: "holding-hides-a-denied-attempt", fault: "an attempt that is denied since units are held is not charged to the other limits",
		file: "concurrency.go", old: "if res == denied && r.timeline.chargeDenied {", new: "if false {",
		tests: "TestAtOnce_ADeniedAttemptHoldsNothing",
	},
	{
		name: "holding-next-to-nothing", fault: "a key that admits nothing gets an entry for denied attempts that nothing charges",
		file: "rule.go", old: "denied = denied || r.Count > 0 && r.chargeDenied", new: "denied = denied || r.Count > 0 && r.timeline.chargeDenied",
		tests: "TestAtOnce_NextToALimitOfNothing",
	},
	{
		name: "holding-refuses-a-wait", fault: "a deadline before the end of the leases refuses a call that waits",
		file: "concurrency.go", old: "if q.certain {", new: "if false {",
		tests: "TestAtOnce_WaitIsWokenByARelease",
	},
	{
		name: "holding-forecasts", fault: "units ahead of a call that waits are taken for held until their leases end",
		file: "wait.go", old: "\t\tif r.held {\n\t\t\tcontinue", new: "\t\tif false {\n\t\t\tcontinue",
		tests: "TestAtOnce_NoCallAhead",
	},
	{
		name: "holding-gives-up-hope-of-all", fault: "no deadline refuses a call on a key that holds units, whatever its other limits say",
		file: "wait.go", old: "d, _ := l.look(t.name, query{n: n, leave: t.leave, certain: true})\n\t\t\tleast = max(least, d.RetryAfter)",
		new:   "d, _ := l.look(t.name, query{n: n, leave: t.leave, certain: true})\n\t\t\tif d.RetryAfter == Never {\nleast = Never\n}",
		tests: "TestAtOnce_ADeadline",
	},
	{
		name: "holding-claims-late", fault: "a call that waits for a held key claims its other keys only when the lease ends",
		file: "wait.go", old: "d, at := l.look(w.Places[last].Key, query{n: n, leave: targets[last].leave, certain: true})",
		new:   "d, at := l.look(w.Places[last].Key, query{n: n, leave: targets[last].leave})",
		tests: "TestAtOnce_WaitAllIsNotStarved",
	},
	{
		name: "holding-wakes-none", fault: "a release that only gives back what is held wakes no call",
		file: "multi.go", old: "freed = freed || units > 0", new: "freed = freed || left > 0",
		tests: "TestAtOnce_WaitIsWokenByARelease",
	},
	{
		name: "holding-charges", fault: "what was charged under another limit is held under one that replaces it",
		file: "migrate.go", old: "return r.held == o.held", new: "return true || o.held",
		tests: "TestReconfigure_",
	},
	{
		name: "holding-loses-the-handle", fault: "after a change of the lease a release gives nothing back",
		file: "migrate.go", old: "return from.equalButAmounts(r.Limit) || from.held", new: "return from.equalButAmounts(r.Limit)",
		tests: "TestReconfigure_OfUnitsThatAreHeld",
	},
	{
		name: "holding-again", fault: "a lease that has ended goes on if it becomes longer",
		file: "concurrency.go", old: "if ended > 0 && r.Window > from.Window {", new: "if false {",
		tests: "TestReconfigure_ToALongerLease",
	},
	{
		name: "holding-again-for-the-late", fault: "once an ended lease is dropped, a late call comes before its end",
		file: "concurrency.go", old: "past = append(past[ended:], charge{At: now})", new: "past = past[ended:]",
		tests: "TestReconfigure_ToALongerLease",
	},
	{
		name: "holding-again-for-the-late-and-empty", fault: "the same, for a key that holds nothing any more",
		file: "concurrency.go", old: "\t\tr.raiseFloor(now)\n", new: "",
		tests: "TestReconfigure_ToALongerLease",
	},
	{
		name: "holding-restored", fault: "a snapshot holds units whose holders are gone",
		file: "concurrency.go", old: "func (r concurrency) appendState(b []byte, _ state) []byte { return b }\n\nfunc (r concurrency) readState(s state, _ *snapshotReader) state { return s }\n",
		new:   "",
		tests: "TestSnapshot_OfUnitsThatAreHeld",
	},
	{
		name: "holding-room", fault: "records of units that were given back are kept until their leases end",
		file: "log.go", old: "for r.held && drop < v.count-1", new: "for false && drop < v.count-1",
		tests: "TestAtOnce_CopiesFewRings",
	},
	{
		name: "holding-mixes-leases", fault: "of two leases that took over from one, both give back at the instant of the first",
		file: "multi.go", old: "if i >= len(origins) || origins[i].lineage != g.root {", new: "{",
		tests: "TestReconfigure_IntoTwoLeases",
	},
	{
		name: "holding-copies", fault: "a ring near its Count is copied at each charge, for records whose units were given back",
		file: "log.go", old: "if count < v.count { //", new: "if false { //",
		tests: "TestAtOnce_CopiesFewRings",
	},
}
