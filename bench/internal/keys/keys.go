// Package keys makes the keys that limiters are measured with, and chooses among them.
package keys

import (
	"fmt"
	"math/rand"
	"strconv"
	"strings"
)

// most is how many keys can be asked for: few enough for an int of 32 bits.
const most = 2_000_000_000

// Append appends the i-th key, such as 203.0.113.7: no two are equal, and neighbours
// do not look alike.
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

// New returns the i-th key, each time in bytes of its own, as a service has its keys:
// never the very string that a table holds.
func New(i int) string { return string(Append(make([]byte, 0, 15), i)) }

// Range returns the first n keys, each in bytes of its own.
func Range(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = New(i)
	}
	return all
}

// Distributions are the names of those there are.
var Distributions = []string{Uniform, Zipf}

// How often keys are asked for.
const (
	Uniform = "uniform" // all alike
	Zipf    = "zipf"    // the k-th as often as k^-1.01: a few very often
)

// exponent is of Zipf: as near to 1 as math/rand allows, which is about what is found
// for web clients and pages.
const exponent = 1.01

// Chooser returns a function that chooses one of n keys by its number. The same seed
// makes it choose the same.
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

// Script returns n keys as choose chooses them. Their bytes are new, and lie in memory
// in the order they are asked for in, so that reading them costs about as little as
// where they have just been built.
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

// Parse reads a number of keys, such as 1000, 10_000_000, 1k or 4M.
func Parse(s string) (int, error) { return Number(s, most) }

// Number reads a number from 1 to most in the same way.
func Number(s string, most int) (int, error) {
	digits, unit := strings.ReplaceAll(strings.TrimSpace(s), "_", ""), 1
	switch {
	case strings.HasSuffix(digits, "k"):
		digits, unit = digits[:len(digits)-1], 1000
	case strings.HasSuffix(digits, "M"):
		digits, unit = digits[:len(digits)-1], 1_000_000
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > most/unit {
		return 0, fmt.Errorf("%q is no number: want one from 1 to %s, such as 10_000 or 10k", s, Label(most))
	}
	return n * unit, nil
}

// Label writes a number of keys as Parse reads it, in short.
func Label(n int) string {
	switch {
	case n >= 1_000_000 && n%1_000_000 == 0:
		return strconv.Itoa(n/1_000_000) + "M"
	case n >= 1000 && n%1000 == 0:
		return strconv.Itoa(n/1000) + "k"
	}
	return strconv.Itoa(n)
}
