//go:build amd64 && !race && !yields && !schedules

package sash

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hotPath lists the functions that an Allow, a Take, a Peek or a TakeAll of tracked keys
// runs through, each with the functions that it calls. A function of an internal package
// has the name of the package in front. All other calls are inlined. A call costs about
// 2 ns, and a whole decision 20 to 30 ns.
var hotPath = map[string]string{
	"(*Limiter).AllowN":               "(*Limiter).allowSlow, (*ruleset).tryFast, (*slidingCounter).charge, (*slidingLog).tryFast, (*slidingParts).charge, (*slidingParts).tryTurn, (*tokenBucket).charge, dynamic, memequal, memhash",
	"(*Limiter).Peek":                 "(*Limiter).decide, (*ruleset).tryFast, dynamic, hashmap.(*Map).Load, memhash",
	"(*Limiter).PeekAll":              "(*Limiter).takeAll, (*Limiter).targets, (*fastTargets).deny, (*fastTargets).gather, (*fastTargets).tell, dynamic",
	"(*Limiter).Take":                 "(*Limiter).takeSlow, (*ruleset).tryFast, (*slidingCounter).charge, (*slidingCounter).outcome, (*slidingLog).tryFast, (*slidingParts).charge, (*slidingParts).denial, (*slidingParts).tryTurn, (*tokenBucket).charge, (*tokenBucket).outcome, dynamic, memequal, memhash",
	"(*Limiter).TakeAll":              "(*Limiter).observe, (*Limiter).takeAll, (*Limiter).targets, (*fastTargets).charge, (*fastTargets).deny, (*fastTargets).gather, dynamic",
	"(*Limiter).TakeThenPeek":         "(*Limiter).decide, (*Limiter).decideNow, (*Limiter).observe, (*ruleset).tryFast, Limit, dynamic, hashmap.(*Map).Load, memhash",
	"(*Limiter).TakeLeaving":          "(*Limiter).Take, (*Limiter).decide, (*Limiter).observe, (*ruleset).tryLeaving, dynamic, hashmap.(*Map).Load, memhash",
	"(*Limiter).TakeUpTo":             "(*Limiter).Take, (*Limiter).decide, (*Limiter).observe, (*ruleset).tryUpTo, dynamic, hashmap.(*Map).Load, memhash",
	"(*Limiter).allowSlow":            "(*Limiter).decide, (*Limiter).takeSlow, (*ruleset).tryFast, hashmap.(*Map).Load",
	"(*Limiter).applyAll":             "(*Limiter).applyOne, noteCrossings",
	"(*Limiter).applyOne":             "(*Limiter).refused, (*multiEntry).reserved, (*ruleset).apply, (*ruleset).freshEntry",
	"(*Limiter).decide":               "(*Limiter).confirmAbsent, (*Limiter).convert, (*Limiter).decideFresh, (*Limiter).decideUnplaced, (*Limiter).evictFor, (*Limiter).insert, (*Limiter).lookup, (*generation).resizeLog, (*generation).resolve, (*ruleset).decide, (*ruleset).decideUpTo, (*ruleset).holds, (*sharded).compareAndDelete, (*sharded).keyOf, dynamic",
	"(*Limiter).decideNow":            "(*Limiter).decide, dynamic, hashmap.(*Map).Load, memhash",
	"(*Limiter).readAll":              "(*entry).loadUnlocked, (*sharded).compareAndDelete, admitAll",
	"(*Limiter).takeAll":              "(*Limiter).removeUnused, (*Limiter).takeAllLocked, (*Limiter).tryTakeAll",
	"(*Limiter).takeSlow":             "(*Limiter).decide, (*Limiter).observe, (*ruleset).tryFast, hashmap.(*Map).Load",
	"(*Limiter).tryTakeAll":           "(*Limiter).applyAll, (*Limiter).confirmFresh, (*Limiter).ensureHolds, (*Limiter).insertMissing, (*Limiter).placeAll, (*Limiter).readAll, (*Limiter).validateAll, dynamic, ensureRoomForAll, tryLockAll",
	"(*entry).loadUnlocked":           "mcall",
	"(*fastTargets).apply":            "(*ruleset).chargeTried",
	"(*fastTargets).gather":           "(*ruleset).tryFast, gcWriteBarrier2, hashmap.(*Map).Load, memhash",
	"(*multiEntry).apply":             "(*limitState).store, dynamic",
	"(*multiEntry).chargeTried":       "dynamic, gcWriteBarrier2",
	"(*multiEntry).try":               "dynamic",
	"(*multiEntry).tryFast":           "(*multiEntry).apply, (*multiEntry).chargeTried, (*multiEntry).try",
	"(*ruleset).admits":               "(*ruleset).stateOf, dynamic",
	"(*ruleset).apply":                "(*multiEntry).apply, (*ruleset).stateOf, (*ruleset).tellNext, dynamic",
	"(*ruleset).chargeTried":          "(*multiEntry).chargeTried, (*slidingLog).chargeRing, (*slidingParts).chargeEntry, dynamic, gcWriteBarrier2",
	"(*ruleset).decide":               "(*ruleset).decideVersion, (*ruleset).decideWord",
	"(*ruleset).decideVersion":        "(*entry).loadUnlocked, (*ruleset).admits, (*ruleset).apply, (*ruleset).charges, (*ruleset).decideLocked, (*ruleset).ensureRoom",
	"(*ruleset).decideWord":           "(*entry).loadUnlocked, (*ruleset).tellNext, dynamic",
	"(*ruleset).ensureRoom":           "(*multiEntry).ensureRoom, (*ruleset).isOutgrown, mcall",
	"(*ruleset).stateOf":              "(*slidingParts).stateOf, dynamic",
	"(*ruleset).tellNext":             "dynamic",
	"(*ruleset).tryFast":              "(*multiEntry).tryFast, (*slidingLog).tryFast, (*slidingParts).tryFast, dynamic",
	"(*slidingCounter).admits":        "(*slidingCounter).admitsAt, (*slidingCounter).position",
	"(*slidingCounter).apply":         "(*slidingCounter).admitsAt, (*slidingCounter).position, window.Counter.ResetAfter, window.Counter.RetryAfter",
	"(*slidingCounter).charge":        "",
	"(*slidingCounter).chargeTried":   "(*slidingCounter).outcomeAfter",
	"(*slidingCounter).charged":       "(*slidingCounter).outcomeAfter",
	"(*slidingCounter).outcome":       "window.Counter.ResetAfter, window.Counter.RetryAfterDenial",
	"(*slidingCounter).outcomeAfter":  "",
	"(*slidingCounter).position":      "",
	"(*slidingCounter).try":           "",
	"(*slidingLog).admits":            "(*ring).view, (*slidingLog).evaluate",
	"(*slidingLog).apply":             "(*ring).totalAt, (*ring).view, (*slidingLog).evaluate, (*slidingLog).outcome, (*slidingLog).trim, charging.charge, ringView.charging",
	"(*slidingLog).chargeRing":        "(*slidingLog).fastCharging, charging.charge, window.Ticks.Until",
	"(*slidingLog).chargeTried":       "(*slidingLog).chargeRing",
	"(*slidingLog).evaluate":          "(*slidingLog).usedSince, ringView.firstLive, ringView.newest",
	"(*slidingLog).fastCharging":      "",
	"(*slidingLog).outcome":           "(*slidingLog).resetAfter, (*slidingLog).retryAfter",
	"(*slidingLog).resetAfter":        "(*ringView).search, window.Ticks.Until",
	"(*slidingLog).retryAfter":        "(*slidingLog).freedAt, window.Ticks.Until",
	"(*slidingLog).try":               "(*slidingLog).fastCharging",
	"(*slidingLog).tryFast":           "(*slidingLog).fastCharging, (*slidingLog).outcome, (*slidingLog).retryAfter, charging.before, charging.charge, window.Ticks.Until",
	"(*tokenBucket).admits":           "window.TokenBucket.Lack",
	"(*tokenBucket).apply":            "(*tokenBucket).cost, window.TokenBucket.Charge, window.TokenBucket.Lack, window.TokenBucket.Remaining, window.TokenBucket.RetryAfter, window.TokenBucket.until",
	"(*tokenBucket).charge":           "",
	"(*tokenBucket).chargeTried":      "(*limitState).store, (*lineage).note, window.TokenBucket.Charge, window.TokenBucket.Lack, window.TokenBucket.Remaining, window.TokenBucket.until",
	"(*tokenBucket).charged":          "",
	"(*tokenBucket).cost":             "",
	"(*tokenBucket).outcome":          "",
	"(*tokenBucket).try":              "window.TokenBucket.Lack",
	"charging.charge":                 "",
	"hashmap.(*Entry).HasName":        "memequal",
	"hashmap.(*Map).Load":             "hashmap.(*Entry).HasName, hashmap.(*Table).find",
	"hashmap.(*Table).find":           "hashmap.(*Entry).HasName",
	"ringView.firstLive":              "(*ringView).search",
	"tsc.(*Unordered).Now":            "tsc.(*Clock).renew, tsc.readUnordered",
	"window.Counter.RetryAfterDenial": "",
}

// The test fails if a function has become too large to be inlined, or if a call was added.
// A benchmark might not show either.
func TestHotPath_CallsNoMoreThanItIsMeantTo(t *testing.T) {
	if testing.Short() || testing.CoverMode() != "" {
		t.Skip("reads the machine code of an ordinary build, which takes seconds")
	}
	exe := filepath.Join(t.TempDir(), "test") // the binary that go test itself runs has no symbols
	built, err := exec.Command("go", "test", "-c", "-o", exe, ".").CombinedOutput()
	require.NoError(t, err, "%s", built)
	var names []string
	for name := range hotPath {
		names = append(names, regexp.QuoteMeta(name))
	}
	code, err := exec.Command("go", "tool", "objdump", "-s", `/(sash\.|sash/internal/)(`+strings.Join(names, "|")+`)$`, exe).Output()
	require.NoError(t, err)
	require.Equal(t, hotPath, callsIn(string(code)))
}

// callsIn returns the functions in disassembled code, each with the functions that it calls,
// in the order of their names. A call through an interface or a func value is "dynamic".
// Panics and the growth of the stack do not count.
func callsIn(code string) map[string]string {
	calls, name := map[string][]string{}, ""
	for line := range strings.Lines(code) {
		if text := regexp.MustCompile(`^TEXT \S*/(?:sash\.|sash/internal/)(\S+)\(SB\)`).FindStringSubmatch(line); text != nil {
			name = text[1]
			calls[name] = nil
		}
		call := regexp.MustCompile(`\tCALL (\S+)`).FindStringSubmatch(line)
		if call == nil {
			continue
		}
		callee := call[1][strings.LastIndex(call[1], "/")+1:]
		callee = regexp.MustCompile(`^(sash|runtime)\.|\(SB\)$|\.abi0\(SB\)$`).ReplaceAllString(callee, "")
		switch {
		case strings.HasPrefix(callee, "panic"), callee == "gopanic", strings.HasPrefix(callee, "morestack"):
			continue
		case regexp.MustCompile(`^[A-Z0-9]+$`).MatchString(callee):
			callee = "dynamic"
		}
		calls[name] = append(calls[name], callee)
	}
	all := map[string]string{}
	for name, callees := range calls {
		slices.Sort(callees)
		all[name] = strings.Join(slices.Compact(callees), ", ")
	}
	return all
}
