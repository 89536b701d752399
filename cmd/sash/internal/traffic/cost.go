package traffic

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Charge is the cost of one event.
type Charge struct {
	Asked int64 // the units that must be admitted: the estimate, or the cost if there is none
	Cost  int64 // the actual cost
}

// A Sum is a sum of fields and a whole number, computed for each line.
type Sum struct {
	text    string
	columns []string
	number  int64
}

// ParseSum parses names of fields and whole numbers, joined by plus signs.
func ParseSum(s string) (*Sum, error) {
	var parts []string
	var total Sum
	for part := range strings.SplitSeq(s, "+") {
		part = strings.TrimSpace(part)
		parts = append(parts, part)
		switch {
		case part == "":
			return nil, fmt.Errorf("%s has a summand without a name, want columns such as input+output", Clip(s))
		case strings.Trim(part, "0123456789") != "":
			total.columns = append(total.columns, part)
		default:
			n, err := strconv.ParseInt(part, 10, 64)
			if err != nil || n > math.MaxInt64-total.number {
				return nil, fmt.Errorf("%s is more than 64 bits hold", Clip(s))
			}
			total.number += n
		}
	}
	total.text = strings.Join(parts, "+")
	return &total, nil
}

// String returns the text of the sum, or "" for nil.
func (s *Sum) String() string {
	if s == nil {
		return ""
	}
	return s.text
}

// of returns the sum for values in which its fields are at these indices.
func (s *Sum) of(indices []int, values []string) (int64, error) {
	total := s.number
	for i, column := range s.columns {
		n, err := wholeNumber(column, values[indices[i]])
		if err != nil {
			return 0, err
		}
		if n > math.MaxInt64-total {
			return 0, fmt.Errorf("%s is more than 64 bits hold", s)
		}
		total += n
	}
	return total, nil
}

func wholeNumber(column, value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s %s is not a whole number of 64 bits, as a cost must be", column, Clip(value))
	case n < 0:
		return 0, fmt.Errorf("%s %d is negative", column, n)
	}
	return n, nil
}
