package traffic

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A hashed reads a log that names its fields in lines that begin with a hash: the W3C Extended
// Log of IIS and others, and the logs of Zeek. The fields may change within a file, as they do
// when logs are joined.
type hashed struct {
	*wanted
	format, title string
	separator     string
	names         []string // nil until they are read
	date, time    int      // indices; date is -1 if the time has it
	sources       []fieldSource
	clock         timeReader
	when          []byte
}

func newHashed(format, title string, w *wanted) decoder {
	return &hashed{wanted: w, format: format, title: title, separator: "\t", clock: timeReader{unit: w.unit}}
}

func (h *hashed) name() string { return h.format }

func (h *hashed) has(i int) bool { return h.sources[i].index >= 0 }

// datesEnds is true of IIS and CloudFront, and not of Zeek.
func (h *hashed) datesEnds() bool { return h.format == "w3c" }

func (h *hashed) decode(line string, r *record) error {
	r.title = h.title
	if strings.HasPrefix(line, "#") {
		r.heading = true
		return h.heading(line)
	}
	if h.names == nil {
		return fmt.Errorf("no #Fields or #fields before it that names its fields")
	}
	values := h.split(line)
	if len(values) != len(h.names) {
		return fmt.Errorf("%d fields, the heading names %d", len(values), len(h.names))
	}
	if err := h.readTime(values, r); err != nil {
		return err
	}
	return h.pick(h.sources, values, h.names, r)
}

func (h *hashed) readTime(values []string, r *record) (err error) {
	when := values[h.time]
	if h.date >= 0 {
		h.when = append(append(append(h.when[:0], values[h.date]...), ' '), when...)
		when = string(h.when)
	}
	r.at, err = h.clock.read(when)
	return err
}

// heading reads a line that begins with a hash. Those that name no fields are comments.
func (h *hashed) heading(line string) error {
	switch {
	case h.format == "zeek" && strings.HasPrefix(line, "#separator "):
		return h.setSeparator(strings.TrimPrefix(line, "#separator "))
	case h.format == "zeek" && strings.HasPrefix(line, "#fields"+h.separator):
		return h.fields(strings.Split(line, h.separator)[1:])
	case h.format == "w3c" && strings.HasPrefix(line, "#Fields:"):
		return h.fields(strings.Fields(strings.TrimPrefix(line, "#Fields:")))
	}
	return nil
}

// setSeparator reads the separator of Zeek, which is written as \x09.
func (h *hashed) setSeparator(s string) error {
	separator, err := strconv.Unquote(`"` + s + `"`)
	if err != nil || len(separator) != 1 {
		return fmt.Errorf("separator %s is not like \\x09", Clip(s))
	}
	h.separator = separator
	return nil
}

// fields resolves the names of fields.
func (h *hashed) fields(names []string) error {
	h.names, h.date = nil, -1
	if h.format == "w3c" {
		h.date, h.time = slices.Index(names, "date"), slices.Index(names, "time")
	} else {
		h.time = slices.Index(names, "ts")
	}
	if h.time < 0 || h.format == "w3c" && h.date < 0 {
		return fmt.Errorf("the fields %s have no time", Clip(strings.Join(names, " ")))
	}
	h.names = names
	h.sources = h.sourcesAmong(names)
	return nil
}

// split returns the values of a line. IIS separates them by spaces, and other servers that write
// W3C logs by tabs.
func (h *hashed) split(line string) []string {
	if h.format == "zeek" || strings.Contains(line, "\t") {
		return strings.Split(line, h.separator)
	}
	return strings.Fields(line)
}
