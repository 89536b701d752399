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
	"(*Limiter).AllowN":               "(*Limiter).allowSlow, (*rule).takeFastBucket, (*rule).tryFast, (*rule).tryFastLog, (*ruleset).tryFast, dynamic, memequal, memhash",
	"(*Limiter).Peek":                 "(*Limiter).decide, (*ruleset).peekFast, dynamic, hashmap.(*Map).Load, memhash",
	"(*Limiter).PeekAll":              "(*Limiter).takeAll, (*Limiter).targets, (*fastTargets).apply, (*fastTargets).gather, dynamic",
	"(*Limiter).Take":                 "(*Limiter).takeSlow, (*rule).decideFast, (*rule).deniedFast, (*rule).fastBucketDecision, (*rule).takeFast, (*rule).takeFastBucket, (*rule).tryFastLog, (*ruleset).tryFast, dynamic, memequal, memhash",
	"(*Limiter).TakeAll":              "(*Limiter).observe, (*Limiter).takeAll, (*Limiter).targets, (*fastTargets).apply, (*fastTargets).gather, dynamic",
	"(*Limiter).TakeThenPeek":         "(*Limiter).decide, (*Limiter).decideNow, (*Limiter).observe, (*ruleset).tryFast, Limit, dynamic, hashmap.(*Map).Load, memhash",
	"(*Limiter).allowSlow":            "(*Limiter).decide, (*Limiter).observe, (*ruleset).tryFast, hashmap.(*Map).Load",
	"(*Limiter).applyAll":             "(*Limiter).applyOne",
	"(*Limiter).applyOne":             "(*Limiter).refused, (*multiEntry).reserved, (*ruleset).apply",
	"(*Limiter).decide":               "(*Limiter).confirmAbsent, (*Limiter).convert, (*Limiter).decideUnplaced, (*Limiter).evictFor, (*Limiter).insert, (*Limiter).lookup, (*generation).resolve, (*ruleset).decide, (*ruleset).holds, (*sharded).compareAndDelete, (*sharded).keyOf, dynamic",
	"(*Limiter).decideNow":            "(*Limiter).decide, dynamic, hashmap.(*Map).Load, memhash",
	"(*Limiter).readAll":              "(*entry).loadUnlocked, (*sharded).compareAndDelete, admitAll",
	"(*Limiter).takeAll":              "(*Limiter).takeAllLocked, (*Limiter).tryTakeAll",
	"(*Limiter).takeSlow":             "(*Limiter).decide, (*Limiter).observe, (*ruleset).tryFast, hashmap.(*Map).Load",
	"(*Limiter).tryTakeAll":           "(*Limiter).applyAll, (*Limiter).confirmFresh, (*Limiter).ensureHolds, (*Limiter).insertMissing, (*Limiter).placeAll, (*Limiter).readAll, (*Limiter).validateAll, dynamic, ensureRoomForAll, tryLockAll",
	"(*entry).loadUnlocked":           "mcall",
	"(*fastTargets).apply":            "(*ruleset).applyFast",
	"(*fastTargets).gather":           "(*ruleset).admitsFast, gcWriteBarrier2, hashmap.(*Map).Load, memhash",
	"(*multiEntry).admits":            "(*rule).admitsState",
	"(*multiEntry).admitsFast":        "(*rule).stateAdmitsFast",
	"(*multiEntry).apply":             "(*rule).applyState",
	"(*multiEntry).decide":            "(*entry).loadUnlocked, (*multiEntry).admits, (*multiEntry).apply, (*multiEntry).ensureRoom, (*ruleset).decideLocked",
	"(*multiEntry).tryFast":           "(*multiEntry).admitsFast, (*rule).applyStateFast",
	"(*remainder).joinWindow":         "gcWriteBarrier2",
	"(*rule).admits":                  "(*rule).position",
	"(*rule).admitsDebt":              "window.TokenBucket.Lack",
	"(*rule).admitsState":             "(*rule).admitsDebt, (*rule).evaluateLog, (*rule).position",
	"(*rule).applyBucketFast":         "gcWriteBarrier2",
	"(*rule).applyDebt":               "(*rule).debtCost, (*rule).debtDecision, window.TokenBucket.Charge, window.TokenBucket.Lack",
	"(*rule).applyRingFast":           "(*rule).fastCharging, charging.charge, gcWriteBarrier2, window.Ticks.Until",
	"(*rule).applyStateFast":          "(*lineage).note, (*remainder).joinWindow, (*rule).applyRingFast, gcWriteBarrier2, window.TokenBucket.Charge, window.TokenBucket.Lack, window.TokenBucket.Remaining, window.TokenBucket.until",
	"(*rule).applyWindow":             "(*rule).counterDecision, (*rule).position",
	"(*rule).bucketAdmitsFast":        "",
	"(*rule).counterDecision":         "window.Counter.ResetAfter, window.Counter.RetryAfter",
	"(*rule).decideBucket":            "(*debtLayout).packCharged, (*debtLayout).unpack, (*entry).loadUnlocked, (*rule).admitsDebt, (*rule).applyDebt",
	"(*rule).decideCounter":           "(*entry).loadUnlocked, (*rule).counterDecision, (*rule).position",
	"(*rule).decideFast":              "(*rule).fastDecision",
	"(*rule).deniedFast":              "window.Counter.ResetAfter, window.Counter.RetryAfterDenial",
	"(*rule).evaluateLog":             "(*rule).usedSince, ringView.firstLive, ringView.newest",
	"(*rule).fastBucketDecision":      "",
	"(*rule).fastCharging":            "",
	"(*rule).fastDecision":            "window.Counter.ResetAfter, window.Counter.RetryAfterDenial",
	"(*rule).logDecision":             "(*rule).logResetAfter, (*rule).logRetryAfter",
	"(*rule).position":                "(*rule).locate",
	"(*rule).ringAdmitsFast":          "(*rule).fastCharging",
	"(*rule).stateAdmitsFast":         "(*rule).admitsDebt, (*rule).ringAdmitsFast, (*rule).windowAdmitsFast",
	"(*rule).takeFast":                "",
	"(*rule).takeFastBucket":          "",
	"(*rule).tryFast":                 "",
	"(*rule).tryFastBucket":           "(*debtLayout).amount, (*rule).fastBucketDecision, (*rule).takeFastBucket, window.TokenBucket.RetryAfter",
	"(*rule).tryFastLog":              "(*rule).fastCharging, (*rule).logDecision, charging.before, charging.charge, window.Ticks.Until",
	"(*rule).windowAdmitsFast":        "",
	"(*ruleset).admits":               "(*debtLayout).unpack, (*multiEntry).admits, (*rule).admits, (*rule).admitsDebt, (*rule).evaluateLog",
	"(*ruleset).admitsFast":           "(*multiEntry).admitsFast, (*rule).bucketAdmitsFast, (*rule).ringAdmitsFast, (*rule).windowAdmitsFast",
	"(*ruleset).apply":                "(*debtLayout).packCharged, (*debtLayout).unpack, (*multiEntry).apply, (*rule).applyDebt, (*rule).applyRing, (*rule).applyWindow",
	"(*ruleset).applyFast":            "(*remainder).joinWindow, (*rule).applyBucketFast, (*rule).applyRingFast, (*rule).applyStateFast",
	"(*ruleset).decide":               "(*multiEntry).decide, (*rule).decideBucket, (*rule).decideCounter, (*ruleset).decideLog",
	"(*ruleset).decideLog":            "(*entry).loadUnlocked, (*logEntry).tryAppend, (*rule).evaluateLog, (*rule).logDecision, (*ruleset).decideLocked, mcall",
	"(*ruleset).peekFast":             "(*rule).decideFast, (*ruleset).admitsFast, (*ruleset).applyFast",
	"(*ruleset).tryFast":              "(*multiEntry).tryFast, (*rule).decideFast, (*rule).tryFast, (*rule).tryFastBucket, (*rule).tryFastLog",
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
