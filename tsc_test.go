package sash

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

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

// useUp runs until l is just used up.
func (m *machine) useUp(l *line) reading {
	return m.run((float64(l.ticks+l.span)-m.ticks)/m.hz + 1e-6)
}

func (m *machine) look() reading { return reading{uint64(m.ticks), int64(m.ns)} }

// firstLine returns the line that is drawn at b if the first reading was as long before
// a as b is after it.
func firstLine(t *testing.T, a, b reading) *line {
	l := newTSC(tscSources{}).line.Load()
	for _, r := range []reading{{2*a.ticks - b.ticks, 2*a.ns - b.ns}, a} {
		l = l.next(r, true)
		require.Zero(t, l.span, "it takes three readings to know that the rate is steady")
	}
	l = l.next(b, true)
	require.NotZero(t, l.span)
	return l
}

func TestTSC_StaysWithASystemClockThatIsCorrected(t *testing.T) {
	for _, hz := range []float64{1e9, 2.596e9, 5.1e9} {
		random := rand.New(rand.NewPCG(1, uint64(hz)))
		m := &machine{hz: hz, ticks: 1e13, ns: 1e9, pace: 1}
		l := firstLine(t, m.look(), m.run(0.01))
		newest := l.ns
		var worst int64
		for range 20_000 {
			now := m.run(0.02 * random.Float64())
			if !l.covers(now.ticks) {
				old := l
				l = l.next(now, true)
				require.NotZero(t, l.span)
				require.GreaterOrEqual(t, l.ns, old.end, "nor from one line to the next")
				m.pace = 1 + 500e-6*(2*random.Float64()-1)
			}
			at := l.at(now.ticks)
			require.GreaterOrEqual(t, at, newest, "it never runs back")
			require.LessOrEqual(t, at, l.end)
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
	l := firstLine(t, m.look(), m.run(0.1))
	var most int64
	for _, pace := range []float64{1 - 500e-6, 1, 1, 1} {
		m.pace = pace
		now := m.useUp(l)
		most = max(most, l.end-now.ns)
		l = l.next(now, true)
		require.NotZero(t, l.span)
	}
	require.Greater(t, time.Duration(most), 50*time.Microsecond, "else nothing was tried")
	now := m.run(0.09)
	require.InDelta(t, now.ns, l.at(now.ticks), 100)
}

func TestTSC_FollowsNoCounterThatGoesAstray(t *testing.T) {
	a, b := reading{1e12, 1e9}, reading{1e12 + 25e6, 1e9 + 10e6} // 2.5 GHz
	l := firstLine(t, a, b)
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
		next := l.next(now, true)
		require.Zero(t, next.span, name)
		require.Equal(t, now, next.drawn, name)
		require.Equal(t, max(now.ns, l.end), next.ns, name)
	}
	following := newTSC(tscSources{}).line.Load().next(b, true)
	require.Zero(t, following.next(reading{b.ticks - 1, b.ns + 10e9}, true).span, "back, before there is a line")
	require.Zero(t, following.next(reading{b.ticks + 1, b.ns + 1e9}, true).span, "not a tick in a span")
	hour := reading{b.ticks + 3600*2500e6, b.ns + 3600e9}
	require.NotZero(t, l.next(hour, true).span, "an hour without a reader is nothing")
}

// Two clocks that were not read at one time tell no rate. The next sharp look takes
// it from the last one.
func TestTSC_DrawsNoLineFromALookThatWasNotSharp(t *testing.T) {
	m := &machine{hz: 2.5e9, ticks: 1e13, ns: 1e9, pace: 1}
	l := firstLine(t, m.look(), m.run(0.01))
	sharp := l.drawn
	blurred := m.useUp(l)
	blurred.ns += int64(time.Millisecond) // which would be 1 % of the rate
	l = l.next(blurred, false)
	require.Zero(t, l.span)
	require.Equal(t, sharp, l.drawn)
	l = l.next(m.run(0.02), true)
	require.NotZero(t, l.span, "the rate is that of the line before")
	require.InEpsilon(t, (1<<32)/2.5, l.rate, 1e-6)
}

// A suspended machine may go on counting while the system's clock stands. A rate that
// was measured across that is not to be followed: at it, the counter would have to run for
// hours until the line is used up, and the clock would stand meanwhile.
func TestTSC_ASuspendedMachineMisleadsItByASpanAtMost(t *testing.T) {
	const most = int64(span)
	for looks := range 6 { // before the suspension
		m := &machine{hz: 2.5e9, ticks: 1e13, ns: 1e9, pace: 1}
		c := newTSC(tscSources{
			ticks: func() uint64 { return m.run(10e-9).ticks },
			ns:    func() int64 { return int64(m.ns) },
		})
		for range looks {
			c.renew()
			m.run(0.011)
		}
		m.ticks += 3600 * m.hz
		for range 200 {
			require.InDelta(t, m.ns, c.renew(), float64(most), "after %d looks", looks)
			m.run(0.05)
		}
		require.NotZero(t, c.line.Load().span, "the rate is steady again")
		require.InDelta(t, m.ns, c.renew(), 1000)
	}
}

// An overtaking machine runs a clock with several readers. Before a reader gets to
// read the counter or the system's clock, it may lose its core for a while, and others
// may read in between.
type overtaking struct {
	machine
	clock  *tscClock
	random *rand.Rand
	faults bool // whether the counter jumps, and changes its rate

	readers   int   // that have begun, and are not done
	overtaken int   // how often one found a line drawn by another
	newest    int64 // of the readings that are done
}

func newOvertaking(t *testing.T, seed uint64, faults bool) *overtaking {
	o := &overtaking{
		machine: machine{hz: 2.5e9, ticks: 1e13, ns: 1e9, pace: 1},
		random:  rand.New(rand.NewPCG(2, seed)),
		faults:  faults,
	}
	o.clock = newTSC(tscSources{
		ticks: func() uint64 { o.meanwhile(t); return uint64(o.ticks) },
		ns:    func() int64 { o.meanwhile(t); return int64(o.ns) },
	})
	return o
}

func (o *overtaking) read(t *testing.T) {
	const most = int64(span / 500)
	o.readers++
	done, begun := o.newest, int64(o.ns)
	now := o.clock.renew()
	require.GreaterOrEqual(t, now, done, "a reading that was done before this one began")
	if !o.faults {
		require.GreaterOrEqual(t, now, begun-most, "late")
		require.LessOrEqual(t, now, int64(o.ns)+most, "early")
	}
	o.newest = max(o.newest, now)
	o.readers--
}

func (o *overtaking) meanwhile(t *testing.T) {
	o.run(20e-9 * o.random.Float64())
	if o.random.IntN(100) == 0 {
		o.run(0.12 * o.random.Float64())
	}
	if o.random.IntN(1000) == 0 {
		o.pace = 1 + 500e-6*(2*o.random.Float64()-1)
	}
	if o.faults && o.random.IntN(500) == 0 {
		switch o.random.IntN(3) {
		case 0:
			o.ticks *= 2 * o.random.Float64() // if back, far below the line
		case 1:
			o.ticks += o.hz * 0.2 * o.random.Float64()
		case 2:
			o.hz = 5e9 * o.random.Float64()
		}
	}
	if o.readers < 4 && o.random.IntN(8) == 0 {
		before := o.clock.line.Load()
		o.read(t)
		if before != o.clock.line.Load() {
			o.overtaken++
		}
	}
}

func TestTSC_NeverRunsBackHoweverReadersOvertakeEachOther(t *testing.T) {
	for _, faults := range []bool{false, true} {
		var overtaken, following, onLine int
		for seed := range uint64(20) {
			o := newOvertaking(t, seed, faults)
			for range 2000 {
				o.read(t)
				if o.clock.line.Load().span > 0 {
					onLine++
				} else {
					following++
				}
			}
			overtaken += o.overtaken
		}
		require.Greater(t, overtaken, 100)
		require.Greater(t, onLine, 100)
		require.Greater(t, following, 100)
	}
}

// simulated returns a clock on m whose line is used up, and ends ahead of the system's
// clock. Its readers call ns to read that.
func simulated(t *testing.T, m *machine, ns func() int64) *tscClock {
	c := newTSC(tscSources{ticks: func() uint64 { return m.run(10e-9).ticks }, ns: ns})
	l := firstLine(t, m.look(), m.run(0.1))
	c.line.Store(l)
	return c
}

// A reader looks at both clocks to draw the next line, and meanwhile another one has
// drawn it. The one that was overtaken must not read less than the other has read.
func TestTSC_AReaderThatWasOvertakenReadsNoLessThanTheOther(t *testing.T) {
	m := &machine{hz: 2.5e9, ticks: 1e13, ns: 1e9, pace: 1}
	overtake := func() {}
	c := simulated(t, m, func() int64 {
		ns := int64(m.ns)
		overtake()
		return ns
	})
	m.pace = 1 - 500e-6 // so that the line ends ahead
	m.useUp(c.line.Load())
	end := c.line.Load().end
	require.Greater(t, end, int64(m.ns)+30_000)

	var others []int64
	overtake = func() {
		overtake = func() {}
		others = append(others, c.renew())
		m.run(0.05)
		others = append(others, c.renew())
	}
	now := c.renew()
	require.Len(t, others, 2)
	require.GreaterOrEqual(t, others[0], end)
	require.Greater(t, others[1], others[0])
	require.GreaterOrEqual(t, now, others[1])
}

// A line that turns out to be far ahead is followed no further. The clock stands still
// until the system's clock has come up to it.
func TestTSC_StandsStillWhenItGivesUpALineThatIsAhead(t *testing.T) {
	m := &machine{hz: 2.5e9, ticks: 1e13, ns: 1e9, pace: 1}
	c := simulated(t, m, func() int64 { return int64(m.ns) })
	m.hz *= 2 // so the line is used up in half of its time
	m.run(0.0499)
	newest := c.renew()
	require.Greater(t, time.Duration(newest-int64(m.ns)), 49*time.Millisecond)
	m.useUp(c.line.Load())
	end := c.line.Load().end
	require.Greater(t, end, newest)
	for range 5 {
		require.Equal(t, end, c.renew())
		require.Zero(t, c.line.Load().span)
		m.run(0.009)
	}
	m.run(0.01)
	require.InDelta(t, m.ns, c.renew(), 100)
	for range 2 {
		m.run(0.02)
		require.InDelta(t, m.ns, c.renew(), 100)
	}
	require.NotZero(t, c.line.Load().span, "the counter runs at one rate again")
}

// agree fails unless a reading of c lies between two of the system's clock, give or
// take what two corrections of it in opposite directions make of a span.
func agree(t *testing.T, c Clock, newest int64) int64 {
	const most = int64(span / 500)
	before := sinceStart()
	now := c.Now()
	after := sinceStart()
	if now < before-most || now > after+most || now < newest {
		t.Errorf("read %d between %d and %d, after %d", now, before, after, newest)
	}
	return max(now, newest)
}

func TestTSC_AgreesWithTheSystemClock(t *testing.T) {
	if !tscVouched() {
		t.Log("no counter here that the kernel vouches for")
		return
	}
	c := newTSC(theTSC.tscSources)
	var g sync.WaitGroup
	for _, clock := range []Clock{c, c, unordered(c), unordered(c)} {
		g.Go(func() {
			newest := int64(0)
			for lines := 0; !t.Failed() && lines < 5; { // the first two follow the system's clock
				l := c.line.Load()
				newest = agree(t, clock, newest)
				if l != c.line.Load() {
					lines++
				}
			}
		})
	}
	g.Wait()
	require.NotZero(t, c.line.Load().span)
}

// What throws a line off is noticed by the next look at the latest, and until the
// counter is trusted again the system's clock is read.
func TestTSC_FallsBackAndComesBack(t *testing.T) {
	if !tscVouched() {
		t.Log("no counter here that the kernel vouches for")
		return
	}
	c := newTSC(theTSC.tscSources)
	drawn := func() bool { return c.line.Load().span > 0 }
	for !drawn() {
		agree(t, c, 0)
	}
	good := *c.line.Load()
	wrong := good
	wrong.rate *= 2
	wrong.span = 1 // over at once
	wrong.end = wrong.ns + 1
	c.line.Store(&wrong)
	agree(t, c, 0)
	require.False(t, drawn(), "a rate that is not the counter's")
	for !drawn() {
		agree(t, c, 0)
	}
	require.InEpsilon(t, good.rate, c.line.Load().rate, 1./astray)
}

// A reader that came too late to draw a line follows it: the next one, drawn from
// there after less than a microsecond, would point anywhere.
func TestTSC_DrawsNoLineBeforeTheLastIsOver(t *testing.T) {
	if !tscVouched() {
		t.Log("no counter here that the kernel vouches for")
		return
	}
	c := newTSC(theTSC.tscSources)
	for tested := 0; tested < 100; {
		drawn := c.line.Load()
		agree(t, c, 0)
		c.renew()
		if after := c.line.Load(); drawn.covers(tscInOrder()) {
			require.Same(t, drawn, after)
			tested++
		}
	}
}

// A limiter does not need the order of readings, and does not pay for it.
func TestTSC_ALimiterReadsItWithoutOrder(t *testing.T) {
	l := newTest(t, PerSecond(1), WithClock(theTSC))
	require.Same(t, (*unorderedTSC)(theTSC), l.clock)
	require.Same(t, theTSC, l.Clock())
}

// So a line shares no cache line with what else is on the heap.
func TestTSC_ALineFillsACacheLine(t *testing.T) {
	require.EqualValues(t, 64, unsafe.Sizeof(line{}))
}

// Each goroutine hands its readings to the others: until they have raced for the next
// line several times, and a million readings were handed over. That takes two cores, so
// on one it gives up. The work in between gives the processor something to run ahead of.
func TestSystemClock_NeverRunsBackFromOneGoroutineToAnother(t *testing.T) {
	const batch = 1000
	clock := SystemClock()
	start := clock.Now()
	races, giveUp := start+int64(12*span), start+int64(50*span)
	var newest, back, handovers atomic.Int64
	var readers sync.WaitGroup
	for i := range 8 {
		readers.Go(func() {
			known, others := start, 0
			for now := start; now < races || now < giveUp && handovers.Load() < 1e6; {
				handed := newest.Load()
				if now = clock.Now(); now < handed {
					back.Add(1)
				}
				rand.Uint32()
				if handed != known {
					if others++; others%batch == 0 {
						handovers.Add(batch)
					}
				}
				known = handed
				if i%4 > 0 { // the others only read
					newest.Store(now)
					known = now
				}
			}
		})
	}
	readers.Wait()
	require.Zero(t, back.Load())
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
	present := time.Now().Round(0) // by the wall clock: a bubble has another monotonic one
	synctest.Test(t, func(t *testing.T) {
		<-time.After(time.Until(present))
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
