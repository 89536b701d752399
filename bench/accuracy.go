package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/bench/internal/accuracy"
	"github.com/seed-30da4c49/sash/bench/internal/progress"
	"github.com/seed-30da4c49/sash/bench/internal/report"
	"github.com/seed-30da4c49/sash/bench/internal/traffic"
)

// recordedLimits are those that recorded traffic is held to.
var recordedLimits = []sash.Limit{sash.PerSecond(10), sash.PerMinute(60), sash.PerHour(240)}

// shortUnits makes 1h0m0s of a limit's text 1h.
var shortUnits = strings.NewReplacer("h0m0s", "h", "m0s", "m")

// A judged is what all contenders made of one traffic under one limit.
type judged struct {
	traffic  string
	made     bool
	limit    sash.Limit
	verdicts []accuracy.Verdict
}

func planAccuracy(l *lab) (p plan) {
	var found []judged
	clients, windows, most := 20, 400, 0
	if l.quick {
		clients, windows, most = 1, 40, 1000
	}
	judge := func(ctx context.Context, name string, made bool, t *traffic.Traffic, limit sash.Limit) error {
		verdicts, err := accuracy.Judge(ctx, t, limit, accuracy.Contenders())
		if err == nil {
			found = append(found, judged{name, made, limit, verdicts})
		}
		return err
	}
	for _, m := range accuracy.Made {
		p.steps = append(p.steps, step{time.Second, func(ctx context.Context) error {
			return judge(ctx, m.Name, true, m.Make(clients, windows), accuracy.Limit)
		}})
	}
	files, note := recordings(l.data)
	for _, file := range files {
		p.steps = append(p.steps, step{500 * time.Millisecond, func(ctx context.Context) error {
			t, err := readRecording(ctx, file, most)
			for _, limit := range recordedLimits {
				if err == nil {
					err = judge(ctx, filepath.Base(file), false, t, limit)
				}
			}
			return err
		}})
	}
	p.result = func() (report.Result, error) {
		r := accuracyResult(found)
		r.Notes = append(note,
			"Each limiter has its own history. *Wrongly* is beside the exact log: admitted what it denied, denied what it admitted; shares are of all events. *Most*: what one client was admitted in any window whatever, and how many times the limit that is; *proven*: how many times it can be at most (see the README).",
			"Where clients come far over the limit, limiters that admit about as much disagree about which.",
			"Buckets are a 60th, a 10th and a half of a window wide; one as wide as the window is a fixed window. Token bucket: golang.org/x/time/rate, of Count tokens that are back after a window.")
		if most > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("Only the first %s events of each recording.", humanize.Comma(int64(most))))
		}
		return r, nil
	}
	return p
}

// recordings returns the files that can be read without being told their columns, and
// says so if there are none.
func recordings(dir string) (files, note []string) {
	for _, pattern := range []string{"*.log", "*.log.gz", "*.tsv", "*.tsv.gz"} {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // which errs by pattern only
		files = append(files, found...)
	}
	if len(files) == 0 {
		note = []string{"**Left out:** recorded traffic, of which there is none in " + strconv.Quote(dir) + " (-data)."}
		if _, err := os.Stat(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			note[0] += " " + err.Error()
		}
	}
	slices.Sort(files)
	return files, note
}

// readRecording reads a file, whose lines that cannot be read are passed over, or its
// first events.
func readRecording(ctx context.Context, file string, most int) (*traffic.Traffic, error) {
	t, err := traffic.Read(ctx, []string{file}, nil, traffic.Key{traffic.Addr}, traffic.Columns{}, progress.On(io.Discard))
	if err != nil {
		return nil, err
	}
	if most > 0 {
		t.Events = t.Events[:min(most, len(t.Events))]
	}
	return t, nil
}

// An accuracyRecord is one limiter under one limit on one traffic, in JSON.
type accuracyRecord struct {
	Traffic         string     `json:"traffic"`
	Synthetic       bool       `json:"synthetic"`
	Limit           sash.Limit `json:"limit"`
	Limiter         string     `json:"limiter"`
	Events          int64      `json:"events"`
	Denied          int64      `json:"denied"`
	WronglyAdmitted int64      `json:"wrongly_admitted"`
	WronglyDenied   int64      `json:"wrongly_denied"`
	Most            int64      `json:"most_in_any_window"`
	Overshoot       float64    `json:"overshoot"`        // of the limit
	Proven          *float64   `json:"proven_overshoot"` // null: nothing is
}

func accuracyResult(found []judged) (r report.Result) {
	records := []accuracyRecord{}
	made := report.Table{Title: "made-up traffic"}
	recorded := report.Table{Title: "recorded traffic"}
	made.Columns = []string{"traffic", "events", "limit", "limiter", "denies", "wrongly admits", "wrongly denies", "most", "× limit", "proven"}
	recorded.Columns = made.Columns
	worst := report.Plot{Name: "made", Title: "made-up traffic: most that is admitted in any window", X: "kinds of traffic, as in the table", Y: "× limit", Bars: true}
	wrong := report.Plot{Name: "recorded", Title: "recorded traffic: wrong answers", Y: "% of events", Bars: true}
	for _, c := range accuracy.Contenders() {
		worst.Series = append(worst.Series, report.Series{Name: c.Name})
		wrong.Series = append(wrong.Series, report.Series{Name: c.Name})
	}
	for _, j := range found {
		table, plot, place := &recorded, &wrong, strings.SplitN(j.traffic, "_", 2)[0]+"\n"+shortUnits.Replace(j.limit.String())
		if j.made {
			table, plot, place = &made, &worst, strconv.Itoa(len(worst.Places)+1)
		}
		plot.Places = append(plot.Places, place)
		for i, v := range j.verdicts {
			record := newAccuracyRecord(j, v)
			records = append(records, record)
			table.Rows = append(table.Rows, accuracyLine(j, v, i == 0))
			value := 1 + record.Overshoot
			if !j.made {
				value = 100 * float64(v.WronglyAdmitted+v.WronglyDenied) / float64(max(1, v.Events))
			}
			plot.Series[i].Values = append(plot.Series[i].Values, value)
		}
	}
	for _, t := range []report.Table{made, recorded} {
		if len(t.Rows) > 0 {
			r.Tables = append(r.Tables, t)
		}
	}
	r.Records, r.Plots = records, []report.Plot{worst, wrong}
	return r
}

func newAccuracyRecord(j judged, v accuracy.Verdict) accuracyRecord {
	record := accuracyRecord{j.traffic, j.made, j.limit, v.Contender.Name, v.Events, v.Denied, v.WronglyAdmitted, v.WronglyDenied,
		v.Most, float64(v.Most)/float64(j.limit.Count) - 1, nil}
	if v.Contender.Bound > 0 {
		record.Proven = finite(v.Contender.Bound - 1)
	}
	return record
}

// accuracyLine returns the cells of one limiter, with the traffic in the first of each.
func accuracyLine(j judged, v accuracy.Verdict, first bool) []string {
	share := func(n int64) string {
		if n == 0 || v.Events == 0 {
			return humanize.Comma(n)
		}
		return fmt.Sprintf("%s (%.2g %%)", humanize.Comma(n), 100*float64(n)/float64(v.Events))
	}
	proven := report.None
	if v.Contender.Bound > 0 {
		proven = "≤ " + times(v.Contender.Bound)
		if v.Contender.Strict {
			proven = "< " + times(v.Contender.Bound)
		}
	}
	about := []string{"", "", ""}
	if first {
		about = []string{j.traffic, humanize.Comma(v.Events), j.limit.String()}
	}
	return append(about, v.Contender.Name, humanize.Comma(v.Denied), share(v.WronglyAdmitted), share(v.WronglyDenied),
		humanize.Comma(v.Most), times(float64(v.Most)/float64(j.limit.Count)), proven)
}
