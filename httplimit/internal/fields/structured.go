package fields

import (
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

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

// AppendInteger appends n as an Integer of RFC 9651: at least 0, and at most the largest Integer.
func AppendInteger(text []byte, n int64) []byte {
	return strconv.AppendInt(text, min(max(n, 0), 999_999_999_999_999), 10)
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

// Printable reports whether s is printable ASCII, as a String of RFC 9651 is.
func Printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// Trim cuts the white space off both ends of an element of a header.
func Trim(s string) string { return strings.Trim(s, " \t") }

// IsToken reports whether s is a token of RFC 9110.
func IsToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		letter, digit := 'a' <= r|0x20 && r|0x20 <= 'z', '0' <= r && r <= '9'
		return !letter && !digit && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

// ClosingQuote returns the index of the quote that ends the quoted string at the beginning of s, or -1.
func ClosingQuote(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}
