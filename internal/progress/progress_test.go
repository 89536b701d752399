package progress

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBar_DrawsOverTheFormerLine(t *testing.T) {
	var terminal bytes.Buffer
	former := "a very long name, with nothing done yet, that the next line does not fill"
	b := &Bar{terminal: &terminal, total: 200, what: former}
	b.draw(time.Minute)
	require.Equal(t, "\r"+former, terminal.String())

	terminal.Reset()
	b.what, b.done = "short", 50
	b.draw(time.Minute)
	line := "short  25% |" + strings.Repeat("=", 7) + strings.Repeat(" ", 23) + "| 3m0s left"
	require.Equal(t, "\r"+line+strings.Repeat(" ", len(former)-len(line)), terminal.String())

	terminal.Reset()
	width := b.width
	b.Clear()
	require.Equal(t, "\r"+strings.Repeat(" ", width)+"\r", terminal.String())
}

func TestBar_CountsWhatIsDone(t *testing.T) {
	b := On(io.Discard, -1, "reading")
	n, err := b.Write(make([]byte, 1_500_000))
	require.NoError(t, err)
	require.Equal(t, 1_500_000, n)
	b.Describe("still reading")
	require.Equal(t, "still reading: 1.5 million", b.line(time.Minute))

	b = On(io.Discard, 100, "measuring")
	b.Add(150) // an estimate was too low
	require.Contains(t, b.line(time.Minute), "100%")
	require.Contains(t, b.line(time.Minute), " 0s left")
}

// A reader that is late does not draw over the output that came after Clear.
func TestBar_StaysClear(t *testing.T) {
	var terminal bytes.Buffer
	b := &Bar{terminal: &terminal, total: 100, what: "reading"}
	b.Add(10)
	require.NotEmpty(t, terminal.String())
	b.Clear()

	terminal.Reset()
	b.drawn = time.Time{} // long ago
	b.Add(10)
	require.Empty(t, terminal.String())

	b.Describe("another job")
	require.Contains(t, terminal.String(), "another job  20%")
}

func TestTerminal_IsNoFileOrBuffer(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	defer f.Close()
	for _, w := range []io.Writer{f, &bytes.Buffer{}, nil} {
		require.Equal(t, io.Discard, Terminal(w))
	}
}
