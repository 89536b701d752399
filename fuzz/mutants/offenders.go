package main

// ofOffenders are the faults of httplimit/offenders, and of the events that it is told.
var ofOffenders = []mutant{
	{
		name: "sketch-forgets-what-it-missed", fault: "a newcomer begins at 1, and not at the count that it takes over",
		file: "httplimit/offenders/sketch.go", old: "s.newCounter(client, e, at, s.unseen)", new: "s.newCounter(client, e, at, 0)",
		tests: "TestPage_CountsWithinItsBounds",
	},
	{
		name: "sketch-counts-on-retired-counters", fault: "a denial that finds its counter retired is lost",
		file: "httplimit/offenders/sketch.go", old: "if c.count.Add(1) > retired {", new: "if c.count.Add(1) < 0 {",
		tests: "TestSketch|TestPage_CountsWithinItsBoundsForManyAtOnce",
	},
	{
		name: "sketch-loses-denials-of-a-retired-counter", fault: "the sketch retires a counter while denials are added to it, and loses them",
		file: "httplimit/offenders/sketch.go", old: "if c.count.CompareAndSwap(c.known, retired) {", new: "if c.count.Store(retired); true {",
		tests: "TestPage_CountsWithinItsBounds",
	},
	{
		name: "index-takes-out-a-chain", fault: "the index loses the counters behind one that it takes out",
		file: "httplimit/offenders/index.go", old: "at.Store(c.next.Load())", new: "at.Store(nil)",
		tests: "TestIndex",
	},
	{
		name: "index-grows-without-chains", fault: "of each chain, the index takes only the first counter along when it grows",
		file: "httplimit/offenders/index.go", old: "\t\t\t\tc = next\n", new: "\t\t\t\tc = nil\n\t\t\t\t_ = next\n",
		tests: "TestIndex_HasWhatAMapHas",
	},
	{
		name: "index-takes-policies-for-one", fault: "a client has one counter for all policies whose names have the same length",
		file: "httplimit/offenders/index.go", old: " && c.policy == client.policy", new: "",
		tests: "TestIndex",
	},
	{
		name: "heap-knows-too-much", fault: "the count of a new counter is taken for one more than it is, and is never found to be the least",
		file: "httplimit/offenders/sketch.go", old: "s.heap[0] = place{s.unseen + 1,", new: "s.heap[0] = place{s.unseen + 2,",
		tests: "TestPage_CountsWithinItsBounds",
	},
	{
		name: "tally-counts-anew-with-stripes", fault: "a count of the metrics forgets what it was when two calls met there",
		file: "internal/count/counter.go", old: "n := c.word.Load()\n\tif", new: "n := int64(0)\n\tif",
		tests: "TestCounter",
	},
	{
		name: "tally-loses-the-call-that-makes-stripes", fault: "the metrics do not count the calls that find others counting",
		file: "internal/count/counter.go", old: "\tc.stripes.Load().Add(n)\n", new: "",
		tests: "TestCounter",
	},
	{
		name: "tally-begins-with-stripes", fault: "each count of the metrics has stripes, also if no two calls meet there",
		file: "internal/count/counter.go", old: "for range 2 {", new: "for range 0 {",
		tests: "TestCounter",
	},
	{
		name: "tally-finds-few-policies", fault: "the metrics count nothing if there are many policies",
		file: "internal/tally/tally.go", old: "return t.byName[name]", new: "return nil",
		tests: "TestTally",
	},
	{
		name: "page-begins-a-period-twice", fault: "two calls that find a period due begin two, and forget the one before",
		file: "httplimit/offenders/page.go", old: "if passed < period {", new: "if false {",
		tests: "TestPage_BeginsAPeriodOnce",
	},
	{
		name: "report-trusts-one-period", fault: "a client without a counter in one of the periods is taken for one that was not denied there",
		file: "httplimit/offenders/report.go", old: "rows[i].count += t.unseen", new: "rows[i].count += 0",
		tests: "TestPage_CountsWithinItsBoundsOverTwoPeriods",
	},
	{
		name: "log-writes-twice", fault: "two denials at once both have a record",
		file: "httplimit/offenders/log.go", old: "case known && now < next.Load():", new: "case false:",
		tests: "TestLog_WritesOneRecordFor",
	},
	{
		name: "log-stays-full", fault: "a log that has made room goes on as if there were none",
		file: "httplimit/offenders/log.go", old: "\tif any {\n", new: "\tif false {\n",
		tests: "TestLog_CountsClientsThatDoNotFit",
	},
	{
		name: "page-shows-what-clients-send", fault: "names with control characters are shown as they are",
		file: "httplimit/offenders/client.go", old: "return !unicode.IsPrint(r) || ", new: "return !unicode.IsPrint('a') || ",
		tests: "TestPage_NamesClients|TestServeHTTP_Escapes",
	},
	{
		name: "fingerprint-of-the-last-block", fault: "long identities with the same end have the same fingerprint",
		file: "httplimit/call.go", old: "subtle.XORBytes(mac, mac, rest)", new: "subtle.XORBytes(mac, make([]byte, aes.BlockSize), rest)",
		tests: "TestObserver_TellsAnyTwoIdentitiesApart",
	},
	{
		name: "observers-replace-each-other", fault: "of two observers, only the last is called",
		file: "httplimit/options.go", old: "c.observers = append(c.observers, f)", new: "c.observers = append(c.observers[:0], f)",
		tests: "TestObservers",
	},
}
