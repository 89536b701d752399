package schematest

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/policyfile"
)

// byAccount is a function that the files of these tests name.
func byAccount(r *http.Request) (string, bool) {
	account := r.Header.Get("X-Account")
	return account, account != ""
}

// checkSchema checks a file against the schema.
func checkSchema(t *testing.T, name string, data []byte) error {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("../../policies.schema.json")
	require.NoError(t, err)
	var file any
	if filepath.Ext(name) == ".json" {
		file, err = jsonschema.UnmarshalJSON(bytes.NewReader(data))
	} else {
		err = yaml.Load(data, &file)
	}
	require.NoError(t, err)
	return schema.Validate(file)
}

func TestSchema_TakesTheFilesThatAreRead(t *testing.T) {
	files, err := filepath.Glob("../../testdata/limits.*")
	require.NoError(t, err)
	require.Len(t, files, 2)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		require.NoError(t, checkSchema(t, file, data), file)
		_, err = policyfile.Load(file, policyfile.WithKey("account", httplimit.By(byAccount)))
		require.NoError(t, err)
	}
}

// A value is taken by the schema if and only if it is read, as far as a schema can tell.
func TestSchema_TakesTheValuesThatAreRead(t *testing.T) {
	const base = `"name": "a", "limits": "1/s", "key": "everyone"`
	without := map[string]string{
		"name":   `"limits": "1/s", "key": "everyone"`,
		"limits": `"name": "a", "key": "everyone"`,
		"key":    `"name": "a", "limits": "1/s"`,
	}
	for _, c := range []struct {
		field    string
		good     []string
		refused  []string
		readOnly []string // taken by the schema, but refused when read
	}{
		{"name", []string{`"a b~"`, `"` + strings.Repeat("a", 128) + `"`}, []string{`"` + strings.Repeat("a", 129) + `"`, `""`, `5`, `null`, `"ä"`, `"a\n"`}, nil},
		{"pattern", []string{`"/"`, `"POST /login"`}, []string{`""`, `7`, `[]`}, []string{`"login"`, `"a.com:80/"`}},
		{"limits", []string{`"1/s"`, `["1/s"]`, `["1/s", "2/m"]`, `"unlimited"`, `["9/s", "5 at once for 1m"]`}, []string{`[]`, `5`, `""`, `["1/s", 5]`, `[["1/s"]]`}, []string{`"1/x"`}},
		{"key", []string{`"route"`, `"address"`, `"named"`, `{"address": {}}`, `{"header": "X-Key"}`, `{"join": ["named"]}`, `{"first-of": [{"join": ["route"]}, "route"]}`,
			`{"address": {"trust-hops": 1, "read-forwarded": true, "ipv4-prefix": 24, "ipv6-prefix": 48}}`,
			`{"address": {"trust-proxies": "10.0.0.1", "trust-unix-socket": true, "read-header": "X-Real-IP"}}`,
			`{"address": {"trust-unix-socket": false, "read-forwarded": false}}`},
			[]string{`{}`, `null`, `7`, `[]`, `{"header": ""}`, `{"header": "X Key"}`, `{"join": []}`, `{"join": "named"}`, `{"join": [7]}`, `{"header": "X", "join": ["named"]}`, `{"adress": {}}`,
				`{"address": true}`, `{"address": {"trust-hops": 0}}`, `{"address": {"trust-hops": "1"}}`, `{"address": {"trust-proxies": []}}`, `{"address": {"trust-proxies": "example.com"}}`,
				`{"address": {"ipv4-prefix": 33}}`, `{"address": {"ipv6-prefix": 0}}`, `{"address": {"read-forwarded": "yes"}}`, `{"address": {"hops": 1}}`},
			[]string{`"unknown"`, `{"header": "Host"}`, `{"address": {"trust-proxies": "0.0.0.0/0"}}`, `{"address": {"trust-proxies": "10.0.0.1/8"}}`,
				`{"address": {"read-forwarded": true}}`, `{"address": {"trust-proxies": "1.2.3"}}`, `{"address": {"trust-hops": 1, "trust-proxies": "10.0.0.0/8"}}`}},
		{"plan", []string{`"named", "plans": {"pro": "1/s"}`, `{"header": "X-Plan"}, "plans": {"pro": ["1/s", "2/m"], "a b": "unlimited"}`},
			[]string{`"named"`, `7, "plans": {"pro": "1/s"}`, `{}, "plans": {"pro": "1/s"}`, `{"header": "X Y"}, "plans": {"pro": "1/s"}`, `"named", "plans": {}`, `"named", "plans": []`, `"named", "plans": {"": "1/s"}`,
				`"named", "plans": {"ä": "1/s"}`, `"named", "plans": {"pro": []}`, `"named", "plans": {"pro": 5}`},
			[]string{`"unknown", "plans": {"pro": "1/s"}`, `{"header": "host"}, "plans": {"pro": "1/s"}`, `"named", "plans": {"pro": "1"}`}},
		{"plans", nil, []string{`{"pro": "1/s"}`}, nil},
		{"cost", []string{`0`, `1`, `9007199254740992`, `"named"`}, []string{`-1`, `1.5`, `9007199254740993`, `true`, `null`, `""`, `{}`}, []string{`"unknown"`, `1e3`, `1.0`}},
		{"near", []string{`"1%"`, `"20%"`, `"100%"`}, []string{`"0%"`, `"101%"`, `"020%"`, `"2.5%"`, `"20"`, `20`, `0`, `true`, `["20%"]`}, nil},
		{"leave", []string{`0`, `20`, `"20%"`, `"1%"`, `"100%"`, `"named"`, `{"header": "X-Class", "classes": {"a b": 5, "c": "99%"}}`},
			[]string{`-1`, `1.5`, `""`, `"0%"`, `"101%"`, `"a%"`, `"05%"`, `null`, `[]`, `{}`, `{"header": "X"}`, `{"classes": {"a": 1}}`, `{"header": "X", "classes": {}}`,
				`{"header": "X", "classes": {"": 1}}`, `{"header": "X", "classes": {"a": "named"}}`, `{"header": "X", "classes": {"a": "0%"}}`, `{"header": "X", "classes": {"a": 1}, "c": 1}`},
			[]string{`"unknown"`, `{"header": "Host", "classes": {"a": 1}}`}},
		{"unit", []string{`"content-bytes"`}, []string{`""`, `7`, `"ü"`}, nil},
		{"skip", []string{`"named"`, `{"methods": "GET"}`, `{"methods": ["GET", "custom"], "function": "named"}`, `{"networks": ["10.0.0.0/8", "::1"]}`, `{"networks": "10.0.0.0/8", "address": {"trust-hops": 1}}`},
			[]string{`{}`, `[]`, `7`, `{"methods": []}`, `{"methods": "a b"}`, `{"address": {}}`, `{"networks": "all"}`, `{"networks": "10.0.0.0/8", "address": {"ipv4-prefix": 8}}`, `{"function": 7}`},
			[]string{`"unknown"`, `{"methods": "get"}`, `{"function": "unknown"}`}},
		{"charge", []string{`401`, `"4xx"`, `["4XX", 999, 100]`,
			`[401, "OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"]`}, []string{`[]`, `16`, `99`, `1000`, `"401"`, `"unauthenticated"`, `"GRPC"`, `"xxx"`, `"0xx"`, `"none"`, `null`, `[[401]]`}, nil},
		{"charge-uncertain", []string{`[]`, `"none"`, `["none", 401, "5xx", "CANCELLED"]`}, []string{`0`, `"some"`, `{}`}, nil},
		{"settle", []string{`"bytes"`, `"estimate"`, `"named"`, `{"header": "X-Cost"}`}, []string{`{}`, `{"header": ""}`, `7`, `{"header": "X", "bytes": true}`}, []string{`"unknown"`}},
		{"queue", []string{`{"wait": "2s", "requests": 1}`, `{"wait": "1m30.5s", "requests": 10, "requests-each": 0, "requests-per-client": 0}`, `{"wait": ".5s", "requests": 1}`, `{"wait": "+1.s", "requests": 1}`},
			[]string{`{}`, `{"wait": "2s"}`, `{"requests": 1}`, `{"wait": 2, "requests": 1}`, `{"wait": "2", "requests": 1}`, `{"wait": ".s", "requests": 1}`, `{"wait": "-2s", "requests": 1}`, `{"wait": "2s", "requests": 0}`, `{"wait": "2s", "requests": 1, "requests-each": -1}`, `{"wait": "2s", "requests": 1, "requests-per-client": -1}`, `{"wait": "2s", "requests": 1, "x": 1}`, `"2s"`, `{"wait": "2s", "requests": 1073741825}`},
			[]string{`{"wait": "0s", "requests": 1}`}},
		{"shadow", []string{`true`, `false`}, []string{`"true"`, `1`, `null`}, nil},
		{"unknown", nil, []string{`1`}, nil},
	} {
		rest, required := without[c.field]
		if !required {
			rest = base
		}
		check := func(value string) (schema, read error) {
			data := []byte(`{"policies": [{` + rest + `, "` + c.field + `": ` + value + `}]}`)
			_, read = policyfile.Parse("a.json", data,
				policyfile.WithKey("named", httplimit.Everyone()),
				policyfile.WithLeave("named", func(*http.Request) int64 { return 1 }),
				policyfile.WithCost("named", func(*http.Request) int64 { return 1 }),
				policyfile.WithSkip("named", func(*http.Request) bool { return true }),
				policyfile.WithPlan("named", func(*http.Request) string { return "pro" }),
				policyfile.WithSettle("named", httplimit.SettleBytes()))
			return checkSchema(t, "a.json", data), read
		}
		for _, value := range slices.Concat(c.good, c.refused, c.readOnly) {
			schema, read := check(value)
			what := c.field + ": " + value
			require.Equal(t, slices.Contains(c.good, value), read == nil, "%s: %v", what, read)
			require.Equal(t, slices.Contains(c.refused, value), schema != nil, "%s: %v", what, schema)
		}
	}
}

// The file in the README is taken by the schema, and read.
func TestReadme_HasAFileThatIsRead(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, rest, begins := strings.Cut(string(readme), "```yaml\n")
	file, _, ends := strings.Cut(rest, "```\n")
	require.True(t, begins && ends)
	require.NoError(t, checkSchema(t, "limits.yaml", []byte(file)))
	policies, err := policyfile.Parse("limits.yaml", []byte(file), policyfile.WithKey("account", httplimit.By(byAccount)))
	require.NoError(t, err)
	require.Len(t, policies, 4)
}
