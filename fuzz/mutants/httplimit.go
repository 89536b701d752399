package main

// ofHTTPLimit are the faults of requests that are settled after the response, and of those that
// wait.
var ofHTTPLimit = []mutant{
	{
		name: "a-store-has-the-first-limits", fault: "after Reconfigure, a store decides by the limits with which it was opened",
		file: "httplimit/new.go", old: "return l.table.Load().limitsFor(key) }", new: "return t.limitsFor(key) }",
		tests: "TestReconfigure_With|TestModel$",
	},
	{
		name: "reconfigure-does-not-ask-the-store", fault: "Reconfigure takes limits that the store refuses, and then each request is denied",
		file: "httplimit/reconfigure.go", old: "if err := l.checkLimits(next); err != nil {", new: "if err := l.checkLimits(next); err != nil && len(next.variants) == 0 {",
		tests: "TestReconfigure_ToLimits",
	},
	{
		name: "reconfigure-overtakes-the-store", fault: "limits change while a store decides a request",
		file: "httplimit/reconfigure.go", old: "		l.exchange(next, func() bool { return true })", new: "		l.table.Store(next)\n		l.sections.opened.Store(next)",
		tests: "TestReconfigure_WaitsForTheStore",
	},
	{
		name: "join-of-what-cannot-be-told", fault: "Join panics over the key of a part that cannot tell the identity",
		file: "httplimit/key.go", old: "if !ok { // key may", new: "if !ok && len(key) > start { // key may",
		tests: "TestJoin_CannotTell",
	},
	{
		name: "settle-estimate-if-aborted", fault: "a response that was aborted costs the estimate, though more was written",
		file: "httplimit/charge.go", old: "r.Uncertain && cost < c.estimate", new: "r.Uncertain",
		tests: "TestSettle",
	},
	{
		name: "charge-nothing-written", fault: "a handler of net/http that writes nothing has not answered",
		file: "httplimit/recorder.go", old: "if rec.returned && t.Kind()", new: "if false && t.Kind()",
		tests: "TestCharge_AHandlerThatWritesNothing",
	},
	{
		name: "settle-uncertain", fault: "a response that was aborted costs what was written, though the estimate is more",
		file: "httplimit/charge.go", old: "r.Uncertain && cost < c.estimate", new: "r.Uncertain && false",
		tests: "TestSettle",
	},
	{
		name: "settle-hijacked", fault: "a hijacked connection is settled by what was written before",
		file: "httplimit/charge.go", old: "r.Status == http.StatusSwitchingProtocols", new: "false",
		tests: "TestSettle",
	},
	{
		name: "settle-negative", fault: "a negative cost makes a request free",
		file: "httplimit/charge.go", old: "if cost < 0 || r.Uncertain", new: "if r.Uncertain",
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
		file: "httplimit/recorder.go", old: "		sent = 0 // net/http drops what is written; a writer in between may not say so", new: "",
		tests: "TestSettle_AHead",
	},
	{
		name: "transport-obeys-admitted", fault: "the RateLimit of an admitted answer holds back",
		file: "httplimit/internal/fields/retryafter.go", old: "response.StatusCode != http.StatusServiceUnavailable {\n\t\treturn 0", new: "response.StatusCode != http.StatusServiceUnavailable {\n\t\treturn rateLimitWait(response.Header)",
		tests: "TestTransport_HoldsBackAsAsked",
	},
	{
		name: "settle-copies", fault: "bytes that are copied into a response cost nothing",
		file: "httplimit/recorder.go", old: "	rec.bytes += n", new: "",
		tests: "TestSettle",
	},
	{
		name: "charge-of-the-first", fault: "a handler finds the charges of the nearest limiter only",
		file: "httplimit/charge.go", old: "context.WithValue(ctx, charge", new: "context.WithValue(context.WithoutCancel(context.Background()), charge",
		tests: "TestChargeOf",
	},
	{
		name: "queue-overtaken", fault: "a new request overtakes those that wait",
		file: "httplimit/queue.go", old: "attempted := c.place == 0 && !waitedFor", new: "attempted := true || waitedFor",
		tests: "TestQueue",
	},
	{
		name: "queue-out-of-order", fault: "a request that has waited elsewhere comes last",
		file: "internal/queue/queue.go", old: "(before, _ *Place[K]) {\n\t\t\tq.enforce(before, now)\n\t\t\tp.Claimed = before.claimed()", new: "(before, after *Place[K]) {\n\t\t\tq.enforce(before, now)\n\t\t\tp.Claimed = max(before.claimed(), after.claimed())",
		tests: "TestQueue", in: "httplimit",
	},
	{
		name: "queue-does-not-wake-the-next", fault: "a queue does not wake the waiter that becomes its first",
		file: "internal/queue/queue.go", old: "if shrinks && before", new: "if shrinks && p == nil && before",
		tests: "TestQueue", in: "httplimit",
	},
	{
		name: "queue-deaf", fault: "units that are given back are not for those who wait",
		file: "httplimit/charge.go", old: "			c.limiter.waits.Free(charge.key, 0)", new: "",
		tests: "TestQueue",
	},
	{
		name: "queue-wakes-between-policies", fault: "a request is woken by what one policy gives back before others have given back theirs",
		file: "httplimit/charge.go", old: "\tc.event.Err, c.event.Near, c.event.Estimate = err", new: "\tl.waits.Free(c.key, 0)\n\tc.event.Err, c.event.Near, c.event.Estimate = err",
		tests: "TestAtOnce_AWokenRequest",
	},
	{
		name: "queue-wakes-itself", fault: "a request that gives back what one policy has admitted, as another one denies it, tries all the time",
		file: "httplimit/admit.go", old: "c.waits.Free(t.key, c.place)", new: "c.waits.Free(t.key, 0)",
		tests: "TestQueue_NoneStarves",
	},
	{
		name: "queue-deaf-at-first", fault: "units that are given back while a request begins to wait are not for it",
		file: "httplimit/queue.go", old: "\t\tw.Wake() //", new: "\t\t//",
		tests: "TestQueue",
	},
	{
		name: "queue-together", fault: "a request that its policies deny together tries all the time",
		file: "httplimit/queue.go", old: "soonest, last = together.RetryAfter, together.RetryAfter;", new: "soonest, last = 0, 0;",
		tests: "TestQueue",
	},
	{
		name: "queue-deaf-together", fault: "a request that its policies deny together waits in none of their queues",
		file: "httplimit/queue.go", old: "together := !anyDenies(c.enforced)", new: "together := false",
		tests: "TestQueue_IsNotOvertaken",
	},
	{
		name: "queue-holds-what-was-reserved", fault: "a request that its policies deny together holds up others under one that admitted it before",
		file: "httplimit/queue.go", old: "|| together && !t.reserved)", new: "|| together)",
		tests: "TestQueue_IsNotOvertaken",
	},
	{
		name: "queue-everywhere", fault: "a request holds up others where it is admitted",
		file: "httplimit/queue.go", old: "!w.insists(s, denies) {", new: "false {",
		tests: "TestQueue",
	},
	{
		name: "queue-keeps-charges", fault: "a request is charged whose client has gone",
		file: "httplimit/queue.go", old: "		c.undo()\n", new: "",
		tests: "TestQueue",
	},
	{
		name: "queue-for-nothing", fault: "a request waits that is sure to be denied in the end",
		file: "httplimit/queue.go", old: "return soonest, left > 0 && last <= left", new: "return soonest, left > 0",
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
		name: "queue-counts-those-of-before", fault: "a queue that gets smaller refuses the requests that have waited longest",
		file: "httplimit/queue.go", old: "bounds := []queue.Bound{{Of: p.whole, Most", new: "bounds := []queue.Bound{{Of: p.Name, Most",
		tests: "TestReconfigure_ToASmaller",
	},
	{
		name: "queue-one-too-many", fault: "one request more than fits waits",
		file: "httplimit/queue.go", old: "Most: p.Queue.Requests}", new: "Most: p.Queue.Requests + 1}",
		tests: "TestQueue",
	},
	{
		name: "queue-of-each-plan", fault: "the requests of each plan have the room of the whole queue",
		file: "httplimit/queue.go", old: "{Of: p.whole, Most", new: "{Of: p, Most",
		tests: "TestPlans_Share",
	},
	{
		name: "queue-one-too-many-of-a-client", fault: "one request more of a client than may wait",
		file: "httplimit/queue.go", old: "Most: p.Queue.RequestsEach}", new: "Most: p.Queue.RequestsEach + 1}",
		tests: "TestQueue",
	},
	{
		name: "queue-asks-all-the-time", fault: "a request that waits asks a store all the time",
		file: "httplimit/queue.go", old: "if c.store != nil {\n		// Nothing", new: "if c == nil {\n		// Nothing",
		tests: "TestQueue_DoesNotAsk",
	},
	{
		name: "queue-believes-a-store", fault: "a store that denies without a RetryAfter is asked again at once",
		file: "httplimit/store.go", old: "!d.Allowed && d.RetryAfter <= 0", new: "!d.Allowed && d == nil",
		tests: "TestQueue_DoesNotAsk",
	},
	{
		name: "queue-serves-a-client-that-has-gone", fault: "a request is served whose client has gone, if its policy has no Queue any more",
		file: "httplimit/decide.go", old: "if c.place == 0 && leastWait", new: "if leastWait",
		tests: "TestReconfigure_WhileRequestsWait",
	},
	{
		name: "queue-without-a-queue", fault: "a request waits on when its policy has no Queue any more",
		file: "httplimit/queue.go", old: "int64(leastWait(takes)))\n", new: "int64(leastWait(takes)))\nif leastWait(takes) == 0 {\nuntil = 1 << 62\n}\n",
		tests: "TestReconfigure_WhileRequestsWait",
	},
	{
		name: "queue-forgets-the-wait", fault: "events do not tell how long a request has waited whose policies were replaced",
		file: "httplimit/queue.go", old: "		c.waited = max(time.Duration(clock.Now()-c.came), 0) // a clock may go back\n		if !stays {\n			return d\n		}\n", new: "		if !stays {\n			return d\n		}\n		c.waited = max(time.Duration(clock.Now()-c.came), 0)\n",
		tests: "TestReconfigure_WhileRequestsWait",
	},
	{
		name: "queue-full-untold", fault: "events do not tell that a queue is full",
		file: "httplimit/queue.go", old: "if c.full = w.policyAt(w.Full); c.full", new: "if c.full = w.policyAt(w.Full); c.full != nil {\n\t\t\tc.full = new(policy)\n\t\t}\n\t\tif c.full",
		tests: "TestQueue_Events",
	},
	{
		name: "queue-sleeps-until-the-last", fault: "a request keeps its turn under a policy that admits it until all do",
		file: "httplimit/queue.go", old: "int64(soonest)))", new: "int64(max(soonest, leastWait(takes)/100))))",
		tests: "TestQueue_AClientAbove",
	},
	{
		name: "queue-first-without-a-turn", fault: "a request without a turn holds up others where it is the first",
		file: "internal/queue/queue.go", old: "p, c := &w.Places[i], Claim{}", new: "p, c := &w.Places[i], w.Places[i].Claim",
		tests: "TestQueue_ARequestWithoutATurn", in: "httplimit",
	},
	{
		name: "queue-starves", fault: "a request that was overtaken does not insist",
		file: "httplimit/queue.go", old: "return s.overtaken &&", new: "return false &&",
		tests: "TestQueue_NoneStarves",
	},
	{
		name: "queue-insists-where-it-is-slow", fault: "a request that insists holds up others while a slow policy denies it",
		file: "httplimit/queue.go", old: "cmp.Compare(other.pace.Window, p.pace.Window)", new: "cmp.Compare(p.pace.Window, other.pace.Window)",
		tests: "TestQueue_ARequestWaits",
	},
	{
		name: "queue-filled-by-one", fault: "one client fills a queue that it shares",
		file: "httplimit/queue.go", old: "Most: perClient}", new: "Most: perClient + p.Queue.Requests}",
		tests: "TestQueue_Bounds",
	},
	{
		name: "queue-everyone-is-one", fault: "all requests under a policy for Everyone count as requests of one client",
		file: "httplimit/queue.go", old: "if !t.everyone {", new: "if t.policy != nil {",
		tests: "TestQueue_Bounds",
	},
	{
		name: "queue-filled-by-no-name", fault: "requests whose identity is empty are of no client, and fill a queue that clients share",
		file: "httplimit/queue.go", old: "if !t.everyone {", new: "if t.body < t.end {",
		tests: "TestQueue_Bounds",
	},
	{
		name: "queue-dear-for-all", fault: "a request that waits for one key makes those for all keys wait",
		file: "httplimit/queue.go", old: "waitedFor := slices.ContainsFunc(takes, func(t *take) bool { return t.queues() && c.waits.Claims(t.key, yields) })", new: "waiters, _, _ := c.waits.Size()\n\twaitedFor := slices.ContainsFunc(takes, func(t *take) bool { return t.queues() && waiters > 0 })",
		tests: "TestQueue_ARequestThatWaits",
	},
	{
		name: "queue-reserves-at-once", fault: "a request reserves that has not waited",
		file: "httplimit/admit.go", old: "reserve := c.slept\n", new: "reserve := true\n",
		tests: "TestQueue_ARequestThatWaits|TestStore_IsAsked",
	},
	{
		name: "queue-quadratic", fault: "each request looks at all others of its queue to find its place",
		file: "internal/queue/line.go", old: "p.rank = rand.Uint64() | 1", new: "p.rank = rand.Uint64()&0 | 1",
		tests: "TestQueue_StartsOver", in: "httplimit",
	},
	{
		name: "mounted-twice-later", fault: "only the first request tells that a limiter is mounted twice",
		file: "httplimit/decide.go", old: "c.decided%251 == 1", new: "c.decided == 1",
		tests: "TestMiddleware_Warns",
	},
	{
		name: "queue-close-untold-by-a-store", fault: "the event of a request refused by Close does not tell so under a store",
		file: "httplimit/report.go", old: "outcome == Denied && e.Err == nil {", new: "outcome == Denied && c.err != nil && c.store == nil {",
		tests: "TestClose_RefusesWhatWaitsForAStore",
	},
	{
		name: "queue-outlasts-close", fault: "requests wait on when the limiter is closed",
		file: "httplimit/queue.go", old: "	case <-closing:\n", new: "",
		tests: "TestClose",
	},
	{
		name: "queue-after-close", fault: "requests wait in a limiter that is closed",
		file: "httplimit/queue.go", old: "w.Full == queue.Nowhere {\n\t\t\tselect", new: "w.Full == queue.Nowhere && c.slept {\n\t\t\tselect",
		tests: "TestClose",
	},
	{
		name: "requests-start-over-for-ever", fault: "policies that are replaced all the time let no request through",
		file: "httplimit/decide.go", old: "if round <= freeRounds {", new: "if round > 0 {",
		tests: "TestReconfigure_StartsARequestOver",
	},
	{
		name: "reconfigure-waits-for-ever", fault: "no policy can be replaced after the functions of a request have failed that has started over",
		file: "httplimit/decide.go", old: "	defer c.reconfiguring.RUnlock()\n	// No", new: "	// No",
		tests: "TestReconfigure_StartsARequestOver",
	},
	{
		name: "sections-found-closed", fault: "a request that gives up beginning is counted as under way",
		file: "httplimit/call.go", old: "	c.stripe.Add(-1)\n	return false\n}", new: "	return false\n}",
		tests: "TestReconfigure_RequestsWait",
	},
	{
		name: "limits-of-gone-policies", fault: "limits that keys were given stay in memory when their policy is gone",
		file: "httplimit/reconfigure.go", old: "if next.gone(key) {", new: "if false {",
		tests: "TestReconfigure_Forgets",
	},
}
