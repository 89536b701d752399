package accuracy

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/bench/internal/traffic"
)

// Synthetic is made-up traffic, for a limit of its own.
type Synthetic struct {
	Name string
	make func(m *maker) // of one client
}

// Limit is what made-up traffic is made for.
var Limit = sash.Per(100, 10*time.Second)

// Made are the kinds of it.
var Made = []Synthetic{
	// The worst for two counters, and for buckets: when the second burst comes, the
	// first weighs next to nothing, or lies in a bucket that is just past, and is less
	// than a window ago.
	{"a burst at a window's end, another just before the next end", func(m *maker) {
		for w := 0; w < m.windows; w += 4 {
			m.burst(w, 0.999)
			m.burst(w+1, 59.1/60)
		}
	}},
	{"bursts on both sides of a window's end", func(m *maker) {
		for w := 0; w < m.windows; w += 4 {
			m.burst(w, 0.999)
			m.burst(w+1, 0)
		}
	}},
	{"evenly, at the limit", func(m *maker) {
		for i := range int64(m.windows) * Limit.Count {
			m.add(i * int64(Limit.Window) / Limit.Count)
		}
	}},
	{"at random, half above the limit", func(m *maker) {
		mean := float64(Limit.Window) / (1.5 * float64(Limit.Count))
		for at := 0.0; at < float64(m.windows)*float64(Limit.Window); at += m.random.ExpFloat64() * mean {
			m.add(int64(at))
		}
	}},
	{"bursts at random", func(m *maker) {
		for range m.windows {
			m.burst(m.random.IntN(m.windows), m.random.Float64())
		}
	}},
}

// A maker makes the events of one client after the other.
type maker struct {
	random  *rand.Rand
	windows int
	traffic traffic.Traffic
}

// Make returns traffic of some clients over some windows, the same each time.
func (s Synthetic) Make(clients, windows int) *traffic.Traffic {
	m := &maker{random: rand.New(rand.NewPCG(1, 2)), windows: windows}
	for c := range clients {
		m.traffic.Clients = append(m.traffic.Clients, "client"+strconv.Itoa(c))
		s.make(m)
	}
	slices.SortStableFunc(m.traffic.Events, func(a, b traffic.Event) int { return cmp.Compare(a.At, b.At) })
	return &m.traffic
}

// burst adds a burst of what a limit admits in a window, that far into window w. It
// lasts for a thousandth of the window.
func (m *maker) burst(w int, into float64) {
	from := (float64(w) + into) * float64(Limit.Window)
	for i := range Limit.Count {
		m.add(int64(from) + i*int64(Limit.Window)/1000/Limit.Count)
	}
}

// add adds an event of the latest client.
func (m *maker) add(at int64) {
	client := uint32(len(m.traffic.Clients) - 1)
	m.traffic.Events = append(m.traffic.Events, traffic.Event{At: at, Client: client})
}
