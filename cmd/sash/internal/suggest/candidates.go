package suggest

import (
	"iter"
	"math/bits"
	"slices"
)

// candidates are the counts that are tried as limits: numbers that people choose, ten in each power of ten.
// Those above 100,000 are for limits in bytes or tokens.
var candidates = candidatesUpTo(1e11)

func candidatesUpTo(most int64) []int64 {
	all := []int64{1, 2, 3, 4, 5, 6, 8} // 12 and the like are for tens
	for ten := int64(1); 10*ten < most; ten *= 10 {
		for _, n := range []int64{10, 12, 15, 20, 25, 30, 40, 50, 60, 80} {
			all = append(all, n*ten)
		}
	}
	return append(all, most)
}

// atLeast returns the index of the first candidate that is n or more. It is len(candidates)
// if all of them are less.
func atLeast(n int64) int {
	i, _ := slices.BinarySearch(candidates, n)
	return i
}

// A candidateSet has a bit for each candidate.
type candidateSet [2]uint64

func (s *candidateSet) add(i int) { s[i/64] |= 1 << (i % 64) }

func (s candidateSet) empty() bool { return s == candidateSet{} }

// all yields the candidates of s, by index, in ascending order.
func (s candidateSet) all() iter.Seq[int] {
	return func(yield func(int) bool) {
		for word, rest := range s {
			for ; rest != 0; rest &= rest - 1 {
				if !yield(64*word + bits.TrailingZeros64(rest)) {
					return
				}
			}
		}
	}
}

// len returns one more than the greatest index of a candidate of s.
func (s candidateSet) len() int {
	if s[1] != 0 {
		return 64 + bits.Len64(s[1])
	}
	return bits.Len64(s[0])
}
