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
		tests: "TestLog_WritesOneRecordForManyAtOnce",
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
		file: "httplimit/call.go", old: "subtle.XORBytes(rest, rest[:aes.BlockSize], mac)", new: "subtle.XORBytes(mac, rest[:aes.BlockSize], mac)",
		tests: "TestObserver_TellsAnyTwoIdentitiesApart",
	},
	{
		name: "observers-replace-each-other", fault: "of two observers, only the last is called",
		file: "httplimit/options.go", old: "c.observers = append(c.observers, f)", new: "c.observers = append(c.observers[:0], f)",
		tests: "TestObservers",
	},
}
