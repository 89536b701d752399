package replay

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
	"github.com/seed-30da4c49/sash/internal/reference"
)

// A line is a line of synthetic traffic.
type line struct {
	micros int64
	client string
	traffic.Charge
}

// randomLines returns lines in order of time, in bursts and on both sides of
// 1970, of a few clients. Each costs one unit.
func randomLines(random *rand.Rand) []line {
	lines := make([]line, 1500)
	for i := range lines {
		lines[i].micros = random.Int64N(60_000_000) - 30_000_000
		if i > 0 && random.IntN(2) == 0 {
			lines[i].micros = lines[i-1].micros + random.Int64N(100_000)
		}
		lines[i].client = fmt.Sprintf("client%d", random.IntN(8))
		lines[i].Charge = traffic.Charge{Asked: 1, Cost: 1}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return int(a.micros - b.micros) })
	return lines
}

// randomLimit returns a limit that denies some of randomLines.
func randomLimit(random *rand.Rand, a sash.Algorithm) sash.Limit {
	l := sash.Per(1+random.Int64N(5), time.Duration(1+random.IntN(2000))*time.Millisecond)
	switch a {
	case sash.TokenBucket:
		return l.TokenBucket(1 + random.Int64N(5))
	case sash.SlidingLog:
		return l.Log()
	case sash.SlidingBuckets:
		return l.Buckets(1 + time.Duration(random.Int64N(int64(l.Window))))
	case sash.SlidingParts:
		return l.Parts()
	}
	return l.Counter()
}

func tsvOf(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%d\t%s\n", l.micros, l.client)
	}
	return b.String()
}

func csvOf(lines []line) string {
	var b strings.Builder
	b.WriteString("when,who,estimate,cost\n")
	for _, l := range lines {
		fmt.Fprintf(&b, "%s,%s,%d,%d\n", time.UnixMicro(l.micros).UTC().Format(time.RFC3339Nano), l.client, l.Asked, l.Cost)
	}
	return b.String()
}

// A plainPolicy is the plainest implementation of limits. It keeps all charges of a client
// in a list, and counts them anew for every event.
type plainPolicy struct {
	limits  policy
	charged map[string][]*plainCharge
	pending []*plainCharge
}

type plainCharge struct {
	client           string
	at, units        int64
	due, outstanding int64
}

func newPlain(limits policy) *plainPolicy {
	return &plainPolicy{limits: limits, charged: map[string][]*plainCharge{}}
}

// allow settles the reservations that are due. It then charges the client the units asked
// for, if all limits admit them. The difference to the cost is charged or given back after
// wait.
func (p *plainPolicy) allow(client string, at int64, c traffic.Charge, wait int64) bool {
	for len(p.pending) > 0 && p.pending[0].due <= at {
		p.settle(p.pending[0])
		p.pending = p.pending[1:]
	}
	for _, l := range p.limits {
		if !p.admits(l, client, at, c.Asked) {
			return false
		}
	}
	booked := &plainCharge{client, at, c.Asked, at + wait, c.Cost - c.Asked}
	p.charged[client] = append(p.charged[client], booked)
	p.pending = append(p.pending, booked)
	return true
}

func (p *plainPolicy) settle(c *plainCharge) {
	if c.outstanding < 0 {
		c.units += c.outstanding
		return
	}
	p.charged[c.client] = append(p.charged[c.client], &plainCharge{client: c.client, at: c.due, units: c.outstanding})
}

func (p *plainPolicy) admits(l sash.Limit, client string, at, n int64) bool {
	w := int64(l.Window)
	switch l.Algorithm {
	case sash.SlidingLog:
		return p.since(client, at-w+1)+n <= l.Count
	case sash.TokenBucket:
		// The instant at which the bucket is full again, in 1/Count of a nanosecond.
		full := int64(math.MinInt64)
		for _, c := range p.charged[client] {
			full = max(full, c.at*l.Count) + c.units*w
		}
		return n <= l.Burst && max(full, at*l.Count)+n*w-at*l.Count <= l.Burst*w
	case sash.SlidingBuckets:
		b := int64(l.Precision)
		return p.since(client, floor(at, b)-((w-1)/b)*b)+n <= l.Count
	case sash.SlidingParts:
		part := w / 16 // of whole milliseconds; each client's begin earlier by some 64ths of a part
		ahead := shift(client) * (part / 64)
		return p.since(client, floor(at+ahead, part)-ahead-15*part)+n <= l.Count
	}
	begin := floor(at, w)
	curr := p.since(client, begin)
	prev := p.since(client, begin-w) - curr
	return prev*(w-(at-begin))+(curr+n)*w <= l.Count*w
}

// shift returns by how many 64ths of a part the parts of a client begin early. In parts of 64
// nanoseconds, a unit at instant 0 is back that many nanoseconds before a Window has passed.
func shift(client string) int64 {
	const window = 16 * 64
	key := reference.Named(reference.Limit{Parts: true, Count: 1, Window: window}, client)
	return window - key.Take(0, 1).ResetAfter
}

// since returns the units charged to the client at from or later.
func (p *plainPolicy) since(client string, from int64) (units int64) {
	for _, c := range p.charged[client] {
		if c.at >= from {
			units += c.units
		}
	}
	return units
}

// floor returns the greatest multiple of unit that is at most t.
func floor(t, unit int64) int64 { return t - (t%unit+unit)%unit }

// plainVerdict returns the verdict that a replay should have.
type plainVerdict struct {
	verdict
	deniedOf                               map[string]int64
	asked, admitted, above, givenBack, sum int64
}

func plainReplay(lines []line, wait time.Duration, limits ...sash.Limit) plainVerdict {
	v := plainVerdict{deniedOf: map[string]int64{}}
	chosen, exact := newPlain(limits), newPlain(policy(limits).exactly())
	for _, l := range lines {
		allowed := chosen.allow(l.client, l.micros*1000, l.Charge, int64(wait))
		right := exact.allow(l.client, l.micros*1000, l.Charge, int64(wait))
		v.asked += l.Asked
		if allowed {
			v.admitted += l.Asked
			v.sum += l.Cost
			v.above += max(l.Cost-l.Asked, 0)
			v.givenBack += max(l.Asked-l.Cost, 0)
		} else {
			v.Denied++
			v.deniedOf[l.client]++
		}
		if !right {
			v.ExactDenied++
		}
		if allowed && !right {
			v.WronglyAdmitted++
		}
		if !allowed && right {
			v.WronglyDenied++
		}
	}
	return v
}

// counts returns the figures of a verdict that are compared.
func (v *verdict) counts() []int64 {
	return []int64{v.Denied, v.ExactDenied, v.WronglyAdmitted, v.WronglyDenied}
}
