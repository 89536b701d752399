package main

// ofLeave are faults of policies whose requests must leave units.
var ofLeave = []mutant{
	{
		name: "leave-nothing-alone", fault: "a request with one policy need not leave anything",
		file: "httplimit/admit.go", old: "t.decision = l.TakeLeaving(t.key, t.cost, t.leave)", new: "t.decision = l.Take(t.key, t.cost)",
		tests: "TestLeave_",
	},
	{
		name: "leave-nothing-reserved", fault: "a request whose charge may change need not leave anything",
		file: "httplimit/admit.go", old: "l.ReserveLeaving(t.key, t.cost, t.leave)", new: "l.Reserve(t.key, t.cost)",
		tests: "TestLeave_",
	},
	{
		name: "leave-nothing-of-several", fault: "a request with several policies need not leave anything",
		file: "httplimit/admit.go", old: "if !c.leaves {", new: "if c.names != nil {",
		tests: "TestLeave_OfEachPolicy",
	},
	{
		name: "leave-of-another-policy", fault: "a policy is left what another policy asks for, by its place in the order of locks",
		file: "leaving.go", old: "leaves[all[i].order]", new: "leaves[i]",
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
		tests: "TestLeave_OfEachPolicy",
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
		name: "leave-in-memory-of-a-call", fault: "a store that keeps what must remain has what the next request must leave",
		file: "httplimit/admit.go", old: "slices.Clone(c.leavingOf(takes))", new: "append(c.leavingOf(takes))",
		tests: "TestLeave_WithAStore",
	},
	{
		name: "leave-after-its-take", fault: "a shadow whose Leave panics decides without a key",
		file: "httplimit/decide.go", old: "		leave := int64(0)\n		if p.Leave != nil {\n			leave = max(p.Leave(r), 0)\n		}\n		c.takes = slices.Grow(c.takes, 1)[:len(c.takes)+1]",
		new:   "		leave := int64(0)\n		c.takes = slices.Grow(c.takes, 1)[:len(c.takes)+1]\n		if p.Leave != nil {\n			leave = max(p.Leave(r), 0)\n		}",
		tests: "TestModel$",
	},
	// Policy files.
	{
		name: "leave-shares-rounded-down", fault: "a share of a limit is rounded down",
		file: "httplimit/policyfile/leave.go", old: "if rest > 0 {", new: "if rest > 100 {",
		tests: "TestLeave_",
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
