package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRun_ExplainsItself(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(t.Context(), []string{"-h"}, &out))
	require.Equal(t, usage, out.String())
}

func TestReport_ShowsWhatFailsAndWhatIsSkipped(t *testing.T) {
	var out strings.Builder
	r := report{stdout: &out, modules: map[string]string{"a": "m", "b": "m", "c": "n"}, output: make(map[string][]string), skipped: make(map[string][]string)}
	require.NoError(t, r.read(strings.NewReader(strings.Join([]string{
		`{"Action":"output","Package":"a","Test":"TestGood","Output":"noise\n"}`,
		`{"Action":"pass","Package":"a","Test":"TestGood"}`,
		`{"Action":"output","Package":"a","Output":"ok a 1s\n"}`,
		`{"Action":"pass","Package":"a"}`,
		`{"Action":"output","Package":"c","Test":"TestBad","Output":"    bad_test.go:3: wrong\n"}`,
		`{"Action":"fail","Package":"c","Test":"TestBad"}`,
		`{"Action":"output","Package":"c","Test":"TestStore","Output":"    server.go:9: there is no redis-server\n"}`,
		`{"Action":"skip","Package":"c","Test":"TestStore"}`,
		`{"Action":"build-output","Output":"x.go:1: does not compile\n"}`,
		`{"Action":"output","Package":"c","Output":"FAIL c 1s\n"}`,
		`{"Action":"fail","Package":"c"}`,
		`{"Action":"skip","Package":"b"}`, // it has no tests
		"not JSON",
	}, "\n"))))
	r.summarize()
	require.Equal(t, `ok a 1s
    bad_test.go:3: wrong
x.go:1: does not compile
FAIL c 1s
not JSON

2 packages of 2 modules
skipped 1 tests: there is no redis-server
	c TestStore
`, out.String())
}
