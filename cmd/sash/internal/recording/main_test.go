package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The lines are compared, and not the compressed bytes: these may change with the compressor.
func TestRecording_IsMadeAgain(t *testing.T) {
	file, err := os.ReadFile("../../testdata/shop.log.gz")
	require.NoError(t, err)
	require.Less(t, len(file), 300_000)
	z, err := gzip.NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	recorded, err := io.ReadAll(z)
	require.NoError(t, err)
	made := strings.Join(newShop().day(), "\n") + "\n"
	require.True(t, made == string(recorded), "cmd/sash/testdata/shop.log.gz is not what the command recording writes")
}
