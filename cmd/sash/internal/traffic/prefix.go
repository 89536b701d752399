package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// A prefix is what a collector of logs writes before the lines of a server, or around them.
//
// Invariant: what it strips does not depend on what stands after it, which a client may have sent. So no
// line gets the client of another reading: the file has the prefix in every line or in none.
type prefix struct {
	name string
	// sure tells that no known format begins like it. So it is stripped before the format is detected. Other
	// prefixes are stripped only from lines that no format reads as they are.
	sure  bool
	strip func(line string) (part, error)
}

// A part is what a prefix leaves of a line.
type part struct {
	text   string
	stream string // parts of one line have the same
	more   bool   // whether the rest of the line comes in a later part
	name   string // of what wrote the line, if it might be a column as well
}

// prefixes are all prefixes. Of those that stand before most lines of a file, the first is stripped.
var prefixes = []prefix{
	{"docker's json-file", true, stripDocker},
	{"the journal as JSON", true, stripJournal},
	{"CRI", true, stripCRI},
	{"syslog (RFC 5424)", true, stripSyslog},
	{"syslog", true, stripOldSyslog},
	{"kubectl logs --prefix", true, stripPod},
	{"docker compose", true, stripCompose},
	{"--timestamps", false, stripTimestamp},
}

// maxPrefixes is the greatest number of prefixes before a line, such as kubectl's, a time, and syslog's.
const maxPrefixes = 4

// errNoPrefix says that a line does not begin as others of its file do.
var errNoPrefix = errors.New("it does not begin like that")

// A layer is a prefix of a file, and the lines whose rest is to come.
type layer struct {
	prefix
	begun map[string]begun // by stream
}

// A begun is a line whose end comes in a later line of the file.
type begun struct {
	text  string // so far; it is not kept if it is too long
	lines int64  // of the file, that it has taken so far
	long  bool   // whether it is too long
}

// layers are the prefixes of all lines of a file, the outermost first.
type layers []*layer

// unwrap returns the server's line in a line of the file, and the number of earlier lines of the file that
// it began in. It reports false if its rest is to come.
func (ls layers) unwrap(line string) (text string, earlier int64, whole bool, err error) {
	for _, l := range ls {
		p, err := l.strip(line)
		if err != nil {
			return "", 0, false, fmt.Errorf("no prefix of %s, which the file has: %w", l.name, err)
		}
		was, old := l.begun[p.stream]
		if old {
			p.text = was.text + p.text
		}
		long := was.long || len(p.text) > MaxLine
		if long {
			p.text = "" // a client may have sent what follows, so it is no line of its own
		}
		if p.more {
			l.begun[p.stream] = begun{p.text, was.lines + 1, long}
			return "", 0, false, nil
		}
		delete(l.begun, p.stream)
		if line, earlier = p.text, earlier+was.lines; long {
			return "", earlier, false, fmt.Errorf("longer than %d bytes", MaxLine)
		}
	}
	return line, earlier, true, nil
}

// unfinished returns the number of lines that wait for the rest of a line.
func (ls layers) unfinished() (n int64) {
	for _, l := range ls {
		for _, b := range l.begun {
			n += b.lines
		}
	}
	return n
}

// afresh returns the same prefixes, with no line begun.
func (ls layers) afresh() layers {
	all := make(layers, len(ls))
	for i, l := range ls {
		all[i] = l.layer()
	}
	return all
}

// about names the prefixes, for the report.
func (ls layers) about() string {
	names := make([]string, len(ls))
	for i, l := range ls {
		names[i] = l.name
	}
	return strings.Join(names, ", then ")
}

func (p prefix) layer() *layer { return &layer{p, map[string]begun{}} }

// within returns the lines that stand behind a prefix. Those without it are left out.
func (p prefix) within(lines []waitingLine) (inner []waitingLine) {
	ls := layers{p.layer()}
	for _, l := range lines {
		if l.why != "" || isBlank(l.text) {
			continue
		}
		if text, _, whole, err := ls.unwrap(l.text); err == nil && whole {
			inner = append(inner, waitingLine{text: text})
		}
	}
	return inner
}

// prefixOf returns the first of all prefixes that most of the lines have. If the lines of one may have
// it or not, it returns the reason.
func prefixOf(lines []waitingLine) (*prefix, error) {
	var doubt error
	for i, p := range prefixes {
		n, of := 0, 0
		for _, l := range lines {
			if l.why != "" || isBlank(l.text) {
				continue
			}
			of++
			switch _, err := p.strip(l.text); {
			case err == nil:
				n++
			case !errors.Is(err, errNoPrefix) && doubt == nil:
				doubt = err
			}
		}
		if 2*n > of {
			return &prefixes[i], nil
		}
	}
	return nil, doubt
}

// unwrapAndChoose finds the prefixes of the lines, and chooses the decoder of what stands behind them.
func (s *source) unwrapAndChoose(lines []waitingLine) error {
	s.layers = nil
	var doubtful []waitingLine // from the first prefix on that is not sure, the lines before it
	surely := 0
	for len(s.layers) < maxPrefixes {
		p, doubt := prefixOf(lines)
		if p == nil && doubt != nil && !s.readsAny(lines) {
			return fmt.Errorf("%s: %w", s.file, doubt)
		}
		if p == nil || (!p.sure || s.settings.namesFields()) && s.readsAny(lines) {
			break
		}
		if !p.sure && doubtful == nil {
			doubtful, surely = lines, len(s.layers)
		}
		s.layers = append(s.layers, p.layer())
		lines = p.within(lines)
	}
	if doubtful != nil && !s.readsAny(lines) {
		lines, s.layers = doubtful, s.layers[:surely]
	}
	if s.settings.namesFields() {
		var err error
		if lines, err = s.unwrapByFields(lines); err != nil {
			return err
		}
	}
	return s.choose(lines)
}

// unwrapByFields finds the further prefixes of lines whose fields the settings name. They are stripped if only
// what stands behind them has all the fields. If the lines have all of them with the prefixes, too, the file is
// refused: what the collector wrote may then stand where the client should.
func (s *source) unwrapByFields(lines []waitingLine) ([]waitingLine, error) {
	inner, outer := lines, len(s.layers)
	further := slices.Clip(s.layers)
	for len(further) < maxPrefixes {
		p, _ := prefixOf(inner)
		if p == nil {
			break
		}
		asColumn := s.settings.columns() && p.differs(inner)
		further, inner = append(further, p.layer()), p.within(inner)
		switch {
		case !s.suits(inner):
		case s.suits(lines) && asColumn:
			return lines, nil
		case s.suits(lines):
			return nil, fmt.Errorf("%s: the flags fit its lines with the prefix of %s and without it: nothing tells which is meant. "+
				"Remove it first, or name fields that are only there with it or without it", s.file, further[outer:].about())
		default:
			s.layers, lines, outer = further, inner, len(further)
		}
	}
	return lines, nil
}

// differs reports whether the lines have several names in the prefix, or some have none. A column between bars
// differs, from its heading at least.
func (p prefix) differs(lines []waitingLine) bool {
	first := ""
	return slices.ContainsFunc(lines, func(l waitingLine) bool {
		if l.why != "" || isBlank(l.text) {
			return false
		}
		got, err := p.strip(l.text)
		first = cmp.Or(first, got.name)
		return err != nil || got.name != first
	})
}

// suits reports whether most of the lines but headings have all fields that the settings name, or there are only
// headings with them. A client may have sent a few that have them.
func (s *source) suits(lines []waitingLine) bool {
	probe := newSource(s.settings, s.file, s.files)
	if err := probe.choose(lines); err != nil || probe.decoder == nil {
		return false
	}
	n, of, headings := 0, 0, 0
	for _, l := range lines {
		if l.why != "" || isBlank(l.text) {
			continue
		}
		probe.record.heading = false
		switch err := probe.decoder.decode(l.text, &probe.record); {
		case err != nil:
			of++
		case probe.record.heading:
			headings++
		default:
			n, of = n+1, of+1
		}
	}
	return 2*n > of || of == 0 && headings > 0
}

// namesFields reports whether the settings say where fields are in a line. They may then say so of the
// prefix, too.
func (s *Settings) namesFields() bool { return s.Time != "" || strings.ContainsAny(s.Format, "$%") }

// readsAny reports whether a format that the settings allow reads one of the lines, or the heading of columns.
func (s *source) readsAny(lines []waitingLine) bool {
	w := &wanted{time: s.settings.Time, unit: s.settings.Unit, separator: s.settings.Separator}
	reads := func(make func(*wanted) decoder) bool {
		d := make(w)
		return slices.ContainsFunc(lines, func(l waitingLine) bool {
			if l.why != "" || isBlank(l.text) {
				return false
			}
			err := d.decode(l.text, &record{})
			return err == nil && !strings.HasPrefix(l.text, "#") // it may be a comment, or name the fields of other lines
		})
	}
	switch {
	case s.settings.Format != "":
		make, err := decoderFor(s.settings.Format)
		return err == nil && reads(make)
	case s.settings.Time != "":
		return reads(newJSON) || reads(func(w *wanted) decoder { return newColumns("csv", w) })
	}
	return slices.ContainsFunc(formats, func(f fileFormat) bool { return f.guess > 0 && reads(f.decoder) })
}
