package main

// ofHTTPModel are faults where two features of httplimit meet. The model of that package finds them.
var ofHTTPModel = []mutant{
	{
		name: "model-plan-after-reconfigure", fault: "after a Reconfigure, a plan shares the counts of the policy without one",
		file: "httplimit/table.go", old: "same := former.byName[name]", new: "same := former.byName[p.Name]",
		tests: "TestModel$",
	},
	{
		name: "model-costs-that-differ", fault: "a policy stays charged if one with another cost denies the request",
		file: "httplimit/admit.go", old: "c.undo() // all of it", new: "// all of it",
		tests: "TestModel$",
	},
	{
		name: "model-shadow-settles", fault: "what a shadow has charged is not settled",
		file: "httplimit/admit.go", old: "case reserve:\n		t.reservation.here, t.decision = c.limiter.Reserve(", new: "case reserve && !t.Shadow:\n		t.reservation.here, t.decision = c.limiter.Reserve(",
		tests: "TestModel$",
	},
	{
		name: "model-shadow-denied", fault: "a shadow that has denied a request gives its charge back",
		file: "httplimit/decide.go", old: "if !t.settles && !t.holds || !t.decision.Allowed && t.Shadow {", new: "if !t.settles && !t.holds {",
		tests: "TestModel$",
	},
	{
		name: "model-shadow-in-a-store", fault: "what a shadow has charged in a store is not settled",
		file: "httplimit/admit.go", old: "c.store != nil && reserve:", new: "c.store != nil && reserve && !t.Shadow:",
		tests: "TestModel$",
	},
	{
		name: "model-costs-in-a-store", fault: "in a store, a policy stays charged if one with another cost denies the request",
		file: "httplimit/admit.go", old: "_, _ = t.reservation.commit(c.ctx, 0, 0)", new: "if c.store == nil {\n_, _ = t.reservation.commit(c.ctx, 0, 0)\n}",
		tests: "TestModel$",
	},
	{
		name: "model-least-of-several", fault: "RateLimit names the limit that has decided, though another one has less left",
		file: "httplimit/call.go", old: "t.next.Limit != q.Limit {", new: "t == nil {",
		tests: "TestModel$",
	},
	{
		name: "model-flush-then-status", fault: "a status that comes after a flush, and so is not sent, decides whether a charge stays",
		file: "httplimit/recorder.go", old: "!errors.Is(err, errors.ErrUnsupported) {\n		rec.status = http.StatusOK", new: "!errors.Is(err, errors.ErrUnsupported) {\n		rec.status = 0",
		tests: "TestModel$",
	},
	{
		name: "model-long-identity", fault: "an event tells the digest of an identity that is long",
		file: "httplimit/decide.go", old: "t.longIdentity = string(c.identity) //", new: "_ = string(c.identity) //",
		tests: "TestModel$",
	},
	{
		name: "model-host-of-the-last", fault: "hosts are compared as names only if the last of several patterns has one",
		file: "httplimit/internal/route/table.go", old: "t.byHost = t.byHost || r.hosted", new: "t.byHost = r.hosted",
		tests: "TestModel$",
	},
	{
		name: "pattern-of-no-name", fault: "a segment without a name is a segment that a pattern may name",
		file: "httplimit/internal/route/table.go", old: "max(len(t.nameless), len(pattern)+1)", new: "1",
		tests: "TestPattern_MeansWhatItMeansToAMux$",
	},
	{
		name: "folding-loses-an-empty-segment", fault: "a folded path ends before the empty segments at its end, which wildcards match",
		file: "httplimit/internal/route/readings.go", old: "if strings.HasSuffix(p, \"//\") {", new: "if p == \"\" {",
		tests: "FuzzPathFolding", in: "fuzz",
	},
	{
		name: "shadow-aborts", fault: "http.ErrAbortHandler in a shadow aborts the request",
		file: "httplimit/decide.go", old: "			c.handlePanic(r, fault)", new: "			if fault == http.ErrAbortHandler {\n\t\t\t\tpanic(fault)\n\t\t\t}\n			c.handlePanic(r, fault)",
		tests: "TestMiddleware_LetsAPolicyAbort|TestModel$",
	},
	{
		name: "abort-is-answered", fault: "a request that a policy aborts is answered 500",
		file: "httplimit/middleware.go", old: "		if v.aborted {", new: "		if false {",
		tests: "TestMiddleware_LetsAPolicyAbort",
	},
	{
		name: "contexts-are-compared", fault: "a request panics whose context is of a type that cannot be compared",
		file: "httplimit/recorder.go", old: "!hasBody && !isNew", new: "!hasBody && ctx == rec.ctx && !isNew",
		tests: "TestCharge_OfARequestWithAnyContext",
	},
}
