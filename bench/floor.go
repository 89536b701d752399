package main

import (
	"slices"

	"github.com/seed-30da4c49/sash/bench/internal/peers"
	"github.com/seed-30da4c49/sash/bench/internal/report"
)

// planFloor measures the steps that a decision is made of as speed measures decisions:
// admitted ones, by one goroutine, of uniform keys.
func planFloor(l *lab) plan {
	one := *l.options
	one.answers, one.goroutines, one.peers = []string{admitted}, []int{1}, nil
	one.distributions = []string{l.distributions[0]}
	one.keys = slices.DeleteFunc(slices.Clone(l.keys), func(n int) bool { return n > few })
	if len(one.keys) == 0 {
		one.keys = []int{few}
	}
	quiet := &lab{options: &one, here: l.here, budget: l.budget}
	s := &speedTest{lab: quiet, rows: quiet.speedRows(), all: append([]peers.Peer{peers.Sash()}, peers.Floors()...)}
	p := s.plan()
	p.result = func() (report.Result, error) {
		r := s.result()
		for i := range r.Tables { // which end in a peer that there is none of
			t := &r.Tables[i]
			for j := range t.Rows {
				t.Rows[j] = t.Rows[j][:len(t.Rows[j])-2]
			}
			t.Columns = t.Columns[:len(t.Columns)-2]
		}
		r.Notes = append(r.Notes, "Nanoseconds, as in speed, of what decides nothing: one step more in each column. What sash takes above the floor is what is left to win without another map or clock.")
		r.Notes = append(r.Notes, notesOn(s.all)...)
		return r, nil
	}
	return p
}
