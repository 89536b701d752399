package sash

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A vector is a call and the answer of an independent implementation. The calls of one Seq
// share their state.
type vector struct {
	Seq    int
	Limits [][]int64 // seconds, count, and the precision in seconds unless it is a fixed window
	Keys   []string
	Now    json.Number
	Weight int64
	Over   int // 1: denied
}

// readVectors returns all vectors. It skips the test if there are none: they are not part of
// this repository.
func readVectors(t *testing.T) (vectors []vector) {
	t.Helper()
	f, err := os.Open("../shared/vectors/redis_buckets.jsonl.gz")
	if err != nil {
		t.Skipf("no vectors: %v", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	require.NoError(t, err)
	for lines := bufio.NewScanner(z); lines.Scan(); {
		var v vector
		require.NoError(t, json.Unmarshal(lines.Bytes(), &v))
		vectors = append(vectors, v)
	}
	return vectors
}

func (v vector) limits() (limits []Limit) {
	for _, l := range v.Limits {
		window := time.Duration(l[0]) * time.Second
		precision := window
		if len(l) > 2 {
			precision = time.Duration(l[2]) * time.Second
		}
		limits = append(limits, Per(l[1], window).Buckets(precision))
	}
	return limits
}

// nanoseconds converts a decimal number of seconds exactly.
func nanoseconds(t *testing.T, seconds json.Number) int64 {
	t.Helper()
	whole, fraction, _ := strings.Cut(seconds.String(), ".")
	d, err := time.ParseDuration(whole + "s" + (fraction + "000000000")[:9] + "ns")
	require.NoError(t, err)
	return int64(d)
}

// sash gives each call the answer of its vector. The order of the limits and of the keys
// makes no difference.
func TestVectors_AreAnsweredAlike(t *testing.T) {
	vectors := readVectors(t)
	for _, order := range []string{"as given", "reversed", "shuffled"} {
		rng := rand.New(rand.NewPCG(1, 1))
		reorder := func(n int, swap func(i, j int)) {
			switch order {
			case "reversed":
				for i := range n / 2 {
					swap(i, n-1-i)
				}
			case "shuffled":
				rng.Shuffle(n, swap)
			}
		}
		answered, denied := 0, 0
		var l *Limiter
		clock := NewManualClock(0)
		for i, v := range vectors {
			if i == 0 || vectors[i-1].Seq != v.Seq {
				limits := v.limits()
				reorder(len(limits), func(i, j int) { limits[i], limits[j] = limits[j], limits[i] })
				options := []Option{WithClock(clock)}
				for _, limit := range limits {
					options = append(options, limit)
				}
				l = newTest(t, options...)
			}
			reorder(len(v.Keys), func(i, j int) { v.Keys[i], v.Keys[j] = v.Keys[j], v.Keys[i] })
			clock.Set(nanoseconds(t, v.Now))
			d := l.TakeAll(v.Keys, v.Weight)
			require.Equal(t, v.Over == 0, d.Allowed, "%s, call %d: %+v", order, i+1, v)
			answered++
			denied += v.Over
		}
		t.Logf("%s: %d calls answered alike, %d of them denied", order, answered, denied)
		require.Equal(t, 7490, answered)
	}
}
