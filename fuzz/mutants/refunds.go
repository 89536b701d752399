package main

// ofRefunds are faults where units are given back deep in a log.
var ofRefunds = []mutant{
	{
		name: "refund-past-newest", fault: "what is given back is taken from the older records in later slots, too",
		file: "ring.go", old: "\t\tv.refunds().lowerFrom(newest+1, -back)\n", new: "\t\tv.refunds().lowerFrom(newest+1, 0)\n",
		tests: "TestRing_GivesBackWhatAListDoes",
	},
	{
		name: "refund-of-a-former-record", fault: "a new record has fewer units by what was given back in its slot",
		file: "ring.go", old: "if v.refundWords != 0 {", new: "if false {",
		tests: "TestRing_GivesBackWhatAListDoes",
	},
	{
		name: "refund-never-read", fault: "a running total is read without what was given back",
		file: "ring.go", old: "\tif g.refundWords != 0 {", new: "\tif false {",
		tests: "TestRing_GivesBackWhatAListDoes",
	},
	{
		name: "refund-fast-path", fault: "the fast path reads running totals without what was given back",
		file: "log.go", old: "g.refundWords != 0 || ", new: "",
		tests: "TestModel$",
	},
	{
		name: "refund-copy-begins-elsewhere", fault: "a log that is copied for refunds loses its records",
		file: "ring.go", old: "\tc.bounds = g.bounds\n", new: "",
		tests: "TestRing_GivesBackWhatAListDoes",
	},
	{
		name: "refund-no-copy", fault: "units that are deep in a log are not given back",
		file: "log.go", old: "if v.refundWords == 0 && v.isDeep(i) && units > 0 {", new: "if false {",
		tests: "TestModel$",
	},
	{
		name: "refund-one-by-one", fault: "a refund deep in a log changes all newer running totals",
		file: "ring.go", old: "\tcase v.isDeep(i): //", new: "\tcase v.isDeep(i) && v.count < 0: //",
		tests: "TestRing_RefundsChangeFewWords",
	},
	{
		name: "refund-of-no-record", fault: "units of a record that was dropped are given back to the next",
		file: "ring.go", old: "i < v.count && v.tick(i) == tick\n", new: "i < v.count\n",
		tests: "TestRing_GivesBack",
	},
}
