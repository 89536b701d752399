// Command server is a net/http server that limits each client, by address, and
// answers 429 with Retry-After to those who ask too often. Run it, and the line
// it prints:
//
//	go run ./examples/server
//	go run ./examples/server -limit "3/s log" -listen 127.0.0.1:9090
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/seed-30da4c49/sash"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage): // package flag has said it
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage")

// run serves until ctx is done, and ends the requests under way.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	limit := sash.Per(5, 10*time.Second)
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.TextVar(&limit, "limit", limit, "requests per `COUNT/WINDOW` of each client, such as 5/10s or \"3/s log\"")
	listen := flags.String("listen", "127.0.0.1:8080", "`address` to listen on")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	limiter, err := sash.New(limit)
	if err != nil {
		return err
	}
	defer limiter.Close()
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		return err
	}

	server := &http.Server{
		Handler:           limitClients(limiter, stderr, http.HandlerFunc(hello)),
		ReadHeaderTimeout: 5 * time.Second,
	}
	fmt.Fprintf(stdout, "Each client may make %d requests in %v. Try more:\n\n", limit.Count, limit.Window)
	fmt.Fprintf(stdout, "  for i in $(seq %d); do curl -i http://%s/; done\n\n", limit.Count+2, listener.Addr())
	ended := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		ended <- server.Shutdown(patience)
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-ended
}

func hello(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") }
