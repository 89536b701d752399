package traffic

import (
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

// A format is the format of a line. Those from common on are access logs.
type format uint8

const (
	tsv format = iota
	common
	combined
)

func (f format) String() string {
	return [...]string{"a .tsv of time and client", "Common Log Format", "Combined Log Format"}[f]
}

// A field is a part of a line that may identify a client.
type field uint8

const (
	Addr field = iota
	ident
	user
	method
	path
	status
	referer
	Agent
	numFields
)

var FieldNames = [numFields]string{"addr", "ident", "user", "method", "path", "status", "referer", "agent"}

func (f field) String() string { return FieldNames[f] }

// in reports whether lines of a format have the field.
func (f field) in(g format) bool {
	switch g {
	case tsv:
		return f == Addr
	case common:
		return f < referer
	}
	return true
}

// A record is a line that could be read. A field that is empty or not in the format is "-",
// as servers write it. Escapes in fields are kept: they distinguish values as well as the
// characters that they stand for.
type record struct {
	at     int64 // Unix nanoseconds
	format format
	cut    bool // ends inside its last field
	fields [numFields]string
}

// parseLine parses a line of any format. Its error says what is wrong with the line.
func parseLine(line string) (record, error) {
	if i := strings.IndexAny(line, "\t \""); i >= 0 && line[i] == '\t' {
		return parseTSV(line)
	}
	return parseLog(line)
}

func parseTSV(line string) (record, error) {
	column := strings.Split(line, "\t")
	if len(column) != 2 {
		return record{}, fmt.Errorf("%d columns, want time and client", len(column))
	}
	micros, err := strconv.ParseInt(column[0], 10, 64)
	if err != nil {
		return record{}, fmt.Errorf("time %s is not in whole Unix microseconds", Clip(column[0]))
	}
	if micros > math.MaxInt64/1000 || micros < math.MinInt64/1000 {
		return record{}, outOfRange(column[0])
	}
	r := record{at: micros * 1000, format: tsv}
	return r, r.setAddr(column[1])
}

// parseLog parses
//
//	addr ident user [time] "request" status size
//	addr ident user [time] "request" status size "referer" "agent"
//
// and ignores further fields that servers may append to the latter.
func parseLog(line string) (r record, err error) {
	r.format = common
	s := scanner{rest: line}
	host := s.word("address")
	r.fields[ident] = s.word("ident")
	r.fields[user] = s.until(" [", "time in brackets")
	when := s.until("] ", "time in brackets")
	request := s.quoted("request")
	s.space("request")
	r.fields[status] = s.number("status")
	if s.number("size"); s.rest != "" {
		r.format = combined
		r.fields[referer] = s.quoted("referer")
		s.space("referer")
		r.fields[Agent] = s.lastQuoted("agent")
		r.cut = s.cut
	}
	if s.err != nil {
		return record{}, s.err
	}
	if r.at, err = parseTime(when); err != nil {
		return record{}, err
	}
	r.fields[method], r.fields[path] = splitRequest(request)
	for f := range r.fields {
		if r.fields[f] == "" {
			r.fields[f] = "-"
		}
	}
	if err := r.setAddr(host); err != nil {
		return record{}, err
	}
	return r, r.inPlace()
}

// inPlace refuses a line of a log format with other text before the address, such as the
// virtual host in Apache's vhost_combined. In such a line every field is further right than
// it is read, and the virtual host would be taken for the client.
func (r *record) inPlace() error {
	addr := r.fields[Addr]
	if addr != "-" && !isAddress(addr) && !isHostName(addr) {
		return fmt.Errorf("first field %s is neither an address nor a host name", Clip(addr))
	}
	if isAddress(r.fields[ident]) {
		return fmt.Errorf("ident %s is an address: something stands before the address of the client", Clip(r.fields[ident]))
	}
	// A user's name may have spaces. In a shifted line it includes the ident, which is
	// nearly always "-".
	if words := strings.Fields(r.fields[user]); len(words) > 1 && slices.Contains(words, "-") {
		return fmt.Errorf("user %s is more than one field: something stands before the address of the client", Clip(r.fields[user]))
	}
	return nil
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
	return len(s) <= longest && strings.Trim(label, "0123456789") != ""
}

// notOfHostName reports whether c cannot be part of a host name. Underscores can, in names
// found by reverse look-ups.
func notOfHostName(c rune) bool {
	return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
}

// setAddr sets the address. It refuses one with control characters, which no server writes.
// With the zeros that a crash leaves in a file, the client would become another one.
func (r *record) setAddr(host string) error {
	if strings.ContainsFunc(host, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return fmt.Errorf("address %s has control characters", Clip(host))
	}
	if host == "" {
		host = "-"
	}
	r.fields[Addr] = host
	return nil
}

// parseTime parses a time such as 17/May/2015:10:05:03 +0000.
func parseTime(s string) (int64, error) {
	t, err := time.Parse("02/Jan/2006:15:04:05 -0700", s)
	if err != nil {
		return 0, fmt.Errorf("time %s is not like 02/Jan/2006:15:04:05 -0700", Clip(s))
	}
	return nanoseconds(t, s)
}

// nanoseconds returns t, which is written as s, in Unix nanoseconds.
func nanoseconds(t time.Time, s string) (int64, error) {
	if t.Before(time.Unix(0, math.MinInt64)) || t.After(time.Unix(0, math.MaxInt64)) {
		return 0, outOfRange(s)
	}
	return t.UnixNano(), nil
}

func outOfRange(s string) error {
	return fmt.Errorf("time %s is outside the years 1678 to 2262 that nanoseconds reach", Clip(s))
}

// splitRequest returns the method of a request line, and its path without the query. They
// are empty for other text, as probes send it.
func splitRequest(request string) (method, path string) {
	method, target, ok := strings.Cut(request, " ")
	if !ok {
		return "", ""
	}
	if i := strings.LastIndex(target, " HTTP/"); i >= 0 {
		target = target[:i]
	}
	path, _, _ = strings.Cut(target, "?")
	return method, path
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
	if number != "-" && (number == "" || strings.Trim(number, "0123456789") != "") {
		s.fail("no %s", what)
		return ""
	}
	s.rest = rest
	return number
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
