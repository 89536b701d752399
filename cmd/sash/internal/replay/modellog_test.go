package replay_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"time"
)

// A request is what a client of the model sends, and the response.
type request struct {
	at            int64 // Unix nanoseconds, in whole microseconds
	peer          netip.AddrPort
	forwarded     []string // the lines of X-Forwarded-For
	method        string
	path, query   string
	host          string // without a port
	user          string // empty for most
	agent         string
	referer       string
	size, in, out int64
}

func (q *request) target() string { return q.path + q.query }

// list returns X-Forwarded-For as servers log it: all lines as one, and "-" if there are none.
func (q *request) list() string { return dashed(strings.Join(q.forwarded, ", ")) }

func dashed(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// A form is a way in which servers log requests.
type form struct {
	names     []string      // -format takes each of them
	detected  bool          // without -format
	step      time.Duration // of its times
	fields    []string      // that tell clients apart, as -key takes them
	costs     []string      // that -cost takes
	forwarded bool          // whether it has X-Forwarded-For
	time      string        // the field that -time names; it is optional if the form is detected
	numbers   bool          // whether times are Unix times
	columns   bool          // whether -key is none by default
	head      func(l *logger) string
	line      func(l *logger, q *request) string
}

// A logger writes the requests of one server.
type logger struct {
	random    *rand.Rand
	form      *form
	unit      string // of times in numbers, as -unit takes it
	separator string
	collector func(line string) string // writes a prefix before every line; nil if there is none
}

// collectors write what collectors of logs do before lines, or around them.
var collectors = []func(line string) string{
	func(line string) string { return "2026-03-10T12:00:00.123456789Z stdout F " + line },
	func(line string) string { return "<190>Mar  1 12:00:00 web-1 nginx[17]: " + line },
	func(line string) string { return `<165>1 2026-03-10T12:00:00.003Z web-1 nginx - - [x y="z"] ` + line },
	func(line string) string { return "web-1  | " + line },
	func(line string) string {
		return lineOf(map[string]any{"log": line + "\n", "stream": "stdout", "time": "2026-03-10T12:00:00Z"})
	},
	func(line string) string {
		return "[pod/a/b] " + lineOf(map[string]any{"__REALTIME_TIMESTAMP": "1", "MESSAGE": line})
	},
}

// write writes a line as it is collected.
func (l *logger) write(b *strings.Builder, line string) {
	if l.collector != nil {
		line = l.collector(line)
	}
	b.WriteString(line + "\n")
}

// address returns one of the texts that an address may have.
func (l *logger) address(a netip.Addr) string {
	switch {
	case !a.Is6() || l.random.IntN(4) > 0:
		return a.String()
	case l.random.IntN(2) == 0 && a.Zone() == "":
		return a.StringExpanded()
	case a.Zone() == "":
		return strings.ToUpper(a.String())
	}
	return a.String()
}

// addressAndPort returns what load balancers log.
func (l *logger) addressAndPort(q *request) string {
	return netip.AddrPortFrom(q.peer.Addr(), q.peer.Port()).String()
}

// apacheTime returns the time in one of the zones in which a server may be.
func (l *logger) apacheTime(q *request) string {
	zone := time.FixedZone("", []int{0, 0, 3600, 7200, -19800}[l.random.IntN(5)])
	return time.Unix(0, q.at).In(zone).Format("02/Jan/2006:15:04:05 -0700")
}

func (l *logger) iso(q *request, layout string) string {
	return time.Unix(0, q.at).UTC().Format(layout)
}

// number returns the time as a number of the unit, with decimals.
func (l *logger) number(q *request) string {
	seconds, micros := q.at/1e9, q.at%1e9/1e3
	switch l.unit {
	case "ms":
		return fmt.Sprintf("%d%03d.%03d", seconds, micros/1e3, micros%1e3)
	case "us":
		return fmt.Sprintf("%d%06d", seconds, micros)
	case "ns":
		return fmt.Sprintf("%d%06d000", seconds, micros)
	}
	return fmt.Sprintf("%d.%06d", seconds, micros)
}

// quoted returns text as Apache and nginx write it within quotes.
func quoted(s string) string { return `"` + strings.ReplaceAll(dashed(s), `"`, `\"`) + `"` }

func (l *logger) common(q *request) string {
	return fmt.Sprintf("%s - %s [%s] %s 200 %d", l.address(q.peer.Addr()), dashed(q.user), l.apacheTime(q), l.requestLine(q), q.size)
}

func (l *logger) requestLine(q *request) string {
	return quoted(q.method + " " + q.target() + " HTTP/1.1")
}

func (l *logger) combined(q *request) string {
	return l.common(q) + " " + quoted(q.referer) + " " + quoted(q.agent)
}

// balanced returns what a load balancer logs, which has the whole URL.
func (l *logger) balanced(q *request, rest string) string {
	return fmt.Sprintf(`%s app/one %s 10.9.9.9:80 0.001 0.002 0.003 200 200 17 %d "%s https://%s:443%s HTTP/1.1" %s %s`,
		l.iso(q, "2006-01-02T15:04:05.000000Z"), l.addressAndPort(q), q.size, q.method, q.host, q.target(), quoted(q.agent), rest)
}

func lineOf(fields map[string]any) string {
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return string(text)
}

const (
	nginxPattern  = `$remote_addr|$msec|$request_method|$http_host|$request_uri|$body_bytes_sent|"$http_user_agent"|$http_x_forwarded_for|end`
	apachePattern = `%{X-Forwarded-For}i %h %l %u %t "%r" %>s %b`
	// apacheConfig has times in parts.
	apacheConfig = `LogFormat "%a [%{%d/%b/%Y:%T}t.%{usec_frac}t %{%z}t] %u \"%r\" %>s %O \"%{User-Agent}i\"" parts`
)

var (
	ofCommon   = []string{"addr", "user", "method", "path", "status", "size"}
	ofSize     = []string{"size", "size", "size+50", "50+size"}
	ofCombined = append([]string{"referer", "agent"}, ofCommon...)
)

// forms are all formats, some in several variants.
var forms = []*form{
	{names: []string{"micros"}, detected: true, step: time.Microsecond, fields: []string{"addr"}, numbers: true,
		line: func(l *logger, q *request) string { return l.wholeNumber(q) + "\t" + l.address(q.peer.Addr()) }},
	{names: []string{"combined", "common", "COMMON"}, detected: true, step: time.Second, fields: ofCommon, costs: ofSize,
		line: (*logger).common},
	{names: []string{"combined", "Combined", "combinedio"}, detected: true, step: time.Second, fields: ofCombined, costs: []string{"size", "size+50", "50+size"},
		line: (*logger).combined},
	{names: []string{"combined", "main", "traefikclf"}, detected: true, step: time.Second, fields: append([]string{"forwarded"}, ofCombined...), costs: ofSize, forwarded: true,
		line: func(l *logger, q *request) string { return l.combined(q) + " " + quoted(q.list()) }},
	{names: []string{"vhost_combined", "vhost_common", "vcombined", "vcommon"}, detected: true, step: time.Second, fields: append([]string{"host"}, ofCombined...), costs: ofSize,
		line: func(l *logger, q *request) string { return q.host + ":443 " + l.combined(q) }},
	{names: []string{"extended"}, detected: true, step: time.Second, fields: ofCommon, costs: ofSize,
		line: func(l *logger, q *request) string { return l.common(q) + ` 0.005 "a b"` }},
	{names: []string{"vhost_extended"}, detected: true, step: time.Second, fields: append([]string{"host"}, ofCommon...), costs: ofSize,
		line: func(l *logger, q *request) string { return q.host + " " + l.common(q) + ` 0.005` }},
	{names: []string{"elb", "awselb"}, detected: true, step: time.Microsecond, fields: []string{"addr", "method", "path", "agent"}, costs: []string{"size", "size+50", "bytes_sent"},
		line: func(l *logger, q *request) string { return l.balanced(q, "- -") }},
	{names: []string{"alb", "awsalb"}, detected: true, step: time.Microsecond, fields: []string{"addr", "method", "path", "agent"}, costs: ofSize,
		line: func(l *logger, q *request) string {
			return "h2 " + l.balanced(q, `- - arn "-" "-" "-" 0 `+l.iso(q, "2006-01-02T15:04:05.000000Z")+` "forward"`)
		}},
	{names: []string{"s3", "awss3", "AWSS3"}, detected: true, step: time.Second, fields: []string{"addr", "user", "method", "path", "agent"}, costs: ofSize,
		line: func(l *logger, q *request) string {
			return fmt.Sprintf(`79a5 one [%s] %s %s 3E57 REST.GET.OBJECT k %s 200 - %d - 7 - %s %s - h SigV4`, l.apacheTime(q), l.address(q.peer.Addr()), dashed(strings.ReplaceAll(q.user, " ", "+")), l.requestLine(q), q.size, quoted(q.referer), quoted(q.agent))
		}},
	{names: []string{"squid", "SQUID"}, detected: true, step: time.Microsecond, fields: []string{"addr", "method", "path", "status"}, costs: ofSize, numbers: true,
		line: func(l *logger, q *request) string {
			return fmt.Sprintf("%s %6d %s TCP_MISS/200 %d %s http://%s%s - HIER_DIRECT/10.9.9.9 text/html", l.number(q), q.size%1000, l.address(q.peer.Addr()), q.size, q.method, q.host, q.target())
		}},
	{names: []string{"uwsgi"}, detected: true, step: time.Second, fields: []string{"addr", "user", "method", "path", "status"}, costs: ofSize,
		line: func(l *logger, q *request) string {
			return fmt.Sprintf("[pid: 7|app: 0|req: 1/2] %s (%s) {44 vars in 1322 bytes} [%s] %s %s => generated %d bytes in 21 msecs (HTTP/1.1 200) 4 headers in 188 bytes (1 switches on core 0)",
				l.address(q.peer.Addr()), q.user, l.iso(q, time.ANSIC), q.method, q.target(), q.size)
		}},
	{names: []string{"gcs", "cloudstorage"}, detected: true, step: time.Microsecond, fields: []string{"addr", "method", "path", "host", "agent"}, costs: ofSize,
		head: func(*logger) string {
			return `"time_micros","c_ip","cs_method","cs_uri","sc_status","sc_bytes","cs_host","cs_referer","cs_user_agent","cs_bucket"` + "\n"
		},
		line: func(l *logger, q *request) string {
			cells := []string{fmt.Sprint(q.at / 1000), l.address(q.peer.Addr()), q.method, q.target(), "200", fmt.Sprint(q.size), q.host, q.referer, q.agent, "b"}
			for i, c := range cells {
				cells[i] = `"` + strings.ReplaceAll(c, `"`, `""`) + `"`
			}
			return strings.Join(cells, ",")
		}},
	{names: []string{"haproxy"}, detected: true, step: time.Millisecond, fields: []string{"addr", "method", "path"}, costs: []string{"size", "size+50", "bytes_sent"},
		line: func(l *logger, q *request) string {
			return fmt.Sprintf(`%s [%s] in out/one 0/0/1/2/3 200 %d - - ---- 1/1/0/0/0 0/0 %s`, l.addressAndPort(q), l.iso(q, "02/Jan/2006:15:04:05.000"), q.size, l.requestLine(q))
		}},
	{names: []string{"w3c", "iis", "cloudfront"}, detected: true, step: time.Second, fields: []string{"addr", "user", "method", "path", "agent", "referer", "host", "status"}, costs: []string{"size", "size+50", "sc-bytes"}, forwarded: true,
		head: func(*logger) string {
			return "#Software: Microsoft Internet Information Services 10.0\n#Fields: date time c-ip cs-username cs-method cs-uri-stem cs-uri-query sc-status sc-bytes cs(User-Agent) cs(Referer) cs-host cs(X-Forwarded-For)\n"
		},
		line: func(l *logger, q *request) string {
			spaces := func(s string) string { return strings.ReplaceAll(dashed(s), " ", "+") }
			return strings.Join([]string{l.iso(q, "2006-01-02 15:04:05"), l.address(q.peer.Addr()), spaces(q.user), q.method, q.path, dashed(strings.TrimPrefix(q.query, "?")), "200", fmt.Sprint(q.size), spaces(q.agent), spaces(q.referer), q.host, spaces(q.list())}, " ")
		}},
	{names: []string{"zeek"}, detected: true, step: time.Microsecond, fields: []string{"addr", "method", "path", "host", "id.orig_h"},
		head: func(*logger) string { return "#separator \\x09\n#fields\tts\tid.orig_h\tmethod\thost\turi\n" },
		line: func(l *logger, q *request) string {
			return strings.Join([]string{l.number(q), l.address(q.peer.Addr()), q.method, q.host, q.target()}, "\t")
		}},
	{names: []string{"json"}, detected: true, step: time.Microsecond, time: "msec", fields: append([]string{"forwarded", "host"}, ofCombined...), costs: []string{"size", "size+50", "body_bytes_sent", "in+out"}, forwarded: true, numbers: true,
		line: func(l *logger, q *request) string {
			return lineOf(map[string]any{"msec": json.Number(l.number(q)), "remote_addr": l.address(q.peer.Addr()), "remote_user": q.user, "request": q.method + " " + q.target() + " HTTP/2.0", "status": 200,
				"body_bytes_sent": q.size, "http_user_agent": q.agent, "http_referer": q.referer, "http_host": q.host, "http_x_forwarded_for": strings.Join(q.forwarded, ", "), "in": q.in, "out": q.out})
		}},
	{names: []string{"json", "caddy"}, detected: true, step: time.Microsecond, time: ".ts", fields: []string{"addr", "user", "method", "path", "agent", "referer", "host", "forwarded", "request.remote_ip"}, costs: ofSize, forwarded: true, numbers: true,
		line: func(l *logger, q *request) string {
			headers := map[string][]string{"User-Agent": {q.agent}}
			if len(q.forwarded) > 0 {
				headers["X-Forwarded-For"] = q.forwarded
			}
			if q.referer != "" {
				headers["Referer"] = []string{q.referer}
			}
			return lineOf(map[string]any{"ts": json.Number(l.number(q)), "user_id": q.user, "status": 200, "size": q.size,
				"request": map[string]any{"remote_ip": l.address(q.peer.Addr()), "method": q.method, "uri": q.target(), "host": q.host, "headers": headers}})
		}},
	{names: []string{"json", "traefik"}, detected: true, step: time.Microsecond, time: "StartUTC", fields: []string{"addr", "user", "method", "path", "host", "agent", "ClientHost"}, costs: []string{"size", "size+50", "DownstreamContentSize"}, forwarded: true,
		line: func(l *logger, q *request) string {
			return lineOf(map[string]any{"StartUTC": l.iso(q, time.RFC3339Nano), "ClientHost": l.address(q.peer.Addr()), "ClientUsername": dashed(q.user), "RequestMethod": q.method, "RequestPath": q.target(), "RequestHost": q.host,
				"DownstreamStatus": 200, "DownstreamContentSize": q.size, "request_User-Agent": q.agent, "request_X-Forwarded-For": q.list()})
		}},
	{names: []string{"json"}, step: time.Microsecond, time: ".call.when", fields: []string{"addr", "user", ".call.größe"}, costs: []string{".call.in+.call.größe", ".call.größe", ".call.in+7"}, numbers: true,
		line: func(l *logger, q *request) string {
			return lineOf(map[string]any{"client_ip": l.address(q.peer.Addr()), "user": q.user, "call": map[string]any{"when": l.number(q), "in": q.in, "größe": q.out}})
		}},
	{names: []string{"csv"}, step: time.Microsecond, time: "when", fields: []string{"addr", "who", "path"}, costs: []string{"in", "in+out", "größe+3", "4"}, numbers: true, columns: true,
		head: func(l *logger) string {
			return strings.Join([]string{"when", "addr", "who", "path", "in", "out", "größe"}, l.separator) + "\n"
		},
		line: (*logger).row},
	{names: []string{"tsv"}, step: time.Microsecond, time: "when", fields: []string{"addr", "who"}, costs: []string{"out", "in+out"}, numbers: true, columns: true,
		head: func(l *logger) string {
			return strings.Join([]string{"when", "addr", "who", "path", "in", "out", "größe"}, "\t") + "\n"
		},
		line: (*logger).row},
	{names: []string{nginxPattern}, step: time.Microsecond, fields: []string{"addr", "method", "host", "path", "agent", "forwarded"}, costs: ofSize, forwarded: true, numbers: true,
		line: func(l *logger, q *request) string {
			return strings.Join([]string{l.address(q.peer.Addr()), l.number(q), q.method, q.host, q.target(), fmt.Sprint(q.size), quoted(q.agent), q.list(), "end"}, "|")
		}},
	{names: []string{apacheConfig}, step: time.Microsecond, fields: []string{"addr", "user", "method", "path", "agent"}, costs: ofSize,
		line: func(l *logger, q *request) string {
			return fmt.Sprintf(`%s [%s] %s %s 200 %d %s`, l.address(q.peer.Addr()), l.iso(q, "02/Jan/2006:15:04:05.000000 -0700"), dashed(q.user), l.requestLine(q), q.size, quoted(q.agent))
		}},
	{names: []string{apachePattern, strings.ReplaceAll(apachePattern, `"`, `\"`)}, step: time.Second, fields: []string{"addr", "user", "method", "path", "forwarded"}, costs: ofSize, forwarded: true,
		line: func(l *logger, q *request) string { return q.list() + " " + l.common(q) }},
}

// wholeNumber returns the time as a whole number of the unit, or of microseconds.
func (l *logger) wholeNumber(q *request) string {
	if l.unit == "ns" {
		return fmt.Sprint(q.at)
	}
	return fmt.Sprint(q.at / 1000)
}

// row returns a row of columns.
func (l *logger) row(q *request) string {
	cells := []string{l.number(q), l.address(q.peer.Addr()), q.user, q.path, fmt.Sprint(q.in), fmt.Sprint(q.out), fmt.Sprint(q.size)}
	for i, c := range cells {
		if strings.ContainsAny(c, `" `+l.separator) {
			cells[i] = `"` + strings.ReplaceAll(c, `"`, `""`) + `"`
		}
	}
	return strings.Join(cells, l.separator)
}

// log returns the lines of requests, in this order, and with some between them that are no requests.
func (l *logger) log(requests []*request) (text string, garbage int) {
	var b strings.Builder
	if l.form.head != nil {
		for line := range strings.Lines(l.form.head(l)) {
			l.write(&b, strings.TrimSuffix(line, "\n"))
		}
	}
	noisy := l.random.IntN(3) == 0
	for i, q := range requests {
		l.write(&b, l.form.line(l, q))
		switch {
		case !noisy || i < 3 || l.random.IntN(6) > 0:
		case l.random.IntN(3) == 0:
			b.WriteString("  \r\n") // blank
		default:
			l.write(&b, pick(l.random, []string{"}{", "server started", `192.0.2.1 - - [10/Mar/2026:25:61:00 +0000] "GET / HTTP/1.1" 200 1`, "\x00\x00\x00"}))
			garbage++
		}
	}
	return b.String(), garbage
}
