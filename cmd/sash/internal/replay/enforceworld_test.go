package replay_test

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A visit is a request of the model of policies, and its response.
type visit struct {
	*request
	key, plan, class string // headers; "" is not sent
	keys             int    // how often the header of key is sent
	status           int    // 0: none is logged
	cost             string // a header of the response
	lasts            time.Duration
	socket           bool // comes through a Unix socket
	noise            bool // is no request
}

// raw returns the request as a client sends it.
func (v *visit) raw() string {
	var b strings.Builder
	if v.noise {
		return "\x16\x03\x01\r\n\r\n"
	}
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n", v.method, v.target(), v.host)
	for _, line := range v.forwarded {
		fmt.Fprintf(&b, "X-Forwarded-For: %s\r\n", line)
	}
	for range v.keys {
		fmt.Fprintf(&b, "X-Api-Key: %s\r\n", v.key)
	}
	for _, h := range []struct{ name, value string }{{"X-Plan", v.plan}, {"X-Class", v.class}, {"User-Agent", v.agent}, {"Referer", v.referer}} {
		if h.value != "" {
			fmt.Fprintf(&b, "%s: %s\r\n", h.name, h.value)
		}
	}
	return b.String() + "\r\n"
}

// http returns the request as package net/http reads it, or nil if it refuses it.
func (v *visit) http() *http.Request {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(v.raw())))
	if err != nil {
		return nil
	}
	r.RemoteAddr = v.peer.String()
	return r
}

// A diary is a way in which servers log visits.
type diary struct {
	name      string
	format    string // what -format takes, or ""
	time      string // what -time takes, or ""
	step      time.Duration
	ends      bool // whether the time is the end
	lasting   bool // whether it has how long a request has lasted
	step2     time.Duration
	forwarded bool
	host      bool
	headers   bool // whether it has X-Api-Key and the others
	twice     bool // whether it tells that a header is sent twice
	head      string
	line      func(v *visit, at time.Time) string
}

func status(v *visit) any {
	if v.status == 0 {
		return "-"
	}
	return v.status
}

func requestOf(v *visit) string {
	if v.noise {
		return `\x16\x03\x01`
	}
	return v.method + " " + v.target() + " HTTP/1.1"
}

func seconds(d time.Duration) string { return fmt.Sprintf("%d.%03d", d/time.Second, d%time.Second/1e6) }

func unixSeconds(at time.Time) json.Number {
	return json.Number(fmt.Sprintf("%d.%03d", at.Unix(), at.Nanosecond()/1e6))
}

func apacheTime(at time.Time) string { return at.UTC().Format("02/Jan/2006:15:04:05 -0700") }

func combinedLine(v *visit, at time.Time) string {
	return fmt.Sprintf(`%s - - [%s] "%s" %v %d %s %s`, peerOf(v), apacheTime(at), requestOf(v), status(v), v.size, quoted(v.referer), quoted(v.agent))
}

func peerOf(v *visit) string {
	if v.socket {
		return "unix:"
	}
	return v.peer.Addr().String()
}

func balancer(v *visit, at time.Time) string {
	third := v.lasts / 3 / 1e6 * 1e6
	return fmt.Sprintf(`%s app/one %s 10.9.9.9:80 %s %s %s %v %v 17 %d "%s https://%s:443%s HTTP/1.1" %s`,
		at.UTC().Format("2006-01-02T15:04:05.000000Z"), v.peer, seconds(third), seconds(third), seconds(v.lasts-2*third), status(v), status(v), v.size, v.method, v.host, v.target(), quoted(v.agent))
}

var diaries = []*diary{
	{name: "combined", step: time.Second, line: combinedLine},
	{name: "main", step: time.Second, forwarded: true, ends: true,
		line: func(v *visit, at time.Time) string { return combinedLine(v, at) + " " + quoted(v.list()) }},
	{name: "nginx JSON", step: time.Millisecond, step2: time.Millisecond, ends: true, lasting: true, forwarded: true, host: true, headers: true,
		line: func(v *visit, at time.Time) string {
			return lineOf(map[string]any{"msec": unixSeconds(at), "remote_addr": peerOf(v), "request": requestOf(v), "status": fmt.Sprint(status(v)), "body_bytes_sent": v.size,
				"request_time": json.Number(seconds(v.lasts)), "http_x_forwarded_for": strings.Join(v.forwarded, ", "), "http_host": v.host,
				"http_x_api_key": v.key, "http_x_plan": v.plan, "http_x_class": v.class, "sent_http_x_cost": v.cost, "http_user_agent": v.agent})
		}},
	{name: "Caddy", step: time.Millisecond, step2: time.Millisecond, ends: true, lasting: true, forwarded: true, host: true, headers: true, twice: true,
		line: func(v *visit, at time.Time) string {
			sent, got := map[string][]string{}, map[string][]string{}
			for name, value := range map[string]string{"X-Plan": v.plan, "X-Class": v.class, "User-Agent": v.agent} {
				if value != "" {
					sent[name] = []string{value}
				}
			}
			if v.keys > 0 {
				sent["X-Api-Key"] = slices.Repeat([]string{v.key}, v.keys)
			}
			if len(v.forwarded) > 0 {
				sent["X-Forwarded-For"] = v.forwarded
			}
			if v.cost != "" {
				got["X-Cost"] = []string{v.cost}
			}
			return lineOf(map[string]any{"ts": unixSeconds(at), "duration": json.Number(seconds(v.lasts)), "status": v.status, "size": v.size, "resp_headers": got,
				"request": map[string]any{"remote_ip": peerOf(v), "method": v.method, "uri": v.target(), "host": v.host, "headers": sent}})
		}},
	{name: "Traefik", step: time.Millisecond, step2: time.Millisecond, lasting: true, forwarded: true, host: true, headers: true,
		line: func(v *visit, at time.Time) string {
			fields := map[string]any{"StartUTC": at.UTC().Format(time.RFC3339Nano), "Duration": v.lasts.Nanoseconds(), "ClientHost": peerOf(v), "RequestMethod": v.method,
				"RequestPath": v.target(), "RequestHost": v.host, "DownstreamStatus": v.status, "DownstreamContentSize": v.size}
			for name, value := range map[string]string{"request_X-Api-Key": v.key, "request_X-Plan": v.plan, "request_X-Class": v.class, "request_X-Forwarded-For": strings.Join(v.forwarded, ", "), "downstream_X-Cost": v.cost} {
				if value != "" {
					fields[name] = value
				}
			}
			return lineOf(fields)
		}},
	{name: "Envoy", step: time.Millisecond, step2: time.Millisecond, lasting: true, forwarded: true, host: true, headers: true,
		line: func(v *visit, at time.Time) string { return envoy(v, at, "start_time") }},
	{name: "Envoy with another name for its start", step: time.Millisecond, step2: time.Millisecond, lasting: true, forwarded: true, host: true, headers: true,
		line: func(v *visit, at time.Time) string { return envoy(v, at, "@timestamp") }},
	{name: "Apache", step: time.Second, step2: time.Microsecond, lasting: true, forwarded: true, host: true, headers: true,
		format: `%h %l %u %t "%r" %>s %b %D "%{X-Forwarded-For}i" "%{Host}i" "%{X-Api-Key}i" "%{X-Plan}i" "%{X-Class}i" "%{X-Cost}o"`,
		line: func(v *visit, at time.Time) string {
			return fmt.Sprintf(`%s - - [%s] "%s" %v %d %d "%s" "%s" "%s" "%s" "%s" "%s"`, peerOf(v), apacheTime(at), requestOf(v), status(v), v.size, v.lasts.Microseconds(),
				v.list(), v.host, dashed(v.key), dashed(v.plan), dashed(v.class), dashed(v.cost))
		}},
	{name: "Apache with end:", step: time.Millisecond, step2: time.Microsecond, ends: true, lasting: true, host: true,
		format: `%{end:usec}t|%h|%{Host}i|"%r"|%>s|%B|%D`,
		line: func(v *visit, at time.Time) string {
			return fmt.Sprintf(`%d|%s|%s|"%s"|%v|%d|%d`, at.UnixMicro(), peerOf(v), v.host, requestOf(v), status(v), v.size, v.lasts.Microseconds())
		}},
	{name: "nginx", step: time.Millisecond, step2: time.Millisecond, ends: true, lasting: true, host: true,
		format: `$msec|$remote_addr|$http_host|"$request"|$status|$body_bytes_sent|$request_time`,
		line: func(v *visit, at time.Time) string {
			return fmt.Sprintf(`%s|%s|%s|"%s"|%v|%d|%s`, unixSeconds(at), peerOf(v), v.host, requestOf(v), status(v), v.size, seconds(v.lasts))
		}},
	{name: "elb", step: time.Microsecond, step2: time.Millisecond, lasting: true,
		line: func(v *visit, at time.Time) string { return balancer(v, at) + " - -" }},
	{name: "alb", step: time.Microsecond, step2: time.Millisecond, ends: true, lasting: true,
		line: func(v *visit, at time.Time) string {
			return "h2 " + balancer(v, at) + ` - - arn "-" "-" "-" 0 ` + at.UTC().Format("2006-01-02T15:04:05.000000Z") + ` "forward"`
		}},
	{name: "haproxy", step: time.Millisecond, step2: time.Millisecond, lasting: true,
		line: func(v *visit, at time.Time) string {
			logged := v.status
			if logged == 0 {
				logged = -1
			}
			return fmt.Sprintf(`%s [%s] in out/one 0/0/-1/2/%d %d %d - - ---- 1/1/0/0/0 0/0 "%s"`, v.peer, at.UTC().Format("02/Jan/2006:15:04:05.000"), v.lasts.Milliseconds(), logged, v.size, requestOf(v))
		}},
	{name: "IIS", step: time.Second, step2: time.Second, ends: true, lasting: true, host: true, forwarded: true,
		head: "#Fields: date time c-ip cs-method cs-uri-stem cs-uri-query sc-status sc-bytes cs-host cs(X-Forwarded-For) time-taken\n",
		line: func(v *visit, at time.Time) string {
			return strings.Join([]string{at.UTC().Format("2006-01-02 15:04:05"), peerOf(v), v.method, v.path, dashed(strings.TrimPrefix(v.query, "?")), fmt.Sprint(v.status), fmt.Sprint(v.size), v.host,
				strings.ReplaceAll(v.list(), " ", "+"), fmt.Sprint(v.lasts.Milliseconds())}, " ")
		}},
	{name: "csv", time: "when", step: time.Millisecond, step2: time.Millisecond, lasting: true, forwarded: true, host: true, headers: true,
		head: "when,addr,method,path,host,status,size,duration,forwarded,X-Api-Key,X-Plan,X-Class,X-Cost\n",
		line: func(v *visit, at time.Time) string {
			return strings.Join([]string{string(unixSeconds(at)), peerOf(v), v.method, v.target(), v.host, fmt.Sprint(status(v)), fmt.Sprint(v.size), seconds(v.lasts), `"` + v.list() + `"`,
				dashed(v.key), dashed(v.plan), dashed(v.class), dashed(v.cost)}, ",")
		}},
}

// envoy returns a line of Envoy, whose start has that name.
func envoy(v *visit, at time.Time, start string) string {
	fields := map[string]any{start: at.UTC().Format("2006-01-02T15:04:05.000Z"), "duration": v.lasts.Milliseconds(), "downstream_remote_address": v.peer.String(), "method": v.method,
		"x-envoy-origin-path": v.target(), ":authority": v.host, "response_code": v.status, "bytes_sent": v.size}
	for name, value := range map[string]string{"x-api-key": v.key, "x-plan": v.plan, "x-class": v.class, "x-forwarded-for": strings.Join(v.forwarded, ", "), "sent_http_x_cost": v.cost} {
		if value != "" {
			fields[name] = value
		}
	}
	return lineOf(fields)
}

// visits returns the visits of a world in the order of their beginnings, as the diary can tell them.
func visits(r *rand.Rand, w *world, d *diary, windows []time.Duration) (all []*visit) {
	for _, q := range w.requests(windows) {
		q.at = q.at / int64(d.step) * int64(d.step) / 1e6 * 1e6
		v := &visit{request: q, status: pick(r, []int{200, 200, 200, 204, 304, 401, 401, 403, 404, 429, 500, 499, 101})}
		q.path = pick(r, []string{"/", "/login", "/login", "/api/a", "/api/b%2Fc", "/files/x", "/files/y", "//api/../login", "/a;x=1"})
		if r.IntN(15) == 0 && d.name != "IIS" && d.name != "Caddy" && d.name != "Traefik" {
			v.status = 0
		}
		if v.status == 204 || v.status == 304 || v.status == 101 || q.method == "HEAD" || v.status == 0 {
			q.size = 0
		}
		if !d.forwarded {
			q.forwarded = nil
		}
		if q.referer = ""; q.agent == "" || strings.Contains(q.agent, `"`) {
			q.agent = "curl/8.5"
		}
		if d.headers {
			v.key, v.plan, v.class = pick(r, []string{"", "k1", "k2", "k3"}), pick(r, []string{"", "", "gold", "none"}), pick(r, []string{"", "background", "batch"})
			v.cost = pick(r, []string{"", "0", "1", "7"})
		}
		if v.key != "" {
			v.keys = 1
			if d.twice && r.IntN(8) == 0 {
				v.keys = 2
			}
		}
		if d.step2 > 0 {
			v.lasts = time.Duration(r.ExpFloat64()*float64(pick(r, windows))) / d.step2 * d.step2 / 1e6 * 1e6
		}
		if d.ends && d.step == time.Second {
			v.lasts = v.lasts / time.Second * time.Second
		}
		v.socket = strings.HasPrefix(d.name, "nginx") && r.IntN(20) == 0
		v.noise = (d.name == "combined" || d.name == "nginx JSON") && len(all) > 40 && r.IntN(25) == 0
		all = append(all, v)
	}
	if last := all[len(all)-1]; d.headers && !last.noise { // a header of no line is refused
		last.key, last.keys, last.cost = "k1", 1, "1"
	}
	return all
}

// write returns the log of visits, and the visits in the order in which replay decides them, each at its time.
func (d *diary) write(all []*visit, lasting bool) (log string, decided []*visit) {
	ended := func(v *visit) int64 {
		if d.ends {
			return v.at + int64(v.lasts)
		}
		return v.at
	}
	lines := slices.Clone(all)
	slices.SortStableFunc(lines, func(a, b *visit) int { return cmp.Compare(ended(a), ended(b)) })
	b := strings.Builder{}
	b.WriteString(d.head)
	for _, v := range lines {
		b.WriteString(d.line(v, time.Unix(0, ended(v))) + "\n")
	}
	for _, v := range lines {
		if !lasting { // each is answered when it is logged
			v.at, v.lasts = ended(v), 0
		}
	}
	slices.SortStableFunc(lines, func(a, b *visit) int { return cmp.Compare(a.at, b.at) })
	return b.String(), lines
}
