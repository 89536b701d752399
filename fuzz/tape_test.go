package fuzz

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/reference"
)

// A tape is the bytes of a fuzzer's input, read from the left. Past its end it reads
// zeros.
type tape struct{ rest []byte }

func (t *tape) ended() bool { return len(t.rest) == 0 }

func (t *tape) byte() byte {
	if t.ended() {
		return 0
	}
	b := t.rest[0]
	t.rest = t.rest[1:]
	return b
}

func (t *tape) int64() int64 {
	var b [8]byte
	t.rest = t.rest[copy(b[:], t.rest):]
	return int64(binary.BigEndian.Uint64(b[:]))
}

// raw is the least byte that announces a number of eight bytes.
const raw = 240

// pick reads a byte, and returns the value that the byte selects. A byte of at least raw
// selects the number in the next eight bytes.
func (t *tape) pick(values ...int64) int64 {
	i := int(t.byte())
	if i >= raw {
		return t.int64()
	}
	return values[i%len(values)]
}

const year = int64(365 * 24 * time.Hour)

// The flags in the first byte of a limit.
const (
	inLog      = 1 << iota // SlidingLog, not SlidingCounter
	denied                 // WithChargeDenied
	inBuckets              // SlidingBuckets, unless it is a log
	ofNothing              // with a Count of 0
	unlimited              // Unlimited, whatever else
	withBurst              // TokenBucket, unless it is a log or buckets
	inParts                // SlidingParts, unless it is any of these
	heldAtOnce             // Concurrency, unless it is any of these
)

// limit reads a valid limit, and whether denied calls are charged. The counts and windows
// make counters of one word and wide ones, and token buckets in one word and not. The
// precisions divide windows with and without a remainder.
func (t *tape) limit() (l sash.Limit, chargeDenied bool) {
	flags := t.byte()
	l = sash.Per(
		positive(t.pick(1, 2, 3, 4, 10, 100, 240, 500, 1<<21, 1<<22+1, 1e9, 1e15, math.MaxInt64)),
		time.Duration(positive(t.pick(1, 2, 3, 10, 1e3, 1e6, 1e9, 6e10, 36e11, year, 150*year, math.MaxInt64)))).Counter()
	switch w := int64(l.Window); {
	case flags&inLog != 0:
		l = l.Log()
	case flags&inBuckets != 0:
		precision := positive(t.pick(w, 1, w/2, w/2+1, w/3, w/3+1, w/60, w-1))
		l = l.Buckets(time.Duration(min(precision, w)))
	case flags&withBurst != 0:
		l = l.TokenBucket(positive(t.pick(l.Count, 1, 2, 3, 10, 100, l.Count/2, plus(l.Count, 1), 1e9, 1e15, math.MaxInt64)))
	case flags&inParts != 0:
		l = l.Parts()
	case flags&heldAtOnce != 0:
		l = sash.AtOnce(l.Count, l.Window)
	}
	switch {
	case flags&unlimited != 0:
		l = sash.Unlimited()
	case flags&ofNothing != 0:
		l.Count = 0
	}
	return l, flags&denied != 0
}

// positive maps n to [1, MaxInt64].
func positive(n int64) int64 { return max(1, n&math.MaxInt64) }

// table returns the reference's table for the limits.
func table(limits []sash.Limit, chargeDenied bool) *reference.Table {
	t := reference.NewTable(models(limits, chargeDenied))
	t.NameOf = func(key string) string {
		if strings.HasPrefix(key, sharedBy) {
			return "" // the limiter has no name for a quota that keys share
		}
		return key
	}
	return t
}

// sharedBy begins the name of a quota in the table that keys share.
const sharedBy = "shared by "

// models returns the limits in the reference's form.
func models(limits []sash.Limit, chargeDenied bool) (models []reference.Limit) {
	for _, l := range limits {
		models = append(models, reference.Limit{
			Unlimited:    l == sash.Unlimited(),
			Log:          l.Algorithm == sash.SlidingLog || l.Algorithm == sash.Concurrency,
			Held:         l.Algorithm == sash.Concurrency,
			Parts:        l.Algorithm == sash.SlidingParts,
			Precision:    int64(l.Precision),
			Count:        l.Count,
			Window:       int64(l.Window),
			Burst:        l.Burst,
			ChargeDenied: chargeDenied && l.Algorithm != sash.Concurrency,
		})
	}
	return models
}

// limiter returns a limiter without a janitor.
func limiter(limits []sash.Limit, chargeDenied bool, c sash.Clock) *sash.Limiter {
	options := []sash.Option{sash.WithClock(c), sash.WithSweepInterval(-1)}
	for _, l := range limits {
		options = append(options, l)
	}
	if chargeDenied {
		options = append(options, sash.WithChargeDenied())
	}
	return sash.Must(sash.New(options...))
}

// fresh returns the state of a key never seen.
func fresh(limits []sash.Limit) sash.Decision {
	if some := limited(limits); len(some) > 0 {
		limits = some
	}
	least := slices.MinFunc(limits, func(a, b sash.Limit) int { return cmp.Compare(most(a), most(b)) })
	return sash.Decision{Allowed: true, Limit: least, Remaining: most(least)}
}

// most returns the greatest number of units that l admits at once.
func most(l sash.Limit) int64 {
	if l.Algorithm == sash.TokenBucket && l.Count > 0 {
		return l.Burst
	}
	return l.Count
}

// limited returns the limits that are not Unlimited.
func limited(limits []sash.Limit) []sash.Limit {
	return slices.DeleteFunc(slices.Clone(limits), func(l sash.Limit) bool { return l == sash.Unlimited() })
}

// charges reports whether a call can be charged to a key of these limits.
func charges(limits []sash.Limit, chargeDenied bool) bool {
	some := limited(limits)
	if !slices.ContainsFunc(some, func(l sash.Limit) bool { return l.Count == 0 }) {
		return len(some) > 0
	}
	return chargeDenied && slices.ContainsFunc(some, func(l sash.Limit) bool { return l.Count > 0 && l.Algorithm != sash.Concurrency })
}

// holds reports whether units are held under any of the limits.
func holds(limits []sash.Limit) bool {
	return slices.ContainsFunc(limits, func(l sash.Limit) bool { return l.Algorithm == sash.Concurrency })
}

// spends reports whether what is used past a reservation is charged under any of the limits.
func spends(limits []sash.Limit) bool {
	return slices.ContainsFunc(limits, func(l sash.Limit) bool { return l.Algorithm != sash.Concurrency })
}

// plus returns a+b, saturating at the ends of int64.
func plus(a, b int64) int64 {
	switch sum := a + b; {
	case b > 0 && sum < a:
		return math.MaxInt64
	case b < 0 && sum > a:
		return math.MinInt64
	default:
		return sum
	}
}

// grain returns the resolution of l. Units charged in one aligned span of that length are
// one charge; under a token bucket, about one flows back in it.
func grain(l sash.Limit) int64 {
	switch l.Algorithm {
	case sash.SlidingLog, sash.Concurrency:
		return 1
	case sash.SlidingBuckets:
		return int64(l.Precision)
	case sash.SlidingParts:
		return max(1, int64(l.Window)/16)
	case sash.TokenBucket:
		return max(1, int64(l.Window)/max(1, l.Count)) // about one unit flows in
	}
	return int64(l.Window)
}

// since returns the time from the start of the aligned span of length d to t.
func since(t, d int64) int64 {
	if in := t % d; in < 0 {
		return in + d
	}
	return t % d
}
