package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/command"
	"github.com/seed-30da4c49/sash/internal/race"
)

// An outcome is the result of a run of the command.
type outcome struct {
	status         int
	stdout, stderr string
}

func soaked(ctx context.Context, build build, args ...string) outcome {
	var stdout, stderr bytes.Buffer
	status := invoke(ctx, args, build, &stdout, &stderr)
	return outcome{status, stdout.String(), stderr.String()}
}

func (o outcome) report(t *testing.T) (r report) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(o.stdout))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&r), o.stderr)
	return r
}

func TestSoak_FindsNothingWrong(t *testing.T) {
	got := soaked(t.Context(), right, "-for", "2s", "-seed", "1", "-json")
	r := got.report(t)
	require.Equal(t, command.OK, got.status, r.FirstFaults)
	require.Empty(t, got.stderr)
	require.Len(t, r.Limiters, len(plans()))
	for _, l := range r.Limiters {
		assert.Positive(t, l.Admitted, l.Name)
		assert.Greater(t, l.Calls, l.Admitted, l.Name)
		assert.Positive(t, l.Keys, l.Name)
		assert.Positive(t, l.Longest, l.Name)
	}
	assert.Positive(t, r.Sweeps+r.LimitChanges+r.Snapshots)
}

// An overriding limiter replaces Take by another function.
type overriding struct {
	*sash.Limiter
	decide func(l *sash.Limiter, key string, n int64) sash.Decision
}

func (o overriding) Take(key string, n int64) sash.Decision { return o.decide(o.Limiter, key, n) }

func deciding(decide func(l *sash.Limiter, key string, n int64) sash.Decision) build {
	return func(p plan, c sash.Clock) limiter { return overriding{p.make(c), decide} }
}

type (
	capless  struct{ *sash.Limiter }
	hoarding struct{ *sash.Limiter }
	deaf     struct{ *sash.Limiter }
	losing   struct{ *sash.Limiter }
	amnesiac struct{ *sash.Limiter }
	failing  struct{ *sash.Limiter }
	fixing   struct{ *sash.Limiter }
	running  struct{ *sash.Limiter }
	altering struct {
		*sash.Limiter
		alter func(sash.Limit) sash.Limit
	}
	forgetting struct{ *sash.Limiter }
	letting    struct{ *sash.Limiter }
	fat        struct {
		*sash.Limiter
		ballast *[]byte
	}
	rewinding struct {
		*sash.Limiter
		clock sash.Clock
		high  *atomic.Int64
	}
)

func (l capless) Len() int                                  { return l.Limiter.Len() + 10_000 }
func (l hoarding) Len() int                                 { return max(l.Limiter.Len(), 1) }
func (l deaf) Reconfigure(...sash.Limit) error              { return nil }
func (l failing) Wait(context.Context, string, int64) error { return errors.New("no more waiting") }
func (l running) Close() error                              { return nil }

// Sweep of a losing limiter also resets keys that are not idle.
func (l losing) Sweep() int {
	for i := range keptKeys {
		l.Reset(keptName(i))
	}
	return l.Limiter.Sweep()
}

// fixed returns limits with fixed windows instead of counters.
func fixed(limits []sash.Limit) (all []sash.Limit) {
	for _, l := range limits {
		if l.Algorithm == sash.SlidingCounter {
			l = l.Buckets(l.Window)
		}
		all = append(all, l)
	}
	return all
}

func (l fixing) Reconfigure(limits ...sash.Limit) error {
	return l.Limiter.Reconfigure(fixed(limits)...)
}

// altered returns limits with other token buckets.
func altered(limits []sash.Limit, alter func(sash.Limit) sash.Limit) (all []sash.Limit) {
	for _, l := range limits {
		if l.Algorithm == sash.TokenBucket {
			l = alter(l)
		}
		all = append(all, l)
	}
	return all
}

func (l altering) Reconfigure(limits ...sash.Limit) error {
	return l.Limiter.Reconfigure(altered(limits, l.alter)...)
}

// altersBuckets builds limiters whose token buckets are others than their limits say.
func altersBuckets(alter func(sash.Limit) sash.Limit) build {
	return func(p plan, c sash.Clock) limiter {
		p.limits = altered(p.limits, alter)
		return altering{p.make(c), alter}
	}
}

// A forgetting limiter also resets keys that are not idle when it changes any limits.
func (l forgetting) forget() {
	for i := range keptKeys {
		l.Reset(keptName(i))
	}
}

func (l forgetting) Reconfigure(limits ...sash.Limit) error {
	defer l.forget()
	return l.Limiter.Reconfigure(limits...)
}

func (l forgetting) SetLimits(key string, limits ...sash.Limit) error {
	defer l.forget()
	return l.Limiter.SetLimits(key, limits...)
}

// Reserve of a letting limiter holds nothing.
func (l letting) Reserve(key string, n int64) (sash.Reservation, sash.Decision) {
	r, d := l.Limiter.Reserve(key, n)
	r.Release()
	return r, d
}

func (l amnesiac) Restore(r io.Reader) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

func (l fat) Sweep() int {
	*l.ballast = append(*l.ballast, make([]byte, 1<<20)...)
	return l.Limiter.Sweep()
}

// Take of a rewinding limiter forgets the key if the clock has gone back.
func (l rewinding) Take(key string, n int64) sash.Decision {
	if now := l.clock.Now(); now >= l.high.Load() {
		l.high.Store(now)
	} else {
		l.Reset(key)
	}
	return l.Limiter.Take(key, n)
}

// Soak finds every kind of fault. Without this test, a soak that finds nothing would prove
// nothing.
func TestSoak_FindsWhatIsWrong(t *testing.T) {
	if race.Enabled {
		t.Skip("takes a minute with the race detector, which has nothing to see here: TestSoak_FindsNothingWrong runs the same code")
	}
	var denials atomic.Int64
	for name, c := range map[string]struct {
		build build
		want  string
	}{
		"admits one call in a hundred that it denies": {deciding(func(l *sash.Limiter, key string, n int64) sash.Decision {
			d := l.Take(key, n)
			if !d.Allowed && denials.Add(1)%100 == 0 {
				d.Allowed, d.RetryAfter = true, 0
			}
			return d
		}), "over-admission"},
		"counts by fixed windows": {func(p plan, c sash.Clock) limiter {
			p.limits = fixed(p.limits)
			return fixing{p.make(c)}
		}, "over-admission"},
		"goes back with the clock": {func(p plan, c sash.Clock) limiter {
			return rewinding{p.make(c), c, new(atomic.Int64)}
		}, "over-admission"},
		"loses charges as it sweeps": {func(p plan, c sash.Clock) limiter { return losing{p.make(c)} }, "over-admission"},
		"keeps to old limits":        {func(p plan, c sash.Clock) limiter { return deaf{p.make(c)} }, "over-admission"},
		"holds a third more than Burst": {altersBuckets(func(l sash.Limit) sash.Limit {
			l.Burst += l.Burst / 3
			return l
		}), "burst"},
		"flows a third faster": {altersBuckets(func(l sash.Limit) sash.Limit {
			l.Count += l.Count / 3
			return l
		}), "burst"},
		"forgets token buckets as limits change": {func(p plan, c sash.Clock) limiter {
			if p.limits[0].Algorithm == sash.TokenBucket {
				return forgetting{p.make(c)}
			}
			return p.make(c)
		}, "burst|units left, though"}, // whichever is found first
		"holds nothing":              {func(p plan, c sash.Clock) limiter { return letting{p.make(c)} }, "over-admission.* at once"},
		"restores nothing":           {func(p plan, c sash.Clock) limiter { return amnesiac{p.make(c)} }, "units left, though"},
		"has more keys than the cap": {func(p plan, c sash.Clock) limiter { return capless{p.make(c)} }, "at most 1000 may be"},
		"does not wait":              {func(p plan, c sash.Clock) limiter { return failing{p.make(c)} }, "no more waiting"},
		"denies keys that it does not track": {deciding(func(l *sash.Limiter, key string, n int64) sash.Decision {
			d := l.Take(key, n)
			if strings.HasPrefix(key, "caller") {
				d.Allowed, d.RetryAfter = false, 1
			}
			return d
		}), "the first unit of key"},
		"denies and says to try at once": {deciding(func(l *sash.Limiter, key string, n int64) sash.Decision {
			d := l.Take(key, n)
			d.RetryAfter = 0
			return d
		}), "RetryAfter is not 0"},
		"has less than nothing left": {deciding(func(l *sash.Limiter, key string, n int64) sash.Decision {
			d := l.Take(key, n)
			d.Remaining -= 5
			return d
		}), "Remaining is not from 0"},
		"says never": {deciding(func(l *sash.Limiter, key string, n int64) sash.Decision {
			d := l.Take(key, n)
			if !d.Allowed {
				d.RetryAfter = sash.Never
			}
			return d
		}), "never admitted"},
	} {
		t.Run(name, func(t *testing.T) {
			got := soaked(t.Context(), c.build, "-for", "5m", "-first") // it ends with the first fault, within seconds on a machine that is not busy
			require.Equal(t, command.Failed, got.status)
			require.Regexp(t, c.want, got.stdout)
		})
	}
}

// Soak finds the faults that show only at the end.
func TestSoak_FindsWhatIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		build build
		want  string
	}{
		"keys":       {func(p plan, c sash.Clock) limiter { return hoarding{p.make(c)} }, "1 keys are left"},
		"goroutines": {func(p plan, c sash.Clock) limiter { return running{p.make(c)} }, "goroutines are left"},
		"memory":     {func(p plan, c sash.Clock) limiter { return fat{p.make(c), new([]byte)} }, "the heap has grown"},
	} {
		t.Run(name, func(t *testing.T) {
			got := soaked(t.Context(), c.build, "-for", "200ms")
			require.Equal(t, command.Failed, got.status)
			require.Contains(t, got.stdout, c.want)
		})
	}
}

func TestSoak_InterruptedWritesItsTable(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	built := 0
	got := soaked(ctx, func(p plan, c sash.Clock) limiter {
		if built++; built == len(plans()) {
			time.AfterFunc(100*time.Millisecond, cancel)
		}
		return p.make(c)
	}, "-for", "1h")
	require.Equal(t, command.Interrupted, got.status, got.stdout)
	require.Contains(t, got.stdout, "| over-admissions | 0 |")
}

func TestSoak_OfAWrongCommandLine(t *testing.T) {
	for want, args := range map[string][]string{
		"-for must be > 0, got 0s":             {"-for", "0"},
		"-workers must be >= 1, got -1":        {"-workers", "-1"},
		`no arguments are expected, got ["x"]`: {"x"},
		"not defined":                          {"-what"},
	} {
		got := soaked(t.Context(), right, args...)
		require.Equal(t, command.Usage, got.status)
		require.Contains(t, got.stderr, want)
		require.Empty(t, got.stdout)
	}
	got := soaked(t.Context(), right, "-h")
	require.Equal(t, command.OK, got.status)
	require.Contains(t, got.stderr, "-seed")
}
