package traffic

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// A timeField is a variable of a pattern that holds a part of the time, as %{format}t of Apache writes
// it. A time may be written by several: %{%d/%b/%Y:%T}t.%{msec_frac}t.
type timeField struct {
	index    int    // of the variable
	layout   string // as time.Parse takes it; "" for digits after the second
	has      string // the conversions of the layout, such as YmdHMS
	width    int    // in bytes; 0 if the value ends where the literal after it begins
	response bool   // whether it is of the end of the request, by the prefix end:
}

// A conversion is what a letter of strftime stands for.
type conversion struct {
	layout string
	width  int // 0 if it varies
}

// conversions are what strftime writes for letters in the locale C, in which Apache runs.
var conversions = map[byte]conversion{
	'd': {"02", 2}, 'e': {"_2", 2}, 'm': {"01", 2}, 'b': {"Jan", 3}, 'h': {"Jan", 3}, 'B': {"January", 0},
	'Y': {"2006", 4}, 'y': {"06", 2}, 'j': {"002", 3}, 'a': {"Mon", 3}, 'A': {"Monday", 0},
	'H': {"15", 2}, 'I': {"03", 2}, 'p': {"PM", 2}, 'M': {"04", 2}, 'S': {"05", 2}, 'z': {"-0700", 5},
}

// compounds are conversions that stand for several.
var compounds = strings.NewReplacer("%%", "%%", "%T", "%H:%M:%S", "%X", "%H:%M:%S", "%R", "%H:%M", "%D", "%m/%d/%y", "%x", "%m/%d/%y",
	"%F", "%Y-%m-%d", "%r", "%I:%M:%S %p", "%c", "%a %b %e %H:%M:%S %Y", "%n", "\n", "%t", "\t")

// partOfLayout matches text that time.Parse would not take for itself.
var partOfLayout = regexp.MustCompile(`[0-9]|Jan|Mon|MST|PM|pm|_$`)

// apacheTime returns the name of the variable that %{format}t stands for, and the part of the time that
// it holds, if it is not the whole time in a number.
func apacheTime(format string) (name string, f *timeField, err error) {
	f = &timeField{}
	format, f.response = strings.CutPrefix(format, "end:")
	format = strings.TrimPrefix(format, "begin:")
	switch format {
	case "sec", "msec", "usec", "%s":
		unit := strings.Replace(format, "%s", "sec", 1)
		if f.response {
			return "end_" + unit, nil, nil
		}
		return "time_" + unit, nil, nil
	case "msec_frac":
		f.width = 3
		return "time_fraction", f, nil
	case "usec_frac":
		f.width = 6
		return "time_fraction", f, nil
	}
	if err := f.compile(format); err != nil {
		return "", nil, fmt.Errorf("pattern: %%{%s}t: %w", format, err)
	}
	return "time_text", f, nil
}

// compile sets the layout of a format of strftime.
func (f *timeField) compile(format string) error {
	rest, varies := compounds.Replace(format), false
	for rest != "" {
		literal, after, found := strings.Cut(rest, "%")
		if partOfLayout.MatchString(literal) {
			return fmt.Errorf("the text %s in it would be read as a part of the time", Clip(literal))
		}
		f.layout, f.width = f.layout+literal, f.width+len(literal)
		if rest = after; !found {
			break
		}
		if rest == "" {
			return errors.New("it ends with %")
		}
		c, known := conversions[rest[0]]
		switch {
		case rest[0] == '%':
			c = conversion{"%", 1}
		case !known:
			return fmt.Errorf("%%%c cannot be read", rest[0])
		}
		f.layout, f.width, varies = f.layout+c.layout, f.width+c.width, varies || c.width == 0
		f.has += rest[:1]
		rest = rest[1:]
	}
	if varies {
		f.width = 0
	}
	return nil
}

// A partedTime is a time that several variables of a pattern make up.
type partedTime struct {
	whole    int         // the index of the variable of a whole time in seconds; -1: texts make it up
	texts    []timeField // in their order in the line
	fraction *timeField  // nil if there is none
	response bool        // whether it is the end of the request
	clock    timeReader
	text     []byte
}

// joinTimes returns how the time is read from these fields, or nil if none of them holds a part of it.
// whole is the index of a variable that holds the time in seconds, or -1. With ofResponse that is the end of
// the request. Fields of the beginning are taken before fields of the end.
func joinTimes(fields []timeField, whole int, ofResponse bool) (*partedTime, error) {
	p := &partedTime{whole: whole}
	var lacks error
	for _, response := range []bool{false, true} {
		p.texts, p.fraction, p.response = nil, nil, response
		for _, f := range fields {
			switch {
			case f.response != response:
			case f.layout != "":
				p.texts = append(p.texts, f)
			case p.fraction == nil || f.width > p.fraction.width:
				p.fraction = &f
			}
		}
		if lack := lackOf(p.texts); lack == nil {
			p.whole = -1
			p.clock.only = p.layout()
			return p, nil
		} else if lacks == nil && len(p.texts) > 0 {
			lacks = lack
		}
		if whole >= 0 && p.fraction != nil && response == ofResponse {
			p.texts = nil
			return p, nil
		}
	}
	if whole >= 0 {
		return nil, nil // other parts of the time add nothing
	}
	return nil, lacks
}

// lackOf returns what texts lack for a whole time.
func lackOf(texts []timeField) error {
	has := ""
	for _, f := range texts {
		has += f.has
	}
	day := strings.Contains(has, "j") || strings.ContainsAny(has, "de") && strings.ContainsAny(has, "mbhB")
	hour := strings.Contains(has, "H") || strings.Contains(has, "I") && strings.Contains(has, "p")
	for _, part := range []struct {
		name  string
		there bool
	}{{"year", strings.ContainsAny(has, "Yy")}, {"day", day}, {"hour", hour}, {"minute", strings.Contains(has, "M")}, {"second", strings.Contains(has, "S")}} {
		if !part.there {
			return fmt.Errorf("its %%{…}t have no %s, so no whole time", part.name)
		}
	}
	return nil
}

func (p *partedTime) layout() string {
	layouts := make([]string, len(p.texts))
	for i, f := range p.texts {
		layouts[i] = f.layout
	}
	return strings.Join(layouts, " ")
}

// read returns the time in Unix nanoseconds, from the values of all variables.
func (p *partedTime) read(found []string) (at int64, err error) {
	when := ""
	switch {
	case p.whole >= 0:
		when = found[p.whole]
	case len(p.texts) == 1:
		when = found[p.texts[0].index]
	default:
		p.text = p.text[:0]
		for i, f := range p.texts {
			if i > 0 {
				p.text = append(p.text, ' ')
			}
			p.text = append(p.text, found[f.index]...)
		}
		when = string(p.text)
	}
	if at, err = p.clock.read(when); err != nil || p.fraction == nil {
		return at, err
	}
	digits := found[p.fraction.index]
	if strings.Trim(digits, "0123456789") != "" {
		return 0, fmt.Errorf("fraction of the time %s is not a number", Clip(digits))
	}
	scale := int64(1e9)
	for _, c := range digits {
		scale /= 10
		at += int64(c-'0') * scale
	}
	return at, nil
}
