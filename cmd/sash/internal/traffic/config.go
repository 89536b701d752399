package traffic

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// fromConfig returns the format that a text of the configuration of nginx or Apache defines, as -format
// takes it: a pattern, or a name. It reports false if the text is no configuration. The text may be what
// grep -A5 log_format prints, so other directives may stand around it.
func fromConfig(text string) (format string, found bool, err error) {
	c := &config{formats: map[string]string{}}
	switch {
	case hasDirective(text, "log_format"):
		err = c.readNginx(text)
	case hasDirective(text, "logformat"), hasDirective(text, "customlog"), hasDirective(text, "transferlog"):
		err = c.readApache(text)
	default:
		return "", false, nil
	}
	if err == nil {
		format, err = c.chosen()
	}
	return format, true, err
}

// A config is the formats that a configuration defines, and the names of those that it uses.
type config struct {
	formats map[string]string // by name
	uses    []string
}

// hasDirective reports whether a line of text begins with a directive, also in a comment.
func hasDirective(text, directive string) bool {
	return slices.ContainsFunc(strings.Split(withoutGrep(text), "\n"), func(line string) bool {
		word, _, _ := strings.Cut(strings.TrimLeft(line, "# \t"), " ")
		word, _, _ = strings.Cut(word, "\t")
		return strings.ToLower(word) == directive
	})
}

// chosen returns the only format, or else the only one that is used.
func (c *config) chosen() (string, error) {
	names := slices.Sorted(maps.Keys(c.formats))
	var used []string
	for _, name := range c.uses {
		if _, defined := c.formats[name]; defined && !slices.Contains(used, name) {
			used = append(used, name)
		}
	}
	switch {
	case len(names) == 1:
		return c.formats[names[0]], nil
	case len(used) == 1:
		return c.formats[used[0]], nil
	case len(names) > 1:
		return "", fmt.Errorf("the configuration has the formats %s, and does not tell which the FILE has: give one of them", strings.Join(names, " "))
	case len(c.uses) > 0:
		return c.uses[0], nil // of the name of a format that is not in the text, such as combined
	}
	return "", fmt.Errorf("the configuration defines no format: its lines are comments")
}

// readNginx reads log_format and access_log.
func (c *config) readNginx(text string) error {
	words, closed := nginxDirectives(text)
	for i, d := range words {
		switch {
		case len(d) < 2:
		case d[0] == "access_log" && len(d) > 2:
			c.uses = append(c.uses, d[2])
		case d[0] == "log_format" && i == len(words)-1 && !closed:
			return fmt.Errorf("the log_format %s does not end with ; in this text: give all its lines", d[1])
		case d[0] == "log_format":
			pattern, none := d[2:], false
			if len(pattern) > 0 && strings.HasPrefix(pattern[0], "escape=") {
				pattern, none = pattern[1:], pattern[0] == "escape=none"
			}
			c.formats[d[1]] = strings.Join(pattern, "")
			if none {
				if err := checkUnescaped(d[1], c.formats[d[1]]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// checkUnescaped refuses a pattern without escapes in which the time or the address stands after what a
// client has sent: a client could write both as it likes.
func checkUnescaped(name, pattern string) error {
	t, err := compile(pattern)
	if err != nil {
		return nil // decoderFor says it
	}
	sent := ""
	for _, v := range t.variables {
		switch {
		case sent != "" && (slices.Contains(timeVariables, v) || slices.ContainsFunc(namesOf(Addr), func(a alias) bool { return a.field == v })):
			return fmt.Errorf("log_format %s with escape=none has $%s after $%s, in which a client can write any $%s: put $%s first", name, v, sent, v, v)
		case v == "request" || v == "request_uri" || v == "uri" || v == "args" || v == "query_string" || v == "remote_user" || v == "host",
			strings.HasPrefix(v, "http_"), strings.HasPrefix(v, "arg_"), strings.HasPrefix(v, "cookie_"):
			sent = v
		}
	}
	return nil
}

// nginxDirectives returns the words of each directive. It reports whether the last one ends.
func nginxDirectives(text string) (all [][]string, closed bool) {
	var words []string
	for rest := withoutGrep(text); rest != ""; {
		switch c := rest[0]; {
		case c == '#':
			_, rest, _ = strings.Cut(rest, "\n")
		case strings.IndexByte(" \t\r\n", c) >= 0:
			rest = rest[1:]
		case c == ';' || c == '{' || c == '}':
			if len(words) > 0 {
				all = append(all, words)
			}
			words, rest = nil, rest[1:]
		case c == '\'' || c == '"':
			var word string
			word, rest = unquote(rest, c, "\\'\"")
			words = append(words, word)
		default:
			end := strings.IndexAny(rest, " \t\r\n;{}")
			if strings.HasPrefix(rest, "$") || end < 0 { // ${name} is no block
				end = len(rest) - len(strings.TrimLeftFunc(rest, func(c rune) bool { return !strings.ContainsRune(" \t\r\n;", c) }))
			}
			words, rest = append(words, rest[:end]), rest[end:]
		}
	}
	if len(words) > 0 {
		return append(all, words), false
	}
	return all, true
}

// withoutGrep returns text without the lines that grep puts between its findings, and without the numbers
// that grep -n puts before all lines.
func withoutGrep(text string) string {
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(l string) bool { return l == "--" })
	number := regexp.MustCompile(`^[0-9]+[:-]`)
	if !slices.ContainsFunc(lines, func(l string) bool { return l != "" && !number.MatchString(l) }) {
		for i, l := range lines {
			lines[i] = number.ReplaceAllString(l, "")
		}
	}
	return strings.Join(lines, "\n")
}

// readApache reads LogFormat, TransferLog and CustomLog.
func (c *config) readApache(text string) error {
	joined := strings.NewReplacer("\\\r\n", "", "\\\n", "").Replace(withoutGrep(text))
	for line := range strings.Lines(joined) {
		words := apacheWords(line)
		if len(words) < 2 {
			continue
		}
		format, name := "", ""
		switch strings.ToLower(words[0]) {
		case "logformat":
			format = words[1]
			if len(words) > 2 {
				name = words[2]
			}
		case "customlog":
			if len(words) > 2 && strings.Contains(words[2], "%") {
				format = words[2]
			} else if len(words) > 2 {
				c.uses = append(c.uses, words[2])
			}
		}
		if format != "" {
			c.formats[name] = format
		}
	}
	return nil
}

// apacheWords returns the words of a line, or none of a comment.
func apacheWords(line string) (words []string) {
	for rest := strings.TrimSpace(line); rest != "" && rest[0] != '#'; rest = strings.TrimLeft(rest, " \t") {
		var word string
		if rest[0] == '"' || rest[0] == '\'' {
			word, rest = unquote(rest, rest[0], "\\"+rest[:1])
		} else {
			end := strings.IndexAny(rest+" ", " \t")
			word, rest = rest[:end], rest[end:]
		}
		words = append(words, word)
	}
	return words
}

// unquote returns the text in quotes that s begins with, and what follows it. A backslash escapes the bytes
// escaped; before others it stands for itself.
func unquote(s string, quote byte, escaped string) (text, rest string) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == quote:
			return b.String(), s[i+1:]
		case s[i] == '\\' && i+1 < len(s) && strings.IndexByte(escaped, s[i+1]) >= 0:
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}
