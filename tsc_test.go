package sash

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A simulated machine has a counter of so many ticks a second, and a system's clock
// that is kept in step over a network: at each look it may have been made faster
// or slower by 500 millionths, the most that Linux does.
type machine struct {
	hz    float64
	ticks float64
	ns    float64
	pace  float64 // of the system's clock
}

func (m *machine) run(seconds float64) reading {
	m.ticks += m.hz * seconds
	m.ns += seconds * 1e9 * m.pace
	return m.look()
}

func (m *machine) look() reading { return reading{uint64(m.ticks), int64(m.ns)} }

func TestTSC_StaysWithASystemClockThatIsCorrected(t *testing.T) {
	for _, hz := range []float64{1e9, 2.596e9, 5.1e9} {
		random := rand.New(rand.NewPCG(1, uint64(hz)))
		m := &machine{hz: hz, ticks: 1e13, ns: 1e9, pace: 1}
		a := m.look()
		b := m.run(0.01)
		l, ok := through(a, b)
		require.True(t, ok)
		drawn, newest := b, l.ns
		var worst int64
		for range 20_000 {
			now := m.run(0.02 * random.Float64())
			if now.ticks-l.ticks >= l.span {
				old := l
				l, ok = l.next(drawn, now)
				require.True(t, ok)
				require.GreaterOrEqual(t, l.at(now.ticks), old.at(now.ticks), "nor from one line to the next")
				drawn = now
				m.pace = 1 + 500e-6*(2*random.Float64()-1)
			}
			at := l.at(now.ticks)
			require.GreaterOrEqual(t, at, newest, "it never runs back")
			newest = at
			worst = max(worst, at-now.ns, now.ns-at)
		}
		require.Less(t, time.Duration(worst), span/500, "that is, what two corrections in opposite directions make of a span")
		require.NotZero(t, worst, "else nothing was tried")
	}
}

// What a line is ahead, since the system's clock has been slowed down, is made up for
// once that runs steadily.
func TestTSC_ComesBackToASystemClockThatWasCorrected(t *testing.T) {
	m := &machine{hz: 2.5e9, ticks: 1e13, ns: 1e9, pace: 1 + 500e-6}
	drawn := m.run(0)
	b := m.run(0.1)
	l, ok := through(drawn, b)
	require.True(t, ok)
	drawn = b
	var most int64
	for _, pace := range []float64{1 - 500e-6, 1, 1, 1} {
		m.pace = pace
		now := m.run(0.11)
		most = max(most, l.at(now.ticks)-now.ns)
		l, ok = l.next(drawn, now)
		require.True(t, ok)
		drawn = now
	}
	require.Greater(t, time.Duration(most), 50*time.Microsecond, "else nothing was tried")
	now := m.run(0.1)
	require.InDelta(t, now.ns, l.at(now.ticks), 100)
}

func TestTSC_FollowsNoCounterThatGoesAstray(t *testing.T) {
	a, b := reading{1e12, 1e9}, reading{1e12 + 25e6, 1e9 + 10e6} // 2.5 GHz
	l, ok := through(a, b)
	require.True(t, ok)
	require.EqualValues(t, 250e6, l.span)
	require.InDelta(t, b.ns+40e6, l.at(b.ticks+100e6), 1)

	for name, now := range map[string]reading{
		"half as fast":       {b.ticks + 125e6, b.ns + 100e6},
		"twice as fast":      {b.ticks + 500e6, b.ns + 100e6},
		"standing still":     {b.ticks, b.ns + 100e6},
		"back":               {b.ticks - 1, b.ns + 100e6},
		"back to 0":          {0, b.ns + 100e6},
		"on while time not":  {b.ticks + 250e6, b.ns},
		"on while time back": {b.ticks + 250e6, b.ns - 1},
		"an hour's leap":     {b.ticks + 3600*2500e6, b.ns + 100e6},
	} {
		next, ok := l.next(b, now)
		require.False(t, ok, name)
		require.Zero(t, next, name)
	}
	_, ok = through(b, reading{b.ticks - 1, b.ns + 10e9})
	require.False(t, ok, "back, before there is a line")
	_, ok = l.next(b, reading{b.ticks + 3600*2500e6, b.ns + 3600e9})
	require.True(t, ok, "an hour without a reader is nothing")
}

// agree fails unless a reading of c lies between two of the system's clock, give or
// take what two corrections of it in opposite directions make of a span.
func agree(t *testing.T, c *tscClock, newest int64) int64 {
	const most = int64(span / 500)
	before := sinceStart()
	now := c.Now()
	after := sinceStart()
	if now < before-most || now > after+most || now < newest-most {
		t.Errorf("read %d between %d and %d, after %d", now, before, after, newest)
	}
	return max(now, newest)
}

func TestTSC_AgreesWithTheSystemClock(t *testing.T) {
	if !tscVouched() {
		t.Log("no counter here that the kernel vouches for")
		return
	}
	var c tscClock
	var g sync.WaitGroup
	for range 4 {
		g.Go(func() {
			newest := int64(0)
			for !t.Failed() && c.version.Load() < 2*6 { // readings by the system's clock, then five lines
				newest = agree(t, &c, newest)
			}
		})
	}
	g.Wait()
	require.NotZero(t, c.line().span)
}

// What throws a line off is noticed by the next look at the latest, and until the
// counter is trusted again the system's clock is read.
func TestTSC_FallsBackAndComesBack(t *testing.T) {
	if !tscVouched() {
		t.Log("no counter here that the kernel vouches for")
		return
	}
	var c tscClock
	drawn := func() bool { return c.line().span > 0 }
	for !drawn() {
		agree(t, &c, 0)
	}
	good := c.line()
	wrong := good
	wrong.rate *= 2
	wrong.span = 1 // over at once
	c.draw(wrong)
	agree(t, &c, 0)
	require.False(t, drawn(), "a rate that is not the counter's")
	for !drawn() {
		agree(t, &c, 0)
	}
	require.InEpsilon(t, good.rate, c.line().rate, 1./astray)
}

// Whoever read while a line was drawn, or came too late to draw it, follows it: the
// next one, drawn from there after less than a microsecond, would point anywhere.
func TestTSC_DrawsNoLineBeforeTheLastIsOver(t *testing.T) {
	if !tscVouched() {
		t.Log("no counter here that the kernel vouches for")
		return
	}
	var c tscClock
	for tested := 0; tested < 100; {
		drawn := c.line()
		agree(t, &c, 0)
		c.renew()
		if after := c.line(); drawn.span > 0 && tsc()-drawn.ticks < drawn.span {
			require.Equal(t, drawn, after)
			tested++
		}
	}
}

func TestSystemClock_InABubbleIsTheBubbles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := SystemClock()
		l := newTest(t, PerMinute(1))
		require.True(t, l.Allow("k"))
		start := clock.Now()
		<-time.After(2 * time.Minute)
		require.EqualValues(t, 2*time.Minute, clock.Now()-start)
		require.True(t, l.Allow("k"))
	})
}

// A test may let its bubble reach the present.
func TestSystemClock_InABubbleThatHasReachedThePresentIsTheBubbles(t *testing.T) {
	present := time.Now()
	synctest.Test(t, func(t *testing.T) {
		<-time.After(present.Sub(time.Now()))
		clock := SystemClock()
		start := clock.Now()
		<-time.After(time.Hour)
		require.EqualValues(t, time.Hour, clock.Now()-start)
	})
}

func TestSystemClock_InABubbleStartsAt0(t *testing.T) {
	for range 2 {
		synctest.Test(t, func(t *testing.T) {
			require.Zero(t, SystemClock().Now())
		})
	}
}

func TestSystemClock_MadeOutsideKeepsRealTimeInABubble(t *testing.T) {
	const most = int64(span / 500)
	for name, clock := range map[string]Clock{"default": SystemClock(), "without a counter": systemClock{}} {
		synctest.Test(t, func(t *testing.T) {
			<-time.After(time.Hour)
			before := sinceStart()
			now := clock.Now()
			require.GreaterOrEqual(t, now, before-most, name)
			require.LessOrEqual(t, now, sinceStart()+most, name)
		})
	}
}
