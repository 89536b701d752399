package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/bench/internal/report"
	"github.com/seed-30da4c49/sash/bench/internal/rounds"
	"github.com/seed-30da4c49/sash/sashredis"
)

// reserved is the number of units of each record to which measureRefunds gives back. One unit less has as many
// binary digits 1 as there can be.
const reserved = 8

// measureRefunds measures what giving units back costs the server, by how many records a log has. It
// also measures a Take of that log, before and after.
func measureRefunds(ctx context.Context, l *lab) error {
	t := report.Table{Title: "units given back to a log", Columns: []string{
		"records", "given back", "Take before: script µs", "commands", "giving back: script µs", "commands", "Take after: script µs", "commands",
	}}
	var fault error
	for _, records := range l.records {
		for _, units := range []int64{reserved, reserved - 1} {
			r, err := l.refund(ctx, records, units)
			if fault = err; err != nil {
				break
			}
			l.found = append(l.found, record{"refunds", fmt.Sprintf("%d of %d units, %d records", units, reserved, records), 1, r.values()})
			t.Rows = append(t.Rows, []string{
				count(float64(records)), fmt.Sprintf("%d of %d units", units, reserved),
				figure(r.before.micros), figure(r.before.commands), figure(r.back.micros), figure(r.back.commands), figure(r.after.micros), figure(r.after.commands),
			})
		}
		if fault != nil {
			break
		}
	}
	t.Notes = []string{"One SlidingLog, one caller. Each record is a Reserve of 8 units, made at an instant of its own. The reservations that give units back are settled in random order. The microseconds are what the server counts for EVALSHA (commandstats), without the connection: the median of 20 turns."}
	l.result.Tables = append(l.result.Tables, t)
	return fault
}

// A price is what one call costs the server.
type price struct{ micros, commands float64 }

// A refund is the prices of calls on a log, before units are given back, of giving them back, and after.
type refund struct{ before, back, after price }

func (r refund) values() map[string]float64 {
	return map[string]float64{
		"take_before_us": r.before.micros, "take_before_commands": r.before.commands, "back_us": r.back.micros,
		"back_commands": r.back.commands, "take_after_us": r.after.micros, "take_after_commands": r.after.commands,
	}
}

// refund measures a log with that many records, where units of some of them are given back.
func (l *lab) refund(ctx context.Context, records int, units int64) (r refund, err error) {
	if err := l.clear(ctx); err != nil {
		return r, err
	}
	conn, end, err := connect(viaRueidis, &wire{socket: l.socket})
	if err != nil {
		return r, err
	}
	limits := []sash.Limit{{Algorithm: sash.SlidingLog, Count: 1 << 40, Window: 24 * time.Hour}}
	limiter, err := sashredis.New(conn, limits, sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(patience))
	if err != nil {
		return r, errors.Join(err, end())
	}
	defer func() { err = errors.Join(err, limiter.Close(), end()) }()
	all := make([]sashredis.Reservation, records)
	for i := range all {
		var d sashredis.Decision
		if all[i], d = limiter.Reserve(ctx, "log", reserved); !d.Allowed {
			return r, fmt.Errorf("a Reserve was not admitted: %w", d.Err)
		}
	}
	take := func(int) error {
		if d := limiter.Take(ctx, "log", 1); !d.Allowed {
			return fmt.Errorf("a Take was not admitted: %w", d.Err)
		}
		return nil
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	settled := min(records/2, l.settled)
	if r.before, err = l.price(ctx, l.settled, take); err != nil {
		return r, err
	}
	if r.back, err = l.price(ctx, settled, func(i int) error { return all[i].Commit(ctx, reserved-units) }); err != nil {
		return r, err
	}
	r.after, err = l.price(ctx, l.settled, take)
	return r, err
}

// price returns what one of that many calls costs: the median time of several turns, and the average number
// of commands.
func (l *lab) price(ctx context.Context, calls int, call func(i int) error) (p price, err error) {
	const turns = 20
	var micros []float64
	for turn := range turns {
		from, to := calls*turn/turns, calls*(turn+1)/turns
		if from == to {
			continue
		}
		before, err := l.read(ctx)
		if err != nil {
			return p, err
		}
		for i := from; i < to; i++ {
			if err := call(i); err != nil {
				return p, err
			}
		}
		after, err := l.read(ctx)
		if err != nil {
			return p, err
		}
		micros = append(micros, (after.scripts-before.scripts)/float64(to-from))
		p.commands += (after.commands - before.commands) / float64(calls)
	}
	p.micros = rounds.Median(micros)
	return p, nil
}
