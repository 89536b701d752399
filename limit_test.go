package sash

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestLimit_TextRoundTrips(t *testing.T) {
	for _, c := range []struct {
		limit Limit
		text  string
	}{
		{PerMinute(100), "100/1m0s"},
		{PerSecond(10).Log(), "10/1s log"},
		{PerHour(240).Buckets(time.Minute), "240/1h0m0s buckets 1m0s"},
		{PerDay(math.MaxInt64), "9223372036854775807/24h0m0s"},
		{PerMinute(17), "17/1m0s"},
		{PerMinute(17).Log(), "17/1m0s log"},
		{PerMinute(16), "16/1m0s log"},
		{PerMinute(16).Counter(), "16/1m0s counter"},
		{Limit{Count: 5, Window: time.Minute}, "5/1m0s counter"},
		{Per(1, time.Nanosecond), "1/1ns log"},
		{Per(1, time.Nanosecond).Counter(), "1/1ns counter"},
		{Per(7, math.MaxInt64).Log(), "7/2562047h47m16.854775807s log"},
		{PerMinute(17).Counter(), "17/1m0s counter"},
		{PerMinute(16).Parts(), "16/1m0s parts"},
		{PerMinute(17).Parts(), "17/1m0s"},
		{Limit{math.MaxInt64, math.MaxInt64, SlidingParts, 0, 0}, "9223372036854775807/2562047h47m16.854775807s parts"},
		{PerSecond(3).Log().Buckets(time.Second), "3/1s buckets 1s"},
		{PerSecond(3).Buckets(time.Second).Log(), "3/1s log"},
		{AtOnce(5, time.Minute), "5 at once for 1m0s"},
		{AtOnce(0, time.Nanosecond), "0 at once for 1ns"},
		{AtOnce(math.MaxInt64, math.MaxInt64), "9223372036854775807 at once for 2562047h47m16.854775807s"},
		{AtOnce(5, time.Minute).Log(), "5/1m0s log"},
	} {
		require.Equal(t, c.text, c.limit.String())
		parsed, err := ParseLimit(c.text)
		require.NoError(t, err)
		require.Equal(t, c.limit, parsed)
	}
}

// Each constructor, and text that names no algorithm, choose by Count alone.
func TestPer_ChoosesTheLogForSmallCounts(t *testing.T) {
	require.Equal(t, 16, SmallCount)
	for count, want := range map[int64]Algorithm{
		math.MinInt64: SlidingLog, 0: SlidingLog, 1: SlidingLog, 15: SlidingLog, 16: SlidingLog,
		17: SlidingParts, 1000: SlidingParts, math.MaxInt64: SlidingParts,
	} {
		for window, limit := range map[time.Duration]Limit{
			250 * time.Millisecond: Per(count, 250*time.Millisecond),
			time.Second:            PerSecond(count),
			time.Minute:            PerMinute(count),
			time.Hour:              PerHour(count),
			24 * time.Hour:         PerDay(count),
		} {
			require.Equal(t, Limit{Count: count, Window: window, Algorithm: want}, limit)
			if count < 1 {
				continue
			}
			parsed, err := ParseLimit(fmt.Sprintf("%d/%v", count, window))
			require.NoError(t, err)
			require.Equal(t, limit, parsed)
		}
	}
}

// Counts that Per promises in full to a client that waits as long as it is told.
var smallCounts = []int64{1, 2, 3, 5, 10, 16}

// hourOf returns how many units a client gets in an hour of limit, and the longest time that
// it is told to wait. The client takes one unit after the other. Once denied, it waits for
// exactly RetryAfter.
func hourOf(t *testing.T, limit Limit, start time.Duration) (admitted int64, longest time.Duration) {
	t.Helper()
	clock := NewManualClock(int64(start))
	l := newTest(t, limit, WithClock(clock))
	for clock.Now() < int64(start+time.Hour) {
		if l.Allow("k") {
			admitted++
			require.LessOrEqual(t, admitted, 100*limit.Count) // so that the loop ends under any fault
			continue
		}
		d := l.Take("k", 1)
		require.False(t, d.Allowed)
		require.Positive(t, d.RetryAfter)
		longest = max(longest, d.RetryAfter)
		clock.Advance(d.RetryAfter)
	}
	return admitted, longest
}

func TestPer_AClientThatWaitsRetryAfterGetsAllOfASmallCount(t *testing.T) {
	for _, count := range smallCounts {
		for _, start := range []time.Duration{0, 37*time.Second + 1, -90 * time.Second} {
			admitted, longest := hourOf(t, PerMinute(count), start)
			require.Equal(t, 60*count, admitted, "%d a minute", count)
			require.Equal(t, time.Minute, longest)
		}
	}
}

func TestWait_GetsAllOfASmallCount(t *testing.T) {
	for _, count := range smallCounts {
		synctest.Test(t, func(t *testing.T) {
			l := newTest(t, PerMinute(count))
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour-1)
			defer cancel()
			admitted := int64(0)
			for admitted <= 60*count && l.Wait(ctx, "k", 1) == nil {
				admitted++
			}
			require.Equal(t, 60*count, admitted, "%d a minute", count)
		})
	}
}

// The counter falls short of Count by one unit in each window, and by half of a Count of 1.
// One unit waits for up to Window + Window/Count, and Count units for up to two windows.
func TestCounter_FallsShortOfASteadyClientByOneUnitPerWindow(t *testing.T) {
	for _, count := range append(smallCounts, 100) {
		limit := PerMinute(count).Counter()
		admitted, longest := hourOf(t, limit, 0)
		if count == 1 {
			require.EqualValues(t, 30, admitted)
		} else {
			require.Equal(t, 60*(count-1)+1, admitted, "%d a minute: all of the first window", count)
		}
		require.Equal(t, time.Minute+time.Minute/time.Duration(count), longest, "%d a minute", count)

		l := newTest(t, limit, WithClock(NewManualClock(0)))
		require.True(t, l.AllowN("k", count))
		require.Equal(t, 2*time.Minute, l.Take("k", count).RetryAfter)
	}
}

// Each of the methods that choose an algorithm overrides every other choice.
func TestLimit_TheLastChoiceOfAnAlgorithmHolds(t *testing.T) {
	for _, count := range []int64{5, 500} {
		for _, l := range []Limit{PerMinute(count), PerMinute(count).Counter(), PerMinute(count).Log(), PerMinute(count).Buckets(time.Second)} {
			require.Equal(t, Limit{Count: count, Window: time.Minute}, l.Counter())
			require.Equal(t, Limit{Count: count, Window: time.Minute, Algorithm: SlidingLog}, l.Log())
			require.Equal(t, Limit{Count: count, Window: time.Minute, Algorithm: SlidingBuckets, Precision: time.Hour}, l.Buckets(time.Hour))
		}
	}
}

func TestParseLimit_ReadsShortForms(t *testing.T) {
	for text, want := range map[string]Limit{
		"100/s":                PerSecond(100),
		"100/m":                PerMinute(100),
		"100/h":                PerHour(100),
		"100/d":                PerDay(100),
		"5/250ms log":          Per(5, 250*time.Millisecond).Log(),
		"240/h buckets 1m":     PerHour(240).Buckets(time.Minute),
		"240/h buckets m":      PerHour(240).Buckets(time.Minute),
		"60/60s log":           PerMinute(60).Log(),
		" 60/1h30m \t log\n":   Per(60, 90*time.Minute).Log(),
		"1/0.5s":               Per(1, 500*time.Millisecond),
		"10/1s buckets 1000ms": PerSecond(10).Buckets(time.Second),
		"100/sec":              PerSecond(100),
		"100/second":           PerSecond(100),
		"100/min":              PerMinute(100),
		"100/minute":           PerMinute(100),
		"100/hour":             PerHour(100),
		"100/day":              PerDay(100),
		"10/w":                 Per(10, 7*24*time.Hour),
		"10/week":              Per(10, 7*24*time.Hour),
		"5000/30d":             Per(5000, 30*24*time.Hour),
		"1/2w log":             Per(1, 14*24*time.Hour).Log(),
		"100 / m":              PerMinute(100),
		"100/ m log":           PerMinute(100).Log(),
		"100/m counter":        PerMinute(100).Counter(),
		"17/m":                 {Count: 17, Window: time.Minute, Algorithm: SlidingParts},
		"16/m":                 {Count: 16, Window: time.Minute, Algorithm: SlidingLog},
		"16/m counter":         {Count: 16, Window: time.Minute, Algorithm: SlidingCounter},
		"5 / minute\tcounter":  {Count: 5, Window: time.Minute, Algorithm: SlidingCounter},
		"5 at once":            AtOnce(5, time.Minute),
		"5 at once 30s":        AtOnce(5, 30*time.Second),
		" 5 at\tonce for 1d\n": AtOnce(5, 24*time.Hour),
		"0 at once hour":       AtOnce(0, time.Hour),
		"10/s buckets s":       {Count: 10, Window: time.Second, Algorithm: SlidingBuckets, Precision: time.Second},
	} {
		got, err := ParseLimit(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestParseLimit_NamesEveryFault(t *testing.T) {
	for text, want := range map[string][]string{
		"":                         {`sash: limit ""`, "empty"},
		"100":                      {`"100"`, "no slash"},
		"/s":                       {`count ""`},
		"1e3/s":                    {`count "1e3"`},
		"99999999999999999999/s":   {`count "99999999999999999999"`},
		"10/":                      {`window ""`},
		"10/fortnight":             {`window "fortnight"`},
		"10/5":                     {`window "5"`},
		"10/s blog":                {`"blog" after the window`},
		"10/106752d":               {`window "106752d"`},
		"10/-106752d":              {`window "-106752d"`},
		"10/1.5d":                  {`window "1.5d"`},
		"10/d/2":                   {`window "d/2"`},
		"100r/m":                   {`sash: limit "100r/m", did you mean "100/m"?: count "100r"`},
		"10 requests per minute":   {`did you mean "10/minute"?: no slash`},
		"5 per 10 seconds":         {`no slash`},
		"5/minutes log":            {`did you mean "5/minute log"?: window "minutes"`},
		"60/M":                     {`did you mean "60/m"?: window "M"`},
		"10/s log log":             {`"log log"`},
		"five at once":             {`count "five" is not a whole number`},
		"-5 at once for -1s":       {"Count must be >= 0, got -5", "Window must be > 0, got -1s"},
		"5 at once for":            {`lease "for" is not a duration`},
		"5 at once for 1m log":     {`"for 1m log" after at once, want nothing or for LEASE`},
		"5 concurrent":             {`sash: limit "5 concurrent", did you mean "5 at once"?: no slash, want COUNT/WINDOW such as 100/1m, or COUNT at once`},
		"5 At Once 1M":             {`did you mean "5 at once 1m"?`},
		"5 concurrent requests":    {`did you mean "5 at once"?`},
		"5 in flight for 10s":      {`did you mean "5 at once for 10s"?`},
		"5 at a time, please":      {"no slash"},
		"10/s buckets":             {`"buckets"`},
		"10/s buckets x":           {`precision "x"`},
		"-1/s":                     {"Count must be >= 0, got -1"},
		"-3/-1s":                   {"Count must be >= 0, got -3", "Window must be > 0, got -1s"},
		"10/0s log":                {"Window must be > 0, got 0s"},
		"10/s buckets 2s":          {"Precision must be <= Window, got 2s and 1s"},
		"-2/s buckets -1s":         {"Count must be >= 0, got -2", "Precision must be > 0, got -1s"},
		strings.Repeat("x", 1<<20): {`x"...: no slash`},
	} {
		l, err := ParseLimit(text)
		require.ErrorIs(t, err, ErrInvalidLimit)
		require.Zero(t, l)
		require.Less(t, len(err.Error()), 400)
		for _, w := range want {
			require.ErrorContains(t, err, w)
		}
	}
}

func TestLimit_MarshalsInJSONAndFlags(t *testing.T) {
	type config struct{ Login Limit }
	text, err := json.Marshal(config{PerMinute(5).Log()})
	require.NoError(t, err)
	require.Equal(t, `{"Login":"5/1m0s log"}`, string(text))

	var c config
	require.NoError(t, json.Unmarshal([]byte(`{"Login":"5/m log"}`), &c))
	require.Equal(t, PerMinute(5).Log(), c.Login)
	require.ErrorIs(t, json.Unmarshal([]byte(`{"Login":"5/m frog"}`), &c), ErrInvalidLimit)
	require.Equal(t, PerMinute(5).Log(), c.Login, "unchanged by an error")

	_, err = json.Marshal(config{Per(1, -time.Second)})
	require.ErrorIs(t, err, ErrInvalidLimit)

	flags := flag.NewFlagSet("test", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.TextVar(&c.Login, "limit", PerSecond(1), "")
	require.NoError(t, flags.Parse([]string{"-limit", "9/h counter"}))
	require.Equal(t, PerHour(9).Counter(), c.Login)
	require.NoError(t, flags.Parse([]string{"-limit", "9/h"}))
	require.Equal(t, PerHour(9).Log(), c.Login)
	require.Error(t, flags.Parse([]string{"-limit", "9"}))
}

func TestZeroValues_MarshalInJSON(t *testing.T) {
	for _, v := range []any{Limit{}, Decision{}, Decision{RetryAfter: Never}, Stats{}, SlidingCounter, EvictLeastUsed} {
		text, err := json.Marshal(v)
		require.NoError(t, err, "%T", v)
		back := reflect.New(reflect.TypeOf(v))
		require.NoError(t, json.Unmarshal(text, back.Interface()), "%T from %s", v, text)
		require.Equal(t, v, back.Elem().Interface(), "from %s", text)
	}
}

// Only the zero Limit is written as the empty text. Other invalid limits are refused.
func TestLimit_OnlyTheZeroOneIsEmptyText(t *testing.T) {
	text, err := Limit{}.MarshalText()
	require.NoError(t, err)
	require.Equal(t, "", string(text))

	l := PerMinute(5)
	require.NoError(t, l.UnmarshalText(nil))
	require.Equal(t, Limit{}, l)
	for _, bad := range []Limit{{Count: 1}, {Window: -1}, {Algorithm: SlidingLog}, {Precision: 1}} {
		_, err := bad.MarshalText()
		require.ErrorIs(t, err, ErrInvalidLimit, "%+v", bad)
	}
	require.ErrorIs(t, l.UnmarshalText([]byte(" ")), ErrInvalidLimit)
	_, err = ParseLimit("")
	require.ErrorIs(t, err, ErrInvalidLimit)
	_, err = New(Limit{})
	require.ErrorIs(t, err, ErrInvalidLimit)
}

func TestAlgorithm_MarshalsByName(t *testing.T) {
	for _, a := range []Algorithm{SlidingCounter, SlidingLog, SlidingBuckets} {
		text, err := json.Marshal(map[string]Algorithm{"by": a})
		require.NoError(t, err)
		require.Equal(t, `{"by":"`+a.String()+`"}`, string(text))
		var back map[string]Algorithm
		require.NoError(t, json.Unmarshal(text, &back))
		require.Equal(t, a, back["by"])
	}
	_, err := json.Marshal(Algorithm(9))
	require.ErrorIs(t, err, ErrInvalidLimit)
	require.ErrorContains(t, err, "Algorithm must be SlidingCounter, SlidingLog, SlidingBuckets, TokenBucket, SlidingParts or Concurrency, got Algorithm(9)")
	a := SlidingLog
	err = json.Unmarshal([]byte(`"slidinglog"`), &a)
	require.ErrorIs(t, err, ErrInvalidLimit)
	require.ErrorContains(t, err, `Algorithm must be SlidingCounter, SlidingLog, SlidingBuckets, TokenBucket, SlidingParts or Concurrency, got "slidinglog"`)
	require.Equal(t, SlidingLog, a, "unchanged by an error")
}

func TestAlgorithm_String(t *testing.T) {
	require.Equal(t, "SlidingCounter SlidingLog SlidingBuckets Algorithm(9)",
		SlidingCounter.String()+" "+SlidingLog.String()+" "+SlidingBuckets.String()+" "+Algorithm(9).String())
	require.Equal(t, "1/1s Algorithm(9)", Limit{1, time.Second, 9, 0, 0}.String())
}

// Every method that takes limits accepts as many as a key may have. It refuses one more with
// an error that states the bound.
func TestLimits_AreBoundedInNumber(t *testing.T) {
	limits := slices.Repeat([]Limit{PerHour(5)}, 65)
	own := append(options(limits[:64]), WithLimitsFor(func(key string) []Limit {
		if key == "too many" {
			return slices.Repeat([]Limit{PerHour(1)}, 65)
		}
		return nil
	}))
	l := newTest(t, own...)
	require.NoError(t, l.Reconfigure(limits[:64]...))
	require.NoError(t, l.SetLimits("k", limits[:64]...))
	require.True(t, l.Allow("k"))
	_, err := New(options(limits)...)
	for name, err := range map[string]error{
		"New": err, "Reconfigure": l.Reconfigure(limits...), "SetLimits": l.SetLimits("k", limits...),
	} {
		require.ErrorIs(t, err, ErrInvalidLimit, name)
		require.EqualError(t, err, "sash: a key has at most 64 limits, got 65: invalid limit", name)
	}
	require.EqualValues(t, 4, l.Peek("k", 0).Remaining, "nothing has changed")
	require.Equal(t, Never, l.Peek("too many", 1).RetryAfter, "WithLimitsFor: denied like any invalid limit")
}
