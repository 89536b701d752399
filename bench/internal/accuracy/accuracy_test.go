package accuracy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/bench/internal/traffic"
)

// of returns the verdict on a contender.
func of(t *testing.T, verdicts []Verdict, name string) Verdict {
	for _, v := range verdicts {
		if v.Contender.Name == name {
			return v
		}
	}
	require.Fail(t, "no contender "+name)
	return Verdict{}
}

func seconds(at ...float64) *traffic.Traffic {
	t := &traffic.Traffic{Clients: []string{"a"}}
	for _, s := range at {
		t.Events = append(t.Events, traffic.Event{At: int64(s * 1e9)})
	}
	return t
}

func TestJudge_CountsWhatIsWrong(t *testing.T) {
	// Two in ten seconds: at 19 both are taken, at 21 the fixed window and a full
	// bucket have forgotten; two counters weigh the last window at 0.9.
	verdicts, err := Judge(t.Context(), seconds(18, 19, 21, 22, 28.5, 29.5), sash.Per(2, 10*time.Second), Contenders())
	require.NoError(t, err)
	for _, tt := range []struct {
		name                                         string
		denied, wronglyAdmitted, wronglyDenied, most int64
	}{
		{"exact log", 2, 0, 0, 2},    // 28.5 and 29.5 are admitted
		{"fixed window", 2, 2, 2, 4}, // 21 and 22 are, 28.5 and 29.5 are not
		{"10 buckets", 2, 0, 0, 2},
		// 1 × 0.9 + 0 + 1 and so on: 2 × 0.9 + 1 > 2; at 28.5, 2 × 0.15 + 1 <= 2; at 29.5, 2 × 0.05 + 2 > 2.
		{"two counters", 3, 0, 1, 2},
	} {
		v := of(t, verdicts, tt.name)
		require.EqualValues(t, 6, v.Events)
		require.Equal(t, []int64{tt.denied, tt.wronglyAdmitted, tt.wronglyDenied, tt.most},
			[]int64{v.Denied, v.WronglyAdmitted, v.WronglyDenied, v.Most}, tt.name)
	}
}

// Each way of being wrong is reached, and no bound is passed.
func TestJudge_NobodyPassesWhatIsProven(t *testing.T) {
	worst := map[string]float64{}
	check := func(verdicts []Verdict, limit sash.Limit, what string) {
		for _, v := range verdicts {
			times := float64(v.Most) / float64(limit.Count)
			worst[v.Contender.Name] = max(worst[v.Contender.Name], times)
			if v.Contender.Bound == 0 {
				continue
			}
			require.LessOrEqual(t, times, v.Contender.Bound, "%s, %s", what, v.Contender.Name)
			if v.Contender.Strict {
				require.Less(t, times, v.Contender.Bound, "%s, %s", what, v.Contender.Name)
			}
		}
	}
	for _, made := range Made {
		verdicts, err := Judge(t.Context(), made.Make(3, 12), Limit, Contenders())
		require.NoError(t, err)
		check(verdicts, Limit, made.Name)
	}
	require.Equal(t, 2.0, worst["60 buckets"], "they are no more than 60")
	random := rand.New(rand.NewPCG(1, 1))
	for range 30 {
		limit := sash.Per(1+random.Int64N(9), time.Duration(60*(1+random.IntN(1000)))*time.Millisecond)
		tr := &traffic.Traffic{Clients: []string{"a", "b"}}
		at := int64(0)
		for range 500 {
			at += random.Int64N(int64(limit.Window) / limit.Count)
			tr.Events = append(tr.Events, traffic.Event{At: at, Client: random.Uint32N(2)})
		}
		verdicts, err := Judge(t.Context(), tr, limit, Contenders())
		require.NoError(t, err)
		check(verdicts, limit, limit.String())
	}
	require.Equal(t, 1.0, worst["exact log"])
	require.Greater(t, worst["two counters"], 1.9)
	require.Equal(t, 2.0, worst["fixed window"])
	require.Greater(t, worst["token bucket, x-time-rate"], 1.9)
}

func TestMake_IsTheSameEachTimeAndInOrder(t *testing.T) {
	for _, made := range Made {
		one, two := made.Make(3, 7), made.Make(3, 7)
		require.Equal(t, one, two, made.Name)
		require.Len(t, one.Clients, 3)
		for i := 1; i < len(one.Events); i++ {
			require.LessOrEqual(t, one.Events[i-1].At, one.Events[i].At, made.Name)
		}
	}
}

func TestJudge_EndsWhereItIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Judge(ctx, seconds(1), Limit, Contenders())
	require.ErrorIs(t, err, context.Canceled)
}

func ExampleJudge() {
	t := Made[1].Make(1, 2) // 100 at a window's end, and 100 at the next one's beginning
	verdicts, _ := Judge(context.Background(), t, Limit, Contenders())
	for _, v := range verdicts[:6] {
		fmt.Printf("%s: at most %d of %v\n", v.Contender.Name, v.Most, Limit)
	}
	// Output:
	// exact log: at most 100 of 100/10s
	// two counters: at most 100 of 100/10s
	// 60 buckets: at most 100 of 100/10s
	// 10 buckets: at most 100 of 100/10s
	// 2 buckets: at most 100 of 100/10s
	// fixed window: at most 200 of 100/10s
}
