package traffic

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A unit is a unit of times in numbers.
type unit struct {
	length int64 // in nanoseconds
	name   string
}

// units are all units, by what -unit takes.
var units = map[string]unit{
	"s": {1e9, "seconds"}, "ms": {1e6, "milliseconds"}, "us": {1e3, "microseconds"}, "ns": {1, "nanoseconds"},
}

// zonedTime is the layout of access logs.
const zonedTime = "02/Jan/2006:15:04:05 -0700"

// layouts are the ways in which logs write a time. A fraction of a second is accepted after the
// seconds of each. A time is in UTC unless it names another zone.
var layouts = [...]string{
	"2006-01-02T15:04:05Z07:00",
	"2006-01-02 15:04:05",
	zonedTime,
	"2006-01-02T15:04:05",
	"2006-01-02 15:04:05Z07:00",
	"02/Jan/2006:15:04:05",
	"2006-01-02T15:04:05-0700",
	"2006/01/02 15:04:05",
	"02/Jan/2006 15:04:05",
	"Mon Jan _2 15:04:05 2006",
}

// A timeReader reads the times of one file. It remembers the last one, since many lines of a log
// have the same, and the layout.
type timeReader struct {
	only   string // the layout of all times; "": they may have any, or be numbers
	unit   string // of numbers; "" tells it by their size
	text   string
	at     int64
	layout int
}

// read returns a time in Unix nanoseconds.
func (t *timeReader) read(s string) (int64, error) {
	if s == t.text && s != "" {
		return t.at, nil
	}
	at, err := t.parse(s)
	if err == nil {
		t.text, t.at = s, at
	}
	return at, err
}

func (t *timeReader) parse(s string) (int64, error) {
	if t.only != "" {
		when, err := time.Parse(t.only, s)
		if err != nil {
			return 0, fmt.Errorf("time %s is not like %s", Clip(s), t.only)
		}
		return nanoseconds(when, s)
	}
	if strings.Trim(s, "-0123456789.") == "" && strings.LastIndexByte(s, '-') <= 0 && s != "" {
		return parseUnix(s, t.unit)
	}
	for i := range layouts {
		n := (t.layout + i) % len(layouts)
		if when, err := time.Parse(layouts[n], s); err == nil {
			t.layout = n
			return nanoseconds(when, s)
		}
	}
	return 0, fmt.Errorf("time %s is not like 2006-01-02 15:04:05.999, 2006-01-02T15:04:05Z, 02/Jan/2006:15:04:05 -0700 or Unix time", Clip(s))
}

// parseUnix parses a number of units since 1970, with or without decimals. Without a unit, the
// number of digits before the decimals tells it: 12 or more are milliseconds, 15 or more
// microseconds, and 18 or more nanoseconds.
func parseUnix(s, unit string) (int64, error) {
	digits, negative := strings.CutPrefix(s, "-")
	whole, decimals, _ := strings.Cut(digits, ".")
	if whole == "" || strings.Trim(whole+decimals, "0123456789") != "" {
		return 0, fmt.Errorf("time %s is not a number", Clip(s))
	}
	scale := units[unit].length
	if unit == "" {
		switch n := len(strings.TrimLeft(whole, "0")); {
		case n < 12:
			scale = 1e9
		case n < 15:
			scale = 1e6
		case n < 18:
			scale = 1e3
		default:
			scale = 1
		}
	}
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > math.MaxInt64/scale-1 { // 1 less leaves room for the decimals
		return 0, outOfRange(s)
	}
	n *= scale
	for _, c := range decimals {
		if scale /= 10; scale == 0 {
			break
		}
		n += int64(c-'0') * scale
	}
	if negative {
		n = -n
	}
	return n, nil
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
