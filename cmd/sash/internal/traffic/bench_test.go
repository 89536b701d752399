package traffic

import (
	"io"
	"strings"
	"testing"
)

// What a line of a log costs to read, in each way of reading it.
func BenchmarkRead(b *testing.B) {
	const lines = 20_000
	for name, line := range map[string]string{
		"combined": clf + ` "http://example.net/" "Mozilla/5.0 (X11; Linux x86_64)"`,
		"elb":      `2015-05-13T23:39:43.945958Z lb 192.0.2.1:2817 10.0.0.1:80 0.000073 0.001048 0.000057 200 200 0 29 "GET http://www.example.com:80/ HTTP/1.1" "curl/7.38.0" - -`,
		"json":     `{"time_iso8601":"2015-05-17T10:05:03Z","remote_addr":"192.0.2.1","request":"GET / HTTP/1.1","status":"200"}`,
	} {
		b.Run(name, func(b *testing.B) {
			log := strings.Repeat(line+"\n", lines)
			b.ReportAllocs()
			for b.Loop() {
				t, err := Read(b.Context(), &Settings{}, []string{StandardInput}, strings.NewReader(log), io.Discard, func(*Traffic, []Event) error { return nil })
				if err != nil || t.Events != lines {
					b.Fatal(err, t)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*lines), "ns/line")
		})
	}
}
