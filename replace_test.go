package sash

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/bridge"
)

// byPrefix is a WithLimitsFor that gives keys limits by what their names begin with.
func byPrefix(limits map[string]Limit) func(key string) []Limit {
	return func(key string) []Limit {
		for prefix, limit := range limits {
			if strings.HasPrefix(key, prefix) {
				return []Limit{limit}
			}
		}
		return nil
	}
}

// atOnce is a switchOver that keeps nobody away.
func atOnce(publish func() bool) { publish() }

// replaceWith replaces the limits and the setup of l, as httplimit does.
func replaceWith(l *Limiter, limitsFor func(key string) []Limit, limits ...Limit) {
	l.replace(limits, &setup{limitsFor: limitsFor, interval: -1}, atOnce)
}

// Tracked keys get the limits of the new setup, and what they have taken counts.
func TestReplace_LimitsOfTrackedKeysFollow(t *testing.T) {
	everyKind(t, PerMinute(10), func(t *testing.T, l *Limiter, clock *ManualClock) {
		limit := l.rule().Limit
		twice, thrice := limit, limit
		if limit.Algorithm == TokenBucket {
			twice.Burst, thrice.Burst = 20, 30
		} else {
			twice.Count, thrice.Count = 20, 30
		}
		replaceWith(l, byPrefix(map[string]Limit{"b": twice}), limit)
		require.NoError(t, l.SetLimits("set", thrice))
		for _, key := range []string{"a", "b", "set"} {
			require.True(t, l.AllowN(key, 4))
		}
		left := func(key string) int64 { return l.Peek(key, 0).Remaining }
		require.Equal(t, []int64{6, 16, 26}, []int64{left("a"), left("b"), left("set")})

		replaceWith(l, byPrefix(map[string]Limit{"a": twice}), thrice)
		require.Equal(t, []int64{16, 26, 26, 30}, []int64{left("a"), left("b"), left("set"), left("new")})
		require.Equal(t, []Limit{thrice}, l.Limits())
		require.Equal(t, 3, l.Len())

		// Reconfigure asks nobody for the limits of keys that are tracked.
		require.NoError(t, l.Reconfigure(limit))
		require.Equal(t, []int64{16, 6, 26}, []int64{left("a"), left("b"), left("set")})
		require.NoError(t, l.SetLimits("set"))
		require.EqualValues(t, 6, left("set"))
		clock.Advance(time.Hour)
		require.Equal(t, 3, l.Sweep())
	})
}

// Keys that have limits of their own keep them in a Reconfigure, whatever WithLimitsFor would
// return by now.
func TestReconfigure_AsksForNoTrackedKey(t *testing.T) {
	asked, limit := 0, PerMinute(20)
	l := newTest(t, PerMinute(10), WithClock(NewManualClock(0)), WithLimitsFor(func(string) []Limit {
		asked++
		return []Limit{limit}
	}))
	require.True(t, l.Allow("k"))
	limit = PerMinute(30)
	require.NoError(t, l.Reconfigure(PerMinute(11)))
	require.EqualValues(t, 19, l.Peek("k", 0).Remaining)
	require.Equal(t, 1, asked)
}

// A key that has no limit any more is forgotten. So is one whose limits are wrong: it is denied,
// and asked for again.
func TestReplace_KeysThatAreNotTrackedAnyMore(t *testing.T) {
	for _, options := range [][]Option{nil, {WithMaxKeys(10, DenyNew)}} {
		l := newTest(t, append(options, PerMinute(10), WithClock(NewManualClock(0)))...)
		for _, key := range []string{"free", "wrong", "zero", "plain", "set"} {
			require.True(t, l.AllowN(key, 4))
		}
		require.NoError(t, l.SetLimits("set", PerMinute(5)))
		replaceWith(l, byPrefix(map[string]Limit{"free": Unlimited(), "set": Unlimited(), "wrong": PerMinute(-1), "zero": PerMinute(0)}), PerMinute(10))
		require.Equal(t, 3, l.Len(), "zero, plain and set")
		require.True(t, l.AllowN("free", 1000))
		require.False(t, l.Allow("wrong"))
		require.EqualValues(t, 1, l.Stats().Invalid)
		require.False(t, l.Allow("zero"))
		require.EqualValues(t, 1, l.Peek("set", 0).Remaining, "what SetLimits says takes precedence")

		replaceWith(l, nil, PerMinute(10))
		for key, left := range map[string]int64{"free": 10, "wrong": 10, "zero": 6, "plain": 6, "set": 1} {
			require.Equal(t, left, l.Peek(key, 0).Remaining, key)
		}
		replaceWith(l, byPrefix(map[string]Limit{"p": PerMinute(7)}), Unlimited())
		require.Equal(t, 2, l.Len(), "plain and set")
		require.EqualValues(t, 3, l.Peek("plain", 0).Remaining)
	}
}

// A reservation of a key whose limits follow the setup is settled under the new ones.
func TestReplace_KeepsReservations(t *testing.T) {
	l := newTest(t, PerMinute(10).Log(), WithClock(NewManualClock(0)))
	r, _ := l.Reserve("b", 5)
	gone, _ := l.Reserve("free", 5)
	replaceWith(l, byPrefix(map[string]Limit{"b": PerMinute(20).Log(), "free": Unlimited()}), PerMinute(10))
	require.EqualValues(t, 15, l.Peek("b", 0).Remaining)
	r.Commit(7)
	require.EqualValues(t, 13, l.Peek("b", 0).Remaining)
	gone.Commit(9)
	require.Equal(t, 1, l.Len())
}

// While another change goes on, publish does nothing, and does not wait: a call that is kept
// away may be what the change waits for.
func TestReplace_DoesNotPublishDuringAnotherChange(t *testing.T) {
	l := newTest(t, PerMinute(10), WithClock(NewManualClock(0)))
	require.True(t, l.AllowN("k", 4))
	tries := 0
	l.replace([]Limit{PerMinute(30)}, &setup{}, func(publish func() bool) {
		switch tries++; tries {
		case 1: // a Snapshot, which holds the lock
			l.Snapshot(writerFunc(func(b []byte) (int, error) {
				require.False(t, publish())
				return len(b), nil
			}))
		case 2: // a change that has ended
			require.NoError(t, l.Reconfigure(PerMinute(20)))
			require.True(t, l.AllowN("k", 5))
			require.False(t, publish())
			require.EqualValues(t, 11, l.Peek("k", 0).Remaining)
		default:
			require.True(t, publish())
			require.EqualValues(t, 21, l.Peek("k", 0).Remaining, "at once, before the keys are moved")
		}
	})
	require.Equal(t, 3, tries)
	require.EqualValues(t, 21, l.Peek("k", 0).Remaining)
	require.NoError(t, l.Reconfigure(PerMinute(40)), "the lock is free again")
}

// A SetLimits that takes the limits of a key away, and a first call on a key, follow the
// WithLimitsFor that counts when they take effect, not the one that they have asked first.
func TestReplace_WhileTheFormerSetupIsAsked(t *testing.T) {
	for name, call := range map[string]func(l *Limiter) error{
		"SetLimits": func(l *Limiter) error { return l.SetLimits("k") },
		"Take": func(l *Limiter) error {
			if d := l.Take("k", 1); d.Limit != PerMinute(7) {
				return errors.New(d.Limit.String())
			}
			return nil
		},
		"TakeAll": func(l *Limiter) error {
			if d := l.TakeAll([]string{"k", "other"}, 1); d.Limit != PerMinute(7) {
				return errors.New(d.Limit.String())
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var l *Limiter
			replaced := false
			l = newTest(t, PerMinute(50), WithClock(NewManualClock(0)), WithLimitsFor(func(key string) []Limit {
				if !replaced && key == "k" {
					replaced = true
					replaceWith(l, byPrefix(map[string]Limit{"k": PerMinute(7)}), PerMinute(9))
				}
				return []Limit{PerMinute(3)}
			}))
			if name == "SetLimits" {
				require.NoError(t, l.SetLimits("k", PerMinute(5)))
				require.True(t, l.Allow("k"))
				replaced = false
			}
			require.NoError(t, call(l))
			require.True(t, replaced)
			require.Equal(t, PerMinute(7), l.Peek("k", 0).Limit)
			require.EqualValues(t, 6, l.Peek("k", 0).Remaining)
		})
	}
}

// A key that a call moves gets the limits of the new setup as well as one that Reconfigure moves.
func TestReplace_ACallMovesItsKeyBeforeTheRest(t *testing.T) {
	everyKind(t, PerMinute(5), func(t *testing.T, l *Limiter, _ *ManualClock) {
		require.True(t, l.AllowN("k", 2))
		old, limit := l.current.Load(), PerMinute(7).Log()
		g := l.successor(old, []Limit{PerMinute(9)}, &setup{limitsFor: byPrefix(map[string]Limit{"k": limit})})
		l.publish(old, g)
		require.Equal(t, limit, l.Peek("k", 0).Limit)
		require.EqualValues(t, 5, l.Peek("k", 0).Remaining)
		require.Zero(t, old.keys.size())
	})
}

func TestReplace_SweepIntervalAndRefusal(t *testing.T) {
	refused := errors.New("refused")
	l := newTest(t, PerSecond(1), internals.RefuseReconfigure(refused))
	internals.Reconfigure(l, bridge.Setup[Limit]{Limits: []Limit{PerSecond(2)}, SweepInterval: 7 * time.Minute}, atOnce)
	require.Equal(t, 7*time.Minute, l.current.Load().sweepInterval())
	require.NoError(t, l.Reconfigure(PerSecond(3)))
	require.Equal(t, 7*time.Minute, l.current.Load().sweepInterval(), "a Reconfigure keeps what was replaced")

	internals.Reconfigure(l, bridge.Setup[Limit]{Limits: []Limit{PerHour(2)}, LimitsFor: byPrefix(map[string]Limit{"k": PerHour(5)}), NoReconfigure: refused}, atOnce)
	require.Equal(t, 10*time.Minute, l.current.Load().sweepInterval())
	require.Equal(t, refused, l.Reconfigure(PerSecond(3)))
	require.Equal(t, PerHour(5), l.Peek("k", 0).Limit)
}

// A Restore keeps the setup, and the limits of the keys that it restores, until that is replaced.
func TestReplace_AfterARestore(t *testing.T) {
	l := newTest(t, PerMinute(10), WithClock(NewManualClock(0)))
	replaceWith(l, byPrefix(map[string]Limit{"k": PerMinute(20)}), PerMinute(10))
	require.True(t, l.AllowN("k", 3))
	var saved strings.Builder
	require.NoError(t, l.Snapshot(&saved))
	require.NoError(t, l.Restore(strings.NewReader(saved.String())))
	require.EqualValues(t, 17, l.Peek("k", 0).Remaining)
	require.EqualValues(t, 20, l.Peek("k2", 0).Remaining)
	replaceWith(l, nil, PerMinute(10))
	require.EqualValues(t, 7, l.Peek("k", 0).Remaining)
}

// However often limits change, keys of equal limits share a ruleset, and no more than those in
// use are kept.
func TestReplace_ForgetsRulesetsThatNoKeyHas(t *testing.T) {
	l := newTest(t, PerMinute(10), WithClock(NewManualClock(0)))
	for i := range int64(5000) {
		replaceWith(l, byPrefix(map[string]Limit{"k": PerMinute(100 + i)}), PerMinute(10))
		l.Allow("k1")
	}
	l.Allow("k2")
	require.Equal(t, 1, l.current.Load().rulesets.forWriting().Size())
	require.Same(t, l.table().load(l.key("k1")).asMulti().ruleset, l.table().load(l.key("k2")).asMulti().ruleset)
}
