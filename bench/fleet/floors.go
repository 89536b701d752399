package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	counting "github.com/seed-30da4c49/sash/internal/count"
)

// floors returns subjects whose scripts decide nothing. No limiter takes less than a script that does
// nothing. None that reads its key and writes it with an expiry, at the time of the server, takes less
// than a script that does this.
func floors() (all []subject) {
	const readAndWrite = `redis.call('TIME')
local value = redis.call('GET', KEYS[1])
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return value or ''`
	for _, s := range []struct {
		name, text string
		args       []string
	}{
		{"nothing", "return ''", nil},
		{"read and write", readAndWrite, []string{"20783 0 1000;;;", "86400000"}},
	} {
		all = append(all, scriptByRueidis(s.name, s.text, s.args), scriptByGoRedis(s.name, s.text, s.args))
	}
	return all
}

// scriptByRueidis returns the subject that runs a script by rueidis.
func scriptByRueidis(name, text string, args []string) subject {
	return subject{name: name + ", " + viaRueidis, floor: true, open: func(w *wire, _ quota) (*client, error) {
		c, err := newRueidis(w)
		if err != nil {
			return nil, err
		}
		s := rueidis.NewLuaScript(text)
		return &client{
			take: func(key string) (bool, error) {
				_, err := s.Exec(context.Background(), c, []string{key}, args).ToString()
				return err == nil, err
			},
			close: func() error { c.Close(); return nil },
		}, nil
	}}
}

// scriptByGoRedis returns the subject that runs a script by go-redis.
func scriptByGoRedis(name, text string, args []string) subject {
	boxed := make([]any, len(args))
	for i := range args {
		boxed[i] = &args[i]
	}
	return subject{name: name + ", " + viaGoRedis, floor: true, open: func(w *wire, _ quota) (*client, error) {
		c := goRedis(w, redis.Options{})
		s := redis.NewScript(text)
		return &client{
			take: func(key string) (bool, error) {
				_, err := s.Run(context.Background(), c, []string{key}, boxed...).Text()
				return err == nil, err
			},
			close: c.Close,
		}, nil
	}}
}

// woken returns the floor of calls for one key that share round trips: the script does nothing, and each
// caller but the first is woken by a channel of its own. Nothing else is done.
func woken() subject {
	nothing := floors()[0]
	return subject{name: "nothing, shared, " + viaRueidis, floor: true, open: func(w *wire, q quota) (*client, error) {
		c, err := nothing.open(w, q)
		if err != nil {
			return nil, err
		}
		s := &shared{of: c}
		return &client{take: s.take, close: c.close}, nil
	}}
}

// decided returns the floor of a limiter that shares round trips: it knows of each call whether it is denied
// before it waits, and decides it after that. Package sash does both.
func decided() subject {
	shares, decides := woken(), core()
	return subject{name: "nothing, shared, decided, " + viaRueidis, floor: true, open: func(w *wire, q quota) (*client, error) {
		c, err := shares.open(w, q)
		if err != nil {
			return nil, err
		}
		d, err := decides.open(w, q)
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		return &client{
			take: func(key string) (bool, error) {
				if yes, err := d.take(key); !yes || err != nil {
					return yes, err
				}
				if _, err := c.take(key); err != nil {
					return false, err
				}
				return d.take(key)
			},
			close: func() error { return errors.Join(c.close(), d.close()) },
		}, nil
	}}
}

// counted returns the floor of calls that are denied in this process and counted: a Take of package sash, and
// an addition.
func counted() subject {
	denied := new(counting.Counter)
	s := core()
	return subject{name: s.name + ", counted", floor: true, open: func(w *wire, q quota) (*client, error) {
		c, err := s.open(w, q)
		if err != nil {
			return nil, err
		}
		return &client{close: c.close, take: func(key string) (bool, error) {
			yes, err := c.take(key)
			if !yes {
				denied.Add(1)
			}
			return yes, err
		}}, nil
	}}
}

// A shared has at most one round trip under way. Callers that come during it wait for the next.
type shared struct {
	of       *client
	mu       sync.Mutex
	underway bool
	waiting  []chan error
	channels sync.Pool
}

func (s *shared) take(key string) (bool, error) {
	s.mu.Lock()
	if s.underway {
		c, ok := s.channels.Get().(chan error)
		if !ok {
			c = make(chan error, 1)
		}
		s.waiting = append(s.waiting, c)
		s.mu.Unlock()
		err := <-c
		s.channels.Put(c)
		return err == nil, err
	}
	s.underway = true
	s.mu.Unlock()
	yes, err := s.of.take(key)
	if next := s.next(); next != nil {
		go s.takeFor(key, next)
	}
	return yes, err
}

// takeFor makes round trips for callers that wait, until there are none.
func (s *shared) takeFor(key string, callers []chan error) {
	for callers != nil {
		_, err := s.of.take(key)
		for _, c := range callers {
			c <- err // there is room
		}
		callers = s.next()
	}
}

// next returns the callers that wait. If there are none, no round trip is under way any more.
func (s *shared) next() (callers []chan error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	callers, s.waiting = s.waiting, nil
	s.underway = callers != nil
	return callers
}

// word returns the floor of units that two cores take from one lease: a word that each call lowers.
func word() subject {
	return subject{name: "one word", floor: true, open: func(*wire, quota) (*client, error) {
		var left atomic.Int64
		left.Store(1 << 62)
		return &client{
			take: func(string) (bool, error) {
				for {
					if n := left.Load(); n > 0 && left.CompareAndSwap(n, n-1) {
						return true, nil
					}
				}
			},
			close: func() error { return nil },
		}, nil
	}}
}
