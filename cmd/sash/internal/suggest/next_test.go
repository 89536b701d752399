package suggest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// The policy that is printed tells clients apart, and counts, as the recording was measured.
func TestPolicyCode_IsWhatWasMeasured(t *testing.T) {
	for name, c := range map[string]struct {
		key  string
		args []string
		want []string
	}{
		"by default":   {"addr/64", nil, []string{"Key:    httplimit.ByAddress(), // behind a proxy: "}},
		"addresses":    {"addr", nil, []string{"Key:    httplimit.ByAddress(httplimit.IPv6Prefix(128)), // behind"}},
		"networks":     {"addr/24/48", nil, []string{"Key:    httplimit.ByAddress(httplimit.IPv4Prefix(24), httplimit.IPv6Prefix(48)), // behind"}},
		"no field":     {"none", nil, []string{"Key:    httplimit.Everyone(),\n"}},
		"other fields": {"user", nil, []string{"Key:    …, // …: the httplimit.KeyFunc of user\n"}},
		"several fields": {"path,addr/48,user", nil,
			[]string{"Key:    httplimit.Join(httplimit.By(func(r *http.Request) (string, bool) { return r.URL.EscapedPath(), true }), httplimit.ByAddress(httplimit.IPv6Prefix(48)), …), // …: the httplimit.KeyFunc of path,addr/48,user; behind"}},
		"proxies": {"addr/64", []string{"-trust", "10.0.0.0/8", "-trust", "2001:db8::/32"},
			[]string{`Key:    httplimit.ByAddress(httplimit.TrustProxies(netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32"))),` + "\n"}},
		"proxies, and a path": {"addr/64,path", []string{"-trust", "10.0.0.0/8"},
			[]string{`Key:    httplimit.Join(httplimit.ByAddress(httplimit.TrustProxies(netip.MustParsePrefix("10.0.0.0/8"))), httplimit.By(`}},
		"bytes": {"addr/64", []string{"-cost", "size"}, []string{`Unit:   "content-bytes",`, "Settle: httplimit.SettleBytes(),"}},
		"other costs": {"none", []string{"-time", "at", "-cost", "input+output"},
			[]string{`Unit:   "input+output",`, "Cost:   …, // func(*http.Request) int64: the units of input+output; or Settle", "Key:    httplimit.Everyone(),"}},
		"a unit that no header can have": {"none", []string{"-time", "at", "-cost", "größe"}, []string{`Unit:   "gr__e",`}},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parseArgs(c.args)
			require.NoError(t, err)
			key, err := traffic.ParseKey(c.key)
			require.NoError(t, err)
			code := policyCode([]sash.Limit{sash.PerMinute(200).Log()}, key, o)
			for _, want := range c.want {
				assert.Contains(t, code, "\t"+want)
			}
			assert.Contains(t, code, "\tLimits: []sash.Limit{sash.PerMinute(200).Log()},\n")
			assert.Contains(t, code, "\tShadow: true,\n}\n")
		})
	}
}
