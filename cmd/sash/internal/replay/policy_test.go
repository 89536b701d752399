package replay

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/seed-30da4c49/sash/internal/command"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
)

func TestTogether_AdmitsWhatEveryLimitAdmits(t *testing.T) {
	t.Parallel()
	const seeds = 24
	var wrong int64
	decided := map[sash.Algorithm]int64{}
	for seed := range uint64(seeds) {
		random := rand.New(rand.NewPCG(seed, 2))
		limits := policy{
			randomLimit(random, sash.SlidingCounter),
			randomLimit(random, sash.SlidingLog),
			randomLimit(random, sash.SlidingBuckets),
			randomLimit(random, sash.TokenBucket),
			randomLimit(random, sash.SlidingParts),
		}
		lines := randomLines(random)
		want := plainReplay(lines, 0, limits...)
		args := []string{"-json", "-together"}
		for _, l := range limits {
			args = append(args, "-limit", l.String())
		}
		r := invoke(tsvOf(lines), args...).report(t)
		require.Len(t, r.Limits, 1)
		got := r.Limits[0]
		assert.Equal(t, want.counts(), got.counts(), limits)
		assert.Equal(t, len(want.deniedOf), got.DeniedClients)
		assert.False(t, got.Exact)
		assert.Zero(t, got.Limit)
		require.Len(t, got.Together, len(limits))
		var sum int64
		for i, d := range got.Together {
			assert.Equal(t, limits[i], d.Limit)
			decided[d.Limit.Algorithm] += d.Denied
			sum += d.Denied
		}
		assert.Equal(t, got.Denied, sum)
		wrong += got.WronglyAdmitted + got.WronglyDenied
	}
	assert.Greater(t, wrong, int64(seeds), "this traffic does not tell the algorithms apart")
	assert.Len(t, decided, 5)
	for a, n := range decided {
		assert.Greater(t, n, int64(seeds), "%v hardly decides", a)
	}
}

func TestTogether_CountsTheLimitThatDecided(t *testing.T) {
	const second = 1_000_000
	// Under both logs three are admitted: at 0, at 0 and at 1.
	seconds := []int64{0, 0, 0, 1, 1, 59, 60}
	tests := []struct {
		name    string
		limits  []string
		decided []int64
	}{
		// At 0 the first has a second to wait; at 1 and at 59 the second has more.
		{"the longest wait", []string{"2/1s log", "3/1m log"}, []int64{1, 2}},
		{"in any order", []string{"3/1m log", "2/1s log"}, []int64{2, 1}},
		{"the first of equals", []string{"3/1m log", "3/1m buckets 1ns"}, []int64{3, 0}},
		{"one alone", []string{"2/1m log"}, []int64{4}},
		{"a token bucket", []string{"1/1m burst 2", "4/1m log"}, []int64{4, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"-json", "-together"}
			for _, l := range tt.limits {
				args = append(args, "-limit", l)
			}
			var lines []line
			for _, s := range seconds {
				lines = append(lines, line{micros: s * second, client: "a"})
			}
			r := invoke(tsvOf(lines), args...).report(t)
			require.Len(t, r.Limits, 1)
			var decided []int64
			for _, d := range r.Limits[0].Together {
				decided = append(decided, d.Denied)
				assert.InDelta(t, float64(d.Denied)/float64(r.Limits[0].Denied), d.Share, 1e-9)
			}
			assert.Equal(t, tt.decided, decided)
		})
	}
}

func TestTogether_IsExactIfEveryLimitIs(t *testing.T) {
	const stdin = "0\ta\n"
	assert.True(t, invoke(stdin, "-json", "-together", "-limit", "2/s log", "-limit", "3/m log").report(t).Limits[0].Exact)
	assert.True(t, invoke(stdin, "-json", "-together", "-limit", "2/s log", "-limit", "3/m burst 9").report(t).Limits[0].Exact)
	assert.False(t, invoke(stdin, "-json", "-together", "-limit", "2/s log", "-limit", "3/m counter").report(t).Limits[0].Exact)
	assert.False(t, invoke(stdin, "-json", "-together", "-limit", "2/s burst 9", "-limit", "3/m counter").report(t).Limits[0].Exact)
}

func TestTogether_TextReport(t *testing.T) {
	stdin := strings.Join([]string{"0\ta", "0\ta", "0\ta", "1000000\ta", "1000001\tb", "1500000\ta", "2500000\ta"}, "\n")
	got := invoke(stdin, "-together", "-limit", "2/1s log", "-limit", "3/m buckets 1s")
	assert.Equal(t, command.OK, got.status, got.stderr)
	assert.Equal(t, `-: 7 events by 2 clients, told apart by addr/64
from 1970-01-01 00:00:00 to 1970-01-01 00:00:02 UTC, 3s
read as micros: it reads 7 of the first 7 lines

  denied  of events  clients denied  exactly denied  wrongly admitted  wrongly denied  wrong of events  limit
       3    42.857%               1               3                 0               0           0.000%  2/1s log and 3/1m0s buckets 1s

denials by the limit that decided, the one with the longest wait
  denied  of denials  limit
       1     33.333%  2/1s log
       2     66.667%  3/1m0s buckets 1s

denied most under 2/1s log and 3/1m0s buckets 1s, times in UTC
  denied  of its events         first denied          last denied    busiest minute  denied in it  client
       3              6  1970-01-01 00:00:00  1970-01-01 00:00:02  1970-01-01 00:00             3  a
`, got.stdout)
}

func TestTogether_EachFileAndTop(t *testing.T) {
	first := file(t, "one", []byte("0\ta\n0\ta\n"))
	second := file(t, "two", zipped(t, "0\ta\n0\tb\n0\tb\n"))
	reports := invoke("", "-json", "-each", "-together", "-top", "1", "-limit", "1/s log", "-limit", "2/m", first, second).decode(t)
	require.Len(t, reports, 2)
	for i, client := range []string{"a", "b"} {
		require.Len(t, reports[i].Limits, 1)
		require.Len(t, reports[i].Limits[0].Top, 1)
		assert.Equal(t, client, reports[i].Limits[0].Top[0].Client)
	}
}
