package main

// ofNear are faults of policies that tell when little is left.
var ofNear = []mutant{
	{
		name: "near-of-nothing", fault: "a charge crosses a limit that admits nothing",
		file: "crossings.go", old: "return near > 0 && before >= near", new: "return before >= near",
		tests: "TestCommitNear_OfALimitOfNothing",
	},
	{
		name: "near-told-each-time", fault: "each request below the share is told",
		file: "crossings.go", old: "before >= near && before-n < near", new: "before-n < near",
		tests: "TestTakeAllOn_TellsACrossingOnce",
	},
	{
		name: "near-told-too-early", fault: "a limit is crossed when just the share is left",
		file: "crossings.go", old: "before-n < near", new: "before-n <= near",
		tests: "TestTakeAllOn_TellsACrossingOnce",
	},
	{
		name: "near-of-a-denial", fault: "a denied request crosses what it is charged as denied",
		file: "targets.go", old: "if res == admitted && m&stores != 0 && (t.near", new: "if m&stores != 0 && (t.near",
		tests: "TestTakeAllOn_TellsNoCrossing",
	},
	{
		name: "near-rounded-down", fault: "the share of a small limit is nothing",
		file: "internal/window/share.go", old: "if rest > 0 {", new: "if rest > 100 {",
		tests: "TestTakeAllOn_TellsACrossingOnce", in: ".",
	},
	{
		name: "near-of-the-first-limit", fault: "only the first limit of a key is crossed",
		file: "crossings.go", old: "for i := range own.rules {\n\t\tr :=", new: "for i := range own.rules[:1] {\n\t\tr :=",
		tests: "TestTakeAllOn_TellsEachLimit",
	},
	{
		name: "near-of-another-policy", fault: "the share is the one of the policy at another place in the order of locks",
		file: "terms.go", old: "max(of.Leave, 0), uint8(of.Near)", new: "max(of.Leave, 0), uint8(terms[i].Near)",
		tests: "TestModel$", in: "httplimit",
	},
	{
		name: "near-of-another-key", fault: "a policy is told what another one has crossed",
		file: "terms.go", old: "Key: t.order", new: "Key: i",
		tests: "TestModel$", in: "httplimit",
	},
	{
		name: "near-of-keys-that-share", fault: "of keys that share a quota, only the first in the order of locks is told",
		file: "targets.go", old: "t.near != 0 && t.entry == e {", new: "t.near != 0 && j == i {",
		tests: "TestTakeAllOn_TellsKeysThatShare",
	},
	{
		name: "near-fast-of-several-limits", fault: "the fast path tells only the limit that decides, whatever others the key has",
		file: "terms.go", old: "if word&multi != 0 {", new: "if word&multi != 0 && n < 0 {",
		tests: "TestTakeAllOn_TellsEachLimit",
	},
	{
		name: "near-fast-before-the-charge", fault: "the fast path takes what is left after the charge for what was left before",
		file: "terms.go", old: "d.Remaining+n, n, near", new: "d.Remaining, n, near",
		tests: "TestTakeAllOn_TellsACrossingOnce",
	},
	{
		name: "near-of-no-settlement", fault: "a cost beyond the estimate crosses nothing",
		file: "reserve.go", old: "r.of.spend(-left, near)", new: "r.of.spend(-left, 0)",
		tests: "TestCommitNear_",
	},
	{
		name: "near-after-the-settlement", fault: "what is left after a settlement is taken for what was left before",
		file: "reserve.go", old: "		set := g.ruleset.crossings(e, word, q, near) // under the lock, by what is left before the charge\n		e.asMulti().apply(q, admitted, stores, nil)",
		new:   "		e.asMulti().apply(q, admitted, stores, nil)\n		set := g.ruleset.crossings(e, word, q, near)",
		tests: "TestCommitNear_",
	},
	{
		name: "near-of-several-alone", fault: "the only policy of a request tells nothing",
		file: "httplimit/admit.go", old: "case c.onTerms && (t.leave > 0 || t.near > 0):", new: "case c.onTerms && t.leave > 0:",
		tests: "TestNear_IsToldOnce",
	},
	{
		name: "near-reserved-by-none", fault: "a charge that may change, of the only policy, is not settled",
		file: "httplimit/admit.go", old: "t.reservation.here = reservations[0]", new: "_ = reservations",
		tests: "TestModel$",
	},
	{
		name: "near-of-an-earlier-attempt", fault: "what an attempt has crossed that was undone is told once the request is admitted",
		file: "httplimit/admit.go", old: "t.crossed = nil // by", new: "_ = 0 // by",
		tests: "TestNear_OfTheAttempt",
	},
	{
		name: "near-of-the-last-cost", fault: "of policies of several costs, only the last group tells",
		file: "httplimit/admit.go", old: "			continue // it is charged before or after these\n", new: "			t.crossed = nil\n			continue\n",
		tests: "TestNear_OfPoliciesOfSeveralCosts",
	},
	{
		name: "near-though-withheld", fault: "a charge that was undone is told",
		file: "httplimit/report.go", old: "len(t.crossed) > 0 && outcome == Admitted", new: "len(t.crossed) > 0",
		tests: "TestNear_NotOfACharge",
	},
	{
		name: "near-of-debts", fault: "the limits that carry debts are told",
		file: "httplimit/policy.go", old: "if p.knownAs(l) == l {", new: "if p.knownAs(l) != (sash.Limit{}) {",
		tests: "TestModel$",
	},
	{
		name: "event-of-debts", fault: "a denial for a debt names the limit that carries it",
		file: "httplimit/report.go", old: "e.Decision.Limit = t.knownAs(t.decision.Limit)", new: "e.Decision.Limit = t.decision.Limit",
		tests: "TestSettle_TellsDebtsByTheName|TestModel$",
	},
	{
		name: "near-of-debts-of-new-limits", fault: "a settlement tells the limits that carry the debts of a policy that has replaced it",
		file: "httplimit/charge.go", old: "crossed = next.known(crossed)", new: "_ = next",
		tests: "TestNear_OfASettlementUnder",
	},
	{
		name: "near-of-the-estimate-alone", fault: "a settlement is not told",
		file: "httplimit/charge.go", old: "cost, c.policy.near)", new: "cost, 0)",
		tests: "TestNear_OfASettlement",
	},
	{
		name: "near-with-a-store", fault: "a policy with Near is accepted with a store, and tells nothing",
		file: "httplimit/options.go", old: "!nears || c.openStore == nil", new: "nears || c != nil",
		tests: "TestNear_MustBe",
	},
	{
		name: "near-logged-with-denials", fault: "a record on little left suppresses the one on a denial, and on another limit",
		file: "httplimit/offenders/log.go", old: "clientOf(e, l.Name != nil), near}", new: "client: clientOf(e, l.Name != nil)}",
		tests: "TestLog_WritesTheFirstCrossing",
	},
	{
		name: "near-counted-for-the-decision", fault: "metrics count a crossing for the limit with least left",
		file: "internal/tally/tally.go", old: "p.seriesOf(&e.Near[i]).near.Add(1)", new: "_, _ = i, p.seriesOf(&e.Decision.Limit)\n		p.seriesOf(&e.Decision.Limit).near.Add(1)",
		tests: "TestTally_CountsCrossings",
	},
}
