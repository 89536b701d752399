package replay

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/seed-30da4c49/sash/cmd/sash/internal/output"
	"github.com/seed-30da4c49/sash/cmd/sash/internal/traffic"
)

// An enforcementReport is what the policies of a file have decided together.
//
// Invariant: the events of the report are NoRequest, NoRoute and those that the policies were asked about.
// Each of these was Denied, or Unidentified, or admitted, and some of the last have NoPolicy.
type enforcementReport struct {
	File  string   `json:"file"`
	Notes []string `json:"notes"` // what was assumed

	NoRequest    int64   `json:"no_request"`   // lines that are no request to net/http, which policies never see
	NoRoute      int64   `json:"no_route"`     // requests that no -route serves
	NoPolicy     int64   `json:"no_policy"`    // requests that no policy is for, or that all skip
	Denied       int64   `json:"denied"`       // requests that a policy denies, which is not a shadow
	DeniedShare  float64 `json:"denied_share"` // of all events
	Unidentified int64   `json:"unidentified"` // requests whose identity cannot be told: they are answered 400

	Policies []policyReport `json:"policies"` // in the order of the file
}

// A policyReport is what one policy has decided.
//
// Invariant: Requests = Admitted + Denied + Withheld + Unidentified.
type policyReport struct {
	Name     string `json:"name"`
	Shadow   bool   `json:"shadow"` // whether it denies nothing
	Requests int64  `json:"requests"`

	Admitted     int64   `json:"admitted"`
	Denied       int64   `json:"denied"`
	DeniedShare  float64 `json:"denied_share"` // of its requests
	Withheld     int64   `json:"withheld"`     // admitted by this policy, and denied by another
	GivenBack    int64   `json:"given_back"`   // admitted, and given back by the status of the response
	Unidentified int64   `json:"unidentified"`
	Near         int64   `json:"near"` // requests that left less than near of a limit

	Clients       int `json:"clients"`
	DeniedClients int `json:"denied_clients"` // denied at least once

	Waits *waitReport `json:"waits,omitempty"` // if it has a queue
	Units *unitReport `json:"units,omitempty"` // if it has a cost, or settles

	Top []denials `json:"top"` // the clients denied most
}

// A waitReport is the denied requests that would have waited in the queue of a policy.
type waitReport struct {
	Requests int64         `json:"requests"`
	Mean     time.Duration `json:"mean_ns"`
	Longest  time.Duration `json:"longest_ns"`
}

// A unitReport is the units of a policy.
//
// Invariant: Spent = Charged + ChargedAbove - GivenBack.
type unitReport struct {
	Asked        int64 `json:"asked"`
	Charged      int64 `json:"charged"`                // when requests were admitted
	ChargedAbove int64 `json:"charged_above_estimate"` // when they were answered
	GivenBack    int64 `json:"given_back"`
	Spent        int64 `json:"spent"`
}

// report adds what the policies have decided.
func (e *enforcement) report(on *traffic.Traffic, to *report) error {
	e.end()
	assumed, err := e.needs.assumptions(on)
	if err != nil {
		return err
	}
	to.Summary.Policy, to.Summary.Clients = e.needs.file, 0
	r := &enforcementReport{
		File: e.needs.file, Notes: append([]string{}, assumed...),
		NoRequest: e.noRequest, NoRoute: e.noRoute, NoPolicy: e.noPolicy, Unidentified: e.unidentified,
		Denied: e.denied, DeniedShare: output.Share(e.denied, on.Events),
	}
	if format := e.needs.withHeaders(on.Formats); format != "" {
		r.Notes = append(r.Notes, fmt.Sprintf("the sizes of %s are of the headers as well, so settle: bytes charges some hundred bytes more for each response", format))
	}
	r.Notes = append(r.Notes, e.shadowNotes()...)
	for _, p := range e.enforced {
		r.Policies = append(r.Policies, p.report(e.top))
	}
	to.Warnings = append(to.Warnings, e.warnings(on)...)
	to.Policies = r
	return nil
}

func (p *enforced) report(top int) policyReport {
	r := policyReport{
		Name: p.of.Name, Shadow: p.shadow, Requests: p.requests(),
		Admitted: p.admitted, Denied: p.denied, DeniedShare: output.Share(p.denied, p.requests()),
		Withheld: p.withheld, GivenBack: p.givenBack, Unidentified: p.unidentified, Near: p.near,
		Clients: len(p.identities), DeniedClients: len(p.tallies),
		Top: p.tallies.top(top, p.nameOf, p.counts),
	}
	if p.of.Queue.Wait > 0 {
		r.Waits = &waitReport{Requests: p.waiting, Longest: p.longest}
		if p.waiting > 0 {
			r.Waits.Mean = p.waited / time.Duration(p.waiting)
		}
	}
	if p.of.Cost != nil || p.of.Policy.Settle != nil {
		r.Units = &unitReport{p.asked, p.charged, p.above, p.back, p.charged + p.above - p.back}
	}
	return r
}

// shadowNotes says how the shadows of the file were replayed.
func (e *enforcement) shadowNotes() []string {
	switch names := e.shadows(); {
	case names == "":
		return nil
	case e.shadow:
		return []string{"the shadows of the file deny nothing: " + names}
	default:
		return []string{"the shadows of the file are replayed as if they were enforced: " + names + "; -shadow lets them deny nothing"}
	}
}

// warnings returns what makes the answers doubtful.
func (e *enforcement) warnings(on *traffic.Traffic) (all []string) {
	for _, p := range e.enforced {
		if share := output.Share(p.unidentified, p.requests()); share > manyUnidentified {
			all = append(all, fmt.Sprintf("%s of the requests of %q have no identity, and are answered 400: an address that is a host name, and a header that is missing or sent twice, tell none", output.Percent(share), p.of.Name))
		}
		if text := p.proxies(); text != "" {
			all = append(all, text)
		}
	}
	if n := e.describer.fromProxies; n > 0 && !e.needs.named(on) {
		all = append(all, fmt.Sprintf("%s from trusted proxies, and the log names no clients behind them: each proxy is limited as one client; log what the proxies say of the client", traffic.Count(n, "request is", "requests are")))
	}
	return all
}

// manyUnidentified is the share of requests without an identity that is reported.
const manyUnidentified = 0.01

// proxies returns a warning if p tells clients apart by the address of the connection, and nearly all requests
// are of a few addresses that may be proxies.
func (p *enforced) proxies() string {
	if !p.of.Key.IsAddress() || p.of.Key.Address.Behind() {
		return ""
	}
	events := make(map[string]int64, len(p.identities))
	for i := range p.identities {
		events[p.nameOf(uint32(i))] += p.counts[i]
	}
	few := traffic.LikelyProxies(events)
	if few == "" {
		return ""
	}
	return fmt.Sprintf("%s, under %q: if they are proxies, name them by trust-proxies, or their clients are limited as one", few, p.of.Name)
}

// text writes the report for human readers.
func (r *enforcementReport) text(w io.Writer) {
	for _, note := range r.Notes {
		fmt.Fprintf(w, "NOTE: %s\n", note)
	}
	fmt.Fprintf(w, "\n%s denied, %s of all\n", output.Count(r.Denied, "request"), output.Percent(r.DeniedShare))
	for _, count := range []struct {
		n    int64
		text string
	}{
		{r.Unidentified, "answered 400, as no identity can be told"},
		{r.NoPolicy, "without a policy"},
		{r.NoRoute, "that no -route serves"},
	} {
		if count.n > 0 {
			fmt.Fprintf(w, "%s %s\n", output.Count(count.n, "request"), count.text)
		}
	}
	if r.NoRequest > 0 {
		fmt.Fprintf(w, "%s, which policies never see\n", traffic.Count(r.NoRequest, "line that is no request", "lines that are no requests"))
	}
	r.outcomes(w)
	r.waits(w)
	r.units(w)
	for _, p := range r.Policies {
		topText(w, p.Name, p.Top)
	}
}

// outcomes writes a table with a row for each policy.
func (r *enforcementReport) outcomes(w io.Writer) {
	fmt.Fprintln(w)
	table := output.NewTable(w)
	fmt.Fprintln(table, "requests\tadmitted\tdenied\tof requests\twithheld\tgiven back\tclients\tclients denied\t  policy")
	for _, p := range r.Policies {
		name := p.Name
		if p.Shadow {
			name += " (a shadow)"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t  %s\n",
			humanize.Comma(p.Requests), humanize.Comma(p.Admitted), humanize.Comma(p.Denied), output.Percent(p.DeniedShare),
			humanize.Comma(p.Withheld), humanize.Comma(p.GivenBack), humanize.Comma(int64(p.Clients)), humanize.Comma(int64(p.DeniedClients)), name)
	}
	table.Flush()
	for _, p := range r.Policies {
		if p.Near > 0 {
			fmt.Fprintf(w, "%s: %s left less than near\n", p.Name, output.Count(p.Near, "request"))
		}
	}
}

// waits writes which denied requests would have waited.
func (r *enforcementReport) waits(w io.Writer) {
	for _, p := range r.Policies {
		if p.Waits == nil {
			continue
		}
		fmt.Fprintf(w, "%s: %s of the denied would have waited in its queue", p.Name, humanize.Comma(p.Waits.Requests))
		if p.Waits.Requests > 0 {
			fmt.Fprintf(w, ", %v in the mean and %v at most", p.Waits.Mean.Round(time.Millisecond), p.Waits.Longest.Round(time.Millisecond))
		}
		fmt.Fprintln(w)
	}
}

// units writes the units of the policies that have a cost, or settle.
func (r *enforcementReport) units(w io.Writer) {
	if !slices.ContainsFunc(r.Policies, func(p policyReport) bool { return p.Units != nil }) {
		return
	}
	fmt.Fprintln(w, "\nin units")
	table := output.NewTable(w)
	fmt.Fprintln(table, "asked\tcharged\tcharged above\tgiven back\tspent\t  policy")
	for _, p := range r.Policies {
		u := p.Units
		if u == nil {
			continue
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t  %s\n", humanize.Comma(u.Asked), humanize.Comma(u.Charged),
			humanize.Comma(u.ChargedAbove), humanize.Comma(u.GivenBack), humanize.Comma(u.Spent), p.Name)
	}
	table.Flush()
}
