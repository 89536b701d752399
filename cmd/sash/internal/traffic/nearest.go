package traffic

import (
	"fmt"
	"strings"
	"sync"
)

// templatesLike are of formats that have decoders of their own, to say where a line differs.
var templatesLike = map[string]func() *template{
	"combined":       compiled(`$remote_addr $remote_logname $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`),
	"vhost_combined": compiled(`$host $remote_addr $remote_logname $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`),
}

// compiled returns the template of a pattern that is known to be one. It is compiled when it is needed.
func compiled(pattern string) func() *template {
	return sync.OnceValue(func() *template {
		t, err := compile(pattern)
		if err != nil {
			panic(err)
		}
		return t
	})
}

// A mismatch is the first place at which a line is not of a format.
type mismatch struct {
	format string
	sure   int    // the number of fields before it that can be told, such as an address
	after  string // the field before it; "" if there is none
	column int    // from 1, in bytes
	has    string // what the line has there
	want   string
}

// faultOfUnknown counts a line that no format reads. Of lines that are not kept, the reason is not looked for.
func (s *source) faultOfUnknown(line string) {
	why := ""
	if len(s.faults) < MaxFaults || s.unread == nil {
		why = s.unknown(line)
	}
	s.fault(why, line)
}

// unknown returns what is wrong with a line that no format reads.
func (s *source) unknown(line string) string {
	text, behind := s.bare(line), ""
	if text != line {
		behind = " behind the prefix of " + s.layers.about()
	}
	if strings.HasPrefix(text, "{") {
		if err := newJSON(&wanted{}).decode(text, &record{}); err != nil {
			return fmt.Sprintf("no known format%s: %v", behind, err)
		}
	}
	d, found := nearest(text)
	if !found {
		return fmt.Sprintf("no known format%s: see -format and -time", behind)
	}
	if strings.HasSuffix(line, text) { // else it stands in JSON, and columns are counted within it
		d.column += len(line) - len(text)
	}
	return fmt.Sprintf("no known format%s: it is nearest to %s, but %s; see -format and -time", behind, d.format, d)
}

func (d mismatch) String() string {
	after := ""
	if d.after != "" {
		after = "after the " + d.after + ", "
	}
	return fmt.Sprintf("%sat column %d, it has %s where %s is expected", after, d.column, Clip(d.has), d.want)
}

// nearest returns where a line differs from the format that it has the most fields of. It reports false if
// it has none of any.
func nearest(line string) (best mismatch, found bool) {
	for _, f := range formats {
		t := templateLike(f.names[0])
		if t == nil {
			continue
		}
		if d := t.differs(line); d.sure > best.sure {
			best, found = d, true
			best.format = f.names[0]
		}
	}
	return best, found
}

// templateLike returns the template of a format of that name, or nil if it has none.
func templateLike(name string) *template {
	if f := fixedFormats[name]; f != nil {
		return f.template()
	}
	if like := templatesLike[name]; like != nil {
		return like()
	}
	return nil
}

// differs returns the first place at which a line differs from the template.
func (t *template) differs(line string) mismatch {
	found := make([]string, len(t.variables))
	n, _ := t.match(line, found)
	d := mismatch{column: 1}
	rest, _ := strings.CutPrefix(line, t.literals[0])
	for i, name := range t.variables {
		d.column, d.want = len(line)-len(rest)+1, nameOfWanted(name)
		d.has = firstField(t.literals[i], rest)
		if i >= n && i+1 < len(t.variables) && !isTelling(name, d.has) && !t.isWrong(i, d.has) {
			// It is the text after this field that is not there.
			d.after, d.want = plainName(name), nameOfWanted(t.variables[i+1])
			rest = strings.TrimPrefix(rest[len(d.has):], " ")
			d.column, d.has = len(line)-len(rest)+1, firstField("", rest)
		}
		if i >= n || t.isWrong(i, found[i]) {
			return d
		}
		if isTelling(name, found[i]) {
			d.sure++
		}
		d.after = plainName(name)
		if t.runs {
			rest = strings.TrimLeft(rest, " ")
		}
		rest = rest[min(len(rest), len(found[i])+len(t.literals[i+1])):]
	}
	d.column, d.has, d.want = len(line)-len(rest)+1, firstField("", rest), "the end of the line"
	return d
}

// isWrong reports whether v cannot be the value of variable i.
func (t *template) isWrong(i int, v string) bool {
	switch name := t.variables[i]; name {
	case "time", "time_local":
		clock := clockOf(name, "")
		_, err := clock.read(v)
		return err != nil
	case "host":
		return !isVirtualHost(v)
	default:
		return wrongWith(name, v) != ""
	}
}

// isTelling reports whether few other texts than v can be a value of the variable.
func isTelling(name, v string) bool {
	switch name {
	case "remote_addr":
		return isAddress(v) || strings.Contains(v, ".")
	case "time", "time_local", "remote_ip", "addr_port", "status", "body_bytes_sent", "bytes_sent", "result":
		return v != "-"
	}
	return false
}

// nameOfWanted returns what is expected where a variable stands.
func nameOfWanted(name string) string {
	switch name {
	case "remote_addr", "remote_ip":
		return "an address"
	case "addr_port":
		return "an address with a port"
	case "time", "time_local":
		return "a time"
	case "request":
		return "a request in quotes"
	case "http_referer", "http_user_agent":
		return "the " + plainName(name) + " in quotes"
	}
	return "the " + plainName(name)
}

// plainName returns the name that a variable has in all formats, or else its own.
func plainName(variable string) string {
	for _, common := range fieldNames {
		for _, a := range aliases[common] {
			if a.field == variable && a.part == nil {
				return common
			}
		}
	}
	switch variable {
	case "remote_addr", "remote_ip", "addr_port":
		return "address"
	case "time_local":
		return "time"
	}
	return variable
}

// firstField returns the first field of a line, before which that text stands: what is in its quotes or
// brackets, or a word.
func firstField(before, s string) string {
	end := -1
	switch {
	case strings.HasSuffix(before, `"`):
		end = closing(s)
	case strings.HasSuffix(before, "["):
		end = strings.IndexByte(s, ']')
	}
	if end >= 0 {
		return s[:end]
	}
	word, _, _ := strings.Cut(s, " ")
	return word
}
