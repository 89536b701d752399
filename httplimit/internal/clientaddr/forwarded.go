package clientaddr

import (
	"net/netip"
	"strings"

	"github.com/seed-30da4c49/sash/httplimit/internal/fields"
)

// cutLastForwarded cuts the last element off a line of Forwarded, whose values may be quoted and hold
// commas. It reads from the right. The part that a trusted proxy has written there is well-formed, so its
// quotes pair. Read from the left, a single quote of the client would swallow that part.
func cutLastForwarded(line string) (before, element string, found bool) {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch c := line[i]; {
		case c == '"' && !(quoted && i > 0 && line[i-1] == '\\'): // not an escaped quote
			quoted = !quoted
		case c == ',' && !quoted:
			return line[:i], line[i+1:], true
		}
	}
	return "", line, false
}

// parseForwarded reads the address in an element of Forwarded, such as
// For="[2001:db8::1]:80";proto=https. ok is false if there is no for, if there are several, or if its
// value is no address, such as _hidden.
func parseForwarded(element string) (addr netip.Addr, zone string, ok bool) {
	seen := false
	for rest := element; ; rest = rest[1:] { // behind a semicolon
		name, value, after, ok := cutPair(rest)
		if ok && strings.EqualFold(name, "for") {
			addr, zone, ok = parseNode(value, isNodePort)
			ok, seen = ok && !seen, true
		}
		if rest = after; !ok || rest == "" {
			return addr, zone, ok && seen
		}
	}
}

// cutPair cuts the first name=value off an element. rest is empty, or begins with the semicolon before
// the next. A quoted value loses its quotes. Escapes in it stay, since no address needs them.
func cutPair(s string) (name, value, rest string, ok bool) {
	name, s, ok = strings.Cut(fields.Trim(s), "=")
	if !ok || !fields.IsToken(name) {
		return "", "", "", false
	}
	if strings.HasPrefix(s, `"`) {
		end := fields.ClosingQuote(s)
		if end < 0 {
			return "", "", "", false
		}
		value, rest = s[1:end], fields.Trim(s[end+1:])
		return name, value, rest, rest == "" || rest[0] == ';'
	}
	value, _, _ = strings.Cut(s, ";")
	rest, value = s[len(value):], fields.Trim(value)
	if ok = fields.IsToken(value); !ok && (strings.EqualFold(name, "for") || strings.EqualFold(name, "by")) {
		_, _, ok = parseNode(value, isNodePort) // some proxies write addresses without quotes
	}
	return name, value, rest, ok
}

// isNodePort reports whether s is a port of RFC 7239: a number, or a name after an underscore.
func isNodePort(s string) bool {
	if name, hidden := strings.CutPrefix(s, "_"); hidden {
		return fields.IsToken(name)
	}
	return isPort(s)
}
