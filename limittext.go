package sash

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// String returns the limit as text, such as "100/1m0s", "100/1m0s counter", "10/1s log", "240/1h0m0s
// buckets 1m0s", "10/1s burst 100", "5 at once for 1m0s" or "unlimited". A limit without the name of an
// algorithm is in [SlidingParts], of more than [SmallCount] units. [ParseLimit] reads the text back.
func (l Limit) String() string {
	if l == Unlimited() {
		return unlimitedText
	}
	var words string
	switch l.Algorithm {
	case Concurrency:
		return strconv.FormatInt(l.Count, 10) + " at once for " + l.Window.String()
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

// defaultLease is the lease of a limit in text that has none.
const defaultLease = time.Minute

// ParseLimit returns the limit that s describes, in the form that [Limit.String] writes:
//
//	COUNT/WINDOW
//	COUNT/WINDOW counter
//	COUNT/WINDOW log
//	COUNT/WINDOW parts
//	COUNT/WINDOW buckets PRECISION
//	COUNT/WINDOW burst BURST
//	COUNT at once for LEASE
//	unlimited
//
// Without a word for the algorithm, the count chooses it as it does for [Per]. Without "for LEASE", the lease
// is a minute. The word "for" alone may be left out.
//
// A duration is one of [time.ParseDuration], a unit without a number, or a whole number of
// days or weeks. The units are s, sec, second, m, min, minute, h, hour, d, day, w and week.
// Words are separated by white space, which may also stand around the slash. Examples are
// "100/s", "100 / minute", "5000/30d", "5/250ms log", "240/h buckets 1m", "10/s burst 100" and "5 at once".
//
// The error wraps [ErrInvalidLimit], quotes s and names every fault, or the first part that
// cannot be read. It says what was probably meant by texts such as "100r/m", "10 per minute" and "5 concurrent".
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
	if parts := atATime.FindStringSubmatch(s); parts != nil {
		meant := strings.TrimSpace(parts[1] + " at once " + strings.ToLower(parts[2]))
		if _, err := parseLimit(meant); err == nil {
			return didYouMean(meant)
		}
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

// atATime matches a limit of what happens at the same time as other programs write it, and what follows.
var atATime = regexp.MustCompile(`(?i)^\s*(\d+)\s*(?:at once|at a time|at the same time|concurrent(?:ly)?|concurrency|in flight|in parallel|parallel|simultaneous(?:ly)?)\b\s*(?:requests?|calls?)?\s*(.*)$`)

// plural matches the s of units by name, but not of ms, which is no plural of m.
var plural = regexp.MustCompile(`(?i)([a-z]{3})s$`)

// parseLimit is ParseLimit without s and a suggestion in the error.
func parseLimit(s string) (l Limit, err error) {
	var p limitParser
	words := strings.Fields(s)
	count, rest, perWindow := strings.Cut(s, "/")
	switch {
	case len(words) == 0:
		return l, malformed("empty, " + wantLimit)
	case len(words) == 1 && words[0] == unlimitedText:
		return Unlimited(), nil
	case len(words) >= 3 && words[1] == "at" && words[2] == "once":
		l = p.atOnce(words[0], words[3:])
	case perWindow:
		l = p.perWindow(strings.TrimSpace(count), strings.Fields(rest))
	default:
		return l, malformed("no slash, " + wantLimit)
	}
	return l, cmp.Or(p.err, errors.Join(l.faults("")...))
}

const wantLimit = "want COUNT/WINDOW such as 100/1m, or COUNT at once"

// A limitParser parses the words of a limit. It goes on after a fault, and keeps the first one.
type limitParser struct{ err error }

// atOnce parses the words that stand after "at once", and what stands before it.
func (p *limitParser) atOnce(count string, words []string) Limit {
	l := AtOnce(p.number("count", count), defaultLease)
	switch {
	case len(words) == 0:
	case len(words) == 1:
		l.Window = p.duration("lease", words[0])
	case len(words) == 2 && words[0] == "for":
		l.Window = p.duration("lease", words[1])
	default:
		p.fail("%s after at once, want nothing or for LEASE", quote(strings.Join(words, " ")))
	}
	return l
}

// perWindow parses the words that stand after the slash, and what stands before it.
func (p *limitParser) perWindow(count string, words []string) Limit {
	window, algorithm := "", words
	if len(words) > 0 {
		window, algorithm = words[0], words[1:]
	}
	l := Per(p.number("count", count), p.duration("window", window))
	switch {
	case len(algorithm) == 0: // Per has chosen
	case len(algorithm) == 1 && algorithm[0] == "counter":
		l = l.Counter()
	case len(algorithm) == 1 && algorithm[0] == "log":
		l.Algorithm = SlidingLog // as it stands: the numbers may be the same as in Unlimited
	case len(algorithm) == 1 && algorithm[0] == "parts":
		l.Algorithm = SlidingParts
	case len(algorithm) == 2 && algorithm[0] == "buckets":
		l.Algorithm, l.Precision = SlidingBuckets, p.duration("precision", algorithm[1])
	case len(algorithm) == 2 && algorithm[0] == "burst":
		l.Algorithm, l.Burst = TokenBucket, p.number("burst", algorithm[1])
	default:
		const want = "nothing, counter, log, parts, buckets PRECISION or burst BURST"
		p.fail("%s after the window, want "+want, quote(strings.Join(algorithm, " ")))
	}
	return l
}

func (p *limitParser) number(what, text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		p.fail("%s %s is not a whole number of 64 bits", what, quote(text))
	}
	return n
}

func (p *limitParser) duration(what, text string) time.Duration {
	d, err := parseDuration(text)
	if err != nil {
		p.fail("%s %s is not a duration such as 250ms, 1m30s or h", what, quote(text))
	}
	return d
}

func (p *limitParser) fail(format string, args ...any) {
	p.err = cmp.Or(p.err, malformed(format, args...))
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
