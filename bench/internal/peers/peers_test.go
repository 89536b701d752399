package peers

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deciding returns all peers that decide.
func deciding() []Peer { return append(append(Field(), Default()), Variants()...) }

func TestPeers_AdmitUpToTheLimitForEachKey(t *testing.T) {
	for _, p := range deciding() {
		t.Run(p.Label(), func(t *testing.T) {
			table := p.New(Quota{Count: 5, Window: 10_000 * time.Hour})
			defer table.Close()
			for _, key := range []string{"a", "b"} {
				for i := range 8 {
					require.Equal(t, i < 5, table.Allow(key), "call %d of %s", i, key)
				}
			}
		})
	}
}

// Take charges as Allow does, from the same units.
func TestPeers_TakeAdmitsWhatAllowWould(t *testing.T) {
	without := []string{}
	for _, p := range deciding() {
		t.Run(p.Label(), func(t *testing.T) {
			table := p.New(Quota{Count: 6, Window: 10_000 * time.Hour})
			defer table.Close()
			if table.Take == nil {
				without = append(without, p.Name)
				return
			}
			for i := range 10 {
				call := table.Take
				if i%2 == 1 {
					call = table.Allow
				}
				require.Equal(t, i < 6, call("a"), "call %d", i)
				require.True(t, i >= 6 || call(fmt.Sprint(i)), "another key")
			}
		})
	}
	require.Equal(t, []string{"httprate", "slidingwindow"}, without)
}

// Compose charges the key that Allow charges.
func TestPeers_ComposeAdmitsWhatAllowWould(t *testing.T) {
	for _, p := range deciding() {
		t.Run(p.Label(), func(t *testing.T) {
			table := p.New(Quota{Count: 6, Window: 10_000 * time.Hour})
			defer table.Close()
			for i := range 10 {
				if i%2 == 0 {
					require.Equal(t, i < 6, table.Compose("a", "bc"), "call %d", i)
				} else {
					require.Equal(t, i < 6, table.Allow("abc"), "call %d", i)
				}
				require.True(t, i >= 6 || table.Compose("ab", "b"), "another key")
			}
		})
	}
}

func TestPeers_ExhaustDeniesThatKeyOnly(t *testing.T) {
	for _, p := range deciding() {
		t.Run(p.Label(), func(t *testing.T) {
			table := p.New(Plenty)
			defer table.Close()
			for i := range 1000 {
				require.True(t, table.Allow(fmt.Sprint(i%10)))
			}
			if table.Exhaust == nil {
				require.Contains(t, []string{"sash-default", "sash-log"}, p.Name)
				return
			}
			table.Exhaust("3")
			for i := range 1000 {
				require.Equal(t, i%10 != 3, table.Allow(fmt.Sprint(i%10)), "key %d", i%10)
			}
			table.Exhaust("3") // with nothing left
			require.False(t, table.Allow("3"))
		})
	}
}

func TestPeers_AreToldApart(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range append(append(deciding(), Floor()), Floors()...) {
		require.False(t, seen[p.Name+" "+p.Clock], "%s on %s", p.Name, p.Clock)
		seen[p.Name+" "+p.Clock] = true
		require.NotEmpty(t, p.Keeps, p.Name)
		require.Positive(t, p.Bytes, p.Name)
		if p.Name != "sash" && p.Name != "sash-large" {
			require.NotEmpty(t, p.Lacks, p.Name)
		}
	}
}

func TestFloors_CountWhatSwaps(t *testing.T) {
	for _, p := range append(Floors(), Floor()) {
		table := p.New(Plenty)
		require.True(t, table.Allow("a"), p.Name) // no swap fails in a single goroutine
		require.True(t, table.Allow("a"), p.Name)
	}
}

// Several goroutines insert keys and charge them, as they do when a table is filled.
func TestPeers_AdmitTheLimitToSeveralGoroutinesTogether(t *testing.T) {
	const goroutines, calls, keys = 4, 400, 50
	for _, p := range deciding() {
		if p.Name == "throttled" {
			continue // it denies after ten lost swaps
		}
		t.Run(p.Label(), func(t *testing.T) {
			table := p.New(Quota{Count: 20, Window: 10_000 * time.Hour})
			defer table.Close()
			var admitted atomic.Int64
			var all sync.WaitGroup
			for range goroutines {
				all.Go(func() {
					for i := range calls {
						if table.Allow(fmt.Sprint(i % keys)) {
							admitted.Add(1)
						}
					}
				})
			}
			all.Wait()
			require.EqualValues(t, 20*keys, admitted.Load())
		})
	}
}

// The quota that is not used up while calls of its keys are measured is one for each number of keys.
func TestPeers_PlentyIsNotUsedUp(t *testing.T) {
	for _, p := range append(deciding(), Floor()) {
		table := p.New(PlentyOf(1))
		for i := range 300_000 {
			require.True(t, table.Allow("a"), "%s, call %d", p.Label(), i)
		}
		table.Close()
	}
}

// The floor uses a word for each key, and each word for few keys.
func TestFloor_UsesManyLines(t *testing.T) {
	p := Floor()
	require.EqualValues(t, 64, p.Bytes, "a cache line")
	lines := make([]line, 4096)
	used := 0
	for i := range len(lines) {
		w := lineOf(lines, 12345, fmt.Sprint(i))
		if w.Load() == 0 {
			used++
		}
		w.Add(1)
	}
	require.Greater(t, used, len(lines)/2)
}
