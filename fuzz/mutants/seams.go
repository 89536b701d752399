package main

// ofSeams are faults of package sash where two features meet. TestModel notices each of them.
var ofSeams = []mutant{
	{
		name: "seam-shared-quota-and-order", fault: "of keys that share a quota, the last decides a tie",
		file: "targets.go", old: "order = min(order, o.order)", new: "order = max(order, o.order)",
		tests: "TestModel$",
	},
	{
		name: "seam-shared-quota-and-wait", fault: "a call that waits for a shared quota never looks for room of its own",
		file: "wait.go", old: "if anyPlaced(targets, placedShared) {", new: "if anyPlaced(targets, placedNowhere) {",
		tests: "TestModel$",
	},
	{
		name: "seam-idle-key-and-wait", fault: "an idle key that is waited for makes room for no call",
		file: "gc.go", old: "if !waits && l.queues.Has(k.name) {", new: "if l.queues.Has(k.name) {",
		tests: "TestModel$|TestWaitAll_IdleKeysMakeRoomForOthersThatWait",
	},
	{
		name: "seam-reservation-and-reconfigure", fault: "a reservation gives nothing back after the Count has changed",
		file: "migrate.go", old: "if isMulti && r.findsAgain(&rules[source]) {", new: "if isMulti && rules[source].Limit == r.Limit {",
		tests: "TestModel$",
	},
	{
		name: "seam-snapshot-and-own-limits", fault: "limits of keys that are not tracked are lost in a snapshot",
		file: "restore.go", old: "g.byKey.forWriting().LoadOrStore(name,", new: "g.byKey.forWriting().LoadOrStore(name+\" \",",
		tests: "TestModel$",
	},
	{
		name: "seam-plan-and-own-limits", fault: "a key that loses its own limits gets the limiter's, not the limits of WithLimitsFor",
		file: "reconfigure.go", old: "own, fault = s.callLimitsFor(key); fault != nil {", new: "_, fault = s.callLimitsFor(key); fault != nil {",
		tests: "TestModel$",
	},
	{
		name: "seam-next-decision-and-denied-charges", fault: "the next decision of TakeThenPeek is that after a charge of a denied attempt",
		file: "take.go", old: "more := request{query: query{n: d.Remaining + 1}}", new: "more := request{query: query{n: d.Remaining + 1, chargeDenied: l.chargeDenied}}",
		tests: "TestModel$",
	},
	{
		name: "seam-refused-key-and-denied-charges", fault: "a call is charged to its other keys when one of them has no room",
		file: "takeall.go", old: "asked.chargeDenied = false // a call", new: "asked.chargeDenied = q.chargeDenied // a call",
		tests: "TestModel$",
	},
	{
		name: "seam-eviction-and-bursts", fault: "what a token bucket has left is compared with its Count, not its Burst",
		file: "capacity.go", old: "left: d.Remaining, count: d.Limit.most()}", new: "left: d.Remaining, count: d.Limit.Count}",
		tests: "TestModel$",
	},
	{
		name: "seam-restore-and-wait", fault: "calls that wait go on by the timeline from before a Restore",
		file: "restore.go", old: "timeline.\n\tl.queues.ChangeAll()", new: "timeline.\n",
		tests: "TestModel$",
	},
}
