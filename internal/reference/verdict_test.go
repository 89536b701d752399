package reference

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// A verdict confirms the answer of a search, and none that differs from it in one field.
func TestVerdict_ConfirmsTheAnswerAlone(t *testing.T) {
	skipUnderRace(t)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		limits := []Limit{
			{Count: rng.Int64N(9), Window: 1 + rng.Int64N(40)}, {Log: true, Count: rng.Int64N(9), Window: 1 + rng.Int64N(40)},
			{Precision: 3, Count: rng.Int64N(9), Window: 3 + rng.Int64N(40)}, {Burst: 1 + rng.Int64N(9), Count: 1 + rng.Int64N(9), Window: 1 + rng.Int64N(40)},
		}
		rng.Shuffle(len(limits), func(i, j int) { limits[i], limits[j] = limits[j], limits[i] })
		table, now := NewTable(limits[:1+rng.IntN(3)]), int64(0)
		for range 20 {
			now += rng.Int64N(12) - 1
			n, keys, other := rng.Int64N(5)-1, []string{"a", "b"}[:1+rng.IntN(2)], table.Copy()
			if rng.IntN(3) == 0 {
				leave := rng.Int64N(5) - 1
				table, other = table.Leaving(leave), other.Leaving(leave)
			}
			var want Answer
			var v Verdict
			switch rng.IntN(3) {
			case 0:
				want, v = table.Peek(now, n, keys...), table.Consider(now, n, keys...)
			case 1:
				want, v = table.Take(now, n, keys...), other.Decide(now, n, keys...)
			default:
				_, want = table.ReserveAll(now, n, keys...)
				_, v = other.DecideReserve(now, n, keys...)
			}
			require.True(t, table.Equal(other) || v.n < 0)
			require.Equal(t, want, v.Answer())
			require.True(t, v.Confirms(want), "%+v", want)
			require.True(t, want.Allowed || v.AdmitsAfter(want.RetryAfter) && !v.AdmitsAfter(want.RetryAfter-1))
			for _, change := range []func(a *Answer){
				func(a *Answer) { a.Allowed = !a.Allowed }, func(a *Answer) { a.Remaining++ }, func(a *Answer) { a.Remaining-- },
				func(a *Answer) { a.RetryAfter++ }, func(a *Answer) { a.RetryAfter-- }, func(a *Answer) { a.ResetAfter++ },
				func(a *Answer) { a.ResetAfter-- }, func(a *Answer) { a.Deciding++ }, func(a *Answer) { a.DecidingKey = "c" },
			} {
				wrong := want
				change(&wrong)
				require.False(t, v.Confirms(wrong), "%+v is %+v", wrong, want)
			}
		}
	}
}
