package fields

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-30da4c49/sash"
)

// RequestedWait returns for how long the server asks the client to wait, at most 292 years: by the
// Retry-After of a 429 or 503, or else by the RateLimit of a 429. The RateLimit of a 503 may be about a
// request that was admitted. A malformed field counts as absent.
func RequestedWait(response *http.Response) time.Duration {
	denied := response.StatusCode == http.StatusTooManyRequests
	if !denied && response.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	if d, ok := retryAfterOf(response); ok || !denied {
		return d
	}
	return rateLimitWait(response.Header)
}

// retryAfterOf returns a valid Retry-After of a response. A date that has passed asks for no wait.
func retryAfterOf(response *http.Response) (d time.Duration, ok bool) {
	value := response.Header.Get("Retry-After")
	if d, ok := parseSeconds(value); ok {
		return d, true
	}
	until, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	// Measure from the server's own Date if there is one: the clock here may differ.
	now, err := http.ParseTime(response.Header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return max(until.Sub(now), 0), true
}

// parseSeconds reads a number of seconds: digits, or digits and a fraction. It rounds up to a whole
// second. A number too large for a Duration becomes sash.Never.
func parseSeconds(s string) (d time.Duration, ok bool) {
	whole, fraction, fractional := strings.Cut(s, ".")
	if !isDigits(whole) || fractional && !isDigits(fraction) {
		return 0, false
	}
	const maxSeconds = int64(sash.Never / time.Second)
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || seconds >= maxSeconds {
		return sash.Never, true
	}
	if strings.Trim(fraction, "0") != "" {
		seconds++
	}
	return time.Duration(seconds) * time.Second, true
}

// isDigits reports whether s consists of digits, at least one.
func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// maxRateLimit is the length in bytes up to which RateLimit is read: enough for the 1024 members that RFC
// 9651 wants to be read, and no more than a hostile server may make the client read.
const maxRateLimit = 64 << 10

// rateLimitWait returns how long RateLimit asks to wait: the longest t of the quotas with an r of 0. A
// field that is not a list of items (RFC 9651) is invalid as a whole, and so is one that is too long.
func rateLimitWait(h http.Header) (longest time.Duration) {
	rest := strings.Trim(strings.Join(h["Ratelimit"], ","), " ")
	if len(rest) > maxRateLimit {
		return 0
	}
	for {
		wait, after, ok := cutQuota(rest)
		if !ok {
			return 0
		}
		longest = max(longest, wait) // all quotas must admit the next request
		if after = Trim(after); after == "" {
			return longest
		}
		if after[0] != ',' {
			return 0
		}
		rest = Trim(after[1:])
	}
}

// cutQuota cuts the first member off a list. wait is its t if its r is 0, else 0. Of parameters with the
// same name, the last holds.
func cutQuota(s string) (wait time.Duration, rest string, ok bool) {
	name := item.FindString(s)
	rest, ok = s[len(name):], isItem(name)
	usedUp := false
	for p := parameter.FindStringSubmatch(rest); ok && p != nil; p = parameter.FindStringSubmatch(rest) {
		value := p[2] // empty: the Boolean true
		switch rest, ok = rest[len(p[0]):], value == "" || isItem(value); p[1] {
		case "r":
			left, err := strconv.ParseInt(value, 10, 64)
			usedUp = err == nil && left == 0
		case "t":
			wait, _ = parseSeconds(value)
		}
	}
	if !usedUp {
		wait = 0
	}
	return wait, rest, ok
}

// The bare items and the parameters of RFC 9651. What stands behind one tells whether it has ended: a
// number of too many digits is followed by a digit, and no list goes on like that.
const (
	bareItem = `(?:"(?:[ !#-\[\]-~]|\\["\\])*"` + // String
		`|:(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2,3})?=*:` + // Byte Sequence, whose padding may be missing
		`|%"(?:[ !#$&-~]|%[0-9a-f]{2})*"` + // Display String
		`|\?[01]` + // Boolean
		`|@-?[0-9]{1,15}` + // Date
		`|-?[0-9]{1,12}\.[0-9]{1,3}|-?[0-9]{1,15}` + // Decimal, Integer
		"|[A-Za-z*][A-Za-z0-9!#$%&'*+.^_`|~:/-]*)" // Token
	parameterKey = `[a-z*][a-z0-9_.*-]*`
)

// These match at the beginning of a text.
var (
	item      = regexp.MustCompile("^" + bareItem)
	parameter = regexp.MustCompile("^; *(" + parameterKey + ")(?:=(" + bareItem + "))?")
)

// isItem reports whether s, empty or a match of a bare item, is one: a Display String must be UTF-8.
func isItem(s string) bool {
	if display, found := strings.CutPrefix(s, "%"); found {
		text, err := url.PathUnescape(display)
		return err == nil && utf8.ValidString(text)
	}
	return s != ""
}
