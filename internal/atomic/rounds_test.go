//go:build schedules || yields

package atomic

import (
	"maps"
	"sync"
	"testing"
)

func TestRounds_AreTheHighestOfEachLoop(t *testing.T) {
	before := Rounds()
	var loops sync.WaitGroup
	for i := range 8 {
		loops.Go(func() {
			for n := range 100 * (i + 1) {
				Round("test: long", n)
			}
			Round("test: short", 1)
			Round("test: none", 0)
		})
	}
	loops.Wait()
	Round("test: long", 3)
	maps.Copy(before, map[string]int{"test: long": 799, "test: short": 1, "test: none": 0})
	if rounds := Rounds(); !maps.Equal(rounds, before) {
		t.Errorf("Rounds() = %v, want %v", rounds, before)
	}
}
