package sashredis

import (
	"math"

	"github.com/seed-30da4c49/sash/internal/bridge"
	"github.com/seed-30da4c49/sash/internal/window"
)

// A bucket is the algorithm of sash.TokenBucket.
type bucket struct{ window.TokenBucket }

// parse takes the lack in units of 1/Window in microseconds, in two limbs of 52 bits.
func (b bucket) parse(numbers []int64, at int64) (s state, ok bool) {
	if len(numbers) != 4 && len(numbers) != 5 {
		return s, false
	}
	hi, lo := uint64(numbers[0]), uint64(numbers[1])
	s.Debt = window.Debt{At: at, Lack: window.Amount{Hi: hi >> 12, Lo: hi<<52 | lo}.MulDiv(uint64(microsecond), 1)}
	if s.leased = numbers[2]; s.leased > 0 {
		s.leaseEnd = numbers[3] * microsecond
	}
	if s.numbered = len(numbers) == 5; s.numbered {
		s.number = numbers[4]
	}
	return s, true
}

func (b bucket) charge(s state, units int64) state {
	s.Lack = s.Lack.Plus(b.Cost(units))
	return s
}

func (b bucket) decide(answered *state, charged, at, n int64) (outcome, bool) {
	s := b.charge(*answered, charged)
	lack := b.lack(s, at)
	o := outcome{b.Remaining(lack), b.RetryAfter(lack, n), b.ResetAfter(lack)}
	if s.leased == 0 || at >= s.leaseEnd {
		return o, true
	}
	// Until the lease ends, it lacks at least the leased units. So it is full only after that. It admits
	// n units only after that, too, if they do not fit next to the leased ones.
	till, then := uint64(s.leaseEnd-at), b.lack(s, s.leaseEnd)
	o.resetAfter = window.Wait(till, uint64(b.ResetAfter(then)))
	if o.retryAfter > 0 && o.retryAfter < window.Never && b.Cost(b.Burst-n).Less(b.Cost(s.leased)) {
		o.retryAfter = window.Wait(till, uint64(b.RetryAfter(then, n)))
	}
	return o, true
}

// lack returns what s lacks at an instant.
func (b bucket) lack(s state, at int64) window.Amount {
	if s.leased == 0 || s.At >= s.leaseEnd {
		return b.Lack(s.Debt, at)
	}
	till := min(at, s.leaseEnd)
	lack := b.Lack(s.Debt, till)
	if least := b.Cost(s.leased); lack.Less(least) {
		lack = least
	}
	return b.Lack(window.Debt{At: till, Lack: lack}, at)
}

// origin returns the number of the first reservation in s. Units of a lease have none.
func (b bucket) origin(s state, at int64, op op) int64 {
	micros := at / microsecond
	switch {
	case op != reserve:
		return 0
	case s.numbered:
		return max(s.number, micros) + 1
	}
	return micros + 1
}

// periodEnd returns the end of time: a bucket has no periods.
func (b bucket) periodEnd(state) int64 { return math.MaxInt64 }

func (b bucket) past(s state, at int64) []bridge.Charge {
	return []bridge.Charge{{At: at, Units: b.Units(b.lack(s, at))}}
}
