// Package fleet holds random histories of several processes that share the counts of one
// Redis server by package sashredis. The right answers come from package reference, which
// defines what a limit means without any of sash's code.
//
// The processes are goroutines with a limiter and connections each, or programs:
//
//	go test ./fuzz/fleet -fleet 1000 -timeout 60m
//
// A history is linearizable if there is an order of its calls in which each answer is the answer of
// the reference, to the unit and the microsecond, at an instant of the server's clock while
// the call ran. The instants are those that the server answers; that they lie between the
// beginning and the end of the round trip is checked.
//
// The tests need redis-server or valkey-server in PATH. Without one they are skipped, unless
// the environment variable SASH_REDIS is "required".
package fleet
