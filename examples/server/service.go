package main

import (
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http"
	"sync/atomic"
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
	Hello        sash.Limit `json:"hello"`
	Quote        sash.Limit `json:"quote"`
	Login        sash.Limit `json:"login"`        // of failures on one account from one address
	LoginAddress sash.Limit `json:"loginAddress"` // of failures from one address on all accounts
}

// defaultLimits are short, so that one can watch them, and of each algorithm.
func defaultLimits() limits {
	return limits{
		Hello: sash.Per(20, 10*time.Second),
		Quote: sash.Per(12, 12*time.Second).Buckets(3 * time.Second),
		Login: sash.Per(5, 20*time.Second).Log(),

		LoginAddress: sash.Per(20, 20*time.Second).Log(),
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
		// A limit on the account alone would let anyone lock it. So failures are counted
		// for the account and the address together: strangers use up their own attempts.
		// (Who guesses from very many addresses has to be met by other means, such as a
		// second factor.)
		httplimit.Policy{
			Name: "login", Pattern: "POST /login", Limits: []sash.Limit{l.Login},
			Key: httplimit.Join(httplimit.ByAddress(), httplimit.By(account)),
			// Each attempt is charged when it arrives, so that a thousand at once are
			// as limited as a thousand in turn, and given back unless it failed. There
			// is no Cost, and no other method: what is left of these limits is told
			// with an attempt only. So no client learns for free how often others failed.
			Charge: failedLogin,
		},
		// This one bounds how many accounts an address can try, and how many names it
		// can have the limiter remember.
		httplimit.Policy{
			Name: "login-address", Pattern: "POST /login", Limits: []sash.Limit{l.LoginAddress},
			Key:    httplimit.ByAddress(),
			Charge: failedLogin,
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

// account returns the name of the account that a login is for, as login looks it up. It
// does not ask whether there is such an account: if unknown names were limited in
// another way, the answers would tell which accounts exist.
func account(r *http.Request) (name string, ok bool) { return r.PostFormValue("account"), true }

func failedLogin(status int) bool { return status == http.StatusUnauthorized }

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }

func quote(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "A window is a place to look out of, for a while.")
}

// login does the same work for every account, so that its time does not tell which
// exist either. Where passwords are kept as slow hashes, compute one for unknown
// accounts, too.
func login(w http.ResponseWriter, r *http.Request) {
	name, _ := account(r)
	if same(name, theAccount)&same(r.PostFormValue("password"), thePassword) == 0 {
		http.Error(w, "no such account and password", http.StatusUnauthorized)
		return
	}
	fmt.Fprintln(w, "welcome,", theAccount)
}

// same returns 1 if a and b are equal, else 0, in a time that does not depend on which
// bytes differ, nor on whether the lengths do.
func same(a, b string) int {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:])
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

// maxLogged is how many clients the log names in a minute.
const maxLogged = 100

// withLog logs denials to w: at most one a minute for each client and policy, and at
// most maxLogged a minute of all. The next line tells how many had none. So a flood of
// requests is no flood of lines, which would cost more than the requests do. A client
// is named by a fingerprint, which differs in every run and does not give it away.
// The limits of the log are kept by sash, too, with options such as sash.WithClock.
func withLog(w io.Writer, options ...sash.Option) []httplimit.Option {
	lines := sash.Must(sash.New(append(options,
		sash.PerMinute(1).Log(),
		sash.WithMaxKeys(maxLogged, sash.DenyNew),
		sash.WithSweepInterval(-1), // a full table makes room by itself
	)...))
	logger := log.New(w, "", 0)
	var unlogged atomic.Int64
	return []httplimit.Option{
		httplimit.WithEventFingerprints(),
		httplimit.WithObserver(func(e httplimit.Event) {
			if e.Outcome != httplimit.Denied {
				return
			}
			client := fmt.Sprintf("%s: denied client %016x", e.Policy, e.Fingerprint)
			if !lines.Allow(client) {
				unlogged.Add(1)
				return
			}
			logger.Printf("%s for %v; %d more denials since the last line", client, e.Decision.RetryAfter, unlogged.Swap(0))
		}),
	}
}
