package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed-30da4c49/sash/bench/internal/keys"
	"github.com/seed-30da4c49/sash/bench/internal/report"
	"github.com/seed-30da4c49/sash/bench/internal/rounds"
)

// many is the greatest number of callers, for which the aims are.
func (s scale) many() int { return s.callers[len(s.callers)-1] }

// measure runs the subjects under load, one after the other, in rounds. The keys of a
// round are the same for all. Before each turn, prepare is called.
func (l *lab) measure(ctx context.Context, subjects []subject, q quota, load load, choose func(round int) []string, prepare func() error) ([]*series, error) {
	all := make([]*series, len(subjects))
	for i, s := range subjects {
		all[i] = &series{subject: s, callers: load.callers}
	}
	for round := range l.rounds {
		load.keys = choose(round)
		for _, i := range rounds.Order(len(all), round) {
			if err := prepare(); err != nil {
				return all, err
			}
			got, err := l.turnOf(ctx, all[i].subject, q, load)
			if err != nil {
				return all, fmt.Errorf("%s: %w", all[i].name, err)
			}
			all[i].samples = append(all[i].samples, got)
		}
	}
	return all, ctx.Err()
}

// turnOf measures one subject once.
func (l *lab) turnOf(ctx context.Context, s subject, q quota, load load) (got sample, err error) {
	w := &wire{socket: l.socket}
	c, err := s.open(w, q)
	if err != nil {
		return got, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	load.lasts, load.timed = l.turn, true
	return load.apply(ctx, l.server, w, c)
}

func (l *lab) cleared(ctx context.Context) func() error {
	return func() error { return l.clear(ctx) }
}

func measureHot(ctx context.Context, l *lab) error {
	var all []*series
	var fault error
	for _, callers := range l.callers {
		found, err := l.measure(ctx, forHotKey(), plenty, load{callers: callers}, func(int) []string { return []string{"hot"} }, l.cleared(ctx))
		all = append(all, found...)
		if fault = err; fault != nil {
			break
		}
		if peer := best(found); callers == l.many() {
			l.goals.set("hot", &l.goals.hot, max(found[0].times(peer), found[1].times(peer)))
		}
	}
	l.speedTable("hot", "one hot key, all admitted", all)
	return fault
}

// script is the number of calls after which the callers begin anew.
const script = 1 << 17

func measureNew(ctx context.Context, l *lab) error {
	var all []*series
	var fault error
	for _, callers := range l.callers {
		choose := func(round int) []string {
			return keys.Script(script, keys.Chooser(keys.Uniform, l.keys, int64(round)))
		}
		found, err := l.measure(ctx, forManyKeys(), some, load{callers: callers}, choose, l.cleared(ctx))
		all = append(all, found...)
		if fault = err; fault != nil {
			break
		}
	}
	l.speedTable("new", "keys of "+keys.Label(l.keys)+", uniformly, in an empty store", all)
	return fault
}

func measureKnown(ctx context.Context, l *lab) error {
	if err := l.clear(ctx); err != nil {
		return err
	}
	subjects := forManyKeys()
	memory := report.Table{Title: "memory of a key in the store", Columns: []string{"state", "bytes", "MEMORY USAGE", "bytes of its name"}}
	seen := map[string]bool{}
	for _, s := range subjects {
		if s.floor || seen[s.state] {
			continue
		}
		seen[s.state] = true
		u, err := l.fill(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		l.found = append(l.found, record{"memory", s.state, 0, map[string]float64{"bytes": u.bytes, "memory_usage": u.usage, "name_bytes": u.name}})
		memory.Rows = append(memory.Rows, []string{s.state, figure(u.bytes), figure(u.usage), figure(u.name)})
	}
	memory.Notes = []string{fmt.Sprintf("%s keys after one call each. Bytes are the growth of the server's memory for each key, with its part of the tables of keys and of expiries. MEMORY USAGE is the average of what that command says.", count(float64(l.known)))}
	l.result.Tables = append(l.result.Tables, memory)

	choose := func(round int) []string {
		return keys.Script(script, keys.Chooser(keys.Uniform, l.known, int64(round)))
	}
	found, err := l.measure(ctx, subjects, some, load{callers: l.many()}, choose, func() error { return nil })
	if err == nil {
		peer := best(found)
		ratio := peer.times(found[0])
		if other, ok := seriesNamed(found, "sash "+counter+", "+viaGoRedis); ok {
			ratio = min(ratio, peer.times(other))
		}
		l.goals.set("distinct", &l.goals.distinct, ratio)
		ours, _ := seriesNamed(found, "sash "+counter+", "+viaGoRedis)
		if rate, ok := seriesNamed(found, "redis_rate"); ok && ours != nil {
			l.goals.set("same client", &l.goals.sameClient, rate.times(ours))
		}
	}
	l.speedTable("known", "keys of "+keys.Label(l.known)+", uniformly, all known to the store", found)
	return err
}

func seriesNamed(all []*series, name string) (*series, bool) {
	for _, s := range all {
		if s.name == name {
			return s, true
		}
	}
	return nil, false
}
