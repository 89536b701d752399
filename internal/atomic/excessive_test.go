//go:build schedules || yields

package atomic

import (
	"slices"
	"testing"
)

func TestExcessiveRounds_AreThoseAboveTheirBoundOrWithoutOne(t *testing.T) {
	most := map[string]int{"a": 4, "b": 0, "unused": 1}
	for _, c := range []struct {
		rounds map[string]int
		want   []string
	}{
		{nil, nil},
		{map[string]int{"a": 4, "b": 0}, nil},
		{map[string]int{"a": 5, "b": 0, "c": 0}, []string{
			`loop "a" reached round 5, more than 4`,
			`loop "c" has no bound in maxRounds; it reached round 0`,
		}},
	} {
		if got := excessive(c.rounds, most); !slices.Equal(got, c.want) {
			t.Errorf("excessive(%v) = %q, want %q", c.rounds, got, c.want)
		}
	}
	Round("test: without a bound", 2)
	if got := ExcessiveRounds(Rounds()); len(got) > 0 {
		t.Errorf("ExcessiveRounds(Rounds()) = %q, want none", got)
	}
	if got := ExcessiveRounds(nil); !slices.Contains(got, `loop "test: without a bound" has no bound in maxRounds; it reached round 2`) {
		t.Errorf("ExcessiveRounds(nil) = %q, without the loop that has no bound", got)
	}
}
