package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/policyfile"
)

// docs holds the page for operators. It is not in the module, so the tests of the page are
// skipped where there is no repository.
const docs = "../../docs"

// page returns the blocks of docs/operators.md, but for the section with real servers, which examples/shop tests.
func page(t *testing.T) []block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, "operators.md"))
	if os.IsNotExist(err) {
		t.Skip("this is not the whole repository: docs/operators.md is not there")
	}
	require.NoError(t, err)
	before, section, found := strings.Cut(string(text), "with real servers\n")
	require.True(t, found)
	_, rest, _ := strings.Cut(section, "\n## ")
	return blocksOf(before + rest)
}

// A block is a block of code on the page.
type block struct{ language, text string }

var fenced = regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")

func blocksOf(text string) (all []block) {
	for _, m := range fenced.FindAllStringSubmatch(text, -1) {
		all = append(all, block{m[1], m[2]})
	}
	return all
}

// after returns the text blocks that directly follow the blocks of a language that contain a
// text, and those blocks themselves.
func after(blocks []block, language, contains string) (before, text []string) {
	for i, b := range blocks[:len(blocks)-1] {
		if next := blocks[i+1]; b.language == language && next.language == "text" && strings.Contains(b.text, contains) {
			before, text = append(before, b.text), append(text, next.text)
		}
	}
	return before, text
}

// Each command of the page that is followed by its output has that output. A line of "…" stands
// for lines that are left out. The pictures are those that the commands draw.
func TestOperatorsPage_ShowsWhatTheCommandsWrite(t *testing.T) {
	t.Parallel()
	scripts, outputs := after(page(t), "sh", "sash ")
	require.Greater(t, len(scripts), 4)
	folder := t.TempDir()
	built, err := exec.Command("go", "build", "-o", filepath.Join(folder, "sash"), ".").CombinedOutput() // faster without the race detector
	require.NoError(t, err, string(built))
	recording, err := os.ReadFile("testdata/shop.log.gz")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "shop.log.gz"), recording, 0o600))
	for i, script := range scripts {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		command := exec.CommandContext(ctx, "sh", "-c", script)
		command.Dir = folder
		command.Env = append(os.Environ(), "PATH="+folder+string(os.PathListSeparator)+os.Getenv("PATH"))
		got, err := command.CombinedOutput()
		cancel()
		require.NoError(t, err, "%s%s", script, got)
		for part := range strings.SplitSeq(outputs[i], "…\n") {
			assert.Contains(t, "\n"+string(got), "\n"+part, script)
		}
	}
	drawn, err := filepath.Glob(filepath.Join(folder, "*.svg"))
	require.NoError(t, err)
	require.NotEmpty(t, drawn)
	for _, name := range drawn {
		got, err := os.ReadFile(name)
		require.NoError(t, err)
		want, err := os.ReadFile(filepath.Join(docs, filepath.Base(name)))
		require.NoError(t, err)
		assert.True(t, string(got) == string(want), "docs/%s is not what the command of the page draws", filepath.Base(name))
	}
}

// The recording goes through the middleware, first under the shadows of the page's file, and then under the
// same policies enforced. The page shows what is counted.
func TestOperatorsPage_ShowsWhatTheMiddlewareCounts(t *testing.T) {
	t.Parallel()
	var outputs []string
	blocks := page(t)
	for _, b := range blocks {
		if b.language == "text" && strings.HasPrefix(b.text, "all admitted: ") {
			outputs = append(outputs, b.text)
		}
	}
	require.Len(t, outputs, 2)
	requests := recordedRequests(t)
	shadowed := serve(t, requests, policiesOf(t, blocks, true))
	assert.Equal(t, outputs[0], shadowed.text())
	assert.Empty(t, shadowed.denied, "a shadow denies nothing")
	enforced := serve(t, requests, policiesOf(t, blocks, false))
	assert.Equal(t, outputs[1], enforced.text())
	assert.NotContains(t, enforced.denied, "203.0.113.10", "the office is served")
}

// policiesOf returns the policies of the file on the page, whose text ends where the next command's begins.
func policiesOf(t *testing.T, blocks []block, shadow bool) (options []httplimit.Option) {
	t.Helper()
	i := slices.IndexFunc(blocks, func(b block) bool { return strings.HasPrefix(b.text, "policies:\n") })
	file, _, _ := strings.Cut(blocks[i].text, "limits.yaml:")
	policies, err := policyfile.Parse("limits.yaml", []byte(file))
	require.NoError(t, err)
	require.Len(t, policies, 2)
	for _, p := range policies {
		require.True(t, p.Shadow)
		p.Shadow = shadow
		options = append(options, p)
	}
	return options
}

// A tally is what a run of the middleware over the recording comes to.
type tally struct {
	outcomes map[string]int // by policy and outcome
	denied   map[string]int // answers of 429, by client
}

// text returns the outcomes, and then the denials, each sorted.
func (c *tally) text() string {
	return sorted("", c.outcomes) + sorted("429 to ", c.denied)
}

func sorted(prefix string, counts map[string]int) string {
	var lines []string
	for name, n := range counts {
		lines = append(lines, fmt.Sprintf("%s%s: %d\n", prefix, name, n))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// serve sends requests through the policies, at the times recorded, to a handler that answers as
// recorded.
func serve(t *testing.T, requests []recordedRequest, policies []httplimit.Option) *tally {
	t.Helper()
	c := &tally{map[string]int{}, map[string]int{}}
	clock := sash.NewManualClock(0)
	observer := httplimit.WithObserver(func(e httplimit.Event) { c.outcomes[e.Policy+" "+e.Outcome.String()]++ })
	limiter, err := httplimit.New(append(policies, observer, httplimit.WithClock(clock))...)
	require.NoError(t, err)
	defer limiter.Close()
	status := 0
	handler := limiter.Middleware(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
	for _, line := range requests {
		clock.Set(line.at.UnixNano())
		status = line.status
		r := httptest.NewRequest(line.method, line.path, nil)
		r.RemoteAddr = line.client + ":4711"
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code == http.StatusTooManyRequests {
			c.denied[line.client]++
		}
	}
	return c
}

// A recordedRequest is a line of the recording.
type recordedRequest struct {
	client, method, path string
	at                   time.Time
	status               int
}

var combined = regexp.MustCompile(`^(\S+) - - \[(.*?)\] "(\S+) (\S+) HTTP/1.1" (\d+) `)

func recordedRequests(t *testing.T) (all []recordedRequest) {
	t.Helper()
	file, err := os.Open("testdata/shop.log.gz")
	require.NoError(t, err)
	defer file.Close()
	z, err := gzip.NewReader(file)
	require.NoError(t, err)
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		m := combined.FindStringSubmatch(lines.Text())
		require.NotNil(t, m, lines.Text())
		at, err := time.Parse("02/Jan/2006:15:04:05 -0700", m[2])
		require.NoError(t, err)
		status, err := strconv.Atoi(m[5])
		require.NoError(t, err)
		all = append(all, recordedRequest{m[1], m[3], m[4], at, status})
	}
	require.NoError(t, lines.Err())
	return all
}
