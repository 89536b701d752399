package replay

import (
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

	"github.com/seed-30da4c49/sash/internal/command"
)

// A format writes events as a server logs them.
type format struct {
	name    string // that the report says
	head    string // lines before the first event
	line    func(at time.Time, client string) string
	seconds bool // whether times are whole seconds
	args    []string
}

func stamped(layout, text string) func(time.Time, string) string {
	return func(at time.Time, client string) string {
		return strings.NewReplacer("CLIENT", client, "TIME", at.Format(layout)).Replace(text)
	}
}

func unix(unit time.Duration, decimals int, text string) func(time.Time, string) string {
	return func(at time.Time, client string) string {
		whole := at.UnixNano() / int64(unit)
		when := fmt.Sprint(whole)
		if decimals > 0 {
			when = fmt.Sprintf("%s.%06d", when, at.UnixNano()%int64(unit)/1000)
		}
		return strings.NewReplacer("CLIENT", client, "TIME", when).Replace(text)
	}
}

const (
	clfTime = "02/Jan/2006:15:04:05 -0700"
	clfText = `CLIENT - frank [TIME] "GET /a?b=c HTTP/1.1" 200 5`
	pcTime  = "2006-01-02 15:04:05"
)

// everyFormat are the formats as their servers document them.
var everyFormat = []format{
	{name: "combined", line: stamped(clfTime, clfText), seconds: true},
	{name: "combined", line: stamped(clfTime, clfText+` "-" "Mozilla/5.0 (X11)"`), seconds: true},
	{name: "combined", line: stamped(clfTime, clfText+` "-" "curl/8" "203.0.113.9, 10.0.0.1"`), seconds: true},
	{name: "combined", line: stamped(clfTime, clfText+` "-" "curl/8" rt=0.005 uct="0.000"`), seconds: true},
	{name: "vhost_combined", line: stamped(clfTime, `www.example.com:443 `+clfText+` "-" "curl/8"`), seconds: true},
	{name: "vhost_combined", line: stamped(clfTime, `[2001:db8::80]:443 `+clfText), seconds: true},
	{name: "extended", line: stamped(clfTime, clfText+` 0.005 "-" "curl/8"`), seconds: true},
	{name: "extended", line: stamped(clfTime, clfText+` rt=0.005`), seconds: true},
	{name: "vhost_extended", line: stamped(clfTime, `example.com `+clfText+` 0.005 0.004 .`), seconds: true},
	{name: "json", line: stamped(time.RFC3339, `{"time_iso8601":"TIME","remote_addr":"CLIENT","request":"GET / HTTP/1.1","status":"200"}`), seconds: true},
	{name: "json", line: unix(time.Second, 6, `{"remote_addr": "CLIENT", "msec": TIME, "status": 200}`)},
	{name: "json", line: unix(time.Second, 6, `{"level":"info","ts":TIME,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"10.0.0.1","remote_port":"41342","client_ip":"CLIENT","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/a?b","headers":{"User-Agent":["curl/7.82.0"]}},"status":200}`)},
	{name: "json", line: stamped(time.RFC3339Nano, `{"ClientAddr":"CLIENT:50000","ClientHost":"CLIENT","DownstreamStatus":200,"RequestMethod":"GET","RequestPath":"/","StartUTC":"TIME","level":"info","msg":"","time":"2000-01-01T00:00:00Z"}`)},
	{name: "json", line: unix(time.Second, 6, `{"ts":TIME,"uid":"CHhAvVGS1DHFjwGM9","id.orig_h":"CLIENT","id.orig_p":443}`)},
	{name: "json", line: unix(time.Microsecond, 0, `{"when": TIME, "client": {"ip": "CLIENT"}}`), args: []string{"-time", ".when", "-key", ".client.ip"}},
	{name: "json", line: unix(time.Nanosecond, 0, `{"when": TIME, "from": "CLIENT"}`), args: []string{"-time", "when", "-key", "from"}},
	{name: "json", line: stamped(time.RFC3339Nano, `{"a":{"b":["x",{"at":"TIME"}]},"c.d":"CLIENT"}`), args: []string{"-time", ".a.b.1.at", "-key", "c.d"}},
	{name: "elb", line: stamped("2006-01-02T15:04:05.000000Z", `TIME my-elb CLIENT:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.38.0" - -`)},
	{name: "alb", line: stamped("2006-01-02T15:04:05.000000Z", `h2 TIME app/my-lb/50dc6c495c0c9188 CLIENT:2817 10.0.0.1:80 0.000 0.001 0.000 200 200 34 366 "GET https://www.example.com:443/a?b HTTP/2.0" "Mozilla/5.0 (X11) \"x\"" ECDHE TLSv1.2 arn:aws:x "Root=1-5" "-" "-" 0 2018-07-02T22:22:48.364000Z "forward" "-" "-"`)},
	{name: "haproxy", line: stamped("02/Jan/2006:15:04:05.000", `Feb  6 12:14:14 localhost haproxy[14389]: CLIENT:33317 [TIME] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {1wt.eu} {} "GET /index.html HTTP/1.1"`)},
	{name: "haproxy", line: stamped("02/Jan/2006:15:04:05.000", `CLIENT:33317 [TIME] www~ www/<NOSRV> -1/-1/-1/-1/0 400 0 - - PR-- 2/2/0/0/0 0/0 "<BADREQ>"`)},
	{name: "haproxy", line: stamped("02/Jan/2006:15:04:05.000", `<134>1 2009-02-06T12:14:14+01:00 lb haproxy 14389 - - CLIENT:33317 [TIME] in out/s 1/0/3/6/10 200 27 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`)},
	{name: "w3c", head: "#Software: Microsoft Internet Information Services 10.0\n#Version: 1.0\n#Date: 2020-01-01 00:00:00\n#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) cs(Referer) sc-status time-taken\n",
		line: stamped(pcTime, `TIME 10.0.0.1 GET /a b=c 443 - CLIENT Mozilla/5.0+(X11) - 200 31`), seconds: true},
	{name: "w3c", head: "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip\n", line: stamped("2006-01-02\t15:04:05", "TIME\tFRA2\t34\tCLIENT"), seconds: true},
	{name: "zeek", head: "#separator \\x09\n#set_separator\t,\n#path\thttp\n#fields\tts\tuid\tid.orig_h\tid.orig_p\thost\n#types\ttime\tstring\taddr\tport\tstring\n",
		line: unix(time.Second, 6, "TIME\tCHhAvVGS1DHFjwGM9\tCLIENT\t443\twww.example.com")},
	{name: "csv", head: "when,who\n", line: unix(time.Second, 6, `TIME,CLIENT`), args: []string{"-time", "when", "-key", "who"}},
	{name: "csv", head: "who;x;when\n", line: unix(time.Millisecond, 0, `CLIENT;"a;b";TIME`), args: []string{"-time", "when", "-key", "who"}},
	{name: "csv", head: "who\tx\twhen\n", line: stamped("2006-01-02 15:04:05.000000", "CLIENT\ta b\tTIME"), args: []string{"-time", "when", "-key", "who"}},
	{name: "tsv", head: "who\twhen\n", line: stamped(time.RFC3339Nano, "CLIENT\tTIME"), args: []string{"-format", "tsv", "-time", "when", "-key", "who"}},
	{name: "csv", head: "who!when\n", line: unix(time.Microsecond, 0, "CLIENT!TIME"), args: []string{"-separator", "!", "-time", "when", "-key", "who"}},
	{name: `[$time_local] $status $remote_addr "$request"`, line: stamped(clfTime, `[TIME] 200 CLIENT "GET /\" HTTP/1.1"`), seconds: true,
		args: []string{"-format", `[$time_local] $status $remote_addr "$request"`}},
	{name: `$msec ${remote_addr}!$rest`, line: unix(time.Second, 6, `TIME CLIENT! anything "at all`), args: []string{"-format", `$msec ${remote_addr}!$rest`}},
	{name: "s3", line: stamped(clfTime, `79a5 bucket [TIME] CLIENT - 3E57427F3EXAMPLE REST.GET.OBJECT a "GET /a HTTP/1.1" 200 - 113 - 7 - "-" "S3Console/0.4" - s9lz=`), seconds: true},
	{name: "squid", line: unix(time.Second, 6, `TIME      4 CLIENT TCP_MISS/200 4099 GET http://www.example.com/ - HIER_DIRECT/10.0.0.9 text/html`)},
	{name: "gcs", head: `"time_micros","c_ip","cs_method"` + "\n", line: unix(time.Microsecond, 0, `"TIME","CLIENT","GET"`)},
	{name: "haproxy", line: stamped("02/Jan/2006:15:04:05.000", `CLIENT:33317 [TIME] in out/s 1/0/3/6/10 200 27 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1" 0/0000000000000000/0/0/0 1/TLSv1.3/x`)},
	{name: `%a %{%F}t %{%T}t,%{usec_frac}t "%r"`, line: stamped("2006-01-02 15:04:05,000000", `CLIENT TIME "GET / HTTP/1.1"`), args: []string{"-format", `%a %{%F}t %{%T}t,%{usec_frac}t "%r"`}},
	{name: `%v %h %t "%r" %>s "%{User-Agent}i" %D`, line: stamped(clfTime, `www.example.com CLIENT [TIME] "GET / HTTP/1.1" 200 "curl/8" 31`), seconds: true,
		args: []string{"-format", `%v %h %t "%r" %>s "%{User-Agent}i" %D`}},
}

// The report about a log of any format is that about the same events in two columns.
func TestFormats_DenyWhatTheSameEventsInTwoColumnsDo(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 7))
	type event struct {
		at     time.Time
		client string
	}
	clients := []string{"192.0.2.1", "192.0.2.22", "198.51.100.3", "2001:db8::1", "2001:db8:0:1::ffff"}
	var events []event
	at := time.Date(2024, 2, 28, 23, 59, 50, 0, time.UTC)
	for range 600 {
		at = at.Add(time.Duration(random.IntN(300)) * time.Millisecond)
		events = append(events, event{at, clients[random.IntN(len(clients))]})
	}
	limits := []string{"-limit", "3/2s log", "-limit", "20/30s counter", "-limit", "4/5s buckets 1s", "-json", "-top", "9"}
	for i, f := range everyFormat {
		t.Run(fmt.Sprint(i, " ", f.name), func(t *testing.T) {
			var log, columns strings.Builder
			log.WriteString(f.head)
			for _, e := range events {
				when := e.at
				if f.seconds {
					when = when.Truncate(time.Second)
				}
				log.WriteString(f.line(when, e.client) + "\n")
				fmt.Fprintf(&columns, "%d\t%s\n", when.UnixMicro(), e.client)
			}
			got := invoke(log.String(), append(limits, f.args...)...).report(t)
			same := limits
			if slices.Contains(f.args, "-key") { // then by the whole address
				same = slices.Concat(limits, []string{"-key", "addr"})
			}
			want := invoke(columns.String(), same...).report(t)
			assert.Zero(t, got.Unreadable, got.UnreadableLines)
			assert.Equal(t, want.Events, got.Events)
			assert.Equal(t, want.Limits, got.Limits)
			assert.Greater(t, got.Limits[0].Denied, int64(50))
			require.Len(t, got.Formats, 1)
			assert.Equal(t, f.name, got.Formats[0].Format, "the format that the report says")
			assert.Equal(t, want.First, got.First)
		})
	}
}

// Damage is counted and shown, and never read as another event.
func TestFormats_DamageIsNeverMisread(t *testing.T) {
	combined := clf + ` "http://example.net/" "Agent/1.0"`
	alb := everyFormat[18].line(time.Unix(1.7e9, 0).UTC(), "192.0.2.1")
	elb := everyFormat[17].line(time.Unix(1.7e9, 0).UTC(), "192.0.2.1")
	haproxy := everyFormat[19].line(time.Unix(1.7e9, 0).UTC(), "192.0.2.1")
	w3c := everyFormat[22]
	zeek := everyFormat[24]
	nginx := everyFormat[9].line(time.Unix(1.7e9, 0).UTC(), "192.0.2.1")
	row := func(f format) string { return f.line(time.Unix(1.7e9, 0).UTC(), "192.0.2.1") }
	tests := []struct {
		name, head, good, damaged, why string
		args                           []string
	}{
		{name: "cut inside the request", good: combined, damaged: combined[:70], why: "no closing quote of the request"},
		{name: "cut inside the address", good: combined, damaged: "192.0.", why: "no address"},
		{name: "zeros of a crash", good: combined, damaged: "\x00\x00\x00\x00" + combined, why: "control characters"},
		{name: "the end of one line and the next", good: combined, damaged: combined[40:] + combined, why: "first field"},
		{name: "one line in the middle of another", good: combined, damaged: combined[:30] + combined, why: "time "},
		{name: "the prefix of a shipper", good: combined, damaged: "2024-01-01T00:00:00Z web1 " + combined, why: "first field"},
		{name: "a line without its first field", good: combined, damaged: strings.TrimPrefix(combined, "192.0.2.1 "), why: "no time in brackets"},
		{name: "a time that cannot be", good: combined, damaged: strings.Replace(combined, "17/May", "32/May", 1), why: "is not like 02/Jan"},
		{name: "a line of an error log", good: combined, damaged: `2024/01/01 00:00:00 [error] 7#7: *1 open() failed, client: 192.0.2.1`, why: "no time in brackets"},
		{name: "two lines in one", good: combined, damaged: combined + combined, why: "two lines in one: it has a second time"},
		{name: "two lines in one, and a space", good: combined, damaged: combined + " " + combined, why: "two lines in one"},
		{name: "a line cut short inside the agent, and another", good: combined, damaged: combined[:len(combined)-3] + combined, why: "two lines in one"},
		{name: "a line cut short inside the agent, and another format", good: combined, damaged: combined[:len(combined)-3] + clf, why: "two lines in one"},
		{name: "two lines in one, with fields after the size", good: clf + " 0.005 0.1", damaged: clf + " 0.0" + clf + " 0.005 0.1", why: "two lines in one"},
		{name: "JSON cut short", good: nginx, damaged: nginx[:len(nginx)-9], why: "not valid JSON"},
		{name: "JSON with an escape of nginx", good: nginx, damaged: strings.Replace(nginx, "GET /", `GET /\x22`, 1), why: "escape=json"},
		{name: "two objects in a line", good: nginx, damaged: nginx + nginx, why: "not valid JSON"},
		{name: "JSON without the client", good: nginx, damaged: strings.Replace(nginx, "remote_addr", "x", 1), why: "no remote_addr"},
		{name: "an object for the client", good: nginx, damaged: strings.Replace(nginx, `"192.0.2.1"`, `{"ip":"192.0.2.1"}`, 1), why: "remote_addr is no text or number"},
		{name: "null for the client", good: nginx, damaged: strings.Replace(nginx, `"192.0.2.1"`, `null`, 1), why: "no addr"},
		{name: "JSON of another program", good: nginx, damaged: `{"msg":"started"}`, why: "no time_iso8601"},
		{name: "an array", good: nginx, damaged: "[" + nginx + "]", why: "no JSON object"},
		{name: "a load balancer's line cut short", good: alb, damaged: alb[:120], why: "no "},
		{name: "a load balancer's line without its type", good: alb, damaged: strings.TrimPrefix(alb, "h2 "), why: "after $bytes_sent"},
		{name: "a load balancer's line with a name for the client", good: alb, damaged: strings.Replace(alb, "192.0.2.1:2817", "app/my-lb", 1), why: "is no address with a port"},
		{name: "two load balancer's lines in one", good: alb, damaged: alb + alb, why: "two lines in one"},
		{name: "a load balancer's line cut short after the agent, and another", good: alb, damaged: alb[:strings.Index(alb, `"Root`)] + alb, why: "two lines in one"},
		{name: "a load balancer's line cut short inside quotes, and another", good: alb, damaged: alb[:strings.Index(alb, `oot=`)] + alb, why: "two lines in one"},
		{name: "two lines of a classic load balancer in one", good: elb, damaged: elb + elb, why: "two lines in one"},
		{name: "a list of addresses for the virtual host", good: "www.example.com " + combined, damaged: "203.0.113.9, " + combined, why: "is no virtual host"},
		{name: "HAProxy's line of a start", good: haproxy, damaged: "Feb  6 12:14:14 localhost haproxy[14389]: Proxy http-in started.", why: `no " [" after $addr_port`},
		{name: "HAProxy's line cut short", good: haproxy, damaged: haproxy[:100], why: "no "},
		{name: "a W3C line with too few fields", head: w3c.head, good: row(w3c), damaged: "2020-01-01 00:00:00 10.0.0.1 GET", why: "4 fields, the heading names 13"},
		{name: "a W3C line of another log", head: w3c.head, good: row(w3c), damaged: combined, why: "the line is Combined Log Format, the file a W3C Extended Log"},
		{name: "a Zeek line cut short", head: zeek.head, good: row(zeek), damaged: "1700000000.0\tCHhAvVG", why: "2 fields, the heading names 5"},
		{name: "a Zeek line without a client", head: zeek.head, good: row(zeek), damaged: "1700000000.0\tC\t-\t443\tx", why: "no addr"},
		{name: "a Zeek line with text for the client", head: zeek.head, good: row(zeek), damaged: "1700000000.0\tC\tfoo bar\t443\tx", why: `addr "foo bar" is neither an address nor a host name`},
		{name: "a W3C line with fields in another order", head: "#Fields: date time c-ip cs-uri\n", good: "2020-01-01 00:00:00 192.0.2.1 /", damaged: "2020-01-01 00:00:00 /a 192.0.2.1", why: `addr "/a" is neither`},
		{name: "a W3C line with a part of an address", head: "#Fields: date time c-ip cs-uri\n", good: "2020-01-01 00:00:00 192.0.2.1 /", damaged: "2020-01-01 00:00:00 192.0.2. /", why: `addr "192.0.2." is neither`},
		{name: "JSON with text for the client", good: nginx, damaged: strings.Replace(nginx, "192.0.2.1", "GET /", 1), why: `addr "GET /" is neither`},
		{name: "JSON with a list of addresses for the client", good: nginx, damaged: strings.Replace(nginx, "192.0.2.1", "192.0.2.1, 10.0.0.1", 1), why: "is neither an address"},
		{name: "CSV with a column too many", head: "when,who\n", good: "1,a", damaged: "1,a,b", why: "3 columns, the header has 2", args: []string{"-time", "when", "-key", "who"}},
		{name: "CSV with a bad time", head: "when,who\n", good: "1,a", damaged: "a,1", why: `time "a"`, args: []string{"-time", "when", "-key", "who"}},
		{name: "a pattern that a line continues", good: "1 192.0.2.1;", damaged: "1 192.0.2.1; 2", why: "follows where the pattern ends", args: []string{"-format", "$msec $remote_addr;"}},
		{name: "a pattern with text for the address", good: "1 192.0.2.1;", damaged: "1 GET /;", why: "neither an address nor a host name", args: []string{"-format", "$msec $remote_addr;"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			log := tt.head + tt.good + "\n" + tt.good + "\n" + tt.damaged + "\n" + tt.good + "\n"
			r := invoke(log, append(tt.args, "-limit", "1/s", "-json")...).report(t)
			assert.EqualValues(t, 3, r.Events)
			assert.Equal(t, 1, r.Clients)
			assert.EqualValues(t, 1, r.Unreadable)
			require.Len(t, r.UnreadableLines, 1)
			assert.Contains(t, r.UnreadableLines[0].Why, tt.why)
			assert.EqualValues(t, strings.Count(tt.head, "\n")+3, r.UnreadableLines[0].Line)
			assert.Equal(t, r.Lines, r.Events+r.Unreadable+r.Blank+r.Headings)
		})
	}
}

func TestFormats_ErrorsSayWhatToTry(t *testing.T) {
	nginx := everyFormat[9].line(time.Unix(1.7e9, 0).UTC(), "192.0.2.1") + "\n"
	tests := []struct {
		name, stdin string
		args        []string
		status      int
		stderr      string
	}{
		{"no such format", "", []string{"-format", "appache"}, command.Usage, `-format: no format "appache", want one of micros combined`},
		{"an empty format", "", []string{"-format", " \n"}, command.Usage, "-format is empty: "},
		{"no time in a pattern", "", []string{"-format", "$remote_addr"}, command.Usage, "has no time: want $time"},
		{"variables that touch", "", []string{"-format", "$msec$remote_addr"}, command.Usage, "nothing stands between $msec and $remote_addr"},
		{"no such directive", "", []string{"-format", "%h %t %Z"}, command.Usage, `"%Z" is no directive`},
		{"a dollar alone", "", []string{"-format", "$msec $"}, command.Usage, `"$" names no variable`},
		{"a field that JSON lacks", nginx, []string{"-key", "user_name"}, command.Failed, `-key user_name: - has no user_name, line 1 is JSON with the fields "remote_addr request status time_iso8601"`},
		{"a time that JSON lacks", nginx, []string{"-time", ".when"}, command.Failed, `-time .when: - has no .when, line 1 is JSON`},
		{"a field that a pattern lacks", "1 192.0.2.1\n", []string{"-format", "$msec $remote_addr", "-key", "user"}, command.Failed, `with the fields "msec remote_addr"`},
		{"no X-Forwarded-For", clf, []string{"-trust", "10.0.0.0/8"}, command.Failed, "-trust: - has no forwarded, line 1 is Common Log Format"},
		{"trust in everybody", clf, []string{"-trust", "0.0.0.0/0"}, command.Usage, "too wide"},
		{"trust in no network", clf, []string{"-trust", "10.0.0.1"}, command.Usage, `-trust: "10.0.0.1" is not a network such as 10.0.0.0/8`},
		{"trust without addr", clf, []string{"-trust", "10.0.0.0/8", "-key", "user"}, command.Usage, "-trust is for addr, which -key user does not name"},
		{"a unit", clf, []string{"-unit", "h"}, command.Usage, `-unit: "h" is none of s, ms, us and ns`},
		{"a separator", clf, []string{"-separator", "ab"}, command.Usage, `-separator: "ab" is not one character`},
		{"a separator of a log", clf, []string{"-separator", ";"}, command.Usage, "-separator needs -time"},
		{"CSV without a time", clf, []string{"-format", "csv"}, command.Usage, "-format csv needs -time"},
		{"nothing known", "a b\n", nil, command.Failed, "nothing readable in -: name the format by -format"},
		{"xz", "\xfd7zXZ\x00abc", nil, command.Failed, "it is xz: decompress it first"},
		{"UTF-16", "\xff\xfea\x00", nil, command.Failed, "it is UTF-16: convert it first"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := invoke(tt.stdin, append(tt.args, "-limit", "1/s")...)
			assert.Equal(t, tt.status, got.status, got.stderr)
			assert.Contains(t, got.stderr, tt.stderr)
		})
	}
}

// What a client sends is not taken for a second line.
func TestFormats_ATimeInTheAgentIsNoSecondLine(t *testing.T) {
	agents := []string{`[17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200`, `[17/May/2015:10:05:03 +0000] `, `x] "`, `a"b`, `x`}
	for _, agent := range agents {
		r := invoke(clf+` "-" "`+agent+"\"\n"+clf+` "-" "[17/May/2015:10:05:03 +0000] " "[17/May/2015:10:05:03 +0000]"`+"\n", "-limit", "1/s", "-json").report(t)
		assert.EqualValues(t, 2, r.Events, agent)
	}
}

// Nor does a client hide a request by what a load balancer quotes of it.
func TestFormats_ATimeWithinQuotesIsNoSecondLine(t *testing.T) {
	line := everyFormat[18].line(time.Unix(1.7e9, 0).UTC(), "192.0.2.1")
	r := invoke(strings.Replace(line, `"forward"`, `"forward 2018-07-02T22:22:48.364000Z 2018-07-02T22:22:48.364000Z"`, 1), "-limit", "1/s", "-json").report(t)
	assert.EqualValues(t, 1, r.Events)
	assert.Zero(t, r.Unreadable)
}

// A server may log its start, and headers that a request had not.
func TestFormats_LinesOfJSONDiffer(t *testing.T) {
	const start = `{"level":"info","ts":1700000000.1,"msg":"serving initial configuration"}` + "\n"
	request := func(headers string) string {
		return `{"ts":1700000001.5,"request":{"client_ip":"10.0.0.1","headers":{` + headers + "}}}\n"
	}
	none, one := request(""), request(`"X-Forwarded-For":["192.0.2.1"],"User-Agent":["curl/8"]`)
	several := request(`"X-Forwarded-For":["198.51.100.9","192.0.2.2, 10.0.0.7"]`)
	tests := []struct {
		name, log  string
		args       []string
		unreadable int64
		clients    []string
	}{
		{"a line before the first request", start + one, nil, 1, []string{"10.0.0.1"}},
		{"a proxy, and a client without one", none + one, []string{"-trust", "10.0.0.0/8"}, 0, []string{"10.0.0.1", "192.0.2.1"}},
		{"the other way round", one + none, []string{"-trust", "10.0.0.0/8"}, 0, []string{"10.0.0.1", "192.0.2.1"}},
		{"a header twice", several, []string{"-trust", "10.0.0.0/8"}, 0, []string{"192.0.2.2"}},
		{"an agent that is not sent", none + one, []string{"-key", "agent"}, 0, []string{"-", "curl/8"}},
		{"an address with a port or without", `{"ts":1,"client_addr":"2001:db8::1"}` + "\n" + `{"ts":1,"client_addr":"[2001:db8::2]:443"}` + "\n" +
			`{"ts":1,"client_addr":"[2001:db8::3]"}` + "\n" + `{"ts":1,"client_addr":"192.0.2.1:80"}` + "\n", []string{"-key", "addr"}, 0,
			[]string{"192.0.2.1", "2001:db8::1", "2001:db8::2", "2001:db8::3"}},
		{"addresses of one network", `{"ts":1,"client_addr":"2001:db8::1"}` + "\n" + `{"ts":1,"client_addr":"[2001:db8::2]:443"}` + "\n" +
			`{"ts":1,"client_addr":"2001:db8:0:1::1"}` + "\n" + `{"ts":1,"client_addr":"host.example"}` + "\n", nil, 0,
			[]string{"2001:db8:0:1::/64", "2001:db8::/64", "host.example"}},
		{"a program that logs the port", `{"ts":1,"remote_addr":"192.0.2.1:5000"}` + "\n" + `{"ts":1,"remote_addr":"192.0.2.1:5001"}` + "\n" +
			`{"ts":1,"remote_addr":"unix:"}` + "\n", nil, 0, []string{"192.0.2.1", "unix:"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := invoke(tt.log, append(tt.args, "-limit", "0/s", "-json", "-top", "9")...).report(t)
			assert.Equal(t, tt.unreadable, r.Unreadable)
			var clients []string
			for _, d := range r.Limits[0].Top {
				clients = append(clients, d.Client)
			}
			assert.ElementsMatch(t, tt.clients, clients)
		})
	}
	got := invoke(strings.Repeat(start, 32)+one, "-limit", "1/s")
	assert.Equal(t, command.Failed, got.status)
	assert.Contains(t, got.stderr, `-key addr/64: - has no addr, line 1 is JSON with the fields "level msg ts"`)
}

func TestKey_ClientsBehindTrustedProxies(t *testing.T) {
	line := `10.0.0.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5 "-" "curl/8" "%s"` + "\n"
	log := fmt.Sprintf(line, "192.0.2.1") + fmt.Sprintf(line, "203.0.113.9, 2001:db8::1") + fmt.Sprintf(line, "2001:db8::2") + fmt.Sprintf(line, "-")
	tr := invoke(log, "-limit", "0/s", "-json", "-trust", "10.0.0.0/8", "-key", "addr/64").report(t)
	var clients []string
	for _, d := range tr.Limits[0].Top {
		clients = append(clients, d.Client)
	}
	assert.ElementsMatch(t, []string{"192.0.2.1", "2001:db8::/64", "10.0.0.1"}, clients)
}

// X-Forwarded-For and an address may as well be a virtual host and an address. With the second read
// as the client, all clients behind a proxy would be one.
func TestFormats_TwoAddressesAreNotTakenForAVirtualHost(t *testing.T) {
	const rest = ` - frank [17/May/2015:10:05:03 +0000] "GET /a.png HTTP/1.1" 200 2326 "-" "curl/8"` + "\n"
	behind := func(clients ...string) (log string) {
		for _, c := range clients {
			log += c + " 10.0.0.1" + rest
		}
		return log
	}
	refused := map[string]string{
		"addresses":                       behind("203.0.113.9", "203.0.113.10", "2001:db8::1"),
		"addresses that begin like names": behind("2a02:8070::1", "fe80::1", "2a02:8070::2"),
		"several addresses":               behind("203.0.113.9, 10.0.0.9", "203.0.113.10"),
		"addresses and ports":             behind("203.0.113.9:51234", "203.0.113.10:40000"),
		"one without":                     behind("-", "203.0.113.9", "unknown"),
		"one that a client made up":       behind("www.example.com", "203.0.113.9", "203.0.113.10"),
		"fields after the size":           strings.ReplaceAll(behind("203.0.113.9", "203.0.113.10"), ` "-" "curl/8"`, " 0.005"),
	}
	several := invoke(behind("203.0.113.9, 10.0.0.9", "2a02:8070::1, 10.0.0.9"), "-limit", "1/s")
	assert.Equal(t, command.Failed, several.status)
	assert.Contains(t, several.stderr, `-: its lines begin with several addresses such as "203.0.113.9, 10.0.0.9", as in X-Forwarded-For`)
	assert.Contains(t, several.stderr, `-format '%{X-Forwarded-For}i %h %l %u %t "%r" %>s %b'`)
	for name, log := range refused {
		t.Run(name, func(t *testing.T) {
			got := invoke(log, "-limit", "1/s")
			assert.Equal(t, command.Failed, got.status)
			assert.Contains(t, got.stderr, "-: its lines begin with two addresses such as ")
			assert.Contains(t, got.stderr, "-format vhost_combined")
			assert.Contains(t, got.stderr, `-format '%{X-Forwarded-For}i %h %l %u %t "%r" %>s %b'`)
			assert.Empty(t, got.stdout)
			named := invoke(log, "-limit", "0/s", "-json", "-format", "vhost_extended").report(t)
			assert.Equal(t, 1, named.Clients, "as the flag says")
		})
	}
	for name, log := range map[string]string{
		"names":              behind("www.example.com", "b.example:8080"),
		"a port of a server": behind("127.0.1.1:80", "[::1]:8443"),
		"some by address":    behind("www.example.com", "a.example", "203.0.113.9"),
	} {
		t.Run(name, func(t *testing.T) {
			r := invoke(log, "-limit", "0/s", "-json").report(t)
			assert.Equal(t, "vhost_combined", r.Formats[0].Format)
			assert.Zero(t, r.Unreadable)
		})
	}
}

// A pattern tells the client behind a proxy, however long the list of X-Forwarded-For is.
func TestFormats_PatternsWithXForwardedFor(t *testing.T) {
	const rest = ` - frank [17/May/2015:10:05:03 +0000] "GET /a.png HTTP/1.1" 200 2326` + "\n"
	log := "203.0.113.9 10.0.0.1" + rest + "203.0.113.10, 10.0.0.9 10.0.0.1" + rest + "made.up, 203.0.113.11 10.0.0.1" + rest + "- 10.0.0.1" + rest
	shifted := "203.0.113.9 198.51.100.1 x, 203.0.113.12 10.0.0.1" + rest
	for name, pattern := range map[string]string{
		"Apache":                 `%{X-Forwarded-For}i %h %l %u %t "%r" %>s %b`,
		"Apache's configuration": `%{X-Forwarded-For}i %a %l %u %t \"%r\" %!400,501s %O`,
		"nginx":                  `$http_x_forwarded_for $remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent`,
	} {
		t.Run(name, func(t *testing.T) {
			got := invoke(log+shifted, "-limit", "0/s", "-json", "-format", pattern, "-trust", "10.0.0.0/8")
			r := got.report(t)
			require.Len(t, r.Limits, 1, got.stderr)
			assert.EqualValues(t, 1, r.Unreadable, r.UnreadableLines)
			var clients []string
			for _, d := range r.Limits[0].Top {
				clients = append(clients, d.Client)
			}
			assert.ElementsMatch(t, []string{"203.0.113.9", "203.0.113.10", "203.0.113.11", "10.0.0.1"}, clients)
		})
	}
}

// Formats are known by other names, in any case.
func TestFormats_Nicknames(t *testing.T) {
	for nickname, name := range map[string]string{"COMBINED": "combined", "VCOMBINED": "vhost_combined", "VCOMMON": "vhost_combined", "combinedio": "combined", "main": "combined", "TRAEFIKCLF": "combined"} {
		log := "192.0.2.1" + strings.TrimPrefix(clf, "192.0.2.1") + ` "-" "curl/8" 17 18` + "\n"
		if strings.HasPrefix(name, "vhost") {
			log = "www.example.com " + log
		}
		r := invoke(log, "-limit", "0/s", "-json", "-format", nickname).report(t)
		assert.Zero(t, r.Unreadable, nickname)
		assert.Equal(t, name, r.Formats[0].Format, nickname)
	}
}

// Load balancers log whole URLs, whose path is what a server sees. Their formats have names of AWS, too.
func TestFormats_PathsOfLoadBalancers(t *testing.T) {
	const rest = ` app/one 192.0.2.1:2817 10.0.0.9:80 0.001 0.002 0.003 200 200 17 29 "GET https://www.example.com:443/a?x=/b HTTP/1.1" "curl/8" - -`
	for name, line := range map[string]string{"awselb": "2026-03-10T10:00:00.000001Z" + rest, "awsalb": "h2 2026-03-10T10:00:00.000001Z" + rest} {
		r := invoke(line+"\n", "-limit", "0/s", "-json", "-key", "path", "-format", name).report(t)
		require.Len(t, r.Limits, 1, name)
		assert.Equal(t, "/a", r.Limits[0].Top[0].Client, name)
	}
}

// IIS and CloudFront encode the spaces of X-Forwarded-For.
func TestFormats_EncodedXForwardedFor(t *testing.T) {
	for name, list := range map[string]string{"cs(X-Forwarded-For)": "203.0.113.9,+10.0.0.9", "X-Forwarded-For": "1.2.3.4,+203.0.113.9", "x-forwarded-for": "1.2.3.4,%20203.0.113.9"} {
		log := "#Fields: date time c-ip " + name + "\n2026-03-10 10:00:00 10.0.0.1 " + list + "\n"
		r := invoke(log, "-limit", "0/s", "-json", "-trust", "10.0.0.0/8").report(t)
		require.Len(t, r.Limits, 1, r.UnreadableLines)
		assert.Equal(t, "203.0.113.9", r.Limits[0].Top[0].Client, name)
	}
}

// With -time, the clients of JSON are told apart as without it.
func TestFormats_TimeOfJSONKeepsTheKey(t *testing.T) {
	json := `{"when":1700000000.5,"remote_addr":"192.0.2.1","in":2}` + "\n" + `{"when":1700000001.5,"remote_addr":"192.0.2.2","in":3}` + "\n"
	for _, args := range [][]string{{"-time", "when"}, {"-time", ".when"}, {"-time", "when", "-cost", "in"}, {"-format", "json", "-time", "when"}} {
		r := invoke(json, append(args, "-limit", "0/s", "-json")...).report(t)
		assert.Equal(t, "addr/64", r.Key, args)
		assert.Equal(t, 2, r.Clients, args)
	}
	none := invoke(json, "-time", "when", "-key", "none", "-limit", "0/s", "-json").report(t)
	assert.Empty(t, none.Key)
	assert.Equal(t, 1, none.Clients)
	got := invoke(strings.ReplaceAll(json, "remote_addr", "from"), "-time", "when", "-limit", "0/s")
	assert.Equal(t, command.Failed, got.status)
	assert.Contains(t, got.stderr, "-key addr/64: - has no addr, line 1 is JSON with the fields")

	dir := t.TempDir()
	a, b := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.csv")
	require.NoError(t, os.WriteFile(a, []byte(json), 0o600))
	require.NoError(t, os.WriteFile(b, []byte("when,addr\n1700000000,192.0.2.1\n"), 0o600))
	got = invoke("", "-time", "when", "-limit", "0/s", a, b)
	assert.Equal(t, command.Failed, got.status)
	assert.Contains(t, got.stderr, `clients are told apart by "addr/64" in `)
	assert.Equal(t, 2, invoke("", "-time", "when", "-key", "addr", "-limit", "0/s", "-json", a, b).report(t).Clients)
	got = invoke("", "-time", "when", "-trust", "10.0.0.0/8", "-limit", "0/s", b)
	assert.Equal(t, command.Failed, got.status)
	assert.Contains(t, got.stderr, "has columns, and no -key names the column of the address")
}
