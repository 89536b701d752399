package traffic

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// A batch is events of one file in the order of its lines. Their clients are not numbered: the
// name of event i ends at ends[i] of names, and begins where the one before ends.
type batch struct {
	events []Event
	ends   []int
	names  []byte
	err    error // that ends the whole run
}

// batchSize is the greatest number of events of a batch, and of a call of each.
const batchSize = 1 << 12

// A stream puts the events of one file in the order of time.
//
// It keeps twice as many events as a line may be late. Whenever that many are there, it sorts
// them, and passes on the older half. So an event is out of its place only if more events than
// that are newer and come before it.
//
// Invariant: events[:ready] are sorted, and no event to come belongs before one of them unless
// it is late.
type stream struct {
	t      *Traffic
	in     <-chan batch
	room   int // how many lines late a line may be
	events []Event
	next   int // events[next:ready] can be passed on
	ready  int
	newest int64 // the time of the last event made ready
	ended  bool
}

func newStream(t *Traffic, in <-chan batch, room int) *stream {
	return &stream{t: t, in: in, room: room, newest: math.MinInt64}
}

// fill makes events ready unless some are, or the file has ended.
func (s *stream) fill(ctx context.Context) error {
	if s.next < s.ready || s.ended && len(s.events) == s.ready {
		return nil
	}
	// All that was ready has been passed on. The events that are left were too new for that.
	s.events = slices.Delete(s.events, 0, s.ready)
	s.next, s.ready = 0, 0
	for !s.ended && len(s.events) < max(2*s.room, 1) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b, open := <-s.in:
			if b.err != nil {
				return b.err
			}
			s.ended = !open
			s.number(b)
		}
	}
	s.sort()
	return nil
}

// number numbers the clients of a batch, and keeps its events.
func (s *stream) number(b batch) {
	begin := 0
	for i, e := range b.events {
		e.Client = s.t.client(b.names[begin:b.ends[i]])
		begin = b.ends[i]
		s.events = append(s.events, e)
	}
}

// sort sorts the events unless there is no room for late ones, and makes the older half ready, or all if no
// more will come. Late events get the time of the event before them.
func (s *stream) sort() {
	byTime := func(a, b Event) int { return cmp.Compare(a.At, b.At) }
	if s.room > 0 && !slices.IsSortedFunc(s.events, byTime) {
		slices.SortStableFunc(s.events, byTime)
	}
	s.ready = len(s.events)
	if !s.ended {
		s.ready -= s.room // a line to come may be older than these
	}
	for i := range s.events[:s.ready] {
		e := &s.events[i]
		if e.At < s.newest {
			s.t.Late++
		}
		s.newest = max(s.newest, e.At)
		e.At = s.newest
	}
}

// take returns events of at most the time until, and takes them off the stream. Events at until
// itself are taken only if inclusive is set.
func (s *stream) take(until int64, inclusive bool) []Event {
	begin := s.next
	for s.next < s.ready && s.next-begin < batchSize {
		if at := s.events[s.next].At; at > until || at == until && !inclusive {
			break
		}
		s.next++
	}
	return s.events[begin:s.next]
}

// A merger merges the streams of all files by time.
type merger struct {
	t       *Traffic
	streams []*stream
	sources []*source
	each    func(*Traffic, []Event) error
}

// run passes all events on.
func (m *merger) run(ctx context.Context) error {
	for {
		for _, s := range m.streams {
			if err := s.fill(ctx); err != nil {
				return err
			}
		}
		events := m.next()
		if len(events) == 0 {
			return ctx.Err()
		}
		// The events are a part of a stream. The next fill moves others to their places, so each must
		// be done with them when it returns.
		m.t.count(events)
		if err := m.each(m.t, events); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// next takes the oldest events, as many as one stream has before all others. Of events
// of one instant, the file named first comes first.
func (m *merger) next() []Event {
	first := -1
	for i, s := range m.streams {
		if s.next < s.ready && (first < 0 || m.head(i) < m.head(first)) {
			first = i
		}
	}
	if first < 0 {
		return nil
	}
	until, inclusive := int64(math.MaxInt64), true
	for i, s := range m.streams {
		if i == first || s.next == s.ready {
			continue
		}
		if at := m.head(i); at < until {
			// At until itself, the file that was named first comes first.
			until, inclusive = at, i > first
		}
	}
	return m.streams[first].take(until, inclusive)
}

func (m *merger) head(i int) int64 {
	s := m.streams[i]
	return s.events[s.next].At
}
