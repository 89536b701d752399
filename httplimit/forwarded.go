package httplimit

import (
	"net/netip"
	"strings"
)

// cutLastForwarded cuts the last element off a line of Forwarded, whose values may
// be quoted and hold commas. It reads from the right: what a trusted proxy has
// written there is well-formed, so its quotes pair, whatever a client has put before
// it. Read from the left, one quote of the client's would swallow it.
func cutLastForwarded(line string) (before, element string, found bool) {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch c := line[i]; {
		case c == '"' && !(quoted && i > 0 && line[i-1] == '\\'): // there, it is escaped
			quoted = !quoted
		case c == ',' && !quoted:
			return line[:i], line[i+1:], true
		}
	}
	return "", line, false
}

// parseForwarded reads the address out of an element of Forwarded: for=192.0.2.1,
// or For="[2001:db8::1]:80";proto=https. It is false if there is no for, more than
// one, or one that is no address, such as unknown or _hidden.
func parseForwarded(element string) (addr netip.Addr, zone string, ok bool) {
	seen := false
	for rest, more := element, true; more; {
		var name, value string
		if name, value, rest, more, ok = cutPair(rest); !ok {
			return addr, "", false
		}
		if !strings.EqualFold(name, "for") {
			continue
		}
		if seen {
			return addr, "", false
		}
		seen = true
		if addr, zone, ok = parseNode(value, isNodePort); !ok {
			return addr, "", false
		}
	}
	return addr, zone, seen
}

// cutPair cuts the first name=value off an element, and reports whether more
// follow. A quoted value loses its quotes; what is escaped in it stays so, since
// no address needs escapes.
func cutPair(s string) (name, value, rest string, more, ok bool) {
	name, s, ok = strings.Cut(trim(s), "=")
	if !ok || !isToken(name) {
		return "", "", "", false, false
	}
	if strings.HasPrefix(s, `"`) {
		end := closingQuote(s)
		if end < 0 {
			return "", "", "", false, false
		}
		value, s = s[1:end], trim(s[end+1:])
		rest, more = strings.CutPrefix(s, ";")
		return name, value, rest, more, more || s == ""
	}
	value, rest, more = strings.Cut(s, ";")
	value = trim(value)
	return name, value, rest, more, isToken(value) || isBareAddress(name, value)
}

// closingQuote returns where the quoted string that s begins with ends, or -1.
func closingQuote(s string) int {
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

// isBareAddress reports whether a value is one that only looks like no token: some
// proxies write for=192.0.2.1:80 and for=[2001:db8::1] without the quotes.
func isBareAddress(name, value string) bool {
	_, _, ok := parseNode(value, isNodePort)
	return ok && (strings.EqualFold(name, "for") || strings.EqualFold(name, "by"))
}

// isNodePort reports whether s is a port of RFC 7239: a number, or an underscore
// and what a proxy calls it.
func isNodePort(s string) bool {
	if name, hidden := strings.CutPrefix(s, "_"); hidden {
		return isToken(name)
	}
	return isPort(s)
}

// isToken reports whether s is a token of RFC 9110.
func isToken(s string) bool {
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
