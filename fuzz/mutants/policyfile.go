package main

// ofPolicyFiles are the faults of policies that follow a file.
var ofPolicyFiles = []mutant{
	{
		name: "watch-reads-once", fault: "a file is read while it is being written",
		file: "httplimit/policyfile/watch.go", old: "now.equal(last) && !now.equal(tried)", new: "(now.equal(last) || last != nil) && !now.equal(tried)",
		tests: "TestWatch_|TestModel_Watch", in: "httplimit/policyfile",
	},
	{
		name: "watch-tells-it-is-gone", fault: "a file that is gone is told of at each reading",
		file: "httplimit/policyfile/watch.go", old: "			tried = now\n", new: "			if now.err == nil {\n				tried = now\n			}\n",
		tests: "TestWatch_|TestModel_Watch", in: "httplimit/policyfile",
	},
	{
		name: "watch-repeats-faults", fault: "the faults of a file are told of at each reading",
		file: "httplimit/policyfile/watch.go", old: "			tried = now\n			w.report(path, limiter, w.apply(path, now, limiter))\n", new: "			err := w.apply(path, now, limiter)\n			if err == nil || now.err != nil {\n				tried = now\n			}\n			w.report(path, limiter, err)\n",
		tests: "TestWatch_|TestModel_Watch", in: "httplimit/policyfile",
	},
	{
		name: "watch-reads-other-paths", fault: "a file is read as if its limiter did not fold paths",
		file: "httplimit/policyfile/watch.go", old: "if limiter.FoldsPaths() {", new: "if false {",
		tests: "TestWatch_", in: "httplimit/policyfile",
	},
}
