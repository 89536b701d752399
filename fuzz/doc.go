// Package fuzz holds fuzz targets and random histories for sash. The right answers come
// from package reference, which defines what a limit means without any of sash's code.
//
// Fuzz targets:
//
//	go test -run '^$' -fuzz FuzzParseLimit -fuzztime 30s
//	go test -run '^$' -fuzz FuzzSequence -fuzztime 30s -fuzzminimizetime 20x
//	go test -run '^$' -fuzz FuzzPolicy -fuzztime 30s -fuzzminimizetime 20x
//	go test -run '^$' -fuzz FuzzRestore -fuzztime 30s -fuzzminimizetime 20x
//
// Histories are random plans of a few concurrent callers. Their answers are checked
// against package reference for linearizability, in the usual build and in one in which
// every atomic operation may yield:
//
//	go test -run Histories -histories 120000 -timeout 60m
//	go test -tags yields -run Histories -histories 60000 -timeout 60m
//
// In that build, SASH_YIELD_EVERY=n in the environment makes one operation in n yield.
//
// The short minimization time matters. The lines that an input covers depend on the hash
// seed and on the scheduler. So an input may cover new lines only now and then, and the
// fuzzer would spend a minute at a time on making it smaller.
//
// Plain go test replays the seeds in testdata/fuzz. They are boundary cases, which tables
// in this package name and spell out. This writes them:
//
//	go test -run TestSeeds -write-seeds
//
// An input found by fuzzing is added to those tables, with a name.
package fuzz
