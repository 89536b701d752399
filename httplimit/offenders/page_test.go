package offenders_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/offenders"
)

// denial returns the event of a denial of a client by a policy.
func denial(policy string, client uint64) httplimit.Event {
	return httplimit.Event{
		Policy: policy, Outcome: httplimit.Denied, Cost: 1, Fingerprint: client,
		Decision: sash.Decision{Limit: sash.PerMinute(5).Log(), RetryAfter: time.Second},
	}
}

// A stream is a kind of traffic that a count of the most frequent clients may get wrong. Its
// client is the client of the ith denial.
type stream struct {
	name   string
	client func(i int) uint64
}

func streams(random *rand.Rand) []stream {
	zipf := rand.NewZipf(random, 1.1, 1, 10_000)
	return []stream{
		{"one client", func(int) uint64 { return 1 }},
		{"all alike", func(int) uint64 { return 1 + random.Uint64N(300) }},
		{"zipf", func(int) uint64 { return 1 + zipf.Uint64() }},
		{"in turn", func(i int) uint64 { return 1 + uint64(i)%101 }},
		{"never the same", func(i int) uint64 { return 1 + uint64(i) }},
		{"each for a while", func(i int) uint64 { return 1 + uint64(i)/100 }},
		// A newcomer takes over the least counter, so a client that comes back has lost its own.
		{"back when forgotten", func(i int) uint64 { return 1 + uint64(i)*min(1, uint64(i)%50) }},
		{"half to one, half new", func(i int) uint64 { return 1 + uint64(i)*(uint64(i)%2) }},
	}
}

// exact are the true counts of what a page covers.
type exact map[string]int64

func (e exact) sum() (n int64) {
	for _, count := range e {
		n += count
	}
	return n
}

func name(client uint64) string {
	return fmt.Sprintf("%016x", client)
}

// requireBounds checks what a page promises, given the true counts. Size is the size of the page.
func requireBounds(t *testing.T, r offenders.Report, truth exact, size int64) {
	t.Helper()
	n := truth.sum()
	require.Equal(t, n, r.Denials)
	require.LessOrEqual(t, r.MaxError, n/size)
	shown := make(map[string]bool)
	for _, c := range r.Clients {
		require.False(t, shown[c.Name], "twice: %s", c.Name)
		shown[c.Name] = true
		require.LessOrEqual(t, truth[c.Name], c.Denials, "too low")
		require.LessOrEqual(t, c.Certain(), truth[c.Name], "too high by more than its error")
		require.Equal(t, c.Denials-c.Error, c.Certain())
		require.LessOrEqual(t, c.Error, r.MaxError)
	}
	for client, count := range truth {
		if !shown[client] {
			require.LessOrEqual(t, count, r.MaxError, "not shown: %s", client)
		}
	}
	require.True(t, slices.IsSortedFunc(r.Clients, func(a, b offenders.Client) int { return cmp.Compare(b.Denials, a.Denials) }))
}

func TestPage_CountsWithinItsBounds(t *testing.T) {
	for _, size := range []int{1, 2, 3, 17, 100} {
		for _, of := range streams(rand.New(rand.NewPCG(1, uint64(size)))) {
			t.Run(fmt.Sprintf("%s, %d", of.name, size), func(t *testing.T) {
				page, truth := offenders.Page{Size: size, Clock: sash.NewManualClock(0)}, exact{}
				for i := range 3000 {
					client := of.client(i)
					page.Observe(denial("each", client))
					truth[name(client)]++
					if i%499 == 0 {
						requireBounds(t, page.Report(), truth, int64(size))
					}
				}
				requireBounds(t, page.Report(), truth, int64(size))
			})
		}
	}
}

func TestPage_CountsWithinItsBoundsOverTwoPeriods(t *testing.T) {
	const size, period = 20, 100
	random := rand.New(rand.NewPCG(1, 2))
	for _, of := range streams(random) {
		t.Run(of.name, func(t *testing.T) {
			clock := sash.NewManualClock(0)
			page := offenders.Page{Size: size, Period: period, Clock: clock}
			require.Zero(t, page.Report().Denials) // the first period begins now
			periods := []exact{{}}                 // the latest is last
			begun := int64(0)
			for i := range 5000 {
				clock.Advance(time.Duration(random.IntN(3) * random.IntN(2)))
				if random.IntN(500) == 0 {
					clock.Advance(time.Duration(random.IntN(3 * period)))
				}
				switch passed := clock.Now() - begun; {
				case passed >= 2*period:
					periods, begun = []exact{{}}, clock.Now()
				case passed >= period:
					periods, begun = append(periods, exact{}), begun+period
				}
				client := of.client(i)
				page.Observe(denial("each", client))
				periods[len(periods)-1][name(client)]++
				if i%97 != 0 {
					continue
				}
				truth := exact{}
				for _, counts := range periods[max(0, len(periods)-2):] {
					for client, count := range counts {
						truth[client] += count
					}
				}
				requireBounds(t, page.Report(), truth, size)
			}
		})
	}
}

// Many goroutines count, on few counters that clients keep taking from each other, while
// reports are made.
func TestPage_CountsWithinItsBoundsForManyAtOnce(t *testing.T) {
	const goroutines, each = 8, 2000
	for _, size := range []int{1, 2, 10, 200} {
		page, truth := offenders.Page{Size: size, Clock: sash.NewManualClock(0)}, exact{}
		var mu sync.Mutex
		var g, reports sync.WaitGroup
		done := make(chan struct{})
		reports.Go(func() {
			last := int64(0)
			for {
				r := page.Report()
				require.GreaterOrEqual(t, r.Denials, last)
				require.LessOrEqual(t, r.MaxError, r.Denials/int64(size))
				last = r.Denials
				select {
				case <-done:
					return
				default:
				}
			}
		})
		for worker := range goroutines {
			g.Go(func() {
				random, counts := rand.New(rand.NewPCG(3, uint64(worker))), exact{}
				for range each {
					// Few clients are common, and many are rare.
					client := 1 + random.Uint64N(1+random.Uint64N(1+random.Uint64N(1000)))
					page.Observe(denial("each", client))
					counts[name(client)]++
				}
				mu.Lock()
				defer mu.Unlock()
				for client, count := range counts {
					truth[client] += count
				}
			})
		}
		g.Wait()
		close(done)
		reports.Wait()
		requireBounds(t, page.Report(), truth, int64(size))
	}
}

func TestPage_CountsExactlyUpToSizeClients(t *testing.T) {
	page := offenders.Page{Size: 50, Clock: sash.NewManualClock(0)}
	for i := range 50 * 51 {
		page.Observe(denial("each", 1+uint64(i)%50))
	}
	r := page.Report()
	require.Zero(t, r.MaxError)
	require.Len(t, r.Clients, 50)
	for _, c := range r.Clients {
		require.EqualValues(t, 51, c.Denials)
		require.Zero(t, c.Error)
	}
}

func TestPage_CountsDenialsOnly(t *testing.T) {
	page := offenders.Page{Clock: sash.NewManualClock(0)}
	for o := httplimit.Admitted; o <= httplimit.Failed; o++ {
		e := denial("each", 1)
		e.Outcome = o
		page.Observe(e)
	}
	require.EqualValues(t, 1, page.Report().Denials)
}

// Only what events are known to cost is copied: the clients are listed by policy.
func TestPage_TellsPoliciesApart(t *testing.T) {
	page := offenders.Page{Clock: sash.NewManualClock(0)}
	shadow := denial("tried", 1)
	shadow.Shadow = true
	for _, e := range []httplimit.Event{denial("a", 1), denial("b", 1), denial("b", 1), shadow} {
		page.Observe(e)
	}
	var rows []string
	for _, c := range page.Report().Clients {
		rows = append(rows, fmt.Sprint(c.Policy, " ", c.Name, " ", c.Denials, " ", c.Shadow, " ", c.Limit))
	}
	require.Equal(t, []string{
		"b 0000000000000001 2 false 5/1m0s log",
		"a 0000000000000001 1 false 5/1m0s log",
		"tried 0000000000000001 1 true 5/1m0s log",
	}, rows)
}

func TestPage_CoversOneToTwoPeriods(t *testing.T) {
	clock := sash.NewManualClock(0)
	page := offenders.Page{Period: time.Minute, Clock: clock}
	at := func(seconds int) map[string]int64 {
		clock.Set(int64(time.Duration(seconds) * time.Second))
		counts := make(map[string]int64)
		for _, c := range page.Report().Clients {
			counts[c.Name] = c.Denials
		}
		return counts
	}
	require.Empty(t, at(0))
	page.Observe(denial("each", 1))
	at(59)
	page.Observe(denial("each", 1))
	page.Observe(denial("each", 2))
	at(60) // the next period begins
	page.Observe(denial("each", 2))
	require.Equal(t, map[string]int64{name(1): 2, name(2): 2}, at(119))
	require.Equal(t, map[string]int64{name(2): 1}, at(120))
	require.Empty(t, at(240), "after a pause")
	page.Observe(denial("each", 3))
	require.Equal(t, map[string]int64{name(3): 1}, at(359))
	require.Empty(t, at(360))
	require.Empty(t, at(30), "the clock runs backwards")
}

// A period begins once, however many calls find it due.
func TestPage_BeginsAPeriodOnceForManyAtOnce(t *testing.T) {
	const goroutines, rounds = 8, 1000
	clock := sash.NewManualClock(0)
	page := offenders.Page{Period: time.Minute, Clock: clock}
	page.Observe(denial("each", 1))
	for round := range rounds {
		clock.Advance(time.Minute)
		var g sync.WaitGroup
		start := make(chan struct{})
		for i := range uint64(goroutines) {
			g.Go(func() {
				<-start
				page.Observe(denial("each", 1+i))
			})
		}
		close(start)
		g.Wait()
		require.EqualValues(t, goroutines*min(2, round+1)+max(0, 1-round), page.Report().Denials, "of this period and the one before")
	}
}

func TestPage_TellsWhenClientsWereDenied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now().Round(0)
		page := offenders.Page{Period: time.Minute} // its clock is the bubble's
		page.Observe(denial("each", 1))
		time.Sleep(50 * time.Second)
		page.Observe(denial("each", 1))
		time.Sleep(20 * time.Second)
		page.Observe(denial("each", 2))
		time.Sleep(5 * time.Second)
		r := page.Report()
		require.Equal(t, begun.Add(75*time.Second), r.Time)
		require.Equal(t, begun, r.Since)
		require.Equal(t, []string{name(1), name(2)}, []string{r.Clients[0].Name, r.Clients[1].Name})
		require.Equal(t, begun, r.Clients[0].First)
		require.Equal(t, begun.Add(50*time.Second), r.Clients[0].Last)
		require.Equal(t, begun.Add(70*time.Second), r.Clients[1].First)
		require.Equal(t, r.Clients[1].First, r.Clients[1].Last)
	})
}

func TestPage_HasDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var page offenders.Page
		for i := range uint64(1001) {
			page.Observe(denial("each", 1+i))
		}
		r := page.Report()
		require.Len(t, r.Clients, 1000)
		require.Equal(t, 1000, r.Size)
		require.EqualValues(t, 1, r.MaxError)
		time.Sleep(10*time.Minute - time.Millisecond)
		require.Len(t, page.Report().Clients, 1000)
		time.Sleep(time.Millisecond)
		require.Empty(t, page.Report().Clients)
	})
}

func TestPage_NamesClientsAsAsked(t *testing.T) {
	address := "4\xcb\x00\x71\x07" // of httplimit.ByAddress
	long := strings.Repeat("ä", 100)
	for _, c := range []struct {
		what     string
		namer    func(policy, identity string) string
		identity string
		want     string
	}{
		{"a fingerprint, unless asked", nil, "secret", `^00000000000000ff$`},
		{"as it is", offenders.Identity, "alice", `^alice$`},
		{"nothing to name", offenders.Identity, "", `^00000000000000ff$`},
		{"control characters", offenders.Identity, "a\n\x1b[2J", `^"a\\n\\x1b\[2J"$`},
		{"a text that runs backwards", offenders.Identity, "a\u202eb", `^"a\\u202eb"$`},
		{"not UTF-8", offenders.Identity, "\xff", `^"\\xff"$`},
		{"quotes", offenders.Identity, `"a"`, `^"\\"a\\""$`},
		{"a blank", offenders.Identity, " ", `^" "$`},
		{"a long one is cut", offenders.Identity, long, `^ä{64}…[0-9a-f]{16}$`},
		{"cut within a character", offenders.Identity, "a" + long, `^"aä{63}\\xc3"…[0-9a-f]{16}$`},
		{"an address", offenders.Address, address, `^203\.0\.113\.7$`},
		{"no address", offenders.Address, "alice", `^alice$`},
		{"a long name", func(string, string) string { return strings.Repeat("x", 1<<20) }, "a", `^x{256}…$`},
		{"by policy", func(policy, identity string) string { return policy + "/" + identity }, "a", `^each/a$`},
	} {
		page := offenders.Page{Name: c.namer, Clock: sash.NewManualClock(0)}
		e := denial("each", 255)
		e.Identity = c.identity
		page.Observe(e)
		require.Regexp(t, c.want, page.Report().Clients[0].Name, c.what)
	}
}

// Long identities with the same beginning are different clients.
func TestPage_TellsLongIdentitiesApart(t *testing.T) {
	page := offenders.Page{Name: offenders.Identity, Clock: sash.NewManualClock(0)}
	long := strings.Repeat("long", 1000)
	for _, identity := range []string{long + "a", long + "b", long + "a", long[:128]} {
		e := denial("each", 0)
		e.Identity = identity
		page.Observe(e)
	}
	names := make(map[string]bool)
	for _, c := range page.Report().Clients {
		names[c.Name] = true
	}
	require.Len(t, slices.Collect(maps.Keys(names)), 3)
}

// Denials of clients that have counters allocate nothing.
func TestPage_AllocatesNothingForAClientWithACounter(t *testing.T) {
	page := offenders.Page{Clock: sash.NewManualClock(0)}
	denied, admitted := denial("each", 1), denial("each", 1)
	admitted.Outcome = httplimit.Admitted
	page.Observe(denied)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		page.Observe(denied)
		page.Observe(admitted)
	}))
}
