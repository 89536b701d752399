package traffic

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Warnings returns what of the traffic makes the answers about windows of these lengths doubtful,
// and what to do about it.
func (t *Traffic) Warnings(windows []time.Duration) []string {
	all := []string{}
	warn := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	if short := shorterThan(time.Minute, windows); t.WholeSeconds && t.Events > 1 && short != "" {
		warn("all times are whole seconds, so the requests of a second seem to come at once: in windows of %s the denials, and the errors of a counter, are partly those of the clock; "+
			"log fractions of a second, such as $msec of nginx", short)
	}
	if text := t.warnOfProxies(); text != "" {
		warn("%s", text)
	}
	if t.OtherUnit != "" {
		warn("the times of %s are read as microseconds, so they are of %d: if they are in another unit, name it, as by -unit %s", t.OtherUnitOf, Instant(t.first).Year(), t.OtherUnit)
	}
	for _, j := range t.Jumps {
		direction := "ahead"
		if j.By < 0 {
			direction = "back"
		}
		warn("the clock of %s jumps %s by %v at line %d: requests at one time of the log were not made at one time; if it is local time, log the zone or UTC", j.File, direction, j.By.Abs().Round(time.Second), j.Line)
	}
	if t.Mixed > 0 {
		warn("%s of another format than their file: split it by format", Count(t.Mixed, "line is", "lines are"))
	}
	if t.Late > 0 {
		warn("%s too late to be put in order, and taken for as late as the line before: sort the files by time, or raise -reorder", Count(t.Late, "line came", "lines came"))
	}
	return all
}

const (
	// fewProxies is the number of addresses up to which they may be all proxies of a server.
	fewProxies = 10
	// manyEvents is the number of events of an address from which on it may be a proxy, if nothing
	// else tells.
	manyEvents = 1000
)

// warnOfProxies returns a warning if nearly all events come from a few addresses that may be
// proxies: since X-Forwarded-For is there, or they are private, or have many events.
func (t *Traffic) warnOfProxies() string {
	if len(t.Key) == 0 || t.Events < 2 {
		return ""
	}
	if len(t.Clients) == 1 && !t.trusting {
		return fmt.Sprintf("all events are of one client, %s: if it is a proxy, name it by -trust, and log X-Forwarded-For", t.Clients[0])
	}
	proxies, share := t.busiestAddresses()
	if len(proxies) == 0 || t.trusting {
		return ""
	}
	// The surest sign comes first: it names what to do.
	private := !slices.ContainsFunc(proxies, func(p string) bool { return !isPrivate(p) })
	names := strings.Join(proxies[:min(3, len(proxies))], ", ")
	switch of := fmt.Sprintf("%.1f%% of all events are of %s", 100*share, Count(int64(len(proxies)), "address", "addresses")); {
	case 2*t.Forwarded > t.Events:
		return fmt.Sprintf("%s such as %s, and X-Forwarded-For names others: if they are proxies, name them by -trust, or their clients are limited as one", of, names)
	case private && t.Events >= manyEvents:
		return fmt.Sprintf("%s such as %s, which are private: if they are proxies, name them by -trust, and log X-Forwarded-For", of, names)
	case t.Events/int64(len(proxies)) >= manyEvents && len(t.Clients) <= fewProxies:
		return fmt.Sprintf("%s such as %s: if they are proxies, name them by -trust, and log X-Forwarded-For", of, names)
	}
	return ""
}

// LikelyProxies says which few addresses have nearly all events, if they may be proxies since they are
// private, or have many events. Otherwise it returns "". The events are given by the address or network.
func LikelyProxies(events map[string]int64) string {
	proxies, share := busiest(events)
	if len(proxies) == 0 {
		return ""
	}
	total := int64(0)
	for _, n := range events {
		total += n
	}
	private := !slices.ContainsFunc(proxies, func(p string) bool { return !isPrivate(p) })
	few := total/int64(len(proxies)) >= manyEvents && len(events) <= fewProxies
	if !few && !(private && total >= manyEvents) {
		return ""
	}
	return fmt.Sprintf("%.1f%% of all events are of %s such as %s", 100*share, Count(int64(len(proxies)), "address", "addresses"), strings.Join(proxies[:min(3, len(proxies))], ", "))
}

// busiestAddresses returns the fewest addresses that have nearly all events, busiest first, and
// their share. It returns none if these are more than fewProxies, or clients are told apart by
// something else.
func (t *Traffic) busiestAddresses() (names []string, share float64) {
	events := map[string]int64{}
	for i, client := range t.Clients {
		address, ok := t.Key.address(client)
		if !ok {
			return nil, 0
		}
		events[address] += t.Counts[i]
	}
	return busiest(events)
}

// busiest returns the fewest addresses that have nearly all events, busiest first, and their share. It
// returns none if these are more than fewProxies, or no addresses.
func busiest(events map[string]int64) (names []string, share float64) {
	const nearlyAll = 0.9
	total := int64(0)
	for _, n := range events {
		total += n
	}
	for _, name := range mostEvents(events, fewProxies) {
		if !isAddress(name) && !isNetwork(name) {
			return nil, 0 // the advice would be -trust, which takes no other names
		}
		names, share = append(names, name), share+float64(events[name])/float64(total)
		if share >= nearlyAll {
			return names, share
		}
	}
	return nil, 0
}

// mostEvents returns the n addresses with the most events, busiest first.
func mostEvents(events map[string]int64, n int) (names []string) {
	busier := func(a, b string) int { return cmp.Or(cmp.Compare(events[b], events[a]), strings.Compare(a, b)) }
	for name := range events {
		if i, _ := slices.BinarySearchFunc(names, name, busier); i < n {
			names = slices.Insert(names[:min(len(names), n-1)], i, name)
		}
	}
	return names
}

// isNetwork reports whether s is a network of addresses.
func isNetwork(s string) bool {
	_, err := netip.ParsePrefix(s)
	return err == nil
}

// isPrivate reports whether an address or a network in text is one inside an organisation.
func isPrivate(s string) bool {
	s, _, _ = strings.Cut(s, "/")
	a, err := netip.ParseAddr(s)
	return err == nil && (a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast())
}

// shorterThan returns the windows shorter than d, as text.
func shorterThan(d time.Duration, windows []time.Duration) string {
	var short []string
	for _, w := range windows {
		if w < d {
			short = append(short, w.String())
		}
	}
	return strings.Join(short, ", ")
}

// Count returns n with the words for what was counted: for one of them, or for several.
func Count(n int64, one, several string) string {
	if n == 1 {
		return "1 " + one
	}
	return humanize.Comma(n) + " " + several
}
