package suggest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/race"
)

// A call is one event of a test.
type call struct {
	client    uint32
	at, units int64
}

func measure(least int64, calls []call, windows ...time.Duration) *gauge {
	g := newGauge(windows, least)
	for _, c := range calls {
		g.add(c.client, c.at, c.units)
	}
	return g
}

// decide sends calls through a limiter, and returns which clients it denies, and how many
// calls. A call asks for no fewer than least units.
func decide(t *testing.T, l sash.Limit, least int64, calls []call) (clients map[uint32]bool, denied int64) {
	t.Helper()
	clock := sash.NewManualClock(0)
	limiter, err := sash.New(l, sash.WithClock(clock), sash.WithSweepInterval(-1))
	require.NoError(t, err)
	defer limiter.Close()
	clients = make(map[uint32]bool)
	for _, c := range calls {
		clock.Set(c.at)
		reservation, d := limiter.Reserve(string(rune('a'+c.client)), max(c.units, least))
		if reservation.Commit(c.units); !d.Allowed {
			clients[c.client] = true
			denied++
		}
	}
	return clients, denied
}

// randomCalls returns calls in the order of time, in bursts, many of them at the edges of
// windows of one second.
func randomCalls(random *rand.Rand) (calls []call) {
	steps := []int64{0, 0, 1, int64(time.Second) - 1, int64(time.Second), int64(time.Second) / 4, int64(time.Second) / 10}
	most := 1 + random.Int64N(4)
	for at := int64(time.Hour); len(calls) < 600; at += steps[random.IntN(len(steps))] {
		for range random.IntN(6) {
			calls = append(calls, call{uint32(random.IntN(4) * random.IntN(4)), at, random.Int64N(most + 1)})
		}
	}
	return calls
}

// A SlidingLog denies a client at least once if and only if its busiest window holds more than
// the limit admits, and it denies exactly the events that the gauge says.
func TestGauge_TellsWhatALogDenies(t *testing.T) {
	t.Parallel()
	touched, untouched := 0, 0
	for seed := range uint64(race.Trials(40)) {
		calls, least := randomCalls(rand.New(rand.NewPCG(seed, 1))), int64(seed%2)
		first := 0
		if seed%4 >= 2 { // bytes
			first = atLeast(1e6)
			for i := range calls {
				calls[i].units *= 1e6
			}
		}
		windows := []time.Duration{time.Second / 10, time.Second, 5 * time.Second}
		g := newGauge(windows, least)
		for _, c := range calls {
			if seed%8 >= 4 {
				g.sinceSweep += 500 // so that it sweeps after every third event
			}
			g.add(c.client, c.at, c.units)
		}
		for i := range 20 * len(windows) {
			c, w := first+i/len(windows), i%len(windows)
			l := sash.Per(candidates[c], windows[w]).Log()
			clients, denied := decide(t, l, least, calls)
			units := g.unitsIn(w)
			for client, busiest := range units {
				require.Equal(t, clients[uint32(client)], busiest > l.Count, "seed %d, %v, client %d", seed, l, client)
			}
			require.Equal(t, denied, g.denied[w][c], "seed %d, %v", seed, l)
			touched, untouched = touched+len(clients), untouched+len(units)-len(clients)
		}
	}
	assert.Greater(t, touched, race.Trials(1000), "these calls tell nothing")
	assert.Greater(t, untouched, race.Trials(1000), "these calls tell nothing")
}

// eachVerdict replays random calls under limits per second, each as kept by an algorithm. It calls
// check for each client, with the client's busiest window and whether the limit has denied it.
func eachVerdict(t *testing.T, stream uint64, kept func(sash.Limit) sash.Limit, check func(count, busiest int64, denied bool, about string)) {
	for seed := range uint64(race.Trials(60)) {
		calls := randomCalls(rand.New(rand.NewPCG(seed, stream)))
		g := measure(0, calls, time.Second)
		for _, count := range candidates[:20] {
			clients, _ := decide(t, kept(sash.PerSecond(count)), 0, calls)
			for client, busiest := range g.unitsIn(0) {
				check(count, busiest, clients[uint32(client)], fmt.Sprintf("seed %d, %d/s, busiest window %d", seed, count, busiest))
			}
		}
	}
}

// A SlidingCounter weighs the window before by how much of it is still covered, so it may
// deny a client whose busiest window is within the limit, and admit one that is above. It
// denies no client whose busiest window holds at most half of the limit, and every client
// whose busiest window holds twice the limit.
func TestGauge_TellsWithinAFactorOfTwoWhatACounterDenies(t *testing.T) {
	t.Parallel()
	within, above := 0, 0
	eachVerdict(t, 2, sash.Limit.Counter, func(count, busiest int64, denied bool, about string) {
		switch {
		case 2*busiest <= count:
			require.False(t, denied, about)
		case busiest >= 2*count:
			require.True(t, denied, about)
		case denied && busiest <= count:
			within++
		case !denied && busiest > count:
			above++
		}
	})
	assert.Greater(t, within, race.Trials(10), "no counter denied a client that the log admits")
	assert.Greater(t, above, race.Trials(10), "no counter admitted a client that the log denies")
}

// SlidingParts deny no client whose busiest window is within the limit, and every client whose
// busiest window holds more than twice the limit.
func TestGauge_TellsWhomPartsDoNotDeny(t *testing.T) {
	t.Parallel()
	within, above, denials := 0, 0, 0
	eachVerdict(t, 3, sash.Limit.Parts, func(count, busiest int64, denied bool, about string) {
		switch {
		case busiest <= count:
			require.False(t, denied, about)
			within++
		case busiest > 2*count:
			require.True(t, denied, about)
		case !denied:
			above++
		}
		if denied {
			denials++
		}
	})
	assert.Greater(t, within, race.Trials(1000), "these calls tell nothing")
	assert.Greater(t, denials, race.Trials(1000), "these calls tell nothing")
	assert.Greater(t, above, race.Trials(10), "no parts admitted a client that the log denies")
}

func TestGauge_BusiestWindowIsHalfOpen(t *testing.T) {
	const second = int64(time.Second)
	g := measure(0, []call{{0, 0, 1}, {0, second - 1, 1}, {0, second, 5}, {1, second, 2}, {1, 2 * second, 4}, {2, 2 * second, 0}}, time.Second)
	assert.Equal(t, []int64{6, 4, 0}, g.unitsIn(0))
	assert.Equal(t, []peak{{busy{6, second}, 0}}, g.peaks)
	assert.Equal(t, []int64{second, 2 * second}, g.endsOf(0, 4))
}

// Busy clients keep the events of the longest window only, and idle ones keep none.
func TestGauge_KeepsTheEventsOfTheLongestWindow(t *testing.T) {
	const clients, perWindow, windows = 2000, 50, 200
	g := newGauge([]time.Duration{time.Millisecond, time.Second}, 0)
	for i := range perWindow * windows {
		at := int64(i) * int64(time.Second) / perWindow
		g.add(0, at, 1)
		g.add(1+uint32(i%clients), at, 1)
	}
	kept, active := 0, 0
	for client, events := range g.events {
		if len(events) > 0 {
			active++
			kept += len(events)
			assert.LessOrEqual(t, cap(events), 4*perWindow)
			if all := g.trailing[2*client:][:2]; all[1].denials != nil {
				assert.Nil(t, all[0].denials)
				assert.LessOrEqual(t, len(all[1].denials.events), perWindow)
			}
		}
	}
	// A sweep comes after as many events as there are clients.
	assert.LessOrEqual(t, kept, 2*perWindow+clients+1)
	assert.LessOrEqual(t, active, 1+perWindow+clients/2)
	assert.EqualValues(t, 1, g.busiest(0, 0).units)
	assert.EqualValues(t, perWindow, g.busiest(0, 1).units)
}

// A flood within one second of a log of whole seconds takes no memory for each of its events.
func TestGauge_KeepsOneInstantOnce(t *testing.T) {
	const flood, instants = 10_000, 3
	g := newGauge([]time.Duration{time.Hour}, 0)
	for i := range flood * instants {
		g.add(0, int64(i/flood)*int64(time.Second), 1)
	}
	assert.Len(t, g.events[0], instants)
	assert.LessOrEqual(t, len(g.trailing[0].denials.events), len(candidates)*instants)
	assert.EqualValues(t, flood*instants, g.busiest(0, 0).units)
	assert.EqualValues(t, flood*instants-100, g.denied[0][atLeast(100)])
	g.add(0, int64(time.Hour), 1)
	assert.EqualValues(t, flood*(instants-1)+1, g.trailing[0].units, "the first instant has left the window as one")
}

func TestCandidates_AscendAndCoverWhatPeopleChoose(t *testing.T) {
	for i := 1; i < len(candidates); i++ {
		require.Less(t, candidates[i-1], candidates[i])
		require.LessOrEqual(t, candidates[i], 2*candidates[i-1])
		require.LessOrEqual(t, 2*candidates[i], max(10, 3*candidates[i-1]), "from 5 on, a step is half as much again at most")
	}
	require.LessOrEqual(t, len(candidates), 64*len(candidateSet{}))
	for _, n := range []int64{5, 10, 20, 30, 60, 100, 120, 300, 500, 1000, 5000, 150_000, 3e6, 1e11} {
		assert.Equal(t, n, candidates[atLeast(n)])
	}
	assert.EqualValues(t, 12, candidates[atLeast(11)])
	assert.Equal(t, len(candidates), atLeast(candidates[len(candidates)-1]+1))
}
