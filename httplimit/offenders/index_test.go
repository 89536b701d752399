package offenders

import (
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// sameHash returns clients that all have one hash: their policies' names have the same length.
func sameHash(n int) (all []*counter) {
	for i := range n {
		name := strings.Repeat("a", n)
		all = append(all, &counter{client: client{policy: name[:i] + "b" + name[i+1:], digest: 7}})
	}
	return all
}

// An index has the counters that a map has, while it grows and shrinks, also if many have one hash.
func TestIndex_HasWhatAMapHas(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	all := sameHash(20)
	for i := range 200 {
		all = append(all, &counter{client: client{policy: "p", identity: strings.Repeat("i", i), digest: uint64(i % 3)}})
	}
	var x index
	x.grow(1)
	want := make(map[*counter]bool)
	for range 20_000 {
		c := all[random.IntN(len(all))]
		if want[c] {
			x.remove(c)
			delete(want, c)
		} else {
			x.add(c)
			want[c] = true
		}
		asked := all[random.IntN(len(all))]
		if found := x.find(&asked.client); want[asked] {
			require.Same(t, asked, found)
		} else {
			require.Nil(t, found)
		}
		require.Equal(t, len(want), x.size)
	}
	require.GreaterOrEqual(t, len(*x.chains.Load()), 100, "it has grown")
}

// A find meets no lock. It misses no counter that stays, whatever is added to its chain and taken out of it.
func TestIndex_FindsWhatStaysWhileOthersComeAndGo(t *testing.T) {
	var x index
	x.grow(64)
	var stay, come []*counter
	for i, c := range sameHash(20) {
		if x.add(c); i%2 == 0 {
			stay = append(stay, c)
		} else {
			come = append(come, c)
		}
	}
	var done atomic.Bool
	var finders sync.WaitGroup
	for range 2 {
		finders.Go(func() {
			for i := 0; !done.Load(); i++ {
				if c := stay[i%len(stay)]; x.find(&c.client) != c {
					t.Errorf("the counter of %q was not found", c.policy)
					return
				}
			}
		})
	}
	for i := range 20_000 {
		c := &come[i%len(come)]
		x.remove(*c)
		*c = &counter{client: (*c).client} // one that was taken out is not used again
		x.add(*c)
	}
	done.Store(true)
	finders.Wait()
}
