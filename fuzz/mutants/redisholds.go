package main

// ofRedisHolds are the faults of package sashredis under limits of units that are held at a time.
var ofRedisHolds = []mutant{
	// Settling.
	{
		name: "redis-holds-what-was-used", fault: "units that were used are held until their lease ends",
		file: "sashredis/scripts/settle.lua", old: "s.held and charged or left", new: "s.held and left < 0 and charged or left",
		tests: "TestAtOnce|TestReserve",
	},
	{
		name: "redis-holds-what-was-overspent", fault: "units spent past a reservation are held",
		file: "sashredis/scripts/settle.lua", old: "s.held and charged or left", new: "s.held and left >= 0 and charged or left",
		tests: "TestAtOnce|TestReserve",
	},
	{
		name: "redis-holds-nothing", fault: "the script does not know that units are held",
		file: "sashredis/scripts/key.lua", old: "held = kind == 'h'", new: "held = false",
		tests: "TestAtOnce|TestReserve",
	},
	{
		name: "redis-holds-after-a-reset", fault: "one that settles late, and has spent more, gives back what another holds",
		file: "sashredis/scripts/settle.lua", old: "elseif units > 0 and known then", new: "elseif units > 0 then",
		tests: "TestAtOnce",
	},
	{
		name: "redis-holds-unsent", fault: "a Release sends nothing",
		file: "sashredis/reserve.go", old: "(left != 0 || r.of.holds && r.of.n > 0)", new: "left != 0",
		tests: "TestAtOnce|TestReserve",
	},
	{
		name: "redis-holds-for-http", fault: "a request holds units for their lease if only the store knows of the limit",
		file: "sashredis/each.go", old: "op = reserve // the caller", new: "op = take // the caller",
		tests: "TestLimitsFor_OfTheStore", in: "sashredis/internal/clienttest/httpstore",
	},
	{
		name: "redis-holds-for-http-in-secret", fault: "a request gives units back before its response if only the store knows that it holds them",
		file: "sashredis/each.go", old: "l.reservation(t, index, a).Commit, t.holds", new: "l.reservation(t, index, a).Commit, false",
		tests: "TestLimitsFor_OfTheStore", in: "sashredis/internal/clienttest/httpstore",
	},
	{
		name: "redis-holds-in-the-log", fault: "a log and what is held have the same name in the store",
		file: "sashredis/rule.go", old: "fmt.Sprintf(\"%s%dx%d\", letter, length", new: "fmt.Sprintf(\"%s%dx%d\", strings.Replace(letter, \"h\", \"r\", 1), length",
		tests: "TestAtOnce",
	},

	{
		name: "redis-ring-forgets-its-time", fault: "a late reading does not find units that counted at the newest charge",
		file: "sashredis/scripts/ring.lua", old: " and not (s.before and parse(s.before) > oldest) then", new: " then",
		tests: "TestScripts_ARefund",
	},
	{
		name: "redis-ring-oldest-goes-on", fault: "what was given back of the oldest units is given back of the next ones, for ever",
		file: "sashredis/scripts/ring.lua", old: "elseif previous and parse(previous) > oldest then", new: "elseif true then",
		tests: "TestScripts_HoldersThatComeAndGo",
	},
	{
		name: "redis-ring-newest-goes-on", fault: "what was given back of the newest units is given back of the next ones, for ever",
		file: "sashredis/scripts/ring.lua", old: "local empty = last and s.newest ~= s.lastUnits", new: "local empty = false",
		tests: "TestScripts_HoldersThatComeAndGo",
	},
	{
		name: "redis-ring-oldest-may-count", fault: "what stands for the oldest units counts at a late reading",
		file: "sashredis/scripts/ring.lua", old: "elseif previous and parse(previous) > oldest then", new: "elseif previous and parse(previous) > s.tick - s.b then",
		tests: "TestScripts_TheOldest",
	},

	// Denials in-process, and leases of quota.
	{
		name: "mirror-denies-what-is-given-back", fault: "the mirror denies what another process may have given back",
		file: "sashredis/mirror.go", old: "\treturn b.certain\n", new: "\treturn d.RetryAfter\n",
		tests: "TestAtOnce",
	},
	{
		name: "mirror-admits-more-than-count", fault: "more than Count is asked of the store again and again",
		file: "sashredis/state.go", old: "if !r.held || o.retryAfter == window.Never {", new: "if !r.held {",
		tests: "TestAtOnce",
	},
	{
		name: "redis-leases-what-is-held", fault: "units that are held are leased ahead of demand",
		file: "sashredis/rule.go", old: "if k.Length == microsecond {", new: "if k.Length == microsecond && l.Algorithm != sash.Concurrency {",
		tests: "TestAtOnce",
	},

	// Waiting.
	{
		name: "redis-wait-refuses-what-is-held", fault: "a deadline refuses a Wait that a release may admit",
		file: "sashredis/wait.go", old: "a.certain > left", new: "a.RetryAfter > left",
		tests: "TestAtOnce|TestModel$",
	},
	{
		name: "redis-wait-never-refuses", fault: "a Wait that is sure to be too late waits",
		file: "sashredis/wait.go", old: "a.certain > left", new: "a.certain == sash.Never",
		tests: "TestAtOnce|TestWait",
	},
	{
		name: "redis-wait-for-the-lease", fault: "a Wait does not look for units that others give back",
		file: "sashredis/wait.go", old: "if !t.holds {", new: "if !t.holds || a.certain == 0 {",
		tests: "TestAtOnce",
	},
	{
		name: "redis-wait-hardly-looks", fault: "a Wait pauses longer and longer",
		file: "sashredis/wait.go", old: "min(2**pause, longestPause)", new: "2 * *pause",
		tests: "TestAtOnce",
	},
	{
		name: "redis-wait-looks-in-vain", fault: "a Wait looks for units while other limits are sure to deny it",
		file: "sashredis/wait.go", old: "max(a.certain, *pause)", new: "*pause",
		tests: "TestAtOnce",
	},
	{
		name: "redis-wait-past-the-lease", fault: "a Wait does not see a lease end in its pause",
		file: "sashredis/wait.go", old: "min(a.RetryAfter, max(a.certain, *pause))", new: "max(a.certain, *pause)",
		tests: "TestAtOnce",
	},
	{
		name: "redis-release-wakes-none", fault: "a Release does not wake the call that waits here",
		file: "sashredis/reserve.go", old: "\t\tr.of.limiter.queues.Free(r.of.name, 0)", new: "\t\t_ = r.of.limiter.queues.Has(r.of.name)",
		tests: "TestAtOnce",
	},
	{
		name: "redis-waitreserve-takes", fault: "nothing gives back what a WaitReserve holds",
		file: "sashredis/wait.go", old: "l.wait(ctx, key, request{op: reserve, n: n})", new: "l.wait(ctx, key, request{op: take, n: n})",
		tests: "TestWaitReserve",
	},
	{
		name: "redis-waitreserve-keeps", fault: "what a WaitReserve is admitted for too late is held",
		file: "sashredis/wait.go", old: "l.giveBack(ctx, of.target, &of.answer)", new: "_ = of.target",
		tests: "TestWaitReserve",
	},
	{
		name: "redis-waitreserve-loses", fault: "the end of its context loses where a WaitReserve was charged",
		file: "sashredis/wait.go", old: "of.call(context.WithoutCancel(ctx), l, key, r)", new: "of.call(ctx, l, key, r)",
		tests: "TestWaitReserve",
	},
	{
		name: "redis-waitreserve-twice", fault: "what a WaitReserve is admitted for is given back at once",
		file: "sashredis/wait.go", old: "of.call(context.WithoutCancel(ctx), l, key, r)", new: "of.call(context.WithoutCancel(ctx), l, key, r)\n\t\tl.giveBack(ctx, of.target, &of.answer)",
		tests: "TestModel$",
	},

	{
		name: "redis-anew-again", fault: "a key that begins anew does so again, and forgets what was spent past a reservation",
		file: "sashredis/scripts/settle.lua", old: "    s.kind.forget(s)\n", new: "",
		tests: "TestMaxAhead_WhatIsSpent",
	},

	// While the store is away.
	{
		name: "fallback-release-is-a-fresh-window", fault: "after a Release, the fallback does not know what other limits have used",
		file: "sashredis/mirror.go", old: "after = past.settled(t.ruleset, units, 0)", new: "_ = past.settled(t.ruleset, units, 0)",
		tests: "TestAtOnce",
	},
	{
		name: "fallback-holds-what-was-released", fault: "while the store is away, a process holds what it has given back before",
		file: "sashredis/mirror.go", old: "max(s.used+s.added-units, 0), 0, nil", new: "s.used+s.added, 0, nil",
		tests: "TestAtOnce",
	},
	{
		name: "fallback-holds-when-it-has-ended", fault: "a WaitReserve whose context has ended holds a share",
		file: "sashredis/wait.go", old: "\t\t\tl.giveBack(ctx, t, &a) // what the fallback has reserved here\n", new: "",
		tests: "TestWaitReserve",
	},
	{
		name: "fallback-holds-what-was-used", fault: "what another limit has used in the store is held while that is away",
		file: "sashredis/fallback.go", old: "\tinternals.Seed(l.shares,", new: "\tfor i := range pasts {\n\t\tpasts[i].Left = min(pasts[i].Left, pasts[0].Left)\n\t}\n\tinternals.Seed(l.shares,",
		tests: "TestAtOnce",
	},
}
