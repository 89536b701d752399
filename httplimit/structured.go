package httplimit

import (
	"strconv"
	"strings"
)

// maxInteger is the largest Integer of RFC 9651.
const maxInteger = 999_999_999_999_999

// appendInteger appends n as an Integer of RFC 9651. It raises a negative n to 0 and
// lowers a large one to maxInteger.
func appendInteger(text []byte, n int64) []byte {
	return strconv.AppendInt(text, min(max(n, 0), maxInteger), 10)
}

// appendString appends s, which must be printable, as a String of RFC 9651.
func appendString(text []byte, s string) []byte {
	text = append(text, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			text = append(text, '\\')
		}
		text = append(text, s[i])
	}
	return append(text, '"')
}

// printable reports whether s consists of the characters that a String of RFC 9651 may
// have: printable ASCII.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// cutParameter cuts the first parameter off s. Without a value, its value is the
// Boolean true.
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

// isKeyByte reports whether c may stand in the name of a parameter, as the first
// character or as a later one.
func isKeyByte(c byte, first bool) bool {
	if 'a' <= c && c <= 'z' || c == '*' {
		return true
	}
	return !first && ('0' <= c && c <= '9' || c == '_' || c == '-' || c == '.')
}

// cutItem cuts off the bare item at the beginning of s. It reads only as much of the
// item as it takes to find its end.
func cutItem(s string) (item, rest string, ok bool) {
	end := 0
	switch {
	case s == "":
	case s[0] == '"':
		end = closingQuote(s) + 1
	case s[0] == ':': // a Byte Sequence
		end = afterClosing(s, 1)
	case strings.HasPrefix(s, `%"`): // a Display String, in which a backslash escapes nothing
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

// afterClosing returns the index after the delimiter that closes an item, or 0 if there
// is none. The item's content begins at begin, and the delimiter is the byte before it.
func afterClosing(s string, begin int) int {
	i := strings.IndexByte(s[begin:], s[begin-1])
	if i < 0 {
		return 0
	}
	return begin + i + 1
}

// numberEnd returns the length of the Integer, Decimal or Date at the beginning of s,
// or 0 if it has more digits than allowed.
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

// tokenEnd returns the length of the Token at the beginning of s, or 0 if there is
// none.
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
