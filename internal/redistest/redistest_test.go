package redistest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/redistest"
)

func TestStart_ServesAndKeepsNothing(t *testing.T) {
	s := redistest.Start(t)
	assert.Equal(t, "unix", s.Network())
	assert.Less(t, len(s.Addr()), 104)
	assert.Equal(t, "OK", s.Command("SET", "a", "1"))
	assert.Equal(t, "1", s.Command("GET", "a"))
	assert.Equal(t, int64(2), s.Command("INCR", "a"))
	assert.Nil(t, s.Command("GET", "b"))
	assert.Equal(t, []any{"2", nil}, s.Command("MGET", "a", "b"))
	_, err := s.Do(t.Context(), "LPOP", "a")
	assert.ErrorContains(t, err, "WRONGTYPE")
	s.Restart()
	assert.Nil(t, s.Command("GET", "a"))
}

func TestStart_RestartsWithItsFiles(t *testing.T) {
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s.Command("SET", "a", "1")
	s.Kill()
	_, err := s.Do(t.Context(), "GET", "a")
	require.Error(t, err)
	s.Restart()
	assert.Equal(t, "1", s.Command("GET", "a"))
}

func TestServer_PausedAnswersNothing(t *testing.T) {
	s := redistest.Start(t)
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := s.Do(ctx, "PING")
	require.Error(t, err)
	s.Resume()
	assert.Equal(t, "PONG", s.Command("PING"))
}

func TestServer_PausedIsEndedWithTheTest(t *testing.T) {
	var s *redistest.Server
	t.Run("", func(t *testing.T) {
		s = redistest.Start(t)
		s.Pause()
	})
	_, err := s.Do(t.Context(), "PING")
	assert.Error(t, err)
}

func TestStartReplicated_CopiesToTheReplica(t *testing.T) {
	primary, replica := redistest.StartReplicated(t)
	primary.Command("SET", "a", "1")
	replica.Until("it has the key", func(context.Context) bool { return replica.Command("GET", "a") == "1" })
	_, err := replica.Do(t.Context(), "SET", "a", "2")
	assert.ErrorContains(t, err, "READONLY")
}

func TestStartCluster_ServesEachSlotOnce(t *testing.T) {
	nodes := redistest.StartCluster(t)
	for _, key := range []string{"a", "b", "c", "d", "e", "f"} { // slots 15495, 3300, 7365, 11298, 15363, 3168
		served := 0
		for _, s := range nodes {
			if _, err := s.Do(t.Context(), "SET", key, "1"); err == nil {
				served++
			} else {
				assert.ErrorContains(t, err, "MOVED")
			}
		}
		assert.Equal(t, 1, served, key)
	}
}
