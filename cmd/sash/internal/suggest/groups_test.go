package suggest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/policyfile"
	"github.com/seed-30da4c49/sash/internal/command"
	"github.com/seed-30da4c49/sash/internal/race"
)

// A groupCase is a random recording as JSON lines, and flags.
type groupCase struct {
	random *rand.Rand
	files  []string
	by     []string
	flags  []string
}

func pick[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

func newGroupCase(t *testing.T, seed uint64) *groupCase {
	r := rand.New(rand.NewPCG(seed, 31))
	c := &groupCase{random: r}
	folder := t.TempDir()
	step := pick(r, time.Second, 10*time.Millisecond)
	for i := range 1 + r.IntN(3) {
		name := filepath.Join(folder, fmt.Sprintf("%d.log", i))
		require.NoError(t, os.WriteFile(name, []byte(c.log(step)), 0o600))
		c.files = append(c.files, name)
	}
	all := []string{"path", "path/1", "path/2", "status", "status/1", "method", "host", "plan", "method,path", "path/1,status/1", "status,host,path"}
	for range 1 + r.IntN(3) {
		if by := pick(r, all...); !slices.Contains(c.by, by) {
			c.by = append(c.by, by)
		}
	}
	c.flags = append(c.flags, "-time", "at", "-key", pick(r, "who", "who", "who,method", "none"))
	for _, flags := range [][]string{
		{"-percentile", pick(r, "50", "80", "99")},
		{"-headroom", pick(r, "1", "2")},
		{"-cost", pick(r, "size", "size+1")},
		{"-where", pick(r, "path=/a/*", "status!=500", "method=GET,HEAD", "plan=-,gold", "status=2xx,4xx", "path!=/,/b")},
		{"-from", "2026-03-10T00:01"},
		{"-without", "2026-03-10T00:02..2026-03-10T00:03"},
		{"-top", pick(r, "0", "2", "100")},
		{"-window", pick(r, "3s", "1m", "90s"), "-window", "10s"},
	} {
		if r.IntN(2) == 0 {
			c.flags = append(c.flags, flags...)
		}
	}
	return c
}

// log returns lines in nearly the order of time.
func (c *groupCase) log(step time.Duration) string {
	r := c.random
	var lines []string
	at := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	for range r.IntN(400) {
		at = at.Add(time.Duration(r.ExpFloat64() * float64(time.Second)).Truncate(step))
		fields := map[string]any{
			"at": at.Add(-step * time.Duration(r.IntN(3))).Format(time.RFC3339Nano), "who": fmt.Sprint("c", r.IntN(1+r.IntN(12))), "method": pick(r, "GET", "GET", "POST", "HEAD", "-"),
			"path":   pick(r, "/", "/a", "/a/1", "/a/2", "/a/2/x", "/a/", "/b", "/b,c", "/b*", "/b*/d", "/ä b", "*", "//"),
			"status": pick(r, "200", "200", "204", "404", "401", "500", "-"), "host": pick(r, "h", "h:80", "h:81", "[::1]:80", "i", ""), "size": r.IntN(20),
			"plan": pick(r, "", "gold", "a=b", "x\ny", "a b", "it's"),
		}
		text, err := json.Marshal(fields)
		if err != nil {
			panic(err)
		}
		lines = append(lines, string(text)+"\n")
	}
	return strings.Join(lines, "")
}

// comparable returns findings as text, without what the log itself says.
func comparable(f findings) string {
	f.Warnings = slices.DeleteFunc(slices.Clone(f.Warnings), func(w warning) bool { return w.Kind == "log" })
	text, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// TestModel_GroupsAreWhatWhereChooses runs random recordings by group, and each group by -where. All that a report
// says of the group is equal: figures, limits, clients, warnings and the next steps.
func TestModel_GroupsAreWhatWhereChooses(t *testing.T) {
	programs := uint64(60)
	switch {
	case race.Enabled:
		programs = 10
	case testing.Short():
		programs = 25
	}
	total := map[string]int{}
	for seed := range programs {
		c := newGroupCase(t, seed)
		got := invoke("", c.args("-json", "-groups", "1000")...)
		if got.status != command.OK {
			require.Contains(t, got.stderr, "no event", "seed %d: %q", seed, c.args())
			continue
		}
		whole := got.report(t)
		require.Empty(t, whole.Windows)
		require.Len(t, whole.By, len(c.by))
		for i, by := range whole.By {
			require.Equal(t, c.by[i], by.Fields)
			require.Nil(t, by.Others)
			events := int64(0)
			for j, g := range by.Groups {
				events += g.Events
				if j > 0 {
					require.LessOrEqual(t, g.Events, by.Groups[j-1].Events)
				}
				c.compareGroup(t, &whole, &g, total)
			}
			require.Equal(t, whole.Events, events, "seed %d", seed)
		}
		c.few(t, &whole, total)
	}
	t.Log(total)
	require.Greater(t, total["groups"], 100)
	require.Greater(t, total["with limits"], 50)
	require.Greater(t, total["that -where cannot say"], 10)
	require.Positive(t, total["others"])
}

// args returns a command line that reads the recording by groups.
func (c *groupCase) args(flags ...string) []string {
	for _, by := range c.by {
		flags = append(flags, "-by", by)
	}
	return slices.Concat(flags, c.flags, c.files)
}

// compareGroup compares the report of a group with the report by -where.
func (c *groupCase) compareGroup(t *testing.T, whole *report, g *groupReport, total map[string]int) {
	total["groups"]++
	if len(g.Where) == 0 {
		require.Empty(t, g.Next)
		total["that -where cannot say"]++
		return
	}
	args := []string{"-json"}
	for _, w := range g.Where {
		args = append(args, "-where", w)
	}
	alone := invoke("", slices.Concat(args, c.flags, c.files)...).report(t)
	about := fmt.Sprintf("%s of %q", g.Group, c.args())
	require.Equal(t, alone.Events, g.Events, about)
	require.Equal(t, alone.Clients, g.Clients, about)
	require.InDelta(t, float64(alone.Events)/float64(whole.Events), g.Share, 1e-9, about)
	require.JSONEq(t, comparable(alone.findings), comparable(g.findings), about)
	if g.Policy != nil {
		total["with limits"]++
	}
}

// few compares a report of some groups with the report of all.
func (c *groupCase) few(t *testing.T, whole *report, total map[string]int) {
	n := 1 + c.random.IntN(len(whole.By[0].Groups))
	r := invoke("", c.args("-json", "-groups", fmt.Sprint(n))...).report(t)
	for i, by := range r.By {
		all := whole.By[i].Groups
		shown := min(n, len(all))
		require.Equal(t, all[:shown], by.Groups)
		if shown == len(all) {
			require.Nil(t, by.Others)
			continue
		}
		require.Equal(t, len(all)-shown, by.Others.Groups)
		events := by.Others.Events
		for _, g := range by.Groups {
			events += g.Events
		}
		require.Equal(t, whole.Events, events)
		if by.Others.Where != "" {
			total["others"]++
			others := invoke("", slices.Concat([]string{"-json", "-where", by.Others.Where}, c.flags, c.files)...).report(t)
			require.Equal(t, by.Others.Events, others.Events)
		}
	}
}

func TestGroups_OfTheShop(t *testing.T) {
	got := invoke("", "-by", "path/1", "-percentile", "98", "-window", "1m", "-window", "1h", "-groups", "3", "-top", "2", shop)
	require.Equal(t, command.OK, got.status, got.stderr)
	require.Contains(t, got.stdout, `
by path/1: the most events that 98% of the clients of a group had in any window, and the suggested limit
  events   of all  clients  in 1m  limit  in 1h  limit  clients denied  group
   6,127  23.712%    3,541      2    3/m      3    5/h               3  /
   5,977  23.132%    2,424      3    5/m      4    6/h               7  /products/*
   4,898  18.956%    2,563      2  (3/m)      2    3/h              16  /static/*
   8,837  34.200%                                                       5 other groups, which -groups leaves out
( ) adds nothing to the other limits of its group

clients most above the suggested limits of a group; events in their busiest windows
  events  of group   1m      1h        client  group
   1,500   25.096%  31*  1,500*    192.0.2.80  /products/*
     312    5.092%   4*     62*  203.0.113.10  /
* above the suggested limit

be careful
  - /products/*: 25.096% of the events are of one client, 192.0.2.80: `)
	require.Contains(t, got.stdout, "\n       sash suggest -where path=/ -percentile 98 -window 1m -window 1h -top 2 "+shop+"\n")
	require.Contains(t, got.stdout, "\n       sash suggest -where 'path!=/,/products/*,/static/*' -percentile 98 -window 1m -window 1h -top 2 "+shop+"\n")
	require.Contains(t, got.stdout, "\n       sash suggest -policy limits.yaml -by path/1 -percentile 98 -window 1m -window 1h -groups 3 -top 2 "+shop+"\n")
}

// Each command of the report runs, and reads the events that the report says.
func TestGroups_CommandsRun(t *testing.T) {
	log, err := os.ReadFile(shop)
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("it's a $log.gz", log, 0o600))
	r := invoke("", "-json", "-by", "path", "-groups", "2", "-window", "1m", "it's a $log.gz").report(t)
	require.Len(t, r.Next, 3)
	for i, events := range []int64{r.By[0].Groups[0].Events, r.By[0].Others.Events, r.Events} {
		words := shellWords(t, strings.TrimSpace(r.Next[i].Code))
		require.Equal(t, []string{"sash", "suggest"}, words[:2])
		again := invoke("", append([]string{"-json"}, words[2:]...)...)
		require.Equal(t, command.OK, again.status, again.stderr)
		require.Equal(t, events, again.report(t).Events)
	}
	policies, err := policyfile.Load("limits.yaml")
	require.NoError(t, err)
	require.Len(t, policies, 2)
}

func TestGroups_ArePoliciesOfAFile(t *testing.T) {
	path := limitsFile(t, "policies:\n- name: all\n  limits: 100/s\n  key: everyone\n")
	args := []string{"-by", "method,path,status", "-percentile", "98", "-window", "1m", "-groups", "2", "-policy", path, "-where", "path!=/", shop}
	got := invoke("", args...)
	require.Equal(t, command.OK, got.status, got.stderr)
	require.Equal(t, `policies:
- name: all
  limits: 100/s
  key: everyone
- name: "POST /login 401"
  pattern: "POST /login"
  limits: [5/m]
  key: address # behind a proxy: {address: {trust-proxies: [10.0.0.0/8]}}
  charge: [401]
  shadow: true
- name: "GET /search 200"
  pattern: "GET /search"
  limits: [3/m]
  key: address # behind a proxy: {address: {trust-proxies: [10.0.0.0/8]}}
  charge: [200]
  # measured where method=GET; a pattern of GET is for HEAD, too
  shadow: true
`, content(t, path))
	require.Contains(t, got.stdout, "sash replay -policy "+path+" "+shop+"\n")
	policies, err := policyfile.Load(path)
	require.NoError(t, err)
	require.Len(t, policies, 3)
	require.Equal(t, []sash.Limit{sash.PerMinute(5)}, policies[1].Limits)

	before := content(t, path)
	got = invoke("", args...)
	require.Equal(t, command.Failed, got.status)
	require.Contains(t, got.stderr, `has a policy "POST /login 401": nothing is overwritten; give another -name`)
	require.Equal(t, before, content(t, path))
	got = invoke("", append([]string{"-name", "day 2:"}, args...)...)
	require.Equal(t, command.OK, got.status, got.stderr)
	require.Contains(t, content(t, path), "- name: \"day 2: GET /search 200\"\n")
}

// A group that a file cannot tell gets no policy, and the others do.
func TestGroups_SayWhichGetNoPolicy(t *testing.T) {
	var log strings.Builder
	for i, path := range []string{"/a", "/b,c", "/d//e", "-", "/%zz", "/f"} {
		for j := range 300 - 10*i {
			fmt.Fprintf(&log, "192.0.2.%d - - [10/Mar/2026:00:%02d:%02d +0000] \"GET %s HTTP/1.1\" 200 1\n", j%50, j/60, j%60, path)
		}
	}
	path := limitsFile(t, "")
	r := invoke(log.String(), "-json", "-by", "path", "-window", "10s", "-where", "path!=/f", "-policy", path, "-").report(t)
	why := map[string]string{}
	groups := r.By[0].Groups
	for _, g := range groups {
		i := slices.IndexFunc(g.Warnings, func(w warning) bool { return w.Kind == "no policy" })
		if i >= 0 {
			why[g.Group] = g.Warnings[i].Text
			for _, s := range g.Next {
				assert.NotContains(t, s.Code, path)
			}
		}
	}
	for group, want := range map[string]string{
		"/b,c": "-where has no way to say its values", "/d//e": "a file cannot say for which requests path=/d//e holds", "-": "requests path=- holds",
		"/%zz": "requests path=/%zz holds", // no server takes it
	} {
		assert.Contains(t, why[group], path+" gets no policy for it: ", group)
		assert.Contains(t, why[group], want)
	}
	assert.NotContains(t, why, "/a")
	policies, err := policyfile.Load(path)
	require.NoError(t, err)
	require.Len(t, policies, len(groups)-len(why))
	require.Equal(t, "/a", policies[0].Pattern)

	path = limitsFile(t, "")
	got := invoke(log.String(), "-by", "path", "-window", "10s", "-where", "path=/b*", "-policy", path, "-")
	require.Equal(t, command.Failed, got.status)
	require.Contains(t, got.stderr, "-policy: no group has a policy, so "+path+" is as it was")
	require.NotContains(t, got.stdout, "Replay the file")
	require.Contains(t, got.stdout, "some groups have values that -where cannot say")
	require.NotContains(t, invoke(log.String(), "-by", "path", "-where", "path=/a", "-").stdout, "cannot say")
	require.NoFileExists(t, path)
}

func TestGroups_RefuseWhatTheyCannot(t *testing.T) {
	for args, want := range map[string]string{
		"-by path/0":                     "-by: \"path/0\": only a path has parts",
		"-by path/1 -by path -by path/1": "-by path/1 is given twice",
		"-by path -by path/1,agent -where path=/a* -policy a.yaml": "a group of agent is",
		"-by path -by status -where path=/a* -policy a.yaml":       "for which requests path=/a* holds",
		"-by path -groups 0":                     "-groups must be >= 1, got 0",
		"-groups 5":                              "-groups needs -by",
		"-by path -svg a.svg":                    "-svg draws one group: leave out -by",
		"-by agent -policy a.yaml":               "a file cannot say for which requests a group of agent is",
		"-by path -key user -policy a.yml":       "a file has no key for user",
		"-by path -where host=a* -policy a.yaml": "for which requests host=a* holds",
	} {
		got := invoke("", strings.Fields(args)...)
		require.Equal(t, command.Usage, got.status, args)
		require.Contains(t, got.stderr, want)
	}
	got := invoke("0\ta\n1\tb\n", "-by", "path")
	require.Equal(t, command.Failed, got.status)
	require.Contains(t, got.stderr, "-by path: - has no path")
}

// A column of paths may have queries, which do not tell groups apart.
func TestGroups_OfPathsWithQueries(t *testing.T) {
	const log = "at,path,who\n2026-03-10 00:00:00,/a?b=/c,x\n2026-03-10 00:00:01,/a,x\n2026-03-10 00:00:02,/a/b?c,y\n"
	r := invoke(log, "-json", "-time", "at", "-key", "who", "-by", "path/1", "-").report(t)
	require.Len(t, r.By[0].Groups, 2)
	require.Equal(t, []string{"path=/a"}, r.By[0].Groups[0].Where)
	require.EqualValues(t, 2, r.By[0].Groups[0].Events)
	require.Equal(t, []string{"path=/a/*"}, r.By[0].Groups[1].Where)
	require.EqualValues(t, 2, invoke(log, "-json", "-time", "at", "-key", "who", "-where", "path=/a", "-").report(t).Events)
}

// Warnings of groups are told once.
func TestGroups_ShareWarnings(t *testing.T) {
	r := report{By: make([]groupingReport, 2)}
	add := func(group string, warnings ...warning) {
		of := &r.By[strings.Count(group, "f")]
		of.Groups = append(of.Groups, groupReport{Group: group, findings: findings{Warnings: warnings}})
	}
	r.Warnings = []warning{{"log", "A jump."}}
	add("/a", warning{"whole seconds", "Seconds."}, warning{"short recording", "It covers 1h."}, warning{"incident", "At noon."})
	add("/b", warning{"whole seconds", "Seconds."}, warning{"short recording", "It covers 2h."}, warning{"incident", "At ten."})
	for _, group := range []string{"/c", "/d", "/e", "/f"} {
		add(group, warning{"whole seconds", "Seconds."}, warning{"short recording", "It covers 3h."}, warning{"few clients", "Few."})
	}
	assert.Equal(t, []string{
		"A jump.", "Each group: Seconds.", "/a: It covers 1h. The like is true of /b, /c, /d and 2 other groups.", "/a: At noon.", "/b: At ten.",
		"/c, /d, /e, /f: Few.",
	}, r.cautions())
}

// Several -by are as many tables of one run. A group that two of them have has one policy.
func TestGroups_OfSeveralFields(t *testing.T) {
	path := limitsFile(t, "")
	got := invoke("", "-by", "path", "-by", "path/1", "-by", "status", "-percentile", "98", "-window", "1m", "-groups", "2", "-policy", path, shop)
	require.Equal(t, command.OK, got.status, got.stderr)
	for _, want := range []string{"\nby path: ", "\nby path/1: ", "\nby status: ", "suggest -where path=/ ", "suggest -where status=200 "} {
		require.Contains(t, got.stdout, want)
	}
	policies, err := policyfile.Load(path)
	require.NoError(t, err)
	var names []string
	for _, p := range policies {
		names = append(names, p.Name)
	}
	require.Equal(t, []string{"/", "/login", "/products/*", "200", "401"}, names)

	same := report{By: make([]groupingReport, 2)}
	for i, text := range []string{"a", "b"} {
		same.By[i].Groups = []groupReport{{Group: "x", policyName: "x", policyText: text}}
	}
	_, _, err = same.policiesOfGroups()
	require.ErrorContains(t, err, "two groups are called x")
}

func TestGroups_AreBounded(t *testing.T) {
	var log strings.Builder
	for i := range maxGroups + 1 {
		fmt.Fprintf(&log, "192.0.2.1 - - [10/Mar/2026:00:00:00 +0000] \"GET /users/%d HTTP/1.1\" 200 1\n", i)
	}
	got := invoke(log.String(), "-by", "path")
	require.Equal(t, command.Failed, got.status)
	require.Contains(t, got.stderr, "-by path: the log has more than 10000 groups, such as \"/users/10000\": group by the first segments of the path, as path/1 does")
	require.Empty(t, got.stdout)
	require.Contains(t, invoke(log.String(), "-by", "path/2").stderr, "group by fewer segments, as path/1 does")
	require.Contains(t, invoke(strings.ReplaceAll(log.String(), "/users/", ""), "-by", "path/1").stderr, "name fields with fewer values")
	got = invoke(log.String(), "-by", "path/1")
	require.Equal(t, command.OK, got.status, got.stderr)
	require.Contains(t, got.stdout, "/users/*\n")
}
