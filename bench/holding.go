package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/bench/internal/keys"
)

// A holding is what a limiter holds for each of its keys.
type holding struct {
	name            string // of the limits
	limits          []sash.Limit
	keys, units     int
	bytes, objects  float64 // per key; the bytes without the key itself
	atMost, inTotal bounds  // of bytes and of objects
}

// holdings returns what is measured with n keys. The bounds are by the units charged.
func holdings(n int) (all []*holding) {
	log := []sash.Limit{sash.PerMinute(10).Log()}
	for _, h := range []holding{
		{name: "one word", limits: oneWord, units: 1},
		{name: "large", limits: large, units: 1},
		{name: "two limits", limits: twoCounters, units: 1},
		{name: "parts", limits: parts, units: 1},
		{name: "bucket", limits: bucket, units: 1, atMost: bounds{1_000_000: 1.2 * 38}, inTotal: bounds{1_000_000: 1}},
		{name: "log", limits: log, units: 1, atMost: bounds{1_000_000: 96}, inTotal: bounds{1_000_000: 1}},
		{name: "log", limits: log, units: 5, atMost: bounds{1_000_000: 160}, inTotal: bounds{1_000_000: 1}},
	} {
		h.keys = n
		all = append(all, &h)
	}
	return all
}

// bytesOfHolding is about the greatest number of bytes that a key takes.
const bytesOfHolding = 500

// measure charges the units of every key, and measures the heap.
func (h *holding) measure(ctx context.Context) error {
	before := heap()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	clock := sash.NewManualClock(0)
	l := limiter(h.limits, sash.WithClock(clock), sash.WithSweepInterval(-1))
	defer l.Close()
	for range h.units {
		if err := forEach(ctx, h.keys, runtime.GOMAXPROCS(0), func(i int) { l.Allow(keys.New(i)) }); err != nil {
			return err
		}
		clock.Advance(time.Second)
	}
	after := heap()
	h.bytes = (float64(after.HeapAlloc)-float64(before.HeapAlloc))/float64(h.keys) - meanLength(h.keys)
	h.objects = (float64(after.HeapObjects) - float64(before.HeapObjects)) / float64(h.keys)
	return nil
}

// records returns the figures.
func (h *holding) records() []ratioRecord {
	of := h.name + ", units: " + strconv.Itoa(h.units)
	return []ratioRecord{
		{Of: of, Unit: "bytes", Keys: h.keys, Value: h.bytes, AtMost: h.atMost.with(h.keys)},
		{Of: of, Unit: "objects", Keys: h.keys, Value: h.objects, AtMost: h.inTotal.with(h.keys)},
	}
}
