package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/policies"
)

// sentence says what a policy does.
func sentence(p *policies.Policy) string {
	requests := "every request"
	if p.Pattern != "" {
		requests = p.Pattern
	}
	parts := []string{fmt.Sprintf("%s: %s: %s %s", p.Name, requests, limitsText(p.Limits, p.Unit), keyText(&p.Key))}
	for _, part := range []func(*policies.Policy) string{plansText, skipText, costText, chargeText, settleText, leaveText, nearText, denialText} {
		if text := part(p); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "; ")
}

// joined joins words as in a, b and c.
func joined(words []string, last string) string {
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " " + last + " " + words[n-1]
	}
	return strings.Join(words, "")
}

func limitsText(limits []sash.Limit, unit string) string {
	var all []string
	for _, l := range limits {
		all = append(all, limitText(l, unit))
	}
	return joined(all, "and")
}

// limitText says what a limit admits, such as 5 an hour.
func limitText(l sash.Limit, unit string) string {
	if l == sash.Unlimited() {
		return "no limit"
	}
	count := humanize.Comma(l.Count)
	if unit != "" {
		count += " " + unit
	}
	switch l.Algorithm {
	case sash.Concurrency:
		return fmt.Sprintf("%s at once (for %s at most)", count, output.Short(l.Window))
	case sash.TokenBucket:
		return fmt.Sprintf("%s %s with bursts of %s", count, windowText(l.Window), humanize.Comma(l.Burst))
	case sash.SlidingCounter:
		return fmt.Sprintf("%s %s by a counter", count, windowText(l.Window))
	}
	return count + " " + windowText(l.Window)
}

func windowText(window time.Duration) string {
	switch window {
	case time.Second:
		return "a second"
	case time.Minute:
		return "a minute"
	case time.Hour:
		return "an hour"
	case 24 * time.Hour:
		return "a day"
	}
	return "in " + output.Short(window)
}

// keyText says for whom the limits are.
func keyText(k *policies.Key) string {
	if k.Kind == policies.Everyone {
		return "for all together"
	}
	return "for each " + clientText(k)
}

func clientText(k *policies.Key) string {
	var parts []string
	for i := range k.Parts {
		parts = append(parts, clientText(&k.Parts[i]))
	}
	switch k.Kind {
	case policies.ByAddress:
		return addressText(&k.Address)
	case policies.ByHeader:
		return k.Name
	case policies.ByRoute:
		return "route"
	case policies.Everyone:
		return "everyone"
	case policies.Joined:
		return joined(parts, "with")
	case policies.FirstOf:
		return strings.Join(parts, ", or else ")
	}
	return k.Name + " of the program"
}

func addressText(a *policies.Address) string {
	text := "address"
	switch {
	case a.Bits4 < 32:
		text = fmt.Sprintf("network of /%d, or /%d in IPv6", a.Bits4, a.Bits6)
	case a.Bits6 != 64:
		text = fmt.Sprintf("address, or network of /%d in IPv6", a.Bits6)
	}
	if a.Behind() {
		text += " behind the proxies"
	}
	return text
}

func plansText(p *policies.Policy) string {
	if len(p.Plans) == 0 {
		return ""
	}
	var plans []string
	for _, name := range slices.Sorted(maps.Keys(p.Plans)) {
		plans = append(plans, fmt.Sprintf("under %s %s", name, limitsText(p.Plans[name], p.Unit)))
	}
	by := "as the program says"
	if p.Plan != "" {
		by = "as the header " + p.Plan + " says"
	}
	return joined(plans, "and") + ", " + by
}

func skipText(p *policies.Policy) string {
	skipped := slices.Clone(p.Skip.Methods)
	for _, network := range p.Skip.Networks {
		skipped = append(skipped, "from "+network)
	}
	if p.Skip.Function != "" {
		skipped = append(skipped, "what "+p.Skip.Function+" of the program says")
	}
	if len(skipped) == 0 {
		return ""
	}
	return "skips " + joined(skipped, "and")
}

func costText(p *policies.Policy) string {
	switch {
	case p.Cost != nil:
		return "a request costs " + humanize.Comma(*p.Cost)
	case p.Policy.Cost != nil:
		return "a request costs what the program says"
	}
	return ""
}

func chargeText(p *policies.Policy) string {
	if len(p.Charge) == 0 {
		return ""
	}
	verb := "is"
	if len(p.Charge) > 1 {
		verb = "are"
	}
	return "only " + joined(p.Charge, "and") + " " + verb + " charged"
}

func settleText(p *policies.Policy) string {
	switch {
	case p.Settle.Bytes:
		return "settled by the bytes of the response"
	case p.Settle.Header != "":
		return "settled by the header " + p.Settle.Header + " of the response"
	case p.Settle.Estimate:
		return "settled by the handler"
	case p.Policy.Settle != nil:
		return "settled by the program"
	}
	return ""
}

func leaveText(p *policies.Policy) string {
	switch {
	case p.Leave.Amount != "":
		return "leaves " + p.Leave.Amount
	case p.Leave.Header != "":
		var classes []string
		for _, name := range slices.Sorted(maps.Keys(p.Leave.Classes)) {
			classes = append(classes, name+" leaves "+p.Leave.Classes[name])
		}
		return "by the header " + p.Leave.Header + ", " + joined(classes, "and")
	case p.Policy.Leave != nil:
		return "leaves what the program says"
	}
	return ""
}

func nearText(p *policies.Policy) string {
	if p.Near == 0 {
		return ""
	}
	return fmt.Sprintf("tells the observer when less than %d%% is left", p.Near)
}

func denialText(p *policies.Policy) string {
	answer := "429"
	if p.OfCodes() {
		answer = "RESOURCE_EXHAUSTED"
	}
	switch {
	case p.Shadow:
		return "a shadow, which denies nothing"
	case p.Queue.Wait > 0:
		return fmt.Sprintf("denied requests wait up to %s, %s at a time, and then get %s", output.Short(p.Queue.Wait), humanize.Comma(int64(p.Queue.Requests)), answer)
	}
	return "denied requests get " + answer
}
