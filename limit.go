package sash

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// An Algorithm is the way in which a [Limit] remembers the units charged.
type Algorithm uint8

const (
	// SlidingCounter keeps two numbers per key: the units charged in the current
	// aligned window, and those charged in the window before. The latter count in
	// proportion to the part of their window that the sliding window still covers.
	//
	// It is approximate. It admits at most Count in an aligned window, and less than
	// twice Count in any window. It takes one word of memory, if Count and the windows of a
	// year fit into one: up to 262,143 a second, 1,048,575 a minute and 8,388,607 an hour. Otherwise
	// the state of a key takes some 100 bytes more. From 8,192 a second, 65,536 a minute and 524,288
	// an hour on, so does the state of a key that is charged once the limiter has run for most of a
	// year or longer.
	//
	// It falls short of Count. Under steady demand it admits Count-1 units per Window, and one unit
	// in two Windows if Count is 1. That is half of the rate at a Count of 1 or 2, 80 % at 5, 90 %
	// at 10 and 99 % at 100. RetryAfter reaches Window + Window/Count for one unit, and two Windows
	// for Count units. It takes the units of the previous window for evenly spread. So it denies
	// clients that keep to Count and take it at once. [Per] chooses SlidingLog or SlidingParts.
	SlidingCounter Algorithm = iota

	// SlidingLog records the time of each charge.
	//
	// It is exact. It admits at most Count in any window, and each unit is back exactly Window
	// after it was charged. Its memory grows with the number of charges in the window.
	SlidingLog

	// SlidingBuckets keeps one number for each aligned bucket of width Precision: the
	// units charged in it. The last ceil(Window/Precision) buckets count, with the
	// current one. All units of a bucket are back at once.
	//
	// It admits at most Count in ceil(Window/Precision) aligned buckets, and up to twice
	// Count in a window that is not aligned to them. Precision == Window is a fixed
	// window. It takes 16 bytes for each bucket in use.
	SlidingBuckets

	// TokenBucket keeps one number for each key: when its bucket will be full again. A full
	// bucket holds Burst units. A charge takes them out, and they flow back at the rate of
	// Count per Window. This is the generic cell rate algorithm (GCRA).
	//
	// It admits Count per Window on average, and at most Burst at once: in any interval of length T
	// at most Burst + Count*T/Window units. It is exact: 3 a second is exactly 3 a second for ever,
	// and RetryAfter is the least wait, to the nanosecond. It takes one word of memory, or some 100
	// bytes more where the numbers are too large for one: see [Limit.TokenBucket].
	//
	// A call whose reading of the clock is late is decided at that reading, with what was
	// charged since. So it may be denied, and is never admitted, because it is late.
	TokenBucket

	// SlidingParts keeps one number for each of the last sixteen parts of Window: the units charged in
	// it. What counts is what was charged in the current part and the fifteen before it. So it lies in
	// the last Window, and is all that was charged in the last 15/16 of it.
	//
	// It keeps two promises. A client that keeps to Count in any Window is never denied. No client gets
	// more than Count in any 15/16 of a Window. All units of a part are back at once. The parts of each
	// key begin at instants of its own, by a hash of its name, so that the units of many keys do not
	// all come back at one instant.
	//
	// Sixteen must divide Window in nanoseconds, as it divides whole milliseconds. If it does not, there
	// are as many parts as the largest number below that does: under ten parts, as of a microsecond, the
	// second promise is of 9/10 of a Window.
	//
	// A key takes two words more than a SlidingCounter up to a Count of 255, and four up to 65,535. It
	// takes some 230 bytes more above that, in a Window below a millisecond, and under [WithChargeDenied].
	SlidingParts

	// Concurrency records the units that are held: at most Count at a time. A unit is held from its charge
	// until its [Reservation] is settled, and no longer than Window, the lease. So the units of a holder
	// that has died come back, too. [AtOnce] makes such a limit.
	//
	// Commit, Cancel and Release all give back every unit that was reserved, whatever was used: what was
	// used is charged to the other limits of the key. A unit that was charged without a reservation, as by
	// Take, is held for the whole lease. A denied attempt is never charged, not even under
	// [WithChargeDenied]. A snapshot has no units that are held, since their holders are gone when it is
	// restored.
	//
	// RetryAfter and ResetAfter are the longest waits, by the leases alone: units may be given back before.
	// Wait and the like refuse no deadline because of them.
	//
	// A key that is evicted or reset forgets what is held. If there must never be more than Count, take
	// [DenyNew] under [WithMaxKeys], and give what is held a limiter of its own: a Commit of more than was
	// reserved may evict a key.
	//
	// A key that was reserved from takes some 230 bytes if one charge holds units and 300 if five do, and up
	// to 48 for each further one. An open Reservation takes about 150. None of this grows with Count or Window.
	Concurrency
)

const lastAlgorithm = Concurrency

var algorithmNames = []string{"SlidingCounter", "SlidingLog", "SlidingBuckets", "TokenBucket", "SlidingParts", "Concurrency"}

// String returns the name of the constant.
func (a Algorithm) String() string {
	if a > lastAlgorithm {
		return "Algorithm(" + strconv.Itoa(int(a)) + ")"
	}
	return algorithmNames[a]
}

// MarshalText returns the name of the constant. The error for any other value wraps
// [ErrInvalidLimit].
func (a Algorithm) MarshalText() ([]byte, error) {
	if a > lastAlgorithm {
		return nil, malformed("sash: "+wantAlgorithm, a)
	}
	return []byte(a.String()), nil
}

// UnmarshalText sets a to the constant of the given name, such as "SlidingLog". The error
// for any other text wraps [ErrInvalidLimit]. On an error, a is unchanged.
func (a *Algorithm) UnmarshalText(text []byte) error {
	i := slices.Index(algorithmNames, string(text))
	if i < 0 {
		return malformed("sash: "+wantAlgorithm, quote(string(text)))
	}
	*a = Algorithm(i)
	return nil
}

const wantAlgorithm = "Algorithm must be SlidingCounter, SlidingLog, SlidingBuckets, TokenBucket, SlidingParts or Concurrency, got %v"

// ErrInvalidLimit is wrapped by every error about a limit whose fields are not valid.
var ErrInvalidLimit = errors.New("invalid limit")

// A Limit admits Count units per Window, or Count units at a time: see [AtOnce]. It is an [Option]: give it
// to [New].
//
// A limit with a Count of 0 admits nothing: a call for one unit or more is denied with
// [Never], and nothing is stored for its key. [Unlimited] admits everything.
//
// Most callers should write [Per], [PerSecond] and the like. These choose the algorithm by
// the count; [Limit.Counter], [Limit.Log], [Limit.Parts], [Limit.Buckets] and [Limit.TokenBucket]
// choose another. A Limit written field by field is a SlidingCounter unless it says otherwise.
//
// A Limit is read from text by [ParseLimit], and written by [Limit.String]. So it can
// stand in JSON, in YAML and on a command line (flag.TextVar).
type Limit struct {
	// Count is the number of units admitted per Window, at least 0. A limit with a Count of
	// 0 admits nothing.
	Count int64
	// Window is the length of the sliding window, the time in which Count units flow into a TokenBucket,
	// or the longest time for which a unit is held under Concurrency. It is more than 0. Any length is exact
	// to the nanosecond.
	Window time.Duration
	// Algorithm is the way in which the units charged are remembered. The zero value is
	// SlidingCounter.
	Algorithm Algorithm
	// Precision is the width of one bucket of SlidingBuckets, 0 < Precision <= Window.
	// It must be 0 under the other algorithms.
	Precision time.Duration
	// Burst is the number of units that a full TokenBucket holds, at least 1. So it is the
	// greatest number that is admitted at once. It must be 0 under the other algorithms.
	Burst int64
}

// SmallCount is the largest Count for which [Per], [PerSecond] and the like, and limits in text
// that name no algorithm, choose [SlidingLog], which is exact. Above it they choose [SlidingParts],
// which is smaller and faster for large counts.
const SmallCount = 16

// Per returns the limit of count units per window. It is kept by [SlidingLog] if count is
// at most [SmallCount], and by [SlidingParts] if it is more. A client that keeps to count in any window is
// never denied. A log admits no more than count in any window. Parts give units back up to a sixteenth of the
// window early, if sixteen divides it, so they admit no more than count in any 15/16 of it, and up to twice count
// in a whole one: see [SlidingParts].
// [Limit.Log], [Limit.Counter] and the like choose otherwise.
func Per(count int64, window time.Duration) Limit {
	l := Limit{Count: count, Window: window}
	if count <= SmallCount {
		return l.Log()
	}
	return l.Parts()
}

// PerSecond is shorthand for Per(count, time.Second).
func PerSecond(count int64) Limit { return Per(count, time.Second) }

// PerMinute is shorthand for Per(count, time.Minute).
func PerMinute(count int64) Limit { return Per(count, time.Minute) }

// PerHour is shorthand for Per(count, time.Hour).
func PerHour(count int64) Limit { return Per(count, time.Hour) }

// PerDay is shorthand for Per(count, 24*time.Hour).
//
// Its window is not a calendar day. Like all windows, it is aligned to instant 0 of the
// clock. Instant 0 of [SystemClock] is the start of the process, so under that clock
// PerDay does not start at midnight.
func PerDay(count int64) Limit { return Per(count, day) }

const (
	day  = 24 * time.Hour
	week = 7 * day
)

// Counter returns the same limit kept by [SlidingCounter], which takes least memory.
func (l Limit) Counter() Limit { return l.keptBy(SlidingCounter, 0, 0) }

// Unlimited returns the limit that admits everything. It is for keys that are exempt, as
// by [Limiter.SetLimits] and [WithLimitsFor], and for plans without a limit.
//
// A key whose limits are all Unlimited is not tracked: nothing is stored for it, it takes
// no room under [WithMaxKeys], and it loses its charges when it becomes unlimited. Its
// decisions are Allowed, with Remaining at math.MaxInt64 and nothing to wait for. Only a
// negative cost is denied. Next to other limits of a key, Unlimited has no effect.
//
// It is the limit of math.MaxInt64 units in math.MaxInt64 nanoseconds, 292 years, under
// [SlidingCounter]. Its text is "unlimited".
func Unlimited() Limit { return Limit{Count: math.MaxInt64, Window: math.MaxInt64} }

// Log returns the same limit kept by [SlidingLog]. It returns [Unlimited] unchanged.
func (l Limit) Log() Limit { return l.keptBy(SlidingLog, 0, 0) }

// Parts returns the same limit kept by [SlidingParts]. It returns [Unlimited] unchanged.
func (l Limit) Parts() Limit { return l.keptBy(SlidingParts, 0, 0) }

// Buckets returns the same limit kept by [SlidingBuckets], in buckets of width precision.
// It returns [Unlimited] unchanged.
func (l Limit) Buckets(precision time.Duration) Limit { return l.keptBy(SlidingBuckets, precision, 0) }

// TokenBucket returns the same rate with a burst of its own, kept by [TokenBucket]:
// PerSecond(10).TokenBucket(100) admits 10 a second on average and 100 at once. It returns
// [Unlimited] unchanged.
//
// Whether the state of a key fits into one word depends on the numbers. Write Count per
// Window as a fraction in lowest terms, with Window in nanoseconds. The state fits if a year
// and the time in which a bucket fills, times the numerator, are at most 73 years. At 10 or
// 100 a second, 600 a minute and 1,000 an hour the numerator is 1, at 3 or 60 a second 3. At
// 12,345 a minute it is 823, and the state of a key takes some 100 bytes more. So does the state of
// a key which is charged once the limiter has run for about as long as the rest of the 73
// years, divided by the numerator: 21 years at 3 a second, and one year at 64.
func (l Limit) TokenBucket(burst int64) Limit { return l.keptBy(TokenBucket, 0, burst) }

// AtOnce returns the limit of count units that are held at a time: it bounds what is under way, and not
// its rate. [Limiter.Reserve] takes units, [Reservation.Release] gives them back, and those that are
// not given back come back by themselves after the lease, counted from the Reserve. So a lease must outlast
// the work. See [Concurrency].
//
// It stands next to other limits: New(PerSecond(10), AtOnce(5, time.Minute)) admits what is within the rate
// and has a place.
func AtOnce(count int64, lease time.Duration) Limit {
	return Limit{Count: count, Window: lease, Algorithm: Concurrency}
}

// keptBy returns l with these fields. Unlimited stays as it is.
func (l Limit) keptBy(a Algorithm, precision time.Duration, burst int64) Limit {
	if l != Unlimited() {
		l.Algorithm, l.Precision, l.Burst = a, precision, burst
	}
	return l
}

// most returns the greatest number of units that l ever admits at once.
func (l Limit) most() int64 {
	if l.Algorithm == TokenBucket && l.Count > 0 {
		return l.Burst
	}
	return l.Count
}

// faults returns all faults of l. Each begins with prefix.
func (l Limit) faults(prefix string) (faults []error) {
	fault := func(format string, args ...any) {
		faults = append(faults, malformed(prefix+format, args...))
	}
	if l.Count < 0 {
		fault("Count must be >= 0, got %d", l.Count)
	}
	if l.Window <= 0 {
		fault("Window must be > 0, got %v", l.Window)
	}
	if l.Algorithm > lastAlgorithm {
		fault(wantAlgorithm, l.Algorithm)
		return faults
	}
	switch {
	case l.Algorithm != SlidingBuckets && l.Precision != 0:
		fault("Precision is for SlidingBuckets, must be 0 for %v, got %v", l.Algorithm, l.Precision)
	case l.Algorithm == SlidingBuckets && l.Precision <= 0:
		fault("Precision must be > 0, got %v", l.Precision)
	case l.Algorithm == SlidingBuckets && l.Precision > l.Window:
		fault("Precision must be <= Window, got %v and %v", l.Precision, l.Window)
	}
	switch {
	case l.Algorithm != TokenBucket && l.Burst != 0:
		fault("Burst is for TokenBucket, must be 0 for %v, got %d", l.Algorithm, l.Burst)
	case l.Algorithm == TokenBucket && l.Burst < 1:
		fault("Burst must be >= 1, got %d", l.Burst)
	}
	return faults
}

// maxLimits is the greatest number of limits that a key may have. Each call on the key
// checks all of them.
const maxLimits = 64

// validate returns all faults of limits, the limits of one key, in one error, or nil.
func validate(limits []Limit) error { return errors.Join(limitFaults("sash: ", limits)...) }

// limitFaults returns all faults of limits, the limits of one key. Each begins with
// prefix. The limits are numbered from 1.
func limitFaults(prefix string, limits []Limit) (faults []error) {
	if len(limits) > maxLimits {
		faults = append(faults, malformed(prefix+"a key has at most %d limits, got %d", maxLimits, len(limits)))
	}
	for i, l := range limits {
		if l.faults("") != nil { // a limit without faults allocates no prefix
			faults = append(faults, l.faults(fmt.Sprintf("%slimit %d: ", prefix, i+1))...)
		}
	}
	return faults
}

// malformed returns an error that wraps ErrInvalidLimit.
func malformed(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrInvalidLimit)...)
}

// maxQuoted is the greatest number of bytes that a line of a log should quote.
const maxQuoted = 64

// quote quotes s for an error message. It cuts off what is too long.
func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.Quote(s[:maxQuoted]) + "..."
	}
	return strconv.Quote(s)
}
