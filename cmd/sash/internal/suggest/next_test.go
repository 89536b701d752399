package suggest

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
)

// The policy that is printed tells clients apart, and counts, as the recording was measured.
func TestPolicyCode_IsWhatWasMeasured(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"by default":   {nil, []string{"Key:    httplimit.ByAddress(), // behind a proxy: "}},
		"addresses":    {[]string{"-key", "addr"}, []string{"Key:    httplimit.ByAddress(httplimit.IPv6Prefix(128)), // behind"}},
		"networks":     {[]string{"-key", "addr/24/48"}, []string{"Key:    httplimit.ByAddress(httplimit.IPv4Prefix(24), httplimit.IPv6Prefix(48)),"}},
		"other fields": {[]string{"-key", "user"}, []string{"Key:    …, // the httplimit.KeyFunc"}},
		"proxies": {[]string{"-trust", "10.0.0.0/8", "-trust", "2001:db8::/32"},
			[]string{`Key:    httplimit.ByAddress(httplimit.TrustProxies(netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8::/32"))),` + "\n"}},
		"bytes": {[]string{"-cost", "size"}, []string{`Unit:   "content-bytes",`, "Settle: httplimit.SettleBytes(),"}},
		"other costs": {[]string{"-time", "at", "-cost", "input+output"},
			[]string{"Cost:   …, // func(*http.Request) int64: the units of input+output; or Settle", "Key:    …,"}},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parseArgs(c.args)
			require.NoError(t, err)
			code := policyCode([]sash.Limit{sash.PerMinute(200).Log()}, o)
			for _, want := range c.want {
				assert.Contains(t, code, "\t"+want)
			}
			assert.Contains(t, code, "\tLimits: []sash.Limit{sash.PerMinute(200).Log()},\n")
			assert.Contains(t, code, "\tShadow: true,\n}\n")
		})
	}
}
