package window

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/race"
)

// A gen draws random values. Many are small or at the ends of int64.
type gen struct{ *rand.Rand }

// trials runs f for that number of random trials, or for a third of it under -short.
func trials(t *testing.T, n int, f func(g gen)) {
	t.Helper()
	if testing.Short() || race.Enabled { // it sees nothing here
		n /= 3
	}
	g := gen{rand.New(rand.NewPCG(1, 2))}
	for range n {
		if f(g); t.Failed() {
			return
		}
	}
}

// upTo returns a number in [0, n].
func (g gen) upTo(n int64) int64 { return int64(g.Uint64N(uint64(n) + 1)) }

// near returns one of those values, or a number at most 2 away from it.
func (g gen) near(values ...int64) int64 {
	return Plus(values[g.IntN(len(values))], g.upTo(4)-2)
}

// size returns a number of at least 1.
func (g gen) size(values ...int64) int64 {
	switch g.IntN(4) {
	case 0:
		return max(1, int64(g.Uint64()>>(1+g.IntN(63))))
	case 1:
		return max(1, g.near(values...))
	}
	return 1 + g.upTo(20)
}

func (g gen) counter() Counter {
	return Counter{
		Count:  g.size(1, 10, 1e15, math.MaxInt64),
		Window: g.size(1, int64(time.Second), int64(365*24*time.Hour), math.MaxInt64),
	}
}

// instant returns an instant that is often at an end of a window or of int64.
func (g gen) instant(window int64) int64 {
	switch g.IntN(4) {
	case 0:
		return int64(g.Uint64())
	case 1:
		return g.near(math.MinInt64, 0, math.MaxInt64)
	case 2:
		begin, _ := Divide(int64(g.Uint64()), window)
		return g.near(int64(uint64(begin) * uint64(window)))
	}
	return g.upTo(200) - 100
}

// units returns a number of units, which is often at most count.
func (g gen) units(count int64) int64 {
	switch g.IntN(6) {
	case 0:
		return 0
	case 1:
		return max(0, g.near(count, math.MaxInt64))
	case 2:
		return int64(g.Uint64() >> 1)
	}
	return g.upTo(count)
}

// state returns a state that is often of the window of t, or of one next to it.
func (g gen) state(c Counter, t int64) State {
	index, _ := Divide(t, c.Window)
	first, _ := Divide(math.MinInt64, c.Window)
	last, _ := Divide(math.MaxInt64, c.Window)
	if g.IntN(8) == 0 {
		index, _ = Divide(int64(g.Uint64()), c.Window)
	}
	index = min(max(Plus(index, g.upTo(4)-3), first), last)
	return State{Index: index, Prev: g.units(c.Count), Curr: g.units(c.Count)}
}

func plus(a *big.Int, b int64) *big.Int  { return new(big.Int).Add(a, big.NewInt(b)) }
func minus(a *big.Int, b int64) *big.Int { return new(big.Int).Sub(a, big.NewInt(b)) }
func times(a *big.Int, b int64) *big.Int { return new(big.Int).Mul(a, big.NewInt(b)) }

// floor returns floor(t/d) and the remainder.
func floor(t *big.Int, d int64) (quotient, remainder *big.Int) {
	return new(big.Int).DivMod(t, big.NewInt(d), new(big.Int))
}

// clamped returns n, or the end of int64 that it passes.
func clamped(n *big.Int) int64 {
	switch {
	case n.IsInt64():
		return n.Int64()
	case n.Sign() > 0:
		return math.MaxInt64
	}
	return math.MinInt64
}

// A counterModel is a Counter with a state, in integers of any size: by its definition
// alone, at any instant.
type counterModel struct {
	Counter
	State
}

// at returns the counts at t, and the time since the window began. A t before the window
// of the state is taken for its beginning.
func (m counterModel) at(t *big.Int) (prev, curr int64, elapsed *big.Int) {
	index, elapsed := floor(t, m.Window)
	switch d := minus(index, m.Index); {
	case d.Sign() < 0:
		return m.Prev, m.Curr, new(big.Int)
	case d.Sign() == 0:
		return m.Prev, m.Curr, elapsed
	case d.Cmp(big.NewInt(1)) == 0:
		return m.Curr, 0, elapsed
	}
	return 0, 0, elapsed
}

// admits reports whether prev*(W-e) + (curr+n)*W <= Count*W at t.
func (m counterModel) admits(t *big.Int, n int64) bool {
	prev, curr, elapsed := m.at(t)
	sum := new(big.Int).Mul(big.NewInt(prev), new(big.Int).Sub(big.NewInt(m.Window), elapsed))
	sum.Add(sum, times(plus(big.NewInt(curr), n), m.Window))
	return n >= 0 && sum.Cmp(times(big.NewInt(m.Count), m.Window)) <= 0
}

// empty reports whether no unit counts at t.
func (m counterModel) empty(t *big.Int) bool {
	prev, curr, _ := m.at(t)
	return prev == 0 && curr == 0
}

// draw returns a model, an instant, and the position of the model at it.
func (g gen) draw() (m counterModel, t int64, p Position) {
	m.Counter = g.counter()
	t = g.instant(m.Window)
	m.State = g.state(m.Counter, t)
	index, elapsed := m.Locate(t)
	return m, t, m.Advance(m.State, t, index, elapsed)
}

func TestDivide_IsTheFloor(t *testing.T) {
	trials(t, 20_000, func(g gen) {
		d := g.size(1, math.MaxInt64)
		at := g.instant(d)
		quotient, remainder := floor(big.NewInt(at), d)
		q, r := Divide(at, d)
		require.Equal(t, [2]int64{quotient.Int64(), remainder.Int64()}, [2]int64{q, r}, "%d/%d", at, d)
	})
}

func TestAdd_StopsAtTheEnds(t *testing.T) {
	trials(t, 20_000, func(g gen) {
		a, b := g.instant(1), g.instant(1)
		sum := plus(big.NewInt(a), b)
		got, fits := Add(a, b)
		require.Equal(t, clamped(sum), got, "%d + %d", a, b)
		require.Equal(t, sum.IsInt64(), fits, "%d + %d", a, b)
		require.Equal(t, clamped(sum), Plus(a, b), "%d + %d", a, b)

		difference := minus(big.NewInt(a), b)
		got, fits = Sub(a, b)
		require.Equal(t, clamped(difference), got, "%d - %d", a, b)
		require.Equal(t, difference.IsInt64(), fits, "%d - %d", a, b)
	})
}

func TestWait_IsAtMostNever(t *testing.T) {
	trials(t, 20_000, func(g gen) {
		a, b := uint64(g.units(math.MaxInt64)), uint64(g.instant(1))
		sum := new(big.Int).Add(new(big.Int).SetUint64(a), new(big.Int).SetUint64(b))
		require.Equal(t, time.Duration(clamped(sum)), Wait(a, b), "%d + %d", a, b)
	})
}

func TestCounter_LocatesEveryInstant(t *testing.T) {
	trials(t, 20_000, func(g gen) {
		c := g.counter()
		at := g.instant(c.Window)
		number, since := floor(big.NewInt(at), c.Window)
		index, elapsed := c.Locate(at)
		require.Equal(t, [2]int64{number.Int64(), since.Int64()}, [2]int64{index, elapsed}, "%+v at %d", c, at)

		for _, hint := range []int64{Plus(index, -1), index, Plus(index, 1)} {
			begins := times(big.NewInt(hint), c.Window)
			if !begins.IsInt64() {
				continue // Within does not take it
			}
			require.Equal(t, begins.Int64(), c.Begins(hint))
			elapsed, ok := c.Within(hint, at)
			require.Equal(t, hint == index, ok, "%+v: whether %d lies in %d", c, at, hint)
			if ok {
				require.Equal(t, since.Int64(), elapsed)
			}
		}
	})
}

func TestState_RotatesByOneWindowOrByMore(t *testing.T) {
	s := State{Index: -1, Prev: 2, Curr: 3}
	require.Equal(t, State{Index: 0, Prev: 3}, s.Rotate(0))
	require.Equal(t, State{Index: 1}, s.Rotate(1))
	require.Equal(t, State{Index: math.MaxInt64}, s.Rotate(math.MaxInt64))
	require.Equal(t, State{Index: math.MinInt64 + 1, Prev: 3}, State{Index: math.MinInt64, Prev: 2, Curr: 3}.Rotate(math.MinInt64+1))
	require.Equal(t, State{Index: math.MaxInt64}, State{Index: math.MinInt64, Prev: 2, Curr: 3}.Rotate(math.MaxInt64))
	require.False(t, s.Empty())
	require.False(t, State{Prev: 1}.Empty())
	require.False(t, State{Curr: 1}.Empty())
	require.True(t, State{Index: 5}.Empty())
}

func TestCounter_AdvancesAsTheModel(t *testing.T) {
	trials(t, 30_000, func(g gen) {
		m, at, p := g.draw()
		prev, curr, elapsed := m.at(big.NewInt(at))
		index, _ := m.Locate(at)
		require.Equal(t, State{max(index, m.Index), prev, curr}, p.State, "%+v at %d", m, at)
		require.Equal(t, elapsed.Int64(), p.Elapsed(), "%+v at %d", m, at)

		late := new(big.Int)
		if index < m.Index {
			late = minus(times(big.NewInt(m.Index), m.Window), at)
		}
		require.Equal(t, uint64(clamped(late)), p.Lateness(), "%+v at %d", m, at)
	})
}

func TestCounter_AdmitsByTheWeightedSum(t *testing.T) {
	trials(t, 30_000, func(g gen) {
		m, at, p := g.draw()
		n := max(0, g.near(0, m.Count, g.units(m.Count), m.Remaining(p)))
		admitted := m.Admits(p.State, p.Elapsed(), n)
		require.Equal(t, m.admits(big.NewInt(at), n), admitted, "%d of %+v at %d", n, m, at)
		if !admitted {
			return
		}
		require.True(t, n == 0 || m.Admits(p.State, p.Elapsed(), g.upTo(n)), "fewer than %d of %+v at %d", n, m, at)
		later := p.Elapsed() + g.upTo(m.Window-1-p.Elapsed())
		require.True(t, m.Admits(p.State, later, n), "%d of %+v, %d after its window began", n, m, later)
	})
}

func TestCounter_RemainingIsTheGreatestNumberAdmitted(t *testing.T) {
	trials(t, 30_000, func(g gen) {
		m, at, p := g.draw()
		remaining := m.Remaining(p)
		require.GreaterOrEqual(t, remaining, int64(0))
		require.True(t, remaining == 0 || m.admits(big.NewInt(at), remaining), "%d of %+v at %d", remaining, m, at)
		if remaining < math.MaxInt64 {
			require.False(t, m.admits(big.NewInt(at), remaining+1), "more than %d of %+v at %d", remaining, m, at)
		}
	})
}

// That no earlier instant would do follows from the model: what it admits, it admits at
// every later instant too.
func TestCounter_RetryAfterIsMinimalToTheNanosecond(t *testing.T) {
	trials(t, 60_000, func(g gen) {
		m, at, p := g.draw()
		n := g.near(0, 1, m.Count, g.units(m.Count), m.Remaining(p))
		wait := m.RetryAfter(p, n)
		if n < 0 || n > m.Count {
			require.Equal(t, Never, wait, "%d of %+v at %d", n, m, at)
			return
		}
		require.GreaterOrEqual(t, wait, time.Duration(0))
		retry := plus(big.NewInt(at), int64(wait))
		if wait > 0 {
			require.False(t, m.admits(plus(retry, -1), n), "%d of %+v at %d, just before %d", n, m, at, wait)
		}
		if wait < Never {
			require.True(t, m.admits(retry, n), "%d of %+v at %d, after %d", n, m, at, wait)
		}
	})
}

func TestCounter_ResetAfterIsExact(t *testing.T) {
	trials(t, 30_000, func(g gen) {
		m, at, p := g.draw()
		wait := m.ResetAfter(p)
		reset := plus(big.NewInt(at), int64(wait))
		if wait > 0 {
			require.False(t, m.empty(plus(reset, -1)), "%+v at %d, just before %d", m, at, wait)
		}
		if wait < Never {
			require.True(t, m.empty(reset), "%+v at %d, after %d", m, at, wait)
		}
	})
}

func TestCounter_ExpiredIsExact(t *testing.T) {
	trials(t, 30_000, func(g gen) {
		m, at, _ := g.draw()
		if g.IntN(4) == 0 {
			m.Curr = 0 // as after a Cancel
		}
		since, ok := m.Expired(m.State, at)
		require.Equal(t, m.empty(big.NewInt(at)), ok, "%+v at %d", m, at)
		switch {
		case !ok:
		case m.Empty():
			require.Equal(t, int64(math.MinInt64), since)
		default:
			require.LessOrEqual(t, since, at)
			require.True(t, m.empty(big.NewInt(since)), "%+v at %d", m, since)
			require.False(t, m.empty(plus(big.NewInt(since), -1)), "%+v just before %d", m, since)
		}
	})
}

// draw returns the ticks of a log or of buckets, with an instant.
func (g gen) ticks() (k Ticks, t int64) {
	window := g.size(1, int64(time.Second), int64(365*24*time.Hour), math.MaxInt64)
	k = Instants(window)
	if g.IntN(3) > 0 {
		k = Buckets(window, min(window, g.size(1, window, window/2)))
	}
	return k, g.instant(k.Length)
}

func TestTicks_OfALogAndOfBuckets(t *testing.T) {
	require.Equal(t, Ticks{Length: 1, Life: 60}, Instants(60))
	require.Equal(t, Ticks{Length: 60, Life: 1}, Buckets(60, 60), "a fixed window")
	require.Equal(t, Ticks{Length: 1, Life: 60}, Buckets(60, 1))
	require.Equal(t, Ticks{Length: 20, Life: 3}, Buckets(60, 20))
	require.Equal(t, Ticks{Length: 19, Life: 4}, Buckets(60, 19), "the last of them in part")
	require.Equal(t, Ticks{Length: 59, Life: 2}, Buckets(60, 59))
	require.Equal(t, Ticks{Length: 1, Life: math.MaxInt64}, Buckets(math.MaxInt64, 1))
	require.Equal(t, Ticks{Length: 2, Life: math.MaxInt64/2 + 1}, Buckets(math.MaxInt64, 2))
}

func TestTicks_SplitEveryInstant(t *testing.T) {
	trials(t, 20_000, func(g gen) {
		k, at := g.ticks()
		number, since := floor(big.NewInt(at), k.Length)
		tick, elapsed := k.Split(at)
		require.Equal(t, [2]int64{number.Int64(), since.Int64()}, [2]int64{tick, elapsed}, "%+v at %d", k, at)
		require.Equal(t, tick, k.Of(at))
	})
}

func TestTicks_CountForTheirLife(t *testing.T) {
	trials(t, 20_000, func(g gen) {
		k, at := g.ticks()
		now := k.Of(at)
		first := k.Of(math.MinInt64)
		for _, tick := range []int64{now, max(first, Plus(now, -g.upTo(k.Life))), max(first, Plus(now, -g.near(k.Life)))} {
			if tick > now {
				continue
			}
			age := minus(big.NewInt(now), tick)
			require.Equal(t, age.Cmp(big.NewInt(k.Life)) < 0, k.Counts(tick, now), "%+v: %d at %d", k, tick, now)
		}
	})
}

// A unit of a tick counts until the tick that is Life later begins.
func TestTicks_UntilIsExact(t *testing.T) {
	trials(t, 60_000, func(g gen) {
		k, now := g.ticks()
		current := k.Of(now)
		tick := k.Of(g.instant(k.Length))
		switch g.IntN(3) {
		case 0:
			tick = Plus(current, -g.upTo(k.Life-1))
		case 1:
			tick = Plus(current, g.near(0, 1, 10))
		}
		tick = min(max(tick, k.Of(math.MinInt64)), k.Of(math.MaxInt64))
		if tick <= current && !k.Counts(tick, current) {
			return
		}
		ends := plus(big.NewInt(tick), k.Life)
		wait := minus(times(ends, k.Length), now)
		require.Equal(t, time.Duration(clamped(wait)), k.Until(tick, now), "%+v: %d at %d", k, tick, now)
	})
}
