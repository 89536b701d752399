package sashredis

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
)

// A forbidden is a Conn that must not be used.
type forbidden struct{ *testing.T }

func (f forbidden) Run(context.Context, *Script, []string, []string) (string, error) {
	f.Error("the store is asked")
	return "", nil
}

// An examination may begin when Close has begun, and not yet waited for it.
func TestExamine_AsksNothingOnceCloseHasBegun(t *testing.T) {
	l, err := New(forbidden{t}, []sash.Limit{sash.PerMinute(1)}, WithFallback(FallbackDeny))
	require.NoError(t, err)
	l.cancel()
	l.examine([]string{"k"})
	require.NoError(t, l.Close())
	l.examine([]string{"k"})
}

// A hanging is a Conn that panics once its context has ended.
type hanging struct{ asked chan struct{} }

func (h hanging) Run(ctx context.Context, _ *Script, _, _ []string) (string, error) {
	close(h.asked)
	<-ctx.Done()
	panic("closed")
}

// What Close has ended says nothing about the store, whatever the Conn makes of it.
func TestExamine_CountsNothingThatCloseHasEnded(t *testing.T) {
	conn := hanging{make(chan struct{})}
	l, err := New(conn, []sash.Limit{sash.PerMinute(1)}, WithFallback(FallbackDeny), WithTimeout(time.Hour))
	require.NoError(t, err)
	l.examine([]string{"k"})
	<-conn.asked
	require.NoError(t, l.Close())
	require.Zero(t, l.Stats().Failures)
}
