package fields

import (
	"encoding/base64"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

// MaxInteger is the largest Integer of RFC 9651.
const MaxInteger = 999_999_999_999_999

// AppendInteger appends n as an Integer of RFC 9651. It raises a negative n to 0 and
// lowers a large one to MaxInteger.
func AppendInteger(text []byte, n int64) []byte {
	return strconv.AppendInt(text, min(max(n, 0), MaxInteger), 10)
}

// AppendString appends s, which must be printable, as a String of RFC 9651.
func AppendString(text []byte, s string) []byte {
	text = append(text, '"')
	for i := range len(s) {
		if s[i] == '"' || s[i] == '\\' {
			text = append(text, '\\')
		}
		text = append(text, s[i])
	}
	return append(text, '"')
}

// Printable reports whether s consists of the characters that a String of RFC 9651 may
// have: printable ASCII.
func Printable(s string) bool {
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
	for end < len(s) && (startsKey(s[end]) || end > 0 && continuesKey(s[end])) {
		end++
	}
	name, rest = s[:end], s[end:]
	if !strings.HasPrefix(rest, "=") {
		return name, "?1", rest, name != ""
	}
	value, rest, ok = cutItem(rest[1:])
	return name, value, rest, ok && name != ""
}

// startsKey reports whether the name of a parameter may begin with c.
func startsKey(c byte) bool { return 'a' <= c && c <= 'z' || c == '*' }

// continuesKey reports whether c may stand in the name of a parameter, but not at its beginning.
func continuesKey(c byte) bool { return '0' <= c && c <= '9' || c == '_' || c == '-' || c == '.' }

// cutItem cuts off the bare item at the beginning of s.
func cutItem(s string) (item, rest string, ok bool) {
	end := 0
	switch {
	case s == "":
	case s[0] == '"':
		end = stringEnd(s)
	case s[0] == ':':
		end = bytesEnd(s)
	case strings.HasPrefix(s, `%"`):
		end = displayStringEnd(s)
	case strings.HasPrefix(s, "?0"), strings.HasPrefix(s, "?1"):
		end = 2
	case strings.IndexByte("@-0123456789", s[0]) >= 0:
		end = numberEnd(s)
	default:
		end = tokenEnd(s)
	}
	return s[:end], s[end:], end > 0
}

// stringEnd returns the length of the String at the beginning of s, or 0 if it is malformed.
func stringEnd(s string) int {
	end := ClosingQuote(s)
	if end < 0 || !Printable(s[:end]) {
		return 0
	}
	if escaped := strings.NewReplacer(`\\`, "", `\"`, "").Replace(s[1:end]); strings.Contains(escaped, `\`) {
		return 0 // it escapes something else
	}
	return end + 1
}

// bytesEnd returns the length of the Byte Sequence at the beginning of s, or 0 if it is
// malformed. Padding may be missing.
func bytesEnd(s string) int {
	content, _, closed := strings.Cut(s[1:], ":")
	if !closed || strings.ContainsAny(content, "\r\n") { // which package base64 would skip
		return 0
	}
	if _, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(content, "=")); err != nil {
		return 0
	}
	return len(content) + 2
}

// displayStringEnd returns the length of the Display String at the beginning of s, or 0 if it
// is malformed.
func displayStringEnd(s string) int {
	content, _, closed := strings.Cut(s[2:], `"`)
	if !closed || !Printable(content) {
		return 0
	}
	for i := range len(content) {
		if content[i] == '%' && strings.ContainsAny(content[i:min(i+3, len(content))], "ABCDEF") {
			return 0 // digits of an escape are in lower case
		}
	}
	if text, err := url.PathUnescape(content); err != nil || !utf8.ValidString(text) {
		return 0
	}
	return len(content) + 3
}

// numberEnd returns the length of the Integer, Decimal or Date at the beginning of s,
// or 0 if it has more digits than allowed.
func numberEnd(s string) int {
	end := len(s) - len(strings.TrimPrefix(strings.TrimPrefix(s, "@"), "-"))
	whole := digits(s[end:])
	if end += whole; whole == 0 || whole > 15 {
		return 0
	}
	if end == len(s) || s[end] != '.' || s[0] == '@' { // a Date is an Integer
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
	for end < len(s) && (s[end] == ':' || s[end] == '/' || IsToken(s[end:end+1])) {
		end++
	}
	return end
}
