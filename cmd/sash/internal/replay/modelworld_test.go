package replay_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// A world is the clients of a recording, and the proxies in front of the servers.
type world struct {
	random  *rand.Rand
	proxies []netip.Prefix // their networks; none if clients connect to the servers
	trusted bool           // whether -trust will name them
	clients []*client
	begin   int64
	bots    int  // the number of the last clients, which are a botnet with most requests; 0 if none are
	polite  bool // whether no client makes up an X-Forwarded-For of names
}

// A client sends requests from an address of its own, and at a pace.
type client struct {
	address netip.Addr
	user    string
	agent   string
	host    string
	odd     bool // sends an X-Forwarded-For of its own
}

// addresses are beginnings of addresses. Clients that share one are close to each other.
var addresses = []func(r *rand.Rand) netip.Addr{
	func(r *rand.Rand) netip.Addr { return netip.AddrFrom4([4]byte{203, 0, 113, byte(r.IntN(30))}) },
	func(r *rand.Rand) netip.Addr { return netip.AddrFrom4([4]byte{198, 51, byte(r.IntN(9)), 7}) },
	func(r *rand.Rand) netip.Addr {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8:%x:%x::%x", r.IntN(2), r.IntN(4), 1+r.IntN(9)))
	},
	func(r *rand.Rand) netip.Addr {
		return netip.MustParseAddr(fmt.Sprintf("2001:db8:7::%x", 1+r.IntN(3000)))
	},
	func(r *rand.Rand) netip.Addr {
		return netip.MustParseAddr(fmt.Sprintf("::ffff:203.0.113.%d", r.IntN(30)))
	},
	func(r *rand.Rand) netip.Addr {
		return netip.MustParseAddr(fmt.Sprintf("64:ff9b::198.51.%d.7", r.IntN(9)))
	},
	func(r *rand.Rand) netip.Addr {
		return netip.MustParseAddr(fmt.Sprintf("fe80::%x%%eth%d", 1+r.IntN(3), r.IntN(2)))
	},
}

var (
	users    = []string{"", "", "", "ann", "bob", "anna maria", "ünal"}
	agents   = []string{"", "curl/8.5", "Mozilla/5.0 (X11; Linux x86_64) Firefox/135.0", `bad"agent`, "ExampleBot/1.0"}
	hosts    = []string{"www.example.com", "shop.example", "api.shop.example"}
	paths    = []string{"/", "/a", "/b/c.html", "/login", "/%7Efrank", "/a%2Fb", "//a", "/a;x=1"}
	queries  = []string{"", "", "?q=1", "?q=/a?b", "?"}
	methods  = []string{"GET", "GET", "GET", "POST", "HEAD", "DELETE"}
	referers = []string{"", "", "https://shop.example/", `https://evil.example/"x`}
	networks = [][]netip.Prefix{
		{netip.MustParsePrefix("10.0.0.0/8")},
		{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:ff::/48")},
		{netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("fd00::/8"), netip.MustParsePrefix("192.0.2.9/32")},
	}
)

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// newWorld returns a world of clients, some of them far busier than others.
func newWorld(r *rand.Rand, behindProxies bool) *world {
	w := &world{random: r, begin: 1_690_000_000e9 + r.Int64N(1e8)*1e6}
	if behindProxies {
		w.proxies = pick(r, networks)
	}
	if r.IntN(8) == 0 {
		w.attacked()
		return w
	}
	beginnings := addresses[:1+r.IntN(len(addresses))]
	for range 1 + r.IntN(30) {
		w.clients = append(w.clients, &client{address: pick(r, beginnings)(r), user: pick(r, users), agent: pick(r, agents), host: pick(r, hosts), odd: r.IntN(6) == 0})
	}
	return w
}

// attacked gives w ordinary clients, and bots that are more than one client in ten.
func (w *world) attacked() {
	w.proxies, w.bots = nil, 5+w.random.IntN(8)
	for i := range 3*w.bots + w.random.IntN(20) {
		a := netip.AddrFrom4([4]byte{198, 51, byte(i), 7})
		w.clients = append(w.clients, &client{address: a, agent: pick(w.random, agents), host: pick(w.random, hosts)})
	}
}

// isBot reports whether the i-th client is a bot.
func (w *world) isBot(i int) bool { return i >= len(w.clients)-w.bots }

// attack returns the requests of an attack of hours. Bots are ten times as busy as others.
func (w *world) attack() (all []*request) {
	r := w.random
	for i, c := range w.clients {
		n := 1 + r.IntN(2)
		if w.isBot(i) {
			n = 25 + r.IntN(5)
		}
		for range n {
			all = append(all, w.request(c, w.begin+r.Int64N(1e7)*1e6))
		}
	}
	slices.SortStableFunc(all, func(a, b *request) int { return cmp.Compare(a.at, b.at) })
	return all
}

// requests returns requests in the order of time: in bursts, with jitter and gaps, and about as many
// in one of the windows as make a limit deny some. A few clients make most of them.
func (w *world) requests(windows []time.Duration) (all []*request) {
	if w.bots > 0 {
		return w.attack()
	}
	r, at := w.random, w.begin
	mean := float64(pick(r, windows)) / pick(r, []float64{1, 4, 15, 40})
	for range 20 + r.IntN(200) {
		switch r.IntN(12) {
		case 0: // at once
		case 1:
			at += int64(r.ExpFloat64() * 20 * mean)
		default:
			at += int64(r.ExpFloat64() * mean)
		}
		busy := math.Pow(r.Float64(), 3)
		all = append(all, w.request(w.clients[int(busy*float64(len(w.clients)))], at/1e3*1e3))
	}
	return all
}

// request returns a request of a client.
func (w *world) request(c *client, at int64) *request {
	r := w.random
	q := &request{at: at, method: pick(r, methods), path: pick(r, paths), query: pick(r, queries), host: c.host, user: c.user, agent: c.agent, referer: pick(r, referers)}
	if r.IntN(10) == 0 {
		q.host, q.agent = pick(r, hosts), pick(r, agents)
	}
	q.size, q.in, q.out = r.Int64N(3000), r.Int64N(50), r.Int64N(9000)
	if q.method == "HEAD" || r.IntN(20) == 0 {
		q.size = 0
	}
	port := uint16(1024 + r.IntN(60000))
	if c.odd && r.IntN(2) == 0 {
		made := []string{"127.0.0.1", "unknown", "203.0.113.77, 10.0.0.1", "198.51.100.99:41234", "x.example"}
		if w.polite {
			made = made[:4]
		}
		q.forwarded = []string{pick(r, made)}
	}
	if len(w.proxies) == 0 || r.IntN(25) == 0 { // some reach the server past the proxies
		q.peer = netip.AddrPortFrom(c.address, port)
		return q
	}
	w.pass(q, c, port)
	return q
}

// pass sends a request through one proxy or several.
func (w *world) pass(q *request, c *client, port uint16) {
	r := w.random
	q.peer = netip.AddrPortFrom(w.proxy(), port)
	if r.IntN(30) == 0 {
		return // a check of its health, or a proxy that does not tell
	}
	seen := c.address.String()
	switch {
	case r.IntN(25) == 0:
		seen = pick(r, []string{"unknown", ""})
	case r.IntN(6) == 0:
		seen = netip.AddrPortFrom(c.address, port).String()
	}
	hops := []string{seen}
	for r.IntN(3) == 0 || hops[0] == "" && len(hops) == 1 {
		hops = append(hops, w.proxy().String())
	}
	if len(q.forwarded) > 0 && r.IntN(2) == 0 { // as a second line
		q.forwarded = append(q.forwarded, strings.Join(hops, ", "))
		return
	}
	q.forwarded = []string{strings.Join(append(slices.Clone(q.forwarded), hops...), pick(r, []string{", ", ","}))}
}

// proxy returns the address of a proxy.
func (w *world) proxy() netip.Addr {
	n := pick(w.random, w.proxies)
	a := n.Masked().Addr()
	for range w.random.IntN(3) {
		if next := a.Next(); n.Contains(next) {
			a = next
		}
	}
	return a
}

// late returns requests in the order in which a server logs them. It logs a request when it ends, so
// some come up to that many places late.
func late(r *rand.Rand, requests []*request, places int) []*request {
	type place struct {
		q  *request
		at int
	}
	var order []place
	for i, q := range requests {
		at := 2 * i
		if r.IntN(8) == 0 {
			at += 2*r.IntN(places+1) + 1
		}
		order = append(order, place{q, at})
	}
	slices.SortStableFunc(order, func(a, b place) int { return a.at - b.at })
	var all []*request
	for _, p := range order {
		all = append(all, p.q)
	}
	return all
}
