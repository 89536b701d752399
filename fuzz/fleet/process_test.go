package fleet

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/goredisconn"
	"github.com/seed-30da4c49/sash/sashredis/httpstore"
	"github.com/seed-30da4c49/sash/sashredis/rueidisconn"
)

// A plan is what one process does in a history. Its calls follow from the seed, what comes of
// them does not.
type plan struct {
	Addr    string
	Prefix  string // of the history
	Limits  []sash.Limit
	Process int
	Seed    uint64
	Callers int
	Calls   int           // of each caller
	Pause   time.Duration // between two calls, at most
	Mirror  int
	Settles bool // whether there are reservations and resets
	Frees   bool // whether reservations are settled by Release, and there are no resets
	Several bool // whether calls take several keys
	Brings  bool // whether most calls bring limits of other Counts and Bursts than Limits has

	Lease    int64 // 0: there are none
	LeaseFor time.Duration
	Reopens  bool // whether the limiter is closed halfway, and a new one goes on
}

// holds reports whether units are held under a limit of p.
func (p *plan) holds() bool {
	return slices.ContainsFunc(p.Limits, func(l sash.Limit) bool { return l.Algorithm == sash.Concurrency })
}

// A verb is the method that an operation calls.
type verb string

const (
	takes    verb = "Take"
	leaves   verb = "TakeLeaving"
	takesTo  verb = "TakeUpTo"
	takesAll verb = "TakeAll"
	peeks    verb = "Peek"
	peeksAll verb = "PeekAll"
	reserves verb = "Reserve"
	settles  verb = "Commit"
	resets   verb = "Reset"
)

// An operation is one call.
type operation struct {
	Process, Caller, Number int // the number is unique in its process
	Verb                    verb
	Keys                    []string
	Units                   int64 // of a Commit: the actual cost; of a TakeUpTo: at most
	Leave                   int64 // units that must remain of the first key
	Taken                   int64 // by a TakeUpTo
	Of                      int   // the number of the Reserve that is settled

	Limits []sash.Limit // that the call brings; nil: the plan's

	// The server's clock showed Began or more when the call began, and Ended or less when it
	// ended, in microseconds since 1970.
	Began, Ended int64

	// Instants are the times of the round trips that may have decided the call.
	Instants []int64

	Decision sash.Decision
	By       sashredis.By
	Err      string
}

func (o *operation) String() string {
	return fmt.Sprintf("process %d, caller %d, from %d to %d, at %d: %s(%q, %d), leaving %d, taking %d, under %v = %+v by %v %s",
		o.Process, o.Caller, o.Began, o.Ended, o.Instants, o.Verb, o.Keys, o.Units, o.Leave, o.Taken, o.Limits, o.Decision, o.By, o.Err)
}

// A record is what one process did.
type record struct {
	Operations []*operation
	Stats      sashredis.Stats
	Faults     []string // of what no operation tells
}

// now returns the time in microseconds since 1970, by the clock that a server on this machine
// reads as well.
func now() int64 { return time.Now().UnixMicro() }

// A recorder is a Conn that notes the round trips.
type recorder struct {
	sashredis.Conn
	prefix string

	mu     sync.Mutex
	trips  []trip
	faults []string
}

// A trip is a round trip.
type trip struct {
	verb           verb // takes, reserves, settles or resets
	keys           []string
	calls          []string // such as "3+1", "0?2", "1^4" and "3+1-5"
	sent, received int64
	at             int64 // what the server's clock showed to the script
}

func (r *recorder) Run(ctx context.Context, s *sashredis.Script, keys, args []string) (string, error) {
	t := trip{verb: takes, sent: now()}
	reply, err := r.Conn.Run(ctx, s, keys, args)
	t.received = now()
	if err != nil {
		return reply, err
	}
	for _, key := range keys {
		name, _, _ := strings.Cut(strings.TrimPrefix(key, r.prefix), ":")
		t.keys = append(t.keys, name)
	}
	first, _, decides := strings.Cut(reply, "|")
	t.at, err = strconv.ParseInt(first, 10, 64)
	switch {
	case !decides && len(args) > 1:
		t.verb = settles
	case !decides:
		t.verb = resets
	case args[2] != "" && args[3] == "":
		t.verb = reserves
	}
	if decides {
		t.calls = strings.Fields(args[1])
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil || t.at < t.sent || t.at > t.received {
		r.faults = append(r.faults, fmt.Sprintf("a script ran from %d to %d and answered %q", t.sent, t.received, reply))
	}
	r.trips = append(r.trips, t)
	return reply, nil
}

// instants returns the instants of the trips that may have decided o. holds tells whether the limits hold units.
func (r *recorder) instants(o *operation, holds bool) (instants []int64) {
	want, operation := o.Verb, '+'
	switch {
	case o.Verb == takesAll && o.Leave > 0 && holds:
		want = reserves // so that httplimit can give it back
	case o.Verb == leaves:
		want = takes
	case o.Verb == takesTo:
		want, operation = takes, '^'
	case o.Verb == takesAll:
		want = takes
	case o.Verb == peeks || o.Verb == peeksAll:
		want, operation = takes, '?'
	}
	if o.Units == 0 && o.Verb != settles {
		operation = '?'
	}
	decides := func(call string) bool {
		var units, times, leave int64
		var is rune
		_, _ = fmt.Sscanf(call, "%d%c%d-%d", &units, &is, &times, &leave) // without what it is to leave, if that is nothing
		if is == '^' {
			units = times
		}
		return is == operation && units == o.Units && leave == o.Leave
	}
	for _, t := range r.trips {
		inside := o.Began <= t.sent && t.received <= o.Ended
		if inside && t.verb == want && slices.Equal(t.keys, o.Keys) && (t.calls == nil || slices.ContainsFunc(t.calls, decides)) {
			instants = append(instants, t.at)
		}
	}
	slices.Sort(instants)
	return slices.Compact(instants)
}

// serve is a process: for each plan that it reads it writes that it is ready, reads that all
// are, and writes its record. It returns at the end of in.
func serve(in io.Reader, out io.Writer) error {
	plans, records := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var p plan
		if err := plans.Decode(&p); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		conn, disconnect, err := connect(&p)
		if err != nil {
			return err
		}
		var ready bool
		if err := records.Encode(true); err != nil {
			return err
		}
		if err := plans.Decode(&ready); err != nil {
			return err
		}
		r, err := p.carryOut(conn)
		disconnect()
		if err != nil {
			return err
		}
		if err := records.Encode(r); err != nil {
			return err
		}
	}
}

// connect connects to the server of p, by go-redis or by rueidis.
func connect(p *plan) (conn sashredis.Conn, disconnect func(), err error) {
	if p.Process%2 == 0 {
		client := redis.NewClient(&redis.Options{Network: "unix", Addr: p.Addr, ContextTimeoutEnabled: true})
		return goredisconn.New(client), func() { client.Close() }, client.Ping(context.Background()).Err()
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{p.Addr}, DisableCache: true, ForceSingleClient: true,
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			return d.DialContext(ctx, "unix", addr)
		},
	})
	if err != nil {
		return nil, nil, err
	}
	return rueidisconn.New(client), client.Close, nil
}

// A process is one that carries out a plan.
type process struct {
	*plan
	*recorder

	limiter      *sashredis.Limiter
	mu           sync.Mutex
	operations   []*operation
	reservations map[int]sashredis.Reservation // by the number of the Reserve; nobody settles them yet
}

// carryOut carries p out, and returns what came of it.
func (p *plan) carryOut(conn sashredis.Conn) (*record, error) {
	r := &process{plan: p, recorder: &recorder{Conn: conn, prefix: p.Prefix}, reservations: map[int]sashredis.Reservation{}}
	var total sashredis.Stats
	halves := 1
	if p.Reopens {
		halves = 2
	}
	for half := range halves {
		options := []sashredis.Option{
			sashredis.WithFallback(sashredis.FallbackAdmit), sashredis.WithPrefix(p.Prefix),
			sashredis.WithTimeout(20 * time.Second), sashredis.WithMirror(p.Mirror),
		}
		if p.Lease > 0 {
			options = append(options, sashredis.WithLease(p.Lease, p.LeaseFor))
		}
		var err error
		if r.limiter, err = sashredis.New(r.recorder, p.Limits, options...); err != nil {
			return nil, err
		}
		var callers sync.WaitGroup
		for caller := range p.Callers {
			callers.Go(func() { r.call(caller, half, p.Calls/halves) })
		}
		callers.Wait()
		if err := r.limiter.Close(); err != nil {
			return nil, err
		}
		s := r.limiter.Stats()
		total.Store, total.Mirror, total.Lease, total.Fallback = total.Store+s.Store, total.Mirror+s.Mirror, total.Lease+s.Lease, total.Fallback+s.Fallback
		total.RoundTrips, total.Combined = total.RoundTrips+s.RoundTrips, total.Combined+s.Combined
		total.Leased, total.Returned = total.Leased+s.Leased, total.Returned+s.Returned
	}
	for _, o := range r.operations {
		if o.By == sashredis.ByStore {
			o.Instants = r.instants(o, p.holds())
		}
	}
	return &record{r.operations, total, r.faults}, nil
}

// call makes the calls of one caller.
func (p *process) call(caller, half, calls int) {
	random := rand.New(rand.NewPCG(p.Seed, uint64(1000*p.Process+10*caller+half)))
	for range calls {
		o := p.next(random, caller)
		p.do(o)
		// The clock is a real server's. So that windows pass and leases lapse between calls,
		// some real time must pass. No expectation depends on how much.
		if p.Pause > 0 && random.IntN(3) > 0 {
			time.Sleep(time.Duration(random.Int64N(int64(p.Pause))))
		}
	}
}

// next returns the next operation of a caller.
func (p *process) next(random *rand.Rand, caller int) *operation {
	p.mu.Lock()
	defer p.mu.Unlock()
	o := &operation{Process: p.Process, Caller: caller, Number: len(p.operations), Verb: takes, Of: -1}
	p.operations = append(p.operations, o)
	keys := []string{"a", "a", "a", "b", "c"}
	if p.Lease > 0 {
		keys = []string{"a", "b"}
	}
	o.Keys = []string{keys[random.IntN(len(keys))]}
	if p.Brings && random.IntN(4) > 0 {
		o.Limits = vary(random, p.Limits)
	}
	most := int64(1)
	for _, l := range p.Limits {
		most = max(most, l.Count/4)
	}
	o.Units = 1 + random.Int64N(min(most, 4))
	if random.IntN(10) == 0 && p.Lease == 0 {
		o.Units = random.Int64N(4*most + 2)
	}
	switch kind := random.IntN(10); {
	case kind == 0:
		o.Verb = peeks
	case p.Several && kind <= 2:
		o.Verb, o.Keys = takesAll, [][]string{{"a", "b"}, {"b", "a"}, {"c", "a"}}[random.IntN(3)]
		o.Leave = random.Int64N(most+1) * random.Int64N(2)
	case p.Several && kind == 3:
		o.Verb, o.Keys = peeksAll, []string{"a", "b"}
	case p.Settles && kind <= 4:
		o.Verb, o.Leave = reserves, random.Int64N(most+1)*random.Int64N(2)
	case kind == 9 && random.IntN(2) == 0 && o.Units > 0:
		o.Verb = takesTo
	case kind == 9:
		o.Verb, o.Leave = leaves, random.Int64N(most+1)
	case p.Settles && kind <= 7 && len(p.reservations) > 0:
		for o.Of = range p.reservations { // any
			break
		}
		reserved := p.operations[o.Of]
		o.Verb, o.Keys, o.Limits = settles, reserved.Keys, reserved.Limits
		o.Units = random.Int64N(2*reserved.Units + 2)
		switch {
		case p.Frees:
			o.Units = reserved.Units
		case o.Units == reserved.Units && !p.holds():
			o.Units = 0 // one that makes a difference
		}
		if reserved.Units == 0 {
			o.Units = 1
		}
	case p.Settles && !p.Frees && kind == 8 && random.IntN(4) == 0:
		o.Verb, o.Units = resets, 0
	}
	return o
}

// vary returns limits of other Counts, or of other Bursts under token buckets: so keys share their counts.
func vary(random *rand.Rand, limits []sash.Limit) []sash.Limit {
	limits = slices.Clone(limits)
	for i, l := range limits {
		if l.Algorithm == sash.TokenBucket {
			limits[i].Burst = 1 + random.Int64N(2*l.Burst)
		} else {
			limits[i].Count = 1 + random.Int64N(2*l.Count)
		}
	}
	return limits
}

// limiter returns the limiter that makes o, of a process whose limiter is l.
func (o *operation) limiter(l *sashredis.Limiter) *sashredis.Limiter {
	if o.Limits == nil {
		return l
	}
	return l.WithLimits(o.Limits...)
}

// takeAll calls TakeAll or, if units must remain of the first key, what httplimit calls.
func (o *operation) takeAll(ctx context.Context, l *sashredis.Limiter) sashredis.Decision {
	if o.Leave == 0 {
		return l.TakeAll(ctx, o.Keys, o.Units)
	}
	answer := httpstore.Of(l).Take(ctx, o.Keys, o.Units, []int64{o.Leave, 0})
	d := sashredis.Decision{Decision: answer.Decision, Err: answer.Err}
	for d.By.String() != answer.By {
		d.By++
	}
	return d
}

// do calls the limiter, and notes the answer in o.
func (p *process) do(o *operation) {
	ctx, l := context.Background(), o.limiter(p.limiter)
	var d sashredis.Decision
	var made, settled sashredis.Reservation
	var err error
	if o.Verb == settles {
		p.mu.Lock()
		found := false
		if settled, found = p.reservations[o.Of]; !found { // another caller was faster
			o.Verb, o.Of = takes, -1
		}
		delete(p.reservations, o.Of)
		p.mu.Unlock()
	}
	o.Began = now()
	switch o.Verb {
	case takes:
		d = l.Take(ctx, o.Keys[0], o.Units)
	case leaves:
		d = l.TakeLeaving(ctx, o.Keys[0], o.Units, o.Leave)
	case takesTo:
		o.Taken, d = l.TakeUpTo(ctx, o.Keys[0], o.Units)
	case takesAll:
		d = o.takeAll(ctx, l)
	case peeks:
		d = l.Peek(ctx, o.Keys[0], o.Units)
	case peeksAll:
		d = l.PeekAll(ctx, o.Keys, o.Units)
	case reserves:
		made, d = l.ReserveLeaving(ctx, o.Keys[0], o.Units, o.Leave)
	case settles:
		if p.Frees {
			err = settled.Release(ctx)
		} else {
			err = settled.Commit(ctx, o.Units)
		}
	case resets:
		err = l.Reset(ctx, o.Keys[0])
	}
	o.Ended = now()
	o.Decision, o.By = d.Decision, d.By
	if d.Err != nil {
		err = d.Err
	}
	if err != nil {
		o.Err = err.Error()
	}
	if o.Verb == reserves && d.Allowed && (o.Units > 0 || !p.holds()) { // else nothing may have to be settled
		p.mu.Lock()
		p.reservations[o.Number] = made
		p.mu.Unlock()
	}
}
