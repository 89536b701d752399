package report

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var somewhere = Environment{
	CPU: "Some CPU <1>", Cores: 2, Free: 3 << 30, Go: "1.25.1", System: "linux/amd64",
	Clock: "system clock (kernel: hpet; a reason)", Commit: "abc1234", Command: "go run ./bench -quick", Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
}

func example() *Result {
	return &Result{
		Experiment: "speed", Question: "how fast", Environment: somewhere,
		Notes:   []string{"a note"},
		Records: []map[string]any{{"impl": "sash", "ns": 21.5}},
		Tables: []Table{{
			Title: "admitted", Columns: []string{"keys", "sash", "other"},
			Rows: [][]string{{"1k", "21", None}, {"10M", "210", "1,300"}}, Notes: []string{"of this table"},
		}},
		Plots: []Plot{
			{Name: "lines", Title: "a <b>", X: "x", Y: "y", Places: []string{"1", "2"}, Series: []Series{{"sash <1>", Own, []float64{math.NaN(), 1}}, {"flat", Other, []float64{30, 30}}, {"short", Other, []float64{30, math.NaN()}}, {"none", Other, nil}, {"least", Floor, []float64{0.5, 1}}}},
			{Title: "bars", Series: []Series{{"sash", Own, []float64{1000}}, {"other", Other, []float64{2000}}, {"none", Other, []float64{math.NaN()}}}, Bars: true},
			{Name: "left-out", Places: []string{"1"}, Series: []Series{{"none", Other, []float64{math.NaN()}}}},
		},
	}
}

func TestResult_WritesWhatCanBeRead(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "results")
	require.NoError(t, CanWrite(dir))
	for _, name := range []string{"speed-left-out.svg", "speedometer.svg"} { // of a run before, and a stranger's
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	files, err := example().Write(dir)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(dir, "speed-left-out.svg"))
	require.FileExists(t, filepath.Join(dir, "speedometer.svg"))
	var names []string
	for _, f := range files {
		names = append(names, filepath.Base(f))
	}
	require.Equal(t, []string{"speed.json", "speed-lines.svg", "speed.svg", "speed.md"}, names)

	for _, f := range files {
		content, err := os.ReadFile(f)
		require.NoError(t, err)
		switch filepath.Ext(f) {
		case ".json":
			var r struct {
				Experiment  string
				Environment Environment
				Records     []struct{ Ns float64 }
			}
			require.NoError(t, json.Unmarshal(content, &r))
			require.Equal(t, somewhere, r.Environment)
			require.Equal(t, 21.5, r.Records[0].Ns)
		case ".svg":
			parse(t, content)
			require.Contains(t, string(content), "commit abc1234")
			require.Contains(t, string(content), somewhere.Clock)
			require.Contains(t, string(content), "go run ./bench -quick")
		case ".md":
			require.Equal(t, strings.TrimLeft(`
# speed: how fast

Some CPU <1>, 2 cores, 3.0 GiB free, linux/amd64, Go 1.25.1, commit abc1234, 2026-01-02.
Clock: system clock (kernel: hpet; a reason).
`+"`go run ./bench -quick`"+`

## admitted

| keys | sash | other |
|------|-----:|------:|
| 1k   |   21 |     — |
| 10M  |  210 | 1,300 |

- of this table

- a note

![a <b>](speed-lines.svg)

![bars](speed.svg)
`, "\n"), string(content))
		}
	}
}

func TestResult_SaysThatItWasInterrupted(t *testing.T) {
	r := example()
	r.Interrupted = true
	var b bytes.Buffer
	r.Markdown(&b)
	require.Contains(t, b.String(), "**Interrupted:**")
}

func TestResult_WriteFailsWhereThereIsNoDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := example().Write(filepath.Join(file, "results"))
	require.Error(t, err)
}

func TestHere_KnowsWhereItIs(t *testing.T) {
	e := Here(t.Context(), "go run ./bench")
	require.NotEmpty(t, e.CPU)
	require.NotEmpty(t, e.Commit)
	require.Positive(t, e.Cores)
	require.Positive(t, e.Free)
	require.Contains(t, e.String(), "Go "+e.Go)
	require.Regexp(t, `^(time-stamp counter|system clock) \(kernel: .+\)$`, e.Clock)
}
