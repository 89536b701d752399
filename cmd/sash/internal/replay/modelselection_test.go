package replay_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A selection is which requests of a recording count, by the flags from, to, without and where.
type selection struct {
	from, to int64 // Unix nanoseconds; 0: no bound
	without  [][2]int64
	where    []where
}

// A where is a value that a field of requests has, or has not.
type where struct {
	field string
	text  string // its values
	not   bool
	holds func(value string) bool
}

// instantAfter returns an instant within some windows after the beginning of a recording, and one of its texts.
func (s *settings) instantAfter(begin int64, r *rand.Rand) (at int64, text string) {
	at = begin + int64(r.ExpFloat64()*float64(pick(r, s.windows)))
	layout, step := "2006-01-02T15:04:05.000000Z", time.Microsecond
	switch r.IntN(4) {
	case 0:
		layout, step = "2006-01-02 15:04", time.Minute
	case 1:
		layout, step = "2006-01-02T15:04Z07:00", time.Minute
	case 2:
		layout, step = "2006-01-02 15:04:05", time.Second
	}
	at = at / int64(step) * int64(step)
	return at, time.Unix(0, at).UTC().Format(layout)
}

func (s *settings) chooseFrom(r *rand.Rand) {
	if !s.attacked && r.IntN(8) == 0 {
		var text string
		s.selection.from, text = s.instantAfter(s.begin, r)
		s.give("from", text, r)
	}
}

func (s *settings) chooseTo(r *rand.Rand) {
	if !s.attacked && r.IntN(8) == 0 {
		var text string
		s.selection.to, text = s.instantAfter(max(s.begin, s.selection.from)+int64(time.Minute), r)
		s.give("to", text, r)
	}
}

func (s *settings) chooseWithout(r *rand.Rand) {
	for !s.attacked && r.IntN(8) == 0 {
		from, begin := s.instantAfter(s.begin, r)
		to, end := s.instantAfter(from+int64(time.Minute), r)
		s.selection.without = append(s.selection.without, [2]int64{from, to})
		s.give("without", begin+".."+end, r)
	}
}

// wheres are values that -where takes for some fields, and what they mean.
var wheres = map[string]map[string]func(string) bool{
	"method": {
		"GET":       func(v string) bool { return v == "GET" },
		"HEAD,GET":  func(v string) bool { return v == "GET" || v == "HEAD" },
		"HEAD,POST": func(v string) bool { return v == "HEAD" || v == "POST" },
		"P*":        func(v string) bool { return v == "POST" },
	},
	"path": {
		"/a":      func(v string) bool { return v == "/a" },
		"/":       func(v string) bool { return v == "/" },
		"/a*,/b*": func(v string) bool { return strings.HasPrefix(v, "/a") || strings.HasPrefix(v, "/b") },
		"/b/*":    func(v string) bool { return v == "/b/c.html" },
	},
	"host": {
		"shop.example": func(v string) bool { return v == "shop.example" },
		"*":            func(string) bool { return true },
	},
	"user": {
		"-":    func(v string) bool { return v == "" },
		"ann*": func(v string) bool { return strings.HasPrefix(v, "ann") },
	},
	"status": {
		"2xx":     func(string) bool { return true },
		"404,200": func(string) bool { return true },
	},
}

func (s *settings) chooseWhere(r *rand.Rand) {
	for _, field := range s.form.fields {
		values := wheres[field]
		if values == nil || s.attacked || r.IntN(12) > 0 {
			continue
		}
		var texts []string
		for text := range values {
			texts = append(texts, text)
		}
		slices.Sort(texts) // so that a seed is a program
		text := pick(r, texts)
		w := where{field, text, field != "status" && text != "*" && r.IntN(3) == 0, values[text]}
		s.selection.where = append(s.selection.where, w)
		operator := "="
		if w.not {
			operator = "!="
		}
		s.give("where", field+operator+text, r)
	}
}

// has reports whether a request counts that was logged at that time.
func (s *selection) has(at int64, q *request) bool {
	if at < s.from || s.to > 0 && at >= s.to {
		return false
	}
	for _, span := range s.without {
		if span[0] <= at && at < span[1] {
			return false
		}
	}
	for _, w := range s.where {
		if w.holds(q.value(w.field)) == w.not {
			return false
		}
	}
	return true
}
