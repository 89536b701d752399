package docs

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/figures"
)

// notFigures are passages with a time or a commit that is not measured, by document.
var notFigures = map[string][]string{
	// Bounds of histograms.
	"sashprometheus/README.md": {"from 0.1 ms to 1 s", "250 and 500 ms"},
	"sashotel/README.md":       {"from 0.1 ms to 1 s"},
	// Intervals that the code keeps, as its tests show.
	"sashredis/README.md": {"up to 63 microseconds later", "after 5 ms", "up to 250 ms"},
	"docs/guide.md":       {"one every 10 ms"},
	// Windows of a count, and Windows that are too short.
	"docs/algorithms.md": {"busiest 100 ms", "all 100 ms", "below 3.6 µs", "below 0.92 ms"},
	// The pace at which a recording is replayed.
	"docs/operators.md": {"300 times as fast"},
	// How far a clock may be wrong, and how long a window counts.
	"SECURITY.md":       {"0.3 s if the counter then runs half as fast"},
	"docs/migrating.md": {"any 56.25 s"},
	// A run of .ci/run.
	"CONTRIBUTING.md": {"clone of f7d1646"},
}

// notTimes are passages of comments with a time that is a setting, a bound or a unit, or with a ratio that is no promise.
var notTimes = map[string][]string{
	"sashredis/limiter.go":            {"2^51 microseconds"},
	"cmd/sash/internal/replay/run.go": {"18 microseconds"},
	"internal/window/ticks.go":        {"ticks of 1 ns"},
	"internal/race/race.go":           {"ten times as long"},
	"clock.go":                        {"if the counter then runs half as fast"},
}

const performancePage = "docs/performance.md"

// documentTexts returns the documents whose figures the publication writes, by their names in the repository.
func documentTexts(t *testing.T) map[string]string {
	all := map[string]string{}
	for _, name := range files(t, ".md") {
		short, err := filepath.Rel(root, name)
		require.NoError(t, err)
		if short = filepath.ToSlash(short); slices.Contains(figures.Exempt, short) {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		all[short] = string(text)
	}
	return all
}

func TestDocuments_EveryFigureIsOfOneRun(t *testing.T) {
	for _, err := range figures.Agree(performancePage, documentTexts(t)) {
		t.Error(err)
	}
}

func TestDocuments_ThePictureIsOfThatRun(t *testing.T) {
	named := regexp.MustCompile(`commit [0-9a-f]{7}`)
	page, err := os.ReadFile(filepath.Join(root, performancePage))
	require.NoError(t, err)
	picture, err := os.ReadFile(filepath.Join(root, "bench", "keys.svg"))
	require.NoError(t, err)
	require.Equal(t, named.FindString(string(page)), named.FindString(string(picture)))
}

func TestDocuments_NoFigureStandsOutsideOfMarkers(t *testing.T) {
	texts := documentTexts(t)
	guarantees, err := os.ReadFile(filepath.Join(root, "docs", "guarantees.md")) // its block is of other commits
	require.NoError(t, err)
	texts["docs/guarantees.md"] = string(guarantees)
	for name, text := range texts {
		unused := set(notFigures[name])
		for _, err := range figures.Outside(text, notFigures[name], unused) {
			t.Errorf("%s: %v", name, err)
		}
		require.Empty(t, unused, "%s has no such passage any more", name)
	}
}

// A comment cannot carry markers, so it names no time or rate that is measured. Tests and programs that measure may.
func TestComments_NameNoMeasuredTime(t *testing.T) {
	for name, file := range sources(t) {
		short, err := filepath.Rel(root, name)
		require.NoError(t, err)
		short = filepath.ToSlash(short)
		first, _, _ := strings.Cut(short, "/")
		if strings.HasSuffix(short, "_test.go") || slices.Contains([]string{"bench", "fuzz"}, first) {
			continue
		}
		unused := set(notTimes[short])
		for _, comment := range file.Comments {
			for _, found := range figures.InComment(strings.ReplaceAll(comment.Text(), "\n", " "), notTimes[short], unused) {
				t.Errorf("%s: a comment names %s", short, found)
			}
		}
		require.Empty(t, unused, "%s has no such passage any more", short)
	}
}

func set(all []string) map[string]bool {
	return maps.Collect(func(yield func(string, bool) bool) {
		for _, a := range all {
			if !yield(a, true) {
				return
			}
		}
	})
}
