package migrating_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// A peer is a limiter that users come from: one section of docs/migrating.md.
type peer struct {
	name   string // the heading of the section
	rows   []row
	breaks []fault // what the section says under its table
	// manual is the documentation of a server, which is quoted and not run here; "" for a Go module.
	manual string
}

// A row is a row of a section's table.
type row struct {
	have, use, changes string // its cells
	quote              string // what the manual says of what the user has
	check              func(*testing.T)
}

// A fault is a sentence under the table, or a part of one, and what shows it.
type fault struct {
	says  string
	check func(*testing.T)
}

// peers are in the order of the document.
var peers = []peer{
	xTimeRate, httpRate, goLimiter, ululePeer, tollboothPeer, throttledPeer, uberPeer, redisRate, echoPeer, fiberPeer,
	nginx, haproxy, envoy, caddy,
}

// Each row and each fault is as the document says.
func TestMigrating(t *testing.T) {
	for _, p := range peers {
		for _, r := range p.rows {
			t.Run(p.name+"/"+r.have, r.check)
		}
		for _, f := range p.breaks {
			t.Run(p.name+"/"+f.says, f.check)
		}
	}
}

// The document has the sections and the rows that are run here, and no others.
func TestMigrating_IsTheDocument(t *testing.T) {
	sections := readSections(t)
	names := []string{}
	for _, p := range peers {
		names = append(names, p.name)
		section := sections[p.name]
		require.Equal(t, p.table(), table(section), p.name)
		for _, f := range p.breaks {
			require.Contains(t, oneLine(section), f.says, p.name)
		}
		for _, r := range p.rows {
			require.Equal(t, p.manual != "", r.quote != "", r.have)
		}
		require.Contains(t, section, p.manual)
	}
	for name, section := range sections {
		require.Equal(t, table(section) != "", slices.Contains(names, name), name)
	}
}

const head = "| you have | use | what changes |\n|---|---|---|\n"

// table is the table of p as the document has it.
func (p peer) table() string {
	var text strings.Builder
	text.WriteString(head)
	for _, r := range p.rows {
		fmt.Fprintf(&text, "| %s | %s | %s |\n", r.have, r.use, r.changes)
	}
	return text.String()
}

// table returns the table with our head in a section, or "".
func table(section string) string {
	_, rows, found := strings.Cut(section, head)
	if !found {
		return ""
	}
	rows, _, _ = strings.Cut(rows, "\n\n")
	return head + strings.TrimSuffix(rows, "\n") + "\n"
}

var heading = regexp.MustCompile(`(?m)^## (.*)\n`)

// readSections returns the sections of the document by their headings.
func readSections(t *testing.T) map[string]string {
	text, err := os.ReadFile("../../docs/migrating.md")
	require.NoError(t, err)
	sections := map[string]string{}
	at := heading.FindAllSubmatchIndex(text, -1)
	for i, m := range at {
		end := len(text)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		sections[string(text[m[2]:m[3]])] = string(text[m[1]:end])
	}
	return sections
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// A clocked is sash with a clock that the test moves.
type clocked struct {
	*sash.Limiter
	clock *sash.ManualClock
}

// newSash returns a limiter that sweeps only when it is told to.
func newSash(t *testing.T, options ...sash.Option) clocked {
	clock := sash.NewManualClock(0)
	l, err := sash.New(append(options, sash.WithClock(clock), sash.WithSweepInterval(-1))...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return clocked{l, clock}
}

// admits returns how many of n calls for key are admitted.
func (l clocked) admits(key string, n int) int { return admits(n, func() bool { return l.Allow(key) }) }

// admits returns how many of n calls are admitted.
func admits(n int, allow func() bool) (admitted int) {
	for range n {
		if allow() {
			admitted++
		}
	}
	return admitted
}

// A site is an http.Handler, limited or not.
type site struct {
	http.Handler
	clock   *sash.ManualClock // of a site that sash limits
	limiter *httplimit.Limiter
}

// hello answers 200, or the status that the request asks for.
var hello = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	status := http.StatusOK
	fmt.Sscan(r.Header.Get("Answer"), &status)
	w.WriteHeader(status)
	fmt.Fprint(w, "hello")
})

// ours returns a site of hello that sash limits.
func ours(t *testing.T, options ...httplimit.Option) site { return oursAround(t, hello, options...) }

func oursAround(t *testing.T, h http.Handler, options ...httplimit.Option) site {
	clock := sash.NewManualClock(0)
	l, err := httplimit.New(append(options, httplimit.WithClock(clock), httplimit.WithSweepInterval(-1))...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return site{l.Middleware(h), clock, l}
}

// policy returns a policy for each address.
func policy(limits ...sash.Limit) httplimit.Policy {
	return httplimit.Policy{Name: "all", Limits: limits, Key: httplimit.ByAddress()}
}

// send sends a GET from 192.0.2.1, which edits may change.
func (s site) send(edits ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "192.0.2.1:1000"
	for _, edit := range edits {
		edit(r)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// get is send for the status.
func (s site) get(edits ...func(*http.Request)) int { return s.send(edits...).Code }

// serves returns how many of n requests are answered 200.
func (s site) serves(n int, edits ...func(*http.Request)) int {
	return admits(n, func() bool { return s.get(edits...) == http.StatusOK })
}

func from(address string) func(*http.Request) {
	return func(r *http.Request) { r.RemoteAddr = address }
}

func with(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func to(method, path string) func(*http.Request) {
	return func(r *http.Request) { r.Method, r.URL.Path, r.RequestURI = method, path, path }
}

// pass lets time pass in the bubble of synctest, and on the clock of sash.
func pass(clock *sash.ManualClock, d time.Duration) {
	time.Sleep(d) // of the bubble
	clock.Advance(d)
}
