package tsc

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A processor that runs ahead of its loads could read the counter before it knows what another core
// has stored. Here each load waits for the one before, in memory that no near cache has. A few such
// loads take as long by the counter as by the system's clock. The processor can run ahead of so few.
// The test asks for half, as the two walks differ. Without the order, it is a hundredth.
func TestReadOrdered_WaitsForTheLoadsBeforeIt(t *testing.T) {
	const walks, steps = 400, 12
	var byCounter, bySystem [walks]int64
	path := newPath(1 << 18)
	firstTicks, firstNs := readOrdered(), SystemNow()
	for i := range walks {
		ticks := readOrdered()
		path.walk(steps)
		byCounter[i] = int64(readOrdered() - ticks)
		ns := SystemNow()
		path.walk(steps)
		bySystem[i] = SystemNow() - ns
	}
	ticksPerNs := float64(readOrdered()-firstTicks) / float64(SystemNow()-firstNs)
	require.Greater(t, median(byCounter[:])/ticksPerNs, median(bySystem[:])/2)
}

// A path leads through all lines of a piece of memory in random order, again and again.
type path struct {
	lines [][8]uint64 // the first word of a line is the index of the next line
	at    uint64
}

func newPath(lines int) *path {
	p := &path{lines: make([][8]uint64, lines)}
	order := rand.Perm(lines)
	for i, line := range order {
		p.lines[line][0] = uint64(order[(i+1)%lines])
	}
	return p
}

func (p *path) walk(steps int) {
	at := p.at
	for range steps {
		at = p.lines[at][0]
	}
	p.at = at
}

func median(values []int64) float64 {
	slices.Sort(values)
	return float64(values[len(values)/2])
}
