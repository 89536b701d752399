package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The parser of this file is our own because there is no maintained module. The existing
// ones split at spaces or by one regular expression. An escaped quote inside a request, a
// user name with a space, or a line cut short makes them fail, or read another client.

// A field is a field of an access log.
type field uint8

const (
	addr field = iota
	ident
	user
	method
	path
	status
	size
	referer
	agent
	forwardedFor
	host
	numFields
)

var fieldNames = [numFields]string{Addr, "ident", "user", "method", "path", "status", "size", "referer", "agent", forwarded, "host"}

// A tail is what follows the size in a line of an access log.
type tail uint8

const (
	common   tail = iota // nothing
	combined             // the referer and the agent, and perhaps other fields
	proxied              // the referer, the agent, and X-Forwarded-For, as nginx names "main"
	extended             // other fields
)

func (t tail) String() string {
	return [...]string{"Common Log Format", "Combined Log Format", "Combined Log Format with X-Forwarded-For", "Common Log Format with other fields"}[t]
}

// An accessLog reads Common Log Format and what servers make of it:
//
//	addr ident user [time] "request" status size
//	addr ident user [time] "request" status size "referer" "agent"
//	addr ident user [time] "request" status size "referer" "agent" "forwarded"
//
// It ignores further fields that servers may append to the second.
type accessLog struct {
	*wanted
	indices []int // of the fields wanted; -1 if there is none of that name
	vhost   bool  // whether a virtual host stands before the address
	free    bool  // whether any other fields may follow the size
	clock   timeReader

	fields [numFields]string
}

func newAccessLog(w *wanted, vhost, free bool) decoder {
	a := &accessLog{wanted: w, vhost: vhost, free: free, clock: timeReader{only: zonedTime}}
	for _, f := range w.fields {
		a.indices = append(a.indices, slices.Index(fieldNames[:], commonName(f.name)))
	}
	return a
}

func (a *accessLog) has(i int) bool { return a.indices[i] >= 0 }

func (a *accessLog) datesEnds() bool { return false } // Apache, whose format it is

func (a *accessLog) name() string {
	switch {
	case a.vhost && a.free:
		return "vhost_extended"
	case a.vhost:
		return "vhost_combined"
	case a.free:
		return "extended"
	}
	return "combined"
}

// hasField reports whether lines with that tail have the field.
func (a *accessLog) hasField(f int, t tail) bool {
	switch field(f) {
	case host:
		return a.vhost
	case referer, agent:
		return t == combined || t == proxied
	case forwardedFor:
		return t == proxied
	}
	return f >= 0
}

func (a *accessLog) decode(line string, r *record) error {
	t, cut, err := a.parse(line, r)
	if err != nil {
		return err
	}
	r.cut, r.title = cut, t.String()
	if a.vhost {
		r.title += " after a virtual host"
	}
	for i, f := range a.indices {
		if !a.hasField(f, t) {
			if a.wanted.fields[i].flag == "" {
				r.values[i] = "-"
				continue
			}
			return &lackError{wantedField: a.wanted.fields[i], title: r.title}
		}
		r.values[i] = a.fields[f]
	}
	return a.checkKnown(r.values) // inPlace has read it
}

// parse sets the fields of a line and its time. A field that is empty or not in the line is "-",
// as servers write it. Escapes are kept: they distinguish values as well as the characters that
// they stand for.
func (a *accessLog) parse(line string, r *record) (t tail, cut bool, err error) {
	s := scanner{rest: line}
	a.fields = [numFields]string{}
	if a.vhost {
		a.fields[host] = s.word("virtual host")
	}
	a.fields[addr] = s.word("address")
	a.fields[ident] = s.word("ident")
	a.fields[user] = strings.Trim(s.until(" [", "time in brackets"), " ")
	when := s.until("] ", "time in brackets")
	request := s.dashOr(s.quoted, "request")
	s.space("request")
	a.fields[status] = s.number("status")
	a.fields[size] = s.number("size")
	t = a.tail(&s)
	if s.err != nil {
		return t, false, s.err
	}
	if r.at, err = a.clock.read(when); err != nil {
		return t, false, err
	}
	a.fields[method], a.fields[path] = splitRequest(request)
	for f := range a.fields {
		if a.fields[f] == "" {
			a.fields[f] = "-"
		}
	}
	if a.fields[size] == "-" {
		a.fields[size] = "0" // Apache's "-" stands for no bytes
	}
	return t, s.cut, a.inPlace()
}

// tail reads what follows the size.
func (a *accessLog) tail(s *scanner) tail {
	switch {
	case s.rest == "" && !a.free:
		return common
	case a.free:
		s.others()
		return extended
	}
	a.fields[referer] = s.dashOr(s.quoted, "referer")
	s.space("referer")
	last := s.rest
	a.fields[agent] = s.dashOr(s.lastQuoted, "agent")
	if strings.HasPrefix(s.rest, " ") {
		last = s.rest // what stands inside the agent is what the client sent
	}
	if s.rest != "" {
		s.refuseJoined(last)
	}
	if list, found := strings.CutSuffix(s.rest, `"`); found && strings.HasPrefix(list, ` "`) && closing(s.rest[2:]) == len(list)-2 {
		a.fields[forwardedFor] = list[2:]
		return proxied
	}
	return combined
}

// inPlace refuses a line with more text before the address than it should have. In such a line
// every field is further right than it is read, and a virtual host would be taken for the
// client.
func (a *accessLog) inPlace() error {
	client := a.fields[addr]
	if err := checkAddr(client); err != nil {
		return err
	}
	if a.vhost && !isVirtualHost(a.fields[host]) {
		return fmt.Errorf("first field %s is no virtual host", Clip(a.fields[host]))
	}
	if client != "-" && !isAddress(client) && !isHostName(client) {
		return fmt.Errorf("%s field %s is neither an address nor a host name", a.place(), Clip(client))
	}
	if ident := a.fields[ident]; ident != "-" && isAddress(ident) {
		return fmt.Errorf("ident %s is an address: something stands before the address of the client", Clip(ident))
	}
	if isShifted(a.fields[user]) {
		return fmt.Errorf("user %s is more than one field: something stands before the address of the client", Clip(a.fields[user]))
	}
	return nil
}

// isShifted reports whether the name of a user includes other fields. It may have spaces. In a shifted line
// it includes the ident, which is nearly always "-", or the address.
func isShifted(user string) bool {
	if !strings.Contains(user, " ") {
		return false
	}
	words := strings.Fields(user)
	return len(words) > 1 && slices.ContainsFunc(words, func(w string) bool { return w == "-" || isAddress(w) })
}

func (a *accessLog) place() string {
	if a.vhost {
		return "second"
	}
	return "first"
}

// isVirtualHost reports whether s is a host name or an address, with or without a port.
func isVirtualHost(s string) bool {
	name := s
	if i := strings.LastIndexByte(s, ':'); i >= 0 && isDigits(s[i+1:]) {
		name = strings.TrimSuffix(strings.TrimPrefix(s[:i], "["), "]")
	}
	return isHostName(name) || isAddress(name) || isAddress(s) // of an IPv6 address, the end may look like a port
}

// isSurelyHost reports whether s is a virtual host and cannot be a client: a host name, or an address
// with a port at which servers listen. Proxies write "unknown" for a client.
func isSurelyHost(s string) bool {
	if at, err := netip.ParseAddrPort(s); err == nil {
		return at.Port() < 10_000
	}
	name, _, _ := strings.Cut(s, ":") // of an IPv6 address, it may look like a name
	return isHostName(name) && !isAddress(s) && s != "-" && s != "unknown"
}

// A micros reads Unix microseconds, a tab and a client. The times may be in another unit, if it is
// named.
type micros struct {
	*wanted
	in unit
}

const microsTitle = "a .tsv of time and client"

func newMicros(w *wanted) decoder {
	return &micros{w, units[cmp.Or(w.unit, "us")]}
}

func (m *micros) name() string { return "micros" }

func (m *micros) has(int) bool { return false }

func (m *micros) datesEnds() bool { return false }

func (m *micros) decode(line string, r *record) error {
	r.title = microsTitle
	if i := strings.IndexAny(line, "\t \""); i < 0 || line[i] != '\t' {
		return errors.New("no tab after the time")
	}
	when, client, _ := strings.Cut(line, "\t")
	if n := strings.Count(client, "\t"); n > 0 {
		return fmt.Errorf("%d columns, want time and client", n+2)
	}
	n, err := strconv.ParseInt(when, 10, 64)
	if err != nil {
		return fmt.Errorf("time %s is not in whole Unix %s", Clip(when), m.in.name)
	}
	if n > math.MaxInt64/m.in.length || n < math.MinInt64/m.in.length {
		return fmt.Errorf("%w, if it is in %s: another unit is named by -unit", outOfRange(when), m.in.name)
	}
	r.at = n * m.in.length
	for i, f := range m.fields {
		if f.flag == "" {
			r.values[i] = "-"
			continue
		}
		if f.name != Addr {
			return &lackError{wantedField: f, title: microsTitle}
		}
		r.values[i] = client
	}
	return checkAddr(client)
}

// unitOf returns the unit in which a time that was read as microseconds would be of this century,
// or "" if it is no other. Its argument is in nanoseconds.
func (m *micros) unitOf(at int64) string {
	const begin, end = 978_307_200, 4_102_444_800 // 2001 and 2100, in Unix seconds
	if m.unit != "" {
		return ""
	}
	switch n := at / m.in.length; {
	case n >= begin && n < end:
		return "s"
	case n >= begin*1000 && n < end*1000:
		return "ms"
	}
	return ""
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// isHostName reports whether s is a host name, as a server may have looked it up for an
// address. The last label of a host name is no number, so 192.0.2.999 is none.
func isHostName(s string) bool {
	const longest, longestLabel = 253, 63
	s = strings.TrimSuffix(s, ".")
	label := ""
	for label = range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > longestLabel || strings.ContainsFunc(label, notOfHostName) {
			return false
		}
	}
	return len(s) <= longest && !isDigits(label)
}

// notOfHostName reports whether c cannot be part of a host name. Underscores can, in names
// found by reverse look-ups.
func notOfHostName(c rune) bool {
	return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
}

// splitRequest returns the method of a request line, and its path without the query. The target may be
// a whole URL, as load balancers log it. Both are empty for other text, as probes send it.
func splitRequest(request string) (method, path string) {
	method, target, ok := strings.Cut(request, " ")
	if !ok || method == "-" { // as load balancers write it if no request came
		return "", ""
	}
	if i := strings.LastIndex(target, " HTTP/"); i >= 0 {
		target = target[:i]
	}
	return method, withoutQuery(target)
}

// A scanner splits a line from the left. It keeps the first error, and finds nothing after
// it.
type scanner struct {
	rest string
	err  error
	cut  bool
}

func (s *scanner) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf(format, args...)
	}
	s.rest = ""
}

// word consumes the text before the next space, and the space.
func (s *scanner) word(what string) string {
	word, rest, found := strings.Cut(s.rest, " ")
	if !found || word == "" {
		s.fail("no %s", what)
		return ""
	}
	s.rest = rest
	return word
}

// until consumes the text before mark, and the mark.
func (s *scanner) until(mark, what string) string {
	value, rest, found := strings.Cut(s.rest, mark)
	if !found {
		s.fail("no %s", what)
		return ""
	}
	s.rest = rest
	return value
}

// number consumes a number or "-", and the space after it unless the line ends.
func (s *scanner) number(what string) string {
	number, rest, _ := strings.Cut(s.rest, " ")
	if number != "-" && !isDigits(number) {
		s.fail("no %s", what)
		return ""
	}
	s.rest = rest
	return number
}

// others consumes fields that nothing is known about.
func (s *scanner) others() {
	if s.rest == "" {
		s.fail("no field after the size")
	}
	s.refuseJoined(s.rest)
	s.rest = ""
}

// refuseJoined fails if another line begins in text: one that was written after a line without an
// end, as a crash leaves it. Its client would be lost without notice.
func (s *scanner) refuseJoined(text string) {
	for rest := text; ; {
		before, after, found := strings.Cut(rest, `] "`)
		if !found {
			return
		}
		if begin := len(before) - len(zonedTime); begin > 0 && before[begin-1] == '[' {
			if _, err := time.Parse(zonedTime, before[begin:]); err == nil {
				s.fail("two lines in one: it has a second time, [%s]", before[begin:])
				return
			}
		}
		rest = after
	}
}

func (s *scanner) space(after string) {
	rest, found := strings.CutPrefix(s.rest, " ")
	if !found {
		s.fail("no space after the %s", after)
		return
	}
	s.rest = rest
}

// quoted consumes a text in quotes. A backslash escapes the byte after it.
func (s *scanner) quoted(what string) string {
	value, found := s.open(what)
	if !found {
		return ""
	}
	end := closing(value)
	if end < 0 {
		s.fail("no closing quote of the %s", what)
		return ""
	}
	s.rest = value[end+1:]
	return value[:end]
}

// dashOr consumes a "-" without quotes, as some servers write for nothing, or else calls read.
func (s *scanner) dashOr(read func(what string) string, what string) string {
	if rest, found := strings.CutPrefix(s.rest, "-"); found && (rest == "" || rest[0] == ' ') {
		s.rest = rest
		return "-"
	}
	return read(what)
}

// lastQuoted is like quoted, but the end of the line may close the text.
func (s *scanner) lastQuoted(what string) string {
	if value, found := s.open(what); found && closing(value) < 0 {
		s.rest, s.cut = "", true
		return value
	}
	return s.quoted(what)
}

func (s *scanner) open(what string) (rest string, found bool) {
	rest, found = strings.CutPrefix(s.rest, `"`)
	if !found {
		s.fail("no %s in quotes", what)
	}
	return rest, found
}

// closing returns the index of the first quote that no backslash escapes, or -1.
func closing(s string) int {
	if first := strings.IndexByte(s, '"'); first < 0 || strings.IndexByte(s[:first], '\\') < 0 {
		return first
	}
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// Clip quotes s for a message, shortened to at most 100 bytes.
func Clip(s string) string {
	const maxLen = 100
	if len(s) > maxLen {
		return strconv.Quote(s[:maxLen]) + "..."
	}
	return strconv.Quote(s)
}
