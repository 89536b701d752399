package policyfile_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/policyfile"
)

// account is a function that files may name.
var account = policyfile.WithKey("account", httplimit.ByHeader("X-Account"))

func TestLoad_ReadsTheSamePoliciesFromJSONAndYAML(t *testing.T) {
	for _, file := range []string{"testdata/limits.yaml", "testdata/limits.json"} {
		t.Run(filepath.Ext(file), func(t *testing.T) {
			policies, err := policyfile.Load(file, account)
			require.NoError(t, err)
			require.Len(t, policies, 5)
			all, api, login, downloads, stricter := policies[0], policies[1], policies[2], policies[3], policies[4]

			require.Equal(t, "all", all.Name)
			require.Equal(t, []sash.Limit{sash.PerSecond(2000).TokenBucket(4000)}, all.Limits)
			require.Equal(t, httplimit.Queue{Wait: 250 * time.Millisecond, Requests: 500, RequestsEach: 5}, all.Queue)
			require.Empty(t, all.Pattern)

			require.Equal(t, "/api/", api.Pattern)
			require.Equal(t, []sash.Limit{sash.PerMinute(100), sash.PerDay(5000)}, api.Limits)
			require.Equal(t, map[string][]sash.Limit{
				"pro":      {sash.PerMinute(1000), sash.PerDay(100_000)},
				"internal": {sash.Unlimited()},
			}, api.Plans)
			require.Nil(t, api.Skip)
			require.Nil(t, api.Charge)
			require.Nil(t, api.Settle)
			require.Zero(t, api.Queue)

			require.Equal(t, "login", login.Name)
			require.True(t, login.Charge(401))
			require.False(t, login.Charge(200))
			require.True(t, login.ChargeUncertain(0))
			require.True(t, login.ChargeUncertain(401))
			require.False(t, login.ChargeUncertain(200))

			require.Equal(t, "content-bytes", downloads.Unit)
			require.Equal(t, int64(65536), downloads.Cost(nil))
			require.Equal(t, int64(7), downloads.Settle(&httplimit.Response{Bytes: 7}))

			require.True(t, stricter.Shadow)
			require.Equal(t, []sash.Limit{sash.PerMinute(50).Log()}, stricter.Limits)
		})
	}
}

func TestLoad_ReturnsTheErrorOfTheSystem(t *testing.T) {
	_, err := policyfile.Load(filepath.Join(t.TempDir(), "limits.yaml"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = policyfile.Load(t.TempDir())
	require.Error(t, err)
}

func TestLoad_NamesTheFileAsItWasGiven(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(file, []byte("policies: 7\n"), 0o600))
	_, err := policyfile.Load(file)
	require.EqualError(t, err, file+":1:11: policies: must be a list of policies, got 7")
}

// A file that is loaded again while requests are decided keeps their counts. One with faults
// changes nothing.
func TestLoad_ReadsAgainWhileRequestsAreDecided(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.yaml")
	load := func(count int, more string) ([]httplimit.Policy, error) {
		data := fmt.Sprintf("policies: [{name: all, limits: %d/h log, key: everyone%s}]", count, more)
		require.NoError(t, os.WriteFile(file, []byte(data), 0o600))
		return policyfile.Load(file)
	}
	policies, err := load(100, "")
	require.NoError(t, err)
	limiter := httplimit.Must(httplimit.New(policies[0], httplimit.WithClock(sash.NewManualClock(0)), httplimit.WithSweepInterval(-1)))
	defer limiter.Close()

	var admitted atomic.Int64
	var deciding sync.WaitGroup
	for range 4 {
		deciding.Go(func() {
			for range 100 {
				if limiter.Decide(nil, httptest.NewRequest("GET", "/", nil)).Outcome == httplimit.Admitted {
					admitted.Add(1)
				}
			}
		})
	}
	for count := 101; count <= 120; count++ {
		policies, err = load(count, "")
		require.NoError(t, err)
		require.NoError(t, limiter.Reconfigure(policies...))
		_, err = load(count, ", limits: 1000/h")
		require.Error(t, err)
	}
	deciding.Wait()
	for limiter.Decide(nil, httptest.NewRequest("GET", "/", nil)).Outcome == httplimit.Admitted {
		admitted.Add(1)
	}
	require.EqualValues(t, 120, admitted.Load())
}

func TestLoad_RefusesWhatIsTooLongToRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "limits.yaml")
	const policies = "policies: [{name: a, limits: 1/s, key: route}]\n#"
	long := policies + strings.Repeat("#", 1<<20-len(policies))
	require.NoError(t, os.WriteFile(file, []byte(long), 0o600))
	_, err := policyfile.Load(file)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(file, []byte(long+"#"), 0o600))
	_, err = policyfile.Load(file)
	require.EqualError(t, err, file+":1:1: longer than 1048576 bytes")
}

// policy returns the only policy of a file that has one, with these fields in YAML's flow style
// in addition to a name, a limit and, unless it is among the fields, a key.
func policy(t *testing.T, fields string, options ...policyfile.Option) httplimit.Policy {
	t.Helper()
	if !strings.Contains(fields, "key:") {
		fields += ", key: everyone"
	}
	policies, err := policyfile.Parse("a.yaml", []byte("policies: [{name: a, limits: 1/s, "+fields+"}]"), options...)
	require.NoError(t, err)
	return policies[0]
}

// request returns a request from an address through a proxy that says it was forwarded for
// another, with the value of X-Account.
func request(method, from, forwardedFor, account string) *http.Request {
	r := httptest.NewRequest(method, "/", nil)
	r.RemoteAddr = from
	r.Header.Set("X-Forwarded-For", forwardedFor)
	r.Header.Set("X-Real-IP", "2001:db8:1:2::3")
	r.Header.Set("Forwarded", "for=203.0.113.99")
	if account != "" {
		r.Header.Set("X-Account", account)
	}
	r.Pattern = "GET /"
	return r
}

func TestKey_IsThatOfHttplimit(t *testing.T) {
	byAccount, route := httplimit.ByHeader("X-Account"), httplimit.ByRoute()
	ten := httplimit.TrustProxies(netip.MustParsePrefix("10.0.0.0/8"))
	proxies := httplimit.TrustProxies(netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("192.168.1.1/32"))
	for key, want := range map[string]httplimit.KeyFunc{
		"everyone":                              httplimit.Everyone(),
		"route":                                 route,
		"account":                               byAccount,
		"address":                               httplimit.ByAddress(),
		"{header: x-account}":                   byAccount,
		"{join: [route, account]}":              httplimit.Join(route, byAccount),
		"{join: [account, route]}":              httplimit.Join(byAccount, route),
		"{first-of: [account, route]}":          httplimit.FirstOf(byAccount, route),
		"{first-of: [{join: [account]},route]}": httplimit.FirstOf(httplimit.Join(byAccount), route),
		"{address: {}}":                         httplimit.ByAddress(),
		"{address: {ipv4-prefix: 16}}":          httplimit.ByAddress(httplimit.IPv4Prefix(16)),
		"{address: {trust-hops: 2}}":            httplimit.ByAddress(httplimit.TrustHops(2)),
		"{address: {trust-unix-socket: false}}": httplimit.ByAddress(),
		"{address: {trust-proxies: [10.0.0.0/8, 192.168.1.1]}}": httplimit.ByAddress(proxies),
		"{address: {trust-proxies: '::ffff:10.0.0.0/104'}}":     httplimit.ByAddress(ten),
		"{address: {trust-proxies: 10.0.0.0/8, read-header: X-Real-IP, ipv6-prefix: 48}}": httplimit.ByAddress(
			ten, httplimit.ReadHeader("X-Real-IP"), httplimit.IPv6Prefix(48)),
		"{address: {trust-proxies: 10.0.0.0/8, read-forwarded: true}}": httplimit.ByAddress(
			ten, httplimit.ReadForwarded()),
		"{address: {trust-unix-socket: true, read-forwarded: true}}": httplimit.ByAddress(
			httplimit.TrustUnixSocket(), httplimit.ReadForwarded()),
	} {
		read := policy(t, "key: "+key, account).Key
		for _, r := range []*http.Request{
			request("GET", "10.1.2.3:4", "198.51.100.7, 203.0.113.5", "alice"),
			request("GET", "192.168.1.1:4", "203.0.113.5", ""),
			request("GET", "203.0.113.9:80", "198.51.100.7", "bob"),
			request("GET", "@", "198.51.100.7, 203.0.113.5", ""),
		} {
			wanted, wantedOK := want(nil, r)
			got, ok := read(nil, r)
			require.Equal(t, wantedOK, ok, "key: %s for %v", key, r.RemoteAddr)
			require.Equal(t, string(wanted), string(got), "key: %s for %v", key, r.RemoteAddr)
		}
	}
}

func TestCharge_TakesStatusesAndClasses(t *testing.T) {
	p := policy(t, "charge: [401, 5xx], charge-uncertain: []")
	for status, stays := range map[int]bool{-1: false, 0: false, 200: false, 400: false, 401: true, 402: false, 499: false, 500: true, 599: true, 600: false, 1000: false, 1 << 30: false} {
		require.Equal(t, stays, p.Charge(status), "%d", status)
		require.False(t, p.ChargeUncertain(status), "%d", status)
	}
}

// All names are held against gRPC in connectlimit/internal/grpctest.
func TestCharge_TakesCodesOfGRPC(t *testing.T) {
	p := policy(t, "charge: [UNAUTHENTICATED, 5xx], charge-uncertain: CANCELLED")
	for code := range 600 {
		require.Equal(t, code == 16 || code >= 500, p.Charge(code), "%d", code)
		require.Equal(t, code == 1, p.ChargeUncertain(code), "%d", code)
	}
	_, err := policyfile.Parse("a.yaml", []byte("policies: [{name: a, limits: 1/s, key: everyone, charge: [unauthenticated, 16]}]"))
	require.ErrorContains(t, err, `or a code of gRPC such as UNAUTHENTICATED, got "unauthenticated", did you mean "UNAUTHENTICATED"?`)
	require.ErrorContains(t, err, "charge[1]: must be a whole number from 100 to 999")
}

func TestSkip_SkipsByMethodNetworkOrFunction(t *testing.T) {
	internal := policyfile.WithSkip("internal", func(r *http.Request) bool { return r.Header.Get("X-Account") == "internal" })
	get := func(from, forwardedFor, account string) *http.Request {
		return request("GET", from, forwardedFor, account)
	}

	skip := policy(t, "skip: internal", internal).Skip
	require.True(t, skip(get("203.0.113.9:1", "", "internal")))
	require.False(t, skip(get("203.0.113.9:1", "", "alice")))

	skip = policy(t, "skip: {methods: [OPTIONS, HEAD], function: internal}", internal).Skip
	require.True(t, skip(get("203.0.113.9:1", "", "internal")))
	require.True(t, skip(request("HEAD", "203.0.113.9:1", "", "")))
	require.False(t, skip(get("203.0.113.9:1", "", "")))

	skip = policy(t, "skip: {networks: [203.0.113.0/24, '2001:db8::/32', 'fe80::/10', '::ffff:192.0.2.0/120']}").Skip
	for from, skipped := range map[string]bool{
		"203.0.113.9:1": true, "[::ffff:203.0.113.9]:1": true, "203.0.114.9:1": false, "192.0.2.77:1": true,
		"[2001:db8:1::7]:1": true, "[2001:db9::]:1": false, "[fe80::1%eth0]:1": true, "@": false, "": false,
		"10.0.0.1:1": false, // a proxy that is not trusted
	} {
		require.Equal(t, skipped, skip(get(from, "203.0.113.9", "")), from)
	}

	skip = policy(t, "skip: {networks: 203.0.113.9, address: {trust-proxies: 10.0.0.0/8}}").Skip
	require.True(t, skip(get("10.0.0.1:1", "203.0.113.9", "")))
	require.False(t, skip(get("10.0.0.1:1", "203.0.113.8", "")))
	require.False(t, skip(get("10.0.0.1:1", "unknown", "")))
}

func TestCostAndSettle_AreDataOrFunctions(t *testing.T) {
	r := request("GET", "203.0.113.9:1", "", "alice")
	length := policyfile.WithCost("length", func(r *http.Request) int64 { return int64(len(r.Header.Get("X-Account"))) })
	twice := policyfile.WithSettle("twice", func(r *httplimit.Response) int64 { return 2 * r.Estimate })
	p := policy(t, "cost: length, settle: twice", length, twice)
	require.Equal(t, int64(5), p.Cost(r))
	require.Equal(t, int64(14), p.Settle(&httplimit.Response{Estimate: 7}))

	response := &httplimit.Response{Estimate: 7, Bytes: 3, Header: http.Header{"X-Cost": {"9"}}}
	require.Equal(t, int64(3), policy(t, "settle: bytes").Settle(response))
	require.Equal(t, int64(9), policy(t, "settle: {header: x-cost}").Settle(response))
	require.Equal(t, httplimit.SettleEstimate()(response), policy(t, "settle: estimate").Settle(response))
	require.Equal(t, int64(0), policy(t, "cost: 0").Cost(r))
}

// A policy of a file bounds the requests that are under way.
func TestLimits_OfWhatIsAtOnce(t *testing.T) {
	policies, err := policyfile.Parse("limits.yaml", []byte("policies: [{name: a, key: everyone, limits: [100/m, 1 at once for 1h]}]"))
	require.NoError(t, err)
	require.Equal(t, []sash.Limit{sash.PerMinute(100), sash.AtOnce(1, time.Hour)}, policies[0].Limits)
	l := httplimit.Must(httplimit.New(policies[0]))
	defer l.Close()
	get := func() httplimit.Verdict { return l.Decide(nil, httptest.NewRequest("GET", "/", nil)) }
	first := get()
	require.Equal(t, []string{"a-at-once"}, get().Denial.Violated)
	first.Charges.Settle(httplimit.Response{})
	require.Equal(t, httplimit.Admitted, get().Outcome)
	_, err = policyfile.Parse("limits.yaml", []byte("policies: [{name: a, key: everyone, limits: 5 concurrent}]"))
	require.ErrorContains(t, err, `did you mean "5 at once"?`)
}

func TestPlan_IsAHeaderOrAFunction(t *testing.T) {
	const plans = ", plans: {free: 1/m, pro: [10/m, 100/h], internal: unlimited}"
	p := policy(t, "plan: {header: x-plan}"+plans)
	require.Equal(t, map[string][]sash.Limit{
		"free":     {sash.PerMinute(1)},
		"pro":      {sash.PerMinute(10), sash.PerHour(100)},
		"internal": {sash.Unlimited()},
	}, p.Plans)
	for _, values := range [][]string{nil, {"pro"}, {"pro", "internal"}} {
		want := ""
		if len(values) == 1 {
			want = values[0]
		}
		require.Equal(t, want, p.Plan(&http.Request{Header: http.Header{"X-Plan": values}}), values)
	}
	p = policy(t, "plan: ofAccount"+plans, policyfile.WithPlan("ofAccount", func(r *http.Request) string { return r.Method }))
	require.Equal(t, "GET", p.Plan(&http.Request{Method: "GET"}))

	faults(t, `limits.yaml:1:12: policies[0]: plan and plans need each other
limits.yaml:2:17: policies[0].plans.free: sash: limit "1": no slash, want COUNT/WINDOW such as 100/1m, or COUNT at once: invalid limit
limits.yaml:2:22: policies[0].plans["ä"]: the name of a plan must be at most 128 characters of printable ASCII, got "ä"
limits.yaml:2:41: policies[0].plans.pro[1]: must be a limit such as 100/m, got 7: write text in quotes`,
		"policies: [{name: a, limits: 1/s, key: route,\n  plans: {free: '1', ä: 1/s, pro: [1/s, 7]}}]")
	// No other policy may have the quotas of a plan, but another plan may.
	faults(t, `limits.yaml:2:10: policies[1].name: a quota would be named "a-1h", and one of policies[0] is`,
		"policies: [{name: a, limits: 1/s, plan: {header: P}, plans: {p: [1/s, 1/h], q: [2/s, 2/h]}, key: route},\n  {name: a-1h, limits: 1/s, key: route}]")
}

func TestParse_ReportsAllFaultsInOrder(t *testing.T) {
	_, err := policyfile.Parse("limits.yaml", []byte(`# comment
policies:
  - name: api
    patern: /api/
    limits: [100/m, 5000r/day]
    key: acount
    queue: {wait: 2, requests: 0}
  - limits: 10/s
    key:
      first-of:
        - header: X API
        - address: {trust-proxies: [10.0.0.1/8], read-header: X-Real-IP}
        - address: {read-header: X-Real-IP}
    shadow: yes
    skip: {methods: options}
    pattern: POST login
    key: route
`), account)
	require.Equal(t, strings.Split(`limits.yaml:4:5: policies[0].patern: unknown field, did you mean "pattern"?; the fields are name, pattern, limits, plan, plans, key, cost, leave, near, unit, skip, charge, charge-uncertain, settle, queue, shadow
limits.yaml:5:21: policies[0].limits[1]: sash: limit "5000r/day", did you mean "5000/day"?: count "5000r" is not a whole number of 64 bits: invalid limit
limits.yaml:6:10: policies[0].key: nothing is named "acount", did you mean "account"?; known are account, address, everyone, route; the program adds names by WithKey
limits.yaml:7:19: policies[0].queue.wait: must be a duration of more than 0 such as 250ms, 2s or 1m30s, got 2
limits.yaml:7:32: policies[0].queue.requests: must be a whole number from 1 to 1073741824, in digits, got 0
limits.yaml:8:5: policies[1]: name is missing
limits.yaml:11:19: policies[1].key.first-of[0].header: must be the name of a header, got "X API"
limits.yaml:12:37: policies[1].key.first-of[1].address.trust-proxies[0]: "10.0.0.1/8" is not the first address of its network: write 10.0.0.0/8
limits.yaml:13:20: policies[1].key.first-of[2].address: ByAddress: X-Real-IP is read, but no proxy is trusted: give TrustProxies or TrustUnixSocket
limits.yaml:14:13: policies[1].shadow: must be true or false, got "yes"
limits.yaml:15:21: policies[1].skip.methods: no client sends "options": methods are written in capitals
limits.yaml:16:14: policies[1].pattern: "POST login": at offset 5: host/path missing /
limits.yaml:17:5: policies[1].key: given twice, first in line 9`, "\n"), strings.Split(err.Error(), "\n"))
	require.ErrorIs(t, err, sash.ErrInvalidLimit)
}

func TestParse_ReturnsTheFaultsAsData(t *testing.T) {
	_, err := policyfile.Parse("limits.json", []byte("{\n\t\"policies\": [\n\t\t{\"name\": \"ä\", \"limits\": \"5/x\", \"key\": null}\n\t]\n}\n"))
	var all policyfile.Errors
	require.ErrorAs(t, err, &all)
	require.Len(t, all, 3)
	var first *policyfile.Error
	require.ErrorAs(t, err, &first)
	require.Same(t, all[0], first)
	second := all[1]
	require.Equal(t, "limits.json", second.File)
	require.Equal(t, []int{3, 27}, []int{second.Line, second.Column})
	require.Equal(t, "policies[0].limits", second.Path)
	require.ErrorIs(t, second, sash.ErrInvalidLimit)
	require.False(t, errors.Is(all[2], sash.ErrInvalidLimit))
}

func TestParse_RefusesQuotasWithOneName(t *testing.T) {
	faults(t, `limits.yaml:2:10: policies[1].name: a quota would be named "a", and one of policies[0] is`,
		"policies: [{name: a, limits: 1/s, key: route},\n  {name: a, limits: 1/s, key: route}]")
	faults(t, `limits.yaml:2:10: policies[1].name: a quota would be named "a-1h", and one of policies[0] is`,
		"policies: [{name: a, limits: [1/s, 2/h], key: route},\n  {name: a-1h, limits: 1/s, key: route}]")
	// Without several limits, no quota has the name of its window.
	_, err := policyfile.Parse("limits.yaml", []byte("policies: [{name: a, limits: [2/h, unlimited], key: route}, {name: a-1h, limits: 1/s, key: route}]"))
	require.NoError(t, err)
}

// faults checks the errors of a file of YAML, or of JSON if they are of limits.json.
func faults(t *testing.T, want, file string, options ...policyfile.Option) {
	t.Helper()
	name := "limits.yaml"
	if strings.HasPrefix(want, "limits.json") {
		name = "limits.json"
	}
	policies, err := policyfile.Parse(name, []byte(file), options...)
	require.EqualError(t, err, want)
	require.Nil(t, policies)
}

func TestParse_NamesThePlaceOfWrongSyntax(t *testing.T) {
	faults(t, "limits.yaml:1:1: the file is empty, want policies", "")
	faults(t, "limits.yaml:1:1: the file is empty, want policies", "# nothing\n")
	faults(t, "limits.yaml:2:1: while scanning for the next token: found character that cannot start any token: a tab, where YAML wants spaces", "policies:\n\t- name: a\n")
	faults(t, "limits.yaml:4:1: while scanning for the next token: found character that cannot start any token: a tab, where YAML wants spaces", "# äöü\r\n\r\npolicies:\r\n\t- name: a\r\n")
	faults(t, "limits.yaml:2:1: while parsing a flow node: did not find expected node content", "policies: [\n")
	faults(t, "limits.yaml:3:1: while scanning a quoted scalar that begins in line 1: found unexpected end of stream", "policies: 'a\n\n")
	faults(t, "limits.yaml:2:8: invalid leading UTF-8 octet (value: 255)", "# ä\nä: \"ä ä\xff\"\n")
	faults(t, "limits.yaml:1:13: incomplete UTF-8 octet sequence", "policies: a \xc3")
	faults(t, "limits.yaml:2:3: control characters are not allowed (value: 7)", "# ä\n- \a\n")
	faults(t, "limits.yaml:1:11: unknown anchor 'a' referenced", "policies: *a\n")
	faults(t, "limits.yaml:2:1: a second document: a file has one", "policies: []\n---\npolicies: []\n")
	faults(t, `limits.yaml:1:1: "<<" does not merge here: use an alias as a whole value`, "<<: {policies: []}\n")
	faults(t, `limits.yaml:1:11: values have no tags here, got "!include"`, "policies: !include a.yaml\n")
	faults(t, `limits.yaml:1:11: values have no tags here, got "!!set"`, "policies: !!set {a}\n")
	faults(t, `limits.yaml:1:11: values have no tags here, got "!!seq"`, "policies: !!seq a\n")
	faults(t, `limits.yaml:1:4: values have no tags here, got "!!str"`, "a: !!str 5\n")
	faults(t, `limits.yaml:1:1: values have no tags here, got "!!map"`, "!!map {policies: []}\n")
	faults(t, "limits.yaml:1:1: a name must be text, got 1: write it in quotes", "1: 2\n")

	faults(t, "limits.json:1:1: unexpected end of JSON input", "")
	faults(t, "limits.json:2:14: invalid character ']' looking for beginning of value", "{\n\t\"policies\": ]}")
	faults(t, "limits.json:1:17: invalid character '{' after top-level value", "{\"policies\": []}{}")
	faults(t, "limits.json:1:15: invalid character '\\'' looking for beginning of value", "{\"ä\": 1, \"b\": 'c'}")
	faults(t, "limits.json:1:7: invalid character '“'", "{\"ä\": “b”}")
	faults(t, "limits.json:2:3: not UTF-8", "{\"a\":\n \"\xff\"}")
	faults(t, "limits.json:1:1: the file is empty, want policies", "null")
}

func TestParse_RefusesNamesThatAreGivenTwice(t *testing.T) {
	faults(t, "limits.yaml:2:1: policies: given twice, first in line 1", "policies: [{name: a, limits: 1/s, key: route}]\npolicies: []\n")
	faults(t, "limits.yaml:2:12: parts.a[0].b: given twice, first in line 1", "parts: {a: [{b: 1,\n           b: 2}]}\npolicies: [{name: a, limits: 1/s, key: route}]\n")
	faults(t, "limits.json:2:1: policies: given twice, first in line 1", "{\"policies\": [{\"name\": \"a\", \"limits\": \"1/s\", \"key\": \"route\"}],\n\"policies\": []}")
	faults(t, "limits.json:1:1: policies is missing\nlimits.json:1:2: [\"pol icies\"]: unknown field, did you mean \"policies\"?; the fields are $schema, parts, policies\nlimits.json:1:19: [\"pol icies\"]: given twice, first in line 1", `{"pol icies": [], "pol icies": []}`)
}

func TestParse_NamesThePlaceOfWhatNewWouldRefuse(t *testing.T) {
	faults(t, "limits.yaml:1:45: policies[0].limits: must be at most 64 limits, got 65",
		"policies: [{name: a, key: everyone, limits: ["+strings.Repeat("1/s, ", 65)+"]}]")
	faults(t, "limits.yaml:1:64: policies[0].queue.wait: must be a duration of more than 0 such as 250ms, 2s or 1m30s, got \"0s\"",
		"policies: [{name: a, key: everyone, limits: 1/s, queue: {wait: 0s, requests: 1}}]")
}

func TestParse_SaysWhatAValueMayBe(t *testing.T) {
	faults(t, `limits.yaml:1:40: policies[0].key: must be a name or a mapping, got 5
limits.yaml:2:7: policies[0].cost: must be a number or a name, got nothing
limits.yaml:3:8: policies[0].skip: must be a name or a mapping, got true
limits.yaml:4:10: policies[0].settle: must be a name or a mapping, got a list
limits.yaml:5:10: policies[0].charge: must be a status such as 401, without quotes, a class such as 4xx, or a code of gRPC such as UNAUTHENTICATED, got "401"`,
		"policies: [{name: a, limits: 1/s, key: 5,\n cost:,\n skip: true,\n settle: [],\n charge: '401'}]")
}

// Editors of some systems begin a file with a byte order mark.
func TestParse_PassesOverAByteOrderMark(t *testing.T) {
	for name, file := range map[string]string{
		"limits.yaml": "policies: [{name: a, limits: 1/s, key: route}]",
		"limits.json": `{"policies": [{"name": "a", "limits": "1/s", "key": "route"}]}`,
	} {
		_, err := policyfile.Parse(name, []byte("\ufeff"+file))
		require.NoError(t, err)
		_, err = policyfile.Parse(name, []byte("\ufeff7"))
		require.EqualError(t, err, name+":1:1: must be a mapping with $schema, parts, policies, got 7")
	}
}

func TestParse_TakesADateForText(t *testing.T) {
	require.Equal(t, "2024-01-01", policy(t, "unit: 2024-01-01").Unit)
}

func TestParse_ReadsJSONByItsNameAlone(t *testing.T) {
	const file = "policies: [{name: a, limits: 1/s, key: route}]"
	_, err := policyfile.Parse("limits.JSON", []byte(file))
	require.Error(t, err)
	for _, name := range []string{"limits.yml", "limits.conf", "limits", ""} {
		_, err := policyfile.Parse(name, []byte(file))
		require.NoError(t, err)
	}
}

// A number that no float holds is a number in both formats, and so no text.
func TestParse_ReadsHugeNumbersAlike(t *testing.T) {
	for _, huge := range []string{"1E400", "-1e400", "1.5E+999"} {
		file := `{"policies": [{"name": %s, "limits": "1/s", "key": "route"}]}`
		for _, name := range []string{"limits.yaml", "limits.json"} {
			faults(t, name+":1:24: policies[0].name: must be "+"at most 128 characters of printable ASCII, got "+huge+": write text in quotes", fmt.Sprintf(file, huge))
			_, err := policyfile.Parse(name, fmt.Appendf(nil, file, `"`+huge+`"`))
			require.NoError(t, err)
		}
	}
}

// A few aliases may stand for many limits.
func TestParse_BoundsTheLimitsOfAllPoliciesAndPlans(t *testing.T) {
	const most = 1 << 13
	file := func(limits int) []byte {
		var b strings.Builder
		fmt.Fprintf(&b, "parts: {l: &l [%s]}\npolicies:\n", strings.TrimSuffix(strings.Repeat("1/s, ", 64), ", "))
		for i := range limits / 128 {
			fmt.Fprintf(&b, "- {name: p%d, limits: *l, plan: {header: X}, plans: {a: *l}, key: route}\n", i)
		}
		for i := range limits % 128 {
			fmt.Fprintf(&b, "- {name: one%d, limits: 1/s, key: route}\n", i)
		}
		return []byte(b.String())
	}
	policies, err := policyfile.Parse("limits.yaml", file(most))
	require.NoError(t, err)
	require.Len(t, policies, most/128)
	_, err = policyfile.Parse("limits.yaml", file(most+2))
	require.EqualError(t, err, "limits.yaml:67:24: policies[64].limits: more than 8192 limits in all policies and plans, counting each use of an alias")
}

func TestParse_BoundsWhatAFileCosts(t *testing.T) {
	const bytes, depth, nodes = 1 << 20, 64, 1 << 17
	_, err := policyfile.Parse("limits.yaml", []byte("policies: []"+strings.Repeat(" ", bytes)))
	require.EqualError(t, err, "limits.yaml:1:1: longer than 1048576 bytes")

	for _, name := range []string{"limits.yaml", "limits.json"} {
		_, err = policyfile.Parse(name, []byte(strings.Repeat("[", depth+1)+strings.Repeat("]", depth+1)))
		require.EqualError(t, err, name+":1:1: must be a mapping with $schema, parts, policies, got a list")
		_, err = policyfile.Parse(name, []byte(strings.Repeat("[", depth+2)+strings.Repeat("]", depth+2)))
		require.EqualError(t, err, name+":1:66: more than 64 lists and mappings in each other")
		_, err = policyfile.Parse(name, []byte("["+strings.Repeat("1,\n", nodes)+"1]"))
		require.EqualError(t, err, name+":131072:1: more than 131072 values, counting each use of an alias")
	}

	// Each use of an alias may make a copy of what it stands for, so that must not be long.
	for _, name := range []string{"limits.yaml", "limits.json"} {
		for _, long := range []string{`{"parts": "%s"}`, `{"%s": 1}`} {
			_, err = policyfile.Parse(name, fmt.Appendf(nil, long, strings.Repeat("a", 512)))
			require.NotContains(t, err.Error(), "longer")
			_, err = policyfile.Parse(name, fmt.Appendf(nil, long, strings.Repeat("a", 513)))
			require.ErrorContains(t, err, "longer than 512 bytes: \"aaa")
		}
		_, err = policyfile.Parse(name, []byte("{"+strings.Repeat("\"a\": 1,", nodes/2)+"\"a\": 1}"))
		require.ErrorContains(t, err, "more than 131072 values, counting each use of an alias")
	}
	// The quotas of each plan have names that begin with the policy's.
	_, err = policyfile.Parse("limits.yaml", []byte("policies: [{name: "+strings.Repeat("a", 129)+", limits: 1/s, key: route}]"))
	require.ErrorContains(t, err, "policies[0].name: must be at most 128 characters of printable ASCII")

	bomb := "a0: &a0 [1, 1]\n"
	for i := range 32 {
		bomb += fmt.Sprintf("a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	_, err = policyfile.Parse("limits.yaml", []byte(bomb))
	require.ErrorContains(t, err, "more than 131072 values, counting each use of an alias")
	_, err = policyfile.Parse("limits.yaml", []byte("parts: &a [*a]\npolicies: []\n"))
	require.ErrorContains(t, err, "more than 64 lists and mappings in each other")

	_, err = policyfile.Parse("limits.yaml", []byte("policies: ["+strings.Repeat("7,\n", 2000)+"]"))
	require.ErrorContains(t, err, "\nlimits.yaml:1000:1: 1000 more faults are left out")
	require.Len(t, strings.Split(err.Error(), "\n"), 1001)
}

func TestWithPathFolding_ChecksThatPatternsAreClean(t *testing.T) {
	const unclean = "policies: [{name: a, pattern: /a//b, limits: 1/s, key: route}]"
	_, err := policyfile.Parse("limits.yaml", []byte(unclean))
	require.NoError(t, err)
	faults(t, `limits.yaml:1:31: policies[0].pattern: "/a//b": WithPathFolding cleans paths: write "/a/b"`, unclean, policyfile.WithPathFolding())
	_, err = policyfile.Parse("limits.yaml", []byte(strings.Replace(unclean, "//", "/", 1)), policyfile.WithPathFolding())
	require.NoError(t, err)
}

func TestOptions_PanicIfTheyAreWrong(t *testing.T) {
	key := httplimit.Everyone()
	for want, f := range map[string]func(){
		"policyfile: an Option must not be nil":                            func() { _, _ = policyfile.Parse("a", nil, nil) },
		"policyfile: WithKey: the name must not be empty":                  func() { policyfile.WithKey("", key) },
		"policyfile: WithKey: \"route\" has a meaning of its own in files": func() { policyfile.WithKey("route", key) },
		"policyfile: WithKey: must not be given nil":                       func() { policyfile.WithKey("a", nil) },
		"policyfile: WithCost: must not be given nil":                      func() { policyfile.WithCost("a", nil) },
		"policyfile: WithPlan: must not be given nil":                      func() { policyfile.WithPlan("a", nil) },
		"policyfile: WithSkip: must not be given nil":                      func() { policyfile.WithSkip("a", nil) },
		"policyfile: WithSettle: \"bytes\" has a meaning of its own in files": func() {
			policyfile.WithSettle("bytes", httplimit.SettleBytes())
		},
	} {
		require.PanicsWithValue(t, want, f)
	}
}
