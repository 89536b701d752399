package main

// ofSite are faults of the web site of the documents.
var ofSite = []mutant{
	{
		name: "site-without-anchors", fault: "a link to a heading of another page leads to its top",
		file: "site/render.go", old: "to.Path = p.To(q.File)", new: "to.Path, to.Fragment = p.To(q.File), \"\"",
		tests: "TestSite_LinksLead", in: "site",
	},
	{
		name: "site-of-one-anchor-twice", fault: "two headings of the same text have the same anchor",
		file: "site/render.go", old: "used[anchor] > 1", new: "used[anchor] > 2",
		tests: "TestSite_AnchorsAreAsOnGitHub", in: "site",
	},
	{
		name: "site-without-missing-files", fault: "a link to a file that is not there becomes a link into the repository",
		file: "site/render.go", old: "	info, err := fs.Stat(s.root, target)\n	if err != nil {", new: "	info, err := fs.Stat(s.root, target)\n	if err != nil && shown {",
		tests: "TestSite_FaultsAreFound", in: "site",
	},
	{
		name: "site-of-badges", fault: "pages load pictures from elsewhere",
		file: "site/render.go", old: "foreign.ReplaceAllString(rendered.String(), \"$1\")", new: "foreign.ReplaceAllString(rendered.String(), \"$0\")",
		tests: "TestSite_EveryLink|TestSite_LinksLead", in: "site",
	},
	{
		name: "site-of-other-code", fault: "code loses what stands before a keyword",
		file: "site/render.go", old: "done = start + len(text)", new: "done = start + len(text) + 1",
		tests: "TestSite_CodeIsUnchanged", in: "site",
	},
	{
		name: "site-of-untested-programs", fault: "every Go block is said to be tested",
		file: "site/render.go", old: "strings.Contains(\"\\n\"+code, \"\\npackage main\\n\") && strings", new: "strings",
		tests: "TestSite_CodeIsUnchanged", in: "site",
	},
	{
		name: "site-of-named-documents", fault: "a new document of docs is no page",
		file: "site/main.go", old: ", \"docs/*.md\")", new: ")",
		tests: "TestSite_LinksLead", in: "site",
	},
}
