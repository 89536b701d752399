package main

// ofProofs are faults of the commands that write proofs and the history into the documents.
var ofProofs = []mutant{
	{
		name: "history-of-merges", fault: "a merge is said to have changed what one of its parents has",
		file: "bench/instructions/history.go", old: "		if found && distance(r.now, before) <= notable {\n			return false\n		}\n", new: "",
		tests: "TestHistory_", in: "bench/instructions",
	},
	{
		name: "history-with-noise", fault: "changes by less than 1 % are in the history",
		file: "bench/instructions/history.go", old: "const notable = 0.01", new: "const notable = 0.0001",
		tests: "TestHistory_", in: "bench/instructions",
	},
	{
		name: "history-of-shallow-clones", fault: "a part of the history is taken for all of it",
		file: "bench/instructions/history.go", old: "if strings.TrimSpace(shallow) == \"true\" {", new: "if strings.TrimSpace(shallow) == \"yes\" {",
		tests: "TestRun_WritesTheHistory", in: "bench/instructions",
	},
	{
		name: "proofs-of-failures", fault: "a row whose commands fail is written as if they had passed",
		file: "internal/proofs/main.go", old: "			faults = append(faults, err)\n			continue\n		}\n		if now", new: "			faults = append(faults, err)\n		}\n		if now",
		tests: "TestRun_LeavesOtherRowsAlone", in: "internal/proofs",
	},
	{
		name: "proofs-by-no-test", fault: "a row whose tests are gone or skipped is written as if they had passed",
		file: "internal/proofs/main.go", old: "&& sizeOf(output) == \"\" {", new: "&& output == \"\" {",
		tests: "TestRun_NeedsAProof", in: "internal/proofs",
	},
	{
		name: "proofs-of-two-commits", fault: "rows that were run before another commit was checked out are said to be of that one",
		file: "internal/proofs/main.go", old: "now != head {", new: "now == \"\" {",
		tests: "TestRun_NamesWhatWasRun", in: "internal/proofs",
	},
	{
		name: "proofs-of-a-changed-tree", fault: "rows are said to be of a commit that has other code",
		file: "internal/proofs/main.go", old: "err != nil || changes != \"\" {", new: "err != nil || changes == \"?\" {",
		tests: "TestRun_NamesWhatWasRun", in: "internal/proofs",
	},
	{
		name: "history-of-nothing", fault: "a file that git does not know has an empty history",
		file: "bench/instructions/history.go", old: "if commits == \"\" {", new: "if false {",
		tests: "TestHistory_OfAFile", in: "bench/instructions",
	},
	{
		name: "proofs-of-one-target", fault: "of several fuzz targets only the last one's inputs are counted",
		file: "internal/proofs/page.go", old: "range fuzzing.Split(output, -1) {", new: "range fuzzing.Split(output, 1) {",
		tests: "TestSizeOf", in: "internal/proofs",
	},
	{
		name: "proofs-of-subtests", fault: "tests within tests are counted as tests",
		file: "internal/proofs/page.go", old: "`(?m)^--- PASS: Test`", new: "`(?m)^ *--- PASS: Test`",
		tests: "TestRun_Writes", in: "internal/proofs",
	},
	{
		name: "proofs-of-all-rows", fault: "rows that were not run are said to be of this commit",
		file: "internal/proofs/main.go", old: "if done < rows {", new: "if done < 0 {",
		tests: "TestRun_LeavesOtherRowsAlone", in: "internal/proofs",
	},
}
