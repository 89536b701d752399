package main

// ofHTTPHolding are faults of policies and clients whose limits hold units.
var ofHTTPHolding = []mutant{
	{
		name: "http-holding-nothing", fault: "a policy that only holds units charges them without a reservation",
		file: "httplimit/admit.go", old: "return t.settles || t.holds", new: "return t.settles",
		tests: "TestAtOnce_APanicWithin",
	},
	{
		name: "http-holding-until-admitted", fault: "a policy that only holds units is not told of the response, and gives them back before",
		file: "httplimit/decide.go", old: "if !t.settles && !t.holds || ", new: "if !t.settles || ",
		tests: "TestAtOnce_HoldsUntil",
	},
	{
		name: "http-holding-of-one-key", fault: "the limits of a key's own are held for their lease",
		file: "httplimit/admit.go", old: "if internals.Held(t.reservation.here) {", new: "if false {",
		tests: "TestAtOnce_OfAKeyByItself$",
	},
	{
		name: "http-holding-of-a-key-in-a-store", fault: "the limits of a key's own are held for their lease in a store",
		file: "httplimit/admit.go", old: "|| slices.ContainsFunc(limits, quota.IsHeld)", new: "|| slices.ContainsFunc(limits, quota.IsUnlimited)",
		tests: "TestAtOnce_OfAKeyByItselfWithAStore",
	},
	{
		name: "http-holding-what-a-store-knows", fault: "a request gives back before its response what only the store knows that it holds",
		file: "httplimit/admit.go", old: "t.holds || each[0].Holds", new: "t.holds",
		tests: "TestAtOnce_OfAKeyThatOnlyTheStore",
	},
	{
		name: "http-holding-what-a-store-knows-after-a-panic", fault: "the panic of an observer leaves held what only the store knows that the request holds",
		file: "httplimit/admit.go", old: "c.reserves || t.reserved // it may", new: "c.reserves // it may",
		tests: "TestAtOnce_OfAKeyThatOnlyTheStore",
	},
	{
		name: "http-holding-after-the-end-of-a-goroutine", fault: "a slot is held for its lease if a function of its policy ends the goroutine",
		file: "httplimit/charge.go", old: "if c.reservation.isOpen() { // a function", new: "if false { // a function",
		tests: "TestAtOnce_TheGoroutineEnds",
	},
	{
		name: "http-holding-behind-the-end-of-a-goroutine", fault: "slots are held for their lease if an observer ends the goroutine at the settlement before",
		file: "httplimit/charge.go", old: "		defer l.settleAll(charges[1:], r)\n		l.settle(&charges[0], r)", new: "		l.settle(&charges[0], r)\n		l.settleAll(charges[1:], r)",
		tests: "TestAtOnce_TheGoroutineEnds",
	},
	{
		name: "http-holding-after-a-panic", fault: "a request whose observer has panicked holds units for their lease",
		file: "httplimit/decide.go", old: "	if c.reserves { // what stays charged must not stay held, as far as a store may be asked\n		c.closeLogged(r)\n	}\n", new: "",
		tests: "TestAtOnce_APanicWithin",
	},
	{
		name: "http-holding-after-a-panic-with-a-store", fault: "a request of a store that a function of WithSash ends holds units for their lease",
		file: "httplimit/decide.go", old: "	if c.reserves { // what stays", new: "	if c.reserves && c.store == nil { // what stays",
		tests: "TestAtOnce_APanicWithin",
	},
	{
		name: "http-holding-by-the-last-look", fault: "a request is held for its lease if its key comes to hold units when it is charged",
		file: "httplimit/admit.go", old: "if internals.Held(t.reservation.here) {", new: "if internals.Held(t.reservation.here) && c.reserves {",
		tests: "TestAtOnce_LimitsThatCome",
	},
	{
		name: "http-holding-closed-in-vain", fault: "a store that panics while a reservation is closed breaks the connection",
		file: "httplimit/decide.go", old: "		c.close()\n	}\n}\n\n// admitUnderOneTable", new: "	}\n}\n\n// admitUnderOneTable",
		tests: "TestAtOnce_AStoreThatPanics",
	},
	{
		name: "http-holding-deaf-after-a-panic", fault: "nothing wakes the queue when the panic of an observer has given units back",
		file: "httplimit/admit.go", old: "held = append(held, t)", new: "",
		tests: "TestAtOnce_AnObserverThatPanics",
	},
	{
		name: "http-holding-deaf", fault: "a response that gives nothing back of its rate wakes no request that waits for its units",
		file: "httplimit/charge.go", old: "cost < c.estimate || c.holds", new: "cost < c.estimate",
		tests: "TestAtOnce_AQueueIsWoken",
	},
	{
		name: "http-holding-deaf-to-a-new-queue", fault: "a request from before its policy had a queue wakes none in it",
		file: "httplimit/decide.go", old: "if t.queues() || t.holds {", new: "if t.queues() {",
		tests: "TestAtOnce_AQueueThatComesLater",
	},
	{
		name: "http-holding-refuses-for-leases", fault: "a request is refused since leases end after its time in the queue",
		file: "httplimit/queue.go", old: "max(last, t.sureWait)", new: "max(last, t.decision.RetryAfter)",
		tests: "TestAtOnce_AQueueIsWoken",
	},
	{
		name: "http-holding-waits-for-rates", fault: "a request waits in vain for a rate, if units are held as well",
		file: "httplimit/call.go", old: "least = internals.SureWait(l, key, n, leave)", new: "_ = key",
		tests: "TestAtOnce_OnlyARate",
	},
	{
		name: "http-holding-asks-no-store", fault: "a request that waits asks a store for units again when the leases end",
		file: "httplimit/queue.go", old: "min(soonest, t.wait)", new: "min(soonest, t.decision.RetryAfter)",
		tests: "TestAtOnce_AQueueAsksAStore",
	},
	{
		name: "http-holding-tells-leases", fault: "Retry-After is the end of the leases",
		file: "httplimit/report.go", old: "|| !quota.IsHeld(d.Limit) {", new: "|| quota.IsHeld(d.Limit) {",
		tests: "TestAtOnce_Headers",
	},
	{
		name: "http-holding-tells-leases-in-t", fault: "RateLimit tells the end of the leases",
		file: "httplimit/admit.go", old: "t.setNextWait(c.limiter)", new: "",
		tests: "TestAtOnce_Headers",
	},
	{
		name: "http-holding-resets-by-leases", fault: "X-RateLimit-Reset is the end of the leases",
		file: "httplimit/header.go", old: "reset = min(reset, heldWait)", new: "reset = max(reset, heldWait)",
		tests: "TestAtOnce_Headers",
	},
	{
		name: "http-holding-within-a-window", fault: "clients are told of the lease as of a window",
		file: "httplimit/internal/quota/quota.go", old: "within >= time.Second && !IsHeld(l)", new: "within >= time.Second",
		tests: "TestAtOnce_Headers", in: "httplimit",
	},
	{
		name: "http-holding-in-debt", fault: "units that are held are paid off as of a rate",
		file: "httplimit/internal/quota/quota.go", old: "l.Algorithm != sash.TokenBucket && !IsHeld(l) &&", new: "l.Algorithm != sash.TokenBucket &&",
		tests: "TestAtOnce_WithTheRestOfAPolicy|TestModel$", in: "httplimit",
	},
	{
		name: "http-holding-unseen", fault: "a policy that only holds units reports a response that it has not seen",
		file: "httplimit/charge.go", old: "|| !r.unseen || !c.policy.settles)", new: "|| !r.unseen)",
		tests: "TestModel$",
	},
	{
		name: "http-holding-by-a-message", fault: "a message holds units for their lease if its size cannot be told",
		file: "internal/rpc/call.go", old: "defer func() { charges.Settle(r) }() // also", new: "func() {}() // also",
		tests: "TestStream_AMessageHolds",
	},
	{
		name: "rpc-messages-come-from-nowhere", fault: "a message on a Unix socket has no local address, so ByAddress refuses it",
		file: "internal/rpc/request.go", old: "local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)", new: "var local net.Addr",
		tests: "TestStream_LimitsMessagesOnUnixSockets",
	},
	{
		name: "client-holding-nothing", fault: "a request that waits holds its units for their lease",
		file: "httplimit/transport.go", old: "held, err = internals.WaitHolding(t.Limiter, ctx, key, n)", new: "err = t.Limiter.Wait(ctx, key, n)",
		tests: "TestTransport_HoldsUnits",
	},
	{
		name: "client-holding-at-once", fault: "a request that may not wait holds its units for their lease",
		file: "httplimit/transport.go", old: "held, answer.Decision = internals.TakeHolding(t.Limiter, key, n, 0, nil)", new: "answer.Decision = t.Limiter.Take(key, n)",
		tests: "TestTransport_HoldsNothingWithout",
	},
	{
		name: "client-holding-no-body", fault: "a request whose response has no body, or has failed, holds its units for their lease",
		file: "httplimit/transport.go", old: "		if !passedOn {\n			held.Release()\n		}\n", new: "		_ = passedOn\n",
		tests: "TestTransport_HoldsNothingWithout",
	},
	{
		name: "client-holding-by-first-limits", fault: "a request holds units for their lease if the limits came to hold some while it waited",
		file: "targets.go", old: "!t.reserve && !(t.holding && e.ruleset.held)", new: "!t.reserve && !(t.holding && !t.waits && e.ruleset.held)",
		tests: "TestTransport_HoldsUnitsOfLimits", in: "httplimit",
	},
	{
		name: "client-holding-over-http2", fault: "a response of HTTP/2 without a body holds units until it is closed",
		file: "httplimit/heldbody.go", old: "return r.ContentLength != 0 || r.ProtoMajor < 2", new: "return true",
		tests: "TestTransport_HoldsNothingWithout",
	},
	{
		name: "client-holding-a-head", fault: "the answer to a HEAD holds units until it is closed",
		file: "httplimit/heldbody.go", old: "r.Body == http.NoBody, method == http.MethodHead,", new: "r.Body == http.NoBody, method == \"\",",
		tests: "TestTransport_AHead",
	},
	{
		name: "client-holding-both-ways", fault: "a connection that holds units cannot be closed for writing alone",
		file: "httplimit/heldbody.go", old: "; ok {\n		return half.CloseWrite()", new: "; ok && half == nil {\n		return half.CloseWrite()",
		tests: "TestTransport_ASwitched",
	},
	{
		name: "settle-after-two-panics", fault: "what a handler adds is not charged if an observer panics that is told of a panic",
		file: "httplimit/charge.go", old: "			defer logPanics(r.Request) // of an observer", new: "			// of an observer",
		tests: "TestSettle_APanicOfTheObserver",
	},
	{
		name: "client-holding-until-closed", fault: "a response that was read to its end holds units until it is closed",
		file: "httplimit/heldbody.go", old: "err != nil {\n		b.held.Release()", new: "err == nil && n < 0 {\n		b.held.Release()",
		tests: "TestTransport_HoldsUnits",
	},
	{
		name: "client-holding-what-is-held-back", fault: "a request that is held back when it is admitted holds its units, and waits for itself",
		file: "httplimit/transport.go", old: "		held.Release()\n		if err := ctx.Err()", new: "		if err := ctx.Err()",
		tests: "TestTransport_HoldsNothingWhile",
	},
	{
		name: "client-holding-a-stream", fault: "a stream of a client holds its units for their lease",
		file: "grpclimit/client.go", old: "grpc.OnFinish(func(error) { release() })", new: "grpc.OnFinish(func(error) {})",
		tests: "TestClient_ACallHolds",
	},
	{
		name: "client-holding-a-stream-of-connect", fault: "a stream of Connect holds its units until its response is closed",
		file: "connectlimit/client.go", old: "	c.release()\n	// Each call after the end", new: "	// Each call after the end",
		tests: "TestClient_ACallHolds",
	},
}
