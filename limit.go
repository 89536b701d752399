package sash

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// An Algorithm says how a [Limit] remembers what it has admitted.
type Algorithm uint8

const (
	// SlidingCounter keeps two numbers per key: what was admitted in the
	// current aligned window and in the one before, which counts for as much of
	// it as the sliding window still covers. One word of memory, approximate:
	// never more than Count in an aligned window, and less than twice Count in
	// any window. The default.
	SlidingCounter Algorithm = iota
	// SlidingLog remembers when each admission was made. Exact: never more than
	// Count in any window, and each unit is back exactly Window after it was
	// taken. Memory grows with the admissions inside the window.
	SlidingLog
	// SlidingBuckets counts per bucket of Precision, aligned to instant 0 of the
	// clock. The last ceil(Window / Precision) of them count, the current one
	// included; all of a bucket is back at once. Never more than Count in so many
	// aligned buckets; up to twice Count in a window that is not aligned to them.
	// Precision == Window is a fixed window. 16 bytes for each bucket in use.
	SlidingBuckets
)

// String returns the name of the constant.
func (a Algorithm) String() string {
	switch a {
	case SlidingCounter:
		return "SlidingCounter"
	case SlidingLog:
		return "SlidingLog"
	case SlidingBuckets:
		return "SlidingBuckets"
	}
	return "Algorithm(" + strconv.Itoa(int(a)) + ")"
}

// MarshalText returns the name of the constant. The error for any other value wraps
// [ErrInvalidLimit].
func (a Algorithm) MarshalText() ([]byte, error) {
	if a > SlidingBuckets {
		return nil, malformed("sash: "+wantAlgorithm, a)
	}
	return []byte(a.String()), nil
}

// UnmarshalText reads the name of a constant, such as "SlidingLog". The error for any
// other text wraps [ErrInvalidLimit] and leaves a unchanged.
func (a *Algorithm) UnmarshalText(text []byte) error {
	for named := SlidingCounter; named <= SlidingBuckets; named++ {
		if named.String() == string(text) {
			*a = named
			return nil
		}
	}
	return malformed("sash: "+wantAlgorithm, quote(string(text)))
}

const wantAlgorithm = "Algorithm must be SlidingCounter, SlidingLog or SlidingBuckets, got %v"

// ErrInvalidLimit is wrapped by every error about a limit that cannot be.
var ErrInvalidLimit = errors.New("invalid limit")

// A Limit admits Count units per Window. It is an [Option]: give it to [New].
//
// Most callers should write [Per], [PerSecond] and the like, and pick another
// algorithm with [Limit.Log] or [Limit.Buckets]. A Limit is read and written as text by
// [ParseLimit] and [Limit.String], so it can stand in JSON, in YAML and on a
// command line (flag.TextVar).
type Limit struct {
	// Count is how many units are admitted per Window, at least 1.
	Count int64
	// Window is the length of the sliding window, more than 0. Any length down
	// to a nanosecond is exact.
	Window time.Duration
	// Algorithm is how admissions are remembered; zero is SlidingCounter.
	Algorithm Algorithm
	// Precision is the width of one bucket, 0 < Precision <= Window, for
	// SlidingBuckets; it must be 0 for the others.
	Precision time.Duration
}

// Per returns the limit of count units per window, counted by [SlidingCounter].
func Per(count int64, window time.Duration) Limit {
	return Limit{Count: count, Window: window}
}

// PerSecond is shorthand for Per(count, time.Second).
func PerSecond(count int64) Limit { return Per(count, time.Second) }

// PerMinute is shorthand for Per(count, time.Minute).
func PerMinute(count int64) Limit { return Per(count, time.Minute) }

// PerHour is shorthand for Per(count, time.Hour).
func PerHour(count int64) Limit { return Per(count, time.Hour) }

// PerDay is shorthand for Per(count, 24*time.Hour).
func PerDay(count int64) Limit { return Per(count, day) }

const day = 24 * time.Hour

// Log returns the same limit kept by [SlidingLog].
func (l Limit) Log() Limit {
	l.Algorithm, l.Precision = SlidingLog, 0
	return l
}

// Buckets returns the same limit kept by [SlidingBuckets] of the given width.
func (l Limit) Buckets(precision time.Duration) Limit {
	l.Algorithm, l.Precision = SlidingBuckets, precision
	return l
}

// String writes the limit as "100/1m0s", "10/1s log" or
// "240/1h0m0s buckets 1m0s". [ParseLimit] reads it back.
func (l Limit) String() string {
	s := strconv.FormatInt(l.Count, 10) + "/" + l.Window.String()
	switch l.Algorithm {
	case SlidingCounter:
		return s
	case SlidingLog:
		return s + " log"
	case SlidingBuckets:
		return s + " buckets " + l.Precision.String()
	}
	return s + " " + l.Algorithm.String()
}

// ParseLimit reads what [Limit.String] writes, "COUNT/WINDOW", "COUNT/WINDOW
// log" or "COUNT/WINDOW buckets PRECISION", where a duration is one of
// [time.ParseDuration] or a bare unit: "100/s", "100/m", "100/h", "100/d",
// "5/250ms log", "240/h buckets 1m". Words are separated by white space. The
// error wraps [ErrInvalidLimit], quotes s and names every fault.
func ParseLimit(s string) (Limit, error) {
	l, err := parseLimit(s)
	if err == nil {
		err = l.validate("")
	}
	if err != nil {
		return Limit{}, fmt.Errorf("sash: limit %s: %w", quote(s), err)
	}
	return l, nil
}

// quote quotes s for an error message, cut to a length that a log can bear.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.Quote(s[:most]) + "..."
	}
	return strconv.Quote(s)
}

func parseLimit(s string) (Limit, error) {
	words := strings.Fields(s)
	if len(words) == 0 {
		return Limit{}, malformed("empty, want COUNT/WINDOW such as 100/1m")
	}
	count, window, found := strings.Cut(words[0], "/")
	if !found {
		return Limit{}, malformed("no slash, want COUNT/WINDOW such as 100/1m")
	}
	var l Limit
	var err error
	if l.Count, err = strconv.ParseInt(count, 10, 64); err != nil {
		return Limit{}, malformed("count %s is not a whole number of 64 bits", quote(count))
	}
	if l.Window, err = parseDuration(window); err != nil {
		return Limit{}, malformed("window %s is not a duration such as 250ms, 1m30s or h", quote(window))
	}
	switch algorithm := words[1:]; {
	case len(algorithm) == 0:
		return l, nil
	case len(algorithm) == 1 && algorithm[0] == "log":
		return l.Log(), nil
	case len(algorithm) == 2 && algorithm[0] == "buckets":
		precision, err := parseDuration(algorithm[1])
		if err != nil {
			return Limit{}, malformed("precision %s is not a duration such as 250ms, 1m30s or h", quote(algorithm[1]))
		}
		return l.Buckets(precision), nil
	}
	return Limit{}, malformed("%s after the window, want nothing, log or buckets PRECISION", quote(strings.Join(words[1:], " ")))
}

func malformed(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrInvalidLimit)...)
}

// parseDuration reads a duration of time.ParseDuration or a bare s, m, h or d.
func parseDuration(s string) (time.Duration, error) {
	switch s {
	case "s":
		return time.Second, nil
	case "m":
		return time.Minute, nil
	case "h":
		return time.Hour, nil
	case "d":
		return day, nil
	}
	return time.ParseDuration(s)
}

// validate returns every fault of l, each begun with prefix, or nil.
func (l Limit) validate(prefix string) error {
	var faults []error
	fault := func(format string, args ...any) {
		faults = append(faults, malformed(prefix+format, args...))
	}
	if l.Count < 1 {
		fault("Count must be >= 1, got %d", l.Count)
	}
	if l.Window <= 0 {
		fault("Window must be > 0, got %v", l.Window)
	}
	switch l.Algorithm {
	case SlidingCounter, SlidingLog:
		if l.Precision != 0 {
			fault("Precision is for SlidingBuckets, must be 0 for %v, got %v", l.Algorithm, l.Precision)
		}
	case SlidingBuckets:
		if l.Precision <= 0 {
			fault("Precision must be > 0, got %v", l.Precision)
		} else if l.Precision > l.Window {
			fault("Precision must be <= Window, got %v and %v", l.Precision, l.Window)
		}
	default:
		fault(wantAlgorithm, l.Algorithm)
	}
	return errors.Join(faults...)
}

// maxLimits is the number of limits that a key may have. Each call on the key checks
// all of them.
const maxLimits = 64

// validate returns every fault of limits, which are numbered from 1, or nil.
func validate(limits []Limit) error {
	var faults []error
	if len(limits) > maxLimits {
		faults = append(faults, malformed("sash: a key has at most %d limits, got %d", maxLimits, len(limits)))
	}
	for i, l := range limits {
		faults = append(faults, l.validate(fmt.Sprintf("sash: limit %d: ", i+1)))
	}
	return errors.Join(faults...)
}

// MarshalText returns what [Limit.String] returns. The zero Limit, which limits
// nothing and stands in a zero [Decision], is empty text. The error for any other
// limit that [ParseLimit] would not read back wraps [ErrInvalidLimit].
func (l Limit) MarshalText() ([]byte, error) {
	if l == (Limit{}) {
		return []byte{}, nil
	}
	if err := l.validate("sash: limit: "); err != nil {
		return nil, err
	}
	return []byte(l.String()), nil
}

// UnmarshalText reads what [ParseLimit] reads, and empty text as the zero Limit,
// which [New] refuses. On an error l is unchanged.
func (l *Limit) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*l = Limit{}
		return nil
	}
	parsed, err := ParseLimit(string(text))
	if err == nil {
		*l = parsed
	}
	return err
}
