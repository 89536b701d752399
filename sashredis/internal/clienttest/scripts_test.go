package clienttest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/redistest"
	"github.com/seed-30da4c49/sash/sashredis"
	"github.com/seed-30da4c49/sash/sashredis/goredisconn"
)

// limitsOfEachKind are limits for each way in which scripts decide. What is denied is denied for
// a minute, so a test may be slow.
var limitsOfEachKind = map[string][]sash.Limit{
	"counter":      {sash.Per(1000, 3*time.Hour).Counter()},
	"wide counter": {sash.Per(1<<50, 3*time.Hour).Counter()},
	"log":          {sash.Per(1000, 3*time.Hour).Log()},
	"buckets":      {sash.Per(1000, 3*time.Hour).Buckets(time.Hour)},
	"token bucket": {sash.Per(1000, 3*time.Hour).TokenBucket(3000)},
	"parts":        {sash.Per(1000, 30*time.Hour).Parts()},
	"at once":      {sash.AtOnce(1000, 3*time.Hour)},
	"wide bucket":  {sash.Per(1<<49, 3*time.Hour).TokenBucket(1 << 50)},
	"several": {
		sash.Per(1000, 3*time.Hour).Counter(), sash.PerDay(5000).Log(),
		sash.PerHour(100).TokenBucket(1000), sash.PerDay(9000).Buckets(7 * time.Hour), sash.AtOnce(2000, 3*time.Hour),
	},
}

// A watchedServer is a real server and a Conn to it. It notes the reply of each script, and the
// commands that ran in the meantime.
type watchedServer struct {
	sashredis.Conn
	*redistest.Server
	reply    string
	commands map[string]int // how often each ran, by its name
}

func watch(t *testing.T) *watchedServer {
	s := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Network: "unix", Addr: s.Addr(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	return &watchedServer{Conn: goredisconn.New(client), Server: s}
}

var ran = regexp.MustCompile(`(?m)^cmdstat_([a-z]+):calls=(\d+)`)

func (s *watchedServer) Run(ctx context.Context, script *sashredis.Script, keys, args []string) (reply string, err error) {
	s.Command("CONFIG", "RESETSTAT")
	s.reply, err = s.Conn.Run(ctx, script, keys, args)
	s.commands = map[string]int{}
	for _, match := range ran.FindAllStringSubmatch(s.Command("INFO", "commandstats").(string), -1) {
		s.commands[match[1]], _ = strconv.Atoi(match[2])
	}
	return s.reply, err
}

// time returns the server's time of the latest reply, in microseconds.
func (s *watchedServer) time(t *testing.T) int64 {
	text, _, _ := strings.Cut(s.reply, "|")
	now, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return now
}

func (s *watchedServer) limiter(t *testing.T, limits []sash.Limit, options ...sashredis.Option) *sashredis.Limiter {
	options = append([]sashredis.Option{
		sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(20 * time.Second), sashredis.WithMirror(0),
	}, options...)
	l, err := sashredis.New(s, limits, options...)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// eachCall makes calls of all kinds, and calls check after each.
func (s *watchedServer) eachCall(t *testing.T, limits []sash.Limit, check func(call string)) {
	ctx := context.Background()
	l := s.limiter(t, limits)
	take := func(call string, d sashredis.Decision) {
		require.NoError(t, d.Err, call)
		check(call)
	}
	take("Peek", l.Peek(ctx, "a", 1))
	take("Take", l.Take(ctx, "a", 1))
	take("another Take", l.Take(ctx, "a", 2))
	take("a denied Take", l.Take(ctx, "a", 1<<50))
	take("TakeAll", l.TakeAll(ctx, []string{"b", "a"}, 1))
	take("TakeLeaving", l.TakeLeaving(ctx, "a", 1, 5))
	take("a denied TakeLeaving", l.TakeLeaving(ctx, "a", 1, 1<<50))
	_, d := l.TakeUpTo(ctx, "a", 2)
	take("TakeUpTo", d)
	_, d = l.TakeUpTo(ctx, "d", 1<<50)
	take("TakeUpTo of all", d)
	_, d = l.TakeUpTo(ctx, "d", 2)
	take("a denied TakeUpTo", d)
	r, d := l.Reserve(ctx, "a", 5)
	take("Reserve", d)
	take("a Take after a Reserve", l.Take(ctx, "a", 1))
	require.NoError(t, r.Commit(ctx, 3))
	check("Commit")
	r, d = l.Reserve(ctx, "a", 5)
	take("another Reserve", d)
	require.NoError(t, r.Commit(ctx, 7))
	check("Commit of more")
	r, d = l.Reserve(ctx, "a", 5)
	take("a third Reserve", d)
	require.NoError(t, r.Release(ctx))
	if holds(limits) {
		check("Release")
	}
	require.NoError(t, l.Reset(ctx, "a"))
	check("Reset")
	for _, limit := range limits {
		if limit.Algorithm == sash.SlidingLog || limit.Algorithm == sash.Concurrency {
			return
		}
	}
	leases := s.limiter(t, limits, sashredis.WithLease(10, time.Second))
	for leases.Stats().Leased == 0 {
		take("Take of a lease", leases.Take(ctx, "c", 1))
	}
	require.NoError(t, leases.Close())
	check("Close")
}

// The time may move while a script runs.
func TestScripts_ReadTheTimeOnce(t *testing.T) {
	for name, limits := range limitsOfEachKind {
		s := watch(t)
		s.eachCall(t, limits, func(call string) {
			assert.Equal(t, 1, s.commands["time"], "%s: %s", name, call)
		})
	}
}

func TestScripts_DecideAtTheTimeOfTheServer(t *testing.T) {
	for name, limits := range limitsOfEachKind {
		s := watch(t)
		before := time.Now()
		s.eachCall(t, limits, func(call string) {
			at := time.UnixMicro(s.time(t))
			assert.False(t, at.Before(before.Truncate(time.Microsecond)), "%s: %s", name, call)
			before = time.Now()
			assert.False(t, at.After(before), "%s: %s", name, call)
		})
	}
}

// A key expires in the millisecond after the instant from which on it is like a key never seen.
// That instant follows from the time that the script has read.
func TestScripts_KeysExpireAtAnInstant(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		limit sash.Limit
		units int64
		idle  func(now int64) int64
	}{
		"counter": {sash.Per(1000, 3001234*time.Microsecond).Counter(), 7, func(now int64) int64 { return (now/3001234 + 2) * 3001234 }},
		"wide counter": {sash.Per(1<<50, 3001234*time.Microsecond).Counter(), 1 << 49, func(now int64) int64 {
			return (now/3001234 + 2) * 3001234
		}},
		"log":     {sash.Per(1000, 3001234*time.Microsecond).Log(), 7, func(now int64) int64 { return now + 3001234 }},
		"at once": {sash.AtOnce(1000, 3001234*time.Microsecond), 7, func(now int64) int64 { return now + 3001234 }},
		"buckets": {sash.Per(1000, 3001234*time.Microsecond).Buckets(1000123 * time.Microsecond), 7, func(now int64) int64 { return (now/1000123 + 4) * 1000123 }},
		"parts": {sash.Per(1000, 3001232*time.Microsecond).Parts(), 7, func(now int64) int64 {
			const part, early = 187577, 187577 / 64 * 27 // the shift of "a" is 27
			return ((now+early)/part+16)*part - early
		}},
		"token bucket": {sash.Per(7, 3001234*time.Microsecond).TokenBucket(5), 3, func(now int64) int64 { return now + (3*3001234+6)/7 }},
		"wide bucket":  {sash.Per(1<<48+1, 3001234*time.Microsecond).TokenBucket(1 << 50), 1 << 50, func(now int64) int64 { return now + 4*3001234 - 1 }},
	} {
		t.Run(name, func(t *testing.T) {
			s := watch(t)
			l := s.limiter(t, []sash.Limit{c.limit})
			var early, late int64
			check := func(call string) {
				expires, idle := s.Command("PEXPIRETIME", s.key(t)).(int64), c.idle(s.time(t))
				early, late = min(early, expires*1000-idle), max(late, expires*1000-idle)
				slack := int64(1000)
				if c.limit.Algorithm == sash.TokenBucket {
					slack = 1100 // it may round up
				}
				assert.GreaterOrEqual(t, expires*1000, idle, call)
				assert.Less(t, expires*1000, idle+slack, call)
			}
			require.True(t, l.Take(ctx, "a", c.units).Allowed)
			check("Take")
			require.NoError(t, l.Reset(ctx, "a"))
			_, d := l.Reserve(ctx, "a", c.units)
			require.True(t, d.Allowed)
			check("Reserve")
		})
	}
}

// A key that is charged in a later window, or part, is kept for as long as that one counts. The test sets what
// is stored back by one of them, in place of waiting for it.
func TestScripts_AChargeInALaterWindowMovesTheExpiry(t *testing.T) {
	ctx := context.Background()
	const window, part = 3 * 3600e6, 6750e6 // microseconds, as all below
	for limit, idle := range map[sash.Limit]func(now int64) int64{
		sash.Per(1000, 3*time.Hour).Counter(): func(now int64) int64 { return (now/window + 2) * window },
		sash.Per(1000, 30*time.Hour).Parts(): func(now int64) int64 {
			const early = part / 64 * 27 // the shift of "a" is 27
			return ((now+early)/part+16)*part - early
		},
	} {
		s := watch(t)
		l := s.limiter(t, []sash.Limit{limit})
		require.True(t, l.Take(ctx, "a", 7).Allowed)
		key := s.key(t)
		index, rest, _ := strings.Cut(s.Command("GET", key).(string), " ")
		stored, err := strconv.ParseInt(index, 10, 64)
		require.NoError(t, err)
		soon := (s.time(t) + 60e6) / 1000
		s.Command("SET", key, fmt.Sprint(stored-1, " ", rest), "PXAT", strconv.FormatInt(soon, 10))
		require.True(t, l.Take(ctx, "a", 1).Allowed)
		require.Equal(t, (idle(s.time(t))+999)/1000, s.Command("PEXPIRETIME", key), "%v", limit)
	}
}

// key returns the only key of the server.
func (s *watchedServer) key(t *testing.T) string {
	keys := s.Command("KEYS", "*").([]any)
	require.Len(t, keys, 1)
	return keys[0].(string)
}

// A key does not expire before a lease of it has ended, and what was leased has flowed back.
func TestScripts_KeysExpireAfterTheirLeases(t *testing.T) {
	for limit, flowsBack := range map[sash.Limit]time.Duration{
		sash.Per(1000, time.Second).Counter():            0,
		sash.Per(1000, time.Second).Buckets(time.Second): 0,
		sash.Per(1000, 100*time.Second).Parts():          0,
		sash.Per(1000, time.Second).TokenBucket(1000):    2 * time.Millisecond,
	} {
		ctx := context.Background()
		s := watch(t)
		l := s.limiter(t, []sash.Limit{limit}, sashredis.WithLease(10, time.Hour))
		for l.Stats().Leased < 2 {
			require.True(t, l.Take(ctx, "a", 1).Allowed)
		}
		lease := strings.Split(s.reply, "|")[2]
		end, err := strconv.ParseInt(strings.Fields(lease)[1], 10, 64)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, s.Command("PEXPIRETIME", s.key(t)).(int64)*1000, end+flowsBack.Microseconds(), "%v", limit)
	}
}

// A call that is denied or not charged writes nothing, and creates no key.
func TestScripts_ADenialWritesNothing(t *testing.T) {
	ctx := context.Background()
	for name, limits := range limitsOfEachKind {
		s := watch(t)
		l := s.limiter(t, limits)
		nothing := func(call string) {
			for _, command := range []string{"set", "del", "zadd", "zrem", "zremrangebylex", "pexpireat", "pexpire"} {
				assert.Zero(t, s.commands[command], "%s: %s: %s", name, call, command)
			}
		}
		require.True(t, l.Peek(ctx, "a", 1).Allowed)
		nothing("Peek of a new key")
		require.False(t, l.Take(ctx, "a", 1<<51).Allowed)
		nothing("denied Take of a new key")
		assert.Equal(t, int64(0), s.Command("DBSIZE"))
		for l.Take(ctx, "a", 1+limits[0].Count/3).Allowed {
			assert.Positive(t, s.commands["set"]+s.commands["zadd"])
		}
		nothing("denied Take")
		l.Peek(ctx, "a", 1)
		nothing("Peek")
		require.False(t, l.TakeAll(ctx, []string{"b", "a"}, 1+limits[0].Count/3).Allowed)
		nothing("denied TakeAll")
		_, d := l.Reserve(ctx, "a", 1+limits[0].Count/3)
		require.False(t, d.Allowed)
		nothing("denied Reserve")
		require.False(t, l.TakeLeaving(ctx, "a", 1, limits[0].Count).Allowed)
		nothing("denied TakeLeaving")
		require.True(t, l.TakeLeaving(ctx, "c", 0, 1).Allowed)
		nothing("TakeLeaving of no units")
		if name == "wide bucket" {
			continue // units flow into it all the time
		}
		for taken := int64(1); taken > 0; {
			taken, _ = l.TakeUpTo(ctx, "a", 1<<50)
		}
		nothing("denied TakeUpTo")
	}
}

// A value that a script did not write is left alone, and the call denied with an error.
func TestScripts_RefuseWhatIsNotTheirs(t *testing.T) {
	ctx := context.Background()
	for name, limits := range limitsOfEachKind {
		s := watch(t)
		l := s.limiter(t, limits)
		require.True(t, l.Take(ctx, "a", 1+limits[0].Count/3).Allowed)
		key := s.key(t)
		for _, value := range []string{"17", "1 2 3;;", "1 2 3;;;;;;;;;", ""} {
			s.Command("DEL", key)
			if s.sorted(limits) {
				s.Command("ZADD", key, "0", "!"+value)
			} else {
				s.Command("SET", key, value)
			}
			d := l.Take(ctx, "a", 1)
			assert.False(t, d.Allowed, "%s: %q", name, value)
			assert.ErrorIs(t, d.Err, sashredis.ErrServer, "%s: %q", name, value)
			assert.Equal(t, sashredis.ByStore, d.By, "%s: %q", name, value)
			assert.Equal(t, int64(-1), s.Command("PTTL", key), "%s: %q", name, value)
		}
		s.Command("DEL", key)
		s.Command("LPUSH", key, "x")
		assert.ErrorContains(t, l.Take(ctx, "a", 1).Err, "WRONGTYPE", name)
	}
}

// sorted reports whether a key under limits is a sorted set.
func (s *watchedServer) sorted(limits []sash.Limit) bool {
	for _, l := range limits {
		if l.Algorithm == sash.SlidingLog || l.Algorithm == sash.SlidingBuckets || l.Algorithm == sash.Concurrency {
			return true
		}
	}
	return false
}

// A call on several keys takes each by its own limits, whatever their order.
func TestScripts_EachKeyHasItsLimits(t *testing.T) {
	onEachStore(t, func(t *testing.T, conn sashredis.Conn) {
		ctx := context.Background()
		for i, kind := range []func(count int64) sash.Limit{
			func(count int64) sash.Limit { return sash.PerHour(count).Counter() },
			func(count int64) sash.Limit { return sash.PerHour(count).Log() },
			func(count int64) sash.Limit { return sash.PerDay(1).TokenBucket(count) },
		} {
			limits := func(key string) []sash.Limit {
				switch key {
				case "large":
					return []sash.Limit{kind(50)}
				case "mixed":
					return []sash.Limit{sash.PerDay(30).Counter(), sash.PerDay(2).TokenBucket(20)}
				}
				return nil
			}
			l, err := sashredis.New(conn, []sash.Limit{kind(10)}, sashredis.WithLimitsFor(limits),
				sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithPrefix(fmt.Sprint(i)), sashredis.WithTimeout(10*time.Second))
			require.NoError(t, err)
			assert.False(t, l.TakeAll(ctx, []string{"large", "small"}, 11).Allowed)
			assert.False(t, l.TakeAll(ctx, []string{"small", "large"}, 11).Allowed)
			assert.False(t, l.TakeAll(ctx, []string{"mixed", "small"}, 11).Allowed)
			assert.True(t, l.TakeAll(ctx, []string{"small", "large"}, 9).Allowed)
			assert.True(t, l.TakeAll(ctx, []string{"large", "mixed", "small"}, 1).Allowed)
			assert.True(t, l.TakeAll(ctx, []string{"mixed", "large"}, 19).Allowed)
			for key, left := range map[string]int64{"small": 0, "large": 50 - 9 - 1 - 19, "mixed": 0} {
				assert.Equal(t, left, l.Peek(ctx, key, 0).Remaining, key)
			}
		}
	})
}

// A log keeps no more members than it has units, and one.
func TestScripts_ALogKeepsOnlyWhatCounts(t *testing.T) {
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		ctx := context.Background()
		clock := sash.NewManualClock(0)
		l, err := sashredis.New(goredisconn.New(client), []sash.Limit{sash.Per(5, 100*time.Microsecond).Log(), sash.Per(3, 50*time.Microsecond).Log()},
			sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithCallerClock(clock), sashredis.WithTimeout(10*time.Second))
		require.NoError(t, err)
		admitted := 0
		for range 300 {
			clock.Advance(7 * time.Microsecond)
			if l.Allow(ctx, "a") {
				admitted++
			}
			keys, err := client.Keys(ctx, "*").Result()
			require.NoError(t, err)
			require.Len(t, keys, 1)
			members, err := client.ZCard(ctx, keys[0]).Result()
			require.NoError(t, err)
			assert.LessOrEqual(t, members, int64(5+1+3+1))
		}
		assert.Greater(t, admitted, 50)
	})
}

// A key in parts keeps the units of sixteen parts, however long it was not charged in between.
func TestScripts_PartsKeepOnlyWhatCounts(t *testing.T) {
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		ctx := context.Background()
		for i, limits := range [][]sash.Limit{ // on the fast path, and on the other
			{sash.PerMinute(1000).Parts()}, {sash.PerMinute(1000).Parts(), sash.PerDay(1000).Counter()},
		} {
			clock := sash.NewManualClock(0)
			l, err := sashredis.New(goredisconn.New(client), limits, sashredis.WithPrefix(fmt.Sprint(i)),
				sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithCallerClock(clock), sashredis.WithTimeout(10*time.Second))
			require.NoError(t, err)
			most := 0
			for _, parts := range []time.Duration{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 5, 12, 15, 16, 1, 17, 1_000_000, 1} {
				clock.Advance(parts * time.Minute / 16)
				require.True(t, l.Allow(ctx, "a"))
				keys, err := client.Keys(ctx, fmt.Sprint(i)+"*").Result()
				require.NoError(t, err)
				require.Len(t, keys, 1)
				value, err := client.Get(ctx, keys[0]).Result()
				require.NoError(t, err)
				state, _, _ := strings.Cut(value, ";")
				most = max(most, len(strings.Fields(state)))
			}
			assert.Equal(t, 1+16, most, "%v", limits)
		}
	})
}

// Members tell totals modulo 2^52.
func TestScripts_TotalsOfALogComeAround(t *testing.T) {
	onEachStore(t, func(t *testing.T, conn sashredis.Conn) {
		ctx := context.Background()
		const count = 1<<51 - 1
		for i, limit := range []sash.Limit{sash.Per(count, time.Second).Log(), sash.Per(count, time.Second).Buckets(100 * time.Millisecond), sash.Per(count, time.Second).Parts()} {
			clock := sash.NewManualClock(0)
			l, err := sashredis.New(conn, []sash.Limit{limit}, sashredis.WithFallback(sashredis.FallbackDeny),
				sashredis.WithCallerClock(clock), sashredis.WithPrefix(fmt.Sprint(i)), sashredis.WithTimeout(10*time.Second))
			require.NoError(t, err)
			for range 10 {
				for _, n := range []int64{count - 10, 1, 6, 1, 1, 1} {
					d := l.Take(ctx, "a", n)
					require.True(t, d.Allowed, "%+v", d)
				}
				d := l.Take(ctx, "a", 1)
				require.False(t, d.Allowed)
				require.Equal(t, int64(0), d.Remaining)
				clock.Advance(d.RetryAfter)
			}
		}
	})
}

// A pair is a limiter of package sash and one in a store, under the same limit and clock.
type pair struct {
	clock *sash.ManualClock
	here  *sash.Limiter
	store *sashredis.Limiter
}

func newPair(t *testing.T, conn sashredis.Conn, limit sash.Limit) *pair {
	p := &pair{clock: sash.NewManualClock(0)}
	p.here = sash.Must(sash.New(limit, sash.WithClock(p.clock), sash.WithSweepInterval(-1)))
	var err error
	p.store, err = sashredis.New(conn, []sash.Limit{limit}, sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithCallerClock(p.clock),
		sashredis.WithPrefix(t.Name()), sashredis.WithTimeout(10*time.Second))
	require.NoError(t, err)
	return p
}

// reserve reserves units on both sides.
func (p *pair) reserve(t *testing.T, n int64) open {
	here, want := p.here.Reserve("a", n)
	store, got := p.store.Reserve(context.Background(), "a", n)
	require.Equal(t, want, got.Decision)
	require.True(t, got.Allowed)
	return open{here, store, n}
}

// commit settles o on both sides.
func (p *pair) commit(t *testing.T, o open, actual int64) {
	o.here.Commit(actual)
	require.NoError(t, o.store.Commit(context.Background(), actual))
}

// take takes units on both sides.
func (p *pair) take(t *testing.T, n int64) {
	t.Helper()
	require.Equal(t, p.here.Take("a", n), p.store.Take(context.Background(), "a", n).Decision)
}

// Giving back under a log costs the server some commands, however many charges came since.
func TestScripts_GivingBackToALogTouchesFewMembers(t *testing.T) {
	ctx := context.Background()
	for _, limit := range []sash.Limit{sash.PerHour(1 << 40).Log(), sash.PerHour(1 << 40).Buckets(time.Millisecond)} {
		s := watch(t)
		few := func(what string) {
			total := 0
			for command, n := range s.commands {
				if strings.HasPrefix(command, "z") {
					total += n
				}
			}
			assert.Positive(t, total, "%v: %s", limit, what)
			assert.LessOrEqual(t, total, 200, "%v: %s", limit, what)
		}
		l := s.limiter(t, []sash.Limit{limit})
		var open []sashredis.Reservation
		reserve := func() {
			r, d := l.Reserve(ctx, "a", 1000)
			require.True(t, d.Allowed)
			open = append(open, r)
		}
		for range 100 {
			reserve()
		}
		fill, err := sashredis.New(s.Conn, []sash.Limit{limit}, sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithTimeout(20*time.Second))
		require.NoError(t, err)
		for range 600 {
			require.NoError(t, fill.Take(ctx, "a", 1).Err)
		}
		reserve()
		for i, r := range open {
			require.NoError(t, r.Commit(ctx, int64(i)))
			few("Commit")
		}
		require.Equal(t, int64(1<<40-600-100*101/2), l.Peek(ctx, "a", 0).Remaining)
		require.True(t, l.Take(ctx, "a", 1).Allowed)
		few("Take")
		require.False(t, l.Take(ctx, "a", 1<<40-1500).Allowed)
		few("a denied Take")
	}
}

// A log to which units are given back in any order answers as the log of package sash does. It has a
// member for each instant that counts, and a few more for each charge that was given back in part.
func TestScripts_GivingBackToALogInAnyOrder(t *testing.T) {
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		for seed := range uint64(3) {
			r := rand.New(rand.NewPCG(seed, 1))
			p := newPair(t, goredisconn.New(client), sash.Per(5000, time.Second).Log())
			p.take(t, 3)
			var open []open
			for range 30 {
				p.clock.Advance(time.Duration(r.IntN(3)) * time.Microsecond)
				open = append(open, p.reserve(t, 1+r.Int64N(100)))
			}
			key := client.Keys(t.Context(), "*").Val()[0]
			before := client.ZCard(t.Context(), key).Val()
			r.Shuffle(len(open), func(i, j int) { open[i], open[j] = open[j], open[i] })
			partly := int64(0)
			for _, o := range open {
				actual := int64(0)
				if r.IntN(3) == 0 {
					actual, partly = r.Int64N(o.n), partly+1
				}
				p.commit(t, o, actual)
				p.take(t, 5000)             // denied, which tells of the oldest units
				p.take(t, 1+r.Int64N(5000)) // and of others
				if r.IntN(3) == 0 {         // all units of the newest instant are given back, and a later one comes
					p.clock.Advance(time.Microsecond)
					p.commit(t, p.reserve(t, 7), 0)
					p.clock.Advance(time.Microsecond)
					p.take(t, 1)
					p.take(t, 5000)
				}
			}
			assert.LessOrEqual(t, client.ZCard(t.Context(), key).Val(), before+8*partly+2+30, "seed %d", seed)
			p.clock.Advance(time.Second)
			p.take(t, 1)
			assert.Equal(t, int64(3), client.ZCard(t.Context(), key).Val(), "seed %d: the base, the newest, and the token", seed)
			client.FlushAll(t.Context())
		}
	})
}

// What was charged and given back in one window may be more than a total can be.
func TestScripts_WhatWasGivenBackComesAround(t *testing.T) {
	const count = 1<<51 - 1
	onEachStore(t, func(t *testing.T, conn sashredis.Conn) {
		p := newPair(t, conn, sash.Per(count, time.Second).Log())
		p.take(t, 1)
		var kept []open
		for i := range int64(6) { // of 2^51 each
			p.clock.Advance(time.Microsecond)
			o := p.reserve(t, count-2000)
			p.take(t, 50)
			p.clock.Advance(time.Microsecond)
			p.take(t, 1)
			p.commit(t, o, i%2)
			p.take(t, count)
			kept = append(kept, p.reserve(t, 1))
		}
		for _, o := range kept {
			p.commit(t, o, 0)
			p.take(t, count)
		}
		p.clock.Advance(time.Second - 6*time.Microsecond)
		p.take(t, count)
	})
}

// Units that are given back of one tick after another add up on the tick after them, modulo 2^52. No member
// stands for a greater power of two.
func TestScripts_WhatWasGivenBackOfManyTicksComesAround(t *testing.T) {
	const count = 1<<51 - 1
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		p := newPair(t, goredisconn.New(client), sash.Per(count, time.Second).Log())
		p.take(t, 1)
		p.clock.Advance(time.Microsecond)
		before := p.reserve(t, 1)
		for range 4 {
			p.clock.Advance(time.Microsecond)
			many := p.reserve(t, count-10)
			p.clock.Advance(time.Microsecond)
			after := p.reserve(t, 1)
			p.commit(t, many, 0)
			p.commit(t, before, 0)
			p.take(t, count)
			before = after
		}
		key := client.Keys(t.Context(), "*").Val()[0]
		powers := 0
		for _, member := range client.ZRange(t.Context(), key, 0, -1).Val() {
			if member[1] == '~' {
				powers++
				require.Less(t, member[2], byte('A'+52), "%q", member)
			}
		}
		require.Positive(t, powers)
	})
}

// A key moves on to a later window only by a charge. So a late reading after a refund finds what
// it would have found without.
func TestScripts_ARefundMovesNoWindow(t *testing.T) {
	onEachStore(t, func(t *testing.T, conn sashredis.Conn) {
		p := newPair(t, conn, sash.Per(20, time.Second).Counter())
		o := p.reserve(t, 9)
		p.take(t, 3)
		p.clock.Set(int64(1300 * time.Millisecond))
		p.commit(t, o, 5)
		p.clock.Set(int64(800 * time.Millisecond))
		p.take(t, 12)
		p.take(t, 1)
	})
}

// A key to which all is given back that counts goes on from its newest charge, if older units counted then.
// So a late reading finds them again, as package sash does.
func TestScripts_ARefundForgetsNoTimeOfOtherUnits(t *testing.T) {
	onEachStore(t, func(t *testing.T, conn sashredis.Conn) {
		for i, limit := range []sash.Limit{sash.Per(20, 10*time.Second).Log(), sash.Per(20, 10*time.Second).Buckets(time.Second), sash.AtOnce(20, 10*time.Second)} {
			p := newPair(t, conn, limit)
			require.NoError(t, p.store.Reset(context.Background(), "a"), "%d", i)
			p.take(t, 4)
			p.clock.Set(int64(5 * time.Second))
			o := p.reserve(t, 9)
			p.clock.Set(int64(12 * time.Second))
			p.commit(t, o, 0)
			p.clock.Set(int64(time.Second))
			p.take(t, 17)
			p.take(t, 1)
			p.clock.Set(int64(12 * time.Second))
			p.take(t, 19)
			p.take(t, 20)
		}
	})
}

// What a refund has given back, a later one does not give back again.
func TestScripts_TwoRefundsGiveBackWhatIsThere(t *testing.T) {
	onEachStore(t, func(t *testing.T, conn sashredis.Conn) {
		p := newPair(t, conn, sash.PerSecond(1).TokenBucket(100))
		first, second := p.reserve(t, 5), p.reserve(t, 5)
		p.clock.Advance(4 * time.Second)
		p.take(t, 1) // when it comes, the bucket lacks 6
		p.commit(t, first, 0)
		p.take(t, 1)
		p.commit(t, second, 0)
		p.take(t, 1)
		require.Equal(t, int64(97), p.store.Peek(context.Background(), "a", 0).Remaining)
	})
}

// A bucket tells 64 charges apart, since the store reads and writes them at each call. Of more it
// gives back no more than package sash does, which tells all of them apart. Here it keeps 137
// of 216.
func TestScripts_ABucketWithManyCharges(t *testing.T) {
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		ctx := context.Background()
		p := newPair(t, goredisconn.New(client), sash.PerSecond(10).TokenBucket(10_000))
		var reservations []open
		o := p.reserve(t, 1000)
		p.clock.Advance(50 * time.Second) // it lacks 500
		for range 500 {
			reservations = append(reservations, p.reserve(t, 3))
			p.clock.Advance(100 * time.Millisecond)
		}
		keys, err := client.Keys(ctx, "*").Result()
		require.NoError(t, err)
		require.Len(t, keys, 1)
		size, err := client.StrLen(ctx, keys[0]).Result()
		require.NoError(t, err)
		assert.Less(t, size, int64(65*40))
		p.commit(t, o, 0) // 500 come back
		d := p.store.Peek(ctx, "a", 0)
		assert.Equal(t, int64(10_000-500-500*2+500), d.Remaining)
		for i, r := range reservations {
			if i%7 == 0 {
				p.commit(t, r, 0)
				exact, got := p.here.Peek("a", 0).Remaining, p.store.Peek(ctx, "a", 0).Remaining
				require.LessOrEqual(t, got, exact)
				require.Greater(t, got, exact-150)
			}
		}
	})
}

// onEachServer runs a test on an embedded server and on a real one.
func onEachServer(t *testing.T, test func(t *testing.T, client *redis.Client)) {
	t.Run("miniredis", func(t *testing.T) {
		client := redis.NewClient(&redis.Options{Addr: newStore(t).server.Addr()})
		defer client.Close()
		test(t, client)
	})
	t.Run("server", func(t *testing.T) {
		client := redis.NewClient(&redis.Options{Network: "unix", Addr: redistest.Start(t).Addr()})
		defer client.Close()
		test(t, client)
	})
}

// A lessee is a limiter that holds a lease.
func (s *fakeStore) lessee(limits []sash.Limit, d time.Duration) (l *sashredis.Limiter, used int64) {
	l, _ = s.limiter(limits, sashredis.WithLease(1_000_000, d))
	for l.Stats().Leased == 0 {
		require.True(s.t, l.Take(context.Background(), "a", 100).Allowed)
		used += 100
	}
	return l, used
}

// remaining returns how much a new limiter finds left.
func (s *fakeStore) remaining(limits []sash.Limit) int64 {
	l, _ := s.limiter(limits)
	return l.Peek(context.Background(), "a", 0).Remaining
}

var tokens = []sash.Limit{sash.PerSecond(1000).TokenBucket(100_000)}

// What is leased of a token bucket does not flow back as long as the lease runs.
func TestScripts_ABucketLacksWhatIsLeased(t *testing.T) {
	s := newStore(t)
	l, used := s.lessee(tokens, 5*time.Second)
	leased := l.Stats().Leased
	require.Greater(t, leased, int64(100))
	require.Less(t, used+leased, int64(4000))
	assert.Equal(t, 100_000-used-leased, s.remaining(tokens))
	s.advance(4999 * time.Millisecond)
	assert.Equal(t, 100_000-leased, s.remaining(tokens), "what was used has flowed back")
	s.advance(101 * time.Millisecond)
	assert.Equal(t, 100_000-leased+100, s.remaining(tokens), "the lease is over")
	s.advance(time.Minute)
	assert.Equal(t, int64(100_000), s.remaining(tokens))
}

// A lease is given back to a bucket only while it runs: afterwards it flows back. A later lease
// of another process is none of it.
func TestScripts_ALeaseIsGivenBackWhileItRuns(t *testing.T) {
	s := newStore(t)
	l, used := s.lessee(tokens, 5*time.Second)
	require.NoError(t, l.Close())
	assert.Equal(t, 100_000-used, s.remaining(tokens))

	s.advance(time.Minute)
	l, _ = s.lessee(tokens, 5*time.Second)
	s.advance(5001 * time.Millisecond)
	before := s.remaining(tokens)
	require.Less(t, before, int64(100_000))
	require.NoError(t, l.Close())
	assert.Equal(t, before, s.remaining(tokens), "it has lapsed")

	s.advance(time.Minute)
	l, _ = s.lessee(tokens, 5*time.Second)
	s.advance(5001 * time.Millisecond)
	other, _ := s.lessee(tokens, 5*time.Second)
	before = s.remaining(tokens)
	require.NoError(t, l.Close())
	assert.Equal(t, before, s.remaining(tokens), "the lease that runs is another's")
	s.advance(4900 * time.Millisecond)
	assert.Equal(t, 100_000-other.Stats().Leased, s.remaining(tokens), "and it goes on")
}

// At most half of a bucket is leased at one time, since that does not flow back.
func TestScripts_ABucketLeasesHalf(t *testing.T) {
	limits := []sash.Limit{sash.PerSecond(100).TokenBucket(10_000)}
	s := newStore(t)
	for _, c := range []struct{ units, want, leased int64 }{{700, 4000, 4000}, {170, 1000, 1000}, {51, 300, 0}} {
		l, _ := s.limiter(limits, sashredis.WithLease(c.want, 20*time.Second))
		for range 2 { // the second is a demand
			require.True(t, l.Take(context.Background(), "a", c.units).Allowed)
		}
		assert.Equal(t, c.leased, l.Stats().Leased, "of %d", c.want)
	}
}

// Each further process that has a lease leaves the others their part, until all leases end.
func TestScripts_ALeaseIsSmallerIfOthersHaveOne(t *testing.T) {
	limits := []sash.Limit{sash.PerHour(100_000).Counter()}
	s := newStore(t)
	next := func() (leased, left int64) {
		l, _ := s.limiter(limits, sashredis.WithLease(1_000_000, time.Minute))
		for l.Stats().Leased == 0 {
			require.True(t, l.Take(context.Background(), "a", 5000).Allowed)
		}
		return l.Stats().Leased, s.remaining(limits)
	}
	for processes := int64(1); processes < 5; processes++ {
		leased, left := next()
		assert.LessOrEqual(t, 2*processes*leased, leased+left, "of %d processes", processes)
	}
	s.advance(time.Hour + time.Minute) // to a window with room
	s.advance(time.Hour)
	leased, left := next()
	assert.Greater(t, 4*2*leased, (leased+left)/4, "the others' leases are over")
}

// A lease is no larger than others leave it, also if its process has given one back that would
// have ended at the same instant.
func TestScripts_ALeaseAfterOneThatWasGivenBack(t *testing.T) {
	for _, limits := range [][]sash.Limit{
		{sash.PerMinute(1000).Counter()}, {sash.PerMinute(1000).Buckets(time.Second)}, {sash.PerMinute(1000).Parts()}, {sash.PerMinute(1).TokenBucket(1000)},
	} {
		s := newStore(t) // its time stands still
		ctx := context.Background()
		l, local := s.limiter(limits, sashredis.WithLease(50, 20*time.Millisecond))
		for l.Stats().Leased == 0 {
			require.True(t, l.Take(ctx, "a", 100).Allowed)
		}
		leased := l.Stats().Leased
		local.Advance(30 * time.Millisecond)
		eventually(t, "the lease is given back", func() bool { return l.Stats().Returned == leased })
		other, _ := s.limiter(limits)
		require.True(t, other.Take(ctx, "a", other.Peek(ctx, "a", 0).Remaining-31).Allowed)
		require.True(t, l.Take(ctx, "a", 1).Allowed)
		assert.LessOrEqual(t, l.Stats().Leased-leased, int64(15), "%v", limits)
		require.NoError(t, l.Close())
		assert.Equal(t, int64(30), s.remaining(limits), "%v: nothing comes back twice", limits)
	}
}
