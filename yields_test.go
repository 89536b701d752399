//go:build yields

package sash

import "math"

// yielding reports whether each atomic operation may yield. Then a test takes longer for
// the same number of calls, and sees fewer of the events that it waits for.
const yielding = true

// maxRounds holds the number of rounds that each loop may take in these tests. The first
// three loops have a bound of their own. The other loops start over only if another call
// makes a step during a few of their own steps. So each has several times the highest number
// of rounds seen in a million calls.
var maxRounds = map[string]int{
	"decideVersion": 4, "tryTakeAll": 4,
	"takeAllLocked under a cap": math.MaxInt, // while other calls take all the room
	"insertEntry":               256,         // while they take the room that it made
	"takeAllLocked":             64,
	"lock":                      64, "lockOwn": 64, "decideWord": 64, "beginResize": 64,
	"decide": 64, "lookup": 64, "find": 64, "raiseFloor": 64, "makeRoom": 64, "lockChanges": 64,
	"Reset": 64, "giveBack": 64, "spend": 64, "seed": 64, "appendEntry": 64, "appendKey": 64, "forWriting": 64, "hashMap.lock": 64,
}
