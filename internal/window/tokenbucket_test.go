package window

import (
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func (g gen) tokenBucket() TokenBucket {
	return TokenBucket{
		Count:  g.size(1, 3, 10, 1e15, math.MaxInt64),
		Window: g.size(1, int64(time.Second), int64(365*24*time.Hour), math.MaxInt64),
		Burst:  g.size(1, 10, 1e15, math.MaxInt64),
	}
}

func rational(a, b int64) *big.Rat { return big.NewRat(a, b) }

func (a Amount) big() *big.Int {
	n := new(big.Int).Lsh(new(big.Int).SetUint64(a.Hi), 64)
	return n.Or(n, new(big.Int).SetUint64(a.Lo))
}

// fullAt is the instant at which a bucket of debt d is full, as a rational.
func (b TokenBucket) fullAt(d Debt) *big.Rat {
	wait := new(big.Rat).SetFrac(d.Lack.big(), big.NewInt(b.Count))
	return wait.Add(wait, rational(d.At, 1))
}

// A bucket agrees with its definition in rationals: n units are admitted at t iff
// max(full, t) + n*W/C - t <= B*W/C, and a charge makes the left sum the new full.
func TestTokenBucket_IsItsDefinition(t *testing.T) {
	trials(t, 30_000, func(g gen) {
		b := g.tokenBucket()
		var d Debt
		var full *big.Rat // nil: never charged
		unit := rational(b.Window, b.Count)
		capacity := new(big.Rat).Mul(rational(b.Burst, 1), unit)
		now := g.instant(b.Window)
		for range 6 {
			n := g.upTo(min(b.Burst, 1<<uint(g.IntN(62))))
			after := new(big.Rat).Mul(rational(n, 1), unit)
			if full == nil || full.Cmp(rational(now, 1)) < 0 {
				after.Add(after, rational(now, 1))
			} else {
				after.Add(after, full)
			}
			lackAfter := new(big.Rat).Sub(after, rational(now, 1))
			lack := b.Lack(d, now)
			want := lackAfter.Cmp(capacity) <= 0
			require.Equal(t, want, b.Admits(lack, n), "%+v %+v at %d: %d", b, d, now, n)

			remaining := b.Remaining(lack)
			require.True(t, remaining == 0 || b.Admits(lack, remaining))
			require.False(t, remaining < b.Burst && b.Admits(lack, remaining+1))
			if wait := b.RetryAfter(lack, n); wait < Never {
				later, fits := Add(now, int64(wait))
				if fits {
					require.True(t, b.Admits(b.Lack(d, later), n))
				}
				if wait > 0 {
					require.False(t, want)
					require.False(t, b.Admits(b.Lack(d, later-1), n), "%+v %+v at %d: %d after %d", b, d, now, n, wait)
				}
			} else {
				require.False(t, want)
			}
			if full != nil {
				since, ok := b.Expired(d, now)
				require.Equal(t, full.Cmp(rational(now, 1)) <= 0, ok)
				if ok {
					require.Positive(t, full.Cmp(rational(since-1, 1)))
					require.LessOrEqual(t, full.Cmp(rational(since, 1)), 0)
				}
			}
			if want && n > 0 {
				d, full = b.Charge(d, now, b.Cost(n)), after
				require.Zero(t, full.Cmp(b.fullAt(d)), "%+v %+v", b, d)
				if back := g.upTo(n); g.IntN(4) == 0 {
					d = b.GiveBack(d, b.Cost(back))
					full = new(big.Rat).Sub(full, new(big.Rat).Mul(rational(back, 1), unit))
					if d.Empty() {
						require.LessOrEqual(t, full.Cmp(rational(math.MinInt64, 1)), 0)
						full = nil
					} else {
						require.Zero(t, full.Cmp(b.fullAt(d)), "%+v %+v", b, d)
					}
				}
			}
			switch g.IntN(3) {
			case 0:
				now = Plus(now, g.upTo(b.Window))
			case 1:
				now = Plus(now, -g.upTo(100))
			}
		}
	})
}

func TestAmount_IsExact(t *testing.T) {
	limit := new(big.Int).Lsh(big.NewInt(1), 128)
	most := Amount{math.MaxUint64, math.MaxUint64}
	trials(t, 30_000, func(g gen) {
		a := Amount{g.Uint64() >> g.IntN(65), g.Uint64() >> g.IntN(65)}
		o := Amount{g.Uint64() >> g.IntN(65), g.Uint64() >> g.IntN(65)}
		require.Equal(t, a.big().Cmp(o.big()) < 0, a.Less(o))
		if sum := new(big.Int).Add(a.big(), o.big()); sum.Cmp(limit) < 0 {
			require.Zero(t, sum.Cmp(a.Plus(o).big()))
		} else {
			require.Equal(t, most, a.Plus(o))
		}
		if a.Less(o) {
			require.Zero(t, a.Minus(o))
		} else {
			require.Zero(t, new(big.Int).Sub(a.big(), o.big()).Cmp(a.Minus(o).big()))
		}
		m, d := g.Uint64()>>g.IntN(64), g.Uint64()>>g.IntN(64)|1
		want := new(big.Int).Mul(a.big(), new(big.Int).SetUint64(m))
		want.Add(want, new(big.Int).SetUint64(d-1))
		if want.Div(want, new(big.Int).SetUint64(d)); want.Cmp(limit) < 0 {
			require.Zero(t, want.Cmp(a.MulDiv(m, d).big()), "%v*%d/%d", a, m, d)
		} else {
			require.Equal(t, most, a.MulDiv(m, d))
		}
	})
}

// A bucket that replaces another lacks as many units, or less than a step more.
func TestTokenBucket_InheritsWhatIsLacking(t *testing.T) {
	trials(t, 10_000, func(g gen) {
		from, to := g.tokenBucket(), g.tokenBucket()
		from.Count, from.Window = min(from.Count, 1e15), min(from.Window, 1e17)
		to.Count, to.Window = min(to.Count, 1e15), min(to.Window, 1e17)
		at := g.upTo(1e18)
		d := from.Charge(Debt{}, at, from.Cost(1+g.upTo(1e9)))
		now := at + g.upTo(from.Window)
		lacked := from.Lack(d, now)
		next := to.Inherit(from, d, now)
		if from.Count == to.Count && from.Window == to.Window {
			require.Equal(t, d, next)
			return
		}
		lack := to.Lack(next, now)
		require.Zero(t, new(big.Int).Mod(lack.big(), big.NewInt(to.Step())).Sign(), "whole steps")
		before := new(big.Rat).SetFrac(lacked.big(), big.NewInt(from.Window))
		after := new(big.Rat).SetFrac(lack.big(), big.NewInt(to.Window))
		require.LessOrEqual(t, before.Cmp(after), 0)
		more := new(big.Rat).SetFrac(big.NewInt(to.Step()), big.NewInt(to.Window))
		more.Add(more, rational(1, to.Window))
		require.Negative(t, after.Sub(after, before).Cmp(more))
	})
}

func TestTokenBucket_TimeFor(t *testing.T) {
	b := TokenBucket{Count: 3, Window: int64(time.Second), Burst: 1}
	require.EqualValues(t, 333_333_333, b.TimeFor(1))
	require.EqualValues(t, 666_666_666, b.TimeFor(2))
	require.EqualValues(t, time.Second, b.TimeFor(3))
	require.EqualValues(t, 0, b.TimeFor(0))
	require.Equal(t, Never, TokenBucket{Count: 1, Window: math.MaxInt64, Burst: 1}.TimeFor(2))
	require.Equal(t, Never, TokenBucket{Count: 0, Window: 1}.TimeFor(1))
}
