package main

import (
	"crypto/subtle"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
)

// A service is the routes of this server, behind their limits.
type service struct {
	http.Handler
	limiter *httplimit.Limiter
}

func (s *service) Close() error { return s.limiter.Close() }

// limits are those of each route. The page shows them.
type limits struct {
	Hello sash.Limit `json:"hello"`
	Quote sash.Limit `json:"quote"`
	Login sash.Limit `json:"login"`
}

// defaultLimits are short, so that one can watch them, and of each algorithm.
func defaultLimits() limits {
	return limits{
		Hello: sash.Per(20, 10*time.Second),
		Quote: sash.Per(12, 12*time.Second).Buckets(3 * time.Second),
		Login: sash.Per(5, 20*time.Second).Log(),
	}
}

// newService puts one limiter before a whole mux: its policies say by their patterns
// what they are for, in the mux's own words. The page has none.
func newService(l limits, options ...httplimit.Option) (*service, error) {
	options = append(options,
		httplimit.Policy{
			Name: "hello", Pattern: "GET /hello", Limits: []sash.Limit{l.Hello},
			// Behind a proxy this is the proxy's address, for all: then add
			// httplimit.TrustProxies, with its networks and no others.
			Key:  httplimit.ByAddress(),
			Cost: oneUnlessAsked,
		},
		httplimit.Policy{
			Name: "quote", Pattern: "GET /quote", Limits: []sash.Limit{l.Quote},
			Key:  httplimit.By(apiKey),
			Cost: oneUnlessAsked,
		},
		httplimit.Policy{
			Name: "login", Pattern: "/login", Limits: []sash.Limit{l.Login},
			Key:  httplimit.By(account),
			Cost: oneUnlessAsked,
			// Each attempt is charged when it arrives, so that a thousand at once are
			// as limited as a thousand in turn, and given back unless it failed.
			Charge: func(status int) bool { return status == http.StatusUnauthorized },
		},
	)
	limiter, err := httplimit.New(options...)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", hello)
	mux.HandleFunc("GET /quote", quote)
	mux.HandleFunc("POST /login", login)
	mux.HandleFunc("HEAD /login", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET /limits", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, l) })
	mux.Handle("GET /", page())
	const largestForm = 4 << 10 // bytes
	return &service{http.MaxBytesHandler(limiter.Middleware(mux), largestForm), limiter}, nil
}

// oneUnlessAsked lets HEAD ask what is left without being charged. The page does,
// to show it live. It makes HEAD free, so it is not for handlers that are dear.
func oneUnlessAsked(r *http.Request) int64 {
	if r.Method == http.MethodHead {
		return 0
	}
	return 1
}

var apiKeys = map[string]string{"demo-alice": "alice", "demo-bob": "bob"}

// apiKey tells whose API key a request bears. One that nobody has is none: else
// whoever makes one up would have a quota for each.
func apiKey(r *http.Request) (owner string, ok bool) {
	owner, ok = apiKeys[r.Header.Get("X-API-Key")]
	return owner, ok
}

const theAccount, thePassword = "alice", "sash"

// account tells which account a login is for. All that do not exist are one, so
// that nobody gets a quota, or fills the memory, with names that he makes up.
func account(r *http.Request) (string, bool) {
	if name := r.FormValue("account"); name == theAccount {
		return name, true
	}
	return "", true
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }

func quote(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "A window is a place to look out of, for a while.")
}

func login(w http.ResponseWriter, r *http.Request) {
	right := subtle.ConstantTimeCompare([]byte(r.FormValue("password")), []byte(thePassword)) == 1
	if known, _ := account(r); known == "" || !right {
		http.Error(w, "no such account and password", http.StatusUnauthorized)
		return
	}
	fmt.Fprintln(w, "welcome,", theAccount)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have gone
}

//go:embed page
var pageFiles embed.FS

// page serves the files of the page, which may load nothing from elsewhere.
func page() http.Handler {
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic(err) // it is embedded
	}
	serve := http.FileServerFS(files)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; frame-ancestors 'none'")
		w.Header().Set("Cache-Control", "no-cache") // of a file without a date
		serve.ServeHTTP(w, r)
	})
}

// withLog logs who was denied, by a short name that differs in every run and does
// not give the client away.
func withLog(w io.Writer) []httplimit.Option {
	return []httplimit.Option{
		httplimit.WithEventFingerprints(),
		httplimit.WithObserver(func(e httplimit.Event) {
			if e.Outcome == httplimit.Denied {
				fmt.Fprintf(w, "%s: denied client %016x for %v\n", e.Policy, e.Fingerprint, e.Decision.RetryAfter)
			}
		}),
	}
}
