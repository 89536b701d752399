package httplimit_test

import (
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/internal/reference"
)

// A modelPolicy is a policy, and what the model knows of it besides.
type modelPolicy struct {
	httplimit.Policy
	id         string // tells it from an earlier policy of the same name
	identity   func(*http.Request) (string, bool)
	opaque     bool // whether the form of its identities is not the model's business
	everyone   bool
	settleName string
	leaves     func(*http.Request) int64 // Leave, which may panic, without that
}

// A policyField is a field of a Policy, and how the model chooses it.
type policyField struct {
	name   string
	choose func(c *policyChoice)
}

// A policyChoice is a policy that is being chosen.
type policyChoice struct {
	*modelPolicy
	*model
	random *rand.Rand
}

// oneIn reports true once in n times.
func (c *policyChoice) oneIn(n int) bool { return c.random.IntN(n) == 0 }

// policyFields are all fields of a Policy, in an order in which they can be chosen.
var policyFields = []policyField{
	{"Name", func(*policyChoice) {}}, // it follows from the place
	{"Pattern", func(c *policyChoice) { c.Pattern = pick(c.random, modelPatterns) }},
	{"Limits", func(c *policyChoice) { c.Limits = chooseLimits(c.random) }},
	{"Plan", func(c *policyChoice) {
		if c.oneIn(4) {
			c.Plan = func(r *http.Request) string { return r.Header.Get("X-Plan") }
		}
	}},
	{"Plans", func(c *policyChoice) {
		if c.Plan != nil {
			c.Plans = map[string][]sash.Limit{"gold": chooseLimits(c.random), "none": {sash.PerSecond(0)}}
		}
	}},
	{"Key", func(c *policyChoice) { pick(c.random, modelKeys).choose(c) }},
	{"Cost", func(c *policyChoice) {
		if c.oneIn(2) {
			c.Cost = headerCost
		}
	}},
	{"Leave", func(c *policyChoice) {
		if c.oneIn(3) {
			c.leaves = pick(c.random, []func(*http.Request) int64{
				headerLeave, func(r *http.Request) int64 { return headerLeave(r) / 2 }, // several policies leave different numbers
			})
			c.Leave = c.leaves
		}
	}},
	{"Near", func(c *policyChoice) {
		if c.store == nil && c.oneIn(2) {
			c.Near = pick(c.random, modelNears)
		}
	}},
	{"Unit", func(c *policyChoice) { c.Unit = pick(c.random, []string{"", "", "content-bytes"}) }},
	{"Skip", func(c *policyChoice) {
		if c.oneIn(4) {
			name := c.Name
			c.Skip = func(r *http.Request) bool { return strings.Contains(r.Header.Get("X-Skip"), name) }
		}
	}},
	{"Charge", func(c *policyChoice) { c.Charge = pick(c.random, chargeFunctions) }},
	{"ChargeUncertain", func(c *policyChoice) { c.ChargeUncertain = pick(c.random, uncertainFunctions) }},
	{"Settle", func(c *policyChoice) {
		if c.oneIn(2) {
			s := pick(c.random, settleFunctions)
			c.Settle, c.settleName = s.f, s.name
		}
	}},
	{"Queue", func(c *policyChoice) {
		if !c.chargesDenied && c.oneIn(2) {
			for _, field := range queueFields {
				field.choose(&c.Queue, c.random)
			}
		}
	}},
	{"Shadow", func(c *policyChoice) { c.Shadow = c.oneIn(5) }},
}

// modelNears are shares below which little is left.
var modelNears = []int{0, 1, 20, 50, 80, 100}

// A queueField is a field of a Queue, and how the model chooses it.
type queueField struct {
	name   string
	choose func(q *httplimit.Queue, random *rand.Rand)
}

var queueFields = []queueField{
	{"Wait", func(q *httplimit.Queue, random *rand.Rand) {
		q.Wait = time.Duration(1+random.IntN(90)) * time.Second
	}},
	{"Requests", func(q *httplimit.Queue, random *rand.Rand) { q.Requests = 1 + random.IntN(8) }},
	{"RequestsEach", func(q *httplimit.Queue, random *rand.Rand) { q.RequestsEach = random.IntN(4) }},
	{"RequestsPerClient", func(q *httplimit.Queue, random *rand.Rand) { q.RequestsPerClient = random.IntN(5) }},
}

// pick returns one of all.
func pick[T any](random *rand.Rand, all []T) T { return all[random.IntN(len(all))] }

// modelLimits are the limits that policies are given. The last admits nothing.
var modelLimits = []sash.Limit{
	sash.Per(5, 250*time.Microsecond).Log(),
	sash.PerSecond(2).Log(),
	sash.PerSecond(3).Counter(),
	sash.PerSecond(4).TokenBucket(6),
	sash.Per(3, 1500*time.Millisecond).Log(),
	sash.Per(2, 10*time.Second).Counter(),
	sash.Per(6, 10*time.Second).Buckets(3 * time.Second),
	sash.Per(3, 10*time.Second).TokenBucket(2),
	sash.PerMinute(7).Log(),
	sash.PerMinute(20).Counter(),
	sash.PerMinute(20),
	sash.PerSecond(3).Parts(),
	sash.Per(4, 10*time.Second).Parts(),
	sash.PerMinute(12).TokenBucket(12),
	sash.PerHour(9).Buckets(time.Hour),
	sash.PerHour(5000).Log(),
	sash.AtOnce(1, time.Minute),
	sash.AtOnce(2, 10*time.Second),
	sash.AtOnce(3, time.Hour),
	sash.PerHour(0),
}

// labels are the names of windows, by which the quotas of a policy are told apart.
var labels = map[time.Duration]string{
	250 * time.Microsecond: "250us", time.Second: "1s", 1500 * time.Millisecond: "1.5s",
	10 * time.Second: "10s", 20 * time.Second: "20s", time.Minute: "1m", time.Hour: "1h",
}

// chooseLimits returns different limits.
func chooseLimits(random *rand.Rand) (limits []sash.Limit) {
	if random.IntN(20) == 0 {
		return []sash.Limit{sash.Unlimited()}
	}
	for range 1 + random.IntN(5)/2 {
		l := pick(random, modelLimits[:len(modelLimits)-1])
		if random.IntN(40) == 0 {
			l = modelLimits[len(modelLimits)-1]
		}
		if !slices.Contains(limits, l) {
			limits = append(limits, l)
		}
	}
	return limits
}

// referenceLimit returns l as package reference has it.
func referenceLimit(l sash.Limit, chargesDenied bool) reference.Limit {
	if l == sash.Unlimited() {
		return reference.Limit{Unlimited: true}
	}
	return reference.Limit{
		Log: l.Algorithm == sash.SlidingLog || isHeld(l), Held: isHeld(l), Parts: l.Algorithm == sash.SlidingParts,
		Precision: int64(l.Precision), Burst: l.Burst,
		Count: l.Count, Window: int64(l.Window), ChargeDenied: chargesDenied && !isHeld(l),
	}
}

// isHeld reports whether l is a limit of units that are held.
func isHeld(l sash.Limit) bool { return l.Algorithm == sash.Concurrency }

// A modelKey is a way to tell clients apart.
type modelKey struct {
	name   string
	choose func(c *policyChoice)
}

// modelKeys are ways to tell clients apart. Those of addresses behind proxies have tests of their own.
var modelKeys = []modelKey{
	{"ByHeader", func(c *policyChoice) {
		c.Key, c.identity = httplimit.ByHeader("X-Key"), headerIdentity
	}},
	{"By", func(c *policyChoice) {
		// The identity of many requests is empty.
		c.identity = func(r *http.Request) (string, bool) { return strings.TrimPrefix(r.Header.Get("X-Key"), "ann"), true }
		c.Key = httplimit.By(c.identity)
	}},
	{"Everyone", func(c *policyChoice) {
		c.Key, c.everyone = httplimit.Everyone(), true
		c.identity = func(*http.Request) (string, bool) { return "", true }
	}},
	{"Join", func(c *policyChoice) {
		header := func(key []byte, r *http.Request) ([]byte, bool) { // where it cannot tell, it returns no key
			if id, ok := headerIdentity(r); ok {
				return append(key, id...), true
			}
			return nil, false
		}
		c.Key = httplimit.Join(header, httplimit.Everyone())
		c.identity = func(r *http.Request) (string, bool) {
			id, ok := headerIdentity(r)
			if len(id) >= 0x80 { // the length takes two bytes
				return string([]byte{byte(len(id)) | 0x80, byte(len(id) >> 7)}) + id + "\x00", ok
			}
			return string([]byte{byte(len(id))}) + id + "\x00", ok
		}
	}},
	{"FirstOf", func(c *policyChoice) {
		c.Key = httplimit.FirstOf(httplimit.ByHeader("X-Key"), httplimit.Everyone())
		c.identity = func(r *http.Request) (string, bool) {
			if id, ok := headerIdentity(r); ok {
				return "\x00" + id, true
			}
			return "\x01", true
		}
	}},
	{"ByAddress", func(c *policyChoice) {
		c.Key, c.opaque = httplimit.ByAddress(), true
		c.identity = func(r *http.Request) (string, bool) {
			host, _, _ := strings.Cut(r.RemoteAddr, ":")
			return host, true
		}
	}},
}

func headerIdentity(r *http.Request) (string, bool) {
	id := r.Header.Get("X-Key")
	return id, id != ""
}

func headerCost(r *http.Request) int64 {
	n, err := strconv.ParseInt(r.Header.Get("X-Cost"), 10, 64)
	if err != nil {
		return 1
	}
	return n
}

// headerLeave returns what a request says that it leaves, 0 if it says nothing.
func headerLeave(r *http.Request) int64 {
	n, _ := strconv.ParseInt(r.Header.Get("X-Leave"), 10, 64)
	return n
}

// chargeFunctions and uncertainFunctions are for Charge and ChargeUncertain. A nil stands for none.
var (
	chargeFunctions = []func(int) bool{nil, nil, nil,
		func(status int) bool { return status < 500 },
		func(status int) bool { return status == 401 },
		panicsAt418,
	}
	uncertainFunctions = []func(int) bool{nil, nil, nil,
		func(status int) bool { return status == 0 || status == 401 },
		func(int) bool { return false },
	}
)

func panicsAt418(status int) bool {
	if status == 418 {
		panic("a function of the model panics")
	}
	return true
}

// A settleFunction is one for Settle. answer is what it returns, as the model sees it.
type settleFunction struct {
	name   string
	f      func(*httplimit.Response) int64
	answer func(x *exchange, r *httplimit.Response) int64
}

var settleFunctions = []settleFunction{
	{"SettleBytes", httplimit.SettleBytes(), func(_ *exchange, r *httplimit.Response) int64 { return r.Bytes }},
	{"SettleEstimate", httplimit.SettleEstimate(), func(_ *exchange, r *httplimit.Response) int64 { return r.Estimate }},
	{"SettleHeader", httplimit.SettleHeader("X-Units"), func(_ *exchange, r *httplimit.Response) int64 {
		text := r.Header.Get("X-Units")
		if text == "" {
			text = r.Header.Get("Trailer:X-Units")
		}
		switch text {
		case "0":
			return 0
		case "3", " 2 ", "9":
			return int64(strings.TrimSpace(text)[0] - '0')
		case "99999999999999999999":
			return 1<<63 - 1
		}
		return r.Estimate
	}},
	{"negative", func(*httplimit.Response) int64 { return -1 }, func(*exchange, *httplimit.Response) int64 { return -1 }},
	{"a function", func(r *httplimit.Response) int64 { return int64(r.Status/100) + r.Estimate },
		func(_ *exchange, r *httplimit.Response) int64 { return int64(r.Status/100) + r.Estimate }},
}

// modelPatterns are the patterns of policies. modelTargets tells which requests they match.
var modelPatterns = []string{"", "", "/", "/api/", "GET /files/{name}", "POST /login", "example.com/"}

// A modelTarget is the target of a request. It says which of modelPatterns match it, besides those
// that match every request, and which do only if paths are folded. Two are separated by a bar. A path
// that is not clean is matched as it is, as some routers do, and cleaned, as a mux does.
type modelTarget struct{ method, target, matches, folded string }

var modelTargets = []modelTarget{
	{"GET", "/", "", ""},
	{"GET", "/other", "", ""},
	{"GET", "/api/x", "/api/", ""},
	{"HEAD", "/api/x", "/api/", ""},
	{"GET", "/api", "/api/", ""},    // a mux redirects it
	{"GET", "/api//x", "/api/", ""}, // and this
	{"GET", "/x/../api/y", "/api/", ""},
	{"GET", "/api/..", "/api/", ""},
	{"GET", "/api//..", "/api/", ""},
	{"GET", "/api/x/../..", "/api/", ""},
	{"GET", "/api/./../secret", "/api/", ""},
	{"POST", "/api/../login", "/api/|POST /login", ""},
	{"POST", "/x/../login/", "", "POST /login"},
	{"GET", "/files/./a", "GET /files/{name}", ""},
	{"GET", "/%61pi/x", "/api/", ""},
	{"GET", "/API/x", "", "/api/"},
	{"GET", "/files/a", "GET /files/{name}", ""},
	{"HEAD", "/files/a", "GET /files/{name}", ""},
	{"GET", "/files/a%2Fb", "GET /files/{name}", ""},
	{"GET", "/files/a/", "", "GET /files/{name}"},
	{"POST", "/files/a", "", ""},
	{"POST", "/login", "POST /login", ""},
	{"POST", "/LOGIN", "", "POST /login"},
	{"POST", "/login/", "", "POST /login"},
	{"GET", "/login", "", ""},
}

// modelHosts are the hosts that requests name. Those that begin with e, in any case, are the host of a
// pattern.
var modelHosts = []string{"example.com", "example.com", "EXAMPLE.com.:8080", "other.com"}

// matches reports whether a policy of that pattern is for x.
func (m *model) matches(pattern string, x *exchange) bool {
	switch pattern {
	case "", "/":
		return true
	case "example.com/":
		return strings.EqualFold(x.host[:1], "e")
	}
	some := strings.Split(x.kind.matches, "|")
	return slices.Contains(some, pattern) || m.folds && pattern == x.kind.folded
}
