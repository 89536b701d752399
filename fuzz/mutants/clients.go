package main

// ofClients are the faults of clients that keep to the limits of servers, where two things meet.
var ofClients = []mutant{
	{
		name: "client-error-obeys-quota", fault: "a 503 holds back by the quota of a request that was admitted",
		file: "httplimit/internal/fields/retryafter.go", old: "ok || !denied {", new: "ok {",
		tests: "TestModel_Clients",
	},
	{
		name: "client-hold-on-arrival-shortened", fault: "a later denial that tells a shorter time shortens a hold",
		file: "httplimit/gate.go", old: "former >= until", new: "former == until",
		tests: "TestModel_Clients",
	},
	{
		name: "client-waits-deaf", fault: "a request that waits for a hold does not see that it gets longer",
		file: "httplimit/gate.go", old: "		g.notify()\n		g.changed, g.notify = context.WithCancel(context.Background())\n	}\n}\n\n// bound", new: "	}\n}\n\n// bound",
		tests: "TestModel_Clients|TestTransport_HoldsBackWhatWaitsAlready",
	},
	{
		name: "client-reads-any-length", fault: "a RateLimit of any length is read, for as long as that takes",
		file: "httplimit/internal/fields/retryafter.go", old: "len(rest) > maxRateLimit", new: "false",
		tests: "TestRateLimit_IsReadUpToALength",
	},
	{
		name: "client-deadline-burnt", fault: "a request that is held back beyond its deadline waits until then",
		file: "httplimit/transport.go", old: "case left > time.Until(deadline):", new: "case left < 0:",
		tests: "TestModel_Clients",
	},
	{
		name: "client-method-forgotten", fault: "a denial of one method holds back the others of its host",
		file: "httplimit/transport.go", old: "ok && t.Key == nil {", new: "ok && t.Key != nil {",
		tests: "TestModel_Clients", in: "grpclimit",
	},
	{
		name: "client-ports-are-owners", fault: "each port of a host may have the holds of a domain",
		file: "httplimit/internal/hostname/hostname.go", old: "		return name\n	}\n	kept", new: "		return host\n	}\n	kept",
		tests: "TestModel_Clients", in: "httplimit",
	},
	{
		name: "client-short-names-are-owners", fault: "each name below a short second label of a country may have the holds of a domain",
		file: "httplimit/internal/hostname/hostname.go", old: "strings.Contains(secondLabels[label], top)", new: "len(label) <= 3",
		tests: "TestTransport_AShortDomain|TestTransport_HostsOfADomain", in: "httplimit",
	},
	{
		name: "client-least-domain-loses", fault: "at MaxHeld any domain loses the hold that ends first",
		file: "httplimit/gate.go", old: " && s.perDomain[h.domain] == fullest {", new: " {",
		tests: "TestModel_Clients|TestTransport_ADomain",
	},
	{
		name: "client-now-is-absent", fault: "a Retry-After of 0 gives way to RateLimit",
		file: "httplimit/internal/fields/retryafter.go", old: "if d, ok := retryAfterOf(response); ok ||", new: "if d, ok := retryAfterOf(response); ok && d > 0 ||",
		tests: "TestRequestedWait|TestModel_Clients",
	},
	{
		name: "client-ends-twice", fault: "each read at the end of a stream of gRPC makes its hold longer",
		file: "grpclimit/client.go", old: "err != io.EOF && !s.ended {", new: "err != io.EOF {",
		tests: "TestModel_Clients",
	},
	{
		name: "client-connect-ends-twice", fault: "each read at the end of a stream of Connect makes its hold longer",
		file: "connectlimit/client.go", old: "!errors.Is(err, io.EOF) && !c.ended {", new: "!errors.Is(err, io.EOF) {",
		tests: "TestModel_Clients",
	},
	{
		name: "client-obeys-failures", fault: "the RetryInfo of a call that was not denied holds back",
		file: "internal/rpc/client.go", old: "code != ResourceExhausted && code != Unavailable {", new: "code == OK {",
		tests: "TestModel_Clients",
	},
	{
		name: "client-obeys-quota", fault: "an RPC that was admitted and fails holds back by its quota",
		file: "internal/rpc/client.go", old: "StatusCode: http.StatusServiceUnavailable", new: "StatusCode: http.StatusTooManyRequests",
		tests: "TestModel_Clients",
	},
	{
		name: "client-deadline-is-exhausted", fault: "a call that is held back beyond its deadline has the code of one that may not wait",
		file: "internal/rpc/client.go", old: "errors.As(err, &turn) && !(turn.Held && turn.Err != nil)", new: "errors.As(err, &turn)",
		tests: "TestModel_Clients",
	},
	{
		name: "client-connect-late-key", fault: "a stream of Connect is keyed without its host",
		file: "connectlimit/client.go", old: "		Host:      c.Peer().Addr,\n", new: "",
		tests: "TestModel_Clients",
	},
	{
		name: "client-waits-under-another-name", fault: "a request waits under another name than its key, whose parts begin at other instants",
		file: "httplimit/transport.go", old: "internals.WaitHolding(t.Limiter, ctx, key, n)", new: "internals.WaitHolding(t.Limiter, ctx, \"host \"+key, n)",
		tests: "TestModel_Clients",
	},
	{
		name: "client-parts-never-turn", fault: "the units of a key count still once their part has passed",
		file: "parts.go", old: "p.used -= r.lanesOf(s).sumFrom(r.lanesAfter(p.turned))", new: "_ = r.lanesOf(s)",
		tests: "TestModel_Clients", in: "httplimit",
	},
	{
		name: "client-charges-the-ended", fault: "a request whose context has ended is charged if it may not wait",
		file: "httplimit/transport.go", old: "if err := ctx.Err(); err != nil { // as Wait does", new: "if err := ctx.Err(); err != nil && false { // as Wait does",
		tests: "TestTransport_ChargesNothing|TestModel_Clients", in: "httplimit",
	},
	{
		name: "client-is-told-the-lease", fault: "a request that may not wait is told the lease of the units that others hold",
		file: "httplimit/transport.go", old: "wait, _ := waitFor(t.Limiter, &answer.Decision, key, n, 0)", new: "wait := answer.RetryAfter",
		tests: "TestModel_Clients", in: "httplimit",
	},
	{
		name: "client-held-is-told-the-hold", fault: "a request that may not wait is told what the server asked for, though the limiter denies it for longer",
		file: "httplimit/transport.go", old: "wait > left {", new: "wait > left && left == 0 {",
		tests: "TestTransport_TellsTheLater|TestModel_Clients", in: "httplimit",
	},
	{
		name: "client-held-waits-for-never", fault: "a cost that is never admitted waits until its key is not held back",
		file: "httplimit/transport.go", old: "key, n); err != nil {\n\t\t\treturn fmt.Errorf(", new: "key, n); err != nil && left < 0 {\n\t\t\treturn fmt.Errorf(",
		tests: "TestTransport_RefusesWhatTheLimiter|TestModel_Clients", in: "httplimit",
	},
	{
		name: "client-held-asks-the-store", fault: "a store is asked for a request whose key is held back",
		file: "httplimit/transport.go", old: "case left > 0 && t.Store != nil:\n", new: "case left > 0 && t.Store != nil:\n\t\tt.Store.Peek(ctx, []string{key}, n, nil)\n",
		tests: "TestTransport_AsksNoStore", in: "httplimit",
	},
	{
		name: "client-held-burns-its-deadline", fault: "a request that the limiter is sure to admit too late waits until its key is not held back",
		file: "httplimit/transport.go", old: "case least > time.Until(deadline):", new: "case least < 0:",
		tests: "TestTransport_Refuses|TestModel_Clients", in: "httplimit",
	},
	{
		name: "client-held-is-charged", fault: "a request that may not wait is charged while its key is held back",
		file: "httplimit/transport.go", old: "answer.Decision = internals.PeekUncharged(t.Limiter, key, n)", new: "_, answer.Decision = internals.TakeHolding(t.Limiter, key, n, 0, nil)",
		tests: "TestTransport_TellsTheLater|TestModel_Clients", in: "httplimit",
	},
	{
		name: "client-deadline-is-a-cancel", fault: "a request whose deadline ends while it starts over is told that its context was canceled",
		file: "httplimit/transport.go", old: "if err := ctx.Err(); err != nil { // the error of waitOnce", new: "if ctx.Err() != nil { // the error of waitOnce",
		tests: "TestTransport_TellsWhyTheContext|TestModel_Clients", in: "httplimit",
	},
	{
		name: "client-wrong-limits-are-exceeded", fault: "a request that may not wait is told that it exceeds wrong limits",
		file: "httplimit/transport.go", old: "t.Limiter != nil && answer.RetryAfter == sash.Never", new: "false",
		tests: "TestTransport_TellsOfWrongLimits", in: "httplimit",
	},
	{
		name: "client-closes-and-holds", fault: "a request holds its units after the body of its response was closed",
		file: "httplimit/heldbody.go", old: "	defer b.held.Release()\n", new: "",
		tests: "TestModel_Clients", in: "httplimit",
	},
	{
		name: "server-pushes-beyond-deadline", fault: "a server pushes back beyond the deadline by what it rounds up",
		file: "internal/rpc/refusal.go", old: "time.Until(deadline)-time.Millisecond <=", new: "time.Until(deadline) <=",
		tests: "TestServer_PushesNothingBack",
	},
}
