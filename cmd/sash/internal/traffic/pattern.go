package traffic

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// The patterns of logs whose fields stand in a fixed order.
const (
	elbPattern = `$time $elb $addr_port $backend $request_time $backend_time $response_time $status $backend_status $received $bytes_sent "$request" "$http_user_agent" $rest`
	albPattern = `$type $time $elb $addr_port $target $request_time $target_time $response_time $status $target_status $received $bytes_sent "$request" "$http_user_agent" $rest`
	// haproxyPattern is what follows the prefix that syslog writes.
	haproxyPattern = `$addr_port [$time] $frontend $backend $timers $status $bytes_sent $request_cookie $response_cookie $termination $connections $queues $captures"$request"`
)

// directives are what stands for the directives of Apache's LogFormat in a pattern.
var directives = map[string]string{
	"h": "remote_addr", "a": "remote_addr", "l": "remote_logname", "u": "remote_user", "r": "request",
	"s": "status", "b": "body_bytes_sent", "O": "bytes_sent", "B": "body_bytes_sent", "v": "host", "V": "host",
	"m": "request_method", "U": "uri", "D": "duration_us", "T": "duration_s", "p": "port", "I": "received", "q": "query",
	"A": "local_addr", "f": "file", "H": "protocol", "k": "keepalive", "L": "log_id", "P": "pid", "R": "handler", "S": "transferred", "X": "connection",
}

// prefixes are what begins the names of the variables for what Apache names in braces, by the letter after them.
// In the time, the name is the unit.
var prefixes = map[byte]string{'i': "http_", 'o': "sent_http_", 'C': "cookie_", 'e': "env_", 'n': "note_", 'a': "peer_", 't': ""}

// timeVariables are the variables of a pattern that hold the time. The first one is taken.
var timeVariables = []string{"time", "time_local", "time_iso8601", "msec"}

// A template is a compiled pattern: literal text, and a variable after each but the last.
type template struct {
	literals  []string
	variables []string
}

// compile compiles a pattern of variables in the syntax of nginx, or of directives in the syntax of
// Apache.
func compile(pattern string) (*template, error) {
	t := &template{}
	literal := []byte{}
	for rest := pattern; rest != ""; {
		name, after, err := variable(rest)
		if err != nil {
			return nil, err
		}
		if name == "" {
			literal = append(literal, after.literal...)
			rest = after.rest
			continue
		}
		if len(t.variables) > 0 && len(literal) == 0 {
			return nil, fmt.Errorf("pattern %s: nothing stands between $%s and $%s, so no line tells where one ends", Clip(pattern), t.variables[len(t.variables)-1], name)
		}
		if name == "t" { // Apache's %t has the brackets
			literal, name, after.rest = append(literal, '['), "time_local", "]"+after.rest
		}
		t.literals = append(t.literals, string(literal))
		t.variables = append(t.variables, name)
		literal, rest = literal[:0], after.rest
	}
	t.literals = append(t.literals, string(literal))
	if !slices.ContainsFunc(timeVariables, t.has) {
		return nil, fmt.Errorf("pattern %s has no time: want $%s or %%t", Clip(pattern), strings.Join(timeVariables, ", $"))
	}
	return t, nil
}

func (t *template) has(name string) bool { return slices.Contains(t.variables, name) }

// remains is the text after the beginning of a pattern, and that beginning if it is literal.
type remains struct{ literal, rest string }

// variable returns the name of the variable that s begins with, or "" if it begins with literal
// text.
func variable(s string) (name string, after remains, err error) {
	switch s[0] {
	case '$':
		return nginxVariable(s)
	case '%':
		return apacheDirective(s)
	case '\\': // as quotes stand in the configuration of Apache
		if len(s) > 1 && strings.IndexByte(`"\'`, s[1]) >= 0 {
			return "", remains{s[1:2], s[2:]}, nil
		}
		if strings.HasPrefix(s, `\t`) {
			return "", remains{"\t", s[2:]}, nil
		}
	}
	return "", remains{s[:1], s[1:]}, nil
}

func nginxVariable(s string) (string, remains, error) {
	if braced, found := strings.CutPrefix(s, "${"); found {
		name, rest, closed := strings.Cut(braced, "}")
		if !closed || name == "" {
			return "", remains{}, fmt.Errorf("pattern: %s names no variable", Clip(s))
		}
		return name, remains{rest: rest}, nil
	}
	end := 1
	for end < len(s) && (s[end] == '_' || s[end] >= '0' && s[end] <= '9' || s[end] >= 'a' && s[end] <= 'z' || s[end] >= 'A' && s[end] <= 'Z') {
		end++
	}
	if end == 1 {
		return "", remains{}, fmt.Errorf("pattern: %s names no variable", Clip(s))
	}
	return s[1:end], remains{rest: s[end:]}, nil
}

// apacheDirective reads a directive such as %h, %>s or %{User-Agent}i.
func apacheDirective(s string) (string, remains, error) {
	rest := strings.TrimLeft(s[1:], "<>!,0123456789") // for which request, and for which statuses
	if header, found := strings.CutPrefix(rest, "{"); found {
		name, after, closed := strings.Cut(header, "}")
		if !closed || after == "" {
			return "", remains{}, fmt.Errorf("pattern: %s is no directive", Clip(s))
		}
		switch unit := name == "sec" || name == "msec" || name == "usec"; {
		case after[0] == 't' && !unit:
			return "", remains{}, fmt.Errorf("pattern: %s: a time of a format of its own cannot be read, want %%t", Clip(s))
		case after[0] == 't':
			name = "time"
		}
		name = strings.ReplaceAll(strings.ToLower(prefixes[after[0]]+name), "-", "_")
		return name, remains{rest: after[1:]}, nil
	}
	if rest == "" {
		return "", remains{}, fmt.Errorf("pattern: it ends with %%")
	}
	letter := rest[:1]
	switch name, known := directives[letter]; {
	case letter == "%":
		return "", remains{"%", rest[1:]}, nil
	case letter == "t":
		return "t", remains{rest: rest[1:]}, nil
	case known:
		return name, remains{rest: rest[1:]}, nil
	}
	return "", remains{}, fmt.Errorf("pattern: %s is no directive that can be read", Clip(s[:2]))
}

// A pattern reads lines by a template.
type pattern struct {
	*wanted
	*template
	format, title string
	time          int // the index of the variable of the time
	sources       []fieldSource
	clock         timeReader
	found         []string // the values of variables
}

// A fieldSource tells where the value of a field wanted is: at an index, or in a part of it. The
// index is -1 if there is no such field.
type fieldSource struct {
	index int
	alias
}

func newPattern(format, title, text string, w *wanted) decoder {
	t, err := compile(text)
	if err != nil {
		panic(err) // decoderFor has compiled it
	}
	p := &pattern{wanted: w, template: t, format: format, title: title, clock: timeReader{unit: w.unit}}
	for _, name := range slices.Backward(timeVariables) {
		if i := slices.Index(t.variables, name); i >= 0 {
			p.time = i
		}
	}
	p.sources = w.sourcesAmong(t.variables)
	p.found = make([]string, len(t.variables))
	return p
}

// sourcesAmong returns where the fields wanted are among fields of these names.
func (w *wanted) sourcesAmong(names []string) (all []fieldSource) {
	for _, f := range w.fields {
		s := fieldSource{index: -1}
		for _, a := range namesOf(f.name) {
			if i := slices.Index(names, a.field); i >= 0 {
				s = fieldSource{i, a}
				break
			}
		}
		all = append(all, s)
	}
	return all
}

// pick sets the values wanted from those found, whose fields have these names.
func (w *wanted) pick(sources []fieldSource, found, names []string, r *record) error {
	for i, s := range sources {
		if s.index < 0 && w.fields[i].flag == "" {
			r.values[i] = "-"
			continue
		}
		if s.index < 0 {
			return &lackError{w.fields[i], r.title, names}
		}
		r.values[i] = s.apply(found[s.index])
	}
	return w.checkClient(r.values)
}

func (p *pattern) name() string { return p.format }

func (p *pattern) decode(line string, r *record) (err error) {
	r.title = p.title
	if err := p.match(line); err != nil {
		return err
	}
	if r.at, err = p.clock.read(p.found[p.time]); err != nil {
		return err
	}
	if err := p.plausible(); err != nil {
		return err
	}
	return p.pick(p.sources, p.found, p.variables, r)
}

// match finds the values of the variables in a line.
func (t *template) matchInto(line string, found []string) error {
	rest, ok := strings.CutPrefix(line, t.literals[0])
	if !ok {
		return fmt.Errorf("no %s at the beginning, where the pattern has it", Clip(t.literals[0]))
	}
	for i, name := range t.variables {
		before, after := t.literals[i], t.literals[i+1]
		end := len(rest)
		switch {
		case strings.HasSuffix(before, `"`) && strings.HasPrefix(after, `"`):
			end = closing(rest)
		case isList(name) && strings.HasPrefix(after, " "):
			end = endOfList(rest)
		case after != "":
			from := 0
			if name == "time_local" {
				from = min(len("02/Jan/2006:15:04:05"), len(rest)) // a space follows within it
				if after == " " {
					from = min(len(zonedTime), len(rest))
				}
			}
			if end = strings.Index(rest[from:], after); end >= 0 {
				end += from
			}
		}
		if end < 0 || !strings.HasPrefix(rest[end:], after) {
			return fmt.Errorf("no %s after $%s", Clip(after), name)
		}
		found[i], rest = rest[:end], rest[end+len(after):]
		if found[i] == "" && after == " " && !strings.HasSuffix(before, `"`) && i+1 < len(t.variables) {
			return fmt.Errorf("no $%s", name)
		}
	}
	if rest != "" {
		return fmt.Errorf("%s follows where the pattern ends", Clip(rest))
	}
	return nil
}

// isList reports whether a variable holds addresses, joined by a comma and a space.
func isList(variable string) bool {
	return variable == "http_x_forwarded_for" || variable == "proxy_add_x_forwarded_for"
}

// endOfList returns the index of the first space in s that does not follow a comma, or -1.
func endOfList(s string) int {
	for i := range len(s) {
		if s[i] == ' ' && (i == 0 || s[i-1] != ',') {
			return i
		}
	}
	return -1
}

func (p *pattern) match(line string) error { return p.matchInto(line, p.found) }

// plausible refuses a line in which an address or a status cannot be one: it is shifted.
func (p *pattern) plausible() error {
	for i, name := range p.variables {
		v := p.found[i]
		switch name {
		case "remote_addr", "addr":
			if v != "-" && !isClient(v) {
				return fmt.Errorf("$%s %s is neither an address nor a host name", name, Clip(v))
			}
		case "addr_port":
			if !isAddress(hostOf(v)) {
				return fmt.Errorf("%s is no address with a port", Clip(v))
			}
		case "remote_logname":
			if isAddress(v) {
				return fmt.Errorf("$%s %s is an address", name, Clip(v))
			}
		case "remote_user": // it may have spaces; see accessLog.inPlace
			if words := strings.Fields(v); len(words) > 1 && slices.Contains(words, "-") {
				return fmt.Errorf("$%s %s is more than one field", name, Clip(v))
			}
		case "status":
			if v != "-" && v != "-1" && (v == "" || strings.Trim(v, "0123456789") != "") {
				return fmt.Errorf("$status %s is no number", Clip(v))
			}
		}
	}
	return nil
}

// An amazon reads what a load balancer of AWS logs. Fields that are not known follow the agent, so
// another line might, too.
type amazon struct {
	pattern
	times int // in a line, after the agent
}

func newAmazon(format, title, text string, times int, w *wanted) decoder {
	return &amazon{*newPattern(format, title, text, w).(*pattern), times}
}

func (a *amazon) decode(line string, r *record) error {
	if err := a.pattern.decode(line, r); err != nil {
		return err
	}
	if timesIn(a.found[len(a.found)-1]) > a.times {
		return errors.New("two lines in one: it has one more time")
	}
	return nil
}

// timesIn returns the number of times in the last fields of a line. Those within quotes are what a
// client sent, unless a quote is not closed.
func timesIn(fields string) (n int) {
	const layout = "2006-01-02T15:04:05.000000Z"
	closed := strings.Count(fields, `"`)%2 == 0
	quoted := false
	for part := range strings.SplitSeq(fields, `"`) {
		for word := range strings.FieldsSeq(part) {
			if begin := len(word) - len(layout); begin >= 0 && word[len(word)-1] == 'Z' && !(quoted && closed) {
				if _, err := time.Parse(layout, word[begin:]); err == nil {
					n++
				}
			}
		}
		quoted = !quoted
	}
	return n
}

// An haproxy reads what HAProxy logs with option httplog, after the prefix that syslog writes,
// or without one.
type haproxy struct{ pattern }

func newHAProxy(w *wanted) decoder {
	return &haproxy{*newPattern("haproxy", "an HAProxy HTTP log", haproxyPattern, w).(*pattern)}
}

func (h *haproxy) decode(line string, r *record) error {
	from, err := afterPrefix(line)
	if err != nil {
		return err
	}
	return h.pattern.decode(line[from:], r)
}

// afterPrefix returns the index at which the client stands: the word before the time in
// brackets. What stands before it must be the prefix of a program's line in syslog.
func afterPrefix(line string) (int, error) {
	for from := 0; ; {
		i := strings.Index(line[from:], " [")
		if i < 0 {
			return 0, fmt.Errorf("no client before a time in brackets")
		}
		// A time has a day of two digits, and then a slash: [06/Feb/2009:12:14:14.655].
		if i += from; len(line) > i+4 && line[i+4] == '/' {
			client := strings.LastIndexByte(line[:i], ' ') + 1
			prefix := line[:client]
			if prefix != "" && !strings.HasSuffix(prefix, "]: ") && !strings.HasSuffix(prefix, "- ") && !strings.HasSuffix(prefix, ": ") {
				return 0, fmt.Errorf("%s before the client is no prefix of syslog", Clip(prefix))
			}
			return client, nil
		}
		from = i + 2
	}
}
