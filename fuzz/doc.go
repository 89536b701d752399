// Package fuzz holds fuzz targets for sash. What an answer must be comes from
// package reference, which says what a limit means without any of sash's code.
//
//	go test -run '^$' -fuzz FuzzParseLimit -fuzztime 30s
//	go test -run '^$' -fuzz FuzzSequence -fuzztime 30s -fuzzminimizetime 20x
//	go test -run '^$' -fuzz FuzzPolicy -fuzztime 30s -fuzzminimizetime 20x
//	go test -run '^$' -fuzz FuzzConcurrent -fuzztime 30s -fuzzminimizetime 20x
//	go test -run '^$' -fuzz FuzzRestore -fuzztime 30s -fuzzminimizetime 20x
//
// Histories, of a few callers at once, are planned at random and held against package
// reference, in the usual build and in one where every atomic operation may yield:
//
//	go test -run Histories -histories 120000 -timeout 60m
//	go test -tags yields -run Histories -histories 60000 -timeout 60m
//
// In that build, SASH_YIELD_EVERY=n in the environment makes one operation in n yield.
//
// The short minimization matters: which lines an input covers depends on the
// hash seed and on the scheduler, and the fuzzer else spends a minute at a time
// on making an input smaller that covers something new only now and then.
//
// Plain go test replays the seeds in testdata/fuzz: the boundary cases that tables in
// this package spell out by name, written by
//
//	go test -run TestSeeds -write-seeds
//
// What fuzzing finds is added to those tables, with a name.
package fuzz
