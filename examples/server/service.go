package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/seed-30da4c49/sash"
	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/offenders"
)

// A service is the handler of this server: its routes behind their limits.
type service struct {
	http.Handler
	limiter *httplimit.Limiter
}

func (s *service) Close() error { return s.limiter.Close() }

// limits are the limits of the routes. The page shows them.
type limits struct {
	Hello        sash.Limit `json:"hello"`
	Quote        sash.Limit `json:"quote"`
	Login        sash.Limit `json:"login"`        // of failures for one account from one address
	LoginAddress sash.Limit `json:"loginAddress"` // of failures from one address for all accounts

	Export sash.Limit `json:"export"`
}

// defaultLimits returns limits with short windows, so that their effect is visible, one or
// more of each algorithm. The lease of exports is longer than the server's WriteTimeout, after
// which each of them has ended.
func defaultLimits() limits {
	return limits{
		Hello: sash.Per(20, 10*time.Second),
		Quote: sash.Per(12, 12*time.Second).Buckets(3 * time.Second),
		Login: sash.Per(5, 20*time.Second).Log(),

		LoginAddress: sash.PerSecond(1).TokenBucket(20),

		Export: sash.AtOnce(3, 30*time.Second),
	}
}

// A config is what an instance of the service needs.
type config struct {
	limits  limits
	report  report   // what it exports
	origins []string // the URLs of all instances, which are told to the page, if there are several
}

// newService puts one limiter around a whole mux. The patterns of its policies have the
// same syntax as the patterns of the mux. The page has no policy.
func newService(c config, options ...httplimit.Option) (*service, error) {
	l, denied := c.limits, new(offenders.Page)
	options = append(options,
		httplimit.WithObserver(denied.Observe),
		httplimit.WithEventFingerprints(httplimit.Denied),
		httplimit.Policy{
			Name: "hello", Pattern: "GET /hello", Limits: []sash.Limit{l.Hello},
			// Behind a proxy, all clients would have the proxy's address. Then add
			// httplimit.TrustProxies with the networks of the proxy, and no others.
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
		// (Guesses from very many addresses need another defence, such as a second factor.)
		httplimit.Policy{
			Name: "login", Pattern: "POST /login", Limits: []sash.Limit{l.Login},
			Key: httplimit.Join(httplimit.ByAddress(), httplimit.By(account)),
			// Each attempt is charged when it arrives, and given back unless it failed. So
			// a thousand attempts at once are as limited as a thousand in turn. There is no
			// Cost and no other method: the headers report the rest of these quotas only
			// with an attempt. So no client learns for free how often others failed.
			Charge: failedLogin,
		},
		// This policy bounds how many accounts an address can try, and how many keys it can
		// make.
		httplimit.Policy{
			Name: "login-address", Pattern: "POST /login", Limits: []sash.Limit{l.LoginAddress},
			Key:    httplimit.ByAddress(),
			Charge: failedLogin,
		},
		// What is slow is limited by how much of it is under way. An export holds a unit from its
		// admission until its response has ended, also if its client hangs up. A rate may stand
		// next to the limit: then an export needs both, or is charged neither.
		httplimit.Policy{
			Name: "export", Pattern: "GET /export", Limits: []sash.Limit{l.Export},
			Key:  httplimit.ByAddress(),
			Cost: oneUnlessAsked,
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
	mux.HandleFunc("GET /export", export(c.report))
	mux.HandleFunc("GET /limits", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, l) })
	mux.HandleFunc("GET /instances", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, c.origins) })
	// Here anyone may see it, by fingerprints. A real service keeps it to its operators, for
	// instance on a port of its own.
	mux.Handle("GET /debug/offenders", denied)
	mux.Handle("GET /", page(c.origins))
	const largestForm = 4 << 10 // bytes
	limited := http.MaxBytesHandler(limiter.Middleware(mux), largestForm)
	return &service{fromPagesOf(c.origins, limited), limiter}, nil
}

// oneUnlessAsked returns the cost of a request: 0 for HEAD, else 1. By HEAD, the page reads
// how much is left without being charged. Since HEAD is free, its handler must do no work.
func oneUnlessAsked(r *http.Request) int64 {
	if r.Method == http.MethodHead {
		return 0
	}
	return 1
}

var apiKeys = map[string]string{"demo-alice": "alice", "demo-bob": "bob"}

// apiKey returns the owner of the API key of a request. An unknown key has no owner.
// Otherwise a client that invents keys would have a quota for each.
func apiKey(r *http.Request) (owner string, ok bool) {
	owner, ok = apiKeys[r.Header.Get("X-API-Key")]
	return owner, ok
}

const theAccount, thePassword = "alice", "sash"

// account returns the account of a login, as login looks it up. It does not check whether
// the account exists: if unknown names were limited in another way, the answers would tell
// which accounts exist.
func account(r *http.Request) (name string, ok bool) { return r.PostFormValue("account"), true }

func failedLogin(status int) bool { return status == http.StatusUnauthorized }

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }

func quote(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintln(w, "A window is a place to look out of, for a while.")
}

// login does the same work for every account, so that its time does not reveal which
// accounts exist. If passwords are kept as slow hashes, compute one for unknown accounts,
// too.
func login(w http.ResponseWriter, r *http.Request) {
	name, _ := account(r)
	if same(name, theAccount)&same(r.PostFormValue("password"), thePassword) == 0 {
		http.Error(w, "no such account and password", http.StatusUnauthorized)
		return
	}
	fmt.Fprintln(w, "welcome,", theAccount)
}

// same returns 1 if a and b are equal, else 0. Its time does not depend on which bytes
// differ, or on whether the lengths differ.
func same(a, b string) int {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:])
}

// A report is slow work: it writes lines to w until it has ended, or ctx is done.
type report func(ctx context.Context, w io.Writer) error

// cleanPanes returns a report that takes three seconds. It also ends once stopped is done.
func cleanPanes(stopped context.Context) report {
	const panes, each = 6, 500 * time.Millisecond
	return func(ctx context.Context, w io.Writer) error {
		for i := range panes {
			if _, err := fmt.Fprintf(w, "pane %d of %d is clean\n", i+1, panes); err != nil {
				return err
			}
			select {
			case <-time.After(each):
			case <-ctx.Done():
				return ctx.Err()
			case <-stopped.Done():
				return stopped.Err()
			}
		}
		return nil
	}
}

// export returns a handler that sends each line of a report when it is written. It breaks off the
// response of a report that fails, so that no client takes a part for the whole.
func export(report report) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if r.Method == http.MethodHead {
			return
		}
		if err := report(r.Context(), flushed{w, http.NewResponseController(w)}); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
}

// A flushed writer sends at once what is written.
type flushed struct {
	io.Writer
	*http.ResponseController
}

func (f flushed) Write(p []byte) (n int, err error) {
	if n, err = f.Writer.Write(p); err != nil {
		return n, err
	}
	return n, f.Flush()
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may have hung up
}

//go:embed page
var pageFiles embed.FS

// page returns a handler of the files of the page, which may load nothing from other sites. It
// may send requests to those origins.
func page(origins []string) http.Handler {
	files, err := fs.Sub(pageFiles, "page")
	if err != nil {
		panic(err) // it is embedded
	}
	serve := http.FileServerFS(files)
	policy := strings.Join(append([]string{"default-src 'self'; frame-ancestors 'none'; connect-src 'self'"}, origins...), " ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("Cache-Control", "no-cache") // the files have no date
		serve.ServeHTTP(w, r)
	})
}

// maxLogged is the number of clients that the log names in a window.
const maxLogged = 100

// withLog logs denials to w: one record for each client, policy and window, and of at most
// maxLogged clients at a time. So a flood of requests does not cause a flood of records, which
// would cost more than the requests do. A client is named by a fingerprint, which differs in every
// run and does not reveal the identity. The clock is the limiter's; nil is the default.
func withLog(w io.Writer, clock sash.Clock) []httplimit.Option {
	log := &offenders.Log{Logger: slog.New(slog.NewTextHandler(w, nil)), Size: maxLogged, Clock: clock}
	return []httplimit.Option{
		httplimit.WithObserver(log.Observe),
		httplimit.WithEventFingerprints(httplimit.Denied),
	}
}
