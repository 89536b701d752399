package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/command"
)

const (
	ofCombined = `203.0.113.1 - - [10/Mar/2026:00:00:00 +0000] "GET /api/x HTTP/1.1" 200 5 "-" "curl"` + "\n"
	ofNginx    = `{"msec":1773100800.000,"remote_addr":"203.0.113.1","request":"GET /api/x HTTP/1.1","status":"200","body_bytes_sent":5,"request_time":0.5,"http_x_plan":"","http_host":"a.example"}` + "\n"
	ofMicros   = "1773100800000000\t203.0.113.1\n"
)

// limits writes a file with one policy that has these fields, besides a name.
func limits(t *testing.T, fields string) string {
	t.Helper()
	return file(t, "limits.yaml", []byte("policies: [{name: one, "+fields+"}]\n"))
}

func TestPolicies_RefusesWhatALogDoesNotTell(t *testing.T) {
	tests := []struct{ name, log, policy, want string }{
		{"a host", ofCombined, `pattern: a.example/, limits: 1/s, key: address`, `for "one": - has no host, line 1 is Combined Log Format`},
		{"a header as a key", ofCombined, `limits: 1/s, key: {header: X-API-Key}`, `for "one": - has no header X-Api-Key, line 1 is Combined Log Format`},
		{"a header of no line", ofNginx, `limits: 1/s, key: {header: X-API-Key}`, `for "one": no line has a value of the header X-Api-Key`},
		{"a header of an answer", ofCombined, `limits: 1/s, key: address, settle: {header: X-Cost}`, `for "one": - has no answer's header X-Cost`},
		{"a status", ofMicros, `limits: 1/s, key: address, charge: 401`, `for "one": - has no status, line 1 is a .tsv`},
		{"a code of gRPC", ofCombined, `limits: 1/s, key: address, charge: [UNAUTHENTICATED, PERMISSION_DENIED]`, `for "one": - has no code of gRPC, line 1 is Combined Log Format`},
		{"a code of an uncertain answer", ofCombined, `limits: 1/s, key: address, charge-uncertain: [none, CANCELLED]`, `for "one": - has no code of gRPC`},
		{"bytes", ofMicros, `limits: 1/s, key: address, settle: bytes`, `for "one": - has no size`},
		{"a path", ofMicros, `limits: 1/s, key: address, pattern: /api/`, `for "one": - has no path`},
		{"a method", ofMicros, `limits: 1/s, key: address, pattern: POST /api/`, `for "one": - has no method`},
		{"hops", ofCombined, `limits: 1/s, key: {address: {trust-hops: 1}}`, `for "one": - has no header X-Forwarded-For`},
		{"how long it took", ofCombined, `limits: 5 at once, key: address`, `for "one": - has no duration of the request, line 1 is Combined Log Format`},
		{"at once under a plan", ofCombined, `limits: 5/s, plan: {header: X-Plan}, plans: {a: 5 at once}, key: address`, `for "one": - has no duration of the request`},
		{"routes", ofCombined, `limits: 5/s, key: route`, `has the key route: a log does not tell which pattern of the server has served a request, so name all of them by -route`},
		{"functions", ofCombined, `limits: 5/s, key: {join: [account, address]}, cost: words, plan: tier, plans: {a: 1/s}, leave: few, skip: {function: inside}, settle: tokens`,
			`PATH:1:50: policies[0].key.join[0]: nothing is named "account"; known are address, everyone, route; the program adds names by WithKey
sash replay: PATH:1:76: policies[0].cost: nothing is named "words"; none is known; the program adds names by WithCost
sash replay: PATH:1:89: policies[0].plan: nothing is named "tier"; none is known; the program adds names by WithPlan
`},
		{"a fault", ofCombined, `limits: 5/sex, key: adress`, `nothing is named "adress", did you mean "address"?`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := limits(t, tt.policy)
			got := invoke(tt.log, "-policy", path)
			assert.Equal(t, command.Failed, got.status)
			assert.Contains(t, strings.ReplaceAll(got.stderr, path, "PATH"), strings.ReplaceAll(tt.want, path, "PATH"))
			assert.Empty(t, got.stdout)
		})
	}
}

func TestPolicies_ListsAllFunctions(t *testing.T) {
	path := limits(t, `limits: 5/s, key: account, cost: words, plan: tier, plans: {a: 1/s}, leave: few, skip: {function: inside}, settle: tokens`)
	got := invoke(ofCombined, "-policy", path)
	for name, option := range map[string]string{"account": "WithKey", "words": "WithCost", "tier": "WithPlan", "few": "WithLeave", "inside": "WithSkip", "tokens": "WithSettle"} {
		assert.Regexp(t, fmt.Sprintf("nothing is named %q.* the program adds names by %s\n", name, option), got.stderr)
	}
	assert.Contains(t, got.stderr, "functions that a program adds cannot be replayed, since a log does not tell what they return")
}

func TestPolicies_FlagsThatDoNotGoTogether(t *testing.T) {
	path := limits(t, `limits: 1/s, key: address`)
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"-policy", path, "-limit", "1/s"}, "-limit does not go with -policy, whose file has the limits"},
		{[]string{"-policy", path, "-together"}, "-together does not go with -policy"},
		{[]string{"-policy", path, "-key", "user"}, "-key does not go with -policy, whose file says who a client is"},
		{[]string{"-policy", path, "-trust", "10.0.0.0/8"}, "-trust does not go with -policy, whose file names the proxies"},
		{[]string{"-policy", path, "-cost", "size"}, "-cost does not go with -policy"},
		{[]string{"-policy", path, "-cost", "size", "-estimate", "1"}, "-estimate does not go with -policy"},
		{[]string{"-policy", path, "-cost", "size", "-estimate", "1", "-settle", "1s"}, "-settle does not go with -policy"},
		{[]string{"-policy", path, "-policy", path}, "-policy names one file"},
		{[]string{"-limit", "1/s", "-shadow"}, "-shadow needs -policy"},
		{[]string{"-limit", "1/s", "-route", "/"}, "-route needs -policy"},
		{[]string{"-policy", path, "-route", "no path"}, "-route: parsing \"no path\""},
	}
	for _, tt := range tests {
		got := invoke(ofCombined, tt.args...)
		assert.Equal(t, command.Usage, got.status, tt.args)
		assert.Contains(t, got.stderr, tt.want)
	}
	got := invoke(ofCombined, "-policy", path, "-route", "/")
	assert.Equal(t, command.Failed, got.status)
	assert.Contains(t, got.stderr, "-route is for the key route")
	got = invoke(ofCombined, "-policy", path+"-missing")
	assert.Equal(t, command.Failed, got.status)
	assert.Contains(t, got.stderr, "no such file")
}

func TestPolicies_StateWhatIsAssumed(t *testing.T) {
	tests := []struct{ name, log, policy, want string }{
		{"a plan", ofCombined, `limits: 1/s, plan: {header: X-Plan}, plans: {a: 5/s}, key: address`, `the log has no header X-Plan, so no request has a plan under "one"`},
		{"a class", ofCombined, `limits: 1/s, leave: {header: X-Class, classes: {a: 1}}, key: address`, `the log has no header X-Class, so no request leaves anything under "one"`},
		{"proxies", ofCombined, `limits: 1/s, key: {address: {trust-proxies: 10.0.0.0/8}}`, "the log has no X-Forwarded-For, so the address in it is taken for the client's, as in the log of the proxy itself"},
		{"a first choice", ofCombined, `limits: 1/s, key: {first-of: [{header: X-API-Key}, address]}`, "the log has no header X-Api-Key, so it is taken for one that no client has sent: the key of each is the next choice"},
		{"a status to settle", ofMicros, `limits: 1/s, key: address, settle: estimate`, "the log has no status, so each response is taken for a 200"},
		{"a shadow", ofCombined, `limits: 1/s, key: address, shadow: true`, "the shadows of the file are replayed as if they were enforced: one; -shadow lets them deny nothing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke(tt.log, "-policy", limits(t, tt.policy), "-json")
			require.Equal(t, command.OK, got.status, got.stderr)
			assert.Equal(t, []string{tt.want}, got.report(t).Policies.Notes)
		})
	}
	const haproxy = `203.0.113.1:4711 [10/Mar/2026:00:00:00.000] in out/one 0/0/1/2/3 200 119 - - ---- 1/1/0/0/0 0/0 "GET / HTTP/1.1"` + "\n"
	const sizes = "the sizes of haproxy are of the headers as well, so settle: bytes charges some hundred bytes more for each response"
	assert.Equal(t, []string{sizes}, invoke(haproxy, "-policy", limits(t, `limits: 1/s, key: address, settle: bytes`), "-json").report(t).Policies.Notes)
	assert.Empty(t, invoke(haproxy, "-policy", limits(t, `limits: 1/s, key: address`), "-json").report(t).Policies.Notes)
	got := invoke(ofNginx, "-policy", limits(t, `pattern: a.example/, limits: [1/s, 5 at once], key: address, charge: 4xx, settle: bytes`), "-json")
	require.Equal(t, command.OK, got.status, got.stderr)
	assert.Empty(t, got.report(t).Policies.Notes)
}

// The limits of a plan are as doubtful as others in a log of whole seconds. What is at once has no window.
func TestPolicies_WarnOfWholeSeconds(t *testing.T) {
	log := strings.Repeat(strings.Replace(ofNginx, `"http_x_plan":""`, `"http_x_plan":"a"`, 1), 2)
	for fields, windows := range map[string]string{
		`limits: 9/s`: "1s",
		`limits: 9/h, plan: {header: X-Plan}, plans: {a: [9/2s, 9/h], b: 5/s}`:      "2s, 1s",
		`limits: 9/h, plan: {header: X-Plan}, plans: {a: 9/h, b: 5 at once for 9s}`: "",
	} {
		got := invoke(log, "-policy", limits(t, fields+", key: everyone"), "-json")
		require.Equal(t, command.OK, got.status, got.stderr)
		if windows == "" {
			assert.Empty(t, got.report(t).Warnings)
		} else if assert.Len(t, got.report(t).Warnings, 1, fields) {
			assert.Contains(t, got.report(t).Warnings[0], "all times are whole seconds")
			assert.Contains(t, got.report(t).Warnings[0], "in windows of "+windows+" the denials")
		}
	}
}

// Three requests a second come to a limit of one a second. A queue of 1.5 s would hold back the first of
// those that are denied, and then as a log cannot, each is compared with what was charged.
func TestPolicies_DeniedRequestsThatWouldHaveWaited(t *testing.T) {
	log := ""
	for _, at := range []int64{0, 100, 400, 1000, 1900} {
		log += fmt.Sprintf("%d\t203.0.113.1\n", 1_773_100_800_000_000+at*1000)
	}
	waits := func(fields string) *waitReport {
		got := invoke(log, "-policy", limits(t, fields), "-json")
		require.Equal(t, command.OK, got.status, got.stderr)
		r := got.report(t).Policies.Policies[0]
		assert.EqualValues(t, 3, r.Denied)
		return r.Waits
	}
	assert.Nil(t, waits(`limits: 1/s, key: address`))
	assert.Equal(t, &waitReport{3, 533333333, 900 * time.Millisecond}, waits(`limits: 1/s, key: address, queue: {wait: 900ms, requests: 9}`))
	assert.Equal(t, &waitReport{2, 350 * time.Millisecond, 600 * time.Millisecond}, waits(`limits: 1/s, key: address, queue: {wait: 899ms, requests: 9}`))

	// The other policy denies at once what it denies, and its queue shortens the wait.
	two := func(other string) []policyReport {
		path := file(t, "limits.yaml", []byte("policies: [{name: one, limits: 1/s, key: address, queue: {wait: 2s, requests: 9}}, {name: two, "+other+"}]"))
		got := invoke(log, "-policy", path, "-json")
		require.Equal(t, command.OK, got.status, got.stderr)
		return got.report(t).Policies.Policies
	}
	assert.EqualValues(t, 3, two(`limits: 9/s, key: everyone`)[0].Waits.Requests)
	assert.EqualValues(t, 0, two(`limits: 1/s, key: everyone`)[0].Waits.Requests)
	assert.EqualValues(t, 2, two(`limits: 9/s, key: everyone, queue: {wait: 899ms, requests: 1}`)[0].Waits.Requests)
	both := two(`limits: 2/2s, key: everyone, queue: {wait: 2s, requests: 1}`)
	assert.EqualValues(t, 3, both[0].Waits.Requests)
}

func TestPolicies_WarnsOfProxiesAndOfThoseWithoutAnIdentity(t *testing.T) {
	behind := strings.Repeat("1773100800000000\t10.0.0.1\n", 1000)
	got := invoke(behind, "-policy", limits(t, `limits: 1/s, key: address`), "-json").report(t)
	assert.Contains(t, got.Warnings[len(got.Warnings)-1], `100.0% of all events are of 1 address such as 10.0.0.1, under "one": if they are proxies, name them by trust-proxies`)
	got = invoke(behind, "-policy", limits(t, `limits: 1/s, key: {address: {trust-proxies: 10.0.0.0/8}}`), "-json").report(t)
	assert.Contains(t, got.Warnings[len(got.Warnings)-1], "1,000 requests are from trusted proxies, and the log names no clients behind them")
	names := strings.ReplaceAll(ofCombined, "203.0.113.1", "client.example")
	got = invoke(names, "-policy", limits(t, `limits: 1/s, key: address`), "-json").report(t)
	assert.Contains(t, got.Warnings[len(got.Warnings)-1], `100.000% of the requests of "one" have no identity, and are answered 400`)
	assert.EqualValues(t, 1, got.Policies.Unidentified)
}

func TestPolicies_EachFileOnItsOwn(t *testing.T) {
	one, other := file(t, "one.log", []byte(ofCombined+ofCombined)), file(t, "other.log", []byte(ofCombined+ofCombined))
	got := invoke("", "-policy", limits(t, `limits: 1/s, key: address`), "-each", "-json", one, other)
	require.Equal(t, command.OK, got.status, got.stderr)
	for _, r := range got.decode(t) {
		assert.EqualValues(t, 1, r.Policies.Denied)
	}
}

func TestPolicies_TextReport(t *testing.T) {
	var log strings.Builder
	for i, request := range []string{"GET / 200", "POST /login 401", "POST /login 401", "POST /login 200", "- - 400", "GET /files/x 200", "GET /files/y 200"} {
		var method, path string
		var status int
		fmt.Sscan(request, &method, &path, &status)
		fmt.Fprintf(&log, `203.0.113.%d - - [10/Mar/2026:00:00:%02d +0000] "%s %s HTTP/1.1" %d 500 "-" "curl"`+"\n", i%2, i, method, path, status)
	}
	path := file(t, "limits.yaml", []byte(`policies:
  - {name: login, pattern: POST /login, limits: 1/m, key: everyone, charge: 401, queue: {wait: 1m, requests: 5}}
  - {name: files, pattern: /files/, limits: 1000/m, key: address, cost: 100, settle: bytes, near: 60%, shadow: true}
`))
	got := invoke(log.String(), "-policy", path)
	assert.Equal(t, command.OK, got.status, got.stderr)
	assert.Equal(t, `-: 7 events under the policies of limits.yaml
from 2026-03-10 00:00:00 to 2026-03-10 00:00:06 UTC, 6s
read as combined: it reads 7 of the first 7 lines
NOTE: the shadows of the file are replayed as if they were enforced: files; -shadow lets them deny nothing

2 requests denied, 28.571% of all
1 request without a policy
1 line that is no request, which policies never see

  requests  admitted  denied  of requests  withheld  given back  clients  clients denied  policy
         3         1       2      66.667%         0           0        1               1  login
         2         2       0       0.000%         0           0        2               0  files
files: 2 requests left less than near
login: 2 of the denied would have waited in its queue, 58.5s in the mean and 59s at most

in units
  asked  charged  charged above  given back  spent  policy
    200      200            800           0  1,000  files

denied most under login, times in UTC
  denied  of its events         first denied          last denied    busiest minute  denied in it  client
       2              3  2026-03-10 00:00:02  2026-03-10 00:00:03  2026-03-10 00:00             2  everyone
`, strings.ReplaceAll(got.stdout, path, "limits.yaml"))
}

func TestPolicies_JSONNamesFieldsAsDocumented(t *testing.T) {
	got := invoke(ofCombined+ofCombined, "-policy", limits(t, `limits: 10/m, cost: 6, settle: bytes, queue: {wait: 1m, requests: 5}, key: address`), "-json")
	require.Equal(t, command.OK, got.status, got.stderr)
	_, policies, found := strings.Cut(got.stdout, `"policies":`)
	require.True(t, found)
	assert.NotContains(t, got.stdout, `"limits":`)
	_, policies, _ = strings.Cut(policies, ",")
	assert.Equal(t, `"notes":[],"no_request":0,"no_route":0,"no_policy":0,"denied":1,"denied_share":0.5,"unidentified":0,`+
		`"policies":[{"name":"one","shadow":false,"requests":2,"admitted":1,"denied":1,"denied_share":0.5,"withheld":0,"given_back":0,"unidentified":0,"near":0,`+
		`"clients":1,"denied_clients":1,"waits":{"requests":1,"mean_ns":60000000000,"longest_ns":60000000000},`+
		`"units":{"asked":12,"charged":6,"charged_above_estimate":0,"given_back":1,"spent":5},`+
		`"top":[{"client":"203.0.113.1","events":2,"denied":1,"first":"2026-03-10T00:00:00Z","last":"2026-03-10T00:00:00Z","busiest_minute":"2026-03-10T00:00:00Z","denied_in_busiest_minute":1}]}]}}`+"\n", policies)
}
