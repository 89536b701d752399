package replay_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/replay"
)

// A recording is a small log of one kind of traffic, and policies that suit it.
type recording struct {
	name, diary string
	lasting     bool
	policies    string
	routes      []string
	visits      func() []*visit
	denied      map[string]int64 // by policy
	clients     []string         // denied most under the first policy that denies any
}

const tenMarch = 1_773_100_800e9 // 2026-03-10 00:00:00 UTC

// comes returns a visit from an address, seconds after the beginning.
func comes(after float64, from, method, path string, status int) *visit {
	at := int64(tenMarch) + int64(after*1e3)*1e6
	return &visit{request: &request{at: at, peer: netip.AddrPortFrom(netip.MustParseAddr(from), 4711), method: method, path: path, host: "shop.example", agent: "curl/8.5"}, status: status}
}

var recordings = []recording{
	{
		name: "IPv6: a network is one client, with any address in it", diary: "combined",
		policies: `policies: [{name: all, limits: 3/m, key: address}]`,
		visits: func() (all []*visit) {
			for i := range 8 {
				all = append(all, comes(float64(i), fmt.Sprintf("2001:db8:0:1::%x", i+1), "GET", "/", 200))
				all = append(all, comes(float64(i), fmt.Sprintf("2001:db8:0:%x::1", 100+i), "GET", "/", 200))
			}
			return all
		},
		denied: map[string]int64{"all": 5}, clients: []string{"2001:db8:0:1::/64"},
	},
	{
		name: "behind proxies: each client is limited, and a proxy is none", diary: "nginx JSON",
		policies: `policies: [{name: all, limits: 2/m, key: {address: {trust-proxies: [10.0.0.0/8]}}}]`,
		visits: func() (all []*visit) {
			for i := range 12 {
				v := comes(float64(i), "10.0.0.7", "GET", "/", 200)
				v.forwarded = []string{fmt.Sprintf("6.6.6.6, 203.0.113.%d, 10.1.1.1", i%3)}
				all = append(all, v)
			}
			return all
		},
		denied: map[string]int64{"all": 6}, clients: []string{"203.0.113.0", "203.0.113.1", "203.0.113.2"},
	},
	{
		name: "sizes: the bytes of answers are charged once they are known", diary: "Apache",
		policies: `policies: [{name: bytes, limits: 1000/h burst 1000, key: address, cost: 100, settle: bytes, unit: content-bytes}]`,
		visits: func() (all []*visit) {
			for i := range 5 {
				v := comes(float64(i), "203.0.113.1", "GET", "/files/x", 200)
				v.size = 400
				all = append(all, v)
			}
			return all
		},
		denied: map[string]int64{"bytes": 2}, clients: []string{"203.0.113.1"},
	},
	{
		name: "routes: each handler has a count of its own", diary: "nginx", routes: []string{"GET /files/{name}", "/api/"},
		policies: `policies: [{name: routes, limits: 2/m, key: {join: [route, address]}}]`,
		visits: func() (all []*visit) {
			for i := range 6 {
				all = append(all, comes(float64(i), "203.0.113.1", "GET", fmt.Sprintf("/files/%d", i), 200), comes(float64(i), "203.0.113.1", "GET", "/api/x", 200),
					comes(float64(i), "203.0.113.1", "GET", "/elsewhere", 404))
			}
			return all
		},
		denied: map[string]int64{"routes": 8}, clients: []string{`route="GET /files/{name}" 203.0.113.1`, "route=/api/ 203.0.113.1"},
	},
	{
		name: "an office behind one address, whose people have keys", diary: "Caddy",
		policies: `policies: [{name: people, limits: 3/m, key: {first-of: [{header: X-API-Key}, address]}}, {name: office, limits: 20/m, key: address}]`,
		visits: func() (all []*visit) {
			for i := range 30 {
				v := comes(float64(i), "203.0.113.10", "GET", "/", 200)
				if v.key = fmt.Sprintf("k%d", i%7); i%7 == 6 {
					v.key = ""
				}
				v.keys = min(1, len(v.key))
				all = append(all, v)
			}
			return all
		},
		// The office itself is at its limit from the 21st request on, also of those that no limit of people denies.
		denied: map[string]int64{"people": 8, "office": 10}, clients: []string{"X-Api-Key=k0", "X-Api-Key=k1"},
	},
	{
		name: "a botnet that guesses passwords: only the wrong ones are charged", diary: "haproxy",
		policies: `policies: [{name: login, pattern: POST /login, limits: 5/h, key: address, charge: 401}, {name: all logins, pattern: POST /login, limits: 30/h, key: everyone, charge: 401}]`,
		visits: func() (all []*visit) {
			for i := range 8 {
				for bot := range 10 {
					all = append(all, comes(float64(10*i+bot), fmt.Sprintf("198.51.100.%d", bot), "POST", "/login", 401))
				}
				all = append(all, comes(float64(10*i)+9.5, "203.0.113.1", "POST", "/login", 200))
			}
			return all
		},
		denied: map[string]int64{"login": 0, "all logins": 56}, clients: []string{"everyone"},
	},
	{
		name: "at once: downloads that last", diary: "Traefik", lasting: true,
		policies: `policies: [{name: downloads, pattern: /files/, limits: 2 at once for 1m, key: address}]`,
		visits: func() (all []*visit) {
			for i := range 9 {
				v := comes(float64(i), "203.0.113.1", "GET", "/files/x", 200)
				v.lasts = 3 * time.Second
				all = append(all, v)
			}
			return all
		},
		denied: map[string]int64{"downloads": 3}, clients: []string{"203.0.113.1"},
	},
}

// Each recording is replayed as the middleware decides it, and denies what its kind of traffic should lead to.
func TestPolicies_DenyWhatTheMiddlewareDenies(t *testing.T) {
	for _, rec := range recordings {
		t.Run(rec.name, func(t *testing.T) {
			i := slices.IndexFunc(diaries, func(d *diary) bool { return d.name == rec.diary })
			p := &policyCase{diary: diaries[i], policies: rec.policies, name: "limits.yaml", lasting: rec.lasting, routes: rec.routes}
			p.log, p.visits = p.diary.write(rec.visits(), rec.lasting)
			require.NoError(t, p.run(t, map[string]int{}))

			var stdout, stderr bytes.Buffer
			replay.Run(context.Background(), p.args, strings.NewReader(p.log), &stdout, &stderr)
			var report struct {
				Policies struct {
					Policies []struct {
						Name   string
						Denied int64
						Top    []struct{ Client string }
					}
				}
			}
			require.NoError(t, json.Unmarshal(stdout.Bytes(), &report), stderr.String())
			var clients []string
			for _, got := range report.Policies.Policies {
				assert.Equal(t, rec.denied[got.Name], got.Denied, got.Name)
				for _, c := range got.Top {
					if clients = append(clients, c.Client); len(clients) > len(rec.clients) {
						clients = clients[:len(rec.clients)]
					}
				}
			}
			assert.Equal(t, rec.clients, clients)
		})
	}
}
