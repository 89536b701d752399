package main

// ofTally are faults of what the modules with metrics count.
var ofTally = []mutant{
	{
		name: "tally-of-requests-for-units", fault: "a request that costs several units counts as one unit",
		file: "internal/tally/requests.go", old: "r.sum.Add(counted(cost))", new: "r.sum.Add(1)",
		tests: "TestTally_AddsUp",
	},
	{
		name: "tally-of-costs-below-nothing", fault: "a denied request with a cost below 0 lowers the units",
		file: "internal/tally/requests.go", old: "min(max(cost, 0), MostUnits)", new: "min(cost, MostUnits)",
		tests: "TestTally_AddsUp|TestTally_BoundsTheUnits",
	},
	{
		name: "tally-of-costs-without-bound", fault: "one request may count with any number of units",
		file: "internal/tally/requests.go", old: "min(max(cost, 0), MostUnits)", new: "max(cost, 0)",
		tests: "TestTally_BoundsTheUnits",
	},
	{
		name: "tally-below-nothing", fault: "a count of units that has passed 2^63 is below 0",
		file: "internal/tally/requests.go", old: "units & math.MaxInt64", new: "units + 0*math.MaxInt64",
		tests: "TestTally_BoundsTheUnits",
	},
	{
		name: "tally-takes-close-for-a-store", fault: "a request that Close has refused counts as one that the store did not decide",
		file: "internal/tally/tally.go", old: "e.Err != http.ErrServerClosed {", new: "e.Err != http.ErrAbortHandler {",
		tests: "TestTally_CountsWhatAStoreDidNotDecide",
	},
	{
		name: "tally-of-settlements-above", fault: "units that are given back by a settlement are taken for charged",
		file: "internal/tally/tally.go", old: "more > 0 {", new: "more != 0 {",
		tests: "TestTally_AddsUp",
	},
	{
		name: "tally-of-refunds-without-units", fault: "a charge that is given back gives back no units",
		file: "internal/tally/tally.go", old: "p.settle(e.Estimate, 0)", new: "",
		tests: "TestTally_AddsUp",
	},
	{
		name: "tally-of-the-estimate", fault: "events of settlements do not tell the estimate",
		file: "httplimit/charge.go", old: "l.known(c.policy, crossed), c.estimate", new: "l.known(c.policy, crossed), 0",
		tests: "TestModel$",
	},
	{
		name: "tally-of-units-that-were", fault: "the units of a policy are gone with its Cost",
		file: "internal/tally/tally.go", old: "made.measured = made.measured || made.costs", new: "made.measured = made.costs",
		tests: "TestTally_HasUnitsWhereCostsDiffer",
	},
	{
		name: "tally-of-waits-twice", fault: "the wait of a request counts again when its charge is settled",
		file: "internal/tally/waits.go", old: "return r, r != numResults", new: "return r, true",
		tests: "TestTally_HasTheTimeInQueues",
	},
	{
		name: "tally-of-waits-elsewhere", fault: "the time in other queues counts under a policy without one",
		file: "internal/tally/tally.go", old: "if e.Waited > 0 && p.queued {", new: "if e.Waited > 0 && p.waits != nil {",
		tests: "TestTally_HasTheTimeInQueues",
	},
	{
		name: "tally-of-no-waits", fault: "requests that are admitted after a wait are missing in the histogram",
		file: "internal/tally/tally.go", old: "if e.Waited > 0 && p.queued {", new: "if e.Waited > 0 && p.queued && r != Admitted {",
		tests: "TestModel$", in: "httplimit",
	},
	{
		name: "tally-of-waits-beyond-their-bound", fault: "a wait just above a bound is in the bucket below it",
		file: "internal/tally/waits.go", old: "slices.BinarySearch(WaitBounds[:], d)", new: "slices.BinarySearch(WaitBounds[:], d-1)",
		tests: "TestTally_HasTheTimeInQueues",
	},
	{
		name: "tally-of-reloads-that-failed", fault: "a reload that failed counts as the last that has succeeded",
		file: "internal/tally/reloads.go", old: "\t\tr.Failed++\n\t\treturn\n", new: "\t\tr.Failed++\n",
		tests: "TestTally_CountsReloads",
	},
	{
		name: "tally-of-clients-again", fault: "a client counts each time that it is denied",
		file: "internal/tally/clients.go", old: "if word.Load()&bit == 0 {", new: "if bit |= bit << 1; word.Load()&bit != bit {",
		tests: "TestClients_",
	},
	{
		name: "tally-of-clients-in-one-word", fault: "two clients at once are counted as one",
		file: "internal/tally/clients.go", old: "word.Or(bit)", new: "word.Store(bit)",
		tests: "TestClients_",
	},
	{
		name: "prometheus-buckets-apart", fault: "a bucket has the requests between two bounds, and not all below its bound",
		file: "sashprometheus/metrics.go", old: "count += uint64(n)", new: "count = uint64(n)",
		tests: "TestMetrics_HaveTheTimeInQueues", in: "sashprometheus/internal/promtest",
	},
	{
		name: "prometheus-reload-in-1970", fault: "policies that were never loaded seem to have been loaded in 1970",
		file: "sashprometheus/metrics.go", old: "if !r.LastSuccess.IsZero() {", new: "if true {",
		tests: "TestMetrics_TellOfReloads", in: "sashprometheus/internal/promtest",
	},
	{
		name: "otel-waits-for-ever", fault: "the time in queues is recorded after Unregister",
		file: "sashotel/metrics.go", old: "m.instruments.Store(nil)", new: "",
		tests: "TestMetrics_HaveTheTimeInQueues", in: "sashotel/internal/sdktest",
	},
	{
		name: "otel-waits-of-all", fault: "settlements, and policies without a Queue, have a time in queues",
		file: "sashotel/metrics.go", old: "; counts {", new: "; counts || true {",
		tests: "TestMetrics_HaveTheTimeInQueues", in: "sashotel/internal/sdktest",
	},
}
