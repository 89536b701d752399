package httplimit

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// untilMore returns the time until there is more of every quota that RateLimit says
// is used up: the longest t of the members with an r of 0. It returns 0 if there is
// none, or if the field is not a list of items (RFC 9651), which then says nothing.
func untilMore(h http.Header) (longest time.Duration) {
	lines := h[rateLimit]
	if len(lines) == 0 {
		return 0
	}
	rest := trim(strings.Join(lines, ","))
	for {
		wait, after, ok := cutQuota(rest)
		if !ok {
			return 0
		}
		longest = max(longest, wait)
		if after = trim(after); after == "" {
			return longest
		}
		if after[0] != ',' {
			return 0
		}
		rest = trim(after[1:])
	}
}

// cutQuota cuts the first member off a list. wait is its t if its r is 0, else 0. Of
// parameters with one name, the last holds.
func cutQuota(s string) (wait time.Duration, rest string, ok bool) {
	_, rest, ok = cutItem(s) // the name of the quota
	usedUp := false
	for ok && strings.HasPrefix(rest, ";") {
		var name, value string
		name, value, rest, ok = cutParameter(strings.TrimLeft(rest[1:], " "))
		switch name {
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

// cutParameter cuts the first parameter off s. Without a value, it is the Boolean true.
func cutParameter(s string) (name, value, rest string, ok bool) {
	end := 0
	for end < len(s) && isKeyByte(s[end], end == 0) {
		end++
	}
	name, rest = s[:end], s[end:]
	if !strings.HasPrefix(rest, "=") {
		return name, "?1", rest, name != ""
	}
	value, rest, ok = cutItem(rest[1:])
	return name, value, rest, ok && name != ""
}

// isKeyByte reports whether c may stand in the name of a parameter.
func isKeyByte(c byte, first bool) bool {
	if 'a' <= c && c <= 'z' || c == '*' {
		return true
	}
	return !first && ('0' <= c && c <= '9' || c == '_' || c == '-' || c == '.')
}

// cutItem cuts the bare item off s that s begins with. It looks into an item only as
// far as it must to find its end.
func cutItem(s string) (item, rest string, ok bool) {
	end := 0
	switch {
	case s == "":
	case s[0] == '"':
		end = closingQuote(s) + 1
	case s[0] == ':': // a Byte Sequence
		end = afterClosing(s, 1)
	case strings.HasPrefix(s, `%"`): // a Display String, in which nothing is escaped by a backslash
		end = afterClosing(s, 2)
	case strings.HasPrefix(s, "?0"), strings.HasPrefix(s, "?1"):
		end = 2
	case strings.IndexByte("@-0123456789", s[0]) >= 0:
		end = numberEnd(s)
	default:
		end = tokenEnd(s)
	}
	return s[:end], s[end:], end > 0
}

// afterClosing returns where s goes on after the next byte from begin that is the one
// before it, or 0.
func afterClosing(s string, begin int) int {
	i := strings.IndexByte(s[begin:], s[begin-1])
	if i < 0 {
		return 0
	}
	return begin + i + 1
}

// numberEnd returns the length of the Integer, Decimal or Date that s begins with, or
// 0 if it has more digits than it may have.
func numberEnd(s string) int {
	end := len(s) - len(strings.TrimPrefix(strings.TrimPrefix(s, "@"), "-"))
	whole := digits(s[end:])
	if end += whole; whole == 0 || whole > 15 {
		return 0
	}
	if end == len(s) || s[end] != '.' {
		return end
	}
	part := digits(s[end+1:])
	if whole > 12 || part == 0 || part > 3 {
		return 0
	}
	return end + 1 + part
}

// digits returns how many digits s begins with.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// tokenEnd returns the length of the Token that s begins with.
func tokenEnd(s string) int {
	if c := s[0] | 0x20; s[0] != '*' && (c < 'a' || 'z' < c) {
		return 0
	}
	end := 1
	for end < len(s) && (s[end] == ':' || s[end] == '/' || isToken(s[end:end+1])) {
		end++
	}
	return end
}
