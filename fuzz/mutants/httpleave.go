package main

// ofLeave are faults of policies whose requests must leave units.
var ofLeave = []mutant{
	{
		name: "leave-nothing-alone", fault: "a request with one policy need not leave anything",
		file: "httplimit/admit.go", old: "TakeHolding(c.limiter, t.key, t.cost, t.leave, nil)", new: "TakeHolding(c.limiter, t.key, t.cost, 0, nil)",
		tests: "TestLeave_",
	},
	{
		name: "leave-nothing-reserved", fault: "a request whose charge may change need not leave anything",
		file: "httplimit/admit.go", old: "c.limiter.ReserveLeaving(t.key, t.cost, t.leave)", new: "c.limiter.Reserve(t.key, t.cost)",
		tests: "TestLeave_",
	},
	{
		name: "leave-nothing-of-several", fault: "a request with several policies need not leave anything",
		file: "httplimit/admit.go", old: "case c.onTerms:", new: "case c.onTerms && c.names == nil:",
		tests: "TestLeave_OfEachPolicy",
	},
	{
		name: "leave-of-another-policy", fault: "a policy is left what another policy asks for, by its place in the order of locks",
		file: "terms.go", old: "terms[all[i].order]", new: "terms[i]",
		tests: "TestModel$", in: "httplimit",
	},
	{
		name: "leave-more-than-it-must", fault: "a negative number lets a policy be charged beyond what it has",
		file: "httplimit/decide.go", old: "leave = max(p.Leave(r), 0)", new: "leave = p.Leave(r)",
		tests: "TestModel$",
	},
	{
		name: "leave-looks-without", fault: "the decision of a policy that denies a request is on a request that leaves nothing",
		file: "httplimit/admit.go", old: "internals.PeekLeaving(c.limiter, t.key, t.cost, t.leave)", new: "c.limiter.Peek(t.key, t.cost)",
		tests: "TestModel$",
	},
	{
		name: "leave-is-told", fault: "clients are told of units that a request like theirs cannot use",
		file: "httplimit/call.go", old: "max(d.Remaining-t.leave, 0)", new: "d.Remaining",
		tests: "TestLeave_IsAFloor",
	},
	{
		name: "leave-more-comes-too-early", fault: "RateLimit tells when a unit is there, and not when it may be used",
		file: "leaving.go", old: "query{n: 1, leave: leave}", new: "query{n: now.Remaining + 1}",
		tests: "TestModel$", in: "httplimit",
	},
	{
		name: "leave-queues-by-arrival", fault: "urgent requests wait behind those in the background",
		file: "httplimit/queue.go", old: "w.Yields = yields", new: "w.Yields = 0",
		tests: "TestLeave_Urgent",
	},
	{
		name: "leave-overtakes-the-background", fault: "a request in the background overtakes those that wait there",
		file: "httplimit/queue.go", old: "c.waits.Claims(t.key, yields)", new: "c.waits.Claims(t.key, 0*yields)",
		tests: "TestLeave_RequestsOfOneClass",
	},
	{
		name: "leave-with-a-store", fault: "a store is not told what must remain",
		file: "httplimit/admit.go", old: "keys, takes[0].cost, leave)", new: "keys, takes[0].cost, leave[:0:0])",
		tests: "TestLeave_WithAStore",
	},
	{
		name: "leave-after-its-take", fault: "a shadow whose Leave panics decides without a key",
		file: "httplimit/decide.go", old: "			cost, leave = c.termsOf(p, r)\n		}\n		c.takes = slices.Grow(c.takes, 1)[:len(c.takes)+1]",
		new:   "			c.takes = slices.Grow(c.takes, 1)[:len(c.takes)+1]\n			cost, leave = c.termsOf(p, r)\n			c.takes = c.takes[:len(c.takes)-1]\n		}\n		c.takes = slices.Grow(c.takes, 1)[:len(c.takes)+1]",
		tests: "TestModel$",
	},
	{
		name: "leave-shared-by-its-first", fault: "keys that share a quota leave what the first in the order of locks must, and not what the others must",
		file: "targets.go", old: "leave = max(leave, o.leave, o.claimed)", new: "leave = max(leave, o.claimed)",
		tests: "TestTakeAllOn_KeysThat",
	},
	// Policy files.
	{
		name: "leave-shares-rounded-down", fault: "a share of a limit is rounded down",
		file: "internal/window/share.go", old: "if rest > 0 {", new: "if rest > 100 {",
		tests: "TestLeave_", in: "httplimit/policyfile",
	},
	{
		name: "leave-shares-of-no-plan", fault: "a share is of the limits of no plan, whatever the plan of the request",
		file: "httplimit/policyfile/leave.go", old: "if planOf != nil {", new: "if planOf == nil {",
		tests: "TestLeave_OfAClass",
	},
	{
		name: "leave-shares-of-a-rate", fault: "a share of a token bucket is of its Count",
		file: "httplimit/policyfile/leave.go", old: "units = min(units, l.Burst)", new: "units = min(units, l.Count)",
		tests: "TestLeave_",
	},
}
