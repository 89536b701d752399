package fields

import "strings"

// Trim cuts the white space off both ends of an element of a header.
func Trim(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for s != "" && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}

// digits returns the number of digits at the beginning of s.
func digits(s string) int { return len(s) - len(strings.TrimLeft(s, "0123456789")) }

// IsToken reports whether s is a token of RFC 9110.
func IsToken(s string) bool {
	for i := range len(s) {
		c := s[i]
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		digit := '0' <= c && c <= '9'
		if !letter && !digit && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return s != ""
}

// ClosingQuote returns the index of the quote that ends the quoted string at the
// beginning of s, or -1.
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
