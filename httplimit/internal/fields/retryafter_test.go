package fields

import (
	"compress/gzip"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A fieldCase is a test case of the HTTP working group for structured fields.
type fieldCase struct {
	Name    string          `json:"name"`
	Raw     []string        `json:"raw"`
	Type    string          `json:"header_type"`
	Members json.RawMessage `json:"expected"`
	Fails   bool            `json:"must_fail"`
	MayFail bool            `json:"can_fail"`
}

func fieldCases(t *testing.T) (all []fieldCase) {
	file, err := os.Open("testdata/cases.json.gz")
	require.NoError(t, err)
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	require.NoError(t, err)
	require.NoError(t, json.NewDecoder(unzipped).Decode(&all))
	return all
}

// obeyed reports whether RateLimit with these lines is a list of items: whether the client waits
// for a quota in it that is used up.
func obeyed(t *testing.T, lines ...string) bool {
	t.Helper()
	wait := rateLimitWait(http.Header{"Ratelimit": lines})
	require.Contains(t, []time.Duration{0, 9 * time.Second}, wait)
	return wait > 0
}

// items returns the items of a case that is valid, each a bare item with its parameters.
// They are nil if a member is an inner list.
func (c *fieldCase) items(t *testing.T) (items [][2]json.RawMessage) {
	if c.Type == "item" {
		items = make([][2]json.RawMessage, 1)
		require.NoError(t, json.Unmarshal(c.Members, &items[0]))
		return items
	}
	require.NoError(t, json.Unmarshal(c.Members, &items))
	if slices.ContainsFunc(items, func(i [2]json.RawMessage) bool { return strings.HasPrefix(string(i[0]), "[") }) {
		return nil
	}
	return items
}

// RateLimit is obeyed if it is a list of items, and not at all otherwise: in the cases of the HTTP
// working group for items and lists, before a quota that is used up and among its parameters.
func TestRateLimit_IsReadAsAStructuredField(t *testing.T) {
	const quota = `"q";r=0;t=9`
	members, parameters := 0, 0
	for _, c := range fieldCases(t) {
		raw := strings.Trim(strings.Join(c.Raw, ","), " ")
		switch {
		case c.Type == "dictionary" || c.MayFail || raw == "":
			continue
		case c.Type == "item" && c.Fails && (strings.Contains(raw, ",") || strings.HasSuffix(raw, "\t")):
			continue // it may be several items, or white space before a comma
		}
		valid := !c.Fails && c.items(t) != nil
		members++
		require.Equal(t, valid, obeyed(t, append(slices.Clone(c.Raw), quota)...), "%s: %q", c.Name, c.Raw)
		if c.Type != "item" || valid && string(c.items(t)[0][1]) != "[]" || !valid && strings.Contains(raw, ";") {
			continue // it has parameters of its own
		}
		parameters++
		require.Equal(t, valid, obeyed(t, `"q";p=`+raw+`;r=0;t=9`), "%s, in a parameter: %q", c.Name, raw)
	}
	require.False(t, obeyed(t, ":YQ\n==:", quota), "a line break")
	require.Greater(t, members, 1000)
	require.Greater(t, parameters, 700)
}

// A RateLimit of 1024 members is obeyed. A longer one is not, which would take long to read.
func TestRateLimit_IsReadUpToALength(t *testing.T) {
	const quota = `"q";r=0;t=9`
	require.True(t, obeyed(t, append(slices.Repeat([]string{`"a name of 20 letters";r=1000;t=3600`}, 1023), quota)...))
	fill := func(length int) string { return strings.Repeat("a", length-len(quota)-1) }
	require.True(t, obeyed(t, fill(maxRateLimit), quota))
	require.False(t, obeyed(t, fill(maxRateLimit+1), quota))
}

// A server that says that now is soon enough is believed, whatever quota of it is used up.
func TestRequestedWait_OfNoWaitAtAll(t *testing.T) {
	for _, now := range []string{"0", "0.0", "Thu, 01 Jan 1970 00:00:00 GMT"} {
		header := http.Header{"Retry-After": {now}, "Ratelimit": {`"q";r=0;t=9`}}
		require.Zero(t, RequestedWait(&http.Response{StatusCode: http.StatusTooManyRequests, Header: header}), now)
		header.Del("Retry-After")
		require.Equal(t, 9*time.Second, RequestedWait(&http.Response{StatusCode: http.StatusTooManyRequests, Header: header}))
	}
}
