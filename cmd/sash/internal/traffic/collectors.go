package traffic

import (
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// The functions of this file strip what one collector of logs each writes. They return errNoPrefix if a line
// does not have it.

// stripDocker takes the line out of {"log":"…\n","stream":"stdout","time":"…"}. A line of more than 16 KiB
// is in several, and only the last ends with a line break.
func stripDocker(line string) (part, error) {
	var log, stream string
	for _, f := range fieldsIn(line) {
		switch {
		case f.name == "log" && f.value.Type == gjson.String:
			log = f.value.Str
		case f.name == "stream" && (f.value.Str == "stdout" || f.value.Str == "stderr"):
			stream = f.value.Str
		case f.name != "time" && f.name != "attrs":
			return part{}, errNoPrefix // the fields of a server's own line
		}
	}
	if log == "" || stream == "" {
		return part{}, errNoPrefix
	}
	text, ended := strings.CutSuffix(log, "\n")
	return oneLine(part{text: strings.TrimSuffix(text, "\r"), stream: stream, more: !ended})
}

// stripJournal takes the line out of an entry of journalctl -o json, whose MESSAGE is text, or an array of
// bytes if it is not valid UTF-8.
func stripJournal(line string) (part, error) {
	if !strings.HasPrefix(line, "{") || !strings.Contains(line, `"__REALTIME_TIMESTAMP"`) || !gjson.Valid(line) {
		return part{}, errNoPrefix
	}
	message := gjson.Get(line, "MESSAGE")
	switch {
	case message.Type == gjson.String:
		return oneLine(part{text: message.Str})
	case !message.IsArray():
		return part{}, errors.New("its MESSAGE is no text, as of lines that the journal has shortened")
	}
	var text []byte
	for _, b := range message.Array() {
		text = append(text, byte(b.Int()))
	}
	return oneLine(part{text: string(text)})
}

// A jsonField is a field of an object.
type jsonField struct {
	name  string
	value gjson.Result
}

// fieldsIn returns the fields of an object, or none if line is no object.
func fieldsIn(line string) (all []jsonField) {
	if !strings.HasPrefix(line, "{") || !gjson.Valid(line) {
		return nil
	}
	gjson.Parse(line).ForEach(func(key, v gjson.Result) bool {
		all = append(all, jsonField{key.Str, v})
		return true
	})
	return all
}

// oneLine refuses a part with several lines in it: the client of one would be taken for all.
func oneLine(p part) (part, error) {
	if strings.ContainsAny(p.text, "\r\n") {
		return part{}, errors.New("it has several lines in one")
	}
	return p, nil
}

// stripCRI strips a time, a stream and the tags F for a full line or P for a part of one:
// 2026-03-10T12:00:00.123456789Z stdout F.
func stripCRI(line string) (part, error) {
	rest, found := cutTime(line)
	stream, rest, _ := strings.Cut(rest, " ")
	tags, text, whole := strings.Cut(rest, " ")
	tag, _, _ := strings.Cut(tags, ":")
	if !found || stream != "stdout" && stream != "stderr" || tag != "F" && tag != "P" || !whole && len(rest) != len(tags) {
		return part{}, errNoPrefix
	}
	return part{text: text, stream: stream, more: tag == "P"}, nil
}

// stripSyslog strips <190>1 2026-03-10T12:00:00Z host nginx 17 - [id key="value"].
func stripSyslog(line string) (part, error) {
	rest, found := strings.CutPrefix(afterPriority(line), "1 ")
	if !found {
		return part{}, errNoPrefix
	}
	if rest, found = strings.CutPrefix(rest, "- "); !found {
		rest, found = cutTime(rest)
	}
	for range 4 { // host, program, process and kind of message
		var word string
		word, rest, _ = strings.Cut(rest, " ")
		found = found && word != ""
	}
	text, ok := afterElements(rest)
	if !found || !ok {
		return part{}, errNoPrefix
	}
	return part{text: strings.TrimPrefix(text, "\ufeff")}, nil
}

// afterElements returns what follows the structured data of syslog: "-", or elements in brackets in which a
// backslash escapes a bracket.
func afterElements(s string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(s, "-")
	for !ok || strings.HasPrefix(rest, "[") {
		if !strings.HasPrefix(s, "[") {
			return "", false
		}
		end := 1
		for end < len(s) && s[end] != ']' {
			if s[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(s) {
			return "", false
		}
		s = s[end+1:]
		rest, ok = s, true
	}
	text, spaced := strings.CutPrefix(rest, " ")
	return text, spaced || rest == ""
}

// stripOldSyslog strips <190>Mar 10 12:00:00 host nginx[17]: with or without the priority, the host and the
// process, and with the time as rsyslog and journalctl -o short-iso write it.
func stripOldSyslog(line string) (part, error) {
	rest, found := cutOldTime(afterPriority(line))
	if !found {
		rest, found = cutTime(afterPriority(line))
	}
	tag, text, spaced := strings.Cut(rest, " ")
	if !strings.HasSuffix(tag, ":") {
		tag, text, spaced = strings.Cut(text, " ") // after a host
	}
	name, ended := strings.CutSuffix(tag, ":")
	if i := strings.IndexByte(name, '['); i > 0 && strings.HasSuffix(name, "]") {
		name = name[:i]
	}
	if !found || !ended || !spaced || !isProgram(name) {
		return part{}, errNoPrefix
	}
	return nameOf(name, "syslog", part{text: text})
}

// nameOf refuses a prefix whose name of a program or container is an address. It may be the client.
func nameOf(name, of string, p part) (part, error) {
	if isAddress(name) {
		return part{}, fmt.Errorf("its lines begin with %s where %s has a name: nothing tells whether it is the client. If it is not, remove it first", Clip(name), of)
	}
	return p, nil
}

// isProgram reports whether s may be the name of a program or container.
func isProgram(s string) bool {
	return strings.Trim(s, "-_./") != "" && !strings.ContainsFunc(s, func(c rune) bool { return notOfHostName(c) && c != '.' && c != '/' && c != '@' && c != '(' && c != ')' })
}

// stripPod strips [pod/name/container].
func stripPod(line string) (part, error) {
	inside, text, found := strings.Cut(line, "] ")
	name, ok := strings.CutPrefix(inside, "[pod/")
	if !found || !ok || strings.Count(name, "/") != 1 || strings.ContainsAny(name, " []") {
		return part{}, errNoPrefix
	}
	return part{text: text}, nil
}

// stripCompose strips the name of a container, spaces and a bar.
func stripCompose(line string) (part, error) {
	name, text, found := strings.Cut(line, "|")
	padded := strings.HasSuffix(name, " ")
	name = strings.TrimRight(name, " ")
	text, spaced := strings.CutPrefix(text, " ")
	if !found || !padded || !spaced && text != "" || !isProgram(name) {
		return part{}, errNoPrefix
	}
	return nameOf(name, "docker compose", part{text: text, name: name})
}

// stripTimestamp strips a time, as kubectl logs --timestamps and docker logs -t write it.
func stripTimestamp(line string) (part, error) {
	text, found := cutTime(line)
	if !found {
		return part{}, errNoPrefix
	}
	return part{text: text}, nil
}

// afterPriority returns what follows the priority of syslog, or all if there is none.
func afterPriority(line string) string {
	digits, rest, found := strings.Cut(line, ">")
	if digits, ok := strings.CutPrefix(digits, "<"); found && ok && len(digits) <= 3 && isDigits(digits) {
		return rest
	}
	return line
}

// cutTime returns what follows a time such as 2026-03-10T12:00:00.5+01:00 and a space.
func cutTime(line string) (rest string, found bool) {
	const seconds = "dddd-dd-ddTdd:dd:dd"
	if !hasShape(line, seconds) {
		return line, false
	}
	rest = line[len(seconds):]
	if rest != "" && (rest[0] == '.' || rest[0] == ',') {
		rest = strings.TrimLeft(rest[1:], "0123456789")
	}
	for _, zone := range []string{"Z ", "+dd:dd ", "-dd:dd ", "+dddd ", "-dddd "} {
		if hasShape(rest, zone) {
			return rest[len(zone):], true
		}
	}
	return line, false
}

// cutOldTime returns what follows a time such as Mar  1 12:00:00 and a space.
func cutOldTime(line string) (rest string, found bool) {
	const months = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec "
	shape := "aaa dd dd:dd:dd"
	if len(line) > 4 && line[4] == ' ' {
		shape = "aaa  d dd:dd:dd"
	}
	if !hasShape(line, shape) || !strings.Contains(months, line[:4]) {
		return line, false
	}
	rest = line[len(shape):]
	if strings.HasPrefix(rest, ".") {
		rest = strings.TrimLeft(rest[1:], "0123456789")
	}
	return strings.CutPrefix(rest, " ")
}

// hasShape reports whether s begins like shape, in which d is any digit and a any letter.
func hasShape(s, shape string) bool {
	if len(s) < len(shape) {
		return false
	}
	for i := range len(shape) {
		switch c := s[i]; shape[i] {
		case 'd':
			if c < '0' || c > '9' {
				return false
			}
		case 'a':
			if c|0x20 < 'a' || c|0x20 > 'z' {
				return false
			}
		default:
			if c != shape[i] {
				return false
			}
		}
	}
	return true
}
