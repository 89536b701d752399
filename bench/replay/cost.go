package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A charge is what one event costs.
type charge struct {
	asked int64 // what must be admitted: the estimate, or the cost if there is none
	cost  int64 // what it comes to in the end
}

// charge returns what e costs: one unit, if the traffic has no costs.
func (t *traffic) charge(e event) charge {
	if t.columns.cost == nil {
		return charge{1, 1}
	}
	return t.charges[e.charge]
}

// bill adds c to the charges, or refuses it if all of them, estimates and costs,
// came to more than an int64 then: so no sum of some of them does.
func (t *traffic) bill(c charge) error {
	left := math.MaxInt64 - t.billed
	if c.asked > left || c.cost > left-c.asked {
		return errors.New("with this line all costs add up to more than 64 bits hold")
	}
	t.billed += c.asked + c.cost
	t.charges = append(t.charges, c)
	return nil
}

// A sum is columns and a whole number, to be added up in each row.
type sum struct {
	text    string
	columns []string
	number  int64
}

// parseSum reads names of columns and whole numbers, joined by plus signs.
func parseSum(s string) (*sum, error) {
	var parts []string
	var total sum
	for part := range strings.SplitSeq(s, "+") {
		part = strings.TrimSpace(part)
		parts = append(parts, part)
		switch {
		case part == "":
			return nil, fmt.Errorf("%s has a summand without a name, want columns such as input+output", clip(s))
		case strings.Trim(part, "0123456789") != "":
			total.columns = append(total.columns, part)
		default:
			n, err := strconv.ParseInt(part, 10, 64)
			if err != nil || n > math.MaxInt64-total.number {
				return nil, fmt.Errorf("%s is more than 64 bits hold", clip(s))
			}
			total.number += n
		}
	}
	total.text = strings.Join(parts, "+")
	return &total, nil
}

// String returns the sum as it was given, or nothing for one that was not.
func (s *sum) String() string {
	if s == nil {
		return ""
	}
	return s.text
}

// of adds up a row, in which value finds a column.
func (s *sum) of(value func(column string) string) (int64, error) {
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
		return 0, fmt.Errorf("%s %s is not a whole number of 64 bits", column, clip(value))
	case n < 0:
		return 0, fmt.Errorf("%s %d is negative", column, n)
	}
	return n, nil
}
