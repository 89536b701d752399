package tally_test

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/internal/tally"
)

func TestTally_CountsReloads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n tally.Tally
		l := sash.Must(sash.New(sash.PerHour(1), sash.WithSweepInterval(-1)))
		defer l.Close()
		require.NoError(t, n.WatchLimits(l))
		require.Nil(t, n.Read().Reloads, "there was none")
		n.ObserveReload(io.ErrUnexpectedEOF)
		require.Equal(t, &tally.Reloads{Failed: 1}, n.Read().Reloads)
		n.ObserveReload(nil)
		loaded := time.Now()
		require.Equal(t, &tally.Reloads{Loaded: 1, Failed: 1, Successful: true, LastSuccess: loaded}, n.Read().Reloads)
		time.Sleep(time.Hour)
		n.ObserveReload(io.ErrUnexpectedEOF)
		require.Equal(t, &tally.Reloads{Loaded: 1, Failed: 2, LastSuccess: loaded}, n.Read().Reloads)
	})
}

func TestTally_CountsReloadsBeforeItWatchesALimiter(t *testing.T) {
	var n tally.Tally
	n.ObserveReload(io.ErrUnexpectedEOF)
	require.Zero(t, n.Read())
	l := sash.Must(sash.New(sash.PerHour(1), sash.WithSweepInterval(-1)))
	defer l.Close()
	require.NoError(t, n.WatchLimits(l))
	require.EqualValues(t, 1, n.Read().Reloads.Failed)
}
