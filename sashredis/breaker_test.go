package sashredis

import (
	"context"
	"testing"

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
