package main

// ofRefunds are faults where units are given back deep in a log.
var ofRefunds = []mutant{
	{
		name: "refund-past-newest", fault: "what is given back is taken from the older records in later slots, too",
		file: "refunds.go", old: "\t\tv.lowerFrom(newest+1, -back)\n", new: "",
		tests: "TestRing_GivesBackWhatAListDoes",
	},
	{
		name: "refund-of-a-former-record", fault: "a new record has fewer units by what was given back in its slot",
		file: "ring.go", old: "if v.refunds != 0 {", new: "if false {",
		tests: "TestRing_GivesBackWhatAListDoes",
	},
	{
		name: "refund-never-read", fault: "a running total is read without what was given back",
		file: "refunds.go", old: "\tif g.refunds != 0 {", new: "\tif false {",
		tests: "TestRing_GivesBackWhatAListDoes",
	},
	{
		name: "refund-fast-path", fault: "the fast path reads running totals without what was given back",
		file: "log.go", old: "g.refunds != 0 || ", new: "",
		tests: "TestModel$",
	},
	{
		name: "refund-copy-begins-elsewhere", fault: "a log that is copied for refunds loses its records",
		file: "refunds.go", old: "\tc.bounds = g.bounds\n", new: "",
		tests: "TestRing_GivesBackWhatAListDoes",
	},
	{
		name: "refund-no-copy", fault: "units that are deep in a log are not given back",
		file: "log.go", old: "if v.refunds == 0 && v.isDeep(i) && units > 0 {", new: "if false {",
		tests: "TestModel$",
	},
	{
		name: "refund-one-by-one", fault: "a refund deep in a log changes all newer running totals",
		file: "refunds.go", old: "\tcase v.isDeep(i):\n", new: "\tcase v.isDeep(i) && v.count < 0:\n",
		tests: "TestRing_RefundsChangeFewWords",
	},
	{
		name: "refund-of-no-record", fault: "units of a record that was dropped are given back to the next",
		file: "refunds.go", old: "i < v.count && v.tick(i) == tick\n", new: "i < v.count\n",
		tests: "TestRing_GivesBack",
	},
}
