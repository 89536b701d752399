package sash

import (
	"bytes"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/bridge"
	"github.com/seed-30da4c49/sash/internal/race"
)

// A key that is composed for a call costs nothing if it is tracked: it stays on the stack
// of the caller. Only the reservations keep it.
func TestKeys_DoNotEscape(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the package")
	}
	out, err := exec.Command("go", "build", "-gcflags=-m", ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	leaks := regexp.MustCompile(`(?m)^\./(\w+\.go):\d+:\d+: leaking param(?: content)?: (?:key|keys|name)$`)
	found := map[string]int{}
	for _, leak := range leaks.FindAllStringSubmatch(string(out), -1) {
		found[leak[1]]++
	}
	require.Equal(t, map[string]int{
		"bridge.go":  1, // KeysWithLimits, which gives out the table's own strings
		"holding.go": 1, // takeAllHolding, which may reserve
		"leaving.go": 1, // ReserveLeaving
		"reserve.go": 4, // Reserve, ReserveAll, reserveAll, reservations
		"terms.go":   1, // reserveAllOn
	}, found)

	// A key that is hidden from the compiler may lie on a stack that moves. It moves with the
	// targets that hold it, as long as they lie on a stack, too.
	places := regexp.MustCompile(`(?m)^\./(\w+\.go):\d+:\d+: (\[\]target\{\.\.\.\} (?:does not escape|escapes to heap)|moved to heap: (?:buf|targets|self))$`)
	placed := map[string]int{}
	for _, place := range places.FindAllStringSubmatch(string(out), -1) {
		placed[place[1]+": "+place[2]]++
	}
	require.Equal(t, map[string]int{
		"leaving.go: []target{...} does not escape": 2, // ReserveLeaving, WaitLeaving
		"take.go: []target{...} does not escape":    1, // decideUnplaced
		"reserve.go: []target{...} does not escape": 1, // Reserve
		"wait.go: []target{...} does not escape":    4, // Wait, WaitReserve, waitHolding, leastWaitFor
	}, placed)
}

func TestAllocs_NoneForAComposedKey(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	address, bytes, ctx := "203.0.113.7", []byte("ip:203.0.113.7"), t.Context()
	for name, options := range map[string][]Option{
		"plain":           nil,
		"observer":        {WithObserver(func(string, int64, Decision) {})},
		"cap":             {WithMaxKeys(10, EvictLeastUsed)},
		"overflow":        {WithMaxKeys(10, ShareOverflow)},
		"denied, charged": {WithChargeDenied()},
	} {
		for _, limit := range []Limit{PerMinute(100), PerMinute(100).Counter(), Per(1e15, 1e9).Counter(), PerMinute(1).Log()} {
			l := newTest(t, append([]Option{limit, PerHour(1e6), WithClock(NewManualClock(0))}, options...)...)
			one := newTest(t, append([]Option{limit, WithClock(NewManualClock(0))}, options...)...)
			for _, l := range []*Limiter{l, one} {
				require.NoError(t, l.SetLimits("other", PerDay(7))) // there are overrides
				l.Allow("ip:" + address)
				l.Allow("user:" + address)
				for call, f := range map[string]func(){
					"Allow, composed":     func() { l.Allow("ip:" + address) },
					"Allow, converted":    func() { l.Allow(string(bytes)) },
					"AllowBytes, a stack": func() { var b [14]byte; l.AllowBytes(append(b[:0], bytes...)) },
					"Take, composed":      func() { l.Take("ip:"+address, 1) },
					"Peek, composed":      func() { l.Peek("ip:"+address, 1) },
					"Reset, untracked":    func() { l.Reset("no:" + address) },
					"TakeThenPeek":        func() { l.TakeThenPeek("ip:"+address, 1) },
					"TakeLeaving":         func() { l.TakeLeaving("ip:"+address, 1, 2) },
					"TakeLeaving, Never":  func() { l.TakeLeaving("ip:"+address, 1, 1e17) },
					"TakeUpTo":            func() { l.TakeUpTo("ip:"+address, 3) },
					"TakeAll":             func() { l.TakeAll([]string{"ip:" + address, "user:" + address}, 1) },
					"PeekAll":             func() { l.PeekAll([]string{"ip:" + address, "user:" + address}, 1) },
					"PeekAll, untracked":  func() { l.PeekAll([]string{"no:" + address, "nor:" + address}, 1) },
					"Wait, at once":       func() { l.Wait(ctx, "ip:"+address, 0) },
					"WaitLeaving, 0":      func() { l.WaitLeaving(ctx, "ip:"+address, 0, 0) },
					"WaitAll, at once":    func() { l.WaitAll(ctx, []string{"ip:" + address, "user:" + address}, 0) },
				} {
					require.Zero(t, testing.AllocsPerRun(100, f), "%s, %v, %s", name, limit, call)
				}
			}
		}
	}
}

// The bytes of a key change during a call, at each of its readings of the clock: its caller uses
// the memory for something else meanwhile. The call may count for either name. But each entry has
// the hash of its own name, no name has two, and no call hangs.
func TestKeys_WhoseBytesChangeDuringTheCall(t *testing.T) {
	for method, call := range map[string]func(l *Limiter, key string){
		"Take":        func(l *Limiter, key string) { l.Take(key, 1) },
		"TakeAll":     func(l *Limiter, key string) { l.TakeAll([]string{key, "other", "another"}, 1) },
		"both names":  func(l *Limiter, key string) { l.TakeAll([]string{key, "a", "b"}, 1) },
		"Reserve":     func(l *Limiter, key string) { r, _ := l.Reserve(key, 2); r.Commit(1) },
		"Commit":      func(l *Limiter, key string) { r, _ := l.Reserve(key, 0); r.Commit(1) },
		"ReserveAll":  func(l *Limiter, key string) { l.ReserveAll([]string{key, "a", "b"}, 1) },
		"Wait":        func(l *Limiter, key string) { l.Wait(t.Context(), key, 1) },
		"WaitReserve": func(l *Limiter, key string) { l.WaitReserve(t.Context(), key, 1) },
		"TakeLeaving": func(l *Limiter, key string) { l.TakeLeaving(key, 1, 2) },
		"TakeUpTo":    func(l *Limiter, key string) { l.TakeUpTo(key, 3) },
		"ReserveLeaving": func(l *Limiter, key string) {
			r, _ := l.ReserveLeaving(key, 2, 1)
			r.Commit(1)
		},
		"WaitLeaving": func(l *Limiter, key string) { l.WaitLeaving(t.Context(), key, 1, 1) },
		"Reset":       func(l *Limiter, key string) { l.Allow(key); l.Reset(key) },
		"SetLimits":   func(l *Limiter, key string) { l.Allow(key); l.SetLimits(key, PerHour(9)) },
	} {
		for at := range int64(8) { // the reading at which they change
			for _, options := range [][]Option{nil, {WithMaxKeys(3, EvictLeastUsed)}, {WithMaxKeys(3, DenyNew)}, {WithMaxKeys(3, ShareOverflow)}} {
				name, readings := []byte("a"), int64(0)
				l := newTest(t, append(options, PerMinute(5), WithClock(clockFunc(func() int64 {
					if readings++; readings >= at {
						name[0] = 'b'
					}
					return 0
				})))...)
				call(l, bridge.AsString(name))
				call(l, bridge.AsString(name))
				requireKeysInPlace(t, l, method)
			}
		}
	}
}

// requireKeysInPlace requires that each entry of l is found by its name, and that a snapshot, of
// which no name may be in it twice, can be restored.
func requireKeysInPlace(t *testing.T, l *Limiter, call string) {
	l.table().rangeAll(func(k key, e *entry) bool {
		require.Same(t, e, l.table().load(k), "%s: %q has another entry, or is in another shard", call, k.name)
		require.Zero(t, e.Word.Load()&(dead|locked), call)
		return true
	})
	var saved bytes.Buffer
	require.NoError(t, l.Snapshot(&saved))
	require.NoError(t, l.Restore(&saved), call)
}

// What an observer is given it may keep, and the caller's memory is the caller's again.
func TestObserver_GetsNoMemoryOfTheCaller(t *testing.T) {
	var seen []string
	l := newTest(t, PerMinute(1), WithObserver(func(key string, _ int64, _ Decision) { seen = append(seen, key) }))
	buffer := []byte("0")
	for i := range 3 {
		buffer[0] = byte('0' + i)
		l.TakeBytes(buffer, 5) // denied, and so not tracked
		l.AllowBytes(buffer)
		l.Take(string(buffer), -1)
	}
	buffer[0] = 'x'
	require.Equal(t, []string{"0", "0", "0", "1", "1", "1", "2", "2", "2"}, seen)
}

// The stack that the keys lie on moves during the call, since it grows; the names that are
// compared, and copied for new entries, are the caller's all the same.
func TestKeys_OnAStackThatMoves(t *testing.T) {
	ctx := t.Context()
	for range thorough(200) {
		done := make(chan struct{})
		go func() { // a new goroutine has a small stack
			defer close(done)
			var grow func(depth int)
			l := newTest(t, PerMinute(300), WithMaxKeys(4, ShareOverflow), WithClock(NewManualClock(0)), WithLimitsFor(func(string) []Limit {
				grow(200)
				return nil
			}))
			grow = func(depth int) {
				var frame [128]byte
				if depth > 0 {
					grow(depth - 1)
				}
				runtime.KeepAlive(frame)
			}
			for i := range 6 {
				l.TakeAll([]string{"a" + strconv.Itoa(i), "b" + strconv.Itoa(i)}, 1)
				l.WaitAll(ctx, []string{"a" + strconv.Itoa(i), "c" + strconv.Itoa(i)}, 1)
				l.Allow("c" + strconv.Itoa(i))
			}
			l.table().rangeAll(func(k key, _ *entry) bool {
				if len(k.name) != 2 || !strings.ContainsAny(k.name[:1], "abc") {
					t.Errorf("a key is %q", k.name)
				}
				return true
			})
		}()
		<-done
	}
}
