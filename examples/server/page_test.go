package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// A visit is the page, open in a browser, with a service on a manual clock.
type visit struct {
	*browser
	clock            *sash.ManualClock
	server           *httptest.Server
	finish           chan struct{} // a receive from it ends an export
	admitted, denied atomic.Int64  // requests with a cost, by the decision of the service
}

// newVisit returns nil if there is no browser. The wraps stand around the service.
func newVisit(t *testing.T, wraps ...func(http.Handler) http.Handler) *visit {
	return newVisitUnder(t, defaultLimits(), wraps...)
}

// newVisitUnder is newVisit of a service under those limits.
func newVisitUnder(t *testing.T, l limits, wraps ...func(http.Handler) http.Handler) *visit {
	v := &visit{browser: startBrowser(t), clock: sash.NewManualClock(0), finish: make(chan struct{})}
	if v.browser == nil {
		return nil
	}
	var service http.Handler = newTestServiceOf(t, config{limits: l, report: until(v.finish)},
		httplimit.WithClock(v.clock), httplimit.WithObserver(func(e httplimit.Event) {
			switch {
			case e.Cost > 0 && e.Outcome == httplimit.Admitted:
				v.admitted.Add(1)
			case e.Cost > 0 && e.Outcome == httplimit.Denied:
				v.denied.Add(1)
			}
		}))
	for _, wrap := range wraps {
		service = wrap(service)
	}
	v.server = httptest.NewServer(service)
	t.Cleanup(func() {
		v.server.CloseClientConnections() // the browser may still read exports
		v.server.Close()
	})
	v.resize(1280, 800, false)
	v.open(v.server.URL + "/")
	return v
}

// until returns a report that writes a line, and ends with a receive from finish.
func until(finish <-chan struct{}) report {
	return func(ctx context.Context, w io.Writer) error {
		fmt.Fprintln(w, "begun")
		select {
		case <-finish:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// skip moves the page's own clock.
func (v *visit) skip(d time.Duration) {
	v.t.Helper()
	v.eval(fmt.Sprintf(`(() => {
		if (!window.read) [window.ahead, window.read] = [0, performance.now.bind(performance)];
		performance.now = () => read() + ahead;
		ahead += %d;
	})()`, d.Milliseconds()), nil)
}

// shows waits until an element of a route's row has that text.
func (v *visit) shows(route, selector, want string) {
	v.t.Helper()
	v.await(fmt.Sprintf("document.querySelector('[data-route=%s] %s').textContent === %q", route, selector, want))
}

func (v *visit) send(route string, times int) {
	v.t.Helper()
	for _, button := range []int{10, 1} {
		for ; times >= button; times -= button {
			v.click(fmt.Sprintf("[data-route=%s] [data-send='%d']", route, button))
		}
	}
}

// pixels counts the pixels of a route's chart that have the colour of a CSS variable.
func (v *visit) pixels(route, color string) (count int) {
	v.t.Helper()
	v.eval(fmt.Sprintf(`new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => {
		const canvas = document.querySelector("[data-route=%s] canvas"), one = document.createElement("canvas").getContext("2d");
		one.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--%s");
		one.fillRect(0, 0, 1, 1);
		const [r, g, b] = one.getImageData(0, 0, 1, 1).data;
		const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
		let count = 0;
		for (let i = 0; i < data.length; i += 4) count += data[i] === r && data[i + 1] === g && data[i + 2] === b;
		resolve(count);
	})))`, route, color), &count)
	return count
}

func TestPage_ShowsWhatTheServiceAnswers(t *testing.T) {
	v := newVisit(t)
	if v == nil {
		return
	}
	v.shows("hello", ".quota", "20")
	v.shows("hello", ".limit", "20/10s")
	v.shows("hello", ".curl code", "curl -i "+v.server.URL+"/hello")
	require.Zero(t, v.pixels("hello", "denied"))

	v.send("hello", 10)
	v.shows("hello", ".remaining b", "10")
	v.clock.Advance(5 * time.Second)
	v.send("hello", 20)
	v.shows("hello", "dd.admitted", "20")
	v.shows("hello", "dd.denied", "10")
	v.shows("hello", ".remaining b", "0")
	v.await("/^[0-9.]+ s$/.test(document.querySelector('[data-route=hello] .retry b').textContent)")
	v.await("document.querySelector('[data-route=hello] .answer').textContent.includes('Retry-After: 5')")
	require.EqualValues(t, 20, v.admitted.Load())
	require.EqualValues(t, 10, v.denied.Load())
	require.Greater(t, v.pixels("hello", "denied"), 10, "crosses, most of them on each other")
	require.Greater(t, v.pixels("hello", "admitted"), 20*10, "twenty dots")

	// The window slides: of sixteen parts, so a unit counts for at most a sixteenth longer than ten seconds.
	v.clock.Advance(5*time.Second + 10*time.Second/16)
	v.shows("hello", ".remaining b", "10")
	v.clock.Advance(5 * time.Second)
	v.shows("hello", ".remaining b", "20")
	v.shows("hello", ".more", "the full quota")
	require.EqualValues(t, 20, v.admitted.Load(), "the page asks, and is charged nothing")
}

func TestPage_CountsEachKeyForItself(t *testing.T) {
	v := newVisit(t)
	if v == nil {
		return
	}
	v.send("quote", 10)
	v.shows("quote", ".remaining b", "2")
	v.click("[name=key][value=demo-bob] + span")
	v.shows("quote", ".remaining b", "12")
	v.shows("quote", "dd.admitted", "0")
	v.shows("quote", ".curl code", "curl -i -H 'X-API-Key: demo-bob' "+v.server.URL+"/quote")
	v.send("quote", 1)
	v.shows("quote", ".remaining b", "11")
	v.click("[name=key][value=''] + span")
	v.send("quote", 1)
	v.shows("quote", ".answer b", "400 Bad Request")
	v.shows("quote", ".remaining b", "–")
	v.click("[name=key][value=demo-alice] + span")
	v.shows("quote", ".remaining b", "2")
	v.shows("quote", "dd.admitted", "10")
	require.EqualValues(t, 11, v.admitted.Load())
}

func TestPage_GivesBackLoginsThatSucceed(t *testing.T) {
	v := newVisit(t)
	if v == nil {
		return
	}
	v.send("login", 10)
	v.shows("login", "dd.admitted", "5")
	v.shows("login", "dd.denied", "5")
	v.click("[name=password][value=sash] + span")
	v.send("login", 1)
	v.shows("login", "dd.denied", "6")
	v.shows("login", ".remaining b", "0")
	v.clock.Advance(20 * time.Second)
	for i := range 3 {
		v.send("login", 1)
		v.shows("login", "dd.admitted", fmt.Sprint(6+i))
	}
	v.shows("login", ".answer b", "200 OK")
	v.shows("login", ".remaining b", "5")
	v.shows("login", ".more", "the full quota")
}

// The page cannot query how much is left of the logins. It estimates that from its own
// failures, and learns the charges of others from the next answer.
func TestPage_EstimatesWhatIsLeftOfLogins(t *testing.T) {
	v := newVisit(t)
	if v == nil {
		return
	}
	v.shows("hello", ".remaining b", "20")
	v.shows("login", ".remaining b", "–")
	v.shows("login", ".more", "told with an attempt")
	chart := "document.querySelector('[data-route=login] canvas').ariaLabel"
	v.await(chart + ".startsWith('No request was sent yet')")
	v.send("login", 1)
	v.await(chart + ".startsWith('The last 20 seconds')")
	v.shows("login", ".remaining b", "4")
	for range 2 { // by another client at the same address
		response, err := http.PostForm(v.server.URL+"/login", url.Values{"account": {"alice"}, "password": {"x"}})
		require.NoError(t, err)
		response.Body.Close()
	}
	v.shows("login", ".remaining b", "4")
	v.send("login", 1)
	v.shows("login", ".remaining b", "1")
	v.send("login", 1)
	v.shows("login", ".remaining b", "0")
	v.clock.Advance(20 * time.Second)
	v.send("login", 1)
	v.shows("login", ".remaining b", "4")
}

// Of a token bucket, the page shows what it holds and the time in which it fills. It polls
// the quota of /hello. It cannot query the quota of the logins, so it estimates what flows back.
func TestPage_ShowsATokenBucket(t *testing.T) {
	limits := defaultLimits()
	limits.Hello, limits.Login = sash.PerSecond(2).TokenBucket(20), sash.PerMinute(1).TokenBucket(3)
	v := newVisitUnder(t, limits)
	if v == nil {
		return
	}
	v.shows("hello", ".limit", "2/1s burst 20")
	v.shows("hello", ".how", "Units flow back one by one.")
	v.shows("hello", ".quota", "20")
	v.send("hello", 30)
	v.shows("hello", "dd.admitted", "20")
	v.shows("hello", "dd.denied", "10")
	v.shows("hello", ".remaining b", "0")
	v.clock.Advance(5 * time.Second)
	v.shows("hello", ".remaining b", "10")
	v.clock.Advance(5 * time.Second)
	v.shows("hello", ".remaining b", "20")
	v.shows("hello", ".more", "the full quota")

	v.send("login", 1)
	v.shows("login", ".quota", "3")
	v.shows("login", ".remaining b", "2")
	response, err := http.PostForm(v.server.URL+"/login", url.Values{"account": {"alice"}, "password": {"x"}}) // by another client
	require.NoError(t, err)
	response.Body.Close()
	v.send("login", 1)
	v.shows("login", ".remaining b", "0")
	for left := range 3 { // a unit flows back each minute, by the page's own clock
		v.skip(time.Minute)
		v.shows("login", ".remaining b", fmt.Sprint(left+1))
	}
	v.shows("login", ".more", "the full quota")

	// The service's clock stands still, so its bucket is still empty. The next answer says so.
	v.send("login", 1)
	v.shows("login", "dd.denied", "1")
	v.shows("login", ".remaining b", "0")
	v.clock.Advance(time.Minute)
	v.click("[name=password][value=sash] + span")
	v.send("login", 1)
	v.shows("login", ".answer b", "200 OK")
	v.shows("login", ".remaining b", "1")
}

// A request holds its unit until its response has ended, and so long its bar grows. A client that
// hangs up gives its unit back at once.
func TestPage_ShowsWhatIsHeld(t *testing.T) {
	v := newVisit(t)
	if v == nil {
		return
	}
	const perBar = 500 * 5 // pixels, at the least, of a bar across the chart
	v.shows("export", ".limit", "3 at once for 30s")
	v.shows("export", ".how", "Held until the response has ended.")
	v.shows("export", ".remaining b", "3")
	v.shows("export", ".more", "0 held now")
	v.send("export", 10)
	v.shows("export", "dd.admitted", "3")
	v.shows("export", "dd.denied", "7")
	v.shows("export", ".remaining b", "0")
	v.shows("export", ".more", "3 held now")
	v.await("document.querySelector('[data-route=export] .answer').textContent.includes('Retry-After: 1')")
	require.EqualValues(t, 3, v.admitted.Load())
	require.EqualValues(t, 7, v.denied.Load())
	require.Greater(t, v.pixels("export", "denied"), 10, "crosses")
	v.skip(time.Minute)
	across := v.pixels("export", "admitted")
	require.Greater(t, across, 3*perBar, "a bar leaves the chart with its end only")

	v.eval("document.querySelector('[data-route=login] input[type=range]').focus()", nil)
	v.press("Tab", 9)
	v.await("document.activeElement.hasAttribute('data-hang-up')")
	require.Zero(t, v.pixels("export", "refused"))
	v.click("[data-hang-up]")
	v.shows("export", ".remaining b", "1")
	v.shows("export", ".more", "2 held now")
	require.NotZero(t, v.pixels("export", "refused"), "a stroke at the end of the bar")
	v.finish <- struct{}{}
	v.shows("export", ".remaining b", "2")
	v.skip(5 * time.Second)
	require.Less(t, v.pixels("export", "admitted"), across*5/6, "two of three bars are half as long, or shorter")
	v.skip(time.Minute)
	one := v.pixels("export", "admitted")
	require.Greater(t, one, perBar)
	require.Less(t, one, across/2, "the others have ended")

	v.send("export", 2) // into the lanes that are free
	v.shows("export", ".remaining b", "0")
	v.shows("export", "dd.admitted", "5")
	v.skip(time.Minute)
	require.Greater(t, v.pixels("export", "admitted"), 3*perBar)
	close(v.finish)
	v.shows("export", ".remaining b", "3")
	v.shows("export", ".more", "0 held now")
	v.skip(time.Minute)
	require.Less(t, v.pixels("export", "admitted"), perBar)
	v.await("document.querySelector('[data-route=export] .spoken').textContent.startsWith('export: 3 of 3 left')")
}

// Any route may have a limit on what is under way, and /export a rate.
func TestPage_ShowsTheLimitsThatItIsGiven(t *testing.T) {
	limits := defaultLimits()
	limits.Hello, limits.Login, limits.Export = sash.AtOnce(3, time.Minute), sash.AtOnce(2, time.Minute), sash.PerMinute(2).Log()
	v := newVisitUnder(t, limits)
	if v == nil {
		return
	}
	for route, quota := range map[string]string{"hello": "3", "login": "2"} {
		v.send(route, 1)
		v.shows(route, "dd.admitted", "1")
		v.shows(route, ".quota", quota)
		v.shows(route, ".remaining b", quota)
		v.shows(route, ".more", "0 held now")
		v.await(fmt.Sprintf("document.querySelector('[data-route=%s] canvas').ariaLabel.startsWith('The last 10 seconds')", route))
	}
	v.send("export", 3)
	v.shows("export", "dd.admitted", "2")
	v.shows("export", "dd.denied", "1")
	v.click("[data-hang-up]")
	close(v.finish)
	v.shows("export", ".remaining b", "0")
	v.clock.Advance(time.Minute)
	v.shows("export", ".remaining b", "2")
	v.shows("export", ".more", "the full quota")
}

// An answer is marked as past once its time is over, until the next answer.
func TestPage_MarksAnAnswerAsPast(t *testing.T) {
	v := newVisit(t)
	if v == nil {
		return
	}
	v.eval(`window.marks = []; new MutationObserver(() => {
		const answer = document.querySelector("[data-route=hello] .answer");
		const mark = answer.querySelector("i")?.textContent + " " + answer.classList.contains("past");
		if (answer.querySelector("b").textContent && marks.at(-1) !== mark) marks.push(mark);
	}).observe(document.querySelector("[data-route=hello] .answer"), {attributes: true, childList: true, subtree: true})`, nil)
	for range 2 {
		v.eval("marks = []", nil)
		v.send("hello", 1)
		v.shows("hello", ".answer i", "now")
		v.await("marks.at(-1) === 'now false'")
		v.skip(time.Minute)
		v.await("marks.at(-1) === 'past true'")
	}
	v.shows("hello", ".answer b", "200 OK")
}

// The cards and their parts do not move after the page has loaded, whatever is shown in
// them, at any size of the window.
func TestPage_CardsDoNotJump(t *testing.T) {
	known := make(chan struct{})
	v := newVisit(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/limits" {
				<-known
			}
			next.ServeHTTP(w, r)
		})
	})
	if v == nil {
		return
	}
	places := func() (all []string) {
		v.eval(`[...document.querySelectorAll("section, canvas, button, .answer, .curl, .rate, .state > *")].map((e) => {
			const r = e.getBoundingClientRect();
			return (e.closest("section").dataset.route + " " + e.localName + "." + e.className.split(" ")[0])
				+ " at " + (r.y + scrollY) + ", " + r.height + " high";
		})`, &all)
		return all
	}
	v.shows("hello", ".quota", "20")
	sizes := [][2]int{{1280, 800}, {1265, 800}, {1000, 900}, {681, 1000}, {680, 900}, {390, 844}, {320, 640}}
	var first [][]string
	for _, size := range sizes {
		v.resize(size[0], size[1], size[0] < 400)
		first = append(first, places())
	}
	close(known)
	v.shows("login", ".limit", "5/20s log")
	for stage, change := range []func(){
		func() {},
		func() {
			v.click("[name=key][value=''] + span")
			v.send("quote", 1)
			v.shows("quote", ".answer b", "400 Bad Request")
		},
		func() {
			v.click("[name=key][value=demo-alice] + span")
			v.send("quote", 20)
			v.shows("quote", "dd.denied", "8")
		},
		func() { v.send("export", 10); v.shows("export", "dd.denied", "7") },
		func() { v.click("[data-hang-up]"); v.shows("export", ".more", "2 held now") },
		func() { close(v.finish); v.shows("export", ".more", "0 held now") },
		func() { v.send("login", 10); v.shows("login", "dd.denied", "5") },
		func() {
			v.click("[name=password][value=sash] + span")
			v.send("login", 1)
			v.shows("login", "dd.denied", "6")
		},
		func() {
			v.send("hello", 30)
			v.shows("hello", "dd.denied", "10")
		},
	} {
		change()
		for i, size := range sizes {
			v.resize(size[0], size[1], size[0] < 400)
			require.Equal(t, first[i], places(), "stage %d, %d wide", stage, size[0])
			var cut bool
			v.eval(`[...document.querySelectorAll(".answer, .curl")].some((e) => e.scrollHeight > e.clientHeight)`, &cut)
			require.False(t, cut, "stage %d, %d wide: an answer has not enough room", stage, size[0])
		}
	}
}

// The page works by keyboard alone: tab to the slider, and raise it.
func TestPage_SendsAtARate(t *testing.T) {
	v := newVisit(t)
	if v == nil {
		return
	}
	v.eval("document.querySelector('[data-route=hello] [data-send=\"10\"]').focus()", nil)
	v.press("Tab", 9)
	v.await("document.activeElement.type === 'range'")
	for range 30 {
		v.press("ArrowRight", 39)
	}
	v.shows("hello", ".rate output", "30")
	v.shows("hello", "dd.admitted", "20")
	v.await("document.querySelector('[data-route=hello] dd.denied').textContent > 5")
	v.await("document.querySelector('[data-route=hello] .spoken').textContent.includes('of 20 left')")
	for range 30 {
		v.press("ArrowLeft", 37)
	}
	v.shows("hello", ".rate output", "0")
}

// The page loads nothing from other sites, has no errors, and fits the window.
func TestPage_IsSound(t *testing.T) {
	v := newVisit(t)
	if v == nil {
		return
	}
	v.shows("hello", ".quota", "20")
	for _, size := range []struct {
		width, height int
		phone         bool
	}{{1280, 800, false}, {800, 1000, false}, {390, 844, true}, {320, 640, true}} {
		v.resize(size.width, size.height, size.phone)
		var scrolls struct{ Width, Height int }
		v.eval("({width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight})", &scrolls)
		require.LessOrEqual(t, scrolls.Width, size.width)
		if size.width == 1280 {
			require.LessOrEqual(t, scrolls.Height, size.height, "all of it is in sight")
		}
		v.send("hello", 1)
	}
	v.shows("hello", "dd.admitted", "4")
	var light, dark string
	v.scheme("light")
	v.eval("getComputedStyle(document.body).backgroundColor", &light)
	v.scheme("dark")
	v.eval("getComputedStyle(document.body).backgroundColor", &dark)
	require.NotEqual(t, light, dark)
	require.NotZero(t, v.pixels("hello", "pane"), "the chart follows")
	v.checkEvents()
}

func (v *visit) checkEvents() {
	requests := 0
	for _, e := range v.events {
		require.NotEqual(v.t, "Runtime.exceptionThrown", e.Method, "%s", e.Params)
		var p struct {
			Request struct{ URL string }
			Entry   struct{ Source, Level, Text string }
		}
		require.NoError(v.t, json.Unmarshal(e.Params, &p))
		switch e.Method {
		case "Network.requestWillBeSent":
			requests++
			require.True(v.t, strings.HasPrefix(p.Request.URL, v.server.URL+"/"), p.Request.URL)
		case "Log.entryAdded":
			// The browser reports each 400, 401 and 429 as an error, but they are expected.
			require.True(v.t, p.Entry.Source == "network" || p.Entry.Level != "error", "%+v", p.Entry)
		}
	}
	require.NotZero(v.t, requests)
}

var picture = flag.String("picture", "", "write the pictures that TestPicture takes to this `directory`")

// TestPicture is no test: it makes page.png by
//
//	go test ./examples/server -run TestPicture -picture /tmp && cp /tmp/page.png examples/server
func TestPicture(t *testing.T) {
	if *picture == "" {
		t.Log("takes pictures with -picture, and tests nothing")
		return
	}
	b := startBrowser(t)
	if b == nil {
		return
	}
	server := httptest.NewServer(newTestServiceOf(t, config{limits: defaultLimits(), report: cleanPanes(t.Context())}))
	defer server.Close()
	b.resize(1280, 800, false)
	b.open(server.URL + "/")
	b.eval(`(async () => {
		const pause = (s) => new Promise((resolve) => setTimeout(resolve, 1000 * s));
		const row = (name) => document.querySelector("[data-route=" + name + "]");
		const send = (name, n) => row(name).querySelector("[data-send='" + n + "']").click();
		const rate = (name, n) => {
			const slider = row(name).querySelector("input[type=range]");
			slider.value = n;
			slider.dispatchEvent(new Event("input", {bubbles: true}));
		};
		rate("hello", 3); rate("quote", 2); send("login", 1);
		await pause(5);
		send("login", 1); send("login", 1); rate("hello", 0); send("hello", 10); send("export", 1);
		await pause(1.5);
		rate("quote", 3); document.querySelector("[value=sash]").click(); send("login", 1); send("export", 1);
		await pause(1.5);
		send("login", 1); document.querySelector("[name=password][value=wrong]").click(); send("export", 1);
		await pause(1);
		send("export", 1);
		await pause(1);
		send("export", 1); send("export", 1);
		await pause(1);
		send("login", 1); send("login", 1); rate("quote", 0); row("export").querySelector("[data-hang-up]").click();
		await pause(1);
		send("login", 1); send("login", 1); rate("hello", 1); send("export", 1);
		await pause(1.2);
		send("export", 1); send("export", 1);
		await pause(1);
	})()`, nil)
	for _, p := range []struct {
		name, scheme  string
		width, height int
	}{{"page.png", "light", 1280, 800}, {"page-dark.png", "dark", 1280, 800}, {"page-phone.png", "light", 390, 844}} {
		b.resize(p.width, p.height, p.width < 500)
		b.scheme(p.scheme)
		b.eval("new Promise((resolve) => setTimeout(resolve, 300))", nil)
		shot := b.screenshot(false)
		if p.width < 500 {
			b.resize(p.width, 1700, true)
			b.eval("new Promise((resolve) => setTimeout(resolve, 300))", nil)
			shot = b.screenshot(true)
		}
		require.NoError(t, os.WriteFile(filepath.Join(*picture, p.name), shot, 0o644))
	}
}
