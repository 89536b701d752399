package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// directives are what stands for the directives of Apache's LogFormat in a pattern.
var directives = map[string]string{
	"h": "remote_addr", "a": "remote_addr", "l": "remote_logname", "u": "remote_user", "r": "request",
	"s": "status", "b": "body_bytes_sent", "O": "bytes_sent", "B": "body_bytes_sent", "v": "host", "V": "host",
	"m": "request_method", "U": "uri", "D": "duration_us", "T": "duration_s", "p": "port", "I": "received", "q": "query",
	"A": "local_addr", "f": "file", "H": "protocol", "k": "keepalive", "L": "log_id", "P": "pid", "R": "handler", "S": "transferred", "X": "connection",
}

// bracedNames are what begins the names of the variables for what Apache names in braces, by the letter after
// them.
var bracedNames = map[byte]string{'i': "http_", 'o': "sent_http_", 'C': "cookie_", 'e': "env_", 'n': "note_", 'a': "peer_"}

// timeVariables are the variables of a pattern that hold a whole time. The first one is taken.
var timeVariables = []string{"time", "time_usec", "time_msec", "time_local", "time_iso8601", "msec", "time_sec", "end_usec", "end_msec", "end_sec"}

// unitsOfTimes are the units of the variables that hold a number of them.
var unitsOfTimes = map[string]string{"time_usec": "us", "time_msec": "ms", "time_sec": "s", "end_usec": "us", "end_msec": "ms", "end_sec": "s"}

// A template is a compiled pattern: literal text, and a variable after each but the last.
type template struct {
	literals  []string
	variables []string
	widths    []int // of the values in bytes; 0 if they are not all of one width
	extents   []extent
	times     []timeField
	parted    bool // whether times tell the time, or its fraction
	// required is the number of variables that every line has. A line may end after it, or after any
	// later one.
	required int
	runs     bool // whether several spaces are as one
}

// An extent is what tells where the value of a variable ends.
type extent uint8

const (
	toLiteral extent = iota // where the literal after it begins
	toSpace                 // at the first space
	toQuote                 // at the first quote that no backslash escapes
	toWidth
	toEndOfList // at a space that follows no comma
	toEndOfZone // as toLiteral, but $time_local has a space itself
	toEnd       // with the line
	toPort      // at the first colon that a port follows, and then the literal after it
)

// ports are the variables that hold a port. The last ones are of Apache, as in %{remote}p.
var ports = []string{"remote_port", "realip_remote_port", "proxy_protocol_port", "server_port", "port", "remote", "local", "canonical"}

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
		if last := len(t.variables) - 1; last >= 0 && len(literal) == 0 && t.widths[last] == 0 {
			return nil, fmt.Errorf("pattern %s: nothing stands between $%s and $%s, so no line tells where one ends", Clip(pattern), t.variables[len(t.variables)-1], name)
		}
		if name == "t" { // Apache's %t has the brackets
			literal, name, after.rest = append(literal, '['), "time_local", "]"+after.rest
		}
		t.literals = append(t.literals, string(literal))
		t.add(name, after.time)
		literal, rest = literal[:0], after.rest
	}
	t.literals = append(t.literals, string(literal))
	t.required = len(t.variables)
	for i, name := range t.variables {
		t.extents = append(t.extents, t.extent(i, name))
	}
	if err := t.findTime(); err != nil {
		return nil, fmt.Errorf("pattern %s: %w", Clip(pattern), err)
	}
	return t, nil
}

// add adds a variable. f is the part of the time that it holds, or nil.
func (t *template) add(name string, f *timeField) {
	width := 0
	if f != nil {
		f.index, width = len(t.variables), f.width
		t.times = append(t.times, *f)
	}
	t.variables, t.widths = append(t.variables, name), append(t.widths, width)
}

// findTime refuses a template without a time.
func (t *template) findTime() error {
	parted, err := t.joinTimes()
	t.parted = parted != nil
	if err == nil && !t.parted && t.whole() < 0 {
		err = errors.New("it has no time: want $time, $time_local, $time_iso8601, $msec, %t or %{format}t")
	}
	return err
}

// whole returns the index of the variable that holds the whole time, or -1.
func (t *template) whole() int {
	for _, name := range timeVariables {
		if i := slices.Index(t.variables, name); i >= 0 {
			return i
		}
	}
	return -1
}

// joinTimes returns how the time is read from parts, or nil if one variable holds all of it.
func (t *template) joinTimes() (*partedTime, error) {
	whole, response := t.whole(), false
	if whole >= 0 {
		name := t.variables[whole]
		if name != "time_local" && unitsOfTimes[name] != "s" {
			return nil, nil // parts would add nothing
		}
		response = name == "end_sec"
	}
	return joinTimes(t.times, whole, response)
}

// remains is the text after the beginning of a pattern, that beginning if it is literal, and the part of
// the time that it stands for.
type remains struct {
	literal, rest string
	time          *timeField
}

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
			return "", remains{literal: s[1:2], rest: s[2:]}, nil
		}
		if strings.HasPrefix(s, `\t`) {
			return "", remains{literal: "\t", rest: s[2:]}, nil
		}
	}
	return "", remains{literal: s[:1], rest: s[1:]}, nil
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
		if after[0] == 't' {
			name, part, err := apacheTime(name)
			return name, remains{rest: after[1:], time: part}, err
		}
		name = strings.ReplaceAll(strings.ToLower(bracedNames[after[0]]+name), "-", "_")
		return name, remains{rest: after[1:]}, nil
	}
	if rest == "" {
		return "", remains{}, fmt.Errorf("pattern: it ends with %%")
	}
	letter := rest[:1]
	switch name, known := directives[letter]; {
	case letter == "%":
		return "", remains{literal: "%", rest: rest[1:]}, nil
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
	time          int         // the index of the variable of the time; -1 if parts have it
	parts         *partedTime // nil if one variable has the time
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

func newPattern(format, title string, t *template, w *wanted) *pattern {
	p := &pattern{wanted: w, template: t, format: format, title: title, time: t.whole()}
	p.parts, _ = t.joinTimes() // compile has done so
	if p.time >= 0 {
		p.clock = clockOf(t.variables[p.time], w.unit)
		if p.parts != nil && p.parts.whole >= 0 {
			p.parts.clock = p.clock
		}
	}
	p.sources = w.sourcesAmong(t.variables)
	p.found = make([]string, len(t.variables))
	return p
}

// clockOf returns what reads the times of a variable that holds whole ones.
func clockOf(variable, unit string) timeReader {
	if variable == "time_local" {
		return timeReader{only: zonedTime}
	}
	return timeReader{unit: cmp.Or(unitsOfTimes[variable], unit)}
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

func (p *pattern) has(i int) bool { return p.sources[i].index >= 0 }

// datesEnds is true of a log_format of nginx. A LogFormat of Apache dates beginnings, unless its time has the
// prefix end:.
func (p *pattern) datesEnds() bool {
	if p.parts != nil { // only Apache writes them
		return p.parts.response
	}
	return strings.HasPrefix(p.variables[p.time], "end_") || strings.Contains(p.format, "$")
}

func (p *pattern) decode(line string, r *record) error {
	r.title = p.title
	n, err := p.match(line, p.found)
	if err != nil {
		return err
	}
	return p.take(n, r)
}

// take makes a record of the values found: of the first n variables. A line may be without the others.
func (p *pattern) take(n int, r *record) (err error) {
	for i := n; i < len(p.found); i++ {
		p.found[i] = "-"
	}
	if p.parts != nil {
		r.at, err = p.parts.read(p.found)
	} else {
		r.at, err = p.clock.read(p.found[p.time])
	}
	if err != nil {
		return err
	}
	for i, name := range p.variables[:n] {
		if want := wrongWith(name, p.found[i]); want != "" {
			return fmt.Errorf("$%s %s is %s", name, Clip(p.found[i]), want)
		}
	}
	if err := p.pick(p.sources, p.found, p.variables, r); err != nil {
		return err
	}
	p.costNoBytes(r.values)
	return nil
}

// costNoBytes sets costs of "-" bytes to 0. Apache and Amazon S3 write no bytes so.
func (p *pattern) costNoBytes(values []string) {
	for i, s := range p.sources {
		cost := p.fields[i].flag == "cost" || p.fields[i].flag == "estimate"
		if cost && values[i] == "-" && (s.field == "bytes_sent" || s.field == "body_bytes_sent") {
			values[i] = "0"
		}
	}
}

// match finds the values of the variables in a line, and returns how many of them it has. After an error
// these are those before the place where the line differs.
func (t *template) match(line string, found []string) (n int, err error) {
	rest, ok := strings.CutPrefix(line, t.literals[0])
	if !ok {
		return 0, fmt.Errorf("no %s at the beginning, where the pattern has it", Clip(t.literals[0]))
	}
	for i, name := range t.variables {
		if t.runs {
			rest = strings.TrimLeft(rest, " ")
		}
		end, after := t.end(i, rest), t.literals[i+1]
		if end < 0 || !strings.HasPrefix(rest[end:], after) {
			if value, last := t.last(i, rest); last {
				found[i] = value
				return i + 1, nil
			}
			return i, fmt.Errorf("no %s after $%s", Clip(after), name)
		}
		found[i], rest = rest[:end], rest[end+len(after):]
	}
	if rest != "" {
		return len(found), fmt.Errorf("%s follows where the pattern ends", Clip(rest))
	}
	return len(found), nil
}

// extent returns what tells where the value of variable i ends.
func (t *template) extent(i int, name string) extent {
	before, after := t.literals[i], t.literals[i+1]
	switch {
	case t.widths[i] > 0:
		return toWidth
	case quotes(before, after):
		return toQuote
	case isList(name) && strings.HasPrefix(after, " "):
		return toEndOfList
	case after == "":
		return toEnd
	case name == "time_local":
		return toEndOfZone
	case after == ":" && i+1 < len(t.variables) && slices.Contains(ports, t.variables[i+1]):
		return toPort
	}
	return toLiteral
}

// end returns the length of the value of variable i, which rest begins with, or -1.
func (t *template) end(i int, rest string) int {
	after := t.literals[i+1]
	switch t.extents[i] {
	case toSpace:
		return strings.IndexByte(rest, ' ')
	case toQuote:
		return closing(rest)
	case toEndOfList:
		return endOfList(rest)
	case toEnd:
		return len(rest)
	case toWidth:
		if t.widths[i] > len(rest) {
			return -1
		}
		return t.widths[i]
	case toEndOfZone:
		from := len("02/Jan/2006:15:04:05")
		if after == " " {
			from = len(zonedTime)
		}
		if from = min(from, len(rest)); strings.Contains(rest[from:], after) {
			return from + strings.Index(rest[from:], after)
		}
		return -1
	case toPort:
		return beforePort(rest, t.literals[i+2])
	}
	return strings.Index(rest, after)
}

// beforePort returns the index of the first colon in s that a port follows, which may be empty or "-", and then next;
// or -1. An IPv6 address has colons itself, and servers write no brackets around it there.
func beforePort(s, next string) int {
	for end := range len(s) {
		if s[end] != ':' {
			continue
		}
		port := s[end+1:]
		for _, after := range []string{strings.TrimLeft(port, "0123456789"), strings.TrimPrefix(port, "-")} {
			if strings.HasPrefix(after, next) && (next != "" || after == "") {
				return end
			}
		}
	}
	return -1
}

// quotes reports whether the literals before and after a variable put it in quotes.
func quotes(before, after string) bool {
	return strings.HasSuffix(before, `"`) && strings.HasPrefix(after, `"`)
}

// last returns the value of variable i if the line ends with it, and may do so: if others may follow, but are
// not required.
func (t *template) last(i int, rest string) (value string, last bool) {
	switch {
	case i+1 < t.required || i+1 == len(t.variables):
		return "", false
	case t.extents[i] == toQuote:
		end := closing(rest)
		return rest[:max(end, 0)], end >= 0 && end == len(rest)-1
	}
	return rest, !strings.Contains(rest, " ")
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

// wrongWith returns what is wrong with the value of a variable, or "". A line in which an address, a status or
// a method cannot be one is shifted.
func wrongWith(name, v string) (wrong string) {
	switch name {
	case "remote_addr", "addr":
		if v != "-" && !isClient(v) {
			return "neither an address nor a host name"
		}
	case "remote_ip": // of servers that look up no names
		if v != "-" && !isAddress(v) {
			return "no address"
		}
	case "addr_port":
		if !isAddress(hostOf(v)) {
			return "no address with a port"
		}
	case "remote_logname":
		if isAddress(v) {
			return "an address"
		}
	case "remote_user": // it may have spaces; see accessLog.inPlace
		if isShifted(v) {
			return "more than one field"
		}
	case "status":
		if v != "-" && v != "-1" && !isDigits(v) {
			return "no number"
		}
	case "bytes_sent", "body_bytes_sent":
		if v != "-" && v != "" && !isDigits(v) {
			return "no number"
		}
	case "result", "hierarchy":
		if !isUpper(v) {
			return "no word in capitals"
		}
	case "request_method":
		if v != "-" && strings.ContainsAny(v, "0123456789. ") {
			return "no method"
		}
	}
	return ""
}

// isDigits reports whether v is a number without a sign, of any length.
func isDigits(v string) bool {
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return false
		}
	}
	return v != ""
}
