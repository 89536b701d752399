// Package keys makes the keys of the measurements, and chooses among them.
package keys

import (
	"fmt"
	"math/rand"
	"strconv"
	"strings"
)

// maxKeys is the greatest number of keys. It fits an int of 32 bits.
const maxKeys = 2_000_000_000

// Append appends the i-th key, such as 203.0.113.7. No two keys are equal, and consecutive
// keys do not look alike.
func Append(b []byte, i int) []byte {
	scrambled := uint32(i) * 0x9e3779b1 // odd: a bijection
	for shift := 24; shift >= 0; shift -= 8 {
		b = strconv.AppendUint(b, uint64(scrambled>>shift&0xff), 10)
		if shift > 0 {
			b = append(b, '.')
		}
	}
	return b
}

// New returns the i-th key in new bytes. In a service a key is never the very string that
// the table holds, either.
func New(i int) string { return string(Append(make([]byte, 0, 15), i)) }

// Range returns the first n keys, each in its own bytes.
func Range(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = New(i)
	}
	return all
}

// Distributions are the names of the distributions.
var Distributions = []string{Uniform, Zipf}

// The distributions of keys.
const (
	Uniform = "uniform" // all keys are equally frequent
	Zipf    = "zipf"    // the frequency of the k-th key is proportional to k^-1.01
)

// exponent is the exponent of Zipf. It is as near to 1 as math/rand allows. Web clients and
// pages have an exponent of about 1.
const exponent = 1.01

// Chooser returns a function that chooses the number of one of n keys. With the same seed it
// makes the same choices.
func Chooser(distribution string, n int, seed int64) func() int {
	r := rand.New(rand.NewSource(seed))
	switch distribution {
	case Uniform:
		return func() int { return r.Intn(n) }
	case Zipf:
		z := rand.NewZipf(r, exponent, 1, uint64(n)-1)
		return func() int { return int(z.Uint64()) }
	}
	panic("keys: no distribution " + distribution)
}

// Script returns n keys chosen by choose. Their bytes are new, and lie in memory in the order
// of the keys. So reading them costs about as little as if they had just been built.
func Script(n int, choose func() int) []string {
	b := make([]byte, 0, n*15)
	ends := make([]int, n)
	for k := range ends {
		b = Append(b, choose())
		ends[k] = len(b)
	}
	text := string(b)
	script, from := make([]string, n), 0
	for k, end := range ends {
		script[k], from = text[from:end], end
	}
	return script
}

// Parse parses a number of keys, such as 1000, 10_000_000, 1k or 4M.
func Parse(s string) (int, error) { return Number(s, maxKeys) }

// Number parses a number from 1 to limit in the same way.
func Number(s string, limit int) (int, error) {
	digits, unit := strings.ReplaceAll(strings.TrimSpace(s), "_", ""), 1
	switch {
	case strings.HasSuffix(digits, "k"):
		digits, unit = digits[:len(digits)-1], 1000
	case strings.HasSuffix(digits, "M"):
		digits, unit = digits[:len(digits)-1], 1_000_000
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > limit/unit {
		return 0, fmt.Errorf("%q is no number: want one from 1 to %s, such as 10_000 or 10k", s, Label(limit))
	}
	return n * unit, nil
}

// Label returns the shortest text that Parse parses as n.
func Label(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return strconv.Itoa(n/1_000_000) + "M"
	case n >= 1000 && n%1000 == 0:
		return strconv.Itoa(n/1000) + "k"
	}
	return strconv.Itoa(n)
}
