package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/sashredis"
)

// startFleet starts two services on one embedded Redis, and returns their origins. Each of their
// exports ends with a receive from finish.
func startFleet(t *testing.T, l limits, finish <-chan struct{}) (origins []string) {
	store, err := openRedis(t.Context(), "embedded")
	require.NoError(t, err)
	t.Cleanup(func() { store.Close() })
	store.options = append(store.options, sashredis.WithTimeout(patience)) // so that no fallback decides
	var servers []*httptest.Server
	for range 2 {
		server := httptest.NewUnstartedServer(nil)
		origins, servers = append(origins, "http://"+server.Listener.Addr().String()), append(servers, server)
	}
	for _, server := range servers {
		service, err := newService(config{limits: l, report: until(finish), origins: origins}, httplimit.WithStore(store.open))
		require.NoError(t, err)
		server.Config.Handler = service
		server.Start()
		t.Cleanup(func() {
			server.CloseClientConnections() // the browser may still read exports
			server.Close()
			service.Close()
		})
	}
	return origins
}

// The page sends its requests to both instances in turn, and shows one count.
func TestPage_ShowsAFleet(t *testing.T) {
	b := startBrowser(t)
	if b == nil {
		return
	}
	limits := defaultLimits()
	limits.Hello, limits.Quote = sash.PerHour(15).Log(), sash.PerHour(5).Log()
	finish := make(chan struct{})
	origins := startFleet(t, limits, finish)
	b.resize(1280, 800, false)
	b.open(origins[0] + "/")
	b.await("document.querySelector('.instances').textContent.startsWith('Instances on ports ')")
	v := &visit{browser: b}
	v.send("hello", 20)
	v.shows("hello", "dd.admitted", "15")
	v.shows("hello", "dd.denied", "5")
	v.shows("hello", ".remaining b", "0")
	v.send("quote", 10) // with a header that needs a preflight
	v.shows("quote", "dd.admitted", "5")
	v.shows("quote", "dd.denied", "5")
	b.await("document.querySelector('.instances').textContent.endsWith('Answers: 15 and 15.')")

	v.send("export", 4) // two to each instance
	v.shows("export", "dd.admitted", "3")
	v.shows("export", "dd.denied", "1")
	v.shows("export", ".remaining b", "0")
	v.click("[data-hang-up]")
	v.shows("export", ".remaining b", "1")
	close(finish)
	v.shows("export", ".remaining b", "3")
}

// What the instances hold, they hold of one count. It is free for both of them once a response has
// ended, and once a client has hung up.
func TestFleet_HoldsFromOneCount(t *testing.T) {
	finish := make(chan struct{})
	origins := startFleet(t, defaultLimits(), finish)
	do := func(method, origin string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), method, origin+"/export", nil)
		require.NoError(t, err)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		t.Cleanup(func() { response.Body.Close() })
		return response
	}
	awaitLeft := func(want string) {
		for _, origin := range origins {
			for got, end := "", time.Now().Add(patience); got != want; got = leftOf(do("HEAD", origin)) {
				require.True(t, time.Now().Before(end), "%q, want %s", got, want)
			}
		}
	}
	awaitLeft("3")
	exports := []*http.Response{do("GET", origins[0]), do("GET", origins[1]), do("GET", origins[0])}
	for _, response := range exports {
		require.Equal(t, 200, response.StatusCode)
	}
	for _, origin := range origins {
		require.Equal(t, 429, do("GET", origin).StatusCode)
	}
	exports[0].Body.Close()
	awaitLeft("1")
	close(finish)
	awaitLeft("3")
}

// Only the pages of the instances may read answers from another origin.
func TestFleet_TellsOtherSitesNothing(t *testing.T) {
	origins := startFleet(t, defaultLimits(), nil)
	for origin, allowed := range map[string]string{origins[1]: origins[1], "http://attacker.example": "", "": ""} {
		r, err := http.NewRequest("GET", origins[0]+"/hello", nil)
		require.NoError(t, err)
		r.Header.Set("Origin", origin)
		response, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		response.Body.Close()
		require.Equal(t, 200, response.StatusCode)
		require.Equal(t, allowed, response.Header.Get("Access-Control-Allow-Origin"))
	}
}

// With -redis, the server runs two instances on two ports, which share their counts.
func TestRun_AFleet(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	printed, stdout := io.Pipe()
	done := make(chan error)
	go func() {
		done <- run(ctx, []string{"-addr", "127.0.0.1:0", "-hello", "5/h log", "-redis", "embedded"}, stdout, io.Discard)
		stdout.Close()
	}()
	welcome := make([]byte, 0, 4096)
	url := regexp.MustCompile(`(?m)^  (http://\S+)/$`)
	for len(url.FindAllSubmatch(welcome, -1)) < 2 {
		some := make([]byte, 1024)
		n, err := printed.Read(some)
		require.NoError(t, err)
		welcome = append(welcome, some[:n]...)
	}
	go io.Copy(io.Discard, printed)
	urls := url.FindAllSubmatch(welcome, -1)
	require.NotEqual(t, urls[0][1], urls[1][1])
	codes := map[int]int{}
	for i := range 10 {
		response, err := http.Get(string(urls[i%2][1]) + "/hello")
		require.NoError(t, err)
		response.Body.Close()
		codes[response.StatusCode]++
	}
	require.Equal(t, map[int]int{200: 5, 429: 5}, codes)
	interrupt()
	require.NoError(t, <-done)
}

func TestRun_NamesARedisThatIsNotThere(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	err := run(ctx, []string{"-redis", "unix:" + t.TempDir() + "/none"}, io.Discard, io.Discard)
	require.ErrorContains(t, err, "no Redis at")
}

// Each further instance listens on the next port.
func TestListen_TakesTheNextPort(t *testing.T) {
	_, err := listen("127.0.0.1:65535", 2)
	require.ErrorContains(t, err, "65536")
}
