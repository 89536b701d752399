package tsc

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A processor that runs ahead of its loads could read the counter before it knows what another core
// has stored. Here each load waits for the one before, in memory that no near cache has. The processor
// can run ahead of a few such loads, and not of many. So if readings did not wait, few loads would take
// a small part of their share of the ticks that many take. The test asks for half of that share.
func TestReadOrdered_WaitsForTheLoadsBeforeIt(t *testing.T) {
	const walks, few, many = 200, 12, 1000
	var short, long [walks]uint64
	path := newPath(1 << 18)
	for i := range walks {
		short[i], long[i] = path.ticks(few), path.ticks(many)
	}
	require.Greater(t, median(short[:])*many/few, median(long[:])/2)
}

// A path leads through all lines of a piece of memory in random order, again and again.
type path struct {
	lines [][8]uint64 // the first word of a line is the index of the next line
	at    uint64
}

func newPath(lines int) *path {
	order := rand.Perm(lines)
	p := &path{make([][8]uint64, lines), uint64(order[0])} // the line that was written first
	for i, line := range order {
		p.lines[line][0] = uint64(order[(i+1)%lines])
	}
	return p
}

// ticks goes on by some steps, and returns how many ticks that took.
func (p *path) ticks(steps int) uint64 {
	cpuid(0) // waits for earlier loads, whatever readOrdered does
	start, at := readOrdered(), p.at
	for range steps {
		at = p.lines[at][0]
	}
	p.at = at
	return readOrdered() - start
}

func median(values []uint64) uint64 {
	slices.Sort(values)
	return values[len(values)/2]
}
