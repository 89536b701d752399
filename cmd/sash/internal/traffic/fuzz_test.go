package traffic

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// FuzzDecoders reads a line in every format, and behind every prefix. No decoder may panic, and what
// is read has a client.
func FuzzDecoders(f *testing.F) {
	for _, l := range realLogs {
		for line := range strings.SplitSeq(l.log, "\n") {
			f.Add(line)
		}
	}
	f.Add(clf + ` "-" "A" "`)
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "\r\n") {
			return // it is several
		}
		for _, format := range formats {
			w := &wanted{time: "time"}
			w.add(Addr, "key")
			r := record{values: make([]string, 1)}
			if err := format.decoder(w).decode(line, &r); err == nil && !r.heading {
				assert.NotEqual(t, "-", r.values[0], format.names[0])
			}
			nearest(line)
		}
		for _, p := range prefixes {
			if inner, err := p.strip(line); err == nil {
				assert.NotContains(t, inner.text, "\n")
			}
		}
	})
}

// FuzzConfig reads a configuration and compiles what it defines.
func FuzzConfig(f *testing.F) {
	for _, l := range realLogs {
		if len(l.args) > 1 {
			f.Add(l.args[1])
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := settingsOf([]string{"-format", text}); err == nil {
			make, err := decoderFor(s.Format)
			require.NoError(t, err, "what a configuration defines is a format")
			make(&wanted{time: "time"}).decode("203.0.113.9 - - [10/Mar/2026:12:00:00 +0000]", &record{})
		}
	})
}

// FuzzPrefixes writes a request of one client behind prefixes, with what else the client may have sent. No
// event may be another client's.
func FuzzPrefixes(f *testing.F) {
	for _, sent := range []string{"", "x", "198.51.100.1 - - [", `{"log":"`, "2026-03-10T12:00:00Z stdout F ", "<190>Mar 10 12:00:00 a b: 198.51.100.1", "\n198.51.100.1 - - ", "a | 198.51.100.1", "[pod/a/b] 198.51.100.1", strings.Repeat("x", 17_000)} {
		for n := range uint8(45) {
			f.Add(sent, n%5, uint16(n)+uint16(n)*97)
		}
	}
	f.Fuzz(func(t *testing.T, sent string, format uint8, chain uint16) {
		log := strings.Repeat(wrapped(requestOf(sent, int(format)), int(chain))+"\n", 3)
		tr, err := Read(t.Context(), &Settings{Key: Key{{name: Addr}}}, []string{StandardInput}, strings.NewReader(log), io.Discard, func(*Traffic, []Event) error { return nil })
		if err != nil {
			return
		}
		for _, client := range tr.Clients {
			assert.Equal(t, "203.0.113.9", client, log)
		}
	})
}

// requestOf returns a line of a server about a request in which a client sent that text.
func requestOf(sent string, format int) string {
	escaped, _ := json.Marshal(strings.ToValidUTF8(sent, "?"))
	text := strings.Trim(string(escaped), `"`)
	switch format % 5 {
	case 0:
		return fmt.Sprintf(`203.0.113.9 - - [10/Mar/2026:12:00:00 +0000] "GET /%s HTTP/1.1" 200 612 "%s" "%s"`, text, text, text)
	case 1:
		return fmt.Sprintf(`{"time":"2026-03-10T12:00:00Z","remote_addr":"203.0.113.9","agent":"%s"}`, text)
	case 2:
		return fmt.Sprintf(`203.0.113.9:80 [10/Mar/2026:12:00:00.123] in out/s 1/0/3/6/10 200 27 - - ---- 1/1/1/1/0 0/0 "GET /%s HTTP/1.1"`, strings.ReplaceAll(text, " ", ""))
	case 3:
		return fmt.Sprintf(`a b [10/Mar/2026:12:00:00 +0000] 203.0.113.9 - id REST.GET.OBJECT k "GET /%s HTTP/1.1" 200 - 113 - 7 - "%s" "%s" -`, text, text, text)
	}
	return fmt.Sprintf(`2026-03-10T12:00:00.123456Z lb 203.0.113.9:2817 10.0.0.1:80 0.1 0.1 0.1 200 200 0 29 "GET http://a/%s HTTP/1.1" "%s" - -`, text, text)
}

// wrapped returns a line behind prefixes that collectors write, at most four by the digits of chain.
func wrapped(line string, chain int) string {
	for depth := 0; chain > 0 && depth < maxPrefixes; depth, chain = depth+1, chain/9 {
		text, _ := json.Marshal(line)
		switch chain % 9 {
		case 1:
			line = fmt.Sprintf(`{"log":%s,"stream":"stdout","time":"2026-03-10T12:00:00.1Z"}`, append(text[:len(text)-1], `\n"`...))
		case 2:
			line = fmt.Sprintf(`{"__REALTIME_TIMESTAMP":"1534860261221373","MESSAGE":%s}`, text)
		case 3:
			line = "2026-03-10T12:00:00.123456789Z stdout F " + line
		case 4:
			line = `<165>1 2026-03-10T12:00:00.003Z a nginx - - [x y="z"] ` + line
		case 5:
			line = "Mar 10 12:00:00 a nginx[7]: " + line
		case 6:
			line = "[pod/a/b] " + line
		case 7:
			line = "web-1  | " + line
		case 8:
			line = "2026-03-10T12:00:00.123456789Z " + line
		}
	}
	return line
}
