package sash

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
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
)

const lastAlgorithm = SlidingParts

var algorithmNames = []string{"SlidingCounter", "SlidingLog", "SlidingBuckets", "TokenBucket", "SlidingParts"}

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

const wantAlgorithm = "Algorithm must be SlidingCounter, SlidingLog, SlidingBuckets, TokenBucket or SlidingParts, got %v"

// ErrInvalidLimit is wrapped by every error about a limit whose fields are not valid.
var ErrInvalidLimit = errors.New("invalid limit")

// A Limit admits Count units per Window. It is an [Option]: give it to [New].
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
	// Window is the length of the sliding window, or the time in which Count units flow into
	// a TokenBucket. It is more than 0. Any length is exact to the nanosecond.
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
// never denied. [Limit.Counter], [Limit.Log] and the like choose otherwise.
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

// String returns the limit as text, such as "100/1m0s", "100/1m0s counter", "10/1s log", "240/1h0m0s
// buckets 1m0s", "10/1s burst 100" or "unlimited". A limit without the name of an algorithm is in
// [SlidingParts], of more than [SmallCount] units. [ParseLimit] reads the text back.
func (l Limit) String() string {
	if l == Unlimited() {
		return unlimitedText
	}
	var words string
	switch l.Algorithm {
	case SlidingCounter:
		words = " counter"
	case SlidingLog:
		words = " log"
	case SlidingBuckets:
		words = " buckets " + l.Precision.String()
	case TokenBucket:
		words = " burst " + strconv.FormatInt(l.Burst, 10)
	case SlidingParts:
		if l != Per(l.Count, l.Window) {
			words = " parts"
		}
	default:
		words = " " + l.Algorithm.String()
	}
	return strconv.FormatInt(l.Count, 10) + "/" + l.Window.String() + words
}

const unlimitedText = "unlimited"

// ParseLimit returns the limit that s describes, in the form that [Limit.String] writes:
//
//	COUNT/WINDOW
//	COUNT/WINDOW counter
//	COUNT/WINDOW log
//	COUNT/WINDOW parts
//	COUNT/WINDOW buckets PRECISION
//	COUNT/WINDOW burst BURST
//	unlimited
//
// Without a word for the algorithm, the count chooses it as it does for [Per].
//
// A duration is one of [time.ParseDuration], a unit without a number, or a whole number of
// days or weeks. The units are s, sec, second, m, min, minute, h, hour, d, day, w and week.
// Words are separated by white space, which may also stand around the slash. Examples are
// "100/s", "100 / minute", "5000/30d", "5/250ms log", "240/h buckets 1m" and "10/s burst 100".
//
// The error wraps [ErrInvalidLimit], quotes s and names every fault. It says what was
// probably meant by texts such as "100r/m" and "10 per minute".
func ParseLimit(s string) (Limit, error) {
	l, err := parseLimit(s)
	if err != nil {
		return Limit{}, fmt.Errorf("sash: limit %s%s: %w", quote(s), suggestion(s), err)
	}
	return l, nil
}

// suggestion returns a question whether another text was meant by s, or "".
func suggestion(s string) string {
	if len(s) > maxQuoted {
		return ""
	}
	if strings.EqualFold(strings.TrimSpace(s), unlimitedText) {
		return didYouMean(unlimitedText)
	}
	parts := loosely.FindStringSubmatch(s)
	if parts == nil {
		return ""
	}
	for _, window := range []string{parts[2], plural.ReplaceAllString(parts[2], "$1")} {
		meant := strings.TrimSpace(parts[1] + "/" + strings.ToLower(window) + " " + strings.ToLower(parts[3]))
		if _, err := parseLimit(meant); err == nil {
			return didYouMean(meant)
		}
	}
	return ""
}

func didYouMean(meant string) string { return ", did you mean " + strconv.Quote(meant) + "?" }

// loosely matches a limit as other programs write it: count, window, and what follows.
var loosely = regexp.MustCompile(`(?i)^\s*(\d+)\s*(?:r|req|reqs|requests?|x|times)?\s*(?:/|per|a|in|every)\s*(\w+)\s*(.*)$`)

// plural matches the s of units by name, but not of ms, which is no plural of m.
var plural = regexp.MustCompile(`(?i)([a-z]{3})s$`)

// maxQuoted is the greatest number of bytes that a line of a log should quote.
const maxQuoted = 64

// quote quotes s for an error message. It cuts off what is too long.
func quote(s string) string {
	if len(s) > maxQuoted {
		return strconv.Quote(s[:maxQuoted]) + "..."
	}
	return strconv.Quote(s)
}

// parseLimit is ParseLimit without s and a suggestion in the error.
func parseLimit(s string) (l Limit, err error) {
	switch strings.TrimSpace(s) {
	case "":
		return l, malformed("empty, want COUNT/WINDOW such as 100/1m")
	case unlimitedText:
		return Unlimited(), nil
	}
	count, rest, found := strings.Cut(s, "/")
	if !found {
		return l, malformed("no slash, want COUNT/WINDOW such as 100/1m")
	}
	window, algorithm := "", strings.Fields(rest)
	if len(algorithm) > 0 {
		window, algorithm = algorithm[0], algorithm[1:]
	}

	// Parse on after a fault, and report the first one.
	number := func(what, text string) int64 {
		n, fault := strconv.ParseInt(text, 10, 64)
		if fault != nil {
			err = cmp.Or(err, malformed("%s %s is not a whole number of 64 bits", what, quote(text)))
		}
		return n
	}
	duration := func(what, text string) time.Duration {
		d, fault := parseDuration(text)
		if fault != nil {
			err = cmp.Or(err, malformed("%s %s is not a duration such as 250ms, 1m30s or h", what, quote(text)))
		}
		return d
	}
	l = Per(number("count", strings.TrimSpace(count)), duration("window", window))
	switch {
	case len(algorithm) == 0: // Per has chosen
	case len(algorithm) == 1 && algorithm[0] == "counter":
		l = l.Counter()
	case len(algorithm) == 1 && algorithm[0] == "log":
		l.Algorithm = SlidingLog // as it stands: the numbers may be the same as in Unlimited
	case len(algorithm) == 1 && algorithm[0] == "parts":
		l.Algorithm = SlidingParts
	case len(algorithm) == 2 && algorithm[0] == "buckets":
		l.Algorithm, l.Precision = SlidingBuckets, duration("precision", algorithm[1])
	case len(algorithm) == 2 && algorithm[0] == "burst":
		l.Algorithm, l.Burst = TokenBucket, number("burst", algorithm[1])
	default:
		const want = "nothing, counter, log, parts, buckets PRECISION or burst BURST"
		err = cmp.Or(err, malformed("%s after the window, want "+want, quote(strings.Join(algorithm, " "))))
	}
	return l, cmp.Or(err, errors.Join(l.faults("")...))
}

// malformed returns an error that wraps ErrInvalidLimit.
func malformed(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, ErrInvalidLimit)...)
}

// parseDuration parses a duration of time.ParseDuration, a unit without a number, or a
// whole number of days or weeks.
func parseDuration(s string) (time.Duration, error) {
	switch s {
	case "s", "sec", "second":
		return time.Second, nil
	case "m", "min", "minute":
		return time.Minute, nil
	case "h", "hour":
		return time.Hour, nil
	case "d", "day":
		return day, nil
	case "w", "week":
		return week, nil
	}
	for suffix, unit := range map[string]time.Duration{"d": day, "w": week} {
		if number, found := strings.CutSuffix(s, suffix); found {
			n, err := strconv.ParseInt(number, 10, 64)
			// Check before the product, which would wrap.
			if limit := int64(math.MaxInt64 / unit); err == nil && (n > limit || n < -limit) {
				err = strconv.ErrRange
			}
			return time.Duration(n) * unit, err
		}
	}
	return time.ParseDuration(s)
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

// MarshalText returns the text of [Limit.String]. The text of the zero Limit is empty: it
// limits nothing, and stands in a zero [Decision]. The error for any other limit that
// [ParseLimit] would not read back wraps [ErrInvalidLimit].
func (l Limit) MarshalText() ([]byte, error) {
	if l == (Limit{}) {
		return []byte{}, nil
	}
	if faults := l.faults("sash: limit: "); faults != nil {
		return nil, errors.Join(faults...)
	}
	return []byte(l.String()), nil
}

// UnmarshalText sets l to the limit that text describes, as [ParseLimit] does. Empty text
// is the zero Limit, which [New] refuses. On an error, l is unchanged.
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
