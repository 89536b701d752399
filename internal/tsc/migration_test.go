package tsc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A migration is what a running machine may notice when a hypervisor moves it to another host.
type migration struct {
	jump  time.Duration // by which the counter is set forward or back, at its rate before
	pace  float64       // its rate after, as a multiple of the rate before
	pause time.Duration // for which the system's clock goes on, and the counter does not
}

// migrations returns every combination of jumps, rates and pauses. A jump forward stands for a pause
// in which the counter goes on, and the system's clock does not. With a pause, both go on.
func migrations() (all []migration) {
	pauses := []time.Duration{
		0, time.Microsecond, 200 * time.Microsecond,
		5 * time.Millisecond, 60 * time.Millisecond, time.Second, time.Hour,
	}
	for _, pace := range []float64{0.5, 0.9, 0.999, 1, 1.001, 1.1, 2} {
		for _, pause := range pauses {
			for _, jump := range pauses {
				all = append(all, migration{jump, pace, pause}, migration{-jump, pace, pause})
			}
		}
	}
	return all
}

// A misreading is how wrong the readings of a clock were.
type misreading struct{ early, late, back time.Duration }

func (r *misreading) join(other misreading) {
	r.early, r.late, r.back = max(r.early, other.early), max(r.late, other.late), max(r.back, other.back)
}

// misread lets a clock run for some time, and migrates its machine. It reads the clock once a
// millisecond, and returns how wrong it was for the time settling, how wrong after that, and
// whether it read the counter again in the end.
func (g migration) misread(before, settling time.Duration) (soon, later misreading, calibrated bool) {
	m := &machine{hz: 2.5e9, ticks: 1e14, ns: 1e9, pace: 1}
	c := newClock(sources{
		ticks: func() uint64 { return m.run(10e-9).ticks },
		ns:    func() int64 { return int64(m.ns) },
	})
	newest := c.renew()
	for range before / time.Millisecond {
		m.run(0.001)
		newest = c.renew()
	}
	m.ticks += g.jump.Seconds() * m.hz
	m.hz *= g.pace
	m.ns += float64(g.pause)
	for passed := time.Duration(0); passed < time.Second; passed += time.Millisecond {
		m.run(0.001)
		now := c.renew()
		ahead := time.Duration(now - int64(m.ns))
		r := misreading{early: ahead, late: -ahead, back: time.Duration(newest - now)}
		if newest = now; passed < settling {
			soon.join(r)
		} else {
			later.join(r)
		}
	}
	return soon, later, c.calibrated()
}

// The bounds are what the documentation of the clock says of a migration. The clock is migrated
// before it is calibrated, while it is, early and late in a calibration, and between two.
func TestClock_AMigrationMisleadsItByATenthOfASecond(t *testing.T) {
	const tenth, reading = 100 * time.Millisecond, time.Millisecond
	var worst misreading // without a pause
	for _, g := range migrations() {
		span := time.Duration(float64(tenth) / min(g.pace, 1)) // a tenth of a second of a slower counter
		for _, before := range []time.Duration{0, 5, 15, 25, 35, 70, 110, 119, 120, 121, 122, 123, 130, 200} {
			before *= time.Millisecond
			soon, later, calibrated := g.misread(before, span+tenth+reading)
			within := soon.early <= tenth+tenth/256 && soon.late <= g.pause+span+reading &&
				soon.back <= max(0, min(-g.jump, tenth))
			settled := calibrated && later.early <= tenth/256 && later.late <= tenth/256 && later.back <= 0
			if !within || !settled {
				t.Fatalf("%+v after %v: %+v, then %+v, calibrated: %v", g, before, soon, later, calibrated)
			}
			if g.pause == 0 {
				worst.join(soon)
			}
		}
	}
	require.Greater(t, worst.early, 95*time.Millisecond, "else too little was tried")
	require.Greater(t, worst.late, 95*time.Millisecond)
	require.Greater(t, worst.back, 55*time.Millisecond)
}
