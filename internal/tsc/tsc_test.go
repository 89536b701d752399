package tsc

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

// A machine simulates a counter, and a system's clock that is kept in step over a
// network. Tests make that faster or slower by up to 500 millionths, the most that Linux
// does.
type machine struct {
	hz    float64 // ticks of the counter a second
	ticks float64
	ns    float64
	pace  float64 // of the system's clock
}

// run lets time pass, and returns a sample.
func (m *machine) run(seconds float64) sample {
	m.ticks += m.hz * seconds
	m.ns += seconds * 1e9 * m.pace
	return m.sample()
}

// useUp runs until cal is just used up, and returns a sample.
func (m *machine) useUp(cal *calibration) sample {
	return m.run((float64(cal.begin.ticks+cal.span)-m.ticks)/m.hz + 1e-6)
}

func (m *machine) sample() sample { return sample{uint64(m.ticks), int64(m.ns)} }

// firstCalibration returns the first calibration with a span. It begins at b, and was
// derived from a, b and one more sample, as long before a as b is after it.
func firstCalibration(t *testing.T, a, b sample) *calibration {
	cal := newClock(sources{}).calibration.Load()
	for _, s := range []sample{{2*a.ticks - b.ticks, 2*a.ns - b.ns}, a} {
		cal = cal.next(s, true)
		require.Zero(t, cal.span, "it takes three samples to know that the rate is steady")
	}
	cal = cal.next(b, true)
	require.NotZero(t, cal.span)
	return cal
}

func TestClock_StaysWithASystemClockThatIsCorrected(t *testing.T) {
	for _, hz := range []float64{1e9, 2.596e9, 5.1e9} {
		random := rand.New(rand.NewPCG(1, uint64(hz)))
		m := &machine{hz: hz, ticks: 1e13, ns: 1e9, pace: 1}
		cal := firstCalibration(t, m.sample(), m.run(0.01))
		newest := cal.begin.ns
		var worst int64
		for range 20_000 {
			now := m.run(0.02 * random.Float64())
			if !cal.covers(now.ticks) {
				old := cal
				cal = cal.next(now, true)
				require.NotZero(t, cal.span)
				require.GreaterOrEqual(t, cal.begin.ns, old.end, "nor from one calibration to the next")
				m.pace = 1 + 500e-6*(2*random.Float64()-1)
			}
			ns := cal.nsAt(now.ticks)
			require.GreaterOrEqual(t, ns, newest, "it never runs back")
			require.LessOrEqual(t, ns, cal.end)
			newest = ns
			worst = max(worst, ns-now.ns, now.ns-ns)
		}
		require.Less(t, time.Duration(worst), calibrationSpan/500, "what two corrections in opposite directions make of a span")
		require.NotZero(t, worst, "else nothing was tried")
	}
}

// A calibration is ahead once the system's clock has been slowed down. The next ones make
// up for that while the system's clock runs steadily.
func TestClock_ComesBackToASystemClockThatWasCorrected(t *testing.T) {
	m := &machine{hz: 2.5e9, ticks: 1e13, ns: 1e9, pace: 1 + 500e-6}
	cal := firstCalibration(t, m.sample(), m.run(0.1))
	var most int64
	for _, pace := range []float64{1 - 500e-6, 1, 1, 1} {
		m.pace = pace
		now := m.useUp(cal)
		most = max(most, cal.end-now.ns)
		cal = cal.next(now, true)
		require.NotZero(t, cal.span)
	}
	require.Greater(t, time.Duration(most), 50*time.Microsecond, "else nothing was tried")
	now := m.run(0.09)
	require.InDelta(t, now.ns, cal.nsAt(now.ticks), 100)
}

func TestClock_FollowsNoCounterThatDrifts(t *testing.T) {
	a, b := sample{1e12, 1e9}, sample{1e12 + 25e6, 1e9 + 10e6} // 2.5 GHz
	cal := firstCalibration(t, a, b)
	require.EqualValues(t, 250e6, cal.span)
	require.InDelta(t, b.ns+40e6, cal.nsAt(b.ticks+100e6), 1)

	for name, now := range map[string]sample{
		"half as fast":       {b.ticks + 125e6, b.ns + 100e6},
		"twice as fast":      {b.ticks + 500e6, b.ns + 100e6},
		"standing still":     {b.ticks, b.ns + 100e6},
		"back":               {b.ticks - 1, b.ns + 100e6},
		"back to 0":          {0, b.ns + 100e6},
		"on, time stands":    {b.ticks + 250e6, b.ns},
		"on, time runs back": {b.ticks + 250e6, b.ns - 1},
		"an hour's leap":     {b.ticks + 3600*2500e6, b.ns + 100e6},
	} {
		next := cal.next(now, true)
		require.Zero(t, next.span, name)
		require.Equal(t, now, next.sampled, name)
		require.Equal(t, max(now.ns, cal.end), next.begin.ns, name)
	}
	following := newClock(sources{}).calibration.Load().next(b, true)
	back := following
	for i := range int64(4) { // if it were taken for one forward, the rate would be steady
		back = back.next(sample{b.ticks - uint64(i+1), b.ns + (i+1)*10e9}, true)
		require.Zero(t, back.span, "back again and again")
	}
	require.Zero(t, following.next(sample{b.ticks + 1, b.ns + 1e9}, true).span, "not a tick in a span")
	hour := sample{b.ticks + 3600*2500e6, b.ns + 3600e9}
	require.NotZero(t, cal.next(hour, true).span, "an hour without a reader does no harm")
}

// Two clocks that were not read at one time tell no rate. The next precise sample is
// compared with the last precise one.
func TestClock_TakesNoRateFromASampleThatIsNotPrecise(t *testing.T) {
	m := &machine{hz: 2.5e9, ticks: 1e13, ns: 1e9, pace: 1}
	cal := firstCalibration(t, m.sample(), m.run(0.01))
	precise := cal.sampled
	imprecise := m.useUp(cal)
	imprecise.ns += int64(time.Millisecond) // which would be 1 % of the rate
	cal = cal.next(imprecise, false)
	require.Zero(t, cal.span)
	require.Equal(t, precise, cal.sampled)
	cal = cal.next(m.run(0.02), true)
	require.NotZero(t, cal.span, "the rate comes from the calibration before")
	require.InEpsilon(t, (1<<32)/2.5, cal.rate, 1e-6)
}

// A suspended machine may go on counting while the system's clock stands still. A rate
// that was measured across that must not be used: the clock would be slow until the calibration is
// used up, for half a second at this machine's rate, as maxTicks bounds it.
func TestClock_ASuspendedMachineMisleadsItByASpanAtMost(t *testing.T) {
	const tolerance = float64(calibrationSpan)
	for _, suspended := range []float64{0.01, 0.05, 1, 3600} { // seconds
		for before := range 6 {
			m := &machine{hz: 2.5e9, ticks: 1e13, ns: 1e9, pace: 1}
			c := newClock(sources{
				ticks: func() uint64 { return m.run(10e-9).ticks },
				ns:    func() int64 { return int64(m.ns) },
			})
			for range before {
				c.renew()
				m.run(0.011)
			}
			m.ticks += suspended * m.hz
			for range 200 {
				require.InDelta(t, m.ns, c.renew(), tolerance, "suspended for %v s after %d readings", suspended, before)
				m.run(0.05)
			}
			require.NotZero(t, c.calibration.Load().span, "the rate is steady again")
			require.InDelta(t, m.ns, c.renew(), 1000)
		}
	}
}

// Each time a calibration holds, the counter runs a little faster than it allows for, so each ends ahead.
// That may not add up.
func TestClock_BeginsNoCalibrationFarAhead(t *testing.T) {
	const most = 100 * time.Millisecond / 256
	m := &machine{hz: 2.5e9, ticks: 1e13, ns: 1e9, pace: 1}
	cal := firstCalibration(t, m.sample(), m.run(0.1))
	for range 10 {
		m.hz = (1 << 32) / float64(cal.rate) * 1e9 * (1 + 1./300) // still within what two rates may differ by
		now := m.useUp(cal)
		ended := time.Duration(cal.end - now.ns)
		cal = cal.next(now, true)
		if cal.span == 0 {
			require.Greater(t, ended, most, "the lead is why, as the rates agree")
			return
		}
		require.LessOrEqual(t, time.Duration(cal.begin.ns-now.ns), most)
	}
	require.Fail(t, "too little was tried")
}

// The three attempts take these numbers of ticks.
func TestClock_ASampleIsPreciseIfAnAttemptTookFewTicks(t *testing.T) {
	for _, tt := range []struct {
		took      [3]uint64
		precise   bool
		narrowest int // the attempt that took least
	}{
		{[3]uint64{100, 50, 200}, true, 1},
		{[3]uint64{1 << 20, 1 << 30, 4096}, true, 2},
		{[3]uint64{4097, 5000, 1 << 40}, false, 0},
	} {
		readings, ticks := 0, uint64(1e12)
		c := newClock(sources{
			ticks: func() uint64 {
				if readings%2 == 1 {
					ticks += tt.took[readings/2]
				}
				readings++
				return ticks
			},
			ns: func() int64 { return int64(readings / 2) }, // the number of the attempt
		})
		s, precise := c.takeSample()
		require.Equal(t, tt.precise, precise, "%+v", tt)
		require.EqualValues(t, tt.narrowest, s.ns, "%+v", tt)
		want := uint64(1e12) + tt.took[tt.narrowest]/2
		for _, earlier := range tt.took[:tt.narrowest] {
			want += earlier
		}
		require.Equal(t, want, s.ticks, "the middle of %+v", tt)
	}
}

// A machine that is suspended again and again for as long makes all rates agree, on as many ticks a
// nanosecond as no counter has. By such a rate, the ticks of a span would take hours.
func TestClock_BelievesNoRateThatNoCounterHas(t *testing.T) {
	m := &machine{hz: 2.5e9, ticks: 1e13, ns: 1e9, pace: 1}
	c := newClock(sources{
		ticks: func() uint64 { return m.run(10e-9).ticks },
		ns:    func() int64 { return int64(m.ns) },
	})
	for range 100 {
		m.ticks += 3600 * m.hz
		require.InDelta(t, m.ns, c.renew(), 1000)
		m.run(0.02)
	}
	a := sample{1e12, 1e9}
	for perNs, want := range map[uint64]bool{1: true, 16: true, 17: false} {
		rate, span := fit(a, sample{a.ticks + perNs*10e6, a.ns + 10e6})
		require.Equal(t, want, rate > 0, "%d ticks a nanosecond", perNs)
		require.Equal(t, want, span > 0, "%d ticks a nanosecond", perNs)
	}
}

// An overtaking is a clock on a machine, with several readers. Whenever a reader reads
// the counter or the system's clock, it may lose its core before, and others may read in
// between.
type overtaking struct {
	machine
	clock  *Clock
	random *rand.Rand
	faults bool // whether the counter jumps, and changes its rate

	readers   int   // that have begun, and are not done
	overtaken int   // how often another reader published while one was in between
	newest    int64 // the highest reading that is done
}

func newOvertaking(t *testing.T, seed uint64, faults bool) *overtaking {
	o := &overtaking{
		machine: machine{hz: 2.5e9, ticks: 1e13, ns: 1e9, pace: 1},
		random:  rand.New(rand.NewPCG(2, seed)),
		faults:  faults,
	}
	o.clock = newClock(sources{
		ticks: func() uint64 { o.interrupt(t); return uint64(o.ticks) },
		ns:    func() int64 { o.interrupt(t); return int64(o.ns) },
	})
	return o
}

// read takes one reading, which other readers may interrupt. It is never below a reading
// that was done before. Without faults, it is close to the time at which it was taken.
func (o *overtaking) read(t *testing.T) {
	const tolerance = int64(calibrationSpan / 500)
	o.readers++
	done, begun := o.newest, int64(o.ns)
	now := o.clock.renew()
	require.GreaterOrEqual(t, now, done, "a reading that was done before this one began")
	most := int64(calibrationSpan + calibrationSpan/maxDrift)
	require.LessOrEqual(t, now, int64(o.ns)+most, "early, whatever the counter does")
	if !o.faults {
		require.GreaterOrEqual(t, now, begun-tolerance, "late")
		require.LessOrEqual(t, now, int64(o.ns)+tolerance, "early")
	}
	o.newest = max(o.newest, now)
	o.readers--
}

// interrupt lets time pass before one of the two clocks is read: now and then with a long
// pause, a correction, a fault, or readings by others.
func (o *overtaking) interrupt(t *testing.T) {
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
			o.ticks *= 2 * o.random.Float64() // if back, far below the calibration
		case 1:
			o.ticks += o.hz * 0.2 * o.random.Float64()
		case 2:
			o.hz = 5e9 * o.random.Float64()
		}
	}
	if o.readers < 4 && o.random.IntN(8) == 0 {
		before := o.clock.calibration.Load()
		o.read(t)
		if before != o.clock.calibration.Load() {
			o.overtaken++
		}
	}
}

func TestClock_NeverRunsBackHoweverReadersOvertakeEachOther(t *testing.T) {
	for _, faults := range []bool{false, true} {
		var overtaken, following, calibrated int
		for seed := range uint64(20) {
			o := newOvertaking(t, seed, faults)
			for range 2000 {
				o.read(t)
				if o.clock.calibration.Load().span > 0 {
					calibrated++
				} else {
					following++
				}
			}
			overtaken += o.overtaken
		}
		require.Greater(t, overtaken, 100)
		require.Greater(t, calibrated, 100)
		require.Greater(t, following, 100)
	}
}

// simulated returns a clock on m that has just been calibrated. Its readers call ns to
// read the system's clock.
func simulated(t *testing.T, m *machine, ns func() int64) *Clock {
	c := newClock(sources{ticks: func() uint64 { return m.run(10e-9).ticks }, ns: ns})
	cal := firstCalibration(t, m.sample(), m.run(0.1))
	c.calibration.Store(cal)
	return c
}

// While a reader samples both clocks for the next calibration, another reader publishes
// one. The reader that was overtaken must not read less than the other has read.
func TestClock_AReaderThatWasOvertakenReadsNoLessThanTheOther(t *testing.T) {
	m := &machine{hz: 2.5e9, ticks: 1e13, ns: 1e9, pace: 1}
	overtake := func() {}
	c := simulated(t, m, func() int64 {
		ns := int64(m.ns)
		overtake()
		return ns
	})
	m.pace = 1 - 500e-6 // so that the calibration ends ahead
	m.useUp(c.calibration.Load())
	end := c.calibration.Load().end
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

// After a calibration that ended far ahead of the system's clock, the clock stands still
// until that has come up to its end.
func TestClock_StandsStillWhenItGivesUpACalibrationThatIsAhead(t *testing.T) {
	m := &machine{hz: 2.5e9, ticks: 1e13, ns: 1e9, pace: 1}
	c := simulated(t, m, func() int64 { return int64(m.ns) })
	m.hz *= 2 // so the calibration is used up in half of its time
	m.run(0.0499)
	newest := c.renew()
	require.Greater(t, time.Duration(newest-int64(m.ns)), 49*time.Millisecond)
	m.useUp(c.calibration.Load())
	end := c.calibration.Load().end
	require.Greater(t, end, newest)
	for range 5 {
		require.Equal(t, end, c.renew())
		require.Zero(t, c.calibration.Load().span)
		m.run(0.009)
	}
	m.run(0.01)
	require.InDelta(t, m.ns, c.renew(), 100)
	for range 2 {
		m.run(0.02)
		require.InDelta(t, m.ns, c.renew(), 100)
	}
	require.NotZero(t, c.calibration.Load().span, "the counter runs at one rate again")
}

// agree reads clock, and fails the test unless the reading lies between two of the
// system's clock, and not below newest. The tolerance is what two corrections of the
// system's clock in opposite directions make of a span.
func agree(t *testing.T, clock interface{ Now() int64 }, newest int64) int64 {
	const tolerance = int64(calibrationSpan / 500)
	before := SystemNow()
	now := clock.Now()
	after := SystemNow()
	if now < before-tolerance || now > after+tolerance || now < newest {
		t.Errorf("read %d between %d and %d, after %d", now, before, after, newest)
	}
	return max(now, newest)
}

// newOwn returns a clock of the test's own on the counter of this machine, or false if
// the kernel does not vouch for that.
func newOwn(t *testing.T) (c *Clock, ok bool) {
	if !Usable() {
		t.Log("the kernel vouches for no counter here")
		return nil, false
	}
	return newClock(shared.sources), true
}

func (c *Clock) calibrated() bool { return c.calibration.Load().span > 0 }

func TestClock_AgreesWithTheSystemClock(t *testing.T) {
	c, ok := newOwn(t)
	if !ok {
		return
	}
	var g sync.WaitGroup
	for _, clock := range []interface{ Now() int64 }{c, c, c.Unordered(), c.Unordered()} {
		g.Go(func() {
			newest := int64(0)
			for calibrations := 0; !t.Failed() && calibrations < 5; { // the first two have no span
				cal := c.calibration.Load()
				newest = agree(t, clock, newest)
				if cal != c.calibration.Load() {
					calibrations++
				}
			}
		})
	}
	g.Wait()
	require.True(t, c.calibrated())
}

// A calibration that is wrong is noticed by the next sample. The clock reads the system's
// clock until the counter is trusted again.
func TestClock_FallsBackAndComesBack(t *testing.T) {
	c, ok := newOwn(t)
	if !ok {
		return
	}
	for !c.calibrated() {
		agree(t, c, 0)
	}
	good := *c.calibration.Load()
	wrong := good
	wrong.rate *= 2
	wrong.span = 1 // over at once
	wrong.end = wrong.begin.ns + 1
	c.calibration.Store(&wrong)
	agree(t, c, 0)
	require.False(t, c.calibrated(), "a rate that is not the counter's")
	for !c.calibrated() {
		agree(t, c, 0)
	}
	require.InEpsilon(t, good.rate, c.calibration.Load().rate, 1./maxDrift)
}

// A reader on the slow path that finds a calibration which holds reads by it. If it
// derived another one, after less than a microsecond, that one's rate could be any.
func TestClock_CalibratesOnlyOnceTheLastIsUsedUp(t *testing.T) {
	c, ok := newOwn(t)
	if !ok {
		return
	}
	for tested := 0; tested < 100; {
		before := c.calibration.Load()
		agree(t, c, 0)
		c.renew()
		if after := c.calibration.Load(); before.covers(readOrdered()) {
			require.Same(t, before, after)
			tested++
		}
	}
}

// A calibration shares no cache line with other objects on the heap.
func TestClock_ACalibrationFillsACacheLine(t *testing.T) {
	require.EqualValues(t, 64, unsafe.Sizeof(calibration{}))
}

func TestClock_IsUnorderedAndOrderedAgain(t *testing.T) {
	require.Same(t, shared, shared.Unordered().Ordered())
}

// Each goroutine hands its readings to the others, until they have raced for the next
// calibration several times, and have handed over a million readings. That takes two
// cores: on one, the test ends after a few seconds. The work in between gives the
// processor something to run ahead of.
func TestClock_NeverRunsBackFromOneGoroutineToAnother(t *testing.T) {
	const batch = 1000
	clock, ok := newOwn(t)
	if !ok {
		return
	}
	start := clock.Now()
	races, giveUp := start+int64(12*calibrationSpan), start+int64(50*calibrationSpan)
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
