package main

// ofPolicies are faults of sash replay -policy and of sash check.
var ofPolicies = []mutant{
	{
		name: "policies-settle-as-they-are-decided", fault: "a request under way holds its units for no time",
		file: "cmd/sash/internal/replay/enforce.go", old: "e.pending.add(event.At, event.Lasts(), answer", new: "e.pending.add(event.At, 0, answer",
		tests: "TestModel_PoliciesAreEnforcedAsByTheMiddleware",
	},
	{
		name: "policies-settle-at-the-next-request", fault: "a response settles at the time of the next request, and not at its own",
		file: "cmd/sash/internal/replay/settle.go", old: "\t\tclock.Set(first.at)\n", new: "\t\tclock.Set(by)\n",
		tests: "TestModel_PoliciesAreEnforcedAsByTheMiddleware|TestCost_SettledWhenItIsDue",
	},
	{
		name: "pending-is-in-the-order-of-beginnings", fault: "a request that ends before an earlier one is settled after it",
		file: "cmd/sash/internal/replay/settle.go", old: "for i > 0 && p.queue[i-1].at > d.at {", new: "for i > 0 && p.queue[i-1].at > d.at && wait == 0 {",
		tests: "TestModel_PoliciesAreEnforcedAsByTheMiddleware",
	},
	{
		name: "end-is-taken-for-the-beginning", fault: "the time of nginx, the end of a request, is taken for its beginning",
		file: "cmd/sash/internal/traffic/pattern.go", old: `|| strings.Contains(p.format, "$")`, new: `|| strings.Contains(p.format, "%")`,
		tests: "TestModel_PoliciesAreEnforcedAsByTheMiddleware",
	},
	{
		name: "alb-dates-beginnings", fault: "an Application Load Balancer is taken to log beginnings, as a Classic one does",
		file: "cmd/sash/internal/traffic/fixed.go", old: `f.name() == "alb"`, new: `f.name() == "nlb"`,
		tests: "TestModel_PoliciesAreEnforcedAsByTheMiddleware",
	},
	{
		name: "balancers-last-a-third", fault: "of the three times of a load balancer, two are forgotten",
		file: "cmd/sash/internal/traffic/fixed.go", old: `"request_processing_time"):][:3]`, new: `"request_processing_time"):][:1]`,
		tests: "TestModel_PoliciesAreEnforcedAsByTheMiddleware",
	},
	{
		name: "time-taken-is-in-seconds", fault: "the milliseconds of IIS are read as seconds",
		file: "cmd/sash/internal/traffic/duration.go", old: "return scaled(v, 1e6)\n}\n\n// lastTimer", new: "return scaled(v, 1e9)\n}\n\n// lastTimer",
		tests: "TestModel_PoliciesAreEnforcedAsByTheMiddleware",
	},
	{
		name: "headers-are-those-of-the-first-line", fault: "a header that the first line of JSON lacks is in none",
		file: "cmd/sash/internal/traffic/json.go", old: `if j.paths[i+1].path == "" && isOwnHeader(`, new: `if j.paths[i+1].path == "" && r.heading && isOwnHeader(`,
		tests: "TestModel_PoliciesAreEnforcedAsByTheMiddleware",
	},
	{
		name: "headers-sent-twice-are-one", fault: "two values of a header are taken for one",
		file: "cmd/sash/internal/replay/request.go", old: `strings.Split(v, "\n")`, new: `strings.SplitN(v, "\n", 1)`,
		tests: "TestModel_PoliciesAreEnforcedAsByTheMiddleware",
	},
	{
		name: "hung-up-is-answered", fault: "the status 499 is taken for an answer",
		file: "cmd/sash/internal/replay/request.go", old: "if r.Status == clientClosed || r.Status == clientGone", new: "if r.Status == clientGone",
		tests: "TestModel_PoliciesAreEnforcedAsByTheMiddleware",
	},
	{
		name: "no-status-is-200", fault: "a line that has no status, in a log that has them, is taken for a success",
		file: "cmd/sash/internal/replay/request.go", old: `if d.status >= 0 && d.values[d.status] != "" {`, new: `if d.value(d.status) != "" {`,
		tests: "TestModel_PoliciesAreEnforcedAsByTheMiddleware",
	},
	{
		name: "sockets-are-addresses", fault: "what nginx logs of a Unix socket is an address without a network",
		file: "cmd/sash/internal/replay/request.go", old: `if strings.HasPrefix(addr, "unix:") {`, new: `if strings.HasPrefix(addr, "unix://") {`,
		tests: "TestModel_PoliciesAreEnforcedAsByTheMiddleware",
	},
	{
		name: "probes-are-requests", fault: "what a probe has sent goes to the policies",
		file: "cmd/sash/internal/replay/request.go", old: `path != "" && !setTarget(r, path)`, new: `path != "" && path != "-" && !setTarget(r, path)`,
		tests: "TestModel_PoliciesAreEnforcedAsByTheMiddleware",
	},
	{
		name: "redirects-reach-handlers", fault: "a request that the mux redirects goes to the policies",
		file: "cmd/sash/internal/replay/request.go", old: `h == (route{})`, new: `h != nil`,
		tests: "TestModel_PoliciesAreEnforcedAsByTheMiddleware",
	},
	{
		name: "shadows-are-always-enforced", fault: "-shadow enforces shadows, too",
		file: "cmd/sash/internal/replay/enforce.go", old: "p.Shadow = p.Shadow && o.shadow", new: "p.Shadow = false",
		tests: "TestModel_PoliciesAreEnforcedAsByTheMiddleware",
	},
	{
		name: "settled-is-spent-twice", fault: "what a response charges beyond its estimate is the whole cost",
		file: "cmd/sash/internal/replay/enforced.go", old: "max(0, e.Cost-p.cost)", new: "max(0, e.Cost)",
		tests: "TestModel_PoliciesAreEnforcedAsByTheMiddleware",
	},
	{
		name: "policies-need-no-host", fault: "a log without hosts is replayed under a pattern with one",
		file: "cmd/sash/internal/replay/needs.go", old: `return pattern != "" && pattern[0] != '/'`, new: `return pattern != "" && pattern[0] == '*'`,
		tests: "TestPolicies_RefusesWhatALogDoesNotTell",
	},
	{
		name: "plans-need-no-duration", fault: "what is at once under a plan alone needs no duration",
		file: "cmd/sash/internal/replay/needs.go", old: "slices.ContainsFunc(p.AllLimits(),", new: "slices.ContainsFunc(p.Limits,",
		tests: "TestPolicies_RefusesWhatALogDoesNotTell",
	},
	{
		name: "queues-hide-policies-without-one", fault: "a request that a policy without a queue denies would have waited",
		file: "cmd/sash/internal/replay/enforce.go", old: "if e.queueOf(i) == 0 || until > least {", new: "if until > least {",
		tests: "TestPolicies_DeniedRequestsThatWouldHaveWaited",
	},
	{
		name: "choices-share-names", fault: "identities of two choices have one name",
		file: "cmd/sash/internal/policies/key.go", old: "|| len(a.Parts)+len(b.Parts) > 0 {", new: "{",
		tests: "TestNameOf", in: "cmd/sash/internal/policies",
	},
	{
		name: "check-misses-what-classes-leave", fault: "only what all requests leave is compared with the limits",
		file: "cmd/sash/internal/check/limits.go", old: "\tmaps.Copy(amounts, p.Leave.Classes)\n", new: "\tmaps.Copy(amounts, map[string]string{})\n",
		tests: "TestWarnings", in: "cmd/sash/internal/check",
	},
	{
		name: "check-misses-networks-of-proxies", fault: "a skipped network is compared with the proxies the wrong way round",
		file: "cmd/sash/internal/check/clients.go", old: "if within(proxy, network) {", new: "if within(network, proxy) {",
		tests: "TestWarnings", in: "cmd/sash/internal/check",
	},
	{
		name: "check-warns-of-fallbacks", fault: "a key of clients' choice is reported although another policy bounds the address",
		file: "cmd/sash/internal/check/clients.go", old: "bounds := q.Key.Kind == policies.ByAddress ||", new: "bounds := q.Key.Kind == policies.ByRoute ||",
		tests: "TestWarnings", in: "cmd/sash/internal/check",
	},
	{
		name: "check-knows-all-methods", fault: "a pattern with a misspelled method gets no warning",
		file: "cmd/sash/internal/check/warnings.go", old: "case method != \"\" && !usualMethod(upper):", new: "case false:",
		tests: "TestWarnings", in: "cmd/sash/internal/check",
	},
	{
		name: "codes-off-by-one", fault: "a code of gRPC in a file charges calls that are answered by the next one",
		file: "httplimit/policyfile/policy.go", old: "		to[code] = true\n", new: "		to[code+1] = true\n",
		tests: "TestCharge_TakesCodesOfGRPC", in: "httplimit/policyfile",
	},
	{
		name: "replay-takes-codes", fault: "a policy that charges codes of gRPC is replayed on logs of HTTP, and charges nothing",
		file: "cmd/sash/internal/replay/needs.go", old: "if p.OfCodes() {", new: "if false {",
		tests: "TestPolicies_Refuses", in: "cmd/sash/internal/replay",
	},
	{
		name: "whole-seconds-are-nothing-to-plans", fault: "no warning says that the limit of a plan is too short for a log of whole seconds",
		file: "cmd/sash/internal/replay/options.go", old: "append(limits, p.AllLimits()...)", new: "append(limits, p.Limits...)",
		tests: "TestPolicies_WarnOfWholeSeconds",
	},
	{
		name: "check-takes-a-cost-of-the-program-for-1", fault: "a request that may cost nothing is said never to be admitted",
		file: "cmd/sash/internal/check/limits.go", old: "		return 0, \"\"\n", new: "		return 1, \"\"\n",
		tests: "TestWarnings", in: "cmd/sash/internal/check",
	},
	{
		name: "check-says-that-shadows-deny", fault: "a shadow is said never to admit a request",
		file: "cmd/sash/internal/check/limits.go", old: "if p.Shadow {", new: "if false {",
		tests: "TestWarnings", in: "cmd/sash/internal/check",
	},
	{
		name: "check-forgets-what-a-function-skips", fault: "a policy that skips methods and what a function says is explained as if it skipped the methods alone",
		file: "cmd/sash/internal/check/sentence.go", old: "if p.Skip.Function != \"\" {", new: "if p.Skip.Function != \"\" && len(skipped) == 0 {",
		tests: "TestSentence_SaysAllThatIsSkipped", in: "cmd/sash/internal/check",
	},
}
