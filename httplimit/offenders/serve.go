package offenders

import (
	"bytes"
	"cmp"
	"crypto/rand"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// defaultRows is the number of clients that are shown unless a request says otherwise.
const defaultRows = 50

// ServeHTTP answers GET and HEAD with the report, as a page in HTML, or as a [Report] in JSON to a
// request that prefers application/json by its Accept. The parameters of a query are optional:
//
//   - format: html or json, whatever is accepted
//   - policy: shows only clients denied by the policy of that name
//   - n: the number of clients to show, 50 by default; 0 shows all. The other fields of a
//     Report are about all of them.
//
// A wrong parameter is answered 400, and another method 405. The page loads nothing, and has no
// script.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "offenders: this page is only read, by GET", http.StatusMethodNotAllowed)
		return
	}
	v, err := parseView(r)
	if err != nil {
		http.Error(w, "offenders: "+err.Error(), http.StatusBadRequest)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	report := p.Report()
	if v.json {
		report.Clients = v.cut(v.matching(report.Clients))
		writeJSON(w, report)
	} else {
		writePage(w, p.document(report, v))
	}
}

// A view is what a request asks to be shown.
type view struct {
	json   bool
	policy string // empty: of all policies
	rows   int    // 0: all
}

// parseView returns the view that a request asks for.
func parseView(r *http.Request) (v view, err error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return v, fmt.Errorf("the query cannot be read: %w", err)
	}
	v = view{policy: query.Get("policy"), rows: defaultRows}
	switch format := query.Get("format"); format {
	case "":
		v.json = prefersJSON(r.Header.Values("Accept"))
	case "html", "json":
		v.json = format == "json"
	default:
		return v, fmt.Errorf("format must be html or json, got %q", format)
	}
	if n := query.Get("n"); n != "" {
		if v.rows, err = strconv.Atoi(n); err != nil || v.rows < 0 {
			return v, fmt.Errorf("n must be a number of clients, or 0 for all, got %q", n)
		}
	}
	return v, nil
}

// prefersJSON reports whether a request with those Accept headers prefers JSON to HTML. One that
// accepts both alike, such as a request without the header, gets HTML.
func prefersJSON(accept []string) bool {
	return acceptance(accept, "application/json") > acceptance(accept, "text/html")
}

// acceptance returns the quality that Accept headers give to a media type. The closest range decides.
// Without any, it is 0.
func acceptance(accept []string, mediaType string) (quality float64) {
	kind, _, _ := strings.Cut(mediaType, "/")
	ranges := []string{"*/*", kind + "/*", mediaType} // the closest is last
	closest := -1
	for element := range strings.SplitSeq(strings.Join(accept, ","), ",") {
		name, parameters, err := mime.ParseMediaType(element)
		if err != nil {
			continue
		}
		q, err := strconv.ParseFloat(cmp.Or(parameters["q"], "1"), 64)
		if i := slices.Index(ranges, name); err == nil && i > closest {
			closest, quality = i, q
		}
	}
	return quality
}

// matching returns the clients that v may show, and uses their memory.
func (v view) matching(clients []Client) []Client {
	if v.policy == "" {
		return clients
	}
	return slices.DeleteFunc(clients, func(c Client) bool { return c.Policy != v.policy })
}

// cut returns the clients at the beginning of those that match which v shows.
func (v view) cut(clients []Client) []Client {
	if v.rows == 0 {
		return clients
	}
	return clients[:min(v.rows, len(clients))]
}

func writeJSON(w http.ResponseWriter, r Report) {
	w.Header().Set("Content-Type", "application/json")
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	_ = encoder.Encode(r) // the client may have hung up
}

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"ago": ago, "digits": digits, "stamp": func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
}).Parse(pageHTML))

// A document is what the template of the page is filled with.
type document struct {
	Report
	Nonce    string
	Policies []string // that have denied anything, and Policy
	Policy   string   // the only one shown; empty: all
	Rows     int      // the most clients shown; 0: all
	Total    int      // clients that could be shown
	Most     int64    // denials of the first client
	Named    bool     // whether clients are named
	Nameless bool     // whether events do not tell some clients apart
	Covered  time.Duration
}

func (p *Page) document(r Report, v view) document {
	d := document{Report: r, Policy: v.policy, Rows: v.rows, Named: p.Name != nil, Covered: r.Time.Sub(r.Since)}
	if v.policy != "" {
		d.Policies = append(d.Policies, v.policy)
	}
	for _, c := range r.Clients {
		d.Policies = append(d.Policies, c.Policy)
		d.Nameless = d.Nameless || c.unknown
	}
	slices.Sort(d.Policies)
	d.Policies = slices.Compact(d.Policies)
	d.Clients = v.matching(r.Clients)
	d.Total = len(d.Clients)
	if d.Clients = v.cut(d.Clients); len(d.Clients) > 0 {
		d.Most = d.Clients[0].Denials
	}
	return d
}

// Share returns the length of the bar of a number of denials, from 0 to 100.
func (d document) Share(denials int64) int64 { return denials * 100 / d.Most }

func writePage(w http.ResponseWriter, d document) {
	d.Nonce = rand.Text()
	var page bytes.Buffer
	if err := pageTemplate.Execute(&page, d); err != nil {
		panic(err) // of the template: it is filled with plain values
	}
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+d.Nonce+
		"'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page.Bytes()) // the client may have hung up
}

// ago returns the text of a time that has passed, in its largest unit.
func ago(d time.Duration) string {
	d = max(0, d)
	for _, u := range []struct {
		name string
		unit time.Duration
	}{{"d", 24 * time.Hour}, {"h", time.Hour}, {"min", time.Minute}} {
		if d >= 2*u.unit {
			return fmt.Sprintf("%d %s", d/u.unit, u.name)
		}
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// digits returns n with a comma between groups of three digits.
func digits(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
