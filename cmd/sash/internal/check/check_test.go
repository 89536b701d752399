package check

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/command"
)

// write writes a file of policies.
func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

type outcome struct {
	status         int
	stdout, stderr string // with limits.yaml in place of the path
}

// run checks a file with this text.
func run(t *testing.T, text string, flags ...string) outcome {
	t.Helper()
	name := write(t, text)
	var stdout, stderr bytes.Buffer
	status := Run(t.Context(), append(flags, name), nil, &stdout, &stderr)
	short := func(b *bytes.Buffer) string { return strings.ReplaceAll(b.String(), name, "limits.yaml") }
	return outcome{status, short(&stdout), short(&stderr)}
}

func TestRun_ExplainsEachPolicyInALine(t *testing.T) {
	text, err := os.ReadFile("testdata/limits.yaml")
	require.NoError(t, err)
	want, err := os.ReadFile("testdata/limits.txt")
	require.NoError(t, err)
	got := run(t, string(text), "-function", "account", "-function", "tier", "-function", "words", "-function", "few", "-function", "internal", "-function", "tokens")
	assert.Equal(t, outcome{command.OK, string(want), ""}, got)
}

func TestSentence_SaysAllThatIsSkipped(t *testing.T) {
	for skip, want := range map[string]string{
		"internal":                                   "skips what internal of the program says",
		"{methods: OPTIONS}":                         "skips OPTIONS",
		"{function: internal}":                       "skips what internal of the program says",
		"{methods: OPTIONS, function: internal}":     "skips OPTIONS and what internal of the program says",
		"{networks: 10.0.0.0/8, function: internal}": "skips from 10.0.0.0/8 and what internal of the program says",
		"{methods: [OPTIONS, HEAD], networks: 10.0.0.0/8, function: internal}": "skips OPTIONS, HEAD, from 10.0.0.0/8 and what internal of the program says",
	} {
		got := run(t, "policies: [{name: one, limits: 5/s, key: everyone, skip: "+skip+"}]", "-function", "internal")
		assert.Equal(t, "limits.yaml: 1 policy\n  one: every request: 5 a second for all together; "+want+"; denied requests get 429\n", got.stdout)
	}
}

// Each warning has a file with it, and one without it that differs by little.
func TestWarnings(t *testing.T) {
	const address = "key: {address: {trust-proxies: 10.0.0.0/8}}"
	const other = "\n  - {name: other, limits: 9/s, " + address + "}"
	tests := []struct {
		name          string
		with, without string // the fields of a policy
		want          string
	}{
		{"the cost is more than a limit holds", "limits: [9/s, 5/m], cost: 6, " + address, "limits: [9/s, 5/m], cost: 5, " + address,
			"no request is ever admitted: each costs 6, and 5/1m0s log holds 5"},
		{"the cost is more than a burst", "limits: 9/s burst 3, cost: 4, " + address, "limits: 2/s burst 4, cost: 4, " + address, "each costs 4, and 9/1s burst 3 holds 3"},
		{"the cost is more than a plan holds", "limits: 9/s, cost: 2, plan: {header: X-Plan}, plans: {a: 1/s, b: unlimited}, " + address, "limits: 9/s, cost: 2, plan: {header: X-Plan}, plans: {a: 2/s, b: unlimited}, " + address,
			`no request is ever admitted under "a": each costs 2, and 1/1s log holds 1`},
		{"a request leaves all", "limits: 9/s, leave: 100%, " + address, "limits: 9/s, leave: 88%, " + address, "no request is ever admitted: it leaves 100% and costs 1, and 9/1s log holds 9"},
		{"a class leaves all", "limits: 9/s, leave: {header: X-Class, classes: {a: 9, b: 1}}, " + address, "limits: 9/s, leave: {header: X-Class, classes: {a: 8, b: 1}}, " + address,
			`no request of the class "a" is ever admitted: it leaves 9 and costs 1`},
		{"a request leaves all, and the program tells its cost", "limits: 9/s, cost: words, leave: 10, " + address, "limits: 9/s, cost: words, leave: 100%, " + address,
			"no request is ever admitted: it leaves 10, and 9/1s log holds 9"},
		{"a class leaves all, and the program tells its cost", "limits: 9/s, cost: words, leave: {header: X-Class, classes: {a: 10, b: 9}}, " + address, "limits: 9/s, cost: words, leave: {header: X-Class, classes: {a: 9, b: 9}}, " + address,
			`no request of the class "a" is ever admitted: it leaves 10, and 9/1s log holds 9`},
		{"a method in lower case", "pattern: post /login, limits: 9/s, " + address, "pattern: POST /login, limits: 9/s, " + address, "its pattern matches no usual request, as methods are compared with their case: write POST"},
		{"a misspelled method", "pattern: POTS /login, limits: 9/s, " + address, "pattern: PURGE /login, limits: 9/s, " + address, "HTTP has no registered method POTS"},
		{"a misspelled method in lower case", "pattern: pots /login, limits: 9/s, " + address, "pattern: M-SEARCH/login, limits: 9/s, " + address, "HTTP has no registered method pots"},
		{"a method after a space", "pattern: ' POST /login', limits: 9/s, " + address, "pattern: search/login, limits: 9/s, " + address, `its pattern is for a host named "POST": write "POST /login"`},
		{"a method without a space", "pattern: Post/login, limits: 9/s, " + address, "pattern: posts/login, limits: 9/s, " + address, `its pattern is for a host named "Post": write "POST /login"`},
		{"twins", "limits: 9/m, " + address + "}" + other[:len(other)-1], "limits: 9/m, charge: 401, " + address + "}" + other[:len(other)-1], `it has the pattern, the key and the charges of "one": one policy with the limits of both`},
		{"a counter", "limits: 100/s counter, " + address, "limits: 100/s, " + address, "100/1s counter may deny a client that keeps to it"},
		{"a counter of a plan", "limits: 9/s, plan: {header: X-Plan}, plans: {a: 100/s counter}, " + address, "limits: 9/s, plan: {header: X-Plan}, plans: {a: 100/s}, " + address, "100/1s counter may deny a client"},
		{"a short lease", "limits: 5 at once for 1s, " + address, "limits: 5 at once for 5s, " + address, "a request that lasts longer than 1s does not count any more"},
		{"a long queue", "limits: 5/s, queue: {wait: 90s, requests: 1}, " + address, "limits: 5/s, queue: {wait: 60s, requests: 1}, " + address, "its queue lets requests wait for 1m30s: most proxies and clients give up after 1m"},
		{"one key trusts no proxy", "limits: 5/s, key: address}" + other[:len(other)-1], "limits: 5/s, key: everyone}" + other[:len(other)-1], `its key trusts no proxy, and the key of "other" does`},
		{"a proxy is skipped", "limits: 5/s, skip: {networks: 10.0.0.0/8}, " + address, "limits: 5/s, skip: {networks: 10.0.0.0/8, address: {trust-proxies: 10.0.0.0/8}}, " + address, "it skips 10.0.0.0/8, from which every request comes that passes the trusted proxy 10.0.0.0/8"},
		{"an inner network is skipped", "limits: 5/s, skip: {networks: 10.0.0.0/8}, key: {address: {trust-proxies: 10.1.2.3}}", "limits: 5/s, skip: {networks: 10.0.0.0/9}, key: {address: {trust-proxies: 10.200.0.1}}", "passes the trusted proxy 10.1.2.3"},
		{"a key that clients choose", "limits: 5/s, key: {header: X-API-Key}", "limits: 5/s, key: {header: X-API-Key}}" + other[:len(other)-1], "a client that makes up values of X-Api-Key has a new count with each"},
		{"a plan that clients choose", "limits: 5/s, plan: {header: user-agent}, plans: {a: 9/s}, " + address, "limits: 5/s, plan: {header: X-Plan}, plans: {a: 9/s}, " + address, "its plan is told by User-Agent, which clients send"},
		{"an account is locked", "limits: 5/h, charge: [401, 403], key: account", "limits: 5/h, charge: 401, key: {join: [account, address]}", "any client can lock the account of another by wrong passwords: join account with the address"},
		{"an account of gRPC is locked", "limits: 5/h, charge: UNAUTHENTICATED, key: account", "limits: 5/h, charge: NOT_FOUND, key: account", "any client can lock the account of another by wrong passwords"},
		{"cancelling is free", "limits: 5/h, charge: NOT_FOUND, charge-uncertain: [none, NOT_FOUND, CANCELLED], " + address, "limits: 5/h, charge: NOT_FOUND, charge-uncertain: [NOT_FOUND, CANCELLED, DEADLINE_EXCEEDED], " + address, "a client that cancels its call is charged nothing: add CANCELLED and DEADLINE_EXCEEDED"},
		{"hanging up is free", "limits: 5/h, charge: 401, charge-uncertain: 401, " + address, "limits: 5/h, charge: 401, charge-uncertain: [none, 401], " + address, "a client that hangs up before the answer is charged nothing"},
		{"a shadow that would admit nothing", "limits: 5/h, cost: 6, shadow: true, " + address, "limits: 5/h, cost: 5, " + address, "it is a shadow, and denies nothing"},
		{"a shadow", "limits: 5/h, shadow: true, " + address, "limits: 5/h, shadow: false, " + address, "it is a shadow, and denies nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			file := func(fields string) string { return "policies:\n  - {name: one, " + fields + "}\n" }
			got := run(t, file(tt.with), "-function", "account", "-function", "words")
			assert.Equal(t, command.OK, got.status, got.stderr)
			assert.Contains(t, got.stdout, tt.want)
			assert.Contains(t, got.stdout, "limits.yaml:")
			assert.Equal(t, 1, strings.Count(got.stdout, "warning: "), got.stdout)
			assert.Equal(t, command.Failed, run(t, file(tt.with), "-function", "account", "-function", "words", "-strict").status)
			got = run(t, file(tt.without), "-function", "account", "-function", "words", "-strict")
			assert.Equal(t, command.OK, got.status, got.stdout+got.stderr)
			assert.NotContains(t, got.stdout, "warning: ")
		})
	}
}

func TestCovers(t *testing.T) {
	for _, tt := range []struct {
		wide, narrow string
		want         bool
	}{
		{"", "POST /login", true}, {"/", "", false}, {"/", "/api/", true}, {"/", "GET a.example/x", true}, {"/api/", "POST /api/x", true},
		{"/api/", "/api/{id}", true}, {"/api", "/api/x", false}, {"GET /", "POST /", false}, {"GET /", "/", false},
		{"a.example/", "/", false}, {"a.example/", "b.example/", false}, {"a.example/", "GET a.example/x", true}, {"/{x}/", "/a/", false},
	} {
		assert.Equal(t, tt.want, covers(tt.wide, tt.narrow), "%q and %q", tt.wide, tt.narrow)
	}
}

func TestNotes_OfProxies(t *testing.T) {
	const note = "limits.yaml: note: no key trusts a proxy"
	got := run(t, "policies: [{name: one, limits: 5/s, key: {join: [address, {header: X-Key}]}}]", "-strict")
	assert.Contains(t, got.stdout, note)
	assert.Equal(t, command.OK, got.status, "a note is no warning")
	assert.NotContains(t, run(t, "policies: [{name: one, limits: 5/s, key: everyone}]").stdout, note)
	assert.NotContains(t, run(t, "policies: [{name: one, limits: 5/s, key: {address: {trust-hops: 1}}}]").stdout, note)
}

func TestRun_ReportsAllFaultsWithTheirPlaces(t *testing.T) {
	got := run(t, "policies:\n  - {name: one, limits: [5/s, x], key: adress}\n  - {name: two, pattrn: /, limits: 1/s, key: {join: [account, tenant]}, cost: words}\n", "-function", "tenant")
	assert.Equal(t, command.Failed, got.status)
	assert.Empty(t, got.stdout)
	for _, want := range []string{
		`limits.yaml:2:31: policies[0].limits[1]: sash: limit "x"`,
		`limits.yaml:2:40: policies[0].key: nothing is named "adress", did you mean "address"?`,
		`limits.yaml:3:17: policies[1].pattrn: unknown field, did you mean "pattern"?`,
		"limits.yaml: the program must add adress (WithKey), account (WithKey), words (WithCost); if it does, check with -function adress -function account -function words\n",
	} {
		assert.Contains(t, got.stderr, want)
	}
	assert.Contains(t, run(t, "policies: [").stderr, "limits.yaml:")
}

// A file that was damaged is explained or has faults, and never makes the command panic.
func TestRun_OfDamagedFiles(t *testing.T) {
	text, err := os.ReadFile("testdata/limits.yaml")
	require.NoError(t, err)
	r, explained := rand.New(rand.NewPCG(1, 2)), 0
	for range 1000 {
		b := bytes.Clone(text)
		for range 1 + r.IntN(3) {
			at, end := r.IntN(len(b)), r.IntN(len(b))
			switch r.IntN(3) {
			case 0:
				b[at] = pick(r, []byte("{}[]:,-&*%\"'#\n 05a"))
			case 1: // cut out
				b = slices.Delete(b, at, min(len(b), at+r.IntN(20)))
			case 2: // copied to another place
				b = slices.Insert(b, at, bytes.Clone(b[end:min(len(b), end+r.IntN(30))])...)
			}
		}
		got := run(t, string(b), "-function", "account", "-function", "tier", "-function", "words", "-function", "few", "-function", "internal", "-function", "tokens")
		require.Equal(t, got.status == command.OK, got.stderr == "", "%s", b)
		if require.Equal(t, got.status == command.OK, got.stdout != "", "%s", b); got.status == command.OK {
			explained++
		}
	}
	require.Positive(t, explained)
}

func pick(r *rand.Rand, from []byte) byte { return from[r.IntN(len(from))] }

func TestRun_ChecksSeveralFiles(t *testing.T) {
	good, bad := write(t, "policies: [{name: one, limits: 5/s, key: everyone}]"), write(t, "policies: []")
	var stdout, stderr bytes.Buffer
	assert.Equal(t, command.Failed, Run(t.Context(), []string{bad, good, good + "-missing"}, nil, &stdout, &stderr))
	assert.Contains(t, stdout.String(), good+": 1 policy\n  one: every request: 5 a second for all together; denied requests get 429\n")
	assert.Contains(t, stderr.String(), bad+":1:")
	assert.Contains(t, stderr.String(), "no such file")
}

func TestRun_CommandLine(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "sash check: no FILE"},
		{[]string{"-function", "", "a.yaml"}, "-function: the name must not be empty"},
		{[]string{"a.yaml", "-strict"}, "-strict comes after a FILE"},
		{[]string{"-nonsense"}, "flag provided but not defined"},
	} {
		var stdout, stderr bytes.Buffer
		assert.Equal(t, command.Usage, Run(t.Context(), tt.args, nil, &stdout, &stderr))
		assert.Contains(t, stderr.String(), tt.want)
	}
	var stdout bytes.Buffer
	assert.Equal(t, command.OK, Run(t.Context(), []string{"-h"}, nil, &stdout, nil))
	assert.Contains(t, stdout.String(), "-strict")
	var stderr bytes.Buffer
	assert.Equal(t, command.Failed, Run(t.Context(), []string{write(t, "policies: [{name: one, limits: 5/s, key: everyone}]")}, nil, fullDisk{}, &stderr))
	assert.Equal(t, "sash check: writing the report: no space left\n", stderr.String())
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }
