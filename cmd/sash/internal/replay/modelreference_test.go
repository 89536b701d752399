package replay_test

import (
	"fmt"
	"math/big"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
)

// An event of the reference is a request that a policy counts.
type event struct {
	at, cost int64
	client   string
	request  *request
}

// A keyPart is a field of -key. The numbers of bits are 0 if the value counts whole.
type keyPart struct {
	name         string
	bits4, bits6 int
}

func (k keyPart) String() string {
	switch {
	case k.bits6 == 0:
		return k.name
	case k.bits4 == 32:
		return fmt.Sprintf("%s/%d", k.name, k.bits6)
	}
	return fmt.Sprintf("%s/%d/%d", k.name, k.bits4, k.bits6)
}

// value returns a field of a request.
func (q *request) value(name string) string {
	switch name {
	case "user", "who":
		return q.user
	case "method":
		return q.method
	case "path":
		return q.path
	case "status":
		return "200"
	case "size":
		return strconv.FormatInt(q.size, 10)
	case "host":
		return q.host
	case "agent":
		return q.agent
	case "referer":
		return q.referer
	case "forwarded":
		return q.list()
	case ".call.größe":
		return strconv.FormatInt(q.out, 10)
	case "addr", "id.orig_h", "request.remote_ip", "ClientHost":
		return q.peer.Addr().String()
	}
	panic("no field " + name)
}

// units returns what a summand of -cost is for a request.
func (q *request) units(summand string, f *form) int64 {
	switch summand {
	case "size", "bytes_sent", "sc-bytes", "body_bytes_sent", "DownstreamContentSize":
		return q.size
	case "in", ".call.in":
		return q.in
	case "out", ".call.größe":
		return q.out
	case "größe":
		return q.size
	}
	n, err := strconv.ParseInt(summand, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// identity returns what tells the client of q from others. It reports false if nothing can.
func (q *request) identity(k keyPart, trust []netip.Prefix) (string, bool) {
	isAddr := k.name == "addr"
	if !isAddr && k.bits6 == 0 {
		return strconv.Quote(q.value(k.name)), true
	}
	a := q.peer.Addr()
	if isAddr {
		var ok bool
		if a, ok = q.behind(trust); !ok {
			return "", false
		}
		if k.bits6 == 0 {
			k.bits4, k.bits6 = 32, 128
		}
	}
	return network(a, k.bits4, k.bits6), true
}

// behind returns the address of the client behind the trusted proxies.
func (q *request) behind(trust []netip.Prefix) (netip.Addr, bool) {
	isTrusted := func(a netip.Addr) bool {
		return slices.ContainsFunc(trust, func(n netip.Prefix) bool { return n.Contains(a.Unmap().WithZone("")) })
	}
	a := q.peer.Addr()
	if !isTrusted(a) || len(q.forwarded) == 0 {
		return a, true
	}
	elements := strings.Split(strings.Join(q.forwarded, ","), ",")
	for _, text := range slices.Backward(elements) {
		text = strings.TrimSpace(text)
		var err error
		if a, err = netip.ParseAddr(text); err != nil {
			var both netip.AddrPort
			if both, err = netip.ParseAddrPort(text); err != nil {
				return a, false
			}
			a = both.Addr()
		}
		if !isTrusted(a) {
			break
		}
	}
	return a, true
}

// plainAddress returns the IPv4 address in an IPv6 address, if it is mapped or translated.
func plainAddress(a netip.Addr) netip.Addr {
	if a.Is4In6() {
		return a.Unmap()
	}
	if netip.MustParsePrefix("64:ff9b::/96").Contains(a) {
		b := a.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

func network(a netip.Addr, bits4, bits6 int) string {
	a = plainAddress(a)
	switch {
	case a.IsLinkLocalUnicast() && a.Is6():
		return a.String()
	case a.Is4():
		bits6 = bits4
	}
	n, err := a.WithZone("").Prefix(bits6)
	if err != nil {
		panic(err)
	}
	return n.String()
}

// A mode says when it is known what a request costs.
type mode int

const (
	before   mode = iota // its costs are known before
	measured             // the same, but it asks for one unit at least
	settled              // it takes one unit, and its costs are known after its response
	carried              // the same, and what was spent beyond a limit is carried until it is paid
)

// asks returns what e asks for.
func (m mode) asks(e event) int64 {
	switch m {
	case before:
		return e.cost
	case measured:
		return max(e.cost, 1)
	}
	return 1
}

// decide returns which of the events a policy of exact logs denies.
func decide(events []event, limits []sash.Limit, m mode) (denied []bool) {
	clients := map[string][]*account{}
	for _, e := range events {
		if clients[e.client] == nil {
			for _, l := range limits {
				clients[e.client] = append(clients[e.client], &account{limit: l, carries: m == carried, debt: new(big.Int)})
			}
		}
		ask := m.asks(e)
		admitted := true
		for _, a := range clients[e.client] {
			admitted = a.admits(e.at, ask) && admitted
		}
		for _, a := range clients[e.client] {
			if admitted {
				a.charge(e.at, e.cost)
			}
		}
		denied = append(denied, !admitted)
	}
	return denied
}

// An account is what a client was charged under one limit.
type account struct {
	limit   sash.Limit
	charges []charge
	carries bool
	// debt is what is to be paid at the time paid: in units, times the window. It is paid at the rate of
	// the limit, and denies from twice the Count on.
	debt *big.Int
	paid int64
}

type charge struct{ at, units int64 }

func (a *account) admits(at, ask int64) bool {
	units := ask
	for _, c := range a.charges {
		if at-c.at < int64(a.limit.Window) {
			units += c.units
		}
	}
	if !a.carries {
		return units <= a.limit.Count || ask == 0
	}
	window := big.NewInt(int64(a.limit.Window))
	a.debt.Sub(a.debt, new(big.Int).Mul(big.NewInt(at-a.paid), big.NewInt(a.limit.Count)))
	if a.paid = at; a.debt.Sign() < 0 {
		a.debt.SetInt64(0)
	}
	wanted := new(big.Int).Add(a.debt, new(big.Int).Mul(big.NewInt(ask), window))
	return units <= a.limit.Count && wanted.Cmp(window.Mul(window, big.NewInt(2*a.limit.Count))) <= 0
}

func (a *account) charge(at, units int64) {
	a.charges = append(a.charges, charge{at, units})
	a.debt.Add(a.debt, new(big.Int).Mul(big.NewInt(units), big.NewInt(int64(a.limit.Window))))
}

// tally returns the numbers of events and clients that are denied.
func tally(events []event, denied []bool) (n int64, clients int) {
	of := map[string]bool{}
	for i, e := range events {
		if denied[i] {
			n++
			of[e.client] = true
		}
	}
	return n, len(of)
}

// busiest returns the most units of each client in any window, in ascending order. The last event of a
// window has what it asks for.
func busiest(events []event, window time.Duration, m mode) (sorted []int64) {
	most, of := map[string]int64{}, map[string][]event{}
	for _, e := range events {
		units := m.asks(e)
		for _, f := range of[e.client] {
			if e.at-f.at < int64(window) {
				units += f.cost
			}
		}
		of[e.client] = append(of[e.client], e)
		most[e.client] = max(most[e.client], units)
	}
	for _, n := range most {
		sorted = append(sorted, n)
	}
	slices.Sort(sorted)
	return sorted
}

// percentile returns the least of the values that p percent of them do not exceed. p is a decimal
// number.
func percentile(sorted []int64, p string) int64 {
	share, ok := new(big.Rat).SetString(p)
	if !ok {
		panic(p)
	}
	wanted := share.Mul(share, big.NewRat(int64(len(sorted)), 100))
	for i, v := range sorted {
		if big.NewRat(int64(i+1), 1).Cmp(wanted) >= 0 {
			return v
		}
	}
	panic("more than 100 percent")
}

// candidates returns the numbers that people choose, in ascending order.
func candidates() (all []int64) {
	all = []int64{1, 2, 3, 4, 5, 6, 8}
	for power := int64(1); power < 1e10; power *= 10 {
		for _, n := range []int64{10, 12, 15, 20, 25, 30, 40, 50, 60, 80} {
			all = append(all, n*power)
		}
	}
	return append(all, 1e11)
}

// suggested returns the least candidate of at least headroom times base, or 0.
func suggested(base int64, headroom string) int64 {
	wanted, ok := new(big.Rat).SetString(headroom)
	if !ok {
		panic(headroom)
	}
	wanted.Mul(wanted, big.NewRat(base, 1))
	for _, c := range candidates() {
		if base > 0 && big.NewRat(c, 1).Cmp(wanted) >= 0 {
			return c
		}
	}
	return 0
}
