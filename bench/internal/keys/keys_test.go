package keys

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNew_NoTwoKeysAreEqual(t *testing.T) {
	all := Range(300_000)
	slices.Sort(all)
	require.Len(t, slices.Compact(all), 300_000)
	var apart []string // the low bits alone do not tell them apart
	for i := range 119 {
		apart = append(apart, New(i<<24))
	}
	slices.Sort(apart)
	require.Len(t, slices.Compact(apart), 119)
}

func TestScript_IsWhatWasChosen(t *testing.T) {
	for _, distribution := range Distributions {
		choose, again := Chooser(distribution, 1000, 7), Chooser(distribution, 1000, 7)
		for _, key := range Script(500, choose) {
			require.Equal(t, New(again()), key)
		}
	}
}

// counts returns how often each of n keys is chosen.
func counts(distribution string, n, choices int, seed int64) []int {
	counts := make([]int, n)
	choose := Chooser(distribution, n, seed)
	for range choices {
		counts[choose()]++
	}
	return counts
}

func TestChooser_ZipfByRank(t *testing.T) {
	const n, choices = 1000, 200_000
	c := counts(Zipf, n, choices, 1)
	// The sum of k^-1.01 over 1000 ranks is 7.29: the first has 13.7% of all.
	require.InDelta(t, 0.137, float64(c[0])/choices, 0.01)
	require.InDelta(t, 0.5, float64(c[1])/float64(c[0]), 0.05)
	require.InDelta(t, 0.1, float64(c[9])/float64(c[0]), 0.02)
	require.NotEqual(t, c, counts(Zipf, n, choices, 2), "another seed")
	require.Equal(t, c, counts(Zipf, n, choices, 1), "the same seed")
}

func TestChooser_UniformChoosesAllAlike(t *testing.T) {
	for i, c := range counts(Uniform, 100, 100_000, 1) {
		require.InDelta(t, 1000, c, 200, "key %d", i)
	}
}

func TestParse_ReadsWhatIsWritten(t *testing.T) {
	for s, want := range map[string]int{"1": 1, "1k": 1000, "10_000_000": 10_000_000, " 4M": 4_000_000, "1500": 1500} {
		n, err := Parse(s)
		require.NoError(t, err)
		require.Equal(t, want, n)
		again, err := Parse(Label(n))
		require.NoError(t, err)
		require.Equal(t, want, again)
	}
	for _, s := range []string{"", "0", "-1", "k", "1.5M", "1e6", "9999999999", "3000M", "9223372036854775807k"} {
		_, err := Parse(s)
		require.ErrorContains(t, err, "want one from 1 to 2000M")
	}
}
