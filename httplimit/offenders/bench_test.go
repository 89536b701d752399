package offenders_test

import (
	"fmt"
	"io"
	"log/slog"
	"testing"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/offenders"
)

// BenchmarkObserve measures what an event costs a Page and a Log. Under -cpu 1,2, one and two
// goroutines observe at once.
func BenchmarkObserve(b *testing.B) {
	events := func(outcome httplimit.Outcome, clients int) (all []httplimit.Event) {
		for i := range clients {
			all = append(all, httplimit.Event{
				Policy: "login", Outcome: outcome, Cost: 1, Fingerprint: uint64(i+1) * 0x9e37_79b9_7f4a_7c15,
				Decision: sash.Decision{Limit: sash.PerMinute(5)},
			})
		}
		return all
	}
	for _, c := range []struct {
		name   string
		events []httplimit.Event
	}{
		{"admitted", events(httplimit.Admitted, 1)},
		{"denied/clients=1", events(httplimit.Denied, 1)},
		{"denied/clients=1000", events(httplimit.Denied, 1000)},
		{"denied/clients=100000", events(httplimit.Denied, 100_000)}, // a hundred times as many as have counters
	} {
		for _, by := range []struct {
			name    string
			observe func(httplimit.Event)
		}{
			{"page", new(offenders.Page).Observe},
			{"log", (&offenders.Log{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}).Observe},
		} {
			b.Run(fmt.Sprintf("%s/%s", by.name, c.name), func(b *testing.B) {
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for i := 0; pb.Next(); i++ {
						by.observe(c.events[i%len(c.events)])
					}
				})
			})
		}
	}
}
