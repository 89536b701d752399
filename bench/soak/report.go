package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// A report is what a run has found.
type report struct {
	Seconds float64 `json:"seconds"`
	Seed    uint64  `json:"seed"`
	Callers int     `json:"callers"`

	Limiters []row `json:"limiters"`
	Total    row   `json:"total"` // Keys is the sum of the limiters' Keys

	HeapBytes  startEnd[int64] `json:"heap_bytes"` // live bytes, while no key is tracked
	Goroutines startEnd[int]   `json:"goroutines"`

	Sweeps       int64 `json:"sweeps"` // without the sweeps of janitors
	LimitChanges int64 `json:"limit_changes"`
	Snapshots    int64 `json:"snapshots"`
	Restores     int64 `json:"restores"`

	OverAdmissions int      `json:"over_admissions"`
	OtherFaults    int      `json:"other_faults"`
	FirstFaults    []string `json:"first_faults"`
}

// A row counts the calls of one limiter.
type row struct {
	Name     string        `json:"name"`
	Calls    int64         `json:"calls"`
	Admitted int64         `json:"admitted"`
	Keys     int           `json:"keys"` // the greatest number seen
	Longest  time.Duration `json:"longest_ns"`
}

type startEnd[T any] struct {
	Start T `json:"start"`
	End   T `json:"end"`
}

// row returns the counts of all callers for the i-th subject.
func (s *soak) row(i int) row {
	r := row{Name: s.subjects[i].name, Keys: s.maxKeysSeen[i]}
	for _, c := range s.callers {
		t := &c.tallies[i]
		r.add(row{Calls: t.calls.Load(), Admitted: t.admitted.Load(), Longest: time.Duration(t.longest.Load())})
	}
	return r
}

func (r *row) add(o row) {
	r.Calls += o.Calls
	r.Admitted += o.Admitted
	r.Keys += o.Keys
	r.Longest = max(r.Longest, o.Longest)
}

func (s *soak) rows() (rows []row, total row) {
	total.Name = "all"
	for i := range s.subjects {
		rows = append(rows, s.row(i))
		total.add(rows[i])
	}
	return rows, total
}

func (r *report) fill(s *soak) {
	r.Limiters, r.Total = s.rows()
	o := s.operator
	r.Sweeps, r.LimitChanges = o.sweeps.Load(), o.changes.Load()
	r.Snapshots, r.Restores = o.snapshots.Load(), o.restores.Load()
	r.OverAdmissions, r.OtherFaults = s.faults.counts()
	r.FirstFaults = s.faults.first
}

// judge adds the faults that the figures themselves show.
func (r *report) judge() {
	fault := func(format string, args ...any) {
		r.OtherFaults++
		r.FirstFaults = append(r.FirstFaults, fmt.Sprintf(format, args...))
	}
	if grown := r.HeapBytes.End - r.HeapBytes.Start; grown > maxGrowth {
		fault("the heap has grown by %d bytes, though no key is left", grown)
	}
	if r.Goroutines.End > r.Goroutines.Start {
		fault("%d goroutines are left of those begun", r.Goroutines.End-r.Goroutines.Start)
	}
	for _, limiter := range r.Limiters {
		if limiter.Calls > 1000 && limiter.Admitted == 0 {
			fault("%s: nothing was admitted", limiter.Name)
		}
	}
}

func (r *report) failed() bool { return r.OverAdmissions+r.OtherFaults > 0 }

// line returns the live line. It overwrites the line before it.
func (s *soak) line() string {
	_, total := s.rows()
	over, others := s.faults.counts()
	return fmt.Sprintf("\r\x1b[K%v: %s calls, %s admitted, %d over-admissions, %d other faults, %s keys at most, longest call %v",
		time.Since(s.begun).Round(time.Second), humanize.Comma(total.Calls), humanize.Comma(total.Admitted),
		over, others, humanize.Comma(int64(total.Keys)), total.Longest.Round(time.Microsecond))
}

func (r *report) write(w io.Writer, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(r)
	}
	_, err := io.WriteString(w, r.markdown())
	return err
}

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%.1f s, %d callers, seed %d\n\n", r.Seconds, r.Callers, r.Seed)
	b.WriteString("| limiter | calls | admitted | keys at most | longest call |\n|---|---:|---:|---:|---:|\n")
	for _, row := range append(r.Limiters, r.Total) {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %v |\n", row.Name, humanize.Comma(row.Calls), humanize.Comma(row.Admitted),
			humanize.Comma(int64(row.Keys)), row.Longest.Round(time.Microsecond))
	}
	b.WriteString("\n| | at the start | at the end |\n|---|---:|---:|\n")
	fmt.Fprintf(&b, "| heap, no key tracked | %s | %s |\n", humanize.IBytes(uint64(r.HeapBytes.Start)), humanize.IBytes(uint64(r.HeapBytes.End)))
	fmt.Fprintf(&b, "| goroutines | %d | %d |\n", r.Goroutines.Start, r.Goroutines.End)
	b.WriteString("\n| while calls ran | |\n|---|---:|\n")
	for _, total := range []struct {
		name  string
		count int64
	}{
		{"sweeps, without the janitors'", r.Sweeps}, {"changes of limits", r.LimitChanges},
		{"snapshots", r.Snapshots}, {"restores", r.Restores},
		{"over-admissions", int64(r.OverAdmissions)}, {"other faults", int64(r.OtherFaults)},
	} {
		fmt.Fprintf(&b, "| %s | %s |\n", total.name, humanize.Comma(total.count))
	}
	for i, f := range r.FirstFaults {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "- %s\n", f)
	}
	return b.String()
}
