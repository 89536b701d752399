package replay

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/internal/command"
)

const selectable = `192.0.2.1 - ann [10/Mar/2026:11:59:59 +0000] "GET / HTTP/1.1" 200 1
192.0.2.1 - - [10/Mar/2026:12:00:00 +0000] "POST /login HTTP/1.1" 401 1
192.0.2.1 - - [10/Mar/2026:13:09:59 +0100] "GET /static/a.png HTTP/1.1" 503 1
no line
192.0.2.1 - - [10/Mar/2026:12:10:00 +0000] "GET /api/x HTTP/1.1" 404 1
`

func TestSelection_LeavesOutTheRest(t *testing.T) {
	for flags, events := range map[string]int64{
		"-from 2026-03-10":                                        4,
		"-from 2026-03-10T12:00":                                  3,
		"-to 2026-03-10T12:00":                                    1,
		"-from 2026-03-10T12:00Z -to 2026-03-10T12:10:00Z":        2,
		"-from 2026-03-10T13:00+01:00":                            3,
		"-from 1773144000":                                        3,
		"-without 2026-03-10T12:00..2026-03-10T12:10":             2,
		"-without 2026-03-10..2026-03-10T12:00 -where status=4xx": 2,
		"-where status=5xx":                                       1,
		"-where status=200,404":                                   2,
		"-where status!=404,5xx":                                  2,
		"-where path=/static/*":                                   1,
		"-where path=/login -where method=POST":                   1,
		"-where path!=/login,/static/*":                           2,
		"-where user=-":                                           3,
		"-where user=ann":                                         1,
	} {
		got := invoke(selectable, append(strings.Fields(flags), "-json", "-limit", "1000/s", "-")...)
		require.Equal(t, command.OK, got.status, got.stderr)
		r := got.report(t)
		assert.Equal(t, events, r.Events, flags)
		assert.Equal(t, 4-events, r.LeftOut, flags)
		assert.EqualValues(t, 1, r.Unreadable, flags)
	}
	got := invoke(selectable, "-where", "status=5xx", "-limit", "1000/s")
	require.Contains(t, got.stdout, "3 lines left out by -from, -to, -without or -where")
	got = invoke(selectable, "-where", "status=302", "-limit", "1000/s")
	require.Equal(t, command.Failed, got.status)
	require.Contains(t, got.stderr, "no event is left in -: -from, -to, -without and -where leave out all that can be read")
}

// A host is the same on all its ports, unless one is named.
func TestSelection_OfHosts(t *testing.T) {
	log := ""
	for _, host := range []string{"shop.example:443", "shop.example:8443", "other.example:443"} {
		log += host + " " + strings.SplitAfter(selectable, "\n")[0]
	}
	for value, events := range map[string]int64{"shop.example": 2, "shop.example:443": 1, "*.example": 0, "shop*": 2} {
		r := invoke(log, "-where", "host="+value, "-json", "-limit", "1/s", "-format", "vhost_combined").report(t)
		assert.Equal(t, events, r.Events, value)
	}
}

func TestSelection_NamesWrongInput(t *testing.T) {
	for args, want := range map[string]string{
		"-from yesterday":                 "-from: time \"yesterday\" is not like",
		"-to 2026-13-01":                  "-to: time \"2026-13-01\" is not like",
		"-from 2026-03-11 -to 2026-03-10": "-to must come after -from",
		"-without 2026-03-10":             "no span, want one such as 2026-03-10T12:00..2026-03-10T12:10",
		"-without 2026-03-11..2026-03-10": "does not end after it begins",
		"-without a..b":                   "time \"b\" is not like",
		"-where status":                   "no condition, want one such as status=200",
		"-where =200":                     "no condition",
	} {
		got := invoke(selectable, append(strings.Fields(args), "-limit", "1/s")...)
		require.Equal(t, command.Usage, got.status, args)
		require.Contains(t, got.stderr, want)
	}
	got := invoke(selectable, "-where", "hosts=a", "-limit", "1/s")
	require.Equal(t, command.Failed, got.status)
	require.Contains(t, got.stderr, "-where: - has no hosts")
}
