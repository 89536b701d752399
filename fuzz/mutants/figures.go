package main

// ofFigures are faults of the command that writes the figures of the documents, and of the test that holds them
// to one run.
var ofFigures = []mutant{
	{
		name: "figures-that-differ", fault: "two documents may give one figure two values",
		file: "internal/figures/figures.go", old: "ok && text != b.Text", new: "ok && text == \"\"",
		tests: "TestAgree", in: "internal/figures",
	},
	{
		name: "figures-of-two-commits", fault: "figures of two commits are taken for figures of one run",
		file: "internal/figures/figures.go", old: "if len(named) != 1 {", new: "if len(named) == 0 {",
		tests: "TestAgree", in: "internal/figures",
	},
	{
		name: "figures-anywhere-on-a-line-with-code", fault: "code hides the figures next to it",
		file: "internal/figures/figures.go", old: "\"`[^`\\n]*`\"", new: "\".*`[^`\\n]*`.*\"",
		tests: "TestOutside", in: "internal/figures",
	},
	{
		name: "figures-at-the-end-of-a-line", fault: "a figure whose unit is on the next line is not found",
		file: "internal/figures/figures.go", old: "strings.ReplaceAll(rest, \"\\n\", \" \")", new: "rest",
		tests: "TestOutside", in: "internal/figures",
	},
	{
		name: "figures-in-code", fault: "a figure between backquotes is taken for code",
		file: "internal/figures/figures.go", old: "strings.Contains(code, \" \") && figure", new: "code == \"\" && figure",
		tests: "TestOutside", in: "internal/figures",
	},
	{
		name: "figures-of-commits-without-the-word", fault: "a commit in a cell of a table is not found",
		file: "internal/figures/figures.go", old: "follows || strings.ContainsAny(id, \"abcdef\") && ", new: "follows || id == \"\" && ",
		tests: "TestOutside", in: "internal/figures",
	},
	{
		name: "figures-without-an-end", fault: "a marker that is not closed hides all that follows",
		file: "internal/figures/figures.go", old: "	if open != nil {\n		fault(", new: "	if open != nil && open.Text != \"\" {\n		fault(",
		tests: "TestParse", in: "internal/figures",
	},
	{
		name: "figures-of-a-changed-tree", fault: "figures are published under a commit that has other code",
		file: "bench/publish.go", old: "if !clean && !p.quick {", new: "if clean && !p.quick && commit == \"\" {",
		tests: "TestPublish_MeasuresNothing", in: "bench",
	},
	{
		name: "figures-of-a-tree-that-changes-later", fault: "the tree may change while it is measured",
		file: "bench/publish.go", old: "(now != commit || !clean)", new: "(now != commit || !clean && commit == \"\")",
		tests: "TestPublish_WritesNothingIfTheTree", in: "bench",
	},
	{
		name: "figures-of-another-place", fault: "a value of fewer keys is drawn as if it were of the most",
		file: "bench/internal/report/plot.go", old: "p.Places[place] != c.Last {", new: "c.Last == \"\" {",
		tests: "TestPlot_", in: "bench/internal/report",
	},
	{
		name: "figures-of-fewer-keys", fault: "a run that left tables out, for want of memory, is published",
		file: "bench/publish.go", old: "!p.quick && strings.Contains(stdout.String(), notMeasured)", new: "false",
		tests: "TestPublish_WritesNothingIfAMeasurement", in: "bench",
	},
	{
		name: "figures-that-lack", fault: "a value that was not measured is published as NaN",
		file: "bench/publish.go", old: "(text == report.None || strings.Contains(text, \"NaN\"))", new: "text == report.None",
		tests: "TestPublish_WritesNothingIfAMeasurement", in: "bench",
	},
	{
		name: "figures-of-results-in-the-tree", fault: "the results change the working tree, which is found after all was measured",
		file: "bench/publish.go", old: "exit.ExitCode() == 1 {", new: "exit.ExitCode() == 2 {",
		tests: "TestPublish_MeasuresNothing", in: "bench",
	},
	{
		name: "figures-half-written", fault: "files that could not become documents are left in the tree",
		file: "bench/publish.go", old: "os.Remove(filepath.Join(dir, name) + unfinished)", new: "_ = name",
		tests: "TestPublish_LeavesNothingUnfinished", in: "bench",
	},
	{
		name: "figures-in-one-document-of-two", fault: "a document that cannot be filled does not keep the others from being written",
		file: "bench/publish.go", old: "	if err := errors.Join(faults...); err != nil {\n		return err\n	}\n	const", new: "	const",
		tests: "TestPublish_WritesNothingIfAMeasurement", in: "bench",
	},
}
