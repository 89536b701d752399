// Command shop is a small service that enforces the limits of a file, follows the file when it changes, and has
// metrics for Prometheus. Without a file it has no limits.
//
//	go run ./examples/shop -policies limits.yaml
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-30da4c49/sash/httplimit"
	"github.com/seed-30da4c49/sash/httplimit/policyfile"
	"github.com/seed-30da4c49/sash/sashprometheus"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8081", "`address` of the shop")
	metricsAddr := flag.String("metrics", "127.0.0.1:8082", "`address` of the metrics, which clients must not reach")
	policies := flag.String("policies", "", "`file` of policies; without it there are no limits")
	flag.Parse()
	if flag.NArg() > 0 { // such as a file of policies without -policies, which would not be enforced
		log.Fatalf("shop: %q is no flag", flag.Arg(0))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *addr, *metricsAddr, *policies); err != nil {
		log.Fatal("shop: ", err)
	}
}

// run serves until ctx is done, and then ends the requests that are under way.
func run(ctx context.Context, addr, metricsAddr, policies string) error {
	handler := shop()
	if policies != "" {
		limiter, err := newLimiter(ctx, policies, prometheus.DefaultRegisterer)
		if err != nil {
			return err
		}
		defer limiter.Close()
		handler = limiter.Middleware(handler)
	}
	public := &http.Server{Addr: addr, Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	metrics := &http.Server{Addr: metricsAddr, Handler: promhttp.Handler(), ReadHeaderTimeout: 10 * time.Second}
	defer metrics.Close()
	ended := make(chan error, 2)
	for _, s := range []*http.Server{public, metrics} {
		go func() { ended <- s.ListenAndServe() }()
	}
	select {
	case err := <-ended: // such as an address that is in use
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return public.Shutdown(patience)
}

// newLimiter returns a limiter with the policies of a file, and registers its metrics. Until ctx is done, it has
// the policies that the file has.
func newLimiter(ctx context.Context, file string, registerer prometheus.Registerer) (*httplimit.Limiter, error) {
	policies, err := policyfile.Load(file)
	if err != nil {
		return nil, err
	}
	metrics := sashprometheus.New("shop")
	options := []httplimit.Option{
		httplimit.WithObserver(metrics.Observe),
		httplimit.WithEventFingerprints(httplimit.Denied), // to count the clients that are denied
	}
	for _, p := range policies {
		options = append(options, p)
	}
	limiter, err := httplimit.New(options...)
	if err != nil {
		return nil, err
	}
	if err := metrics.Register(registerer, limiter); err != nil {
		limiter.Close()
		return nil, err
	}
	watcher := &policyfile.Watcher{Observe: metrics.ObserveReload}
	go watcher.Watch(ctx, file, limiter)
	return limiter, nil
}

// shop returns the handler of the service: pages, and a login.
func shop() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /login", func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("password") != "sesame" {
			http.Error(w, "the password is wrong", http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, "/", http.StatusSeeOther)
	})
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "This is", r.URL.Path)
	})
	return mux
}
