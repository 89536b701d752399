package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The lines are compared, and not the compressed bytes: these may change with the compressor.
func TestRecording_IsMadeAgain(t *testing.T) {
	file, err := os.Open("../../testdata/shop.log.gz")
	require.NoError(t, err)
	defer file.Close()
	info, err := file.Stat()
	require.NoError(t, err)
	require.Less(t, info.Size(), int64(300_000))
	var made bytes.Buffer
	require.NoError(t, write(&made))
	require.True(t, bytes.Equal(lines(t, file), lines(t, &made)), "cmd/sash/testdata/shop.log.gz is not what the command recording writes")
}

func lines(t *testing.T, r io.Reader) []byte {
	t.Helper()
	z, err := gzip.NewReader(r)
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	return text
}
