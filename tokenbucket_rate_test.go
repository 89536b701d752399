package sash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A rateCase is a test case of golang.org/x/time/rate. testdata/rate.json says where the
// cases come from and what the fields mean.
type rateCase struct {
	Name      string
	Count     int64
	Window    time.Duration
	Burst     int64
	Unlimited bool
	Why       string // the case differs from the source's; else ""
	Steps     []rateStep
}

// A rateStep is one call, or a number of equal ones.
type rateStep struct {
	Do          string
	At          int64
	N           int64
	As          string         // of reserve and cancel
	Within      *time.Duration // of reserve
	Deadline    *time.Duration // of wait
	CancelAfter *time.Duration // of wait
	Calls       int            // of crowd and stream
	Every       int64          // of stream
	Count       int64          // of limit
	Rate        *rateAnswer
	Sash        *rateAnswer // nil: as x/time/rate answers
	Why         string      // Sash is another; else ""
}

// A rateAnswer holds what the source checks. The rest is nil.
type rateAnswer struct {
	Tokens   *int64
	OK       *bool
	After    *time.Duration
	Admitted *int64
}

// answer returns the answer of sash.
func (s *rateStep) answer() *rateAnswer {
	if s.Sash != nil {
		return s.Sash
	}
	return s.Rate
}

func readRateCases(t *testing.T) []rateCase {
	t.Helper()
	text, err := os.ReadFile("testdata/rate.json")
	require.NoError(t, err)
	var file struct {
		About   []string
		Cases   []rateCase
		LeftOut []struct{ Name, Why string }
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&file))
	require.Len(t, file.Cases, 23)
	return file.Cases
}

// A token bucket gives the answers of x/time/rate, also when the clock goes back. The kind
// of its entry makes no difference, and neither does the instant at which a case starts.
func TestTokenBucket_AnswersAsTimeRate(t *testing.T) {
	for _, c := range readRateCases(t) {
		for kind, limiter := range map[string]func(limit Limit, clock Clock) *Limiter{
			"fast path": func(l Limit, c Clock) *Limiter { return newTest(t, l, WithClock(c)) },
			"slow path": func(l Limit, c Clock) *Limiter {
				return newTest(t, l, WithClock(c), WithObserver(func(string, int64, Decision) {}))
			},
			"multi": func(l Limit, c Clock) *Limiter { return useMulti(newTest(t, l, WithClock(c))) },
		} {
			for _, start := range []int64{0, -250_000_000, 1_700_000_000_123_456_789} {
				t.Run(fmt.Sprintf("%s/%s/from %d", c.Name, kind, start), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						r := rateRun{T: t, rateCase: c, start: start, clock: NewManualClock(start), reserved: map[string]Reservation{}}
						r.l = limiter(r.of(c.Count), r.clock)
						for i := range c.Steps {
							r.step = fmt.Sprintf("step %d", i+1)
							r.play(&c.Steps[i])
						}
					})
				})
			}
		}
	}
}

// Where sash gives another answer than x/time/rate, it is stricter, and the data says why.
func TestTokenBucket_NeverAdmitsWhatTimeRateDenies(t *testing.T) {
	differ := 0
	for _, c := range readRateCases(t) {
		for i, s := range c.Steps {
			if s.Sash == nil {
				require.Empty(t, s.Why, "%s, step %d", c.Name, i+1)
				continue
			}
			differ++
			require.NotEmpty(t, s.Why, "%s, step %d", c.Name, i+1)
			require.NotEqual(t, s.Rate, s.Sash, "%s, step %d", c.Name, i+1)
			require.True(t, *s.Rate.OK || !*s.Sash.OK, "%s, step %d", c.Name, i+1)
			if s.Rate.Tokens != nil {
				require.LessOrEqual(t, *s.Sash.Tokens, *s.Rate.Tokens, "%s, step %d", c.Name, i+1)
			}
			if s.Rate.After != nil {
				require.GreaterOrEqual(t, *s.Sash.After, *s.Rate.After, "%s, step %d", c.Name, i+1)
			}
		}
	}
	require.Equal(t, 8, differ)
}

// A rateRun plays a case on key "k" of a limiter, in a bubble. The time of the bubble
// stands still: it is used for deadlines alone.
type rateRun struct {
	*testing.T
	rateCase
	l        *Limiter
	clock    *ManualClock
	start    int64
	step     string
	reserved map[string]Reservation
}

// of returns the limit of the case with another count.
func (r *rateRun) of(count int64) Limit {
	if r.Unlimited {
		return Unlimited()
	}
	return Limit{Count: count, Window: r.Window, Algorithm: TokenBucket, Burst: r.Burst}
}

// set sets the clock, and lets all calls go on that have waited for it.
func (r *rateRun) set(at int64) {
	r.clock.Set(r.start + at)
	synctest.Wait()
}

func (r *rateRun) play(s *rateStep) {
	r.set(s.At)
	switch s.Do {
	case "allow":
		r.allow(s)
	case "crowd":
		r.crowd(s)
	case "stream":
		r.stream(s)
	case "reserve":
		r.reserve(s)
	case "cancel":
		require.Contains(r, r.reserved, s.As, r.step)
		r.reserved[s.As].Cancel()
	case "limit":
		require.NoError(r, r.l.Reconfigure(r.of(s.Count)), r.step)
	case "wait":
		r.wait(s)
	default:
		require.Fail(r, "unknown step", "%s: %q", r.step, s.Do)
	}
}

func (r *rateRun) allow(s *rateStep) {
	want, before := s.answer(), r.l.Peek("k", 0)
	if want.Tokens != nil {
		require.Equal(r, max(*want.Tokens, 0), before.Remaining, r.step)
	}
	looked := r.l.Peek("k", s.N)
	d := r.l.Take("k", s.N)
	require.Equal(r, looked, d, r.step)
	require.Equal(r, *want.OK, d.Allowed, r.step)
	if d.Allowed {
		require.Equal(r, before.Remaining-s.N, d.Remaining, r.step)
		return
	}
	require.Positive(r, d.RetryAfter, r.step)
	require.Equal(r, s.N > r.Burst || r.Count == 0, d.RetryAfter == Never, r.step)
	require.Equal(r, before, r.l.Peek("k", 0), r.step)
}

// crowd makes all calls at once.
func (r *rateRun) crowd(s *rateStep) {
	var admitted atomic.Int64
	var calls sync.WaitGroup
	for range s.Calls {
		calls.Go(func() {
			if r.l.AllowN("k", s.N) {
				admitted.Add(1)
			}
		})
	}
	calls.Wait()
	require.Equal(r, *s.answer().Admitted, admitted.Load(), r.step)
}

// stream makes the calls one after another, at intervals.
func (r *rateRun) stream(s *rateStep) {
	admitted := int64(0)
	for i := range s.Calls {
		r.clock.Set(r.start + s.At + int64(i)*s.Every)
		if r.l.AllowN("k", s.N) {
			admitted++
		}
	}
	require.Equal(r, *s.answer().Admitted, admitted, r.step)
}

// reserve makes a call that in x/time/rate charges units in advance. A limiter charges them
// when they are admitted. So the call waits for that, and the next step may set the clock
// back. At the earlier instant, the units count as those charged in advance do.
func (r *rateRun) reserve(s *rateStep) {
	want, before := s.answer(), r.l.Peek("k", 0)
	ctx := r.Context()
	if s.Within != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, *s.Within)
		defer cancel()
	}
	d := r.l.Peek("k", s.N)
	if !d.Allowed {
		require.Equal(r, d, r.l.Take("k", s.N), r.step)
	}
	call := func() error { return r.l.Wait(ctx, "k", s.N) }
	if s.As != "" {
		call = func() (err error) {
			r.reserved[s.As], err = r.l.WaitReserve(ctx, "k", s.N)
			return err
		}
	}
	if *want.OK {
		r.admitted(s, call)
		return
	}
	if s.Within != nil {
		require.Greater(r, d.RetryAfter, *s.Within, r.step)
		r.failed(call, context.DeadlineExceeded)
	} else {
		require.Equal(r, Never, d.RetryAfter, r.step)
		r.failed(call, ErrExceedsLimit)
	}
	require.Equal(r, before, r.l.Peek("k", 0), r.step)
}

func (r *rateRun) wait(s *rateStep) {
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if s.Deadline != nil {
		ctx, cancel = context.WithTimeout(ctx, *s.Deadline)
		defer cancel()
	}
	call := func() error { return r.l.Wait(ctx, "k", s.N) }
	if *s.answer().OK {
		r.admitted(s, call)
		return
	}
	after := *s.answer().After
	switch {
	case s.CancelAfter == nil:
		require.Zero(r, after, r.step)
		if s.Deadline != nil {
			r.failed(call, context.DeadlineExceeded)
		} else {
			require.Equal(r, Never, r.l.Peek("k", s.N).RetryAfter, r.step)
			r.failed(call, ErrExceedsLimit)
		}
	case *s.CancelAfter == 0:
		require.Zero(r, after, r.step)
		cancel()
		r.failed(call, context.Canceled)
	default:
		require.Equal(r, *s.CancelAfter, after, r.step)
		ended := r.begin(call)
		r.set(s.At + int64(after))
		require.Empty(r, ended, r.step)
		cancel()
		synctest.Wait()
		require.Len(r, ended, 1, r.step)
		require.ErrorIs(r, <-ended, context.Canceled, r.step)
	}
}

// admitted checks that the call of s is admitted at the time wanted, and no earlier.
func (r *rateRun) admitted(s *rateStep, call func() error) {
	after, d := *s.answer().After, r.l.Peek("k", s.N)
	require.Equal(r, after, d.RetryAfter, r.step)
	require.Equal(r, after == 0, d.Allowed, r.step)
	ended := r.begin(call)
	if after > 0 {
		r.set(s.At + int64(after) - 1)
		require.Empty(r, ended, r.step)
		r.set(s.At + int64(after))
	}
	require.Len(r, ended, 1, r.step)
	require.NoError(r, <-ended, r.step)
}

// failed checks that call fails at once.
func (r *rateRun) failed(call func() error, want error) {
	ended := r.begin(call)
	require.Len(r, ended, 1, r.step)
	require.ErrorIs(r, <-ended, want, r.step)
}

// begin starts call, and returns once it sleeps or has ended. Then its error is in ended.
func (r *rateRun) begin(call func() error) (ended chan error) {
	ended = make(chan error, 1)
	go func() { ended <- call() }()
	synctest.Wait()
	return ended
}
