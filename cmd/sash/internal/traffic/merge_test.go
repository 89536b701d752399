package traffic

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// readAll reads files of these contents, and returns the events as time in microseconds and
// client.
func readAll(t *testing.T, s *Settings, contents ...string) (events []string, tr *Traffic) {
	t.Helper()
	var files []string
	for i, content := range contents {
		files = append(files, filepath.Join(t.TempDir(), fmt.Sprint(i)))
		require.NoError(t, os.WriteFile(files[i], []byte(content), 0o600))
	}
	tr, err := Read(t.Context(), s, files, nil, io.Discard, func(tr *Traffic, batch []Event) error {
		for _, e := range batch {
			events = append(events, fmt.Sprintf("%d %s", e.At/1000, tr.Clients[e.Client]))
		}
		return nil
	})
	require.NoError(t, err)
	assert.EqualValues(t, len(events), tr.Events)
	assert.Equal(t, tr.Lines, tr.Events+tr.Blank+tr.Unreadable+tr.Headings, "lines lost")
	return events, tr
}

// Lines that are late by no more than the room for them are sorted as if all were in memory.
func TestRead_SortsWithinBoundedRoom(t *testing.T) {
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 5))
		const lines, room = 6 * minRoom, minRoom
		type line struct {
			at int
			is string
		}
		var all []line
		for i := range lines {
			all = append(all, line{i / 3, fmt.Sprintf("%d %d", i/3, i)}) // three at each instant
		}
		// Shuffled within blocks, no line is more lines late than a block has.
		for block := range slices.Chunk(all[room/4:], room) {
			if seed > 0 {
				random.Shuffle(len(block), func(i, j int) { block[i], block[j] = block[j], block[i] })
			}
		}
		var log strings.Builder
		var want []string
		for _, l := range all {
			log.WriteString(strings.Replace(l.is, " ", "\t", 1) + "\n")
		}
		slices.SortStableFunc(all, func(a, b line) int { return a.at - b.at })
		for _, l := range all {
			want = append(want, l.is)
		}
		got, tr := readAll(t, &Settings{Reorder: room}, log.String())
		require.Equal(t, want, got)
		assert.Zero(t, tr.Late)
	}
}

func TestRead_CountsLinesThatAreTooLate(t *testing.T) {
	var log strings.Builder
	for i := range 4 * minRoom {
		fmt.Fprintf(&log, "%d\ta\n", 1000+i)
	}
	log.WriteString("5\tlate\n")
	got, tr := readAll(t, &Settings{Reorder: minRoom}, log.String())
	assert.EqualValues(t, 1, tr.Late)
	assert.EqualValues(t, 1, tr.OutOfOrder)
	i := slices.IndexFunc(got, func(s string) bool { return strings.HasSuffix(s, "late") })
	require.Positive(t, i)
	assert.Equal(t, got[i-1], strings.Replace(got[i], "late", "a", 1), "it has the time of the one before")
	assert.Contains(t, tr.Warnings(nil)[0], "1 line came too late to be put in order")

	_, tr = readAll(t, &Settings{}, log.String())
	assert.Zero(t, tr.Late)
}

// Without room for late lines, every line stays where it is, and each that is late is counted.
func TestRead_PutsNothingInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 9))
	var logs [2]string
	var want [2][]string
	late := int64(0)
	for f := range logs {
		last := 0
		for range 2*batchSize + 100 {
			at := random.IntN(100_000)
			logs[f] += fmt.Sprintf("%d\t%d\n", at, f)
			if at < last {
				late++
			}
			last = max(last, at)
			want[f] = append(want[f], fmt.Sprintf("%d %d", last, f))
		}
	}
	s, err := settingsOf([]string{"-reorder", "0"})
	require.NoError(t, err)
	got, tr := readAll(t, s, logs[:]...)
	assert.Equal(t, late, tr.Late)
	for f, lines := range want {
		assert.Equal(t, lines, slices.DeleteFunc(slices.Clone(got), func(s string) bool { return !strings.HasSuffix(s, fmt.Sprint(" ", f)) }))
	}
	assert.True(t, slices.IsSortedFunc(got, func(a, b string) int { return timeOf(t, a) - timeOf(t, b) }), "the files are merged all the same")
}

// timeOf returns the time of an event as readAll writes it.
func timeOf(t *testing.T, event string) int {
	at, err := strconv.Atoi(strings.Split(event, " ")[0])
	require.NoError(t, err)
	return at
}

func TestSettings_RefusesRoomThatNoMachineHas(t *testing.T) {
	for _, text := range []string{"-1", "x", "", "1.5", "536870913", "9223372036854775807", "99999999999999999999"} {
		_, err := settingsOf([]string{"-reorder", text})
		assert.EqualError(t, err, "-reorder must be from 0 to 536870912, got "+strconv.Quote(text))
	}
	s, err := settingsOf([]string{"-reorder", "536870912"})
	require.NoError(t, err)
	got, _ := readAll(t, s, "2\tb\n1\ta\n")
	assert.Equal(t, []string{"1 a", "2 b"}, got)
	for text, want := range map[string]int{"0x400": 1024, "1_000_000": 1000000, "0x0": InOrder} {
		s, err := settingsOf([]string{"-reorder", text})
		require.NoError(t, err)
		assert.Equal(t, want, s.Reorder)
	}
}

// A line with a time far ahead does not make those after it late.
func TestRead_OneLineAheadMakesNoOtherLate(t *testing.T) {
	var log strings.Builder
	log.WriteString("9000000000000000\tahead\n")
	for i := range 4 * minRoom {
		fmt.Fprintf(&log, "%d\ta\n", i)
	}
	got, tr := readAll(t, &Settings{Reorder: minRoom}, log.String())
	assert.Zero(t, tr.Late)
	assert.Equal(t, "9000000000000000 ahead", got[len(got)-1])
}

func TestRead_MergesAnyNumberOfFiles(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 6))
		logs := make([]string, 1+random.IntN(6))
		type event struct {
			at, file int
			is       string
		}
		var all []event
		for f := range logs {
			at := 0
			for range random.IntN(3000) {
				at += random.IntN(3)
				all = append(all, event{at, f, fmt.Sprintf("%d %d", at, f)})
				logs[f] += fmt.Sprintf("%d\t%d\n", at, f)
			}
		}
		slices.SortStableFunc(all, func(a, b event) int { return a.at - b.at }) // of one instant by file
		var want []string
		for _, e := range all {
			want = append(want, e.is)
		}
		got, _ := readAll(t, &Settings{}, logs...)
		require.Equal(t, want, got)
	}
}

func TestRead_EndsWithTheErrorOfEach(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(name, []byte(strings.Repeat("1\ta\n", 10*batchSize)), 0o600))
	full := errors.New("full")
	calls := 0
	_, err := Read(t.Context(), &Settings{}, []string{name}, nil, io.Discard, func(*Traffic, []Event) error {
		calls++
		return full
	})
	assert.ErrorIs(t, err, full)
	assert.Equal(t, 1, calls)
}

func TestSettings_FilesShareTheRoomForLateLines(t *testing.T) {
	assert.Equal(t, DefaultReorder, (&Settings{}).room(1))
	assert.Equal(t, DefaultReorder/4, (&Settings{}).room(4))
	assert.Equal(t, minRoom, (&Settings{}).room(1000))
	assert.Equal(t, 5, (&Settings{Reorder: 5}).room(2))
}

// repeated is a reader of a text, many times.
type repeated struct {
	text  string
	times int
	rest  strings.Reader
}

func (r *repeated) Read(p []byte) (int, error) {
	for r.rest.Len() == 0 {
		if r.times == 0 {
			return 0, io.EOF
		}
		r.times--
		r.rest.Reset(r.text)
	}
	return r.rest.Read(p)
}

func TestRead_MemoryDoesNotGrowWithTheNumberOfLines(t *testing.T) {
	const lines, most = 500_000, 8 << 20 // all events would take 16 MB
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	seen := 0
	_, err := Read(t.Context(), &Settings{Reorder: minRoom}, []string{StandardInput}, &repeated{text: "1\ta\n", times: lines}, io.Discard,
		func(_ *Traffic, events []Event) error {
			if seen += len(events); seen == lines {
				runtime.GC()
				runtime.ReadMemStats(&after)
			}
			return nil
		})
	require.NoError(t, err)
	require.Equal(t, lines, seen)
	assert.Less(t, after.HeapAlloc, before.HeapAlloc+most)
}
