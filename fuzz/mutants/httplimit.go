package main

// ofHTTPLimit are the faults of requests that are settled after the response, and of those that
// wait.
var ofHTTPLimit = []mutant{
	{
		name: "settle-uncertain", fault: "a response that was aborted is settled by what was written",
		file: "httplimit/settle.go", old: "return !r.Uncertain && ", new: "return ",
		tests: "TestSettle",
	},
	{
		name: "settle-hijacked", fault: "a hijacked connection is settled by what was written before",
		file: "httplimit/settle.go", old: "r.Status != http.StatusSwitchingProtocols", new: "true",
		tests: "TestSettle",
	},
	{
		name: "settle-negative", fault: "a negative cost makes a request free",
		file: "httplimit/charge.go", old: "cost = c.policy.Settle(r); cost < 0", new: "cost = c.policy.Settle(r); false",
		tests: "TestSettle",
	},
	{
		name: "settle-twice", fault: "a request is settled each time",
		file: "httplimit/charge.go", old: "	c.settled.Do(func() {", new: "	new(sync.Once).Do(func() {",
		tests: "TestSettle_IsObserved|TestSettle_TakesEffectOnce",
	},
	{
		name: "settle-unsaid", fault: "what the handler says does not go before the status",
		file: "httplimit/charge.go", old: "	if !said {", new: "	if !said || true {",
		tests: "TestChargeOf",
	},
	{
		name: "settle-head", fault: "the body of a HEAD request costs",
		file: "httplimit/recorder.go", old: "		sent = 0 // net/http drops what is written", new: "",
		tests: "TestSettle_AHead",
	},
	{
		name: "settle-copies", fault: "bytes that are copied into a response cost nothing",
		file: "httplimit/recorder.go", old: "	rec.bytes += n", new: "",
		tests: "TestSettle",
	},
	{
		name: "charge-of-the-first", fault: "a handler finds the charges of the nearest limiter only",
		file: "httplimit/charge.go", old: "		ctx = in.Context // go on with a limiter around\n", new: "		return nil\n",
		tests: "TestChargeOf",
	},
	{
		name: "queue-overtaken", fault: "a new request overtakes those that wait",
		file: "httplimit/queue.go", old: "attempted := c.place == 0 && c.waits.none()", new: "attempted := true",
		tests: "TestQueue",
	},
	{
		name: "queue-out-of-order", fault: "a request that has waited elsewhere comes last",
		file: "httplimit/waitqueue.go", old: "if after.Value.(*waiter).number < w.number {", new: "if true {",
		tests: "TestQueue",
	},
	{
		name: "queue-asleep", fault: "whoever becomes the first of a queue is not told",
		file: "httplimit/waitqueue.go", old: "		return\n	}\n	in.Front().Value.(*waiter).notify()", new: "		return\n	}",
		tests: "TestQueue",
	},
	{
		name: "queue-deaf", fault: "units that are given back are not for those who wait",
		file: "httplimit/charge.go", old: "		l.waits.notify(c.key)", new: "",
		tests: "TestQueue",
	},
	{
		name: "queue-deaf-at-first", fault: "units that are given back while a request begins to wait are not for it",
		file: "httplimit/waitqueue.go", old: "		default:\n			w.notify()\n", new: "",
		tests: "TestQueue",
	},
	{
		name: "queue-together", fault: "a request that its policies deny together tries all the time",
		file: "httplimit/queue.go", old: "		wait = together\n", new: "",
		tests: "TestQueue",
	},
	{
		name: "queue-deaf-together", fault: "a request that its policies deny together waits in none of their queues",
		file: "httplimit/queue.go", old: "together := !anyDenies(takes)", new: "together := false",
		tests: "TestQueue",
	},
	{
		name: "queue-everywhere", fault: "a request holds up others where it is admitted",
		file: "httplimit/waitqueue.go", old: "case !denies(p.policy):", new: "case false:",
		tests: "TestQueue",
	},
	{
		name: "queue-keeps-charges", fault: "a request is charged whose client has gone",
		file: "httplimit/queue.go", old: "		a.undo()\n", new: "",
		tests: "TestQueue",
	},
	{
		name: "queue-for-nothing", fault: "a request waits that is sure to be denied in the end",
		file: "httplimit/queue.go", old: "return wait, left > 0 && wait <= left", new: "return wait, left > 0",
		tests: "TestQueue",
	},
	{
		name: "queue-for-ever", fault: "a request without a turn waits for longer than it may",
		file: "httplimit/queue.go", old: "		at := until\n", new: "		at := int64(1 << 62)\n",
		tests: "TestQueue",
	},
	{
		name: "queue-oversleeps", fault: "a request whose attempt took time waits for longer than it must",
		file: "httplimit/queue.go", old: "		if c.store != nil {\n", new: "		if c != nil {\n",
		tests: "TestQueue",
	},
	{
		name: "queue-one-too-many", fault: "one request more than fits waits",
		file: "httplimit/waitqueue.go", old: ">= p.Queue.Requests ||", new: "> p.Queue.Requests ||",
		tests: "TestQueue",
	},
	{
		name: "queue-one-too-many-of-a-client", fault: "one request more of a client than may wait",
		file: "httplimit/waitqueue.go", old: ">= p.Queue.RequestsEach {", new: "> p.Queue.RequestsEach {",
		tests: "TestQueue",
	},
}
