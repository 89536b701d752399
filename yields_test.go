//go:build yields

package sash

import "math"

// yielding is whether each atomic operation may yield. A test then takes longer for
// the same number of calls, and meets fewer of the events that it waits for.
const yielding = true

// mostRounds is the highest round that each loop may reach in these tests. The first
// three loops are bounded by themselves. A round of the others is lost only to a step
// that another call makes in a moment of one or a few steps, so they may reach several
// times the highest that a million such calls have reached.
var mostRounds = map[string]int{
	"log.ask": 4, "compound.ask": 4, "tryTakeAll": 4,
	"takeAllLocked under a cap": math.MaxInt, // while other calls have all the room
	"insert":                    256,         // while they take the room that it has made
	"takeAllLocked":             64,
	"acquire":                   64, "lockOwn": 64, "counter.ask": 64, "wide.ask": 64,
	"ask": 64, "lookup": 64, "find": 64, "forget": 64, "makeRoom": 64,
	"Reset": 64, "giveBack": 64, "spend": 64, "appendCell": 64, "appendKey": 64, "cells.lock": 64,
}
