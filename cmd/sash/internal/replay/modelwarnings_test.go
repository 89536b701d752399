package replay_test

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	ofWindow = regexp.MustCompile(`^In (\S+), the percentile (\S+) is ([\d,]+)\. But ([\d,]+) clients? (?:is|are) at ([\d,]+) or above(?:, with \S+ of the events)?, and all others at ([\d,]+) or below\. If the first are to be denied, try -percentile (\S+)\.$`)
	ofEvents = regexp.MustCompile(`^\S+% of the events are of ([\d,]+) clients? with ([\d,]+) or more each, and all others have ([\d,]+) or fewer\. If the first are to be denied, try -percentile (\S+)\.$`)
)

// checkWarnings compares the warnings with the reference: what they say must be true, and the warnings of
// a botnet and of proxies must be there.
func (p *program) checkWarnings() {
	var bots, proxies bool
	for _, w := range p.report.Warnings {
		if w.Kind == "two kinds of clients" {
			bots = p.checkBorder(w.Text) == p.world.bots || bots
		}
		proxies = proxies || w.Kind == "log" && strings.Contains(w.Text, "-trust")
	}
	if p.botsSet() && !bots {
		p.fail("no warning tells of the %d bots: %v", p.world.bots, p.report.Warnings)
	}
	if p.behindProxies() && !proxies {
		p.fail("no warning tells of the proxies: %v", p.report.Warnings)
	}
}

// checkBorder checks what a warning says of two kinds of clients, and that the percentile it tells to
// try leaves out the first. It returns the number of these.
func (p *program) checkBorder(text string) (above int) {
	var values []int64
	var numbers []int64
	var try string
	switch of, all := ofWindow.FindStringSubmatch(text), ofEvents.FindStringSubmatch(text); {
	case of != nil:
		i := slices.IndexFunc(p.set.windows, func(w time.Duration) bool { return short(w) == of[1] })
		if i < 0 {
			p.fail("no such window: %s", text)
			return 0
		}
		values = busiest(p.events, p.set.windows[i], p.set.measures())
		p.equal("the percentile of the warning", whole(of[3]), percentile(values, p.set.percentile))
		numbers, try = []int64{whole(of[4]), whole(of[5]), whole(of[6])}, of[7]
	case all != nil:
		values = counts(p.events)
		numbers, try = []int64{whole(all[1]), whole(all[2]), whole(all[3])}, all[4]
	default:
		p.fail("a warning of two kinds of clients: %s", text)
		return 0
	}
	first := len(values) - int(numbers[0])
	if first < 1 || values[first] != numbers[1] || values[first-1] != numbers[2] {
		p.fail("%s: it is not so: %v", text, values)
		return 0
	}
	if share, ok := new(big.Rat).SetString(try); !ok || share.Sign() <= 0 || percentile(values, try) > numbers[2] {
		p.fail("%s: that percentile does not leave them out", text)
	}
	return int(numbers[0])
}

// whole returns a number that is written with commas.
func whole(text string) int64 {
	n, err := strconv.ParseInt(strings.ReplaceAll(text, ",", ""), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// counts returns the numbers of events of all clients, in ascending order.
func counts(events []event) (sorted []int64) {
	of := map[string]int64{}
	for _, e := range events {
		of[e.client]++
	}
	for _, n := range of {
		sorted = append(sorted, n)
	}
	slices.Sort(sorted)
	return sorted
}

// botsSet reports whether bots set a percentile, so that a warning is due.
func (p *program) botsSet() bool {
	if p.world.bots == 0 || p.set.form.columns || p.report.Policy == nil { // the bots share a name in columns
		return false
	}
	share, _ := new(big.Rat).SetString(p.set.percentile)
	honest := big.NewRat(int64(100*(len(p.world.clients)-p.world.bots)), int64(len(p.world.clients)))
	return share.Cmp(honest) > 0 && p.set.percentile != "100"
}

// behindProxies reports whether nearly all events come from a few proxies that X-Forwarded-For tells,
// and that are not trusted.
func (p *program) behindProxies() bool {
	keyed := slices.ContainsFunc(p.set.keyOf(), func(k keyPart) bool { return k.name == "addr" })
	if p.set.trust != nil || !keyed || !p.set.form.forwarded || len(p.events) < 2 {
		return false
	}
	forwarded, of := 0, map[string]int{}
	for _, e := range p.events {
		if len(e.request.forwarded) > 0 {
			forwarded++
		}
		for _, k := range p.set.keyOf() {
			if k.name == "addr" {
				address, _ := e.request.identity(k, nil)
				of[address]++
			}
		}
	}
	var most []int
	for _, n := range of {
		most = append(most, n)
	}
	slices.Sort(most)
	share := 0
	for _, n := range most[max(0, len(most)-10):] {
		share += n
	}
	return 10*share > 9*len(p.events) && 2*forwarded > len(p.events)
}

// short returns a window as people write it.
func short(d time.Duration) string {
	text := d.String()
	switch {
	case d%(24*time.Hour) == 0:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	case d%time.Hour == 0:
		return strings.TrimSuffix(text, "0m0s")
	case d%time.Minute == 0:
		return strings.TrimSuffix(text, "0s")
	}
	return text
}
