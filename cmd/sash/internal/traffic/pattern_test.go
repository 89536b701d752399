package traffic

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A variable may be empty, or "-", with quotes or without. An address, a time or a status may not.
func TestPattern_EmptyFields(t *testing.T) {
	const pattern = `$remote_addr $upstream_addr $msec "$request" $status $host|$http_referer|`
	for line, want := range map[string]string{
		`203.0.113.9 10.0.0.1:80 1773144000.5 "GET / HTTP/1.1" 200 a|b|`: "",
		`203.0.113.9  1773144000.5 "GET / HTTP/1.1" 200 ||`:              "",
		`203.0.113.9 - 1773144000.5 "" 200 -|-|`:                         "",
		` 10.0.0.1:80 1773144000.5 "GET / HTTP/1.1" 200 a|b|`:            `$remote_addr "" is neither an address nor a host name`,
		`203.0.113.9 10.0.0.1:80  "GET / HTTP/1.1" 200 a|b|`:             `time "" is not like`,
		`203.0.113.9 10.0.0.1:80 1773144000.5 "GET / HTTP/1.1"  a|b|`:    `$status "" is no number`,
		`203.0.113.9 10.0.0.1:80 1773144000.5 "GET / HTTP/1.1" 200 a|b`:  `no "|" after $http_referer`,
	} {
		tr := readLog(t, line+"\n", "-format", pattern, "-key", "addr")
		if want == "" {
			assert.Equal(t, []string{"203.0.113.9"}, tr.Clients, line)
			continue
		}
		require.Len(t, tr.Faults, 1, line)
		assert.Contains(t, tr.Faults[0].Why, want, line)
	}
}

// A configuration is read as the server reads it.
func TestConfig(t *testing.T) {
	for _, tt := range []struct{ name, text, format, fault string }{
		{"double quotes", `log_format a "$msec \"$request\" 'x'";`, `$msec "$request" 'x'`, ""},
		{"words without quotes", "log_format a $msec|${remote_addr}|;", "$msec|${remote_addr}|", ""},
		{"single quotes with escapes", `log_format a '$msec \'$request\' \\';`, `$msec '$request' \`, ""},
		{"comments between", "log_format a '$msec ' # the time\n '$remote_addr';", "$msec $remote_addr", ""},
		{"a comment with another", "# log_format b '$remote_addr';\nlog_format a '$msec';", "$msec", ""},
		{"blocks around", "http {\n log_format a '$msec';\n server { listen 80; }\n", "$msec", ""},
		{"what grep prints of several places", "12:log_format a '$msec ';\n--\n17-access_log /a a;", "$msec ", ""},
		{"windows", "log_format a '$msec '\r\n '$status';\r\n", "$msec $status", ""},
		{"escape", "log_format a escape=json '{\"t\":$msec}';", `{"t":$msec}`, ""},
		{"escape=none in order", "log_format a escape=none '$remote_addr $msec $http_user_agent';", "$remote_addr $msec $http_user_agent", ""},
		{"escape=none with a time at the end", "log_format a escape=none '$remote_addr $request $msec';", "", "has $msec after $request"},
		{"no time", "log_format a '$remote_addr';", "", "it has no time"},
		{"two used", "log_format a '$msec';log_format b '$msec $status';access_log x a;access_log y b;", "", "has the formats a b"},
		{"of two with one name, the last", "log_format a '$msec';log_format a '$msec $status';", "$msec $status", ""},
		{"Apache", `LogFormat "%h %t \"%r\"" x`, `%h %t "%r"`, ""},
		{"Apache in single quotes", `LogFormat '%h %t "%r"' x`, `%h %t "%r"`, ""},
		{"Apache, indented, in a host", "<VirtualHost *:80>\n\tlogformat \"%h %t\" x\n\tCustomLog /a x env=!quiet\n</VirtualHost>", "%h %t", ""},
		{"Apache, several lines", "LogFormat \"%h \\\n%t\" x", "%h %t", ""},
		{"Apache, the format of a log itself", `CustomLog /a "%h %t %>s"`, "%h %t %>s", ""},
		{"Apache, a nickname", "CustomLog /a combined", "combined", ""},
		{"Apache, a nickname without a definition", "CustomLog /a mine", "", `no format "mine"`},
		{"Apache, two and one used", "LogFormat \"%h %t\" x\nLogFormat \"%a %t\" y\nCustomLog /a y", "%a %t", ""},
		{"Apache, a backslash before another byte", `LogFormat "%h\t%t" x`, `%h\t%t`, ""},
		{"Apache, only a comment", `#LogFormat "%h %t" x`, "", "defines no format"},
		{"no configuration", "appache", "", `no format "appache"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := settingsOf([]string{"-format", tt.text})
			if tt.fault != "" {
				assert.ErrorContains(t, err, tt.fault)
				assert.ErrorContains(t, err, "-format: ")
				return
			}
			require.NoError(t, err)
			assert.Equal(t, tt.format, s.Format)
		})
	}
}

// A size that a server writes as "-" costs nothing, as in logs that need no pattern.
func TestSize_OfNoBytes(t *testing.T) {
	for name, tt := range map[string]struct {
		line string
		args []string
	}{
		"combined":   {`192.0.2.1 - - [10/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 304 -`, nil},
		"Apache":     {`192.0.2.1 - - [10/Mar/2026:12:00:00 +0000] "GET / HTTP/1.1" 304 -`, []string{"-format", `%h %l %u %t "%r" %>s %b`}},
		"own name":   {`192.0.2.1 1773144000 -`, []string{"-format", "$remote_addr $msec $body_bytes_sent"}},
		"bytes sent": {`192.0.2.1 1773144000 -`, []string{"-format", "$remote_addr $msec $bytes_sent"}},
		"S3":         {strings.Replace(requestOf("x", 3), " 200 - 113 ", " 304 - - ", 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := settingsOf(append(tt.args, "-cost", "size+1"))
			require.NoError(t, err)
			tr, err := Read(t.Context(), s, []string{StandardInput}, strings.NewReader(tt.line+"\n"), io.Discard, func(_ *Traffic, events []Event) error {
				assert.Equal(t, Charge{1, 1}, events[0].Charge)
				return nil
			})
			require.NoError(t, err)
			assert.EqualValues(t, 1, tr.Events, tr.Faults)
		})
	}
}

// Apache's times may be written in many ways, and those that are not whole are refused.
func TestApacheTime(t *testing.T) {
	for _, tt := range []struct{ pattern, line, at string }{
		{"%a %t", "203.0.113.9 [10/Mar/2026:12:00:00 +0100]", "2026-03-10T11:00:00Z"},
		{"%a %t.%{msec_frac}t", "203.0.113.9 [10/Mar/2026:12:00:00 +0100].250", "2026-03-10T11:00:00.25Z"},
		{"%a %{sec}t%{usec_frac}t", "", "nothing stands between"},
		{"%a %{sec}t.%{usec_frac}t", "203.0.113.9 1773144000.000250", "2026-03-10T12:00:00.00025Z"},
		{"%a %{sec}t %{msec_frac}t %{usec_frac}t", "203.0.113.9 1773144000 000 000250", "2026-03-10T12:00:00.00025Z"},
		{"%a %{%s}t", "203.0.113.9 1773144000", "2026-03-10T12:00:00Z"},
		{"%a %{end:sec}t.%{end:usec_frac}t", "203.0.113.9 1773144000.000250", "2026-03-10T12:00:00.00025Z"},
		{"%a %{begin:%F}t %{begin:%T}t %{end:%F %T}t", "203.0.113.9 2026-03-10 12:00:00 2026-03-10 12:00:07", "2026-03-10T12:00:00Z"},
		{"%a %{end:%F %T}t", "203.0.113.9 2026-03-10 12:00:07", "2026-03-10T12:00:07Z"},
		{"%a %{%Y%m%d%H%M%S}t%{msec_frac}t", "203.0.113.9 20260310120000250", "2026-03-10T12:00:00.25Z"},
		{"%a %{%d.%m.%y %H:%M:%S %z}t", "203.0.113.9 10.03.26 12:00:00 -0230", "2026-03-10T14:30:00Z"},
		{"%a %{%c}t", "203.0.113.9 Tue Mar 10 12:00:00 2026", "2026-03-10T12:00:00Z"},
		{"%a %{%e %B %Y}t, %{%r}t.", "203.0.113.9 10 March 2026, 01:00:00 PM.", "2026-03-10T13:00:00Z"},
		{"%a %{%Y-%j %X}t", "203.0.113.9 2026-069 12:00:00", "2026-03-10T12:00:00Z"},
		{"%a %{%F %H:%M}t", "", "have no second"},
		{"%a %{%T}t", "", "have no year"},
		{"%a %{%F %I:%M:%S}t", "", "have no hour"},
		{"%a %{%Y-%m %T}t", "", "have no day"},
		{"%a %{msec_frac}t", "", "it has no time"},
		{"%a %{%F %T %Z}t", "", "%Z cannot be read"},
		{"%a %{%F at 7 %T}t", "", `the text " at 7 " in it would be read as a part of the time`},
		{"%a %{%F %T%}t", "", "it ends with %"},
	} {
		s, err := settingsOf([]string{"-format", tt.pattern})
		if tt.line == "" {
			assert.ErrorContains(t, err, tt.at, tt.pattern)
			continue
		}
		require.NoError(t, err, tt.pattern)
		make, err := decoderFor(s.Format)
		require.NoError(t, err)
		r := record{}
		require.NoError(t, make(&wanted{}).decode(tt.line, &r), tt.pattern)
		assert.Equal(t, at(t, tt.at), r.at, tt.pattern)
		for end := range tt.line { // a time that is cut is no time
			if err := make(&wanted{}).decode(tt.line[:end], &record{}); err == nil {
				assert.Less(t, len(tt.line)-end, 14, "%s: %s", tt.pattern, tt.line[:end])
			}
		}
	}
	for _, digits := range []string{"25x", "-12", "   "} {
		make, err := decoderFor("%a %{sec}t.%{msec_frac}t")
		require.NoError(t, err)
		assert.ErrorContains(t, make(&wanted{}).decode("203.0.113.9 1773144000."+digits, &record{}), "is not a number")
	}
}

// The colon before a port is not one within an IPv6 address, around which servers write no brackets there.
func TestPattern_AddressesBeforeColons(t *testing.T) {
	const nginx, apache = `$remote_addr:$remote_port [$time_local] $status`, `%a:%{remote}p %t %>s`
	const v6, at = "2a00:1450:4001::1", " [10/Mar/2026:12:00:00 +0000] 200"
	for _, tt := range []struct{ pattern, line, want string }{
		{nginx, v6 + ":443" + at, v6},
		{nginx, "2001:db8:1:2:3:4:5:6:443" + at, "2001:db8:1:2:3:4:5:6"},
		{nginx, "2001:db8:::443" + at, "2001:db8::"},
		{nginx, "::1:443" + at, "::1"},
		{nginx, "[" + v6 + "]:443" + at, ""}, // which nginx does not write
		{nginx, "192.0.2.1:443" + at, "192.0.2.1"},
		{nginx, "unix::" + at, "unix:"},
		{nginx, "192.0.2.1:" + at, "192.0.2.1"},
		{nginx, "192.0.2.1:http" + at, ""},
		{nginx, v6 + at + ":443", ""},
		{apache, v6 + ":443" + at, v6},
		{apache, "host.example:443" + at, "host.example"},
		{apache, "cafe:443" + at, "cafe"},
		{`$msec $remote_addr:$remote_port`, "1773144000 " + v6 + ":443", v6},
		{`$remote_addr:$remote_port:$status [$time_local]`, "192.0.2.1:443:200 [10/Mar/2026:12:00:00 +0000]", "192.0.2.1"},
		{`$remote_addr:$remote_port-$connection [$time_local] $status`, v6 + ":443-17" + at, v6},
		{`$remote_addr:$status $time_local`, "cafe:200 10/Mar/2026:12:00:00 +0000", "cafe"},
	} {
		tr := readLog(t, tt.line+"\n", "-format", tt.pattern, "-key", "addr")
		if tt.want == "" {
			assert.Empty(t, tr.Clients, "%s by %s", tt.line, tt.pattern)
			continue
		}
		assert.Equal(t, []string{tt.want}, tr.Clients, "%s by %s", tt.line, tt.pattern)
	}
}
