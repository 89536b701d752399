package main

// ofSashredis are the faults of package sashredis, but for its scripts.
var ofSashredis = []mutant{
	// Limits that calls bring.
	{
		name: "given-limits-are-not-the-last-word", fault: "WithLimitsFor replaces limits that a call brings",
		file: "sashredis/view.go", old: "v := &Limiter{common: l.common, given: true, wrong:", new: "v := &Limiter{common: l.common, wrong:",
		tests: "TestTakeLimits|TestModel",
	},
	{
		name: "given-limits-of-one-first", fault: "limits with the same first one are taken for the same",
		file: "sashredis/view.go", old: "key.others = internals.LimitsKey(others)", new: "_ = others",
		tests: "TestTakeLimits|TestModel",
	},
	{
		name: "given-limits-wrong-are-none", fault: "the error of wrong limits that a call brings does not tell what is wrong",
		file: "sashredis/limiter.go", old: "case under.wrong != nil:", new: "case under.wrong != nil && !under.given:",
		tests: "TestWithLimits_DeniesWrongLimits",
	},
	{
		name: "given-limits-end-the-lease-of-others", fault: "a Reset under other limits takes units that are leased, and does not give them back",
		file: "sashredis/lease.go", old: "known && e.suffix == t.suffix {", new: "known {",
		tests: "TestTakeLimits_LeasesForCalls",
	},
	{
		name: "given-limits-stay-in-the-shares", fault: "limits are noted for a share although no call asks it any more",
		file: "sashredis/fallback.go", old: "return of, of.calls == 0", new: "return of, false",
		tests: "TestTakeLimits_HasAShare",
	},
	{
		name: "given-limits-forgotten-by-a-commit", fault: "the shares deny nothing any more of a key that is charged past a reservation of it",
		file: "sashredis/reserve.go", old: "r.limiter.borrow([]target{r.target}, func([]string) { r.local.Commit(actual) })", new: "r.local.Commit(actual)",
		tests: "TestTakeLimits_HasAShare|TestModel",
	},
	{
		name: "given-limits-share-a-share", fault: "limits that keep their states differently have one share of a key",
		file: "sashredis/fallback.go", old: "return t.name + t.suffix }", new: "return t.name }",
		tests: "TestTakeLimits_HasAShare",
	},
	{
		name: "given-limits-not-followed", fault: "a share keeps the limits of its first call",
		file: "sashredis/fallback.go", old: "internals.Follow(l.shares, shares[i], targets[i].shares)", new: "_ = shares[i]",
		tests: "TestTakeLimits_HasAShare",
	},
	{
		name: "given-limits-seed-once", fault: "a share that a call under small limits has begun counts too little of the past under larger ones",
		file: "sashredis/rule.go", old: "if rs.rules[i].most > other.rules[i].most {", new: "if rs.rules[i].most < 0 {",
		tests: "TestTakeLimits_KnowsAllOfThePast",
	},
	{
		name: "given-limits-decide-for-others", fault: "calls at the same time are decided by the share of the first one's limits",
		file: "sashredis/fallback.go", old: "if same = of.limits == targets[i].limits; same {", new: "if same = of.limits != \"\"; same {",
		tests: "TestTakeLimits_HasItsOwnShare",
	},
	{
		name: "given-limits-reset-others", fault: "a Reset forgets no share",
		file: "sashredis/limiter.go", old: "l.shares.Reset(t.share())", new: "l.shares.Reset(key)",
		tests: "TestTakeLimits_HasAShare",
	},
	{
		name: "given-limits-by-their-text", fault: "wrong limits are taken for right ones that print alike",
		file: "sashredis/view.go", old: "key.others = internals.LimitsKey(others)", new: "for _, l := range others {\n\t\t\tkey.others += l.String()\n\t\t}",
		tests: "TestWithLimits_DeniesWrongLimits",
	},
	{
		name: "lent-context-kept", fault: "a round trip reads the context of a call that has returned",
		file: "sashredis/combine.go", old: "l.flights.withdraw(f, c).giveBack()", new: "l.flights.withdraw(f, c)",
		tests: "TestRoundTripHook|TestModel",
	},
	{
		name: "lent-context-of-a-call-that-has-gone", fault: "a round trip has the context of a call that gave up before it began",
		file: "sashredis/combine.go", old: "if !c.gone {\n\t\t\tc.lent.of", new: "if c.ctx != nil {\n\t\t\tc.lent.of",
		tests: "TestModel",
	},

	// Round trips: their figures, and their hook.
	{
		name: "trips-beyond-a-second", fault: "round trips count in the bucket below the one of their time",
		file: "sashredis/stats.go", old: "t.buckets[i].Add(1)", new: "t.buckets[max(i-1, 0)].Add(1)",
		tests: "TestStats",
	},
	{
		name: "trips-open-the-breaker-again", fault: "each failure while the breaker is open counts as one that opens it",
		file: "sashredis/breaker.go", old: "if failures == b.limit {", new: "if failures >= b.limit {",
		tests: "TestBreaker_OneCallInEachPause",
	},
	{
		name: "trips-of-no-trace", fault: "the trace of a call that has waited for a round trip ends there",
		file: "sashredis/combine.go", old: "l.decide(l.lend(f, calls), b)", new: "l.lend(f, calls)\n\tl.decide(context.Background(), b)",
		tests: "TestRoundTripHook",
	},
	{
		name: "trips-end-with-the-first", fault: "a round trip that calls share ends when the first of them gives up",
		file: "sashredis/combine.go", old: "return calls[0].lent\n", new: "return calls[0].ctx\n",
		tests: "TestRoundTripHook|TestModel",
	},
	{
		name: "trips-hook-knows-one-call", fault: "the hook of a round trip gets the context of its first call alone",
		file: "sashredis/limiter.go", old: "contexts = append(contexts, c.lent)", new: "if contexts == nil {\n\t\t\tcontexts = append(contexts, c.lent)\n\t\t}",
		tests: "TestRoundTripHook",
	},
	{
		name: "trips-hook-misses-panics", fault: "the hook takes a round trip whose Conn has panicked for answered",
		file: "sashredis/limiter.go", old: "err = errPanicked // until", new: "_ = errPanicked // until",
		tests: "TestRoundTripHook",
	},

	// The mirror.
	{
		name: "mirror-believes-a-late-reading", fault: "the mirror denies by a reading of the clock from before the answer that it knows",
		file: "sashredis/mirror.go", old: "&b) || now < b.received ||", new: "&b) ||",
		tests: "TestMirror_DeniesNothing",
	},
	{
		name: "mirror-earliest", fault: "the mirror denies what the store would at the earliest time that it may be",
		file: "sashredis/mirror.go", old: "= latest, time.Duration(", new: "= earliest, time.Duration(",
		tests: "TestMirror|TestFleet",
	},
	{
		name: "mirror-no-drift", fault: "the mirror takes the local clock for as fast as the store's",
		file: "sashredis/state.go", old: "drift := (now - v.sent) / maxDrift", new: "drift := (now - v.sent) / maxDrift * 0",
		tests: "TestMirror",
	},
	{
		name: "mirror-bounds-from-one-reading", fault: "the store's clock is taken for its time at the moment of the answer",
		file: "sashredis/state.go", old: "v.at + (now - v.sent) + drift + microsecond", new: "v.at + (now - v.received) + drift + microsecond",
		tests: "TestMirror",
	},
	{
		name: "mirror-waits-too-short", fault: "the wait of a denial counts from the latest time that it may be",
		file: "sashredis/mirror.go", old: "time.Duration(latest-earliest)", new: "0*time.Duration(latest-earliest)",
		tests: "TestMirror",
	},
	{
		name: "mirror-keeps-the-older", fault: "an answer that comes late replaces a newer one",
		file: "sashredis/mirror.go", old: "case old.at < e.at || old.at == e.at && len(old.states) > 0 || old.received < e.sent:", new: "case true:",
		tests: "TestMirror",
	},
	{
		name: "mirror-does-not-know-what-was-overspent", fault: "the mirror tells the wait from before a Commit of more than was reserved",
		file: "sashredis/mirror.go", old: "stillBound := e.past(), left == 0 ||", new: "stillBound := e.past(), left <= 0 ||",
		tests: "TestMirror_WaitsForWhatACommit",
	},
	{
		name: "mirror-denies-what-was-given-back", fault: "the mirror denies by what it knew before units were given back",
		file: "sashredis/mirror.go", old: "stillBound := e.past(), left == 0 || !t.spends", new: "stillBound := e.past(), left >= 0 || !t.spends",
		tests: "TestMirror_Forgets|TestFallbackLocal_GoesOnFromWhatWasSettled",
	},
	{
		name: "fallback-refund-is-a-fresh-window", fault: "a key has a fresh window in a share once units of it were given back",
		file: "sashredis/mirror.go", old: "after.before = past.settled(", new: "_ = past.settled(",
		tests: "TestFallbackLocal_GoesOnFromWhatWasSettled",
	},
	{
		name: "fallback-forgets-what-was-overspent", fault: "a share does not count what was spent past a reservation",
		file: "sashredis/mirror.go", old: "units, max(-left, 0))", new: "units, 0)",
		tests: "TestFallbackLocal_GoesOnFromWhatWasSettled",
	},
	{
		name: "mirror-without-bound", fault: "a mirror takes the more memory, the more limits keys have",
		file: "sashredis/mirror.go", old: "if bytes <= mirrorSetBytes {", new: "if bytes <= mirrorSetBytes<<10 {",
		tests: "TestMirror_TakesNoMoreBytes",
	},
	{
		name: "mirror-keeps-a-giant", fault: "a mirror keeps a key that alone takes more than all of its set may",
		file: "sashredis/mirror.go", old: "if e.bytes > mirrorSetBytes {", new: "if e.bytes > mirrorSetBytes<<10 {",
		tests: "TestMirror_TakesNoMoreBytes",
	},
	{
		name: "mirror-pins-a-batch", fault: "what is kept of one key holds the states of all keys of the call",
		file: "sashredis/mirror.go", old: "v.states = slices.Clone(v.states) // they", new: "_ = slices.Clone(v.states) // they",
		tests: "TestMirror_TakesNoMoreBytes",
	},
	{
		name: "mirror-keeps-the-future", fault: "after the store's clock was set back, the mirror keeps what it had before",
		file: "sashredis/mirror.go", old: " || old.received < e.sent:", new: ":",
		tests: "TestMirror_FollowsAClockThatIsSetBack",
	},
	{
		name: "mirror-does-not-forget", fault: "the mirror keeps what it had when units are given back",
		file: "sashredis/mirror.go", old: "{ m.store(t, &mirrored{view: v}) }", new: "{}",
		tests: "TestMirror|TestReserve",
	},
	{
		name: "mirror-mixes-limits", fault: "the mirror takes a key under other limits for the same",
		file: "sashredis/mirror.go", old: " && e.suffix == t.suffix", new: "",
		tests: "TestExact_TheMirrorKnowsItsLimits",
	},
	{
		name: "mirror-any-key", fault: "a call on several keys is denied by those that the mirror knows",
		file: "sashredis/mirror.go", old: "!b.decide(r.needs(i), &d.Decision) {\n\t\t\treturn 0\n", new: "!b.decide(r.needs(i), &d.Decision) {\n\t\t\tcontinue\n",
		tests: "TestMirror",
	},
	{
		name: "mirror-without-the-batch", fault: "the mirror keeps the state before the charges of the answer",
		file: "sashredis/take.go", old: "l.mirror.keep(t, v, charged, b)", new: "l.mirror.keep(t, v, 0*charged, b)",
		tests: "TestMirror",
	},

	// Parts.
	{
		name: "redis-parts-shifted-by-the-stored-name", fault: "a key is shifted by its name with what the store adds to it",
		file: "sashredis/limiter.go", old: "window.ShiftOf(t.name)", new: "window.ShiftOf(t.name + t.suffix)",
		tests: "TestAnswers|TestModel$",
	},
	{
		name: "mirror-forgets-the-shift", fault: "the mirror takes the parts of all keys to begin at one instant",
		file: "sashredis/take.go", old: "v.states[j].shift = shift", new: "v.states[j].shift = 0 * shift",
		tests: "TestAnswers|TestModel$",
	},
	{
		name: "redis-parts-settled-without-a-shift", fault: "a script that settles is not told the shift of the key",
		file: "sashredis/reserve.go", old: "c.scriptLimits()", new: "c.limits",
		tests: "TestReserve",
	},
	{
		name: "redis-parts-of-nanoseconds", fault: "a store is told of parts that are no whole microseconds",
		file: "sashredis/ring.go", old: "window.PartsOf(size / microsecond) // a script knows no fractions of a microsecond\n\t\tp.Length, p.Step = p.Length*microsecond, p.Step*microsecond\n", new: "window.PartsOf(size)\n",
		tests: "TestModel$",
	},
	{
		name: "fallback-dates-parts-early", fault: "the fallback takes what the store has charged in a part for charged when that began",
		file: "sashredis/ring.go", old: "max(begin, min(at, last))", new: "max(begin, min(begin, at, last))",
		tests: "TestFallbackLocal_CountsWhatWas",
	},

	// Combining.
	{
		name: "combine-charges-nothing-before", fault: "each call of a batch is answered as if it were the first",
		file: "sashredis/take.go", old: "\t\tfor place, c := range group {\n\t\t\tc.batch, c.admitted, c.before = b, int64(place) < admitted, b.charged\n", new: "\t\tbefore := b.charged\n\t\tfor place, c := range group {\n\t\t\tc.batch, c.admitted, c.before = b, int64(place) < admitted, before\n",
		tests: "TestTake|TestFleet",
	},
	{
		name: "combine-forgets-earlier-groups", fault: "a call of a batch is answered without the calls of other costs",
		file: "sashredis/take.go", old: "\t\tfor place, c := range group {\n\t\t\tc.batch, c.admitted, c.before = b, int64(place) < admitted, b.charged\n", new: "\t\tbefore := b.charged\n\t\tfor place, c := range group {\n\t\t\tc.batch, c.admitted, c.before = b, int64(place) < admitted, b.charged-before\n",
		tests: "TestTake|TestFleet",
	},
	{
		name: "combine-all-alike", fault: "if one call of a group is admitted, all are",
		file: "sashredis/take.go", old: "c.before = b, int64(place) < admitted, b", new: "c.before = b, admitted > 0 && place >= 0, b",
		tests: "TestTake|TestFleet",
	},
	{
		name: "combine-peeks-with-takes", fault: "calls that charge nothing are charged with those that do",
		file: "sashredis/take.go", old: "c.charges() == o.charges() && ", new: "",
		tests: "TestTake|TestFleet",
	},
	{
		name: "combine-reservations-with-takes", fault: "reservations share a round trip with other calls",
		file: "sashredis/combine.go", old: "return flight{c.targets[0].name, c.targets[0].limits, c.op == reserve}", new: "return flight{c.targets[0].name, c.targets[0].limits, false}",
		tests: "TestTake|TestFleet",
	},
	{
		name: "combine-withdraws-nothing", fault: "a call that has given up before it was sent is sent",
		file: "sashredis/combine.go", old: "c.gone = true", new: "c.gone = false",
		tests: "TestTake_ACallThatGivesUp",
	},
	{
		name: "combine-ends-with-a-goroutine", fault: "calls whose Conn has ended its goroutine are told that the store has answered",
		file: "sashredis/combine.go", old: "\tb.err = errEnded // until it is decided\n", new: "",
		tests: "TestTake_AConnThatEndsItsGoroutine",
	},
	{
		name: "combine-in-the-context-of-one", fault: "a batch ends with the context of an earlier caller",
		file: "sashredis/combine.go", old: "if next := l.flights.next(f); next != nil {\n\t\t\tgo l.flyOn(f, next)", new: "if next := l.flights.next(f); next != nil {\n\t\t\tgo func() {\n\t\t\t\tb := l.newBatch(next...)\n\t\t\t\tl.decide(ctx, b)\n\t\t\t\tfor _, c := range next {\n\t\t\t\t\tc.ready <- b\n\t\t\t\t}\n\t\t\t\tl.flyOn(f, l.flights.next(f))\n\t\t\t}()",
		tests: "TestTake_ACallerThatGivesUp",
	},
	{
		name: "combine-not-after-a-panic", fault: "a Conn that panics leaves calls waiting",
		file: "sashredis/combine.go", old: "\tdefer func() { // also if the Conn panics\n", new: "\tdefer func() {\n\t\tif r := recover(); r != nil {\n\t\t\tpanic(r)\n\t\t}\n",
		tests: "TestTake_AConnThatPanics",
	},

	{
		name: "combine-hides-a-panic", fault: "a Conn that panics is a denial for those who waited",
		file: "sashredis/combine.go", old: "panic(b.panicked)", new: "b.err = ErrServer",
		tests: "TestTake_AConnThatPanics",
	},

	// What is sent and answered.
	{
		name: "redis-answers-any-verdict", fault: "a verdict that does not follow from the state is believed",
		file: "sashredis/take.go", old: "if d.Allowed == (d.RetryAfter > 0) {", new: "if d.Allowed && d.RetryAfter > 0 && c.n < 0 {",
		tests: "TestServer|TestExact_AVerdict",
	},
	{
		name: "redis-unknown-outcome-repeated", fault: "a round trip with an unknown outcome is repeated",
		file: "sashredis/limiter.go", old: "\treturn l.conn.Run(bounded, s, keys, args)\n", new: "\tif reply, err = l.conn.Run(bounded, s, keys, args); err != nil {\n\t\treply, err = l.conn.Run(bounded, s, keys, args)\n\t}\n\treturn reply, err\n",
		tests: "TestExact_ARoundTripIsNotRepeated",
	},
	{
		name: "redis-without-time-out", fault: "a round trip has no time-out",
		file: "sashredis/limiter.go", old: "context.WithTimeout(ctx, l.timeout)", new: "context.WithCancel(ctx)",
		tests: "TestExact_ARoundTripEnds",
	},
	{
		name: "redis-keys-meet", fault: "keys under limits with other states share one",
		file: "sashredis/limiter.go", old: "t.name + t.suffix\n", new: "t.name\n",
		tests: "TestKeys|TestLimits",
	},
	{
		name: "redis-reading-rounded-up", fault: "a caller's clock below zero is rounded towards it",
		file: "sashredis/limiter.go", old: "micros, _ := window.Divide(l.clock.Now(), microsecond)", new: "_ = window.Divide\n\tmicros := l.clock.Now() / microsecond",
		tests: "TestExact_ACallersClock",
	},

	// The breaker.
	{
		name: "breaker-never-opens", fault: "calls go on waiting for a store that does not answer",
		file: "sashredis/breaker.go", old: "failures := b.failures.Add(1)", new: "failures := b.failures.Load()",
		tests: "TestBreaker",
	},
	{
		name: "breaker-never-closes", fault: "once calls do not go to the store, they never do again",
		file: "sashredis/limiter.go", old: "if l.breaker.failures.Load() != 0 { // all calls share it: write only if there was a failure", new: "if l.breaker.failures.Load() < l.breaker.limit {",
		tests: "TestBreaker",
	},
	{
		name: "breaker-all-probe", fault: "all calls try the store once the pause is over",
		file: "sashredis/breaker.go", old: "if now >= at && b.probeAt.CompareAndSwap(at, now+b.pause) {", new: "if now >= at {",
		tests: "TestBreaker|TestExact_OneCallProbes",
	},
	{
		name: "breaker-counts-all-failures", fault: "failures count that are not in a row",
		file: "sashredis/limiter.go", old: "if l.breaker.failures.Load() != 0 { // all calls share it: write only if there was a failure", new: "if l.breaker.failures.Load() >= l.breaker.limit {",
		tests: "TestBreaker",
	},
	{
		name: "breaker-blames-the-store", fault: "calls whose callers give up count as failures of the store",
		file: "sashredis/limiter.go", old: "\t\treturn \"\", gaveUp\n", new: "\t\tl.failed(err)\n\t\treturn \"\", gaveUp\n",
		tests: "TestBreaker|TestExact_CallersThatGiveUp",
	},

	{
		name: "breaker-held-open-by-hanging-up", fault: "a caller that hangs up while its call tries the store keeps it out of use",
		file: "sashredis/limiter.go", old: " || l.breaker.failures.Load() > 0", new: "",
		tests: "TestBreaker_IsNotHeldOpenByACaller",
	},

	// Fallbacks.
	{
		name: "fallback-fresh-window", fault: "the fallback begins with nothing used",
		file: "sashredis/fallback.go", old: "l.mirror.get(&t).past(); e != nil {", new: "l.mirror.get(&t).past(); e != nil && e.at < 0 {",
		tests: "TestFallbackLocal",
	},
	{
		name: "fallback-whole-limit", fault: "each process has the whole limit while the store is away",
		file: "sashredis/fallback.go", old: "l.Count, l.Burst = f.share(l.Count), f.share(l.Burst)", new: "l.Burst = f.share(l.Burst)",
		tests: "TestFallbackLocal",
	},
	{
		name: "fallback-seeds-too-little", fault: "the share of what was used is rounded down",
		file: "sashredis/fallback.go", old: "part + int64(min(rest, 1))", new: "part + 0*int64(rest)",
		tests: "TestFallbackLocal|TestExact_AFallback",
	},
	{
		name: "fallback-forgets", fault: "what a fallback has admitted counts no longer once the store has answered",
		file: "sashredis/fallback.go", old: "\tinternals.Seed(l.shares,", new: "\tl.shares.Reset(share)\n\tinternals.Seed(l.shares,",
		tests: "TestFallbackLocal",
	},
	{
		name: "fallback-learns-once", fault: "what the store has answered since an earlier outage counts for nothing",
		file: "sashredis/fallback.go", old: "\tinternals.Seed(l.shares,", new: "\tif l.shares.Peek(share, 0).ResetAfter > 0 {\n\t\treturn\n\t}\n\tinternals.Seed(l.shares,",
		tests: "TestFallbackLocal",
	},
	{
		name: "fallback-learns-of-the-least-alone", fault: "a limit that leaves less hides what the store has counted under others since an earlier outage",
		file: "sashredis/fallback.go", old: "\tinternals.Seed(l.shares, share, pasts)\n", new: "\tleast := int64(1 << 62)\n\tfor i := range pasts {\n\t\tleast, pasts[i].Left = min(least, pasts[i].Left), 1<<62\n\t}\n\tinternals.Seed(l.shares, share, pasts)\n\tr, _ := l.shares.Reserve(share, l.shares.Peek(share, 0).Remaining-least)\n\tr.Release()\n",
		tests: "TestFallbackLocal_LearnsUnderEachLimit",
	},
	{
		name: "seed-adds-up", fault: "a past is charged again each time that it is told",
		file: "seed.go", old: "max(o.remaining-left[i], 0)", new: "max(o.remaining, e.ruleset.rules[i].most()-left[i], 0)",
		tests: "TestSeed",
	},
	{
		name: "seed-charges-all-limits-alike", fault: "what one limit has used is charged to all of a key",
		file: "seed.go", old: "max(o.remaining-left[i], 0)", new: "max(o.remaining-left[0], 0)",
		tests: "TestSeed",
	},
	{
		name: "seed-dates-now", fault: "charges of the past count from now on",
		file: "seed.go", old: "r.pastOf(pasts, i).Charges", new: "nil",
		tests: "TestSeed",
	},
	{
		name: "seed-without-a-number", fault: "what a bucket was charged for a past counts as not there when an earlier reservation is given back",
		file: "seed.go", old: "g != nil {\n\t\t\ta.note", new: "g != nil && at < 0 {\n\t\t\ta.note",
		tests: "TestSeed",
	},
	{
		name: "seed-without-room", fault: "a past is charged to a log that is full",
		file: "seed.go", old: "\t\te.grow(i, q, admitted)\n", new: "",
		tests: "TestSeed",
	},
	{
		name: "seed-holds-what-was-used", fault: "what limits of another kind leave bounds what is held",
		file: "seed.go", old: "if r.held == (p.Limit.Algorithm == Concurrency) {", new: "if p.Limit.Count > 0 {",
		tests: "TestSeed_OfOtherLimits",
	},
	{
		name: "fallback-follows-a-clock-that-is-set", fault: "the time of a fallback jumps with the clock of the store",
		file: "sashredis/fallback.go", old: "if !c.used.Load() || c.near(offset) {", new: "if !c.used.Load() || c.near(offset) || offset != 0 {",
		tests: "TestFallbackLocal",
	},
	{
		name: "fallback-dates-by-another-clock", fault: "charges of the store are dated by its clock after it was set",
		file: "sashredis/fallback.go", old: "\treturn c.offset.Load() - offset\n", new: "\treturn 0\n",
		tests: "TestFallbackLocal",
	},
	{
		name: "fallback-peeks-charge", fault: "a Peek is charged to the fallback",
		file: "sashredis/fallback.go", old: "*d = l.shares.PeekAll(shares, r.n)", new: "*d = l.shares.TakeAll(shares, r.n)",
		tests: "TestFallbackLocal|TestExact_AFallback",
	},
	{
		name: "fallback-admits-debt", fault: "FallbackAdmit admits a negative cost",
		file: "sashredis/fallback.go", old: "case canceled || hopeless || l.fallback.mode == denyMode:", new: "case canceled || hopeless && l.fallback.mode != admitMode || l.fallback.mode == denyMode:",
		tests: "TestFallback|TestExact_AFallback",
	},

	// Leases.
	{
		name: "lease-ends-by-a-slow-clock", fault: "a lease ends by a local clock that may be slower than the store's",
		file: "sashredis/lease.go", old: "until: v.sent + length - length/maxDrift - 1", new: "until: v.sent + length",
		tests: "TestLease|TestExact_ALease",
	},
	{
		name: "lease-for-as-long-as-others", fault: "a process uses its lease for as long as another process has leased",
		file: "sashredis/lease.go", old: "min(end*microsecond, v.at+int64(w.length))", new: "end*microsecond",
		tests: "TestLease_IsForNoLonger",
	},
	{
		name: "lease-begins-when-received", fault: "a lease is taken to begin when its answer has come",
		file: "sashredis/lease.go", old: "until: v.sent + length", new: "until: v.received + length",
		tests: "TestLease|TestExact_ALease",
	},
	{
		name: "lease-hands-out-one-too-many", fault: "one unit more than was leased is handed out",
		file: "sashredis/lease.go", old: "\t\tif left < n {\n", new: "\t\tif left < n-1 {\n",
		tests: "TestLease",
	},
	{
		name: "lease-used-after-its-end", fault: "units that were given back may still be used",
		file: "sashredis/lease.go", old: "max(held.left.Swap(ended), 0)", new: "max(held.left.Load(), 0)",
		tests: "TestExact_ALease",
	},
	{
		name: "lease-kept-by-close", fault: "Close gives nothing back",
		file: "sashredis/lease.go", old: "if held := e.endLease(); held != nil {\n\t\t\tall", new: "if held := e.endLease(); held != nil && held.unused > 1<<60 {\n\t\t\tall",
		tests: "TestLease",
	},
	{
		name: "lease-returned-in-full", fault: "units of a lease that were used are given back, too",
		file: "sashredis/lease.go", old: "\tif held := e.endLease(); held != nil {\n\t\ts.underway", new: "\tif held := e.endLease(); held != nil {\n\t\theld.unused = held.granted\n\t\ts.underway",
		tests: "TestLease|TestExact_ALease",
	},
	{
		name: "lease-of-a-removed-key-lapses", fault: "a lease that was granted to a removed key does not give its units back",
		file: "sashredis/lease.go", old: "\t\ts.underway.Go(func() { s.giveBack(held) }) // the", new: "\t\t// the",
		tests: "TestLease_Granted",
	},
	{
		name: "lease-dips", fault: "a use that fails takes units for a moment",
		file: "sashredis/lease.go", old: "\t\tleft = b.left.Load()\n\t\tif left < n {\n\t\t\treturn 0, false\n\t\t}", new: "\t\tleft = b.left.Load()\n\t\tif left < n {\n\t\t\tb.left.Add(-n)\n\t\t\tb.left.Add(n)\n\t\t\treturn 0, false\n\t\t}",
		tests: "TestLease_AFailed",
	},
	{
		name: "lease-close-does-not-wait", fault: "Close returns while units are being given back",
		file: "sashredis/lease.go", old: "\ts.underway.Wait() //", new: "\t//",
		tests: "TestLease_Close",
	},
	{
		name: "lease-begins-when-removed", fault: "a lease begins after its key was removed, and is never given back",
		file: "sashredis/lease.go", old: "if w.of.removed { // during", new: "if false { // during",
		tests: "TestLease_Granted",
	},
	{
		name: "lease-returned-twice", fault: "a lease whose time is over is given back twice",
		file: "sashredis/lease.go", old: "_ = s.giveBack(over) // one", new: "_ = s.giveBack(over)\n\t\t_ = s.giveBack(over) // one",
		tests: "TestLease|TestScripts_ALeaseAfterOneThatWasGivenBack",
	},
	{
		name: "lease-survives-reset", fault: "a lease goes on after a Reset",
		file: "sashredis/lease.go", old: "\t\te.endLease()\n\t}\n}\n", new: "\t}\n}\n",
		tests: "TestLease",
	},
	{
		name: "lease-serves-takeall", fault: "a TakeAll of one key takes units of its lease",
		file: "sashredis/take.go", old: "l.callUnleased(ctx, targets, r, &a)", new: "l.call(ctx, targets, r, &a)",
		tests: "TestLease_TakeAll",
	},
	{
		name: "examines-once-closed", fault: "the store is examined after Close has begun",
		in: "sashredis", file: "sashredis/breaker.go", old: "if l.closing.Err() != nil {", new: "if l.closing == nil {",
		tests: "TestExamine",
	},
	{
		name: "lease-of-a-log", fault: "units of a log are leased",
		file: "sashredis/rule.go", old: "if k.Length == microsecond {", new: "if k.Length == 0 {",
		tests: "TestLease",
	},
	{
		name: "lease-beyond-its-bound", fault: "a lease holds more than WithLease allows",
		file: "sashredis/lease.go", old: ", float64(s.Limiter.lease))", new: ", float64(s.Limiter.lease)*1e6)",
		tests: "TestLease|TestExact_ALease",
	},

	// Reservations.
	{
		name: "redis-settles-twice", fault: "each Commit of a reservation settles it",
		file: "sashredis/reserve.go", old: "!r.of.settled.CompareAndSwap(false, true)", new: "r.of.settled.Load()",
		tests: "TestReserve",
	},
	{
		name: "redis-gives-back-what-was-overspent", fault: "units above the estimate are given back",
		file: "sashredis/scripts/settle.lua", old: "s.kind.charge(s, -units)", new: "s.kind.giveBack(s, -units, tonumber(origin))",
		tests: "TestReserve",
	},

	// Where two features meet.
	{
		name: "mirror-counts-a-lease-twice", fault: "the mirror keeps the units of a lease twice",
		file: "sashredis/take.go", old: "v, charged = v.with(t.ruleset, b.charged+b.leased), 0", new: "v, charged = v.with(t.ruleset, b.charged+b.leased), b.leased",
		tests: "TestModel$",
	},
	{
		name: "settle-without-the-tag", fault: "a reservation is settled at the key without its hash tag",
		file: "sashredis/reserve.go", old: "r.charge = b.views[index].charge(t, reserve", new: "r.charge = b.views[index].charge(target{name: t.name, ruleset: t.ruleset}, reserve",
		tests: "TestModel$",
	},
	{
		name: "fallback-admits-the-canceled", fault: "a fallback admits a call whose caller has hung up",
		file: "sashredis/fallback.go", old: "case canceled || hopeless || l.fallback.mode == denyMode:", new: "case canceled && hopeless || hopeless || l.fallback.mode == denyMode:",
		tests: "TestModel$",
	},
	{
		name: "settle-not-again", fault: "a settlement that the open breaker has kept back is lost",
		file: "sashredis/reserve.go", old: "r.of.settled.Store(!errors.Is(err, ErrUnavailable))", new: "r.of.settled.Store(err != nil || !errors.Is(err, ErrUnavailable))",
		tests: "ReleaseIsTriedAgain",
	},
	{
		name: "counter-keeps-the-window-before", fault: "what was reserved in the window before is not given back",
		file: "sashredis/scripts/counter.lua", old: "    s.previous = s.previous - math.min(units, s.previous)\n", new: "    s.previous = s.previous - 0 * math.min(units, s.previous)\n",
		tests: "TestModel$",
	},
	{
		name: "ring-denies-without-the-batch", fault: "a log tells the wait of a call without the calls of its round trip before it",
		file: "sashredis/scripts/ticks.lua", old: "local missing = s.used + charged + units - s.c", new: "local missing = s.used + 0 * charged + units - s.c",
		tests: "TestModel$",
	},
	{
		name: "fallback-reserves-for-nothing", fault: "a fallback charges reservations nothing",
		file: "sashredis/fallback.go", old: "a.local, *d = l.shares.ReserveAll(shares, r.n)", new: "*d = l.shares.PeekAll(shares, r.n)",
		tests: "TestFallbackLocal_Reserves|TestModel$",
	},
	{
		name: "all-charge-a-name-twice", fault: "a key that a call names twice is charged twice",
		file: "sashredis/take.go", old: "\t\tseen[key] = true\n", new: "\t\tseen[key] = len(keys) < 2\n",
		tests: "TestModel$",
	},
	{
		name: "reset-leaves-the-mirror", fault: "a key that was reset is denied by what the mirror had of it",
		file: "sashredis/limiter.go", old: "l.mirror.forget(t, v)", new: "_ = v",
		tests: "TestModel$",
	},
	{
		name: "wait-asks-again", fault: "a Wait asks again when it is not known whether it was charged",
		file: "sashredis/wait.go", old: "case d.By == ByFallback && !errors.Is(d.Err, ErrUnavailable):", new: "case d.By == ByFallback && !errors.Is(d.Err, ErrUnavailable) && r.n > maxExact:",
		tests: "TestModel$|TestWait_NeverCharges",
	},
	{
		name: "mirror-settles-late", fault: "a Commit that is answered late makes the mirror forget a later answer",
		file: "sashredis/limiter.go", old: "v.received, v.at = l.local.Now(), micros", new: "v.sent = l.local.Now()\n\tv.received, v.at = v.sent, micros",
		tests: "TestFallbackLocal_GoesOnFromTheLatestAnswer",
	},
	{
		name: "redis-wait-sleeps-behind-others", fault: "a call that is never admitted waits until those ahead of it are",
		file: "sashredis/wait.go", old: "if err := l.look(ctx, key, r); err != nil { // before", new: "if err := error(nil); err != nil { // before",
		tests: "TestWait_FailsAtOnceBehindAnother",
	},
	{
		name: "redis-wait-gives-up-a-lease", fault: "a call behind others is refused although a lease of the process may admit it",
		file: "sashredis/wait.go", old: "r.leases() && l.lessees != nil && l.lessees.has(t, r.n)", new: "r.leases() && t.most < 0",
		tests: "TestWait_BehindOthersForUnitsOfALease",
	},
	{
		name: "redis-wait-ends-in-the-past", fault: "the error of a deadline tells that the context ends in less than no time",
		file: "sashredis/wait.go", old: "a.certain, max(0, left), context", new: "a.certain, left, context",
		tests: "TestWait_WhoseTimerIsLate",
	},

	// Units that must be left, and what there is.
	{
		name: "redis-leaving-nothing", fault: "the store does not know of units to be left",
		file: "sashredis/take.go", old: "text = first.appendLeaves(strconv.AppendInt(text, times, 10))", new: "text = strconv.AppendInt(text, times, 10)",
		tests: "TestTakeLeaving|TestModel$",
	},
	{
		name: "redis-leaving-shares-a-group", fault: "calls that leave different numbers of units are taken for alike",
		file: "sashredis/take.go", old: "slices.Equal(c.leaves, o.leaves)", new: "slices.Equal(c.leaves[:0], o.leaves[:0])",
		tests: "TestTake_CallsOfARoundTripAreDecidedInOrder|TestModel$",
	},
	{
		name: "redis-leaving-of-a-lease", fault: "a call that leaves units takes units of a lease",
		file: "sashredis/take.go", old: "r.op == take && r.n > 0 && r.leaves == nil", new: "r.op == take && r.n > 0",
		tests: "TestLease_NoneForCallsThatLeaveUnits",
	},
	{
		name: "redis-upto-is-demand-for-a-lease", fault: "what calls take that no lease admits is demand for a lease",
		file: "sashredis/lease.go", old: "if c.admitted && c.leases() {", new: "if c.admitted {",
		tests: "TestLease_NoneForCallsThatLeaveUnits",
	},
	{
		name: "redis-leaving-mirrored-as-a-take", fault: "the mirror does not know of units to be left",
		file: "sashredis/mirror.go", old: "b.decide(r.needs(i),", new: "b.decide(r.n,",
		tests: "TestMirror_KnowsWhatIsToBeLeft",
	},
	{
		name: "redis-leaving-of-a-whole-in-a-share", fault: "a share is to leave all that the whole is",
		file: "sashredis/fallback.go", old: "Leave: l.fallback.shareUp(r.leave(i))", new: "Leave: r.leave(i)",
		tests: "TestFallbackLocal_LeavesItsShare",
	},
	{
		name: "redis-each-tells-what-must-remain", fault: "a key tells that a call can have what must remain",
		file: "sashredis/each.go", old: "k.Next.Remaining = max(k.Next.Remaining-leave, 0)", new: "_ = leave",
		tests: "TestEach",
	},
	{
		name: "redis-each-waits-for-less", fault: "a key tells when a unit is left, not when there is one for a call that must leave more",
		file: "sashredis/each.go", old: "window.Plus(max(left, leave), 1)", new: "window.Plus(left, 1)",
		tests: "TestEach",
	},
	{
		name: "redis-each-tells-a-share-of-the-whole", fault: "a key tells what its share can have as if the whole must remain",
		file: "sashredis/each.go", old: "leave = l.fallback.shareUp(leave)", new: "leave = leave * l.fallback.den / l.fallback.den",
		tests: "TestEach_OfShares",
	},
	{
		name: "redis-leaving-of-another-key", fault: "what must remain of a key without limits must remain of the next key",
		file: "sashredis/each.go", old: "if len(of) < len(targets) && targets[len(of)].name == keys[i] {", new: "if len(of) < len(targets) && keys[i] != \"\" {",
		tests: "TestEach_OfAnUnlimitedKey",
	},
	{
		name: "redis-waitleaving-in-order-of-arrival", fault: "an urgent call that waits is behind those in the background",
		file: "sashredis/wait.go", old: "Yields: r.leave(0), ", new: "",
		tests: "TestWaitLeaving_UrgentCallsGoFirst",
	},
	{
		name: "redis-waitleaving-keeps-its-turn", fault: "a call in the background asks again while an urgent one is ahead of it",
		file: "sashredis/wait.go", old: "defer l.queues.Leave(w)\n\tfor {\n\t\t// Look again at each attempt whether it is the first: while it has slept, others may have come\n\t\t// ahead of it.\n\t\tfor !l.queues", new: "defer l.queues.Leave(w)\n\tfor began := false; ; began = true {\n\t\tfor !began && !l.queues",
		tests: "TestWaitLeaving_WithoutItsTurn",
	},
	{
		name: "redis-upto-of-all-in-a-group", fault: "calls that take what there is share a group with others",
		file: "sashredis/take.go", old: " && c.op != upTo && o.op != upTo", new: "",
		tests: "TestTake_CallsOfARoundTripAreDecidedInOrder|TestModel$",
	},
	{
		name: "redis-upto-admits-more-than-ever", fault: "FallbackAdmit takes more than the limits ever admit",
		file: "sashredis/fallback.go", old: "a.call.n = min(r.n, targets[0].most)", new: "a.call.n = r.n",
		tests: "TestFallbackAdmit_TakesWhatIsEverAdmitted|TestModel$",
	},
}
