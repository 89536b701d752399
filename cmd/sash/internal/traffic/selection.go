package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// A Selection says which events count. The zero Selection is all of them.
type Selection struct {
	From, To *int64  // Unix nanoseconds; events before From are left out, and events at To or later; nil: no bound
	Without  []Span  // events in one of them are left out
	Where    []Where // events must meet all of them
}

// A Span is the time from an instant to another, which does not belong to it, in Unix nanoseconds.
type Span struct{ From, To int64 }

// String returns a span in the form that -without takes.
func (s Span) String() string {
	text := func(at int64) string { return Instant(at).Format("2006-01-02T15:04:05.999999999Z07:00") }
	return text(s.From) + ".." + text(s.To)
}

// A Where is a condition on a field of an event.
type Where struct {
	Field  string
	Not    bool
	Values []string // the field must have one of them or, if Not is set, none of them
}

// String returns a condition in the form that -where takes.
func (w *Where) String() string {
	operator := "="
	if w.Not {
		operator = "!="
	}
	return w.Field + operator + strings.Join(w.Values, ",")
}

// flags defines the flags that select events.
func (s *Selection) flags(read func(name, usage string, set func(string) error)) {
	read("from", "leave out what comes before this `TIME`, in UTC unless it names a zone: -from 2026-03-10, -from 2026-03-10T12:00", func(v string) error {
		return setInstant(&s.From, "from", v)
	})
	read("to", "leave out what comes at this `TIME` or later: -to 2026-03-11", func(v string) error {
		return setInstant(&s.To, "to", v)
	})
	read("without", "leave out what comes in this `SPAN`, such as an incident; repeat it: -without 2026-03-10T12:00..2026-03-10T12:10", s.addWithout)
	read("where", "keep only events whose `FIELD=VALUES` holds, or FIELD!=VALUES: values are joined by commas, 5xx stands for a class of status, and * at the end of a value for the rest; repeat it for several fields: -where method=POST -where 'path=/api/*' -where 'status!=404,5xx'", s.addWhere)
}

func setInstant(to **int64, flag, v string) error {
	at, err := parseInstant(v)
	if err != nil {
		return fmt.Errorf("-%s: %w", flag, err)
	}
	*to = &at
	return nil
}

// parseInstant parses a time as logs write it, or one without seconds, or a day.
func parseInstant(v string) (int64, error) {
	v = strings.TrimSpace(v)
	for _, layout := range []string{"2006-01-02", "2006-01-02T15:04", "2006-01-02 15:04", "2006-01-02T15:04Z07:00", "2006-01-02 15:04Z07:00"} {
		if when, err := time.Parse(layout, v); err == nil {
			return nanoseconds(when, v)
		}
	}
	return new(timeReader).read(v)
}

func (s *Selection) addWithout(v string) error {
	from, to, found := strings.Cut(v, "..")
	if !found {
		return fmt.Errorf("-without: %s is no span, want one such as 2026-03-10T12:00..2026-03-10T12:10", Clip(v))
	}
	var span Span
	var faults [2]error
	span.From, faults[0] = parseInstant(from)
	span.To, faults[1] = parseInstant(to)
	if err := errors.Join(faults[:]...); err != nil {
		return fmt.Errorf("-without: %w", err)
	}
	if span.To <= span.From {
		return fmt.Errorf("-without: %s does not end after it begins", Clip(v))
	}
	s.Without = append(s.Without, span)
	return nil
}

func (s *Selection) addWhere(v string) error {
	field, values, found := strings.Cut(v, "=")
	field, not := strings.CutSuffix(field, "!")
	if field = strings.TrimSpace(field); !found || field == "" {
		return fmt.Errorf("-where: %s is no condition, want one such as status=200 or 'path!=/health,/static/*'", Clip(v))
	}
	s.Where = append(s.Where, Where{field, not, strings.Split(values, ",")})
	return nil
}

// check returns what is wrong with s as a whole.
func (s *Selection) check() error {
	if s.From != nil && s.To != nil && *s.To <= *s.From {
		return errors.New("-to must come after -from, or no event is left")
	}
	return nil
}

// has reports whether s has an event at an instant whose fields of Where have these indices among the values.
func (s *Selection) has(at int64, where []int, values []string) bool {
	switch {
	case s.From != nil && at < *s.From, s.To != nil && at >= *s.To:
		return false
	case slices.ContainsFunc(s.Without, func(o Span) bool { return o.From <= at && at < o.To }):
		return false
	}
	for i := range s.Where {
		if !s.Where[i].holds(values[where[i]]) {
			return false
		}
	}
	return true
}

// holds reports whether a field may have that value.
func (w *Where) holds(value string) bool {
	value = cmp.Or(value, "-") // as servers write it
	return w.Not != slices.ContainsFunc(w.Values, func(want string) bool { return w.matches(want, value) })
}

// Implies reports whether other holds for each event for which w does. It may report false though that is so.
func (w *Where) Implies(other *Where) bool {
	if w.Field != other.Field || w.Not || other.Not && w.Field == Host {
		return false
	}
	return !slices.ContainsFunc(w.Values, func(value string) bool { return !other.holdsForAll(value) })
}

// holdsForAll reports whether w holds for each value that a value of -where stands for.
func (w *Where) holdsForAll(value string) bool {
	beginning, open := strings.CutSuffix(value, "*")
	class := w.Field == Status && strings.HasSuffix(value, "xx")
	if !open && !class {
		return value != "" && w.holds(value)
	}
	return !w.Not && slices.ContainsFunc(w.Values, func(want string) bool {
		wider, found := strings.CutSuffix(want, "*")
		return want == value || found && open && w.Field != Host && strings.HasPrefix(beginning, wider)
	})
}

// matches reports whether one of the values of w stands for value. A host that is named without its port
// stands for all its ports.
func (w *Where) matches(want, value string) bool {
	if w.Field == "host" && !strings.Contains(want, ":") {
		value = hostOf(value)
	}
	if beginning, found := strings.CutSuffix(want, "*"); found {
		return strings.HasPrefix(value, beginning)
	}
	if class, found := strings.CutSuffix(want, "xx"); found && w.Field == "status" {
		return len(value) == 3 && value[:1] == class
	}
	return value == want
}
