package traffic

import (
	"errors"
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

// Charge returns the cost of e. It is one unit if the traffic has no costs.
func (t *Traffic) Charge(e Event) Charge {
	if t.Columns.Cost == nil {
		return Charge{1, 1}
	}
	return t.charges[e.charge]
}

// bill adds c to the charges. It refuses c if the sum of all estimates and costs would
// exceed an int64. So no sum of any of them overflows.
func (t *Traffic) bill(c Charge) error {
	left := math.MaxInt64 - t.billed
	if c.Asked > left || c.Cost > left-c.Asked {
		return errors.New("with this line all costs add up to more than 64 bits hold")
	}
	t.billed += c.Asked + c.Cost
	t.charges = append(t.charges, c)
	return nil
}

// A Sum is a sum of columns and a whole number, computed for each row.
type Sum struct {
	text    string
	columns []string
	number  int64
}

// ParseSum parses names of columns and whole numbers, joined by plus signs.
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

// of returns the sum for a row, whose columns value returns.
func (s *Sum) of(value func(column string) string) (int64, error) {
	total := s.number
	for _, column := range s.columns {
		n, err := wholeNumber(column, value(column))
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
		return 0, fmt.Errorf("%s %s is not a whole number of 64 bits", column, Clip(value))
	case n < 0:
		return 0, fmt.Errorf("%s %d is negative", column, n)
	}
	return n, nil
}
