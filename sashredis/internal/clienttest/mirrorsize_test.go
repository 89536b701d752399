package clienttest

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/sashredis"
)

// An answering is a Conn that answers each call on counters at once: one unit was charged before.
type answering struct{}

func (answering) Run(_ context.Context, _ *sashredis.Script, keys, args []string) (string, error) {
	const now int64 = 1_800_000_000_000_000
	var states []string
	for _, limits := range args[4:] {
		for limit := range strings.SplitSeq(strings.TrimSuffix(limits, ";"), ";") {
			window, err := strconv.ParseInt(strings.Fields(limit)[1], 10, 64)
			if err != nil {
				return "", err
			}
			states = append(states, fmt.Sprintf("%d 0 1", now/window))
		}
	}
	return fmt.Sprintf("%d|1|0 0|%s|%s", now, strings.Repeat(" ", len(keys)-1), strings.Join(states, ";")), nil
}

// heap returns the bytes of all objects that are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // also those that pools have kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A mirror takes no more than WithMirror says, whatever the limits of keys and their names are, and
// however many keys a call has.
func TestMirror_TakesNoMoreBytesThanItMay(t *testing.T) {
	const keys = 1024
	for _, c := range []struct{ limits, name, together int }{
		{1, 16, 1}, {4, 16, 1}, {16, 16, 1}, {64, 16, 1}, {1, 512, 1}, {1, 16, 32}, {4, 300, 32},
	} {
		var limits []sash.Limit
		for i := range c.limits {
			limits = append(limits, sash.Per(100, time.Duration(1+i)*time.Minute).Counter())
		}
		l, err := sashredis.New(answering{}, limits, sashredis.WithFallback(sashredis.FallbackDeny), sashredis.WithMirror(keys))
		require.NoError(t, err)
		before := heap()
		for i := range 2 * keys {
			names := []string{fmt.Sprintf("%0*d", c.name, i)}
			for j := range c.together - 1 { // the next call replaces what is kept of these
				names = append(names, fmt.Sprintf("common%0*d", c.name, j))
			}
			require.NoError(t, l.TakeAll(context.Background(), names, 1).Err)
		}
		used := heap() - before
		assert.LessOrEqual(t, used, int64(keys*512*5/4), "%+v", c)
		if c.limits < 20 {
			assert.Greater(t, used, int64(keys*100), "%+v", c)
		}
		runtime.KeepAlive(l)
	}
}
