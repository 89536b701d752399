package offenders_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/offenders"
)

// A recorder is a Log, what it has written, and its time.
type recorder struct {
	offenders.Log
	clock  *sash.ManualClock
	output bytes.Buffer
}

func newRecorder() *recorder {
	r := &recorder{clock: sash.NewManualClock(0)}
	r.Clock = r.clock
	r.Logger = slog.New(slog.NewTextHandler(&r.output, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
	return r
}

// lines returns the records since the last call.
func (r *recorder) lines() []string {
	defer r.output.Reset()
	return strings.FieldsFunc(r.output.String(), func(c rune) bool { return c == '\n' })
}

func TestLog_WritesTheFirstDenialOfAWindow(t *testing.T) {
	r := newRecorder()
	const first = `level=INFO msg="request denied" policy=login limit="5/1m0s log" client=0000000000000001 retry_after=1s`
	for range 3 {
		r.Observe(denial("login", 1))
	}
	require.Equal(t, []string{first}, r.lines())
	r.clock.Advance(time.Minute - 1)
	r.Observe(denial("login", 1))
	require.Empty(t, r.lines(), "the window has not passed")
	r.clock.Advance(1)
	r.Observe(denial("login", 1))
	r.Observe(denial("login", 1))
	require.Equal(t, []string{first}, r.lines())
}

func TestLog_HasOneRecordForEachClientPolicyAndWindow(t *testing.T) {
	r := newRecorder()
	hourly := denial("slow", 1)
	hourly.Decision.Limit = sash.PerHour(7)
	for range 2 {
		for _, e := range []httplimit.Event{denial("a", 1), denial("a", 2), denial("b", 1), hourly} {
			r.Observe(e)
		}
	}
	require.Len(t, r.lines(), 4)
	r.clock.Advance(time.Minute)
	r.Observe(hourly)
	r.Observe(denial("a", 1))
	require.Len(t, r.lines(), 1, "an hour has not passed")
	r.clock.Advance(59 * time.Minute)
	r.Observe(hourly)
	require.Len(t, r.lines(), 1)
}

func TestLog_WritesDenialsOnly(t *testing.T) {
	r := newRecorder()
	for o := httplimit.Admitted; o <= httplimit.Failed; o++ {
		e := denial("each", uint64(o)+1)
		e.Outcome = o
		r.Observe(e)
	}
	require.Len(t, r.lines(), 1)
}

func TestLog_TellsWhatIsKnownOfADenial(t *testing.T) {
	r := newRecorder()
	r.Level, r.Name = slog.LevelWarn, offenders.Address
	e := denial("login", 1)
	e.Identity, e.Shadow, e.By, e.Err = "4\xcb\x00\x71\x07", true, "fallback", errors.New("no store")
	e.Decision.RetryAfter = sash.Never
	r.Observe(e)
	e = denial("login", 1)
	e.Identity = "\nlevel=ERROR"
	r.Observe(e)
	require.Equal(t, []string{
		`level=WARN msg="request denied" policy=login shadow=true limit="5/1m0s log" client=203.0.113.7 by=fallback error="no store"`,
		`level=WARN msg="request denied" policy=login limit="5/1m0s log" client="\"\\nlevel=ERROR\"" retry_after=1s`,
	}, r.lines())
}

// A flood of clients fills neither the memory nor the log: those that do not fit are counted.
func TestLog_CountsClientsThatDoNotFit(t *testing.T) {
	r := newRecorder()
	r.Size = 3
	for i := range uint64(10) {
		r.Observe(denial("each", 1+i))
		r.Observe(denial("each", 1+i))
	}
	require.Len(t, r.lines(), 3, "7 clients do not fit, with 2 denials each")
	r.clock.Advance(30 * time.Second)
	r.Observe(denial("each", 1))
	require.Empty(t, r.lines())
	r.clock.Advance(30 * time.Second)
	for i := range uint64(5) {
		r.Observe(denial("each", 11+i))
	}
	lines := r.lines()
	require.Len(t, lines, 3, "the others are forgotten")
	require.Contains(t, lines[0], "client=000000000000000b retry_after=1s unlogged=14")
	require.NotContains(t, lines[1], "unlogged")
	r.clock.Advance(time.Minute)
	r.Observe(denial("each", 13))
	require.Contains(t, r.lines()[0], "client=000000000000000d retry_after=1s unlogged=2")
}

// There is room as soon as the first client may have a new record, in whatever order.
func TestLog_MakesRoomWhenAWindowHasPassed(t *testing.T) {
	r := newRecorder()
	r.Size = 3
	for i, window := range []time.Duration{3 * time.Hour, time.Hour, 2 * time.Hour} {
		e := denial("each", uint64(1+i))
		e.Decision.Limit.Window = window
		r.Observe(e)
	}
	require.Len(t, r.lines(), 3)
	for hour := range 3 {
		r.clock.Set(int64(time.Duration(hour+1)*time.Hour) - 1)
		r.Observe(denial("each", 99))
		require.Empty(t, r.lines(), hour)
		r.clock.Advance(1)
		e := denial("each", uint64(10+hour))
		e.Decision.Limit.Window = 100 * time.Hour
		r.Observe(e)
		require.Len(t, r.lines(), 1, hour)
	}
}

// A client that fits is written again after its window, also while there is no room.
func TestLog_WritesAgainWhileThereIsNoRoom(t *testing.T) {
	r := newRecorder()
	r.Size = 1
	r.Observe(denial("each", 1))
	for range 5 {
		r.Observe(denial("each", 2))
		r.clock.Advance(time.Minute)
		r.Observe(denial("each", 1))
	}
	lines := r.lines()
	require.Len(t, lines, 6)
	for _, line := range lines[1:] {
		require.Contains(t, line, "client=0000000000000001 retry_after=1s unlogged=1")
	}
}

// An event that is not of httplimit may have no limit, and a window may be as long as can be.
func TestLog_TakesAnyWindow(t *testing.T) {
	for window, next := range map[time.Duration]time.Duration{0: time.Minute, -1: time.Minute, sash.Never: sash.Never - 1} {
		r := newRecorder()
		r.clock.Set(1)
		e := denial("each", 1)
		e.Decision.Limit.Window = window
		r.Observe(e)
		r.clock.Advance(next - 1)
		r.Observe(e)
		require.Len(t, r.lines(), 1, window)
		r.clock.Advance(1)
		r.Observe(e)
		require.Len(t, r.lines(), 1, window)
	}
}

// A record that the logger would drop is not counted as written.
func TestLog_WritesNothingForALevelThatIsOff(t *testing.T) {
	var output bytes.Buffer
	level := new(slog.LevelVar)
	level.Set(slog.LevelError)
	log := offenders.Log{Clock: sash.NewManualClock(0), Logger: slog.New(slog.NewTextHandler(&output, &slog.HandlerOptions{Level: level}))}
	log.Observe(denial("each", 1))
	require.Empty(t, output.String())
	level.Set(slog.LevelInfo)
	log.Observe(denial("each", 1))
	require.NotEmpty(t, output.String())
}

func TestLog_HasDefaults(t *testing.T) {
	var output bytes.Buffer
	defer slog.SetDefault(slog.Default())
	slog.SetDefault(slog.New(slog.NewTextHandler(&output, nil)))
	synctest.Test(t, func(t *testing.T) {
		var log offenders.Log
		for i := range uint64(1001) {
			log.Observe(denial("each", 1+i))
		}
		require.Equal(t, 1000, strings.Count(output.String(), "level=INFO"))
		time.Sleep(time.Minute)
		log.Observe(denial("each", 1))
		require.Equal(t, 1001, strings.Count(output.String(), "level=INFO"))
		require.Contains(t, output.String(), "unlogged=1\n")
	})
}

// A counter is a slog.Handler that counts records, and what they say was not logged.
type counter struct{ records, unlogged atomic.Int64 }

func (c *counter) Enabled(context.Context, slog.Level) bool { return true }
func (c *counter) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *counter) WithGroup(string) slog.Handler            { return c }
func (c *counter) Handle(_ context.Context, r slog.Record) error {
	c.records.Add(1)
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "unlogged" {
			c.unlogged.Add(a.Value.Int64())
		}
		return true
	})
	return nil
}

// However many requests are denied at once, one record is written for each client and window,
// and each denial that did not fit is counted once.
func TestLog_WritesOneRecordForManyAtOnce(t *testing.T) {
	const goroutines, clients, size, windows = 8, 30, 20, 20
	var records counter
	clock := sash.NewManualClock(0)
	log := offenders.Log{Size: size, Clock: clock, Logger: slog.New(&records)}
	for range windows {
		var g sync.WaitGroup
		for range goroutines {
			g.Go(func() {
				for i := range uint64(clients) {
					log.Observe(denial("each", 1+i))
				}
			})
		}
		g.Wait()
		clock.Advance(time.Minute)
	}
	require.EqualValues(t, size*windows, records.records.Load())
	log.Observe(denial("each", 1))
	require.EqualValues(t, (clients-size)*goroutines*windows, records.unlogged.Load())
}

// Two calls find that a client may have a record, before either claims it. One of them writes it.
func TestLog_WritesOneRecordForTwoThatMayWriteIt(t *testing.T) {
	var records meeting
	records.both.Add(2)
	log := offenders.Log{Clock: sash.NewManualClock(0), Logger: slog.New(&records)}
	var g sync.WaitGroup
	for range 2 {
		g.Go(func() { log.Observe(denial("each", 1)) })
	}
	g.Wait()
	require.EqualValues(t, 1, records.records.Load())
}

// A meeting is a counter in which the first two calls that ask whether it is enabled wait for each other.
type meeting struct {
	counter
	asked atomic.Int64
	both  sync.WaitGroup
}

func (m *meeting) Enabled(context.Context, slog.Level) bool {
	if m.asked.Add(1) <= 2 {
		m.both.Done()
		m.both.Wait()
	}
	return true
}

func TestLog_AllocatesNothingWithoutARecord(t *testing.T) {
	r := newRecorder()
	r.Size = 1
	fits, other := denial("each", 1), denial("each", 2)
	r.Observe(fits)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		r.Observe(fits)
		r.Observe(other)
	}))
}

// A client that hovers about the share of a limit has one record in its window, next to the one of a denial.
func TestLog_WritesTheFirstCrossingOfAWindow(t *testing.T) {
	r := newRecorder()
	event := func(limits ...sash.Limit) httplimit.Event {
		return httplimit.Event{Policy: "api", Outcome: httplimit.Admitted, Fingerprint: 1, Near: limits}
	}
	minute, day := sash.PerMinute(5), sash.PerDay(9)
	for range 3 {
		r.Observe(event(minute, day))
		r.Observe(event())
		r.Observe(denial("api", 1))
	}
	require.Equal(t, []string{
		`level=INFO msg="near limit" policy=api limit="5/1m0s log" client=0000000000000001`,
		`level=INFO msg="near limit" policy=api limit="9/24h0m0s log" client=0000000000000001`,
		`level=INFO msg="request denied" policy=api limit="5/1m0s log" client=0000000000000001 retry_after=1s`,
	}, r.lines())
	r.clock.Advance(time.Minute)
	r.Observe(event(minute, day))
	require.Len(t, r.lines(), 1, "a day has not passed")
	another := event(minute)
	another.Fingerprint, another.Outcome, another.Shadow = 2, httplimit.Settled, true
	r.Observe(another)
	require.Equal(t, []string{`level=INFO msg="near limit" policy=api shadow=true limit="5/1m0s log" client=0000000000000002`}, r.lines())
}
