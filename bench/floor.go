package main

import (
	"slices"

	"github.com/seed-30da4c49/sash/bench/internal/peers"
	"github.com/seed-30da4c49/sash/bench/internal/report"
)

// planFloor measures the steps that a decision is made of as speed measures decisions:
// admitted ones, of uniform keys, by no more than two goroutines.
func planFloor(l *lab) plan {
	reduced := *l.options
	reduced.answers, reduced.distributions = []string{admitted}, []string{l.distributions[0]}
	reduced.calls = []string{callAllow}
	reduced.goroutines = upTo(2, l.goroutines)
	reduced.keys = upTo(maxVariantKeys, l.keys)
	quiet := &lab{options: &reduced, here: l.here, budget: l.budget}
	s := &speedTest{lab: quiet, rows: quiet.speedRows(), all: append([]peers.Peer{peers.Sash()}, peers.Floors()...)}
	s.others = []peers.Peer{peers.MapFloor()}
	p := s.plan()
	p.result = func() (report.Result, error) {
		r := s.result()
		r.Notes = append(r.Notes, "Nanoseconds, as in speed, of contenders that decide nothing: each column makes one step more. The last column is the time of the floor divided by the time of sash, the median of the ratios within rounds. Where it is below 1, a decision could be faster with the same map and clock.")
		r.Notes = append(r.Notes, notesOn(s.all)...)
		return r, nil
	}
	return p
}

// upTo returns the numbers that are no greater than max, or max if none is.
func upTo(max int, numbers []int) []int {
	kept := slices.DeleteFunc(slices.Clone(numbers), func(n int) bool { return n > max })
	if len(kept) == 0 {
		return []int{max}
	}
	return kept
}
