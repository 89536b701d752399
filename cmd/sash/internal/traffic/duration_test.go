package traffic

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// lastsIn reads the first event of a log with its duration.
func lastsIn(t *testing.T, s Settings, log string) (at time.Time, lasts time.Duration, err error) {
	t.Helper()
	s.Lasting = "test"
	on, err := Read(context.Background(), &s, []string{StandardInput}, strings.NewReader(log), io.Discard, func(_ *Traffic, events []Event) error {
		at, lasts = Instant(events[0].At), time.Duration(events[0].Lasts())
		return nil
	})
	if err == nil && on.Unreadable > 0 {
		err = errors.New(on.Faults[0].Why)
	}
	return at, lasts, err
}

// Each server logs how long a request has lasted in a unit of its own, and dates the end or the beginning.
func TestLasting_OfEachServer(t *testing.T) {
	const nginx = `$remote_addr [$time_local] "$request" $status $request_time`
	tests := []struct {
		name, format, log string
		at                string // of the beginning
		lasts             time.Duration
	}{
		{"nginx", nginx, `192.0.2.1 [10/Mar/2026:00:00:10 +0000] "GET / HTTP/1.1" 200 1.250`, "00:00:08.75", 1250 * time.Millisecond},
		{"nginx that has not measured", nginx, `192.0.2.1 [10/Mar/2026:00:00:10 +0000] "GET / HTTP/1.1" 200 -`, "00:00:10", 0},
		{"nginx in JSON", "", `{"msec":1773100810.5,"remote_addr":"192.0.2.1","request":"GET / HTTP/1.1","request_time":"0.500"}`, "00:00:10", 500 * time.Millisecond},
		{"Caddy", "", `{"ts":1773100810.5,"duration":0.000123456,"request":{"remote_ip":"192.0.2.1"}}`, "00:00:10.499876544", 123456},
		{"Traefik", "", `{"StartUTC":"2026-03-10T00:00:10Z","Duration":1500,"ClientHost":"192.0.2.1"}`, "00:00:10", 1500},
		{"Envoy", "", `{"start_time":"2026-03-10T00:00:10.479Z","duration":11,"response_code":200,"downstream_remote_address":"192.0.2.1:99"}`, "00:00:10.479", 11 * time.Millisecond},
		{"Envoy without the address of the peer", "", `{"start_time":"2026-03-10T00:00:10.479Z","duration":"11","response_flags":"-","remote_addr":"192.0.2.1"}`, "00:00:10.479", 11 * time.Millisecond},
		{"Envoy with another name for its start", "", `{"@timestamp":"2026-03-10T00:00:10.479Z","duration":11,"response_code":200,"downstream_remote_address":"192.0.2.1:99"}`, "00:00:10.479", 11 * time.Millisecond},
		{"Envoy behind a collector, which dates the end", "", `{"@timestamp":"2026-03-10T00:00:10.500Z","start_time":"2026-03-10T00:00:10.479Z","duration":11,"downstream_remote_address":"192.0.2.1:99"}`, "00:00:10.489", 11 * time.Millisecond},
		{"another server with a start_time", "", `{"start_time":"2026-03-10T00:00:10.479Z","duration":1.5,"status":200,"remote_addr":"192.0.2.1"}`, "00:00:10.479", 1500 * time.Millisecond},
		{"another server with a start_time and a response_code", "", `{"start_time":"2026-03-10T00:00:10.479Z","duration":2,"response_code":200,"remote_addr":"192.0.2.1"}`, "00:00:10.479", 2 * time.Second},
		{"another server with the address of the peer", "", `{"start_time":"2026-03-10T00:00:10.479Z","duration":1.5,"downstream_remote_address":"192.0.2.1:99"}`, "00:00:10.479", 1500 * time.Millisecond},
		{"another server with another time", "", `{"@timestamp":"2026-03-10T00:00:10.500Z","duration":0.5,"downstream_remote_address":"192.0.2.1:99"}`, "00:00:10", 500 * time.Millisecond},
		{"another server with Envoy's name of a cluster", "", `{"time_iso8601":"2026-03-10T00:00:10Z","remote_addr":"192.0.2.1","request_time":9.000,"upstream_cluster":"api"}`, "00:00:01", 9 * time.Second},
		{"Envoy by the reason of its response", "", `{"@timestamp":"2026-03-10T00:00:10Z","duration":11,"response_code_details":"via_upstream","client_ip":"192.0.2.1"}`, "00:00:10", 11 * time.Millisecond},
		{"Envoy by the reason of a failure", "", `{"@timestamp":"2026-03-10T00:00:10Z","duration":11,"upstream_transport_failure_reason":null,"client_ip":"192.0.2.1"}`, "00:00:10", 11 * time.Millisecond},
		{"Envoy by its header of the path", "", `{"@timestamp":"2026-03-10T00:00:10Z","duration":11,"x-envoy-origin-path":"/","client_ip":"192.0.2.1"}`, "00:00:10", 11 * time.Millisecond},
		{"Apache in microseconds", `%h %t "%r" %D`, `192.0.2.1 [10/Mar/2026:00:00:10 +0000] "GET / HTTP/1.1" 1500`, "00:00:10", 1500 * time.Microsecond},
		{"Apache in milliseconds", `%h %t "%r" %{ms}T`, `192.0.2.1 [10/Mar/2026:00:00:10 +0000] "GET / HTTP/1.1" 1500`, "00:00:10", 1500 * time.Millisecond},
		{"Apache in seconds", `%h %t "%r" %T`, `192.0.2.1 [10/Mar/2026:00:00:10 +0000] "GET / HTTP/1.1" 2`, "00:00:10", 2 * time.Second},
		{"Apache with the end in a number", `%h %{end:usec}t "%r" %D`, `192.0.2.1 1773100810500000 "GET / HTTP/1.1" 1500`, "00:00:10.4985", 1500 * time.Microsecond},
		{"Apache with the end in seconds and a fraction", `%h %{end:sec}t.%{end:msec_frac}t "%r" %D`, `192.0.2.1 1773100810.500 "GET / HTTP/1.1" 1500`, "00:00:10.4985", 1500 * time.Microsecond},
		{"Apache with the end as text", `%h [%{end:%d/%b/%Y:%T %z}t] "%r" %T`, `192.0.2.1 [10/Mar/2026:00:00:10 +0000] "GET / HTTP/1.1" 2`, "00:00:08", 2 * time.Second},
		{"Apache with the beginning and the end", `%h %{end:usec}t %{usec}t "%r" %D`, `192.0.2.1 1773100810501500 1773100810500000 "GET / HTTP/1.1" 1500`, "00:00:10.5", 1500 * time.Microsecond},
		{"Apache with both as text", `%h %{end:%d/%b/%Y:%T}t %{%d/%b/%Y:%T}t.%{usec_frac}t "%r" %T`, `192.0.2.1 10/Mar/2026:00:00:12 10/Mar/2026:00:00:10.250000 "GET / HTTP/1.1" 2`, "00:00:10.25", 2 * time.Second},
		{"Apache with a variable as nginx names it", `%h %{%d/%b/%Y:%T}t "$request" %T`, `192.0.2.1 10/Mar/2026:00:00:10 "GET / HTTP/1.1" 2`, "00:00:10", 2 * time.Second},
		{"HAProxy", "", `192.0.2.1:99 [10/Mar/2026:00:00:10.000] in out/one 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`, "00:00:10", 109 * time.Millisecond},
		{"HAProxy before the end", "", `192.0.2.1:99 [10/Mar/2026:00:00:10.000] in out/one 10/0/-1/-1/+109 -1 0 - - ---- 1/1/1/1/0 0/0 "GET / HTTP/1.1"`, "00:00:10", 109 * time.Millisecond},
		{"a Classic Load Balancer", "", `2026-03-10T00:00:10.000000Z lb 192.0.2.1:99 10.0.0.1:80 0.001 0.020 0.300 200 200 0 29 "GET http://a.example:80/ HTTP/1.1" "curl" - -`, "00:00:10", 321 * time.Millisecond},
		{"a Classic Load Balancer without a server", "", `2026-03-10T00:00:10.000000Z lb 192.0.2.1:99 - -1 -1 -1 503 0 0 0 "GET http://a.example:80/ HTTP/1.1" "curl" - -`, "00:00:10", 0},
		{"Squid", "", `1773100810.500    250 192.0.2.1 TCP_MISS/200 1234 GET http://a.example/ - HIER_DIRECT/10.0.0.1 text/html`, "00:00:10.25", 250 * time.Millisecond},
		{"Amazon S3", "", `owner bucket [10/Mar/2026:00:00:10 +0000] 192.0.2.1 - 3E57 REST.GET.OBJECT key "GET /key HTTP/1.1" 200 - 100 100 70 10 "-" "curl" -`, "00:00:10", 70 * time.Millisecond},
		{"IIS", "", "#Fields: date time c-ip time-taken\n2026-03-10 00:00:10 192.0.2.1 1500", "00:00:08.5", 1500 * time.Millisecond},
		{"CloudFront", "", "#Fields: date time c-ip time-taken\n2026-03-10 00:00:10 192.0.2.1 1.500", "00:00:08.5", 1500 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			at, lasts, err := lastsIn(t, Settings{Format: tt.format}, tt.log+"\n")
			require.NoError(t, err)
			assert.Equal(t, tt.lasts, lasts)
			assert.Equal(t, "2026-03-10 "+tt.at, at.Format("2006-01-02 15:04:05.999999999"))
		})
	}
	at, lasts, err := lastsIn(t, Settings{Time: "when", Key: Key{}}, "when,duration\n10,0.25\n")
	require.NoError(t, err)
	assert.Equal(t, "10 250ms", at.Format("5")+" "+lasts.String())
}

// The report says in which unit duration is read.
func TestLasting_TheReportSaysTheUnit(t *testing.T) {
	for log, want := range map[string]string{
		`{"ts":10,"remote_addr":"192.0.2.1","duration":7}`:                                  "from duration in seconds",
		`{"start_time":10,"downstream_remote_address":"192.0.2.1:99","duration":7}`:         "from duration in milliseconds, as Envoy's",
		`{"start_time":10,"downstream_remote_address":"192.0.2.1:99","request_time":"0.5"}`: "from request_time",
	} {
		tr, err := Read(t.Context(), &Settings{Lasting: "test"}, []string{StandardInput}, strings.NewReader(log+"\n"), io.Discard, func(*Traffic, []Event) error { return nil })
		require.NoError(t, err)
		require.Len(t, tr.Formats, 1)
		assert.True(t, strings.HasSuffix(tr.Formats[0].Why, "duration of the request "+want), tr.Formats[0].Why)
	}
}

// A field named duration is the field of the file, in the unit that the log has.
func TestDuration_NamedByAFlagIsAsTheLogHasIt(t *testing.T) {
	for name, tt := range map[string]struct {
		args []string
		log  string // of two lines that last 7 and 8 of some unit
	}{
		"a column": {[]string{"-time", "when"}, "when,duration\n10,7\n11,8\n"},
		"JSON":     {nil, `{"ts":10,"remote_addr":"192.0.2.1","duration":7}` + "\n" + `{"ts":11,"remote_addr":"192.0.2.1","duration":"8"}` + "\n"},
		"Envoy's JSON": {nil, `{"start_time":10,"downstream_remote_address":"192.0.2.1:99","duration":7}` + "\n" +
			`{"start_time":11,"downstream_remote_address":"192.0.2.1:99","duration":8}` + "\n"},
		"a pattern": {[]string{"-format", "$remote_addr $msec $duration"}, "192.0.2.1 10 7\n192.0.2.1 11 8\n"},
	} {
		t.Run(name, func(t *testing.T) {
			read := func(args ...string) (all []Event, clients []string) {
				s, err := settingsOf(append(args, tt.args...))
				require.NoError(t, err)
				s.Fields = []Field{{"duration", "by"}}
				tr, err := Read(t.Context(), s, []string{StandardInput}, strings.NewReader(tt.log), io.Discard, func(_ *Traffic, events []Event) error {
					all = append(all, events...)
					return nil
				})
				require.NoError(t, err)
				require.Zero(t, tr.Unreadable, tr.Faults)
				return all, tr.Clients
			}
			events, _ := read("-cost", "duration")
			require.Len(t, events, 2)
			for i, e := range events {
				assert.Equal(t, []string{strconv.Itoa(7 + i)}, e.Values(nil), "-by")
				assert.Equal(t, Charge{int64(7 + i), int64(7 + i)}, e.Charge, "-cost")
			}
			events, _ = read("-where", "duration=8")
			require.Len(t, events, 1)
			assert.Equal(t, []string{"8"}, events[0].Values(nil))
			_, clients := read("-key", "duration")
			assert.Equal(t, []string{"7", "8"}, clients)
		})
	}
	// Other fields that tell how long a request has lasted are named as the log names them.
	_, err := tryLog(t, "192.0.2.1 10 0.5\n", "-format", "$remote_addr $msec $request_time", "-cost", "duration")
	assert.ErrorContains(t, err, "-cost duration: - has no duration, line 1 is the pattern of -format")
}

// No flag names the field that policies need, whatever a column is called.
func TestDuration_OfAColumnWithTheNameInMessages(t *testing.T) {
	tr := readLog(t, "when,duration of the request\n10,7\n11,8\n", "-time", "when", "-key", "duration of the request")
	assert.Equal(t, []string{"7", "8"}, tr.Clients)
}

func TestLasting_OfNoNumber(t *testing.T) {
	for _, text := range []string{"soon", "-5", "1e3", "1.5s", "99999999999999999999"} {
		_, _, err := lastsIn(t, Settings{}, `{"msec":1773100810.5,"remote_addr":"192.0.2.1","request_time":"`+text+`"}`+"\n")
		assert.ErrorContains(t, err, "duration \""+text+"\" is none: want a number, and of Envoy whole milliseconds")
	}
	// Where the first line is Envoy's, decimals are no milliseconds.
	const envoy = `{"start_time":"2026-03-10T00:00:10Z","duration":%s,"downstream_remote_address":"192.0.2.1:99"}` + "\n"
	_, _, err := lastsIn(t, Settings{}, fmt.Sprintf(envoy+envoy, "11", "1.5"))
	assert.ErrorContains(t, err, "duration \"1.5\" is none: want a number, and of Envoy whole milliseconds")
	_, _, err = lastsIn(t, Settings{}, "1773100800000000\t192.0.2.1\n")
	assert.ErrorContains(t, err, "-test: - has no duration of the request, line 1 is a .tsv of time and client")
}
