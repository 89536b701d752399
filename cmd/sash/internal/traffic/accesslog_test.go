package traffic

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const clf = `192.0.2.1 - frank [17/May/2015:10:05:03 +0000] "GET /a.png?size=2 HTTP/1.1" 200 2326`

func at(t *testing.T, rfc3339 string) int64 {
	t.Helper()
	when, err := time.Parse(time.RFC3339Nano, rfc3339)
	require.NoError(t, err)
	return when.UnixNano()
}

// parseLine reads a line of a log, or of a .tsv if it has a tab before any space. It returns the
// fields of the line.
func parseLine(line string) (map[string]string, record, error) {
	r := record{values: make([]string, 1)}
	if i := strings.IndexAny(line, "\t \""); i >= 0 && line[i] == '\t' {
		w := &wanted{}
		w.add(Addr, "key")
		err := newMicros(w).decode(line, &r)
		return map[string]string{Addr: r.values[0]}, r, err
	}
	a := newAccessLog(&wanted{}, false, false).(*accessLog)
	tail, cut, err := a.parse(line, &r)
	r.cut, r.title = cut, tail.String()
	fields := map[string]string{}
	for f, v := range a.fields {
		if a.hasField(f, tail) {
			fields[fieldNames[f]] = v
		}
	}
	return fields, r, err
}

func TestParseLine_ReadsEveryFormat(t *testing.T) {
	tests := []struct {
		name, line, at string
		format         string
		cut            bool
		fields         [8]string // addr ident user method path status referer agent
	}{
		{name: "common", line: clf, at: "2015-05-17T10:05:03Z", format: common.String(),
			fields: [8]string{"192.0.2.1", "-", "frank", "GET", "/a.png", "200", "", ""}},
		{name: "combined", line: clf + ` "http://example.net/" "Agent/1.0 (a; b)"`, at: "2015-05-17T10:05:03Z", format: combined.String(),
			fields: [8]string{"192.0.2.1", "-", "frank", "GET", "/a.png", "200", "http://example.net/", "Agent/1.0 (a; b)"}},
		{name: "more than combined", line: clf + ` "-" "A" "203.0.113.9" 0.005`, at: "2015-05-17T10:05:03Z", format: combined.String(),
			fields: [8]string{"192.0.2.1", "-", "frank", "GET", "/a.png", "200", "-", "A"}},
		{name: "combined with X-Forwarded-For", line: clf + ` "-" "A" "203.0.113.9, 10.0.0.1"`, at: "2015-05-17T10:05:03Z", format: proxied.String(),
			fields: [8]string{"192.0.2.1", "-", "frank", "GET", "/a.png", "200", "-", "A"}},
		{name: "empty quoted fields", line: clf + ` "" ""`, at: "2015-05-17T10:05:03Z", format: combined.String(),
			fields: [8]string{"192.0.2.1", "-", "frank", "GET", "/a.png", "200", "-", "-"}},
		{name: "zone west of Greenwich", line: `::1 - - [01/Aug/1995:00:00:01 -0400] "GET / HTTP/1.0" 304 -`, at: "1995-08-01T04:00:01Z", format: common.String(),
			fields: [8]string{"::1", "-", "-", "GET", "/", "304", "", ""}},
		{name: "zone of half an hour", line: `2001:db8::1 - - [01/Jan/2020:05:29:59 +0530] "GET /" 200 1`, at: "2019-12-31T23:59:59Z", format: common.String(),
			fields: [8]string{"2001:db8::1", "-", "-", "GET", "/", "200", "", ""}},
		{name: "user with a space", line: `host.example id Jane Doe [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 401 0`, at: "2015-05-17T10:05:03Z", format: common.String(),
			fields: [8]string{"host.example", "id", "Jane Doe", "GET", "/", "401", "", ""}},
		{name: "escaped quotes and backslashes", line: `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /\"x\" HTTP/1.1" 200 1 "\\" "say \"hi\" \\\""`, at: "2015-05-17T10:05:03Z", format: combined.String(),
			fields: [8]string{"192.0.2.1", "-", "-", "GET", `/\"x\"`, "200", `\\`, `say \"hi\" \\\"`}},
		{name: "two spaces, and nothing in quotes", line: `192.0.2.1 -  -  [17/May/2015:10:05:03 +0000] - 408 - - -`, at: "2015-05-17T10:05:03Z", format: combined.String(),
			fields: [8]string{"192.0.2.1", "-", "-", "-", "-", "408", "-", "-"}},
		{name: "no request at all", line: `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "-" 408 - "-" "-"`, at: "2015-05-17T10:05:03Z", format: combined.String(),
			fields: [8]string{"192.0.2.1", "-", "-", "-", "-", "408", "-", "-"}},
		{name: "a handshake for a request", line: `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "\x16\x03\x01" 400 226`, at: "2015-05-17T10:05:03Z", format: common.String(),
			fields: [8]string{"192.0.2.1", "-", "-", "-", "-", "400", "", ""}},
		{name: "spaces in a path", line: `192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a b HTTP/1.1" 200 1`, at: "2015-05-17T10:05:03Z", format: common.String(),
			fields: [8]string{"192.0.2.1", "-", "-", "GET", "/a b", "200", "", ""}},
		{name: "cut short inside the agent", line: clf + ` "-" "Mozilla/5.0 (comp`, at: "2015-05-17T10:05:03Z", format: combined.String(), cut: true,
			fields: [8]string{"192.0.2.1", "-", "frank", "GET", "/a.png", "200", "-", "Mozilla/5.0 (comp"}},
		{name: "cut short after a backslash", line: clf + ` "-" "x\`, at: "2015-05-17T10:05:03Z", format: combined.String(), cut: true,
			fields: [8]string{"192.0.2.1", "-", "frank", "GET", "/a.png", "200", "-", `x\`}},
		{name: "tsv", line: "1442018818771001\t100.64.0.0", at: "2015-09-12T00:46:58.771001Z", format: microsTitle,
			fields: [8]string{"100.64.0.0"}},
		{name: "tsv before 1970, client with a space", line: "-1\tJane Doe", at: "1969-12-31T23:59:59.999999Z", format: microsTitle,
			fields: [8]string{"Jane Doe"}},
		{name: "tsv without a client", line: "0\t", at: "1970-01-01T00:00:00Z", format: microsTitle,
			fields: [8]string{""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fields, r, err := parseLine(tt.line)
			require.NoError(t, err)
			assert.Equal(t, at(t, tt.at), r.at)
			assert.Equal(t, tt.format, r.title)
			assert.Equal(t, tt.cut, r.cut)
			for i, name := range []string{Addr, "ident", "user", "method", "path", "status", "referer", "agent"} {
				assert.Equal(t, tt.fields[i], fields[name], name)
			}
		})
	}
}

func TestParseLine_SaysWhatIsWrong(t *testing.T) {
	const head = `192.0.2.1 - - [17/May/2015:10:05:03 +0000] `
	tests := []struct{ line, want string }{
		{"x", "no address"},
		{" 192.0.2.1 - -", "no address"},
		{"2023-11-16 18:15:46.6805900,374,44", "no ident"},
		{"192.0.2.1 - - GET / 200 1", "no time in brackets"},
		{"192.0.2.1 - - [17/May/2015:10:05:03 +0000", "no time in brackets"},
		{`192.0.2.1 - - [17/May/2015:10:05:03] "GET /" 200 1`, `time "17/May/2015:10:05:03" is not like 02/Jan/2006:15:04:05 -0700`},
		{`192.0.2.1 - - [31/Feb/2015:10:05:03 +0000] "GET /" 200 1`, `time "31/Feb/2015:10:05:03 +0000" is not like`},
		{`192.0.2.1 - - [17/May/1015:10:05:03 +0000] "GET /" 200 1`, "outside the years 1678 to 2262"},
		{`192.0.2.1 - - [17/May/9015:10:05:03 +0000] "GET /" 200 1`, "outside the years 1678 to 2262"},
		{head + `GET / 200 1`, "no request in quotes"},
		{head + `"GET / 200 1`, "no closing quote of the request"},
		{head + `"GET /\" 200 1`, "no closing quote of the request"},
		{head + `"GET /"x" HTTP/1.1" 200 1`, "no space after the request"},
		{head + `"GET /"`, "no space after the request"},
		{head + `"GET /" OK 1`, "no status"},
		{head + `"GET /" 200`, "no size"},
		{head + `"GET /" 200 1 0.5`, "no referer in quotes"},
		{head + `"GET /" 200 1 "-`, "no closing quote of the referer"},
		{head + `"GET /" 200 1 "-"`, "no space after the referer"},
		{head + `"GET /" 200 1 "-" x`, "no agent in quotes"},
		{"\x00\x00" + head + `"GET /" 200 1`, `address "\x00\x00192.0.2.1" has control characters`},
		{`example.com:443 ` + clf, `first field "example.com:443" is neither an address nor a host name`},
		{`[2001:db8::1]:443 ` + clf, `first field "[2001:db8::1]:443" is neither an address nor a host name`},
		{`192.0.2.1:51234 - - [17/May/2015:10:05:03 +0000] "GET /" 200 1`, `first field "192.0.2.1:51234" is neither`},
		{`203.0.113.9, 192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /" 200 1`, `first field "203.0.113.9," is neither`},
		{`192.0.2.999 - - [17/May/2015:10:05:03 +0000] "GET /" 200 1`, `first field "192.0.2.999" is neither`},
		{`1431857103.123 ` + head + `"GET /" 200 1`, `first field "1431857103.123" is neither`},
		{`<190>May 17 10:05:03 web nginx: ` + head + `"GET /" 200 1`, `first field "<190>May" is neither`},
		{`a..example - - [17/May/2015:10:05:03 +0000] "GET /" 200 1`, `first field "a..example" is neither`},
		{strings.Repeat("a", 64) + `.example - - [17/May/2015:10:05:03 +0000] "GET /" 200 1`, `.example" is neither`},
		{`example.com ` + clf, `ident "192.0.2.1" is an address: something stands before the address of the client`},
		{`- ` + clf, `ident "192.0.2.1" is an address`},
		{`example.com h - - [17/May/2015:10:05:03 +0000] "GET /" 200 1`, `user "- -" is more than one field: something stands before the address of the client`},
		{`example.com h - frank [17/May/2015:10:05:03 +0000] "GET /" 200 1`, `user "- frank" is more than one field`},
		{`example.com 443 ` + clf, `user "192.0.2.1 - frank" is more than one field`},
		{`May 17 10:05:03 web nginx: ` + head + `"GET /" 200 1`, `user "10:05:03 web nginx: 192.0.2.1 - -" is more than one field`},
		{`May 17 10:05:03 web nginx: 192.0.2.1 id frank [17/May/2015:10:05:03 +0000] "GET /" 200 1`, `user "10:05:03 web nginx: 192.0.2.1 id frank" is more than one field`},
		{`example.com 192.0.2.1 frank [17/May/2015:10:05:03 +0000] "GET /" 200 1`, `ident "192.0.2.1" is an address: something stands before the address`},
		{"12\ta\tb", "3 columns, want time and client"},
		{"time\tclient", `time "time" is not in whole Unix microseconds`},
		{"1.5\ta", `time "1.5" is not in whole Unix microseconds`},
		{"9223372036854776\ta", "outside the years 1678 to 2262"},
		{"-9223372036854776\ta", "outside the years 1678 to 2262"},
		{"99999999999999999999\ta", "is not in whole Unix microseconds"},
		{"1\ta\rb", "control characters"},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			_, _, err := parseLine(tt.line)
			require.Error(t, err)
			assert.Contains(t, err.Error(), tt.want)
		})
	}
}

// All addresses and names that a server may write for a client are readable.
func TestParseLine_ReadsEveryClient(t *testing.T) {
	for _, client := range []string{"192.0.2.1", "::1", "2001:DB8::1", "::ffff:192.0.2.1", "fe80::1%eth0", "-", "localhost",
		"h", "crawl-66-249-66-1.googlebot.com", "Host_1.Example.COM.", "3com.example", "192.0.2.x", "xn--bcher-kva.example"} {
		fields, _, err := parseLine(client + ` - - [17/May/2015:10:05:03 +0000] "GET /" 200 1`)
		require.NoError(t, err)
		assert.Equal(t, client, fields[Addr])
	}
}

// A line that is cut anywhere is read with the right client, or refused with an error.
func TestParseLine_EveryCut(t *testing.T) {
	for _, rest := range []string{" 17", ` "203.0.113.9, \"x\""`} {
		line := clf + ` "http://example.net/\"" "Agent/1.0 \\"` + rest
		for end := range len(line) + 1 {
			if fields, r, err := parseLine(line[:end]); err == nil {
				assert.Equal(t, "192.0.2.1", fields[Addr], line[:end])
				assert.Equal(t, at(t, "2015-05-17T10:05:03Z"), r.at, line[:end])
				if list, found := fields[forwarded]; found {
					assert.Equal(t, len(line), end, line[:end])
					assert.Equal(t, `203.0.113.9, \"x\"`, list)
				}
			}
		}
	}
}
