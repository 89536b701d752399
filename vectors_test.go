package sash

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/vectors"
)

// sash gives each call the answer of its vector. The order of the limits and of the keys
// makes no difference.
func TestVectors_AreAnsweredAlike(t *testing.T) {
	all := vectors.Read(t, ".")
	for _, order := range []string{"as given", "reversed", "shuffled"} {
		rng := rand.New(rand.NewPCG(1, 1))
		reorder := func(n int, swap func(i, j int)) {
			switch order {
			case "reversed":
				for i := range n / 2 {
					swap(i, n-1-i)
				}
			case "shuffled":
				rng.Shuffle(n, swap)
			}
		}
		answered, denied := 0, 0
		var l *Limiter
		clock := NewManualClock(0)
		for i, v := range all {
			if i == 0 || all[i-1].Seq != v.Seq {
				reorder(len(v.Limits), func(i, j int) { v.Limits[i], v.Limits[j] = v.Limits[j], v.Limits[i] })
				options := []Option{WithClock(clock)}
				for _, l := range v.Limits {
					options = append(options, Per(l.Count, l.Window).Buckets(l.Precision))
				}
				l = newTest(t, options...)
			}
			reorder(len(v.Keys), func(i, j int) { v.Keys[i], v.Keys[j] = v.Keys[j], v.Keys[i] })
			clock.Set(int64(v.Now))
			d := l.TakeAll(v.Keys, v.Weight)
			require.Equal(t, v.Over == 0, d.Allowed, "%s, call %d: %+v", order, i+1, v)
			answered++
			denied += v.Over
		}
		t.Logf("%s: %d calls answered alike, %d of them denied", order, answered, denied)
		require.Equal(t, 7490, answered)
	}
}
