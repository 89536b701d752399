package offenders_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit/offenders"
)

// get serves a request such as "GET /?n=1" with headers: pairs of name and value.
func get(page *offenders.Page, request string, headers ...string) *httptest.ResponseRecorder {
	method, target, _ := strings.Cut(request, " ")
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	page.ServeHTTP(w, r)
	return w
}

// tags are the elements of a page.
var tags = regexp.MustCompile(`<[^>]*>`)

// text returns the words that a page shows, with single spaces between them.
func text(w *httptest.ResponseRecorder) string {
	_, body, _ := strings.Cut(w.Body.String(), "<body>")
	return strings.Join(strings.Fields(tags.ReplaceAllString(body, " ")), " ")
}

func TestServeHTTP_ShowsAPage(t *testing.T) {
	clock := sash.NewManualClock(0)
	page := &offenders.Page{Size: 2, Clock: clock}
	require.Contains(t, text(get(page, "GET /")), "0 denials in the last 0 s, since")
	require.Contains(t, text(get(page, "GET /")), "No client was denied.")
	for range 1234 {
		page.Observe(denial("login", 1))
	}
	clock.Advance(3 * time.Minute)
	tried := denial("tried", 2)
	tried.Shadow = true
	page.Observe(tried)
	clock.Advance(15 * time.Second)
	w := get(page, "GET /")
	require.Equal(t, 200, w.Code)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	shown := text(w)
	require.Contains(t, shown, "1,235 denials in the last 3 min, since")
	require.Contains(t, shown, "All counts are exact.")
	require.Contains(t, shown, "2 of 2 clients, those denied most first")
	require.Contains(t, shown, "0000000000000001 login 5/1m0s log 1,234 0 3 min ago 3 min ago")
	require.Contains(t, shown, "0000000000000002 tried (shadow) 5/1m0s log 1 0 15 s ago 15 s ago")
	require.Contains(t, shown, "with 2 counters for each of two periods")
	require.NotContains(t, shown, "Some events tell no client")

	page.Observe(denial("login", 3))
	shown = text(get(page, "GET /"))
	require.Contains(t, shown, "1,236 denials")
	require.Contains(t, shown, "A client without a counter was denied no more than 1 times.")
	require.Contains(t, shown, "0000000000000003 login 5/1m0s log 2 1 0 s ago 0 s ago")
	require.Contains(t, get(page, "GET /").Body.String(), `<rect class="bound" width="100" height="4"></rect><rect width="100" height="4">`)
}

// A denial by a limit of what is at once is told apart from one by a rate.
func TestServeHTTP_TellsWhatIsHeldApart(t *testing.T) {
	page := new(offenders.Page)
	held := denial("export", 1)
	held.Decision.Limit = sash.AtOnce(2, time.Minute)
	page.Observe(held)
	page.Observe(denial("api", 2))
	html := get(page, "GET /").Body.String()
	require.Contains(t, html, `<td class="limit">2 at once for 1m0s</td>`)
	require.Contains(t, html, `<td class="limit">5/1m0s log</td>`)
	require.Contains(t, get(page, "GET /", "Accept", "application/json").Body.String(), `"2 at once for 1m0s"`)
}

// Everything of an event is hostile: keys are what clients send.
func TestServeHTTP_EscapesWhatClientsSend(t *testing.T) {
	hostile := "\"'><script>alert(1)</script>\u202e{{.}}&amp;\x00"
	page := &offenders.Page{Clock: sash.NewManualClock(0), Name: offenders.Identity}
	e := denial(`<b>"policy`, 0)
	e.Identity = hostile
	page.Observe(e)
	for _, query := range []string{"", "?policy=%3Cb%3E%22policy", "?policy=%22%3E%3Cscript%3Ealert(2)%3C%2Fscript%3E"} {
		body := get(page, "GET /"+query).Body.String()
		require.NotContains(t, body, "<script", query)
		require.NotContains(t, body, "<b>", query)
		require.NotContains(t, body, "\u202e", query)
		require.NotContains(t, body, "\x00", query)
		require.NotRegexp(t, `="[^"]*<`, body, query)
		require.Equal(t, 1, strings.Count(body, "<main>"), query)
	}
	w := get(page, "GET /?format=json")
	require.NotContains(t, w.Body.String(), "<")
	var r offenders.Report
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &r))
	require.Equal(t, `"\"'><script>alert(1)</script>\u202e{{.}}&amp;\x00"`, r.Clients[0].Name)
	require.Equal(t, `<b>"policy`, r.Clients[0].Policy)
}

func TestServeHTTP_LetsAPageDoNothing(t *testing.T) {
	page := &offenders.Page{Clock: sash.NewManualClock(0)}
	page.Observe(denial("each", 1))
	w := get(page, "GET /")
	h := w.Header()
	require.Equal(t, "no-store", h.Get("Cache-Control"))
	require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
	require.Equal(t, "no-referrer", h.Get("Referrer-Policy"))
	policy := regexp.MustCompile(`^default-src 'none'; style-src 'nonce-(\w{20,})'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'$`).
		FindStringSubmatch(h.Get("Content-Security-Policy"))
	require.NotNil(t, policy)
	body := w.Body.String()
	require.Contains(t, body, `<style nonce="`+policy[1]+`">`)
	require.NotContains(t, get(page, "GET /").Body.String(), policy[1], "each page has its own")
	require.NotRegexp(t, `(?i)<script|\bon\w+=|style=|src=|https?:|@import|url\(`, body)
	require.NotContains(t, body, "ZgotmplZ")
}

// What the page needs for readers of all kinds: a language, a title, headings of rows and columns,
// a caption, labels, and both colour schemes.
func TestServeHTTP_ShowsAPageForEveryReader(t *testing.T) {
	page := &offenders.Page{Clock: sash.NewManualClock(0)}
	page.Observe(denial("each", 1))
	body := get(page, "GET /").Body.String()
	for _, want := range []string{
		`<html lang="en">`, "<title>Offenders: 1 denials</title>", "<h1>", "<main>", "<caption", `<th scope="col"`, `<th scope="row"`,
		`name="viewport"`, "prefers-color-scheme: dark", `aria-labelledby="shown"`, "<label>Policy <select", `aria-hidden="true"`,
	} {
		require.Contains(t, body, want)
	}
	for _, element := range []string{"main", "table", "thead", "tbody", "tr", "th", "td", "form", "label", "select", "option", "p", "svg", "rect", "time", "style"} {
		opened := len(regexp.MustCompile(`<`+element+`[ >]`).FindAllString(body, -1))
		require.Equal(t, opened, strings.Count(body, "</"+element+">"), element)
	}
}

func TestServeHTTP_AnswersInTheFormatThatIsAskedFor(t *testing.T) {
	page := &offenders.Page{Clock: sash.NewManualClock(0)}
	const html, json = "text/html; charset=utf-8", "application/json"
	for _, c := range []struct{ request, accept, want string }{
		{"GET /", "", html},
		{"GET /", "*/*", html},
		{"GET /", "application/json", json},
		{"GET /", "Application/JSON; charset=utf-8", json},
		{"GET /", "text/html,application/xhtml+xml,*/*;q=0.8", html},
		{"GET /", "text/html;q=0.5, application/json;q=0.9", json},
		{"GET /", "application/*", json},
		{"GET /", "application/json;q=0", html},
		{"GET /", "*/*;q=0.9, text/html;q=0.1", json},
		{"GET /", "nonsense;;;, application/json", json},
		{"GET /?format=json", "text/html", json},
		{"GET /?format=html", "application/json", html},
	} {
		w := get(page, c.request, "Accept", c.accept)
		require.Equal(t, c.want, w.Header().Get("Content-Type"), c)
		require.Equal(t, "Accept", w.Header().Get("Vary"))
		require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	}
}

func TestServeHTTP_AnswersInJSON(t *testing.T) {
	clock := sash.NewManualClock(0)
	page := &offenders.Page{Clock: clock}
	empty := get(page, "GET /?format=json").Body.String()
	require.Regexp(t, `"clients": \[\]`, empty, "not null")
	page.Observe(denial("login", 255))
	clock.Advance(time.Minute)
	var got struct {
		Time, Since              time.Time
		Denials, Size, Max_error int
		Clients                  []map[string]any
	}
	require.NoError(t, json.Unmarshal(get(page, "GET /?format=json").Body.Bytes(), &got))
	require.Equal(t, time.Minute, got.Time.Sub(got.Since))
	require.Equal(t, []int{1, 1000, 0}, []int{got.Denials, got.Size, got.Max_error})
	require.Len(t, got.Clients, 1)
	c := got.Clients[0]
	require.Equal(t, c["first"], c["last"])
	delete(c, "first")
	delete(c, "last")
	require.Equal(t, map[string]any{
		"policy": "login", "client": "00000000000000ff", "denials": 1.0, "error": 0.0, "limit": "5/1m0s log",
	}, c)
}

func TestServeHTTP_ShowsThePolicyAndAsManyAsAreAskedFor(t *testing.T) {
	page := &offenders.Page{Clock: sash.NewManualClock(0)}
	for i := range uint64(60) {
		for range i + 1 {
			page.Observe(denial([]string{"even", "odd"}[i%2], 1+i))
		}
	}
	for _, c := range []struct {
		query   string
		clients int
		most    string
		caption string
	}{
		{"", 50, name(60), "50 of 60 clients, those"},
		{"?n=2", 2, name(60), "2 of 60 clients, those"},
		{"?n=0", 60, name(60), "60 of 60 clients, those"},
		{"?n=0&policy=even", 30, name(59), "30 of 30 clients of policy even, those"},
		{"?policy=odd&n=1", 1, name(60), "1 of 30 clients of policy odd, those"},
		{"?policy=none", 0, "", "The policy none has denied no client."},
	} {
		var r offenders.Report
		require.NoError(t, json.Unmarshal(get(page, "GET /"+c.query, "Accept", "application/json").Body.Bytes(), &r))
		require.Len(t, r.Clients, c.clients, c.query)
		if c.clients > 0 {
			require.Equal(t, c.most, r.Clients[0].Name, c.query)
		}
		require.EqualValues(t, 60*61/2, r.Denials, "of all")
		require.Contains(t, text(get(page, "GET /"+c.query)), c.caption)
	}
	body := get(page, "GET /?policy=odd&n=7").Body.String()
	require.Contains(t, body, `<option value="odd" selected>odd</option>`)
	require.Contains(t, body, `<option value="even">even</option>`)
	require.Contains(t, body, `value="7"`)
	require.Contains(t, body, `href="?format=json&amp;policy=odd&amp;n=7"`)
}

func TestServeHTTP_SaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		request string
		code    int
		want    string
	}{
		{"GET /?format=xml", 400, `offenders: format must be html or json, got "xml"`},
		{"GET /?n=many", 400, `offenders: n must be a number of clients, or 0 for all, got "many"`},
		{"GET /?n=-1", 400, `offenders: n must be a number of clients, or 0 for all, got "-1"`},
		{"GET /?n=%zz", 400, `offenders: the query cannot be read: invalid URL escape "%zz"`},
		{"POST /", 405, "offenders: this page is only read, by GET"},
	} {
		w := get(new(offenders.Page), c.request)
		require.Equal(t, c.code, w.Code, c.request)
		require.Equal(t, c.want, strings.TrimSpace(w.Body.String()))
	}
	require.Equal(t, "GET, HEAD", get(new(offenders.Page), "DELETE /").Header().Get("Allow"))
	require.Equal(t, http.StatusOK, get(new(offenders.Page), "HEAD /").Code)
}

func TestServeHTTP_SaysThatEventsTellNoClient(t *testing.T) {
	for _, c := range []struct {
		page *offenders.Page
		want string
	}{
		{&offenders.Page{}, "httplimit.WithEventFingerprints(httplimit.Denied)"},
		{&offenders.Page{Name: offenders.Identity}, "httplimit.WithEventIdentities(httplimit.Denied)"},
	} {
		c.page.Clock = sash.NewManualClock(0)
		c.page.Observe(denial("each", 0))
		shown := text(get(c.page, "GET /"))
		require.Contains(t, strings.ReplaceAll(shown, "httplimit. ", "httplimit."), c.want)
		require.Contains(t, shown, "unknown each")
	}
}
